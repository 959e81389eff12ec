"""The fast TGN: the memory of each node under any change, from the table of all versions.

`lineage.py` says which versions a change may concern; all others stand in the table. `memory.py` keeps the values of
those, and computes them in numpy; `compiled.py` does that too, with the same values up to rounding.
"""

from __future__ import annotations

import copy
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from cody.engine.checkpoints import open_memory_table
from cody.engine.compiled import CompiledFollow, EventParts
from cody.engine.fast import FastModel, Inputs
from cody.engine.layer import KnownVectors, VectorRequest
from cody.engine.library import library
from cody.engine.lineage import Lineage
from cody.engine.links import MemoryWithout
from cody.engine.masks import EditableEvents, Masks
from cody.engine.memory import GateMaps, Gates, MemoryStore, PureFollow, UsualVersions, VersionedMemory
from cody.engine.replay import MemoryState, Replay
from cody.engine.short import ShortReplay
from cody.engine.vectors import NearDuplicates, Vectors, numbered_rows
from cody.engine.versions import Watch, memory_before
from cody.graph import BoolArray, FloatArray, IntArray, Query, TemporalGraph
from cody.graph.grid import Grid
from cody.models.contract import Change

MANY_VERSIONS = 500  # that changes may concern: then memories are taken for the same if they differ by less than …
SMALL_CHANGE = 1e-4  # … this, in every number. How far that moves a logit is up to the weights: docs/engine.md
FINER = 10  # times: where that has moved a logit too far
FOLLOWED_AT_ONCE = 40_000_000  # versions times changes: that takes 0.2 GB, besides what is remembered
MEMORIES_KEPT = 12_000_000  # numbers of memories that changes have made: 50 MB, before they are forgotten


class MemoryPlan(NamedTuple):
    """The inputs that are requested, and the versions of which those are made that are not there yet."""

    request: VectorRequest
    versions: IntArray  # [m]
    change: IntArray  # [m] under which of the changes; -1 where nothing is changed


class MemoryInputs:
    """Memory plus features of each node, for any change of the editable events."""

    def __init__(self, model: VersionedMemory, lineage: Lineage, features: FloatArray | None, *, small: float) -> None:
        self.model, self.lineage = model, lineage
        self.features = features  # [nodes, d]
        self.small = small  # values that differ by no more than this in every number are taken for the same
        self.usual = UsualVersions(*model.table.part(lineage.index))
        self.events: EventParts | None = None
        self.depends: Masks = lineage.memory[lineage.latest]
        self._begin()

    def _begin(self) -> None:
        """Nothing is computed yet."""
        self.known = KnownVectors(self.depends)
        self.changes: Masks = np.zeros((0, self.lineage.editable.words), dtype=np.uint64)  # that answers are about
        self.sums = Vectors(self.model.weights.sizes.dimension, self.model.weights.dtype)
        self._forget()

    def _forget(self) -> None:
        """Begin with no memory computed. The sums stay: they are what the layers read."""
        model, small, width = self.model, self.small, self.sums.values.shape[1]
        self.summed = numbered_rows(2)  # node and slot of its memory → number of the sum
        self.first_sum = self.sums.length
        self.store = MemoryStore(model, self.lineage, self.usual)
        gates = Gates(self._gate_maps(), self.store.vectors)
        duplicates = NearDuplicates(width, small) if small else None
        loaded = library()
        self.following: PureFollow | CompiledFollow
        if loaded is None:
            self.following = PureFollow(self.store, gates, duplicates)
        else:
            if self.events is None or self.events.maps is not gates.maps:
                self.events = EventParts(loaded, model, gates.maps, self.lineage)
            self.following = CompiledFollow(loaded, self.store, gates, self.events, duplicates)

    def _gate_maps(self) -> GateMaps:
        """In single precision where much has to be computed, unless the table is in double precision and this is exact.

        Memories of a table in single precision are rounded to it, whatever the gates compute in.
        """
        model = self.model
        as_precise = self.small or model.rough_gates.own.dtype == model.table.dtype
        return model.rough_gates if self.lineage.count > MANY_VERSIONS and as_precise else model.gates

    @property
    def exact(self) -> bool:
        return not self.small

    def exactly(self) -> MemoryInputs:
        return self._with(small=0.0)

    def finer(self) -> MemoryInputs:
        return self._with(small=self.small / FINER)

    def _with(self, small: float) -> MemoryInputs:
        """The same inputs, none of them computed, with another approximation."""
        other = copy.copy(self)
        other.small = small
        other._begin()
        return other

    @property
    def size(self) -> int:
        """How many numbers are remembered; the products of the gates, bounded in number, do not count."""
        return self.store.vectors.size + self.sums.size

    @property
    def most(self) -> int:
        """How many numbers a change can add at most."""
        return self.lineage.count * self.model.weights.sizes.dimension

    @property
    def values(self) -> FloatArray:
        return self.sums.values

    def begin(self, changes: Masks) -> None:
        self.changes = changes
        if self.store.vectors.size > MEMORIES_KEPT:
            self._forget()

    def plan(self, nodes: IntArray, masks: Masks, change: IntArray) -> MemoryPlan:
        request = self.known.find(nodes, masks, change)
        new = request.new
        versions = self.lineage.kept_each(self.lineage.latest[new.nodes], new.masks)
        return MemoryPlan(request, versions, np.where(new.masks.any(axis=1), new.change, -1))

    def compute(self, plan: MemoryPlan) -> IntArray:
        slots = self.store.slots(self._follow(plan.versions, plan.change))
        return self.known.add(plan.request, self._sums(plan.request.new.nodes, slots))

    def _follow(self, versions: IntArray, change: IntArray) -> IntArray:
        """The values of versions, each under a change; where there are many, a few changes at a time. [m], [m] → [m]"""
        at_once = max(1, FOLLOWED_AT_ONCE // self.store.versions)
        values = versions.copy()
        for first in range(0, len(self.changes), at_once):
            some = (first <= change) & (change < first + at_once)
            if some.any():
                changes = self.changes[first : first + at_once]
                values[some] = self.following.follow(changes, versions[some], change[some] - first)
        return values

    def _sums(self, nodes: IntArray, slots: IntArray) -> IntArray:
        """Memories, and features where there are any, added. [n], [n] → [n] the ids of the sums"""
        numbers, new = self.summed.find(np.stack([nodes, slots], axis=1))
        sums = self.sums.append(len(new))
        sums[:] = self.store.vectors.values[slots[new]]
        if self.features is not None:
            sums += self.features[nodes[new]]
        return self.first_sum + numbers


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
        self.table = open_memory_table(self.weights, graph, kept, folder, watch)

    @property
    def times(self) -> FloatArray:
        return self.graph.time

    def inputs(self, query: Query, editable: EditableEvents, nodes: IntArray) -> Inputs:
        lineage = Lineage.of(self.graph, Grid(self.weights.sizes.batch), query, editable, nodes)
        features = None if self.features is None else self.features[nodes]
        return MemoryInputs(self, lineage, features, small=SMALL_CHANGE if lineage.count > MANY_VERSIONS else 0.0)

    def inputs_as_they_are(self, nodes: IntArray, before: IntArray) -> FloatArray:
        inputs, _ = self._unchanged(nodes, before)
        if self.features is not None:
            inputs += self.features[nodes]
        return inputs

    def inputs_without(self, without: TemporalGraph, removed: BoolArray) -> MemoryWithout:
        return MemoryWithout(self, without, removed)

    def reference_of_links(self, links: Sequence[Query], change: Change, *, full: bool = False) -> Replay:
        return self.replay if full else ShortReplay(self.replay, self._first_line(links[0], change), self._unchanged)

    def _first_line(self, query: Query, change: Change) -> int:
        """The grid line before the first edit."""
        outcome, batch = self.graph.difference(change, query), self.weights.sizes.batch
        edited = np.array([*outcome.absent, *outcome.present], dtype=np.int64)
        return int(self.graph.next_real(edited).min(initial=query.before)) // batch * batch

    def _unchanged(self, nodes: IntArray, before: IntArray | int) -> tuple[FloatArray, FloatArray]:
        """The memory of nodes with nothing changed, each before a row, and when it was last updated. → [n, d], [n]"""
        return memory_before(self.graph, nodes, before, self.read_versions)

    def state(self, line: int) -> MemoryState:
        """The memory of all nodes at a line of the batch grid, from the table."""
        return MemoryState(line, *self._unchanged(np.arange(self.graph.num_nodes), line))

    def read_versions(self, index: IntArray) -> FloatArray:
        """The versions with nothing changed. [n] → [n, d]"""
        return self.table.read(index).astype(self.weights.dtype)
