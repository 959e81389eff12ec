"""What the trainings of all learned explainers share: settings, links, epochs."""

from __future__ import annotations

import logging
import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import numpy as np
import torch
from torch import Tensor, nn

from cody.baselines.differentiable import SoftLinks, SoftModel
from cody.errors import CallError, DataError, ModelError
from cody.graph import IntArray, Query
from cody.graph.neighbourhood import candidates, events_on_paths
from cody.models.sizes import Sizes

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class Training:
    """How to train a scorer. The same settings, model and number of threads give the same weights."""

    links: int = 1000  # explained links to learn from, drawn from the events between `first` and `last`
    first: float = 0.2  # share of all events
    last: float = 0.6
    candidates: int = 64
    epochs: int = 30
    batch: int = 16  # links
    learning_rate: float = 1e-3
    hidden: int = 128
    temperature: tuple[float, float] = (5.0, 1.0)  # of the gates, in the first and in the last epoch
    seed: int = 0

    scorer: ClassVar[Any]  # the class of network that is trained
    smaller: ClassVar[str]  # what to lower if the loss is not finite

    def __post_init__(self) -> None:
        for name in ("links", "candidates", "epochs", "batch", "hidden"):
            if getattr(self, name) < 1:
                raise CallError(f"{name} must be at least 1, not {getattr(self, name)}")
        if not 0 <= self.first < self.last <= 1:
            raise CallError(f"the period must be shares 0 ≤ first < last ≤ 1, not {self.first} and {self.last}")
        check_costs(self, "learning_rate")
        if not min(self.temperature) > 0:
            raise CallError(f"temperature must be above 0 from first to last, not {self.temperature}")

    def new_scorer(self, sizes: Sizes) -> Any:
        """A scorer with random weights; the same seed gives the same ones."""
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(self.seed)
            return self.scorer(sizes, self.hidden)

    def new_optimizer(self, scorer: nn.Module) -> torch.optim.Adam:
        return torch.optim.Adam(scorer.parameters(), lr=self.learning_rate)

    def train(
        self, model: SoftModel, scorer: Any, optimizer: torch.optim.Optimizer | None = None, finished: int = 0
    ) -> Iterator[EpochProgress]:
        """Train a scorer in place, on all lessons in each epoch, in a new order; yields after each.

        Args:
            model: The model that is explained.
            scorer: The scorer to train.
            optimizer: Its optimiser; by default, a new one.
            finished: Number of epochs that are already done.
        """
        optimizer = optimizer or self.new_optimizer(scorer)
        lessons = self.lessons(model)
        if not finished:
            scorer.fit_scale([lesson.described for lesson in lessons])
        for epoch in range(finished, self.epochs):
            seed = int(np.random.SeedSequence([self.seed, 2, epoch]).generate_state(1)[0])
            generator = torch.Generator().manual_seed(seed)
            order = torch.randperm(len(lessons), generator=generator).tolist()
            sums = np.zeros(4)
            for number in order:
                sums += self._learn(scorer, optimizer, lessons[number], epoch, generator)
            progress = EpochProgress(epoch + 1, *(sums[:3] / sums[3]).tolist())
            logger.info("epoch %d: loss %.4f", progress.epoch, progress.loss)
            yield progress

    def lessons(self, model: SoftModel) -> list[Lesson]:
        """The links to learn from, with everything about them that does not depend on the scorer."""
        raise NotImplementedError

    def _event_weights(self, gates: Tensor, lesson: Lesson) -> Tensor:
        """The weights of the candidates, from the gates of what the scorer scores. [m]"""
        raise NotImplementedError

    def _penalty(self, scores: Tensor, gates: Tensor, lesson: Lesson) -> Tensor:
        """What open gates cost. []"""
        raise NotImplementedError

    def _learn(
        self, scorer: Any, optimizer: torch.optim.Optimizer, lesson: Lesson, epoch: int, generator: torch.Generator
    ) -> tuple[float, ...]:
        """One step: with the candidates weighted, the model should decide as before, at a small penalty.

        Returns what the step adds to the sums over links: loss, unchanged decisions, open gates, links.
        """
        scores = scorer(lesson.described)
        gates = relaxed_gates(scores, temperature_in(self.temperature, epoch, self.epochs), generator)
        logits = lesson.links.logits(self._event_weights(gates, lesson))  # [Q]
        wrong = nn.functional.binary_cross_entropy_with_logits(logits, lesson.decided)
        loss = wrong + self._penalty(scores, gates, lesson)
        if not torch.isfinite(loss):
            raise ModelError(f"the loss is {loss.item()} in epoch {epoch + 1}: try a lower {self.smaller}")
        optimizer.zero_grad()
        loss.backward()  # type: ignore[no-untyped-call]
        optimizer.step()
        links, kept = len(lesson.decided), (torch.sigmoid(scores.detach()) * lesson.share).sum()
        same = int(((logits > 0) == (lesson.decided > 0)).sum())
        return loss.item() * links, same, kept.item() * links, links


class Lesson(NamedTuple):
    """Some links, with everything about them that does not depend on the scorer."""

    links: SoftLinks
    described: Any  # what the scorer reads
    decided: Tensor  # [Q] 1 where the model predicts the link, else 0
    share: Tensor  # of each scored event or motif; every link that has any counts the same, and they sum to 1
    frequencies: Tensor = torch.ones(0)  # of the kinds of motifs by chance; empty where there are no motifs [KINDS]


class EpochProgress(NamedTuple):
    """The progress of training after an epoch; means over its links."""

    epoch: int
    loss: float
    agreement: float  # share of the links whose decision stays when the candidates are weighted by their gates
    weight: float  # mean probability that a gate is open


def check_costs(settings: Training, *names: str) -> None:
    """Reject invalid costs."""
    for name in names:
        if not 0 <= getattr(settings, name) < math.inf:
            raise CallError(f"{name} must be a finite number, at least 0, not {getattr(settings, name)}")


def draw_links(
    model: SoftModel, settings: Training, *, strangers: bool = False
) -> Iterator[tuple[list[Query], list[IntArray]]]:
    """Links of the period that have candidates, and these, a batch at a time.

    With `strangers`, every other link has a destination drawn from all nodes, in place of its own.
    """
    graph = model.graph
    rng = np.random.default_rng([settings.seed, 1])
    period = np.arange(int(settings.first * graph.num_events), int(settings.last * graph.num_events))
    rows = rng.permutation(period)[: settings.links]
    queries = [graph.query(int(row)) for row in rows]
    if strangers:
        drawn = rng.integers(graph.num_nodes, size=len(queries)).tolist()
        queries[1::2] = [query._replace(dst=dst) for query, dst in zip(queries[1::2], drawn[1::2], strict=True)]
    hops, size = model.network.sizes.layers, settings.candidates
    near = [candidates(graph, query, hops, size, near=events_on_paths) for query in queries]  # as in the paper
    known = [number for number, events in enumerate(near) if len(events)]
    if not known:
        raise DataError("none of the links to learn from has any candidate events")
    if len(known) < settings.links:
        logger.warning("learning from %d of %d links: the others have no candidate events", len(known), settings.links)
    for start in range(0, len(known), settings.batch):
        part = known[start : start + settings.batch]
        yield [queries[number] for number in part], [near[number] for number in part]


def relaxed_gates(scores: Tensor, temperature: float, generator: torch.Generator) -> Tensor:
    """Random weights between 0 and 1, close to 0 or 1 at low temperatures; open with probability sigmoid(score)."""
    uniform = torch.rand(scores.shape, generator=generator).clamp(1e-6, 1 - 1e-6)
    return torch.sigmoid((torch.logit(uniform) + scores) / temperature)


def temperature_in(temperature: tuple[float, float], epoch: int, epochs: int) -> float:
    """The temperature, which falls geometrically from the first epoch to the last."""
    start, end = temperature
    return start * math.pow(end / start, epoch / max(1, epochs - 1))


def decisions(links: SoftLinks) -> Tensor:
    """1 where the model predicts a link, else 0. [Q]"""
    with torch.no_grad():
        return (links.logits(torch.ones(sum(links.sizes))) > 0).float()
