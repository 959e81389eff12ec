import numpy as np
import pytest

from cody.candidates import distances
from cody.errors import CallError
from cody.graph import TemporalGraph
from cody.oracle import Oracle
from cody.policies import event_impact, random, shift, spatio_temporal, temporal
from cody.testing import ToyModel

#        0     1     2     3     4     5      (6: the query, 0 → 1)
EDGES = [(0, 2), (2, 3), (3, 4), (1, 5), (0, 2), (5, 6), (0, 1)]
GRAPH = TemporalGraph.from_arrays(*np.array(EDGES).T, time=[1.0, 2.0, 3.0, 3.0, 3.0, 4.0, 5.0])
QUERY = GRAPH.query(6)
EVENTS = np.array([3, 0, 5, 2, 1, 4])


def order(policy, model=None, seed=0):
    model = model or ToyModel(GRAPH)
    oracle = Oracle(model, QUERY)
    ranking = policy(GRAPH, QUERY, EVENTS, oracle, np.random.default_rng(seed)).tolist()
    assert sorted(ranking) == sorted(EVENTS.tolist())
    return ranking, oracle


def test_temporal_puts_the_most_recent_first_and_settles_equal_times_by_row():
    assert order(temporal)[0] == [5, 4, 3, 2, 1, 0]


def test_spatio_temporal_puts_the_nearest_first_then_the_most_recent():
    assert distances(GRAPH, QUERY, np.arange(6)).tolist() == [0, 1, 2, 0, 0, 1]
    assert order(spatio_temporal)[0] == [4, 3, 0, 5, 1, 2]


def test_an_event_that_no_path_leads_to_is_the_furthest():
    graph = TemporalGraph.from_arrays([2, 0, 0], [3, 1, 1], [1.0, 2.0, 3.0])
    assert distances(graph, graph.query(2), np.array([0, 1])).tolist() == [graph.num_nodes, 0]


@pytest.mark.parametrize(("bias", "first"), [(3.0, [4, 0]), (-9.0, [3])])
def test_event_impact_puts_first_what_alone_moves_the_logit_towards_the_other_decision(bias, first):
    model = ToyModel(GRAPH, weights=[1, 0, 0, -1, 2, 0, 0], half_life=1e9, bias=bias)
    ranking, oracle = order(event_impact, model)
    assert ranking[: len(first)] == first
    dead = [event for event in ranking if event in (1, 2, 5)]
    assert dead == [5, 2, 1]  # equal effects: the most recent first
    assert (oracle.counts.batches, len(oracle.asked)) == (1, 7)  # every candidate alone, and nothing removed


@pytest.mark.parametrize("policy", [spatio_temporal, event_impact])
def test_of_many_equal_events_too_the_most_recent_is_first(policy):
    """The events in even rows touch the query, those between them do not. Few equal ones stay in order by chance."""
    graph = TemporalGraph.from_arrays([0, 2] * 32 + [0], [2, 3] * 32 + [1], np.arange(65.0))
    oracle = Oracle(ToyModel(graph, half_life=1e12), graph.query(64))
    ranking = policy(graph, graph.query(64), np.arange(64), oracle, np.random.default_rng(0))
    assert ranking.tolist() == [*range(62, -1, -2), *range(63, -1, -2)]


def test_event_impact_needs_a_budget_for_every_candidate_and_for_nothing_removed():
    def ranking(evaluations):
        oracle = Oracle(ToyModel(GRAPH), QUERY, evaluations=evaluations)
        return event_impact(GRAPH, QUERY, EVENTS, oracle, np.random.default_rng(0))

    assert len(ranking(7)) == 6
    with pytest.raises(CallError, match="must be at least 7"):
        ranking(6)


def test_random_depends_on_the_generator_alone():
    assert order(random, seed=1)[0] == order(random, seed=1)[0]
    assert len({tuple(order(random, seed=seed)[0]) for seed in range(5)}) > 1


def test_only_event_impact_asks_the_model():
    for policy in (random, temporal, spatio_temporal):
        assert not order(policy)[1].asked


def test_a_shift_is_positive_towards_the_other_decision():
    assert shift(0.5, -0.5) == shift(-0.5, 0.5) == 1.0
    assert shift(0.0, 0.3) == 0.3  # 0 means no link
