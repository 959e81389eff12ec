"""The fast TGN: the memory of each node, whatever is otherwise, from the table of all versions.

A version is known by its index: `2·row` for the source of the event that wrote it, `2·row + 1` for the destination. It
was computed from the latest versions of both nodes at the start of its batch, its parents. So a change of the past
changes a version only if it changes which versions are its parents, or their values; all other versions stand in the
table, except those of imagined events, which are always computed.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from cody.deadline import check_deadline, in_time
from cody.graph import FloatArray, IntArray, Query, TemporalGraph
from cody.inference.fast import Asked, FastModel, Inputs, Known
from cody.inference.masks import Masks, Universe, as_integers, as_words
from cody.inference.replay import Replay, State
from cody.inference.vectors import Products, Vectors
from cody.inference.versions import VersionTable, Watch, index_of, latest_event, open_versions, versions_in_memory
from cody.inference.weights import Weights, gated
from cody.model import Change

NO_VERSION = -1  # before a node's first event: the memory is zero
Key = tuple[int, int]  # a version by its index, and the mask of what is otherwise and can reach its value
UNCHANGED = -1  # in place of an id: the value of the version with nothing otherwise
MANY_VERSIONS = 500  # that changes may concern: then changes are followed only while they are larger than …
SMALL_CHANGE = (
    1e-4  # … this, in any number of a memory. How far that moves a logit is up to the weights: docs/engine.md
)
AFTER_ALL = np.iinfo(np.int64).max  # in the order of rows


class Version(NamedTuple):
    """A version that changes may concern. Other versions are given by their index; masks are Python's integers."""

    row: int  # of the event that wrote it
    own: int  # the node's latest possible version at the start of the batch
    other: int  # the other node's
    previous: int  # what the node has if the event did not happen
    bit: int  # of the event, if it may be otherwise
    imagined: bool  # whether the event did not happen unless it is otherwise
    parents: int  # the events that the value can depend on
    memory: int  # the same for the node's memory right after: the event itself may not have happened
    level: int  # above those of all versions that the value may be computed from
    children: list[int]  # the versions that may be computed from it


class MemoryPlan(NamedTuple):
    """What has to be known before new inputs are."""

    asked: Asked
    memories: list[Key]  # [m] of the inputs that are to be made


class Lineage:
    """The versions that an answer may depend on and changes may concern, with their masks."""

    def __init__(self, graph: TemporalGraph, batch: int, query: Query, universe: Universe, nodes: IntArray) -> None:
        self.graph = graph
        self.batch = batch
        self.universe = universe
        before = np.full(len(nodes), query.before)
        self.versions: dict[int, Version] = {}  # by index; absent: nothing can change it
        latest = self._latest(nodes, before, np.full(len(nodes), AFTER_ALL))
        self.latest: list[int] = latest.tolist()  # of each node: its latest possible version before the query
        rows = np.array(sorted(self._changeable(nodes, latest)), dtype=np.int64).reshape(-1, 5)
        imagined, column = rows[:, 1] // 2 >= graph.num_events, universe.columns(rows[:, 1] // 2)
        bits = [1 << place if place < len(universe.events) else 0 for place in column.tolist()]
        columns = zip(rows.tolist(), bits, imagined.tolist(), strict=True)
        for (_, index, own, other, previous), bit, unreal in in_time(columns):  # parents, older, come first
            parents = self.memory(own) | self.memory(other)
            memory = parents | bit | self.memory(previous) if bit else parents
            if memory:
                level = self._level(own, other)
                self._add(index, Version(index // 2, own, other, previous, bit, unreal, parents, memory, level, []))

    def _add(self, index: int, version: Version) -> None:
        """A version whose parents are there already."""
        self.versions[index] = version
        for parent in {*self._possible(version.own), *self._possible(version.other)}:
            self.versions[parent].children.append(index)

    def _level(self, own: int, other: int) -> int:
        return 1 + max(
            (self.versions[each].level for each in (*self._possible(own), *self._possible(other))), default=-1
        )

    def _possible(self, index: int) -> list[int]:
        """Which versions a memory may be whose latest possible version is `index`, of those that may change."""
        possible: list[int] = []
        while (version := self.versions.get(index)) is not None:
            possible.append(index)
            if not version.bit:
                break
            index = version.previous
        return possible

    @cached_property
    def _affected_by(self) -> list[list[int]]:
        """For each event with a bit: the versions that its change affects at first hand; if imagined, also its own."""
        affected: list[list[int]] = []
        for row in self.universe.events.tolist():
            versions = [(index, self.versions[index]) for index in (2 * row, 2 * row + 1) if index in self.versions]
            own = [index for index, version in versions if version.imagined]
            affected.append(own + [child for _, version in versions for child in version.children])
        return affected

    def first_affected(self, mask: int) -> Iterator[int]:
        """The versions that a change of the past may affect at first hand."""
        while mask:
            lowest = mask & -mask
            yield from self._affected_by[lowest.bit_length() - 1]
            mask ^= lowest

    def memory(self, index: int) -> int:
        """The events that a memory can depend on whose latest possible version is `index`."""
        version = self.versions.get(index)
        return 0 if version is None else version.memory

    def kept(self, index: int, mask: int) -> int:
        """The latest version at or before `index` whose event happened."""
        while (version := self.versions.get(index)) is not None and version.bit:
            if bool(version.bit & mask) == version.imagined:
                break
            index = version.previous
        return index

    def _latest(self, nodes: IntArray, before: IntArray, order: IntArray) -> IntArray:
        """The latest possible version of each node: of a real row < `before`, or an imagined one below `order`."""
        graph = self.graph
        rows = latest_event(graph, nodes, before)
        for row in self.universe.imagined.tolist():
            place = int(graph.order(np.array([row]))[0])
            touches = (nodes == graph.src[row]) | (nodes == graph.dst[row])
            rows = np.where(touches & (place < order) & (place > graph.order(rows)), row, rows)
        return np.where(rows >= 0, index_of(graph, rows, nodes), NO_VERSION)

    def _changeable(self, nodes: IntArray, found: IntArray) -> set[tuple[int, ...]]:
        """(order, index, own, other, previous) of each version that these may depend on and changes may concern.

        A version older than every event of the universe cannot change. An event can be the latest one that happened
        only if all later ones of its node may not have, so the version before it counts only where it has a bit.
        """
        graph, universe = self.graph, self.universe
        oldest = int(graph.order(universe.events[:1])[0]) if len(universe.events) else AFTER_ALL
        changeable: set[tuple[int, ...]] = set()
        known: set[int] = {NO_VERSION}
        while True:
            check_deadline()
            found, first = np.unique(found, return_index=True)  # many versions share their parents
            fresh = np.array([index not in known for index in found.tolist()], dtype=bool)
            nodes, found = nodes[first][fresh], found[fresh]
            order = graph.order(found // 2)
            late = order >= oldest
            nodes, found, order = nodes[late], found[late], order[late]
            if not len(found):
                return changeable
            known.update(found.tolist())
            rows, place = found // 2, graph.place(found // 2)
            others, start = graph.other_end(rows, nodes), place // self.batch * self.batch
            line = graph.order_before(start)
            own, other, previous = np.split(
                self._latest(
                    np.concatenate([nodes, others, nodes]),
                    np.concatenate([start, start, place]),
                    np.concatenate([line, line, order]),
                ),
                3,
            )
            columns = (order, found, own, other, previous)
            changeable.update(zip(*(column.tolist() for column in columns), strict=True))
            may_be_otherwise = universe.columns(rows) < len(universe.events)
            nodes = np.concatenate([nodes, others, nodes[may_be_otherwise]])
            found = np.concatenate([own, other, previous[may_be_otherwise]])


class MemoryInputs:
    """Memory plus features of each node, for any change of a universe."""

    def __init__(self, model: FastTGN, query: Query, universe: Universe, nodes: IntArray) -> None:
        self.model = model
        self.features = None if model.features is None else model.features[nodes]
        self.lineage = Lineage(model.graph, model.weights.sizes.batch, query, universe, nodes)
        latest = self.lineage.latest
        self.depends: Masks = as_words([self.lineage.memory(index) for index in latest], universe.words)
        width, dtype = model.weights.sizes.dimension, model.weights.dtype
        self.known = Known(len(nodes))
        self.memory_ids: dict[Key, int] = {(NO_VERSION, 0): 0}
        self.made_of: dict[tuple[int, int, int], int] = {}  # version, ids of its parents → id
        self.smallest = SMALL_CHANGE if len(self.lineage.versions) > MANY_VERSIONS else 0.0  # change that is followed
        self.memory = Vectors(width, dtype)
        self.memory.append(1)[:] = 0.0
        self.written = [0.0]  # by id: when
        self.sum_ids: dict[tuple[int, int], int] = {}  # node and id of its memory → id
        self.sums = Vectors(width, dtype)
        self.gates = Gates(model.gates, model.weights, self.memory)

    @property
    def size(self) -> int:
        """How many numbers are remembered; the products of the gates, bounded in number, do not count."""
        return self.memory.size + self.sums.size

    @property
    def most(self) -> int:
        """How many numbers a change can add at most."""
        return len(self.lineage.versions) * self.model.weights.sizes.dimension

    @property
    def values(self) -> FloatArray:
        return self.memory.values if self.features is None else self.sums.values

    def follow(self, masks: Masks) -> None:
        """Compute the versions that these changes of the past change: forward in time, until the changes have faded."""
        lineage, ids = self.lineage, self.memory_ids
        waiting: dict[int, dict[Key, None]] = {}  # level → versions and masks of the past
        for mask in dict.fromkeys(as_integers(masks)):
            for index in lineage.first_affected(mask):
                waiting.setdefault(lineage.versions[index].level, {})[index, mask] = None
        while waiting:
            check_deadline()
            current = list(waiting.pop(min(waiting)))
            keys = [self._key(*each) for each in current]
            self._settle({key: mask for key, (_, mask) in zip(keys, current, strict=True) if key not in ids})
            for key, (index, mask) in in_time(zip(keys, current, strict=True)):
                if ids[key] != UNCHANGED:
                    for child in lineage.versions[index].children:
                        waiting.setdefault(lineage.versions[child].level, {})[child, mask] = None

    def _key(self, index: int, mask: int) -> Key:
        version = self.lineage.versions.get(index)
        return index, 0 if version is None else mask & version.parents

    def _settle(self, new: dict[Key, int]) -> None:
        """Find out what versions are under masks. Whatever of their parents changes is known."""
        ids, made_of = self.memory_ids, self.made_of
        parents = {key: self._parents(key[0], mask) for key, mask in new.items()}
        ids.update((key, UNCHANGED) for key, both in parents.items() if both is None)
        changed = {key: both for key, both in parents.items() if both is not None}
        own = self._ids([both[0] for both in changed.values()]).tolist()
        other = self._ids([both[1] for both in changed.values()]).tolist()
        contents = list(zip((index for index, _ in changed), own, other, strict=True))
        unknown = [content for content in dict.fromkeys(contents) if content not in made_of]
        if unknown:
            made_of.update(zip(unknown, self._compute(*np.array(unknown).T).tolist(), strict=True))
        ids.update(zip(changed, [made_of[content] for content in contents], strict=True))

    def _parents(self, index: int, mask: int) -> tuple[Key, Key] | None:
        """What a version is computed from under a mask; None if that is what it was computed from."""
        lineage = self.lineage
        version = lineage.versions[index]
        own = self._value(lineage.kept(version.own, mask), mask)
        other = self._value(lineage.kept(version.other, mask), mask)
        before = (lineage.kept(version.own, 0), 0), (lineage.kept(version.other, 0), 0)
        return None if not version.imagined and (own, other) == before else (own, other)

    def _value(self, index: int, mask: int) -> Key:
        """The key under which the value of a version stands."""
        key = self._key(index, mask)
        return key if self.memory_ids.get(key, UNCHANGED) != UNCHANGED else (index, 0)

    def plan(self, nodes: IntArray, masks: Masks) -> MemoryPlan:
        asked = self.known.find(nodes, masks & self.depends[nodes])
        latest, kept = self.lineage.latest, self.lineage.kept
        wanted = zip(asked.nodes.tolist(), as_integers(asked.masks), strict=True)
        return MemoryPlan(asked, [self._value(kept(latest[node], mask), mask) for node, mask in wanted])

    def compute(self, plan: MemoryPlan) -> IntArray:
        memories = self._ids(plan.memories)
        made = memories if self.features is None else self._sums(plan.asked.nodes, memories)
        return self.known.add(plan.asked, made)

    def _ids(self, keys: Sequence[Key]) -> IntArray:
        """Where the values of versions stand. Those with nothing otherwise are read from the table. [n]"""
        ids = self.memory_ids
        new = [key for key in dict.fromkeys(keys) if key not in ids]
        if new:
            index = np.array([index for index, _ in new])
            ids.update(zip(new, self._append(index, self.model.read_versions(index)).tolist(), strict=True))
        return np.array([ids[key] for key in keys], dtype=np.int64)

    def _append(self, index: IntArray, versions: FloatArray) -> IntArray:
        """Remember the values of versions. [n], [n, d] → [n] their ids"""
        first = self.memory.length
        self.memory.append(len(index))[:] = versions
        self.written += self.model.graph.time[index // 2].tolist()
        return np.arange(first, first + len(index))

    def _compute(self, index: IntArray, own: IntArray, other: IntArray) -> IntArray:
        """New versions from their parents. [n] → [n] their ids, or `UNCHANGED` if they have their old value again."""
        graph, table, rows = self.model.graph, self.model.table, index // 2
        elapsed = graph.time[rows] - np.array([self.written[id_] for id_ in own.tolist()])
        edge = self.model.weights.edge(graph, rows)
        versions = self.gates.remember(own, other, edge, elapsed).astype(table.dtype)  # as they stand in the table
        ids = np.full(len(index), UNCHANGED)
        changed = rows >= graph.num_events
        changed[~changed] = np.abs(versions[~changed] - table.read(index[~changed])).max(axis=1) > self.smallest
        ids[changed] = self._append(index[changed], versions[changed])
        return ids

    def _sums(self, nodes: IntArray, memories: IntArray) -> IntArray:
        """Features and memories added. [n], [n] → [n] the ids of the sums"""
        assert self.features is not None
        pairs = list(zip(nodes.tolist(), memories.tolist(), strict=True))
        new = [pair for pair in dict.fromkeys(pairs) if pair not in self.sum_ids]
        if new:
            first = self.sums.length
            node, memory = np.array(new).T
            self.sums.append(len(new))[:] = self.memory.values[memory] + self.features[node]
            self.sum_ids.update(zip(new, range(first, first + len(new)), strict=True))
        return np.array([self.sum_ids[pair] for pair in pairs], dtype=np.int64)


class GateMaps:
    """The matrices of the gates, in the order in which they are used."""

    def __init__(self, weights: Weights) -> None:
        d = weights.sizes.dimension
        given, kept = weights["memory.weight_ih"].T, weights["memory.weight_hh"].T  # [3d + F, 3d], [d, 3d]
        # Both add up for the first two gates; the third needs them apart. [d, 4d]
        self.own = np.concatenate([given[:d, : 2 * d] + kept[:, : 2 * d], given[:d, 2 * d :], kept[:, 2 * d :]], axis=1)
        self.other = np.ascontiguousarray(given[d : 2 * d])  # [d, 3d]
        self.event = np.ascontiguousarray(given[2 * d :])  # [F + d, 3d]
        bias, kept_bias = weights["memory.bias_ih"], weights["memory.bias_hh"]
        self.bias = np.concatenate([bias[: 2 * d] + kept_bias[: 2 * d], bias[2 * d :]])  # [3d]
        self.kept_bias = kept_bias[2 * d :]  # [d]


class Gates:
    """What `Weights.remember` computes, with the products of memories and weights taken once for each memory."""

    def __init__(self, maps: GateMaps, weights: Weights, memory: Vectors) -> None:
        self.maps, self.weights, self.memory = maps, weights, memory
        self.own_parts, self.other_parts = Products(maps.own), Products(maps.other)

    def remember(self, own: IntArray, other: IntArray, edge: FloatArray | None, elapsed: FloatArray) -> FloatArray:
        """The next memory of nodes. [n] ids of memories, features, durations → [n, d]"""
        maps, d = self.maps, self.weights.sizes.dimension
        event = self.weights.encode(elapsed.astype(self.weights.dtype))
        if edge is not None:
            event = np.concatenate([edge, event], axis=-1)
        mine = self.own_parts.of(self.memory.values, own)  # [n, 4d]
        given = event @ maps.event + maps.bias + self.other_parts.of(self.memory.values, other) + mine[:, : 3 * d]
        kept = np.zeros_like(given)
        kept[:, 2 * d :] = mine[:, 3 * d :] + maps.kept_bias
        return gated(self.memory.values[own], given, kept)


class FastTGN(FastModel):
    """A TGN, equal to its `Replay`.

    The table of all versions is made in memory, or kept in `folder` for the next time. It is large, so it is in single
    precision by default, whatever the engine computes in. `watch` is called while it is made, with how many events it
    has.
    """

    def __init__(
        self,
        network: Any,
        graph: TemporalGraph,
        *,
        folder: Path | None = None,
        dtype: Any = np.float64,
        table_dtype: Any = np.float32,
        watch: Watch | None = None,
    ) -> None:
        super().__init__(network, graph, has_inputs=True, dtype=dtype)
        self.gates = GateMaps(self.weights)
        kept = np.dtype(table_dtype)
        self.table: VersionTable = (
            versions_in_memory(self.weights, graph, kept, watch)
            if folder is None
            else open_versions(self.weights, graph, kept, folder, watch)
        )

    def inputs(self, query: Query, universe: Universe, nodes: IntArray) -> Inputs:
        return MemoryInputs(self, query, universe, nodes)

    def inputs_as_they_are(self, nodes: IntArray, before: IntArray) -> FloatArray:
        rows = latest_event(self.graph, nodes, before)
        known = rows >= 0
        inputs = np.zeros((len(nodes), self.weights.sizes.dimension), dtype=self.weights.dtype)
        inputs[known] = self.read_versions(index_of(self.graph, rows[known], nodes[known]))
        if self.features is not None:
            inputs += self.features[nodes]
        return inputs

    def plain(self, query: Query, change: Change, *, full: bool = False) -> Replay:
        return self.replay if full else self.replay.on(self.graph, self._state_for(query, change))

    def _state_for(self, query: Query, change: Change) -> State:
        """The memory at the grid line before the first change, for all nodes that the answer can depend on."""
        graph, sizes = self.graph, self.weights.sizes
        outcome = graph.outcome(change, query)
        present = np.array(outcome.present, dtype=np.int64)
        first = min([*outcome.absent, *graph.place(present).tolist()], default=query.before)
        line = first // sizes.batch * sizes.batch
        nodes = np.array([query.src, query.dst])
        added = np.concatenate([graph.src[present], graph.dst[present]])
        for _ in range(sizes.layers):
            rows = graph.recent(nodes, query.before, sizes.neighbours + len(change))
            rows = rows[rows >= 0]
            nodes = np.unique(np.concatenate([nodes, graph.src[rows], graph.dst[rows], added]))
        since = slice(line, query.before)
        return self.state(line, np.unique(np.concatenate([nodes, graph.src[since], graph.dst[since]])))

    def state(self, line: int, nodes: IntArray) -> State:
        """The memory of some nodes at a line of the batch grid, from the table; that of all others stays zero."""
        rows = latest_event(self.graph, nodes, line)
        known = rows >= 0
        memory = np.zeros((self.graph.num_nodes, self.weights.sizes.dimension), dtype=self.weights.dtype)
        memory[nodes[known]] = self.read_versions(index_of(self.graph, rows[known], nodes[known]))
        updated = np.zeros(self.graph.num_nodes)
        updated[nodes[known]] = self.graph.time[rows[known]]
        return State(line, memory, updated)

    def read_versions(self, index: IntArray) -> FloatArray:
        """The versions with nothing otherwise. [n] → [n, d]"""
        return self.table.read(index).astype(self.weights.dtype)
