"""cody train: a link prediction model."""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from pathlib import Path

import click

from cody.cli.command import COUNT, FOLDER, bundled, command, option, real, section, whole
from cody.cli.messages import print_json, say
from cody.cli.options import DataSource, json_option, required_data_options, use_threads
from cody.cli.progress import progress
from cody.cli.running import stop

LARGEST_SEED = 2**32 - 1  # that torch takes


@dataclass(frozen=True, slots=True)
class SizeOptions:
    """Sizes of a model, where they differ from those of its preset."""

    batch: int | None
    dimension: int | None
    neighbours: int | None
    layers: int | None
    heads: int | None


@dataclass(frozen=True, slots=True)
class TrainOptions:
    """How a model is trained."""

    epochs: int
    patience: int
    learning_rate: float
    learn_frequencies: bool
    freeze_memory: bool
    seed: int


_size, _training = section("The model"), section("Training")
size_options = bundled(
    "sizes",
    SizeOptions,
    _size("--batch", type=COUNT, help="Number of events between two updates of the memory."),
    _size("--dimension", type=COUNT, help="Size of embeddings and memory."),
    _size("--neighbours", type=COUNT, help="Number of recent events that a node attends to."),
    _size("--layers", type=COUNT, help="Number of attention layers."),
    _size("--heads", type=COUNT, help="Number of attention heads."),
)
seed_option = _training("--seed", type=whole(0, LARGEST_SEED), default=0, help="The same seed gives the same weights.")
training_options = bundled(
    "training",
    TrainOptions,
    _training("--epochs", type=COUNT, default=50, help="Maximum number of passes over the training events."),
    _training("--patience", type=COUNT, default=5, help="Stop after this many epochs without improvement."),
    _training("--learning-rate", type=real(0, 1), default=3e-4, help="Step size of Adam."),
    _training("--learn-frequencies", is_flag=True, help="Also learn the frequencies of the time encoding."),
    _training(
        "--freeze-memory", was="--fixed-memory", is_flag=True, help="Leave the GRU of a TGN at its random weights."
    ),
    seed_option,
)


@command("train")
@required_data_options
@_size("--model", "architecture", type=click.Choice(["tgn", "tgat"]), required=True, help="The architecture.")
@_size(
    "--preset",
    type=click.Choice(["paper", "compact"]),
    default="compact",
    help="Sizes: as in the paper, or several times cheaper.",
)
@size_options
@training_options
@_training("--threads", type=whole(1, 1024), default=1, help="Number of CPU threads; more help large models only.")
@option("--out", type=FOLDER, required=True, help="Folder for the model; resumes an interrupted training.")
@json_option
def train(
    source: DataSource,
    architecture: str,
    preset: str,
    sizes: SizeOptions,
    training: TrainOptions,
    threads: int,
    out: Path,
    as_json: bool,
) -> None:
    """Train a link prediction model."""
    graph = source.load()
    from cody.models.sizes import PRESETS
    from cody.train.architectures import ARCHITECTURES
    from cody.train.training import TrainingSettings, new_network, train

    use_threads(threads)
    given = {name: value for name in SizeOptions.__slots__ if (value := getattr(sizes, name)) is not None}
    network = new_network(ARCHITECTURES[architecture], graph, replace(PRESETS[preset], **given), training.seed)
    settings = TrainingSettings(
        epochs=training.epochs,
        patience=training.patience,
        learning_rate=training.learning_rate,
        seed=training.seed,
        learn_frequencies=training.learn_frequencies,
        fixed_memory=training.freeze_memory,
    )
    steps = train(graph, network, settings, out)
    from cody.cli import show

    finished = None
    try:
        with progress("Preparing the events ...", None, at_most=True) as move:
            for step in steps:
                if finished is None and step.epoch > 1:
                    say(f"resuming after epoch {step.epoch - 1}")
                finished = step.epoch if step.validation is not None else step.epoch - 1
                batches = (step.epoch - 1) * step.batches + step.batch
                total = training.epochs * step.batches
                move(description=f"epoch {step.epoch}, batches", completed=batches, total=total)
                if step.validation is not None:
                    say(show.epoch(step))
    except KeyboardInterrupt:
        stop(resumable(finished))
    document = json.loads((out / "model.json").read_text(encoding="utf-8"))
    if as_json:
        print_json(document)
    else:
        show.print_parts([show.trained(out, document)])


def resumable(finished: int | None) -> str:
    """What a training that was stopped by hand leaves behind."""
    return f"{finished} epochs are done; rerun to resume" if finished else ""
