"""Which reading of "the k-hop neighbourhood" finds more? CoDy with the candidates of both, on the same links.

    python reproduce/neighbourhoods.py --links 100 --out results/neighbourhoods.json

needs the models that `make models` trains. Writes one entry for each data set, model, kind of link and reading, with
the figures of docs/decisions/neighbourhood.md. If interrupted, the same command continues.
"""

from functools import partial

import numpy as np
from variants import compare, figures

import cody
from cody.graph.neighbourhood import events_among_nodes, events_on_paths
from cody.search import cody as tree_search
from cody.search.policies import event_impact, spatio_temporal

READINGS = {"events": events_on_paths, "nodes": events_among_nodes}


def measure(model, graph, rows, *, near, policy):
    explanations = [
        cody.explain(model, graph, graph.query(row), near=near, policy=policy, search=tree_search, size=64)
        for row in rows
    ]
    without_effect = [
        np.mean([logit == why.logits[0] for rows, logit in why.evaluated if len(rows) == 1] or [0.0])
        for why in explanations
    ]
    return figures(explanations) | {
        "seconds": float(np.mean([why.seconds for why in explanations])),
        "dead_single_events": float(np.mean(without_effect)),
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
    variants = [
        ({"policy": policy.__name__, "near": reading}, partial(measure, near=near, policy=policy))
        for policy in (spatio_temporal, event_impact)
        for reading, near in READINGS.items()
    ]
    print(*table(compare(__doc__, "results/neighbourhoods.json", variants)), sep="\n")


if __name__ == "__main__":
    main()
