"""The fast TGN: the memory of each node, whatever is otherwise, from the table of all versions.

`lineage.py` says which versions a change of the past may concern. All others stand in the table, except those of
imagined events, which are always computed.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from cody.deadline import check_deadline
from cody.graph import FloatArray, IntArray, Query, TemporalGraph
from cody.inference.fast import Asked, FastModel, Inputs, Known
from cody.inference.lineage import Lineage
from cody.inference.masks import Masks, Universe, distinct
from cody.inference.replay import Replay, State
from cody.inference.vectors import Products, Vectors
from cody.inference.versions import VersionTable, Watch, index_of, latest_event, open_versions, versions_in_memory
from cody.inference.weights import Weights, gated
from cody.model import Change

UNCHANGED = 0  # in place of an id: the version has the value it has with nothing otherwise (0 is no version's own id)
MANY_VERSIONS = 500  # that changes may concern: then changes are followed only while they are larger than …
SMALL_CHANGE = (
    1e-4  # … this, in any number of a memory. How far that moves a logit is up to the weights: docs/engine.md
)


class MemoryPlan(NamedTuple):
    """The inputs that are asked for, and the versions of which those are made that are not there yet."""

    asked: Asked
    versions: IntArray  # [m]


class MemoryInputs:
    """Memory plus features of each node, for any change of a universe. Versions are known by place."""

    def __init__(self, model: FastTGN, query: Query, universe: Universe, nodes: IntArray) -> None:
        self.model = model
        self.features = None if model.features is None else model.features[nodes]
        self.lineage = lineage = Lineage(model.graph, model.weights.sizes.batch, query, universe, nodes)
        self.depends: Masks = lineage.memory[lineage.latest]
        width, dtype = model.weights.sizes.dimension, model.weights.dtype
        self.known = Known(len(nodes))
        self.versions = Known(len(lineage.index))
        self.made_of: dict[tuple[int, int, int], int] = {}  # version, ids of its parents → id
        self.smallest = SMALL_CHANGE if lineage.count > MANY_VERSIONS else 0.0  # change that is followed
        self.memory = Vectors(width, dtype)
        self.memory.append(1)[:] = 0.0
        self.written = Vectors(1, np.float64)  # by id: when
        self.written.append(1)[:] = 0.0
        self.usual = np.full(len(lineage.index), -1)  # [V] id of the version with nothing otherwise, once it is read
        self.usual[0] = 0
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
        return self.lineage.count * self.model.weights.sizes.dimension

    @property
    def values(self) -> FloatArray:
        return self.memory.values if self.features is None else self.sums.values

    def follow(self, masks: Masks) -> None:
        """Compute the versions that these changes of the past change: forward in time, until the changes have faded."""
        lineage = self.lineage
        waiting = np.zeros((len(lineage.index), len(masks)), dtype=bool)  # [V, n] what a change may have reached
        waiting[lineage.first_affected(masks)] = True
        for level in lineage.levels:
            place, change = np.nonzero(waiting[level])
            if not len(place):
                continue
            check_deadline()
            versions = level[place]
            asked = self.versions.find(versions, masks[change] & lineage.parents[versions])
            changed = self.versions.add(asked, self._settle(asked.nodes, asked.masks)) != UNCHANGED
            children, whose = lineage.children.of(versions[changed])
            waiting[children, change[changed][whose]] = True

    def _settle(self, versions: IntArray, masks: Masks) -> IntArray:
        """What versions are under masks. Whatever of their parents changes is known. [m], [m, w] → [m] ids"""
        lineage, made_of = self.lineage, self.made_of
        twice = np.concatenate([masks, masks])
        parents = lineage.kept(np.concatenate([lineage.own[versions], lineage.other[versions]]), twice)
        own_ids, other_ids = self._ids(parents, twice).reshape(2, -1)
        own, other = parents.reshape(2, -1)
        usual = (own == lineage.usual_own[versions]) & (other == lineage.usual_other[versions])
        usual &= (own_ids == self.usual[own]) & (other_ids == self.usual[other]) & ~lineage.imagined[versions]
        contents = list(zip(*(column[~usual].tolist() for column in (versions, own_ids, other_ids)), strict=True))
        unknown = [content for content in dict.fromkeys(contents) if content not in made_of]
        if unknown:
            made_of.update(zip(unknown, self._compute(*np.array(unknown).T).tolist(), strict=True))
        ids = np.full(len(versions), UNCHANGED)
        ids[~usual] = [made_of[content] for content in contents]
        return ids

    def _ids(self, versions: IntArray, masks: Masks) -> IntArray:
        """Where the values of versions under masks stand. What no change has reached is as it was. [n], [n, w] → [n]"""
        ids = self.versions.find(versions, masks & self.lineage.parents[versions]).ids
        usual = ids <= UNCHANGED
        some = versions[usual]
        unread = np.unique(some[self.usual[some] < 0])
        if len(unread):
            index = self.lineage.index[unread]
            self.usual[unread] = self._append(unread, self.model.read_versions(index))
        ids[usual] = self.usual[some]
        return ids

    def _append(self, versions: IntArray, values: FloatArray) -> IntArray:
        """Remember the values of versions. [n], [n, d] → [n] their ids"""
        first, count = self.memory.length, len(versions)
        self.memory.append(count)[:] = values
        self.written.append(count)[:, 0] = self.model.graph.time[self.lineage.row[versions]]
        return np.arange(first, first + count)

    def _compute(self, versions: IntArray, own: IntArray, other: IntArray) -> IntArray:
        """New versions from the ids of their parents. [n] → [n] ids, or `UNCHANGED` where the old value is back"""
        graph, table = self.model.graph, self.model.table
        rows, index = self.lineage.row[versions], self.lineage.index[versions]
        elapsed = graph.time[rows] - self.written.values[own, 0]
        first, which = distinct(versions, elapsed.view(np.uint64)[:, None])  # what events add is mostly the same
        events = self.gates.events(self.model.weights.edge(graph, rows[first]), elapsed[first])
        values = self.gates.remember(own, other, events[which]).astype(table.dtype)  # as they stand in the table
        changed = self.lineage.imagined[versions]
        changed[~changed] = np.abs(values[~changed] - table.read(index[~changed])).max(axis=1) > self.smallest
        ids = np.full(len(versions), UNCHANGED)
        ids[changed] = self._append(versions[changed], values[changed])
        return ids

    def plan(self, nodes: IntArray, masks: Masks) -> MemoryPlan:
        asked = self.known.find(nodes, masks & self.depends[nodes])
        return MemoryPlan(asked, self.lineage.kept(self.lineage.latest[asked.nodes], asked.masks))

    def compute(self, plan: MemoryPlan) -> IntArray:
        memories = self._ids(plan.versions, plan.asked.masks)
        made = memories if self.features is None else self._sums(plan.asked.nodes, memories)
        return self.known.add(plan.asked, made)

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
        mine = self.own_parts.of(self.memory.values, own)  # [n, 4d]
        given = given + self.other_parts.of(self.memory.values, other)
        given += mine[:, : 3 * d]
        kept = mine[:, 3 * d :] + self.maps.kept_bias
        return gated(self.memory.values[own], given[:, : 2 * d], given[:, 2 * d :], kept)


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
