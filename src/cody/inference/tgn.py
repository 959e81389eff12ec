"""The fast TGN: the memory of each node, whatever is otherwise, from the table of all versions.

A version is known by its index: `2·row` for the source of the event that wrote it, `2·row + 1` for the destination. It
was computed from the latest versions of both nodes at the start of its batch, its parents. So a change of the past
changes a version only if it changes which versions are its parents, or their values; all other versions stand in the
table, except those of imagined events, which are always computed.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from cody.deadline import check_deadline, in_time
from cody.graph import FloatArray, IntArray, Query, TemporalGraph
from cody.inference.fast import FastModel, Inputs, Vectors
from cody.inference.masks import Masks, Universe, as_integers, as_words
from cody.inference.replay import Replay, State
from cody.inference.versions import VersionTable, index_of, latest_event, open_versions, versions_in_memory
from cody.inference.weights import Weights, gated
from cody.model import Change

NO_VERSION = -1  # before a node's first event: the memory is zero
AFTER_ALL = np.iinfo(np.int64).max  # in the order of rows


class Version(NamedTuple):
    """A version that changes may concern. Other versions are given by their index; masks are Python's integers."""

    row: int  # of the event that wrote it
    order: int  # of that event
    own: int  # the node's latest possible version at the start of the batch
    other: int  # the other node's
    previous: int  # what the node has if the event did not happen
    bit: int  # of the event, if it may be otherwise
    imagined: bool  # whether the event did not happen unless it is otherwise
    parents: int  # the events that the value can depend on
    memory: int  # the same for the node's memory right after: the event itself may not have happened


class Recipe(NamedTuple):
    """How to compute one version: all others that it needs are given by their ids."""

    order: int  # parents come before
    row: int
    id: int
    own: int
    other: int
    updated: float  # when the own memory was written


class MemoryWork(NamedTuple):
    """What has to be known before new inputs are: versions from the table, versions to compute, sums with features."""

    table: list[tuple[int, int]]  # (id, index)
    recipes: list[Recipe]
    sums: list[tuple[int, int]]  # (node, id of its memory)


class Lineage:
    """The versions that an answer may depend on and changes may concern, with their masks."""

    def __init__(self, graph: TemporalGraph, batch: int, query: Query, universe: Universe, nodes: IntArray) -> None:
        self.graph = graph
        self.batch = batch
        self.universe = universe
        before = np.full(len(nodes), query.before)
        self.latest: list[int] = []  # of each node: its latest possible version before the query
        self.versions: dict[int, Version] = {}  # by index; absent: nothing can change it
        latest = self._latest(nodes, before, np.full(len(nodes), AFTER_ALL))
        self.latest = latest.tolist()
        rows = np.array(sorted(self._changeable(nodes, latest)), dtype=np.int64).reshape(-1, 6)
        imagined, column = rows[:, 1] // 2 >= graph.num_events, universe.columns(rows[:, 1] // 2)
        bits = [1 << place if place < len(universe.events) else 0 for place in column.tolist()]
        columns = zip(rows.tolist(), bits, imagined.tolist(), strict=True)
        for (order, index, own, other, previous, _), bit, unreal in in_time(columns):  # parents, older, come first
            parents = self.memory(own) | self.memory(other)
            memory = parents | bit | self.memory(previous) if bit else parents
            self.versions[index] = Version(index // 2, order, own, other, previous, bit, unreal, parents, memory)

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
        """(order, index, own, other, previous, node) of each version that these may depend on and changes may concern.

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
            own, other = (self._latest(ends, start, graph.order_before(start)) for ends in (nodes, others))
            previous = self._latest(nodes, place, order)
            columns = (order, found, own, other, previous, nodes)
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
        self.memory_ids: dict[tuple[int, int], int] = {(NO_VERSION, 0): 0}  # version and mask → id
        self.memory = Vectors(width, dtype)
        self.memory.append(1)[:] = 0.0
        self.sum_ids: dict[tuple[int, int], int] = {}  # node and id of its memory → id
        self.sums = Vectors(width, dtype)
        self.known: dict[tuple[int, ...], int] = {}  # node and mask → id of its input
        self.unchanged = np.full(len(nodes), -1)  # id of its input with nothing otherwise
        self.gates = Gates(model.weights, self.memory)

    @property
    def size(self) -> int:
        """How many numbers are remembered."""
        return self.memory.size + self.sums.size + self.gates.size

    @property
    def most(self) -> int:
        """How many numbers a change can add at most."""
        return len(self.lineage.versions) * self.model.weights.sizes.dimension

    @property
    def values(self) -> FloatArray:
        return self.memory.values if self.features is None else self.sums.values

    def ids(self, nodes: IntArray, masks: Masks) -> tuple[IntArray, MemoryWork]:
        masks = masks & self.depends[nodes]
        work = MemoryWork([], [], [])
        touched = masks.any(axis=1)
        for node in np.unique(nodes[~touched][self.unchanged[nodes[~touched]] < 0]).tolist():
            self.unchanged[node] = self._input(node, 0, work)
        ids = self.unchanged[nodes]
        which = np.flatnonzero(touched)
        for place, node, mask in zip(which.tolist(), nodes[which].tolist(), as_integers(masks[which]), strict=True):
            found = self.known.get((node, mask))
            if found is None:
                found = self.known[node, mask] = self._input(node, mask, work)
            ids[place] = found
        return ids, work

    def _input(self, node: int, mask: int, work: MemoryWork) -> int:
        memory = self._memory(self.lineage.kept(self.lineage.latest[node], mask), mask, work)
        if self.features is None:
            return memory
        found = self.sum_ids.get((node, memory))
        if found is None:
            found = self.sum_ids[node, memory] = len(self.sum_ids)
            work.sums.append((node, memory))
        return found

    def _memory(self, index: int, mask: int, work: MemoryWork) -> int:
        """The id of a version under a mask; it and all that it needs are planned if they are not there yet."""
        start = self._key(index, mask)
        found = self.memory_ids.get(start)
        if found is not None:
            return found
        lineage, ids = self.lineage, self.memory_ids
        ids[start] = first = len(ids)
        pending = [(start, first)]
        for (index, mask), id_ in in_time(pending):  # it grows as parents are asked for
            version = lineage.versions.get(index)
            if version is None or not (mask or version.imagined):
                work.table.append((id_, index))
                continue
            kept = lineage.kept(version.own, mask), lineage.kept(version.other, mask)
            keys = [self._key(parent, mask) for parent in kept]
            for key in keys:
                if key not in ids:
                    ids[key] = len(ids)
                    pending.append((key, ids[key]))
            updated = 0.0 if kept[0] == NO_VERSION else float(self.model.graph.time[kept[0] // 2])
            work.recipes.append(Recipe(version.order, version.row, id_, ids[keys[0]], ids[keys[1]], updated))
        return first

    def _key(self, index: int, mask: int) -> tuple[int, int]:
        version = self.lineage.versions.get(index)
        return index, 0 if version is None else mask & version.parents

    def compute(self, work: MemoryWork) -> None:
        """Read the versions that nothing changes from the table; compute the others, parents first."""
        self.memory.append(len(self.memory_ids) - self.memory.length)
        if work.table:
            ids, index = np.array(work.table, dtype=np.int64).T
            self.memory.values[ids] = self.model.read_versions(index)
        for generation in _generations(work.recipes):
            check_deadline()
            self._remember(generation)
        if work.sums:
            assert self.features is not None
            nodes, memory = np.array(work.sums, dtype=np.int64).T
            self.sums.append(len(work.sums))[:] = self.memory.values[memory] + self.features[nodes]

    def _remember(self, generation: list[Recipe]) -> None:
        _, row, id_, own, other, updated = zip(*generation, strict=True)
        rows = np.array(row)
        elapsed = self.model.graph.time[rows] - np.array(updated)
        edge = self.model.weights.edge(self.model.graph, rows)
        versions = self.gates.remember(np.array(own), np.array(other), edge, elapsed)
        self.memory.values[np.array(id_)] = versions.astype(self.model.table.dtype)  # as they stand in the table


class Gates:
    """What `Weights.remember` computes, with the products of memories and weights taken once for each memory."""

    def __init__(self, weights: Weights, memory: Vectors) -> None:
        d = weights.sizes.dimension
        given, kept = weights["memory.weight_ih"].T, weights["memory.weight_hh"].T  # [3d + F, 3d], [d, 3d]
        self.weights, self.memory, self.d = weights, memory, d
        # Both add up for the first two gates; the third needs them apart. [d, 4d]
        self.own = np.concatenate([given[:d, : 2 * d] + kept[:, : 2 * d], given[:d, 2 * d :], kept[:, 2 * d :]], axis=1)
        self.other = np.ascontiguousarray(given[d : 2 * d])  # [d, 3d]
        self.event = np.ascontiguousarray(given[2 * d :])  # [F + d, 3d]
        bias, kept_bias = weights["memory.bias_ih"], weights["memory.bias_hh"]
        self.bias = np.concatenate([bias[: 2 * d] + kept_bias[: 2 * d], bias[2 * d :]])  # [3d]
        self.kept_bias = kept_bias[2 * d :]  # [d]
        self.own_parts, self.other_parts = Products(self.own), Products(self.other)

    @property
    def size(self) -> int:
        return self.own_parts.vectors.size + self.other_parts.vectors.size

    def remember(self, own: IntArray, other: IntArray, edge: FloatArray | None, elapsed: FloatArray) -> FloatArray:
        """The next memory of nodes. [n] ids of memories, features, durations → [n, d]"""
        d = self.d
        event = self.weights.encode(elapsed.astype(self.weights.dtype))
        if edge is not None:
            event = np.concatenate([edge, event], axis=-1)
        mine = self.own_parts.of(self.memory.values, own)  # [n, 4d]
        given = event @ self.event + self.bias + self.other_parts.of(self.memory.values, other) + mine[:, : 3 * d]
        kept = np.zeros_like(given)
        kept[:, 2 * d :] = mine[:, 3 * d :] + self.kept_bias
        return gated(self.memory.values[own], given, kept)


class Products:
    """Vectors times a matrix, taken when first asked for."""

    def __init__(self, matrix: FloatArray) -> None:
        self.matrix = matrix
        self.slot = np.full(64, -1)
        self.vectors = Vectors(matrix.shape[1], matrix.dtype)

    def of(self, values: FloatArray, ids: IntArray) -> FloatArray:
        """The products of the vectors `ids` of `values`. [n] → [n, width]"""
        if len(self.slot) < len(values):
            self.slot = np.concatenate([self.slot, np.full(len(values) - len(self.slot), -1)])
        new = np.unique(ids[self.slot[ids] < 0])
        if len(new):
            self.slot[new] = self.vectors.length + np.arange(len(new))
            self.vectors.append(len(new))[:] = values[new] @ self.matrix
        products: FloatArray = self.vectors.values[self.slot[ids]]
        return products


def _generations(recipes: list[Recipe]) -> list[list[Recipe]]:
    """Versions in groups, each computable from the groups before it."""
    depth: dict[int, int] = {}
    groups: list[list[Recipe]] = []
    for recipe in in_time(sorted(recipes)):
        level = depth[recipe.id] = max(depth.get(recipe.own, -1), depth.get(recipe.other, -1)) + 1
        if level == len(groups):
            groups.append([])
        groups[level].append(recipe)
    return groups


class FastTGN(FastModel):
    """A TGN, equal to its `Replay`.

    The table of all versions is made in memory, or kept in `folder` for the next time. It is large, so it is in single
    precision by default, whatever the engine computes in.
    """

    def __init__(
        self,
        network: Any,
        graph: TemporalGraph,
        *,
        folder: Path | None = None,
        dtype: Any = np.float64,
        table_dtype: Any = np.float32,
    ) -> None:
        super().__init__(network, graph, has_inputs=True, dtype=dtype)
        kept = np.dtype(table_dtype)
        self.table: VersionTable = (
            versions_in_memory(self.weights, graph, kept)
            if folder is None
            else open_versions(self.weights, graph, kept, folder)
        )

    def inputs(self, query: Query, universe: Universe, nodes: IntArray) -> Inputs:
        return MemoryInputs(self, query, universe, nodes)

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
