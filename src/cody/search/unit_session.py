"""A session about sets of units, on top of one about sets of events."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence

import numpy as np

from cody.graph import FloatArray
from cody.models.contract import Change, Session, as_floats, corrections_of, size_of, weight_of

EVENTS_AT_ONCE = 500_000  # of all sets of a batch: sets of thousands of events take memory


class UnitSession:
    """Evaluates sets of units: the only place where a search's rows become the events that they stand for.

    Args:
        session: About sets of events.
        change: Gives the events of a set of units.
    """

    def __init__(self, session: Session, change: Callable[[Iterable[int]], Change]) -> None:
        self.session, self.change = session, change
        self.asked: dict[Change, None] = {}

    def logits(self, changes: Sequence[Change]) -> FloatArray:
        """One logit for each set of units. [B]"""
        self.asked |= dict.fromkeys(changes)
        logits: list[float] = []
        batch: list[Change] = []
        for change in changes:
            events = self.change(change)
            if batch and sum(map(len, batch)) + len(events) > EVENTS_AT_ONCE:
                logits += as_floats(self.session.logits(batch))
                batch = []
            batch.append(events)
        return np.array(logits + as_floats(self.session.logits(batch)), dtype=np.float64)

    @property
    def size(self) -> int:
        return size_of(self.session)

    @property
    def weight(self) -> int:
        return weight_of(self.session)

    @property
    def corrections(self) -> Mapping[Change, float]:
        """Answers that the session has corrected since, as sets of units."""
        corrected = corrections_of(self.session)
        if not corrected:
            return {}
        return {units: corrected[events] for units in self.asked if (events := self.change(units)) in corrected}
