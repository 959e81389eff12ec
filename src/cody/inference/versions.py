"""Every version of every node's memory, computed once: event-sourced memory.

Event `row` gives its source the version at index `2·row` and its destination the one at `2·row + 1`. The memory of a
node before any row is then the version that its last event before that row wrote: a look-up, however old the row.

The table is written in event order, a batch at a time, so that building it needs memory for one version of each node
only, and a table larger than the machine's memory is still written and read without harm.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
import torch

from cody.graph import FloatArray, IntArray, TemporalGraph
from cody.models.tgn import TGN

SCHEMA = "cody/versions/1"
ORPHANED_AFTER = 3600.0  # seconds without a write; a table that is being built is written all the time
NOTES = "versions-{dtype}.json"  # names the table's file and what it belongs to


def index_of(graph: TemporalGraph, rows: IntArray, nodes: IntArray) -> IntArray:
    """Where the version stands that event `rows` wrote for `nodes`. [n], [n] → [n]"""
    index: IntArray = 2 * rows.astype(np.int64) + (graph.src[rows] != nodes)
    return index


def build_versions(network: TGN, graph: TemporalGraph, table: FloatArray) -> None:
    """Let all events happen, and write every version into `table` [2E, d]."""
    batch, dtype = network.sizes.batch, next(network.parameters()).dtype
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
    """The table in `folder`; built if it is not there, or belongs to other weights, data or another grid.

    It is memory-mapped, so that all processes on a machine share one copy.
    """
    belongs = _belongs_to(network, graph)
    found = _open(folder, belongs)
    return _build_on_disk(network, graph, folder, belongs) if found is None else found


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
    try:
        notes = json.loads((folder / NOTES.format(**belongs)).read_text(encoding="utf-8"))
        if notes["belongs"] != belongs:
            return None
        table: FloatArray = np.load(folder / notes["file"], mmap_mode="r", allow_pickle=False)
    except (OSError, ValueError, KeyError, TypeError):
        return None  # absent, or damaged: as good as stale
    return table if list(table.shape) == belongs["shape"] else None


def _build_on_disk(network: TGN, graph: TemporalGraph, folder: Path, belongs: dict[str, Any]) -> FloatArray:
    """Write the table under a name of its own, then point the notes at it: readers see the old one or the new one."""
    folder.mkdir(parents=True, exist_ok=True)
    notes = folder / NOTES.format(**belongs)
    previous = _file_of(notes)
    _clear_orphans(folder)
    descriptor, path = tempfile.mkstemp(prefix="versions-", suffix=".npy", dir=folder)
    os.close(descriptor)
    partial = Path(f"{path}.json")
    try:
        shape = (belongs["shape"][0], belongs["shape"][1])
        table = np.lib.format.open_memmap(path, mode="w+", dtype=_numpy_type(network), shape=shape)
        build_versions(network, graph, table)
        table.flush()
        partial.write_text(json.dumps({"file": Path(path).name, "belongs": belongs}), encoding="utf-8")
        partial.replace(notes)
    except BaseException:
        Path(path).unlink(missing_ok=True)
        partial.unlink(missing_ok=True)
        raise
    if previous is not None:
        previous.unlink(missing_ok=True)  # processes that still map it keep it until they end
    opened: FloatArray = np.load(path, mmap_mode="r", allow_pickle=False)
    return opened


def _clear_orphans(folder: Path) -> None:
    """Remove tables that no notes point at: what was being built when its process was killed."""
    known = {_file_of(notes) for notes in folder.glob(NOTES.format(dtype="*"))}
    for table in folder.glob("versions-*.npy"):
        if table not in known and time.time() - table.stat().st_mtime > ORPHANED_AFTER:
            table.unlink(missing_ok=True)


def _file_of(notes: Path) -> Path | None:
    with contextlib.suppress(OSError, ValueError, KeyError, TypeError):
        return notes.parent / Path(json.loads(notes.read_text(encoding="utf-8"))["file"]).name
    return None


def _numpy_type(network: TGN) -> np.dtype[Any]:
    return np.dtype(str(next(network.parameters()).dtype).removeprefix("torch."))
