"""Do explainers find the cause? On `campus` the cause of a link is known, so there is a right answer.

    python reproduce/campus.py
    python reproduce/campus.py --only tempme,greedy-flow     # these anew; the others stay as they are in the file

trains a small TGN and TGAT on a generated campus, PGExplainer and TempME for each; then every explainer explains the
links of the test period that have a cause and that the model predicts. Prints the table of results/laboratory.md, and
writes the figures to results/campus.json. The candidates are the paper's, the latest 64 on paths. Ten minutes on one
core; the same figures every time.
"""

import argparse
import json
import tempfile
from dataclasses import replace
from pathlib import Path

import numpy as np
import torch
from variants import thorough_scout

from cody.baselines import settings_of, train_explainer
from cody.baselines.differentiable import SoftModel
from cody.data import campus
from cody.engine import fast_model
from cody.graph.neighbourhood import SIZE, events_on_paths
from cody.models.sizes import Sizes
from cody.search import scout
from cody.study.explainers import EXPLAINERS, explainer, find
from cody.study.metrics import recall
from cody.study.run import EvaluationPlan, Link, evaluate
from cody.train.architectures import ARCHITECTURES
from cody.train.training import TrainingSettings as ModelSettings
from cody.train.training import new_network, new_optimizer, run_epoch, split
from cody.utils.files import write_atomically

ORDER = list(EXPLAINERS)


def explainers(entries, model, folder, links):
    """The explainers of these entries; those that learn are trained first."""
    for learned in dict.fromkeys(entry.learned for entry in entries if entry.needs_scorer):
        list(train_explainer(SoftModel(model), settings_of(learned)(links=links), folder))
    return tuple(_as_in_the_paper(entry, folder if entry.needs_scorer else None) for entry in entries)


def _as_in_the_paper(entry, scorer):
    """With the paper's candidates, of which there are no more where nothing is found."""
    made = explainer(entry.name, scorer=scorer, size=entry.size or SIZE, near=events_on_paths)
    return replace(made, search=thorough_scout) if entry.search is scout else made


def trained(kind, graph, epochs):
    network = new_network(ARCHITECTURES[kind], graph, Sizes(dimension=24, neighbours=8, batch=50), seed=0)
    optimizer = new_optimizer(network, 2e-3)
    parts = split(graph, ModelSettings())
    for epoch in range(epochs):
        list(run_epoch(network, optimizer, graph.select(parts.train), 0, epoch))
    return fast_model(network, graph), parts.test.tolist()


def rows_with_causes(made, model, test):
    """Predicted links that have a cause: posts in forums, and answers to posts."""
    graph = made.graph
    for row in test:
        if made.causes[row] and model.logits(graph.query(row), [frozenset()])[0] > 0:
            yield row, "answers" if "student" in graph.name(int(graph.dst[row])) else "posts"


def measure(kind, made, options):
    model, test = trained(kind, made.graph, options.epochs)
    with tempfile.TemporaryDirectory() as folder:
        wanted = list(rows_with_causes(made, model, test))
        entries = [find(name) for name in options.only]
        plan = EvaluationPlan("campus", kind, explainers(entries, model, Path(folder) / "scorer", options.scorer_links))
        for rule in sorted({what for _, what in wanted}):
            rows = [row for row, what in wanted if what == rule][: options.links]
            records = list(evaluate(model, made.graph, [Link(row, "correct") for row in rows], plan))
            for one in plan.explainers:
                of_it = [record for record in records if record.explainer == one.name]
                yield {
                    "model": kind,
                    "links": rule,
                    "count": len(of_it),
                    "explainer": one.name,
                    "recall": recall(of_it, made.causes),
                    "cause_alone": float(np.mean([set(r.rows) == made.causes[r.event] for r in of_it])),
                    "mean_size": float(np.mean([len(r.rows) for r in of_it])),
                    "fidelity+": float(np.mean([r.is_necessary for r in of_it])),
                }


def merged(entries, former):
    """The new entries and those of the former ones that are not replaced, in the order of the catalogue."""
    key = ("model", "links", "explainer")
    found = {tuple(entry[name] for name in key): entry for entry in [*former, *entries]}
    columns = list(dict.fromkeys((model, links) for model, links, _ in found))
    return sorted(found.values(), key=lambda e: (columns.index((e["model"], e["links"])), ORDER.index(e["explainer"])))


def table(entries):
    """One row for each explainer; cells: recall / share with only the cause / mean size / fidelity+."""
    columns = list(dict.fromkeys((entry["model"], entry["links"], entry["count"]) for entry in entries))
    yield "| explainer | " + " | ".join(f"{model}, {count} {links}" for model, links, count in columns) + " |"
    yield "|---|" + "---|" * len(columns)
    for name in dict.fromkeys(entry["explainer"] for entry in entries):
        found = {(e["model"], e["links"]): e for e in entries if e["explainer"] == name}
        cells = [found[model, links] for model, links, _ in columns]
        shown = [
            f"{e['recall']:.2f} / {e['cause_alone']:.2f} / {e['mean_size']:.1f} / {e['fidelity+']:.2f}" for e in cells
        ]
        yield f"| {name} | " + " | ".join(shown) + " |"


def main():
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--students", type=int, default=100)
    arguments.add_argument("--epochs", type=int, default=6)
    arguments.add_argument("--scorer-links", type=int, default=300)
    arguments.add_argument("--links", type=int, default=80, help="of each kind")
    arguments.add_argument("--out", type=Path, default=Path("results/campus.json"))
    arguments.add_argument("--only", type=lambda text: text.split(","), help="explainers; default: all")
    options = arguments.parse_args()
    former = json.loads(options.out.read_text()) if options.only and options.out.exists() else []
    options.only = options.only or ORDER
    torch.set_num_threads(1)
    made = campus(students=options.students, seed=0)
    entries = merged([entry for kind in ARCHITECTURES for entry in measure(kind, made, options)], former)
    write_atomically(options.out, json.dumps(entries, indent=1) + "\n")
    print(*table(entries), sep="\n")


if __name__ == "__main__":
    main()
