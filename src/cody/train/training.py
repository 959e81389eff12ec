"""Training on links or on labels, and measuring how well a network predicts.

The protocol is the usual one: events are split 70/15/15 by time, each event is scored against one random destination,
and some of the later nodes are hidden from training, to see how the network does on nodes it has never seen. A network
with a task is trained on labels instead (`labels.py`), with the same split.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor, nn

from cody.errors import CallError, DataError, ModelError
from cody.graph import BoolArray, FloatArray, IntArray, TemporalGraph
from cody.models.contract import LabelTask
from cody.models.folder import check_free, make_folder
from cody.models.separation import Quality, auc, average_precision
from cody.models.sizes import Sizes, edge_width
from cody.train.architectures import TGAT, TGN, Network
from cody.train.checkpoint import LENGTH, Checkpoint, ResumeFile, clear_up, save_model
from cody.train.labels import LabelObjective, score_in_batches
from cody.train.sequences import SequenceNetwork

logger = logging.getLogger(__name__)

LinkNetwork = Network | SequenceNetwork  # what can be trained on links
# The loss of a batch of rows, given the inputs of its nodes; None where there is nothing to learn from
BatchLoss = Callable[[Any, IntArray], Tensor | None]


@dataclass(frozen=True, slots=True)
class TrainingSettings:
    """How to train. The same settings, data and number of threads give the same weights."""

    epochs: int = 50
    patience: int = 5  # epochs without a better validation result before training stops
    learning_rate: float = 3e-4
    seed: int = 0
    hidden: float = 0.1  # share of the later nodes that training never sees
    learn_frequencies: bool = False  # of the time encoding; `new_optimizer` says why not
    fixed_memory: bool = False  # the GRU of a TGN keeps its random weights, and no gradient passes through it
    encoder: str = ""  # identity of the link model whose encoder the network began with; "": random weights
    fixed_encoder: bool = False  # only the decoder is trained


class Split(NamedTuple):
    """Rows of a graph: what is trained on, and the periods that are scored."""

    train: IntArray
    validation: IntArray
    test: IntArray
    unseen: BoolArray  # [N] nodes without any training event


def split(graph: TemporalGraph, settings: TrainingSettings) -> Split:
    """70/15/15 by time; training leaves out the events of some nodes that appear later."""
    first, second = np.quantile(graph.time, [0.70, 0.85])
    stop, later_stop = np.searchsorted(graph.time, [first, second], side="right")
    rows = np.arange(graph.num_events)
    if not (0 < stop < later_stop < graph.num_events):
        raise DataError(f"{graph.num_events} events cannot be split into three periods by time")
    later = np.unique(np.concatenate([graph.src[stop:], graph.dst[stop:]]))
    rng = np.random.default_rng([settings.seed, 1])
    hidden = np.zeros(graph.num_nodes, dtype=bool)
    hidden[rng.choice(later, int(settings.hidden * len(later)), replace=False)] = True
    train = rows[:stop][~(hidden[graph.src[:stop]] | hidden[graph.dst[:stop]])]
    if not len(train):
        raise DataError("no training events are left without those of the nodes that are held out")
    unseen = np.ones(graph.num_nodes, dtype=bool)
    unseen[graph.src[train]] = unseen[graph.dst[train]] = False
    return Split(train, rows[stop:later_stop], rows[later_stop:], unseen)


def random_destinations(graph: TemporalGraph, *seed: int) -> Callable[[int], IntArray]:
    """A function that draws so many destinations for events to be scored against."""
    nodes, rng = np.unique(graph.dst), np.random.default_rng(seed)
    return lambda count: rng.choice(nodes, count)


def measure(network: LinkNetwork, graph: TemporalGraph, rows: IntArray, unseen: BoolArray, seed: int) -> Quality:
    """Score the events `rows`, in row order, each against one random destination."""
    targets = np.stack([graph.dst[rows], random_destinations(graph, seed, 2)(len(rows))], axis=1)
    scores = score_in_batches(
        network, graph, rows, lambda stream, part: network.link_logits(stream, graph, rows[part], targets[part])
    )
    new = unseen[graph.src[rows]] | unseen[graph.dst[rows]]
    inductive = _separation(scores[new]) if new.any() else (None, None)
    return Quality(*_separation(scores), *inductive)


def _separation(scores: FloatArray) -> tuple[float, float]:
    happened = np.broadcast_to([True, False], scores.shape).ravel()
    return average_precision(scores.ravel(), happened), auc(scores.ravel(), happened)


@dataclass(frozen=True, slots=True)
class TrainingProgress:
    """The progress of training: after a batch or, with `validation`, after an epoch."""

    epoch: int
    batch: int
    batches: int
    loss: float
    validation: Quality | None = None
    best: bool = False


def new_network(
    architecture: type[TGN] | type[TGAT], graph: TemporalGraph, sizes: Sizes, seed: int, task: LabelTask | None = None
) -> Network:
    """A network with random weights that fits the graph; the same seed gives the same weights."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        return architecture(replace(sizes, edge_features=edge_width(graph)), task)


def new_optimizer(network: LinkNetwork, learning_rate: float, *, learn_frequencies: bool = False) -> torch.optim.Adam:
    """Adam on all weights except the frequencies of the time encoding, unless these are to be learned too.

    They span nine orders of magnitude, and a step of Adam is as large as the learning rate, whatever the gradient: one
    step wipes out all smaller frequencies, and with them every duration longer than an hour.
    """
    fixed = set() if learn_frequencies else {"encode.frequency"}
    return torch.optim.Adam(
        [weight for name, weight in network.named_parameters() if name not in fixed], lr=learning_rate
    )


def _let_learn(network: LinkNetwork, settings: TrainingSettings) -> None:
    """Set whether the memory of a network is trained."""
    if network.memory is not None:
        network.memory.requires_grad_(not settings.fixed_memory)
    elif settings.fixed_memory:
        raise CallError(f"a {network.kind.upper()} has no memory to freeze; leave out fixed_memory (--freeze-memory)")
    if settings.fixed_encoder:
        for name, weight in network.named_parameters():
            weight.requires_grad_(name.startswith("score."))


def train(
    graph: TemporalGraph, network: LinkNetwork, settings: TrainingSettings, folder: Path
) -> Iterator[TrainingProgress]:
    """Train a fresh network until validation stops improving; yield progress; save the finished model in `folder`.

    The state of training is saved after each epoch. The same call resumes an interrupted training from there, and ends
    with the same weights as one that was not interrupted. A network with a task (`new_task`) is trained on the labels.
    """
    clear_up(folder, "model")
    check_free(folder, "model", "trained model")
    _let_learn(network, settings)
    make_folder(folder)
    parts = split(graph, settings)
    return _train(graph, network, settings, parts, TrainingState(network, settings, graph.identity, folder))


def _train(
    graph: TemporalGraph, network: Any, settings: TrainingSettings, parts: Split, state: TrainingState
) -> Iterator[TrainingProgress]:
    training_graph = graph.select(parts.train)
    objective = LinkObjective(graph, settings, parts) if network.task is None else LabelObjective(graph, *parts)
    while state.epoch < settings.epochs and state.epoch - state.best_epoch <= settings.patience:
        progress = TrainingProgress(0, 0, 0, 0.0)
        loss = objective.loss(network, training_graph, state.epoch + 1)
        for progress in run_epoch(network, state.optimizer, training_graph, settings.seed, state.epoch + 1, loss):
            yield progress
        quality = objective.measure(network, parts.validation)
        better = state.finish_epoch(progress.loss, quality)
        logger.info("epoch %d: loss %.4f, validation AP %.4f", progress.epoch, progress.loss, quality.average_precision)
        yield replace(progress, validation=quality, best=better)
    network.load_state_dict(state.best)
    details = objective.finish(network)
    test = objective.measure(network, parts.test)
    origin = {
        "settings": asdict(settings),
        "events": {name: len(rows) for name, rows in parts._asdict().items() if name != "unseen"},
        "validation": state.history[state.best_epoch - 1]["validation"],
        "test": asdict(test),
        "best_epoch": state.best_epoch,
        "epochs": state.epoch,
        "threads": torch.get_num_threads(),
    } | details
    save_model(state.folder, Checkpoint(network.eval(), graph.identity, origin))
    state.resume_file.discard()


@dataclass(frozen=True, slots=True)
class LinkObjective:
    """What training on links minimizes and measures."""

    graph: TemporalGraph
    settings: TrainingSettings
    parts: Split

    def loss(self, network: LinkNetwork, graph: TemporalGraph, epoch: int) -> BatchLoss:
        return link_loss(network, graph, self.settings.seed, epoch)

    def measure(self, network: LinkNetwork, rows: IntArray) -> Quality:
        return measure(network, self.graph, rows, self.parts.unseen, self.settings.seed)

    def finish(self, network: LinkNetwork) -> dict[str, Any]:
        return {}


def link_loss(network: LinkNetwork, graph: TemporalGraph, seed: int, epoch: int) -> BatchLoss:
    """The loss of events against random destinations, which are others in each epoch."""
    draw = random_destinations(graph, seed, 3, epoch)

    def of_batch(stream: Any, rows: IntArray) -> Tensor:
        targets = np.stack([graph.dst[rows], draw(len(rows))], axis=1)
        logits = network.link_logits(stream, graph, rows, targets)  # [n, 2]
        wanted = torch.tensor([1.0, 0.0]).expand_as(logits)
        return nn.functional.binary_cross_entropy_with_logits(logits, wanted)

    return of_batch


def run_epoch(
    network: LinkNetwork,
    optimizer: torch.optim.Optimizer,
    graph: TemporalGraph,
    seed: int,
    epoch: int,
    batch_loss: BatchLoss | None = None,
    *,
    begin: int = 0,
) -> Iterator[TrainingProgress]:
    """One pass over the training events, in order, grid batch by grid batch; by default, on links.

    Nothing is learned from the batches before `begin`; their events only happen.
    """
    network.train()
    size = network.sizes.batch
    loss_of = link_loss(network, graph, seed, epoch) if batch_loss is None else batch_loss
    stream = network.stream(graph)
    batches = -(-graph.num_events // size)
    total = 0.0
    for batch in range(begin, batches):
        rows = np.arange(batch * size, min((batch + 1) * size, graph.num_events))
        stream.advance(int(rows[0]))
        with torch.random.fork_rng(devices=[]):  # dropout draws from torch's global generator, which is the user's
            torch.manual_seed(int(np.random.SeedSequence([seed, epoch, batch]).generate_state(1)[0]))
            loss = loss_of(stream, rows)
        if loss is not None:
            if not torch.isfinite(loss):
                raise ModelError(
                    f"the loss is {loss.item()} in epoch {epoch}, batch {batch + 1}: try a smaller learning rate, "
                    "or scale features and times to a sensible range"
                )
            optimizer.zero_grad()
            loss.backward()  # type: ignore[no-untyped-call]
            optimizer.step()
            total += loss.item()
        yield TrainingProgress(epoch, batch + 1, batches, total / (batch + 1 - begin))


class TrainingState:
    """The progress of training, and its best weights so far; saved after each epoch."""

    def __init__(self, network: LinkNetwork, settings: TrainingSettings, data: str, folder: Path) -> None:
        self.network, self.folder = network, folder
        self.optimizer = new_optimizer(network, settings.learning_rate, learn_frequencies=settings.learn_frequencies)
        configuration = {
            "architecture": network.kind,
            "sizes": asdict(network.sizes),
            "settings": asdict(settings),
            "data": data,
            "task": None if network.task is None else asdict(network.task),
        }
        self.history: list[dict[str, Any]] = []  # one entry for each finished epoch
        self.best_epoch = 0
        self.best = self._weights()
        self.resume_file = ResumeFile(folder, network, self.optimizer, configuration)
        before = self.resume_file.resume(may_change=LENGTH)
        if before:
            notes, self.best = before
            self.history, self.best_epoch = notes["history"], notes["best_epoch"]
            logger.info("%s: resuming after epoch %d", folder, self.epoch)

    @property
    def epoch(self) -> int:
        """The number of finished epochs."""
        return len(self.history)

    def finish_epoch(self, loss: float, quality: Quality) -> bool:
        """Record the epoch and save; True if it was the best so far."""
        reached = [entry["validation"]["average_precision"] for entry in self.history]
        better = quality.average_precision > max(reached, default=-1.0)
        self.history.append({"loss": loss, "validation": asdict(quality)})
        if better:
            self.best_epoch, self.best = self.epoch, self._weights()
        self.resume_file.save({"history": self.history, "best_epoch": self.best_epoch}, self.best)
        return better

    def _weights(self) -> dict[str, Tensor]:
        return {name: weight.detach().clone() for name, weight in self.network.state_dict().items()}
