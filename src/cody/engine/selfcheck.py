"""Where an engine approximates, it compares some of its answers with exact ones, and decides no sign by an estimate.

About long histories the TGN is approximate (`tgn.SMALL_CHANGE`). How far that moves a logit is up to the weights, and a
memory that amplifies small changes can make it large. So a session computes exactly, besides the estimate:

- its 1st, 4th, 16th, 64th, … answer, and that with the oldest changed event, which has the longest history to go wrong
  in: once one of these estimates is off by more than `PROMISE`, the session does not approximate any more;
- every answer that lies within `NEAR` of the decision line, where an error could change the decision.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from itertools import takewhile
from typing import TYPE_CHECKING

import numpy as np

from cody.graph import BoolArray, FloatArray
from cody.models.contract import Change

if TYPE_CHECKING:
    from cody.engine.fast import QueryWorkspace

PROMISE = 1e-4  # of a logit: docs/engine.md has what was measured
NEAR = 100 * PROMISE  # of the decision line: no estimate decides there, even if it is off by far more than promised
POWERS = 4 ** np.arange(31)


class SelfCheck:
    """Which answers of a session are computed exactly, and whether the others may be estimates."""

    def __init__(self) -> None:
        self.answers: dict[Change, float] = {}  # of a session that approximates, so that none changes but for a reason
        self.corrections: dict[Change, float] = {}  # what was answered before an estimate was found to be wrong
        self.oldest = sys.maxsize  # row of the events whose change was computed exactly
        self.worst = 0.0  # the largest error of the estimates that were computed exactly too

    @property
    def passed(self) -> bool:
        """Whether every estimate that was compared was right, up to the promise."""
        return self.worst <= PROMISE

    def trusted(self, workspace: QueryWorkspace) -> QueryWorkspace:
        """The workspace to answer from: the exact one, once an estimate was wrong."""
        return workspace if self.passed or workspace.exact else workspace.exactly

    def answer(self, workspace: QueryWorkspace, changes: Sequence[Change]) -> list[float]:
        """The logits of the first of these changes: of as many as are computed at once."""
        if workspace.exact:
            return workspace.answer(changes)
        new = [change for change in dict.fromkeys(changes) if change not in self.answers]
        if new:
            self._add(workspace, new)
        return [self.answers[change] for change in takewhile(self.answers.__contains__, changes)]

    def _add(self, workspace: QueryWorkspace, changes: Sequence[Change]) -> None:
        """Answer the first of these changes, and compare."""
        answers = np.array(workspace.answer(changes))
        changes = changes[: len(answers)]
        places = np.flatnonzero(self._sample(changes) | (np.abs(answers) <= NEAR))
        exact = answer_all(workspace.exactly, [changes[place] for place in places.tolist()])
        worst = max(self.worst, float(np.abs(answers[places] - exact).max(initial=0.0)))
        answers[places] = exact
        if worst > PROMISE:
            before = list(self.answers)
            self.corrections = dict(zip(before, answer_all(workspace.exactly, before).tolist(), strict=True))
            answers = answer_all(workspace.exactly, changes)
        self.answers |= self.corrections | dict(zip(changes, answers.tolist(), strict=True))
        self.worst, self.oldest = worst, min(self.oldest, *(min(change, default=sys.maxsize) for change in changes))

    def _sample(self, changes: Sequence[Change]) -> BoolArray:
        """Which estimates are the 1st, 4th, 16th, 64th, … of the session, or that with the oldest event so far. [n]"""
        sample: BoolArray = np.isin(len(self.answers) + np.arange(1, len(changes) + 1), POWERS)
        oldest = np.array([min(change, default=self.oldest) for change in changes])
        sample[oldest.argmin()] |= oldest.min() < self.oldest
        return sample


def answer_all(workspace: QueryWorkspace, changes: Sequence[Change]) -> FloatArray:
    """The logits of all of these changes, however many are computed at once. [n]"""
    answers: list[float] = []
    while len(answers) < len(changes):
        answers += workspace.answer(changes[len(answers) :])
    return np.array(answers)
