"""The batch grid of a model: batches of a fixed number of rows, counted again where a loader starts again."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from typing import Any, TypeVar

import numpy as np

from cody.errors import CallError
from cody.graph.columns import IntArray, whole_number
from cody.graph.log import TemporalGraph

Rows = TypeVar("Rows", int, IntArray)


@dataclass(frozen=True)
class Grid:
    """Batches of `size` rows, counted again from each row in `splits`. They are numbered from 0.

    >>> grid = Grid(4, (10,))
    >>> [grid.first(number) for number in range(6)]
    [0, 4, 8, 10, 14, 18]
    >>> grid.number(np.array([0, 9, 10, 17])).tolist(), grid.line(13)
    ([0, 2, 3, 4], 10)
    """

    size: int
    splits: tuple[int, ...] = ()  # sorted, without 0

    @cached_property
    def _starts(self) -> IntArray:
        return np.array([0, *self.splits], dtype=np.int64)

    @cached_property
    def _numbers(self) -> IntArray:
        """The number of the first batch of each part."""
        batches = -(-np.diff(self._starts) // self.size)
        return np.concatenate([[0], np.cumsum(batches)]).astype(np.int64)

    def number(self, rows: Rows) -> Rows:
        """The number of the batch that each row belongs to."""
        if not self.splits:
            return rows // self.size
        part = np.searchsorted(self._starts, rows, side="right") - 1
        numbers: Any = self._numbers[part] + (rows - self._starts[part]) // self.size
        return numbers if np.ndim(numbers) else numbers.item()

    def first(self, number: Rows) -> Rows:
        """The first row of each batch."""
        if not self.splits:
            return number * self.size
        part = np.searchsorted(self._numbers, number, side="right") - 1
        rows: Any = self._starts[part] + (number - self._numbers[part]) * self.size
        return rows if np.ndim(rows) else rows.item()

    def line(self, rows: Rows) -> Rows:
        """The first row of the batch that each row belongs to."""
        return self.first(self.number(rows))

    def batches(self, stop: int) -> range:
        """The numbers of the batches that have rows before `stop`."""
        return range(self.number(stop - 1) + 1 if stop else 0)

    def rows(self, number: int, stop: int) -> IntArray:
        """The rows of a batch that come before `stop`."""
        return np.arange(self.first(number), min(self.first(number + 1), stop))


def make_grid(batch: int, splits: Iterable[int] = ()) -> Grid:
    """A grid from user input."""
    size = whole_number("batch", batch)
    if size < 1:
        raise CallError(f"batch must be at least 1, not {size}")
    try:
        rows = {whole_number("each of splits", row) for row in splits}
    except TypeError:
        raise CallError(f"splits must be rows of events, for example [24914, 30253], not {splits!r:.60}") from None
    if any(row < 0 for row in rows):
        raise CallError(f"splits must be rows of events, and {min(rows)} is negative")
    return Grid(size, tuple(sorted(rows - {0})))


def usual_splits(graph: TemporalGraph) -> tuple[int, ...]:
    """The first rows of validation and test, as PyG, TGB and DyGLib divide events: 70, 15 and 15 % by time."""
    times = graph.time[: graph.num_events]
    if not len(times):
        return ()
    limits = np.quantile(times, [1.0 - 0.15 - 0.15, 1.0 - 0.15])
    return tuple(np.searchsorted(times, limits, side="right").tolist())
