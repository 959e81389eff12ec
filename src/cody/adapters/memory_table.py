"""The memory of a TGN as a function of its log: the state of each node after each batch, in one table.

The memory is one whose nodes keep, for either side of an event, the last message (`TGNMemory` with `LastAggregator`).
A *slot* is a node in a batch in which it has events.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from cody.adapters.past import tied_with
from cody.graph import BoolArray, IntArray, TemporalGraph
from cody.graph.grid import Grid
from cody.utils.deadline import check_deadline

if TYPE_CHECKING:
    from cody.adapters.pyg import PygSteps

NONE = -1  # no row, no slot, no batch


class MemoryLog:
    """The events, perhaps with imagined ones, as the memory of a model sees them."""

    def __init__(self, steps: PygSteps, graph: TemporalGraph, grid: Grid) -> None:
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

    def needed(self, batches: list[IntArray], nodes: IntArray) -> list[IntArray]:
        """Of each batch, the events that the states of `nodes` after the last one can depend on.

        Of the messages that a node gets in a batch the last one counts, or one of the same time on its other side.
        """
        graph, found = self.graph, []
        needed, last = np.zeros(graph.num_nodes, dtype=bool), np.full((2, graph.num_nodes), NONE)
        needed[nodes] = True
        for rows in reversed(batches):
            check_deadline()
            self.enter(last, rows)
            ends = np.concatenate([graph.src[rows], graph.dst[rows]])
            own = last[:, ends[needed[ends]]]
            last[:, ends] = NONE
            latest = self.times[self.counts(*own)[0]]
            rows = rows[np.isin(rows, own[(own != NONE) & (self.times[own] == latest)])]
            again = tied_with(graph, self.times, self.grid, rows)
            again = again[needed[graph.src[again]] | needed[graph.dst[again]]]
            for some in (rows, again):
                needed[graph.src[some]] = needed[graph.dst[some]] = True
            found.append(rows)
        return found[::-1]


class NodeStates(NamedTuple):
    """What is known of each node at some moment."""

    memory: Tensor  # [N, d]
    updated: NDArray[Any]  # [N] when the memory was last updated
    last: IntArray  # [2, N] the node's last row as source, and as target

    @classmethod
    def empty(cls, log: MemoryLog, like: Tensor) -> NodeStates:
        """Before the first event."""
        last = np.full((2, len(like)), NONE)
        return cls(torch.zeros_like(like), np.zeros(len(like), dtype=log.times.dtype), last)


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
        state = NodeStates.empty(log, like)
        for batch in self.grid.batches(graph.num_events):
            check_deadline()
            nodes, written = _next(log, self.grid.rows(batch, graph.num_events), state)
            slots = np.searchsorted(self.keys, nodes * self.batches + batch)
            self.memory[torch.as_tensor(slots)] = written
            self.updated[slots], self.last[:, slots] = state.updated[nodes], state.last[:, nodes]

    def before(self, nodes: IntArray, batch: int | IntArray) -> IntArray:
        """The last slot of each node before a batch, or each before its own; NONE if there is none. [n] → [n]"""
        if not len(self.keys):
            return np.full(len(nodes), NONE)
        slots = np.searchsorted(self.keys, nodes * self.batches + batch) - 1
        return np.where((slots >= 0) & (self.keys[slots] // self.batches == nodes), slots, NONE)

    def of(self, slots: IntArray) -> Tensor:
        """The memory after slots, zero for NONE. [n] → [n, d]"""
        memory = self.memory[torch.as_tensor(slots)]
        memory[torch.as_tensor(slots == NONE)] = 0
        return memory

    def at(self, line: int, log: MemoryLog, like: Tensor) -> NodeStates:
        """The state of all nodes at a line of the grid.

        Rows that are older than the last one before the line are left out: every later message comes before theirs.
        """
        slots = self.before(np.arange(len(like)), self.grid.number(line))
        known = np.flatnonzero(slots != NONE)
        state = NodeStates.empty(log, like)
        memory, updated, last = state
        memory[torch.as_tensor(known)] = self.memory[torch.as_tensor(slots[known])]
        updated[known], last[:, known] = self.updated[slots[known]], self.last[:, slots[known]]
        if len(known):
            last[:, updated < updated[known].max()] = NONE
        return state


def memory_after(log: MemoryLog, stop: int, like: Tensor) -> Tensor:
    """The memory of all nodes once the rows before `stop` have happened. [N, d]"""
    state = NodeStates.empty(log, like)
    for batch in log.grid.batches(stop):
        _next(log, log.grid.rows(batch, stop), state)
    return state.memory


def _next(log: MemoryLog, rows: IntArray, state: NodeStates) -> tuple[IntArray, Tensor]:
    """Let a batch happen; what is known of the nodes changes in place. The nodes, and their new memory."""
    graph, times = log.graph, log.times
    memory, updated, last = state
    log.enter(last, rows)
    nodes = np.unique(np.concatenate([graph.src[rows], graph.dst[rows]])).astype(np.int64)
    chosen, target = log.counts(*last[:, nodes])
    order = np.argsort(target, kind="stable")  # sources first
    nodes, chosen, target = nodes[order], chosen[order], target[order]
    other = log.other_end(chosen, target)
    place = torch.as_tensor(nodes)
    elapsed = times[chosen] - updated[nodes]
    sources = int(np.count_nonzero(~target))
    written = log.steps.remember(graph, memory[place], memory[torch.as_tensor(other)], chosen, sources, elapsed)
    memory[place], updated[nodes] = written, times[chosen]
    return nodes, written
