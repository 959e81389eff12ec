"""What a model is shown: a batch of events, and the past that a query sees once a change is made."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from cody.graph import FloatArray, IntArray, Outcome, Query, TemporalGraph


@dataclass(frozen=True)
class Events:
    """Some events of a graph, in their order, as columns."""

    graph: TemporalGraph
    rows: IntArray  # [n] imagined ones among them

    def __len__(self) -> int:
        return len(self.rows)

    @property
    def src(self) -> IntArray:
        return self.graph.src[self.rows]

    @property
    def dst(self) -> IntArray:
        return self.graph.dst[self.rows]

    @property
    def time(self) -> FloatArray:
        return self.graph.time[self.rows]

    @property
    def features(self) -> FloatArray | None:
        """[n, F], or None where events have none."""
        return self.graph.features_of(self.rows)


@dataclass(frozen=True)
class Past:
    """What a query sees: the real rows before it except those that are absent, and the imagined ones that happened."""

    graph: TemporalGraph
    query: Query
    outcome: Outcome

    @cached_property
    def events(self) -> Events:
        """All of them. To build it takes as long as the past is; `recent` does not."""
        return Events(self.graph, self.rows())

    def rows(self, first: int = 0) -> IntArray:
        """The rows from real row `first` on, in their order. An imagined row counts as the one it stands before."""
        real = np.arange(first, self.query.before)
        absent = [row for row in self.outcome.absent if row >= first]
        if absent:
            real = real[~np.isin(real, absent)]
        if not self.outcome.present:
            return real
        imagined = np.array(self.outcome.present, dtype=np.int64)
        return _in_order(self.graph, np.concatenate([real, imagined[self.graph.place(imagined) >= first]]))

    def recent(self, nodes: IntArray, count: int) -> IntArray:
        """The `count` latest rows of each node, latest first, -1 where there are fewer. [n] → [n, count]

        They come in the order of the log, whatever their times: which rows are there never depends on other nodes.
        """
        nodes = np.asarray(nodes, dtype=np.int64)
        absent, present = np.array(sorted(self.outcome.absent), dtype=np.int64), self.outcome.present
        rows = self.graph.recent(nodes, self.query.before, count + len(absent))
        if not len(absent) and not present:
            return rows
        rows[np.isin(rows, absent)] = -1
        if present:
            rows = np.concatenate([rows, self._imagined(nodes)], axis=1)
        order = np.where(rows >= 0, self.graph.order(rows), -1)
        latest = np.argsort(-order, axis=1, kind="stable")[:, :count]
        return np.take_along_axis(rows, latest, axis=1)

    def _imagined(self, nodes: IntArray) -> IntArray:
        """For each node, the imagined rows that happened and touch it, -1 in place of the others. [n, k]"""
        rows = np.array(self.outcome.present, dtype=np.int64)
        touches = (self.graph.src[rows] == nodes[:, None]) | (self.graph.dst[rows] == nodes[:, None])
        return np.where(touches, rows, -1)


def _in_order(graph: TemporalGraph, rows: IntArray) -> IntArray:
    return rows[np.argsort(graph.order(rows))]
