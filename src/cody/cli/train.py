"""cody train: a model of links, or of the labels of events."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

import click

from cody.cli.command import COUNT, FOLDER, bundled, command, given_by, option, option_fields, real, whole
from cody.cli.messages import print_json
from cody.cli.options import DataSource, json_option, required_data_options, use_threads
from cody.cli.running import follow_training
from cody.errors import CallError
from cody.graph import TemporalGraph

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

    batch: int | None = _size(type=COUNT, help="Number of events between two updates of the memory.")
    dimension: int | None = _size(type=COUNT, help="Size of embeddings and memory.")
    neighbours: int | None = _size(type=COUNT, help="Number of recent events that a node attends to.")
    layers: int | None = _size(type=COUNT, help="Number of attention layers.")
    heads: int | None = _size(type=COUNT, help="Number of attention heads.")


@dataclass(frozen=True, slots=True)
class TaskOptions:
    """What a model learns."""

    task: str = _task(
        type=click.Choice(["link", "label"]), default="link", help="Whether events happen, or which label they have."
    )
    about: str | None = _task(
        type=click.Choice(["event", "node"]),
        help="With --task label: read both nodes of an event (default), or the source alone, whose state the label is.",
    )
    encoder: str | None = _task(metavar="MODEL", help="With --task label: begin with the encoder of this link model.")
    freeze_encoder: bool = _task(is_flag=True, help="With --encoder: train the decoder alone.")

    def check(self) -> None:
        """Refuse options of labels where links are learned."""
        if self.task == "link" and (self.about is not None or self.encoder is not None or self.freeze_encoder):
            raise CallError("--about, --encoder and --freeze-encoder belong to --task label")
        if self.freeze_encoder and self.encoder is None:
            raise CallError("--freeze-encoder trains the decoder alone: give the link model with --encoder MODEL")


@dataclass(frozen=True, slots=True)
class TrainOptions:
    """How a model is trained."""

    epochs: int = _training(type=COUNT, default=50, help="Maximum number of passes over the training events.")
    patience: int = _training(type=COUNT, default=5, help="Stop after this many epochs without improvement.")
    learning_rate: float = _training(type=real(0, 1), default=3e-4, help="Step size of Adam.")
    learn_frequencies: bool = _training(is_flag=True, help="Also learn the frequencies of the time encoding.")
    freeze_memory: bool = _training(
        was="--fixed-memory", is_flag=True, help="Leave the GRU of a TGN at its random weights."
    )
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
    from cody.cli import show

    def position(step: TrainingProgress) -> tuple[str, int, int]:
        batches = (step.epoch - 1) * step.batches + step.batch
        return f"epoch {step.epoch}, batches", batches, training.epochs * step.batches

    follow_training(steps, "Preparing the events ...", position, show.epoch, at_most=True)
    document = json.loads((out / "model.json").read_text(encoding="utf-8"))
    if as_json:
        print_json(document)
    else:
        show.print_parts([show.trained(out, document)])


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
