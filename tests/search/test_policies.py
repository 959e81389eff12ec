from itertools import pairwise

import numpy as np
import pytest

from cody.errors import CallError
from cody.graph import TemporalGraph
from cody.graph.edits import Add, Move
from cody.graph.neighbourhood import distances
from cody.models import ToyModel
from cody.search.oracle import Oracle
from cody.search.policies import event_impact, flow, random, shift, spatio_temporal, temporal
from cody.study.explainers import POLICIES

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
    assert (oracle.counts.batches, len(oracle.evaluated)) == (1, 7)  # every candidate alone, and nothing removed


@pytest.mark.parametrize("policy", [spatio_temporal, event_impact])
def test_of_many_equal_events_too_the_most_recent_is_first(policy):
    """The events in even rows touch the query, those between them do not. Few equal ones stay in order by chance."""
    graph = TemporalGraph.from_arrays([0, 2] * 32 + [0], [2, 3] * 32 + [1], np.arange(65.0))
    oracle = Oracle(ToyModel(graph, half_life=1e12), graph.query(64))
    ranking = policy(graph, graph.query(64), np.arange(64), oracle, np.random.default_rng(0))
    assert ranking.tolist() == [*range(62, -1, -2), *range(63, -1, -2)]


def paths_backwards(graph, query, events):
    """Every way back in time from an end of the link, as lists of (node, event), by trying all of them."""
    ways = [[(node, None)] for node in (query.src, query.dst)]
    while ways:
        way = ways.pop()
        yield way
        node, last = way[-1]
        for row in events:
            if (last is None or row < last) and node in (graph.src[row], graph.dst[row]):
                other = int(graph.dst[row]) if node == graph.src[row] else int(graph.src[row])
                ways.append([*way, (other, int(row))])


def plain_flow(graph, query, events):
    """How much passes through each event: the sum over all ways back in time that end with it."""
    scale = np.mean(query.time - graph.time[events])
    through = dict.fromkeys(events.tolist(), 0.0)
    for way in paths_backwards(graph, query, events):
        amount = 4.0  # its quarter is the unit that arrives at an end of the link
        for (node, before), (_, row) in pairwise(way):
            since = query.time if before is None else graph.time[before]
            earlier = [one for one in events if before is None or one < before]
            options = [one for one in earlier if node in (graph.src[one], graph.dst[one])]
            weights = np.exp(-(since - graph.time[options]) / scale)
            amount *= 0.25 * weights[options.index(row)] / weights.sum()
        if len(way) > 1:
            through[way[-1][1]] += amount
    return through


@pytest.mark.parametrize("seed", range(4))
def test_flow_orders_by_what_passes_through_an_event_on_all_ways_to_the_link(seed):
    rng = np.random.default_rng(seed)
    src = rng.integers(6, size=15)
    graph = TemporalGraph.from_arrays(src, (src + rng.integers(1, 6, size=15)) % 6, np.sort(rng.random(15)))
    query, events = graph.query(14), np.arange(14)
    expected = plain_flow(graph, query, events)
    ranking = flow(graph, query, rng.permutation(events), None, rng).tolist()
    assert ranking == sorted(ranking, key=lambda row: (-round(expected[row], 9), -row))
    assert len({round(value, 9) for value in expected.values()}) > 8


def test_flow_prefers_the_only_way_and_puts_last_what_cannot_reach_the_link():
    assert order(flow)[0] == [3, 4, 0, 1, 5, 2]  # 3 is all that node 1 has; 5 and 2 came too late to be passed on


def test_flow_can_order_nothing_and_events_at_the_time_of_the_link():
    rng = np.random.default_rng(0)
    assert flow(GRAPH, QUERY, np.arange(0), None, rng).tolist() == []
    at_once = TemporalGraph.from_arrays([0, 0, 0], [1, 2, 1], [5.0, 5.0, 5.0])
    assert sorted(flow(at_once, at_once.query(2), np.arange(2), None, rng).tolist()) == [0, 1]


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
    for policy in (random, temporal, spatio_temporal, flow):
        assert not order(policy)[1].evaluated


def test_a_shift_is_positive_towards_the_other_decision():
    assert shift(0.5, -0.5) == shift(-0.5, 0.5) == 1.0
    assert shift(0.0, 0.3) == 0.3  # 0 means no link


@pytest.mark.parametrize("policy", POLICIES.values(), ids=POLICIES)
def test_every_policy_of_the_catalogue_orders_all_candidates_and_nothing_else_the_same_each_time(policy):
    """A new one is asked this by its entry there."""
    graph = GRAPH.imagine([Add("0", "3", 2.5), Move(4, 1.5)])  # rows 7 and 8
    model = ToyModel(GRAPH).on(graph)
    for events in (EVENTS, np.array([2, 8, 0, 7]), EVENTS[:0]):
        orders = [policy(graph, QUERY, events, Oracle(model, QUERY), np.random.default_rng(3)) for _ in range(2)]
        assert sorted(orders[0].tolist()) == sorted(events.tolist())
        assert orders[0].tolist() == orders[1].tolist()
