import numpy as np
import pytest

from cody.errors import CallError
from cody.graph import TemporalGraph
from cody.graph.neighbourhood import candidates
from cody.models.toy import ToyModel
from cody.search import top_share
from cody.search.oracle import Oracle
from cody.search.policies import event_impact, random


@pytest.fixture
def oracle():
    events = 40
    graph = TemporalGraph.from_arrays([0] * events, [1, 2] * (events // 2), np.arange(events, dtype=float))
    weights = np.random.default_rng(0).normal(size=events)
    return Oracle(ToyModel(graph, weights), graph.query(events - 1))


@pytest.mark.parametrize(("candidates_", "sparsity", "events"), [(64, 0.2, 13), (10, 0.2, 2), (10, 1, 10), (3, 0.1, 1)])
def test_the_sparsity_given_is_the_sparsity_asked(oracle, candidates_, sparsity, events):
    ranking = np.random.default_rng(1).permutation(candidates_)
    found = top_share(oracle, ranking, sparsity=sparsity)
    assert found.rows == tuple(ranking[:events].tolist())
    assert oracle.counts.requested == 0


def test_a_share_of_0_or_of_nothing_is_nothing(oracle):
    assert top_share(oracle, np.arange(5), sparsity=0).rows == ()
    found = top_share(oracle, np.arange(0))
    assert (found.rows, found.ended, found.factual) == ((), "exhausted", True)


@pytest.mark.parametrize("sparsity", [-0.1, 1.1, float("nan")])
def test_a_number_that_is_not_a_share_is_refused(oracle, sparsity):
    with pytest.raises(CallError, match=f"between 0 and 1, not {sparsity}"):
        top_share(oracle, np.arange(5), sparsity=sparsity)


def test_pbone_puts_the_event_first_whose_absence_lowers_the_decided_side_most(oracle):
    graph, query = oracle.model.graph, oracle.query
    events = candidates(graph, query)
    ranking = event_impact(graph, query, events, oracle, np.random.default_rng(0))
    found = top_share(oracle, ranking)
    original, *without = oracle.model.logits(query, [frozenset(), *(frozenset({row}) for row in events.tolist())])
    drops = np.sign(original) * (original - np.array(without))
    assert found.rows[0] == ranking[0] == events[drops.argmax()]
    assert len(found.rows) == 8  # of 39
    assert set(found.rows) == set(events[np.argsort(-drops)[:8]].tolist())
    assert oracle.counts.computed == 1 + len(events)


def test_random_sets_depend_on_the_seed_alone(oracle):
    graph, query = oracle.model.graph, oracle.query
    events = candidates(graph, query)
    sets = [
        top_share(oracle, random(graph, query, events, oracle, np.random.default_rng(seed))).rows for seed in (1, 1, 2)
    ]
    assert sets[0] == sets[1] != sets[2]
