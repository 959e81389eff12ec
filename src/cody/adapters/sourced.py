"""Event-sourced memory for TGNs of other libraries: exact answers that compute only what a change changes.

Read `replay.py` and docs/engine.md first: the idea is that of our own engine. Here the memory is one whose nodes keep,
for either side of an event, the last message (`TGNMemory` with `LastAggregator`), and all that is computed is computed
by the user's own modules, so that any message function, GNN and predictor will do.

A *slot* is a node in a batch in which it has events. The state after each slot of the log as it is stands in a table.
The state after a slot under a change is a function of the node's state before, of the state of one other node at the
start of the batch, and of one event; it is computed only where the change can reach the slot, and the slot the query.
"""

from __future__ import annotations

import copy
import itertools
from collections.abc import Iterable, Sequence
from functools import cached_property
from typing import Any, NamedTuple, Protocol, Self

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from cody.adapters.grid import Grid
from cody.adapters.history import HistoryModel, HistoryReference
from cody.adapters.past import Past
from cody.graph import BoolArray, FloatArray, IntArray, Query, TemporalGraph
from cody.graph.edits import NOTHING
from cody.models.contract import Change, check_changes
from cody.utils.deadline import check_deadline

NONE = -1  # no row, no slot, no batch
STATES_KEPT = 2**25  # numbers that a session remembers; then it starts afresh
SETS_AT_ONCE = 64
MOST_STATES = 2**21  # of a session; a pair of them and the number of a slot fit into 64 bits


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
        """The nodes whose state may be read if some of these rows are otherwise."""
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

    def counts(self, source: int, target: int) -> tuple[int, bool]:
        """Which of a node's last messages counts, and whether that is the one as target.

        It is the later one; if both have the same time, an aggregator sees the one as source first.
        """
        if source == NONE or target == NONE:
            return max(source, target), source == NONE
        before, after = self.times[source], self.times[target]
        of_target = bool(before < after or (before == after and not self.first_counts))
        return (target if of_target else source), of_target

    def last_of(self, rows: list[int]) -> int:
        """Which of a node's rows on one side of a batch is its last message there; NONE if there are none."""
        if not rows or not self.first_counts:
            return rows[-1] if rows else NONE
        return next(row for row in rows if self.times[row] == self.times[rows[-1]])

    def remember(self, own: Tensor, other: Tensor, rows: IntArray, target: BoolArray, elapsed: NDArray[Any]) -> Tensor:
        return self.steps.remember(self.graph, own, other, rows, target, elapsed)


class StateTable:
    """The state of each node after each batch in which it has events, with nothing otherwise."""

    def __init__(self, log: MemoryLog, like: Tensor) -> None:
        graph, self.grid = log.graph, log.grid
        self.batches = self.grid.number(graph.num_events) + 2
        ends = np.repeat(np.arange(graph.num_nodes), np.diff(graph.offsets))
        self.keys = np.unique(
            ends * self.batches + self.grid.number(graph.incidence)
        )  # [S] of slots: by node, then batch
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

    def before(self, node: int, batch: int) -> int:
        """The last slot of a node before a batch; NONE if there is none."""
        slot = int(np.searchsorted(self.keys, node * self.batches + batch)) - 1
        return slot if slot >= 0 and self.keys[slot] // self.batches == node else NONE

    def batch_of(self, slot: int) -> int:
        return NONE if slot == NONE else int(self.keys[slot] % self.batches)

    def at(self, line: int, like: Tensor) -> tuple[Tensor, NDArray[Any], IntArray]:
        """Memory, time of the last update, and last rows of all nodes at a line of the grid."""
        nodes = np.arange(len(like))
        slots = np.searchsorted(self.keys, nodes * self.batches + self.grid.number(line)) - 1
        known = np.flatnonzero((slots >= 0) & (self.keys[slots] // self.batches == nodes))
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
    for side, ends in enumerate((graph.src[rows], graph.dst[rows])):
        last[side][ends] = rows  # of several rows, numpy keeps the last
        if log.first_counts:
            same = np.flatnonzero(times[rows] == times[last[side][ends]])[::-1]
            last[side][ends[same]] = rows[same]
    nodes = np.unique(np.concatenate([graph.src[rows], graph.dst[rows]])).astype(np.int64)
    counts = [log.counts(source, target) for source, target in last[:, nodes].T.tolist()]
    chosen, target = np.array([row for row, _ in counts]), np.array([of_target for _, of_target in counts])
    other = np.where(target, graph.src[chosen], graph.dst[chosen]).astype(np.int64)
    place = torch.as_tensor(nodes)
    elapsed = times[chosen] - updated[nodes]
    written = log.remember(memory[place], memory[torch.as_tensor(other)], chosen, target, elapsed)
    memory[place], updated[nodes] = written, times[chosen]
    return nodes, written


class Slot:
    """A node in a batch that changes can reach, or that the query cuts."""

    __slots__ = ("batch", "before", "choosing", "chosen", "index", "known", "mask", "node", "others", "rows", "settled")

    def __init__(self, node: int, batch: int, rows: list[int], mask: int) -> None:
        self.node, self.batch = node, batch
        self.rows = rows  # of the node's events in the batch that the query may see; imagined ones among them
        self.mask = mask  # which rows its state can depend on, of those that may be otherwise; a bit each
        self.known: dict[int, int] = {}  # mask → number of the state after it
        self.before: Slot | int | None = None  # the node's slot before, or the number of its state; None: not known yet
        self.settled: Settled | None = None  # what happens, whatever is otherwise
        self.index = NONE  # its place among the slots that a query needs
        self.choosing = 0  # the bits of its own rows
        self.chosen: dict[int, tuple[int, int]] = {}  # by these bits: the last rows that happened, as source and target
        self.others: dict[tuple[int, int], Slot | int] = {}  # by last rows: the other node's slot, or number of a state


class Settled(NamedTuple):
    """The message that counts in a slot, where no change can choose another."""

    source: int  # the node's last row in the batch as source, NONE if there is none
    target: int
    other: Slot | int  # the slot of the other node before the batch, or the number of its state


class BatchSlots(NamedTuple):
    """The slots of one batch that a query needs. `open`: those in which a change may choose the message that counts."""

    places: IntArray  # [S] the index of the others, as all that follows
    before: IntArray  # [S, 2] the index of the node's slot before, NONE if there is none; then the number of its state
    other: IntArray  # [S, 2] the same of the node at the other end
    row: IntArray  # [S] of the message that counts
    target: BoolArray  # [S] whether the node is its target
    last: IntArray  # [S, 2] the node's last rows in the batch as source and as target
    open: list[Slot]


def _layer(log: MemoryLog, slots: list[Slot]) -> BatchSlots:
    def place(found: Slot | int | None) -> tuple[int, int]:
        assert found is not None
        return (NONE, found) if isinstance(found, int) else (found.index, 0)

    settled = [(slot, slot.settled) for slot in slots if slot.settled is not None]
    last = [(each.source, each.target) for _, each in settled]
    counts = [log.counts(*both) for both in last]
    return BatchSlots(
        np.array([slot.index for slot, _ in settled], dtype=np.int64),
        np.array([place(slot.before) for slot, _ in settled], dtype=np.int64).reshape(-1, 2),
        np.array([place(each.other) for _, each in settled], dtype=np.int64).reshape(-1, 2),
        np.array([row for row, _ in counts], dtype=np.int64),
        np.array([of_target for _, of_target in counts], dtype=bool),
        np.array(last, dtype=np.int64).reshape(-1, 2),
        [slot for slot in slots if slot.settled is None],
    )


class SlotLineage:
    """The slots on which an answer can depend and which changes can reach.

    Going backward from the query it is found which nodes matter in which batch, going forward which rows reach them.
    Masks may be too large, which costs time; they are never too small.
    """

    def __init__(self, table: StateTable, log: MemoryLog, query: Query, rows: Iterable[int]) -> None:
        self.table, self.log, self.query, graph = table, log, query, log.graph
        self.universe = _seen(graph, query, rows)
        self.bit = {row: 1 << place for place, row in enumerate(self.universe.tolist())}
        self.imagined = self.universe[self.universe >= graph.num_events]
        self.cut = log.grid.number(query.before)  # the batch that the query cuts; of no rows, if it stands at a line
        self.oldest = min([self.cut, *log.grid.number(graph.next_real(self.universe)).tolist()])
        self.slots: dict[tuple[int, int], Slot] = {}  # by node and batch
        self._previous: dict[tuple[int, int], int] = {}
        self._batches: dict[int, set[int]] = {}  # of imagined rows, by node
        batches = log.grid.number(graph.next_real(self.imagined))
        for row, batch in zip(self.imagined.tolist(), batches.tolist(), strict=True):
            for node in (int(graph.src[row]), int(graph.dst[row])):
                self._batches.setdefault(node, set()).add(batch)
        self._find_slots(self._rows_that_matter())

    def latest(self, node: int) -> int:
        """The last batch before the query in which a node may have events."""
        return self.cut if (node, self.cut) in self.slots else self.previous(node, self.cut)

    def previous(self, node: int, batch: int) -> int:
        """The last batch before another in which a node may have events; NONE if there is none."""
        known = self._previous.get((node, batch))
        if known is None:
            known = self.table.batch_of(self.table.before(node, batch))
            if node in self._batches:
                known = max([known, *(other for other in self._batches[node] if other < batch)])
            self._previous[node, batch] = known
        return known

    def _rows(self, batch: int) -> tuple[IntArray, IntArray]:
        """The rows of a batch that the query may see; and earlier ones whose messages may count in it once more.

        A message stays after it has counted. If the node's next message, in a later batch and on the other side, has
        the same time, either may be taken for the last one.
        """
        graph, first = self.log.graph, self.log.grid.first(batch)
        batches = self.log.grid.number(graph.next_real(self.imagined))
        real = self.log.grid.rows(batch, self.query.before)
        rows = _in_order(graph, np.concatenate([real, self.imagined[batches == batch]]))
        times = self.log.times
        if not first or not len(rows) or times[rows[0]] != times[first - 1]:
            return rows, rows[:0]
        same = int(np.searchsorted(times[:first], times[first - 1]))
        earlier = self.imagined[(batches < batch) & (times[self.imagined] == times[first - 1])]
        return rows, np.concatenate([np.arange(same, first), earlier])

    def _rows_that_matter(self) -> list[tuple[IntArray, IntArray]]:
        """For each batch from the oldest to the cut one, its rows, and earlier ones, that the answer may depend on."""
        graph = self.log.graph
        needed = np.zeros(graph.num_nodes, dtype=bool)
        needed[self.log.steps.reachable(self.query, graph, self.universe.tolist())] = True
        found = []
        for batch in range(self.cut, self.oldest - 1, -1):
            check_deadline()
            rows, earlier = (some[needed[graph.src[some]] | needed[graph.dst[some]]] for some in self._rows(batch))
            for some in (rows, earlier):
                needed[graph.src[some]] = needed[graph.dst[some]] = True
            found.append((rows, earlier))
        return found[::-1]

    def _find_slots(self, rows_of_batches: list[tuple[IntArray, IntArray]]) -> None:
        graph = self.log.graph
        masks: dict[int, int] = {}  # of nodes, as far as the batches were looked at
        changing = np.zeros(graph.num_nodes, dtype=bool)  # nodes whose mask is not 0
        for batch, (rows, earlier) in zip(range(self.oldest, self.cut + 1), rows_of_batches, strict=True):
            check_deadline()
            seen = np.concatenate([earlier, rows])
            if batch < self.cut:  # there, what nothing changes stands in the table
                changed = seen[np.isin(seen, self.universe) | changing[graph.src[seen]] | changing[graph.dst[seen]]]
                nodes = np.union1d(graph.src[changed], graph.dst[changed])
            else:
                nodes = np.union1d(graph.src[rows], graph.dst[rows])
            own, others = self._of_nodes(nodes, rows), self._of_nodes(nodes, seen)
            found = {node: masks.get(node, 0) for node in own}
            for node in found:
                for row, other in others[node]:
                    found[node] |= self.bit.get(row, 0) | masks.get(other, 0)
            for node, mask in found.items():
                if mask or batch == self.cut:
                    self.slots[node, batch] = Slot(node, batch, [row for row, _ in own[node]], mask)
                    masks[node], changing[node] = mask, bool(mask)

    def _of_nodes(self, nodes: IntArray, rows: IntArray) -> dict[int, list[tuple[int, int]]]:
        """The rows of each node, with the node at the other end."""
        graph = self.log.graph
        chosen = set(nodes.tolist())
        found: dict[int, list[tuple[int, int]]] = {}
        for row, src, dst in zip(rows.tolist(), graph.src[rows].tolist(), graph.dst[rows].tolist(), strict=True):
            if src in chosen:
                found.setdefault(src, []).append((row, dst))
            if dst in chosen and src != dst:
                found.setdefault(dst, []).append((row, src))
        return found


def _seen(graph: TemporalGraph, query: Query, rows: Iterable[int]) -> IntArray:
    """What a query sees of some rows, and of the real rows that imagined ones among them stand for, in their order."""
    rows = set(rows)
    seen = {row for row in rows if row < query.before}
    if graph.imagined is not None:
        seen |= rows.intersection(graph.imagined_before(query).tolist())
        replaced = graph.imagined.replaces[[row - graph.num_events for row in rows if row >= graph.num_events]]
        seen |= {row for row in replaced.tolist() if row != NOTHING and row < query.before}
    return _in_order(graph, np.array(sorted(seen), dtype=np.int64))


def _in_order(graph: TemporalGraph, rows: IntArray) -> IntArray:
    return graph.in_time_order(rows)


class Recipes(NamedTuple):
    """How states are computed from others, which are given by their numbers. [n] each"""

    level: IntArray  # all that a state needs have a lower one
    number: IntArray
    own: IntArray
    other: IntArray
    row: IntArray
    target: BoolArray
    elapsed: NDArray[Any]


class States:
    """States of nodes, by number: some from the table, the others computed. Number 0 is that of a node without past."""

    def __init__(self, table: StateTable, log: MemoryLog) -> None:
        self.table, self.log = table, log
        self.memory = table.memory.new_zeros((256, table.memory.shape[1]))
        self.count = 1
        self.updated = np.zeros(256, dtype=log.times.dtype)  # [count, and room]
        self.last = np.full((256, 2), NONE)  # the last rows as source and as target
        self.level = np.zeros(256, dtype=np.int64)
        self._of_slot = {NONE: 0}
        self._of_message: dict[int | tuple[int, ...], int] = {}
        self._to_read: list[tuple[int, int]] = []  # (number, slot)
        self._to_compute: list[Recipes] = []

    def from_table(self, slot: int) -> int:
        """The number of the state after a slot with nothing otherwise."""
        number = self._of_slot.get(slot)
        if number is None:
            new = self._new(self.table.updated[[slot]], self.table.last[:, [slot]].T, np.zeros(1, dtype=np.int64))
            number = self._of_slot[slot] = int(new[0])
            self._to_read.append((number, slot))
        return number

    def after(self, own: int, other: int, last: tuple[int, int]) -> int:
        """The number of the state that a node has after the message that counts, the other node being in `other`."""
        key = (own, other, *last)
        number = self._of_message.get(key)
        if number is None:
            row, target = self.log.counts(*last)
            parents = np.array([own]), np.array([other])
            new = self._add(*parents, np.array([row]), np.array([target]), np.array([last]))
            number = self._of_message[key] = int(new[0])
        return number

    def after_many(
        self, keys: IntArray, own: IntArray, other: IntArray, layer: BatchSlots, place: IntArray
    ) -> IntArray:
        """The same for settled slots, of which each pair of states has a key of its own. [n] → [n]"""
        distinct, first, inverse = np.unique(keys, return_index=True, return_inverse=True)
        numbers = np.array([self._of_message.get(key, NONE) for key in distinct.tolist()])
        new = np.flatnonzero(numbers == NONE)
        if len(new):
            own, other, place = own[first[new]], other[first[new]], place[first[new]]
            last = np.where(layer.last[place] == NONE, self.last[own], layer.last[place])
            numbers[new] = self._add(own, other, layer.row[place], layer.target[place], last)
            self._of_message.update(zip(distinct[new].tolist(), numbers[new].tolist(), strict=True))
        return numbers[inverse.reshape(-1)]

    def _add(self, own: IntArray, other: IntArray, row: IntArray, target: BoolArray, last: IntArray) -> IntArray:
        level = 1 + np.maximum(self.level[own], self.level[other])
        numbers = self._new(self.log.times[row], last, level)
        elapsed = self.log.times[row] - self.updated[own]
        self._to_compute.append(Recipes(level, numbers, own, other, row, target, elapsed))
        return numbers

    def _new(self, updated: NDArray[Any], last: IntArray, level: IntArray) -> IntArray:
        """Numbers for states of which this is known."""
        numbers = np.arange(self.count, self.count + len(level))
        self.count += len(level)
        while self.count > len(self.level):
            self.updated, self.last, self.level = (
                np.concatenate([column, np.zeros_like(column)]) for column in (self.updated, self.last, self.level)
            )
        self.updated[numbers], self.last[numbers], self.level[numbers] = updated, last, level
        return numbers

    def compute(self) -> None:
        """Fill in the memory of all states that have a number."""
        if len(self.memory) < self.count:
            more = self.memory.new_zeros((2 * self.count - len(self.memory), self.memory.shape[1]))
            self.memory = torch.cat([self.memory, more])
        if self._to_read:
            numbers, slots = torch.tensor(self._to_read).T
            self.memory[numbers] = self.table.memory[slots]
        if self._to_compute:
            recipes = Recipes(*map(np.concatenate, zip(*self._to_compute, strict=True)))
            order = np.argsort(recipes.level, kind="stable")
            for places in np.split(order, np.flatnonzero(np.diff(recipes.level[order])) + 1):
                check_deadline()
                parts: list[Any] = [column[places] for column in recipes]
                some = Recipes(*parts)
                parents = self.memory[torch.as_tensor(some.own)], self.memory[torch.as_tensor(some.other)]
                written = self.log.remember(*parents, some.row, some.target, some.elapsed)
                self.memory[torch.as_tensor(some.number)] = written
        self._to_read, self._to_compute = [], []


class SlotWorkspace:
    """All that is known about one query, for changes of some rows. It only grows."""

    def __init__(self, table: StateTable, log: MemoryLog, query: Query, rows: frozenset[int]) -> None:
        self.table, self.log, self.query, self.rows = table, log, query, rows
        self.lineage = SlotLineage(table, log, query, rows)
        self.states = States(table, log)
        self._latest: dict[int, Slot | int] = {}  # of nodes: their last slot before the query, or the number of a state
        self._layers = self._needed_layers()

    @property
    def has_room(self) -> bool:
        """Whether more may be remembered."""
        return self.states.memory.numel() <= STATES_KEPT and self.states.count <= MOST_STATES // 4

    def answer(self, changes: Sequence[Change]) -> FloatArray:
        """One logit for each change. [B]"""
        graph, steps, query = self.log.graph, self.log.steps, self.query
        outcomes = [graph.difference(change, query) for change in changes]
        subgraph = steps.subgraph(query, [Past(graph, query, outcome) for outcome in outcomes])
        masks = [sum(self.lineage.bit[row] for row in (*outcome.absent, *outcome.present)) for outcome in outcomes]
        known = self._follow(masks)
        nodes = zip(subgraph.nodes.tolist(), subgraph.of.tolist(), strict=True)
        numbers = np.array([self._at_query(node, of, masks[of], known) for node, of in nodes], dtype=np.int64)
        self.states.compute()
        updated = torch.tensor(self.states.updated[numbers])
        return steps.answers(subgraph, graph, self.states.memory[torch.as_tensor(numbers)], updated)

    def _at_query(self, node: int, of: int, mask: int, known: IntArray) -> int:
        """The number of a node's state at the query, under one of the changes."""
        found = self._at_end(node)
        if isinstance(found, int):
            return found
        return int(known[found.index, of]) if found.index != NONE else self._number(found, mask)

    def _at_end(self, node: int) -> Slot | int:
        found = self._latest.get(node)
        if found is None:
            found = self._latest[node] = self._place(node, self.lineage.latest(node))
        return found

    def _needed_layers(self) -> list[BatchSlots]:
        """The slots that states at the query depend on, batch by batch; their places are in `index` of each."""
        graph, log = self.log.graph, self.log
        reachable = log.steps.reachable(self.query, graph, self.lineage.universe.tolist())
        waiting = [place for place in map(self._at_end, reachable.tolist()) if isinstance(place, Slot)]
        needed: dict[int, list[Slot]] = {}
        seen = set(map(id, waiting))
        while waiting:
            slot = waiting.pop()
            needed.setdefault(slot.batch, []).append(slot)
            self._link(slot)
            if slot.settled is not None:
                places = [slot.before, slot.settled.other]
            else:
                slot.choosing = sum(self.lineage.bit.get(row, 0) for row in slot.rows)
                ends = {int(end) for row in slot.rows for end in (graph.src[row], graph.dst[row])}
                places = [slot.before, *(self._place(end, self.lineage.previous(end, slot.batch)) for end in ends)]
            for place in places:
                if isinstance(place, Slot) and id(place) not in seen:
                    seen.add(id(place))
                    waiting.append(place)
        number = itertools.count()
        for batch in sorted(needed):
            for slot in needed[batch]:
                slot.index = next(number)
        self._count = next(number)
        return [_layer(log, needed[batch]) for batch in sorted(needed)]

    def _follow(self, masks: list[int]) -> IntArray:
        """The number of the state after each slot that is needed, under each change. [slots, B]"""
        known = np.zeros((self._count, len(masks)), dtype=np.int64)
        for layer in self._layers:
            check_deadline()
            if len(layer.places):
                own = np.where(layer.before[:, :1] == NONE, layer.before[:, 1:], known[layer.before[:, 0]])
                other = np.where(layer.other[:, :1] == NONE, layer.other[:, 1:], known[layer.other[:, 0]])
                keys = (layer.places[:, None] * MOST_STATES + own) * MOST_STATES + other  # [S, B]
                place = np.repeat(np.arange(len(layer.places)), len(masks))
                numbers = self.states.after_many(keys.ravel(), own.ravel(), other.ravel(), layer, place)
                known[layer.places] = numbers.reshape(keys.shape)
            for slot in layer.open:
                known[slot.index] = [self._known_number(slot, mask, known[:, of]) for of, mask in enumerate(masks)]
        return known

    def _known_number(self, slot: Slot, mask: int, known: IntArray) -> int:
        """The number of the state after a slot in which a change may choose the message that counts."""
        before = slot.before
        assert before is not None
        own = before if isinstance(before, int) else int(known[before.index])
        chosen = slot.chosen.get(mask & slot.choosing)
        if chosen is None:
            happened = self._happened(slot, mask)
            chosen = slot.chosen[mask & slot.choosing] = self._last(slot.node, happened, NONE, NONE)
        if chosen == (NONE, NONE):
            return own
        earlier = self.states.last[own].tolist()
        source, target = (before if last == NONE else last for last, before in zip(chosen, earlier, strict=True))
        place = slot.others.get((source, target))
        if place is None:
            place = slot.others[source, target] = self._other(slot, source, target)
        if isinstance(place, Slot):
            place = int(known[place.index]) if place.index != NONE else self._number(place, mask)
        return self.states.after(own, place, (source, target))

    def _place(self, node: int, batch: int) -> Slot | int:
        """Where the state of a node after a batch is found: in a slot, or, if nothing changes it, in the table."""
        slot = self.lineage.slots.get((node, batch))
        return self.states.from_table(self.table.before(node, batch + 1)) if slot is None else slot

    def _number(self, slot: Slot, mask: int) -> int:
        """The number of the state after a slot, and of all states that it needs. (Too deep for a recursion.)"""
        waiting = [slot]
        while True:
            slot = waiting[-1]
            number = slot.known.get(mask & slot.mask)
            if number is None:
                missing = self._plan(slot, mask)
                if missing is not None:
                    waiting.append(missing)
            elif len(waiting) == 1:
                return number
            else:
                waiting.pop()

    def _plan(self, slot: Slot, mask: int) -> Slot | None:
        """Give the state after a slot its number; or say which other slot has to have one first."""
        if slot.before is None:
            self._link(slot)
        before = slot.before
        assert before is not None
        own = before if isinstance(before, int) else before.known.get(mask & before.mask)
        if own is None:
            assert isinstance(before, Slot)
            return before
        source, target = self.states.last[own].tolist()
        if slot.settled is not None:
            first, second, place = slot.settled
            source, target = (source if first == NONE else first), (target if second == NONE else second)
        else:
            happened = self._happened(slot, mask)
            if not happened:
                slot.known[mask & slot.mask] = own
                return None
            source, target = self._last(slot.node, happened, source, target)
            place = self._other(slot, source, target)
        other = place if isinstance(place, int) else place.known.get(mask & place.mask)
        if other is None:
            assert isinstance(place, Slot)
            return place
        slot.known[mask & slot.mask] = self.states.after(own, other, (source, target))
        return None

    def _link(self, slot: Slot) -> None:
        """Find out what a slot follows, and what happens in it if no change can choose."""
        slot.before = self._place(slot.node, self.lineage.previous(slot.node, slot.batch))
        if any(row in self.lineage.bit for row in slot.rows):
            return
        source, target = self._last(slot.node, slot.rows, NONE, NONE)
        line, times = self.log.grid.first(slot.batch), self.log.times
        later = line == 0 or bool(times[slot.rows[0]] > times[line - 1])  # than any message from before
        if later or (source != NONE and target != NONE):
            slot.settled = Settled(source, target, self._other(slot, source, target))

    def _happened(self, slot: Slot, mask: int) -> list[int]:
        bits, real = self.lineage.bit, self.log.graph.num_events
        return [row for row in slot.rows if bool(mask & bits.get(row, 0)) == (row >= real)]

    def _last(self, node: int, rows: list[int], source: int, target: int) -> tuple[int, int]:
        """The last row as source and as target of a node, after some rows."""
        sides = (self.log.graph.src, source), (self.log.graph.dst, target)
        found = ((self.log.last_of([row for row in rows if ends[row] == node]), before) for ends, before in sides)
        first, second = (before if last == NONE else last for last, before in found)
        return first, second

    def _other(self, slot: Slot, source: int, target: int) -> Slot | int:
        """Where the state of the node at the other end of the message that counts is found."""
        row, of_target = self.log.counts(source, target)
        end = int((self.log.graph.src if of_target else self.log.graph.dst)[row])
        return self._place(end, self.lineage.previous(end, slot.batch))


class SourcedSession:
    """A model with event-sourced memory asked about one query.

    What it knows is taken out while it changes: if a call fails or is interrupted, the next one starts afresh.
    """

    def __init__(self, model: SourcedModel, query: Query, rows: Iterable[int]) -> None:
        self.model, self.query = model, query
        self.rows = frozenset(rows)
        self._workspace: SlotWorkspace | None = None

    @torch.no_grad()
    def logits(self, changes: Sequence[Change]) -> FloatArray:
        """One logit for each change. [B]"""
        changes = check_changes(self.model.graph, changes)
        answers: list[FloatArray] = [np.empty(0)]
        for first in range(0, len(changes), SETS_AT_ONCE):
            some = changes[first : first + SETS_AT_ONCE]
            workspace = self._take(frozenset[int]().union(*some))
            answers.append(workspace.answer(some))
            self._workspace = workspace
        return np.concatenate(answers)

    def _take(self, asked: frozenset[int]) -> SlotWorkspace:
        workspace, self._workspace = self._workspace, None
        if workspace is not None and asked <= workspace.rows and workspace.has_room:
            return workspace
        self.rows |= asked
        return SlotWorkspace(self.model.table, self.model.log, self.query, self.rows)


class SourcedModel:
    """A model with event-sourced memory: equal to its plain form, the frame around the user's own modules."""

    def __init__(self, plain: HistoryModel, steps: MemorySteps, like: Tensor) -> None:
        self.frame, self.steps, self.like = plain, steps, like
        self.graph, self.identity, self.hops, self.grid = plain.graph, plain.identity, plain.hops, plain.grid
        self.log = MemoryLog(steps, self.graph, self.grid)

    @property
    def gives_logits(self) -> bool:
        return self.frame.gives_logits

    @cached_property
    def table(self) -> StateTable:
        """Made when it is first needed, once for all logs that are longer by imagined rows."""
        with torch.no_grad():
            return StateTable(self.log, self.like)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.identity} on {self.graph})"

    def logits(self, query: Query, changes: Sequence[Change]) -> FloatArray:
        """One logit for each change. [B]"""
        return self.session(query).logits(changes)

    def session(self, query: Query, rows: Iterable[int] = ()) -> SourcedSession:
        """A session about a query; `rows` will probably be otherwise."""
        return SourcedSession(self, self.frame.as_fed(query), rows)

    def sees_before(self, query: Query) -> int:
        """The row from which on nothing matters to a query."""
        return self.frame.sees_before(query)

    def reference(self, query: Query, change: Change, *, full: bool = False) -> HistoryReference:
        """The user's own modules, fed event by event: from row 0 if `full`, else from the last line before a change."""
        if not full:
            (change,) = check_changes(self.graph, [change])
            seen = self.frame.as_fed(query)
            line = self.frame.line_before(seen, self.graph.difference(change, seen))
            with self.frame.borrowed():
                if line and line not in self.frame.snapshots:
                    self.frame.snapshots.keep(line, self.steps.state(self.graph, *self.table.at(line, self.like)))
        return self.frame.reference(query, change, full=full)

    def on(self, graph: TemporalGraph) -> Self:
        """The same model on another log of the same nodes."""
        other = copy.copy(self)
        other.frame, other.graph, other.log = self.frame.on(graph), graph, MemoryLog(self.steps, graph, self.grid)
        if graph.base_identity == self.graph.base_identity:
            vars(other)["table"] = self.table
        else:
            vars(other).pop("table", None)
        return other
