"""Which search finds most at the same budget? CoDy, GreeDy and both in turn, on the same links.

    python reproduce/searches.py --links 100

needs the models that `make models` trains. Prints the table of docs/decisions/search.md and writes the figures to
results/searches.json. If interrupted, the same command continues.
"""

from functools import partial

from variants import compare, figures

import cody
from cody.search import cody as tree_search
from cody.search import greedy, greedy_then_cody

SEARCHES = {
    "CoDy": tree_search,
    "GreeDy": greedy,
    "GreeDy, CoDy if it fails": partial(greedy_then_cody, stop_at_first=True),
    "GreeDy, then CoDy (default)": greedy_then_cody,
}


def measure(model, graph, rows, *, search):
    return figures([cody.explain(model, graph, graph.query(row), search=search) for row in rows.tolist()])


def table(entries):
    yield "| data | model | predictions | search | fidelity+ | AUFSC+ | mean size | evaluations |"
    yield "|---|---|---|---|---|---|---|---|"
    for entry in entries:
        case = " | ".join(entry[key] for key in ("data", "model", "predictions", "search"))
        size = "–" if entry["mean_size"] is None else f"{entry['mean_size']:.1f}"
        yield f"| {case} | {entry['fidelity+']:.2f} | {entry['aufsc+']:.3f} | {size} | {entry['evaluations']:.0f} |"


def main():
    variants = [({"search": name}, partial(measure, search=search)) for name, search in SEARCHES.items()]
    print(*table(compare(__doc__, "results/searches.json", variants)), sep="\n")


if __name__ == "__main__":
    main()
