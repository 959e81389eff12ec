"""Records without an evaluation."""

import json
from dataclasses import fields, replace

import numpy as np

from cody.explaining.document import EvaluatedPart, EvaluationPart, EventTable, ExplanationDocument, QueryPart
from cody.study.explainers import EXPLAINERS
from cody.study.record import Record, record_of
from cody.utils.files import with_checksum

NEW_SINCE_0_2 = ("imagined", "decision", "subject", "rank", "rank_after", "document")


def record(**values):
    """A record about which only the given values matter, with its document.

    `necessary` and `sufficient` set the logits.
    """
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
    made |= {} if "search" in made else parts(made["explainer"])
    return replace(record_of(document(made)), **made)


def document(made):
    """The document of an explanation with these values, as far as a document can have them."""
    rows, original = tuple(made["rows"]), made["original"]
    others = (row for row in range(1000) if row not in rows)
    numbers = tuple(sorted([*rows, *(next(others) for _ in range(made["candidates"] - len(rows)))]))
    names = ("a",) * len(numbers)
    logits = [original] * max(made["evaluations"], made["first"] or 0)
    if made["first"] is not None:
        logits[made["first"] - 1] = -original or 1.0
    evaluation = ("data", "model", "explainer", "search", "policy", "options", "kind", "only", "version")
    return ExplanationDocument(
        query=QueryPart(0, 1, float(made["event"]), made["event"]),
        src="a",
        dst="b",
        event=made["event"],
        candidates=EventTable(numbers, names, names, tuple(map(float, numbers))),
        rows=rows,
        logits=(original, *(None for _ in rows[1:]), *([made["without"]] if rows else [])),
        ended=made["ended"],
        factual=False,
        iterations=made["iterations"],
        evaluations=made["evaluations"],
        seconds=made["seconds"] or 0.0,
        verification=None,
        without_all=None,
        parameters={},
        seed=made["seed"],
        model=made["model_identity"],
        data=made["data_identity"],
        evaluated=EvaluatedPart(((),) * len(logits), tuple(logits)),
        evaluation=EvaluationPart(*(made[name] for name in evaluation), shared=made["seconds"] is None),
    )


def changed(line, **values):
    """A line with other values, of the evaluation or of the explanation, and without its checksum."""
    document = json.loads(line)
    document.pop("checksum", None)
    for name, value in values.items():
        (document["evaluation"] if name in document["evaluation"] else document)[name] = value
    return json.dumps(document)


def as_0_2_wrote_it(line):
    """A line of an evaluation, a record or a header, as CoDy 0.2 would have written it."""
    document = json.loads(line)
    schema = {"cody/explanation/3": "cody/record/2", "cody/evaluation/3": "cody/evaluation/2"}[document["schema"]]
    if schema == "cody/record/2":
        one = Record.from_json(line)
        document = {field.name: getattr(one, field.name) for field in fields(one) if field.name not in NEW_SINCE_0_2}
        names = ("edit", "src", "dst", "time", "replaces", "was")
        imagined = [{name: getattr(event, name) for name in names} for event in one.imagined]
        document |= {"imagined": imagined} if imagined else {}
    document.pop("checksum", None)
    return json.dumps(with_checksum(document | {"schema": schema}))


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
