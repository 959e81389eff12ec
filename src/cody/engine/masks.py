"""Which events can change what: bookkeeping in bits, before any number is computed.

Changes are written as bits, one for each editable event of a session. For each thing that the query may
need (a memory version, an embedding of a node in a layer), a mask says which of these events it can depend on. Then

    two changes that agree on the mask of a thing give it the same value,

so a thing is computed once for each distinct `change & mask`, and where that is 0 it has the value with nothing
changed. Masks may be too large (that only costs time); they are never too small, and each place that makes one says
why.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import chain
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from cody.graph import BoolArray, IntArray, Query, TemporalGraph
from cody.graph.edits import NOTHING
from cody.models.contract import Change

Masks = NDArray[np.uint64]  # [n, w] w machine words each; bit i of a mask is event `EditableEvents.events[i]`


class EditableEvents:
    """The events that may change, u of them, each with its bit: real ones absent, imagined ones present."""

    def __init__(self, graph: TemporalGraph, query: Query, rows: Iterable[int]) -> None:
        self.graph = graph
        self.query = query
        self.rows = frozenset(rows)  # what changes may name
        events = np.array(sorted(self._seen()), dtype=np.int64)
        self.events: IntArray = graph.in_time_order(events)  # [u] in the order of time
        self.imagined = self.events[self.events >= graph.num_events]
        self.words = max(1, -(-len(self.events) // 64))
        self._sorted = np.argsort(self.events, kind="stable")

    def _seen(self) -> set[int]:
        """What the query sees of the rows, and of the real rows that imagined ones stand for."""
        seen = {row for row in self.rows if row < self.query.before}
        if self.graph.imagined is not None:
            seen |= self.rows.intersection(self.graph.imagined_before(self.query).tolist())
            named = [row - self.graph.num_events for row in self.rows if row >= self.graph.num_events]
            replaced = self.graph.imagined.replaces[named].tolist()
            seen |= {row for row in replaced if row != NOTHING and row < self.query.before}
        return seen

    def masks(self, changes: Sequence[Change]) -> Masks:
        """The bits of changes. [n] → [n, w]"""
        if self.graph.imagined is not None:
            outcomes = [self.graph.difference(change, self.query) for change in changes]
            changes = [frozenset((*outcome.absent, *outcome.present)) for outcome in outcomes]
        lengths = np.fromiter(map(len, changes), dtype=np.int64, count=len(changes))
        rows = np.fromiter(chain.from_iterable(changes), dtype=np.int64, count=int(lengths.sum()))
        columns = self.columns(rows)
        columns[columns == len(self.events)] = -1
        flags = np.zeros((len(changes), 64 * self.words + 1), dtype=bool)  # the last: of rows without a bit
        flags[np.repeat(np.arange(len(changes)), lengths), columns] = True
        return np.packbits(flags[:, :-1], axis=1, bitorder="little").view(np.uint64)

    def columns(self, rows: IntArray) -> IntArray:
        """The bit of each row; u where it has none. [...] → [...]"""
        if not len(self.events):
            return np.zeros_like(rows)
        place = np.searchsorted(self.events, rows, sorter=self._sorted)
        found = self._sorted[np.minimum(place, len(self.events) - 1)]
        return np.where(self.events[found] == rows, found, len(self.events))

    def of_nodes(self, nodes: IntArray) -> Masks:
        """For each of the nodes (ascending), the bits of the events that touch it. [n] → [n, w]"""
        masks = np.zeros((len(nodes), self.words), dtype=np.uint64)
        word, bit = np.divmod(np.arange(len(self.events)), 64)
        for ends in (self.graph.src[self.events], self.graph.dst[self.events]):
            place = np.minimum(np.searchsorted(nodes, ends), len(nodes) - 1)
            hit = nodes[place] == ends
            np.bitwise_or.at(masks, (place[hit], word[hit]), np.uint64(1) << bit[hit].astype(np.uint64))
        return masks


class AttendedEvents(NamedTuple):
    """The events that n nodes attend to, one node after the other, the latest first."""

    place: IntArray  # [m] in the tables of `Windows`, flat
    length: IntArray  # [n] how many of them are a node's


class Requests(NamedTuple):
    """Vectors that are requested of a layer, each with the change that its mask belongs to."""

    nodes: IntArray  # [n]
    masks: Masks  # [n, w]
    change: IntArray  # [n]

    def below(self, chosen: AttendedEvents, others: IntArray) -> Requests:
        """What these need of the layer below: for the nodes themselves, then for the other ends of their events.

        Args:
            chosen: The events that they attend to.
            others: The nodes at the other ends, in the tables of `Windows`.
        """
        return Requests(
            np.concatenate([self.nodes, others.take(chosen.place)]),
            np.concatenate([self.masks, np.repeat(self.masks, chosen.length, axis=0)]),
            np.concatenate([self.change, np.repeat(self.change, chosen.length)]),
        )


class Windows:
    """The latest events of some nodes, whatever changes: for each, a tail that always leaves K to attend to.

    L = length of the longest tail. Nodes are known by their place in `nodes`.
    """

    def __init__(
        self, graph: TemporalGraph, query: Query, editable: EditableEvents, nodes: IntArray, count: int
    ) -> None:
        self.nodes = nodes  # ascending
        self.count = count  # K
        touching = editable.of_nodes(nodes)
        self.touching = touching  # [n, w] the bits of each node's own events
        lengths = count + np.unpackbits(touching.view(np.uint8), axis=1).sum(axis=1, dtype=np.int64)
        rows = graph.recent(nodes, query.before, int(lengths.max()))
        rows[np.arange(rows.shape[1]) >= lengths[:, None]] = -1
        if len(editable.imagined):
            rows = _with_imagined(graph, editable.imagined, nodes, rows)
        self.exists: BoolArray = rows >= 0  # [n, L]
        self.default: BoolArray = self.exists & (rows < graph.num_events)  # [n, L] what there is with nothing changed
        bits = editable.columns(rows)
        self.column = np.where(self.exists & (bits < len(editable.events)), bits, -1)  # [n, L] its bit; -1: it has none
        self.other = np.where(self.exists, graph.other_end(rows, nodes[:, None]), nodes[:, None])  # [n, L]
        self.events, place = np.unique(np.where(self.exists, rows, rows.max()), return_inverse=True)
        self.event = place.reshape(rows.shape)  # [n, L] which of `events`

    def choose(self, node: IntArray, masks: Masks) -> AttendedEvents:
        """What nodes attend to under masks. [n], [n, w]"""
        flags = np.unpackbits(masks.view(np.uint8), axis=1, bitorder="little").view(bool)
        flags = np.concatenate([flags, np.zeros((len(flags), 1), dtype=bool)], axis=1)  # the last: for -1, no bit
        happened = self.default[node] ^ np.take_along_axis(flags, self.column[node], axis=1)
        happened &= np.cumsum(happened, axis=1) <= self.count
        which, place = np.nonzero(happened)
        return AttendedEvents(node[which] * happened.shape[1] + place, happened.sum(axis=1))


def _with_imagined(graph: TemporalGraph, imagined: IntArray, nodes: IntArray, rows: IntArray) -> IntArray:
    """The tails with the imagined events of their nodes, latest first. [n, L] → [n, L + some]"""
    ends = [(int(row), int(node)) for row in imagined for node in {graph.src[row], graph.dst[row]}]
    places = [(row, int(np.searchsorted(nodes, node))) for row, node in ends if node in nodes]
    extra = np.full((len(nodes), len(imagined)), -1)
    for number, row in enumerate(imagined.tolist()):
        extra[[place for other, place in places if other == row], number] = row
    rows = np.concatenate([rows, extra], axis=1)
    latest_first = np.argsort(-np.where(rows >= 0, graph.time_rank(rows), -1), axis=1, kind="stable")
    return np.take_along_axis(rows, latest_first, axis=1)
