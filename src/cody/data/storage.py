"""A saved graph: a folder of `.npy` columns and `graph.json`, opened memory-mapped."""

from __future__ import annotations

import json
import os
import shutil
import uuid
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


def save_graph(graph: TemporalGraph, folder: str | os.PathLike[str]) -> Path:
    """Write the graph as a folder. It appears whole or not at all; a graph saved there before is replaced."""
    target = Path(folder)
    _check_replaceable(target)
    partial = target.parent / f".{target.name}.{uuid.uuid4().hex[:8]}.partial"
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        partial.mkdir()
        _write_columns(graph, partial)
        _swap(partial, target)
    except OSError as error:
        raise DataError(f"the graph could not be saved as {target}: {error.strerror or error}") from error
    finally:
        shutil.rmtree(partial, ignore_errors=True)
    return target


def open_graph(folder: str | os.PathLike[str]) -> TemporalGraph:
    """Open a saved graph without reading its columns: they are mapped, and read where they are used."""
    source = Path(folder)
    description = _read_description(source)
    columns = {name: _map_column(source / f"{name}.npy", said) for name, said in description["columns"].items()}
    _check_shapes(source, description, columns)
    every: dict[str, Any] = {name: columns.get(name) for name in COLUMN_TYPES}
    return TemporalGraph(**every, identity=description["identity"])


def is_saved_graph(folder: Path) -> bool:
    return (folder / DESCRIPTION).is_file()


def _check_replaceable(target: Path) -> None:
    if target.exists() and not is_saved_graph(target) and not (target.is_dir() and not any(target.iterdir())):
        raise DataError(f"{target} exists and is not a saved graph; choose another folder, or remove it first")


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
    if not target.exists():
        partial.rename(target)
        return
    # A folder cannot be renamed onto a full one; the old graph steps aside for the moment between two renames.
    old = partial.with_suffix(".old")
    target.rename(old)
    partial.rename(target)
    shutil.rmtree(old, ignore_errors=True)


def _read_description(folder: Path) -> dict[str, Any]:
    file = folder / DESCRIPTION
    if not file.is_file():
        raise DataError(f"{folder} is not a saved graph: there is no {DESCRIPTION} in it")
    try:
        description = json.loads(file.read_text(encoding="utf-8"))
        schema, columns = description["schema"], description["columns"]
        whole = all(key in description for key in ("nodes", "events", "identity")) and isinstance(columns, dict)
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise DataError(f"{file} is damaged ({error}); save the graph again") from None
    if schema != SCHEMA:
        _refuse_schema(file, schema)
    if not whole or set(columns) - set(COLUMN_TYPES) or set(COLUMN_TYPES) - set(columns) - OPTIONAL:
        raise DataError(f"{file} is damaged: it does not describe the columns of a graph; save the graph again")
    return dict(description)


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
    """Whether the columns fit each other, as far as their shapes and one number can tell."""
    nodes, events = description["nodes"], description["events"]
    lengths = {"src": events, "dst": events, "time": events, "features": events}
    lengths |= {"node_features": nodes, "names": nodes, "offsets": nodes + 1}
    for name, length in lengths.items():
        rows = len(columns[name]) if name in columns else length
        if rows != length:
            raise DataError(f"{folder / name}.npy has {rows} rows instead of {length}; save the graph again")
    if columns["offsets"][-1] != len(columns["incidence"]):
        raise DataError(f"{folder / 'incidence.npy'} does not fit offsets.npy; save the graph again")
