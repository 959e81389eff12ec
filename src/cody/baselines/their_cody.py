"""The other side of `cody.baselines.clones`: runs the code of a clone, whose package is called `cody` as well.

This file is run, never imported: it must not import anything of our package. Its model is whoever reads what it writes.
"""

from __future__ import annotations

import importlib
import json
import sys
import types
from typing import Any


def main(clone: str) -> None:
    """Answer questions until there are no more.

    Args:
        clone: The folder of the clone.
    """
    answers, sys.stdout = sys.stdout, sys.stderr  # what the published code prints is no answer
    sys.path.insert(0, clone)
    sys.modules.setdefault("IPython", types.ModuleType("IPython"))  # for progress bars, which are not shown
    import pandas

    tree = importlib.import_module("cody.explainer.cody").CoDy
    greedy = importlib.import_module("cody.explainer.greedy").GreedyCFExplainer

    def say(document: dict[str, Any]) -> None:
        answers.write(json.dumps(document) + "\n")
        answers.flush()

    for line in sys.stdin:
        asked = json.loads(line)
        candidates = pandas.DataFrame(
            {"idx": asked["candidates"], "timestamp": asked["time"], "hop_distance": asked["distance"]}
        )
        wrapper = AnsweredElsewhere(set(asked["candidates"]), candidates, say)
        if asked["kind"] == "stepwise":
            explainer = greedy(wrapper, asked["policy"], candidates_size=len(candidates), approximate_predictions=False)
        else:
            explainer = tree(
                wrapper,
                candidates_size=len(candidates),
                selection_policy=asked["policy"],
                max_steps=asked["iterations"],
                approximate_predictions=False,
            )
        explainer.subgraph_generator = wrapper
        say({"rows": [int(row) for row in explainer.explain(asked["event"]).event_ids]})


class Logit(float):
    """A number with the methods of a tensor that holds one."""

    def detach(self) -> Logit:
        return self

    cpu = detach

    def item(self) -> float:
        return float(self)


class AnsweredElsewhere:
    """What the published code takes for its wrapper of a model, and for its choice of candidates."""

    num_hops = 1

    def __init__(self, known: set[int], candidates: Any, say: Any) -> None:
        self.known, self.candidates, self.say = known, candidates, say
        self.dataset = types.SimpleNamespace(directed=False, events=candidates)

    def get_fixed_size_k_hop_temporal_subgraph(self, **_: Any) -> Any:
        return self.candidates.copy()

    def predict(self, event_id: int, **_: Any) -> tuple[Any, Any]:
        return self._logit([]), None

    def compute_edge_probabilities_for_subgraph(self, event_id: int, dropped: Any, **_: Any) -> tuple[Any, Any]:
        return self._logit(dropped), None

    def _logit(self, dropped: Any) -> Any:
        without = sorted({int(row) for row in dropped} & self.known)  # GreeDy names the explained event, too
        self.say({"without": without})
        return Logit(json.loads(sys.stdin.readline())["logit"])

    def initialize(self, *_: Any, **__: Any) -> None:
        """Nothing is remembered here."""

    set_evaluation_mode = reset_model = remove_memory_backup = initialize


if __name__ == "__main__":
    main(sys.argv[1])
