"""What explanations cost where the past is long, with and without following a TGN's changes forward.

    python bench/long_pasts.py

explains anew the links of an evaluation that took longest, and some of average length, in both ways, one after the
other. Prints the table of docs/engine.md. Needs the model that the evaluation was about (`make models`).
"""

import argparse
import time
from pathlib import Path

import numpy as np
import torch

import cody
from cody.evaluate.records import read_records
from cody.inference import tgn
from cody.policies import random, spatio_temporal
from cody.search import cody as tree_search

WAYS = {"back only": 10**9, "as it is": tgn.MANY}  # versions that are computed back from a link
POLICIES = {"cody-random": random, "cody-spatio-temporal": spatio_temporal}


def slowest_first(records):
    """The explained links, by what the slower of the two searches took."""
    seconds = {}
    for record in records:
        if record.explainer in POLICIES:
            seconds[record.event] = max(record.seconds, seconds.get(record.event, 0.0))
    return sorted(seconds, key=seconds.get, reverse=True)


def explained(model, graph, row, many, policy):
    tgn.MANY = many
    model.forget()
    started = time.process_time()
    why = cody.explain(model, graph, graph.query(row), policy=policy, search=tree_search)
    return time.process_time() - started, why.removed, why.logits[-1]


def main():
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--records", type=Path, default=Path("results/reproduction/test-tgn-wikipedia.jsonl.gz"))
    arguments.add_argument("--links", type=int, default=4, help="of each length")
    options = arguments.parse_args()
    torch.set_num_threads(1)
    records = read_records(options.records)
    graph = cody.load(records[0].data)
    model = cody.load_model(records[0].model, graph)
    rows, half = slowest_first(records), options.links // 2
    middle = len(rows) // 2
    groups = {"the longest": rows[: options.links], "average": rows[middle - half : middle + half]}
    print(f"| links | explainer | {' | '.join(WAYS)} | ratio | at most | same explanation |")
    print("|---|---|---|---|---|---|---|")
    for length, chosen in groups.items():
        for name, policy in POLICIES.items():
            pairs = [[explained(model, graph, row, many, policy) for many in WAYS.values()] for row in chosen]
            times = np.array([[one[0] for one in pair] for pair in pairs])
            back, now = times.mean(axis=0)
            same = sum(one[1:] == other[1:] for one, other in pairs)
            cells = (f"{back:.1f} s", f"{now:.1f} s", f"{back / now:.1f}×", f"{(times[:, 0] / times[:, 1]).max():.1f}×")
            print(f"| {length}, {len(pairs)} | {name} | {' | '.join(cells)} | {same} of {len(pairs)} |", flush=True)


if __name__ == "__main__":
    main()
