"""Many links at once, with nothing changed: what `logits(query, [frozenset()])` answers for each.

A session is made for many questions about one link; its preparation would cost more than the answer. Here there are no
masks: all links go through the layers together. A node is embedded once for each moment at which it is seen, so links
of the same moment (one source, all possible destinations) share most of the work.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from cody.engine.attention import Attention, Decoder, Maps
from cody.engine.histories import Attended, Histories
from cody.engine.library import library
from cody.engine.weights import Weights
from cody.graph import FloatArray, IntArray, Query, TemporalGraph
from cody.utils.deadline import check_deadline

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
        src, dst, time, before = (np.array(column) for column in zip(*queries, strict=True))
        moments, moment = np.unique(np.stack([time, before]), axis=1, return_inverse=True)
        views = Views(self.graph, moments[0], moments[1].astype(np.int64))
        roots, ends = np.unique(views.key(np.stack([src, dst]), moment), return_inverse=True)
        hidden = self._embed(views, roots, len(self.maps))
        source, target = hidden[ends.reshape(2, -1)]
        return self.decoder.score(source @ self.decoder.source, target @ self.decoder.target)

    def _embed(self, views: Views, keys: IntArray, layer: int) -> FloatArray:
        """The hidden layers (see `Maps`) of nodes at moments, in a layer. [n] → [n, d]"""
        maps, seen = self.maps[layer - 1], self._attended(views, keys)
        sources = [(self._events(views, seen.events), seen.event_ids)]
        values = self._below(views, seen.below, layer)
        if values is None:
            questions = maps.own_bias[None], np.zeros(len(keys), dtype=np.int64)
        else:
            questions = values[seen.own] @ maps.own + maps.own_bias, np.arange(len(keys))
            sources.insert(0, (values, seen.neighbours))
        return self.attention[layer - 1](questions, sources, seen.length)

    def _attended(self, views: Views, keys: IntArray) -> Attended:
        """What nodes at moments attend to. [n]"""
        if self.histories is not None:
            return self.histories.attended(keys, views.before, self.weights.sizes.neighbours)
        nodes, moment = views.node(keys), views.moment(keys)
        rows = self.graph.recent(nodes, views.before[moment], self.weights.sizes.neighbours)  # [n, K], -1: none
        exists = rows >= 0
        places, seen = np.nonzero(exists)[0], rows[exists]
        events, event_ids = np.unique(views.event_key(seen, moment[places]), return_inverse=True)
        neighbours = views.key(self.graph.other_end(seen, nodes[places]), moment[places])
        below, ids = np.unique(np.concatenate([keys, neighbours]), return_inverse=True)
        others, own = _filled(exists, ids[len(keys) :]), ids[: len(keys)]
        return Attended(below, own, others, events, _filled(exists, event_ids), exists.sum(axis=1))

    @cached_property
    def histories(self) -> Histories | None:
        loaded = library()
        return None if loaded is None else Histories(loaded, self.graph)

    def _below(self, views: Views, keys: IntArray, layer: int) -> FloatArray | None:
        if layer > 1:
            return self._embed(views, keys, layer - 1)
        return self.inputs(views.node(keys), views.before[views.moment(keys)])

    def _events(self, views: Views, keys: IntArray) -> FloatArray:
        """What is attended to of each event: its features, encoding of the time since. [n] → [n, F + d]"""
        if not len(keys):
            return np.zeros((1, self.weights.sizes.edge_features + self.weights.sizes.dimension), self.weights.dtype)
        rows, moment = keys % self.graph.num_rows, keys // self.graph.num_rows
        weights, width = self.weights, self.weights.sizes.edge_features
        events = np.empty((len(rows), width + weights.sizes.dimension), dtype=weights.dtype)
        weights.encode_into(views.time[moment] - self.graph.time[rows], events[:, width:])
        features = weights.edge(self.graph, rows)
        if features is not None:
            events[:, :width] = features
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
        keys: IntArray = moment * self.graph.num_nodes + nodes
        return keys

    def event_key(self, rows: IntArray, moment: IntArray) -> IntArray:
        keys: IntArray = moment * self.graph.num_rows + rows
        return keys

    def node(self, keys: IntArray) -> IntArray:
        return keys % self.graph.num_nodes

    def moment(self, keys: IntArray) -> IntArray:
        return keys // self.graph.num_nodes


def _filled(exists: np.ndarray, ids: IntArray) -> IntArray:
    """Ids in the places that exist, 0 in the others. [n, K]"""
    filled = np.zeros(exists.shape, dtype=np.int64)
    filled[exists] = ids
    return filled
