"""Which reading of "the k-hop neighbourhood" finds more? CoDy with the candidates of both, on the same links.

    python reproduce/neighbourhoods.py --links 100 --out results/neighbourhoods.json

needs the models that `make models` trains. Writes one entry for each data set, model, kind of link and reading, with
the figures of docs/decisions/neighbourhood.md. Goes on where it was if interrupted.
"""

import argparse
import json
import sys
from pathlib import Path

import numpy as np
import torch

import cody
from cody.candidates import events_among_nodes, events_on_paths
from cody.evaluate.instances import sample_links
from cody.files import write_atomically
from cody.policies import event_impact, spatio_temporal
from cody.search import cody as tree_search

READINGS = {"events": events_on_paths, "nodes": events_among_nodes}


def measure(model, graph, rows, near, policy):
    explanations = [
        cody.explain(model, graph, graph.query(row), near=near, policy=policy, search=tree_search)
        for row in rows.tolist()
    ]
    flipped = np.array([why.is_counterfactual for why in explanations])
    share = np.array([len(why.removed) / max(1, len(why.candidates)) for why in explanations])
    size = np.array([len(why.removed) for why in explanations])
    dead = [
        np.mean([logit == why.logits[0] for rows, logit in why.explored if len(rows) == 1] or [0.0])
        for why in explanations
    ]
    return {
        "links": len(rows),
        "fidelity+": float(flipped.mean()),
        "aufsc+": float((flipped * (1 - share)).mean()),
        "mean_size": float(size[flipped].mean()) if flipped.any() else None,
        "evaluations": float(np.mean([why.evaluations for why in explanations])),
        "seconds": float(np.mean([why.seconds for why in explanations])),
        "dead_single_events": float(np.mean(dead)),
        "proved": float(np.mean([why.ended == "exhausted" for why in explanations])),
    }


FIGURES = {"fidelity+": 2, "aufsc+": 3, "mean_size": 1, "evaluations": 0, "dead_single_events": 2}  # and decimals


def table(entries):
    """The table of docs/decisions/neighbourhood.md: each cell is events / nodes, the better one bold."""
    yield "| data | model | predictions | policy | fidelity+ | AUFSC+ | mean size | evaluations | without effect |"
    yield "|---|---|---|---|---|---|---|---|---|"
    for events, nodes in zip(entries[::2], entries[1::2], strict=True):
        case = [events[key] for key in ("data", "model", "predictions", "policy")]
        cells = [cell(events[name], nodes[name], name, decimals) for name, decimals in FIGURES.items()]
        yield f"| {' | '.join(case).replace('_', '-')} | {' | '.join(cells)} |"


def cell(events, nodes, name, decimals):
    texts = ["–" if value is None else f"{value:.{decimals}f}" for value in (events, nodes)]
    if name in ("fidelity+", "aufsc+") and events != nodes:
        better = int(events < nodes)
        texts[better] = f"**{texts[better]}**"
    return " / ".join(texts)


def main():
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--links", type=int, default=100, help="of each kind")
    arguments.add_argument("--data", default="uci-messages,uci-forums")
    arguments.add_argument("--models", type=Path, default=Path("runs"))
    arguments.add_argument("--out", type=Path, default=Path("results/neighbourhoods.json"))
    options = arguments.parse_args()
    torch.set_num_threads(1)
    done = json.loads(options.out.read_text()) if options.out.exists() else []
    for data in options.data.split(","):
        graph = cody.load(data)
        for kind in ("tgn", "tgat"):
            model = cody.load_model(options.models / f"{kind}-{data}", graph)
            for correct in (True, False):
                rows = sample_links(model, graph, options.links, correct=correct)
                for policy in (spatio_temporal, event_impact):
                    for reading, near in READINGS.items():
                        case = {
                            "data": data,
                            "model": kind,
                            "predictions": "correct" if correct else "incorrect",
                            "policy": policy.__name__,
                            "near": reading,
                        }
                        if any(case.items() <= entry.items() for entry in done):
                            continue
                        done.append(case | measure(model, graph, rows, near, policy))
                        print(json.dumps(done[-1]), file=sys.stderr, flush=True)
                        write_atomically(options.out, json.dumps(done, indent=1) + "\n")
    print(*table(done), sep="\n")


if __name__ == "__main__":
    main()
