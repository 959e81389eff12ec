"""Where an engine approximates, it compares some of its answers with exact ones, and decides no sign by an estimate.

About long histories the TGN is approximate (`tgn.SMALL_CHANGE`). How far that moves a logit is up to the weights, and a
memory that amplifies small changes can make it large. So a session computes exactly, besides the estimate:

- its 1st, 4th, 16th, 64th, … answer, and that with the oldest changed event, which has the longest history to go wrong
  in: once one of these estimates is off by more than `PROMISE`, finer ones take the place of all of them, and where
  these are off as well, the session does not approximate any more;
- every answer that lies within `NEAR` of the decision line, where an error could change the decision.

About many links, an estimate is right if the margin of the decision is: the score of a rival that decides nothing may
be off by more.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Mapping, Sequence
from itertools import takewhile
from typing import Protocol, Self, TypeVar

import numpy as np

from cody.graph import BoolArray, FloatArray, Query, is_in
from cody.models.contract import Change, Margin, first_score

PROMISE = 1e-4  # of a logit: docs/engine.md has what was measured
NEAR = 100 * PROMISE  # of the decision line: no estimate decides there, even if it is off by far more than promised
POWERS = 4 ** np.arange(31)

Scores = dict[Change, FloatArray]  # of everything that a session scores, [m]


class ApproximateWorkspace(Protocol):
    """What a session knows about its query, perhaps with estimates among it."""

    refined: int  # how often estimates were made less rough

    @property
    def exact(self) -> bool:
        """Whether its answers are exact, not estimates."""

    @property
    def exactly(self) -> Self:
        """The same without approximation."""

    @property
    def finer(self) -> Self:
        """The same with estimates that are less rough; those of the finest are exact."""

    def answer(self, changes: Sequence[Change]) -> list[FloatArray]:
        """The scores of the first of these changes, [m] each: of as many as are computed at once."""


AnyWorkspace = TypeVar("AnyWorkspace", bound=ApproximateWorkspace)


class SelfCheck:
    """Which answers of a session are computed exactly, and how rough the others may be."""

    def __init__(self, margin: Margin | None = None) -> None:
        self.margin = margin or first_score  # of the decision that the scores lead to
        self.promised = margin or (lambda scores: scores)  # what must be right of scores: by default, all of them
        self.answers: Scores = {}  # of a session that approximates, so that none changes but for a reason
        self.corrections: Scores = {}  # what was answered before an estimate was found to be wrong
        self.oldest = sys.maxsize  # row of the events whose change was computed exactly
        self.exact: Scores = {}  # answers that were computed exactly
        self.refined = 0  # how often estimates were found to be too rough

    def trusted(self, workspace: AnyWorkspace) -> AnyWorkspace:
        """The workspace to answer from: a finer one where estimates were wrong, in the end the exact one."""
        while workspace.refined < self.refined and not workspace.exact:
            workspace = workspace.finer
        return workspace

    def answer(self, workspace: ApproximateWorkspace, changes: Sequence[Change]) -> list[FloatArray]:
        """The scores of the first of these changes, [m] each: of as many as are computed at once."""
        if workspace.exact:
            return workspace.answer(changes)
        new = [change for change in dict.fromkeys(changes) if change not in self.answers]
        if new:
            self._add(workspace, new)
        return [self.answers[change] for change in takewhile(self.answers.__contains__, changes)]

    def _add(self, workspace: ApproximateWorkspace, changes: Sequence[Change]) -> None:
        """Answer the first of these changes, and compare. If an estimate is wrong, finer ones replace all of them."""
        estimates = dict(zip(changes, workspace.answer(changes), strict=False))
        new = list(estimates)
        sample = {new[place] for place in np.flatnonzero(self._sample(new)).tolist()}
        while not self._are_right(workspace, estimates, sample):
            self.refined, workspace = workspace.refined + 1, workspace.finer
            every = [*self.answers, *new]
            estimates = dict(zip(every, answer_all(workspace, every), strict=True))
        known = {} if workspace.exact else self.exact
        answers = {change: known.get(change, estimate) for change, estimate in estimates.items()}
        self.corrections |= {change: answers[change] for change in self.answers if change in answers}
        self.answers |= answers
        self.oldest = min(self.oldest, *(min(change, default=sys.maxsize) for change in new))

    def _are_right(self, workspace: ApproximateWorkspace, estimates: Scores, sample: set[Change]) -> bool:
        """Compare estimates that are in the sample or near the line, or were compared before, with exact answers."""
        if workspace.exact:
            return True
        margins = np.abs(self.margin(np.array(list(estimates.values())).reshape(len(estimates), -1)))
        near = {change for change, margin in zip(estimates, margins.tolist(), strict=True) if margin <= NEAR}
        unknown = [change for change in estimates if change in near | sample and change not in self.exact]
        self.exact |= dict(zip(unknown, answer_all(workspace.exactly, unknown), strict=True))
        compared = [change for change in estimates if change in self.exact]
        answers = ([known[change] for change in compared] for known in (estimates, self.exact))
        estimated, exact = (self.promised(np.array(some)) if some else np.zeros(0) for some in answers)
        return bool((np.abs(estimated - exact) <= PROMISE).all())

    def _sample(self, changes: Sequence[Change]) -> BoolArray:
        """Which estimates are the 1st, 4th, 16th, 64th, … of the session, or that with the oldest event so far. [n]"""
        sample: BoolArray = is_in(len(self.answers) + np.arange(1, len(changes) + 1), POWERS)
        oldest = np.array([min(change, default=self.oldest) for change in changes])
        sample[oldest.argmin()] |= oldest.min() < self.oldest
        return sample


class CheckedSession:
    """A model that scores one link, or several of the same moment, and compares its estimates with exact scores.

    What it knows is taken out while it changes: if a call fails or is interrupted, that is gone, and the next call
    starts afresh. `margin` tells where an estimate could change a decision: there, scores are exact. None: every score
    counts, and the first one decides.

    Args:
        links: The links.
        outputs: How many scores there are for each.
        margin: Of the decision.
        rows: What will probably be changed.
    """

    def __init__(self, links: Sequence[Query], outputs: int, margin: Margin | None, rows: Iterable[int]) -> None:
        self.links, self.outputs, self.rows = tuple(links), outputs, frozenset(rows)
        self._check = SelfCheck(margin)

    @property
    def corrections(self) -> Mapping[Change, float]:
        """The exact answers to what it had answered before it found that it must not approximate."""
        return {change: float(scores[0]) for change, scores in self._check.corrections.items()}

    @property
    def corrected_scores(self) -> Mapping[Change, FloatArray]:
        """The same with the scores of all links. [m]"""
        return self._check.corrections

    def logits(self, changes: Sequence[Change]) -> FloatArray:
        """One logit for each change, [B]; of a model of more than two classes, the score of each class. [B, C]"""
        scores = self.scores(changes)
        return scores[:, 0] if self.outputs == 1 else scores

    def scores(self, changes: Sequence[Change]) -> FloatArray:
        """The scores of all links for each change. [B, m]"""
        raise NotImplementedError

    def table(self, answers: Sequence[FloatArray]) -> FloatArray:
        """The scores of each change as an array. → [B, m]"""
        return np.array(answers, dtype=np.float64).reshape(len(answers), len(self.links) * self.outputs)


def answer_all(workspace: ApproximateWorkspace, changes: Sequence[Change]) -> list[FloatArray]:
    """The scores of all of these changes, [m] each, however many are computed at once."""
    answers: list[FloatArray] = []
    while len(answers) < len(changes):
        answers += workspace.answer(changes[len(answers) :])
    return answers
