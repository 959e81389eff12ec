"""What a model without a memory attends to is all that can change its answer alone; the words follow from it."""

from dataclasses import replace

import numpy as np
import pytest

import cody
from cody.engine import FastTGAT
from cody.graph.neighbourhood import events_on_paths
from cody.models.contract import attended_by
from random_events import random_graph, random_network


def some_model(seed, **sizes):
    rng = np.random.default_rng(seed)
    graph = random_graph(rng, nodes=int(rng.integers(4, 30)), events=120)
    return FastTGAT(random_network(graph, "tgat", **sizes), graph), graph, rng


@pytest.mark.parametrize("seed", range(8))
def test_no_other_event_changes_the_answer_alone(seed):
    model, graph, rng = some_model(seed, layers=1 + seed % 3, neighbours=1 + seed % 4)
    named = needed = 0
    for row in rng.integers(20, 120, 4).tolist():
        query = graph.query(row)
        attended = attended_by(model, query)
        original, *without = model.logits(query, [frozenset(), *(frozenset({other}) for other in range(row))])
        matters = np.flatnonzero(np.abs(np.array(without) - original) > 1e-9)
        assert set(matters) <= set(attended.tolist())
        named, needed = named + len(attended), needed + len(matters)
    assert needed > 0.4 * named  # it does not name everything


def test_a_model_with_a_memory_or_of_others_says_nothing():
    graph = random_graph(np.random.default_rng(0))
    model = cody.as_model(lambda graph, query, changes: [1.0] * len(changes), graph, identity="tests")
    assert attended_by(model, graph.query(40)) is None
    assert attended_by(cody.engine.FastTGN(random_network(graph, "tgn"), graph), graph.query(40)) is None


def test_the_scope_of_an_answer_is_what_else_could_matter():
    model, graph, _ = some_model(3, layers=2, neighbours=2)
    query = graph.query(100)
    attended, every = attended_by(model, query), events_on_paths(graph, query, 2, 120)
    assert len(attended) < len(every)
    scopes = {}
    for rows in (attended[1:], attended, every):
        near = lambda graph, query, hops, size, rows=rows: rows  # noqa: E731
        scopes[len(rows)] = cody.explain(model, graph, query, near=near, size=120, evaluations=200).scope
    assert scopes == {len(attended) - 1: "some", len(attended): "seen", len(every): "all"}


def test_what_is_proven_about_single_events_is_said_of_all_that_the_model_can_see():
    model, graph, _ = some_model(5, layers=1, neighbours=3)
    pairs = (cody.explain(model, graph, graph.query(row)) for row in range(30, 120))
    why = next(why for why in pairs if why.is_counterfactual and len(why.rows) == why.proven == 2)
    assert why.scope in ("seen", "all")
    assert "No single event that the model can see flips it." in why.certainty
    assert "No single event flips it." in replace(why, scope="some").certainty
