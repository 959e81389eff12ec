"""The adapter for DyGLib, on stand-ins of our own that are called as its models are."""

import numpy as np
import pytest
import torch
from torch import nn

from cody import Add, TemporalGraph
from cody.adapters import dyglib
from cody.errors import CallError, ModelError
from cody.testing import check_model
from random_events import random_graph

WIDTH = 6


class RecordedSampler:
    """A neighbour sampler of fixed events, as the library makes one for its own use. It knows the future."""

    sample_neighbor_strategy = "recent"

    def get_historical_neighbors(self, *_, **__):
        raise AssertionError("the user's sampler was asked")


class WithoutMemory(nn.Module):
    """Recent events, walks of two steps, and all events of a node: what the models without memory ask for."""

    def __init__(self, graph):
        super().__init__()
        torch.manual_seed(0)
        self.node_raw_features = torch.randn(graph.num_nodes + 1, WIDTH)
        events = torch.zeros(1, 2), torch.tensor(graph.features)
        self.edge_raw_features = torch.cat(events)
        self.neighbor_sampler = RecordedSampler()
        self.layer, self.dropout = nn.Linear(2 * WIDTH + 4, WIDTH), nn.Dropout(0.5)

    def compute_src_dst_node_temporal_embeddings(
        self, src_node_ids, dst_node_ids, node_interact_times, num_neighbors=20
    ):
        return tuple(
            self._embed(node_ids, node_interact_times, num_neighbors) for node_ids in (src_node_ids, dst_node_ids)
        )

    def _embed(self, node_ids, times, count):
        sampler = self.neighbor_sampler
        nodes, events, when = sampler.get_historical_neighbors(
            node_ids=node_ids, node_interact_times=times, num_neighbors=count
        )
        walks, _, _ = sampler.get_multi_hop_neighbors(
            num_hops=2, node_ids=node_ids, node_interact_times=times, num_neighbors=count
        )
        assert [table.shape for table in walks] == [(len(node_ids), count), (len(node_ids), count**2)]
        every, _, _ = sampler.get_all_first_hop_neighbors(node_ids=node_ids, node_interact_times=times)
        exists = torch.from_numpy(nodes > 0)[..., None]
        elapsed = torch.from_numpy(times[:, None] - when).float()[..., None] / 100
        parts = [
            (self.node_raw_features[torch.from_numpy(nodes)] * exists).sum(1),
            self.node_raw_features[torch.from_numpy(walks[1])].mean(1),
            (self.edge_raw_features[torch.from_numpy(events)] * exists).sum(1),
            (elapsed * exists).sum(1),
            torch.tensor([[float(len(each))] for each in every]),
        ]
        return self.dropout(self.layer(torch.cat(parts, dim=1)))


class Bank(nn.Module):
    """The memory of all nodes."""

    def __init__(self, nodes):
        super().__init__()
        self.node_memories = nn.Parameter(torch.zeros(nodes, WIDTH), requires_grad=False)

    def __init_memory_bank__(self):
        self.node_memories.data.zero_()

    def backup_memory_bank(self):
        return (self.node_memories.data.clone(),)

    def reload_memory_bank(self, backup_memory_bank):
        self.node_memories.data = backup_memory_bank[0].clone()


class WithMemory(WithoutMemory):
    """A memory that is updated with the embeddings of both nodes, so that it depends on the sampler too."""

    def __init__(self, graph):
        super().__init__(graph)
        self.memory_bank = Bank(graph.num_nodes + 1)
        self.update = nn.GRUCell(2 * WIDTH + 2, WIDTH)

    def compute_src_dst_node_temporal_embeddings(
        self, src_node_ids, dst_node_ids, node_interact_times, edge_ids, edges_are_positive=True, num_neighbors=20
    ):
        ends = src_node_ids, dst_node_ids
        memories = [self.memory_bank.node_memories[torch.from_numpy(end)] for end in ends]
        embeddings = [
            self._embed(end, node_interact_times, num_neighbors) + memory
            for end, memory in zip(ends, memories, strict=True)
        ]
        if edges_are_positive:
            features = self.edge_raw_features[torch.from_numpy(edge_ids)]
            for end, memory in zip(ends, memories, strict=True):
                self.memory_bank.node_memories[torch.from_numpy(end)] = self.update(
                    torch.cat([*embeddings, features], dim=1), memory
                )
        return tuple(embeddings)


class Merge(nn.Module):
    def __init__(self):
        super().__init__()
        self.out = nn.Linear(2 * WIDTH, 1)

    def forward(self, input_1, input_2):
        return self.out(torch.cat([input_1, input_2], dim=1))


def some_graph(events=50):
    """Each event has a time of its own: of equal ones, only strictly earlier ones are seen."""
    return random_graph(np.random.default_rng(0), events=events, edge_features=2, ties=False)


@torch.no_grad()
def from_kept(backbone, predictor, graph, query, removed, batch=7):
    """What a model says that never heard of the removed events: the definition, in the model's own terms."""
    kept = np.array([row for row in range(query.before) if row not in removed], dtype=int)
    small = TemporalGraph.from_arrays(
        np.append(graph.src[kept], 0),
        np.append(graph.dst[kept], 0),
        np.append(graph.time[kept], graph.time[-1]),
        num_nodes=graph.num_nodes,
    )
    past = dyglib.Past(small, small.query(len(kept)), small.outcome(frozenset(), small.query(len(kept))))

    class NumberedAsBefore(dyglib.PastSampler):
        def find_neighbors_before(self, *asked):
            nodes, events, *others = super().find_neighbors_before(*asked)
            return nodes, kept[events - 1] + 1, *others

    backbone.neighbor_sampler = NumberedAsBefore(past)
    more = {}
    if hasattr(backbone, "memory_bank"):
        backbone.memory_bank.__init_memory_bank__()
        for first in range(0, query.before, batch):
            rows = kept[(kept >= first) & (kept < first + batch)]
            if len(rows):
                ends = graph.src[rows].astype(int) + 1, graph.dst[rows].astype(int) + 1
                backbone.compute_src_dst_node_temporal_embeddings(*ends, graph.time[rows], rows + 1, num_neighbors=4)
        more = {"edge_ids": None, "edges_are_positive": False}
    ends = np.array([query.src + 1]), np.array([query.dst + 1])
    time = np.array([query.time])
    one, other = backbone.compute_src_dst_node_temporal_embeddings(*ends, time, num_neighbors=4, **more)
    return float(predictor(one, other))


@pytest.mark.parametrize("kind", [WithoutMemory, WithMemory])
def test_answers_are_those_of_a_model_that_never_saw_the_removed_events(kind):
    graph, rng = some_graph(), np.random.default_rng(1)
    backbone, predictor = kind(graph), Merge()
    model = dyglib.wrap(backbone, predictor, data=graph, batch=7, num_neighbors=4)
    backbone.eval()
    for row in (49, 30, 12):
        query = graph.query(row)
        changes = [frozenset(rng.integers(0, row, size).tolist()) for size in (0, 1, 5)]
        expected = [from_kept(backbone, predictor, graph, query, change) for change in changes]
        np.testing.assert_allclose(model.logits(query, changes), expected, atol=1e-5)


@pytest.mark.parametrize("kind", [WithoutMemory, WithMemory])
def test_it_keeps_all_rules_of_a_model(kind):
    graph = some_graph(25)
    model = dyglib.wrap(kind(graph), Merge(), data=graph, batch=7, num_neighbors=4)
    check_model(model, graph, quick=True, tolerance=1e-5).raise_if_failed()


def test_the_users_modules_are_left_as_they_were():
    graph = some_graph()
    backbone, predictor = WithMemory(graph), Merge()
    backbone.memory_bank.node_memories.data.fill_(3.0)
    before = {name: weight.clone() for name, weight in backbone.state_dict().items()}
    model = dyglib.wrap(backbone, predictor, data=graph, batch=7, num_neighbors=4)
    model.logits(graph.query(40), [frozenset(), frozenset({3})])
    assert all(torch.equal(weight, before[name]) for name, weight in backbone.state_dict().items())
    assert isinstance(backbone.neighbor_sampler, RecordedSampler)
    assert backbone.training
    assert len(backbone.edge_raw_features) == graph.num_events + 1


def test_imagined_events_have_features_of_their_own():
    graph = some_graph()
    model = dyglib.wrap(WithMemory(graph), Merge(), data=graph, batch=7, num_neighbors=4)
    query = graph.query(40)
    edits = [Add(str(query.src), str(query.dst), query.time - 0.01, features) for features in ([0.0, 0.0], [2.0, -1.0])]
    answers = model.on(graph.imagine(edits)).logits(query, [frozenset(), frozenset({50}), frozenset({51})])
    assert len({round(float(answer), 4) for answer in answers}) == 3


def test_calls_that_do_not_fit_are_refused():
    graph = some_graph()
    backbone = WithoutMemory(graph)
    with pytest.raises(CallError, match="is not asked with 'num_neighbor'; did you mean 'num_neighbors'"):
        dyglib.wrap(backbone, Merge(), data=graph, num_neighbor=4)
    with pytest.raises(ModelError, match="made for 50 events, and the data have 20"):
        dyglib.wrap(backbone, Merge(), data=graph.select(np.arange(20)))
    with pytest.raises(CallError, match="must be torch modules"):
        dyglib.wrap([backbone], Merge(), data=graph)
    with pytest.raises(CallError, match="data must be a graph"):
        dyglib.wrap(backbone, Merge(), data="wikipedia")
    with pytest.raises(CallError, match="Linear has no compute_src_dst_node_temporal_embeddings"):
        dyglib.wrap(nn.Linear(2, 2), Merge(), data=graph)
