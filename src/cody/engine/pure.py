"""Following changes through versions, in numpy: which memories change, and what they become.

`follow.c` does the same (`compiled.py`), where the installation has built it and CODY_PURE=1 is not in the environment.
"""

from __future__ import annotations

import numpy as np

from cody.engine.masks import Masks
from cody.engine.memory import Gates, MemoryStore, VersionedMemory
from cody.engine.rows import PureRows
from cody.engine.vectors import NearDuplicates
from cody.graph import BoolArray, FloatArray, IntArray
from cody.utils.deadline import check_deadline


class PureFollow:
    """The values of versions under changes, computed forward in time until the changes have faded.

    Args:
        model: the model, with its log and its table.
        store: where values are kept.
        gates: what computes them.
        duplicates: values that are nearly the same are taken for the same; None: only equal ones.
    """

    def __init__(
        self, model: VersionedMemory, store: MemoryStore, gates: Gates, duplicates: NearDuplicates | None
    ) -> None:
        self.model, self.store, self.gates, self.duplicates = model, store, gates, duplicates
        self.lineage = store.lineage
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
