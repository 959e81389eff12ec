"""Tables that grow while a session lasts: vectors, their products with a matrix, which of them are nearly the same, and
rows of integers, numbered as they come.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from cody.engine.library import address, check_count, contiguous, library
from cody.engine.masks import Masks
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


class Matrix:
    """A matrix that vectors are multiplied with, and what is added to each product.

    The compiled library multiplies a few vectors several times as fast as numpy, which prepares the matrix anew for
    each call. There, a product does not depend on which others are computed with it.

    Args:
        array: The matrix. [depth, width]
        added: What is added; None: nothing. [width]
    """

    def __init__(self, array: FloatArray, added: FloatArray | None = None) -> None:
        self.array = contiguous(array)
        self.added = np.zeros(array.shape[1], array.dtype) if added is None else contiguous(added)
        self._library: Any = None
        self._handle: int | None = None

    def __reduce__(self) -> tuple[Any, ...]:
        return Matrix, (self.array, self.added)

    def __del__(self) -> None:
        if self._handle:
            self._library.matrix_close(self._handle)

    @property
    def dtype(self) -> np.dtype[Any]:
        return self.array.dtype

    @property
    def width(self) -> int:
        """Of the products."""
        return int(self.array.shape[1])

    def handle(self, loaded: Any) -> int:
        """The matrix as the library has it."""
        if self._handle is None:
            numbers = map(address, (self.array, self.added))
            handle = loaded.matrix_open(*self.array.shape, self.dtype.itemsize, *numbers)
            if not handle:
                raise MemoryError
            self._library, self._handle = loaded, handle
        return self._handle

    def times(self, table: FloatArray, ids: IntArray | None = None, out: FloatArray | None = None) -> FloatArray:
        """The products of the vectors `ids` of a table, or of all of them. [≥ ids, depth], [n] → [n, width]"""
        loaded = library()
        if loaded is None:
            values = (table if ids is None else table[ids]).astype(self.dtype, copy=False)
            out = np.matmul(values, self.array, out=out)
            out += self.added
            return out
        if table.dtype != self.dtype:
            table, ids = (table if ids is None else table[ids]).astype(self.dtype), None
        table, ids = contiguous(table), None if ids is None else contiguous(ids)
        count = len(table) if ids is None else len(ids)
        out = np.empty((count, self.width), self.dtype) if out is None else out
        arrays = address(table), None if ids is None else address(ids), table.shape[1], address(out)
        loaded.matrix_multiply(self.handle(loaded), self.dtype.itemsize, count, *arrays, out.strides[0] // out.itemsize)
        return out


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


class PureRows:
    """The rows that were seen so far, each with its number: 0, 1, 2, … in the order in which they came.

    >>> rows = PureRows()
    >>> rows.find(np.array([[4, 4], [7, 1], [4, 4]]))
    (array([0, 1, 0]), array([0, 1]))
    >>> rows.find(np.array([[7, 1], [9, 9]]))
    (array([1, 2]), array([1]))
    """

    def __init__(self) -> None:
        self.numbers: dict[bytes, int] = {}

    def find(self, rows: IntArray) -> tuple[IntArray, IntArray]:
        """The numbers of rows, and the places where new ones stand first. [n, width] → [n], [m]"""
        content, width, known = rows.tobytes(), rows.shape[1] * rows.itemsize, self.numbers
        before = len(known)
        keys = (content[start : start + width] for start in range(0, len(content), width))
        numbers = np.array([known.setdefault(key, len(known)) for key in keys], dtype=np.int64)
        _, first = np.unique(numbers, return_index=True)
        return numbers, first[np.searchsorted(numbers[first], before) :]

    def find_masked(self, nodes: IntArray, masks: Masks, depends: Masks) -> tuple[IntArray, IntArray]:
        """The same of nodes with the part of their masks that each depends on. [n], [n, w], [nodes, w] → [n], [m]"""
        masks = masks & depends[nodes]
        return self.find(np.concatenate([nodes[:, None], masks.view(np.int64)], axis=1))


class CompiledRows:
    """The same, by the compiled library."""

    def __init__(self, loaded: Any, width: int) -> None:
        self.library, self.width = loaded, width
        self.handle = loaded.rows_open(width)
        if not self.handle:
            raise MemoryError

    def __del__(self) -> None:
        if getattr(self, "handle", None):
            self.library.rows_close(self.handle)

    def find(self, rows: IntArray) -> tuple[IntArray, IntArray]:
        """The numbers of rows, and the places where new ones stand first. [n, width] → [n], [m]"""
        rows = contiguous(rows)
        numbers, new = np.empty((2, len(rows)), dtype=np.int64)
        found = self.library.rows_find(self.handle, len(rows), *map(address, (rows, numbers, new)))
        return numbers, new[: check_count(found)]

    def find_masked(self, nodes: IntArray, masks: Masks, depends: Masks) -> tuple[IntArray, IntArray]:
        """The same of nodes with the part of their masks that each depends on. [n], [n, w], [nodes, w] → [n], [m]"""
        nodes, masks, (numbers, new) = contiguous(nodes), contiguous(masks), np.empty((2, len(nodes)), dtype=np.int64)
        arrays = nodes, masks, contiguous(depends), np.empty(self.width), numbers, new
        found = self.library.layer_find(self.handle, len(nodes), self.width - 1, *map(address, arrays))
        return numbers, new[: check_count(found)]

    def all(self) -> IntArray:
        """The rows, in the order of their numbers. [count, width]"""
        content = np.empty((self.library.rows_all(self.handle, None), self.width), dtype=np.int64)
        self.library.rows_all(self.handle, address(content))
        return content


def numbered_rows(width: int) -> PureRows | CompiledRows:
    """An empty collection of rows of 8-byte integers."""
    loaded = library()
    return PureRows() if loaded is None else CompiledRows(loaded, width)
