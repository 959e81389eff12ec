"""The command line. Each command parses its arguments, calls one function of the library, and prints.

Answers go to standard output; progress and messages go to standard error. Exit codes: 0 done, 1 something failed,
2 the call was wrong.
"""

from __future__ import annotations

import json
import sys
from dataclasses import asdict, replace
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.progress import BarColumn, DownloadColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from cody import show
from cody._version import __version__
from cody.data import data_directory, datasets, fetch, load, save_graph, summarise
from cody.errors import CallError, CodyError, did_you_mean
from cody.what_if import Case, answer_cases, parse_rows, read_cases

app = typer.Typer(
    help="Which past events, had they not happened, would have changed this prediction?",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"]},
)
data_commands = typer.Typer(
    help="Data sets: those known by name, and your own.", no_args_is_help=True, rich_markup_mode=None
)
app.add_typer(data_commands, name="data")

out = Console()
messages = Console(stderr=True)

DataOption = Annotated[str, typer.Option("--data", help="A data set's name, a file of events, or a saved graph.")]
ModelOption = Annotated[str, typer.Option("--model", help="A model's folder, or the name of a shipped one.")]
JsonOption = Annotated[bool, typer.Option("--json", help="Print one JSON document, and nothing else.")]
SortOption = Annotated[bool, typer.Option("--sort", help="Sort the events by time; equal times keep their order.")]
OtherDataOption = Annotated[bool, typer.Option("--other-data", help="Ask the model about data it was not made for.")]


class Architecture(StrEnum):
    tgn = "tgn"
    tgat = "tgat"


class Engine(StrEnum):
    fast = "fast"
    replay = "replay"


class Preset(StrEnum):
    paper = "paper"
    compact = "compact"


def main() -> None:
    """Run a command; an error of ours becomes one line and an exit code."""
    try:
        app()
    except CodyError as error:
        messages.print(f"[bold red]error:[/] {show.escape(str(error))}", highlight=False, soft_wrap=True)
        sys.exit(2 if isinstance(error, CallError) else 1)
    except KeyboardInterrupt:
        messages.print("stopped")
        sys.exit(130)


def _version(wanted: bool) -> None:
    if wanted:
        print(f"cody {__version__}")
        raise typer.Exit


@app.callback()
def _options(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    pass


@app.command()
def demo() -> None:
    """Score real links with a trained model, and see which past event matters most."""
    with messages.status("Loading 59,835 messages and a trained TGN ..."):
        from cody.demo import run_demo

        result = run_demo()
    for part in show.demo(result):
        out.print(part)


@data_commands.command("list")
def data_list() -> None:
    """The data sets known by name, and which of them are here."""
    out.print(show.datasets(datasets()))
    out.print(f"Data directory: {data_directory()} (set CODY_DATA to use another)", style="dim", soft_wrap=True)


@data_commands.command("show")
def data_show(name: str, sort: SortOption = False, json_: JsonOption = False) -> None:
    """What a data set, file or saved graph holds."""
    graph = load(name, sort=sort)
    summary = summarise(graph)
    if json_:
        print(json.dumps({"data": name, **asdict(summary), "identity": graph.identity}))
    else:
        out.print(show.summary(name, graph, summary))


@data_commands.command("fetch")
def data_fetch(name: str) -> None:
    """Download a data set from its public source into the data directory."""
    with Progress(TextColumn(name), BarColumn(), DownloadColumn(), TimeRemainingColumn(), console=messages) as bar:
        task = bar.add_task(name, total=None)
        path = fetch(name, lambda done, total: bar.update(task, completed=done, total=total))
    out.print(f"{name} is at {path}", soft_wrap=True)


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
    out.print(show.summary(str(out_), graph, summarise(graph)))


@app.command()
def train(
    data: DataOption,
    model: Annotated[Architecture, typer.Option(help="The architecture.")],
    out_: Annotated[Path, typer.Option("--out", help="Folder for the model; an interrupted training goes on there.")],
    preset: Annotated[Preset, typer.Option(help="Sizes: as in the paper, or several times cheaper.")] = Preset.compact,
    epochs: Annotated[int, typer.Option(min=1, help="At most this many passes over the training events.")] = 50,
    patience: Annotated[int, typer.Option(min=1, help="Stop after so many epochs without a better one.")] = 5,
    learning_rate: Annotated[float, typer.Option(min=0.0, help="Step size of Adam.")] = 3e-4,
    batch: Annotated[int | None, typer.Option(min=1, help="Events in one batch: the grid of the memory.")] = None,
    dimension: Annotated[int | None, typer.Option(min=1, help="Size of embeddings and memory.")] = None,
    neighbours: Annotated[int | None, typer.Option(min=1, help="Recent events that a node attends to.")] = None,
    layers: Annotated[int | None, typer.Option(min=1, help="Attention layers.")] = None,
    seed: Annotated[int, typer.Option(min=0, help="The same seed gives the same weights.")] = 0,
    threads: Annotated[int | None, typer.Option(min=1, help="Processor threads.")] = None,
    sort: SortOption = False,
    json_: JsonOption = False,
) -> None:
    """Train a model to predict links."""
    graph = load(data, sort=sort)
    import torch

    from cody.models import ARCHITECTURES
    from cody.models.sizes import PRESETS
    from cody.models.train import Settings, new_network, train

    asked = {"batch": batch, "dimension": dimension, "neighbours": neighbours, "layers": layers}
    sizes = replace(PRESETS[preset], **{name: value for name, value in asked.items() if value is not None})
    settings = Settings(epochs, patience, learning_rate, seed)
    if threads is not None:
        torch.set_num_threads(threads)
    network = new_network(ARCHITECTURES[model], graph, sizes, seed)
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, console=messages) as bar:
        task = bar.add_task("epoch 1", total=None)
        for step in train(graph, network, settings, out_):
            bar.update(task, description=f"epoch {step.epoch}", completed=step.batch, total=step.batches)
            if step.validation is not None:
                bar.console.print(show.epoch(step))
    document = json.loads((out_ / "model.json").read_text(encoding="utf-8"))
    if json_:
        print(json.dumps(document))
    else:
        out.print(show.trained(out_, document))


@app.command("import-model")
def import_model(
    weights: Annotated[Path, typer.Argument(help="A state dict: safetensors, or a .pth that needs no unpickling.")],
    data: DataOption,
    out_: Annotated[Path, typer.Option("--out", help="Folder for the model.")],
    layers: Annotated[int, typer.Option(min=1, help="Attention layers (n_layer).")],
    heads: Annotated[int, typer.Option(min=1, help="Attention heads (n_head).")],
    neighbours: Annotated[int, typer.Option(min=1, help="Recent events that a node attends to (n_degree).")],
    batch: Annotated[int, typer.Option(min=1, help="Events in one batch (bs): the grid of the memory.")],
    from_: Annotated[str, typer.Option("--from", help="Whose weights these are.")] = "tgn-original",
    sort: SortOption = False,
) -> None:
    """Import the weights of a model that was trained elsewhere."""
    if from_ != "tgn-original":
        raise CallError(f"cannot import models from {from_!r}{did_you_mean(from_, ['tgn-original'])}")
    graph = load(data, sort=sort)
    from cody.models.original import import_original

    sizes = import_original(weights, graph, out_, layers=layers, heads=heads, neighbours=neighbours, batch=batch)
    out.print(f"Imported {weights.name} into {out_}: {sizes}", soft_wrap=True)


@app.command("what-if")
def what_if(
    data: DataOption = "collegemsg",
    model: ModelOption = "tgn-collegemsg",
    event: Annotated[int | None, typer.Option(help="Row of the event whose link is scored.")] = None,
    without: Annotated[str, typer.Option(help="Rows of events that did not happen: 3,7,9")] = "",
    cases: Annotated[Path | None, typer.Option(help='A JSON list of {"event": row, "removed": [rows]}.')] = None,
    engine: Annotated[Engine, typer.Option(help="Fast, or the plain replay that defines right.")] = Engine.fast,
    sort: SortOption = False,
    other_data: OtherDataOption = False,
    json_: JsonOption = False,
) -> None:
    """Ask a model what it would have said had some events not happened."""
    if (event is None) == (cases is None):
        raise CallError("give either --event ROW, with --without ROWS, or --cases FILE")
    if cases is not None:
        asked = read_cases(cases)
    else:
        assert event is not None
        asked = [Case(event, frozenset()), Case(event, parse_rows(without))] if without else [Case(event, frozenset())]
    graph = load(data, sort=sort)
    from cody.inference import fast_model, load_model, plain_model

    engines = {Engine.fast: fast_model, Engine.replay: plain_model}
    logits = answer_cases(load_model(model, graph, engine=engines[engine], other_data=other_data), graph, asked)
    if not json_:
        out.print(show.answers(graph, asked, logits))
        return
    answers = [
        {"event": case.event, "removed": sorted(case.removed), "logit": logit}
        for case, logit in zip(asked, logits, strict=True)
    ]
    print(json.dumps(answers))


@app.command()
def bench(
    data: DataOption = "collegemsg",
    preset: Annotated[Preset, typer.Option(help="Sizes of the models.")] = Preset.paper,
    queries: Annotated[int, typer.Option(min=1, help="Explanations to average over.")] = 20,
    sizes: Annotated[str, typer.Option(help="Events of generated graphs: how cost grows.")] = "10000,100000,1000000",
    json_: JsonOption = False,
) -> None:
    """Measure the exact engine against plain forward passes, side by side."""
    wanted = sorted(parse_rows(sizes))
    if wanted and wanted[0] < 1000:
        raise CallError(f"graphs of fewer than 1,000 events say nothing about growth: {sizes!r}")
    from cody import bench as measurements

    costs = []
    with messages.status("Measuring ...") as status:
        for cost in measurements.run(data, preset, queries, wanted):
            costs.append(cost)
            status.update(f"Measuring ... {len(costs)} done")
    if json_:
        results = [measurements.as_json(cost) for cost in costs]
        print(json.dumps({"machine": measurements.machine(), "data": data, "preset": preset, "results": results}))
        return
    engines = [cost for cost in costs if isinstance(cost, measurements.EngineCost)]
    growth = [cost for cost in costs if isinstance(cost, measurements.GrowthCost)]
    for part in show.bench(engines, growth, measurements.machine()):
        out.print(part)
