"""Which versions of memories an answer may depend on, and which of them a change may affect: no numbers yet.

An event writes a version of the memory of each of its two nodes. A version is known by its index: `2·row` for the
source of the event, `2·row + 1` for the destination. It is computed from the latest versions of both nodes at the start
of its batch, its parents. So a change affects a version only if it affects which versions are its parents, or their
values.

The steps: trace the versions back from the query (`_trace`), number them and put them into columns (`_columns`), find
what each depends on (`_dependencies`), then turn the columns around: which versions depend on each (`_children`).
"""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import Any, NamedTuple

import numpy as np

from cody.engine.library import Number, contiguous, graph_columns, library, structure
from cody.engine.masks import EditableEvents, Masks
from cody.engine.vectors import Vectors
from cody.engine.versions import index_of, latest_event
from cody.graph import BoolArray, IntArray, Query, TemporalGraph, sorted_unique
from cody.graph.grid import Grid
from cody.utils.deadline import check_deadline

NO_VERSION = -1  # before a node's first event: the memory is zero
AFTER_ALL = np.iinfo(np.int64).max  # a time rank

_Log = structure("_Log", "*src *dst *offsets *incidence *events event_count batch oldest *seen words")

# Versions that changes may concern, by index, and those they are computed from; `NO_VERSION`: none. [m] each
Traced = tuple[IntArray, ...]  # versions; `own`, `other` and `previous` of each, as in `VersionColumns`


@dataclass(frozen=True, slots=True, eq=False)
class NodeOrder:
    """Versions of a node that do not count in the order of their rows.

    A node's memory after a batch is its last version in it. In our own models that is the one of its last row. In those
    of other libraries, events of the same time may count in another order, which depends on the node: the side it is
    on. And the message of an earlier batch may count once more, instead of those of the same time in a later one.

    There are groups of versions, each of one node and one batch and side by side in the order of rows. Each member
    takes the place, in the order of rows, of a member of its group.
    """

    members: IntArray  # [m] indices of versions, ascending
    place: IntArray  # [m] the member whose place each takes
    at_place: IntArray  # [m] the member that takes the place of each
    begins: IntArray  # [m] the first row of the group
    ends: IntArray  # [m] the last row of the group
    repeating: IntArray  # [r] indices of versions that are made by the message of an earlier event, ascending
    message: IntArray  # [r] the row of that event

    @property
    def is_plain(self) -> bool:
        """Whether it is the order of rows, without an exception."""
        return not len(self.members) and not len(self.repeating)

    def counting(self, index: IntArray) -> IntArray:
        """Of the versions that are the latest by row, those that count. [n] → [n]"""
        return _replaced(index.copy(), find(index, self.members), self.at_place)

    def rows(self, index: IntArray) -> IntArray:
        """The rows in whose places versions count. [n] → [n]"""
        return _replaced(index // 2, find(index, self.members), self.place // 2)

    def messages(self, index: IntArray) -> IntArray:
        """The rows of the events that make versions. [n] → [n]"""
        return _replaced(index // 2, find(index, self.repeating), self.message)

    def is_cut(self, index: IntArray, before: int) -> bool:
        """Whether a query sees only a part of the group of one of these versions."""
        _, member = find(index, self.members)
        return bool(((self.begins[member] < before) & (self.ends[member] >= before)).any())


def _replaced(numbers: IntArray, found: tuple[IntArray, IntArray], others: IntArray) -> IntArray:
    """The numbers, with others in place of those that `find` has found."""
    numbers[found[0]] = others[found[1]]
    return numbers


def find(numbers: IntArray, among: IntArray) -> tuple[IntArray, IntArray]:
    """Which of the numbers are among ascending ones, and where they stand there. [n], [m] → [k], [k]

    >>> find(np.array([7, 4, 1]), np.array([1, 3, 7]))
    (array([0, 2]), array([2, 0]))
    """
    place = np.searchsorted(among, numbers)
    inside = np.flatnonzero(place < len(among))
    found = inside[among[place[inside]] == numbers[inside]]
    return found, place[found]


ORDER_OF_ROWS = NodeOrder(*[np.zeros(0, dtype=np.int64)] * 7)


class RaggedArray(NamedTuple):
    """Lists of numbers, one after the other."""

    numbers: IntArray  # [m]
    lengths: IntArray  # [n]
    starts: IntArray  # [n]

    @classmethod
    def by_owner(cls, owner: IntArray, number: IntArray, count: int) -> RaggedArray:
        """Lists of the numbers that belong to each of `count` owners. [m], [m]"""
        lengths = np.bincount(owner, minlength=count)
        return cls(number[np.argsort(owner, kind="stable")], lengths, np.cumsum(lengths) - lengths)

    def of(self, owners: IntArray) -> tuple[IntArray, IntArray]:
        """The numbers of some owners, one list after the other, and whose each is: its place in `owners`."""
        lengths = self.lengths[owners]
        whose = np.repeat(np.arange(len(owners)), lengths)
        first = self.starts[owners] - (np.cumsum(lengths) - lengths)
        return self.numbers[first[whose] + np.arange(len(whose))], whose


@dataclass(frozen=True, slots=True, eq=False)
class VersionColumns:
    """Versions as columns, in the order of their index. A version is known by its place in them; 0: none.

    V = versions.
    """

    index: IntArray  # [V]
    row: IntArray  # [V] of the event that wrote it
    message: IntArray  # [V] the row whose message it is made of: the same, but for `NodeOrder.repeating`
    own: IntArray  # [V] the node's latest possible version at the start of the batch
    other: IntArray  # [V] the other node's
    previous: IntArray  # [V] what the node has if an event with a bit did not happen
    bit: IntArray  # [V] of the event, if it is editable; -1: it is not
    imagined: BoolArray  # [V] whether the event happens only where a change names it
    latest: IntArray  # [nodes] the latest possible version of each node before the query
    traced: IntArray  # [m] the versions that changes may concern; the columns of all others are empty

    @property
    def for_library(self) -> tuple[IntArray, ...]:
        """The versions that changes may concern, then all versions' parents and bits, as the library reads them."""
        return self.traced, self.own, self.other, self.previous, self.bit

    def kept_each(self, versions: IntArray, masks: Masks) -> IntArray:
        """The latest version at or before each whose event happened, each under its own mask. [n], [n, w] → [n]"""
        loaded = library()
        if loaded is None:
            return self.kept(versions, masks, np.arange(len(versions)))
        versions, masks = np.array(versions), contiguous(masks)
        columns = self.previous, self.bit, self.imagined, masks, versions
        loaded.lineage_kept(*masks.shape, *(array.ctypes.data for array in columns))
        return versions

    def kept(self, versions: IntArray, masks: Masks, change: IntArray) -> IntArray:
        """The latest version at or before each whose event happened, under one of the masks. [m], [n, w], [m] → [m]"""
        versions = versions.copy()
        doubtful = np.flatnonzero(self.bit[versions] >= 0)
        while len(doubtful):
            version = versions[doubtful]
            word, bit = np.divmod(self.bit[version], 64)
            changed = (masks[change[doubtful], word] >> bit.astype(np.uint64) & np.uint64(1)).astype(bool)
            doubtful = doubtful[changed != self.imagined[version]]
            versions[doubtful] = self.previous[versions[doubtful]]
            doubtful = doubtful[self.bit[versions[doubtful]] >= 0]
        return versions


@dataclass(frozen=True, slots=True, eq=False)
class Lineage(VersionColumns):
    """The versions that an answer may depend on, and how changes spread through them."""

    editable: EditableEvents
    parents: Masks  # [V, w] the events that the value can depend on
    memory: Masks  # [V, w] the same for the node's memory right after
    order: IntArray  # [m] the versions that changes may concern, level by level, parents before children
    level_starts: IntArray  # [levels + 1] where each level begins, and the last one ends
    children: RaggedArray  # [V] lists: the versions that may be computed from each
    affected: RaggedArray  # [events] lists: the versions that changing an event affects directly
    usual_own: IntArray  # [V] the parents with nothing changed
    usual_other: IntArray  # [V]

    @classmethod
    def of(
        cls,
        graph: TemporalGraph,
        grid: Grid,
        query: Query,
        editable: EditableEvents,
        nodes: IntArray,
        node_order: NodeOrder = ORDER_OF_ROWS,
    ) -> Lineage:
        """The lineage of the memories of some nodes at a query.

        Args:
            graph: the log.
            grid: which rows are replayed together.
            query: the link.
            editable: the events that may be changed.
            nodes: whose memories are needed.
            node_order: which versions do not count in the order of rows.
        """
        # It goes by rows, which have no time order with imagined ones, and counts batches from row 0.
        by_rows = not len(editable.imagined) and not grid.splits and node_order.is_plain
        loaded = library() if by_rows else None
        everything = np.full(len(nodes), AFTER_ALL)
        latest = node_order.counting(_latest(graph, editable, nodes, np.full(len(nodes), query.before), everything))
        if loaded is None:
            found = _trace(graph, grid, editable, nodes, latest, node_order)
            columns = _columns(graph, editable, latest, found, node_order)
        else:
            columns = _traced(loaded, graph, grid, editable, latest)
        parents, memory, level = _dependencies(graph, grid, editable.words, columns, node_order, loaded)
        children = _children(columns, memory, loaded)
        count = level.max(initial=-1) + 2
        narrow = level.astype(np.int16) if count < np.iinfo(np.int16).max else level  # sorts in no time
        below = np.cumsum(np.bincount(level + 1, minlength=count))  # how many are on lower levels than each
        unchanged, first = np.zeros((1, editable.words), dtype=np.uint64), np.zeros(len(columns.index), dtype=np.int64)
        return cls(
            **{field.name: getattr(columns, field.name) for field in fields(columns)},
            editable=editable,
            parents=parents,
            memory=memory,
            order=np.argsort(narrow, kind="stable")[below[0] :],
            level_starts=below - below[0],
            children=children,
            affected=_affected(columns, children, len(editable.events)),
            usual_own=columns.kept(columns.own, unchanged, first),
            usual_other=columns.kept(columns.other, unchanged, first),
        )

    @property
    def levels(self) -> Sequence[IntArray]:
        """The versions that changes may concern, parents before children."""
        return np.split(self.order, self.level_starts[1:-1])

    @property
    def count(self) -> int:
        """How many versions a change may concern."""
        return int(self.memory.any(axis=1).sum())

    def first_affected(self, masks: Masks) -> tuple[IntArray, IntArray]:
        """The versions that changes may affect directly, and which of the changes. [n, w] → [m], [m]"""
        bits = np.unpackbits(masks.view(np.uint8), axis=1, bitorder="little")
        change, bit = np.nonzero(bits[:, : len(self.editable.events)])
        versions, whose = self.affected.of(bit)
        return versions, change[whose]


def _trace(
    graph: TemporalGraph, grid: Grid, editable: EditableEvents, nodes: IntArray, found: IntArray, node_order: NodeOrder
) -> Traced:
    """The versions `found` of `nodes`, and all that they may depend on, as far as changes may concern them.

    A version older than every editable event cannot change. An event can be the latest one that happened only if all
    later ones of its node may be absent, so the version before it counts only where it has a bit.
    """
    oldest = int(graph.time_rank(editable.events[:1])[0]) if len(editable.events) else AFTER_ALL
    seen: BoolArray = np.zeros(2 * graph.num_rows, dtype=bool)
    traced = [(found[:0],) * 4]
    while True:
        check_deadline()
        nodes, found = nodes[found >= 0], found[found >= 0]
        fresh = ~seen[found] & (graph.time_rank(found // 2) >= oldest)
        found, first = np.unique(found[fresh], return_index=True)  # many versions share their parents
        nodes = nodes[fresh][first]
        if not len(found):
            return tuple(np.concatenate(column) for column in zip(*traced, strict=True))
        seen[found] = True
        rows, places = found // 2, node_order.rows(found)
        others, start = graph.other_end(node_order.messages(found), nodes), grid.line(graph.next_real(rows))
        start_rank = graph.first_rank(start)
        latest = _latest(
            graph,
            editable,
            np.concatenate([nodes, others, nodes]),
            np.concatenate([start, start, graph.next_real(places)]),
            np.concatenate([start_rank, start_rank, graph.time_rank(places)]),
        )
        own, other, previous = np.split(node_order.counting(latest), 3)
        may_be_absent = editable.columns(rows) < len(editable.events)
        previous[~may_be_absent] = NO_VERSION
        traced.append((found, own, other, previous))
        nodes, found = np.concatenate([nodes, others, nodes]), np.concatenate([own, other, previous])


def _latest(
    graph: TemporalGraph, editable: EditableEvents, nodes: IntArray, before: IntArray, rank: IntArray
) -> IntArray:
    """The latest possible version of each node, by index: of a real row < `before`, or an imagined one below `rank`."""
    rows, imagined = latest_event(graph, nodes, before), editable.imagined
    if len(imagined):
        ends = np.concatenate([graph.src[imagined], graph.dst[imagined]]).astype(np.int64)
        ranks = np.tile(graph.time_rank(imagined), 2)
        span = int(ranks.max()) + 1  # so that the keys of a node lie between those of the nodes beside it
        keys = ends * span + ranks
        order = np.argsort(keys)
        place = order[np.searchsorted(keys, nodes * span + np.minimum(rank, span), sorter=order) - 1]
        found = np.tile(imagined, 2)[place]
        is_later = (ends[place] == nodes) & (ranks[place] < rank) & (ranks[place] > graph.time_rank(rows))
        rows = np.where(is_later, found, rows)
    return np.where(rows >= 0, index_of(graph, rows, nodes), NO_VERSION)


def _columns(
    graph: TemporalGraph, editable: EditableEvents, latest: IntArray, found: Traced, node_order: NodeOrder
) -> VersionColumns:
    """Number the versions that were found, and those that they are computed from."""
    index = sorted_unique(np.concatenate([[NO_VERSION], latest, *found]))
    traced, *places = (np.searchsorted(index, versions) for versions in found)
    own, other, previous = parents = np.zeros((3, len(index)), dtype=np.int64)
    parents[:, traced] = places
    row, bit = index // 2, np.full(len(index), -1)
    bits = editable.columns(row[traced])
    bit[traced] = np.where(bits < len(editable.events), bits, -1)
    return VersionColumns(
        index=index,
        row=row,
        message=node_order.messages(index),
        own=own,
        other=other,
        previous=previous,
        bit=bit,
        imagined=row >= graph.num_events,
        latest=np.searchsorted(index, latest),
        traced=traced,
    )


def _traced(
    loaded: Any, graph: TemporalGraph, grid: Grid, editable: EditableEvents, latest: IntArray
) -> VersionColumns:
    """What `_trace` and `_columns` find, by the compiled library."""
    events = editable.events
    seen = np.zeros(2 * graph.num_events // 64 + 1, dtype=np.uint64)  # a bit for each version of the log
    known = latest[latest >= 0]
    np.bitwise_or.at(seen, known // 64, np.uint64(1) << (known % 64).astype(np.uint64))
    arrays = graph_columns(graph) | {"events": contiguous(events), "seen": seen}
    addresses = {name: array.ctypes.data for name, array in arrays.items()}
    oldest = int(events[0]) if len(events) else graph.num_events + 32  # no word has a version that is so late
    log = _Log(event_count=len(events), batch=grid.size, oldest=oldest, words=len(seen), **addresses)
    table, word, count = Vectors(5, np.int64), Number(int(known.max(initial=0)) // 64), 0
    while word.value >= 2 * oldest // 64:
        check_deadline()
        table.length = count
        table.reserve(max(64, count))
        room = table.values.ctypes.data, len(table.values)
        count = loaded.lineage_trace(ctypes.byref(log), *room, ctypes.byref(word), count)
    before = np.empty(len(seen), dtype=np.int32)
    versions = 1 + loaded.lineage_count(ctypes.byref(log), before.ctypes.data)
    index, own, other, previous = np.zeros((4, versions), dtype=np.int64)
    bit, traced = np.full(versions, -1), np.empty(count, dtype=np.int64)
    filled = (array.ctypes.data for array in (index, own, other, previous, bit, traced))
    loaded.lineage_columns(ctypes.byref(log), before.ctypes.data, table.values.ctypes.data, count, *filled)
    row, imagined = index // 2, np.zeros(versions, dtype=bool)
    places = np.searchsorted(index, latest)
    return VersionColumns(index, row, row, own, other, previous, bit, imagined, places, traced)


def _dependencies(
    graph: TemporalGraph, grid: Grid, words: int, versions: VersionColumns, node_order: NodeOrder, loaded: Any
) -> tuple[Masks, Masks, IntArray]:
    """What versions can depend on. Parents are of earlier batches, so that batches go one after the other.

    For each version the events that its value can depend on, those that the node's memory right after can depend on
    (the event may be absent), and its level, above those of all versions that it may be computed from; -1: it is not
    traced. → [V, w], [V, w], [V]
    """
    parents: Masks = np.zeros((len(versions.index), words), dtype=np.uint64)
    memory = parents.copy()
    level, deepest = np.full((2, len(versions.index)), -1)  # deepest: that the node's memory right after may have
    if loaded is not None:
        arrays = *map(contiguous, versions.for_library), parents, memory, level, deepest
        loaded.lineage_depend(len(versions.traced), words, *(array.ctypes.data for array in arrays))
        return parents, memory, level
    rows = versions.row[versions.traced]
    order = np.argsort(graph.time_rank(node_order.rows(versions.index[versions.traced])))
    batches = grid.number(graph.next_real(rows))[order]
    for some in np.split(versions.traced[order], np.flatnonzero(np.diff(batches, prepend=-1))[1:]):
        check_deadline()
        own, other = versions.own[some], versions.other[some]
        parents[some] = memory[some] = memory[own] | memory[other]
        level[some] = deepest[some] = 1 + np.maximum(deepest[own], deepest[other])
        for version in some[versions.bit[some] >= 0].tolist():
            word, bit = divmod(int(versions.bit[version]), 64)
            previous = versions.previous[version]
            memory[version] |= memory[previous]
            memory[version, word] |= np.uint64(1 << bit)
            deepest[version] = max(deepest[version], deepest[previous])
        deepest[some[~memory[some].any(axis=1)]] = -1
    return parents, memory, level


def _children(versions: VersionColumns, memory: Masks, loaded: Any) -> RaggedArray:
    """For each version, those that may be computed from it. [V] lists"""
    traced = versions.traced
    changes: BoolArray = np.any(memory, axis=1)
    if loaded is not None:
        lengths = np.zeros(len(changes), dtype=np.int64)
        given = len(traced), *(array.ctypes.data for array in (*versions.for_library, changes))
        loaded.lineage_children(*given, lengths.ctypes.data, None)
        starts = np.cumsum(lengths) - lengths
        numbers, following = np.empty(int(lengths.sum()), dtype=np.int64), starts.copy()
        loaded.lineage_children(*given, following.ctypes.data, numbers.ctypes.data)
        return RaggedArray(numbers, lengths, starts)
    pairs = [(traced[:0], traced[:0])]
    child, parent = np.concatenate([traced, traced]), np.concatenate([versions.own[traced], versions.other[traced]])
    while len(child):
        child, parent = child[changes[parent]], parent[changes[parent]]
        pairs.append((parent, child))
        absent = versions.bit[parent] >= 0  # if so, the memory is the version before
        child, parent = child[absent], versions.previous[parent[absent]]
    parents, children = zip(*pairs, strict=True)
    return RaggedArray.by_owner(np.concatenate(parents), np.concatenate(children), len(versions.index))


def _affected(versions: VersionColumns, children: RaggedArray, events: int) -> RaggedArray:
    """For each event with a bit: the versions that its change affects directly; if it is imagined, also its own."""
    editable = np.flatnonzero(versions.bit >= 0)
    affected, whose = children.of(editable)
    own = editable[versions.imagined[editable]]
    bits = np.concatenate([versions.bit[editable[whose]], versions.bit[own]])
    return RaggedArray.by_owner(bits, np.concatenate([affected, own]), events)
