"""Which states of a TGN's memory an answer can depend on, and changes can reach; batch by batch, as arrays.

Going backward from the query it is found which rows may matter, going forward which of them changes can reach, and
going backward once more which states are needed. There may be too many of them, which costs time; never too few.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

import numpy as np

from cody.adapters.memory_table import NONE, MemoryLog, StateTable
from cody.engine.masks import EditableEvents
from cody.graph import BoolArray, FloatArray, IntArray, Query, TemporalGraph
from cody.utils.deadline import check_deadline

UNKNOWN = 2**20  # no number of a state; the numbers of all are smaller in size


class OpenSlot:
    """A slot in which changes may choose the message that counts."""

    __slots__ = ("choosing", "chosen", "ends", "node", "rows")

    def __init__(self, node: int, rows: list[int], choosing: int, ends: IntArray) -> None:
        self.node = node
        self.rows = rows  # of the node's events in the batch that the query may see; imagined ones among them
        self.choosing = choosing  # which of them may change; a bit each
        self.ends = ends  # the nodes whose states may count, ascending; itself is one of them
        self.chosen: dict[int, tuple[int, int]] = {}  # by changed rows: the last that happened, as source and target


class OpenSlots:
    """The open slots of one batch, with the nodes whose states before the batch may count in each, as arrays."""

    def __init__(self, slots: list[OpenSlot], events: IntArray, num_nodes: int) -> None:
        self.slots = slots
        self.num_nodes = num_nodes
        of = np.repeat(np.arange(len(slots)), [len(slot.ends) for slot in slots])
        self.nodes = np.concatenate([np.zeros(0, dtype=np.int64), *(slot.ends for slot in slots)])  # [E]
        self.keys = of * num_nodes + self.nodes  # [E] ascending
        self.begins = np.searchsorted(of, np.arange(len(slots)))  # [O] where the ends of each begin
        self.own = self.place(np.arange(len(slots)), np.array([slot.node for slot in slots], dtype=np.int64))
        self.choosing = np.array([np.isin(events, slot.rows) for slot in slots], dtype=np.float32)  # [O, events]
        self.states: IntArray  # [E] where the states of the ends are found

    def place(self, of: IntArray, nodes: IntArray) -> IntArray:
        """The places of ends of slots among all. [n], [n] → [n]"""
        return np.searchsorted(self.keys, of * self.num_nodes + nodes)

    def touched(self, differs: BoolArray, changed: FloatArray) -> BoolArray:
        """In which slots each change has an effect: on the state of an end, or on the rows of the slot. [O, B]"""
        reached: BoolArray = np.logical_or.reduceat(differs[self.states], self.begins, axis=0)
        return reached | (self.choosing @ changed > 0)


class BatchSlots(NamedTuple):
    """The slots of one batch that a query needs, those that are settled before those that are open.

    The states after all slots stand in one list, in the order of batches; those of the table that are referred to
    stand behind them. So a state before a batch is given by its place in the list.
    """

    first: int  # place of the state after the first of its slots
    own: IntArray  # [S] states before the batch, of those that are settled, as all that follows
    other: IntArray  # [S] of the node at the other end
    row: IntArray  # [S] of the message that counts
    target: BoolArray  # [S] whether the node is its target
    last: IntArray  # [S, 2] the node's last rows in the batch as source and as target
    open: OpenSlots


class Before(NamedTuple):
    """Where the states of some nodes before a batch are found. [n] each"""

    slot: IntArray  # its place in the list, NONE if no change can reach the state
    standing: IntArray  # its slot in the table, NONE if there is none

    def places(self, count: int, standing: IntArray) -> IntArray:
        """Their places in the list, in which the states of the table that are referred to follow those of slots."""
        return np.where(self.slot == NONE, count + np.searchsorted(standing, self.standing), self.slot)


class Draft(NamedTuple):
    """What is known of the slots of a batch before all batches are known."""

    batch: int
    nodes: IntArray  # [S] settled
    other: IntArray  # [S]
    row: IntArray
    target: BoolArray
    last: IntArray
    open: OpenSlots

    @property
    def all_nodes(self) -> IntArray:
        return np.concatenate([self.nodes, self.open.nodes[self.open.own]])


class SlotLineage:
    """The slots on which an answer can depend and which changes can reach."""

    def __init__(self, table: StateTable, log: MemoryLog, links: Sequence[Query], rows: Iterable[int]) -> None:
        query = links[0]  # all are of the same moment
        self.table, self.log, self.query, graph = table, log, query, log.graph
        editable = EditableEvents(graph, query, rows)
        self.events, self.imagined = editable.events, editable.imagined
        self.bit = {row: 1 << place for place, row in enumerate(self.events.tolist())}
        self.cut = log.grid.number(query.before)  # the batch that the query cuts; of no rows, if it stands at a line
        self.oldest = min([self.cut, *log.grid.number(graph.next_real(self.events)).tolist()])
        self.nodes = log.steps.reachable(links, graph, self.events.tolist())  # ascending
        drafts = self._drafts(self._rows_that_matter())
        self.count = sum(len(draft.all_nodes) for draft in drafts)  # of the slots
        self._join(drafts)

    def states_at_query(self, nodes: IntArray, known: IntArray, of: IntArray) -> IntArray:
        """The numbers of the states of nodes, each under one of the changes. [n], [states, B], [n] → [n]"""
        return known[self.at_query[np.searchsorted(self.nodes, nodes)], of]

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
            needed[draft.other] = needed[draft.open.nodes] = True
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
                changed = np.isin(seen, self.events) | changing[graph.src[seen]] | changing[graph.dst[seen]]
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
        chosen = np.isin(nodes, _ends(graph, rows[np.isin(rows, self.events)]))
        tied = rows[log.times[rows] == log.times[earlier[0]]] if len(earlier) else earlier
        older = np.isin(nodes, _ends(graph, tied)) & (own == NONE).any(axis=0)  # where a message from before may count
        settled = ~chosen & ~older
        row, target = log.counts(*own[:, settled])
        open_slots = [self._open(node, rows, earlier) for node in nodes[~settled].tolist()]
        opened = OpenSlots(open_slots, self.events, graph.num_nodes)
        return Draft(batch, nodes[settled], log.other_end(row, target), row, target, own[:, settled].T, opened)

    def _open(self, node: int, rows: IntArray, earlier: IntArray) -> OpenSlot:
        graph = self.log.graph
        own, before = (some[(graph.src[some] == node) | (graph.dst[some] == node)] for some in (rows, earlier))
        choosing = sum(self.bit.get(row, 0) for row in own.tolist())
        return OpenSlot(node, own.tolist(), choosing, _ends(graph, np.concatenate([own, before])))

    def _join(self, drafts: list[Draft]) -> None:
        """Find the place of every state that another one is computed from, or that is read at the query."""
        table, current = self.table, np.full(self.log.graph.num_nodes, NONE)  # the place of each node's state so far

        def before(nodes: IntArray, batch: int) -> Before:
            return Before(current[nodes], table.before(nodes, batch))

        count, found, usual = 0, [], []
        for draft in drafts:
            nodes, asked = draft.all_nodes, (draft.nodes, draft.other, draft.open.nodes)
            found.append([before(some, draft.batch) for some in asked])
            usual.append(table.before(nodes, draft.batch + 1))
            current[nodes] = np.arange(count, count + len(nodes))
            count += len(nodes)
        at_query = before(self.nodes, self.cut)
        referred = [np.array([NONE]), at_query.standing, *usual, *(one.standing for some in found for one in some)]
        self.standing = np.unique(np.concatenate(referred))  # the number of each is minus its place here
        self.usual = -np.searchsorted(self.standing, np.concatenate([*usual, self.standing]))
        self.at_query = at_query.places(count, self.standing)
        self.batches, first = [], 0
        for draft, some in zip(drafts, found, strict=True):
            own, other, draft.open.states = (one.places(count, self.standing) for one in some)
            self.batches.append(BatchSlots(first, own, other, draft.row, draft.target, draft.last, draft.open))
            first += len(draft.all_nodes)
            if draft.batch == self.cut:  # the table has the state after all of this batch
                self.usual[self.batches[-1].first : first] = UNKNOWN


def _ends(graph: TemporalGraph, rows: IntArray) -> IntArray:
    """The nodes of some rows, ascending."""
    return np.unique(np.concatenate([graph.src[rows], graph.dst[rows]])).astype(np.int64)
