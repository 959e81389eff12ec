"""What one run cannot say: how much of a difference is the seed of the training, and how stable are explanations?

    for seed in 0 1 2; do cody train --data collegemsg --model tgn --epochs 2 --seed $seed \\
      --out runs/seed-$seed-tgn-collegemsg; done                        (and so on: tgat, uci-forums)
    python reproduce/seeds.py --links 40 --models runs

All models explain the same random links of the test period, with the paper's candidates (the latest 64 on paths); Scout
takes 300 evaluations. Writes results/seeds.csv, one line for each link and explanation: first a few links of each
model, then more; resumes if interrupted. `--tables` explains nothing, and puts the tables into results/laboratory.md.
"""

import argparse
import csv
import os
import sys
from functools import cache
from itertools import combinations
from pathlib import Path

os.environ.setdefault("OMP_NUM_THREADS", "1")

import numpy as np
from order import read
from page import replace_section
from variants import thorough_scout

import cody
from cody.graph.neighbourhood import candidates, events_on_paths, groups
from cody.models.margins import flips
from cody.search import cody as tree_search
from cody.search import greedy
from cody.search.oracle import Oracle
from cody.search.policies import random, spatio_temporal
from cody.study.instances import TEST_PERIOD, rows_of
from cody.study.metrics import within

SEARCHES = {"cody": tree_search, "greedy": greedy, "scout": thorough_scout}
POLICIES = {"spatio-temporal": spatio_temporal, "random": random}
DATA, KINDS, SEEDS = ("collegemsg", "uci-forums"), ("tgn", "tgat"), (0, 1, 2)
PAIRS = (("greedy", "cody"), ("scout", "cody"), ("scout", "greedy"))
FIELDS = (
    *("data", "model", "seed", "search", "policy", "search_seed", "event"),
    *("candidates", "asked", "rows", "original", "flips"),
)
AT_A_TIME = 5  # links of a model
SAMPLES = 2000


def explain(model, row, search, policy, search_seed):
    graph, query = model.graph, model.graph.query(row)
    events = candidates(graph, query, model.hops, 64, near=events_on_paths)
    oracle = Oracle(model, query, rows=events.tolist(), groups=groups(graph, events))
    ranking = POLICIES[policy](graph, query, events, oracle, np.random.default_rng([search_seed, row]))
    found = SEARCHES[search](oracle, ranking)
    original, without = oracle.look_up([frozenset(), frozenset(found.rows)])
    rows = " ".join(map(str, sorted(found.rows)))
    return len(events), len(oracle.evaluated), rows, original, int(flips(original, without))


def wanted(seed):
    """The explainers of a model: (search, policy, seed of the search). Only an order at random has a seed."""
    for search in SEARCHES:
        yield search, "spatio-temporal", 0
        if seed == 0:
            yield from ((search, "random", search_seed) for search_seed in SEEDS)


def key_of(line):
    return tuple(str(line[name]) for name in FIELDS[:7])


def run(options):
    done = {key_of(line) for line in read(options.out)}
    graph_of = cache(cody.load)
    model_of = cache(
        lambda data, kind, seed: cody.load_model(options.models / f"seed-{seed}-{kind}-{data}", graph_of(data))
    )
    with options.out.open("a", newline="") as file:
        out = csv.DictWriter(file, FIELDS, lineterminator="\n")
        if not file.tell():
            out.writeheader()
        for first in range(0, options.links, AT_A_TIME):
            for data in DATA:
                period = np.array(rows_of(TEST_PERIOD, graph_of(data)))
                links = np.random.default_rng(0).permutation(period)[first : min(first + AT_A_TIME, options.links)]
                for kind in KINDS:
                    for seed in SEEDS:
                        for row in links.tolist():
                            for what in wanted(seed):
                                line = dict(zip(FIELDS, (data, kind, seed, *what, row), strict=False))
                                if key_of(line) not in done:
                                    found = explain(model_of(data, kind, seed), row, *what)
                                    out.writerow(line | dict(zip(FIELDS[7:], found, strict=True)))
                                    file.flush()
                print(data, first + AT_A_TIME, file=sys.stderr, flush=True)


class Lines:
    """The explanations of the links that every explainer of every model has explained."""

    def __init__(self, lines):
        found = {}
        for line in lines:
            found.setdefault((line["data"], *key_of(line)[1:6]), {})[int(line["event"])] = line
        self.events = {
            data: sorted(set.intersection(*(set(of) for name, of in found.items() if name[0] == data)))
            for data in dict.fromkeys(name[0] for name in found)
        }
        self.found = found

    def of(self, data, kind, seed, search, policy="spatio-temporal", search_seed=0):
        one = self.found[data, kind, str(seed), search, policy, str(search_seed)]
        return [one[event] for event in self.events[data]]


def scores(lines):
    """AUFSC+ of each link. [n]"""
    sizes = np.array([len(line["rows"].split()) / max(1, int(line["candidates"])) for line in lines])
    return np.array([int(line["flips"]) for line in lines]) * (1 - sizes)


def gaps(lines, kind, one, other):
    """For each data set, the differences of AUFSC+ by training seed and link. [seeds, links]"""
    return [
        np.stack(
            [scores(lines.of(data, kind, seed, one)) - scores(lines.of(data, kind, seed, other)) for seed in SEEDS]
        )
        for data in lines.events
    ]


def drawn(some, *, seeds, rng):
    """Means over data sets of samples of the links, and with `seeds` of the training seeds too. [S]"""
    means = np.empty(SAMPLES)
    for sample in range(SAMPLES):
        chosen = rng.integers(0, len(SEEDS), len(SEEDS)) if seeds else np.arange(len(SEEDS))
        means[sample] = np.mean([gap[chosen][:, rng.integers(0, gap.shape[1], gap.shape[1])].mean() for gap in some])
    return means


def differences_table(lines):
    yield "| model | AUFSC+ | by training seed | mean | interval: links | interval: seeds and links | between seeds |"
    yield "|---" * 7 + "|"
    for kind in KINDS:
        for one, other in PAIRS:
            some = gaps(lines, kind, one, other)
            by_seed = np.mean([gap.mean(axis=1) for gap in some], axis=0)
            links, both = (within(drawn(some, seeds=seeds, rng=np.random.default_rng(0))) for seeds in (False, True))
            intervals = " | ".join(f"[{low:+.3f}, {high:+.3f}]" for low, high in (links, both))
            yield (
                f"| {kind.upper()} | {one} − {other} | {', '.join(f'{value:+.3f}' for value in by_seed)} | "
                f"{by_seed.mean():+.3f} | {intervals} | {by_seed.std(ddof=1):.3f} |"
            )


def overlap(one, other):
    """Jaccard of two explanations, if both change the same decision; else None."""
    same = (float(one["original"]) > 0) == (float(other["original"]) > 0)
    if not same or "0" in (one["flips"], other["flips"]):
        return None
    some, others = set(one["rows"].split()), set(other["rows"].split())
    return len(some & others) / len(some | others)


def stability(pairs):
    """Mean Jaccard of the pairs that can be compared, its interval over links, and the share of those pairs.

    `pairs`: lists of lines about the same links; a link is drawn with all its pairs.
    """
    overlaps = np.array(
        [[overlap(*both) for both in zip(one, other, strict=True)] for one, other in pairs], dtype=float
    )
    can = np.isfinite(overlaps)
    total, count = np.where(can, overlaps, 0.0).sum(axis=0), can.sum(axis=0)  # [links]
    chosen = np.random.default_rng(0).integers(0, len(count), (SAMPLES, len(count)))
    sums, counts = total[chosen].sum(axis=1), count[chosen].sum(axis=1)
    means = sums[counts > 0] / counts[counts > 0]
    return float(total.sum() / count.sum()), within(means), float(can.mean())


def stability_table(lines):
    yield "| what differs | model | " + " | ".join(SEARCHES) + " |"
    yield "|---" * (2 + len(SEARCHES)) + "|"
    for what in ("seed of the training (spatio-temporal)", "seed of the search (random order)"):
        for kind in KINDS:
            cells = []
            for search in SEARCHES:
                given = [
                    (seed, search) if what.startswith("seed of the training") else (0, search, "random", seed)
                    for seed in SEEDS
                ]
                all_ = [[line for data in lines.events for line in lines.of(data, kind, *one)] for one in given]
                value, (low, high), share = stability(list(combinations(all_, 2)))
                cells.append(f"{value:.2f} [{low:.2f}, {high:.2f}], {100 * share:.0f} %")
            yield f"| {what} | {kind.upper()} | " + " | ".join(cells) + " |"


def agreement(lines):
    """How often models of two training seeds decide alike about a link."""
    for kind in KINDS:
        alike = [
            (float(one["original"]) > 0) == (float(other["original"]) > 0)
            for data in lines.events
            for first, second in combinations(SEEDS, 2)
            for one, other in zip(
                lines.of(data, kind, first, "cody"), lines.of(data, kind, second, "cody"), strict=True
            )
        ]
        yield f"{kind.upper()} {100 * np.mean(alike):.0f} %"


def section(lines):
    counts = ", ".join(f"{len(events)} of {data}" for data, events in lines.events.items())
    yield f"Links: {counts}. Models of two training seeds decide alike about a link: {', '.join(agreement(lines))}."
    yield ""
    yield from differences_table(lines)
    yield ""
    yield "Mean Jaccard of two explanations of a link, 95 % interval over links, share of pairs that can be compared:"
    yield ""
    yield from stability_table(lines)


def main():
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--links", type=int, default=40, help="of each data set")
    arguments.add_argument("--models", type=Path, default=Path("runs"))
    arguments.add_argument("--out", type=Path, default=Path("results/seeds.csv"))
    arguments.add_argument("--page", type=Path, default=Path("results/laboratory.md"), help="its section is replaced")
    arguments.add_argument(
        "--tables", action="store_true", help="ask nothing; put the tables of what is there on the page"
    )
    options = arguments.parse_args()
    if options.tables:
        replace_section(options.page, "seeds", "\n".join(section(Lines(read(options.out)))))
    else:
        run(options)


if __name__ == "__main__":
    main()
