"""Which removed events can change what: bookkeeping in integers, before any number is computed.

Removal sets are written as bits, one for each event that any set of the query has removed so far. For each thing that
the query may need (a memory version, an embedding of a node in a layer), a mask says which of these events it can
depend on. Then

    two sets that agree on the mask of a thing give it the same value,

so a thing is computed once for each distinct `set & mask`, and where that is 0 it has the value with nothing removed.
Masks may be too large (that only costs time); they are never too small, and each place that makes one says why.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import NamedTuple

import numpy as np

from cody.graph import Query, TemporalGraph
from cody.oracle import Removal

Mask = int  # bit i is event `rows[i]` of the universe


class Universe:
    """The events that sets have removed so far, each with its bit. It only grows."""

    def __init__(self, graph: TemporalGraph, query: Query) -> None:
        self.graph = graph
        self.before = query.before
        self.bits: dict[int, Mask] = {}  # row → its bit
        self.of_node: dict[int, Mask] = {}  # node → the bits of its events

    def add(self, rows: Iterable[int]) -> bool:
        """Give new visible rows a bit; False if there were none. Rows that the query does not see stay outside."""
        new = sorted({row for row in rows if row < self.before}.difference(self.bits))
        for row in new:
            bit = 1 << len(self.bits)
            self.bits[row] = bit
            for node in {int(self.graph.src[row]), int(self.graph.dst[row])}:
                self.of_node[node] = self.of_node.get(node, 0) | bit
        return bool(new)

    def mask(self, removal: Removal) -> Mask:
        """The bits of a removal set."""
        bits = self.bits
        if len(removal) < 1000:
            mask = 0
            for row in removal:
                mask |= bits.get(row, 0)
            return mask
        flags = np.zeros(len(bits), dtype=bool)  # or-ing long integers one bit at a time is quadratic
        places = [bits[row].bit_length() - 1 for row in removal if row in bits]
        flags[places] = True
        return int.from_bytes(np.packbits(flags, bitorder="little").tobytes(), "little")


class Tail(NamedTuple):
    """The latest events of a node, latest first: enough that K remain however many of the universe are removed."""

    events: list[int]  # their ids
    places: list[int]  # for each event, where its other end stands in `nodes`
    nodes: list[int]  # the distinct nodes at the other ends
    removable: list[tuple[int, Mask]]  # positions in `events` of those in the universe, last first, with their bits


class Recent(NamedTuple):
    """The events that a node attends to, once some are removed."""

    id: int  # row of `Neighbours.events` and the other tables
    nodes: list[int]  # the distinct nodes at their other ends


class Neighbours:
    """The recent events of nodes, for any removal set. K = how many a node attends to, R = lists made so far."""

    def __init__(
        self, graph: TemporalGraph, query: Query, count: int, universe: Universe, event_id: Callable[[int], int]
    ) -> None:
        self.graph = graph
        self.before = query.before
        self.count = count
        self.universe = universe
        self.event_id = event_id  # gives each row that is attended to its id
        self.tails: dict[int, Tail] = {}
        self.made: dict[tuple[int, Mask], Recent] = {}
        self.events = np.zeros((64, count), dtype=np.int64)  # [≥ R, K] event ids; 0 where there are fewer
        self.places = np.zeros((64, count), dtype=np.int64)  # [≥ R, K] where the other end stands in `Recent.nodes`
        self.lengths = np.zeros(64, dtype=np.int64)  # [≥ R]

    def grow(self, nodes: list[int]) -> None:
        """Look up the tails of nodes."""
        graph = self.graph
        wanted = np.array(nodes, dtype=np.int64)
        ends = graph.ends(wanted, self.before)
        lengths = np.array([self.count + self.universe.of_node.get(node, 0).bit_count() for node in nodes])
        starts = np.maximum(graph.offsets[wanted], ends - lengths)
        for node, start, end in zip(nodes, starts.tolist(), ends.tolist(), strict=True):
            rows = graph.incidence[start:end][::-1]
            self.tails[node] = self._tail(rows.tolist(), (graph.src[rows] + graph.dst[rows] - node).tolist())

    def _tail(self, rows: list[int], others: list[int]) -> Tail:
        bits = self.universe.bits
        place = {other: number for number, other in enumerate(dict.fromkeys(others))}
        removable = [(position, bits[row]) for position, row in enumerate(rows) if row in bits]
        events = [self.event_id(row) for row in rows]
        return Tail(events, [place[other] for other in others], list(place), removable[::-1])

    def recent(self, node: int, mask: Mask) -> Recent:
        """The latest K events of `node` without those in `mask`."""
        item = (node, mask & self.universe.of_node.get(node, 0))
        found = self.made.get(item)
        if found is None:
            found = self.made[item] = self._make(*item)
        return found

    def _make(self, node: int, mask: Mask) -> Recent:
        tail = self.tails[node]
        events, places = tail.events, tail.places
        if mask:
            events, places = events.copy(), places.copy()
            for position, bit in tail.removable:  # last first, so that earlier positions stay where they are
                if bit & mask:
                    del events[position], places[position]
        events, places = events[: self.count], places[: self.count]
        order = {place: number for number, place in enumerate(dict.fromkeys(places))}
        id_, length = len(self.made), len(events)
        if id_ == len(self.lengths):
            self.events, self.places = (np.concatenate([table, 0 * table]) for table in (self.events, self.places))
            self.lengths = np.concatenate([self.lengths, 0 * self.lengths])
        self.events[id_, :length] = events
        self.places[id_, :length] = [order[place] for place in places]
        self.lengths[id_] = length
        return Recent(id_, [tail.nodes[place] for place in order])
