"""The memory of another library's TGN in our own engine: its versions are followed as those of our TGN are.

Read docs/engine.md and `engine/lineage.py` first. Two things are needed for it, and both are tested:

- The memory is a GRU whose message is two memories, the event and a time encoding, one after the other, as in the
  libraries' examples. Then products of memories and weights are computed once for each memory.
- It is clear in which order simultaneous messages of a node count. Those of one batch go by the side that the node is
  on, and then by row (`SimultaneousEvents`). One of an earlier batch may count once more; which one must not be edited.

Where one of these does not hold, `sourced.py` follows slots, with the user's modules.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from cody.adapters.memory_table import NONE, MemoryLog, StateTable
from cody.adapters.workspace import Workspace
from cody.engine.lineage import ORDER_OF_ROWS, Lineage, NodeOrder, find
from cody.engine.masks import EditableEvents
from cody.engine.memory import GateMaps
from cody.engine.tgn import MemoryInputs
from cody.engine.versions import checksums
from cody.engine.weights import gated
from cody.graph import FloatArray, IntArray, Query, TemporalGraph, sorted_unique
from cody.models.contract import Change
from cody.models.sizes import Sizes

if TYPE_CHECKING:
    from cody.adapters.pyg import PygSteps

CLOSE = 1e-5  # two computations of a memory, whose numbers are about 1
TRIED = 64  # random messages


class GruWeights:
    """The weights of a memory that is a GRU, in some precision; see `engine.memory.MemoryWeights`."""

    def __init__(self, steps: PygSteps, arrays: dict[str, NDArray[Any]], dtype: Any) -> None:
        self.steps, self.dtype = steps, np.dtype(dtype)
        self.arrays = {name: array.astype(dtype) for name, array in arrays.items()}
        self.sizes = Sizes(dimension=arrays["memory.weight_hh"].shape[1])
        self.encoder = None  # times are encoded by the user's module

    def __getitem__(self, name: str) -> NDArray[Any]:
        return self.arrays[name]

    def edge(self, graph: TemporalGraph, rows: IntArray) -> FloatArray:
        """The messages of events. [n] → [n, F]"""
        return self.steps.raw_messages(graph, rows).astype(self.dtype)

    def encode(self, elapsed: FloatArray) -> FloatArray:
        """Durations as the user's module encodes them, in its own precision. [n] → [n, T]"""
        return self.steps.encode(elapsed).astype(self.dtype)

    def encode_into(self, elapsed: FloatArray, out: FloatArray) -> None:
        """The same, written to where it is needed."""
        out[:] = self.encode(elapsed.astype(self.dtype))

    def remember(self, own: FloatArray, other: FloatArray, edge: FloatArray, elapsed: FloatArray) -> FloatArray:
        """What `PygSteps.remember` computes, if the memory is such a GRU. → [n, d]"""
        maps = GateMaps(self)
        d = self.sizes.dimension
        mine = maps.own.times(own)
        given = maps.event.times(np.concatenate([edge, self.encode(elapsed)], axis=1))
        given += maps.other.times(other) + mine[:, : 3 * d]
        return gated(own, given[:, : 2 * d], given[:, 2 * d :], mine[:, 3 * d :] + maps.kept_bias)


def gru_weights(steps: PygSteps, graph: TemporalGraph, width: int) -> dict[str, NDArray[Any]] | None:
    """The weights of the memory's GRU, if it gives the same memories for random messages as the user's modules."""
    arrays = steps.gru()
    if arrays is None or arrays["memory.weight_hh"].shape != (3 * width, width) or not graph.num_events:
        return None
    rng = np.random.default_rng(0)
    own, other = rng.normal(0, 1, (2, TRIED, width))
    rows = rng.integers(0, graph.num_events, TRIED)
    elapsed = rng.choice(np.diff(steps.times(graph), prepend=0), TRIED)
    weights = GruWeights(steps, arrays, np.float64)
    edge = weights.edge(graph, rows)
    if 2 * width + edge.shape[1] + weights.encode(elapsed[:2]).shape[1] != arrays["memory.weight_ih"].shape[1]:
        return None
    theirs = steps.remember(graph, steps.tensor(own), steps.tensor(other), rows, TRIED // 2, elapsed).cpu().numpy()
    return arrays if np.allclose(weights.remember(own, other, edge, elapsed), theirs, rtol=0, atol=CLOSE) else None


class LazyVersions:
    """The versions of all events with nothing changed, by index; each is computed when it is first needed.

    See `engine.versions.VersionTable`. What is never read takes no room.
    """

    def __init__(self, table: StateTable, log: MemoryLog) -> None:
        self.table, self.log = table, log
        self.dtype = np.dtype(table.memory.cpu().numpy().dtype)
        width = table.memory.shape[1] * self.dtype.itemsize // 4
        self.words = np.zeros((2 * log.graph.num_events, width + 2), dtype=np.uint32)
        self.known = np.zeros(len(self.words), dtype=bool)
        self.key = np.uint64(0)  # it never leaves this process
        self.node_order = ORDER_OF_ROWS

    def read(self, index: IntArray) -> FloatArray:
        """The versions at `index`. [n] → [n, d]"""
        new = sorted_unique(index[~self.known[index]])
        if len(new):
            words = np.ascontiguousarray(self._compute(new)).view(np.uint32)
            self.words[new, :-2] = words
            self.words[new, -2:] = checksums(words, new, self.key)[:, None].view(np.uint32)
            self.known[new] = True
        return self.words[index][:, :-2].view(self.dtype)

    def part(self, index: IntArray) -> tuple[LazyVersions, IntArray]:
        return self, index

    @torch.no_grad()
    def _compute(self, index: IntArray) -> FloatArray:
        """What the user's modules make of the states at the start of the batch. [n] → [n, d]"""
        log, table = self.log, self.table
        order = np.argsort(index % 2, kind="stable")  # sources before targets
        rows, target = index[order] // 2, (index[order] % 2).astype(bool)
        messages = self.node_order.messages(index[order])
        nodes = np.where(target, log.graph.dst[rows], log.graph.src[rows]).astype(np.int64)
        others = log.graph.other_end(messages, nodes).astype(np.int64)
        own, other = (table.before(ends, log.grid.number(rows)) for ends in (nodes, others))
        elapsed = log.times[rows] - np.where(own == NONE, 0, table.updated[own])
        sources = int(np.count_nonzero(~target))
        values = log.steps.remember(log.graph, table.of(own), table.of(other), messages, sources, elapsed).cpu().numpy()
        result = np.empty_like(values)
        result[order] = values
        return result


class FollowedMemory:
    """The memory of a user's TGN as `engine.memory.VersionedMemory`."""

    def __init__(self, table: StateTable, log: MemoryLog, arrays: dict[str, NDArray[Any]]) -> None:
        self.log, self.times, self.graph = log, log.times, log.graph
        self.table = LazyVersions(table, log)
        self.weights = GruWeights(log.steps, arrays, np.float64)
        self.gates = GateMaps(self.weights)
        self.rough_gates = GateMaps(GruWeights(log.steps, arrays, self.table.dtype))
        self.node_order, self.fixed = node_order(log, np.arange(log.graph.num_events))
        self.table.node_order = self.node_order

    def on(self, log: MemoryLog) -> FollowedMemory:
        """The same with imagined rows: versions are those of the real ones."""
        other = object.__new__(FollowedMemory)
        vars(other).update(vars(self), log=log, times=log.times, graph=log.graph)
        events = log.graph.num_events
        same_time = np.flatnonzero(np.isin(log.times[:events], log.times[events:]))
        rows = np.concatenate([same_time, np.arange(events, log.graph.num_rows)])
        simultaneous = SimultaneousEvents.of(log, rows, by_batch=False)
        with_imagined = np.isin(simultaneous.group, simultaneous.group[simultaneous.by_row >= 2 * events])
        other.fixed = sorted_unique(np.concatenate([self.fixed, simultaneous.by_row[with_imagined]]))
        return other

    def is_clear(self, query: Query, lineage: Lineage) -> bool:
        """Whether it is known in which order versions count: what that depends on is not edited, nor seen in part."""
        events = lineage.editable.events
        edited, _ = find(np.concatenate([2 * events, 2 * events + 1]), self.fixed)
        repeating, _ = find(lineage.index, self.node_order.repeating)
        cut = self.log.grid.line(query.before)
        seen_in_part = query.before > cut and (lineage.row[repeating] >= cut).any()
        return not len(edited) and not seen_in_part and not self.node_order.is_cut(lineage.index, query.before)


class SimultaneousEvents(NamedTuple):
    """Events of one node and one time, in the order of rows, where they do not count in it. [m] each"""

    by_row: IntArray  # versions in the order of rows
    by_count: IntArray  # versions in the order in which they count: of those that happened, the last one does
    group: IntArray  # ascending
    batch: IntArray  # of `by_row`

    @classmethod
    def of(cls, log: MemoryLog, rows: IntArray, *, by_batch: bool) -> SimultaneousEvents:
        """Those among some rows; `by_batch`: of one batch.

        An aggregator takes the last of a node's messages as target, then those as source. If the first one counts, it
        is the other way round. A self-loop is on both sides: the one that is taken first.
        """
        graph, loops = log.graph, log.graph.src[rows] == log.graph.dst[rows]
        row = np.concatenate([rows, rows[~loops]])
        target = np.concatenate([loops & (not log.first_counts), np.ones(np.count_nonzero(~loops), dtype=bool)])
        node = np.concatenate([graph.src[rows], graph.dst[rows[~loops]]])
        rank, times, batch = graph.time_rank(row), log.times[row], log.grid.number(graph.next_real(row))
        order = np.lexsort((rank, times, node))
        kinds = (node, times, batch) if by_batch else (node, times)
        new = np.any([np.diff(kind[order], prepend=kind[order[:1]] - 1) != 0 for kind in kinds], axis=0)
        group = np.cumsum(new)
        number = np.empty_like(group)
        number[order] = group
        counts = (-rank, ~target) if log.first_counts else (rank, target)
        by_count = np.lexsort((*counts, number))
        several = np.isin(group, group[order != by_count])
        version = 2 * row + (target & (graph.src[row] != graph.dst[row]))
        order, by_count = order[several], by_count[several]
        return cls(version[order], version[by_count], group[several], batch[order])


def node_order(log: MemoryLog, rows: IntArray) -> tuple[NodeOrder, IntArray]:
    """How simultaneous events count if all happen; and the versions of those that must, for that to be true."""
    apart, whole = (SimultaneousEvents.of(log, rows, by_batch=by_batch) for by_batch in (True, False))
    by_row, by_count, group, _ = apart
    begins, sizes = np.unique(group, return_index=True, return_counts=True)[1:]
    first, last = by_row[np.repeat(begins, sizes)] // 2, by_row[np.repeat(begins + sizes - 1, sizes)] // 2
    order, place = np.argsort(by_row), np.empty_like(by_row)
    place[np.searchsorted(by_row[order], by_count)] = by_row
    ordered = by_row[order], place, by_count[order], first[order], last[order]
    repeated, fixed = _repeated(log, whole)
    repeating = np.array(sorted(repeated), dtype=np.int64)
    message = np.array([repeated[version] for version in repeating.tolist()], dtype=np.int64)
    return NodeOrder(*ordered, repeating, message), np.sort(np.array(fixed, dtype=np.int64))


def _repeated(log: MemoryLog, simultaneous: SimultaneousEvents) -> tuple[dict[int, int], list[int]]:
    """For versions that a message of an earlier batch makes, its row; and all versions of the time of such ones."""
    graph, repeated, fixed = log.graph, dict[int, int](), list[int]()
    batch_of = dict(zip(simultaneous.by_row.tolist(), simultaneous.batch.tolist(), strict=True))
    by_count = np.split(simultaneous.by_count, np.flatnonzero(np.diff(simultaneous.group)) + 1)
    for versions in map(np.ndarray.tolist, by_count):
        last = {batch_of[version]: version for version in versions}  # that counts, of each batch
        if len(last) < 2:
            continue
        fixed += versions
        best = None  # the last one of the side that is taken first
        for _, version in sorted(last.items()):
            on_target = bool(version % 2) or bool(graph.src[version // 2] == graph.dst[version // 2])
            on_source = not version % 2
            if on_source if log.first_counts else on_target:
                best = version
            elif best is not None:
                repeated[version] = best // 2
    return repeated, fixed


class VersionWorkspace(Workspace):
    """A workspace that follows versions in our own engine."""

    def __init__(self, memory: FollowedMemory, links: Sequence[Query], nodes: IntArray, lineage: Lineage) -> None:
        self.memory, self.nodes, self.lineage = memory, nodes, lineage  # nodes ascend
        super().__init__(memory.log, links, lineage.editable.rows, lineage.count)

    @classmethod
    def of(cls, memory: FollowedMemory, links: Sequence[Query], rows: frozenset[int]) -> VersionWorkspace | None:
        """The workspace of links; None if the order in which simultaneous messages count depends on others."""
        graph, log, query = memory.graph, memory.log, links[0]
        editable = EditableEvents(graph, query, rows)
        nodes = log.steps.reachable(links, graph, editable.events.tolist())
        lineage = Lineage.of(graph, log.grid, query, editable, nodes, memory.node_order)
        return cls(memory, links, nodes, lineage) if memory.is_clear(query, lineage) else None

    def _begin(self, most: float) -> None:
        self.inputs = MemoryInputs(self.memory, self.lineage, None, small=most)

    @property
    def own_size(self) -> int:
        return self.inputs.size

    def _states(self, nodes: IntArray, of: IntArray, changes: Sequence[Change]) -> tuple[Tensor, NDArray[Any]]:
        inputs, lineage, times = self.inputs, self.lineage, self.memory.times
        masks, places = lineage.editable.masks(changes), np.searchsorted(self.nodes, nodes)
        inputs.begin(masks)
        ids = inputs.compute(inputs.plan(places, masks[of], of))
        written = lineage.kept(lineage.latest[places], masks, of)
        updated = np.where(written > 0, times[lineage.row[written]], 0).astype(times.dtype)
        return self.log.steps.tensor(inputs.values[ids]), updated
