"""A saved graph: a folder of `.npy` columns and `graph.json`, opened memory-mapped.

`graph.json` names the columns' files and holds their checksums, and its own. Each save writes new files and then
replaces `graph.json`, so that the folder holds one complete graph at every moment. Other files in it are left alone.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import sys
import time
import uuid
from collections import defaultdict
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cody.data.intact import QUICKLY_READ, check_files
from cody.errors import DataError, first_line
from cody.graph import TemporalGraph, verify_graph
from cody.utils.files import STALE, file_checksum, flush, is_as_written, load_array, with_checksum, write_atomically
from cody.utils.words import sanitize

SCHEMA = "cody/graph/2"
WITHOUT_CHECKSUMS = "cody/graph/1"  # columns are called src.npy, dst.npy, …
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
}
OPTIONAL = {"features", "node_features", "names"}
TABLES = {"features", "node_features"}  # of two dimensions
COLUMN_FILE = re.compile(rf"({'|'.join(COLUMN_TYPES)})-([0-9a-f]{{16}})\.npy")  # a column, and which save wrote it
PARTIAL_DESCRIPTION = re.compile(rf"\.{re.escape(DESCRIPTION)}\.[0-9a-f]{{8}}\.partial")
DESCRIPTION_START = re.compile(rb'\s*\{\s*"schema":\s*"cody/graph/[12]"')  # of a description that we wrote
SAMPLES = 64  # rows that are checked when a graph is opened
ADVICE = "save the graph again, or import its events again (cody data import)"


def save_graph(graph: TemporalGraph, folder: str | os.PathLike[str]) -> Path:
    """Save the graph in a folder. A graph saved there before is replaced atomically; other files stay.

    A process that opens it meanwhile gets either the old graph or the new one; open graphs are not affected. If
    `folder` is a link, the graph is saved where it points to. Returns `folder`.
    """
    try:
        target = Path(folder).resolve()
        clear_up(target)
        _check_replaceable(target)
        _replace(graph, target)
    except (OSError, RuntimeError) as error:  # RuntimeError: links in a circle
        raise DataError(f"the graph could not be saved as {folder}: {first_line(error)}") from error
    return Path(folder)


def open_graph(folder: str | os.PathLike[str]) -> TemporalGraph:
    """A saved graph; its columns are memory-mapped and read only where they are used.

    Checksums reveal damage. Those of a large graph are checked when it is first opened, and again after its files have
    changed. Graphs saved by earlier versions have no checksums: of large ones, samples are checked.
    """
    source = Path(folder)
    clear_up(source)
    while True:
        description = _read_description(source)
        try:
            return _open_columns(source, description)
        except DataError:
            if _read_description(source) == description:
                raise  # else the graph was replaced while it was being opened


def clear_up(folder: Path) -> None:
    """After a save by an earlier version was killed, restore the old graph and remove leftovers.

    Earlier versions wrote a folder next to this one, and swapped the two.
    """
    with suppress(OSError, RuntimeError, ValueError):  # no permission: leave it
        folder = folder.resolve()
        if not folder.exists() and _leftovers(folder, "old"):
            time.sleep(0.1)  # a save in progress takes no longer between its two renames
            for old in filter(is_saved_graph, _leftovers(folder, "old")):
                if not folder.exists():
                    old.rename(folder)
        for leftover in [*_leftovers(folder, "old"), *_leftovers(folder, "partial")]:
            latest = max(path.stat().st_mtime for path in (leftover, *leftover.iterdir()))
            if time.time() - latest > STALE and (folder.exists() or leftover.suffix == ".partial"):
                shutil.rmtree(leftover, ignore_errors=True)


def _leftovers(folder: Path, kind: str) -> list[Path]:
    """The folders that saves to `folder` left next to it; only those that hold nothing but the files of a graph."""
    pattern = re.compile(rf"\.{re.escape(folder.name)}\.[0-9a-f]{{8}}\.{kind}")
    known = {DESCRIPTION, *(f"{name}.npy" for name in COLUMN_TYPES)}
    found = [path for path in folder.parent.iterdir() if pattern.fullmatch(path.name) and path.is_dir()]
    return [path for path in found if {file.name for file in path.iterdir()} <= known]


def is_saved_graph(folder: Path) -> bool:
    return (folder / DESCRIPTION).is_file()


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
            columns[name] = {"file": file.name, "dtype": dtype or column.dtype.str, "shape": list(column.shape)}
            columns[name]["crc32"] = file_checksum(file)
    description = {
        "schema": SCHEMA,
        "nodes": graph.num_nodes,
        "events": graph.num_events,
        "identity": graph.identity,
        "columns": columns,
    }
    if graph.feature_names is not None:
        description["feature_names"] = list(graph.feature_names)
    return with_checksum(description)


def _files_described(folder: Path) -> set[Path]:
    """The columns of the graph that is saved in `folder`, if there is one whose description can be read."""
    try:
        return set(_column_paths(folder, _read_description(folder)).values())
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


def _read_description(folder: Path) -> dict[str, Any]:
    file = folder / DESCRIPTION
    if not file.is_file():
        raise DataError(f"{folder} is not a saved graph: there is no {DESCRIPTION} in it")
    try:
        description = json.loads(file.read_text(encoding="utf-8"))
        schema = description["schema"]
    except (OSError, ValueError, KeyError, TypeError, RecursionError) as error:
        raise DataError(f"{file} is damaged ({first_line(error)}); {ADVICE}") from None
    if schema not in (SCHEMA, WITHOUT_CHECKSUMS):
        _reject_schema(file, schema)
    if schema == SCHEMA and not is_as_written(description):
        raise DataError(f"{file} is damaged: its checksum does not match; {ADVICE}")
    if not _describes_a_graph(description):
        raise DataError(f"{file} is damaged: it does not describe the columns of a graph; {ADVICE}")
    return dict(description)


def _describes_a_graph(description: dict[str, Any]) -> bool:
    counts, columns = [description.get("nodes"), description.get("events")], description.get("columns")
    return (
        all(type(count) is int and count > 0 for count in counts)
        and isinstance(description.get("identity"), str)
        and isinstance(columns, dict)
        and set(COLUMN_TYPES) - OPTIONAL <= set(columns) <= set(COLUMN_TYPES)
        and all(isinstance(column, dict) for column in columns.values())
        and _are_feature_names(description.get("feature_names"), columns)
        and (description["schema"] == WITHOUT_CHECKSUMS or all(map(_is_file_of, columns, columns.values())))
    )


def _are_feature_names(names: Any, columns: dict[str, Any]) -> bool:
    if names is None:
        return True
    width = columns.get("features", {}).get("shape", [0, 0])[-1]
    return isinstance(names, list) and len(names) == width and all(isinstance(name, str) for name in names)


def _is_file_of(name: str, described: dict[str, Any]) -> bool:
    found = COLUMN_FILE.fullmatch(str(described.get("file")))
    return found is not None and found[1] == name


def _column_paths(folder: Path, description: dict[str, Any]) -> dict[str, Path]:
    columns = description["columns"]
    if description["schema"] == WITHOUT_CHECKSUMS:
        return {name: folder / f"{name}.npy" for name in columns}
    return {name: folder / column["file"] for name, column in columns.items()}


def _reject_schema(file: Path, schema: Any) -> None:
    found = sanitize(repr(schema))
    if str(schema).startswith(SCHEMA.rpartition("/")[0] + "/"):
        raise DataError(f"{file} has the format {found}, this version of cody reads {SCHEMA!r}; update cody")
    raise DataError(f"{file} has the format {found}, which is not a saved graph ({SCHEMA!r})")


def _open_columns(folder: Path, description: dict[str, Any]) -> TemporalGraph:
    described, files = description["columns"], _column_paths(folder, description)
    try:
        columns = {name: _map_column(name, file, described[name]) for name, file in files.items()}
        _check_shapes(files, description, columns)
        if description["schema"] == SCHEMA:
            check_files({file: str(described[name].get("crc32")) for name, file in files.items()})
        _check_samples(files, columns)
        every: dict[str, Any] = {name: columns.get(name) for name in COLUMN_TYPES}
        named = description.get("feature_names")
        graph = TemporalGraph(
            **every, identity=description["identity"], feature_names=None if named is None else tuple(named)
        )
        if description["schema"] == WITHOUT_CHECKSUMS and _size(columns) <= QUICKLY_READ:
            _verify(graph, folder)
    except DataError as error:
        raise DataError(f"{error}; {ADVICE}") from None
    return graph


def _verify(graph: TemporalGraph, folder: Path) -> None:
    """Check what can be checked without checksums: everything except the names, where only invalid characters show."""
    try:
        verify_graph(graph)
    except DataError as error:
        raise DataError(f"{folder}: {error}") from None
    names = graph.names
    if names is not None and names.dtype.kind == "U" and (names.view(f"{names.dtype.str[0]}u4") > sys.maxunicode).any():
        raise DataError(f"{folder / 'names.npy'} is damaged: it holds invalid characters")


def _size(columns: dict[str, NDArray[Any]]) -> int:
    return sum(column.nbytes for column in columns.values())


def _map_column(name: str, file: Path, described: dict[str, Any]) -> NDArray[Any]:
    column = load_array(file, mapped=True)
    expected = COLUMN_TYPES[name]
    right_type = column.dtype.str == expected if expected else column.dtype.kind in "iuU"
    if not right_type or [column.dtype.str, list(column.shape)] != [described.get("dtype"), described.get("shape")]:
        raise DataError(
            f"{file} holds {column.dtype.str} {list(column.shape)}, but {DESCRIPTION} says "
            f"{sanitize(described.get('dtype'))} {sanitize(described.get('shape'))}: the files do not belong together"
        )
    return column


def _check_shapes(files: dict[str, Path], description: dict[str, Any], columns: dict[str, NDArray[Any]]) -> None:
    """Check that the shapes of the columns fit each other."""
    nodes, events = description["nodes"], description["events"]
    lengths = {"src": events, "dst": events, "time": events, "features": events}
    lengths |= {"node_features": nodes, "names": nodes, "offsets": nodes + 1}
    for name, column in columns.items():
        if column.ndim != (2 if name in TABLES else 1):
            raise DataError(f"{files[name]} has the shape {column.shape}")
        length = lengths.get(name, len(column))
        if len(column) != length:
            raise DataError(f"{files[name]} has {len(column)} rows instead of {length}")


def _check_samples(files: dict[str, Path], columns: dict[str, NDArray[Any]]) -> None:
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
    is_valid |= {name: np.isfinite(columns[name][_spread(len(columns[name]))]).all() for name in TABLES & set(columns)}
    for name, valid in is_valid.items():
        if not valid:
            raise DataError(f"{files[name]} is damaged: its values are not those of a graph")


def _spread(length: int) -> NDArray[np.int64]:
    return np.linspace(0, max(length - 1, 0), min(length, SAMPLES)).astype(np.int64)
