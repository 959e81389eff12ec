"""Every single value of a document that is changed is found, but for those that claim nothing about the model."""

import copy
import json
import re
from dataclasses import replace

import msgspec
import numpy as np
import pytest

import cody
from cody.errors import DataError
from cody.explaining.claims import CONTRADICTED, verify_explanation
from cody.explaining.document import ExplanationDocument
from cody.explaining.even_if import EvenIf
from cody.graph.units import pair
from cody.models import ToyModel
from cody.search.proposals import additions, alterations, moves, removals
from cody.utils.forms import as_plain
from random_events import random_graph

# How the search went: it can be repeated, but does not say anything about the model.
EFFORT = ("seconds", "iterations", "evaluations", "ended", "seed", "parameters", "wider", "checksum", "factual")


def leaves(value, path=()):
    """The place of every number, text and null in plain data."""
    if isinstance(value, dict):
        for name, inner in value.items():
            yield from leaves(inner, (*path, name))
    elif isinstance(value, list):
        for place, inner in enumerate(value):
            yield from leaves(inner, (*path, place))
    else:
        yield path, value


def another(value):
    """A value of the same type."""
    if isinstance(value, bool):
        return not value
    if isinstance(value, int):
        return value + 1
    if isinstance(value, float):
        return value - max(0.25, abs(value) / 20)  # further than the two computations of a score may differ
    return 1 if value is None else value + "x"


def is_found(plain, path, value, model, graph):
    """Whether the document with one value changed, and a new checksum, is rejected or contradicted."""
    false = copy.deepcopy(plain)
    *inner, last = path
    part = false
    for step in inner:
        part = part[step]
    part[last] = value
    content = {name: each for name, each in false.items() if name != "checksum"}
    try:
        document = as_plain(msgspec.convert(content, ExplanationDocument))  # whoever changes it writes a new checksum
        claims = verify_explanation(document, model, graph, sets=None).claims
    except (msgspec.ValidationError, DataError):
        return True
    return CONTRADICTED in {claim.status for claim in claims}


OPTIONS = {
    "link": {},
    "threshold": {"decision": cody.above(0.45)},
    "rather": {"decision": cody.rather_than("3")},
    "ranking": {"decision": cody.in_top(3)},
    "additions": {"edits": (removals, additions, moves)},
    "alterations": {"edits": (removals, alterations)},
    "conversations": {"by": pair},
}


@pytest.fixture(scope="module")
def asked():
    graph = random_graph(np.random.default_rng(3), nodes=12, events=60, edge_features=2)
    return graph, ToyModel(graph, weights=np.random.default_rng(5).normal(size=60))


def test_every_changed_value_of_what_a_node_could_do_is_found():
    graph = random_graph(np.random.default_rng(8), nodes=6, events=40, edge_features=2, ties=False)
    model = ToyModel(graph, weights=np.random.default_rng(5).normal(0.1, 0.5, size=40), bias=-0.4)
    queries = (graph.query(row) for row in range(20, 40))
    options = {"size": 6, "evaluations": 20, "count": 1}  # what one alternative adds, another one may add, too
    found = (cody.recourse(model, graph, each, each.src, each.time + 8.0, **options) for each in queries)
    plain = json.loads(next(why for why in found if why.is_counterfactual).to_json())
    assert verify_explanation(plain, model, graph, sets=None).is_confirmed
    changed = [(path, another(value)) for path, value in leaves(plain) if path[0] not in EFFORT]
    assert [path for path, value in changed if not is_found(plain, path, value, model, graph)] == []


@pytest.mark.parametrize("options", OPTIONS.values(), ids=OPTIONS)
def test_any_changed_value_is_found(asked, options):
    graph, model = asked
    found = (
        cody.explain(model, graph, graph.query(row), size=4, evaluations=30, **options) for row in range(59, 20, -1)
    )
    why = next(why for why in found if why.is_counterfactual)
    plain = json.loads(why.to_json())
    plain["evaluated"]["sets"] = [sorted(rows) for rows, _ in why.evaluated]  # as other programs write them
    assert not is_found(plain, ("seconds",), 1.0, model, graph)
    places = [(path, value) for path, value in leaves(plain) if path[0] not in EFFORT]
    missed = [path for path, value in places if not is_found(plain, path, another(value), model, graph)]
    assert len(places) > 60
    assert missed == []


def changed_at(plain, path, value):
    """The document with another value at a place."""
    false = copy.deepcopy(plain)
    part = false
    for step in path[:-1]:
        part = part[step]
    part[path[-1]] = value
    return false


def contradicted(plain, form, model, graph):
    """Whether a document that was written with a new checksum is rejected or contradicted."""
    content = {name: each for name, each in plain.items() if name != "checksum"}
    try:
        claims = verify_explanation(as_plain(msgspec.convert(content, form)), model, graph, sets=None).claims
    except DataError:
        return True
    return CONTRADICTED in {claim.status for claim in claims}


def test_an_alternative_or_an_event_of_it_that_stands_twice_is_found(asked):
    graph, model = asked
    found = (cody.explain(model, graph, graph.query(row), size=6, evaluations=60, count=3) for row in range(59, 20, -1))
    plain = json.loads(next(why for why in found if why.alternatives).to_json())
    first = plain["alternatives"][0]
    twice = [
        (("alternatives",), [*plain["alternatives"], first]),
        (("alternatives", 0, "rows"), first["rows"] + first["rows"][:1]),
        (("alternatives", 0), first | {"rows": plain["rows"]}),
    ]
    for path, value in twice:
        assert contradicted(changed_at(plain, path, value), ExplanationDocument, model, graph), path


@pytest.mark.parametrize("decision", [cody.rather_than("5"), cody.in_top(3)], ids=["rather", "ranking"])
def test_a_ranking_without_its_scores_is_no_reason_to_crash(asked, decision):
    graph, model = asked
    plain = json.loads(cody.explain(model, graph, graph.query(58), size=6, evaluations=30, decision=decision).to_json())
    for path in (("standings", 0, "leaders"), ("standings",)):
        assert contradicted(changed_at(plain, path, []), ExplanationDocument, model, graph)


def test_an_even_if_answer_whose_events_stand_twice_or_that_does_not_say_since_when_is_found(asked):
    graph, model = asked
    plain = json.loads(cody.even_if(model, graph, graph.query(58), size=6).to_json())
    assert not contradicted(plain, EvenIf, model, graph)
    lists = [("candidates",), ("missing", "rows"), ("latest", "rows"), ("unit", "rows")]
    for path in lists:
        rows = plain[path[0]] if len(path) == 1 else plain[path[0]][path[1]]
        assert contradicted(changed_at(plain, path, [*rows, rows[-1]]), EvenIf, model, graph), path
    assert contradicted(changed_at(plain, ("since",), None), EvenIf, model, graph)
    assert contradicted(changed_at(plain, ("missing", "rows"), []), EvenIf, model, graph)


@pytest.mark.parametrize("by", [None, pair], ids=["events", "pairs"])
def test_other_words_of_an_even_if_answer_and_impossible_settings_are_found(asked, by):
    graph, model = asked
    plain = json.loads(cody.even_if(model, graph, graph.query(58), size=6, by=by).to_json())
    assert not contradicted(plain, EvenIf, model, graph)
    for name, value in (("subject", "node"), ("thing", "bird")):
        assert contradicted(changed_at(plain, (name,), value), EvenIf, model, graph), name
    hops = ("parameters", "candidates", "hops")
    assert contradicted(changed_at(plain, hops, -3), EvenIf, model, graph) == (by is not None)  # or nothing reads it


class Distrust(ToyModel):
    """A model of two labels."""

    classes, threshold = ("trust", "distrust"), 0.45


@pytest.fixture(scope="module")
def labelled():
    graph = random_graph(np.random.default_rng(3), nodes=12, events=60)
    graph = replace(graph, labels=np.arange(60) % 2, label_names=("trust", "distrust"), event_name="rating")
    return graph, Distrust(graph, weights=np.random.default_rng(5).normal(size=60))


def test_any_changed_value_about_a_label_is_found(labelled):
    graph, model = labelled
    whys = [cody.explain(model, graph, graph.query(row), size=4, evaluations=30) for row in range(59, 30, -1)]
    assert {why.is_counterfactual for why in whys} == {True, False}
    for flips in (True, False):
        plain = json.loads(next(why for why in whys if why.is_counterfactual == flips).to_json())
        assert plain["decision"]["positive"] == "distrust"
        assert not is_found(plain, ("seconds",), 1.0, model, graph)
        assert is_found(plain, ("subject",), "node", model, graph)
        assert contradicted(
            {name: each for name, each in plain.items() if name != "subject"}, ExplanationDocument, model, graph
        )
        places = [(path, value) for path, value in leaves(plain) if path[0] not in EFFORT]
        assert [path for path, value in places if not is_found(plain, path, another(value), model, graph)] == []


def test_outcomes_that_are_exchanged_everywhere_are_found(labelled):
    """A document that says trust for distrust throughout: every sentence follows, but the model says otherwise."""
    graph, model = labelled
    exchange = {"positive": "trust", "negative": "distrust"}
    why = cody.explain(model, graph, graph.query(59), size=4, evaluations=30)
    forged = json.loads(replace(why, decision=replace(why.decision, **exchange)).to_json())
    assert contradicted(forged, ExplanationDocument, model, graph)
    found = json.loads(cody.even_if(model, graph, graph.query(59), size=6).to_json())
    assert not contradicted(found, EvenIf, model, graph)
    words = re.compile("distrust|trust")
    swapped = words.sub(lambda word: "trust" if word[0] == "distrust" else "distrust", json.dumps(found))
    assert contradicted(json.loads(swapped), EvenIf, model, graph)
