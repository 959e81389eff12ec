"""The cost of comparing the checksum of every memory version that is read, as a share of whole explanations.

Measured in the numpy form of the engine; the compiled form does the same in a loop that cannot be watched from outside.
"""

from __future__ import annotations

import os
import time
from typing import Any

import torch

import cody
from cody.engine import FastTGN
from cody.engine.versions import VersionTable
from cody.graph.neighbourhood import events_on_paths
from cody.models.sizes import Sizes
from cody.train.architectures import TGN

OPTIONS: dict[str, Any] = {"size": 64, "near": events_on_paths, "evaluations": 300}  # so that figures stay comparable


def main() -> None:
    torch.set_num_threads(1)
    os.environ["CODY_PURE"] = "1"
    torch.manual_seed(0)
    graph = cody.load("collegemsg")
    paper = TGN(Sizes(dimension=172, layers=2, heads=2, neighbours=20, batch=200))
    models = {"compact": cody.load_model("tgn-collegemsg", graph), "paper": FastTGN(paper, graph)}
    compare, spent = VersionTable._is_right, [0.0, 0]

    def timed(*arguments):
        begun = time.perf_counter()
        right = compare(*arguments)
        spent[0] += time.perf_counter() - begun
        spent[1] += len(right)
        return right

    VersionTable._is_right = timed
    for name, model in models.items():
        spent[:] = [0.0, 0]
        begun = time.perf_counter()
        for row in range(54_000, 54_040):
            cody.explain(model, graph, graph.query(row), **OPTIONS)
        total = time.perf_counter() - begun
        print(f"TGN, {name} sizes: {100 * spent[0] / total:.1f} % of an explanation, {spent[1] / 40:.0f} versions read")


if __name__ == "__main__":
    main()
