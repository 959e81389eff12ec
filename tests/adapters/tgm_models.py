"""Models made of TGM's classes, with the functions that its examples call them with."""

import inspect
from collections import defaultdict
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
import torch
from tgm import DGraph
from tgm.constants import PADDED_NODE_ID
from tgm.data import DGData, DGDataLoader
from tgm.hooks import DeduplicationHook, HookManager, NeighborSamplerHook, RecencyNeighborHook, StatelessHook
from tgm.nn import (
    CTAN,
    CTANMemory,
    DyGFormer,
    EdgeBankPredictor,
    LinkPredictor,
    MLPMixer,
    NCNPredictor,
    RandomProjectionModule,
    TemporalAttention,
    TGNMemory,
    Time2Vec,
    TPNet,
    tCoMemPredictor,
)
from tgm.nn.encoder.tgn import GraphAttentionEmbedding, IdentityMessage, LastAggregator
from torch import nn

__all__ = ["CASES", "NeighborSamplerHook", "RandomProjectionModule", "first", "new_data", "part", "scores_of_the_loop"]

NODES, EVENTS, WIDTH, NEIGHBOURS = 14, 170, 8, 5
X = torch.randn(NODES, 4, generator=torch.Generator().manual_seed(1))  # of the nodes
GONE = torch.tensor([-1, -1])  # of a pair that nobody asks about


class Case(NamedTuple):
    """A model, and how a loop calls it."""

    score: Any
    modules: tuple
    hooks: tuple = ()
    update: Any = None
    start: Any = None
    batch: int = 20
    more: dict = {}  # noqa: RUF012 - arguments of `wrap`


def new_data(seed=0, nodes=NODES, events=EVENTS):
    """Events with ties, self-loops and features."""
    rng = np.random.default_rng(seed)
    ends = torch.from_numpy(rng.integers(0, nodes, (events, 2)).astype(np.int32))
    time = torch.from_numpy(np.sort(rng.integers(0, 90, events)))
    features = torch.from_numpy(rng.normal(size=(events, 3)).astype(np.float32))
    return DGData.from_raw(edge_time=time, edge_index=ends, edge_x=features, static_node_x=X, time_delta="s")


def part(data, rows):
    """Some of the events."""
    features, ends = data.edge_x[rows], data.edge_index[rows]
    return DGData.from_raw(data.time[rows], ends, features, static_node_x=X, time_delta="s")


def first(data, count):
    """The first events."""
    return part(data, torch.arange(count))


def recent(*numbers, ends=("edge_src", "edge_dst"), directed=False):
    times = ["neg_time" if name == "neg" else "edge_time" for name in ends]
    return RecencyNeighborHook(NODES, list(numbers), list(ends), times, directed)


def scores_of_the_loop(data, case):
    """One score for each event, as a loop of TGM computes them."""
    manager = HookManager(["test"])
    for hook in (*case.hooks, *([Negatives()] if any("neg" in _seeds(hook) for hook in case.hooks) else [])):
        manager.register("test", hook)
    for module in case.modules:
        if isinstance(module, nn.Module):
            module.eval()
        if case.update and hasattr(module, "reset_state"):
            module.reset_state()
    if case.start:
        case.start(*case.modules)
    scores = []
    with torch.no_grad(), manager.activate("test"):
        for batch in DGDataLoader(DGraph(data), case.batch, hook_manager=manager):
            scores.append(case.score(batch, *case.modules).reshape(-1))
            if case.update:
                case.update(batch, *case.modules)
    manager.reset_state()
    return torch.cat(scores).numpy()


def _seeds(hook):
    return getattr(hook, "_seed_nodes_keys", ())


class Negatives(StatelessHook):
    """Destinations that did not happen; a score of a link that did must not depend on them."""

    requires, produces = {"edge_dst"}, {"neg", "neg_time"}

    def __call__(self, dg, batch):
        batch.neg, batch.neg_time = (batch.edge_dst + 1) % NODES, batch.edge_time
        return batch


class Tgat(nn.Module):
    """Two of TGM's attention layers, as its TGAT stacks them."""

    def __init__(self):
        super().__init__()
        self.time = Time2Vec(time_dim=6)
        self.attention = nn.ModuleList(TemporalAttention(2, width, 3, 6) for width in (4, WIDTH))
        self.merge = nn.ModuleList(nn.Linear(layer.out_dim + 4, WIDTH) for layer in self.attention)

    def forward(self, x, seeds, times, others, features, when):
        z = [x[nodes] for nodes in (seeds[0], *(nodes.flatten() for nodes in others))]
        first = list(z)
        for attention, merge in zip(self.attention, self.merge, strict=True):
            z = [
                merge(torch.cat([self.attend(attention, z, hop, times, others, features, when), first[hop]], dim=1))
                for hop in range(len(z) - 1)
            ]
        return z[0]

    def attend(self, attention, z, hop, times, others, features, when):
        here, number = z[hop], others[hop].shape[1]
        since = self.time(times[hop][:, None] - when[hop])
        now, there = self.time(torch.zeros(len(here))), z[hop + 1].reshape(len(here), number, -1)
        return attention(here, now, features[hop], there, since, others[hop] != PADDED_NODE_ID)


def tgat():
    def score(batch, encoder, decoder):
        found = batch.seed_nids, batch.seed_times, batch.nbr_nids, batch.nbr_edge_x, batch.nbr_edge_time
        return decoder(*encoder(X, *found).chunk(2))

    return Case(score, (Tgat(), LinkPredictor(WIDTH, hidden_dim=WIDTH)), (recent(NEIGHBOURS, 3),))


class Mixer(nn.Module):
    """TGM's MLPMixer over recent events, and the mean of recent neighbours, as in its GraphMixer."""

    def __init__(self):
        super().__init__()
        self.time, self.into = Time2Vec(time_dim=6), nn.Linear(3 + 6, 3)
        self.mixer, self.out = MLPMixer(num_tokens=NEIGHBOURS, num_channels=3), nn.Linear(3 + 4, WIDTH)

    def forward(self, batch, x):
        since = self.time(batch.seed_times[0][:, None] - batch.nbr_edge_time[0])
        there = (batch.nbr_nids[0] != PADDED_NODE_ID)[..., None]
        links = (self.mixer(self.into(torch.cat([batch.nbr_edge_x[0], since], dim=-1))) * there).sum(1)
        near = torch.stack([x[some].mean(0) if some else torch.zeros(4) for some in batch.time_gap_nbrs])
        nodes = near + x[torch.cat([batch.edge_src, batch.edge_dst, batch.neg])]
        return self.out(torch.cat([links / there.sum(1).clamp(min=1), nodes], dim=1))


class TimeGap(StatelessHook):
    """Neighbours within a window of events, as the hook of TGM's GraphMixer finds them."""

    requires, produces = {"neg"}, {"time_gap_nbrs"}

    def __call__(self, dg, batch):
        window = replace(dg._slice)
        window.start_idx = max(dg._slice.end_idx - 60, 0)
        window.end_time = int(batch.edge_time.min()) - 1
        found = defaultdict(list)
        for u, v in zip(*(ends.tolist() for ends in dg._storage.get_edges(window)[:2]), strict=True):
            found[u].append(v)
            found[v].append(u)
        batch.time_gap_nbrs = [found[node] for node in torch.cat([batch.edge_src, batch.edge_dst, batch.neg]).tolist()]
        return batch


def graphmixer():
    def score(batch, encoder, decoder):
        return decoder(*encoder(batch, X).chunk(3)[:2])

    hooks = recent(NEIGHBOURS, ends=("edge_src", "edge_dst", "neg")), TimeGap()
    return Case(score, (Mixer(), LinkPredictor(WIDTH, hidden_dim=WIDTH)), hooks, batch=1)


def _sequences(batch, encoder, decoder):
    ends, found = torch.stack([batch.edge_src, batch.edge_dst]), (batch.nbr_nids, batch.nbr_edge_time, batch.nbr_edge_x)
    return decoder(*encoder(X, ends, batch.edge_time, *(column[0] for column in found)))


def dygformer():
    encoder = DyGFormer(4, 3, 6, 4, output_dim=WIDTH, num_layers=1, max_input_sequence_length=NEIGHBOURS + 1)
    return Case(_sequences, (encoder, LinkPredictor(WIDTH, hidden_dim=WIDTH)), (recent(NEIGHBOURS, directed=True),))


def tpnet():
    walks = RandomProjectionModule(NODES, num_layer=2, time_decay_weight=1e-3, beginning_time=0.0)
    encoder = TPNet(4, 3, 6, output_dim=WIDTH, num_layers=1, num_neighbors=NEIGHBOURS, random_projections=walks)

    def update(batch, encoder, decoder):
        encoder.random_projections.update(batch.edge_src, batch.edge_dst, batch.edge_time)

    def start(encoder, decoder):
        encoder.random_projections.reset_random_projections(reset_zero=False)

    modules = encoder, LinkPredictor(WIDTH, hidden_dim=WIDTH)
    return Case(_sequences, modules, (recent(NEIGHBOURS),), update, start)


def _deduplicated():
    """TGM's hook; after 0.1.0b1 it wants to know where nodes come from."""
    known = "seed_nodes_keys" in inspect.signature(DeduplicationHook).parameters
    return DeduplicationHook(["nbr_nids"]) if known else DeduplicationHook()


def _edges(batch):
    """The edges from recent neighbours to the two ends of a link."""
    nodes = torch.cat([batch.edge_src, batch.edge_dst]).repeat_interleave(NEIGHBOURS)
    others = batch.nbr_nids[0].flatten()
    there = others != PADDED_NODE_ID
    edges = torch.stack([batch.global_to_local(others[there]), batch.global_to_local(nodes[there])]).long()
    return edges, batch.nbr_edge_time[0].flatten()[there], batch.nbr_edge_x[0].flatten(0, 1)[there]


def tncn():
    memory = TGNMemory(NODES, 3, WIDTH, WIDTH, IdentityMessage(3, WIDTH, WIDTH), LastAggregator())
    encoder = GraphAttentionEmbedding(WIDTH, WIDTH, 3, memory.time_enc)

    def score(batch, memory, encoder, decoder):
        edges, *about = _edges(batch)
        z = encoder(*memory(batch.unique_nids), edges, *about)
        ends = torch.stack([batch.global_to_local(batch.edge_src), batch.global_to_local(batch.edge_dst)]).long()
        return decoder(z, edges, ends)

    def update(batch, memory, encoder, decoder):
        memory.update_state(batch.edge_src, batch.edge_dst, batch.edge_time, batch.edge_x)

    modules = memory, encoder, NCNPredictor(WIDTH, WIDTH, 1, k=2)
    return Case(score, modules, (recent(NEIGHBOURS), _deduplicated()), update, batch=1)


def ctan():
    memory = CTANMemory(NODES, WIDTH, LastAggregator())
    encoder = CTAN(edge_dim=3, memory_dim=WIDTH, time_dim=WIDTH, node_dim=4, mean_delta_t=5.0, std_delta_t=9.0)

    def embed(batch, memory, encoder):
        z, last = memory(batch.unique_nids)
        z = encoder(torch.cat([z, X[batch.unique_nids]], dim=-1), last, *_edges(batch))
        return z[batch.global_to_local(batch.edge_src)], z[batch.global_to_local(batch.edge_dst)]

    def score(batch, memory, encoder, decoder):
        return decoder(*embed(batch, memory, encoder))

    def update(batch, memory, encoder, decoder):
        memory.update_state(batch.edge_src, batch.edge_dst, batch.edge_time, *embed(batch, memory, encoder))

    modules = memory, encoder, LinkPredictor(WIDTH, hidden_dim=WIDTH)
    return Case(score, modules, (recent(NEIGHBOURS), _deduplicated()), update, batch=1)


def _fed(batch, predictor):
    predictor.update(batch.edge_src, batch.edge_dst, batch.edge_time)


def edgebank(mode="fixed"):
    def start(bank):
        bank.__init__(GONE, GONE, torch.tensor([0, 60]), memory_mode=mode, window_ratio=0.3)

    def score(batch, bank):
        return bank(batch.edge_src, batch.edge_dst) * 2.0 - 1

    bank = EdgeBankPredictor(GONE, GONE, torch.tensor([0, 60]), memory_mode=mode, window_ratio=0.3)
    return Case(score, (bank,), (), _fed, start)


def tcomem():
    def start(predictor):
        nothing = torch.tensor([NODES, NODES])
        predictor.__init__(nothing, nothing, torch.tensor([0, 60]), num_nodes=NODES + 1, k=4)

    def score(batch, predictor):
        return predictor(batch.edge_src, batch.edge_dst).float() - 1

    nothing = torch.tensor([NODES, NODES])
    predictor = tCoMemPredictor(nothing, nothing, torch.tensor([0, 60]), num_nodes=NODES + 1, k=4)
    return Case(score, (predictor,), (), _fed, start)


CASES = {made.__name__: made for made in (tgat, graphmixer, dygformer, tpnet, tncn, ctan, edgebank, tcomem)}
