"""How long an explanation of a PyG TGN takes, by the way in which the model is asked; in one run, on one thread.

    python examples/pyg_tgn.py --epochs 8 --out tgn.pt
    python bench/own_models.py tgn.pt --links 20 --slow-links 3

It also counts what estimates miss: the counterfactuals that the search finds when all answers are exact (fast and frame
give the same ones), and when it goes by estimates, on the same links.

naive      the library's own memory and loader, from the first event for each set; extrapolated from a few sets
frame      the user's modules in the frame, with states kept, replayed from before the oldest change
estimates  the same, searched by estimates (`approximately`)
fast       event-sourced memory around the same modules

Seconds are those of the processor, since others may use the machine too.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import torch

import cody
from cody.adapters import approximately, pyg
from cody.graph.neighbourhood import events_on_paths

ROOT = Path(__file__).parents[1]
OPTIONS: dict[str, Any] = {"size": 64, "near": events_on_paths, "evaluations": 300}  # so that figures stay comparable
sys.path[:0] = [str(ROOT / "examples"), str(ROOT / "tests")]


def seconds(function):
    """What a call returns, and how much time of the processor it took."""
    began = time.process_time()
    result = function()
    return result, time.process_time() - began


def summary(times, answers):
    """Of some links: what the explanations took, and how many events each answer has, None where there is none."""
    found = [len(why.rows) if why.is_counterfactual else None for why in answers]
    times = {"median": statistics.median(times), "slowest": max(times), "links": len(times)}
    return times | {"counterfactuals": sum(size is not None for size in found), "events of each": found}


def main() -> None:
    from pyg_tgn import load, temporal_data

    from adapters.pyg_models import naive_logit

    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("weights", type=Path)
    parser.add_argument("--links", type=int, default=20)
    parser.add_argument("--slow-links", type=int, default=3, help="for the frame")
    parser.add_argument("--estimated-links", type=int, help="for estimates; default: as many as --links")
    parser.add_argument("--cases", type=int, default=20, help="random sets to compare the answers of")
    options = parser.parse_args()
    torch.set_num_threads(1)
    data = temporal_data(cody.load("collegemsg"))
    tgn = load(options.weights, data)
    fast, frame = (pyg.wrap(**tgn._asdict(), data=data, splits=(), fast=way) for way in (True, False))
    graph = fast.graph
    rng = np.random.default_rng(0)
    rows = rng.choice(np.arange(graph.num_events * 85 // 100, graph.num_events), options.links, replace=False).tolist()
    found = {"table": seconds(lambda: fast.table)[1]}

    query = graph.query(rows[0])
    sets = [frozenset(), frozenset({query.before - 1})]
    naive, each = seconds(lambda: [naive_logit(tgn, data, query, change, 200, 10) for change in sets])
    found["naive"] = {"one set": each / len(sets), "one explanation, extrapolated": 300 * each / len(sets)}
    found["naive and fast differ by"] = float(np.abs(np.array(naive) - fast.logits(query, sets)).max())

    ways = (
        ("fast", fast, options.links),
        ("estimates", approximately(frame), options.estimated_links or options.links),
        ("frame", frame, options.slow_links),
    )
    for name, model, count in ways:
        times, answers = [], []
        for row in rows[:count]:
            why, each = seconds(lambda row=row, model=model: cody.explain(model, graph, graph.query(row), **OPTIONS))
            times.append(each)
            answers.append(why)
            print(f"{name} {row}: {each:.2f} s, {why.evaluations} sets, {why.sentence}", file=sys.stderr, flush=True)
        found[name] = summary(times, answers)

    differences = []
    for row in rng.choice(rows, options.cases).tolist():
        near = cody.candidates(graph, graph.query(row), 1, 64)
        change = frozenset(rng.choice(near, min(3, len(near)), replace=False).tolist())
        one, other = (model.logits(graph.query(row), [change])[0] for model in (fast, frame))
        differences.append(abs(one - other))
    found["frame and fast differ by"] = float(max(differences, default=0.0))
    print(json.dumps(found, indent=2))


if __name__ == "__main__":
    main()
