"""Small networks that score a link by the recent events of its two nodes alone: GraphMixer and DyGFormer.

References: Cong et al., "Do we really need complicated model architectures for temporal networks?" (GraphMixer, 2023);
Yu et al., "Towards better dynamic graph learning: new architecture and unified library" (DyGFormer, 2023).
Both read one sequence for each end of a link, latest event first; neither has a memory.
"""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple, Self

import numpy as np
import torch
from torch import Tensor, nn

from cody.graph import FloatArray, IntArray, TemporalGraph
from cody.models.sizes import SequenceSizes, edge_width, node_width
from cody.train.layers import Perceptron, TimeEncoder


class LinkSequences(NamedTuple):
    """What is read for n links: a sequence for each end, which begins with the node itself. T = 1 + neighbours."""

    elapsed: Tensor  # [n, 2, T]
    exists: Tensor  # [n, 2, T]
    edge: Tensor  # [n, 2, T, F] features of the events
    node: Tensor  # [n, 2, T, f] features of the nodes at their other ends
    seen: Tensor  # [n, 2, T, 2] how often each of these nodes is in the sequence of the source, and of the destination


def link_sequences(
    graph: TemporalGraph, ends: IntArray, time: FloatArray, rows: IntArray, sizes: SequenceSizes
) -> LinkSequences:
    """What is read for links, given the recent events of their ends.

    Args:
        graph: The log of events.
        ends: Source and destination of each link. [n, 2]
        time: Of each link. [n]
        rows: The recent events of each end, latest first; -1: there are fewer. [n, 2, K]
        sizes: Of the network.
    """
    happened = rows >= 0
    others = np.where(happened, graph.other_end(rows, ends[:, :, None]), -1)
    nodes = np.concatenate([ends[:, :, None], others], axis=2)  # [n, 2, T]
    exists = nodes >= 0
    elapsed = np.zeros(nodes.shape, dtype=np.float32)
    elapsed[:, :, 1:] = np.where(happened, time[:, None, None] - graph.time[rows], 0.0)
    edge = np.zeros((*nodes.shape, sizes.edge_features), dtype=np.float32)
    if (features := graph.features_of(np.where(happened, rows, 0))) is not None:
        edge[:, :, 1:] = features * happened[..., None]
    node = np.zeros((*nodes.shape, sizes.node_features), dtype=np.float32)
    if graph.node_features is not None:
        node[:] = graph.node_features[nodes] * exists[..., None]
    same = nodes[:, :, :, None, None] == nodes[:, None, None]  # [n, 2, T, 2, T]
    seen = (same & exists[:, None, None]).sum(axis=-1) * exists[..., None]
    return LinkSequences(*map(torch.from_numpy, (elapsed, exists, edge, node, seen.astype(np.float32))))


class SequenceNetwork(nn.Module):
    """Scores links by two sequences. It is trained on links, as a TGN is, without a memory that events update."""

    kind = ""
    task = memory = None

    def __init__(self, sizes: SequenceSizes) -> None:
        super().__init__()
        self.sizes = sizes
        self.encode = TimeEncoder(sizes.dimension)
        self.encode.requires_grad_(False)  # fixed, as in both papers
        self.score = Perceptron(sizes.dimension, sizes.dimension, sizes.dimension, 1)

    def embed(self, inputs: LinkSequences) -> Tensor:
        """The embedding of each end. [n, 2, d]"""
        raise NotImplementedError

    def forward(self, inputs: LinkSequences) -> Tensor:
        """One logit for each link. [n]"""
        embeddings = self.embed(inputs)
        return self.score(embeddings[:, 0], embeddings[:, 1]).squeeze(-1)

    def times(self, inputs: LinkSequences) -> Tensor:
        """Encodings of the elapsed times, 0 where there is no event. [n, 2, T, d]"""
        return self.encode(inputs.elapsed) * inputs.exists[..., None]

    def stream(self, graph: TemporalGraph) -> Self:
        """What is known of the past when a batch is scored: nothing, recent events are looked up in the log."""
        return self

    def advance(self, stop: int) -> None:
        """Nothing changes when events happen."""

    def link_logits(self, stream: Self, graph: TemporalGraph, rows: IntArray, targets: IntArray) -> Tensor:
        """Logits of links from the sources of events to other nodes, just before each. [n], [n, R] → [n, R]"""
        ends = np.concatenate([np.stack([graph.src[rows], each], axis=1) for each in targets.T]).astype(np.int64)
        before, time = np.tile(rows, targets.shape[1]), np.tile(graph.time[rows], targets.shape[1])
        recent = graph.recent(ends.ravel(), np.repeat(before, 2), self.sizes.neighbours)
        inputs = link_sequences(graph, ends, time, recent.reshape(len(ends), 2, -1), self.sizes)
        return self(inputs).view(targets.shape[1], -1).T


class Mixing(nn.Module):
    """Two linear layers along one dimension, added to their input."""

    def __init__(self, width: int, hidden: int, dimension: int) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(dimension)
        self.hidden, self.out = nn.Linear(width, hidden), nn.Linear(hidden, width)

    def forward(self, tokens: Tensor, *, along_tokens: bool) -> Tensor:
        normed = self.norm(tokens)
        mixed = self.out(nn.functional.gelu(self.hidden(normed.mT if along_tokens else normed)))
        return tokens + (mixed.mT if along_tokens else mixed)


class GraphMixer(SequenceNetwork):
    """The mean of events that were mixed among each other, plus the features of the nodes met."""

    kind = "graphmixer"

    def __init__(self, sizes: SequenceSizes) -> None:
        super().__init__(sizes)
        d = sizes.dimension
        self.token = nn.Linear(d + sizes.edge_features, d)
        self.tokens = nn.ModuleList(Mixing(sizes.neighbours, sizes.neighbours, d) for _ in range(sizes.layers))
        self.channels = nn.ModuleList(Mixing(d, 2 * d, d) for _ in range(sizes.layers))
        self.own = nn.Linear(2 * sizes.node_features, d) if sizes.node_features else None

    def embed(self, inputs: LinkSequences) -> Tensor:
        tokens = self.token(torch.cat([self.times(inputs), inputs.edge], dim=-1)[:, :, 1:])  # [n, 2, K, d]
        tokens = tokens * inputs.exists[:, :, 1:, None]
        for along_tokens, along_channels in zip(self.tokens, self.channels, strict=True):
            tokens = along_channels(along_tokens(tokens, along_tokens=True), along_tokens=False)
        mean: Tensor = tokens.mean(dim=2)
        if self.own is None:
            return mean
        met = inputs.node[:, :, 1:].sum(dim=2) / inputs.exists[:, :, 1:].sum(dim=2).clamp_min(1)[..., None]
        return mean + self.own(torch.cat([inputs.node[:, :, 0], met], dim=-1))


class DyGFormer(SequenceNetwork):
    """A transformer over both sequences together; a node's part is how often it is in each of them."""

    kind = "dygformer"

    def __init__(self, sizes: SequenceSizes) -> None:
        super().__init__(sizes)
        d = sizes.dimension
        self.count_hidden, self.count_out = nn.Linear(1, d), nn.Linear(d, d)
        self.token = nn.Linear(2 * d + sizes.edge_features + sizes.node_features, d)
        self.attention = nn.ModuleList(
            nn.MultiheadAttention(d, sizes.heads, batch_first=True) for _ in range(sizes.layers)
        )
        self.norm = nn.ModuleList(nn.LayerNorm(d) for _ in range(sizes.layers))
        self.channels = nn.ModuleList(Mixing(d, 2 * d, d) for _ in range(sizes.layers))

    def embed(self, inputs: LinkSequences) -> Tensor:
        counts = self.count_out(torch.relu(self.count_hidden(inputs.seen[..., None]))).sum(dim=-2)  # [n, 2, T, d]
        parts = [self.times(inputs), inputs.edge, inputs.node, counts * inputs.exists[..., None]]
        tokens = self.token(torch.cat(parts, dim=-1)).flatten(1, 2)  # [n, 2T, d]
        missing = ~inputs.exists.flatten(1, 2)
        for attention, norm, channels in zip(self.attention, self.norm, self.channels, strict=True):
            normed = norm(tokens)
            tokens = tokens + attention(normed, normed, normed, key_padding_mask=missing, need_weights=False)[0]
            tokens = channels(tokens, along_tokens=False)
        tokens = tokens.unflatten(1, inputs.exists.shape[1:]) * inputs.exists[..., None]  # [n, 2, T, d]
        return tokens.sum(dim=2) / inputs.exists.sum(dim=2)[..., None]


SEQUENCE_NETWORKS: dict[str, type[SequenceNetwork]] = {each.kind: each for each in (GraphMixer, DyGFormer)}


def new_sequence_network(
    kind: str, graph: TemporalGraph, seed: int, sizes: SequenceSizes | None = None
) -> SequenceNetwork:
    """A network with random weights that fits the graph.

    Args:
        kind: "graphmixer" or "dygformer".
        graph: The log of events.
        seed: The same seed gives the same weights.
        sizes: Without the numbers of features, which are those of the graph.
    """
    sizes = replace(sizes or SequenceSizes(), edge_features=edge_width(graph), node_features=node_width(graph))
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        return SEQUENCE_NETWORKS[kind](sizes)
