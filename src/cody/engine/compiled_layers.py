"""One attention layer of a query, and the scores of links, by the compiled library (`library.py`, `layers.c`).

`Layer` and `Decoder` do the same in numpy.
"""

from __future__ import annotations

import ctypes
from typing import Any, NamedTuple

import numpy as np

from cody.engine.attention import Decoder, Maps
from cody.engine.layer import Below, EventInputs, Layer, Reach
from cody.engine.library import Number, Pointer, address, check_count, contiguous, structure
from cody.engine.masks import Masks, Windows
from cody.engine.vectors import Products, Vectors
from cody.graph import FloatArray, IntArray
from cody.utils.deadline import check_deadline

AT_ONCE = 128  # as in layers.c

_Layer = structure(
    "_Layer",
    **dict.fromkeys(("words", "length", "most", "heads", "width"), Number),
    **dict.fromkeys(("by_default", "bits", "others", "events", "window", "depends", "event_slots", "row"), Pointer),
    **dict.fromkeys(("shares", "seen", "known", "made_of", "to_questions", "to_answers", "question"), Pointer),
)
_Requests = structure("_Requests", nodes=Pointer, changes=Pointer, masks=Pointer)
_Plan = structure(
    "_Plan",
    **dict.fromkeys(("places", "lengths", "missing"), Pointer),
    below=_Requests,
    **dict.fromkeys(("parts", "part_lengths", "made", "slots", "room"), Pointer),
    **dict.fromkeys(("missing_count", "event_count"), Number),
)
_Products = structure("_Products", products=Pointer, slots=Pointer, count=Number)
_Tables = structure(
    "_Tables",
    **dict.fromkeys(("below", "events"), Pointer),
    **dict.fromkeys(("below_width", "event_width"), Number),
    questions=_Products,
    vectors=Pointer,
    vector_count=Number,
    ids=Pointer,
    id_count=Number,
)
_Decoder = structure(
    "_Decoder", **dict.fromkeys(("source", "target", "bias", "out", "out_bias"), Pointer), classes=Number
)


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
        new, room = len(fresh), self._room_for(len(fresh))
        room.plan.event_count = self.events.vectors.length
        requests = _Requests(*map(address, asked))
        given = ctypes.byref(self.layer), new, ctypes.byref(requests), address(fresh), ctypes.byref(room.plan)
        some = slice(self.library.layer_plan(*given))
        self.events.add(room.arrays["missing"][: room.plan.missing_count])
        below = self.below.plan(room.arrays["nodes"][some], room.masks[some], room.arrays["changes"][some])
        return CompiledPlan(numbers, new, below)

    def _room_for(self, new: int) -> Room:
        if new > self.room.vectors:
            self.room = Room(max(new, 2 * self.room.vectors), self.windows.count, self.depends.shape[1])
        return self.room

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
