"""A table of all versions of memories that stores a third of them: checkpoints, from which the others are computed.

A version is computed from two others, its parents. What that takes is its cost: nothing for a checkpoint, else one
computation and the costs of its parents. While the table is built, in event order, a version that would cost more than
`MOST_COMPUTED` becomes a checkpoint. Versions that a later event of the same batch replaces are nobody's parents, so
they are never stored. So reading any version computes at most 2 * MOST_COMPUTED + 1, however old it is; those that are
read together share what they have in common.

The checksums of all versions are stored (`versions.py`), and what is computed is compared with them as what is read
is. So a version is, bit for bit, what a whole table has. In double precision the last bits of a product depend on how
many rows it has; rounded to single precision, that is seen in one version of some 500,000. Such a one does not have its
checksum, and is computed once more in the company in which it was written.

The file: a header that says how far it is; checksums and places of all versions; the checkpoints, in event order. It is
written in blocks, each followed by the header. So a process that is killed loses a block, and the next one resumes.
"""

from __future__ import annotations

import json
import logging
import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import IO, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from cody.engine import versions
from cody.engine.replay import MemoryState
from cody.engine.versions import DOUBLE, SINGLE, VersionTable, Watch, Words, WrittenBatch, next_versions
from cody.engine.weights import Weights
from cody.errors import CallError, first_line
from cody.graph import BoolArray, FloatArray, IntArray, TemporalGraph, is_in, sorted_unique
from cody.utils.deadline import check_deadline
from cody.utils.files import is_as_written, with_checksum

MOST_COMPUTED = 10  # versions, to get one that others are computed from
WHOLE_UP_TO = 4 * 10**9  # bytes of a whole table; of a larger one a part is stored, unless `CHOICE` says otherwise
CHOICE = "CODY_TABLE"  # the environment variable
HEADER = 4096  # bytes
EVENTS_IN_BLOCK = 1 << 17  # of which nothing is lost if building is interrupted later
READ_AT_ONCE = 1 << 14  # versions, so that reading takes little memory
USUAL_SHARE = 0.35  # of all versions are checkpoints: a disk needs that room before a table is begun

logger = logging.getLogger(__name__)


class CheckpointedTable:
    """All versions of a network's memory on a graph, by index, as a `VersionTable` has them.

    Args:
        network: in the precision that versions are computed in.
        graph: the log.
        file: where the table is; it may be unfinished.
    """

    dtype = SINGLE  # in which versions are kept

    def __init__(self, network: Weights, graph: TemporalGraph, file: Path) -> None:
        self.network, self.graph, self.file = network, graph, file
        layout = _FileSections(network, graph)
        header = layout.header_of(file)
        if header is None:
            raise FileNotFoundError(file)
        self.rows = header.rows  # how many events it has
        self.key = np.uint64(int(layout.digest[:16], 16))
        count = 2 * graph.num_events
        self.sums: NDArray[np.uint64] = _mapped(file, np.uint64, layout.sums, (count,))
        self.places: NDArray[np.int32] = _mapped(file, np.int32, layout.places, (count,))  # or minus the cost
        self.checkpoints: Words = _mapped(file, np.uint32, layout.checkpoints, (header.stored, layout.words))
        self.complained = False

    def __reduce__(self) -> tuple[Any, ...]:
        """Another process opens the file; on a machine that has not got it, it is built there first."""
        return open_checkpoints, (self.network, self.graph, self.file)

    @property
    def nbytes(self) -> int:
        return self.sums.nbytes + self.places.nbytes + self.checkpoints.nbytes

    def read(self, index: IntArray) -> FloatArray:
        """The versions at `index`, each as it was written. [n] → [n, d]"""
        result = np.empty((len(index), self.network.sizes.dimension), dtype=self.dtype)
        for first in range(0, len(index), READ_AT_ONCE):
            check_deadline()
            some = index[first : first + READ_AT_ONCE]
            wanted = sorted_unique(some)
            result[first : first + READ_AT_ONCE] = self._read(wanted)[np.searchsorted(wanted, some)]
        return result

    def part(self, index: IntArray) -> tuple[PartInMemory, IntArray]:
        """Rows of words that hold the versions at `index`, and where; -1 where there is none. [n] → [n]"""
        there = (index >= 0) & (index < len(self.places))  # others are imagined
        place = np.where(there, np.arange(len(index)), -1)
        return PartInMemory(self.read(index[there]), np.flatnonzero(there), len(index)), place

    def state(self, line: int) -> tuple[MemoryState, IntArray]:
        """The memory of all nodes at a line of the batch grid, and what its versions cost. → [nodes]"""
        nodes = np.arange(self.graph.num_nodes)
        state = MemoryState(line, *versions.memory_before(self.graph, nodes, line, self.read))
        rows = versions.latest_event(self.graph, nodes, line)
        places = self.places[versions.index_of(self.graph, np.maximum(rows, 0), nodes)]
        return state, np.where(rows >= 0, np.maximum(-places.astype(np.int64), 0), 0)

    def _read(self, wanted: IntArray) -> FloatArray:
        """The versions at `wanted`, which ascend. [n] → [n, d]"""
        found = self._computed(wanted)
        if found is not None:
            return found
        logger.log(
            logging.DEBUG if self.complained else logging.WARNING,
            "versions in the memory table %s do not have their checksums: they are computed from earlier ones",
            self.file,
        )
        self.complained = True
        return self._computed_in_company(wanted)

    def _computed(self, wanted: IntArray) -> FloatArray | None:
        """The versions at `wanted`; None where one of them, or of those it takes, does not have its checksum."""
        needed = self._needed(wanted, lambda index: self.places[index] >= 0)
        values = self._with_checkpoints(needed)
        if not self._are_right(values[needed.stored], needed.versions[needed.stored]).all():
            return None
        for some in needed.groups(-self.places[needed.versions[needed.missing]]):  # parents cost less
            self._compute(needed, some, values)
        if not self._are_right(values[needed.missing], needed.versions[needed.missing]).all():
            return None
        return needed.of(wanted, values)

    def _computed_in_company(self, wanted: IntArray, *, company: bool = True) -> FloatArray:
        """The versions at `wanted`, where something may be damaged: batch by batch, from checkpoints that are not.

        What still does not have its checksum is computed with its whole `company`, that of its batch, as it was written
        once. If that does not help, the checksum is damaged, or another machine wrote it that rounds differently.
        """
        needed = self._needed(wanted, self._are_intact)
        values = self._with_checkpoints(needed)
        for some in needed.groups(needed.versions[needed.missing] // (2 * self.network.sizes.batch)):
            self._compute(needed, some, values)
            place = needed.missing[some]
            wrong = place[~self._are_right(values[place], needed.versions[place])]
            if company and len(wrong):
                values[wrong] = self._of_one_batch(needed.versions[wrong])
        return needed.of(wanted, values)

    def _of_one_batch(self, index: IntArray) -> FloatArray:
        """Versions of one batch, computed with all others of it. [n] → [n, d]"""
        network, graph = self.network, self.graph
        rows = versions.batch_rows(graph, network, int(index[0]) // (2 * network.sizes.batch) * network.sizes.batch)
        first = 2 * int(rows[0])
        own, other = self._parents(first + np.arange(len(rows)))
        wanted = _present(own, other)
        values = _room(self._computed_in_company(wanted, company=False))
        parents = values[_places(wanted, own)], values[_places(wanted, other)]
        return next_versions(network, graph, rows, *parents, _written(graph, own))[index - first]

    def _needed(self, wanted: IntArray, is_stored: Callable[[IntArray], BoolArray]) -> _Needed:
        """These versions, and all that have to be computed or read for them."""
        index, fresh, missing = wanted, wanted, [wanted[:0]]
        parents = [(wanted[:0], wanted[:0])]
        while len(fresh):
            missing.append(fresh[~is_stored(fresh)])
            parents.append(self._parents(missing[-1]))
            fresh = _present(*parents[-1])
            fresh = fresh[~is_in(fresh, index)]
            index = sorted_unique(np.concatenate([index, fresh]))
        own, other = (_places(index, np.concatenate(column)) for column in zip(*parents, strict=True))
        return _Needed(index, np.searchsorted(index, np.concatenate(missing)), own, other)

    def _parents(self, index: IntArray) -> tuple[IntArray, IntArray]:
        """The latest versions of both nodes at the start of the batch; -1: there is none. [n] → [n], [n]"""
        graph, rows, is_target = self.graph, index // 2, index % 2 > 0
        source, target = graph.src[rows].astype(np.int64), graph.dst[rows].astype(np.int64)
        nodes = np.concatenate([np.where(is_target, target, source), np.where(is_target, source, target)])
        line = rows // self.network.sizes.batch * self.network.sizes.batch
        written = versions.latest_event(graph, nodes, np.concatenate([line, line]))
        own, other = np.where(written >= 0, versions.index_of(graph, written, nodes), -1).reshape(2, -1)
        return own, other

    def _with_checkpoints(self, needed: _Needed) -> FloatArray:
        """Room for versions, with those that are stored; the last row is zero, the memory before the first event."""
        values = _room(np.zeros((len(needed.versions), self.network.sizes.dimension), dtype=self.dtype))
        places = self.places[needed.versions[needed.stored]]
        if len(self.checkpoints):  # damaged places may be any number
            values[needed.stored] = self.checkpoints.take(places, axis=0, mode="clip").view(self.dtype)
        return values

    def _compute(self, needed: _Needed, some: IntArray, values: FloatArray) -> None:
        """Compute some of what is missing from its parents."""
        place, own, other = needed.missing[some], needed.own[some], needed.other[some]
        written = _written(self.graph, np.where(own >= 0, needed.versions[own], -1))
        parents = values[own], values[other]
        values[place] = next_versions(self.network, self.graph, needed.versions[place] // 2, *parents, written)

    def _are_intact(self, index: IntArray) -> BoolArray:
        """Whether versions are stored, and as they were written. [n] → [n]"""
        places = self.places[index]
        intact: BoolArray = (places >= 0) & (places < len(self.checkpoints))
        values = self.checkpoints[places[intact]].view(self.dtype)
        intact[intact] = self._are_right(values, index[intact])
        return intact

    def _are_right(self, values: FloatArray, index: IntArray) -> BoolArray:
        """Whether versions have their checksums. [n, d], [n] → [n]"""
        return versions.checksums(values.view(np.uint32), index, self.key) == self.sums[index]


class PartInMemory:
    """Rows of words with the versions that one session reads: see `VersionTable`.

    Args:
        values: the versions. [n, d]
        places: their rows. [n]
        count: of rows.
    """

    def __init__(self, values: FloatArray, places: IntArray, count: int) -> None:
        words = np.ascontiguousarray(values).view(np.uint32)
        self.dtype, self.key = values.dtype, np.uint64(0)  # it never leaves this process
        self.words = np.zeros((count, words.shape[1] + 2), dtype=np.uint32)
        self.words[places, :-2] = words
        self.words[places, -2:] = versions.checksums(words, places, self.key)[:, None].view(np.uint32)

    def read(self, index: IntArray) -> FloatArray:
        """The versions in these rows. [n] → [n, d]"""
        return self.words[index][:, :-2].view(self.dtype)


class _Needed(NamedTuple):
    """Versions to read, and how those are made that are not stored. A place is one in `versions`; -1: there is none."""

    versions: IntArray  # [m] their indices, ascending
    missing: IntArray  # [k] the places of those that are not stored
    own: IntArray  # [k] the places of their parents
    other: IntArray  # [k]

    @property
    def stored(self) -> IntArray:
        """The places of the others. [m - k]"""
        stored = np.ones(len(self.versions), dtype=bool)
        stored[self.missing] = False
        return np.flatnonzero(stored)

    def groups(self, order: IntArray) -> Iterator[IntArray]:
        """What is missing, in this order, all that is equal at once: numbers of `missing`. [k]"""
        numbers = np.argsort(order, kind="stable")
        return iter(np.split(numbers, np.flatnonzero(np.diff(order[numbers])) + 1) if len(numbers) else [])

    def of(self, wanted: IntArray, values: FloatArray) -> FloatArray:
        return values[np.searchsorted(self.versions, wanted)]


def _present(*parents: IntArray) -> IntArray:
    """The different versions among these, in order."""
    found = sorted_unique(np.concatenate(parents))
    return found[np.searchsorted(found, 0) :]


def _places(index: IntArray, wanted: IntArray) -> IntArray:
    """Where versions stand in `index`; -1 where there is none."""
    return np.where(wanted >= 0, np.searchsorted(index, wanted), -1)


def _room(values: FloatArray) -> FloatArray:
    """With a row of zeros at the end, which -1 names."""
    return np.concatenate([values, np.zeros_like(values, shape=(1, values.shape[1]))])


def _written(graph: TemporalGraph, index: IntArray) -> FloatArray:
    """When versions were written, 0 where there is none. [n] → [n]"""
    return np.where(index >= 0, graph.time[np.maximum(index, 0) // 2], 0.0)


def open_memory_table(
    network: Weights, graph: TemporalGraph, dtype: np.dtype[Any] | None, folder: Path | None, watch: Watch | None = None
) -> VersionTable | CheckpointedTable:
    """The table of a model and a graph, built if it is not there: whole, or, if that would be large, by checkpoints.

    Checkpoints need what is computed in double and kept in single precision: else the last bits of a version would
    depend on what else is computed with it.

    Args:
        network: in the precision that versions are computed in.
        graph: the log.
        dtype: the precision to keep versions in; None: the one that they need.
        folder: where tables are; None: the table is built in memory.
        watch: called while it is built, with how many events it has.
    """
    if folder is None:
        return versions.versions_in_memory(network, graph, dtype, watch)
    chosen = os.environ.get(CHOICE, "")
    if chosen not in ("", "whole", "checkpoints"):
        raise CallError(f"{CHOICE}={chosen}: give whole or checkpoints, or leave it out")
    rows, words = versions.shape_of(network, graph, SINGLE)
    is_large = 4 * rows * words > WHOLE_UP_TO
    is_double = dtype is not None and dtype != SINGLE
    if chosen == "whole" or not (chosen or is_large) or network.dtype != DOUBLE or is_double:
        return versions.open_versions(network, graph, dtype, folder, watch)
    digest = versions.digest_of(network, graph, SINGLE)
    if not chosen and (whole := versions.open_whole(network, graph, SINGLE, folder / f"{digest}.versions")) is not None:
        return whole  # it was built before
    file = folder / f"{digest}.checkpoints"
    if not file.exists() and dtype is None and versions.precision_for(network, graph) == DOUBLE:
        return versions.open_versions(network, graph, DOUBLE, folder, watch)
    return open_checkpoints(network, graph, file, watch)


def open_checkpoints(
    network: Weights, graph: TemporalGraph, file: Path, watch: Watch | None = None
) -> CheckpointedTable:
    """The table in this file, built if it is not there, or resumed. Of several processes, one builds it."""
    if (opened := _open(network, graph, file)) is not None:
        versions.clear_lock(file)
        return opened
    try:
        build = partial(_build, network, graph, file.with_suffix(".unfinished"), watch)
        return versions.built_once(file, partial(_open, network, graph, file), build, graph.num_events)
    except OSError as error:
        raise CallError(
            f"the memory table of {graph.num_events:,} events cannot be stored in {file.parent} ({first_line(error)}); "
            "the environment variable XDG_CACHE_HOME names another folder for the cache"
        ) from None


def _open(network: Weights, graph: TemporalGraph, file: Path) -> CheckpointedTable | None:
    """The table, if the file is there and finished."""
    layout = _FileSections(network, graph)
    header = layout.header_of(file)
    if header is None or header.rows < graph.num_events:
        return None
    with suppress(OSError):
        os.utime(file)  # it is in use
    logger.debug("memory table %s opened", file)
    return CheckpointedTable(network, graph, file)


class _Header(NamedTuple):
    rows: int  # events whose versions are there
    stored: int  # checkpoints


class _FileSections:
    """Where things stand in the file of a table, in bytes."""

    def __init__(self, network: Weights, graph: TemporalGraph) -> None:
        count = 2 * graph.num_events
        self.digest = versions.digest_of(network, graph, SINGLE)
        self.words = network.sizes.dimension  # of a version
        self.sums = HEADER
        self.places = self.sums + 8 * count
        self.checkpoints = -(-(self.places + 4 * count) // HEADER) * HEADER
        self.usual_size = self.checkpoints + int(USUAL_SHARE * count) * 4 * self.words

    def header_of(self, file: Path) -> _Header | None:
        """What the file says of itself; None if it is not there, damaged, or of another table."""
        try:
            with file.open("rb") as stream:
                found = json.loads(stream.read(HEADER).rstrip(b"\0"))
            if not is_as_written(found) or found["table"] != self.digest:
                return None
            header = _Header(found["rows"], found["stored"])
        except (OSError, ValueError, KeyError, AttributeError):
            return None
        size = self.checkpoints + header.stored * 4 * self.words
        return header if file.stat().st_size >= size else None

    def write_header(self, stream: IO[bytes], header: _Header) -> None:
        content = json.dumps(with_checksum({"table": self.digest, **header._asdict()}))
        _write_at(stream, 0, content.encode().ljust(HEADER, b"\0"))
        os.fsync(stream.fileno())


def _build(network: Weights, graph: TemporalGraph, file: Path, watch: Watch | None) -> Path:
    """Write the table, from where the file ends. Returns the file."""
    layout = _FileSections(network, graph)
    header = layout.header_of(file)
    cost: IntArray = np.zeros(graph.num_nodes, dtype=np.int64)
    if header is None:
        _begin(layout, file)
        header, state = _Header(0, 0), versions.state_at_first(network, graph, SINGLE)
    else:
        logger.info("memory table %s: resumed at event %d of %d", file, header.rows, graph.num_events)
        if watch is not None:
            watch(header.rows)
        state, cost = CheckpointedTable(network, graph, file).state(header.rows)
    block = _Block(header, np.uint64(int(layout.digest[:16], 16)))
    with file.open("r+b") as stream:
        for batch in versions.happen(network, graph, state):
            block.add(batch, cost)
            if block.rows >= header.rows + EVENTS_IN_BLOCK or block.rows == graph.num_events:
                header = block.write(stream, layout, header)
            if watch is not None:
                watch(block.rows)
        stream.truncate(layout.checkpoints + header.stored * 4 * layout.words)
    if header.rows != graph.num_events:
        raise AssertionError(header)
    return file


def _begin(layout: _FileSections, file: Path) -> None:
    """An empty file, on a disk that has room for the table."""
    free = shutil.disk_usage(file.parent).free
    if free < layout.usual_size:
        raise OSError(f"it takes about {layout.usual_size / 1e9:.1f} GB, and {free / 1e9:.1f} GB are free")
    with file.open("wb") as stream:
        stream.truncate(layout.checkpoints)
        layout.write_header(stream, _Header(0, 0))


class _Block:
    """What batches write into the file: the checksums and the places of their versions, and some of the versions."""

    def __init__(self, header: _Header, key: np.uint64) -> None:
        self.rows, self.stored = header
        self.key = key
        self._empty()

    def _empty(self) -> None:
        self.sums: list[NDArray[np.uint64]] = []
        self.places: list[NDArray[np.int32]] = []
        self.checkpoints: list[FloatArray] = []

    def add(self, batch: WrittenBatch, cost: IntArray) -> None:
        """Take in a batch. `cost`, of the memories at its start, becomes that of the memories at its end. [nodes]"""
        made = 1 + cost[batch.nodes] + cost[batch.other]
        last = batch.last - ((batch.last % 2 > 0) & (batch.nodes == batch.other)[batch.last])  # as `index_of` says
        is_dear = made[last] > MOST_COMPUTED
        stored = np.sort(last[is_dear])
        places = -made
        places[stored] = self.stored + np.arange(len(stored))
        cost[batch.nodes[last]] = np.where(is_dear, 0, made[last])
        index = 2 * int(batch.rows[0]) + np.arange(len(batch.rows))
        self.sums.append(versions.checksums(batch.versions.view(np.uint32), index, self.key))
        self.places.append(places.astype(np.int32))
        self.checkpoints.append(batch.versions[stored])
        self.rows, self.stored = int(batch.rows[-1]) + 1, self.stored + len(stored)

    def write(self, stream: IO[bytes], layout: _FileSections, header: _Header) -> _Header:
        """Write it behind what the file has, which `header` says; then the new header."""
        first = 2 * header.rows
        _write_at(stream, layout.sums + 8 * first, *self.sums)
        _write_at(stream, layout.places + 4 * first, *self.places)
        _write_at(stream, layout.checkpoints + header.stored * 4 * layout.words, *self.checkpoints)
        os.fsync(stream.fileno())
        self._empty()
        header = _Header(self.rows, self.stored)
        layout.write_header(stream, header)
        return header


def _write_at(stream: IO[bytes], place: int, *contents: bytes | NDArray[Any]) -> None:
    stream.seek(place)
    for content in contents:
        stream.write(content if isinstance(content, bytes) else content.tobytes())
    stream.flush()


def _mapped(file: Path, dtype: Any, offset: int, shape: tuple[int, ...]) -> NDArray[Any]:
    """A part of a file as an array, memory-mapped."""
    if 0 in shape:
        return np.zeros(shape, dtype=dtype)
    return np.asarray(np.memmap(file, dtype=dtype, mode="r", offset=offset, shape=shape))
