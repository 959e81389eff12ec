"""Products with a matrix that is used again and again."""

from __future__ import annotations

from typing import Any

import numpy as np

from cody.engine.library import address, contiguous, library
from cody.graph import FloatArray, IntArray


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
