"""Tables of vectors that grow while a session lasts, and which of their vectors are nearly the same."""

from __future__ import annotations

from typing import Any

import numpy as np

from cody.engine.products import Matrix
from cody.graph import BoolArray, FloatArray, IntArray, sorted_unique

PRODUCTS_KEPT = 4096  # of one matrix: more would cost more memory than they save time


class Vectors:
    """A table of vectors that only grows."""

    def __init__(self, width: int, dtype: Any) -> None:
        self.values = np.zeros((64, width), dtype=dtype)  # [≥ length, width] there is always a first, of numbers
        self.length = 0

    @property
    def size(self) -> int:
        """How many numbers it holds."""
        return self.length * int(self.values.shape[1])

    def append(self, count: int) -> FloatArray:
        """Room for more vectors, to be filled in."""
        self.reserve(count)
        self.length += count
        return self.values[self.length - count : self.length]

    def reserve(self, count: int) -> None:
        """Make room for more vectors, which are not there yet."""
        stop = self.length + count
        if stop > len(self.values):  # by far: room that is not used takes no memory, and copying takes it twice
            grown = np.empty((max(stop, 4 * len(self.values)), self.values.shape[1]), dtype=self.values.dtype)
            grown[: self.length] = self.values[: self.length]
            self.values = grown


class Products:
    """Vectors of a table that only grows, times a matrix. The latest are remembered, up to `PRODUCTS_KEPT`."""

    def __init__(self, matrix: Matrix) -> None:
        self.matrix = matrix
        self.slot = np.full(64, -1)  # by id of the vector: where its product stands
        self.vectors = Vectors(matrix.width, matrix.dtype)

    def of(self, values: FloatArray, ids: IntArray) -> FloatArray:
        """The products of the vectors `ids` of `values`. [n] → [n, width]"""
        slots = self.slots(values, ids)  # first: the table may move
        return self.vectors.values.take(slots, axis=0, mode="clip")

    def slots(self, values: FloatArray, ids: IntArray) -> IntArray:
        """Where these products stand in `vectors`, until others are computed. [n] → [n]"""
        self.know(len(values))
        slots = self.slot[ids]
        if (slots < 0).any():
            self.reserve(len(ids))
            new = sorted_unique(ids[self.slot[ids] < 0])
            self.slot[new] = self.vectors.length + np.arange(len(new))
            self.matrix.times(values, new, out=self.vectors.append(len(new)))
            slots = self.slot[ids]
        return slots

    def know(self, values: int) -> None:
        """The table has so many vectors now."""
        if len(self.slot) < values:
            self.slot = np.concatenate([self.slot, np.full(values - len(self.slot), -1)])

    def reserve(self, count: int) -> None:
        """Make room for so many more products; where they are too many, the others are forgotten."""
        if self.vectors.length + count > PRODUCTS_KEPT:
            self.slot[:] = -1
            self.vectors.length = 0
        self.vectors.reserve(count)


class NearDuplicates:
    """Values that versions have got, to find those that differ by so little that they can be taken for the same.

    Each value is a point on a line, where those of a version stand together and similar ones side by side. So only
    neighbours on that line are compared: some that are alike are missed, which costs time, not exactness.
    """

    def __init__(self, width: int, most: float) -> None:
        self.most = most  # that two values may differ in any number
        signs = np.random.default_rng(0).choice([-1.0, 1.0], width)
        # Numbers of a memory are at most 1, so points of two versions are at least 0.02 apart, far more than `most`.
        self.direction = 0.49 * signs / width
        self.points: FloatArray = np.zeros(0)  # ascending
        self.ids: IntArray = np.zeros(0, dtype=np.int64)  # of the value at each point
        self.fresh: list[tuple[FloatArray, IntArray]] = []  # what has been added since it was sorted

    def add(self, versions: IntArray, values: FloatArray, ids: IntArray) -> None:
        self.fresh.append((self._points(versions, values), ids))

    def sort(self) -> None:
        """Let what was added be found from now on."""
        if self.fresh:
            points, ids = (np.concatenate(column) for column in zip((self.points, self.ids), *self.fresh, strict=True))
            order = np.argsort(points, kind="stable")
            self.points, self.ids, self.fresh = points[order], ids[order], []

    def find(self, versions: IntArray, values: FloatArray, memory: FloatArray) -> IntArray:
        """For each value the id of one that is nearly the same, or -1. [n], [n, d], [≥ ids, d] → [n]"""
        points, ids = self._points(versions, values), np.full(len(versions), -1)
        if len(self.points):
            right = np.searchsorted(self.points, points)
            for place in (right - 1, right):  # the neighbours on the line
                place = np.clip(place, 0, len(self.points) - 1)
                near = np.abs(self.points[place] - points) <= self.most
                near[near] = self._close(memory[self.ids[place[near]]], values[near])
                ids[near] = self.ids[place[near]]
        return ids

    def first_of_each(self, versions: IntArray, values: FloatArray) -> IntArray:
        """Which of these values, the first that is nearly the same, can stand for each. [n], [n, d] → [n]"""
        points, along = self._points(versions, values), np.arange(len(versions))
        order = np.argsort(points, kind="stable")
        points, values = points[order], values[order]
        begins = np.ones(len(order), dtype=bool)  # of a run in which each value is close to the one before it
        begins[1:] = (np.diff(points) > self.most) | ~self._close(values[1:], values[:-1])
        head = np.maximum.accumulate(np.where(begins, along, 0))
        head = np.where(self._close(values[head], values), head, along)  # a long run may lead away from its head
        first = np.empty_like(order)
        first[order] = order[head]
        return first

    def _points(self, versions: IntArray, values: FloatArray) -> FloatArray:
        return versions + 0.5 + values @ self.direction

    def _close(self, one: FloatArray, other: FloatArray) -> BoolArray:
        return np.abs(one - other).max(axis=1, initial=0.0) <= self.most
