"""The adapter for DyGLib, on stand-ins of our own that are called as its models are."""

import warnings
from collections import defaultdict

import numpy as np
import pytest
import torch
from torch import nn

from cody import Add, TemporalGraph, explain
from cody.adapters import dyglib, trials
from cody.errors import CallError, ModelError, SlowModelWarning
from cody.models import check_model
from cody.models.contract import first_score
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


class LastMessage(WithoutMemory):
    """A memory that is written when a node's next event comes, from a message that waits; `TGN` and `DyRep` in small.

    Messages are made of memories, or, `of_embeddings`, of the embedding of the other end.
    """

    def __init__(self, graph, of_embeddings=False):
        super().__init__(graph)
        self.of_embeddings = of_embeddings
        self.memory_bank = WaitingBank(graph.num_nodes + 1)
        self.embedding_module = Neighbours(self.neighbor_sampler, self.node_raw_features)
        del self.neighbor_sampler
        self.update = nn.GRUCell(2 * WIDTH + 2, WIDTH)

    def get_updated_memories(self, node_ids):
        memories = self.memory_bank.node_memories.data.clone()
        for node in node_ids:
            if self.memory_bank.node_raw_messages[node]:
                message = self.memory_bank.node_raw_messages[node][-1]
                memories[node] = self.update(message[None], memories[node][None])[0]
        return memories, self.memory_bank.node_last_updated_times

    def compute_src_dst_node_temporal_embeddings(
        self, src_node_ids, dst_node_ids, node_interact_times, edge_ids, edges_are_positive=True, num_neighbors=20
    ):
        bank, nodes = self.memory_bank, np.concatenate([src_node_ids, dst_node_ids])
        memories, _ = self.get_updated_memories(node_ids=np.arange(len(bank.node_memories)))
        both = self.embedding_module.compute_node_temporal_embeddings(
            node_memories=memories,
            node_ids=nodes,
            node_interact_times=np.concatenate([node_interact_times] * 2),
            num_neighbors=num_neighbors,
        ).chunk(2)
        if edges_are_positive:
            for node in np.unique(nodes):
                if bank.node_raw_messages[node]:
                    message = bank.node_raw_messages[node][-1]
                    bank.node_memories.data[node] = self.update(message[None], bank.node_memories[node][None])[0]
                bank.node_raw_messages[node] = []
            features = self.edge_raw_features[torch.from_numpy(edge_ids)]
            for own, other, embedded in ((src_node_ids, dst_node_ids, both[1]), (dst_node_ids, src_node_ids, both[0])):
                others = embedded if self.of_embeddings else bank.node_memories[torch.from_numpy(other)]
                messages = torch.cat([bank.node_memories[torch.from_numpy(own)], others, features], dim=1)
                for node, message in zip(own, messages, strict=True):
                    bank.node_raw_messages[node].append(message)
        return both


class WaitingBank(Bank):
    """Memories, and messages that wait."""

    def __init__(self, nodes):
        super().__init__(nodes)
        self.node_last_updated_times = nn.Parameter(torch.zeros(nodes), requires_grad=False)
        self.node_raw_messages = defaultdict(list)

    def __init_memory_bank__(self):
        super().__init_memory_bank__()
        self.node_raw_messages = defaultdict(list)

    def backup_memory_bank(self):
        waiting = {node: list(messages) for node, messages in self.node_raw_messages.items()}
        return self.node_memories.data.clone(), waiting

    def reload_memory_bank(self, backup_memory_bank):
        super().reload_memory_bank(backup_memory_bank)
        self.node_raw_messages = defaultdict(list, {node: list(some) for node, some in backup_memory_bank[1].items()})


class Neighbours(nn.Module):
    """A node and its recent neighbours."""

    def __init__(self, sampler, features):
        super().__init__()
        self.neighbor_sampler, self.node_raw_features, self.computed = sampler, features, 0

    def compute_node_temporal_embeddings(self, node_memories, node_ids, node_interact_times, num_neighbors):
        self.computed += 1
        nodes, _, _ = self.neighbor_sampler.get_historical_neighbors(
            node_ids=node_ids, node_interact_times=node_interact_times, num_neighbors=num_neighbors
        )
        features = node_memories + self.node_raw_features
        around = features[torch.from_numpy(nodes)] * torch.from_numpy(nodes > 0)[..., None]
        return features[torch.from_numpy(node_ids)] + around.sum(1)


class PaddedToTheLongest(WithoutMemory):
    """Padded to the longest history of a batch, without a mask, as DyGFormer does it."""

    patch_size, max_input_sequence_length = 2, 9

    def compute_src_dst_node_temporal_embeddings(self, src_node_ids, dst_node_ids, node_interact_times):
        return tuple(self._embed(node_ids, node_interact_times, 0) for node_ids in (src_node_ids, dst_node_ids))

    def pad_sequences(self, node_ids, histories, patch_size, max_input_sequence_length):
        most = max_input_sequence_length - 1
        histories = [[node, *history[-most:]] for node, history in zip(node_ids, histories, strict=True)]
        longest = -(-max(map(len, histories)) // patch_size) * patch_size
        return (np.array([history + [0] * (longest - len(history)) for history in histories]),)

    def _embed(self, node_ids, times, _):
        histories, _, _ = self.neighbor_sampler.get_all_first_hop_neighbors(
            node_ids=node_ids, node_interact_times=times
        )
        (padded,) = self.pad_sequences(
            node_ids,
            [history.tolist() for history in histories],
            patch_size=self.patch_size,
            max_input_sequence_length=self.max_input_sequence_length,
        )
        return self.node_raw_features[torch.from_numpy(padded)].mean(1)


class ComparedWithItsBatch(WithoutMemory):
    """Embeddings less the mean of the batch."""

    def _embed(self, node_ids, times, count):
        embedded = super()._embed(node_ids, times, count)
        return embedded - embedded.mean(0)


class ByEnd(WithoutMemory):
    """Embeds one end of a link after the other, as GraphMixer and TGAT do."""

    layers = 1

    def compute_src_dst_node_temporal_embeddings(
        self, src_node_ids, dst_node_ids, node_interact_times, num_neighbors=20
    ):
        more = {"node_interact_times": node_interact_times, "layer": self.layers, "num_neighbors": num_neighbors}
        return tuple(
            self.compute_node_temporal_embeddings(node_ids=nodes, **more) for nodes in (src_node_ids, dst_node_ids)
        )

    def compute_node_temporal_embeddings(self, node_ids, node_interact_times, layer, num_neighbors):
        own = self.node_raw_features[torch.from_numpy(node_ids)]
        if not layer:
            return own
        if layer == self.layers:
            self.computed = getattr(self, "computed", 0) + len(node_ids)
        nodes, events, times = self._neighbours(node_ids, node_interact_times, num_neighbors)
        around = self.compute_node_temporal_embeddings(nodes.ravel(), times.ravel(), layer - 1, num_neighbors)
        exists = torch.from_numpy(nodes > 0)[..., None]
        elapsed = torch.from_numpy(node_interact_times[:, None] - times).float()[..., None] / 100
        parts = [around.view(*nodes.shape, -1), self.edge_raw_features[torch.from_numpy(events)], elapsed, exists]
        return self.layer(torch.cat([own, *((part * exists).sum(1) for part in parts)], dim=1))

    def _neighbours(self, nodes, times, count):
        return self.neighbor_sampler.get_historical_neighbors(nodes, times, count)


class TwoLayers(ByEnd):
    layers = 2


class ReadsOn(ByEnd):
    """Reads more events where there are real ones."""

    def _neighbours(self, nodes, times, count):
        found = super()._neighbours(nodes, times, count)
        return super()._neighbours(nodes, times, 5 * count) if found[1].max() > 1 else found


class Merge(nn.Module):
    def __init__(self):
        super().__init__()
        self.out = nn.Linear(2 * WIDTH, 1)

    def forward(self, input_1, input_2):
        return self.out(torch.cat([input_1, input_2], dim=1))


def some_graph(events=50):
    """Each event has a time of its own: of equal ones, only strictly earlier ones are seen."""
    return random_graph(np.random.default_rng(0), events=events, edge_features=2, ties=False)


def use_sampler(backbone, sampler):
    """What `set_neighbor_sampler` does there."""
    for module in backbone.modules():
        if hasattr(module, "neighbor_sampler"):
            module.neighbor_sampler = sampler


def of_embeddings(graph):
    return LastMessage(graph, of_embeddings=True)


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
    past = dyglib.Past(small, small.query(len(kept)), small.difference(frozenset(), small.query(len(kept))))

    numbered = np.concatenate([[0], kept + 1])

    class NumberedAsBefore(dyglib.PastSampler):
        def get_historical_neighbors(self, *asked, **named):
            nodes, events, times = super().get_historical_neighbors(*asked, **named)
            return nodes, numbered[events], times

    use_sampler(backbone, NumberedAsBefore([past]))
    more = {}
    if hasattr(backbone, "memory_bank"):
        backbone.memory_bank.__init_memory_bank__()
        for first in range(0, query.before // batch * batch, batch):  # not that of the link itself
            rows = kept[(kept >= first) & (kept < first + batch)]
            if len(rows):
                ends = graph.src[rows].astype(int) + 1, graph.dst[rows].astype(int) + 1
                backbone.compute_src_dst_node_temporal_embeddings(*ends, graph.time[rows], rows + 1, num_neighbors=4)
        more = {"edge_ids": None, "edges_are_positive": False}
    ends = np.array([query.src + 1]), np.array([query.dst + 1])
    time = np.array([query.time])
    one, other = backbone.compute_src_dst_node_temporal_embeddings(*ends, time, num_neighbors=4, **more)
    return float(predictor(one, other))


KINDS = [WithoutMemory, WithMemory, LastMessage, of_embeddings, ByEnd, TwoLayers, ReadsOn]


@pytest.mark.parametrize("kind", KINDS)
def test_answers_are_those_of_a_model_that_never_saw_the_removed_events(kind):
    graph, rng = some_graph(), np.random.default_rng(1)
    backbone, predictor = kind(graph), Merge()
    model = dyglib.wrap(backbone, predictor, data=graph, batch=7, splits=(), num_neighbors=4)
    backbone.eval()
    for row in (49, 30, 12):
        query = graph.query(row)
        changes = [frozenset(rng.integers(0, row, size).tolist()) for size in (0, 1, 5)]
        expected = [from_kept(backbone, predictor, graph, query, change) for change in changes]
        np.testing.assert_allclose(model.logits(query, changes), expected, atol=1e-5)


@pytest.mark.parametrize("kind", KINDS)
def test_it_keeps_all_rules_of_a_model(kind):
    graph = some_graph(25)
    model = dyglib.wrap(kind(graph), Merge(), data=graph, batch=7, splits=(), num_neighbors=4)
    check_model(model, graph, quick=True, tolerance=1e-5).raise_if_failed()


@pytest.mark.parametrize("kind", KINDS)
def test_many_links_of_one_moment_get_the_answers_that_each_gets_alone(kind):
    graph, rng = some_graph(), np.random.default_rng(2)
    model = dyglib.wrap(kind(graph), Merge(), data=graph, batch=7, splits=(), num_neighbors=4)
    query = graph.query(44)
    links = [query._replace(dst=node) for node in range(graph.num_nodes)]
    changes = [frozenset(), *(frozenset(rng.integers(0, 44, size).tolist()) for size in (1, 4))]
    alone = np.stack([model.logits(link, changes) for link in links], axis=1)
    session = model.session_of_links(links, first_score)
    np.testing.assert_allclose(session.scores(changes), alone, atol=1e-5)
    np.testing.assert_allclose(session.scores(changes * len(links)), np.tile(alone, (len(links), 1)), atol=1e-5)
    reference = model.reference_of_links(links, changes[2])
    np.testing.assert_allclose(reference.scores(links, changes[2:])[0], alone[2], atol=1e-5)


class ThreeClasses(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(2 * WIDTH, 3)

    def forward(self, input_1, input_2):
        return self.layer(torch.cat([input_1, input_2], dim=1))


@pytest.mark.parametrize("kind", KINDS)
def test_class_scores_have_the_names_of_the_classes(kind):
    graph = some_graph()
    model = dyglib.wrap(
        kind(graph), ThreeClasses(), data=graph, batch=7, splits=(), num_neighbors=4, classes=["calm", "busy", "odd"]
    )
    scores = model.logits(graph.query(44), [frozenset(), frozenset({40})])
    assert scores.shape == (2, 3)
    assert explain(model, graph, graph.query(44)).outcome == model.classes[int(scores[0].argmax())]


@torch.no_grad()
def in_batches(backbone, predictor, graph, batch, **options):
    """The scores of all events in the library's own loop: each batch is scored with the memory before it."""
    everything = graph.query(graph.num_events - 1)._replace(before=graph.num_events, time=np.inf)
    past = dyglib.Past(graph, everything, graph.difference(frozenset(), everything))
    use_sampler(backbone, RowByRow([past]))
    scores = []
    for first in range(0, graph.num_events, batch):
        rows = np.arange(first, min(first + batch, graph.num_events))
        ends = graph.src[rows].astype(int) + 1, graph.dst[rows].astype(int) + 1
        more = {"edge_ids": rows + 1} if hasattr(backbone, "memory_bank") else {}
        embedded = backbone.compute_src_dst_node_temporal_embeddings(*ends, graph.time[rows], **more, **options)
        scores.append(predictor(*embedded).numpy().ravel())
    return np.concatenate(scores)


class RowByRow(dyglib.PastSampler):
    """One past for all rows of a call."""

    def _past_of(self, nodes):
        return np.zeros(len(nodes), dtype=int)


@pytest.mark.parametrize("kind", [*KINDS, PaddedToTheLongest])
def test_a_link_gets_the_score_of_the_librarys_own_loop(kind):
    graph = some_graph()
    backbone, predictor = kind(graph), Merge()
    options = {} if kind is PaddedToTheLongest else {"num_neighbors": 4}
    model = dyglib.wrap(backbone, predictor, data=graph, batch=7, splits=(), **options)
    expected = in_batches(backbone.eval(), predictor, graph, 7, **options)
    rows = np.arange(35, 49)  # in whose batches a history has the full length
    answers = [model.logits(graph.query(row), [frozenset()])[0] for row in rows.tolist()]
    np.testing.assert_allclose(answers, expected[rows], atol=1e-5)


def test_a_memory_that_has_the_earlier_events_of_the_batch_gives_another_score():
    graph = some_graph()
    answers = [
        dyglib.wrap(
            LastMessage(graph), Merge(), data=graph, batch=7, splits=(), sees_own_batch=sees, num_neighbors=4
        ).logits(graph.query(47), [frozenset()])[0]
        for sees in (False, True)
    ]
    assert abs(answers[0] - answers[1]) > 1e-4


def test_hops_are_how_far_the_backbone_asks_for_neighbours():
    graph = some_graph()
    assert dyglib.wrap(WithoutMemory(graph), Merge(), data=graph, num_neighbors=4).hops == 2
    assert dyglib.wrap(PaddedToTheLongest(graph), Merge(), data=graph).hops == 1
    assert dyglib.wrap(LastMessage(graph), Merge(), data=graph, num_neighbors=4).hops == 1
    assert dyglib.wrap(WithoutMemory(graph), Merge(), data=graph, num_neighbors=4, hops=3).hops == 3


@pytest.mark.parametrize(("kind", "hops"), [(ByEnd, 1), (TwoLayers, 2)])
def test_each_end_is_embedded_once_for_all_histories_of_which_it_reads_the_same(kind, hops):
    graph = some_graph()
    model = dyglib.wrap(kind(graph), Merge(), data=graph, num_neighbors=3)
    backbone = model.steps.score.__self__.backbone
    query, rng = graph.query(45), np.random.default_rng(0)
    changes = [frozenset(rng.integers(0, 45, 4).tolist()) for _ in range(60)]
    expected = [model.reference(query, change).logits(query, [change])[0] for change in changes]
    backbone.computed = 0
    session = model.session(query)
    np.testing.assert_allclose(session.logits(changes), expected, atol=1e-5)
    assert 2 < backbone.computed < len(changes)
    backbone.computed = 0
    np.testing.assert_allclose(session.logits(changes[::-1]), expected[::-1], atol=1e-5)
    assert backbone.computed == 0  # it remembers
    assert dyglib.ONE_END not in vars(backbone)
    added = frozenset({graph.num_events})
    for features in ([2.0, 1.0], [0.0, -3.0]):  # another log has another event in the same row
        longer = model.on(graph.imagine([Add(int(graph.src[45]), 3, float(query.time) - 1, features)]))
        answers = [longer.logits(query, [added])[0], longer.reference(query, added).logits(query, [added])[0]]
        np.testing.assert_allclose(*answers, atol=1e-5)


def test_of_a_model_that_cuts_histories_only_what_it_keeps_tells_them_apart():
    graph = some_graph(200)
    model = dyglib.wrap(PaddedToTheLongest(graph), Merge(), data=graph)
    scored, steps = [], model.steps.score.__self__
    scores = steps.scores
    steps.scores = lambda links, pasts: scored.extend(pasts) or scores(links, pasts)
    query = graph.query(190)
    older = [frozenset({row}) for row in range(60)]
    assert min(len(graph.history(node, 190)) - len(graph.history(node, 60)) for node in query[:2]) > 9
    expected = model.reference(query, frozenset()).logits(query, [frozenset()])
    scored.clear()
    np.testing.assert_allclose(model.logits(query, older), np.repeat(expected, len(older)), atol=1e-5)
    assert len(scored) == 1
    recent = [frozenset({row}) for row in range(100, 190)]
    expected = [model.reference(query, change).logits(query, [change])[0] for change in recent]
    np.testing.assert_allclose(model.logits(query, recent), expected, atol=1e-5)


def test_a_model_that_reads_more_than_it_seemed_to_shares_nothing():
    graph = some_graph()
    steps = dyglib.wrap(ReadsOn(graph), Merge(), data=graph, num_neighbors=2).steps.score.__self__
    assert not steps.shares
    assert dyglib.wrap(ByEnd(graph), Merge(), data=graph, num_neighbors=2).steps.score.__self__.shares


def test_embeddings_that_no_message_needs_are_not_computed_to_replay_events():
    graph = some_graph()
    for of_embeddings, needed in ((False, 1), (True, 3)):
        model = dyglib.wrap(
            LastMessage(graph, of_embeddings), Merge(), data=graph, batch=20, splits=(), num_neighbors=4
        )
        module = model.steps.score.__self__.backbone.embedding_module
        module.computed = 0
        model.logits(graph.query(45), [frozenset()])
        assert module.computed == needed  # to score; and for each of two batches


def test_a_backbone_that_looks_at_the_rest_of_a_batch_is_asked_link_by_link_with_a_warning():
    graph = some_graph()
    with pytest.warns(SlowModelWarning, match="depends on the other links of its batch"):
        model = dyglib.wrap(ComparedWithItsBatch(graph), Merge(), data=graph, num_neighbors=4)
    changes = [frozenset({row}) for row in range(30, 40)]
    together = model.logits(graph.query(40), changes)
    assert together.tolist() == [model.logits(graph.query(40), [change])[0] for change in changes]


def test_a_long_wait_is_announced_with_an_estimate(monkeypatch):
    monkeypatch.setattr(trials, "LONG", 0.0)
    graph = some_graph()
    with pytest.warns(SlowModelWarning, match=r"300 evaluations may take \d.* (s|min|hours)"):
        dyglib.wrap(WithMemory(graph), Merge(), data=graph, batch=7, splits=(), num_neighbors=4)


def seldom_seen(events):
    """A log whose last links are between nodes that were last seen when it began."""
    pairs = np.arange(2, 2 + 2 * (events // 8), 2)
    between = np.zeros(events - 2 * len(pairs), dtype=int)
    src = np.concatenate([pairs, between, pairs])
    dst = np.concatenate([pairs + 1, between + 1, pairs + 1])
    features = np.zeros((events, 2), dtype=np.float32)
    return TemporalGraph.from_arrays(src, dst, np.arange(float(events)), features=features)


@pytest.mark.parametrize(("events", "warned"), [(400, False), (20_000, True)])
def test_a_memory_is_slow_where_many_batches_lie_between_a_link_and_its_candidates(events, warned, monkeypatch):
    monkeypatch.setattr(trials, "_seconds", lambda action: 0.002)  # whatever the machine
    graph = seldom_seen(events)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        dyglib.wrap(WithMemory(graph), Merge(), data=graph, batch=20, splits=(), num_neighbors=4)
    assert any(issubclass(each.category, SlowModelWarning) for each in caught) == warned


def test_the_users_modules_are_left_as_they_were():
    graph = some_graph()
    backbone, predictor = WithMemory(graph), Merge()
    backbone.memory_bank.node_memories.data.fill_(3.0)
    before = {name: weight.clone() for name, weight in backbone.state_dict().items()}
    model = dyglib.wrap(backbone, predictor, data=graph, batch=7, splits=(), num_neighbors=4)
    model.logits(graph.query(40), [frozenset(), frozenset({3})])
    assert all(torch.equal(weight, before[name]) for name, weight in backbone.state_dict().items())
    assert isinstance(backbone.neighbor_sampler, RecordedSampler)
    assert backbone.training
    assert len(backbone.edge_raw_features) == graph.num_events + 1


def test_imagined_events_have_features_of_their_own():
    graph = some_graph()
    model = dyglib.wrap(WithMemory(graph), Merge(), data=graph, batch=7, splits=(), num_neighbors=4)
    query = graph.query(40)
    edits = [Add(str(query.src), str(query.dst), query.time - 0.01, features) for features in ([0.0, 0.0], [2.0, -1.0])]
    answers = model.on(graph.imagine(edits)).logits(query, [frozenset(), frozenset({50}), frozenset({51})])
    assert len({round(float(answer), 4) for answer in answers}) == 3


def test_calls_that_do_not_fit_are_refused():
    graph = some_graph()
    backbone = WithoutMemory(graph)
    with pytest.raises(CallError, match="has no option 'num_neighbor'; did you mean 'num_neighbors'"):
        dyglib.wrap(backbone, Merge(), data=graph, num_neighbor=4)
    with pytest.raises(ModelError, match="made for 50 events, but the data have 20"):
        dyglib.wrap(backbone, Merge(), data=graph.select(np.arange(20)))
    with pytest.raises(CallError, match="must be torch modules"):
        dyglib.wrap([backbone], Merge(), data=graph)
    with pytest.raises(CallError, match="data must be a graph"):
        dyglib.wrap(backbone, Merge(), data="wikipedia")
    with pytest.raises(CallError, match="Linear has no compute_src_dst_node_temporal_embeddings"):
        dyglib.wrap(nn.Linear(2, 2), Merge(), data=graph)
