"""Training and importing models, and explainers that learn."""

from __future__ import annotations

import json
import sys
from dataclasses import asdict, fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NoReturn

from cody.cli.choices import TRAINED_NAMES, ArchitectureName, Preset
from cody.cli.common import (
    DataOption,
    JsonOption,
    ModelOption,
    OtherDataOption,
    SortOption,
    UnitOption,
    app,
    naming_what_was_left_out,
    print_json,
    say,
    use_threads,
)
from cody.cli.parser import FOLDER, Argument, Option
from cody.cli.progress import progress, status
from cody.data import load
from cody.errors import CallError, did_you_mean
from cody.explain.what_if import parse_rows
from cody.study.explainers import TRAINED
from cody.utils import start as _start
from cody.utils import words

if TYPE_CHECKING:
    from cody.graph import TemporalGraph


@app.command()
def train(
    data: DataOption,
    model: Annotated[ArchitectureName, Option(help="The architecture.")],
    out_: Annotated[
        Path, Option("--out", writes=FOLDER, help="Folder for the model; an interrupted training continues there.")
    ],
    preset: Annotated[Preset, Option(help="Sizes: as in the paper, or several times cheaper.")] = Preset.compact,
    epochs: Annotated[int, Option(min=1, help="At most this many passes over the training events.")] = 50,
    patience: Annotated[int, Option(min=1, help="Stop after so many epochs without a better one.")] = 5,
    learning_rate: Annotated[float, Option(min=0.0, max=1.0, help="Step size of Adam.")] = 3e-4,
    batch: Annotated[int | None, Option(min=1, help="Events between two updates of the memory.")] = None,
    dimension: Annotated[int | None, Option(min=1, help="Size of embeddings and memory.")] = None,
    neighbours: Annotated[int | None, Option(min=1, help="Recent events that a node attends to.")] = None,
    layers: Annotated[int | None, Option(min=1, help="Attention layers.")] = None,
    heads: Annotated[int | None, Option(min=1, help="Attention heads.")] = None,
    learn_frequencies: Annotated[bool, Option(help="Learn the frequencies of the time encoding too.")] = False,
    fixed_memory: Annotated[bool, Option(help="Leave the GRU of a TGN at its random weights.")] = False,
    seed: Annotated[int, Option(min=0, max=2**32 - 1, help="The same seed gives the same weights.")] = 0,
    threads: Annotated[int, Option(min=1, max=1024, help="Processor threads; more help large models only.")] = 1,
    sort: SortOption = False,
    unit: UnitOption = None,
    json_: JsonOption = False,
) -> None:
    """Train a model to predict links."""
    graph = load(data, sort=sort, unit=unit)
    from cody.models.sizes import PRESETS
    from cody.train.architectures import ARCHITECTURES
    from cody.train.training import TrainingSettings, new_network, train

    use_threads(threads)
    asked = {"batch": batch, "dimension": dimension, "neighbours": neighbours, "layers": layers, "heads": heads}
    sizes = replace(PRESETS[preset], **{name: value for name, value in asked.items() if value is not None})
    network = new_network(ARCHITECTURES[model], graph, sizes, seed)
    settings = TrainingSettings(
        epochs=epochs,
        patience=patience,
        learning_rate=learning_rate,
        seed=seed,
        learn_frequencies=learn_frequencies,
        fixed_memory=fixed_memory,
    )
    steps = train(graph, network, settings, out_)
    from cody.cli import show

    finished = None
    try:
        with progress("Preparing the events ...", None, at_most=True) as move:
            for step in steps:
                if finished is None and step.epoch > 1:
                    say(f"resuming after epoch {step.epoch - 1}")
                finished = step.epoch if step.validation is not None else step.epoch - 1
                batches = (step.epoch - 1) * step.batches + step.batch
                move(description=f"epoch {step.epoch}, batches", completed=batches, total=epochs * step.batches)
                if step.validation is not None:
                    say(show.epoch(step))
    except KeyboardInterrupt:
        _stopped(finished)
    document = json.loads((out_ / "model.json").read_text(encoding="utf-8"))
    if json_:
        print_json(document)
    else:
        show.print_parts([show.trained(out_, document)])


def _stopped(finished: int | None) -> NoReturn:
    """Say what a training that was stopped by hand leaves behind."""
    say(f"stopped after epoch {finished}; the same command continues from there" if finished else "stopped")
    sys.exit(_start.STOPPED)


@app.command("train-explainer")
def train_explainer(
    out_: Annotated[
        Path, Option("--out", writes=FOLDER, help="Folder for the explainer; an interrupted training continues there.")
    ],
    explainer: Annotated[
        str, Option(metavar="NAME", help=f"Which one: {TRAINED_NAMES}. The first also guides T-GNNExplainer.")
    ] = TRAINED[0],
    data: DataOption = "collegemsg",
    model: ModelOption = "tgn-collegemsg",
    links: Annotated[int, Option(min=1, help="Links to learn from, of the training period.")] = 1000,
    epochs: Annotated[int, Option(min=1, help="Passes over these links.")] = 30,
    learning_rate: Annotated[float, Option(min=0.0, max=1.0, help="Step size of Adam.")] = 1e-3,
    size: Annotated[
        float | None, Option(min=0.0, help="PGExplainer: what an important event costs. Default: 2.")
    ] = None,
    entropy: Annotated[
        float | None, Option(min=0.0, help="PGExplainer: what an undecided event costs. Default: 0.1.")
    ] = None,
    prior: Annotated[
        float | None, Option(min=0.0, max=1.0, help="TempME: share of motifs that is free. Default: 0.05.")
    ] = None,
    divergence: Annotated[
        float | None, Option(min=0.0, help="TempME: what other shares and kinds of motifs cost. Default: 0.5.")
    ] = None,
    seed: Annotated[int, Option(min=0, max=2**32 - 1, help="The same seed gives the same weights.")] = 0,
    sort: SortOption = False,
    unit: UnitOption = None,
    allow_data_mismatch: OtherDataOption = False,
    json_: JsonOption = False,
) -> None:
    """Train an explainer for a model: which past events its decisions rest on."""
    if explainer not in TRAINED:
        raise CallError(
            f"--explainer {explainer!r} is not trained{did_you_mean(explainer, TRAINED)}: {TRAINED_NAMES} are"
        )
    own = {"size": size, "entropy": entropy, "prior": prior, "divergence": divergence}
    given: dict[str, Any] = {name: value for name, value in own.items() if value is not None}
    graph = load(data, sort=sort, unit=unit)
    with status("Loading the model ..."):
        from cody.baselines import settings_of, train_explainer
        from cody.baselines.differentiable import SoftModel
        from cody.engine import load_model

        use_threads(1)
        settings_class = settings_of(explainer)
        for name in given.keys() - {field.name for field in fields(settings_class)}:
            raise CallError(f"the explainer {explainer!r} has no option --{name}")
        settings = settings_class(links=links, epochs=epochs, learning_rate=learning_rate, seed=seed, **given)
        with naming_what_was_left_out(model, graph):
            trained = SoftModel(load_model(model, graph, allow_data_mismatch=allow_data_mismatch))
        steps = train_explainer(trained, settings, out_)
    finished = None
    try:
        with progress("Preparing the links ...", None) as move:
            for step in steps:
                if finished is None and step.epoch > 1:
                    say(f"resuming after epoch {step.epoch - 1}")
                finished = step.epoch
                move(description="epochs", completed=finished, total=epochs)
                say(
                    f"epoch {step.epoch:>3}  loss {step.loss:.4f}  decided alike {step.agreement:.1%}, "
                    f"events kept {step.weight:.1%}"
                )
    except KeyboardInterrupt:
        _stopped(finished)
    notes = out_ / f"{settings.new_scorer(trained.network.sizes).FILES}.json"
    document = json.loads(notes.read_text(encoding="utf-8"))
    if json_:
        print_json(document)
    else:
        print(f"Saved in {words.sanitize(out_)}.\nFor model {document['model']}\nand data  {document['data']}.")


@app.command("import-model")
def import_model(
    weights: Annotated[
        Path,
        Argument(help="State dicts, or a checkpoint of a training with them: safetensors, or .pth without objects."),
    ],
    data: DataOption,
    out_: Annotated[Path, Option("--out", writes=FOLDER, help="Folder for the model.")],
    heads: Annotated[int, Option(min=1, help="Attention heads (n_head).")],
    neighbours: Annotated[int, Option(min=1, help="Recent events that a node attends to (n_degree).")],
    batch: Annotated[int, Option(min=1, help="Events between two updates of the memory (bs).")],
    layers: Annotated[int | None, Option(min=1, help="Attention layers (n_layer); pyg has one.")] = None,
    start: Annotated[
        str | None, Option(help="pyg: the time that the model counts as 0, or 'first', that of the first event.")
    ] = None,
    message: Annotated[
        float | None, Option(help="pyg: what the model got as message of every event, if the data have no features.")
    ] = None,
    splits: Annotated[
        str | None,
        Option(
            help="pyg: rows at which your loop starts a new batch because it has a loader for each part of the data, "
            "such as 24914,30253, or 'none'. Default: the first rows of the library's 70/15/15 % split by time."
        ),
    ] = None,
    sees_own_batch: Annotated[
        bool, Option(help="pyg: a link sees earlier events of its own batch; in the library's loop it does not.")
    ] = False,
    from_: Annotated[str, Option("--from", help="Whose weights these are: tgn-original or pyg.")] = "tgn-original",
    sort: SortOption = False,
    unit: UnitOption = None,
) -> None:
    """Import the weights of a model that was trained elsewhere."""
    importers = {"tgn-original": _import_original, "pyg": _import_pyg}
    if from_ not in importers:
        raise CallError(f"cannot import models from {from_!r}{did_you_mean(from_, importers)}")
    given = {"heads": heads, "neighbours": neighbours, "batch": batch}
    asked = {"layers": layers, "start": start, "message": message, "splits": splits}
    asked |= {"sees_own_batch": sees_own_batch or None}
    sizes = importers[from_](weights, load(data, sort=sort, unit=unit), out_, given, asked)
    known = ", ".join(f"{name} {value}" for name, value in asdict(sizes).items() if value is not None)
    print(f"Imported {weights.name} into {out_}: {known}")
    from cody.models.folder import read_model

    left_out = read_model(out_).origin["left_out"]
    if left_out:
        print(f"Left out of it, since these are no weights: {', '.join(left_out)}")


def _import_original(
    weights: Path, graph: TemporalGraph, folder: Path, given: dict[str, int], asked: dict[str, Any]
) -> Any:
    if asked["layers"] is None:
        raise CallError("--from tgn-original needs --layers")
    only_pyg = ("start", "message", "splits", "sees_own_batch")
    unknown = [f"--{name.replace('_', '-')}" for name in only_pyg if asked[name] is not None]
    if unknown:
        raise CallError(f"{unknown[0]} is for --from pyg")
    from cody.train.original import import_original

    return import_original(weights, graph, folder, layers=asked["layers"], **given)


def _import_pyg(weights: Path, graph: TemporalGraph, folder: Path, given: dict[str, Any], asked: dict[str, Any]) -> Any:
    if asked["layers"] not in (None, 1):
        raise CallError(f"--layers {asked['layers']}: the TGN of PyTorch Geometric's example has one layer")
    from cody.adapters.pyg_folder import import_pyg

    start = asked["start"] or "0"
    zero = float(graph.time[0]) if start == "first" and graph.num_events else graph.when(start)
    splits = [] if asked["splits"] == "none" else None if asked["splits"] is None else parse_rows(asked["splits"])
    fed: dict[str, Any] = {"splits": splits, "sees_own_batch": bool(asked["sees_own_batch"])}
    return import_pyg(weights, graph, folder, start=zero, message=asked["message"], **fed, **given)
