"""The fast path of PyG models: event-sourced memory around the user's own modules."""

import warnings

import numpy as np
import pytest
from torch import nn
from torch_geometric.nn import TGNMemory
from torch_geometric.nn.models.tgn import IdentityMessage, MeanAggregator

from adapters.pyg_models import random_tgn
from adapters.stand_ins import FirstOfTheLatest, InSinglePrecision, Memory
from adapters.test_pyg import wrapped
from cody import Add, Alter, Move, TemporalGraph, explain
from cody.adapters import HistoryModel
from cody.adapters.sourced import SourcedModel
from cody.errors import SlowModelWarning
from cody.models import check_model
from random_events import random_graph


def both(seed, **kinds):
    """A model asked in the fast way and in the slow one, with random sizes."""
    rng = np.random.default_rng(seed)
    graph = random_graph(rng, edge_features=2 * (seed % 2), **kinds)
    tgn, data = random_tgn(graph, seed)
    options = {"neighbours": int(rng.integers(2, 6)), "batch": int(rng.integers(3, 12))}
    return rng, wrapped(tgn, data, **options), wrapped(tgn, data, **options, fast=False)


def as_in_tgb(memory, aggregator=FirstOfTheLatest):
    """The same weights in a memory of TGB or TGM."""
    sizes = memory.num_nodes, memory.raw_msg_dim, memory.memory_dim, memory.time_dim
    other = Memory(*sizes, IdentityMessage(*sizes[1:]), aggregator())
    weights = {name.replace("gru.", "memory_updater."): weight for name, weight in memory.state_dict().items()}
    other.load_state_dict(weights)
    other.eval()
    return other


def some_changes(rng, rows):
    return [frozenset(rng.choice(rows, min(size, len(rows))).tolist()) for size in (0, 1, 2, 4, 9)]


@pytest.mark.parametrize("seed", range(8))
def test_the_fast_path_answers_as_the_users_own_modules_do(seed):
    rng, fast, slow = both(seed, ties=seed % 3 > 0)
    assert isinstance(fast, SourcedModel)
    for row in rng.integers(1, fast.graph.num_events, 5).tolist():
        changes = some_changes(rng, range(fast.graph.num_events))
        expected = slow.logits(fast.graph.query(row), changes)
        np.testing.assert_allclose(fast.logits(fast.graph.query(row), changes), expected, atol=1e-5)


@pytest.mark.parametrize("first", [False, True], ids=["the last counts", "the first counts"])
@pytest.mark.parametrize("seed", range(6))
def test_it_does_so_where_most_events_have_the_same_time(seed, first):
    """Then messages of earlier batches count once more, and the side of an event decides."""
    rng = np.random.default_rng(seed)
    src, dst = rng.integers(0, 5, (2, 60))
    graph = TemporalGraph.from_arrays(src, dst, np.sort(rng.integers(0, 6, 60)) * 100.0)
    tgn, data = random_tgn(graph, seed)
    if first:
        tgn = tgn._replace(memory=as_in_tgb(tgn.memory))
    fast, slow = wrapped(tgn, data, batch=4), wrapped(tgn, data, batch=4, fast=False)
    assert isinstance(fast, SourcedModel)
    for row in (59, 40, 17):
        changes = some_changes(rng, range(row))
        expected = slow.logits(graph.query(row), changes)
        np.testing.assert_allclose(fast.logits(graph.query(row), changes), expected, atol=1e-5)


@pytest.mark.parametrize("seed", range(6))
def test_it_does_so_with_imagined_events(seed):
    rng, fast, slow = both(seed, events=50)
    edits = [Add(1, 2, 95.0), Add(3, 1, 130.0), Move(20, 190.0), Move(40, 15.0), Add(4, 4, 0.0), Add(1, 5, 190.0)]
    if fast.graph.features is not None:
        edits.append(Alter(33, rng.normal(size=fast.graph.features.shape[1]).tolist()))
    longer = fast.graph.imagine(edits)
    fast, slow = fast.on(longer), slow.on(longer)
    for row in (49, 33, 14):
        changes = some_changes(rng, [*range(row), *range(50, longer.num_rows)])
        query = longer.query(row)._replace(src=1)
        np.testing.assert_allclose(fast.logits(query, changes), slow.logits(query, changes), atol=1e-5)


def test_a_session_asked_about_other_rows_than_it_was_opened_with_answers_too():
    rng, fast, slow = both(1)
    query = fast.graph.query(70)
    session = fast.session(query, rows=[60, 65])
    for changes in ([frozenset({60})], some_changes(rng, range(70)), [frozenset({60, 65})]):
        np.testing.assert_allclose(session.logits(changes), slow.logits(query, changes), atol=1e-5)


def test_it_keeps_all_rules_of_a_model():
    _, fast, slow = both(3, events=60)
    check_model(fast, fast.graph, reference=slow, tolerance=1e-5, quick=True).raise_if_failed()


def test_a_counterfactual_is_confirmed_by_the_users_own_modules():
    _, fast, slow = both(1)
    for row in range(79, 20, -1):
        why = explain(fast, fast.graph, fast.graph.query(row))
        if why.verification and min(why.removed) >= fast.grid.size:
            assert "by replay from the memory at event" in why.verification.by
            without = slow.reference(why.query, frozenset(), full=True).logits(why.query, [frozenset(why.removed)])
            assert why.verification.without == pytest.approx(float(without[0]), abs=1e-4)
            break
    else:
        pytest.fail("none of the links has a counterfactual")


def test_an_aggregator_that_rounds_times_is_asked_in_the_slow_way_where_that_matters():
    src, dst = np.random.default_rng(0).integers(0, 6, (2, 40))
    graph = TemporalGraph.from_arrays(src, dst, 1.7e9 + np.arange(40.0))
    tgn, _ = random_tgn(graph)
    tgn = tgn._replace(memory=as_in_tgb(tgn.memory, InSinglePrecision))
    with pytest.warns(SlowModelWarning, match="InSinglePrecision rounds times, and takes some of these for equal"):
        wrapped(tgn, graph, message=1.0)
    fast, slow = (wrapped(tgn, graph, message=1.0, start=1.7e9, fast=way) for way in (True, False))
    changes = [frozenset(), frozenset({20, 33}), frozenset(range(30))]
    np.testing.assert_allclose(fast.logits(graph.query(39), changes), slow.logits(graph.query(39), changes), atol=1e-5)
    assert isinstance(fast, SourcedModel)


def test_a_memory_that_does_not_keep_the_last_message_is_asked_in_the_slow_way():
    graph = random_graph(np.random.default_rng(0), edge_features=2)
    tgn, data = random_tgn(graph)
    memory = TGNMemory(graph.num_nodes, 2, 8, 8, IdentityMessage(2, 8, 8), MeanAggregator())
    with pytest.warns(SlowModelWarning, match="TGNMemory with MeanAggregator does not keep the last message"):
        model = wrapped(tgn._replace(memory=memory), data)
    assert isinstance(model, HistoryModel)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        wrapped(tgn._replace(memory=memory), data, fast=False)
    check_model(model, model.graph, quick=True, seconds=5.0).raise_if_failed()


class Centred(nn.Module):
    """A GNN that subtracts the mean of all nodes that it is given."""

    def __init__(self, inner):
        super().__init__()
        self.inner = inner

    def forward(self, z, last_update, edge_index, t, msg):
        z = self.inner(z, last_update, edge_index, t, msg)
        return z - z.mean(dim=0)


def test_a_gnn_that_mixes_unrelated_nodes_is_asked_in_the_slow_way():
    graph = random_graph(np.random.default_rng(0))
    tgn, data = random_tgn(graph)
    with pytest.warns(SlowModelWarning, match="Centred mixes parts of a graph that no edge joins"):
        model = wrapped(tgn._replace(gnn=Centred(tgn.gnn)), data)
    assert isinstance(model, HistoryModel)
