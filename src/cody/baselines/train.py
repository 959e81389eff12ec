"""Training PGExplainer's scorer, on links of the training period and the model's own decisions.

Each candidate of a link gets a random gate: the higher its score, the more often it is open. With the candidates
weighted by their gates, the model should decide as it does with all of them, with as few open gates as possible, and
gates that are clearly open or closed. The gates are relaxed (concrete distribution), less and less from epoch to epoch.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from cody.baselines.checkpoint import save_scorer
from cody.baselines.differentiable import SoftLinks, SoftModel
from cody.baselines.lessons import (
    EpochProgress,
    Sums,
    Training,
    check_costs,
    decisions,
    draw_links,
    new_optimizer,
    relaxed_gates,
    run_epochs,
    take_step,
    temperature_in,
    unchanged,
)
from cody.baselines.pgexplainer import Scorer, describe, new_scorer
from cody.graph import IntArray, Query
from cody.models.folder import check_free, make_folder
from cody.models.sizes import Sizes
from cody.train.resume import ResumeFile, clear_up


@dataclass(frozen=True, slots=True, kw_only=True)
class ScorerSettings(Training):
    """How to train PGExplainer's scorer."""

    size: float = 2.0  # weight of the mean gate in the loss
    entropy: float = 0.1  # weight of the gates' entropy in the loss: they should be open or closed

    def __post_init__(self) -> None:
        Training.__post_init__(self)
        check_costs(self, "size", "entropy")

    def new_scorer(self, sizes: Sizes) -> Scorer:
        return new_scorer(sizes, self.hidden, self.seed)

    def train(
        self, model: SoftModel, scorer: Scorer, optimizer: torch.optim.Optimizer, finished: int
    ) -> Iterator[EpochProgress]:
        """Train the scorer in place; yields after each epoch.

        Args:
            model: The model that is explained.
            scorer: The scorer to train.
            optimizer: Its optimiser.
            finished: Number of epochs that are already done.
        """
        return train_scorer(model, self, scorer, optimizer, finished)


class Lesson(NamedTuple):
    """Some links, with everything about them that does not depend on the scorer."""

    links: SoftLinks
    described: Tensor  # [m, 5d + F]
    decided: Tensor  # [Q] 1 where the model predicts the link, else 0
    share: Tensor  # [m] 1 / candidates of the same link, so that each link counts the same


def train_explainer(model: SoftModel, settings: Training, folder: Path) -> Iterator[EpochProgress]:
    """Train a scorer for a model and save it; yields after each epoch.

    The same call resumes an interrupted training after its last epoch, and gives the same weights as an uninterrupted
    one.

    Args:
        model: The model that is explained.
        settings: Which explainer to train, and how.
        folder: Where to save it.
    """
    scorer = settings.new_scorer(model.network.sizes)
    clear_up(folder, scorer.FILES)
    check_free(folder, scorer.FILES, "trained explainer")
    is_new = not folder.exists()
    make_folder(folder)
    configuration = {"settings": asdict(settings), "model": model.fast.identity, "data": model.graph.identity}
    resume_file = ResumeFile(folder, scorer, new_optimizer(scorer, settings), configuration)
    before = resume_file.resume()
    reached = EpochProgress(**before[0]["reached"]) if before else EpochProgress(0, math.nan, 0.0, 0.0)
    return _removing_empty(folder, is_new, _train_and_save(model, settings, scorer, resume_file, reached))


def _removing_empty(folder: Path, is_new: bool, steps: Iterator[EpochProgress]) -> Iterator[EpochProgress]:
    """The same steps; a folder made for them is removed if it is still empty at the end."""
    try:
        yield from steps
    finally:
        if is_new:
            with suppress(OSError):  # it is not empty
                folder.rmdir()


def _train_and_save(
    model: SoftModel, settings: Training, scorer: Any, resume_file: ResumeFile, reached: EpochProgress
) -> Iterator[EpochProgress]:
    if reached.epoch < settings.epochs:
        for progress in settings.train(model, scorer, resume_file.optimizer, reached.epoch):
            resume_file.save({"reached": progress._asdict()})
            yield progress
        reached = progress
    origin = {"settings": asdict(settings), "reached": reached._asdict(), "threads": torch.get_num_threads()}
    save_scorer(resume_file.file.parent, scorer, model, origin)
    resume_file.discard()


def train_scorer(
    model: SoftModel,
    settings: ScorerSettings,
    scorer: Scorer,
    optimizer: torch.optim.Optimizer | None = None,
    finished: int = 0,
) -> Iterator[EpochProgress]:
    """Train a PGExplainer scorer in place; yields after each epoch.

    Args:
        model: The model that is explained.
        settings: Training settings.
        scorer: The scorer to train.
        optimizer: Its optimiser; by default, a new one.
        finished: Number of epochs that are already done.
    """
    optimizer = optimizer or new_optimizer(scorer, settings)
    lessons = list(_lessons(model, settings))
    if not finished:
        scorer.fit_scale(torch.cat([lesson.described for lesson in lessons]))

    def learn(lesson: Lesson, epoch: int, generator: torch.Generator) -> Sums:
        return _learn(scorer, optimizer, lesson, settings, epoch, generator)

    yield from run_epochs(settings, lessons, learn, finished)


def _lessons(model: SoftModel, settings: ScorerSettings) -> Iterator[Lesson]:
    return (_lesson(model, queries, events) for queries, events in draw_links(model, settings))


def _lesson(model: SoftModel, queries: list[Query], events: list[IntArray]) -> Lesson:
    links = model.links(queries, events)
    sizes = torch.tensor(links.sizes)
    share = torch.repeat_interleave(1 / sizes, sizes)
    return Lesson(links, describe(model, queries, events), decisions(links), share)


def _learn(
    scorer: Scorer,
    optimizer: torch.optim.Optimizer,
    lesson: Lesson,
    settings: ScorerSettings,
    epoch: int,
    generator: torch.Generator,
) -> Sums:
    """One step."""
    scores = scorer(lesson.described)  # [m]
    gates = relaxed_gates(scores, temperature_in(settings.temperature, epoch, settings.epochs), generator)  # [m]
    logits = lesson.links.logits(gates)  # [Q]
    links = len(lesson.decided)
    wrong = nn.functional.binary_cross_entropy_with_logits(logits, lesson.decided)
    size = (gates * lesson.share).sum() / links
    undecided = (_entropy(gates) * lesson.share).sum() / links
    loss = wrong + settings.size * size + settings.entropy * undecided
    take_step(optimizer, loss, epoch, "a lower learning rate, size or entropy")
    kept = (torch.sigmoid(scores.detach()) * lesson.share).sum()
    return Sums(loss.item() * links, unchanged(logits, lesson.decided), kept.item(), links)


def _entropy(gates: Tensor) -> Tensor:
    """The entropy of an event that happens with the gate's value as its probability, in nats."""
    gates = gates.clamp(1e-6, 1 - 1e-6)
    return -(gates * gates.log() + (1 - gates) * (1 - gates).log())
