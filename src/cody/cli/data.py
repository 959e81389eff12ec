"""cody data and cody cache: data sets, files of events, and what is kept on this machine."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import click
import numpy as np

from cody.cli.command import CommandGroup, argument, bundled, command, option, option_fields
from cody.cli.options import DataSource, EditOptions, data_argument, edit_options, file_argument, json_option
from cody.cli.terminal import print_json, print_parts, progress, say
from cody.cli.types import COUNT, FOLDER, TABLE, whole
from cody.data import Dataset, DataSummary, data_directory, datasets, is_here, summarise, verify_graph
from cody.data import fetch as download
from cody.data.named import pin_note
from cody.data.readers import is_saved_graph, unused_columns
from cody.data.tgb import is_tgb, load_tgb
from cody.data.writer import write_events
from cody.errors import CallError, DataError
from cody.graph import IntArray, TemporalGraph
from cody.utils import files, words
from cody.utils.tables import TextTable

data = CommandGroup("data", help="List, inspect, import and export data sets.")
_columns = option_fields("Columns")


@data.command("list")
def list_() -> None:
    """List the data sets known by name, and say which of them are on this machine."""
    print_parts([_known(datasets()), f"Data directory: {data_directory()} (set CODY_DATA to use another)"])


def _known(known: Iterable[Dataset]) -> TextTable:
    rows = (
        (each.name, f"{each.nodes:,}", f"{each.events:,}", each.kind, "yes" if is_here(each) else "no", each.title)
        for each in known
    )
    return TextTable("name", "#nodes", "#events", "kind", "here", "what it is", rows=rows)


@data.command("show")
@data_argument
@option("--verify", is_flag=True, help="Check every column of a saved graph.")
@json_option
def show_(source: DataSource, verify: bool, as_json: bool) -> None:
    """Summarize a data set, file or saved graph."""
    graph = source.load()
    if verify:
        verify_graph(graph)
    summary = summarise(graph)
    if as_json:
        print_json({"data": source.data, **asdict(summary), "identity": graph.identity})
        return
    print_parts([_summary(source.data, graph, summary)])


def _summary(name: str, graph: TemporalGraph, facts: DataSummary) -> TextTable:
    unit = "" if words.is_date(facts.first_time) else " if times are seconds"
    span = f"{facts.days:,.1f} days" if facts.days >= 2 else words.ago(facts.last_time - facts.first_time)
    first = [words.sanitize(graph.name(node), 24) for node in range(min(2, graph.num_nodes))]
    rows = {
        "nodes": f"{facts.nodes:,}",
        "events": f"{facts.events:,}",
        "unique edges": f"{facts.unique_edges:,}",
        "span": f"{span}{unit} ({words.from_to(facts.first_time, facts.last_time)})",
        "simultaneous": _simultaneous(facts.simultaneous),
        "kind": facts.kind,
        "event features": str(facts.event_features),
        "node features": str(facts.node_features),
        "an event is called": None if graph.event_name is None else words.sanitize(graph.event_name, 40),
        "labels": None if facts.labels is None else _labels(facts.labels, facts.events),
        "node names": None if graph.names is None else f"{', '.join(first)}, …",
        "identity": graph.identity,
    }
    known = [(name, value) for name, value in rows.items() if value is not None]
    return TextTable("", "", rows=known, title=click.style(words.sanitize(name, 48), bold=True), whole=[0])


def _labels(counts: Mapping[str, int], events: int) -> str:
    """How many events each class has."""
    known = sum(counts.values())
    shares = (f"{words.sanitize(name, 40)} {number:,} ({_share(number, known)})" for name, number in counts.items())
    unknown = f"; {events - known:,} unknown" if known < events else ""
    return ", ".join(shares) + unknown


def _share(part: int, whole: int) -> str:
    share = 100 * part / max(1, whole)
    return f"{share:.1f} %" if share >= 1 or not part else f"{share:.2g} %"


def _simultaneous(share: float) -> str:
    """How many events have another one of their source at the same time, and what that means if they are many."""
    advice = "\n(--protect simultaneous: those of a link are no candidates)" if share >= 0.25 else ""
    return f"{100 * share:.1f} % of events share time and source with another{advice}"


@data.command("events")
@data_argument
@option("--node", help="Only events of this node.")
@option("--before", type=whole(0), metavar="ROW", help="Only rows before this one.")
@option("--last", type=COUNT, default=20, metavar="N", help="Show the last N.")
def events(source: DataSource, node: str | None, before: int | None, last: int) -> None:
    """List events with their rows, counted from 0."""
    graph = source.load()
    stop = graph.num_events if before is None else min(before, graph.num_events)
    rows = np.arange(stop) if node is None else graph.history(graph.node(node), stop)
    print("\n".join(event_table(graph, rows[-last:]).lines()))
    if len(rows) > last:
        say(f"the last {last:,} of {len(rows):,} events; --last {len(rows)} shows all")


def event_table(graph: TemporalGraph, rows: IntArray) -> TextTable:
    """Events with their rows. There can be very many: the name of a node is made printable once."""
    nodes = np.unique([graph.src[rows], graph.dst[rows]]).tolist()
    names = {node: words.sanitize(graph.name(node), 26) for node in nodes}
    when = words.heading_of_times(float(graph.time[rows[0]])) if len(rows) else "when"
    labels = [] if graph.labels is None else ["label"]
    table = TextTable("#row", "from", "to", when, *labels, whole=range(4))
    for row, src, dst, time in zip(
        *(column.tolist() for column in (rows, graph.src[rows], graph.dst[rows], graph.time[rows])), strict=True
    ):
        label = [words.sanitize(graph.label_of(row) or "–", 26)] if labels else []
        table.add_row(str(row), names[src], names[dst], words.moment(time), *label)
    return table


@data.command("fetch")
@argument("name", "The data set's name.")
def fetch(name: str) -> None:
    """Download a data set from its public source into the data directory; those of TGB, with its package."""
    if is_tgb(name):
        print(f"{name} is here: {load_tgb(name, download=True)}")
        return
    with progress(name, None, in_bytes=True) as move:
        path = download(name, move)
    print(f"{name} is at {path}")
    if note := pin_note(name):
        print(note)


@dataclass(frozen=True, slots=True)
class ColumnOptions:
    """Which columns of a file are what, and what to call it; None: as usual."""

    src: str | None = _columns("Column of the sources.", "COLUMN")
    dst: str | None = _columns("Column of the destinations.", "COLUMN")
    time: str | None = _columns("Column of the times.", "COLUMN")
    features: str | None = _columns("Columns of event features, separated by commas.", "COLUMNS")
    label: str | None = _columns('Column of the labels, or a comparison such as "rating<0".', "COLUMN")
    label_name: str | None = _columns('Name of the second of two classes, such as "distrust".', "NAME")
    label_names: str | None = _columns("Names of all classes, in the order of their values, with commas.", "NAMES")
    event_name: str | None = _columns('What one event is: "message", "payment", …', "NAME")
    separator: str | None = _columns(
        "What separates two columns of a csv, or `tab`. By default, found in line 1.", "CHARACTER"
    )
    no_header: bool = _columns("Line 1 is an event: columns are 1, 2, 3, …: source, destination, time.")


@data.command("import")
@file_argument
@bundled("columns", ColumnOptions)
@option("--out", type=FOLDER, required=True, help="Folder for the graph; it opens at once, whatever its size.")
def import_(source: DataSource, columns: ColumnOptions, out: Path) -> None:
    """Read a file of events and save it as a graph. A folder that holds other events is not overwritten."""
    from cody.data import save_graph  # only here: what describes a saved graph takes time to import

    given: dict[str, Any] = {name: getattr(columns, name) for name in ("src", "dst", "time", "label")}
    given["features"] = _listed(columns.features)
    given |= {"header": False} if columns.no_header else {}
    given |= {"separator": columns.separator} if columns.separator is not None else {}
    names = {"label_name": columns.label_name, "event_name": columns.event_name}
    graph = source.load(**given, **names, label_names=_listed(columns.label_names))
    _check_free(out, graph)
    save_graph(graph, out)
    print_parts([_summary(str(out), graph, summarise(graph))])
    unused = [words.sanitize(name, 40) for name in unused_columns(source.data, **given)]
    if unused:
        say(f"columns that were left out: {', '.join(unused)} (--features keeps those that hold numbers)")


def _check_free(folder: Path, graph: TemporalGraph) -> None:
    """Reject a folder of other events: models that were trained on them would no longer fit."""
    from cody.data import open_graph

    if not is_saved_graph(folder):
        return
    try:
        identity = open_graph(folder).identity
    except DataError:  # damaged: importing again is the remedy; what is not ours is not overwritten anyway
        return
    if identity != graph.identity:
        raise CallError(f"{folder} already holds other events; choose another folder, or remove it first")


def _listed(names: str | None) -> list[str] | None:
    return None if names is None else [name.strip() for name in names.split(",")]


@data.command("export")
@data_argument
@edit_options
@option("--out", type=TABLE, required=True, help="File for the events: .csv or .parquet.")
def export(source: DataSource, edits: EditOptions, out: Path) -> None:
    """Write events as a table, with or without changes."""
    graph = source.load()
    changes = edits.edits(graph)
    removed = edits.removed(graph).rows
    if removed or changes or edits.new_node:
        longer = graph.imagine(changes, new_nodes=edits.new_node)
        graph = longer.with_change(removed | set(range(longer.num_events, longer.num_rows)))
    write_events(graph, out)
    print(f"{words.count(graph.num_events, 'event')} written to {words.sanitize(out, 2000)}")
    if graph.node_features is not None:
        say("features of nodes are not part of such a table; cody data import keeps them in a folder")


@command("cache")
@option("--clear", is_flag=True, help="Delete it; it is rebuilt when needed. Downloads stay.")
@json_option
def cache(clear: bool, as_json: bool) -> None:
    """Show or clear the cache."""
    freed = files.clear() if clear else 0
    found = files.kept()
    if as_json:
        print_json({"folder": str(files.cache_directory()), "freed": freed, "kept": [each._asdict() for each in found]})
        return
    if clear:
        print(f"{_megabytes(freed)} freed in {files.cache_directory()}")
        return
    table = TextTable("#", "#", "")
    for each in found:
        table.add_row(_megabytes(each.size), words.count(each.files, "file"), each.what)
    table.add_row(
        _megabytes(sum(each.size for each in found)), "", f"in {files.cache_directory()}; cody cache --clear frees it"
    )
    print("\n".join(table.lines()))


def _megabytes(size: int) -> str:
    return f"{size / 1e6:,.1f} MB"
