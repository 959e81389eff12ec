"""The other side of `cody.baselines.clones`: runs the code of a clone, in a process of its own.

This file is run, never imported: it must not import anything of our package, since that of CoDy's authors is called
`cody` as well. The model is whoever reads what is written here.
"""

from __future__ import annotations

import importlib
import io
import json
import os
import random
import sys
import types
from collections.abc import Callable, Iterable
from contextlib import redirect_stdout
from pathlib import Path
from typing import Any

Ask = Callable[[Iterable[int]], float]  # the logit without some events
Explain = Callable[[dict[str, Any]], Iterable[int]]  # the events that a search names, given a question


def main(clone: str, search: str) -> None:
    """Answer questions until there are no more.

    Args:
        clone: The folder of the clone.
        search: Which code it is, one of `SEARCHES`.
    """
    answers, sys.stdout = sys.stdout, sys.stderr  # what the published code prints is no answer

    def say(document: dict[str, Any]) -> None:
        answers.write(json.dumps(document) + "\n")
        answers.flush()

    def ask(without: Iterable[int]) -> float:
        say({"without": sorted(without)})
        return float(json.loads(sys.stdin.readline())["logit"])

    explain = SEARCHES[search](clone, ask)
    for line in sys.stdin:
        say({"rows": [int(row) for row in explain(json.loads(line))]})


def their_cody(clone: str, ask: Ask) -> Explain:
    """CoDy and GreeDy as their authors published them."""
    sys.path.insert(0, clone)
    sys.modules.setdefault("IPython", types.ModuleType("IPython"))  # for progress bars, which are not shown
    import pandas

    tree = importlib.import_module("cody.explainer.cody").CoDy
    greedy = importlib.import_module("cody.explainer.greedy").GreedyCFExplainer

    def explain(asked: dict[str, Any]) -> Iterable[int]:
        candidates = pandas.DataFrame(
            {"idx": asked["candidates"], "timestamp": asked["time"], "hop_distance": asked["distance"]}
        )
        wrapper = AnsweredElsewhere(set(asked["candidates"]), candidates, ask)
        options = {"candidates_size": len(candidates), "approximate_predictions": False}
        if asked["kind"] == "stepwise":
            explainer = greedy(wrapper, asked["policy"], **options)
        else:
            explainer = tree(wrapper, selection_policy=asked["policy"], max_steps=asked["iterations"], **options)
        explainer.subgraph_generator = wrapper
        return explainer.explain(asked["event"]).event_ids

    return explain


class Logit(float):
    """A number with the methods of a tensor that holds one."""

    def detach(self) -> Logit:
        return self

    cpu = detach

    def item(self) -> float:
        return float(self)


class AnsweredElsewhere:
    """What the published CoDy takes for its wrapper of a model, and for its choice of candidates."""

    num_hops = 1

    def __init__(self, known: set[int], candidates: Any, ask: Ask) -> None:
        self.known, self.candidates, self.ask = known, candidates, ask
        self.dataset = types.SimpleNamespace(directed=False, events=candidates)

    def get_fixed_size_k_hop_temporal_subgraph(self, **_: Any) -> Any:
        return self.candidates.copy()

    def predict(self, event_id: int, **_: Any) -> tuple[Any, Any]:
        return Logit(self.ask([])), None

    def compute_edge_probabilities_for_subgraph(self, event_id: int, dropped: Any, **_: Any) -> tuple[Any, Any]:
        return Logit(
            self.ask({int(row) for row in dropped} & self.known)
        ), None  # GreeDy names the explained event, too

    def initialize(self, *_: Any, **__: Any) -> None:
        """Nothing is remembered here."""

    set_evaluation_mode = reset_model = remove_memory_backup = initialize


def their_tgnnexplainer(clone: str, ask: Ask) -> Explain:
    """The search of T-GNNExplainer as its authors published it."""
    os.environ["TQDM_DISABLE"] = "1"
    package = Path(clone).resolve() / "TGNNEXPLAINER-PUBLIC"
    os.chdir(package / "tgnnexplainer" / "xgraph" / "method")  # it looks for parents of the working folder
    sys.path.insert(0, str(package))
    import numpy
    import pandas

    search = importlib.import_module("tgnnexplainer.xgraph.method.subgraphx_tg")
    reward = importlib.import_module("tgnnexplainer.xgraph.evaluation.metrics_tg_utils").fidelity_inv_tg

    def explain(asked: dict[str, Any]) -> Iterable[int]:
        random.seed(asked["seed"])
        numpy.random.seed(asked["seed"])  # noqa: NPY002  which is what it draws from
        rewards = Rewards(asked["candidates"], ask, reward)
        events = pandas.DataFrame(
            {
                **{"u": asked["src"], "i": asked["dst"], "ts": asked["time"]},
                "e_idx": [row + 1 for row in asked["candidates"]],  # it counts from 1
            },
            index=asked["candidates"],
        )
        tree = search.MCTS(
            events=events,
            candidate_events=events.e_idx.tolist(),
            base_events=[],
            candidate_initial_weights={row + 1: -rewards([row], without=True) for row in asked["candidates"]},
            event_idx=asked["event"] + 1,
            n_rollout=asked["rollouts"],
            min_atoms=asked["most"],
            c_puct=asked["exploration"],
            score_func=rewards.of_kept,
        )
        with redirect_stdout(io.StringIO()):
            tree_nodes = tree.mcts(verbose=True)  # it fails without its messages
        return [event - 1 for event in search.find_best_node_result(tree_nodes, asked["most"]).coalition]

    return explain


class Rewards:
    """The reward of a set of events, as the published code computes it from logits that are answered elsewhere."""

    def __init__(self, candidates: list[int], ask: Ask, reward: Any) -> None:
        self.candidates, self.ask, self.reward = candidates, ask, reward
        self.known: dict[frozenset[int], float] = {}
        self.original = self._logit(frozenset())

    def of_kept(self, events: list[int], _: int) -> float:
        """Where only some of the candidates happened, which it counts from 1."""
        return self([event - 1 for event in events])

    def __call__(self, rows: list[int], *, without: bool = False) -> float:
        removed = frozenset(rows) if without else frozenset(self.candidates) - frozenset(rows)
        return float(self.reward(self.original, self._logit(removed)))

    def _logit(self, removed: frozenset[int]) -> float:
        if removed not in self.known:
            self.known[removed] = self.ask(removed)
        return self.known[removed]


SEARCHES = {"cody": their_cody, "tgnnexplainer": their_tgnnexplainer}

if __name__ == "__main__":
    main(*sys.argv[1:])
