"""The reference implementation: the logit of a link under a modified history, in the plainest code possible.

For each change, on its own: the memory is replayed batch by batch from the beginning, then the two nodes of the query
are embedded from the events that happened, layer by layer, with the textbook form of attention. Nothing is reused,
nothing is approximated.

The rules that make an answer unique:
- A change names real rows that did not happen and imagined rows that did; an imagined row may stand for a real one,
  which then did not happen (`TemporalGraph.difference`).
- The grid of replay batches is fixed over the real rows: batch b holds rows [b·B, (b+1)·B), and the imagined rows that
  stand before one of them. A row that did not happen leaves a hole; nothing ever shifts the grid. The last batch is cut
  at the query.
- Within a batch a node keeps its last message by order, and all messages are made from the memory at the start of the
  batch.
- A node attends to its most recent events among the visible rows.
"""

from __future__ import annotations

import copy
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from cody.engine.threads import one_thread
from cody.engine.weights import HopInputs, Weights
from cody.graph import Difference, FloatArray, IntArray, Query, TemporalGraph, check_queries, check_query, sorted_unique
from cody.models.contract import AttentionLayer, Change, check_changes
from cody.utils.deadline import check_deadline


class MemoryState(NamedTuple):
    """The memory of all nodes at a line of the batch grid."""

    row: int  # real rows before this one have happened
    memory: FloatArray  # [N, d]
    updated: FloatArray  # [N] time of each node's last update, 0 before the first


class NetworkOnGraph:
    """A network on a graph, in whatever form: what explanations know of it besides its answers."""

    gives_logits = True
    weights: Weights
    graph: TemporalGraph

    @property
    def identity(self) -> str:
        """A hash of what the answers depend on, besides the graph."""
        return self.weights.identity

    @property
    def hops(self) -> int:
        """How far events can lie from a link and still be attended to."""
        return self.weights.sizes.layers


class Replay(NetworkOnGraph):
    """A network on a graph, evaluated one change at a time, with nothing reused.

    Args:
        network: the network, or its weights.
        graph: the log.
        start: a state to begin from instead of row 0, for changes that concern nothing before its row.
        dtype: precision of the arithmetic.
    """

    def __init__(
        self, network: Any, graph: TemporalGraph, *, start: MemoryState | None = None, dtype: Any = np.float32
    ) -> None:
        self.weights = Weights.of(network).astype(dtype)
        self.graph, self.start, self.features = graph, start, self._features(graph)

    def on(self, graph: TemporalGraph, start: MemoryState | None = None) -> Replay:
        """The same network, replayed on another graph or from another state; by default, from an empty memory."""
        other = copy.copy(self)
        other.start = start
        if graph is not self.graph:
            other.graph, other.features = graph, self._features(graph)
        return other

    def _features(self, graph: TemporalGraph) -> FloatArray:
        features = self.weights.features(graph)
        if features is None:
            features = np.zeros((graph.num_nodes, self.weights.sizes.dimension), dtype=self.weights.dtype)
        return features

    def logits(self, query: Query, changes: Sequence[Change]) -> FloatArray:
        """One logit for each change, [B]; of a network with C > 2 classes, the score of each class. [B, C]"""
        check_query(self.graph, query)
        changes = check_changes(self.graph, changes)
        with one_thread():
            return np.array([self._scores([query], change)[0] for change in changes], dtype=np.float64)

    def __repr__(self) -> str:
        return f"Replay({self.weights.kind.upper()} on {self.graph})"

    @property
    def since(self) -> int:
        """The row from which events are replayed, where no change concerns an earlier one."""
        return 0 if self.start is None else self.start.row

    def reference(self, query: Query, change: Change, *, full: bool = False) -> Replay:
        """Itself: this is the reference implementation.

        Args:
            query: The link that is scored.
            change: The edited rows (unused).
            full: Unused.
        """
        return self

    def state(self, row: int) -> MemoryState:
        """The memory at the last grid line at or before `row`, with nothing changed."""
        batch = self.weights.sizes.batch
        nobody = Query(0, 0, np.inf, row // batch * batch)
        return self._replay(nobody, Difference(frozenset(), ()), np.zeros(1, dtype=np.int64))

    def scores(self, links: Sequence[Query], changes: Sequence[Change]) -> FloatArray:
        """The scores of links of one moment, for each change. [B, m]"""
        check_queries(self.graph, links)
        changes = check_changes(self.graph, changes)
        with one_thread():
            return np.array([self._scores(links, change).ravel() for change in changes], dtype=np.float64)

    def attention(self, query: Query) -> list[AttentionLayer]:
        """What each layer attends to with nothing changed, the highest first."""
        check_query(self.graph, query)
        difference = self.graph.difference(frozenset(), query)
        nodes, layers = sorted_unique(np.array([query.src, query.dst])), list[AttentionLayer]()
        with one_thread():
            memory = self._replay(query, difference, nodes).memory  # [N, d]
            for layer in reversed(range(self.weights.sizes.layers)):
                below, rows, hop = self._hop(nodes, query, difference)
                embeddings = self._embed(below, layer, query, difference, memory)
                weights = self.weights.attention(layer, embeddings, hop) * hop.exists[:, None]
                layers.append(AttentionLayer(nodes, rows, weights))
                nodes = below
        return layers

    def _scores(self, links: Sequence[Query], change: Change) -> FloatArray:
        query, difference = links[0], self.graph.difference(change, links[0])
        ends = np.array([[link.src, link.dst] for link in links])  # [n, 2]
        nodes = sorted_unique(ends.ravel())
        memory = self._replay(query, difference, nodes).memory  # [N, d]
        embeddings = self._embed(nodes, self.weights.sizes.layers, query, difference, memory)
        source, target = np.searchsorted(nodes, ends).T
        return self.weights.score(embeddings[source], embeddings[target])

    def _replay(self, query: Query, difference: Difference, roots: IntArray) -> MemoryState:
        """The memory at the query, after every event that the query sees; `roots` are the nodes that are scored."""
        graph, weights, batch = self.graph, self.weights, self.weights.sizes.batch
        state = self._first_state(query, difference)
        if not weights.has_memory:
            return state._replace(row=query.before)  # nothing is ever written to the memory
        memory, updated = state.memory.copy(), state.updated.copy()
        for first in range(state.row, query.before + 1, batch):
            nodes, rows = self._last_events(first, query, difference)
            memory[nodes] = self._updates(nodes, rows, memory, updated)
            updated[nodes] = graph.time[rows]
        return MemoryState(query.before, memory, updated)

    def _updates(self, nodes: IntArray, rows: IntArray, memory: FloatArray, updated: FloatArray) -> FloatArray:
        """What events write into the memory of nodes, from all memories at the start of the batch. [n], [n] → [n, d]"""
        graph, weights = self.graph, self.weights
        if not len(nodes):
            return memory[:0]
        other = graph.other_end(rows, nodes)
        elapsed = (graph.time[rows] - updated[nodes]).astype(weights.dtype)
        return weights.remember(memory[nodes], memory[other], weights.edge(graph, rows), elapsed)

    def _last_events(self, first: int, query: Query, difference: Difference) -> tuple[IntArray, IntArray]:
        """The nodes of the batch that begins at row `first`, and the last event of each in it. [n], [n]"""
        check_deadline()
        batch, imagined = self.weights.sizes.batch, np.array(difference.present, dtype=np.int64)
        imagined = imagined[self.graph.next_real(imagined) // batch == first // batch]
        real = [row for row in range(first, min(first + batch, query.before)) if row not in difference.absent]
        rows = np.array(self._in_time_order(real, imagined.tolist()), dtype=np.int64)
        ends = np.stack([self.graph.src[rows], self.graph.dst[rows]], axis=1).ravel().tolist()
        last_event = dict(zip(ends, np.repeat(rows, 2).tolist(), strict=True))  # later ones replace earlier ones
        return np.array(list(last_event), dtype=np.int64), np.array(list(last_event.values()), dtype=np.int64)

    def _in_time_order(self, real: list[int], imagined: list[int]) -> list[int]:
        """Real rows, which are in the order of time, with imagined ones among them."""
        if not imagined:
            return real
        return self.graph.in_time_order(np.array(real + imagined, dtype=np.int64)).tolist()

    def _first_state(self, query: Query, difference: Difference) -> MemoryState:
        start = self.start
        if start is not None and start.row <= query.before:
            edited = np.array([*difference.absent, *difference.present], dtype=np.int64)
            if (self.graph.next_real(edited) >= start.row).all():
                return start
        return MemoryState(0, np.zeros_like(self.features), np.zeros(self.graph.num_nodes))

    def _embed(
        self, nodes: IntArray, layer: int, query: Query, difference: Difference, memory: FloatArray
    ) -> FloatArray:
        """Embeddings of `nodes` (ascending) in a layer, from what the query sees. [n] → [n, d]"""
        if layer == 0:
            return self.features[nodes] + memory[nodes]
        below, _, hop = self._hop(nodes, query, difference)
        return self.weights.attend(layer - 1, self._embed(below, layer - 1, query, difference, memory), hop)

    def _hop(self, nodes: IntArray, query: Query, difference: Difference) -> tuple[IntArray, IntArray, HopInputs]:
        """The nodes that a layer reads (ascending), the rows that `nodes` attend to, and what it reads of them."""
        graph = self.graph
        rows = self._recent_rows(nodes, query, difference)
        exists = rows >= 0
        other = np.where(exists, graph.other_end(rows, nodes[:, None]), nodes[:, None])  # [n, K]
        below = sorted_unique(np.concatenate([nodes, other.ravel()]))
        hop = HopInputs(
            own=np.searchsorted(below, nodes),
            neighbour=np.searchsorted(below, other),
            edge=self.weights.edge(graph, rows),
            elapsed=np.where(exists, query.time - graph.time[rows], 0.0).astype(self.weights.dtype),
            exists=exists,
        )
        return below, rows, hop

    def _recent_rows(self, nodes: IntArray, query: Query, difference: Difference) -> IntArray:
        """The most recent rows of nodes that happened, latest first, filled up with -1. [n] → [n, K]"""
        rows = [self._recent(int(node), query, difference) for node in nodes]
        return np.array(rows, dtype=np.int64).reshape(len(nodes), self.weights.sizes.neighbours)

    def _recent(self, node: int, query: Query, difference: Difference) -> IntArray:
        """The most recent rows of a node that happened, latest first, filled up with -1. [K]"""
        graph, count = self.graph, self.weights.sizes.neighbours
        latest = graph.history(node, query.before)[-count - len(difference.absent) :]  # enough, whichever are absent
        real = [row for row in latest.tolist() if row not in difference.absent]
        imagined = [row for row in difference.present if node in (graph.src[row], graph.dst[row])]
        happened = self._in_time_order(real, imagined)
        rows = np.full(count, -1)
        recent = happened[: -count - 1 : -1]
        rows[: len(recent)] = recent
        return rows
