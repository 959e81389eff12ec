"""What explanations cost where the past is long, with and without following a TGN's changes forward.

    python bench/long_pasts.py --model runs/tgn-wikipedia --data wikipedia

draws links of the test period, sorts them by how many versions of the memory may change, and explains some of each size
in both ways, one after the other. Prints the table of docs/engine.md. Needs a model that `make models` trains.
"""

import argparse
import time

import numpy as np
import torch

import cody
from cody.inference import tgn
from cody.policies import random
from cody.search import cody as tree_search
from cody.search import greedy_then_cody

SIZES = ((300, 1000), (1000, 3000), (3000, 10_000), (10_000, 10**9))
WAYS = {"back": 10**9, "as it is": tgn.MANY}  # versions that are computed back from a link
EXPLAINERS = {"default": {"search": greedy_then_cody}, "cody-random": {"policy": random, "search": tree_search}}


def by_size(model, graph, count, seed):
    """Rows of test links, by how many versions may change."""
    rows = np.random.default_rng(seed).integers(int(0.85 * graph.num_events), graph.num_events, count)
    found = {size: [] for size in SIZES}
    for row in rows.tolist():
        query = graph.query(row)
        model.forget()
        model.expect(query, cody.candidates(graph, query).tolist())
        versions = len(model.scopes[query].inputs.versions)
        for size in SIZES:
            if size[0] <= versions < size[1]:
                found[size].append(row)
    return found


def explained(model, graph, row, many, **options):
    tgn.MANY = many
    model.forget()
    started = time.process_time()
    why = cody.explain(model, graph, graph.query(row), **options)
    return time.process_time() - started, why.removed, why.logits[-1]


def main():
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--data", default="wikipedia")
    arguments.add_argument("--model", default="runs/tgn-wikipedia")
    arguments.add_argument("--drawn", type=int, default=300)
    arguments.add_argument("--links", type=int, default=4, help="explained, of each size")
    options = arguments.parse_args()
    torch.set_num_threads(1)
    graph = cody.load(options.data)
    model = cody.load_model(options.model, graph)
    found = by_size(model, graph, options.drawn, seed=0)
    print("| versions that may change | share of links | explainer | back only | as it is | ratio | same explanation |")
    print("|---|---|---|---|---|---|---|")
    for (low, high), rows in found.items():
        for name, explainer in EXPLAINERS.items() if rows else ():
            pairs = [
                [explained(model, graph, row, many, **explainer) for many in WAYS.values()]
                for row in rows[: options.links]
            ]
            back, forward = np.mean([[one[0] for one in pair] for pair in pairs], axis=0)
            same = sum(one[1:] == other[1:] for one, other in pairs)
            bounds = f"{low:,} to {high:,}" if high < 10**9 else f"{low:,} and more"
            share = len(rows) / options.drawn
            cells = (f"{back:.2f} s", f"{forward:.2f} s", f"{back / forward:.1f}×", f"{same} of {len(pairs)}")
            print(f"| {bounds} | {share:.0%} | {name} | {' | '.join(cells)} |", flush=True)


if __name__ == "__main__":
    main()
