"""Data sets and files of events."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import numpy as np

from cody.cli.common import JsonOption, SortOption, app, print_json
from cody.cli.parser import Argument, Commands, Option
from cody.cli.progress import progress
from cody.data import data_directory, datasets, fetch, load, save_graph, summarise, verify_graph
from cody.data.named import pin_note

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
    json_: JsonOption = False,
) -> None:
    """What a data set, file or saved graph holds."""
    graph = load(name, sort=sort)
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
) -> None:
    """List events with their rows, counted from 0."""
    graph = load(name, sort=sort)
    stop = graph.num_events if before is None else min(before, graph.num_events)
    rows = np.arange(max(0, stop - last), stop) if node is None else graph.history(graph.node(node), stop)[-last:]
    from cody.cli import show

    show.print_parts([show.events(graph, rows)])


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
    out_: Annotated[Path, Option("--out", help="Folder for the graph; it opens in no time, whatever its size.")],
    src: Annotated[str | None, Option(help="Column of the sources.")] = None,
    dst: Annotated[str | None, Option(help="Column of the destinations.")] = None,
    time: Annotated[str | None, Option(help="Column of the times.")] = None,
    features: Annotated[str | None, Option(help="Columns of event features, with commas between.")] = None,
    sort: SortOption = False,
) -> None:
    """Read a file of events and save it as a graph."""
    names = None if features is None else [name.strip() for name in features.split(",")]
    graph = load(file, src=src, dst=dst, time=time, features=names, sort=sort)
    save_graph(graph, out_)
    from cody.cli import show

    show.print_parts([show.summary(str(out_), graph, summarise(graph))])
