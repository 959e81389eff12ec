"""Values of memories, and the gates that make new ones of them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from cody.engine.lineage import Lineage
from cody.engine.vectors import Products, Vectors
from cody.engine.weights import Weights, gated
from cody.graph import FloatArray, IntArray, sorted_unique

if TYPE_CHECKING:
    from cody.engine.tgn import FastTGN


class MemoryStore:
    """The values of memories that a query has needed so far, and when each was written.

    A value is known by a number. The first V are those that the versions of the lineage have with nothing changed, in
    the order of the lineage: value v is what the table has for version v, read when it is first used. V + s is the
    value in slot s, which a change has made. So a version is unchanged where its value has the number of the version.
    """

    def __init__(self, model: FastTGN, lineage: Lineage) -> None:
        self.model, self.lineage = model, lineage
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
            self.unchanged_slot[unread] = self.append(unread, self.model.read_versions(self.lineage.index[unread]))
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
        self.written.append(count)[:, 0] = self.model.graph.time[self.lineage.row[versions]]
        return np.arange(first, first + count)


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

    def __init__(self, maps: GateMaps, memories: Vectors) -> None:
        self.maps, self.weights, self.memories = maps, maps.weights, memories
        self.own_parts, self.other_parts = Products(maps.own), Products(maps.other)

    def events(self, edge: FloatArray | None, elapsed: FloatArray) -> FloatArray:
        """What events add to the gates. [n, F], [n] → [n, 3d]"""
        event = self.weights.encode(elapsed.astype(self.weights.dtype))
        if edge is not None:
            event = np.concatenate([edge, event], axis=-1)
        added: FloatArray = event @ self.maps.event + self.maps.bias
        return added

    def remember(self, own: IntArray, other: IntArray, given: FloatArray) -> FloatArray:
        """The next memory of nodes. [n] slots of memories, [n, 3d] what the events add → [n, d]"""
        d = self.weights.sizes.dimension
        dtype = self.maps.own.dtype
        mine = self.own_parts.of(self.memories.values, own)  # [n, 4d]
        given = given + self.other_parts.of(self.memories.values, other)
        given += mine[:, : 3 * d]
        kept = mine[:, 3 * d :] + self.maps.kept_bias
        return gated(self.memories.values[own].astype(dtype), given[:, : 2 * d], given[:, 2 * d :], kept)
