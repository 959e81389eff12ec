"""cody train: a model of links, or of the labels of events."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from cody.cli.command import FOLDER, bundled, command, given_by, option, option_fields, real, whole
from cody.cli.messages import print_json, print_parts
from cody.cli.options import DataSource, json_option, required_data_options, use_threads
from cody.cli.running import follow_training
from cody.errors import CallError
from cody.graph import TemporalGraph
from cody.utils import words
from cody.utils.tables import TextTable

if TYPE_CHECKING:
    from cody.models.sizes import Sizes
    from cody.train.architectures import Network
    from cody.train.training import TrainingProgress

LARGEST_SEED = 2**32 - 1  # that torch takes
SIZE, TRAINING = "The model", "Training"  # sections of the help
_size, _training, _task = option_fields(SIZE), option_fields(TRAINING), option_fields("What it learns")
seed_option = option(
    "--seed", section=TRAINING, type=whole(0, LARGEST_SEED), default=0, help="The same seed gives the same weights."
)


@dataclass(frozen=True, slots=True)
class SizeOptions:
    """Sizes of a model, where they differ from those of its preset."""

    batch: int | None = _size("Number of events between two updates of the memory.")
    dimension: int | None = _size("Size of embeddings and memory.")
    neighbours: int | None = _size("Number of recent events that a node attends to.")
    layers: int | None = _size("Number of attention layers.")
    heads: int | None = _size("Number of attention heads.")


@dataclass(frozen=True, slots=True)
class TaskOptions:
    """What a model learns."""

    task: str = _task(
        "Whether events happen, or which label they have.", type=click.Choice(["link", "label"]), default="link"
    )
    about: str | None = _task(
        "With --task label: read both nodes of an event (default), or the source alone, whose state the label is.",
        type=click.Choice(["event", "node"]),
    )
    encoder: str | None = _task("With --task label: begin with the encoder of this link model.", metavar="MODEL")
    freeze_encoder: bool = _task("With --encoder: train the decoder alone.")

    def check(self) -> None:
        """Refuse options of labels where links are learned."""
        if self.task == "link" and (self.about is not None or self.encoder is not None or self.freeze_encoder):
            raise CallError("--about, --encoder and --freeze-encoder belong to --task label")
        if self.freeze_encoder and self.encoder is None:
            raise CallError("--freeze-encoder trains the decoder alone: give the link model with --encoder MODEL")


@dataclass(frozen=True, slots=True)
class TrainOptions:
    """How a model is trained."""

    epochs: int = _training("Maximum number of passes over the training events.", default=50)
    patience: int = _training("Stop after this many epochs without improvement.", default=5)
    learning_rate: float = _training("Step size of Adam.", type=real(0, 1), default=3e-4)
    learn_frequencies: bool = _training("Also learn the frequencies of the time encoding.")
    freeze_memory: bool = _training("Leave the GRU of a TGN at its random weights.", was="--fixed-memory")
    seed: int = given_by(seed_option)


@command("train")
@required_data_options
@option(
    "--model", "architecture", section=SIZE, type=click.Choice(["tgn", "tgat"]), required=True, help="The architecture."
)
@option(
    "--preset",
    section=SIZE,
    type=click.Choice(["paper", "compact"]),
    default="compact",
    help="Sizes: as in the paper, or several times cheaper.",
)
@bundled("sizes", SizeOptions)
@bundled("task", TaskOptions)
@bundled("training", TrainOptions)
@option(
    "--threads",
    section=TRAINING,
    type=whole(1, 1024),
    default=1,
    help="Number of CPU threads; more help large models only.",
)
@option("--out", type=FOLDER, required=True, help="Folder for the model; resumes an interrupted training.")
@json_option
def train(
    source: DataSource,
    architecture: str,
    preset: str,
    sizes: SizeOptions,
    task: TaskOptions,
    training: TrainOptions,
    threads: int,
    out: Path,
    as_json: bool,
) -> None:
    """Train a model that predicts links, or the labels of events."""
    task.check()
    graph = source.load()
    from cody.models.sizes import PRESETS
    from cody.train.training import TrainingSettings, train

    use_threads(threads)
    given = {name: value for name in SizeOptions.__slots__ if (value := getattr(sizes, name)) is not None}
    network, encoder = _network(graph, architecture, replace(PRESETS[preset], **given), training.seed, task)
    chosen = asdict(training)
    settings = TrainingSettings(
        fixed_memory=chosen.pop("freeze_memory"), encoder=encoder, fixed_encoder=task.freeze_encoder, **chosen
    )
    steps = train(graph, network, settings, out)

    def position(step: TrainingProgress) -> tuple[str, int, int]:
        batches = (step.epoch - 1) * step.batches + step.batch
        return f"epoch {step.epoch}, batches", batches, training.epochs * step.batches

    follow_training(steps, "Preparing the events ...", position, epoch, at_most=True)
    document = json.loads((out / "model.json").read_text(encoding="utf-8"))
    if as_json:
        print_json(document)
    else:
        print_parts([_trained(out, document)])


def _network(
    graph: TemporalGraph, architecture: str, sizes: Sizes, seed: int, task: TaskOptions
) -> tuple[Network, str]:
    """The network to train, and the identity of the link model whose encoder it has, if any."""
    from cody.train.architectures import ARCHITECTURES
    from cody.train.checkpoint import load_checkpoint
    from cody.train.labels import new_task, with_encoder
    from cody.train.training import new_network

    if task.task == "link":
        return new_network(ARCHITECTURES[architecture], graph, sizes, seed), ""
    wanted = new_task(graph, task.about or "event")
    if task.encoder is None:
        return new_network(ARCHITECTURES[architecture], graph, sizes, seed, wanted), ""
    return with_encoder(load_checkpoint(task.encoder), wanted, graph, architecture, seed)


def epoch(step: TrainingProgress) -> str:
    """The result of an epoch; empty within one."""
    if step.validation is None:
        return ""
    precision = _percent(step.validation.average_precision)
    unseen = _percent(step.validation.inductive_average_precision)
    best = "  best" if step.best else ""
    return f"epoch {step.epoch:>3}  loss {step.loss:.4f}  validation AP {precision}, unseen nodes {unseen}{best}"


def _trained(folder: Path, document: dict[str, Any]) -> TextTable:
    """The quality of a model on its test period; that of labels, side by side with what needs no model."""
    origin, title = document["origin"], click.style(f"Saved in {words.sanitize(folder)}", bold=True)
    tested, names = f"{origin['events']['test']:,} links", ("all of them", "those of nodes unseen in training")
    if "baselines" in origin:
        labels, last = origin["test_labels"], words.sanitize(document["classes"][-1], 30)
        of_what = f", {labels[document['classes'][-1]]:,} {last}" if len(labels) == 2 else ""
        tested, names = (
            f"{origin['events']['test']:,} labels{of_what}",
            ("this model", "  for nodes unseen in training"),
        )
        if document["threshold"] is not None:
            title += f"\n{last} from a score of {document['threshold']:.3g} on (best F1, validation period)"
    rows = TextTable(f"test period ({tested})", "#AP", "#AUC", title=title)
    for name, prefix in zip(names, ("", "inductive_"), strict=True):
        found = origin["test"]
        rows.add_row(name, _percent(found[f"{prefix}average_precision"]), _percent(found[f"{prefix}auc"]))
    for name, found in origin.get("baselines", {}).items():
        rows.add_row(name, _percent(found["average_precision"]), _percent(found["auc"]))
    return rows


def _percent(share: float | None) -> str:
    return "–" if share is None else f"{100 * share:.2f} %"
