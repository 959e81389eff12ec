"""Every version of every node's memory, computed once: event-sourced memory.

Event `row` gives its source the version at index `2·row` and its destination the one at `2·row + 1`. The memory of a
node before any row is then the version that its last event before that row wrote: a look-up, however old the row.

The table is written in event order, a batch at a time, so that building it needs memory for one version of each node
only, and a table larger than the machine's memory is still written and read without harm.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import time
import uuid
from pathlib import Path
from typing import Any

import numpy as np
import torch

from cody.graph import FloatArray, IntArray, TemporalGraph
from cody.models.tgn import TGN, latest_version

SCHEMA = "cody/versions/1"
STILL_BEING_BUILT = 60.0  # seconds; a table that is being built is written to all the time
NOTES = "versions-{dtype}.json"  # names the table's file and what it belongs to


def index_of(graph: TemporalGraph, rows: IntArray, nodes: IntArray) -> IntArray:
    """Where the version stands that event `rows` wrote for `nodes`. [n], [n] → [n]"""
    index: IntArray = 2 * rows.astype(np.int64) + (graph.src[rows] != nodes)
    return index


def build_versions(network: TGN, graph: TemporalGraph, table: FloatArray) -> None:
    """Let all events happen, and write every version into `table` [2E, d]."""
    batch, dtype = network.sizes.batch, next(network.memory.parameters()).dtype
    memory = torch.zeros(graph.num_nodes, network.sizes.dimension, dtype=dtype)
    updated = np.zeros(graph.num_nodes)
    with torch.no_grad():
        for first in range(0, graph.num_events, batch):
            rows = np.repeat(np.arange(first, min(first + batch, graph.num_events)), 2)
            ends = np.stack([graph.src[rows[::2]], graph.dst[rows[::2]]], axis=1)  # [n, 2]
            nodes, other = ends.ravel(), ends[:, ::-1].ravel()
            edge = None if graph.features is None else torch.from_numpy(graph.features[rows]).to(dtype)
            elapsed = torch.from_numpy(graph.time[rows] - updated[nodes]).to(dtype)
            written = network.remember(memory[nodes], memory[other], edge, elapsed)
            table[2 * first : 2 * first + len(rows)] = written.numpy()
            last = len(nodes) - 1 - np.unique(nodes[::-1], return_index=True)[1]  # a node keeps its last version
            memory[nodes[last]] = written[last]
            updated[nodes[last]] = graph.time[rows[last]]


def versions_in_memory(network: TGN, graph: TemporalGraph) -> FloatArray:
    """The table of a model and a graph, built now."""
    table = np.empty((2 * graph.num_events, network.sizes.dimension), dtype=_numpy_type(network))
    build_versions(network, graph, table)
    return table


def open_versions(network: TGN, graph: TemporalGraph, folder: Path) -> FloatArray:
    """The table in `folder`; built if it is not there, is damaged, or belongs to other weights, data or another grid.

    It is memory-mapped, so that all processes on a machine share one copy. Where the folder cannot be written, or has
    no room, the table is made in memory.
    """
    belongs = _belongs_to(network, graph)
    found = _open(folder, belongs)
    if found is not None and _plausible(network, graph, found):
        return found
    try:
        return _build_on_disk(network, graph, folder, belongs)
    except OSError:
        return versions_in_memory(network, graph)


def _belongs_to(network: TGN, graph: TemporalGraph) -> dict[str, Any]:
    """What the table depends on; a table with other notes is stale."""
    digest = hashlib.blake2b(digest_size=16)
    for name, weight in sorted([*network.memory.named_parameters(), *network.encode.named_parameters()]):
        digest.update(name.encode() + weight.detach().numpy().tobytes())
    return {
        "schema": SCHEMA,
        "weights": digest.hexdigest(),
        "data": graph.identity,
        "batch": network.sizes.batch,
        "dtype": str(_numpy_type(network)),
        "shape": [2 * graph.num_events, network.sizes.dimension],
    }


def _open(folder: Path, belongs: dict[str, Any]) -> FloatArray | None:
    file = _file_of(folder / NOTES.format(**belongs), belongs)
    if file is None:
        return None
    try:
        table = np.load(file, mmap_mode="r", allow_pickle=False)
    except (OSError, ValueError, EOFError):
        return None  # absent, or damaged: as good as stale
    if (
        not isinstance(table, np.memmap)
        or str(table.dtype) != belongs["dtype"]
        or list(table.shape) != belongs["shape"]
    ):
        return None
    return table


def _plausible(network: TGN, graph: TemporalGraph, table: FloatArray) -> bool:
    """Compute a few versions from their parents in the table: does the file hold what it should?"""
    rows = np.unique(np.linspace(0, graph.num_events - 1, 32).astype(np.int64))
    nodes, starts = graph.src[rows], rows // network.sizes.batch * network.sizes.batch
    parents, updates = [], []
    for ends in (nodes, graph.dst[rows]):
        position = latest_version(graph, ends, starts)
        known, written = position >= 0, graph.incidence[position]
        memory = np.where(known[:, None], table[index_of(graph, written, ends)], 0).astype(table.dtype)
        parents.append(torch.from_numpy(memory))
        updates.append(np.where(known, graph.time[written], 0.0))
    dtype = parents[0].dtype
    edge = None if graph.features is None else torch.from_numpy(graph.features[rows]).to(dtype)
    elapsed = torch.from_numpy(graph.time[rows] - updates[0]).to(dtype)
    with torch.no_grad():
        expected = network.remember(parents[0], parents[1], edge, elapsed).numpy()
    return bool(np.allclose(table[index_of(graph, rows, nodes)], expected, rtol=0, atol=1e-4))


def _build_on_disk(network: TGN, graph: TemporalGraph, folder: Path, belongs: dict[str, Any]) -> FloatArray:
    """Write the table under a name of its own, then point the notes at it: readers see the old one or the new one."""
    folder.mkdir(parents=True, exist_ok=True)
    notes = folder / NOTES.format(**belongs)
    file = folder / f"versions-{uuid.uuid4().hex[:8]}.npy"
    partial = file.with_suffix(".json")
    try:
        _reserve(file, belongs)
        table = np.lib.format.open_memmap(file, mode="r+")
        build_versions(network, graph, table)
        table.flush()
        partial.write_text(json.dumps({"file": file.name, "belongs": belongs}), encoding="utf-8")
        partial.replace(notes)
    except BaseException:
        file.unlink(missing_ok=True)
        partial.unlink(missing_ok=True)
        raise
    _clear_others(folder)
    opened: FloatArray = np.load(file, mmap_mode="r", allow_pickle=False)
    return opened


def _reserve(file: Path, belongs: dict[str, Any]) -> None:
    """Make the file in its full size. A mapped file that meets a full disk later on kills the process."""
    shape = (belongs["shape"][0], belongs["shape"][1])
    np.lib.format.open_memmap(file, mode="w+", dtype=belongs["dtype"], shape=shape)
    if hasattr(os, "posix_fallocate"):
        with file.open("r+b") as opened:
            os.posix_fallocate(opened.fileno(), 0, file.stat().st_size)


def _clear_others(folder: Path) -> None:
    """Remove tables that no notes point at. Processes that still map one keep it until they end.

    One that was written to lately may be another process's work in progress; it goes the next time.
    """
    known = {_file_of(notes) for notes in folder.glob(NOTES.format(dtype="*"))}
    for table in folder.glob("versions-*.npy"):
        if table not in known and time.time() - table.stat().st_mtime > STILL_BEING_BUILT:
            table.unlink(missing_ok=True)


def _file_of(notes: Path, belongs: dict[str, Any] | None = None) -> Path | None:
    """The table that notes point at, if they belong to what they should."""
    try:
        document = json.loads(notes.read_text(encoding="utf-8"))
        name = str(document["file"])
        if belongs is not None and document["belongs"] != belongs:
            return None
    except (OSError, ValueError, KeyError, TypeError, RecursionError):
        return None
    return notes.parent / name if re.fullmatch(r"versions-\w+\.npy", name) else None


def _numpy_type(network: TGN) -> np.dtype[Any]:
    return np.dtype(str(next(network.memory.parameters()).dtype).removeprefix("torch."))
