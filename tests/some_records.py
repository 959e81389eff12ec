"""Records without an evaluation."""

from dataclasses import replace

import numpy as np

from cody.study.explainers import EXPLAINERS
from cody.study.record import Record


def record(**values):
    """A record about which only the given values matter. `necessary` and `sufficient` set the logits."""
    necessary, sufficient = values.pop("necessary", False), values.pop("sufficient", True)
    defaults = {
        "data": "uci-messages",
        "model": "tgn",
        "explainer": "cody-temporal",
        "kind": "correct",
        "event": 100,
        "candidates": 10,
        "rows": (1, 2),
        "original": 1.0,
        "without": -1.0 if necessary else 1.0,
        "only": 1.0 if sufficient else -1.0,
        "ended": "iterations",
        "iterations": 300,
        "evaluations": 280,
        "first": 5 if necessary else None,
        "seconds": 0.5,
        "seed": 0,
        "options": {},
        "model_identity": "m",
        "data_identity": "d",
        "version": "0",
    }
    made = defaults | values
    return Record(**parts(made["explainer"]) | made)


def timeless(records):
    """Records without what differs from run to run, in an order that does not depend on who made them."""
    return sorted(
        (replace(one, seconds=None) for one in records), key=lambda one: (one.explainer, one.kind, one.event, one.seed)
    )


def parts(explainer):
    """What an explainer of the catalogue is made of, also one with a setting behind its name; others of themselves."""
    entry = EXPLAINERS.get(explainer.partition(" (")[0])
    search, policy = (explainer, "") if entry is None else entry.parts
    return {"search": search, "policy": policy}


def random_records(rng, count=40, **values):
    """Records about `count` links that could be anything."""
    made = []
    for event in range(count):
        candidates = int(rng.integers(0, 65))
        removed = rng.permutation(candidates)[: rng.integers(0, candidates + 1)].tolist()
        original, without, only = rng.normal(size=3).round(1).tolist()
        first = int(rng.integers(1, 301)) if (original > 0) != (without > 0) else None
        evaluations = 300 if first is None else int(rng.integers(first, 301))
        own = {"event": 100 + event, "candidates": candidates, "rows": tuple(removed), "original": original}
        own |= {"without": without, "only": only, "first": first, "evaluations": evaluations}
        made.append(record(**own | {"seconds": float(rng.random())} | values))
    return made


def small_evaluation(data=("uci-messages", "wikipedia"), explainers=("greedy-temporal", "cody-temporal"), count=20):
    """A whole evaluation, the same each time."""
    rng = np.random.default_rng(0)
    return [
        made
        for name in data
        for kind in ("correct", "incorrect")
        for explainer in explainers
        for made in random_records(rng, count, data=name, kind=kind, explainer=explainer, model=f"runs/tgn-{name}")
    ]
