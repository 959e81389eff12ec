"""A saved graph: a folder of `.npy` columns and `graph.json`, opened memory-mapped.

`graph.json` names the columns' files and holds their checksums, and its own. Each save writes new files and then
replaces `graph.json`, so that the folder holds one complete graph at every moment. Other files in it are left alone.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import time
import uuid
from collections import defaultdict
from collections.abc import Iterable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Annotated, Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from cody.errors import DataError, first_line
from cody.graph import TemporalGraph
from cody.utils.files import (
    STALE,
    cache_directory,
    file_checksum,
    flush,
    is_as_written,
    load_array,
    with_checksum,
    write_atomically,
)
from cody.utils.forms import unknown_schema
from cody.utils.words import sanitize

SCHEMA = "cody/graph/2"
DESCRIPTION = "graph.json"
COLUMN_TYPES = {
    "src": "<i4",
    "dst": "<i4",
    "time": "<f8",
    "features": "<f4",
    "node_features": "<f4",
    "names": "",  # whole numbers or text of a fixed width, as the user's ids were
    "offsets": "<i8",
    "incidence": "<i8",
    "labels": "<i4",
}
OPTIONAL = {"features", "node_features", "names", "labels"}
TABLES = {"features", "node_features"}  # of two dimensions
COLUMN_FILE = re.compile(rf"({'|'.join(COLUMN_TYPES)})-([0-9a-f]{{16}})\.npy")  # a column, and which save wrote it
PARTIAL_DESCRIPTION = re.compile(rf"\.{re.escape(DESCRIPTION)}\.[0-9a-f]{{8}}\.partial")
DESCRIPTION_START = re.compile(rb'\s*\{\s*"schema":\s*"cody/graph/[12]"')  # of a description that we wrote
SAMPLES = 64  # rows that are checked when a graph is opened
QUICKLY_READ = 64 << 20  # bytes; files up to this size are checked whenever a graph is opened
VALID_FOR = 7 * 86_400.0  # seconds after which larger files are checked again: a disk can fail without any writing
TICK = 2.0  # seconds: the coarsest clock of a file system; within it a file can change unnoticed
ADVICE = "save the graph again, or import its events again (cody data import)"


class ColumnDescription(msgspec.Struct, frozen=True):
    """The file of one column."""

    file: str
    dtype: str
    shape: list[int]
    crc32: str


class GraphDescription(msgspec.Struct, frozen=True, omit_defaults=True):
    """What `graph.json` says about the graph in its folder."""

    schema: str
    nodes: Annotated[int, msgspec.Meta(gt=0)]
    events: Annotated[int, msgspec.Meta(gt=0)]
    identity: str
    columns: dict[str, ColumnDescription]
    feature_names: tuple[str, ...] | None = None
    label_names: tuple[str, ...] | None = None
    event_name: str | None = None

    @property
    def is_consistent(self) -> bool:
        """Whether the columns are those of a graph, each in a file of its own, with as many names as they need."""
        features = self.columns.get("features")
        width = features.shape[-1] if features is not None and features.shape else 0
        files = {name: COLUMN_FILE.fullmatch(column.file) for name, column in self.columns.items()}
        return (
            set(COLUMN_TYPES) - OPTIONAL <= set(self.columns) <= set(COLUMN_TYPES)
            and all(file is not None and file[1] == name for name, file in files.items())
            and (self.feature_names is None or len(self.feature_names) == width)
            and ("labels" in self.columns) == (self.label_names is not None and len(self.label_names) >= 2)
        )

    def paths(self, folder: Path) -> dict[str, Path]:
        """The files of the columns."""
        return {name: folder / column.file for name, column in self.columns.items()}


def save_graph(graph: TemporalGraph, folder: str | os.PathLike[str]) -> Path:
    """Save the graph in a folder. A graph saved there before is replaced atomically; other files stay.

    A process that opens it meanwhile gets either the old graph or the new one; open graphs are not affected. If
    `folder` is a link, the graph is saved where it points to. Returns `folder`.
    """
    try:
        target = Path(folder).resolve()
        _check_replaceable(target)
        _replace(graph, target)
    except (OSError, RuntimeError) as error:  # RuntimeError: links in a circle
        raise DataError(f"the graph could not be saved as {folder}: {first_line(error)}") from error
    return Path(folder)


def open_graph(folder: str | os.PathLike[str]) -> TemporalGraph:
    """A saved graph; its columns are memory-mapped and read only where they are used.

    Checksums reveal damage. Those of a large graph are checked when it is first opened, and again after its files have
    changed.
    """
    source = Path(folder)
    while True:
        description = _read_description(source)
        try:
            return _open_columns(source, description)
        except DataError:
            if _read_description(source) == description:
                raise  # else the graph was replaced while it was being opened


def _check_replaceable(target: Path) -> None:
    """Reject a target with files that we did not write and that are in the way."""
    if not target.exists():
        return
    if not target.is_dir():
        raise DataError(f"{target} exists and is not a saved graph; choose another folder")
    file, present = target / DESCRIPTION, sorted(path.name for path in target.iterdir())
    if DESCRIPTION in present:
        with file.open("rb") as stream:
            if DESCRIPTION_START.match(stream.read(100)):
                return
        raise DataError(f"{file} was not written by this version of cody; choose another folder")
    foreign = [name for name in present if not COLUMN_FILE.fullmatch(name) and not PARTIAL_DESCRIPTION.fullmatch(name)]
    if foreign:
        raise DataError(f"{target} holds {foreign[0]!r} and is not a saved graph; choose another folder")


def _replace(graph: TemporalGraph, target: Path) -> None:
    """Write the columns, then the description that makes them the graph of this folder, then remove the old columns."""
    save, is_new = uuid.uuid4().hex[:16], not target.exists()
    try:
        target.mkdir(parents=True, exist_ok=True)
        description = _write_columns(graph, target, save)
        superseded = _files_described(target)
        write_atomically(target / DESCRIPTION, json.dumps(description, indent=2) + "\n")
    except BaseException:
        with suppress(OSError):
            # Check on disk whether the description was replaced: an interrupt may come right after that.
            in_use = set(_files_described(target))
            _remove(file for file in _column_files(target) if save in file.name and file not in in_use)
            if is_new:
                target.rmdir()
        raise
    _remove(superseded)
    _remove(_abandoned(target))


def _write_columns(graph: TemporalGraph, folder: Path, save: str) -> dict[str, Any]:
    """Write the columns under new names, and describe them."""
    columns = {}
    for name, dtype in COLUMN_TYPES.items():
        column = getattr(graph, name)
        if column is not None:
            file = folder / f"{name}-{save}.npy"
            np.save(file, column.astype(dtype or column.dtype, copy=False), allow_pickle=False)
            flush(file)
            kind = dtype or column.dtype.str
            columns[name] = ColumnDescription(file.name, kind, list(column.shape), file_checksum(file))
    names = (graph.feature_names, graph.label_names, graph.event_name)
    described = GraphDescription(SCHEMA, graph.num_nodes, graph.num_events, graph.identity, columns, *names)
    return with_checksum(msgspec.to_builtins(described))


def _files_described(folder: Path) -> set[Path]:
    """The columns of the graph that is saved in `folder`, if there is one whose description can be read."""
    try:
        return set(_read_description(folder).paths(folder).values())
    except DataError:
        return set()


def _abandoned(folder: Path) -> set[Path]:
    """The columns that killed saves left behind. A save in progress has written to some of its files recently."""
    saves: dict[str, list[Path]] = defaultdict(list)
    for file in _column_files(folder) - _files_described(folder):
        saves[file.stem.rpartition("-")[2]].append(file)
    return {file for files in saves.values() if min(map(_age, files)) > STALE for file in files}


def _column_files(folder: Path) -> set[Path]:
    """All columns that saves wrote into `folder`, complete or not."""
    return {path for path in folder.iterdir() if COLUMN_FILE.fullmatch(path.name)}


def _age(file: Path) -> float:
    try:
        return time.time() - file.stat().st_mtime
    except OSError:  # another save removed it
        return 0.0


def _remove(files: Iterable[Path]) -> None:
    for file in files:
        with suppress(OSError):  # a leftover file does no harm
            file.unlink(missing_ok=True)


def _read_description(folder: Path) -> GraphDescription:
    file = folder / DESCRIPTION
    if not file.is_file():
        raise DataError(f"{folder} is not a saved graph: there is no {DESCRIPTION} in it")
    try:
        document = json.loads(file.read_text(encoding="utf-8"))
        schema = document["schema"]
    except (OSError, ValueError, KeyError, TypeError, RecursionError) as error:
        raise DataError(f"{file} is damaged ({first_line(error)}); {ADVICE}") from None
    if schema != SCHEMA:
        raise DataError(f"{file}: {unknown_schema(schema, 'a saved graph', SCHEMA)}")
    if not is_as_written(document):
        raise DataError(f"{file} is damaged: its checksum does not match; {ADVICE}")
    try:
        description = msgspec.convert(document, GraphDescription)
    except msgspec.ValidationError:
        description = None
    if description is None or not description.is_consistent:
        raise DataError(f"{file} is damaged: it does not describe the columns of a graph; {ADVICE}")
    return description


def _open_columns(folder: Path, description: GraphDescription) -> TemporalGraph:
    described, files = description.columns, description.paths(folder)
    try:
        columns = {name: _map_column(name, file, described[name]) for name, file in files.items()}
        _check_shapes(files, description, columns)
        check_files({file: described[name].crc32 for name, file in files.items()})
        _check_samples(files, columns, len(description.label_names or ()))
    except DataError as error:
        raise DataError(f"{error}; {ADVICE}") from None
    every: dict[str, Any] = {name: columns.get(name) for name in COLUMN_TYPES}
    for name in ("identity", "feature_names", "label_names", "event_name"):
        every[name] = getattr(description, name)
    return TemporalGraph(**every)


def _map_column(name: str, file: Path, described: ColumnDescription) -> NDArray[Any]:
    column = load_array(file, mapped=True)
    expected = COLUMN_TYPES[name]
    right_type = column.dtype.str == expected if expected else column.dtype.kind in "iuU"
    if not right_type or [column.dtype.str, list(column.shape)] != [described.dtype, described.shape]:
        raise DataError(
            f"{file} holds {column.dtype.str} {list(column.shape)}, but {DESCRIPTION} says "
            f"{sanitize(described.dtype)} {sanitize(described.shape)}: the files do not belong together"
        )
    return column


def _check_shapes(files: dict[str, Path], description: GraphDescription, columns: dict[str, NDArray[Any]]) -> None:
    """Check that the shapes of the columns fit each other."""
    nodes, events = description.nodes, description.events
    lengths = {"src": events, "dst": events, "time": events, "features": events, "labels": events}
    lengths |= {"node_features": nodes, "names": nodes, "offsets": nodes + 1}
    for name, column in columns.items():
        if column.ndim != (2 if name in TABLES else 1):
            raise DataError(f"{files[name]} has the shape {column.shape}")
        length = lengths.get(name, len(column))
        if len(column) != length:
            raise DataError(f"{files[name]} has {len(column)} rows instead of {length}")


def _check_samples(files: dict[str, Path], columns: dict[str, NDArray[Any]], classes: int) -> None:
    """Check that a few rows, spread evenly, could be those of a graph."""
    offsets, incidence = columns["offsets"], columns["incidence"]
    nodes, events = len(offsets) - 1, len(columns["time"])
    rows, time = _spread(events), columns["time"][_spread(events)]
    limits, listed = offsets[_spread(nodes + 1)], incidence[_spread(len(incidence))]
    is_valid: dict[str, Any] = {}
    for name in ("src", "dst"):
        is_valid[name] = ((columns[name][rows] >= 0) & (columns[name][rows] < nodes)).all()
    is_valid["time"] = np.isfinite(time).all() and (np.diff(time) >= 0).all()
    is_valid["offsets"] = limits[0] == 0 and limits[-1] == len(incidence) and (np.diff(limits) >= 0).all()
    is_valid["incidence"] = events <= len(incidence) <= 2 * events and ((listed >= 0) & (listed < events)).all()
    if "labels" in columns:
        is_valid["labels"] = ((columns["labels"][rows] >= -1) & (columns["labels"][rows] < classes)).all()
    is_valid |= {name: np.isfinite(columns[name][_spread(len(columns[name]))]).all() for name in TABLES & set(columns)}
    for name, valid in is_valid.items():
        if not valid:
            raise DataError(f"{files[name]} is damaged: its values are not those of a graph")


def _spread(length: int) -> NDArray[np.int64]:
    return np.linspace(0, max(length - 1, 0), min(length, SAMPLES)).astype(np.int64)


# Checksums of the files


def check_files(checksums: Mapping[Path, str]) -> None:
    """Reject files whose checksums do not match. Large files are read once, and again after they have changed."""
    try:
        if sum(file.stat().st_size for file in checksums) <= QUICKLY_READ:
            _compare(checksums)
            return
        note = cache_directory() / "intact" / _state(checksums)
        if not _is_recent(note):
            moments = [(status.st_mtime, status.st_ctime) for status in (file.stat() for file in checksums)]
            settled = time.time() - TICK > max(map(max, moments))
            _compare(checksums)
            if settled:
                _remember(note)
    except OSError as error:
        raise DataError(f"{error.filename or 'a column'} cannot be read: {first_line(error)}") from None


def _compare(checksums: Mapping[Path, str]) -> None:
    for file, checksum in checksums.items():
        if file_checksum(file) != checksum:
            raise DataError(f"{file} is damaged: its checksum does not match")


def _state(checksums: Mapping[Path, str]) -> str:
    """A hash that changes when one of the files is written to, moved or replaced."""
    digest = hashlib.blake2b(digest_size=16)
    for file, checksum in checksums.items():
        status = file.stat()
        where = (str(file.resolve()), status.st_dev, status.st_ino)
        digest.update(repr((*where, status.st_size, status.st_mtime_ns, status.st_ctime_ns, checksum)).encode())
    return digest.hexdigest()


def _is_recent(note: Path) -> bool:
    try:
        return abs(time.time() - note.stat().st_mtime) < VALID_FOR
    except OSError:
        return False


def _remember(note: Path) -> None:
    """Leave an empty file whose name is the note, and remove outdated ones."""
    with suppress(OSError):  # if the note cannot be written, the files are read each time
        note.parent.mkdir(parents=True, exist_ok=True)
        note.touch()
        for other in note.parent.iterdir():
            if not _is_recent(other):
                other.unlink()
