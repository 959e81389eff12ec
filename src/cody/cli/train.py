"""cody train, train-explainer and import-model: where models, and explainers that learn, come from."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from cody.cli import options as shared
from cody.cli.command import argument, bundled, command, given, given_by, option, option_fields, section, values
from cody.cli.running import follow_training
from cody.cli.terminal import Prose, print_json, print_parts, status
from cody.cli.types import COUNT, FILE, FOLDER, real, whole
from cody.errors import CallError, did_you_mean
from cody.explaining.what_if import parse_rows
from cody.graph import TemporalGraph
from cody.study.explainers import TRAINED
from cody.utils import words
from cody.utils.tables import TextTable

if TYPE_CHECKING:
    from cody.baselines.lessons import EpochProgress
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

    preset: str = _size(
        "Sizes: as in the paper, or several times cheaper.", one_of=["paper", "compact"], default="compact"
    )
    batch: int | None = _size("Number of events between two updates of the memory.")
    dimension: int | None = _size("Size of embeddings and memory.")
    neighbours: int | None = _size("Number of recent events that a node attends to.")
    layers: int | None = _size("Number of attention layers.")
    heads: int | None = _size("Number of attention heads.")


@dataclass(frozen=True, slots=True)
class TaskOptions:
    """What a model learns."""

    task: str = _task("Whether events happen, or which label they have.", one_of=["link", "label"], default="link")
    about: str | None = _task(
        "With --task label: read both nodes of an event (default), or the source alone, whose state the label is.",
        one_of=["event", "node"],
    )
    encoder: str | None = _task("With --task label: begin with the encoder of this link model.", "MODEL")
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
    threads: int = _training("Number of CPU threads; more help large models only.", type=whole(1, 1024), default=1)


@command("train")
@shared.required_data_options
@option("--model", "architecture", section=SIZE, one_of=["tgn", "tgat"], required=True, help="The architecture.")
@bundled("sizes", SizeOptions)
@bundled("task", TaskOptions)
@bundled("training", TrainOptions)
@option("--out", type=FOLDER, required=True, help="Folder for the model; resumes an interrupted training.")
@shared.json_option
def train(
    source: shared.DataSource,
    architecture: str,
    sizes: SizeOptions,
    task: TaskOptions,
    training: TrainOptions,
    out: Path,
    as_json: bool,
) -> None:
    """Train a model that predicts links, or the labels of events."""
    task.check()
    graph = source.load()
    from cody.models.sizes import PRESETS
    from cody.train.training import TrainingSettings, train

    size, chosen = values(sizes), asdict(training)
    shared.use_threads(chosen.pop("threads"))
    network, encoder = _network(graph, architecture, replace(PRESETS[size.pop("preset")], **size), training.seed, task)
    chosen |= {"fixed_memory": chosen.pop("freeze_memory"), "fixed_encoder": task.freeze_encoder}
    settings = TrainingSettings(encoder=encoder, **chosen)
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
        tested = f"{origin['events']['test']:,} labels{of_what}"
        names = ("this model", "  for nodes unseen in training")
        if document["threshold"] is not None:
            title += f"\n{last} from a score of {document['threshold']:.3g} on (best F1, validation period)"
    rows = TextTable(f"test period ({tested})", "#AP", "#AUC", title=title)
    found = origin["test"]
    unseen = {name: found[f"inductive_{name}"] for name in ("average_precision", "auc")}
    for name, figures in {names[0]: found, names[1]: unseen, **origin.get("baselines", {})}.items():
        rows.add_row(name, _percent(figures["average_precision"]), _percent(figures["auc"]))
    return rows


def _percent(share: float | None) -> str:
    return "–" if share is None else f"{100 * share:.2f} %"


# An explainer.

NAMES = ", ".join(TRAINED)
_own = option_fields("Options of single explainers")


@dataclass(frozen=True, slots=True)
class ExplainerTraining:
    """How an explainer is trained; None: its own default."""

    links: int = _training("Number of links of the training period to learn from.", default=1000)
    epochs: int = _training("Number of passes over these links.", default=30)
    learning_rate: float = _training("Step size of Adam.", type=real(0, 1), default=1e-3)
    seed: int = given_by(seed_option)
    size: float | None = _own("PGExplainer: weight of the size penalty. Default: 2.", type=real(0))
    entropy: float | None = _own("PGExplainer: weight of the entropy penalty. Default: 0.1.", type=real(0))
    prior: float | None = _own("TempME: prior share of motifs that are kept. Default: 0.05.", type=real(0, 1))
    divergence: float | None = _own("TempME: weight of the divergence from that prior. Default: 0.5.", type=real(0))


@command("train-explainer")
@option(
    "--explainer", metavar="NAME", default=TRAINED[0], help=f"Which one: {NAMES}. The first also guides T-GNNExplainer."
)
@shared.model_options
@bundled("training", ExplainerTraining)
@option("--out", type=FOLDER, required=True, help="Folder for the explainer; resumes an interrupted training.")
@shared.json_option
def train_explainer(
    explainer: str, source: shared.ModelSource, training: ExplainerTraining, out: Path, as_json: bool
) -> None:
    """Train an explainer for a model to rank the past events that its predictions rest on.

    It learns from the candidates of the paper, the latest events around each link (--near events).
    """
    if explainer not in TRAINED:
        raise CallError(f"--explainer {explainer!r} is not trained{did_you_mean(explainer, TRAINED)}: {NAMES} are")
    graph = source.load()
    with status("Loading the model ..."):
        from cody.baselines import settings_of
        from cody.baselines import train_explainer as train
        from cody.baselines.differentiable import SoftModel
        from cody.engine import load_model

        shared.use_threads(1)
        kind, chosen = settings_of(explainer), values(training)
        for name in chosen.keys() - {field.name for field in fields(kind)}:
            raise CallError(f"the explainer {explainer!r} has no option --{name}")
        settings = kind(**chosen)
        with shared.naming_what_was_left_out(source.model, graph):
            model = SoftModel(load_model(source.model, graph, allow_data_mismatch=source.allow_data_mismatch))
        steps = train(model, settings, out)
    follow_training(
        steps, "Preparing the links ...", lambda step: ("epochs", step.epoch, training.epochs), _result_of_epoch
    )
    notes = out / f"{settings.scorer.FILES}.json"
    document = json.loads(notes.read_text(encoding="utf-8"))
    if as_json:
        print_json(document)
    else:
        print(f"Saved in {words.sanitize(out)}.\nFor model {document['model']}\nand data  {document['data']}.")


def _result_of_epoch(step: EpochProgress) -> str:
    kept = f"same decision {step.agreement:.1%}, events kept {step.weight:.1%}"
    return f"epoch {step.epoch:>3}  loss {step.loss:.4f}  {kept}"


# A model that was trained elsewhere.

_model = section(SIZE)
_pyg = option_fields("Models of PyTorch Geometric (--from pyg)")


@dataclass(frozen=True, slots=True)
class PygOptions:
    """How a model of PyTorch Geometric was fed."""

    start: str | None = _pyg("The time that the model counts as 0, or 'first', that of the first event.")
    message: float | None = _pyg("The message of every event, if the data have no features.")
    splits: str | None = _pyg(
        "Rows at which your loop starts a new batch because it has a loader for each part of the data, "
        "such as 24914,30253, or 'none'. Default: the first rows of the library's 70/15/15 % split by time."
    )
    sees_own_batch: bool | None = _pyg(
        "A link sees earlier events of its own batch; in the library's loop it does not."
    )


@command("import-model")
@argument(
    "weights", "State dicts, or a training checkpoint with them: safetensors, or .pth without objects.", type=FILE
)
@shared.required_data_options
@_model("--from", "origin", default="tgn-original", help="Origin of the weights: tgn-original or pyg.")
@_model("--layers", type=COUNT, help="Number of attention layers (n_layer); pyg has one.")
@_model("--heads", type=COUNT, required=True, help="Number of attention heads (n_head).")
@_model("--neighbours", type=COUNT, required=True, help="Number of recent events that a node attends to (n_degree).")
@_model("--batch", type=COUNT, required=True, help="Number of events between two updates of the memory (bs).")
@bundled("pyg", PygOptions)
@option("--out", type=FOLDER, required=True, help="Folder for the model.")
def import_model(
    weights: Path, source: shared.DataSource, origin: str, layers: int | None, pyg: PygOptions, out: Path, **sizes: int
) -> None:
    """Import the weights of a model trained elsewhere."""
    importers = {"tgn-original": _import_original, "pyg": _import_pyg}
    if origin not in importers:
        raise CallError(f"cannot import models from {origin!r}{did_you_mean(origin, importers)}")
    imported = importers[origin](weights, source.load(), out, layers, pyg, sizes)
    known = ", ".join(f"{name} {value}" for name, value in asdict(imported).items() if value is not None)
    print_parts([Prose(f"Imported {weights.name} into {out}: {known}")])
    from cody.models.folder import read_model

    left_out = read_model(out).origin["left_out"]
    if left_out:
        print_parts([Prose(f"Left out, since these are not weights: {', '.join(left_out)}")])


def _import_original(
    weights: Path, graph: TemporalGraph, folder: Path, layers: int | None, pyg: PygOptions, sizes: dict[str, int]
) -> Any:
    if layers is None:
        raise CallError("--from tgn-original needs --layers")
    for name in given(pyg):
        raise CallError(f"{name} is for --from pyg")
    from cody.train.original import import_original

    return import_original(weights, graph, folder, layers=layers, **sizes)


def _import_pyg(
    weights: Path, graph: TemporalGraph, folder: Path, layers: int | None, pyg: PygOptions, sizes: dict[str, int]
) -> Any:
    if layers not in (None, 1):
        raise CallError(f"--layers {layers}: the TGN of PyTorch Geometric's example has one layer")
    from cody.adapters.pyg_folder import import_pyg

    start = pyg.start or "0"
    zero = float(graph.time[0]) if start == "first" and graph.num_events else graph.when(start)
    splits = [] if pyg.splits == "none" else None if pyg.splits is None else parse_rows(pyg.splits)
    fed: dict[str, Any] = {"splits": splits, "sees_own_batch": bool(pyg.sees_own_batch), **sizes}
    return import_pyg(weights, graph, folder, start=zero, message=pyg.message, **fed)
