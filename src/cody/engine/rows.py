"""Rows of integers, numbered as they come: what is made of the same parts is found again by its number."""

from __future__ import annotations

from typing import Any

import numpy as np

from cody.engine.library import address, check_count, contiguous, library
from cody.engine.masks import Masks
from cody.graph import IntArray


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
        return numbers, new[
            : check_count(self.library.rows_find(self.handle, len(rows), *map(address, (rows, numbers, new))))
        ]

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
