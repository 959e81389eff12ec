"""What a model sees: a batch of events, and the history of a query under a change."""

from __future__ import annotations

from collections.abc import Sequence
from copy import copy
from dataclasses import dataclass
from functools import cached_property
from itertools import chain
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cody.graph import Difference, FloatArray, IntArray, Query, TemporalGraph, is_in
from cody.graph.grid import Grid

NOTHING_CHANGED = Difference(frozenset(), ())


@dataclass(frozen=True)
class Events:
    """Some events of a graph, in order, as columns."""

    graph: TemporalGraph
    rows: IntArray  # [n] imagined ones among them
    past: Past | None = None  # that they are a part of, if they are fed to a model

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
        """[n, F], or None if events have none."""
        return self.graph.features_of(self.rows)


@dataclass(frozen=True)
class Past:
    """What a query sees: the real rows before it except those that are absent, and the imagined ones that happened."""

    graph: TemporalGraph
    query: Query
    outcome: Difference = NOTHING_CHANGED

    @classmethod
    def whole(cls, graph: TemporalGraph, before: int) -> Past:
        """All events before a row, whatever link is scored."""
        return cls(graph, Query(0, 0, np.inf, before))

    @cached_property
    def events(self) -> Events:
        """All events. The cost grows with the length of the history; that of `recent` does not."""
        return Events(self.graph, self.rows())

    def rows(self, first: int = 0) -> IntArray:
        """The rows from real row `first` on, in order. An imagined row counts as the row it precedes."""
        real = np.arange(first, self.query.before)
        absent = [row for row in self.outcome.absent if row >= first]
        if absent:
            real = real[~np.isin(real, absent)]
        if not self.outcome.present:
            return real
        imagined = np.array(self.outcome.present, dtype=np.int64)
        return self.graph.in_time_order(np.concatenate([real, imagined[self.graph.next_real(imagined) >= first]]))

    def of_link(self, link: Query) -> Past:
        """The same history, of another link of the same moment. What was found out about it is kept."""
        if link == self.query:
            return self
        other = copy(self)
        object.__setattr__(other, "query", link)  # a new object, though it is frozen
        return other

    def of_node(self, node: int) -> IntArray:
        """All rows of a node, in order."""
        rows = self.graph.history(node, self.query.before)
        if self.outcome.absent:
            rows = rows[~np.isin(rows, list(self.outcome.absent))]
        present = np.array(self.outcome.present, dtype=np.int64)
        present = present[(self.graph.src[present] == node) | (self.graph.dst[present] == node)]
        return self.graph.in_time_order(np.concatenate([rows, present])) if len(present) else rows

    def recent(self, nodes: IntArray, count: int) -> IntArray:
        """The `count` latest rows of each node, latest first, -1 where there are fewer. [n] → [n, count]

        They come in the order of the log, whatever their times: which rows are there never depends on other nodes.
        """
        nodes = np.asarray(nodes, dtype=np.int64)
        return recent([self], np.zeros_like(nodes), nodes, count)


def recent(
    pasts: Sequence[Past], of: IntArray, nodes: IntArray, count: int, *, until: FloatArray | None = None
) -> IntArray:
    """The result of `Past.recent` for nodes, each in one of several histories of one query. [n, count]

    With `until`, a time for each node, only events that are strictly earlier count.
    """
    graph = pasts[0].graph
    before: IntArray | int = pasts[0].query.before
    if until is not None:
        before = np.minimum(before, np.searchsorted(graph.time[: graph.num_events], until))
    counts = [len(past.outcome.absent) for past in pasts]
    most = max(counts)
    if until is None:
        distinct, place = np.unique(nodes, return_inverse=True)
        rows = graph.recent(distinct, before, count + most)[place]  # [n, count + most]
    else:
        rows = graph.recent(nodes, before, count + most)
    if most:
        absent = np.fromiter(chain.from_iterable(past.outcome.absent for past in pasts), np.int64, sum(counts))
        keys = np.repeat(np.arange(len(pasts)), counts) * graph.num_rows + absent
        rows[is_in(of[:, None] * graph.num_rows + rows, keys) & (rows >= 0)] = -1
    imagined = sorted({row for past in pasts for row in past.outcome.present})
    if imagined:
        present = np.array([[row in past.outcome.present for row in imagined] for past in pasts])  # [B, k]
        more = np.array(imagined)
        touches = (graph.src[more] == nodes[:, None]) | (graph.dst[more] == nodes[:, None])
        if until is not None:
            touches &= graph.time[more] < until[:, None]
        rows = np.concatenate([rows, np.where(touches & present[of], more, -1)], axis=1)
    if not most and not imagined:
        return rows
    order = np.where(rows >= 0, graph.time_rank(rows), -1)
    latest = np.argsort(-order, axis=1, kind="stable")[:, :count]
    return np.take_along_axis(rows, latest, axis=1)


def tied_with(graph: TemporalGraph, times: NDArray[Any], grid: Grid, rows: IntArray) -> IntArray:
    """Events before a batch with the time of its first event: one of their messages may count as the last one.

    Args:
        graph: The log of events.
        times: The time of each row, as the model counts it.
        grid: The batches.
        rows: Those of the batch.
    """
    if not len(rows):
        return rows
    line = grid.line(int(graph.next_real(rows[:1])[0]))
    earlier = np.arange(np.searchsorted(times[: graph.num_events], times[rows[0]]), line)
    if graph.imagined is None:
        return earlier
    imagined = np.arange(graph.num_events, graph.num_rows)
    same = (times[imagined] == times[rows[0]]) & (graph.next_real(imagined) < line)
    return np.concatenate([earlier, imagined[same]])
