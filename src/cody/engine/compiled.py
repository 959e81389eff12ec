"""Following changes through versions with the compiled library (`library.py`, `follow.c`).

Without it, `pure.py` does the same in numpy.
"""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from cody.engine.library import DAMAGED, Number, Pointer, check_count, structure
from cody.engine.masks import Masks
from cody.engine.vectors import PRODUCTS_KEPT, NearDuplicates, Vectors
from cody.engine.versions import checksum_weights
from cody.errors import ModelError
from cody.graph import IntArray, TemporalGraph, sorted_unique
from cody.graph.grid import Grid
from cody.utils.deadline import check_deadline

if TYPE_CHECKING:
    from cody.engine.memory import Gates, MemoryStore, VersionedMemory

AT_ONCE = 1024  # versions that are computed at once
EVENT_NUMBERS = 6_000_000  # of what events add to the gates, which is mostly the same for all changes: 48 MB
UNCHANGED = 0  # what it returns instead of a slot; 0 is the slot of no version, whose memory never changes

_DTYPES = {"src": np.int32, "dst": np.int32, "offsets": np.int64, "incidence": np.int64}  # as graphs have them
_LINEAGE = ("own", "other", "previous", "bit", "usual_own", "usual_other")

_Setup = structure(
    "_Setup",
    **dict.fromkeys(("versions", "events", "dimensions", "levels", "capacity", "event_capacity", "at_once"), Number),
    **dict.fromkeys(("own", "other", "previous", "bit", "usual_own", "usual_other", "index", "time"), Pointer),
    **dict.fromkeys(("imagined", "children", "child_start", "child_count"), Pointer),
    **dict.fromkeys(("affected", "affected_start", "affected_count", "order", "level_start"), Pointer),
    **dict.fromkeys(("usual", "table"), Pointer),
    **dict.fromkeys(("row_words", "table_rows"), Number),
    checksum_weights=Pointer,
    key=ctypes.c_uint64,
    **dict.fromkeys(("table_is_double", "memory_is_double", "gates_are_double", "shares"), Number),
    most=ctypes.c_double,
    **dict.fromkeys(("direction", "gathered_own", "gathered_other", "own_matrix", "other_matrix"), Pointer),
    **dict.fromkeys(("own_parts", "other_parts", "event_parts", "kept_bias"), Pointer),
    **dict.fromkeys(("new_versions", "new_elapsed"), Pointer),
)
_Memories = structure("_Memories", values=Pointer, written=Pointer, length=Number, room=Number)
_Log = structure(
    "_Log",
    **dict.fromkeys(("src", "dst", "offsets", "incidence", "events"), Pointer),
    **dict.fromkeys(("event_count", "batch", "oldest"), Number),
    seen=Pointer,
)
_Missing = structure("_Missing", first=Number, count=Number)


def trace(library: Any, graph: TemporalGraph, grid: Grid, found: IntArray, events: IntArray) -> IntArray:
    """What `lineage._trace` finds where no event is imagined: index, own, other and previous of versions. → [4, m]"""
    oldest = int(events[0]) if len(events) else 0
    found = sorted_unique(found[found >= 2 * oldest]) if len(events) else found[:0]
    seen = np.zeros(2 * graph.num_events, dtype=np.uint8)
    seen[found] = 1
    columns = {name: getattr(graph, name) for name in ("src", "dst", "offsets", "incidence")}
    arrays = {name: np.ascontiguousarray(column, dtype=_DTYPES[name]) for name, column in columns.items()}
    arrays |= {"events": np.ascontiguousarray(events, dtype=np.int64), "seen": seen}
    addresses = {name: array.ctypes.data for name, array in arrays.items()}
    log = _Log(event_count=len(events), batch=grid.size, oldest=oldest, **addresses)
    table, done, count = Vectors(4, np.int64), Number(0), len(found)
    table.reserve(count)
    table.values[:count, 0] = found
    while done.value < count:
        check_deadline()
        table.length = count
        table.reserve(max(3, count))
        room, address = len(table.values), table.values.ctypes.data
        count = library.lineage_trace(ctypes.byref(log), address, room, ctypes.byref(done), count)
    return table.values[:count].T


def depend(library: Any, versions: IntArray, columns: Sequence[IntArray], masks: Sequence[Masks]) -> IntArray:
    """The levels that `lineage._dependencies` finds where no event is imagined; masks are filled in. → [V]

    Args:
        library: the compiled library.
        versions: those to go through, as places.
        columns: own, other, previous and bit of each version.
        masks: of the parents and of the memory.
    """
    versions = np.sort(versions)  # places are in the order of rows
    level, deepest = np.full((2, len(columns[0])), -1)
    arrays = [versions, *(np.ascontiguousarray(column, dtype=np.int64) for column in columns), *masks, level, deepest]
    library.lineage_depend(len(versions), masks[0].shape[1], *(array.ctypes.data for array in arrays))
    return level


def kept(library: Any, versions: IntArray, columns: Sequence[NDArray[Any]], masks: Masks) -> IntArray:
    """What `VersionColumns.kept` finds, each version under its own mask. [n], [n, w] → [n]

    Args:
        library: the compiled library.
        versions: as places.
        columns: previous, bit and imagined of each version.
        masks: of the changes.
    """
    versions, masks = np.array(versions), np.ascontiguousarray(masks)
    library.lineage_kept(*masks.shape, *(array.ctypes.data for array in (*columns, masks, versions)))
    return versions


class CompiledFollow:
    """What `PureFollow` does, by the library, which remembers of which parents a value was made.

    Args:
        library: the compiled library.
        model: the model, with its log and its table.
        store: where values are kept.
        gates: their weights, and what events add.
        duplicates: how near values are taken for the same; None: only equal ones.
    """

    def __init__(
        self, library: Any, model: VersionedMemory, store: MemoryStore, gates: Gates, duplicates: NearDuplicates | None
    ) -> None:
        self.library = library
        self.model, self.store, self.gates, self.lineage = model, store, gates, store.lineage
        self.memory, self.written = store.vectors, store.written
        d, dtype = store.vectors.values.shape[1], gates.maps.own.dtype
        self.gathered = [np.empty((AT_ONCE, d), dtype) for _ in range(2)]  # memories whose products are missing
        events = max(PRODUCTS_KEPT, min(2 * len(self.lineage.index), EVENT_NUMBERS // (3 * d)))
        sizes = (PRODUCTS_KEPT, 4 * d), (PRODUCTS_KEPT, 3 * d), (events, 3 * d)
        self.parts = [np.empty(size, dtype) for size in sizes]  # of own, other, event
        self.new_versions, self.new_elapsed = np.empty(AT_ONCE, np.int64), np.empty(AT_ONCE)
        self.arrays = self._arrays(duplicates)  # held, because the library has their addresses only
        self.memories, self.missing, self.todo = _Memories(), _Missing(), Number()
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
            "order": np.concatenate([lineage.own[:0], *lineage.levels]),
            "level_start": np.cumsum([0, *map(len, lineage.levels)]),
            "usual": self.store.unchanged_slot,  # the library fills in what it reads
        }
        return {
            **{name: np.ascontiguousarray(column, dtype=np.int64) for name, column in integers.items()},
            "time": np.ascontiguousarray(self.model.times[lineage.row], dtype=np.float64),
            "imagined": np.ascontiguousarray(lineage.imagined).view(np.uint8),
            "table": words,
            "checksum_weights": checksum_weights(words.shape[1] - 2),
            "direction": np.zeros(self.gathered[0].shape[1]) if duplicates is None else duplicates.direction,
            **dict(zip(("gathered_own", "gathered_other"), self.gathered, strict=True)),
            **dict(zip(("own_parts", "other_parts", "event_parts"), self.parts, strict=True)),
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
            levels=len(lineage.levels),
            capacity=PRODUCTS_KEPT,
            event_capacity=len(self.parts[2]),
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
            **{name: array.ctypes.data for name, array in self.arrays.items()},
        )

    def follow(self, masks: Masks, versions: IntArray, change: IntArray) -> IntArray:
        """The values of versions, each under one of the changes. [n, w], [m], [m] → [m]"""
        library = self.library
        masks = np.ascontiguousarray(masks)  # the library reads them until the end
        needed = [np.ascontiguousarray(column, dtype=np.int64) for column in (versions, change)]
        pairs = *(column.ctypes.data for column in needed), len(versions)
        _check(library.follow_begin(self.handle, *masks.shape, masks.ctypes.data, *pairs))
        while _check(library.follow_advance(self.handle, ctypes.byref(self.todo))):
            left = self.todo.value
            check_deadline()
            while left:
                self._prepare(min(left, AT_ONCE))
                self._add_events()
                left = self._compute()
                check_deadline()
        slots = np.empty(len(versions), dtype=np.int64)
        library.follow_result(self.handle, *pairs, slots.ctypes.data)
        return np.where(slots == UNCHANGED, versions, self.store.values(slots))

    def _prepare(self, count: int) -> None:
        """Multiply what the next versions need, and find out what of their events is missing.

        There is room for these versions and for their parents.
        """
        memory, written, memories = self.memory, self.written, self.memories
        for vectors in (memory, written):
            vectors.reserve(3 * count)
        if self.known_values is not memory.values:
            self.known_values = memory.values
            memories.values, memories.room = self.known_values.ctypes.data, len(self.known_values)
            memories.written = written.values.ctypes.data
        memories.length = memory.length
        arguments = self.handle, ctypes.byref(memories), ctypes.byref(self.missing)
        if (prepared := self.library.follow_prepare(*arguments)) == DAMAGED:
            self._repair()
            prepared = self.library.follow_prepare(*arguments)
        _check(prepared)

    def _repair(self) -> None:
        """Have the damaged versions of the table computed anew."""
        table, index = self.store.usual
        table.read(index[(index >= 0) & (index < len(table.words))])
        self.arrays["table"] = table.words
        self.library.follow_table(self.handle, table.words.ctypes.data)

    def _add_events(self) -> None:
        """Compute what events add to the gates, where that is missing."""
        first, count = self.missing.first, self.missing.count
        if count:
            edge = self.gates.weights.edge(self.model.graph, self.lineage.message[self.new_versions[:count]])
            self.parts[2][first : first + count] = self.gates.events(edge, self.new_elapsed[:count])

    def _compute(self) -> int:
        """Compute the versions that were prepared. → how many are left"""
        left: int = self.library.follow_compute(self.handle, ctypes.byref(self.memories))
        self.memory.length = self.written.length = self.memories.length
        return left


def _check(returned: int) -> int:
    if returned == DAMAGED:
        raise ModelError("the memory table stays damaged; check the machine's disk and memory")
    return check_count(returned)
