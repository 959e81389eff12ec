"""What it costs to ask about a place in a ranking, beside asking about the link alone.

    python bench/rankings.py [--links 20] [--models tgn-collegemsg tgat-collegemsg] [--top 10] [--threshold 0.9]

CPU seconds of `explain` for links of the test period, drawn by chance: whether the destination is in the top 10 among
all that have been one by then, and whether its score is above a threshold that is about as seldom reached. Both are
measured in turn for each link.
"""

from __future__ import annotations

import argparse
import os
import time

os.environ.setdefault("OMP_NUM_THREADS", "1")

import numpy as np

import cody
from cody.study.instances import TEST_PERIOD, rows_of


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", default="collegemsg")
    parser.add_argument("--models", nargs="+", default=["tgn-collegemsg", "tgat-collegemsg"])
    parser.add_argument("--links", type=int, default=20)
    parser.add_argument("--top", type=int, default=10)
    parser.add_argument("--threshold", type=float, default=0.9)
    parser.add_argument("--seed", type=int, default=29)
    given = parser.parse_args()
    graph = cody.load(given.data)
    rows = np.random.default_rng(given.seed).permutation(np.array(rows_of(TEST_PERIOD, graph)))[: given.links].tolist()
    decisions = {f"top {given.top}": cody.in_top(given.top), f"above {given.threshold}": cody.above(given.threshold)}
    for name in given.models:
        model = cody.load_model(name, graph)
        cody.explain(model, graph, graph.query(rows[0]))  # whatever is read when it is first used
        seconds: dict[str, list[float]] = {decision: [] for decision in decisions}
        for row in rows:
            print(f"{name} {row}", end="")
            for called, decision in decisions.items():
                begun = time.process_time()
                why = cody.explain(model, graph, graph.query(row), decision=decision)
                seconds[called].append(time.process_time() - begun)
                print(f" | {called}: {seconds[called][-1]:.2f} s, {why.verdict}, {len(why.rows)}", end="")
            print(flush=True)
        for called, each in seconds.items():
            print(f"{name}, {called}: median {np.median(each):.2f} s, slowest {max(each):.2f} s")
        one, other = (np.array(each) for each in seconds.values())
        print(f"{name}, {' / '.join(seconds)}: median of the ratios {np.median(one / other):.1f}", flush=True)


if __name__ == "__main__":
    main()
