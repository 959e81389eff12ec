"""The fast TGN: the memory of each node under any change, from the table of all versions.

`lineage.py` says which versions a change may concern; all others stand in the table. `pure.py` and `compiled.py` are
two forms of computing those, with the same values up to rounding; `memory.py` keeps what they compute.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from cody.engine.compiled import CompiledFollow, library
from cody.engine.fast import FastModel, Inputs, KnownVectors, VectorRequest
from cody.engine.lineage import Lineage
from cody.engine.masks import EditableEvents, Masks
from cody.engine.memory import GateMaps, Gates, MemoryStore
from cody.engine.pure import PureFollow
from cody.engine.replay import MemoryState, Replay
from cody.engine.vectors import NearDuplicates, Vectors
from cody.engine.versions import VersionTable, Watch, index_of, latest_event, open_versions, versions_in_memory
from cody.graph import FloatArray, IntArray, Query, TemporalGraph, sorted_unique
from cody.models.contract import Change

MANY_VERSIONS = 500  # that changes may concern: then memories are taken for the same if they differ by less than …
SMALL_CHANGE = 1e-4  # … this, in every number. How far that moves a logit is up to the weights: docs/engine.md
FINER = 10  # times: where that has moved a logit too far
FOLLOWED_AT_ONCE = 40_000_000  # versions times changes: that takes 0.2 GB, besides what is remembered


class MemoryPlan(NamedTuple):
    """The inputs that are requested, and the versions of which those are made that are not there yet."""

    request: VectorRequest
    versions: IntArray  # [m]
    change: IntArray  # [m] under which of the changes; -1 where nothing is changed


class MemoryInputs:
    """Memory plus features of each node, for any change of the editable events."""

    def __init__(self, model: FastTGN, lineage: Lineage, features: FloatArray | None, *, small: float) -> None:
        self.model = model
        self.features = features  # [nodes, d]
        self.lineage = lineage
        self.small = small  # values that differ by no more than this in every number are taken for the same
        self.depends: Masks = lineage.memory[lineage.latest]
        width = model.weights.sizes.dimension
        self.known = KnownVectors(len(lineage.latest))
        self.changes: Masks = np.zeros((0, lineage.universe.words), dtype=np.uint64)  # that answers are about
        self.store = MemoryStore(model, lineage)
        self.sum_ids: dict[tuple[int, int], int] = {}  # node and slot of its memory → id
        self.sums = Vectors(width, model.weights.dtype)
        gates = Gates(model.rough_gates if small else model.gates, self.store.vectors)
        duplicates = NearDuplicates(width, small) if small else None
        loaded = library()
        self.following: PureFollow | CompiledFollow = (
            PureFollow(model, self.store, gates, duplicates)
            if loaded is None
            else CompiledFollow(loaded, model, self.store, gates, duplicates)
        )

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

    def plan(self, nodes: IntArray, masks: Masks, change: IntArray) -> MemoryPlan:
        request = self.known.find(nodes, masks & self.depends[nodes])
        latest, which = self.lineage.latest[request.nodes], np.arange(len(request.nodes))
        versions = self.lineage.kept(latest, request.masks, which)
        return MemoryPlan(request, versions, np.where(request.masks.any(axis=1), change[request.places], -1))

    def compute(self, plan: MemoryPlan) -> IntArray:
        slots = self.store.slots(self._follow(plan.versions, plan.change))
        return self.known.add(plan.request, self._sums(plan.request.nodes, slots))

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
        pairs = list(zip(nodes.tolist(), slots.tolist(), strict=True))
        new = [pair for pair in dict.fromkeys(pairs) if pair not in self.sum_ids]
        if new:
            first = self.sums.length
            node, slot = np.array(new).T
            sums = self.sums.append(len(new))
            sums[:] = self.store.vectors.values[slot]
            if self.features is not None:
                sums += self.features[node]
            self.sum_ids.update(zip(new, range(first, first + len(new)), strict=True))
        return np.array([self.sum_ids[pair] for pair in pairs], dtype=np.int64)


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
        lineage = Lineage.of(self.graph, self.weights.sizes.batch, query, universe, nodes)
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
        """The versions with nothing changed. [n] → [n, d]"""
        return self.table.read(index).astype(self.weights.dtype)
