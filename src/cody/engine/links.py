"""Many links at once, of a log as it is or without some events: what `logits(query, [removed])` answers for each.

A session is made for many questions about one link; its preparation would cost more than the answer. Here there are no
masks: all links go through the layers together. A node is embedded once for each moment at which it is seen, so links
of the same moment (one source, all possible destinations) share most of the work.

Without some events, the one change is followed through the log once, for all links (`LinksWithout`). The versions of
memories that it changes are computed, batch by batch; all others stand in the table. Neighbours come from the lists of
events of each node, with the removed ones taken out. So most of the work is that of scoring the links themselves, and
links that the change cannot reach are known without any of it.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from cody.engine.attention import Attention, Decoder, Maps
from cody.engine.library import address, check_count, contiguous, graph_columns, library, structure
from cody.engine.threads import one_thread
from cody.engine.vectors import CompiledRows, Vectors
from cody.engine.versions import batch_rows, ends_of, index_of, latest_event, memory_before, next_versions
from cody.engine.weights import Weights
from cody.graph import BoolArray, FloatArray, IntArray, Query, TemporalGraph, check_queries
from cody.models.contract import Change
from cody.utils.deadline import check_deadline

if TYPE_CHECKING:
    from cody.engine.fast import FastModel
    from cody.engine.tgn import FastTGN

_Histories = structure("_Histories", "*src *dst *offsets *incidence nodes rows")


class Attended(NamedTuple):
    """What nodes at moments attend to. Keys as in `Views`; ids are places among these keys."""

    below: IntArray  # keys of the nodes that are needed one layer down, each once
    own: IntArray  # [n] of the nodes themselves
    neighbours: IntArray  # [n, K]; places beyond the length of a node hold anything
    events: IntArray  # keys of the events, each once
    event_ids: IntArray  # [n, K]
    length: IntArray  # [n] how many events each node has


class Histories:
    """The lists of events of a graph's nodes, read by the compiled library."""

    def __init__(self, loaded: Any, graph: TemporalGraph) -> None:
        self.library = loaded
        self.arrays = graph_columns(graph)  # held
        self.log = _Histories(*map(address, self.arrays.values()), graph.num_nodes, graph.num_rows)

    def attended(self, keys: IntArray, before: IntArray, most: int) -> Attended:
        """What nodes at moments attend to: at most so many events each.

        Args:
            keys: Of the nodes. [n]
            before: The rows that a moment sees are below this. [m]
            most: How many events at most: K.
        """
        below, events = CompiledRows(self.library, 1), CompiledRows(self.library, 1)
        own, length = np.empty((2, len(keys)), dtype=np.int64)
        neighbours, event_ids = np.empty((2, len(keys), most), dtype=np.int64)
        arrays = contiguous(keys), contiguous(before), own, neighbours, event_ids, length
        handles = ctypes.byref(self.log), below.handle, events.handle
        check_count(self.library.histories_attended(*handles, len(keys), most, *map(address, arrays)))
        return Attended(below.all()[:, 0], own, neighbours, events.all()[:, 0], event_ids, length)


MOMENTS_AT_ONCE = 128  # bounds the temporary memory: links of one moment share most of it
LINKS_AT_ONCE = 2048

# The layer-0 inputs of nodes, each before a row; None where all of them are zero. [n], [n] → [n, d]
Inputs = Callable[[IntArray, IntArray], FloatArray | None]


@dataclass(frozen=True)
class LinkScorer:
    """A network that scores links of a graph as it is."""

    weights: Weights
    graph: TemporalGraph
    maps: Sequence[Maps]
    decoder: Decoder
    inputs: Inputs

    @cached_property
    def attention(self) -> list[Attention]:
        return [Attention(maps, self.weights.sizes.neighbours) for maps in self.maps]

    def logits(self, queries: Sequence[Query]) -> FloatArray:
        """One logit for each query, [n]; of a network with C > 2 classes, the score of each class. [n, C]"""
        logits = [np.empty((0, *self.decoder.out.shape[1:]))]
        for some in _parts(queries):
            check_deadline()
            logits.append(self._logits(queries[some]))
        return np.concatenate(logits)

    def _logits(self, queries: Sequence[Query]) -> FloatArray:
        number: dict[tuple[float, int], int] = {}  # of each moment
        moment = np.array([number.setdefault((query.time, query.before), len(number)) for query in queries])
        time, before = zip(*number, strict=True)
        views = Views(self.graph, np.array(time, dtype=np.float64), np.array(before, dtype=np.int64))
        src, dst = ([query[end] for query in queries] for end in (0, 1))
        roots, ends = np.unique(views.key(np.stack([src, dst]), moment), return_inverse=True)
        hidden = self._embed(views, roots, len(self.maps))
        source, target = hidden[ends.reshape(2, -1)]
        return self.decoder.score(self.decoder.source.times(source), self.decoder.target.times(target))

    def _embed(self, views: Views, keys: IntArray, layer: int) -> FloatArray:
        """The hidden layers (see `Maps`) of nodes at moments, in a layer. [n] → [n, d]"""
        maps, seen = self.maps[layer - 1], self._attended(views, keys)
        sources = [(self._events(views, seen.events), seen.event_ids)]
        values = self._embed(views, seen.below, layer - 1) if layer > 1 else self.inputs(*views.at(seen.below))
        if values is None:
            questions = maps.own_bias[None], np.zeros(len(keys), dtype=np.int64)
        else:
            questions = maps.to_questions.times(values, seen.own), np.arange(len(keys))
            sources.insert(0, (values, seen.neighbours))
        return self.attention[layer - 1](questions, sources, seen.length)

    def _attended(self, views: Views, keys: IntArray) -> Attended:
        """What nodes at moments attend to. [n]"""
        if self.histories is not None:
            return self.histories.attended(keys, views.before, self.weights.sizes.neighbours)
        moment, nodes = np.divmod(keys, self.graph.num_nodes)
        rows = self.graph.recent(nodes, views.before[moment], self.weights.sizes.neighbours)  # [n, K], -1: none
        exists = rows >= 0
        places, seen = np.nonzero(exists)[0], rows[exists]
        events, event_ids = np.unique(moment[places] * self.graph.num_rows + seen, return_inverse=True)
        neighbours = views.key(self.graph.other_end(seen, nodes[places]), moment[places])
        below, ids = np.unique(np.concatenate([keys, neighbours]), return_inverse=True)
        others, own = _filled(exists, ids[len(keys) :]), ids[: len(keys)]
        return Attended(below, own, others, events, _filled(exists, event_ids), exists.sum(axis=1))

    @cached_property
    def histories(self) -> Histories | None:
        loaded = library()
        return None if loaded is None else Histories(loaded, self.graph)

    def _events(self, views: Views, keys: IntArray) -> FloatArray:
        """What is attended to of each event: its features, encoding of the time since. [n] → [n, F + d]"""
        weights, width = self.weights, self.weights.sizes.edge_features + self.weights.sizes.dimension
        if not len(keys):
            return np.zeros((1, width), weights.dtype)
        moment, rows = np.divmod(keys, self.graph.num_rows)
        events = np.empty((len(rows), width), dtype=weights.dtype)
        weights.events_into(self.graph, rows, views.time[moment] - self.graph.time[rows], events)
        return events


def _parts(queries: Sequence[Query]) -> Iterator[slice]:
    """The links in parts that are scored at once: of a few moments, or many of the same."""
    first, moments = 0, set[tuple[float, int]]()
    for place, query in enumerate(queries):
        moments.add((query.time, query.before))
        if len(moments) > MOMENTS_AT_ONCE or place - first == LINKS_AT_ONCE:
            yield slice(first, place)
            first, moments = place, {(query.time, query.before)}
    if queries:
        yield slice(first, len(queries))


@dataclass(frozen=True)
class Views:
    """The moments at which links are scored. A node or an event seen at a moment is one number, its key."""

    graph: TemporalGraph
    time: FloatArray  # [m]
    before: IntArray  # [m]

    def key(self, nodes: IntArray, moment: IntArray) -> IntArray:
        return moment * self.graph.num_nodes + nodes

    def at(self, keys: IntArray) -> tuple[IntArray, IntArray]:
        """The nodes, and the rows before which they are seen. [n] → [n], [n]"""
        moment, nodes = np.divmod(keys, self.graph.num_nodes)
        return nodes, self.before[moment]


def _filled(exists: np.ndarray, ids: IntArray) -> IntArray:
    """Ids in the places that exist, 0 in the others. [n, K]"""
    filled = np.zeros(exists.shape, dtype=np.int64)
    filled[exists] = ids
    return filled


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
        return memory_before(self.without, nodes, before, self._read)

    def _read(self, index: IntArray) -> FloatArray:
        """Versions by their index, those of the table where they do not differ. [n] → [n, d]"""
        place, differ = self._look_up(index)
        versions = np.empty((len(index), self.values.values.shape[1]), dtype=self.values.values.dtype)
        versions[~differ] = self.table.read(index[~differ])
        versions[differ] = self.values.values[place[differ]]
        return versions

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
        kept = ~self.removed[self.graph.incidence]
        offsets = np.concatenate([[0], np.cumsum(kept)])[self.graph.offsets]
        # The same rows, but the lists of events of each node lack the removed ones.
        without = replace(self.graph, offsets=offsets, incidence=self.graph.incidence[kept])
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
