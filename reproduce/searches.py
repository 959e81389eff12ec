"""Which search finds most, and how much is there to find? All searches on the same links, and a ceiling.

    python reproduce/searches.py --links 30 --models runs

asks the shipped models of collegemsg, and those in the folder (`tgn-uci-forums`, …) that `cody train` has made. Writes
results/searches.csv, one line for each link and search, and prints the tables of docs/decisions/search.md. Goes on
where it was if interrupted: first a few links of each setting, then more; a search whose lines were deleted is measured
again.

The candidates are the paper's: the latest 64 events on paths of as many hops as the model looks.

The *ceiling* is the smallest counterfactual that any of these searches, or a heavy one of several thousand questions
for each link, has met. A lower bound of what there is, but no search at hand finds more.
"""

import argparse
import csv
import os
import sys
from functools import partial
from itertools import combinations
from pathlib import Path

os.environ.setdefault("OMP_NUM_THREADS", "1")

import numpy as np
from lines import read, settings

from cody.graph.neighbourhood import candidates, events_on_paths, groups
from cody.models.contract import reach
from cody.search import cody as tree_search
from cody.search import greedy, greedy_then_cody, scout
from cody.search.oracle import Oracle
from cody.search.policies import spatio_temporal
from cody.search.result import flipping_sets
from cody.study.metrics import within

BUDGETS = (100, 300, 1000, 3000)
SEARCHES = {  # search, budget of evaluations
    "CoDy": (tree_search, None),
    "GreeDy": (greedy, None),
    "GreeDy, then CoDy": (greedy_then_cody, None),
    "GreeDy, then CoDy 1000": (partial(greedy_then_cody, iterations=1000), None),
    **{f"Scout {budget}": (scout, budget) for budget in BUDGETS},
}
CEILING = "ceiling"
FIELDS = ("data", "model", "predictions", "event", "candidates", "search", "asked", "size")
AT_A_TIME = 5  # links of a setting
ORDERS, EACH = 6, 600  # random orders that the heavy search tries, and what it asks in each of them
TRIPLES, BEAM, DEEPEST = 20, 12, 9


def heavy(answers, new_oracle, ranking, rng):
    """All pairs, triples of promising events, a beam from below, and the default search with many random orders."""
    oracle = new_oracle(None)
    rows = ranking.tolist()
    original = oracle.ask([frozenset()])[0]
    oracle.ask([frozenset(some) for size in (1, 2) for some in combinations(rows, size)])

    def smallest():
        known = flipping_sets(answers)
        return len(known[0][0]) if known else len(rows) + 1

    def furthest(size):
        sets = [change for change in answers if len(change) == size and change <= set(rows)]
        return sorted(sets, key=lambda change: -abs(original - answers[change]) * _towards(original, answers[change]))

    if smallest() <= 2:
        return
    pairs = furthest(2)
    promising = list(dict.fromkeys(row for pair in pairs for row in sorted(pair)))[:TRIPLES]
    oracle.ask([frozenset(some) for some in combinations(promising, 3)])
    for _ in range(ORDERS):
        scout(new_oracle(EACH), rng.permutation(ranking))
    beam, size = pairs[:BEAM], 2
    while beam and size + 1 < smallest() and size < DEEPEST:
        oracle.ask(list(dict.fromkeys(change | {row} for change in beam for row in rows if row not in change)))
        size += 1
        beam = furthest(size)[:BEAM]


def _towards(original, logit):
    return 1 if (original > 0) == (logit < original) else -1


def measure(model, graph, row, done):
    """(candidates, search, sets asked, size of the answer or nothing) for every search on one link but those done."""
    query = graph.query(row)
    events = candidates(graph, query, reach(model), 64, near=events_on_paths)
    answers = {}

    def new_oracle(evaluations):
        given = {"rows": events.tolist(), "groups": groups(graph, events), "answers": answers}
        return Oracle(model, query, evaluations=evaluations, **given)

    ranking = spatio_temporal(graph, query, events, new_oracle(None), np.random.default_rng(0))
    for name, (search, budget) in SEARCHES.items():
        if name in done:
            continue
        oracle = new_oracle(budget)
        found = search(oracle, ranking)
        changes = frozenset(found.rows) in dict(found.counterfactuals)
        yield len(events), name, len(oracle.evaluated), len(found.rows) if changes else ""
    if CEILING in done:
        return
    heavy(answers, new_oracle, ranking, np.random.default_rng(row))
    known = flipping_sets(answers)
    yield len(events), CEILING, len(answers), len(known[0][0]) if known else ""


def run(options):
    done = {}
    for line in read(options.out):
        done.setdefault((line["data"], line["model"], int(line["event"])), set()).add(line["search"])
    every = list(settings(options))
    is_new = not options.out.exists()
    with options.out.open("a", newline="") as file:
        out = csv.writer(file, lineterminator="\n")
        if is_new:
            out.writerow(FIELDS)
        for start in range(0, options.links, AT_A_TIME):
            for data, kind, predictions, graph, model, rows in every:
                for row in rows[start : start + AT_A_TIME]:
                    lines = list(measure(model, graph, row, done.get((data, kind, row), set())))
                    out.writerows((data, kind, predictions, row, *line) for line in lines)
                    file.flush()
                print(data, kind, predictions, start + AT_A_TIME, file=sys.stderr, flush=True)


def scores(lines):
    """Setting → search → AUFSC+ of each link, in the same order; [links]"""
    found = {}
    for line in lines:
        setting = found.setdefault((line["data"], line["model"], line["predictions"]), {})
        share = int(line["size"]) / max(1, int(line["candidates"])) if line["size"] else 1.0
        setting.setdefault(line["search"], {})[int(line["event"])] = 1.0 - share
    whole = {}
    for setting, searches in found.items():
        events = sorted(set.intersection(*(set(values) for values in searches.values())))
        whole[setting] = {name: np.array([values[event] for event in events]) for name, values in searches.items()}
        whole[setting][CEILING] = np.max(list(whole[setting].values()), axis=0)
    return whole


def table(whole, lines):
    names = [*SEARCHES, CEILING]
    yield "| data | model | predictions | links | " + " | ".join(names) + " |"
    yield "|---" * (4 + len(names)) + "|"
    for setting, searches in whole.items():
        cells = [f"{searches[name].mean():.3f}" for name in names]
        yield f"| {' | '.join(setting)} | {len(searches[CEILING])} | {' | '.join(cells)} |"
    mean = {name: np.mean([searches[name].mean() for searches in whole.values()]) for name in names}
    yield "| **mean** | | | | " + " | ".join(f"{mean[name]:.3f}" for name in names) + " |"
    yield "| of the ceiling | | | | " + " | ".join(f"{100 * mean[name] / mean[CEILING]:.1f} %" for name in names) + " |"
    asked = {name: np.mean([int(line["asked"]) for line in lines if line["search"] == name]) for name in names}
    yield "| evaluations | | | | " + " | ".join(f"{asked[name]:,.0f}" for name in names) + " |"


def comparisons(whole, mine="Scout 300"):
    settings = f"ahead / level / behind in {len(whole)} settings"
    yield f"| AUFSC+ of {mine} less that of | mean difference | 95 % interval | {settings} |"
    yield "|---|---|---|---|"
    for name in (*SEARCHES, CEILING):
        if name == mine:
            continue
        rng = np.random.default_rng(0)
        drawn = np.mean([_drawn(values[mine] - values[name], rng) for values in whole.values()], axis=0)
        each = [round(float(values[mine].mean() - values[name].mean()), 6) for values in whole.values()]
        low, high = within(drawn)
        settings = " / ".join(str(sum(np.sign(each) == sign)) for sign in (1, 0, -1))
        yield f"| {name} | {np.mean(each):+.3f} | {low:+.3f} to {high:+.3f} | {settings} |"


def _drawn(difference, rng, samples=2000):
    """Means of samples of the links, with replacement. [S]"""
    return difference[rng.integers(0, len(difference), (samples, len(difference)))].mean(axis=1)


def main():
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--links", type=int, default=30, help="of each kind")
    arguments.add_argument("--data", default="collegemsg,uci-forums,wikipedia")
    arguments.add_argument("--models", type=Path, default=Path("runs"))
    arguments.add_argument("--out", type=Path, default=Path("results/searches.csv"))
    arguments.add_argument("--tables", action="store_true", help="ask nothing; print the tables of what is there")
    options = arguments.parse_args()
    if not options.tables:
        run(options)
    lines = read(options.out)
    whole = scores(lines)
    print(*table(whole, lines), "", *comparisons(whole), sep="\n")


if __name__ == "__main__":
    main()
