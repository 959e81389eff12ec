"""A saved graph: a folder of `.npy` columns and `graph.json`, opened memory-mapped."""

from __future__ import annotations

import json
import os
import re
import shutil
import time
import uuid
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cody.errors import DataError
from cody.graph import TemporalGraph

SCHEMA = "cody/graph/1"
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
STALE = 15 * 60.0  # seconds after which nobody is still writing what a save left behind
SAMPLES = 64  # rows that are looked at when a graph is opened


def save_graph(graph: TemporalGraph, folder: str | os.PathLike[str]) -> Path:
    """Write the graph as a folder. It appears whole or not at all; a graph saved there before is replaced.

    If `folder` is a link, what it points to is replaced. Returns `folder`.
    """
    try:
        target = Path(folder).resolve()
        clear_up(target)
        _check_replaceable(target)
        partial = target.parent / f".{target.name}.{uuid.uuid4().hex[:8]}.partial"
        target.parent.mkdir(parents=True, exist_ok=True)
        try:
            partial.mkdir()
            _write_columns(graph, partial)
            _swap(partial, target)
        finally:
            shutil.rmtree(partial, ignore_errors=True)
    except (OSError, RuntimeError) as error:  # RuntimeError: links in a circle
        reason = getattr(error, "strerror", None) or error
        raise DataError(f"the graph could not be saved as {folder}: {reason}") from error
    return Path(folder)


def open_graph(folder: str | os.PathLike[str]) -> TemporalGraph:
    """Open a saved graph without reading its columns: they are mapped, and read where they are used.

    Only samples of them are checked; `verify_graph` checks all.
    """
    source = Path(folder)
    clear_up(source)
    description = _read_description(source)
    columns = {name: _map_column(source / f"{name}.npy", said) for name, said in description["columns"].items()}
    _check_shapes(source, description, columns)
    _check_samples(source, columns)
    every: dict[str, Any] = {name: columns.get(name) for name in COLUMN_TYPES}
    return TemporalGraph(**every, identity=description["identity"])


def clear_up(folder: Path) -> None:
    """After a save to `folder` that was killed: give the old graph its name again, remove what is of no use."""
    with suppress(OSError, RuntimeError, ValueError):  # not ours to change: then it stays as it is
        folder = folder.resolve()
        if not folder.exists() and _leftovers(folder, "old"):
            time.sleep(0.1)  # a save that is going on right now takes no longer between its two renames
            for old in filter(is_saved_graph, _leftovers(folder, "old")):
                if not folder.exists():
                    old.rename(folder)
        for leftover in [*_leftovers(folder, "old"), *_leftovers(folder, "partial")]:
            latest = max(path.stat().st_mtime for path in (leftover, *leftover.iterdir()))
            if time.time() - latest > STALE and (folder.exists() or leftover.suffix == ".partial"):
                shutil.rmtree(leftover, ignore_errors=True)


def _leftovers(folder: Path, kind: str) -> list[Path]:
    """What saves to `folder` left beside it; nothing that holds anything but the files of a graph."""
    pattern = re.compile(rf"\.{re.escape(folder.name)}\.[0-9a-f]{{8}}\.{kind}")
    known = {DESCRIPTION, *(f"{name}.npy" for name in COLUMN_TYPES)}
    found = [path for path in folder.parent.iterdir() if pattern.fullmatch(path.name) and path.is_dir()]
    return [path for path in found if {file.name for file in path.iterdir()} <= known]


def is_saved_graph(folder: Path) -> bool:
    return (folder / DESCRIPTION).is_file()


def _check_replaceable(target: Path) -> None:
    if not target.exists():
        return
    if not is_saved_graph(target) and not (target.is_dir() and not any(target.iterdir())):
        raise DataError(f"{target} exists and is not a saved graph; choose another folder, or remove it first")
    if Path.cwd().is_relative_to(target):
        raise DataError(f"{target} is the working directory, which cannot be replaced; change to another one first")


def _write_columns(graph: TemporalGraph, folder: Path) -> None:
    columns = {}
    for name, dtype in COLUMN_TYPES.items():
        column = getattr(graph, name)
        if column is not None:
            np.save(folder / f"{name}.npy", column.astype(dtype or column.dtype, copy=False), allow_pickle=False)
            columns[name] = {"dtype": dtype or column.dtype.str, "shape": list(column.shape)}
    description = {
        "schema": SCHEMA,
        "nodes": graph.num_nodes,
        "events": graph.num_events,
        "identity": graph.identity,
        "columns": columns,
    }
    (folder / DESCRIPTION).write_text(json.dumps(description, indent=2) + "\n", encoding="utf-8")


def _swap(partial: Path, target: Path) -> None:
    # A folder cannot be renamed onto a full one; the old graph steps aside for the moment between two renames.
    old = partial.with_suffix(".old")
    if target.exists():
        target.rename(old)
    try:
        partial.rename(target)
    except OSError:
        if old.exists():
            old.rename(target)
        raise
    shutil.rmtree(old, ignore_errors=True)


def _read_description(folder: Path) -> dict[str, Any]:
    file = folder / DESCRIPTION
    if not file.is_file():
        raise DataError(f"{folder} is not a saved graph: there is no {DESCRIPTION} in it")
    try:
        description = json.loads(file.read_text(encoding="utf-8"))
        schema = description["schema"]
    except (OSError, ValueError, KeyError, TypeError, RecursionError) as error:
        raise DataError(f"{file} is damaged ({error}); save the graph again") from None
    if schema != SCHEMA:
        _refuse_schema(file, schema)
    if not _describes_a_graph(description):
        raise DataError(f"{file} is damaged: it does not describe the columns of a graph; save the graph again")
    return dict(description)


def _describes_a_graph(description: dict[str, Any]) -> bool:
    counts, columns = [description.get("nodes"), description.get("events")], description.get("columns")
    return (
        all(type(count) is int and count > 0 for count in counts)
        and isinstance(description.get("identity"), str)
        and isinstance(columns, dict)
        and set(COLUMN_TYPES) - OPTIONAL <= set(columns) <= set(COLUMN_TYPES)
        and all(isinstance(column, dict) for column in columns.values())
    )


def _refuse_schema(file: Path, schema: Any) -> None:
    if str(schema).startswith(SCHEMA.rpartition("/")[0] + "/"):
        raise DataError(f"{file} has the format {schema!r}, this version of cody reads {SCHEMA!r}; update cody")
    raise DataError(f"{file} has the format {schema!r}, which is not a saved graph ({SCHEMA!r})")


def _map_column(file: Path, described: dict[str, Any]) -> NDArray[Any]:
    try:
        mapped = np.load(file, mmap_mode="r", allow_pickle=False)
    except FileNotFoundError:
        raise DataError(f"{file} is missing; save the graph again") from None
    except (OSError, ValueError, EOFError) as error:
        raise DataError(f"{file} is truncated or not an npy file ({error}); save the graph again") from None
    column = np.asarray(mapped)  # a plain view of the map: indexing a memmap object is slower
    expected = COLUMN_TYPES[file.stem]
    right_type = column.dtype.str == expected if expected else column.dtype.kind in "iuU"
    if not right_type or [column.dtype.str, list(column.shape)] != [described.get("dtype"), described.get("shape")]:
        raise DataError(
            f"{file} holds {column.dtype.str} {list(column.shape)}, but {DESCRIPTION} says "
            f"{described.get('dtype')} {described.get('shape')}; the files do not belong together"
        )
    return column


def _check_shapes(folder: Path, description: dict[str, Any], columns: dict[str, NDArray[Any]]) -> None:
    """Whether the columns fit each other, as far as their shapes can tell."""
    nodes, events = description["nodes"], description["events"]
    lengths = {"src": events, "dst": events, "time": events, "features": events}
    lengths |= {"node_features": nodes, "names": nodes, "offsets": nodes + 1}
    for name, column in columns.items():
        if column.ndim != (2 if name in TABLES else 1):
            raise DataError(f"{folder / name}.npy has the shape {column.shape}; save the graph again")
        length = lengths.get(name, len(column))
        if len(column) != length:
            raise DataError(f"{folder / name}.npy has {len(column)} rows instead of {length}; save the graph again")


def _check_samples(folder: Path, columns: dict[str, NDArray[Any]]) -> None:
    """Whether a few rows, spread evenly, could be those of a graph."""
    offsets, incidence = columns["offsets"], columns["incidence"]
    nodes, events = len(offsets) - 1, len(columns["time"])
    rows, time = _spread(events), columns["time"][_spread(events)]
    limits, listed = offsets[_spread(nodes + 1)], incidence[_spread(len(incidence))]
    right: dict[str, Any] = {}
    for name in ("src", "dst"):
        right[name] = ((columns[name][rows] >= 0) & (columns[name][rows] < nodes)).all()
    right["time"] = np.isfinite(time).all() and (np.diff(time) >= 0).all()
    right["offsets"] = limits[0] == 0 and limits[-1] == len(incidence) and (np.diff(limits) >= 0).all()
    right["incidence"] = events <= len(incidence) <= 2 * events and ((listed >= 0) & (listed < events)).all()
    right |= {name: np.isfinite(columns[name][_spread(len(columns[name]))]).all() for name in TABLES & set(columns)}
    for name, fine in right.items():
        if not fine:
            raise DataError(f"{folder / name}.npy is damaged: its values are not those of a graph; save it again")


def _spread(length: int) -> NDArray[np.int64]:
    return np.linspace(0, max(length - 1, 0), min(length, SAMPLES)).astype(np.int64)
