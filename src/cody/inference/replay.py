"""What a network answers when events are removed, in the plainest code possible: the definition of right.

For each removal set, on its own: the memory is replayed batch by batch from the beginning, then the two nodes of the
query are embedded from the events that are left, layer by layer, with the textbook form of attention. Nothing is
reused, nothing is approximated.

The rules that make an answer unique:
- The grid of replay batches is fixed over the original rows: batch b holds rows [b·B, (b+1)·B). A removed event leaves
  a hole; it never shifts the grid. The last batch is cut at the query.
- Within a batch a node keeps its last message by row order, and all messages are made from the memory at the start
  of the batch.
- A node attends to its most recent kept events among the visible rows.
"""

from __future__ import annotations

import copy
from collections.abc import Sequence
from typing import NamedTuple, TypeVar, cast

import numpy as np
import torch
from torch import Tensor

from cody.deadline import check_deadline
from cody.graph import FloatArray, IntArray, Query, TemporalGraph, check_query
from cody.models.checkpoint import network_identity
from cody.models.layers import Hop, TemporalAttention
from cody.models.sizes import node_inputs
from cody.models.tgat import TGAT
from cody.models.tgn import TGN
from cody.oracle import Removal, check_removals

AnyNetwork = TypeVar("AnyNetwork", bound=TGN | TGAT)


class State(NamedTuple):
    """The memory of all nodes at a line of the batch grid."""

    row: int  # rows before this one have happened
    memory: Tensor  # [N, d]
    updated: FloatArray  # [N] time of each node's last update, 0 before the first


def frozen(network: AnyNetwork, dtype: torch.dtype) -> AnyNetwork:
    """A copy that nobody trains and that computes in `dtype`; times are encoded in the precision of the training."""
    copied = copy.deepcopy(network)
    copied.to(dtype).eval().requires_grad_(False)
    copied.encode.to(network.encode.frequency.dtype)
    return copied


class Replay:
    """A network asked about a graph, one removal set at a time.

    With `start`, sets that remove nothing before that state's row are replayed from there instead of row 0.
    """

    def __init__(
        self,
        network: TGN | TGAT,
        graph: TemporalGraph,
        *,
        start: State | None = None,
        dtype: torch.dtype = torch.float32,
    ) -> None:
        self.dtype = dtype
        self.network = frozen(network, dtype)
        self.graph, self.start, self.features = graph, start, self._features(graph)

    def on(self, graph: TemporalGraph, start: State | None) -> Replay:
        """The same network, replayed on another graph or from another state."""
        other = copy.copy(self)
        other.start = start
        if graph is not self.graph:
            other.graph, other.features = graph, self._features(graph)
        return other

    def _features(self, graph: TemporalGraph) -> Tensor:
        """What each node brings into the lowest layer besides its memory. [N, d]"""
        features = node_inputs(graph, self.network.sizes)
        if features is None:
            features = torch.zeros(graph.num_nodes, self.network.sizes.dimension)
        return features.to(self.dtype)

    def logits(self, query: Query, removals: Sequence[Removal]) -> FloatArray:
        """One logit for each removal set. [B]"""
        check_query(self.graph, query)
        removals = check_removals(self.graph, removals)
        return np.array([self._logit(query, removed) for removed in removals], dtype=np.float64)

    def __repr__(self) -> str:
        return f"Replay({type(self.network).__name__} on {self.graph})"

    @property
    def identity(self) -> str:
        """A hash of what the answers depend on, besides the graph."""
        return network_identity(self.network)

    @property
    def hops(self) -> int:
        """How far events can lie from a link and still be attended to."""
        return self.network.sizes.layers

    @property
    def since(self) -> int:
        """The row from which events are replayed, if none before it is removed."""
        return 0 if self.start is None else self.start.row

    def plain(self, query: Query, removal: Removal, *, full: bool = False) -> Replay:
        """Itself: it is the definition already."""
        return self

    def state(self, row: int) -> State:
        """The memory at the last grid line at or before `row`, with nothing removed."""
        return self._replay(row // self.network.sizes.batch * self.network.sizes.batch, frozenset())

    def _logit(self, query: Query, removed: Removal) -> float:
        inputs = self.features + self._replay(query.before, removed).memory  # [N, d]
        nodes = np.unique([query.src, query.dst])
        embeddings = self._embed(nodes, self.network.sizes.layers, query, removed, inputs)
        source, target = embeddings[np.searchsorted(nodes, [query.src, query.dst])]
        return float(self.network.score(source, target))

    def _replay(self, before: int, removed: Removal) -> State:
        """Let every kept row before `before` happen."""
        graph, batch, network = self.graph, self.network.sizes.batch, self.network
        state = self._first_state(before, removed)
        if not isinstance(network, TGN):
            return state._replace(row=before)  # nothing is ever written to the memory
        memory, updated = state.memory.clone(), state.updated.copy()
        for first in range(state.row, before, batch):
            check_deadline()
            last_event: dict[int, int] = {}  # node → row of its last event in this batch
            for row in range(first, min(first + batch, before)):
                if row not in removed:
                    last_event[int(graph.src[row])] = last_event[int(graph.dst[row])] = row
            nodes, rows = np.array(list(last_event)), np.array(list(last_event.values()))
            if len(nodes):
                other = graph.src[rows] + graph.dst[rows] - nodes
                elapsed = self._tensor(graph.time[rows] - updated[nodes])
                memory[nodes] = network.remember(memory[nodes], memory[other], self._edge(rows), elapsed)
                updated[nodes] = graph.time[rows]
        return State(before, memory, updated)

    def _first_state(self, before: int, removed: Removal) -> State:
        start = self.start
        if start is not None and start.row <= before and all(row >= start.row for row in removed):
            return start
        return State(0, torch.zeros_like(self.features), np.zeros(self.graph.num_nodes))

    def _embed(self, nodes: IntArray, layer: int, query: Query, removed: Removal, inputs: Tensor) -> Tensor:
        """Embeddings of `nodes` (ascending) in a layer, from the kept events that the query sees. [n] → [n, d]"""
        if layer == 0:
            return inputs[nodes]
        graph = self.graph
        rows = np.stack([self._recent(int(node), query.before, removed) for node in nodes])  # [n, K], -1: none
        exists = rows >= 0
        other = np.where(exists, graph.src[rows] + graph.dst[rows] - nodes[:, None], nodes[:, None])  # [n, K]
        below = np.unique(np.concatenate([nodes, other.ravel()]))
        hop = Hop(
            own=torch.from_numpy(np.searchsorted(below, nodes)),
            neighbour=torch.from_numpy(np.searchsorted(below, other)),
            edge=self._edge(rows),
            elapsed=self._tensor(np.where(exists, query.time - graph.time[rows], 0.0)),
            exists=torch.from_numpy(exists),
        )
        embeddings = self._embed(below, layer - 1, query, removed, inputs)
        attention = cast(TemporalAttention, self.network.attention[layer - 1])
        return attention.plain(embeddings, hop, self.network.encode)

    def _recent(self, node: int, before: int, removed: Removal) -> IntArray:
        """The most recent kept rows of a node, latest first, filled up with -1. [K]"""
        rows = np.full(self.network.sizes.neighbours, -1)
        kept = (row for row in reversed(self.graph.history(node, before).tolist()) if row not in removed)
        for place, row in zip(range(len(rows)), kept, strict=False):
            rows[place] = row
        return rows

    def _edge(self, rows: IntArray) -> Tensor | None:
        return None if self.graph.features is None else self._tensor(self.graph.features[rows])

    def _tensor(self, values: FloatArray) -> Tensor:
        return torch.from_numpy(values).to(self.dtype)
