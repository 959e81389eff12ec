"""The memory of a TGN as a function of its log: the state of each node after each batch, in one table.

The memory is one whose nodes keep, for either side of an event, the last message (`TGNMemory` with `LastAggregator`).
A *slot* is a node in a batch in which it has events.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from cody.adapters.grid import Grid
from cody.adapters.past import Past
from cody.graph import BoolArray, FloatArray, IntArray, Query, TemporalGraph
from cody.utils.deadline import check_deadline

NONE = -1  # no row, no slot, no batch


class MemorySteps(Protocol):
    """What is asked of the user's modules."""

    first_counts: bool  # whether of a node's messages of the same time the first one counts, not the last

    def times(self, graph: TemporalGraph) -> NDArray[Any]:
        """The times of all rows, as the memory counts them. [rows]"""
        ...

    def remember(
        self, graph: TemporalGraph, own: Tensor, other: Tensor, rows: IntArray, target: BoolArray, elapsed: NDArray[Any]
    ) -> Tensor:
        """The next memory of nodes, from messages of which they are the source or the target. → [n, d]"""
        ...

    def reachable(self, query: Query, graph: TemporalGraph, rows: Sequence[int]) -> IntArray:
        """The nodes whose state may be read if some of these rows are changed."""
        ...

    def subgraph(self, query: Query, pasts: Sequence[Past]) -> Any:
        """What the model reads: `nodes`, and `of`, the past that each of them belongs to, by its place. [n] both"""
        ...

    def answers(self, subgraph: Any, graph: TemporalGraph, z: Tensor, last_update: Tensor) -> FloatArray:
        """The logit of each past, from the memory of the nodes and when it was last updated."""
        ...

    def state(self, graph: TemporalGraph, memory: Tensor, updated: NDArray[Any], last: IntArray) -> Any:
        """A state as the plain form of the model saves it: of all nodes, with the last row of either side."""
        ...


class MemoryLog:
    """The events, perhaps with imagined ones, as the memory of a model sees them."""

    def __init__(self, steps: MemorySteps, graph: TemporalGraph, grid: Grid) -> None:
        self.steps, self.graph, self.grid = steps, graph, grid
        self.times = steps.times(graph)  # [rows]
        self.first_counts = steps.first_counts

    def counts(self, source: IntArray, target: IntArray) -> tuple[IntArray, BoolArray]:
        """Which of a node's last messages counts, and whether that is the one as target. [n], [n] → [n], [n]

        It is the later one; if both have the same time, an aggregator sees the one as source first.
        """
        before, after = self.times[source], self.times[target]
        of_target = (before < after) | ((before == after) & (not self.first_counts))
        of_target = (source == NONE) | ((target != NONE) & of_target)
        return np.where(of_target, target, source), of_target

    def enter(self, last: IntArray, rows: IntArray) -> None:
        """Let each node's last row on each side be the last of some more, if it has one there. [2, N], [n]"""
        for side, ends in zip(last, (self.graph.src[rows], self.graph.dst[rows]), strict=True):
            side[ends] = rows  # of several rows, numpy keeps the last
            if self.first_counts:
                same = np.flatnonzero(self.times[rows] == self.times[side[ends]])[::-1]
                side[ends[same]] = rows[same]

    def other_end(self, rows: IntArray, target: BoolArray) -> IntArray:
        """The node at the other end of messages. [n], [n] → [n]"""
        return np.where(target, self.graph.src[rows], self.graph.dst[rows]).astype(np.int64)

    def remember(self, own: Tensor, other: Tensor, rows: IntArray, target: BoolArray, elapsed: NDArray[Any]) -> Tensor:
        return self.steps.remember(self.graph, own, other, rows, target, elapsed)


class StateTable:
    """The state of each node after each batch in which it has events, with nothing changed."""

    def __init__(self, log: MemoryLog, like: Tensor) -> None:
        graph, self.grid = log.graph, log.grid
        self.batches = self.grid.number(graph.num_events) + 2
        ends = np.repeat(np.arange(graph.num_nodes), np.diff(graph.offsets))
        self.keys = np.unique(ends * self.batches + self.grid.number(graph.incidence))  # [S] by node, then batch
        self.memory = like.new_zeros((len(self.keys), like.shape[1]))  # [S, d]
        self.updated = np.zeros(len(self.keys), dtype=log.times.dtype)  # [S]
        self.last = np.full((2, len(self.keys)), NONE)  # [2, S] the node's last row as source, and as target
        memory, updated = torch.zeros_like(like), np.zeros(len(like), dtype=log.times.dtype)
        last = np.full((2, len(like)), NONE)
        for batch in self.grid.batches(graph.num_events):
            check_deadline()
            nodes, written = _next(log, self.grid.rows(batch, graph.num_events), memory, updated, last)
            slots = np.searchsorted(self.keys, nodes * self.batches + batch)
            self.memory[torch.as_tensor(slots)] = written
            self.updated[slots], self.last[:, slots] = updated[nodes], last[:, nodes]

    def before(self, nodes: IntArray, batch: int) -> IntArray:
        """The last slot of each node before a batch; NONE if there is none. [n] → [n]"""
        if not len(self.keys):
            return np.full(len(nodes), NONE)
        slots = np.searchsorted(self.keys, nodes * self.batches + batch) - 1
        return np.where((slots >= 0) & (self.keys[slots] // self.batches == nodes), slots, NONE)

    def at(self, line: int, like: Tensor) -> tuple[Tensor, NDArray[Any], IntArray]:
        """Memory, time of the last update, and last rows of all nodes at a line of the grid."""
        slots = self.before(np.arange(len(like)), self.grid.number(line))
        known = np.flatnonzero(slots != NONE)
        memory, updated = torch.zeros_like(like), np.zeros(len(like), dtype=self.updated.dtype)
        last = np.full((2, len(like)), NONE)
        memory[torch.as_tensor(known)] = self.memory[torch.as_tensor(slots[known])]
        updated[known], last[:, known] = self.updated[slots[known]], self.last[:, slots[known]]
        return memory, updated, last


def memory_after(log: MemoryLog, stop: int, like: Tensor) -> Tensor:
    """The memory of all nodes once the rows before `stop` have happened. [N, d]"""
    memory, updated = torch.zeros_like(like), np.zeros(len(like), dtype=log.times.dtype)
    last = np.full((2, len(like)), NONE)
    for batch in log.grid.batches(stop):
        _next(log, log.grid.rows(batch, stop), memory, updated, last)
    return memory


def _next(
    log: MemoryLog, rows: IntArray, memory: Tensor, updated: NDArray[Any], last: IntArray
) -> tuple[IntArray, Tensor]:
    """Let a batch happen; what is known of the nodes changes in place. The nodes, and their new memory."""
    graph, times = log.graph, log.times
    log.enter(last, rows)
    nodes = np.unique(np.concatenate([graph.src[rows], graph.dst[rows]])).astype(np.int64)
    chosen, target = log.counts(*last[:, nodes])
    other = log.other_end(chosen, target)
    place = torch.as_tensor(nodes)
    elapsed = times[chosen] - updated[nodes]
    written = log.remember(memory[place], memory[torch.as_tensor(other)], chosen, target, elapsed)
    memory[place], updated[nodes] = written, times[chosen]
    return nodes, written
