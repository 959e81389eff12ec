"""Many links of a log without some events: what `logits(query, [removed])` answers for each of them.

A session is made for many changes of one link; here one change is followed through the log once, for all links. The
versions of memories that it changes are computed, batch by batch; all others stand in the table. Neighbours come from
the lists of events of each node, with the removed ones taken out. So most of the work is that of scoring the links
themselves, and links that the change cannot reach are known without any of it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from cody.engine.links import LinkScorer
from cody.engine.threads import one_thread
from cody.engine.vectors import Vectors
from cody.engine.versions import batch_rows, ends_of, index_of, latest_event, next_versions
from cody.graph import BoolArray, FloatArray, IntArray, Query, TemporalGraph, check_queries
from cody.models.contract import Change
from cody.utils.deadline import check_deadline

if TYPE_CHECKING:
    from cody.engine.fast import FastModel
    from cody.engine.tgn import FastTGN


class InputsWithout:
    """The inputs of nodes, each before a row, on the log without the events; here, inputs that no event can change."""

    def __init__(self, model: FastModel) -> None:
        self.model = model

    def follow(self, before: int) -> None:
        """Make sure that the inputs before this row are known."""

    def of(self, nodes: IntArray, before: IntArray) -> FloatArray | None:
        """The inputs; None where all of them are zero. [n], [n] → [n, d]"""
        return self.model.inputs_as_they_are(nodes, before)

    def differ(self, nodes: IntArray, before: IntArray) -> BoolArray:
        """Whether they are other than on the whole log. [n], [n] → [n]"""
        return np.zeros(len(nodes), dtype=bool)


class MemoryWithout(InputsWithout):
    """The memory of a TGN on a log without some events: the versions that are other than those of the table.

    Args:
        model: The model on the whole log.
        without: The log whose lists of events lack the removed ones.
        removed: Which rows are removed. [rows]
    """

    def __init__(self, model: FastTGN, without: TemporalGraph, removed: BoolArray) -> None:
        super().__init__(model)
        self.graph, self.without, self.removed, self.table = model.graph, without, removed, model.table
        batch = model.weights.sizes.batch
        self.line = int(np.argmax(removed)) // batch * batch  # versions of earlier rows are as in the table
        self.changed = np.zeros(self.graph.num_nodes, dtype=bool)  # [nodes] whose memory at the line is not the usual
        self.index = Vectors(1, np.int64)  # the versions that differ, ascending
        self.values = Vectors(model.weights.sizes.dimension, model.table.dtype)

    def follow(self, before: int) -> None:
        """Compute the versions that events before this row write, as far as they are other than in the table."""
        batch = self.model.weights.sizes.batch
        while self.line < before:
            check_deadline()
            self._follow_batch(batch_rows(self.graph, self.model.weights, self.line))
            self.line += batch

    def _follow_batch(self, rows: IntArray) -> None:
        """The versions of one batch; its rows are given twice, once for either end. [2n]"""
        nodes, others = ends_of(self.graph, rows)
        gone, differs = self.removed[rows], np.zeros(len(rows), dtype=bool)
        some = np.flatnonzero((self.changed[nodes] | self.changed[others]) & ~gone)
        if len(some):
            own, updated = self._at(nodes[some], self.line)
            versions = next_versions(
                self.model.weights, self.graph, rows[some], own, self._at(others[some], self.line)[0], updated
            )
            index = 2 * rows[some] + some % 2  # the source comes first
            new = (versions != self.table.read(index)).any(axis=1)
            differs[some[new]] = True
            self.index.append(int(new.sum()))[:, 0] = index[new]
            self.values.append(int(new.sum()))[:] = versions[new]
        elif not gone.any():
            return
        last = len(nodes) - 1 - np.unique(nodes[::-1], return_index=True)[1]  # a node keeps its last version
        self.changed[nodes[last]] = differs[last] | gone[last]

    def _at(self, nodes: IntArray, before: IntArray | int) -> tuple[FloatArray, FloatArray]:
        """The memory of nodes before a row, as precise as the table, and when it was last updated. → [n, d], [n]"""
        rows = latest_event(self.without, nodes, before)
        known = np.flatnonzero(rows >= 0)
        memory = np.zeros((len(nodes), self.values.values.shape[1]), dtype=self.values.values.dtype)
        index = index_of(self.graph, rows[known], nodes[known])
        place, other = self._look_up(index)
        memory[known[~other]] = self.table.read(index[~other])
        memory[known[other]] = self.values.values[place[other]]
        return memory, np.where(rows >= 0, self.graph.time[rows], 0.0)

    def _look_up(self, index: IntArray) -> tuple[IntArray, BoolArray]:
        """Where versions stand among those that differ, and whether they do. [n] → [n], [n]"""
        differing = self.index.values[: self.index.length, 0]
        place = np.searchsorted(differing, index)
        there = place < len(differing)
        there[there] = differing[place[there]] == index[there]
        return place, there

    def of(self, nodes: IntArray, before: IntArray) -> FloatArray:
        inputs = self._at(nodes, before)[0].astype(self.model.weights.dtype)
        if self.model.features is not None:
            inputs += self.model.features[nodes]
        return inputs

    def differ(self, nodes: IntArray, before: IntArray) -> BoolArray:
        rows = latest_event(self.graph, nodes, before)
        differ = (rows >= 0) & self.removed[rows]
        known = np.flatnonzero((rows >= 0) & ~differ)
        differ[known] = self._look_up(index_of(self.graph, rows[known], nodes[known]))[1]
        return differ


class LinksWithout:
    """A network that scores links of a log without some events, in the order of time."""

    def __init__(self, model: FastModel, change: Change) -> None:
        self.model, self.graph = model, model.graph
        self.removed: BoolArray = np.zeros(self.graph.num_rows + 1, dtype=bool)  # the last one stands for no event
        self.removed[list(change)] = True
        self.first = min(change, default=self.graph.num_rows)
        without = events_without(self.graph, self.removed)
        self.inputs = model.inputs_without(without, self.removed)
        self.scorer = LinkScorer(model.weights, without, model.maps, model.decoder, self.inputs.of)

    def can_differ(self, queries: Sequence[Query]) -> BoolArray:
        """Whether the answer about each link can be other than on the whole log. [n]"""
        src, dst, before = (np.array([query[field] for query in queries], dtype=np.int64) for field in (0, 1, 3))
        layers = self.model.weights.sizes.layers
        with one_thread():
            self.inputs.follow(int(before.max(initial=0)))
            found = self._reached(np.concatenate([src, dst]), np.tile(before, 2), layers)
        return found[: len(src)] | found[len(src) :]

    def _reached(self, nodes: IntArray, before: IntArray, layer: int) -> BoolArray:
        """Whether what a layer has of nodes, each before a row, depends on anything that differs. [n], [n] → [n]"""
        check_deadline()
        keys, inverse = np.unique(before * self.graph.num_nodes + nodes, return_inverse=True)
        before, nodes = np.divmod(keys, self.graph.num_nodes)
        found = self.inputs.differ(nodes, before)
        if layer:
            rest = np.flatnonzero(~found & (before > self.first))
            rows = self.graph.recent(nodes[rest], before[rest], self.model.weights.sizes.neighbours)
            found[rest] = self.removed[rows].any(axis=1)
            kept = ~found[rest]
            rest, rows = rest[kept], rows[kept]
            place, exists = np.nonzero(rows >= 0)[0], rows >= 0
            neighbours = self.graph.other_end(rows[exists], nodes[rest][place])
            reached = self._reached(neighbours, before[rest][place], layer - 1)
            found[rest[place[reached]]] = True
        return found[inverse.ravel()]

    def logits(self, queries: Sequence[Query]) -> FloatArray:
        """One logit for each link, [n]; of a model of more than two classes, the score of each class. [n, C]"""
        check_queries(self.graph, queries)
        with one_thread():
            self.inputs.follow(max((query.before for query in queries), default=0))
            return self.scorer.logits(queries)


def events_without(graph: TemporalGraph, removed: BoolArray) -> TemporalGraph:
    """The graph with the same rows, but the lists of events of each node lack the removed ones. [rows]"""
    kept = ~removed[graph.incidence]
    offsets = np.concatenate([[0], np.cumsum(kept)])[graph.offsets]
    return replace(graph, offsets=offsets, incidence=graph.incidence[kept])
