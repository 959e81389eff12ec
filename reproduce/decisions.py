"""How many questions have an answer for each kind of decision, how large is it, and how long does it take?

    cody train --data bitcoin-otc --model tgat --task label --batch 100 --learning-rate 0.001 --epochs 12 \\
        --patience 3 --out runs/tgat-bitcoin-otc
    python reproduce/decisions.py --models runs

asks the shipped models of collegemsg (links) and bitcoin-otc (labels), and the TGAT of bitcoin-otc that the first
command trains. For each kind of decision, 100 events of the test period for which the decision is positive (a link
above the threshold, in the top 10, preferred; the label distrust) and 100 for which it is not. Every answer is verified
by replay, or the script fails. Where the decision is not positive, a second search may add and move events, too
(`--why-not`).

Writes results/decisions.csv, one line for each question, and the table of docs/questions/ranking.md. Rerun to resume:
first a few questions of each setting, then more. `--tables` only writes the table.
"""

import argparse
import csv
import os
import sys
import time
from itertools import product
from pathlib import Path

os.environ.setdefault("OMP_NUM_THREADS", "1")

import numpy as np
from lines import read
from page import replace_section

import cody
from cody.models.contract import logits_of_links
from cody.models.decided import decide, decision_of
from cody.models.margins import flips
from cody.search.proposals import additions, moves, removals
from cody.study.instances import TEST_PERIOD, rows_of

QUESTION = ("data", "model", "decision", "positive", "edits", "event")
FIELDS = (*QUESTION, "margin", "size", "rank", "rank_after", "evaluations", "seconds", "unit")
EDITS = {"removals": (removals,), "removals, additions, moves": (removals, additions, moves)}
RESULTS = Path("results/decisions.csv")
PAGE = Path(__file__).parents[1] / "docs" / "questions" / "ranking.md"
AT_A_TIME = 5  # questions of a setting
UNIT = "above 0.5"  # its positive questions are the measure of all CPU times
IN_A_UNIT = 20  # questions
BEST = 10


def preferred(model, graph, query):
    """Rather than one of the ten others that rank highest for the source, drawn by chance."""
    rivals = cody.in_top(BEST).rivals(graph, query)
    scores = logits_of_links(model, [query._replace(dst=rival) for rival in rivals.tolist()])
    best = rivals[np.argsort(-np.array(scores), kind="stable")[:BEST]]
    return cody.rather_than(graph.name(int(np.random.default_rng(query.before).choice(best))))


OF_LINKS = {
    "above 0.5": lambda *_: cody.above(0.5),
    "above 0.8": lambda *_: cody.above(0.8),
    "in the top 10": lambda *_: cody.in_top(10),
    "rather than": preferred,
    "between -1 and 1": lambda *_: cody.between(-1, 1),  # of the logit: the model is undecided
}
OF_LABELS = {
    "above 0.5": lambda *_: cody.above(0.5),
    "above 0.2": lambda *_: cody.above(0.2),
    "labelled": lambda *_: cody.labelled("distrust"),  # at the threshold that the model proposes
}
KINDS = {"collegemsg": OF_LINKS, "bitcoin-otc": OF_LABELS}


def models(folder, names):
    """Name of data, of architecture, graph and model."""
    for data in names:
        graph = cody.load(data)
        for architecture in ("tgn", "tgat"):
            name = f"{architecture}-{data}"
            is_shipped = (data, architecture) != ("bitcoin-otc", "tgat")
            yield data, architecture, graph, cody.load_model(name if is_shipped else folder / name, graph)


def questions(model, graph, decide_by, count, seed):
    """Up to `count` events for which the decision is positive, and as many for which it is not, with the decision."""
    found = {True: [], False: []}
    for row in np.random.default_rng(seed).permutation(np.array(rows_of(TEST_PERIOD, graph))).tolist():
        query = graph.query(row)
        chosen = decide_by(model, graph, query)
        decided = decide(model, graph, query, decision_of(model, query, chosen))
        margin = float(decided.logits(query, [frozenset()])[0])
        if len(found[margin > 0]) < count:
            found[margin > 0].append((row, chosen))
        if min(map(len, found.values())) == count:
            break
    return found


def measure(model, graph, query, decision, edits):
    begun = time.process_time()  # other programs may run beside this one
    why = cody.explain(model, graph, query, decision=decision, edits=edits)
    seconds = time.process_time() - begun
    if why.is_counterfactual:
        assert why.verification.by.startswith("by replay"), why.verification
        assert flips(why.verification.original, why.verification.without), why
        assert flips(why.original, why.without), why
    ranks = [standing.rank for standing in why.standings if standing is not None] or [""]
    size = len(why.rows) if why.is_counterfactual else ""
    return f"{why.original:.4f}", size, ranks[0], ranks[-1], why.evaluations, f"{seconds:.4f}"


def unit_of(model, graph, seed):
    """Median CPU seconds of a few plain questions: lines of several runs, or machines, compare by it."""
    asked = questions(model, graph, OF_LINKS[UNIT], IN_A_UNIT, seed)[True]
    taken = [measure(model, graph, graph.query(row), decision, (removals,))[-1] for row, decision in asked]
    return f"{np.median([float(seconds) for seconds in taken]):.4f}"


def run(options):
    done = {tuple(line[name] for name in QUESTION) for line in read(options.out)}
    every = [
        (data, architecture, name, positive, graph, model, asked)
        for data, architecture, graph, model in models(options.models, options.data)
        for name, decide_by in KINDS[data].items()
        for positive, asked in questions(model, graph, decide_by, options.questions, options.seed).items()
    ]
    print(f"{sum(len(each[-1]) for each in every):,} questions drawn", file=sys.stderr, flush=True)
    units = {each[:2]: unit_of(each[5], each[4], options.seed) for each in every if each[2] == UNIT and each[3]}
    is_new = not options.out.exists()
    with options.out.open("a", newline="") as file:
        out = csv.writer(file, lineterminator="\n")
        if is_new:
            out.writerow(FIELDS)
        for start, allowed in product(range(0, options.questions, AT_A_TIME), EDITS):
            for data, architecture, name, positive, graph, model, asked in every:
                if positive and EDITS[allowed] != (removals,):
                    continue  # what is predicted is seldom a question of what did not happen
                for row, decision in asked[start : start + AT_A_TIME]:
                    key = data, architecture, name, "yes" if positive else "no", allowed, str(row)
                    if key not in done:
                        figures = measure(model, graph, graph.query(row), decision, EDITS[allowed])
                        out.writerow((*key, *figures, units[data, architecture]))
                        file.flush()
            print(allowed, start + AT_A_TIME, file=sys.stderr, flush=True)


def table(lines):
    """One row for each model, kind of decision, and whether it is positive."""
    figures = "answered | median size | CPU time | with additions and moves"
    yield f"| data | model | decision | | questions | {figures} |"
    yield "|---|---|---|---|---|---|---|---|---|"
    by_setting = {}
    for line in lines:
        key = line["data"], line["model"], line["decision"], line["positive"]
        by_setting.setdefault(key, {}).setdefault(line["edits"], []).append(line)
    for data, model in product(KINDS, ("tgn", "tgat")):
        for decision, positive in product(KINDS[data], ("yes", "no")):
            by_edits = by_setting.get((data, model, decision, positive), {})
            removed, more = (by_edits.get(allowed, []) for allowed in EDITS)
            if removed:
                further = "" if not more else "{} / {} / {}".format(*_figures(more))
                answered, size, cost = _figures(removed)
                case = f"{data} | {model.upper()} | {decision} | {'is' if positive == 'yes' else 'is not'}"
                yield f"| {case} | {len(removed)} | **{answered}** | {size} | {cost} | {further} |"


def _figures(lines):
    """Share of questions answered, median size of the answers, median CPU time of all questions in units."""
    sizes = [int(line["size"]) for line in lines if line["size"]]
    cost = np.median([float(line["seconds"]) / float(line["unit"]) for line in lines])
    size = f"{np.median(sizes):g}" if sizes else "–"
    return f"{100 * len(sizes) / len(lines):.0f} %", size, f"{cost:.1f}" if cost < 10 else f"{cost:.0f}"


def main():
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--questions", type=int, default=100, help="of each kind of decision, positive or not")
    arguments.add_argument("--models", type=Path, default=Path("runs"))
    arguments.add_argument("--data", nargs="+", choices=list(KINDS), default=list(KINDS), help="only these")
    arguments.add_argument("--seed", type=int, default=29)
    arguments.add_argument("--out", type=Path, default=RESULTS)
    arguments.add_argument("--tables", action="store_true", help="only write the table")
    options = arguments.parse_args()
    if not options.tables:
        run(options)
    text = "\n".join(table(read(options.out)))
    print(text)
    if options.out == RESULTS:
        replace_section(PAGE, "decisions", f"\n{text}\n")


if __name__ == "__main__":
    main()
