"""Approximate, then confirm: estimates guide the search, and nothing else."""

import threading
import time
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from adapters.stepwise_tgn import StepwiseTGN, wrapped
from cody import candidates, explain
from cody.adapters import approximately, from_steps
from cody.engine import Replay
from cody.errors import CallError
from cody.graph import TemporalGraph
from cody.models import ToyModel, check_model
from cody.models.contract import open_session
from cody.models.margins import flips
from cody.search.proposals import additions, removals
from random_events import random_graph, random_network


class Shared:
    """A user's model that notices when several threads are in it."""

    def __init__(self):
        self.inside, self.most, self.number = [], 0, 0.0

    def observe(self, events):
        self.number = 0.9 * self.number + float(len(events.rows))

    def score(self, query, past):
        self.inside.append(threading.get_ident())
        time.sleep(0.005)
        self.most = max(self.most, len(self.inside))
        self.inside.pop()
        return self.number

    def wrapped(self, graph):
        steps = {"start": lambda: vars(self).update(number=0.0), "observe": self.observe}
        steps |= {"save": lambda: self.number, "restore": lambda number: vars(self).update(number=number)}
        return from_steps(graph, score=self.score, identity="shared", batch=5, **steps)


@pytest.mark.parametrize("again", [approximately, lambda model: model.fed(model.feeding), lambda m: m.on(m.graph)])
def test_models_that_share_the_functions_of_a_user_wait_for_one_another(world, again):
    graph, shared = world[0], Shared()
    model = shared.wrapped(graph)
    query, changes = graph.query(130), [frozenset({row}) for row in range(100, 120)]
    right = model.logits(query, changes).tolist()
    with ThreadPoolExecutor(2) as pool:
        asked = [pool.submit(each.logits, query, changes) for each in (model, again(model))]
        assert [each.result().tolist() for each in asked] == [right, right]
    assert shared.most == 1


@pytest.fixture
def world():
    graph = random_graph(np.random.default_rng(5), nodes=20, events=140)
    network = random_network(graph, "tgn", 5, layers=1)
    tgn = StepwiseTGN(network, graph)
    return graph, tgn, Replay(network, graph, dtype=np.float64)


def test_all_that_an_explanation_shows_is_exact(world):
    graph, tgn, definition = world
    model = approximately(wrapped(tgn, graph))
    found = 0
    for row in range(130, 140):
        query = graph.query(row)
        why = explain(model, graph, query, size=12, evaluations=30)
        changes = [frozenset(rows) for rows, _ in why.evaluated]
        np.testing.assert_allclose([logit for _, logit in why.evaluated], definition.logits(query, changes), atol=2e-5)
        along = [frozenset(why.rows[:length]) for length in range(len(why.rows) + 1)]
        np.testing.assert_allclose(why.logits, definition.logits(query, along), atol=2e-5)
        assert why.parameters["estimates"] is True
        assert "by estimates" in why.effort
        if why.is_counterfactual:
            assert why.verification is not None
            found += 1
    assert found


def test_what_was_only_estimated_proves_nothing(world):
    graph, tgn, _ = world
    model = approximately(wrapped(tgn, graph))
    for row in range(136, 140):
        why = explain(model, graph, graph.query(row), size=12, evaluations=30)
        assert len(why.evaluated) < why.evaluations
        if why.is_minimal:  # then it is a single event, or all smaller sets were asked exactly
            assert len(why.rows) == 1 or len(why.evaluated) > 12


class Estimating(ToyModel):
    """It estimates, and is right."""

    def approximate(self, query, rows):
        return open_session(ToyModel.on(self, self.graph), query, rows)


def test_an_answer_whose_time_was_looked_for_has_its_alternatives():
    rng = np.random.default_rng(2)
    ends, times = rng.integers(0, 5, (2, 26)), np.sort(rng.integers(0, 300, 26)).astype(float)
    graph = TemporalGraph.from_arrays(src=ends[0], dst=ends[1], time=times)
    exact, estimated = (
        explain(kind(graph, bias=-4.0, half_life=40), graph, graph.query(25), edits=(removals, additions), count=3)
        for kind in (ToyModel, Estimating)
    )
    assert exact.window is not None
    assert exact.alternatives
    assert estimated.rows == exact.rows
    assert estimated.alternatives == exact.alternatives


class Cautious(ToyModel):
    """It takes all changes for smaller than they are, so that what it takes for a way out has events too many."""

    def approximate(self, query, rows):
        return Damped(open_session(ToyModel.on(self, self.graph), query, rows))


class Damped:
    def __init__(self, session):
        self.session = session

    def logits(self, changes):
        before, *after = self.session.logits([frozenset(), *changes])
        return [before + 0.75 * (logit - before) for logit in after]


@pytest.mark.parametrize("kind", [Estimating, Cautious])
def test_alternatives_of_several_events_are_given_and_lean(kind):
    rng = np.random.default_rng(4)
    ends = rng.integers(0, 4, (2, 40))
    graph = TemporalGraph.from_arrays(src=ends[0], dst=ends[1], time=np.arange(40.0))
    larger = 0
    for row in (30, 38):
        model = kind(graph, half_life=30, bias=-7.0)
        why = explain(model, graph, graph.query(row), size=14, count=3)
        for rows in (why.rows, *(other.rows for other in why.alternatives)):
            asked = [frozenset(), frozenset(rows), *(frozenset(rows) - {row} for row in rows)]
            original, without, *less = model.logits(why.query, asked)
            assert flips(original, without)
            assert not any(flips(original, logit) for logit in less), rows
        larger += sum(len(other.rows) > 1 for other in why.alternatives)
    assert larger == 4


def test_estimates_feed_the_model_less(world):
    graph, tgn, _ = world
    query = graph.query(139)
    rows = candidates(graph, query, 1, 20).tolist()
    changes = [frozenset({row}) for row in rows]
    model = approximately(wrapped(tgn, graph, reads=False))
    fed = []
    for session in (model.session(query), model.approximate(query, rows)):
        session.logits(changes)
        tgn.fed = 0
        session.logits(changes)
        fed.append(tgn.fed)
    assert fed[1] < fed[0] / 3


def test_where_all_that_is_fed_is_near_the_estimate_is_exact():
    graph = random_graph(np.random.default_rng(1), nodes=2, events=60)
    tgn = StepwiseTGN(random_network(graph, "tgn", 1, layers=1), graph)
    model, query = approximately(wrapped(tgn, graph)), graph.query(59)._replace(src=0, dst=1)
    rows = list(range(30, 59))
    changes = [frozenset(), frozenset({31, 58}), frozenset({44})]
    np.testing.assert_allclose(model.approximate(query, rows).logits(changes), model.logits(query, changes), atol=1e-9)


def test_the_model_itself_still_answers_exactly(world):
    graph, tgn, definition = world
    model = approximately(wrapped(tgn, graph))
    changes = [frozenset(), frozenset({100, 130})]
    expected = definition.logits(graph.query(138), changes)
    np.testing.assert_allclose(model.logits(graph.query(138), changes), expected, atol=1e-9)
    check_model(model, graph, quick=True, seconds=5.0).raise_if_failed()


def test_only_a_model_with_states_can_be_estimated(world):
    graph = world[0]
    model = from_steps(graph, score=lambda query, past: 0.0, identity="none")
    with pytest.raises(CallError, match="a model that is fed its history"):
        approximately(model)
