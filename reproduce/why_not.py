"""How many questions have an answer: with removals only, and with events that could have happened otherwise?

    python reproduce/why_not.py --links 40 --models runs

For each data set and model, links of the test period that happened: those that the model predicts, and those that it
does not ("no link", where the question is: why not?). Writes results/why_not.json and prints the table of
docs/decisions/why_not.md; resumes if interrupted. `collegemsg` has models that come with the package. The candidates
are the paper's, and Scout takes 300 evaluations or 236 more than there are edits.
"""

import argparse
import json
import sys
import time
from pathlib import Path

import numpy as np
from variants import thorough_scout

import cody
from cody.explaining.explanation import ADDED, MOVED, REMOVED
from cody.graph.neighbourhood import events_on_paths
from cody.search.proposals import additions, moves, removals
from cody.study.instances import sample_kinds
from cody.utils.files import write_atomically

ALLOWED = {"remove": (removals,), "remove, add, move": (removals, additions, moves)}
SHIPPED = ("collegemsg",)
AS_IN_THE_PAPER = {"size": 64, "near": events_on_paths, "search": thorough_scout}


def measure(model, graph, rows, edits):
    seconds, answers = [], []
    for row in rows:
        begun = time.process_time()  # other programs may run beside this one
        answers.append(cody.explain(model, graph, graph.query(row), edits=edits, **AS_IN_THE_PAPER))
        seconds.append(time.process_time() - begun)
    found = [why for why in answers if why.is_counterfactual]
    kinds = [{event.edit for event, _ in why.steps} for why in found]
    windows = [why.window for why in found if why.window is not None]
    return {
        "links": len(rows),
        "answered": len(found),
        "by removals": sum(kind == {REMOVED} for kind in kinds),
        "by an addition": sum(ADDED in kind for kind in kinds),
        "by a move": sum(MOVED in kind and ADDED not in kind for kind in kinds),
        "of one edit": sum(len(why.rows) == 1 for why in found),
        "mean edits": float(np.mean([len(why.rows) for why in found])) if found else None,
        "median days": _days([why.query.time - why.window.first for why in found if why.window is not None]),
        "times tried": float(np.mean([window.tried for window in windows])) if windows else None,
        "evaluations": float(np.mean([why.evaluations for why in answers])),
        "median seconds": float(np.median(seconds)),
        "slowest seconds": float(np.max(seconds)),
        "unanswered": [row for row, why in zip(rows, answers, strict=True) if not why.is_counterfactual],
    }


def _days(ages):
    return float(np.median(ages)) / 86_400 if ages else None


def table(entries):
    """One line for each model and kind of prediction: removals only, and all edits."""
    answered = "removals only | with additions and moves | of one edit | by removals / addition / move"
    yield f"| data | model | prediction | {answered} | time |"
    yield "|---|---|---|---|---|---|---|---|"
    for before, after in zip(entries[::2], entries[1::2], strict=True):
        case = f"{after['data']} | {after['model'].upper()} | {after['predictions']}"
        removals_only, all_edits = (f"{100 * entry['answered'] / entry['links']:.0f} %" for entry in (before, after))
        how = " / ".join(str(after[key]) for key in ("by removals", "by an addition", "by a move"))
        median, slowest = (after[key] / before["median seconds"] for key in ("median seconds", "slowest seconds"))
        one = f"{after['of one edit']} of {after['answered']}"
        yield f"| {case} | {removals_only} | **{all_edits}** | {one} | {how} | {median:.0f}× ({slowest:.0f}×) |"


def main():
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--links", type=int, default=40, help="of each kind")
    arguments.add_argument("--data", default="collegemsg,uci-forums,wikipedia")
    arguments.add_argument("--kinds", default="tgn,tgat")
    arguments.add_argument("--models", type=Path, default=Path("runs"))
    arguments.add_argument("--out", type=Path, default=Path("results/why_not.json"))
    options = arguments.parse_args()
    done = json.loads(options.out.read_text()) if options.out.exists() else []
    for data in options.data.split(","):
        graph = cody.load(data)
        for kind in options.kinds.split(","):
            name = f"{kind}-{data}"
            model = cody.load_model(name if data in SHIPPED else options.models / name, graph)
            model.logits(graph.query(graph.num_events - 1), [frozenset()])  # its table is built once, not timed
            links = sample_kinds(model, graph, options.links, ("incorrect", "correct"))
            for correctness, rows in links.items():
                predictions = {"incorrect": "no link", "correct": "link"}[correctness]
                for allowed, edits in ALLOWED.items():
                    case = {"data": data, "model": kind, "predictions": predictions, "allowed": allowed}
                    if not any(case.items() <= entry.items() for entry in done):
                        done.append(case | measure(model, graph, rows, edits))
                        print(json.dumps(done[-1]), file=sys.stderr, flush=True)
                        write_atomically(options.out, json.dumps(done, indent=1) + "\n")
    print(*table(done), sep="\n")


if __name__ == "__main__":
    main()
