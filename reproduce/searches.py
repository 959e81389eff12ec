"""Which search finds most at the same budget? CoDy, GreeDy and both in turn, on the same links.

    python reproduce/searches.py --links 100

needs the models that `make models` trains. Prints the table of docs/decisions/search.md and writes the figures to
results/searches.json. Goes on where it was if interrupted.
"""

import argparse
import json
import sys
from functools import partial
from pathlib import Path

import numpy as np
import torch

import cody
from cody.evaluate.instances import sample_links
from cody.files import write_atomically
from cody.search import cody as tree_search
from cody.search import greedy, greedy_then_cody

SEARCHES = {
    "CoDy": tree_search,
    "GreeDy": greedy,
    "GreeDy, CoDy if it fails": partial(greedy_then_cody, stop_at_first=True),
    "GreeDy, then CoDy (default)": greedy_then_cody,
}


def measure(model, graph, rows, search):
    explanations = [cody.explain(model, graph, graph.query(row), search=search) for row in rows.tolist()]
    flipped = np.array([why.is_counterfactual for why in explanations])
    share = np.array([len(why.removed) / max(1, len(why.candidates)) for why in explanations])
    sizes = [len(why.removed) for why in explanations if why.is_counterfactual]
    return {
        "links": len(rows),
        "fidelity+": float(flipped.mean()),
        "aufsc+": float((flipped * (1 - share)).mean()),
        "mean_size": float(np.mean(sizes)) if sizes else None,
        "evaluations": float(np.mean([why.evaluations for why in explanations])),
    }


def table(entries):
    yield "| data | model | predictions | search | fidelity+ | AUFSC+ | mean size | evaluations |"
    yield "|---|---|---|---|---|---|---|---|"
    for entry in entries:
        case = " | ".join(entry[key] for key in ("data", "model", "predictions", "search"))
        size = "–" if entry["mean_size"] is None else f"{entry['mean_size']:.1f}"
        yield f"| {case} | {entry['fidelity+']:.2f} | {entry['aufsc+']:.3f} | {size} | {entry['evaluations']:.0f} |"


def main():
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--links", type=int, default=100, help="of each kind")
    arguments.add_argument("--data", default="uci-messages,uci-forums")
    arguments.add_argument("--models", type=Path, default=Path("runs"))
    arguments.add_argument("--out", type=Path, default=Path("results/searches.json"))
    options = arguments.parse_args()
    torch.set_num_threads(1)
    done = json.loads(options.out.read_text()) if options.out.exists() else []
    for data in options.data.split(","):
        graph = cody.load(data)
        for kind in ("tgn", "tgat"):
            model = cody.load_model(options.models / f"{kind}-{data}", graph)
            for correct in (True, False):
                rows = sample_links(model, graph, options.links, correct=correct)
                for name, search in SEARCHES.items():
                    predictions = "correct" if correct else "incorrect"
                    case = {"data": data, "model": kind, "predictions": predictions, "search": name}
                    if not any(case.items() <= entry.items() for entry in done):
                        done.append(case | measure(model, graph, rows, search))
                        print(json.dumps(done[-1]), file=sys.stderr, flush=True)
                        write_atomically(options.out, json.dumps(done, indent=1) + "\n")
    print(*table(done), sep="\n")


if __name__ == "__main__":
    main()
