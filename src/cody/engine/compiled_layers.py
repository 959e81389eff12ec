"""One attention layer of a query by the compiled library (`library.py`, `layers.c`): `Layer` does the same in numpy."""

from __future__ import annotations

import ctypes
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from cody.engine.attention import Maps
from cody.engine.layer import Below, EventInputs, Layer, Reach
from cody.engine.library import Number, Pointer, check_count, contiguous, structure
from cody.engine.masks import Masks, Windows
from cody.graph import IntArray
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
    **dict.fromkeys(("numbers", "fresh", "lengths", "places", "missing"), Pointer),
    below=_Requests,
    **dict.fromkeys(("requested", "missing_count", "event_count"), Number),
)
_Tables = structure(
    "_Tables",
    **dict.fromkeys(("below", "events"), Pointer),
    **dict.fromkeys(("below_width", "event_width"), Number),
    **dict.fromkeys(("questions", "question_slots"), Pointer),
    question_count=Number,
    vectors=Pointer,
    vector_count=Number,
)


class CompiledPlan(NamedTuple):
    """A plan of a layer, as the library has it."""

    plan: ctypes.Structure
    arrays: list[NDArray[Any]]  # held, because the plan has their addresses only
    new: int  # how many vectors are to be made
    below: Any  # the plan of the layer below


class CompiledLayer(Layer):
    """What `Layer` does, in two calls of the library: what has to be made, and making it."""

    def __init__(
        self, loaded: Any, maps: Maps, below: Below, windows: Windows, reach: Reach, events: EventInputs
    ) -> None:
        super().__init__(maps, below, windows, reach, events)
        self.library, width = loaded, maps.heads * maps.width
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
            **{name: array.ctypes.data for name, array in self.arrays.items()},
        )

    def plan(self, nodes: IntArray, masks: Masks, change: IntArray) -> CompiledPlan:  # type: ignore[override]
        check_deadline()
        n, words = masks.shape
        asked, places = [contiguous(array) for array in (nodes, change, masks)], n * self.windows.count
        numbers = np.empty((3, n), dtype=np.int64)
        events, below = np.empty((2, places), dtype=np.int64), np.empty((2, n + places), dtype=np.int64)
        below_masks = np.empty((n + places, words), dtype=np.uint64)
        arrays = [*numbers, *events]
        plan = _Plan(
            *(array.ctypes.data for array in arrays),
            _Requests(below[0].ctypes.data, below[1].ctypes.data, below_masks.ctypes.data),
            event_count=self.events.vectors.length,
        )
        requests = _Requests(*(array.ctypes.data for array in asked))
        given = ctypes.byref(self.layer), n, ctypes.byref(requests), ctypes.byref(plan)
        new = check_count(self.library.layer_plan(*given))
        self.events.add(events[1, : plan.missing_count])
        some = slice(plan.requested)
        return CompiledPlan(plan, arrays, new, self.below.plan(below[0, some], below_masks[some], below[1, some]))

    def compute(self, plan: CompiledPlan) -> IntArray:  # type: ignore[override]
        below = contiguous(self.below.compute(plan.below))  # first: the tables may move
        numbers = self._make(plan, below, self._tables(plan.new))
        self.known.ids = np.concatenate([self.known.ids, numbers])
        ids: IntArray = self.known.ids[plan.arrays[0]]
        return ids

    def _make(self, plan: CompiledPlan, ids: IntArray, tables: ctypes.Structure) -> IntArray:
        """Make the vectors of a plan, given those below. Their ids. [≥ new] → [new]"""
        numbers, parts = np.empty(plan.new, dtype=np.int64), np.empty((plan.new, 1 + 2 * self.windows.count), np.int64)
        room = np.empty((3, plan.new), dtype=np.int64)
        addresses = (array.ctypes.data for array in (numbers, parts, room))
        planned = ctypes.byref(self.layer), plan.new, ctypes.byref(plan.plan), ids.ctypes.data
        check_count(self.library.layer_compute(*planned, ctypes.byref(tables), *addresses))
        self.own.vectors.length, self.vectors.length = tables.question_count, tables.vector_count
        return numbers

    def _tables(self, new: int) -> ctypes.Structure:
        """The tables, with room for so many new vectors."""
        below, events = self.below.values, self.events.vectors.values
        self.vectors.reserve(new)
        if below is not None:
            self.own.know(len(below))
            self.own.reserve(new)
        return _Tables(
            below=None if below is None else contiguous(below).ctypes.data,
            events=events.ctypes.data,
            below_width=0 if below is None else below.shape[1],
            event_width=events.shape[1],
            questions=self.own.vectors.values.ctypes.data,
            question_slots=self.own.slot.ctypes.data,
            question_count=self.own.vectors.length,
            vectors=self.vectors.values.ctypes.data,
            vector_count=self.vectors.length,
        )
