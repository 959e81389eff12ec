"""Why CoDy is ahead of GreeDy in the paper and behind it here: answers or models? Both exchanged, on the same protocol.

    python reproduce/order.py --links 100 --models runs

- *Answers* of a model: exact, or as the published code asked (`published.py`); the latter differ for a TGN only.
- *Models*: trained as usual here (`tgn-uci-forums`, …), or as published (`published-tgn-uci-forums`, …):

    cody train --data collegemsg --model tgn --epochs 2 --batch 32 --learning-rate 0.0001 --learn-frequencies \\
      --freeze-memory --out runs/published-tgn-collegemsg

Links between 20 % and 60 % of the events, logits at least 0.2 away from 0, 64 candidates among nodes, 300 iterations.
Writes results/order.csv, one line for each link and explainer: first a few links of each setting, then more; goes on
where it was if interrupted. `--tables` asks nothing, and puts the tables into results/laboratory.md.
"""

import argparse
import csv
import json
import os
import sys
from functools import cache, partial
from pathlib import Path

os.environ.setdefault("OMP_NUM_THREADS", "1")

import numpy as np
from claims import ratio, with_interval
from lines import read
from page import replace_section
from published import PublishedAnswers

import cody
from cody.errors import ModelError
from cody.graph.neighbourhood import candidates, events_among_nodes
from cody.models.folder import find_model
from cody.models.margins import flips
from cody.search import cody as tree_search
from cody.search import greedy
from cody.search.oracle import Oracle
from cody.search.policies import event_impact, spatio_temporal
from cody.study.instances import PAPER_MARGIN, PAPER_PERIOD, sample_kinds
from cody.study.metrics import draws, within

SEARCHES = {"cody": tree_search, "greedy": greedy}
POLICIES = {"spatio-temporal": spatio_temporal, "event-impact": event_impact}
EXACT, PUBLISHED = "exact", "as published"
HERE = "here"  # how a model was trained, or as published
DATA = ("collegemsg", "uci-forums")
KINDS = ("correct", "incorrect")
SHIPPED = "collegemsg"
FIELDS = (
    *("data", "model", "trained", "answers", "predictions", "event", "search", "policy"),
    *("candidates", "asked", "rows", "claimed", "flips"),
)
SETTING = ("model", "trained", "answers", "data", "predictions")
AT_A_TIME = 5  # links of a setting
LINES = Path("results/order.csv")
NEAREST = "spatio-temporal"
SAMPLES = 2000


def folder_of(models, kind, trained, data):
    name = f"{kind}-{data}"
    if trained == PUBLISHED:
        return models / f"published-{name}"
    return models / name if (models / name).exists() or data != SHIPPED else name


def is_there(*which):
    """Whether a model has been trained; if not, its cells are left out."""
    try:
        return bool(find_model(folder_of(*which)))
    except ModelError as error:
        print(error, file=sys.stderr)
        return False


def answering(model, answers, search):
    """The model as that search asks it."""
    return model if answers == EXACT else PublishedAnswers(model, by_step=search == "greedy")


def explain(model, answers, row, search, policy, known):
    """The columns of one explanation: its set, whether it changed the decision as asked, and whether exactly.

    `known`: what was answered about this link before. Questions of GreeDy have answers of their own where they are as
    published.
    """
    graph, query = model.graph, model.graph.query(row)
    events = candidates(graph, query, model.hops, 64, near=events_among_nodes)
    shared = {} if answers == PUBLISHED and search == "greedy" else known.setdefault(answers, {})
    oracle = Oracle(answering(model, answers, search), query, rows=events.tolist(), answers=shared)
    ranking = POLICIES[policy](graph, query, events, oracle, np.random.default_rng(0))
    found = SEARCHES[search](oracle, ranking)
    claimed = frozenset(found.rows) in dict(found.counterfactuals)
    original, without = model.logits(query, [frozenset(), frozenset(found.rows)])
    rows = " ".join(map(str, sorted(found.rows)))
    return len(events), len(oracle.evaluated), rows, int(claimed), int(flips(original, without))


class Setting:
    """A model, its answers, and the links to explain, in an order in which the first ones are any of them."""

    def __init__(self, options, kind, trained, data):
        graph = cody.load(data)
        self.names = {"data": data, "model": kind, "trained": trained}
        self.model = cody.load_model(folder_of(options.models, kind, trained, data), graph)
        drawn = partial(sample_kinds, period=PAPER_PERIOD, margin=PAPER_MARGIN)
        rng = np.random.default_rng(1)
        found = drawn(self.model, graph, options.links, KINDS)
        self.links = {predictions: rng.permutation(found[predictions]).tolist() for predictions in KINDS}
        self.answers = [EXACT] if kind == "tgat" else [EXACT, PUBLISHED]
        self.policies = options.policies.split(",")

    def explanations(self, first, done):
        """The lines of the next links that are not among `done`."""
        for predictions in KINDS:
            for row in self.links[predictions][first : first + AT_A_TIME]:
                known = {}
                for answers in self.answers:
                    for search in SEARCHES:
                        for policy in self.policies:
                            what = {"answers": answers, "predictions": predictions, "event": row}
                            line = self.names | what | {"search": search, "policy": policy}
                            if key_of(line) not in done:
                                found = explain(self.model, answers, row, search, policy, known)
                                yield line | dict(zip(FIELDS[8:], found, strict=True))


def key_of(line):
    return tuple(str(line[name]) for name in FIELDS[:8])


def run(options):
    done = {key_of(line) for line in read(options.out)}
    wanted = [
        (kind, trained, data)
        for kind in options.kinds.split(",")
        for trained in (HERE, PUBLISHED)
        for data in options.data.split(",")
        if is_there(options.models, kind, trained, data)
    ]
    setting = cache(partial(Setting, options))
    with options.out.open("a", newline="") as file:
        out = csv.DictWriter(file, FIELDS, lineterminator="\n")
        if not file.tell():
            out.writeheader()
        for first in range(0, options.links, AT_A_TIME):
            for which in wanted:
                for line in setting(*which).explanations(first, done):
                    out.writerow(line)
                    file.flush()
                print(*which, first + AT_A_TIME, file=sys.stderr, flush=True)


def settings(lines):
    """Setting → (search, policy) → the lines of the links that both searches explained, in the same order."""
    found = {}
    for line in lines:
        of_setting = found.setdefault(tuple(line[name] for name in SETTING), {})
        of_setting.setdefault((line["search"], line["policy"]), {})[int(line["event"])] = line
    whole = {}
    for setting, explainers in found.items():
        for policy in POLICIES:
            both = {search: explainers.get((search, policy), {}) for search in SEARCHES}
            events = sorted(set.intersection(*map(set, both.values())))
            if events:
                lines_of = {(search, policy): [of[event] for event in events] for search, of in both.items()}
                whole.setdefault(setting, {}).update(lines_of)
    return whole


def scores(lines, column):
    """AUFSC+ of each link; `column`: what counts as a change of the decision. [n]"""
    sizes = np.array([len(line["rows"].split()) / max(1, int(line["candidates"])) for line in lines])
    return np.array([int(line[column]) for line in lines]) * (1 - sizes)


def gaps(of, policy, column):
    """CoDy's AUFSC+ less GreeDy's, for each link of a setting. [n]"""
    tree, walk = (scores(of[search, policy], column) for search in SEARCHES)
    return tree - walk


def sampled(values, rng):
    """Means of samples of the links. [S]"""
    return np.concatenate([counts @ values / counts.sum(axis=1) for counts in draws(len(values), SAMPLES, rng)])


def compared(whole, policy, column):
    """Means over settings: CoDy's AUFSC+, GreeDy's, their difference and its interval (paired, over links)."""
    rng = np.random.default_rng(0)
    some = _with(whole, policy)
    tree, walk = (np.mean([scores(of[search, policy], column).mean() for of in some]) for search in SEARCHES)
    drawn = np.mean([sampled(gaps(of, policy, column), rng) for of in some], axis=0)
    return float(tree), float(walk), float(tree - walk), within(drawn)


def moved(whole, before, after, policy):
    """By how much CoDy − GreeDy differs between two cells, and the interval; links that both have are paired."""
    rng = np.random.default_rng(0)
    values, drawn = [], []
    for setting in dict.fromkeys(name[3:] for name in whole):
        pair = [whole.get((*cell, *setting), {}) for cell in (before, after)]
        if len(_with(dict(enumerate(pair)), policy)) < 2:
            continue
        one, other = (gaps(of, policy, "flips") for of in pair)
        if before[:2] == after[:2]:  # the same model, so the same links
            events = [[line["event"] for line in of["cody", policy]] for of in pair]
            places = [[of.index(event) for event in events[0] if event in events[1]] for of in events]
            one, other = one[places[0]], other[places[1]]
            drawn.append(sampled(other - one, rng))
        else:
            drawn.append(sampled(other, rng) - sampled(one, rng))
        values.append(other.mean() - one.mean())
    return (float(np.mean(values)), within(np.mean(drawn, axis=0))) if values else None


def _with(whole, policy):
    """The settings in which that policy was tried."""
    return [of for of in whole.values() if all((search, policy) in of for search in SEARCHES)]


def refuted(whole, search):
    """Of the counterfactuals that a search claims, the share that does not change the decision; and how many."""
    claims = [
        line for of in whole.values() for name in of if name[0] == search for line in of[name] if line["claimed"] == "1"
    ]
    return (float(np.mean([line["flips"] == "0" for line in claims])), len(claims)) if claims else (0.0, 0)


def asked(whole, search, policy):
    return float(np.mean([int(line["asked"]) for of in _with(whole, policy) for line in of[search, policy]]))


def cells(whole):
    """(model, trained, answers) → its settings, in the order of the table: those that all cells of a model have."""
    found = {}
    for kind in ("tgn", "tgat"):
        for trained in (HERE, PUBLISHED):
            for answers in (EXACT, PUBLISHED):
                some = {name[3:]: of for name, of in whole.items() if name[:3] == (kind, trained, answers)}
                if some:
                    found[kind, trained, answers] = some
    common = {
        kind: set.intersection(*(set(some) for cell, some in found.items() if cell[0] == kind)) for kind, *_ in found
    }
    return {
        cell: {(*cell, *setting): of for setting, of in some.items() if setting in common[cell[0]]}
        for cell, some in found.items()
    }


def table(whole):
    yield (
        "| model | trained | answers | links | policy | CoDy | GreeDy | CoDy − GreeDy | in percent "
        "| as counted there | sets asked |"
    )
    yield "|---" * 11 + "|"
    for (kind, trained, answers), some in cells(whole).items():
        for policy in (policy for policy in POLICIES if _with(some, policy)):
            links = sum(len(of["cody", policy]) for of in _with(some, policy))
            tree, walk, *gap = compared(some, policy, "flips")
            percent, there = f"{100 * (tree / walk - 1):+.0f}" if walk else "–", "–"
            if answers == PUBLISHED:
                there = with_interval(*compared(some, policy, "claimed")[2:])
            questions = " / ".join(f"{asked(some, search, policy):.0f}" for search in SEARCHES)
            yield (
                f"| {kind.upper()} | {trained} | {answers} | {links} | {policy} | {tree:.3f} | {walk:.3f} | "
                f"{with_interval(*gap)} | {percent} | {there} | {questions} |"
            )


def remarks(whole, models):
    """What else the lines say: what answers and models change, claims that are wrong, how good the models are."""
    for kind in ("tgn", "tgat"):
        data = dict.fromkeys(name[3] for cell, some in cells(whole).items() if cell[0] == kind for name in some)
        if data:
            yield f"- {kind.upper()}: {' and '.join(data)}, correct and incorrect predictions."
    for policy in POLICIES:
        for what, change in changes(whole, policy).items():
            yield f"- {policy}, CoDy − GreeDy changes by {with_interval(*change)} with {what}."
    for (kind, trained, answers), some in cells(whole).items():
        if answers == PUBLISHED:
            shares = {search: refuted(some, search) for search in SEARCHES}
            words = ", ".join(f"{100 * share:.0f} % of {count} ({search})" for search, (share, count) in shares.items())
            yield f"- {kind.upper()} trained {trained}: counterfactuals that do not change the decision: {words}."
    yield f"- Average precision of the models (all test links / those of unseen nodes): {'; '.join(qualities(models))}."


def changes(whole, policy):
    """What exchanging answers, models or both does to CoDy − GreeDy, in the settings that all cells have."""
    whole = {name: of for some in cells(whole).values() for name, of in some.items()}
    ours, theirs = (HERE, EXACT), (PUBLISHED, PUBLISHED)
    steps = {
        "answers as published (TGN trained here)": ("tgn", ours, (HERE, PUBLISHED)),
        "answers as published (TGN trained as published)": ("tgn", (PUBLISHED, EXACT), theirs),
        "TGN trained as published (exact answers)": ("tgn", ours, (PUBLISHED, EXACT)),
        "both (TGN)": ("tgn", ours, theirs),
        "TGAT trained as published": ("tgat", ours, (PUBLISHED, EXACT)),
    }
    found = {what: moved(whole, (kind, *one), (kind, *two), policy) for what, (kind, one, two) in steps.items()}
    return {what: change for what, change in found.items() if change is not None}


def finding(whole):
    """The answer in three sentences."""
    here, there = (cells(whole).get(("tgn", *cell)) for cell in ((HERE, EXACT), (PUBLISHED, PUBLISHED)))
    if not (here and there):
        return
    change = changes(whole, NEAREST)
    gap, both = (compared(some, NEAREST, "flips")[2:] for some in (here, there))
    counted = compared(there, NEAREST, "claimed")[2:]
    data = " and ".join(dict.fromkeys(name[3] for name in here))
    number = [sum(len(of["cody", NEAREST]) for of in _with(some, NEAREST)) for some in (here, there)]
    yield (
        f"CoDy − GreeDy (TGN of compact sizes, {data}, {NEAREST}, AUFSC+, 95 % intervals) is {with_interval(*gap)} "
        f"with our models and exact answers ({number[0]} links)."
    )
    parts = [
        f"{with_interval(*value)} with {what}" for what, value in change.items() if "TGN" in what and "both" not in what
    ]
    yield f"It changes by {', by '.join(parts)}."
    if both[1].low > 0 and counted[1].low > 0:
        result = "so the two together put CoDy ahead, as in the paper"
    elif change["both (TGN)"][1].low > 0 and both[0] > 0 and counted[0] > 0:
        result = "so the two together turn the order round, and so few links leave open by how much"
    elif change["both (TGN)"][1].low > 0:
        result = "so the two together explain a part of the paper's order, and do not put CoDy ahead"
    else:
        result = "so neither of them, nor both, is shown to be the cause of the paper's order"
    yield (
        f"With both as published it is {with_interval(*both)}, or {with_interval(*counted)} if every counterfactual "
        f"counts that was claimed ({number[1]} links): {result}."
    )


def causes(path=LINES):
    """What the lines say about claims of the paper, for `claims.py`: by name of the cause."""
    whole = settings(read(path))
    of_tgn = {name[1:]: some for name, some in cells(whole).items() if name[0] == "tgn" and _with(some, NEAREST)}
    found = {"order": _of_order(of_tgn, changes(whole, NEAREST).get("both (TGN)"))}
    if len(of_tgn) == 4:
        found |= {"calls": _of_calls(of_tgn), "kinds": _of_kinds(of_tgn), "policies": _of_policies(of_tgn)}
    return {name: text for name, text in found.items() if text}


def _of_order(of_tgn, change):
    """`change`: of CoDy − GreeDy with both as published; None if that was not measured."""
    if change is None:
        return None
    ours, theirs = (compared(of_tgn[cell], NEAREST, "flips")[2:] for cell in ((HERE, EXACT), (PUBLISHED, PUBLISHED)))
    what = "approximate answers and other models" if change[1].low > 0 else "not shown to be answers and models"
    return (
        f"{what}: CoDy − GreeDy (TGN, compact) is {with_interval(*ours)} with exact answers and our models, "
        f"{with_interval(*theirs)} with both as published ([measured](#why-the-order-is-another-one))"
    )


def _of_calls(of_tgn):
    sets = {cell: asked(some, "greedy", NEAREST) for cell, some in of_tgn.items()}
    words = "; ".join(f"trained {trained}, answers {answers} {count:.0f}" for (trained, answers), count in sets.items())
    gets = "gets" if sets[PUBLISHED, PUBLISHED] < sets[HERE, EXACT] else "does not get"
    return (
        f"GreeDy {gets} stuck earlier with answers and models as published: sets that GreeDy-{NEAREST} asks about "
        f"(TGN, other links): {words}"
    )


def _of_kinds(of_tgn):
    ratios = {trained: _ratio(some) for (trained, answers), some in of_tgn.items() if answers == EXACT}
    if None in ratios.values():
        return None
    whose = "The models do it" if ratios[PUBLISHED] > 2 else "Training as published does not change that"
    words = ", ".join(f"trained {trained} {times:.1f}" for trained, times in ratios.items())
    return f"{whose}: CoDy, TGN, {SHIPPED} {words}"


def _of_policies(of_tgn):
    leads = {cell: between_policies(some) for cell, some in of_tgn.items()}
    if None in leads.values():
        return None
    brings = "bring" if leads[PUBLISHED, PUBLISHED][1].low > 0 else "do not bring"
    words = "; ".join(f"trained {of[0]}, answers {of[1]} {with_interval(*lead)}" for of, lead in leads.items())
    return f"Answers and models as published {brings} the lead (TGN, compact): {words}"


def between_policies(some):
    """CoDy on incorrect predictions: AUFSC+ with event-impact less that with spatio-temporal, and its interval."""
    rng = np.random.default_rng(0)
    values, drawn = [], []
    for of in (of for setting, of in some.items() if setting[4] == "incorrect"):
        if all(("cody", policy) in of for policy in POLICIES):
            nearest, impact = (
                dict(zip((line["event"] for line in lines), scores(lines, "flips"), strict=True))
                for lines in (of["cody", policy] for policy in POLICIES)
            )
            gap = np.array([impact[event] - nearest[event] for event in impact if event in nearest])
            values.append(gap.mean())
            drawn.append(sampled(gap, rng))
    return (float(np.mean(values)), within(np.mean(drawn, axis=0))) if values else None


def _ratio(some):
    """How many times as often CoDy changes incorrect predictions as correct ones, where the claim is about the data."""
    shares = {
        setting[4]: np.mean([line["flips"] == "1" for line in of["cody", NEAREST]])
        for setting, of in some.items()
        if setting[3] == SHIPPED and ("cody", NEAREST) in of
    }
    if len(shares) < len(KINDS):
        return None
    return ratio(*(float(shares[kind]) for kind in KINDS))


def qualities(models):
    for kind in ("tgn", "tgat"):
        for trained in (HERE, PUBLISHED):
            for data in (data for data in DATA if is_there(models, kind, trained, data)):
                with_name = json.loads((find_model(folder_of(models, kind, trained, data)) / "model.json").read_text())
                test = with_name["origin"]["test"]
                precision = [100 * test[name] for name in ("average_precision", "inductive_average_precision")]
                yield f"{kind.upper()} {trained}, {data} {precision[0]:.1f} / {precision[1]:.1f}"


def main():
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--links", type=int, default=100, help="of each kind of prediction")
    arguments.add_argument("--data", default=",".join(DATA))
    arguments.add_argument("--kinds", default="tgn,tgat")
    arguments.add_argument("--policies", default=",".join(POLICIES))
    arguments.add_argument("--models", type=Path, default=Path("runs"))
    arguments.add_argument("--out", type=Path, default=LINES)
    arguments.add_argument("--page", type=Path, default=Path("results/laboratory.md"), help="its section is replaced")
    arguments.add_argument(
        "--tables", action="store_true", help="ask nothing; put the tables of what is there on the page"
    )
    options = arguments.parse_args()
    if not options.tables:
        run(options)
        return
    whole = settings(read(options.out))
    replace_section(options.page, "finding", " ".join(finding(whole)))
    replace_section(options.page, "order", "\n".join([*table(whole), "", *remarks(whole, options.models)]))


if __name__ == "__main__":
    main()
