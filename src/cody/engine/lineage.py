"""Which versions of memories an answer may depend on, and what changes of the past may do to them: no numbers yet.

An event writes a version of the memory of each of its two nodes. A version is known by its index: `2·row` for the
source of the event, `2·row + 1` for the destination. It is computed from the latest versions of both nodes at the start
of its batch, its parents. So a change of the past changes a version only if it changes which versions are its parents,
or their values.
"""

from __future__ import annotations

import numpy as np

from cody.engine import compiled
from cody.engine.masks import EditableEvents, Masks
from cody.engine.versions import index_of, latest_event
from cody.graph import BoolArray, IntArray, Query, TemporalGraph, sorted_unique
from cody.utils.deadline import check_deadline

NO_VERSION = -1  # before a node's first event: the memory is zero
AFTER_ALL = np.iinfo(np.int64).max  # in the order of rows


class RaggedArray:
    """Lists of numbers, each belonging to one of `count` owners. [m], [m]"""

    def __init__(self, owner: IntArray, number: IntArray, count: int) -> None:
        self.numbers = number[np.argsort(owner, kind="stable")]
        self.lengths = np.bincount(owner, minlength=count)
        self.starts = np.cumsum(self.lengths) - self.lengths

    def of(self, owners: IntArray) -> tuple[IntArray, IntArray]:
        """The numbers of some owners, one list after the other, and whose each is: its place in `owners`."""
        lengths = self.lengths[owners]
        whose = np.repeat(np.arange(len(owners)), lengths)
        first = self.starts[owners] - (np.cumsum(lengths) - lengths)
        return self.numbers[first[whose] + np.arange(len(whose))], whose


class Lineage:
    """The versions that an answer may depend on, as columns. A version is known by its place in them; 0: none.

    V = versions, w = words of a mask.
    """

    def __init__(
        self, graph: TemporalGraph, batch: int, query: Query, universe: EditableEvents, nodes: IntArray
    ) -> None:
        self.graph = graph
        self.batch = batch
        self.universe = universe
        self.library = None if len(universe.imagined) else compiled.library()  # imagined rows are in no order
        before = np.full(len(nodes), query.before)
        latest = self._latest(nodes, before, np.full(len(nodes), AFTER_ALL))
        if self.library is None:
            index, own, other, previous = self._trace(nodes, latest)
        else:
            index, own, other, previous = compiled.trace(self.library, graph, batch, latest, universe.events)
        self.index = sorted_unique(np.concatenate([[NO_VERSION], latest, index, own, other, previous]))  # [V]
        self.latest = self._place(latest)  # [nodes] the latest possible version of each node before the query
        traced = self._place(index)
        self.row = self.index // 2  # [V] of the event that wrote it
        self.own = self._column(traced, own)  # [V] the node's latest possible version at the start of the batch
        self.other = self._column(traced, other)  # [V] the other node's
        self.previous = self._column(traced, previous)  # [V] what the node has if an event with a bit did not happen
        self.imagined = self.row >= graph.num_events  # [V] whether the event did not happen unless it is changed
        columns = universe.columns(self.row[traced])
        self.bit = np.full(len(self.index), -1)  # [V] of the event, if it may be changed
        self.bit[traced] = np.where(columns < len(universe.events), columns, -1)
        self._add_masks(traced)
        self.children = self._children(traced)
        self.affected = self._affected()
        nothing = np.zeros((1, universe.words), dtype=np.uint64)
        usual = np.zeros(len(self.index), dtype=np.int64)
        self.usual_own, self.usual_other = (self.kept(versions, nothing, usual) for versions in (self.own, self.other))

    @property
    def count(self) -> int:
        """How many versions a change may concern."""
        return int(self.memory.any(axis=1).sum())

    def _place(self, index: IntArray) -> IntArray:
        return np.searchsorted(self.index, index)

    def _column(self, traced: IntArray, index: IntArray) -> IntArray:
        column = np.zeros(len(self.index), dtype=np.int64)
        column[traced] = self._place(index)
        return column

    def _add_masks(self, traced: IntArray) -> None:
        """What each version can depend on. Parents are of earlier batches, so that batches go one after the other."""
        words = np.zeros((len(self.index), self.universe.words), dtype=np.uint64)
        self.parents: Masks = words  # [V, w] the events that the value can depend on
        self.memory: Masks = words.copy()  # [V, w] the same for the node's memory right after: the event may be absent
        if self.library is None:
            level = self._depend(traced)
        else:
            columns, masks = (self.own, self.other, self.previous, self.bit), (self.parents, self.memory)
            level = compiled.depend(self.library, traced, columns, masks)
        order = np.argsort(level, kind="stable")
        self.levels = np.split(order, np.flatnonzero(np.diff(level[order])) + 1)[1:]  # of versions, lowest first

    def _depend(self, traced: IntArray) -> IntArray:
        """Fill in the masks. → [V] levels, above those of all versions that a version may be computed from"""
        level = np.full(len(self.index), -1)
        deepest = level.copy()  # [V] the highest level that the node's memory right after may have
        order, batches = self.graph.time_rank(self.row[traced]), self.graph.next_real(self.row[traced]) // self.batch
        traced, batches = (column[np.argsort(order)] for column in (traced, batches))
        starts = np.flatnonzero(np.diff(batches, prepend=-1))
        for some in np.split(traced, starts[1:]):
            check_deadline()
            own, other = self.own[some], self.other[some]
            self.parents[some] = self.memory[some] = self.memory[own] | self.memory[other]
            level[some] = deepest[some] = 1 + np.maximum(deepest[own], deepest[other])
            for version in some[self.bit[some] >= 0].tolist():
                word, bit = divmod(int(self.bit[version]), 64)
                previous = self.previous[version]
                self.memory[version] |= self.memory[previous]
                self.memory[version, word] |= np.uint64(1 << bit)
                deepest[version] = max(deepest[version], deepest[previous])
            deepest[some[~self.memory[some].any(axis=1)]] = -1
        return level

    def _children(self, traced: IntArray) -> RaggedArray:
        """For each version, those that may be computed from it. [V] lists"""
        changes: BoolArray = np.any(self.memory, axis=1)
        pairs = [(traced[:0], traced[:0])]
        child, parent = np.concatenate([traced, traced]), np.concatenate([self.own[traced], self.other[traced]])
        while len(child):
            child, parent = child[changes[parent]], parent[changes[parent]]
            pairs.append((parent, child))
            absent = self.bit[parent] >= 0  # if so, the memory is the version before
            child, parent = child[absent], self.previous[parent[absent]]
        parents, children = zip(*pairs, strict=True)
        return RaggedArray(np.concatenate(parents), np.concatenate(children), len(self.index))

    def _affected(self) -> RaggedArray:
        """For each event with a bit: the versions that its change affects at first hand; if imagined, also its own."""
        versions = np.flatnonzero(self.bit >= 0)
        children, whose = self.children.of(versions)
        own = versions[self.imagined[versions]]
        events = np.concatenate([self.bit[versions[whose]], self.bit[own]])
        return RaggedArray(events, np.concatenate([children, own]), len(self.universe.events))

    def first_affected(self, masks: Masks) -> tuple[IntArray, IntArray]:
        """The versions that changes may affect at first hand, and which of the changes. [n, w] → [m], [m]"""
        bits = np.unpackbits(masks.view(np.uint8), axis=1, bitorder="little")
        change, bit = np.nonzero(bits[:, : len(self.universe.events)])
        versions, whose = self.affected.of(bit)
        return versions, change[whose]

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

    def _latest(self, nodes: IntArray, before: IntArray, order: IntArray) -> IntArray:
        """The latest possible version of each node: of a real row < `before`, or an imagined one below `order`."""
        graph = self.graph
        rows = latest_event(graph, nodes, before)
        for row in self.universe.imagined.tolist():
            place = int(graph.time_rank(np.array([row]))[0])
            touches = (nodes == graph.src[row]) | (nodes == graph.dst[row])
            rows = np.where(touches & (place < order) & (place > graph.time_rank(rows)), row, rows)
        return np.where(rows >= 0, index_of(graph, rows, nodes), NO_VERSION)

    def _trace(self, nodes: IntArray, found: IntArray) -> tuple[IntArray, ...]:
        """Index, own, other and previous of each version that these may depend on and changes may concern. [m] each

        A version older than every event of the universe cannot change. An event can be the latest one that happened
        only if all later ones of its node may not have, so the version before it counts only where it has a bit.
        """
        graph, universe = self.graph, self.universe
        oldest = int(graph.time_rank(universe.events[:1])[0]) if len(universe.events) else AFTER_ALL
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
            rows, order, place = found // 2, graph.time_rank(found // 2), graph.next_real(found // 2)
            others, start = graph.other_end(rows, nodes), place // self.batch * self.batch
            line = graph.first_rank(start)
            own, other, previous = np.split(
                self._latest(
                    np.concatenate([nodes, others, nodes]),
                    np.concatenate([start, start, place]),
                    np.concatenate([line, line, order]),
                ),
                3,
            )
            may_be_absent = universe.columns(rows) < len(universe.events)
            previous[~may_be_absent] = NO_VERSION
            traced.append((found, own, other, previous))
            nodes, found = np.concatenate([nodes, others, nodes]), np.concatenate([own, other, previous])
