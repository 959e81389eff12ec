"""Training TempME's network, on links of the training period and the model's own decisions.

Each motif of a link gets a random gate: the higher its score, the more often it is open. An event has the weight of the
widest gate among its motifs, and those in no motif have none. With the candidates weighted so, the model should decide
as it does with all of them. What keeps the gates from all being open is a null model:

    loss = cross-entropy(logit with these weights, decision) + cost · KL
    KL   = (1 - s) · log((1 - s) / (1 - prior)) + Σ_c q_c · log(q_c / (prior · f_c))

p is the probability that a motif's gate is open; s = mean p; q_c = the sum of p over the motifs of kind c, divided by
the number of motifs, so that s = Σ q_c; f_c = the frequency of kind c by chance (`null_frequencies`). In all means,
every link of a batch counts the same. The divergence is 0 if a share `prior` of the gates is open, of each kind as many
as expected by chance.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor, nn

from cody.baselines.checkpoint import PGEXPLAINER, TEMPME
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
from cody.baselines.motifs import KINDS, null_frequencies, sample_motifs
from cody.baselines.tempme import Described, MotifScorer, describe_motifs, importance, new_motif_scorer
from cody.baselines.train import ScorerSettings
from cody.errors import CallError
from cody.graph import IntArray, Query
from cody.models.sizes import Sizes


@dataclass(frozen=True, slots=True, kw_only=True)
class MotifSettings(Training):
    """How to train TempME's network. Every other link has a destination that was drawn at random."""

    hidden: int = 32
    prior: float = 0.05  # share of open gates that costs nothing
    divergence: float = 0.5  # weight of the divergence from the null model in the loss
    temperature: tuple[float, float] = (1.0, 0.3)

    def __post_init__(self) -> None:
        Training.__post_init__(self)
        check_costs(self, "divergence")
        if not 0 < self.prior < 1:
            raise CallError(f"prior is a share, above 0 and below 1, not {self.prior}")

    def new_scorer(self, sizes: Sizes) -> MotifScorer:
        return new_motif_scorer(sizes, self.hidden, self.seed)

    def train(
        self, model: SoftModel, scorer: MotifScorer, optimizer: torch.optim.Optimizer, finished: int
    ) -> Iterator[EpochProgress]:
        return train_motif_scorer(model, self, scorer, optimizer, finished)


SETTINGS: dict[str, type[Training]] = {
    PGEXPLAINER.policy.__name__: ScorerSettings,
    TEMPME.policy.__name__: MotifSettings,
}


def settings_of(policy: str) -> type[Training]:
    """The settings of the training that a policy of that name needs."""
    return SETTINGS[policy]


class MotifLesson(NamedTuple):
    """Some links, with everything about them that does not depend on the network."""

    links: SoftLinks
    described: Described
    decided: Tensor  # [Q] 1 where the model predicts the link, else 0
    share: Tensor  # [M] 1 / (links that have motifs · motifs of the same link): they sum to 1


def train_motif_scorer(
    model: SoftModel,
    settings: MotifSettings,
    scorer: MotifScorer,
    optimizer: torch.optim.Optimizer | None = None,
    finished: int = 0,
) -> Iterator[EpochProgress]:
    """Train `scorer` in place, after the finished epochs; yields after each epoch."""
    optimizer = optimizer or new_optimizer(scorer, settings)
    lessons, frequencies = motif_lessons(model, settings)
    if not finished:
        described = [lesson.described for lesson in lessons]
        scorer.fit_scale(torch.cat([one.event for one in described]), torch.cat([one.ends for one in described]))

    def learn(lesson: MotifLesson, epoch: int, generator: torch.Generator) -> Sums:
        return _learn(scorer, optimizer, lesson, frequencies, settings, epoch, generator)

    yield from run_epochs(settings, lessons, learn, finished)


def motif_lessons(model: SoftModel, settings: MotifSettings) -> tuple[list[MotifLesson], Tensor]:
    """The links to learn from, and how frequent the kinds of motifs would be by chance. [KINDS]"""
    batches = list(draw_links(model, settings, strangers=True))
    rng = np.random.default_rng([settings.seed, 3])
    lessons = [_lesson(model, queries, events, rng) for queries, events in batches]
    queries = [query for some, _ in batches for query in some]
    events = [rows for _, some in batches for rows in some]
    by_chance = null_frequencies(model.graph, queries, events, rng)
    return lessons, torch.from_numpy(by_chance.astype(np.float32))


def _lesson(model: SoftModel, queries: list[Query], events: list[IntArray], rng: np.random.Generator) -> MotifLesson:
    motifs = [sample_motifs(model.graph, query, rows, rng) for query, rows in zip(queries, events, strict=True)]
    links, described = model.links(queries, events), describe_motifs(model, queries, events, motifs)
    counts = torch.bincount(described.link, minlength=len(queries))  # [Q]
    share = 1 / (counts[described.link] * max(1, int((counts > 0).sum())))
    return MotifLesson(links, described, decisions(links), share)


def _learn(
    scorer: MotifScorer,
    optimizer: torch.optim.Optimizer,
    lesson: MotifLesson,
    frequencies: Tensor,
    settings: MotifSettings,
    epoch: int,
    generator: torch.Generator,
) -> Sums:
    """One step."""
    scores = scorer(lesson.described)  # [M]
    gates = relaxed_gates(scores, temperature_in(settings.temperature, epoch, settings.epochs), generator)  # [M]
    logits = lesson.links.logits(importance(gates, lesson.described))  # [Q]
    wrong = nn.functional.binary_cross_entropy_with_logits(logits, lesson.decided)
    opened = divergence(scores, lesson, frequencies, settings.prior)
    loss = wrong + settings.divergence * opened
    take_step(optimizer, loss, epoch, "a lower learning rate or divergence")
    links, kept = len(lesson.decided), (torch.sigmoid(scores.detach()) * lesson.share).sum()
    return Sums(loss.item() * links, unchanged(logits, lesson.decided), kept.item() * links, links)


def divergence(scores: Tensor, lesson: MotifLesson, frequencies: Tensor, prior: float) -> Tensor:
    """The divergence of the open gates from the null model, in nats. [M], [KINDS] → []"""
    if not len(scores):
        return scores.sum()  # 0, and its gradient too
    probability = torch.sigmoid(scores).clamp(1e-6, 1 - 1e-6) * lesson.share  # [M]
    of_kind = probability.new_zeros(KINDS).index_add(0, lesson.described.kind, probability)  # [KINDS]
    closed = 1 - of_kind.sum()
    expected = prior * frequencies
    present = of_kind > 0  # a kind that does not occur adds nothing
    opened = of_kind[present] * torch.log(of_kind[present] / expected[present])
    return closed * torch.log(closed / (1 - prior)) + opened.sum()
