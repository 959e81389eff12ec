"""Which past events should an explanation be allowed to remove? Choices of candidates, on the same links.

    python reproduce/candidates.py --links 40 --models runs
    python reproduce/candidates.py --links 10 --models runs --long

asks the shipped models of collegemsg, and those in the folder (`tgn-uci-forums`, …) that `cody train` has made. Writes
results/candidates.csv, one line for each link and choice, the tables of docs/decisions/neighbourhood.md, and the one of
results/laboratory.md that compares the default with the searches and candidates of the paper.
Rerun to resume: first a few links of each setting, then more. The links are of the test period, the last 15 % of the
events; the default was chosen on links before it. `--long` makes searches of 3,000 evaluations, for the curve;
`--tables` only writes the tables.
"""

import argparse
import csv
import os
import sys
import time
from functools import partial
from pathlib import Path

os.environ.setdefault("OMP_NUM_THREADS", "1")

import numpy as np
from lines import read, settings
from looking import by_attention, by_memory
from page import replace_section

import cody
from cody.explaining.explanation import Explanation
from cody.graph import Query
from cody.graph.neighbourhood import SIZE, ends_first, events_on_paths
from cody.models.contract import open_session
from cody.models.margins import flips
from cody.study.metrics import within

FIELDS = ("data", "model", "predictions", "event", "choice", "candidates", "evaluations", "size", "seconds", "curve")
DOCS = Path(__file__).parents[1] / "docs"
PAGE = DOCS / "decisions" / "neighbourhood.md"
RESULTS = Path("results/candidates.csv")
AT_A_TIME = 5  # links of a setting
POOL = 256  # events of which some are chosen by what they do
CUTS = (50, 100, 150, 200, 300, 500, 1000, 2000, 3000)
KINDS = {"correct": "predicted", "incorrect": "not predicted"}
DEFAULT, OLD = "default", "most recent 64"
CODY, GREEDY = "CoDy of the paper", "GreeDy of the paper"
COMPARED = {  # name in results/laboratory.md
    CODY: "CoDy, the paper's candidates",
    GREEDY: "GreeDy, the paper's candidates",
    OLD: "Scout, the paper's candidates",
    DEFAULT: "**default of `cody explain`**",
}


def by_effect(model, sign, graph, query, hops, size):
    """Of the nearest events, those with the largest effect when removed alone: towards the other decision, or any."""
    rows = ends_first(graph, query, hops, POOL)
    alone = [frozenset({row}) for row in rows.tolist()]
    logits = open_session(model, query, rows.tolist()).logits([frozenset(), *alone])
    moved = logits[1:] - logits[0]
    effect = np.abs(moved) if sign is None else -np.sign(logits[0]) * moved
    return rows[np.argsort(-effect, kind="stable")][:size]


def mixed(model, graph, query, hops, size):
    """Half of the candidates by place, the others by the absolute effect when removed alone."""
    near = ends_first(graph, query, hops, size // 2)
    rest = by_effect(model, None, graph, query, hops, size)
    return np.concatenate([near, rest[~np.isin(rest, near)]])[:size]


def latest_of_ends(graph, query, count):
    """The last few events of each end, the latest first."""
    both = [graph.history(end, query.before)[-count:] for end in {query.src, query.dst}]
    return np.unique(np.concatenate(both))[::-1]


def last_of_ends(count, graph, query, hops, size):
    """The last few events of each end, then the most recent ones around."""
    own = latest_of_ends(graph, query, count)
    around = events_on_paths(graph, query, hops, size + len(own))
    return np.concatenate([own, around[~np.isin(around, own)]])[:size]


def attended(neighbours, graph, query, hops, size):
    """What two layers of attention read with nothing changed: each end's last events, then the last of each partner."""
    own = latest_of_ends(graph, query, neighbours)
    partners = dict.fromkeys(np.stack([graph.src[own], graph.dst[own]], axis=1).ravel().tolist())
    partners = [node for node in partners if node not in (query.src, query.dst)]
    ranks = [graph.history(node, query.before)[-neighbours:][::-1].tolist() for node in partners]
    by_rank = [rank[place] for place in range(neighbours) for rank in ranks if len(rank) > place]
    return np.array(list(dict.fromkeys([*own.tolist(), *by_rank])), dtype=np.int64)[:size]


def choices(model):
    """Name → options of `cody.explain`. All but the default search 64 candidates with 300 evaluations."""
    sizes = model.weights.sizes
    paper = {"size": SIZE, "count": 1, "near": events_on_paths}
    same = {"size": SIZE, "evaluations": 300, "count": 1}
    return {
        DEFAULT: {},
        OLD: same | {"near": events_on_paths},
        CODY: paper | {"search": partial(cody.search.cody, iterations=300)},
        GREEDY: paper | {"search": cody.search.greedy},
        "last 20 of each end": same | {"near": partial(last_of_ends, 20)},
        "ends first": same,
        "attended": same | {"near": partial(attended, sizes.neighbours)},
        "weight of attention": same | {"near": partial(by_attention, model)},
        "window of the memory": same | {"near": partial(by_memory, sizes.batch if model.weights.has_memory else 1)},
        "effect towards the flip": same | {"near": partial(by_effect, model, 1)},
        "absolute effect": same | {"near": partial(by_effect, model, None)},
        "half by effect": same | {"near": partial(mixed, model)},
    }


LONG = {f"{size} candidates": {"size": size, "evaluations": 3000, "count": 1} for size in (64, 256)}


def size_of(why: Explanation) -> str:
    return str(len(why.removed)) if why.is_counterfactual else ""


def curve_of(why: Explanation) -> str:
    """The size of the best set after 50, 100, … evaluations, - where there is none."""
    best, sizes = "-", []
    for number, (rows, logit) in enumerate(why.evaluated, 1):
        if flips(why.original, logit) and (best == "-" or len(rows) < int(best)):
            best = str(len(rows))
        if number in CUTS:
            sizes.append(best)
    return " ".join(sizes + [best] * (len(CUTS) - len(sizes)))


def measure(model, graph, query: Query, options):
    begun = time.process_time()
    why = cody.explain(model, graph, query, **options)
    seconds = time.process_time() - begun
    return len(why.candidates), why.evaluations, size_of(why), f"{seconds:.4f}", curve_of(why)


def run(options):
    done = {(line["data"], line["model"], line["event"], line["choice"]) for line in read(options.out)}
    wanted = options.choices.split(",") if options.choices else None
    every = list(settings(options, seed=options.seed, order=options.seed))
    is_new = not options.out.exists()
    with options.out.open("a", newline="") as file:
        out = csv.writer(file, lineterminator="\n")
        if is_new:
            out.writerow(FIELDS)
        for start in range(0, options.links, AT_A_TIME):
            for data, kind, predictions, graph, model, rows in every:
                for row in rows[start : start + AT_A_TIME]:
                    for name, given in (LONG if options.long else choices(model)).items():
                        if (data, kind, str(row), name) in done or (wanted and name not in wanted):
                            continue
                        line = measure(model, graph, graph.query(row), given)
                        out.writerow((data, kind, predictions, row, name, *line))
                        file.flush()
                print(data, kind, predictions, start + AT_A_TIME, file=sys.stderr, flush=True)


def score(size: str) -> float:
    """max(0, 1 - size / 64); 0 without an answer. It does not depend on how many candidates there are."""
    return max(0.0, 1 - int(size) / SIZE) if size not in ("", "-") else 0.0


def by_setting(lines, data, *, long=False):
    """Setting → choice → lines, in the same order, of the links that every choice has."""
    found = {}
    for line in lines:
        if line["data"] == data and (line["choice"] in LONG) == long:
            setting = found.setdefault((line["model"], line["predictions"]), {})
            setting.setdefault(line["choice"], {})[line["event"]] = line
    for choice in found.values():
        common = set.intersection(*(set(each) for each in choice.values()))
        for name, each in choice.items():
            choice[name] = [each[event] for event in sorted(common)]
    return found


def _is_measured(lines, data, names):
    """Whether there are lines of all of these choices."""
    return set(names) <= {line["choice"] for line in lines if line["data"] == data}


def mean_over(found, name, value):
    return float(np.mean([np.mean([value(line) for line in choice[name]]) for choice in found.values()]))


def difference(found, name, base):
    """Mean over settings of the paired difference in score, and its bootstrap interval."""
    rng = np.random.default_rng(0)
    drawn, means = [], []
    for choice in found.values():
        pairs = zip(choice[name], choice[base], strict=True)
        gaps = np.array([score(one["size"]) - score(other["size"]) for one, other in pairs])
        means.append(gaps.mean())
        drawn.append(gaps[rng.integers(len(gaps), size=(4000, len(gaps)))].mean(axis=1))
    return float(np.mean(means)), within(np.mean(drawn, axis=0))


def table(lines, data):
    """One row for each choice: answered / score in each setting, the mean, and the difference to the old candidates."""
    found = by_setting(lines, data)
    names = [name for name in next(iter(found.values())) if name not in (CODY, GREEDY)]
    heads = [f"{model.upper()}, {KINDS[predictions]}" for model, predictions in found]
    links = " + ".join(str(len(choice[names[0]])) for choice in found.values())
    yield f"{links} links, answered / score:"
    yield ""
    yield f"| candidates | {' | '.join(heads)} | mean | score less that of {OLD!r} |"
    yield "|---" * (len(heads) + 3) + "|"
    for name in names:
        cells = [
            f"{np.mean([line['size'] != '' for line in choice[name]]):.2f} / "
            f"{np.mean([score(line['size']) for line in choice[name]]):.3f}"
            for choice in found.values()
        ]
        mean = f"**{_answered_and_score(found, name)}**"
        gap, (low, high) = difference(found, name, OLD)
        last = "" if name == OLD else f"{gap:+.3f} ({low:+.3f} to {high:+.3f})"
        yield f"| {name} | {' | '.join(cells)} | {mean} | {last} |"


def compared(lines, every):
    """The default beside the searches of the paper with its candidates: one row each, means over settings."""
    found = {data: by_setting(lines, data) for data in every}
    together = {(data, *setting): choice for data, some in found.items() for setting, choice in some.items()}
    yield f"| | {' | '.join(every)} | mean | score less that of CoDy | sets evaluated |"
    yield "|---" * (len(every) + 4) + "|"
    for name, title in COMPARED.items():
        cells = [_answered_and_score(some, name) for some in (*found.values(), together)]
        gap, (low, high) = difference(together, name, CODY)
        last = "" if name == CODY else f"{gap:+.3f} [{low:+.3f}, {high:+.3f}]"
        evaluated = mean_over(together, name, lambda line: int(line["evaluations"]))
        yield f"| {title} | {' | '.join(cells)} | {last} | {evaluated:.0f} |"


def _answered_and_score(found, name):
    share = mean_over(found, name, lambda line: line["size"] != "")
    return f"{share:.2f} / {mean_over(found, name, lambda line: score(line['size'])):.3f}"


def cost(lines, data):
    """Processor time of the default against the old candidates on the same links: median and mean."""
    found = by_setting(lines, data)
    yield "| setting | median, default / old | mean, default / old | evaluations, default / old |"
    yield "|---|---|---|---|"
    for (model, predictions), choice in found.items():
        yield _cost_row(f"{model.upper()}, {KINDS[predictions]}", [choice])
    for model in dict.fromkeys(model for model, _ in found):
        yield _cost_row(f"**{model.upper()}**", [choice for (kind, _), choice in found.items() if kind == model])
    yield _cost_row("**all**", found.values())


def _cost_row(title, choices):
    """Of some settings together."""
    every = {name: [line for choice in choices for line in choice[name]] for name in (DEFAULT, OLD)}
    seconds = {name: [float(line["seconds"]) for line in some] for name, some in every.items()}
    median, mean = (of(seconds[DEFAULT]) / of(seconds[OLD]) for of in (np.median, np.mean))
    new, old = (np.mean([int(line["evaluations"]) for line in some]) for some in every.values())
    return f"| {title} | {median:.1f}x | {mean:.1f}x | {new:.0f} / {old:.0f} |"


def curve(lines, data):
    """Share answered and score against the number of evaluations."""
    found = by_setting(lines, data, long=True)
    yield "| candidates | " + " | ".join(f"{cut:,}" for cut in CUTS) + " |"
    yield "|---" * (len(CUTS) + 1) + "|"
    for name in LONG if found else ():
        yield f"| {name} | {' | '.join(_curve_cell(found, name, place) for place in range(len(CUTS)))} |"


def _curve_cell(found, name, place):
    def size(line):
        return line["curve"].split()[place]

    share = mean_over(found, name, lambda line: size(line) != "-")
    return f"{share:.2f} / {mean_over(found, name, lambda line: score(size(line))):.3f}"


def main():
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--links", type=int, default=60, help="of each kind")
    arguments.add_argument("--data", default="collegemsg,uci-forums,wikipedia")
    arguments.add_argument("--models", type=Path, default=Path("runs"))
    arguments.add_argument("--seed", type=int, default=2025)
    arguments.add_argument("--choices", default="", help="names, separated by commas; all by default")
    arguments.add_argument("--out", type=Path, default=RESULTS)
    arguments.add_argument("--long", action="store_true", help="only the searches with 3,000 evaluations")
    arguments.add_argument("--tables", action="store_true", help="only write the tables")
    options = arguments.parse_args()
    if not options.tables:
        run(options)
    lines, every = read(options.out), options.data.split(",")
    for title, part in {"candidates": table, "curve": curve, "cost": cost}.items():
        measured = [data for data in every if _is_measured(lines, data, LONG if part is curve else (DEFAULT, OLD))]
        text = "\n\n".join("\n".join([f"*{data}*", "", *part(lines, data)]) for data in measured)
        print(text, "", sep="\n")
        if options.out == RESULTS:  # the page shows these, whatever else is measured
            replace_section(PAGE, title, f"\n{text}\n")
    if options.out == RESULTS:
        replace_section(DOCS.parent / "results" / "laboratory.md", "default", "\n".join(compared(lines, every)))


if __name__ == "__main__":
    main()
