"""Every single value of a document that is changed is found, but for those that claim nothing about the model."""

import copy
import json

import msgspec
import numpy as np
import pytest

import cody
from cody.errors import DataError
from cody.explaining.claims import CONTRADICTED, verify_explanation
from cody.explaining.document import ExplanationDocument
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
