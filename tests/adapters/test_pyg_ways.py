"""Whatever the user's modules do, an answer is what they give when they are fed event by event; or it is slow."""

import numpy as np
import pytest
import torch
from torch import nn
from torch_geometric.nn import TGNMemory
from torch_geometric.nn.models.tgn import IdentityMessage, LastAggregator, MeanAggregator

from adapters.pyg_models import naive_logit, pyg_tgn, random_tgn
from adapters.test_pyg import untied, wrapped
from cody.adapters import HistoryModel, pyg, pyg_ways
from cody.adapters.sourced import SourcedModel
from cody.errors import SlowModelWarning
from random_events import random_graph


def with_memory(tgn, graph, kind, aggregator):
    """The TGN with another class of memory, with the same weights."""
    features = 0 if graph.features is None else graph.features.shape[1]
    sizes = features or 1, 8, 8
    memory = kind(graph.num_nodes, *sizes, IdentityMessage(*sizes), aggregator())
    memory.load_state_dict(tgn.memory.state_dict(), strict=False)
    memory.eval()
    return tgn._replace(memory=memory)


def questions(graph, rng, count=4):
    for row in rng.integers(graph.num_events // 2, graph.num_events, count).tolist():
        yield graph.query(row), [frozenset(rng.choice(row, size, replace=False).tolist()) for size in (0, 1, 5, 20)]


def assert_is_the_users_own(model, tgn, data, rng):
    for query, changes in questions(model.graph, rng):
        expected = [naive_logit(tgn, data, query, change, 7, 20) for change in changes]
        np.testing.assert_allclose(model.logits(query, changes), expected, atol=1e-5)


@pytest.mark.parametrize("seed", range(4))
def test_old_messages_that_count_once_more_are_not_skipped(seed):
    """`MeanAggregator` averages messages of earlier batches too, made from the present memory of the other end."""
    rng = np.random.default_rng(seed)
    graph = untied(rng, edge_features=2)
    tgn, data = random_tgn(graph, seed)
    tgn = with_memory(tgn, graph, TGNMemory, MeanAggregator)
    with pytest.warns(SlowModelWarning, match="TGNMemory with MeanAggregator does not keep the last message of a node"):
        model = wrapped(tgn, data)
    assert_is_the_users_own(model, tgn, data, rng)


class Fading(TGNMemory):
    """A memory that is read in another way than it is kept."""

    def forward(self, n_id):
        memory, last_update = super().forward(n_id)
        return memory / (1 + last_update[:, None] / 100), last_update


def test_a_memory_with_a_forward_of_its_own_is_asked_in_the_slow_way():
    rng = np.random.default_rng(0)
    graph = untied(rng, edge_features=2)
    tgn, data = random_tgn(graph)
    tgn = with_memory(tgn, graph, Fading, LastAggregator)
    with pytest.warns(SlowModelWarning, match="where Fading itself, fed event by event, gives"):
        model = wrapped(tgn, data)
    assert isinstance(model, HistoryModel)
    assert_is_the_users_own(model, tgn, data, rng)


class Counting(TGNMemory):
    """A memory with a state that nobody knows of."""

    def reset_state(self):
        super().reset_state()
        self.seen = torch.zeros(self.num_nodes)

    def update_state(self, src, dst, t, raw_msg):
        super().update_state(src, dst, t, raw_msg)
        self.seen[torch.cat([src, dst])] += 1

    def forward(self, n_id):
        memory, last_update = super().forward(n_id)
        return memory * (1 + self.seen[n_id, None]), last_update


def test_a_memory_with_a_state_that_cannot_be_kept_is_replayed_from_the_first_event():
    rng = np.random.default_rng(0)
    graph = untied(rng, edge_features=2)
    tgn, data = random_tgn(graph)
    tgn = with_memory(tgn, graph, Counting, LastAggregator)
    with pytest.warns(SlowModelWarning, match="where Counting itself, fed event by event, gives"):
        model = wrapped(tgn, data)
    assert model.steps.save is None
    assert_is_the_users_own(model, tgn, data, rng)


def test_a_shortcut_that_is_wrong_is_not_taken(monkeypatch):
    """Whatever is wrong with the fast path, it is noticed when a model is wrapped."""
    graph = random_graph(np.random.default_rng(0), edge_features=2)
    tgn, data = random_tgn(graph)
    assert isinstance(wrapped(tgn, data), SourcedModel)
    right = pyg_ways.SourcedModel.session

    def wrong(self, query, rows=()):
        session = right(self, query, rows)
        answers = session.logits
        session.logits = lambda changes: answers(changes) + [0.01 * (len(change) > 3) for change in changes]
        return session

    monkeypatch.setattr(pyg_ways.SourcedModel, "session", wrong)
    with pytest.warns(SlowModelWarning, match="on a few test events"):
        assert isinstance(wrapped(tgn, data), HistoryModel)


@pytest.mark.parametrize("fast", [True, False])
def test_node_features_stand_beside_the_memory(fast):
    rng = np.random.default_rng(2)
    graph = untied(rng, edge_features=2)
    tgn, data = random_tgn(graph)
    features = torch.randn(graph.num_nodes, 3)
    gnn = pyg_tgn.AttentionEmbedding(11, 8, 2, tgn.memory.time_enc).eval()
    model = wrapped(tgn._replace(gnn=gnn), data, node_features=features, fast=fast)
    assert isinstance(model, SourcedModel) == fast

    class Beside(nn.Module):
        """What a user's loop does between memory and GNN."""

        def forward(self, z, *rest):
            return gnn(torch.cat([z, features[self.n_id]], dim=-1), *rest)

    class Noting(nn.Module):
        def __init__(self):
            super().__init__()
            self.reset_state, self.update_state = tgn.memory.reset_state, tgn.memory.update_state
            self.num_nodes = tgn.memory.num_nodes

        def forward(self, n_id):
            beside.n_id = n_id
            return tgn.memory(n_id)

    beside = Beside()
    assert_is_the_users_own(model, (Noting(), beside, tgn.link_predictor), data, rng)
    other = wrapped(tgn._replace(gnn=gnn), data, node_features=features + 1, fast=fast)
    assert other.identity != model.identity


class NeverAlone(nn.Module):
    """A part that gives another answer for a single row, as kernels of torch may where times are large."""

    def __init__(self, part):
        super().__init__()
        self.part, self.out_channels = part, getattr(part, "out_channels", None)

    def forward(self, *rows):
        return self.part(*rows) + (1.0 if len(rows[0]) == 1 else 0.0)


@pytest.mark.parametrize("fast", [True, False])
def test_no_part_of_a_users_model_is_given_a_single_row(fast, monkeypatch):
    rng = np.random.default_rng(1)
    graph = untied(rng, edge_features=2)
    tgn, data = random_tgn(graph)
    plain = wrapped(tgn, data, neighbours=1, batch=2, fast=fast)
    memory, gnn, link_predictor = tgn
    for name in ("time_enc", "msg_s_module", "msg_d_module", "gru"):
        setattr(memory, name, NeverAlone(getattr(memory, name)))
    monkeypatch.setattr(TGNMemory, "device", torch.device("cpu"))  # it is read from the time encoder there
    gnn.time_enc = NeverAlone(gnn.time_enc)
    model = pyg.wrap(
        memory=memory, gnn=gnn, link_predictor=NeverAlone(link_predictor), data=data, neighbours=1, batch=2, splits=(),
        sees_own_batch=True, fast=fast,
    )  # fmt: skip
    for query, changes in questions(graph, rng):
        expected = plain.logits(query, changes)
        np.testing.assert_allclose(model.logits(query, changes), expected, atol=1e-6)
        one_by_one = [model.reference(query, change, full=True).logits(query, [change])[0] for change in changes]
        np.testing.assert_allclose(one_by_one, expected, atol=1e-6)
