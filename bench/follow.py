"""What the compiled form of the engine saves: default explanations in both forms, side by side in one run.

    python bench/follow.py --links 40
    python bench/follow.py --data wikipedia --model runs/tgn-wikipedia --events 146332,155317

Links of the test period are explained with the numpy form and with the compiled one, in turn, and with the candidates
of the paper for comparison. Printed are processor times, their ratios, and whether both forms found the same.
"""

from __future__ import annotations

import argparse
import os
import statistics
import sys
import time

import numpy as np

from cody import load, load_model
from cody.engine.library import form
from cody.explaining.pipeline import explain
from cody.explaining.what_if import parse_rows
from cody.graph.neighbourhood import candidates, events_on_paths


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", default="collegemsg")
    parser.add_argument("--model", default="tgn-collegemsg")
    parser.add_argument("--links", type=int, default=40)
    parser.add_argument("--events", default="", help="these links instead of random ones")
    parser.add_argument("--evaluations", type=int, default=300)
    options = parser.parse_args()
    if form() != "compiled":
        sys.exit("the compiled library is not built here: pip install --editable . builds it where there is a compiler")
    graph = load(options.data)
    model = load_model(options.model, graph)
    late = np.random.default_rng(0).permutation(np.arange(int(0.7 * graph.num_events), graph.num_events))
    rows = parse_rows(options.events) or late[: 2 * options.links].tolist()
    queries = [query for query in map(graph.query, rows) if len(candidates(graph, query))][: options.links]

    def timed(query, pure, **others):
        os.environ["CODY_PURE"] = "1" if pure else "0"
        start = time.process_time()
        why = explain(model, graph, query, evaluations=options.evaluations, **others)
        return time.process_time() - start, tuple(sorted(why.removed))

    timed(queries[0], pure=False)  # what is loaded once does not count
    columns = {
        "the paper's candidates, numpy": {"pure": True, "near": events_on_paths},
        "the paper's candidates, compiled": {"pure": False, "near": events_on_paths},
        "default, numpy": {"pure": True},
        "default, compiled": {"pure": False},
    }
    measured = {name: [timed(query, **how) for query in queries] for name, how in columns.items()}
    print(f"{len(queries)} links of {options.data}, {options.model}; seconds of processor time")
    print(f"{'':<34}{'median':>8}{'mean':>8}{'slowest':>9}")
    for name, results in measured.items():
        seconds = [spent for spent, _ in results]
        print(f"{name:<34}{statistics.median(seconds):>8.3f}{statistics.mean(seconds):>8.3f}{max(seconds):>9.2f}")
    pure, quick = measured["default, numpy"], measured["default, compiled"]
    ratios = [slow / fast for (slow, _), (fast, _) in zip(pure, quick, strict=True)]
    slowest = sorted(zip(pure, ratios, strict=True))[-max(1, len(pure) // 20) :]
    same = sum(one == other for (_, one), (_, other) in zip(pure, quick, strict=True))
    print(
        f"numpy / compiled, default candidates: median {statistics.median(ratios):.1f}×, of the slowest 5 % "
        f"{statistics.mean(ratio for _, ratio in slowest):.1f}×; the same counterfactual {same} times of {len(pure)}"
    )


if __name__ == "__main__":
    main()
