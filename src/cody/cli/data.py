"""Data sets and files of events."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

import numpy as np

from cody.cli.common import JsonOption, SortOption, UnitOption, app, print_json, say
from cody.cli.options import AddOption, MoveOption, NewNodeOption, WithoutOption
from cody.cli.parser import FOLDER, TABLE, Argument, Commands, Option
from cody.cli.progress import progress
from cody.data import data_directory, datasets, fetch, load, save_graph, summarise, verify_graph
from cody.data.named import pin_note
from cody.data.readers import unused_columns
from cody.data.writer import write_events
from cody.explain.what_if import parse_add, parse_move, parse_rows
from cody.graph import IntArray, TemporalGraph
from cody.graph.edits import Edit
from cody.models.contract import check_changes
from cody.utils import words

data_commands = Commands("data", help="Data sets: those known by name, and your own.")
app.add_command(data_commands)


@data_commands.command("list")
def data_list() -> None:
    """The data sets known by name, and which of them are here."""
    from cody.cli import show

    show.print_parts([show.datasets(datasets()), f"Data directory: {data_directory()} (set CODY_DATA to use another)"])


@data_commands.command("show")
def data_show(
    name: Annotated[str, Argument(help="A data set's name, a file of events, or a saved graph.")],
    verify: Annotated[bool, Option("--verify", help="Check every column of a saved graph.")] = False,
    sort: SortOption = False,
    unit: UnitOption = None,
    json_: JsonOption = False,
) -> None:
    """What a data set, file or saved graph holds."""
    graph = load(name, sort=sort, unit=unit)
    if verify:
        verify_graph(graph)
    summary = summarise(graph)
    if json_:
        print_json({"data": name, **asdict(summary), "identity": graph.identity})
        return
    from cody.cli import show

    show.print_parts([show.summary(name, graph, summary)])


@data_commands.command("events")
def data_events(
    name: Annotated[str, Argument(help="A data set's name, a file of events, or a saved graph.")],
    node: Annotated[str | None, Option(help="Only events of this node.")] = None,
    before: Annotated[int | None, Option(min=0, help="Only rows before this one.")] = None,
    last: Annotated[int, Option(min=1, help="How many, the latest ones.")] = 20,
    sort: SortOption = False,
    unit: UnitOption = None,
) -> None:
    """List events with their rows, counted from 0."""
    graph = load(name, sort=sort, unit=unit)
    stop = graph.num_events if before is None else min(before, graph.num_events)
    rows = np.arange(stop) if node is None else graph.history(graph.node(node), stop)
    print("\n".join(event_lines(graph, rows[-last:])))
    if len(rows) > last:
        say(f"the latest {last:,} of {len(rows):,} events; --last {len(rows)} shows all")


def event_lines(graph: TemporalGraph, rows: IntArray) -> Iterator[str]:
    """A table of events, a line each. There can be very many: nothing is measured but the widths of the columns."""
    nodes = np.unique([graph.src[rows], graph.dst[rows]]).tolist()
    names = {node: words.sanitize(graph.name(node), 26) for node in nodes}
    sides = graph.src[rows].tolist(), graph.dst[rows].tolist()
    wide = [max([4, *(words.columns(names[node]) for node in set(side))]) for side in sides]
    ends = [[words.padded(names[node], width) for node in side] for side, width in zip(sides, wide, strict=True)]
    when = words.heading_of_times(float(graph.time[rows[0]])) if len(rows) else "when"
    number = max([3, *(len(str(row)) for row in rows[-1:].tolist())])
    yield f"{'row':>{number}}  {'from':<{wide[0]}}  {'to':<{wide[1]}}  {when}"
    for row, src, dst, time in zip(rows.tolist(), *ends, graph.time[rows].tolist(), strict=True):
        yield f"{row:>{number}}  {src}  {dst}  {words.moment(time)}"


@data_commands.command("fetch")
def data_fetch(name: Annotated[str, Argument(help="The data set's name.")]) -> None:
    """Download a data set from its public source into the data directory."""
    with progress(name, None, in_bytes=True) as move:
        path = fetch(name, lambda done, total: move(completed=done, total=total))
    print(f"{name} is at {path}")
    if note := pin_note(name):
        print(note)


@data_commands.command("import")
def data_import(
    file: Annotated[str, Argument(help="Parquet, csv, JODIE csv, ml_X.csv, or a data set's name.")],
    out_: Annotated[
        Path, Option("--out", writes=FOLDER, help="Folder for the graph; it opens in no time, whatever its size.")
    ],
    src: Annotated[str | None, Option(help="Column of the sources.")] = None,
    dst: Annotated[str | None, Option(help="Column of the destinations.")] = None,
    time: Annotated[str | None, Option(help="Column of the times.")] = None,
    features: Annotated[str | None, Option(help="Columns of event features, with commas between.")] = None,
    no_header: Annotated[
        bool, Option("--no-header", help="Line 1 is an event: columns are 1, 2, 3, …: source, destination, time.")
    ] = False,
    sort: SortOption = False,
    unit: UnitOption = None,
) -> None:
    """Read a file of events and save it as a graph."""
    names = None if features is None else [name.strip() for name in features.split(",")]
    columns: dict[str, Any] = {"src": src, "dst": dst, "time": time, "features": names}
    if no_header:
        columns["header"] = False
    graph = load(file, sort=sort, unit=unit, **columns)
    save_graph(graph, out_)
    from cody.cli import show

    show.print_parts([show.summary(str(out_), graph, summarise(graph))])
    unused = [words.sanitize(name, 40) for name in unused_columns(file, **columns)]
    if unused:
        say(f"columns that were left out: {', '.join(unused)} (--features keeps those that hold numbers)")


@data_commands.command("export")
def data_export(
    name: Annotated[str, Argument(help="A data set's name, a file of events, or a saved graph.")],
    out_: Annotated[Path, Option("--out", writes=TABLE, help="File for the events: .csv or .parquet.")],
    without: WithoutOption = "",
    add: AddOption = None,
    move: MoveOption = None,
    new_node: NewNodeOption = None,
    sort: SortOption = False,
    unit: UnitOption = None,
) -> None:
    """Write events as a table, also with edits: some left out, added or moved."""
    graph = load(name, sort=sort, unit=unit)
    edits: list[Edit] = [
        *(parse_add(text, graph) for text in add or []),
        *(parse_move(text, graph) for text in move or []),
    ]
    (removed,) = check_changes(graph, [parse_rows(without)])
    if removed or edits or new_node:
        longer = graph.imagine(edits, new_nodes=new_node or [])
        graph = longer.with_change(removed | set(range(longer.num_events, longer.num_rows)))
    write_events(graph, out_)
    print(f"{words.count(graph.num_events, 'event')} written to {words.sanitize(out_, 2000)}")
    if graph.node_features is not None:
        say("features of nodes are not part of such a table; cody data import keeps them in a folder")
