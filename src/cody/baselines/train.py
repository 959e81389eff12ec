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
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor, nn

from cody.baselines.checkpoint import save_scorer
from cody.baselines.differentiable import SoftLinks, SoftModel
from cody.baselines.pgexplainer import Scorer, describe, new_scorer
from cody.candidates import candidates
from cody.errors import CallError, DataError, ModelError
from cody.graph import IntArray, Query
from cody.models.folder import check_free, make_folder
from cody.models.resume import ResumeFile, clear_up


@dataclass(frozen=True, slots=True)
class Settings:
    """How to train a scorer. The same settings, model and number of threads give the same weights."""

    links: int = 1000  # explained links to learn from, drawn from the events between `first` and `last`
    first: float = 0.2  # share of all events
    last: float = 0.6
    candidates: int = 64
    epochs: int = 30
    batch: int = 16  # links
    learning_rate: float = 1e-3
    hidden: int = 128
    size: float = 2.0  # weight of the mean gate in the loss
    entropy: float = 0.1  # weight of the gates' entropy in the loss: they should be open or closed
    temperature: tuple[float, float] = (5.0, 1.0)  # of the gates, in the first and in the last epoch
    seed: int = 0

    def __post_init__(self) -> None:
        for name in ("links", "candidates", "epochs", "batch", "hidden"):
            if getattr(self, name) < 1:
                raise CallError(f"{name} must be at least 1, not {getattr(self, name)}")
        if not 0 <= self.first < self.last <= 1:
            raise CallError(f"the period must be shares 0 ≤ first < last ≤ 1, not {self.first} and {self.last}")
        for name in ("learning_rate", "size", "entropy"):
            if not 0 <= getattr(self, name) < math.inf:
                raise CallError(f"{name} must be a finite number, at least 0, not {getattr(self, name)}")
        if not min(self.temperature) > 0:
            raise CallError(f"temperature must be above 0 from first to last, not {self.temperature}")


class Progress(NamedTuple):
    """How far training has come after an epoch; means over its links."""

    epoch: int
    loss: float
    agreement: float  # share of the links whose decision stays when the candidates are weighted by their gates
    weight: float  # mean probability that a gate is open


class Lesson(NamedTuple):
    """Some links, with everything about them that does not depend on the scorer."""

    links: SoftLinks
    described: Tensor  # [m, 5d + F]
    decided: Tensor  # [Q] 1 where the model predicts the link, else 0
    share: Tensor  # [m] 1 / candidates of the same link, so that each link counts the same


def train_explainer(model: SoftModel, settings: Settings, folder: Path) -> Iterator[Progress]:
    """Train a scorer for a model and save it to `folder`; yields after each epoch.

    The same call resumes an interrupted training after its last epoch, and ends with the same weights as one that was
    not interrupted.
    """
    clear_up(folder, "explainer")
    check_free(folder, "explainer", "trained explainer")
    is_new = not folder.exists()
    make_folder(folder)
    scorer = new_scorer(model.network.sizes, settings.hidden, settings.seed)
    configuration = {"settings": asdict(settings), "model": model.fast.identity, "data": model.graph.identity}
    resume_file = ResumeFile(folder, scorer, new_optimizer(scorer, settings), configuration)
    before = resume_file.resume()
    reached = Progress(**before[0]["reached"]) if before else Progress(0, math.nan, 0.0, 0.0)
    return _removing_empty(folder, is_new, _train_and_save(model, settings, scorer, resume_file, reached))


def _removing_empty(folder: Path, is_new: bool, steps: Iterator[Progress]) -> Iterator[Progress]:
    """The same steps; a folder made for them is removed if it is still empty at the end."""
    try:
        yield from steps
    finally:
        if is_new:
            with suppress(OSError):  # it is not empty
                folder.rmdir()


def _train_and_save(
    model: SoftModel, settings: Settings, scorer: Scorer, resume_file: ResumeFile, reached: Progress
) -> Iterator[Progress]:
    if reached.epoch < settings.epochs:
        for progress in train_scorer(model, settings, scorer, resume_file.optimizer, reached.epoch):
            resume_file.save({"reached": progress._asdict()})
            yield progress
        reached = progress
    origin = {"settings": asdict(settings), "reached": reached._asdict(), "threads": torch.get_num_threads()}
    save_scorer(resume_file.file.parent, scorer, model, origin)
    resume_file.discard()


def new_optimizer(scorer: Scorer, settings: Settings) -> torch.optim.Adam:
    return torch.optim.Adam(scorer.parameters(), lr=settings.learning_rate)


def train_scorer(
    model: SoftModel,
    settings: Settings,
    scorer: Scorer,
    optimizer: torch.optim.Optimizer | None = None,
    finished: int = 0,
) -> Iterator[Progress]:
    """Train `scorer` in place, after the epochs that are finished already; yields after each epoch."""
    optimizer = optimizer or new_optimizer(scorer, settings)
    lessons = list(_lessons(model, settings))
    if not finished:
        scorer.fit_scale(torch.cat([lesson.described for lesson in lessons]))
    for epoch in range(finished, settings.epochs):
        generator = torch.Generator().manual_seed(_seed(settings.seed, 2, epoch))
        order = torch.randperm(len(lessons), generator=generator).tolist()
        sums = np.zeros(4)
        for number in order:
            sums += _learn(scorer, optimizer, lessons[number], settings, epoch, generator)
        yield Progress(epoch + 1, *(sums[:3] / sums[3]).tolist())


def _lessons(model: SoftModel, settings: Settings) -> Iterator[Lesson]:
    graph = model.graph
    rng = np.random.default_rng([settings.seed, 1])
    period = np.arange(int(settings.first * graph.num_events), int(settings.last * graph.num_events))
    rows = rng.permutation(period)[: settings.links]
    queries = [graph.query(int(row)) for row in rows]
    near = [candidates(graph, query, model.network.sizes.layers, settings.candidates) for query in queries]
    known = [number for number, events in enumerate(near) if len(events)]
    if not known:
        raise DataError("none of the links to learn from has a past event that could explain it")
    for start in range(0, len(known), settings.batch):
        part = known[start : start + settings.batch]
        yield _lesson(model, [queries[number] for number in part], [near[number] for number in part])


def _lesson(model: SoftModel, queries: list[Query], events: list[IntArray]) -> Lesson:
    links = model.links(queries, events)
    sizes = torch.tensor(links.sizes)
    with torch.no_grad():
        logits = links.logits(torch.ones(int(sizes.sum())))
    share = torch.repeat_interleave(1 / sizes, sizes)
    return Lesson(links, describe(model, queries, events), (logits > 0).float(), share)


def _learn(
    scorer: Scorer,
    optimizer: torch.optim.Optimizer,
    lesson: Lesson,
    settings: Settings,
    epoch: int,
    generator: torch.Generator,
) -> tuple[float, float, float, int]:
    """One step. Returns sums over the links (loss, unchanged decisions, mean weight) and the number of links."""
    scores = scorer(lesson.described)  # [m]
    gates = _gates(scores, _temperature(settings, epoch), generator)  # [m]
    logits = lesson.links.logits(gates)  # [Q]
    links = len(lesson.decided)
    wrong = nn.functional.binary_cross_entropy_with_logits(logits, lesson.decided)
    size = (gates * lesson.share).sum() / links
    undecided = (_entropy(gates) * lesson.share).sum() / links
    loss = wrong + settings.size * size + settings.entropy * undecided
    if not torch.isfinite(loss):
        raise ModelError(f"the loss is {loss.item()} in epoch {epoch + 1}: try a lower learning rate, size or entropy")
    optimizer.zero_grad()
    loss.backward()  # type: ignore[no-untyped-call]
    optimizer.step()
    unchanged = int(((logits > 0) == (lesson.decided > 0)).sum())
    kept = (torch.sigmoid(scores.detach()) * lesson.share).sum()
    return loss.item() * links, unchanged, kept.item(), links


def _gates(scores: Tensor, temperature: float, generator: torch.Generator) -> Tensor:
    """Random weights between 0 and 1, close to 0 or 1 at low temperatures; open with probability sigmoid(score)."""
    uniform = torch.rand(scores.shape, generator=generator).clamp(1e-6, 1 - 1e-6)
    return torch.sigmoid((torch.logit(uniform) + scores) / temperature)


def _temperature(settings: Settings, epoch: int) -> float:
    """The temperature, which falls geometrically from the first epoch to the last."""
    start, end = settings.temperature
    return start * math.pow(end / start, epoch / max(1, settings.epochs - 1))


def _entropy(gates: Tensor) -> Tensor:
    """The entropy of an event that happens with the gate's value as its probability, in nats."""
    gates = gates.clamp(1e-6, 1 - 1e-6)
    return -(gates * gates.log() + (1 - gates) * (1 - gates).log())


def _seed(*parts: int) -> int:
    return int(np.random.SeedSequence(parts).generate_state(1)[0])
