"""The fast TGN: the memory of each node, whatever is otherwise, from the table of all versions.

`lineage.py` says which versions a change of the past may concern. All others stand in the table, except those of
imagined events, which are always computed.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from cody.engine.compiled import CompiledFollow, library
from cody.engine.fast import FastModel, Inputs, KnownVectors, VectorRequest
from cody.engine.lineage import Lineage
from cody.engine.masks import EditableEvents, Masks, distinct
from cody.engine.replay import MemoryState, Replay
from cody.engine.vectors import NearDuplicates, Products, Vectors
from cody.engine.versions import VersionTable, Watch, index_of, latest_event, open_versions, versions_in_memory
from cody.engine.weights import Weights, gated
from cody.graph import BoolArray, FloatArray, IntArray, Query, TemporalGraph, sorted_unique
from cody.models.contract import Change
from cody.utils.deadline import check_deadline

UNCHANGED = 0  # in place of an id: the version has the value it has with nothing otherwise (0 is no version's own id)
MANY_VERSIONS = 500  # that changes may concern: then memories are taken for the same if they differ by less than …
SMALL_CHANGE = 1e-4  # … this, in every number. How far that moves a logit is up to the weights: docs/engine.md
FINER = 10  # times: where that has moved a logit too far
FOLLOWED_AT_ONCE = 40_000_000  # versions times changes: that takes 0.2 GB, besides what is remembered


class MemoryPlan(NamedTuple):
    """The inputs that are asked for, and the versions of which those are made that are not there yet."""

    asked: VectorRequest
    versions: IntArray  # [m]
    change: IntArray  # [m] under which of the changes; -1 where nothing is otherwise


class MemoryInputs:
    """Memory plus features of each node, for any change of a universe. Versions are known by place."""

    def __init__(self, model: FastTGN, lineage: Lineage, features: FloatArray | None, *, small: float) -> None:
        self.model = model
        self.features = features  # [nodes, d]
        self.lineage = lineage
        self.small = small  # values that differ by no more than this in every number are taken for the same
        self.depends: Masks = lineage.memory[lineage.latest]
        width, dtype = model.weights.sizes.dimension, model.weights.dtype
        self.known = KnownVectors(len(lineage.latest))
        self.made_of: dict[tuple[int, int, int], int] = {}  # version, ids of its parents → id
        self.alike = NearDuplicates(width, small) if small else None
        self.memory = Vectors(width, model.table.dtype)  # each is rounded to the precision of the table
        self.memory.append(1)[:] = 0.0
        self.written = Vectors(1, np.float64)  # by id: when
        self.written.append(1)[:] = 0.0
        self.changes: Masks = np.zeros((0, lineage.universe.words), dtype=np.uint64)  # that answers are about
        self.usual = np.full(len(lineage.index), -1)  # [V] id of the version with nothing otherwise, once it is read
        self.usual[0] = 0
        self.sum_ids: dict[tuple[int, int], int] = {}  # node and id of its memory → id
        self.sums = Vectors(width, dtype)
        self.gates = Gates(model.rough_gates if small else model.gates, self.memory)
        loaded = library()
        self.compiled = None if loaded is None else CompiledFollow(loaded, self)

    @property
    def exact(self) -> bool:
        return not self.small

    def exactly(self) -> MemoryInputs:
        return MemoryInputs(self.model, self.lineage, self.features, small=0.0)

    def finer(self) -> MemoryInputs:
        return MemoryInputs(self.model, self.lineage, self.features, small=self.small / FINER)

    @property
    def size(self) -> int:
        """How many numbers are remembered; the products of the gates, bounded in number, do not count."""
        return self.memory.size + self.sums.size

    @property
    def most(self) -> int:
        """How many numbers a change can add at most."""
        return self.lineage.count * self.model.weights.sizes.dimension

    @property
    def values(self) -> FloatArray:
        return self.sums.values

    def begin(self, changes: Masks) -> None:
        self.changes = changes

    def _follow(self, versions: IntArray, change: IntArray) -> IntArray:
        """The ids of versions, each under a change; where there are many, a few changes at a time. [m], [m] → [m]"""
        at_once = max(1, FOLLOWED_AT_ONCE // len(self.lineage.index))
        follow = self._levels if self.compiled is None else self.compiled.follow
        ids = np.full(len(versions), UNCHANGED)
        for first in range(0, len(self.changes), at_once):
            some = (first <= change) & (change < first + at_once)
            if some.any():
                ids[some] = follow(self.changes[first : first + at_once], versions[some], change[some] - first)
        return ids

    def _levels(self, masks: Masks, versions: IntArray, change: IntArray) -> IntArray:
        """The ids of versions, each under one of the changes, and of all that these are computed from.

        Forward in time, until the changes have faded. `follow.c` does the same. [n, w], [m], [m] → [m]
        """
        lineage, needed = self.lineage, self._needed(masks, versions, change)
        waiting = np.zeros(needed.shape, dtype=bool)  # [V, n] what a change may have reached
        waiting[lineage.first_affected(masks)] = True
        ids = np.full(needed.shape, UNCHANGED, dtype=np.int32)  # [V, n] of the value of each version under each change
        for level in lineage.levels:
            place, which = np.nonzero(waiting[level] & needed[level])
            if not len(place):
                continue
            check_deadline()
            some = level[place]
            made = self._settle(some, masks, which, ids)
            changed = made != UNCHANGED
            some, which = some[changed], which[changed]
            ids[some, which] = made[changed]
            children, whose = lineage.children.of(some)
            waiting[children, which[whose]] = True
        if self.alike is not None:
            self.alike.sort()
        return ids[versions, change]

    def _needed(self, masks: Masks, versions: IntArray, change: IntArray) -> BoolArray:
        """Which versions are needed under which change: these, and all that they are computed from. → [V, n]"""
        lineage = self.lineage
        needed = np.zeros((len(lineage.index), len(masks)), dtype=bool)
        needed[versions, change] = True
        for level in reversed(lineage.levels):
            place, which = np.nonzero(needed[level])
            for parents in (lineage.own, lineage.other):
                needed[lineage.kept(parents[level[place]], masks, which), which] = True
        return needed

    def _settle(self, versions: IntArray, masks: Masks, change: IntArray, ids: IntArray) -> IntArray:
        """What versions are under changes, given `ids` of all that they may be computed from. [m], [n, w], [m] → [m]"""
        lineage = self.lineage
        twice = np.concatenate([change, change])
        parents = lineage.kept(np.concatenate([lineage.own[versions], lineage.other[versions]]), masks, twice)
        values = ids[parents, twice].astype(np.int64)
        values = np.where(values == UNCHANGED, -parents, values)  # an id, or minus the place of what the table has
        own, other = values.reshape(2, -1)
        otherwise = (own != -lineage.usual_own[versions]) | (other != -lineage.usual_other[versions])
        otherwise |= lineage.imagined[versions]
        made = np.full(len(versions), UNCHANGED)
        made[otherwise] = self._made_of(versions[otherwise], own[otherwise], other[otherwise])
        return made

    def _made_of(self, versions: IntArray, own: IntArray, other: IntArray) -> IntArray:
        """The ids of versions with these parents, computed once for all that are the same. [m] → [m]"""
        made_of = self.made_of
        contents = list(zip(versions.tolist(), own.tolist(), other.tolist(), strict=True))
        unknown = [content for content in dict.fromkeys(contents) if content not in made_of]
        if unknown:
            made_of.update(zip(unknown, self._compute(*np.array(unknown).T).tolist(), strict=True))
        return np.array([made_of[content] for content in contents], dtype=np.int64)

    def _memories(self, values: IntArray) -> IntArray:
        """The ids of what `_settle` calls an id, or minus the place of what stands in the table. [n] → [n]"""
        stands = values <= 0
        places = -values[stands]
        unread = sorted_unique(places[self.usual[places] < 0])
        if len(unread):
            index = self.lineage.index[unread]
            self.usual[unread] = self._append(unread, self.model.read_versions(index))
        ids = values.copy()
        ids[stands] = self.usual[places]
        return ids

    def _append(self, versions: IntArray, values: FloatArray) -> IntArray:
        """Remember the values of versions. [n], [n, d] → [n] their ids"""
        first, count = self.memory.length, len(versions)
        self.memory.append(count)[:] = values
        self.written.append(count)[:, 0] = self.model.graph.time[self.lineage.row[versions]]
        return np.arange(first, first + count)

    def _compute(self, versions: IntArray, own: IntArray, other: IntArray) -> IntArray:
        """New versions from their parents. [n] → [n] ids, or `UNCHANGED` where the old value is back"""
        graph, table = self.model.graph, self.model.table
        own, other = self._memories(np.concatenate([own, other])).reshape(2, -1)
        rows, index = self.lineage.row[versions], self.lineage.index[versions]
        elapsed = graph.time[rows] - self.written.values[own, 0]
        first, which = distinct(versions, elapsed.view(np.uint64)[:, None])  # what events add is mostly the same
        events = self.gates.events(self.gates.weights.edge(graph, rows[first]), elapsed[first])
        values = self.gates.remember(own, other, events[which]).astype(table.dtype)  # as they stand in the table
        changed = self.lineage.imagined[versions]
        smallest = 0.0 if self.alike is None else self.alike.most
        changed[~changed] = np.abs(values[~changed] - table.read(index[~changed])).max(axis=1) > smallest
        ids = np.full(len(versions), UNCHANGED)
        ids[changed] = self._share(versions[changed], values[changed])
        return ids

    def _share(self, versions: IntArray, values: FloatArray) -> IntArray:
        """Remember the values of versions; where many may change, those that are new. [n], [n, d] → [n] their ids"""
        if self.alike is None:
            return self._append(versions, values)
        ids, first = self.alike.find(versions, values, self.memory.values)
        new = first == np.arange(len(first))
        ids[new] = self._append(versions[new], values[new])
        self.alike.add(versions[new], values[new], ids[new])
        return np.where(ids < 0, ids[first], ids)

    def plan(self, nodes: IntArray, masks: Masks, change: IntArray) -> MemoryPlan:
        asked = self.known.find(nodes, masks & self.depends[nodes])
        latest, which = self.lineage.latest[asked.nodes], np.arange(len(asked.nodes))
        versions = self.lineage.kept(latest, asked.masks, which)
        return MemoryPlan(asked, versions, np.where(asked.masks.any(axis=1), change[asked.places], -1))

    def compute(self, plan: MemoryPlan) -> IntArray:
        ids = self._follow(plan.versions, plan.change)
        memories = self._memories(np.where(ids == UNCHANGED, -plan.versions, ids))
        return self.known.add(plan.asked, self._sums(plan.asked.nodes, memories))

    def _sums(self, nodes: IntArray, memories: IntArray) -> IntArray:
        """Memories, and features where there are any, added. [n], [n] → [n] the ids of the sums"""
        pairs = list(zip(nodes.tolist(), memories.tolist(), strict=True))
        new = [pair for pair in dict.fromkeys(pairs) if pair not in self.sum_ids]
        if new:
            first = self.sums.length
            node, memory = np.array(new).T
            sums = self.sums.append(len(new))
            sums[:] = self.memory.values[memory]
            if self.features is not None:
                sums += self.features[node]
            self.sum_ids.update(zip(new, range(first, first + len(new)), strict=True))
        return np.array([self.sum_ids[pair] for pair in pairs], dtype=np.int64)


class GateMaps:
    """The matrices of the gates, in the order in which they are used."""

    def __init__(self, weights: Weights) -> None:
        self.weights = weights
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

    def __init__(self, maps: GateMaps, memory: Vectors) -> None:
        self.maps, self.weights, self.memory = maps, maps.weights, memory
        self.own_parts, self.other_parts = Products(maps.own), Products(maps.other)

    def events(self, edge: FloatArray | None, elapsed: FloatArray) -> FloatArray:
        """What events add to the gates. [n, F], [n] → [n, 3d]"""
        event = self.weights.encode(elapsed.astype(self.weights.dtype))
        if edge is not None:
            event = np.concatenate([edge, event], axis=-1)
        added: FloatArray = event @ self.maps.event + self.maps.bias
        return added

    def remember(self, own: IntArray, other: IntArray, given: FloatArray) -> FloatArray:
        """The next memory of nodes. [n] ids of memories, [n, 3d] what the events add → [n, d]"""
        d = self.weights.sizes.dimension
        dtype = self.maps.own.dtype
        mine = self.own_parts.of(self.memory.values, own)  # [n, 4d]
        given = given + self.other_parts.of(self.memory.values, other)
        given += mine[:, : 3 * d]
        kept = mine[:, 3 * d :] + self.maps.kept_bias
        return gated(self.memory.values[own].astype(dtype), given[:, : 2 * d], given[:, 2 * d :], kept)


class FastTGN(FastModel):
    """A TGN, equal to its `Replay`; where histories are long, as nearly as `SMALL_CHANGE` says.

    The table of all versions is made in memory, or kept in `folder` for the next time. It is large, so by default it is
    in single precision, whatever the engine computes in, unless the memory amplifies rounding. `watch` is called while
    it is made, with how many events it has.
    """

    def __init__(
        self,
        network: Any,
        graph: TemporalGraph,
        *,
        folder: Path | None = None,
        dtype: Any = np.float64,
        table_dtype: Any = None,
        watch: Watch | None = None,
    ) -> None:
        super().__init__(network, graph, has_inputs=True, dtype=dtype)
        self.gates = GateMaps(self.weights)
        self.rough_gates = GateMaps(self.weights.astype(np.float32))
        kept = None if table_dtype is None else np.dtype(table_dtype)
        self.table: VersionTable = (
            versions_in_memory(self.weights, graph, kept, watch)
            if folder is None
            else open_versions(self.weights, graph, kept, folder, watch)
        )

    def inputs(self, query: Query, universe: EditableEvents, nodes: IntArray) -> Inputs:
        lineage = Lineage(self.graph, self.weights.sizes.batch, query, universe, nodes)
        features = None if self.features is None else self.features[nodes]
        return MemoryInputs(self, lineage, features, small=SMALL_CHANGE if lineage.count > MANY_VERSIONS else 0.0)

    def inputs_as_they_are(self, nodes: IntArray, before: IntArray) -> FloatArray:
        rows = latest_event(self.graph, nodes, before)
        known = rows >= 0
        inputs = np.zeros((len(nodes), self.weights.sizes.dimension), dtype=self.weights.dtype)
        inputs[known] = self.read_versions(index_of(self.graph, rows[known], nodes[known]))
        if self.features is not None:
            inputs += self.features[nodes]
        return inputs

    def reference(self, query: Query, change: Change, *, full: bool = False) -> Replay:
        return self.replay if full else self.replay.on(self.graph, self._state_for(query, change), only_needed=True)

    def _state_for(self, query: Query, change: Change) -> MemoryState:
        """The memory at the grid line before the first change, for all nodes that the answer can depend on."""
        graph, sizes = self.graph, self.weights.sizes
        outcome = graph.difference(change, query)
        present = np.array(outcome.present, dtype=np.int64)
        first = min([*outcome.absent, *graph.next_real(present).tolist()], default=query.before)
        line = first // sizes.batch * sizes.batch
        nodes = np.array([query.src, query.dst])
        added = np.concatenate([graph.src[present], graph.dst[present]])
        for _ in range(sizes.layers):
            rows = graph.recent(nodes, query.before, sizes.neighbours + len(change))
            rows = rows[rows >= 0]
            nodes = sorted_unique(np.concatenate([nodes, graph.src[rows], graph.dst[rows], added]))
        since = slice(line, query.before)
        return self.state(line, sorted_unique(np.concatenate([nodes, graph.src[since], graph.dst[since]])))

    def state(self, line: int, nodes: IntArray) -> MemoryState:
        """The memory of some nodes at a line of the batch grid, from the table; that of all others stays zero."""
        rows = latest_event(self.graph, nodes, line)
        known = rows >= 0
        memory = np.zeros((self.graph.num_nodes, self.weights.sizes.dimension), dtype=self.weights.dtype)
        memory[nodes[known]] = self.read_versions(index_of(self.graph, rows[known], nodes[known]))
        updated = np.zeros(self.graph.num_nodes)
        updated[nodes[known]] = self.graph.time[rows[known]]
        return MemoryState(line, memory, updated)

    def read_versions(self, index: IntArray) -> FloatArray:
        """The versions with nothing otherwise. [n] → [n, d]"""
        return self.table.read(index).astype(self.weights.dtype)
