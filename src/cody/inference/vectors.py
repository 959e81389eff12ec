"""Tables of vectors that grow while a session lasts."""

from __future__ import annotations

from typing import Any

import numpy as np

from cody.graph import FloatArray, IntArray, ascending

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
        stop = self.length + count
        if stop > len(self.values):
            grown = np.empty((max(stop, 2 * len(self.values)), self.values.shape[1]), dtype=self.values.dtype)
            grown[: self.length] = self.values[: self.length]
            self.values = grown
        self.length = stop
        return self.values[stop - count : stop]


class Products:
    """Vectors of a table that only grows, times a matrix. The latest are remembered, up to `PRODUCTS_KEPT`."""

    def __init__(self, matrix: FloatArray, bias: FloatArray | float = 0.0) -> None:
        self.matrix, self.bias = matrix, bias
        self.slot = np.full(64, -1)  # by id of the vector: where its product stands
        self.vectors = Vectors(matrix.shape[1], matrix.dtype)

    def of(self, values: FloatArray, ids: IntArray) -> FloatArray:
        """The products of the vectors `ids` of `values`. [n] → [n, width]"""
        if len(self.slot) < len(values):
            self.slot = np.concatenate([self.slot, np.full(len(values) - len(self.slot), -1)])
        slots = self.slot[ids]
        if (slots < 0).any():
            if self.vectors.length + len(ids) > PRODUCTS_KEPT:
                self.slot[:] = -1
                self.vectors.length = 0
                slots[:] = -1
            new = ascending(ids[slots < 0])
            self.slot[new] = self.vectors.length + np.arange(len(new))
            products = self.vectors.append(len(new))
            np.matmul(values[new].astype(self.matrix.dtype, copy=False), self.matrix, out=products)
            products += self.bias
            slots = self.slot[ids]
        return self.vectors.values.take(slots, axis=0, mode="clip")
