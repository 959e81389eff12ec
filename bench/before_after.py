"""What explanations cost and find, in this version and in an older one, which is a checkout in another folder.

    git worktree add ../before 5424d53
    python bench/before_after.py ../before --links 40

Test links of the data set with `cody.explain` as it is by default, each version in processes of its own, in turn.
Times are those of the processor, on one thread; compare the ratios.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from statistics import mean, median

HERE = Path(__file__).parents[1]


def explain(data: str, model: str, links: int) -> None:
    """Runs in a process of each version, so it only calls what both have."""
    import numpy as np

    import cody

    graph = cody.load(data)
    opened = cody.load_model(model, graph)
    rows = np.arange(graph.num_events * 85 // 100, graph.num_events)
    chosen = np.random.default_rng(0).choice(rows, links, replace=False).tolist()
    cody.explain(opened, graph, graph.query(chosen[0]))  # warms up
    seconds, sizes = [], []
    for row in chosen:
        start = time.process_time()
        why = cody.explain(opened, graph, graph.query(row))
        seconds.append(time.process_time() - start)
        sizes += [len(why.removed)] if why.is_counterfactual else []
    found = {"median": median(seconds), "mean": mean(seconds), "answered": len(sizes)}
    print(json.dumps(found | {"events of an answer": median(sizes) if sizes else None}))


def run(version: Path, cache: str, options: argparse.Namespace) -> dict[str, float]:
    """What `explain` prints with the code of a version."""
    one_thread = {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
    environment = {**os.environ, **one_thread, "PYTHONPATH": str(version / "src"), "XDG_CACHE_HOME": cache}
    call = [sys.executable, __file__, "--child", options.data, options.model, str(options.links)]
    done = subprocess.run(call, env=environment, check=True, capture_output=True, text=True)
    return json.loads(done.stdout)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("before", type=Path, help="folder with a checkout of the older version")
    parser.add_argument("--data", default="collegemsg")
    parser.add_argument("--model", default="tgn-collegemsg")
    parser.add_argument("--links", type=int, default=40)
    parser.add_argument("--rounds", type=int, default=3, help="how often each version is run; the median counts")
    options = parser.parse_args()
    versions = {"before": options.before.resolve(), "now": HERE}
    runs: dict[str, list[dict[str, float]]] = {name: [] for name in versions}
    with tempfile.TemporaryDirectory() as cache:
        for _ in range(options.rounds):
            for name, folder in versions.items():
                runs[name].append(run(folder, f"{cache}/{name}", options))
    print("| | before | now | now / before |", "|---|---|---|---|", sep="\n")
    for key in ("median", "mean"):
        old, new = (median(each[key] for each in runs[name]) for name in versions)
        print(f"| {key}, seconds of the processor | {old:.3f} | {new:.3f} | {new / old:.1f}× |")
    for key in ("answered", "events of an answer"):
        old, new = (runs[name][0][key] for name in versions)
        print(f"| {key} | {old} | {new} | |")


if __name__ == "__main__":
    if sys.argv[1:2] == ["--child"]:
        explain(sys.argv[2], sys.argv[3], int(sys.argv[4]))
    else:
        main()
