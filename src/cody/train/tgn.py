"""TGN: the attention stack of TGAT on top of a memory that events update.

Reference: Rossi et al., "Temporal graph networks for deep learning on dynamic graphs", 2020, configuration TGN-attn:
identity messages, the last message of a batch counts, a GRU writes the memory.

An event gives each of its nodes a new version of its memory, computed from the versions at the start of the event's
batch. So the memory of a node before row i is simply the version written by its last event before row i. All versions
are in one table, indexed like `TemporalGraph.incidence`.
"""

from __future__ import annotations

from typing import ClassVar

import numpy as np
import torch
from torch import Tensor, nn

from cody.graph import IntArray, TemporalGraph
from cody.models.labels import LabelTask
from cody.models.sizes import Sizes, node_inputs
from cody.train.layers import AttentionStack


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
        updated: Tensor = self.memory(message, own)
        return updated

    def stream(self, graph: TemporalGraph) -> MemoryStream:
        """The layer-0 inputs of each node as events happen: its memory and its features."""
        return MemoryStream(self, graph)


class VersionSources:
    """The versions each version is computed from; positions are those of `graph.incidence`, -1: no version yet."""

    def __init__(self, graph: TemporalGraph, batch: int) -> None:
        row = graph.incidence
        node = np.repeat(np.arange(graph.num_nodes), np.diff(graph.offsets))
        other = graph.other_end(row, node)
        start = row // batch * batch
        self.row = row  # [S] the event that writes the version
        self.own = latest_version(graph, node, start)  # [S]
        self.other = latest_version(graph, other, start)  # [S]
        last_update = np.where(self.own >= 0, graph.time[row[self.own]], 0.0)
        self.elapsed = (graph.time[row] - last_update).astype(np.float32)  # [S]


def latest_version(graph: TemporalGraph, nodes: IntArray, before: IntArray | int) -> IntArray:
    """Position of the version that each node has before row `before`; -1 where it has none. [n] → [n]"""
    ends = graph.ends(nodes, before)
    return np.where(ends > graph.offsets[nodes], ends - 1, -1)


class MemoryStream:
    """The table of memory versions, filled as events happen, and the layer-0 inputs read from it."""

    def __init__(self, network: TGN, graph: TemporalGraph) -> None:
        self.network = network
        self.graph = graph
        self.lineage = VersionSources(graph, network.sizes.batch)
        features = node_inputs(graph, network.sizes)
        self.features = None if features is None else torch.from_numpy(features)
        # The last row stays zero: position -1 is the memory of a node before its first event.
        self.versions = torch.zeros(len(graph.incidence) + 1, network.sizes.dimension)
        self.order = np.argsort(self.lineage.row, kind="stable")  # positions by event row
        self.ordered_rows = self.lineage.row[self.order]
        self.written = 0  # rows whose versions are in the table

    def inputs(self, nodes: IntArray, before: IntArray) -> Tensor:
        """[m], [m] → [m, d]. Versions are recomputed from the previous ones, so that gradients reach the GRU.

        If the GRU is not to learn, none pass through it either, to the encoding of times.
        """
        position, index = np.unique(latest_version(self.graph, nodes, before), return_inverse=True)
        first = int(position[0] == -1)
        with torch.set_grad_enabled(torch.is_grad_enabled() and self.network.memory.weight_ih.requires_grad):
            memory = self._version(position[first:])
        if first:
            memory = torch.cat([memory.new_zeros(1, memory.shape[1]), memory])
        inputs = nn.functional.embedding(torch.from_numpy(index), memory)
        return inputs if self.features is None else inputs + self.features[torch.from_numpy(nodes)]

    def advance(self, stop: int) -> None:
        """Write the versions of all rows before `stop`, batch by batch."""
        batch = self.network.sizes.batch
        with torch.no_grad():
            while self.written < stop:
                end = min(stop, (self.written // batch + 1) * batch)
                first, last = np.searchsorted(self.ordered_rows, [self.written, end])
                position = self.order[first:last]
                self.versions[torch.from_numpy(position)] = self._version(position)
                self.written = end

    def _version(self, position: IntArray) -> Tensor:
        lineage, graph = self.lineage, self.graph
        own = self.versions[torch.from_numpy(lineage.own[position])]
        other = self.versions[torch.from_numpy(lineage.other[position])]
        edge = None if graph.features is None else torch.from_numpy(graph.features[lineage.row[position]])
        return self.network.remember(own, other, edge, torch.from_numpy(lineage.elapsed[position]))
