"""The reference without what makes no difference.

A replay of everything since the first edit spends most of its time on memories that the answer does not depend on, or
that are what they were without the edits. `ShortReplay`, which verifies counterfactuals, leaves out both kinds, and
computes the rest as `Replay` does.

`scores_of_kept` is about a past that consists of a few events only: nothing else happened, the memory started from
zero. By definition the answer is `Replay(network, graph).logits(query, [all visible rows - kept])`. Almost all of its
work is to skip events; here only the kept ones are looked at, so the cost does not grow with the graph.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

import numpy as np

from cody.engine.replay import MemoryState, Replay
from cody.engine.weights import Weights
from cody.graph import BoolArray, Difference, FloatArray, IntArray, Query, TemporalGraph, is_in, sorted_unique
from cody.utils.deadline import check_deadline

NO_EVENTS = -1  # in place of a node that has none

Unchanged = Callable[[IntArray, IntArray], tuple[FloatArray, FloatArray]]  # [n], [n] → [n, d], [n]


class Updates(NamedTuple):
    """Updates of memories in one batch: the last event of each node in it."""

    line: int  # the row at which the batch begins
    nodes: IntArray  # [n]
    rows: IntArray  # [n] the events
    others: IntArray  # [n] the nodes at the other ends

    def only(self, some: BoolArray | slice) -> Updates:
        return Updates(self.line, self.nodes[some], self.rows[some], self.others[some])


# What is computed in one batch, and the nodes that are read first, with the memory that they have with nothing changed.
Step = tuple[Updates, IntArray]


class ShortReplay(Replay):
    """A replay of the updates that the answer can depend on and that a change can reach.

    What all others write is known: it is what they write with nothing changed.

    Args:
        plain: the replay of all of them.
        row: a line of the batch grid to begin from, for changes that concern nothing before it.
        unchanged: the memory of nodes with nothing changed, each before a row, and the time of its last update.
    """

    def __init__(self, plain: Replay, row: int, unchanged: Unchanged) -> None:
        vars(self).update(vars(plain))
        self.row, self.unchanged = row, unchanged

    @property
    def since(self) -> int:
        return self.row

    def _replay(self, query: Query, difference: Difference, roots: IntArray) -> MemoryState:
        edited = np.array([*difference.absent, *difference.present], dtype=np.int64)
        if query.before < self.row or (self.graph.next_real(edited) < self.row).any():
            return super()._replay(query, difference, roots)
        attended = self._attended(query, difference, roots)
        needed = self._needed(self._batches(query, difference), attended)
        return self._compute(self._steps(needed, edited, attended, query.before), query.before)

    def _batches(self, query: Query, difference: Difference) -> list[Updates]:
        """The updates of all batches."""
        graph, batch = self.graph, self.weights.sizes.batch
        absent = np.array(sorted(difference.absent), dtype=np.int64)
        rows: IntArray = np.delete(np.arange(self.row, query.before), absent - self.row)
        if difference.present:
            rows = graph.in_time_order(np.concatenate([rows, np.array(difference.present, dtype=np.int64)]))
        rows = np.repeat(rows, 2)
        nodes = np.stack([graph.src[rows[::2]], graph.dst[rows[::2]]], axis=1).ravel()
        number = graph.next_real(rows) // batch
        _, last = np.unique((number * graph.num_nodes + nodes)[::-1], return_index=True)  # in the order of batches
        last = len(rows) - 1 - last
        nodes, rows, number = nodes[last], rows[last], number[last]
        others = graph.other_end(rows, nodes)
        lines = np.arange(self.row, query.before + 1, batch)
        bounds = np.searchsorted(number, [*(lines // batch), number.max(initial=0) + 1]).tolist()
        places = zip(lines.tolist(), bounds[:-1], bounds[1:], strict=True)
        return [Updates(line, nodes, rows, others).only(slice(first, stop)) for line, first, stop in places]

    def _attended(self, query: Query, difference: Difference, roots: IntArray) -> IntArray:
        """The nodes whose memory is looked at: those that are scored, and those they attend to, layer by layer."""
        nodes = roots
        for _ in range(self.weights.sizes.layers):
            rows = self._recent_rows(nodes, query, difference)
            rows = rows[rows >= 0]
            nodes = sorted_unique(np.concatenate([nodes, self.graph.src[rows], self.graph.dst[rows]]))
        return nodes

    def _recent_rows(self, nodes: IntArray, query: Query, difference: Difference) -> IntArray:
        graph = self.graph
        rows = graph.recent(nodes, query.before, self.weights.sizes.neighbours)
        edited = np.array([*difference.absent, *difference.present], dtype=np.int64)
        touched = is_in(nodes, np.concatenate([graph.src[edited], graph.dst[edited]]))
        rows[touched] = super()._recent_rows(nodes[touched], query, difference)
        return rows

    def _needed(self, batches: list[Updates], attended: IntArray) -> list[Updates]:
        """The updates that the answer can depend on: from the last batch back, those of nodes that are still needed."""
        needed = np.zeros(self.graph.num_nodes, dtype=bool)
        needed[attended] = True
        kept = []
        for updates in reversed(batches):
            check_deadline()
            some = updates.only(needed[updates.nodes])
            kept.append(some)
            needed[some.others] = True  # both memories at the start of the batch
        return kept[::-1]

    def _steps(self, batches: list[Updates], edited: IntArray, attended: IntArray, before: int) -> list[Step]:
        """The updates that an edit can reach, and what they read besides; at last, what the layers read."""
        graph, batch = self.graph, self.weights.sizes.batch
        reached = np.zeros(graph.num_nodes, dtype=bool)  # nodes whose memory may not be what it was
        lines = graph.next_real(edited) // batch * batch
        steps = []
        for updates in batches:
            check_deadline()
            here = edited[lines == updates.line]
            ends = np.concatenate([graph.src[here], graph.dst[here]])
            known = reached.copy()
            reached[ends] = True
            some = updates.only(reached[updates.nodes] | reached[updates.others])
            reached[some.nodes] = True
            read = sorted_unique(np.concatenate([ends, some.nodes, some.others]))
            steps.append((some, read[~known[read]]))
        nothing = Updates(before, attended[:0], attended[:0], attended[:0])
        return [*steps, (nothing, attended[~reached[attended]])]

    def _compute(self, steps: list[Step], before: int) -> MemoryState:
        """The memory at the query of the nodes that matter; that of all others stays zero."""
        graph = self.graph
        memory = np.zeros((graph.num_nodes, self.weights.sizes.dimension), dtype=self.weights.dtype)
        updated = np.zeros(graph.num_nodes)
        lengths = [len(unchanged) for _, unchanged in steps]
        rows = np.repeat([updates.line for updates, _ in steps], lengths)
        values, times = self.unchanged(np.concatenate([unchanged for _, unchanged in steps]), rows)
        stops = np.cumsum(lengths).tolist()
        for (updates, unchanged), stop in zip(steps, stops, strict=True):
            check_deadline()
            read = slice(stop - len(unchanged), stop)
            memory[unchanged], updated[unchanged] = values[read], times[read]
            memory[updates.nodes] = self._updates(updates.nodes, updates.rows, memory, updated)
            updated[updates.nodes] = graph.time[updates.rows]
        return MemoryState(before, memory, updated)


def scores_of_kept(plain: Replay, links: Sequence[Query], kept: Iterable[int]) -> FloatArray:
    """The scores of links of one moment that see no events but `kept`; these may be imagined ones. [m]"""
    graph, query = plain.graph, links[0]
    seen = {row for row in kept if row < query.before} | set(graph.imagined_before(query).tolist()).intersection(kept)
    rows = graph.in_time_order(np.array(sorted(seen), dtype=np.int64))
    every = np.array([(link.src, link.dst) for link in links])  # [m, 2]
    first, which = _distinct(graph, rows, every)
    ends = every[first]
    nodes = sorted_unique(np.concatenate([graph.src[rows], graph.dst[rows], ends.ravel()]))
    small = _small_graph(graph, query, rows, nodes)
    state = _replay(plain.weights, small, graph.next_real(rows) // plain.weights.sizes.batch)
    same = [Query(src, dst, query.time, len(rows)) for src, dst in np.searchsorted(nodes, ends).tolist()]
    scores: FloatArray = plain.on(small, state).scores(same, [frozenset()])[0]
    return scores.reshape(len(same), -1)[which].ravel()


def _distinct(graph: TemporalGraph, rows: IntArray, ends: IntArray) -> tuple[IntArray, IntArray]:
    """The first of the links that score the same, and which of these each link is. [m, 2] → [n], [m]

    Nodes without any event are alike, unless they have features.
    """
    src, dst = ends.T
    if graph.node_features is None:
        known = sorted_unique(np.concatenate([graph.src[rows], graph.dst[rows]]))
        dst = np.where(is_in(dst, known) | (dst == src), dst, NO_EVENTS)
    _, first, which = np.unique(np.stack([src, dst]), axis=1, return_index=True, return_inverse=True)
    return first, which.ravel()


def _small_graph(graph: TemporalGraph, query: Query, rows: IntArray, nodes: IntArray) -> TemporalGraph:
    """The kept events among the nodes that matter, and the query's own link, which the query does not see."""
    features = graph.features_of(rows)
    if features is not None:
        features = np.concatenate([features, np.zeros((1, features.shape[1]), dtype=features.dtype)])
    return TemporalGraph.from_arrays(
        np.searchsorted(nodes, np.append(graph.src[rows], query.src)),
        np.searchsorted(nodes, np.append(graph.dst[rows], query.dst)),
        np.append(graph.time[rows], query.time),
        features=features,
        node_features=None if graph.node_features is None else graph.node_features[nodes],
        num_nodes=len(nodes),
    )


def _replay(weights: Weights, small: TemporalGraph, batches: IntArray) -> MemoryState:
    """The memory once all kept events have happened, each in the batch of its original row."""
    memory = np.zeros((small.num_nodes, weights.sizes.dimension), dtype=weights.dtype)
    updated = np.zeros(small.num_nodes)
    if not weights.has_memory:
        return MemoryState(len(batches), memory, updated)
    for batch in sorted_unique(batches):
        rows = np.flatnonzero(batches == batch)
        last_event = {int(node): int(row) for row in rows for node in (small.src[row], small.dst[row])}
        nodes, last = np.array(list(last_event)), np.array(list(last_event.values()))
        elapsed = (small.time[last] - updated[nodes]).astype(weights.dtype)
        other = small.other_end(last, nodes)
        memory[nodes] = weights.remember(memory[nodes], memory[other], weights.edge(small, last), elapsed)
        updated[nodes] = small.time[last]
    return MemoryState(len(batches), memory, updated)
