"""What the trainings of all learned explainers share: settings, links, epochs."""

from __future__ import annotations

import logging
import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, TypeVar

import numpy as np
import torch
from torch import Tensor, nn

from cody.baselines.differentiable import SoftLinks, SoftModel
from cody.errors import CallError, DataError, ModelError
from cody.graph import IntArray, Query
from cody.graph.neighbourhood import candidates, events_on_paths
from cody.models.sizes import Sizes

Lesson = TypeVar("Lesson")


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
        """A scorer that is not trained yet."""
        raise NotImplementedError

    def train(
        self, model: SoftModel, scorer: Any, optimizer: torch.optim.Optimizer, finished: int
    ) -> Iterator[EpochProgress]:
        """Train it in place, after the finished epochs; yields after each epoch."""
        raise NotImplementedError


class EpochProgress(NamedTuple):
    """The progress of training after an epoch; means over its links."""

    epoch: int
    loss: float
    agreement: float  # share of the links whose decision stays when the candidates are weighted by their gates
    weight: float  # mean probability that a gate is open


class Sums(NamedTuple):
    """What one step adds up over its links."""

    loss: float
    unchanged: float  # decisions
    weight: float
    links: int


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
        raise DataError("none of the links to learn from has a past event that could explain it")
    if len(known) < settings.links:
        logger.warning("learning from %d of %d links: there are no more with a past event", len(known), settings.links)
    for start in range(0, len(known), settings.batch):
        part = known[start : start + settings.batch]
        yield [queries[number] for number in part], [near[number] for number in part]


def run_epochs(
    settings: Training,
    lessons: Sequence[Lesson],
    learn: Callable[[Lesson, int, torch.Generator], Sums],
    finished: int,
) -> Iterator[EpochProgress]:
    """Learn from all lessons in each epoch, in a new order; yields after each."""
    for epoch in range(finished, settings.epochs):
        generator = torch.Generator().manual_seed(seed_of(settings.seed, 2, epoch))
        order = torch.randperm(len(lessons), generator=generator).tolist()
        sums = np.zeros(4)
        for number in order:
            sums += learn(lessons[number], epoch, generator)
        progress = EpochProgress(epoch + 1, *(sums[:3] / sums[3]).tolist())
        logger.info("epoch %d: loss %.4f", progress.epoch, progress.loss)
        yield progress


def take_step(optimizer: torch.optim.Optimizer, loss: Tensor, epoch: int, advice: str) -> None:
    """One step down the gradient of the loss."""
    if not torch.isfinite(loss):
        raise ModelError(f"the loss is {loss.item()} in epoch {epoch + 1}: try {advice}")
    optimizer.zero_grad()
    loss.backward()  # type: ignore[no-untyped-call]
    optimizer.step()


def new_optimizer(scorer: nn.Module, settings: Training) -> torch.optim.Adam:
    return torch.optim.Adam(scorer.parameters(), lr=settings.learning_rate)


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


def unchanged(logits: Tensor, decided: Tensor) -> int:
    """The number of unchanged decisions."""
    return int(((logits > 0) == (decided > 0)).sum())


def seed_of(*parts: int) -> int:
    return int(np.random.SeedSequence(parts).generate_state(1)[0])
