"""Which removed events can change what: bookkeeping in integers, before any number is computed.

Removal sets are written as bits, one for each event that any set of the query has removed so far. For each thing that
the query may need (a memory version, an embedding of a node in a layer), a mask says which of these events it can
depend on. Then

    two sets that agree on the mask of a thing give it the same value,

so a thing is computed once for each distinct `set & mask`, and where that is 0 it has the value with nothing removed.
Masks may be too large (that only costs time); they are never too small, and each place that makes one says why.
"""

from __future__ import annotations

from collections.abc import Iterable
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

    def __len__(self) -> int:
        return len(self.bits)

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


class Recent(NamedTuple):
    """The events that a node attends to, latest first, once some of its events are removed."""

    rows: list[int]  # at most K
    nodes: list[int]  # the distinct nodes at their other ends
    place: list[int]  # for each row, where its other end stands in `nodes`


class Neighbours:
    """The recent events of nodes, for any removal set."""

    def __init__(self, graph: TemporalGraph, query: Query, count: int, universe: Universe) -> None:
        self.graph = graph
        self.before = query.before
        self.count = count
        self.universe = universe
        self.tails: dict[int, list[int]] = {}  # node → enough of its latest rows, latest first
        self.others: dict[int, list[int]] = {}  # node → the nodes at the other ends of its tail
        self.recents: dict[tuple[int, Mask], Recent] = {}

    def grow(self, nodes: list[int]) -> None:
        """Look up the tails of nodes. However many events of the universe are removed, K kept ones remain in it."""
        graph = self.graph
        wanted = np.array(nodes, dtype=np.int64)
        ends = graph.ends(wanted, self.before)
        lengths = np.array([self.count + self.universe.of_node.get(node, 0).bit_count() for node in nodes])
        starts = np.maximum(graph.offsets[wanted], ends - lengths)
        for node, start, end in zip(nodes, starts.tolist(), ends.tolist(), strict=True):
            rows = graph.incidence[start:end][::-1]
            self.tails[node] = rows.tolist()
            self.others[node] = (graph.src[rows] + graph.dst[rows] - node).tolist()

    def recent(self, node: int, mask: Mask) -> Recent:
        """The latest K rows of `node` without those in `mask`."""
        mask &= self.universe.of_node.get(node, 0)
        found = self.recents.get((node, mask))
        if found is None:
            found = self.recents[node, mask] = self._recent(node, mask)
        return found

    def _recent(self, node: int, mask: Mask) -> Recent:
        bits = self.universe.bits
        rows: list[int] = []
        place: list[int] = []
        nodes: dict[int, int] = {}
        for row, other in zip(self.tails[node], self.others[node], strict=True):
            if len(rows) == self.count:
                break
            if not (mask and bits.get(row, 0) & mask):
                rows.append(row)
                place.append(nodes.setdefault(other, len(nodes)))
        return Recent(rows, list(nodes), place)
