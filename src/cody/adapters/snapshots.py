"""Saved states of a model at lines of its batch grid, within a memory budget."""

from __future__ import annotations

import bisect
import sys
from typing import Any


class Snapshots:
    """Saved states by row, at most `most` bytes: if there is no room, every second one is dropped."""

    def __init__(self, most: int) -> None:
        self.most = most
        self.size = 0  # bytes
        self.stride = 1  # between lines to save
        self._lines: list[int] = []  # sorted
        self._saved: dict[int, Any] = {}

    def __contains__(self, line: int) -> bool:
        return line in self._saved

    def wants(self, number: int, line: int) -> bool:
        """Whether the state at the line with this number should be saved."""
        return number > 0 and number % self.stride == 0 and line not in self._saved

    def last(self, row: int) -> tuple[int, Any]:
        """The last line at or before `row` with a saved state, and that state; row 0 and None if there is none."""
        line = self.last_line(row)
        return line, self._saved.get(line)

    def last_line(self, row: int) -> int:
        place = bisect.bisect_right(self._lines, row)
        return self._lines[place - 1] if place else 0

    def keep(self, line: int, saved: Any) -> None:
        """Save a state, dropping others if necessary."""
        size = size_of(saved)
        while self._lines and self.size + size > self.most:
            self.stride *= 2
            for dropped in self._lines[::2]:
                self.size -= size_of(self._saved.pop(dropped))
            self._lines = self._lines[1::2]
        if size <= self.most:
            self._saved[line] = saved
            bisect.insort(self._lines, line)
            self.size += size


def size_of(saved: Any) -> int:
    """The approximate size of a state in bytes.

    >>> import numpy as np
    >>> size_of({"memory": np.zeros((10, 10)), "rest": [np.zeros(5)]}) >= 840
    True
    """
    size = getattr(saved, "nbytes", None)
    if isinstance(size, int):
        return size
    parts = saved.values() if isinstance(saved, dict) else saved if isinstance(saved, list | tuple) else ()
    return sys.getsizeof(saved) + sum(map(size_of, parts))
