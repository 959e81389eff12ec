"""Which states of a TGN's memory an answer can depend on, and changes can reach; batch by batch, as arrays.

Going backward from the query it is found which rows may matter, going forward which of them changes can reach, and
going backward once more which states are needed. There may be too many of them, which costs time; never too few.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

import numpy as np

from cody.adapters.memory_table import NONE, MemoryLog, StateTable
from cody.graph import BoolArray, IntArray, Query, TemporalGraph
from cody.graph.edits import NOTHING
from cody.utils.deadline import check_deadline

UNKNOWN = 2**20  # no number of a state; the numbers of all are smaller in size


class Parents(NamedTuple):
    """Where the states of some nodes before a batch are found. [n] each"""

    slot: IntArray  # its index, NONE if no change can reach the state
    number: IntArray  # of the state with nothing changed

    def states(self, known: IntArray) -> IntArray:
        """The number of each under each change. [slots, B] → [n, B]"""
        return np.where(self.slot[:, None] == NONE, self.number[:, None], known[self.slot])


class OpenSlot:
    """A slot in which changes may choose the message that counts."""

    __slots__ = ("choosing", "chosen", "ends", "node", "others", "parents", "place", "rows")

    def __init__(self, place: int, node: int, rows: list[int], choosing: int, ends: IntArray) -> None:
        self.place = place  # among the slots of its batch
        self.node = node
        self.rows = rows  # of the node's events in the batch that the query may see; imagined ones among them
        self.choosing = choosing  # which of them may change; a bit each
        self.ends = ends  # the nodes whose states may count, ascending; itself is one of them
        self.parents: Parents  # their states before the batch
        self.chosen: dict[int, tuple[int, int]] = {}  # by changed rows: the last that happened, as source and target
        self.others: dict[tuple[int, int], int] = {}  # by last rows: the place of the other end among the ends

    def end(self, node: int) -> int:
        """The place of a node among the ends."""
        return int(np.searchsorted(self.ends, node))


class BatchSlots(NamedTuple):
    """The slots of one batch that a query needs, those that are settled before those that are open."""

    slots: IntArray  # [A] their indices
    usual: IntArray  # [A] the numbers of their states with nothing changed, if these are in the table
    own: Parents  # [S] of those that are settled, as all that follows
    other: Parents  # [S] of the node at the other end
    row: IntArray  # [S] of the message that counts
    target: BoolArray  # [S] whether the node is its target
    last: IntArray  # [S, 2] the node's last rows in the batch as source and as target
    open: list[OpenSlot]


class Draft(NamedTuple):
    """What is known of the slots of a batch before all batches are known."""

    batch: int
    nodes: IntArray  # [S] settled
    other: IntArray  # [S]
    row: IntArray
    target: BoolArray
    last: IntArray
    open: list[OpenSlot]

    @property
    def all_nodes(self) -> IntArray:
        return np.concatenate([self.nodes, np.array([slot.node for slot in self.open], dtype=np.int64)])


class SlotLineage:
    """The slots on which an answer can depend and which changes can reach."""

    def __init__(self, table: StateTable, log: MemoryLog, query: Query, rows: Iterable[int]) -> None:
        self.table, self.log, self.query, graph = table, log, query, log.graph
        self.universe = _seen(graph, query, rows)
        self.bit = {row: 1 << place for place, row in enumerate(self.universe.tolist())}
        self.imagined = self.universe[self.universe >= graph.num_events]
        self.cut = log.grid.number(query.before)  # the batch that the query cuts; of no rows, if it stands at a line
        self.oldest = min([self.cut, *log.grid.number(graph.next_real(self.universe)).tolist()])
        self.nodes = log.steps.reachable(query, graph, self.universe.tolist())  # ascending
        drafts = self._drafts(self._rows_that_matter())
        self.count = sum(len(draft.all_nodes) for draft in drafts)
        self.standing, self.batches, self.at_query = self._joined(drafts)

    def states_at_query(self, nodes: IntArray, known: IntArray, of: IntArray) -> IntArray:
        """The numbers of the states of nodes, each under one of the changes. [n], [slots, B], [n] → [n]"""
        slot, number = (column[np.searchsorted(self.nodes, nodes)] for column in self.at_query)
        return np.where(slot == NONE, number, known[slot, of])

    def _rows(self, batch: int) -> tuple[IntArray, IntArray]:
        """The rows of a batch that the query may see; and earlier ones whose messages may count in it once more.

        A message stays after it has counted. If the node's next message, in a later batch and on the other side, has
        the same time, either may be taken for the last one.
        """
        graph, first = self.log.graph, self.log.grid.first(batch)
        batches = self.log.grid.number(graph.next_real(self.imagined))
        real = self.log.grid.rows(batch, self.query.before)
        rows = graph.in_time_order(np.concatenate([real, self.imagined[batches == batch]]))
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
        needed[self.nodes] = True
        found = []
        for batch in range(self.cut, self.oldest - 1, -1):
            check_deadline()
            rows, earlier = (some[needed[graph.src[some]] | needed[graph.dst[some]]] for some in self._rows(batch))
            for some in (rows, earlier):
                needed[graph.src[some]] = needed[graph.dst[some]] = True
            found.append((rows, earlier))
        return found[::-1]

    def _drafts(self, rows_of_batches: list[tuple[IntArray, IntArray]]) -> list[Draft]:
        """The slots that are needed, batch by batch."""
        needed = np.zeros(self.log.graph.num_nodes, dtype=bool)
        needed[self.nodes] = True
        reached = self._reached(rows_of_batches)
        drafts, last = [], np.full((2, len(needed)), NONE)
        for batch in range(self.cut, self.oldest - 1, -1):
            check_deadline()
            nodes, (rows, earlier) = reached[batch - self.oldest], rows_of_batches[batch - self.oldest]
            draft = self._draft(batch, nodes[needed[nodes]], rows, earlier, last)
            for ends in (draft.other, *(slot.ends for slot in draft.open)):
                needed[ends] = True
            drafts.append(draft)
        return drafts[::-1]

    def _reached(self, rows_of_batches: list[tuple[IntArray, IntArray]]) -> list[IntArray]:
        """For each batch, the nodes whose state after it is not sure to be that of the table, ascending."""
        graph = self.log.graph
        changing = np.zeros(graph.num_nodes, dtype=bool)
        reached: list[IntArray] = []
        for rows, earlier in rows_of_batches:
            check_deadline()
            nodes = _ends(graph, rows)
            if len(reached) < self.cut - self.oldest:  # in the cut batch, the table has another state
                seen = np.concatenate([earlier, rows])
                changed = np.isin(seen, self.universe) | changing[graph.src[seen]] | changing[graph.dst[seen]]
                nodes = np.intersect1d(nodes, _ends(graph, seen[changed]), assume_unique=True)
                changing[nodes] = True
            reached.append(nodes)
        return reached

    def _draft(self, batch: int, nodes: IntArray, rows: IntArray, earlier: IntArray, last: IntArray) -> Draft:
        """The slots of some nodes. `last` has room for the last rows of all nodes, and is left as it was. [2, N]"""
        log, graph = self.log, self.log.graph
        log.enter(last, rows)
        own = last[:, nodes]
        last[:, graph.src[rows]] = last[:, graph.dst[rows]] = NONE
        chosen = np.isin(nodes, _ends(graph, rows[np.isin(rows, self.universe)]))
        tied = rows[log.times[rows] == log.times[earlier[0]]] if len(earlier) else earlier
        older = np.isin(nodes, _ends(graph, tied)) & (own == NONE).any(axis=0)  # where a message from before may count
        settled = ~chosen & ~older
        row, target = log.counts(*own[:, settled])
        first = int(settled.sum())
        open_slots = [
            self._open(first + place, node, rows, earlier) for place, node in enumerate(nodes[~settled].tolist())
        ]
        return Draft(batch, nodes[settled], log.other_end(row, target), row, target, own[:, settled].T, open_slots)

    def _open(self, place: int, node: int, rows: IntArray, earlier: IntArray) -> OpenSlot:
        graph = self.log.graph
        own, before = (some[(graph.src[some] == node) | (graph.dst[some] == node)] for some in (rows, earlier))
        choosing = sum(self.bit.get(row, 0) for row in own.tolist())
        return OpenSlot(place, node, own.tolist(), choosing, _ends(graph, np.concatenate([own, before])))

    def _joined(self, drafts: list[Draft]) -> tuple[IntArray, list[BatchSlots], Parents]:
        """The slots of the table that are referred to; the slots of the batches, and the nodes at the query, joined.

        The number of a state in the table is minus the place of its slot among the first.
        """
        current = np.full(self.log.graph.num_nodes, NONE)  # the index of each node's last slot so far

        def parents(nodes: IntArray, batch: int) -> Parents:
            return Parents(current[nodes], self.table.before(nodes, batch))  # slots of the table; numbers come later

        count, found = 0, []
        for draft in drafts:
            nodes, asked = draft.all_nodes, (draft.nodes, draft.other, *(slot.ends for slot in draft.open))
            found.append([parents(some, draft.batch) for some in asked])
            current[nodes] = np.arange(count, count + len(nodes))
            count += len(nodes)
        at_query = parents(self.nodes, self.cut)
        usual = [self.table.before(draft.all_nodes, draft.batch + 1) for draft in drafts]
        referred = [np.array([NONE]), at_query.number, *usual, *(one.number for some in found for one in some)]
        standing = np.unique(np.concatenate(referred))
        batches, count = [], 0
        for draft, states, some in zip(drafts, usual, found, strict=True):
            own, other, *ends = (each._replace(number=-np.searchsorted(standing, each.number)) for each in some)
            for slot, each in zip(draft.open, ends, strict=True):
                slot.parents = each
            slots = np.arange(count, count + len(states))
            count += len(states)
            numbers = -np.searchsorted(standing, states) if draft.batch < self.cut else np.full(len(states), UNKNOWN)
            batches.append(BatchSlots(slots, numbers, own, other, draft.row, draft.target, draft.last, draft.open))
        at_query = at_query._replace(number=-np.searchsorted(standing, at_query.number))
        return standing, batches, at_query


def _ends(graph: TemporalGraph, rows: IntArray) -> IntArray:
    """The nodes of some rows, ascending."""
    return np.unique(np.concatenate([graph.src[rows], graph.dst[rows]])).astype(np.int64)


def _seen(graph: TemporalGraph, query: Query, rows: Iterable[int]) -> IntArray:
    """What a query sees of some rows, and of the real rows that imagined ones among them stand for, in their order."""
    rows = set(rows)
    seen = {row for row in rows if row < query.before}
    if graph.imagined is not None:
        seen |= rows.intersection(graph.imagined_before(query).tolist())
        replaced = graph.imagined.replaces[[row - graph.num_events for row in rows if row >= graph.num_events]]
        seen |= {row for row in replaced.tolist() if row != NOTHING and row < query.before}
    return graph.in_time_order(np.array(sorted(seen), dtype=np.int64))
