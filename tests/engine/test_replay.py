import numpy as np
import pytest
import torch

from cody.engine import FastTGAT
from cody.engine.replay import Replay
from cody.errors import CallError
from cody.graph import Query
from random_events import random_graph, random_network

KINDS = ["tgn", "tgat"]


def ask(graph, network, row, *removals, **options):
    return Replay(network, graph, **options).logits(graph.query(row), [frozenset(rows) for rows in removals])


@pytest.mark.parametrize("kind", KINDS)
def test_removing_an_event_equals_a_log_without_it_where_the_grid_cannot_tell(kind):
    """With one row in each batch a hole in the grid is the same as no row at all."""
    rng = np.random.default_rng(0)
    for seed in range(5):
        graph = random_graph(rng, edge_features=seed % 2 * 3, node_features=seed % 3)
        network = random_network(graph, kind, seed, batch=1)
        removed = frozenset(rng.choice(70, 12, replace=False).tolist())
        kept = np.array([row for row in range(graph.num_events) if row not in removed])
        query = graph.query(70)
        without = Query(query.src, query.dst, query.time, int(np.searchsorted(kept, 70)))
        expected = Replay(network, graph.select(kept)).logits(without, [frozenset()])
        np.testing.assert_allclose(Replay(network, graph).logits(query, [removed]), expected, atol=1e-5)


def test_a_removed_event_leaves_a_hole_and_does_not_shift_the_grid():
    rng = np.random.default_rng(1)
    graph = random_graph(rng)
    network = random_network(graph, "tgn", batch=7)
    kept = np.delete(np.arange(graph.num_events), 3)
    query = graph.query(70)
    shifted = Replay(network, graph.select(kept)).logits(query._replace(before=69), [frozenset()])
    assert abs(shifted - Replay(network, graph).logits(query, [frozenset({3})]))[0] > 1e-3


@pytest.mark.parametrize("kind", KINDS)
def test_removing_a_later_event_changes_nothing(kind):
    graph = random_graph(np.random.default_rng(2))
    network = random_network(graph, kind)
    whole, without = ask(graph, network, 50, [], range(50, 80))
    assert whole == without


@pytest.mark.parametrize("kind", KINDS)
def test_removing_an_event_that_cannot_reach_the_query_changes_nothing(kind):
    rng = np.random.default_rng(3)
    near = random_graph(rng, nodes=6, events=40)
    src, dst = np.append(near.src, [20, 21, 20]), np.append(near.dst, [21, 22, 22])
    time = np.append(near.time, [5.0, 6.0, 7.0])
    graph = type(near).from_arrays(src, dst, time, sort=True)
    far = np.flatnonzero(graph.src >= 20)
    network = random_network(graph, kind)
    whole, without = ask(graph, network, 42, [], far)
    assert whole == pytest.approx(without, abs=1e-6)  # the last bits of a matrix product depend on its shape


@pytest.mark.parametrize("kind", KINDS)
def test_removing_a_recent_event_of_the_query_changes_the_answer(kind):
    graph = random_graph(np.random.default_rng(4))
    network = random_network(graph, kind)
    row = 70
    whole, without = ask(graph, network, row, [], [graph.history(int(graph.src[row]), row)[-1]])
    assert abs(whole - without) > 1e-4


@pytest.mark.parametrize("before", [0, 1, 6, 7, 8, 63, 80])
@pytest.mark.parametrize("kind", KINDS)
def test_starting_from_a_grid_line_equals_starting_from_row_0(kind, before):
    graph = random_graph(np.random.default_rng(5))
    network = random_network(graph, kind)
    query = Query(0, 1, 1e4, before)
    removals = [frozenset(), frozenset({min(before, 40)}), frozenset({2, 50})]  # the last reaches before the state
    start = Replay(network, graph).state(min(before, 40))
    assert start.row % network.sizes.batch == 0
    expected = Replay(network, graph).logits(query, removals)
    np.testing.assert_array_equal(Replay(network, graph, start=start).logits(query, removals), expected)


@pytest.mark.parametrize("kind", KINDS)
def test_double_precision_agrees_with_single(kind):
    graph = random_graph(np.random.default_rng(6), edge_features=2)
    network = random_network(graph, kind)
    single = ask(graph, network, 60, [], [50, 55])
    double = ask(graph, network, 60, [], [50, 55], dtype=np.float64)
    np.testing.assert_allclose(single, double, atol=1e-3)


def test_asking_leaves_network_and_graph_as_they_were():
    graph = random_graph(np.random.default_rng(7))
    network = random_network(graph, "tgn").train()
    before = {name: weight.clone() for name, weight in network.state_dict().items()}
    model = Replay(network, graph)
    first = model.logits(graph.query(60), [frozenset({50})])
    assert network.training
    assert all(torch.equal(weight, before[name]) for name, weight in network.state_dict().items())
    assert first == model.logits(graph.query(60), [frozenset({50})])


def test_a_link_from_a_node_to_itself_and_a_past_without_events_have_answers():
    graph = random_graph(np.random.default_rng(8))
    model = Replay(random_network(graph, "tgn"), graph)
    assert np.isfinite(model.logits(Query(3, 3, 1e4, 80), [frozenset(), frozenset(range(80))])).all()
    assert np.isfinite(model.logits(Query(0, 1, 0.0, 0), [frozenset()])).all()


@pytest.mark.parametrize("engine", [Replay, FastTGAT])
def test_rows_may_be_any_kind_of_integer_but_nothing_else(engine):
    graph = random_graph(np.random.default_rng(9))
    model = engine(random_network(graph, "tgat"), graph)
    row = int(graph.history(int(graph.src[60]), 60)[-1])
    expected = model.logits(graph.query(60), [frozenset({row})])
    for same in ([{np.int32(row)}], [torch.tensor([row])], [[row, row]], [np.array([row])], iter([{row}])):
        assert model.logits(graph.query(60), same) == expected
    for other in ([{row + 0.5}], frozenset({row}), [{"1"}], [None]):
        with pytest.raises(CallError, match="changes must be sets of event rows"):
            model.logits(graph.query(60), other)


def test_impossible_questions_are_refused_in_the_users_words():
    graph = random_graph(np.random.default_rng(9))
    model = Replay(random_network(graph, "tgat"), graph)
    with pytest.raises(CallError, match="event 80 does not exist: rows go from 0 to 79"):
        model.logits(graph.query(60), [frozenset({80})])
    with pytest.raises(CallError, match="src=99 is not a node"):
        model.logits(Query(99, 0, 1e4, 10), [frozenset()])
    with pytest.raises(CallError, match="earlier than the latest visible event"):
        model.logits(Query(0, 1, 0.0, 80), [frozenset()])
