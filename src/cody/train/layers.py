"""The layers that TGN and TGAT share: time encoding, attention over past events, the two-layer perceptron.

References: Xu et al., "Inductive representation learning on temporal graphs" (TGAT, 2020);
Rossi et al., "Temporal graph networks for deep learning on dynamic graphs" (TGN, 2020).
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor, nn

from cody.graph import FloatArray, IntArray, TemporalGraph
from cody.models.contract import LabelTask
from cody.models.sizes import Sizes


class TimeEncoder(nn.Module):
    """A duration as cosines of learned frequencies. [...] → [..., d]

    Multiplication and addition are separate element-wise steps on purpose. At 10^7 seconds one rounding more or less
    shifts the phase visibly, and a matrix product rounds differently for different shapes; this way a duration has the
    same encoding wherever it is computed. For the same reason the phase is computed in the encoder's own precision,
    whatever that of the duration: in double precision 10^7 seconds would have another phase than in training.
    """

    def __init__(self, dimension: int) -> None:
        super().__init__()
        self.frequency = nn.Parameter(10.0 ** -torch.linspace(0, 9, dimension))
        self.phase = nn.Parameter(torch.zeros(dimension))

    def forward(self, elapsed: Tensor) -> Tensor:
        own = elapsed.to(self.frequency.dtype).unsqueeze(-1)
        return torch.cos((own * self.frequency + self.phase).to(elapsed.dtype))


class Perceptron(nn.Module):
    """Two linear layers with a ReLU between, on two inputs side by side."""

    def __init__(self, first: int, second: int, hidden: int, out: int) -> None:
        super().__init__()
        self.hidden = nn.Linear(first + second, hidden)
        self.out = nn.Linear(hidden, out)
        nn.init.xavier_normal_(self.hidden.weight)
        nn.init.xavier_normal_(self.out.weight)

    def forward(self, first: Tensor, second: Tensor) -> Tensor:
        return self.out(torch.relu(self.hidden(torch.cat([first, second], dim=-1))))


class Hop(NamedTuple):
    """What one attention layer reads: n nodes, each with K places for recent events.

    `own` and `neighbour` point into the embeddings of the layer below.
    """

    own: Tensor  # [n]
    neighbour: Tensor  # [n, K]
    edge: Tensor | None  # [n, K, F] features of the events
    elapsed: Tensor  # [n, K] query time - event time
    exists: Tensor  # [n, K] False where the node has fewer than K events
    weight: Tensor | None = None  # [n, K] of each event: 0 as if it did not exist, 1 as without weights


class Folded(NamedTuple):
    """Products of neighbouring linear maps of an attention layer: W = width of an event, H = heads."""

    ask: Tensor  # [H, W, d] own embedding → question in key space
    ask_bias: Tensor  # [H, W]
    answer: Tensor  # [d, H, W] weighted sum of the events → hidden layer of the merge
    value_bias: Tensor  # [H, d] to be multiplied by the sum of the head's weights
    out_bias: Tensor  # [d]
    own: Tensor  # [d, d] own embedding → hidden layer of the merge


class TemporalAttention(nn.Module):
    """A node attends to its recent events, then merges the result with its own embedding.

    query = [own embedding, encoding of 0]; key = value = [neighbour's embedding, event features, encoding of elapsed].
    """

    def __init__(self, dimension: int, edge_features: int, heads: int, dropout: float = 0.0) -> None:
        super().__init__()
        width = 2 * dimension
        self.heads = heads
        self.dropout = dropout
        self.query = nn.Linear(width, width)
        self.key = nn.Linear(width + edge_features, width)
        self.value = nn.Linear(width + edge_features, width)
        self.out = nn.Linear(width, width)
        self.merge = Perceptron(width, dimension, dimension, dimension)
        for projection in (self.query, self.key, self.value):
            nn.init.xavier_uniform_(projection.weight)
            nn.init.zeros_(projection.bias)

    def forward(self, embeddings: Tensor | None, hop: Hop, encode: TimeEncoder) -> Tensor:
        """The same numbers as `reference`, with many times fewer operations.

        Each node has a single query, so the query is projected into key space, and the weighted sum of the events out
        of value space; no neighbour is ever projected. Linear maps that follow each other are multiplied
        first (`folded`).

        `embeddings` is [m, d], or None where all of them are zero (neither node features nor memory). → [n, d]
        """
        maps = self.folded(encode, with_embeddings=embeddings is not None)
        nodes, places = hop.elapsed.shape
        question = maps.ask_bias.expand(nodes, -1, -1)  # [n, H, W]
        hidden = self.merge.hidden.bias.expand(nodes, -1)  # [n, d]
        if embeddings is not None:
            own = embeddings[hop.own]  # [n, d]
            question = question + torch.einsum("nd,hwd->nhw", own, maps.ask)
            hidden = hidden + nn.functional.linear(own, maps.own)
        keep = None
        if self.training and self.dropout:
            keep = nn.functional.dropout(question.new_ones(nodes, self.heads, places), self.dropout)
        if hop.weight is None:
            attended = _Attend.apply(question, embeddings, encode.frequency, encode.phase, hop, keep)  # type: ignore[no-untyped-call]
        else:
            attended = _attend_by_weight(question, embeddings, encode, hop, keep)
        seen, total = attended  # [n, H, W], [n, H, 1]
        answer = torch.einsum("nhw,ohw->no", seen, maps.answer) + total.squeeze(-1) @ maps.value_bias + maps.out_bias
        hidden = hidden + _if_any_event(answer, hop)
        return self.merge.out(torch.relu(hidden))

    def folded(self, encode: TimeEncoder, *, with_embeddings: bool) -> Folded:
        """The layer's linear maps, each product of matrices taken once. W = 2d + F, or d + F without embeddings."""
        d = self.merge.out.out_features
        width = self.key.in_features - (0 if with_embeddings else d)
        key, value, query = (self._by_head(layer.weight) for layer in (self.key, self.value, self.query))
        key, value = key[..., -width:], value[..., -width:]  # [H, 2d/H, W]
        scale = 1 / math.sqrt(query.shape[1])
        now = self.query.bias + self.query.weight[:, d:] @ encode(self.query.bias.new_zeros(()))
        onward = self.merge.hidden.weight[:, : 2 * d] @ self.out.weight  # [d, 2d]
        by_head = onward.view(d, self.heads, -1)  # [d, H, 2d/H]
        return Folded(
            # The key's bias adds the same number to all scores of a node, which the softmax cancels.
            ask=torch.einsum("hcw,hcd->hwd", key, query[..., :d]) * scale,
            ask_bias=torch.einsum("hcw,hc->hw", key, now.view(self.heads, -1)) * scale,
            answer=torch.einsum("ohc,hcw->ohw", by_head, value),
            value_bias=torch.einsum("ohc,hc->ho", by_head, self.value.bias.view(self.heads, -1)),
            out_bias=self.merge.hidden.weight[:, : 2 * d] @ self.out.bias,
            own=self.merge.hidden.weight[:, 2 * d :],
        )

    def reference(self, embeddings: Tensor | None, hop: Hop, encode: TimeEncoder) -> Tensor:
        """The textbook formulation: project every neighbour to a key and to a value."""
        n, places = hop.elapsed.shape
        if embeddings is None:
            rows = int(torch.maximum(hop.own.max(), hop.neighbour.max())) + 1
            embeddings = self.out.weight.new_zeros(rows, self.out.in_features // 2)
        own = embeddings[hop.own]  # [n, d]
        edge = [] if hop.edge is None else [hop.edge]
        events = torch.cat([embeddings[hop.neighbour], *edge, encode(hop.elapsed)], dim=-1)  # [n, K, 2d + F]
        now = encode(own.new_zeros(n))  # [n, d]
        queries = self.query(torch.cat([own, now], dim=-1)).view(n, self.heads, -1)  # [n, H, 2d/H]
        keys = self.key(events).view(n, places, self.heads, -1)  # [n, K, H, 2d/H]
        values = self.value(events).view(n, places, self.heads, -1)  # [n, K, H, 2d/H]
        scores = torch.einsum("nhc,nkhc->nhk", queries, keys) / math.sqrt(queries.shape[-1])
        weights = nn.functional.dropout(_softmax(*_weighted(scores, hop)), self.dropout, self.training)
        answer = self.out(torch.einsum("nhk,nkhc->nhc", weights, values).flatten(1))  # [n, 2d]
        return self.merge(_if_any_event(answer, hop), own)

    def _by_head(self, weight: Tensor) -> Tensor:
        return weight.view(self.heads, -1, weight.shape[-1])  # [2d, k] → [H, 2d/H, k]


def _softmax(scores: Tensor, exists: Tensor) -> Tensor:
    hidden = torch.finfo(scores.dtype).min  # finite, so that a node without events gives numbers, not NaN
    return torch.softmax(scores.masked_fill(~exists[:, None], hidden), dim=-1)


def _weighted(scores: Tensor, hop: Hop) -> tuple[Tensor, Tensor]:
    """Scores [n, H, K] plus the logarithm of the weights, which multiplies the result of the softmax by the weights.

    Also which events exist: those of weight 0 do not.
    """
    if hop.weight is None:
        return scores, hop.exists
    weight = hop.weight.clamp_min(torch.finfo(hop.weight.dtype).tiny)
    return scores + weight.log()[:, None], hop.exists & (hop.weight > 0)


def _if_any_event(answer: Tensor, hop: Hop) -> Tensor:
    """The answer times the probability that there is any event, if weights are probabilities.

    The softmax normalizes the weights, so without this a node whose events all fade would see them undiminished until
    they are gone.
    """
    if hop.weight is None:
        return answer.masked_fill(~hop.exists.any(dim=1, keepdim=True), 0.0)
    absent = (1 - hop.weight).masked_fill(~hop.exists, 1.0)
    return answer * (1 - absent.prod(dim=1, keepdim=True))


def _attend_by_weight(
    question: Tensor, embeddings: Tensor | None, encode: TimeEncoder, hop: Hop, keep: Tensor | None
) -> tuple[Tensor, Tensor]:
    """Like `_Attend`, for events with weights, all nodes at once. [n, H, width], [n, H, 1]"""
    events = _events(embeddings, hop, slice(None), encode(hop.elapsed))
    weights = _softmax(*_weighted(question @ events.mT, hop))
    kept = weights if keep is None else weights * keep
    return kept @ events, kept.sum(-1, keepdim=True)


def _events(embeddings: Tensor | None, hop: Hop, nodes: slice, since: Tensor) -> Tensor:
    """What the nodes attend to: [neighbour's embedding, event features, time encoding]. [c, K, width]"""
    parts = [since]
    if hop.edge is not None:
        parts.insert(0, hop.edge[nodes].to(since.dtype))
    if embeddings is not None:
        parts.insert(0, nn.functional.embedding(hop.neighbour[nodes], embeddings))
    return torch.cat(parts, dim=-1)


class _Attend(torch.autograd.Function):
    """softmax(question · events) · events, for nodes a few at a time, so that the events stay in the cache.

    Nothing of size [n, K, width] is ever kept; the backward pass recomputes the events of each chunk, which costs less
    than storing and reading them.
    """

    CHUNK = 64

    @staticmethod
    def forward(
        ctx: Any,
        question: Tensor,  # [n, H, width]
        embeddings: Tensor | None,  # [m, d]
        frequency: Tensor,  # [d]
        phase: Tensor,  # [d]
        hop: Hop,
        keep: Tensor | None,  # [n, H, K] dropout: 0 or 1 / (1 - p)
    ) -> tuple[Tensor, Tensor]:  # [n, H, width], [n, H, 1]
        seen = torch.empty_like(question)
        weights = question.new_empty(*question.shape[:2], hop.elapsed.shape[1])
        for nodes in _chunks(len(question), _Attend.CHUNK):
            angle = hop.elapsed[nodes].unsqueeze(-1) * frequency + phase
            events = _events(embeddings, hop, nodes, torch.cos(angle))
            weights[nodes] = _softmax(question[nodes] @ events.mT, hop.exists[nodes])
            kept = weights[nodes] if keep is None else weights[nodes] * keep[nodes]
            torch.bmm(kept, events, out=seen[nodes])
        total = (weights if keep is None else weights * keep).sum(-1, keepdim=True)
        ctx.save_for_backward(question, embeddings, frequency, phase, weights, keep)
        ctx.hop = hop
        return seen, total

    @staticmethod
    def backward(ctx: Any, d_seen: Tensor, d_total: Tensor) -> tuple[Tensor | None, ...]:
        question, embeddings, frequency, phase, weights, keep = ctx.saved_tensors
        hop: Hop = ctx.hop
        d_question = torch.empty_like(question)
        d_embeddings = None if embeddings is None else torch.zeros_like(embeddings)
        d_frequency, d_phase = torch.zeros_like(frequency), torch.zeros_like(phase)
        for nodes in _chunks(len(question), _Attend.CHUNK):
            angle = hop.elapsed[nodes].unsqueeze(-1) * frequency + phase
            events = _events(embeddings, hop, nodes, torch.cos(angle))
            weight, d_weight = weights[nodes], d_seen[nodes] @ events.mT + d_total[nodes]
            kept = weight
            if keep is not None:
                kept, d_weight = weight * keep[nodes], d_weight * keep[nodes]
            d_score = weight * (d_weight - (weight * d_weight).sum(-1, keepdim=True))  # [c, H, K]
            torch.bmm(d_score, events, out=d_question[nodes])
            d_events = torch.cat([d_score, kept], 1).mT @ torch.cat([question[nodes], d_seen[nodes]], 1)
            if d_embeddings is not None:
                d_below = d_events[..., : embeddings.shape[1]].flatten(0, 1)
                d_embeddings.index_add_(0, hop.neighbour[nodes].flatten(), d_below)
            d_angle = d_events[..., -len(frequency) :] * torch.sin(angle).neg_()  # [c, K, d]
            d_phase += d_angle.sum((0, 1))
            d_frequency += hop.elapsed[nodes].flatten() @ d_angle.flatten(0, 1)
        return d_question, d_embeddings, d_frequency, d_phase, None, None


def _chunks(length: int, size: int) -> Iterator[slice]:
    return (slice(start, start + size) for start in range(0, length, size))


# What TGN and TGAT have in common: a stack of attention layers, and the score of a link or of classes.


class AttentionStack(nn.Module):
    """Embeds nodes from their recent events and those of their neighbours; scores pairs of embeddings."""

    def __init__(self, sizes: Sizes, task: LabelTask | None = None) -> None:
        super().__init__()
        d = sizes.dimension
        self.sizes, self.task = sizes, task  # without a task, pairs are links
        self.encode = TimeEncoder(d)
        self.attention = nn.ModuleList(
            TemporalAttention(d, sizes.edge_features, sizes.heads, sizes.dropout) for _ in range(sizes.layers)
        )
        self.score = Perceptron(d, d, d, 1 if task is None else task.outputs)
        if task is not None and task.about == "node":
            with torch.no_grad():
                self.score.hidden.weight[:, d:] = 0.0  # only the source counts; `label_logits` keeps it so

    def embed(self, plan: EmbeddingPlan, inputs: Tensor | None) -> Tensor:
        """Embeddings of the planned nodes from their layer-0 inputs (None: all zero). [m, d] → [Q, R, d]"""
        embeddings = inputs
        for attention, hop in zip(self.attention, plan.hops, strict=True):
            embeddings = attention(embeddings, hop, self.encode)
        assert embeddings is not None
        return embeddings[plan.roots]

    def link_logits(self, stream: Any, graph: TemporalGraph, rows: IntArray, targets: IntArray) -> Tensor:
        """Logits of links from the sources of events to other nodes, just before each. [n], [n, R] → [n, R]"""
        roots = np.concatenate([graph.src[rows][:, None], targets], axis=1).astype(np.int64)  # [n, 1 + R]
        plan_ = plan(graph, roots, graph.time[rows], rows, self.sizes.layers, self.sizes.neighbours)
        embeddings = self.embed(plan_, stream.inputs(plan_.nodes, plan_.before))  # [n, 1 + R, d]
        source, target = embeddings[:, :1].expand(-1, targets.shape[1], -1), embeddings[:, 1:]
        return self.score(source, target).squeeze(-1)


# Which nodes and events a batch of queries needs, layer by layer: integers only, no weights.


class EmbeddingPlan(NamedTuple):
    """The distinct (question, node) pairs that a stack of attention layers computes.

    Within a question, a node occurs once in each layer, however many events lead to it.
    """

    nodes: IntArray  # [m] nodes of the layer-0 inputs
    question: IntArray  # [m] the question each of them belongs to
    before: IntArray  # [m] how many rows each of them may see
    hops: list[Hop]  # lowest layer first; the last one gives the embeddings that `roots` points into
    roots: torch.Tensor  # [Q, R] position of the embedding of each requested node
    events: list[IntArray]  # of each hop: [n, K] the events attended to, as question · E + row; -1: none


def plan(
    graph: TemporalGraph, roots: IntArray, time: FloatArray, before: IntArray, layers: int, neighbours: int
) -> EmbeddingPlan:
    """A plan for the embeddings of nodes `roots` [Q, R] at `time` [Q] with the first `before` [Q] rows visible."""
    keys, where = _distinct(np.arange(len(roots))[:, None] * graph.num_nodes + roots, graph.num_nodes * len(roots))
    hops: list[Hop] = []
    events: list[IntArray] = []
    for _ in range(layers):
        question, node = np.divmod(keys, graph.num_nodes)
        rows = graph.recent(node, before[question], neighbours)  # [n, K]
        exists = rows >= 0
        other = graph.other_end(rows, node[:, None])
        # Where masked, any node will do.
        needed = np.where(exists, keys[:, None] - node[:, None] + other, keys[:, None])
        below, index = _distinct(np.concatenate([keys[:, None], needed], axis=1), graph.num_nodes * len(roots))
        elapsed = np.where(exists, time[question][:, None] - graph.time[rows], 0.0)
        hop = Hop(
            own=torch.from_numpy(index[:, 0]),
            neighbour=torch.from_numpy(index[:, 1:]),
            edge=None if graph.features is None else torch.from_numpy(graph.features[rows]),
            elapsed=torch.from_numpy(elapsed.astype(np.float32)),
            exists=torch.from_numpy(exists),
        )
        hops.insert(0, hop)
        events.insert(0, np.where(exists, question[:, None] * graph.num_events + rows, -1))
        keys = below
    question, node = np.divmod(keys, graph.num_nodes)
    return EmbeddingPlan(node, question, before[question], hops, torch.from_numpy(where), events)


def _distinct(keys: IntArray, bound: int) -> tuple[IntArray, IntArray]:
    """The distinct keys, ascending, and the place of each key among them: as `np.unique` does, but faster."""
    if bound > 50_000_000:
        distinct, inverse = np.unique(keys, return_inverse=True)
        return distinct, inverse.reshape(keys.shape)
    seen = np.zeros(bound, dtype=bool)
    seen[keys] = True
    distinct = np.flatnonzero(seen)
    position = np.empty(bound, dtype=np.int64)
    position[distinct] = np.arange(len(distinct))
    return distinct, position[keys]
