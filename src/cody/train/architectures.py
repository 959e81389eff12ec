"""The architectures: TGAT, attention over past events, and TGN, the same on top of a memory that events update.

References: Xu et al., "Inductive representation learning on temporal graphs", ICLR 2020 (TGAT, here as the public TGN
code implements it: the same attention stack, without memory); Rossi et al., "Temporal graph networks for deep learning
on dynamic graphs", 2020, configuration TGN-attn: identity messages, the last message of a batch counts, a GRU writes
the memory.

An event gives each of its nodes a new version of its memory, computed from the versions at the start of the event's
batch. So the memory of a node before row i is simply the version written by its last event before row i. Training goes
through the log once, so of each node it keeps the latest version and what that was computed from: what it takes does
not grow with the number of events.
"""

from __future__ import annotations

from typing import ClassVar

import numpy as np
import torch
from torch import Tensor, nn

from cody.engine.versions import ends_of, index_of, latest_event
from cody.graph import FloatArray, IntArray, TemporalGraph
from cody.models.contract import LabelTask
from cody.models.sizes import Sizes, node_inputs
from cody.train.layers import AttentionStack


class TGAT(AttentionStack):
    """Scores links from node features and the times of past events."""

    kind: ClassVar[str] = "tgat"

    def __init__(self, sizes: Sizes, task: LabelTask | None = None) -> None:
        super().__init__(sizes, task)
        self.memory = None

    def stream(self, graph: TemporalGraph) -> FeatureStream:
        """The layer-0 inputs of each node as events happen: nothing but its features."""
        return FeatureStream(self, graph)


class FeatureStream:
    """The layer-0 inputs of a model without memory."""

    def __init__(self, network: AttentionStack, graph: TemporalGraph) -> None:
        features = node_inputs(graph, network.sizes)
        self.features = None if features is None else torch.from_numpy(features)

    def inputs(self, nodes: IntArray, before: IntArray) -> Tensor | None:
        """[m], [m] → [m, d], or None where all are zero."""
        return None if self.features is None else self.features[torch.from_numpy(nodes)]

    def advance(self, stop: int) -> None:
        """Feed the events up to row `stop`."""


class TGN(AttentionStack):
    """Scores links from memories, node features and the times of past events."""

    kind: ClassVar[str] = "tgn"

    def __init__(self, sizes: Sizes, task: LabelTask | None = None) -> None:
        super().__init__(sizes, task)
        self.memory = nn.GRUCell(3 * sizes.dimension + sizes.edge_features, sizes.dimension)

    def remember(self, own: Tensor, other: Tensor, edge: Tensor | None, elapsed: Tensor) -> Tensor:
        """A node's next memory: its own, the other node's, the event, the time since its last update. → [n, d]"""
        return self.remember_since(own, other, edge, self.encode(elapsed))

    def remember_since(self, own: Tensor, other: Tensor, edge: Tensor | None, since: Tensor) -> Tensor:
        """Like `remember`, with the time since its last update already encoded. [n, d]"""
        parts = [own, other] if edge is None else [own, other, edge]
        message = torch.cat([*parts, since], dim=-1)  # [n, 3d + F]
        return self.memory(message, own)

    def stream(self, graph: TemporalGraph) -> MemoryStream:
        """The layer-0 inputs of each node as events happen: its memory and its features."""
        return MemoryStream(self, graph)


class MemoryStream(FeatureStream):
    """The memory of all nodes at the start of a batch of the grid, and the layer-0 inputs of queries in that batch."""

    def __init__(self, network: TGN, graph: TemporalGraph) -> None:
        super().__init__(network, graph)
        self.network, self.graph = network, graph
        nodes, dimension = graph.num_nodes, network.sizes.dimension
        self.line = 0  # the row at which the batch starts
        self.memory = torch.zeros(nodes, dimension)  # the latest versions before it; zero before the first event
        self.parents = torch.zeros(nodes, 2, dimension)  # its own version and the other node's they were computed from
        self.row = np.full(nodes, -1)  # the events that wrote them
        self.elapsed = np.zeros(nodes, dtype=np.float32)  # seconds that these came after their parents

    def inputs(self, nodes: IntArray, before: IntArray) -> Tensor:
        """[m], [m] → [m, d]. Versions are recomputed from the previous ones, so that gradients reach the GRU.

        If the GRU is not to learn, none pass through it either, to the encoding of times.
        """
        if len(before) and not self.line <= before.min() <= before.max() <= self.line + self.network.sizes.batch:
            raise AssertionError(f"rows {before.min()} to {before.max()} are not of the batch at row {self.line}")
        rows = latest_event(self.graph, nodes, before)
        written = np.where(rows >= 0, index_of(self.graph, rows, nodes), -1)
        _, first, index = np.unique(written, return_index=True, return_inverse=True)
        known = first[rows[first] >= 0]
        with torch.set_grad_enabled(torch.is_grad_enabled() and self.network.memory.weight_ih.requires_grad):
            memory = self._versions(rows[known], nodes[known])
        if len(known) < len(first):
            memory = torch.cat([memory.new_zeros(1, memory.shape[1]), memory])
        inputs = nn.functional.embedding(torch.from_numpy(index), memory)
        return inputs if self.features is None else inputs + self.features[torch.from_numpy(nodes)]

    @torch.no_grad()
    def advance(self, stop: int) -> None:
        """Let all batches before row `stop` happen."""
        size = self.network.sizes.batch
        for line in range(self.line, stop // size * size, size):
            rows = np.repeat(np.arange(line, line + size), 2)
            nodes, other = ends_of(self.graph, rows)
            last = len(nodes) - 1 - np.unique(nodes[::-1], return_index=True)[1]  # a node keeps its last version
            rows, nodes, other = rows[last], nodes[last], other[last]
            elapsed = self._elapsed(rows, nodes)
            parents = torch.stack([self.memory[nodes], self.memory[other]], dim=1)
            self.memory[nodes] = self._remember(rows, parents, elapsed)
            self.parents[nodes], self.row[nodes], self.elapsed[nodes] = parents, rows, elapsed
            self.line = line + size

    def _versions(self, rows: IntArray, nodes: IntArray) -> Tensor:
        """The versions that events wrote: of this batch, or the latest of their nodes. [n], [n] → [n, d]"""
        is_earlier = rows < self.line
        parents = torch.stack([self.memory[nodes], self.memory[self.graph.other_end(rows, nodes)]], dim=1)
        parents = torch.where(torch.from_numpy(is_earlier)[:, None, None], self.parents[nodes], parents)
        return self._remember(rows, parents, np.where(is_earlier, self.elapsed[nodes], self._elapsed(rows, nodes)))

    def _elapsed(self, rows: IntArray, nodes: IntArray) -> FloatArray:
        """Seconds from the latest versions of nodes to events of this batch. [n], [n] → [n]"""
        before, time = self.row[nodes], self.graph.time
        return (time[rows] - np.where(before >= 0, time[before], 0.0)).astype(np.float32)

    def _remember(self, rows: IntArray, parents: Tensor, elapsed: FloatArray) -> Tensor:
        edge = None if self.graph.features is None else torch.from_numpy(self.graph.features[rows])
        return self.network.remember(parents[:, 0], parents[:, 1], edge, torch.from_numpy(elapsed))


Network = TGN | TGAT
ARCHITECTURES: dict[str, type[TGN] | type[TGAT]] = {architecture.kind: architecture for architecture in (TGN, TGAT)}
