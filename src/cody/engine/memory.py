"""Values of memories, the gates that make new ones of them, and following changes through versions, in numpy.

`follow.c` follows them too (`compiled.py`), where the installation has built it and CODY_PURE=1 is not in the
environment.
"""

from __future__ import annotations

from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from cody.engine.lineage import Lineage
from cody.engine.masks import Masks
from cody.engine.vectors import Matrix, NearDuplicates, Products, PureRows, Vectors
from cody.engine.weights import gated
from cody.graph import BoolArray, FloatArray, IntArray, TemporalGraph, sorted_unique
from cody.models.sizes import Sizes
from cody.utils.deadline import check_deadline


class MemoryWeights(Protocol):
    """The weights of a memory: those of a GRU (`memory.…`), and what else makes its messages; see `Weights`."""

    @property
    def sizes(self) -> Sizes: ...
    @property
    def dtype(self) -> np.dtype[Any]: ...
    def __getitem__(self, name: str) -> NDArray[Any]: ...
    @property
    def encoder(self) -> tuple[NDArray[Any], NDArray[Any]] | None:
        """Frequencies and phases of the time encoding, if it is our own in single precision."""

    def edge(self, graph: TemporalGraph, rows: IntArray) -> FloatArray | None: ...
    def encode_into(self, elapsed: FloatArray, out: FloatArray) -> None: ...


class ReadsVersions(Protocol):
    """The versions of memories with nothing changed; see `VersionTable`, which is one."""

    dtype: np.dtype[Any]

    def read(self, index: IntArray) -> FloatArray: ...
    def part(self, index: IntArray) -> tuple[RowsOfWords, IntArray]: ...


class RowsOfWords(Protocol):
    """Versions side by side, each with its checksum, as the compiled form reads them."""

    dtype: np.dtype[Any]
    words: NDArray[np.uint32]
    key: np.uint64

    def read(self, index: IntArray) -> FloatArray: ...


class UsualVersions(NamedTuple):
    """The versions of a lineage with nothing changed: rows of words, and where each stands in them."""

    rows: RowsOfWords
    places: IntArray  # [V]

    def read(self, versions: IntArray) -> FloatArray:
        """Versions by their place in the lineage. [n] → [n, d]"""
        return self.rows.read(self.places[versions])


class VersionedMemory(Protocol):
    """A memory whose versions can be followed: that of our own TGN, or of another library's with the same GRU."""

    @property
    def graph(self) -> TemporalGraph: ...
    @property
    def times(self) -> NDArray[Any]:
        """The time of each row, as the memory counts it. [rows]"""

    @property
    def weights(self) -> MemoryWeights: ...
    @property
    def gates(self) -> GateMaps: ...
    @property
    def rough_gates(self) -> GateMaps: ...
    @property
    def table(self) -> ReadsVersions: ...


class MemoryStore:
    """The values of memories that a query has needed so far, and when each was written.

    A value is known by a number. The first V are those that the versions of the lineage have with nothing changed, in
    the order of the lineage: value v is what the table has for version v, read when it is first used. V + s is the
    value in slot s, which a change has made. So a version is unchanged where its value has the number of the version.
    """

    def __init__(self, model: VersionedMemory, lineage: Lineage, usual: UsualVersions) -> None:
        self.model, self.lineage, self.usual = model, lineage, usual
        self.versions = len(lineage.index)  # V
        self.vectors = Vectors(model.weights.sizes.dimension, model.table.dtype)  # by slot; as precise as the table
        self.written = Vectors(1, np.float64)  # by slot: the time of the event that wrote it
        self.unchanged_slot = np.full(self.versions, -1)  # [V] of the unchanged value, once it is read
        self.unchanged_slot[0] = 0  # before the first event of a node, its memory is zero
        self.vectors.append(1)[:] = 0.0
        self.written.append(1)[:] = 0.0

    def slots(self, values: IntArray) -> IntArray:
        """Where these values stand; those of the table are read. [n] → [n]"""
        unchanged = values < self.versions
        versions = values[unchanged]
        unread = sorted_unique(versions[self.unchanged_slot[versions] < 0])
        if len(unread):
            self.unchanged_slot[unread] = self.append(unread, self.usual.read(unread))
        slots = values - self.versions
        slots[unchanged] = self.unchanged_slot[versions]
        return slots

    def values(self, slots: IntArray) -> IntArray:
        """The numbers of values that changes have made. [n] → [n]"""
        return self.versions + slots

    def append(self, versions: IntArray, vectors: FloatArray) -> IntArray:
        """Keep the values of versions. [n], [n, d] → [n] their slots"""
        first, count = self.vectors.length, len(versions)
        self.vectors.append(count)[:] = vectors
        self.written.append(count)[:, 0] = self.model.times[self.lineage.row[versions]]
        return np.arange(first, first + count)


class GateMaps:
    """The matrices of the gates, in the order in which they are used."""

    def __init__(self, weights: MemoryWeights) -> None:
        self.weights = weights
        d = weights.sizes.dimension
        given, kept = weights["memory.weight_ih"].T, weights["memory.weight_hh"].T  # [3d + F, 3d], [d, 3d]
        # Both add up for the first two gates; the third needs them apart. [d, 4d]
        own = np.concatenate([given[:d, : 2 * d] + kept[:, : 2 * d], given[:d, 2 * d :], kept[:, 2 * d :]], axis=1)
        bias, kept_bias = weights["memory.bias_ih"], weights["memory.bias_hh"]
        bias = np.concatenate([bias[: 2 * d] + kept_bias[: 2 * d], bias[2 * d :]])  # [3d]
        self.own, self.other = Matrix(own), Matrix(given[d : 2 * d])  # [d, 4d], [d, 3d]
        self.event = Matrix(given[2 * d :], bias)  # [F + d, 3d]
        self.kept_bias = kept_bias[2 * d :]  # [d]


class Gates:
    """What `Weights.remember` computes, with the products of memories and weights taken once for each memory."""

    def __init__(self, maps: GateMaps, memories: Vectors) -> None:
        self.maps, self.weights, self.memories = maps, maps.weights, memories
        self.own_parts, self.other_parts = Products(maps.own), Products(maps.other)

    def events(self, edge: FloatArray | None, elapsed: FloatArray) -> FloatArray:
        """What events add to the gates. [n, F], [n] → [n, 3d]"""
        width = 0 if edge is None else edge.shape[1]
        event = np.empty((len(elapsed), len(self.maps.event.array)), dtype=self.weights.dtype)
        if edge is not None:
            event[:, :width] = edge
        self.weights.encode_into(elapsed, event[:, width:])
        return self.maps.event.times(event)

    def remember(self, own: IntArray, other: IntArray, given: FloatArray) -> FloatArray:
        """The next memory of nodes. [n] slots of memories, [n, 3d] what the events add → [n, d]"""
        d = self.weights.sizes.dimension
        dtype = self.maps.own.dtype
        mine = self.own_parts.of(self.memories.values, own)  # [n, 4d]
        given = given + self.other_parts.of(self.memories.values, other)
        given += mine[:, : 3 * d]
        kept = mine[:, 3 * d :] + self.maps.kept_bias
        return gated(self.memories.values[own].astype(dtype), given[:, : 2 * d], given[:, 2 * d :], kept)


class PureFollow:
    """Which memories change, and what they become, computed forward in time until the changes have faded.

    Args:
        store: where values are kept, with the model that they are of.
        gates: what computes them.
        duplicates: values that are nearly the same are taken for the same; None: only equal ones.
    """

    def __init__(self, store: MemoryStore, gates: Gates, duplicates: NearDuplicates | None) -> None:
        self.model, self.lineage = store.model, store.lineage
        self.store, self.gates, self.duplicates = store, gates, duplicates
        self.made_of: dict[tuple[int, int, int], int] = {}  # version and the values of its parents → its value

    def follow(self, masks: Masks, versions: IntArray, change: IntArray) -> IntArray:
        """The values of versions, each under one of the changes. [n, w], [m], [m] → [m]"""
        lineage, needed = self.lineage, self._needed(masks, versions, change)
        reached = np.zeros(needed.shape, dtype=bool)  # [V, n] what a change may concern, as far as is known
        reached[lineage.first_affected(masks)] = True
        values = np.empty(needed.shape, dtype=np.int32)  # [V, n] of each version under each change
        values[:] = np.arange(len(values))[:, None]  # unchanged
        for level in lineage.levels:
            place, which = np.nonzero(reached[level] & needed[level])
            if not len(place):
                continue
            check_deadline()
            some = level[place]
            found = self._find(some, masks, which, values)
            changed = found != some
            some, which = some[changed], which[changed]
            values[some, which] = found[changed]
            children, whose = lineage.children.of(some)
            reached[children, which[whose]] = True
        if self.duplicates is not None:
            self.duplicates.sort()
        return values[versions, change].astype(np.int64)

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

    def _find(self, versions: IntArray, masks: Masks, change: IntArray, values: IntArray) -> IntArray:
        """The values of versions under changes, given those of their parents. [m], [n, w], [m], [V, n] → [m]"""
        lineage = self.lineage
        twice = np.concatenate([change, change])
        parents = lineage.kept(np.concatenate([lineage.own[versions], lineage.other[versions]]), masks, twice)
        own, other = values[parents, twice].astype(np.int64).reshape(2, -1)
        compute = (own != lineage.usual_own[versions]) | (other != lineage.usual_other[versions])
        compute |= lineage.imagined[versions]  # the table has none of them
        found = versions.copy()
        found[compute] = self._made_of(versions[compute], own[compute], other[compute])
        return found

    def _made_of(self, versions: IntArray, own: IntArray, other: IntArray) -> IntArray:
        """The values of versions whose parents have these values; equal ones are computed once. [m] → [m]"""
        made_of = self.made_of
        contents = list(zip(versions.tolist(), own.tolist(), other.tolist(), strict=True))
        unknown = [content for content in dict.fromkeys(contents) if content not in made_of]
        if unknown:
            made_of.update(zip(unknown, self._compute(*np.array(unknown).T).tolist(), strict=True))
        return np.array([made_of[content] for content in contents], dtype=np.int64)

    def _compute(self, versions: IntArray, own: IntArray, other: IntArray) -> IntArray:
        """The values of versions from those of their parents; the version itself where it is unchanged. [n] → [n]"""
        graph, usual, lineage = self.model.graph, self.store.usual, self.lineage
        own, other = self.store.slots(np.concatenate([own, other])).reshape(2, -1)
        rows = lineage.row[versions]
        elapsed = self.model.times[rows] - self.store.written.values[own, 0]
        which, first = PureRows().find(np.stack([versions, elapsed.view(np.int64)], axis=1))  # most add the same
        events = self.gates.events(self.gates.weights.edge(graph, lineage.message[versions[first]]), elapsed[first])
        vectors = self.gates.remember(own, other, events[which]).astype(usual.rows.dtype)  # as they stand in the table
        changed = lineage.imagined[versions]
        smallest = 0.0 if self.duplicates is None else self.duplicates.most
        changed[~changed] = np.abs(vectors[~changed] - usual.read(versions[~changed])).max(axis=1) > smallest
        values = versions.copy()
        values[changed] = self.store.values(self._keep(versions[changed], vectors[changed]))
        return values

    def _keep(self, versions: IntArray, vectors: FloatArray) -> IntArray:
        """Keep the values of versions, of near duplicates only the first. [n], [n, d] → [n] their slots"""
        if self.duplicates is None:
            return self.store.append(versions, vectors)
        slots = self.duplicates.find(versions, vectors, self.store.vectors.values)
        missing = np.flatnonzero(slots < 0)
        first = missing[self.duplicates.first_of_each(versions[missing], vectors[missing])]
        new = missing[first == missing]
        slots[new] = self.store.append(versions[new], vectors[new])
        self.duplicates.add(versions[new], vectors[new], slots[new])
        slots[missing] = slots[first]
        return slots
