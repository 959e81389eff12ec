"""Every version of every node's memory, computed once: event-sourced memory.

Event `row` gives its source the version at index `2·row` and its destination the one at `2·row + 1`. The memory of a
node before any row is then the version that its last event before that row wrote: a look-up, however old the row.

The table is written in event order, a batch at a time, so that building it needs memory for one version of each node
only, and a table larger than the machine's memory is still written and read without harm.

Versions are kept in single precision, as long as that is enough: a memory that amplifies small changes would make
rounding visible, so its versions are kept in double precision.

Every version carries a checksum of its values, its place, and what the table belongs to (weights, data, grid). It is
compared whenever a version is read, so a damaged file never changes an answer: damaged versions are computed anew.
"""

from __future__ import annotations

import hashlib
import json
import logging
import os
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import cache, partial
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from cody.engine.library import address, contiguous, library
from cody.engine.replay import MemoryState
from cody.engine.weights import Weights
from cody.errors import ModelError, first_line
from cody.graph import FloatArray, IntArray, TemporalGraph
from cody.utils.files import locked, remove_unless_locked

SCHEMA = "cody/versions/4"
UNUSED = 90 * 86_400.0  # seconds after which a table that nobody opened is removed
MOST_KEPT = 4 * 10**9  # bytes of all tables together, before those that were not used for longest are removed
ROWS_AT_ONCE = 1 << 14  # whose checksums are compared at once
SINGLE, DOUBLE = np.dtype(np.float32), np.dtype(np.float64)
ROUNDING = 2e-6  # that single precision may move a memory, whose numbers are at most 1; trained ones: 1e-7
EVENTS_COMPARED = 10_000  # in both precisions, before a table is built

Words = NDArray[np.uint32]
Watch = Callable[[int], None]
Table = TypeVar("Table")


def index_of(graph: TemporalGraph, rows: IntArray, nodes: IntArray) -> IntArray:
    """Where the version stands that event `rows` wrote for `nodes`. [n], [n] → [n]"""
    return 2 * rows.astype(np.int64) + (graph.src[rows] != nodes)


def latest_event(graph: TemporalGraph, nodes: IntArray, before: IntArray | int) -> IntArray:
    """The last real event of each node before row `before`; -1 where there is none. [n] → [n]"""
    loaded = library()
    if loaded is None:
        ends = graph.ends(nodes, before)
        return np.where(ends > graph.offsets[nodes], graph.incidence[ends - 1], -1)
    nodes, rows = np.ascontiguousarray(nodes, np.int64), np.empty(len(nodes), dtype=np.int64)
    arrays = nodes, np.ascontiguousarray(np.broadcast_to(before, len(nodes)), np.int64), rows
    lists = [np.ascontiguousarray(column, np.int64) for column in (graph.offsets, graph.incidence)]
    loaded.histories_latest(*map(address, lists), len(nodes), *map(address, arrays))
    return rows


def memory_before(
    graph: TemporalGraph, nodes: IntArray, before: IntArray | int, read: Callable[[IntArray], FloatArray]
) -> tuple[FloatArray, FloatArray]:
    """The memory of nodes before a row, and when it was last updated: zero before the first event. → [n, d], [n]

    Args:
        graph: The log.
        nodes: The nodes. [n]
        before: Rows. [n], or one of all
        read: Reads versions by their index, in the precision that is wanted.
    """
    rows = latest_event(graph, nodes, before)
    known = rows >= 0
    versions = read(index_of(graph, rows[known], nodes[known]))
    memory = np.zeros((len(nodes), versions.shape[1]), dtype=versions.dtype)
    memory[known] = versions
    return memory, np.where(known, graph.time[rows], 0.0)


logger = logging.getLogger(__name__)


class VersionTable:
    """All versions of a network's memory on a graph, by index.

    A row of `words` holds the values of a version (d numbers, W words) and their checksum (2 words).
    """

    def __init__(
        self, network: Weights, graph: TemporalGraph, dtype: np.dtype[Any], words: Words, file: Path | None = None
    ) -> None:
        self.network = network  # in the precision that versions are computed in
        self.graph = graph
        self.words = words  # [2E, W + 2]; of a file: a private copy of what is changed, so that reading needs no right
        self.file = file
        self.dtype = dtype  # in which they are kept
        self.key = np.uint64(int(digest_of(network, graph, dtype)[:16], 16))

    @property
    def nbytes(self) -> int:
        return self.words.nbytes

    def read(self, index: IntArray) -> FloatArray:
        """The versions at `index`, each as it was written. [n] → [n, d]"""
        words, is_right = self._copy(index)
        if not is_right:
            self.repair()
            words, is_right = self._copy(index)
            if not is_right:
                raise ModelError(
                    f"the memory table {self.file or ''} stays damaged; check the machine's disk and memory"
                )
        return words.view(self.dtype)

    def _copy(self, index: IntArray) -> tuple[Words, bool]:
        """The words of versions, and whether all are as they were written. [n] → [n, W]"""
        loaded = library()
        if loaded is None:
            rows = self.words[index]
            return rows[:, :-2], bool(self._is_right(rows, index).all())
        width, index = self.words.shape[1] - 2, contiguous(index)
        words, added = np.empty((len(index), width), np.uint32), _scatter(index.astype(np.uint64) + self.key)
        table = address(self.words), width, address(checksum_weights(width)), len(index)
        return words, not loaded.versions_read(*table, *map(address, (index, added, words)))

    def part(self, index: IntArray) -> tuple[VersionTable, IntArray]:
        """Rows of words that hold the versions at `index`, and where: these. See `CheckpointedTable.part`."""
        return self, index

    def write(self, first: int, versions: FloatArray) -> None:
        """Set the versions from index `first` on. [n, d]"""
        stop = first + len(versions)
        words = np.ascontiguousarray(versions).view(np.uint32)
        self.words[first:stop, :-2] = words
        self.words[first:stop, -2:] = checksums(words, np.arange(first, stop), self.key)[:, None].view(np.uint32)

    def repair(self) -> None:
        """Compute damaged versions anew, oldest first, a batch at a time as they were built; also in the file."""
        if not self.words.flags.writeable:  # it came from another process
            self.words = self.words.copy()
        width = 2 * self.network.sizes.batch
        damaged = sorted({int(index) // width for index in self.damaged()})
        logger.warning("%d damaged batches of the memory table %s are computed anew", len(damaged), self.file or "")
        for batch in damaged:
            rows = batch_rows(self.graph, self.network, batch * self.network.sizes.batch)
            # Of versions that were repaired already, or are intact.
            parents, updated = memory_before(
                self.graph, np.concatenate(ends_of(self.graph, rows)), rows[0], self._words
            )
            own, other = np.split(parents, 2)
            written = next_versions(self.network, self.graph, rows, own, other, updated[: len(rows)])
            self.write(batch * width, written)
        self._repair_file([slice(batch * width, (batch + 1) * width) for batch in damaged])

    def damaged(self) -> Iterator[int]:
        """The indices whose values and checksum do not belong together."""
        for first in range(0, len(self.words), ROWS_AT_ONCE):
            words = self.words[first : first + ROWS_AT_ONCE]
            wrong = ~self._is_right(words, np.arange(first, first + len(words)))
            yield from (first + np.flatnonzero(wrong)).tolist()

    def _is_right(self, words: Words, index: IntArray) -> NDArray[np.bool_]:
        stored = np.ascontiguousarray(words[:, -2:]).view(np.uint64)[:, 0]
        return stored == checksums(words[:, :-2], index, self.key)

    def _words(self, index: IntArray) -> FloatArray:
        """Versions, whether or not they are as they were written. [n] → [n, d]"""
        return self.words[index][:, :-2].view(self.dtype)

    def _repair_file(self, places: list[slice]) -> None:
        if self.file is None:
            return
        with suppress(OSError, ValueError):  # then the next process repairs it for itself
            opened = np.memmap(self.file, dtype=np.uint32, mode="r+", shape=self.words.shape)
            for place in places:
                opened[place] = self.words[place]
            opened.flush()


def checksums(words: Words, index: IntArray, key: np.uint64) -> NDArray[np.uint64]:
    """A number for each row that changes with any of its words, with its place, and with the table. [n, W] → [n]

    The words are weighted with odd numbers, so that one changed bit changes the sum, and of other changes one in 2^64
    goes unnoticed. It is no protection against somebody who can write files as you; tables lie in your own cache.
    """
    weights = checksum_weights(words.shape[1])
    return words.astype(np.uint64) @ weights + _scatter(index.astype(np.uint64) + key)


@cache
def checksum_weights(width: int) -> NDArray[np.uint64]:
    """An odd number for each word of a version. [W]"""
    return _scatter(np.arange(width, dtype=np.uint64)) | np.uint64(1)


def _scatter(numbers: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """Numbers without a pattern from numbers with one (the finalizer of splitmix64)."""
    mixed = numbers * np.uint64(0x9E3779B97F4A7C15) + np.uint64(0x9E3779B97F4A7C15)
    for shift, factor in ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB)):
        mixed = (mixed ^ mixed >> np.uint64(shift)) * np.uint64(factor)
    return mixed ^ mixed >> np.uint64(31)


def build_versions(table: VersionTable, watch: Watch | None = None) -> None:
    """Let all events happen, and write every version into the table. `watch` is called with how many have."""
    start = state_at_first(table.network, table.graph, table.dtype)
    for batch in happen(table.network, table.graph, start):
        table.write(2 * int(batch.rows[0]), batch.versions)
        if watch is not None:
            watch(int(batch.rows[-1]) + 1)


def state_at_first(network: Weights, graph: TemporalGraph, dtype: np.dtype[Any]) -> MemoryState:
    """The memory of all nodes before the first event, in the precision of a table."""
    return MemoryState(0, np.zeros((graph.num_nodes, network.sizes.dimension), dtype=dtype), np.zeros(graph.num_nodes))


class WrittenBatch(NamedTuple):
    """What a batch of events writes; each row stands twice, once for either end."""

    rows: IntArray  # [n]
    nodes: IntArray  # [n]
    other: IntArray  # [n]
    last: IntArray  # [nodes of the batch] the places of the versions that these nodes keep
    versions: FloatArray  # [n, d]


def happen(network: Weights, graph: TemporalGraph, start: MemoryState) -> Iterator[WrittenBatch]:
    """Let all events from a grid line on happen, batch by batch. The memories of `start` are changed."""
    line, memory, updated = start
    for first in range(line, graph.num_events, network.sizes.batch):
        rows = batch_rows(graph, network, first)
        nodes, other = ends_of(graph, rows)
        versions = next_versions(network, graph, rows, memory[nodes], memory[other], updated[nodes])
        last = len(nodes) - 1 - np.unique(nodes[::-1], return_index=True)[1]  # a node keeps its last version
        memory[nodes[last]] = versions[last]
        updated[nodes[last]] = graph.time[rows[last]]
        yield WrittenBatch(rows, nodes, other, last, versions)


def precision_for(network: Weights, graph: TemporalGraph) -> np.dtype[Any]:
    """The precision to keep versions in: single, unless rounding is amplified in the first events."""
    first = _first_events(graph, EVENTS_COMPARED + network.sizes.batch)
    single, double = (happen(network, first, state_at_first(network, first, kept)) for kept in (SINGLE, DOUBLE))
    for batch, exact in zip(single, double, strict=True):
        if np.abs(batch.versions - exact.versions).max() > ROUNDING:
            return DOUBLE
        if batch.rows[-1] >= EVENTS_COMPARED:
            break
    return SINGLE


def _first_events(graph: TemporalGraph, count: int) -> TemporalGraph:
    """The first events alone, of nodes that are numbered anew: the memory of all nodes may be large."""
    stop = min(count, graph.num_events)
    nodes, ends = np.unique(np.concatenate([graph.src[:stop], graph.dst[:stop]]), return_inverse=True)
    features = None if graph.features is None else graph.features[:stop]
    return TemporalGraph.from_arrays(
        ends[:stop], ends[stop:], graph.time[:stop], features=features, num_nodes=len(nodes)
    )


def batch_rows(graph: TemporalGraph, network: Weights, first: int) -> IntArray:
    """The rows of a batch, each twice: once for either end."""
    return np.repeat(np.arange(first, min(first + network.sizes.batch, graph.num_events)), 2)


def ends_of(graph: TemporalGraph, rows: IntArray) -> tuple[IntArray, IntArray]:
    """The node that each entry of a batch is about, and the one at the other end."""
    ends = np.stack([graph.src[rows[::2]], graph.dst[rows[::2]]], axis=1)  # [n, 2]
    return ends.ravel(), ends[:, ::-1].ravel()


def next_versions(
    network: Weights, graph: TemporalGraph, rows: IntArray, own: FloatArray, other: FloatArray, updated: FloatArray
) -> FloatArray:
    """The versions that a batch writes, from those at its start. → [n, d]

    They are rounded to the precision of these, that of the table, as are versions that a session computes: then a
    version is the same number whether it was read or computed.
    """
    elapsed = (graph.time[rows] - updated).astype(network.dtype)
    parents = own.astype(network.dtype), other.astype(network.dtype)
    versions = network.remember(*parents, network.edge(graph, rows), elapsed).astype(own.dtype)
    if not np.isfinite(versions).all():
        raise ModelError(f"the model's memory is not finite after events {rows[0]} to {rows[-1]}; train it anew")
    return versions


def versions_in_memory(
    network: Weights, graph: TemporalGraph, dtype: np.dtype[Any] | None, watch: Watch | None = None
) -> VersionTable:
    """The table of a model and a graph, built now; in the precision that it needs unless one is given."""
    dtype = precision_for(network, graph) if dtype is None else dtype
    table = VersionTable(network, graph, dtype, np.empty(shape_of(network, graph, dtype), dtype=np.uint32))
    build_versions(table, watch)
    return table


def open_versions(
    network: Weights, graph: TemporalGraph, dtype: np.dtype[Any] | None, folder: Path, watch: Watch | None = None
) -> VersionTable:
    """The table in `folder`, named after what it belongs to; built if it is not there.

    It is memory-mapped, so that all processes on a machine share one copy. Where the folder cannot be written, or has
    no room, the table is made in memory. Without a `dtype` it has the precision that it needs.
    """
    kinds = (DOUBLE, SINGLE) if dtype is None else (dtype,)
    files = {kept: folder / f"{digest_of(network, graph, kept)}.versions" for kept in kinds}
    try:
        for kept, file in files.items():
            if (opened := open_whole(network, graph, kept, file)) is not None:
                clear_lock(file)
                return opened
        dtype = precision_for(network, graph) if dtype is None else dtype
        file = files[dtype]
        build = partial(_build_on_disk, network, graph, dtype, file.with_suffix(".partial"), watch)
        return built_once(file, partial(open_whole, network, graph, dtype, file), build, graph.num_events)
    except OSError as error:
        logger.warning("the memory table cannot be kept in %s (%s): it is built in memory", folder, first_line(error))
        return versions_in_memory(network, graph, dtype, watch)


def open_whole(network: Weights, graph: TemporalGraph, dtype: np.dtype[Any], file: Path) -> VersionTable | None:
    """The table in this file, if it is there and has the right size."""
    shape = shape_of(network, graph, dtype)
    try:
        if file.stat().st_size != 4 * shape[0] * shape[1]:
            return None  # damaged beyond repair
        words = np.asarray(np.memmap(file, dtype=np.uint32, mode="c", shape=shape))
    except FileNotFoundError:
        return None
    with suppress(OSError):
        os.utime(file)  # it is in use
    logger.debug("memory table %s opened", file)
    return VersionTable(network, graph, dtype, words, file)


def built_once(file: Path, open_it: Callable[[], Table | None], build: Callable[[], Path], events: int) -> Table:
    """The table in a file, built if it is not there. Of several processes, one builds it.

    Args:
        file: Where the table is.
        open_it: Opens it; None if it is not there, or unfinished.
        build: Builds it beside its name, which it gets when it is whole. Returns where that was.
        events: Number of its events.
    """
    file.parent.mkdir(parents=True, exist_ok=True)
    with locked(file.with_suffix(".lock")):
        if (opened := open_it()) is not None:
            return opened  # another process was faster
        started = time.monotonic()
        build().replace(file)
        logger.info("memory table of %d events built in %.1f s", events, time.monotonic() - started)
    clear_unused(file)
    if (opened := open_it()) is None:
        raise FileNotFoundError(file)
    return opened


def _build_on_disk(
    network: Weights, graph: TemporalGraph, dtype: np.dtype[Any], file: Path, watch: Watch | None
) -> Path:
    """Build a whole table in a file that is mapped; whatever happens, no part of one is left."""
    try:
        shape = shape_of(network, graph, dtype)
        _reserve(file, 4 * shape[0] * shape[1])
        words = np.memmap(file, dtype=np.uint32, mode="r+", shape=shape)
        build_versions(VersionTable(network, graph, dtype, np.asarray(words)), watch)
        words.flush()
    except BaseException:
        file.unlink(missing_ok=True)
        raise
    return file


def _reserve(file: Path, size: int) -> None:
    """Give the file its full size. A mapped file that meets a full disk later on kills the process."""
    with file.open("wb") as opened:
        if hasattr(os, "posix_fallocate"):
            os.posix_fallocate(opened.fileno(), 0, size)
        opened.truncate(size)


def clear_lock(file: Path) -> None:
    """Remove the lock of a process that was killed when it had built this table."""
    lock = file.with_suffix(".lock")
    if lock.exists():
        remove_unless_locked(lock, file.with_suffix(".partial"))


def clear_unused(newest: Path) -> None:
    """Remove tables that nobody has opened for long, the oldest beyond a total size, and what killed builds left."""
    folder = newest.parent
    total = newest.stat().st_size
    for used, size, file in sorted(_others(newest), reverse=True):
        total += size
        if time.time() - used > UNUSED or total > MOST_KEPT:
            file.unlink(missing_ok=True)  # a process that has it open keeps it until it ends
    for left in (*folder.glob("*.partial"), *folder.glob("*.lock")):
        remove_unless_locked(left.with_suffix(".lock"), left.with_suffix(".partial"))
    for left in folder.glob("*.unfinished"):  # of `checkpoints.py`, where it may be resumed
        with suppress(FileNotFoundError):
            if time.time() - left.stat().st_mtime > UNUSED:
                remove_unless_locked(left.with_suffix(".lock"), left)


def _others(newest: Path) -> Iterator[tuple[float, int, Path]]:
    """When each other table was last opened, its size, and its file."""
    for file in (file for kind in ("versions", "checkpoints") for file in newest.parent.glob(f"*.{kind}")):
        with suppress(FileNotFoundError):  # another process may clear it just now
            if file != newest:
                yield file.stat().st_mtime, file.stat().st_size, file


def digest_of(network: Weights, graph: TemporalGraph, dtype: np.dtype[Any]) -> str:
    """What the table depends on, as one word: it is the name of the table's file."""
    digest = hashlib.blake2b(digest_size=16)
    for name, array in sorted(network.arrays.items()):
        if name.startswith(("memory.", "encode.")):
            digest.update(name.encode() + array.tobytes())
    described: dict[str, Any] = {
        "schema": SCHEMA,
        "weights": digest.hexdigest(),
        "data": graph.base_identity,
        "batch": network.sizes.batch,
        "dtype": f"{network.dtype} as {dtype}",
    }
    return hashlib.blake2b(json.dumps(described, sort_keys=True).encode(), digest_size=16).hexdigest()


def shape_of(network: Weights, graph: TemporalGraph, dtype: np.dtype[Any]) -> tuple[int, int]:
    """How many versions a whole table has, and words for each."""
    return 2 * graph.num_events, network.sizes.dimension * dtype.itemsize // 4 + 2
