"""Approximate, then confirm: a slow model is searched by estimates, and what looks like an answer is asked exactly."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from cody.graph import FloatArray
from cody.models.contract import Change, Session, as_floats
from cody.models.decision import flips

NOTHING: Change = frozenset()


class TwoStages:
    """A session that estimates, and asks exactly wherever an estimate says that the decision changes.

    An estimate is the exact answer with nothing changed, moved by what the cheap session says that the change does. So
    a change that the cheap session takes for harmless can be missed; one that it takes for a counterfactual is never
    taken for one unless it is.
    """

    def __init__(self, exact: Session, cheap: Session) -> None:
        self.exact, self.cheap = exact, cheap
        self.known: dict[Change, float] = {}  # the exact answers

    def logits(self, changes: Sequence[Change]) -> FloatArray:
        """One logit for each change, some of them estimates; `known` has the others. [B]"""
        if NOTHING not in self.known:
            self.ask([NOTHING])
        original = self.known[NOTHING]
        unknown = [change for change in dict.fromkeys(changes) if change not in self.known]
        estimates: dict[Change, float] = {}
        if unknown:
            before, *after = as_floats(self.cheap.logits([NOTHING, *unknown]))
            moved = zip(unknown, after, strict=True)
            estimates = {change: original + logit - before for change, logit in moved}
            self.ask([change for change, logit in estimates.items() if flips(original, logit)])
        return np.array([self.known.get(change, estimates.get(change, 0.0)) for change in changes], dtype=np.float64)

    def ask(self, changes: list[Change]) -> None:
        """Have the exact answers to these changes known."""
        if changes:
            self.known.update(zip(changes, as_floats(self.exact.logits(changes)), strict=True))
