"""The other side of `cody.baselines.clones` for T-GNNExplainer: runs its published search from a clone.

This file is run, never imported: it must not import anything of our package. Its model is whoever reads what it writes.
"""

from __future__ import annotations

import importlib
import io
import json
import os
import random
import sys
from contextlib import redirect_stdout
from pathlib import Path
from typing import Any


def main(clone: str) -> None:
    """Answer questions until there are no more.

    Args:
        clone: The folder of the clone.
    """
    answers, sys.stdout = sys.stdout, sys.stderr  # what the published code prints is no answer
    os.environ["TQDM_DISABLE"] = "1"
    package = Path(clone).resolve() / "TGNNEXPLAINER-PUBLIC"
    os.chdir(package / "tgnnexplainer" / "xgraph" / "method")  # it looks for parents of the working folder
    sys.path.insert(0, str(package))
    import numpy
    import pandas

    search = importlib.import_module("tgnnexplainer.xgraph.method.subgraphx_tg")
    reward = importlib.import_module("tgnnexplainer.xgraph.evaluation.metrics_tg_utils").fidelity_inv_tg

    def say(document: dict[str, Any]) -> None:
        answers.write(json.dumps(document) + "\n")
        answers.flush()

    for line in sys.stdin:
        asked = json.loads(line)
        random.seed(asked["seed"])
        numpy.random.seed(asked["seed"])  # noqa: NPY002  which is what it draws from
        rewards = Rewards(asked["candidates"], say, reward)
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
        best = search.find_best_node_result(tree_nodes, asked["most"])
        say({"rows": [event - 1 for event in best.coalition]})


class Rewards:
    """The reward of a set of events, as the published code computes it from logits that are answered elsewhere."""

    def __init__(self, candidates: list[int], say: Any, reward: Any) -> None:
        self.candidates, self.say, self.reward = candidates, say, reward
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
            self.say({"without": sorted(removed)})
            self.known[removed] = json.loads(sys.stdin.readline())["logit"]
        return self.known[removed]


if __name__ == "__main__":
    main(sys.argv[1])
