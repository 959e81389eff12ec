"""Variants of an explainer compared on the same links of trained models; a run that was stopped continues."""

import argparse
import json
import sys
from pathlib import Path

import numpy as np
import torch

import cody
from cody.search import scout
from cody.study.instances import sample_kinds
from cody.utils.files import write_atomically


def thorough_scout(oracle, ranking):
    """Scout with a budget that it uses to the end: 300 evaluations besides the policy's, more for many candidates."""
    with oracle.within(max(300, len(ranking) + 236)):
        return scout(oracle, ranking)


def compare(description, out, variants):
    """One entry for each data set, model, kind of prediction and variant, kept in the file `--out`.

    `variants` are pairs: what entries say about the variant, and a function (model, graph, rows) → figures.
    """
    options = parse(description, out)
    torch.set_num_threads(1)
    done = json.loads(options.out.read_text()) if options.out.exists() else []
    for case, model, graph, rows in samples(options):
        for variant, measure in variants:
            if not any((case | variant).items() <= entry.items() for entry in done):
                done.append(case | variant | measure(model, graph, rows))
                print(json.dumps(done[-1]), file=sys.stderr, flush=True)
                write_atomically(options.out, json.dumps(done, indent=1) + "\n")
    return done


def parse(description, out):
    arguments = argparse.ArgumentParser(description=description)
    arguments.add_argument("--links", type=int, default=100, help="of each kind")
    arguments.add_argument("--data", default="uci-messages,uci-forums")
    arguments.add_argument("--models", type=Path, default=Path("runs"))
    arguments.add_argument("--out", type=Path, default=Path(out))
    return arguments.parse_args()


def samples(options):
    for data in options.data.split(","):
        graph = cody.load(data)
        for kind in ("tgn", "tgat"):
            model = cody.load_model(options.models / f"{kind}-{data}", graph)
            for predictions, rows in sample_kinds(model, graph, options.links, ("correct", "incorrect")).items():
                yield {"data": data, "model": kind, "predictions": predictions}, model, graph, rows


def figures(explanations):
    """What is measured of every variant: means over its explanations."""
    flipped = np.array([why.is_counterfactual for why in explanations])
    share = np.array([len(why.removed) / max(1, len(why.candidates)) for why in explanations])
    sizes = [len(why.removed) for why in explanations if why.is_counterfactual]
    return {
        "links": len(explanations),
        "fidelity+": float(flipped.mean()),
        "aufsc+": float((flipped * (1 - share)).mean()),
        "mean_size": float(np.mean(sizes)) if sizes else None,
        "evaluations": float(np.mean([why.evaluations for why in explanations])),
    }
