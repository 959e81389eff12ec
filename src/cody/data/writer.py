"""Events as a table for other programs."""

from __future__ import annotations

import csv
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from cody.data.arrow import pa, parquet
from cody.data.choice import NAME_OF_LABEL
from cody.errors import CallError
from cody.graph import TemporalGraph
from cody.utils.files import replacing

FORMATS = (".csv", ".parquet")


def write_events(graph: TemporalGraph, file: Path) -> None:
    """Write the events as csv or Parquet, by the name of the file: src, dst, time, features f0, f1, …, and labels.

    `cody.load` reads the same events back. A label is the number of its class, with its name in the column label_name;
    both are empty where it is unknown. Names of features, node features, and nodes and classes without events are not
    included. An existing file is not overwritten.
    """
    if file.suffix not in FORMATS:
        raise CallError(f"{str(file)!r} must end in {' or '.join(FORMATS)}, which determines the format")
    if file.is_file() and file.stat().st_size:  # tables do not record who wrote them
        raise CallError(f"{str(file)!r} already exists and would be overwritten; choose another name, or remove it")
    with replacing(file) as partial:
        if file.suffix == ".csv":
            with partial.open("w", encoding="utf-8", newline="") as stream:
                writer = csv.writer(stream, lineterminator="\n")
                writer.writerow(_names(graph))
                writer.writerows(_rows(graph))
        else:
            _write_parquet(graph, partial)


def _names(graph: TemporalGraph) -> list[str]:
    width = 0 if graph.features is None else graph.features.shape[1]
    label = [] if graph.labels is None else ["label", NAME_OF_LABEL]
    return ["src", "dst", "time", *(f"f{number}" for number in range(width)), *label]


def _rows(graph: TemporalGraph) -> Iterator[list[Any]]:
    names = _node_names(graph)
    for row in range(graph.num_events):
        features = [] if graph.features is None else graph.features[row].tolist()
        time = float(graph.time[row])
        name = graph.label_of(row)
        label = [] if graph.labels is None else ["", ""] if name is None else [int(graph.labels[row]), name]
        ends = names[graph.src[row]], names[graph.dst[row]]
        yield [*ends, int(time) if time.is_integer() else time, *features, *label]


def _write_parquet(graph: TemporalGraph, file: Path) -> None:

    names, real = _node_names(graph), slice(graph.num_events)
    columns: list[Any] = [names[graph.src[real]], names[graph.dst[real]], graph.time[real]]
    columns += [] if graph.features is None else list(graph.features.T)
    if graph.labels is not None:
        columns += [pa.array(graph.labels, mask=graph.labels < 0)]
        columns += [pa.array([graph.label_of(row) for row in range(graph.num_events)], pa.string())]
    parquet.write_table(pa.table(dict(zip(_names(graph), columns, strict=True))), file)


def _node_names(graph: TemporalGraph) -> Any:
    return np.arange(graph.num_nodes) if graph.names is None else graph.names
