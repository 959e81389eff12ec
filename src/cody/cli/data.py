"""Data sets and files of events."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import numpy as np
import typer
from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TimeRemainingColumn

from cody.cli import show
from cody.cli.common import JsonOption, SortOption, data_commands, messages, print_json, print_parts
from cody.data import data_directory, datasets, fetch, load, save_graph, summarise, verify_graph
from cody.data.named import pin_note


@data_commands.command("list")
def data_list() -> None:
    """The data sets known by name, and which of them are here."""
    print_parts([show.datasets(datasets()), f"Data directory: {data_directory()} (set CODY_DATA to use another)"])


@data_commands.command("show")
def data_show(
    name: Annotated[str, typer.Argument(help="A data set's name, a file of events, or a saved graph.")],
    verify: Annotated[bool, typer.Option("--verify", help="Check every column of a saved graph.")] = False,
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
    else:
        print_parts([show.summary(name, graph, summary)])


@data_commands.command("events")
def data_events(
    name: Annotated[str, typer.Argument(help="A data set's name, a file of events, or a saved graph.")],
    node: Annotated[str | None, typer.Option(help="Only events of this node.")] = None,
    before: Annotated[int | None, typer.Option(min=0, help="Only rows before this one.")] = None,
    last: Annotated[int, typer.Option(min=1, help="How many, the latest ones.")] = 20,
    sort: SortOption = False,
) -> None:
    """List events with their rows, counted from 0."""
    graph = load(name, sort=sort)
    stop = graph.num_events if before is None else min(before, graph.num_events)
    rows = np.arange(max(0, stop - last), stop) if node is None else graph.history(graph.node(node), stop)[-last:]
    print_parts([show.events(graph, rows)])


@data_commands.command("fetch")
def data_fetch(name: Annotated[str, typer.Argument(help="The data set's name.")]) -> None:
    """Download a data set from its public source into the data directory."""
    columns = (TextColumn("{task.description}", markup=False), BarColumn(), DownloadColumn(), TimeRemainingColumn())
    with Progress(*columns, console=messages, transient=True) as bar:
        task = bar.add_task(name, total=None)
        path = fetch(name, lambda done, total: bar.update(task, completed=done, total=total))
    print_parts([f"{name} is at {path}"])
    if note := pin_note(name):
        print_parts([note])


@data_commands.command("import")
def data_import(
    file: Annotated[str, typer.Argument(help="Parquet, csv, JODIE csv, ml_X.csv, or a data set's name.")],
    out_: Annotated[Path, typer.Option("--out", help="Folder for the graph; it opens in no time, whatever its size.")],
    src: Annotated[str | None, typer.Option(help="Column of the sources.")] = None,
    dst: Annotated[str | None, typer.Option(help="Column of the destinations.")] = None,
    time: Annotated[str | None, typer.Option(help="Column of the times.")] = None,
    features: Annotated[str | None, typer.Option(help="Columns of event features, with commas between.")] = None,
    sort: SortOption = False,
) -> None:
    """Read a file of events and save it as a graph."""
    names = None if features is None else [name.strip() for name in features.split(",")]
    graph = load(file, src=src, dst=dst, time=time, features=names, sort=sort)
    save_graph(graph, out_)
    print_parts([show.summary(str(out_), graph, summarise(graph))])
