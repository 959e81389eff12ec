"""Is the policy flow better than spatio-temporal? The same links, the same searches, the same budget.

    python reproduce/flow.py --out runs/flow

Each search explains links of collegemsg's test period in both orders, with the paper's candidates and 300 evaluations.
Prints, for each model, kind of prediction and search, fidelity+ and AUFSC+ of both, and their difference with a paired
bootstrap interval of 95 %. Rerun to resume.
"""

import argparse
from pathlib import Path

import numpy as np

import cody
from cody.graph.neighbourhood import events_on_paths
from cody.study import metrics
from cody.study.explainers import explainer, find
from cody.study.record_file import read_records
from cody.study.run import EvaluationPlan, Sample, run

MODELS = ("tgn-collegemsg", "tgat-collegemsg")
NEW, OLD = "flow", "spatio-temporal"


def names(search):
    return [find(search, policy).name for policy in (NEW, OLD)]


def measured(options, graph, name):
    """The records of one model, by kind and explainer."""
    model = cody.load_model(name, graph)
    asked = [one for search in options.searches for one in names(search)]
    made = tuple(explainer(one, size=64, near=events_on_paths, evaluations=options.evaluations) for one in asked)
    path = options.out / f"{name}.jsonl"
    for _ in run(path, model, graph, EvaluationPlan("collegemsg", name, made, share=True), Sample(options.links)):
        pass
    return metrics.groups(read_records(path))


def rows(groups, searches):
    of = {(group.kind, group.explainer): records for group, records in groups.items()}
    for kind in ("correct", "incorrect"):
        for search in searches:
            pair = [of[kind, name] for name in names(search)]
            cells = [f"{kind}, {len(pair[0])} links", search]
            for metric in (metrics.fidelity_plus, metrics.aufsc_plus):
                new, old = (metric(records) for records in pair)
                low, high = metrics.within(metrics.differences(metric, *pair, rng=np.random.default_rng(0)))
                cells.append(f"{new:.3f} / {old:.3f}: {new - old:+.3f} [{low:+.3f}, {high:+.3f}]")
            yield cells


def main():
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--links", type=int, default=50, help="of each kind")
    arguments.add_argument("--evaluations", type=int, default=300)
    arguments.add_argument("--searches", type=lambda text: text.split(","), default=["greedy", "cody", "scout"])
    arguments.add_argument("--out", type=Path, default=Path("runs/flow"), help="folder for the records")
    options = arguments.parse_args()
    options.out.mkdir(parents=True, exist_ok=True)
    graph = cody.load("collegemsg")
    print(f"| model | predictions | search | fidelity+: {NEW} / {OLD}: difference | AUFSC+ |")
    print("|---|---|---|---|---|")
    for name in MODELS:
        for cells in rows(measured(options, graph, name), options.searches):
            print(f"| {name} | " + " | ".join(cells) + " |", flush=True)


if __name__ == "__main__":
    main()
