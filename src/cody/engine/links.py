"""Many links at once, with nothing changed: what `logits(query, [frozenset()])` answers for each.

A session is made for many questions about one link; its preparation would cost more than the answer. Here there are no
masks: all links go through the layers together. A node is embedded once for each moment at which it is seen, so links
of the same moment (one source, all possible destinations) share most of the work.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from cody.engine.attention import Attention, Decoder, Maps
from cody.engine.library import Number, Pointer, address, check_count, contiguous, library, structure
from cody.engine.rows import CompiledRows
from cody.engine.weights import Weights
from cody.graph import FloatArray, IntArray, Query, TemporalGraph
from cody.utils.deadline import check_deadline

_DTYPES = {"src": np.int32, "dst": np.int32, "offsets": np.int64, "incidence": np.int64}  # as graphs have them
_Histories = structure("_Histories", **dict.fromkeys(_DTYPES, Pointer), nodes=Number, rows=Number)


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
        self.arrays = [np.ascontiguousarray(getattr(graph, name), dtype) for name, dtype in _DTYPES.items()]  # held
        self.log = _Histories(*map(address, self.arrays), graph.num_nodes, graph.num_rows)

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
        values = self._below(views, seen.below, layer)
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
        return moment * self.graph.num_nodes + nodes

    def event_key(self, rows: IntArray, moment: IntArray) -> IntArray:
        return moment * self.graph.num_rows + rows

    def node(self, keys: IntArray) -> IntArray:
        return keys % self.graph.num_nodes

    def moment(self, keys: IntArray) -> IntArray:
        return keys // self.graph.num_nodes


def _filled(exists: np.ndarray, ids: IntArray) -> IntArray:
    """Ids in the places that exist, 0 in the others. [n, K]"""
    filled = np.zeros(exists.shape, dtype=np.int64)
    filled[exists] = ids
    return filled
