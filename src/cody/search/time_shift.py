"""How far in time an imagined event can be shifted and still flip the prediction.

An added event is the less intrusive the longer ago it is, a moved one the nearer it is to its own time. Times are
tested a few at a time, between one that flips the prediction and one that does not.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np

from cody.graph import Query, TemporalGraph
from cody.graph.edits import Add, Edit, Move
from cody.models.contract import Change, Model, checked_logits, model_on, open_session
from cody.models.margins import flips
from cody.search.proposals import horizon, tidy_time
from cody.search.result import Window
from cody.utils.deadline import check_deadline

BETWEEN = 7  # times that are tested together
FURTHER = (1.25, 1.5, 1.75, 2.0, 2.5, 3.0, 4.0)  # times as long ago as is known to flip it
ROUNDS = 2
MOST_TIMES = (2 + 2 * ROUNDS) * BETWEEN  # that are tested for one event
CLEAR = 0.005  # logits beyond 0: the reference must land on the same side

Margins = Callable[[Sequence[float]], list[float]]  # times → how far beyond the decision; 0 and below: no flip


class ShiftedEvent(NamedTuple):
    """An imagined event at the least intrusive time that was found."""

    row: int  # as it was proposed
    edit: Add | Move  # at the new time
    is_shifted: bool
    window: Window
    tested: int  # times
    is_reliable: bool  # it flips the prediction as proposed, and at all tested times after that
    reaches_query: bool  # and up to the time of the link


def shift_event(
    model: Model, base: TemporalGraph, query: Query, row: int, edit: Add | Move, start: float
) -> ShiftedEvent:
    """Look for the least intrusive time of an imagined event.

    Args:
        model: On any log of these nodes.
        base: The log without anything imagined.
        query: The link.
        row: Of the event, as it was proposed.
        edit: The event.
        start: When it was proposed; it flips the prediction then.
    """
    own_time = float(base.time[edit.row]) if isinstance(edit, Move) else None

    def margins(times: Sequence[float]) -> list[float]:
        return _margins(model, base, query, edit, times)

    times = TestedTimes(query, start, min(start, horizon(base, query)), own_time, margins)
    least = _oldest(times) if own_time is None else _nearest(times, own_time)
    run = times.flipping_run()
    reaches_query = run[-1] == max(times.margin)
    return ShiftedEvent(
        row=row,
        edit=edit._replace(time=least),
        is_shifted=least != start,
        window=Window(run[0], run[-1], len(run), times.next_beyond(least, most=0.0)),
        tested=len(times.margin) - 1,
        is_reliable=own_time is not None or (reaches_query and least <= start),
        reaches_query=reaches_query,
    )


class TestedTimes:
    """The times at which an event was tested, each with its margin. `own_time` is that of a moved event."""

    def __init__(self, query: Query, start: float, earliest: float, own_time: float | None, margins: Margins) -> None:
        self.query, self.start, self.earliest, self.own_time = query, start, earliest, own_time
        self.margin = {start: np.inf}  # known to flip the prediction
        self.least_is_last = own_time is not None and start < own_time  # it was moved back
        self._margins = margins

    def test(self, times: Sequence[float]) -> None:
        """Evaluate the event at these times, rounded to what can be written in few digits."""
        tidy = dict.fromkeys(tidy_time(time, self.query) for time in times)
        new = [time for time in tidy if time not in self.margin and time >= self.earliest]
        if new:
            self.margin |= dict(zip(new, self._margins(new), strict=True))

    def test_between(self, time: float, other: float) -> None:
        self.test(np.linspace(time, other, BETWEEN + 2)[1:-1].tolist())

    def flipping_run(self) -> list[float]:
        """Tested times without a gap at which the prediction flips: up to the link, else around the start."""
        times = sorted(self.margin)
        flipped = [self.margin[time] > CLEAR for time in times]
        first = last = len(times) - 1 if self.own_time is None and flipped[-1] else times.index(self.start)
        while first and flipped[first - 1]:
            first -= 1
        while last + 1 < len(times) and flipped[last + 1]:
            last += 1
        return times[first : last + 1]

    def next_beyond(self, time: float, most: float = np.inf) -> float | None:
        """The next tested time on the less intrusive side whose margin is at most that; None: there is none."""
        others = [other for other, margin in self.margin.items() if margin <= most]
        if self.least_is_last:
            return min((other for other in others if other > time), default=None)
        return max((other for other in others if other < time), default=None)


def _oldest(times: TestedTimes) -> float:
    """The oldest time to which an added event can be shifted."""
    now, age = times.query.time, times.query.time - times.start
    times.test([now, *(now - age * share for share in np.geomspace(1e-3, 1.0, BETWEEN)[:-1])])
    for _ in range(ROUNDS):
        oldest = times.flipping_run()[0]
        if oldest == min(times.margin):  # nothing older is known to fail
            times.test([now - (now - oldest) * factor for factor in FURTHER])
    times.test_between(times.flipping_run()[-1], times.flipping_run()[0])
    for _ in range(ROUNDS):
        beyond = times.next_beyond(times.flipping_run()[0])
        if beyond is not None:
            times.test_between(times.flipping_run()[0], beyond)
    return times.flipping_run()[0]


def _nearest(times: TestedTimes, own_time: float) -> float:
    """The time nearest to its own to which a moved event can be shifted."""
    end = -1 if times.least_is_last else 0
    for _ in range(1 + ROUNDS):
        beyond = times.next_beyond(times.flipping_run()[end])
        times.test_between(times.flipping_run()[end], own_time if beyond is None else beyond)
    return times.flipping_run()[end]


def _margins(model: Model, base: TemporalGraph, query: Query, edit: Add | Move, times: Sequence[float]) -> list[float]:
    """How far an edit at each time leads beyond the decision; 0 and below: it does not flip it."""
    check_deadline()
    edits: list[Edit] = [edit._replace(time=time) for time in times]
    longer = base.imagine(edits)
    rows = range(longer.num_events, longer.num_rows)
    changes: list[Change] = [frozenset(), *(frozenset({row}) for row in rows)]
    session = open_session(model_on(model, longer), query, rows)
    original, *logits = checked_logits(query, changes, session.logits(changes))
    return [abs(logit) if flips(original, logit) else -abs(logit) for logit in logits]
