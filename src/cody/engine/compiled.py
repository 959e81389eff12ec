"""Following changes through versions with the compiled library (`library.py`, `follow.c`).

Without it, `memory.PureFollow` does the same in numpy.
"""

from __future__ import annotations

import ctypes
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cody.engine.library import DAMAGED, check_count, contiguous, structure
from cody.engine.lineage import Lineage
from cody.engine.masks import Masks
from cody.engine.memory import GateMaps, Gates, MemoryStore, VersionedMemory
from cody.engine.vectors import PRODUCTS_KEPT, NearDuplicates
from cody.engine.versions import checksum_weights
from cody.errors import ModelError
from cody.graph import FloatArray, IntArray
from cody.utils.deadline import check_deadline

AT_ONCE = 1024  # versions that are computed at once
EVENT_NUMBERS = 6_000_000  # of what events add to the gates, which is mostly the same for all changes: 48 MB
UNCHANGED = 0  # what it returns instead of a slot; 0 is the slot of no version, whose memory never changes
DONE, LEFT, FULL, EVENTS = range(4)  # what `follow_compute` returns

_LINEAGE = ("own", "other", "previous", "bit", "usual_own", "usual_other")

_Events = structure(
    "_Events",
    "capacity used *head *next *elapsed *parts *message *features feature_count rows"
    " *frequency *phase *matrix *times *encoded *inputs",
)
_Setup = structure(
    "_Setup",
    "versions events dimensions levels capacity at_once *own *other *previous *bit *usual_own *usual_other *index *time"
    " *imagined *children *child_start *child_count *affected *affected_start *affected_count *order *level_start"
    " *usual *table row_words table_rows *checksum_weights key table_is_double memory_is_double gates_are_double shares"
    " most *direction *gathered_own *gathered_other *own_matrix *other_matrix *own_parts *other_parts *event_parts"
    " *kept_bias *new_versions *new_elapsed",
    key=ctypes.c_uint64,
    most=ctypes.c_double,
)
_Memories = structure("_Memories", "*values *written length room")
_Missing = structure("_Missing", "first count")


class EventParts:
    """What events add to the gates. It depends on no memory, so all that is known about some versions shares it.

    Args:
        library: the compiled library.
        model: the model, with its log.
        maps: the matrices of the gates.
        lineage: the versions.
    """

    def __init__(self, library: Any, model: VersionedMemory, maps: GateMaps, lineage: Lineage) -> None:
        self.model, self.maps, self.lineage = model, maps, lineage
        matrix, versions = maps.event, len(lineage.index)
        depth, width = matrix.array.shape
        capacity = max(PRODUCTS_KEPT, min(2 * versions, EVENT_NUMBERS // width))
        encoder = maps.weights.encoder  # without one, the library computes no parts
        features = None if encoder is None else model.graph.features
        count = 0 if features is None else features.shape[1]
        self.parts = np.empty((capacity, width), matrix.dtype)
        arrays = {
            "head": np.full(versions, -1, np.int32),
            "next": np.empty(capacity, np.int32),
            "elapsed": np.empty(capacity),
            "parts": self.parts,
            "message": np.ascontiguousarray(lineage.message, dtype=np.int64),
            "times": np.empty(AT_ONCE, np.float32),
            "encoded": np.empty((AT_ONCE, depth - count)),
            "inputs": np.empty((AT_ONCE, depth), matrix.dtype),
        }
        if features is not None:
            arrays["features"] = contiguous(features)
        if encoder is not None:
            arrays |= dict(zip(("frequency", "phase"), encoder, strict=True))
        self.arrays = arrays  # held, because the library has their addresses only
        self.known = _Events(
            capacity=capacity,
            feature_count=count,
            rows=0 if features is None else len(features),
            matrix=matrix.handle(library),
            **{name: array.ctypes.data for name, array in arrays.items()},
        )

    def add(self, gates: Gates, first: int, versions: IntArray, elapsed: FloatArray) -> None:
        """Compute the parts from `first` on, which the library cannot. [n], [n]"""
        edge = gates.weights.edge(self.model.graph, self.lineage.message[versions])
        self.parts[first : first + len(versions)] = gates.events(edge, elapsed)


class CompiledFollow:
    """What `PureFollow` does, by the library, which remembers of which parents a value was made.

    Args:
        library: the compiled library.
        store: where values are kept.
        gates: their weights.
        events: what events add.
        duplicates: how near values are taken for the same; None: only equal ones.
    """

    def __init__(
        self, library: Any, store: MemoryStore, gates: Gates, events: EventParts, duplicates: NearDuplicates | None
    ) -> None:
        self.library, self.store, self.gates, self.events, self.lineage = library, store, gates, events, store.lineage
        self.memory, self.written = store.vectors, store.written
        d, dtype = store.vectors.values.shape[1], gates.maps.own.dtype
        self.gathered = [np.empty((AT_ONCE, d), dtype) for _ in range(2)]  # memories whose products are missing
        self.parts = [np.empty((PRODUCTS_KEPT, width), dtype) for width in (4 * d, 3 * d)]  # of own, other
        self.new_versions, self.new_elapsed = np.empty(AT_ONCE, np.int64), np.empty(AT_ONCE)
        self.arrays = self._arrays(duplicates)  # held, because the library has their addresses only
        self.memories, self.missing = _Memories(), _Missing()
        self.known_values: Any = None  # the arrays that `memories` has the addresses of
        self.handle = library.follow_open(ctypes.byref(self._setup(duplicates)))
        if not self.handle:
            raise MemoryError

    def __del__(self) -> None:
        if getattr(self, "handle", None):
            self.library.follow_close(self.handle)

    def _arrays(self, duplicates: NearDuplicates | None) -> dict[str, NDArray[Any]]:
        lineage, words = self.lineage, self.store.usual.rows.words
        children, affected = lineage.children, lineage.affected
        integers = {
            **{name: getattr(lineage, name) for name in _LINEAGE},
            "index": self.store.usual.places,
            "children": children.numbers,
            "child_start": children.starts,
            "child_count": children.lengths,
            "affected": affected.numbers,
            "affected_start": affected.starts,
            "affected_count": affected.lengths,
            "order": lineage.order,
            "level_start": lineage.level_starts,
            "usual": self.store.unchanged_slot,  # the library fills in what it reads
        }
        return {
            **{name: np.ascontiguousarray(column, dtype=np.int64) for name, column in integers.items()},
            "time": np.ascontiguousarray(self.store.model.times[lineage.row], dtype=np.float64),
            "imagined": np.ascontiguousarray(lineage.imagined).view(np.uint8),
            "table": words,
            "checksum_weights": checksum_weights(words.shape[1] - 2),
            "direction": np.zeros(self.gathered[0].shape[1]) if duplicates is None else duplicates.direction,
            **dict(zip(("gathered_own", "gathered_other"), self.gathered, strict=True)),
            **dict(zip(("own_parts", "other_parts"), self.parts, strict=True)),
            "kept_bias": np.ascontiguousarray(self.gates.maps.kept_bias),
            "new_versions": self.new_versions,
            "new_elapsed": self.new_elapsed,
        }

    def _setup(self, duplicates: NearDuplicates | None) -> ctypes.Structure:
        lineage, table = self.lineage, self.store.usual.rows
        return _Setup(
            versions=len(lineage.index),
            events=len(lineage.editable.events),
            dimensions=self.gathered[0].shape[1],
            levels=len(lineage.level_starts) - 1,
            capacity=PRODUCTS_KEPT,
            at_once=AT_ONCE,
            row_words=table.words.shape[1],
            table_rows=len(table.words),
            key=int(table.key),
            table_is_double=table.dtype == np.float64,
            memory_is_double=self.memory.values.dtype == np.float64,
            gates_are_double=self.parts[0].dtype == np.float64,
            shares=duplicates is not None,
            most=0.0 if duplicates is None else duplicates.most,
            own_matrix=self.gates.maps.own.handle(self.library),
            other_matrix=self.gates.maps.other.handle(self.library),
            event_parts=ctypes.addressof(self.events.known),
            **{name: array.ctypes.data for name, array in self.arrays.items()},
        )

    def follow(self, masks: Masks, versions: IntArray, change: IntArray) -> IntArray:
        """The values of versions, each under one of the changes. [n, w], [m], [m] → [m]"""
        library = self.library
        masks = np.ascontiguousarray(masks)  # the library reads them until the end
        needed = [np.ascontiguousarray(column, dtype=np.int64) for column in (versions, change)]
        pairs = *(column.ctypes.data for column in needed), len(versions)
        _check(library.follow_begin(self.handle, *masks.shape, masks.ctypes.data, *pairs))
        check_deadline()
        while _check(library.follow_advance(self.handle)):
            check_deadline()
            self._compute()
        slots = np.empty(len(versions), dtype=np.int64)
        library.follow_result(self.handle, *pairs, slots.ctypes.data)
        return np.where(slots == UNCHANGED, versions, self.store.values(slots))

    def _compute(self) -> None:
        """Compute the versions of a level."""
        self._pass_memories()
        while (state := self._compute_some()) != DONE:
            self.memory.length = self.written.length = self.memories.length
            if state == FULL:
                for vectors in (self.memory, self.written):
                    vectors.reserve(self.missing.count)
                self._pass_memories()
            elif state == EVENTS:
                self._add_events()
            check_deadline()
        self.memory.length = self.written.length = self.memories.length

    def _compute_some(self) -> int:
        arguments = self.handle, ctypes.byref(self.memories), ctypes.byref(self.missing)
        if (state := self.library.follow_compute(*arguments)) == DAMAGED:
            self._repair()
            state = self.library.follow_compute(*arguments)
        return _check(state)

    def _pass_memories(self) -> None:
        """Let the library know where values are kept, and how much room there is."""
        memory, memories = self.memory, self.memories
        if self.known_values is not memory.values:
            self.known_values = memory.values
            memories.values, memories.room = memory.values.ctypes.data, len(memory.values)
            memories.written = self.written.values.ctypes.data
        memories.length = memory.length

    def _repair(self) -> None:
        """Have the damaged versions of the table computed anew."""
        table, index = self.store.usual
        table.read(index[(index >= 0) & (index < len(table.words))])
        self.arrays["table"] = table.words
        self.library.follow_table(self.handle, table.words.ctypes.data)

    def _add_events(self) -> None:
        """Compute what events add where the library cannot."""
        count = self.missing.count
        self.events.add(self.gates, self.missing.first, self.new_versions[:count], self.new_elapsed[:count])


def _check(returned: int) -> int:
    if returned == DAMAGED:
        raise ModelError("the memory table stays damaged; check the machine's disk and memory")
    return check_count(returned)
