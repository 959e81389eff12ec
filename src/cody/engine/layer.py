"""One attention layer of a query: which vectors it has, and how to make others; `fast.py` says what for.

Layers and decoders stand here in both forms: in numpy, and by the compiled library (`library.py`, `layers.c`).
"""

from __future__ import annotations

import ctypes
from typing import Any, NamedTuple, Protocol

import numpy as np

from cody.engine.attention import Attention, Decoder, Maps, Source
from cody.engine.library import address, check_count, contiguous, structure
from cody.engine.masks import AttendedEvents, Masks, Requests, Windows
from cody.engine.vectors import Products, Vectors, numbered_rows
from cody.engine.weights import Weights
from cody.graph import FloatArray, IntArray, Query, TemporalGraph, sorted_unique
from cody.utils.deadline import check_deadline

AT_ONCE = 128  # as in layers.c

_Layer = structure(
    "_Layer",
    "words length most heads width *by_default *bits *others *events *window *depends *event_slots *row"
    " *shares *seen *known *made_of *to_questions *to_answers *question",
)
_Requests = structure("_Requests", "*nodes *changes *masks")
_Plan = structure(
    "_Plan",
    "*places *lengths *missing below *parts *part_lengths *made *slots *room missing_count event_count",
    below=_Requests,
)
_Products = structure("_Products", "*products *slots count")
_Tables = structure(
    "_Tables",
    "*below *events below_width event_width questions *vectors vector_count *ids id_count",
    questions=_Products,
)
_Decoder = structure("_Decoder", "*source *target *bias *out *out_bias classes")


class VectorRequest(NamedTuple):
    """Vectors that are requested, by node and mask, and which of them have to be made."""

    numbers: IntArray  # [n] of node and mask
    new: Requests  # [m] those that are to be made; each mask with the bits that the vector depends on


class KnownVectors:
    """Which vectors there are, by node and mask.

    Args:
        depends: Which events the vector of each node can depend on. [nodes, w]
    """

    def __init__(self, depends: Masks) -> None:
        self.depends = depends
        self.rows = numbered_rows(1 + depends.shape[1])
        self.ids = np.zeros(0, dtype=np.int64)  # of the vector, by number of node and mask

    def find(self, nodes: IntArray, masks: Masks, change: IntArray) -> VectorRequest:
        """Look vectors up. [n], [n, w], [n]"""
        numbers, new = self.rows.find_masked(nodes, masks, self.depends)
        nodes = nodes[new]
        return VectorRequest(numbers, Requests(nodes, masks[new] & self.depends[nodes], change[new]))

    def add(self, request: VectorRequest, made: IntArray) -> IntArray:
        """Take the ids of what was made, [m], and give those of all that was requested. → [n]"""
        self.ids = np.concatenate([self.ids, made])
        return self.ids[request.numbers]


class Below(Protocol):
    """What an attention layer reads from: another layer, or the inputs of the lowest one.

    Whatever is planned has to be computed before anything else is planned. After a failure in between, nothing of it
    can be used any more.
    """

    depends: Masks  # [nodes, w] which events the vector of a node can depend on

    @property
    def values(self) -> FloatArray | None:
        """[≥ ids, d]; None where all of them are zero."""

    @property
    def size(self) -> int:
        """How many numbers are remembered."""

    def plan(self, nodes: IntArray, masks: Masks, change: IntArray) -> Any:
        """What has to be computed for the vectors of nodes under masks. [n], [n, w], [n]

        `change` says to which of the changes a mask belongs that `Inputs.begin` was given last. A mask may have fewer
        bits than that change; those are missing that the vector cannot depend on.
        """

    def compute(self, plan: Any) -> IntArray:
        """Compute it. The ids of these vectors. → [n]"""


class EventInputs:
    """What is attended to of each event: [its features, encoding of the time since]. Computed when first used."""

    def __init__(self, weights: Weights, graph: TemporalGraph, query: Query, rows: IntArray) -> None:
        self.weights, self.graph, self.time, self.rows = weights, graph, query.time, rows
        self.slot = np.full(len(rows), -1)  # [rows] where its vector stands
        self.vectors = Vectors(weights.sizes.edge_features + weights.sizes.dimension, weights.dtype)

    def look_up(self, events: IntArray) -> IntArray:
        """Where the vectors of events stand. [...] → [...]"""
        slots = self.slot[events]
        if (slots < 0).any():
            new = sorted_unique(events[slots < 0])
            self.slot[new] = self.vectors.length + np.arange(len(new))
            self.add(new)
            slots = self.slot[events]
        return slots

    def add(self, new: IntArray) -> None:
        """Compute the vectors of events which stand in the next slots. [n]"""
        if len(new):
            rows = self.rows[new]
            elapsed = self.time - self.graph.time[rows]
            self.weights.events_into(self.graph, rows, elapsed, self.vectors.append(len(new)))


class LayerPlan(NamedTuple):
    """A plan of a layer."""

    request: VectorRequest
    chosen: AttendedEvents  # what the vectors that are to be made attend to
    below: Any  # the plan of the layer below: for the nodes themselves, then for their neighbours


class Layer:
    """One attention layer of a query: the vectors it has, and how to make others.

    It computes what `Weights.attend` does, up to the hidden layer (see `Maps`). Nodes are known by their place among
    all nodes of the query. Vectors that are made of the same parts are the same, whatever is changed.
    """

    def __init__(self, maps: Maps, below: Below, windows: Windows, reach: Reach, events: EventInputs) -> None:
        self.maps = maps
        self.below = below
        self.windows = windows
        self.reach = reach
        self.events = events
        self.depends = self._depends()
        self.known = KnownVectors(self.depends)
        self.made_of = numbered_rows(1 + 2 * windows.count)  # ids of the vectors below and of the events → id
        self.vectors = Vectors(len(maps.answer_bias), maps.answer.dtype)
        self.own = Products(maps.to_questions)  # many vectors of this layer share what a node has below
        self.attention = Attention(maps, windows.count)

    @property
    def size(self) -> int:
        return self.vectors.size + self.own.vectors.size

    @property
    def values(self) -> FloatArray:
        return self.vectors.values

    def _depends(self) -> Masks:
        """A node depends on its own events, and on what it and its possible neighbours depend on in the layer below."""
        below, nodes = self.below.depends, self.reach.attending
        depends = np.zeros_like(below)
        neighbours = np.bitwise_or.reduce(below[self.reach.other], axis=1)
        depends[nodes] = self.windows.touching | below[nodes] | neighbours
        return depends

    def plan(self, nodes: IntArray, masks: Masks, change: IntArray) -> LayerPlan:
        check_deadline()
        request = self.known.find(nodes, masks, change)
        chosen = self.windows.choose(self.reach.window[request.new.nodes], request.new.masks)
        return LayerPlan(request, chosen, self.below.plan(*request.new.below(chosen, self.reach.other)))

    def compute(self, plan: LayerPlan) -> IntArray:
        ids, (places, length) = self.below.compute(plan.below), plan.chosen
        events = self.events.look_up(self.windows.event.take(places))
        parts = self._parts(ids, events, length)
        numbers, new = self.made_of.find(parts)
        if len(new):
            self._attend(parts[new], length[new])
        return self.known.add(plan.request, numbers)

    def _parts(self, ids: IntArray, events: IntArray, length: IntArray) -> IntArray:
        """What vectors are made of: own vector, vectors of the neighbours, events; -1: none. → [n, 1 + 2K]

        Args:
            ids: Of the vectors below: of the nodes themselves, then of their neighbours, one node after the other.
            events: Of the neighbours. [m]
            length: How many neighbours each node has. [n]
        """
        most = self.windows.count
        exists = np.arange(most) < length[:, None]  # [n, K]
        parts = np.full((len(length), 1 + 2 * most), -1)
        parts[:, 0] = ids[: len(length)]
        parts[:, 1 : 1 + most][exists] = ids[len(length) :]
        parts[:, 1 + most :][exists] = events
        return parts

    def _attend(self, parts: IntArray, length: IntArray) -> None:
        """Make vectors of these parts. [m, 1 + 2K], [m] how many neighbours there are"""
        below, places = self.below.values, parts.shape[1] // 2
        sources = [(self.events.vectors.values, parts[:, 1 + places :])]
        questions: Source = self.maps.own_bias[None], np.zeros(len(parts), dtype=np.int64)
        if below is not None:  # else all of them are zero
            slots = self.own.slots(below, parts[:, 0])
            questions = self.own.vectors.values, slots
            sources.insert(0, (below, parts[:, 1 : 1 + places]))
        self.vectors.append(len(parts))[:] = self.attention(questions, sources, length)


class Reach:
    """The nodes that can take part in an answer, numbered: those of the inputs, and those that attend to events."""

    def __init__(self, nodes: IntArray, windows: Windows) -> None:
        self.nodes = nodes  # ascending
        self.attending = self.place(windows.nodes)  # [n] nodes with a window
        self.other = self.place(windows.other)  # [n, L] the nodes at the other ends of the events in each window
        self.window = np.full(len(nodes), -1)  # which of the windows is the node's
        self.window[self.attending] = np.arange(len(windows.nodes))

    def place(self, nodes: IntArray) -> IntArray:
        return np.searchsorted(self.nodes, nodes)


class LinkDecoder:
    """Scores of links between vectors of the last layer; `CompiledLinkDecoder` does the same in the library."""

    def __init__(self, decoder: Decoder) -> None:
        self.decoder = decoder
        self.source, self.target = Products(decoder.source), Products(decoder.target)

    def score(self, values: FloatArray, source: IntArray, target: IntArray) -> FloatArray:
        """The scores of links, of each class, between vectors of a table. [≥ ids, d], [n], [n] → [n] or [n, classes]"""
        return self.decoder.score(self.source.of(values, source), self.target.of(values, target))


class Room:
    """Where a layer plans and makes new vectors. It is kept from batch to batch.

    Args:
        vectors: Number of vectors that there is room for.
        most: How many events a node attends to at most: K.
        words: Of a mask.
    """

    def __init__(self, vectors: int, most: int, words: int) -> None:
        each = {"nodes": 1 + most, "changes": 1 + most, "masks": (1 + most) * words, "parts": 1 + 2 * most}
        each |= dict.fromkeys(("places", "missing"), most)
        each |= dict.fromkeys(("lengths", "part_lengths", "made", "slots", "room"), 1)
        ends = np.cumsum(list(each.values())) * vectors
        self.vectors = vectors
        self.arrays = dict(zip(each, np.split(np.empty(ends[-1], dtype=np.int64), ends[:-1]), strict=True))
        addresses = {name: address(array) for name, array in self.arrays.items()}
        below = _Requests(**{name: addresses.pop(name) for name in ("nodes", "changes", "masks")})
        self.plan = _Plan(below=below, **addresses)
        self.masks = self.arrays["masks"].view(np.uint64).reshape(-1, words)


class CompiledPlan(NamedTuple):
    """A plan of a layer; the rest of it is in the room of the layer."""

    numbers: IntArray  # [n] of nodes and masks that are requested
    new: int  # how many vectors are to be made
    below: Any  # the plan of the layer below


class CompiledLayer(Layer):
    """What `Layer` does, in two calls of the library: what has to be made, and making it."""

    def __init__(
        self, loaded: Any, maps: Maps, below: Below, windows: Windows, reach: Reach, events: EventInputs
    ) -> None:
        super().__init__(maps, below, windows, reach, events)
        self.library, width = loaded, maps.heads * maps.width
        self.ids = Vectors(1, np.int64)  # of the vector, by number of node and mask
        self.room = Room(64, windows.count, self.depends.shape[1])
        self.arrays = {  # held, because the library has their addresses only
            "by_default": windows.default.view(np.uint8),
            "bits": windows.column,
            "others": reach.other,
            "events": windows.event,
            "window": reach.window,
            "depends": self.depends,
            "event_slots": events.slot,
            "row": np.empty(1 + self.depends.shape[1], dtype=np.uint64),
            "shares": np.empty(maps.heads * windows.count),
            "seen": np.empty((AT_ONCE, width)),
            "question": maps.own_bias,
        }
        self.arrays = {name: contiguous(array) for name, array in self.arrays.items()}
        self.layer = _Layer(
            words=self.depends.shape[1],
            length=windows.default.shape[1],
            most=windows.count,
            heads=maps.heads,
            width=maps.width,
            known=self.known.rows.handle,  # type: ignore[union-attr]
            made_of=self.made_of.handle,  # type: ignore[union-attr]
            to_questions=maps.to_questions.handle(loaded),
            to_answers=maps.to_answers.handle(loaded),
            **{name: address(array) for name, array in self.arrays.items()},
        )

    def plan(self, nodes: IntArray, masks: Masks, change: IntArray) -> CompiledPlan:  # type: ignore[override]
        check_deadline()
        asked = nodes, change, masks = contiguous(nodes), contiguous(change), contiguous(masks)
        numbers, fresh = self.known.rows.find_masked(nodes, masks, self.depends)
        new = len(fresh)
        if new > self.room.vectors:
            self.room = Room(max(new, 2 * self.room.vectors), self.windows.count, self.depends.shape[1])
        room = self.room
        room.plan.event_count = self.events.vectors.length
        requests = _Requests(*map(address, asked))
        given = ctypes.byref(self.layer), new, ctypes.byref(requests), address(fresh), ctypes.byref(room.plan)
        some = slice(self.library.layer_plan(*given))
        self.events.add(room.arrays["missing"][: room.plan.missing_count])
        below = self.below.plan(room.arrays["nodes"][some], room.masks[some], room.arrays["changes"][some])
        return CompiledPlan(numbers, new, below)

    def compute(self, plan: CompiledPlan) -> IntArray:  # type: ignore[override]
        below = contiguous(self.below.compute(plan.below))  # first: the tables may move
        self._make(plan, below, self._tables(plan.new))
        return plan.numbers  # which are ids now

    def _make(self, plan: CompiledPlan, ids: IntArray, tables: ctypes.Structure) -> None:
        """Make the vectors of a plan, given those below: their ids. [≥ new]"""
        planned = len(plan.numbers), address(plan.numbers), plan.new, ctypes.byref(self.room.plan)
        made = self.library.layer_compute(ctypes.byref(self.layer), *planned, address(ids), ctypes.byref(tables))
        check_count(made)
        self.own.vectors.length, self.vectors.length = tables.questions.count, tables.vector_count
        self.ids.length = tables.id_count

    def _tables(self, new: int) -> ctypes.Structure:
        """The tables, with room for so many new vectors."""
        below, events = self.below.values, self.events.vectors.values
        self.vectors.reserve(new)
        self.ids.reserve(new)
        return _Tables(
            below=None if below is None else address(contiguous(below)),
            events=address(events),
            below_width=0 if below is None else below.shape[1],
            event_width=events.shape[1],
            questions=_Products() if below is None else known_products(self.own, len(below), new),
            vectors=address(self.vectors.values),
            vector_count=self.vectors.length,
            ids=address(self.ids.values),
            id_count=self.ids.length,
        )


def known_products(products: Products, vectors: int, new: int) -> ctypes.Structure:
    """The products of the vectors of a table, which has so many, with room for some that are new."""
    products.know(vectors)
    products.reserve(min(new, vectors))
    return _Products(address(products.vectors.values), address(products.slot), products.vectors.length)


class CompiledLinkDecoder:
    """Scores of links between vectors of the last layer, in one call of the library."""

    def __init__(self, loaded: Any, decoder: Decoder) -> None:
        self.library, d = loaded, decoder.source.width
        self.source, self.target = Products(decoder.source), Products(decoder.target)
        arrays = {"bias": decoder.bias, "out": decoder.out.T.reshape(-1, d), "out_bias": decoder.out_bias}
        self.arrays = {name: np.ascontiguousarray(array, dtype=np.float64) for name, array in arrays.items()}  # held
        self.classes, self.hidden = len(self.arrays["out"]), np.empty(d)
        addresses = {name: address(array) for name, array in self.arrays.items()}
        handles = {"source": decoder.source.handle(loaded), "target": decoder.target.handle(loaded)}
        self.decoder = _Decoder(**handles, **addresses, classes=self.classes)

    def score(self, values: FloatArray, source: IntArray, target: IntArray) -> FloatArray:
        """The scores of links, of each class, between vectors of a table. [≥ ids, d], [n], [n] → [n, classes]"""
        ids, n = [contiguous(ends) for ends in (source, target)], len(source)
        scores, room = np.empty((n, self.classes)), np.empty(3 * n, dtype=np.int64)
        both = [known_products(products, len(values), n) for products in (self.source, self.target)]
        table = ctypes.byref(self.decoder), address(values), values.shape[1]
        self.library.links_score(*table, *map(ctypes.byref, both), n, *map(address, (*ids, room, self.hidden, scores)))
        for products, known in zip((self.source, self.target), both, strict=True):
            products.vectors.length = known.count
        return scores
