"""Of several counterfactuals, the least intrusive one.

Fewer edits first, then what the proposers put first. An added event is then shifted into the past as far as it still
flips the prediction, a moved one back to its own time as near as that.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial
from typing import NamedTuple

import numpy as np

from cody.errors import BudgetError, CallError
from cody.graph import IntArray, Query, TemporalGraph, sorted_unique
from cody.graph.edits import NOTHING, Add, Edit, Move
from cody.models.contract import DECIMALS, Change, Model, checked_logits, model_on, open_session
from cody.models.margins import flips, shift
from cody.search.options import SearchOptions
from cody.search.oracle import Oracle
from cody.search.proposals import horizon, tidy_time
from cody.search.result import FOUND, Evaluated, Search, SearchResult, Window, flipping_sets, result
from cody.search.run import SearchRun
from cody.search.space import SearchSpace
from cody.utils.deadline import check_deadline, until

SHIFTED = 3  # answers that are shifted until one is found that does not depend on odd times


def each_alone_first(search: Search, space: SearchSpace, enough: int) -> Search:
    """A search that evaluates every edit alone, then searches among removals, then among all edits.

    Args:
        search: Called for removals, and for all edits.
        space: What may change.
        enough: Number of counterfactuals at which it ends.
    """

    def searched(oracle: Oracle, ranking: IntArray) -> SearchResult:
        rows = frozenset(ranking.tolist())

        def known() -> Evaluated:  # an oracle may have evaluated other rows before
            return in_order({change: logit for change, logit in oracle.evaluated.items() if change <= rows}, space)

        with suppress(BudgetError):  # the search ends for the same reason
            oracle.ask([frozenset(), *(frozenset({row}) for row in ranking.tolist())])
        found = result(oracle, ranking, (), len(ranking), FOUND)
        for some in (ranking[ranking < space.graph.num_events], ranking):
            if len(known()) < enough and len(some):
                found = search(oracle, some)
        if found.factual:
            raise CallError("this explainer names events that happened: it supports removals only, no other edits")
        best = tuple(sorted(known()[0][0])) if known() else found.rows
        return result(oracle, ranking, best, found.iterations, found.ended)

    return searched


def prefer_least_intrusive(run: SearchRun, base: TemporalGraph, query: Query, options: SearchOptions) -> SearchRun:
    """The same search, with the least intrusive of the smallest counterfactuals as its answer.

    Args:
        run: The search.
        base: The log without anything imagined.
        query: The link.
        options: Of the search; testing other times must fit into its budget of evaluations.
    """
    found = _least_intrusive(run.result, run.space)
    run = replace(run, result=found)
    if options.evaluations is not None and run.evaluations + SHIFTED * MOST_TIMES + 1 > options.evaluations:
        return run
    try:
        with until(run.deadline):
            shifted = _shifted_events(run, base, query)
            return _at_its_time(run, base, query, shifted) if shifted else run
    except BudgetError:
        return run


def _least_intrusive(found: SearchResult, space: SearchSpace) -> SearchResult:
    """What was found, with the least intrusive of all counterfactuals as the answer."""
    ordered = in_order(dict(found.evaluated), space)
    if not ordered or frozenset(found.rows) == ordered[0][0]:
        return replace(found, counterfactuals=ordered)
    rows = sorted(ordered[0][0], key=lambda row: (space.intrusion[row], row))
    return replace(found, counterfactuals=ordered, rows=tuple(rows))


def in_order(evaluated: Mapping[Change, float], space: SearchSpace) -> Evaluated:
    """The counterfactuals, the least intrusive first; the same edits at other times count once."""
    doubtful = _with_gaps(evaluated, space)

    def intrusion(pair: tuple[Change, float]) -> tuple[int, list[int], int, list[int], float, list[int]]:
        change, logit = pair
        function, place = (sorted((space.intrusion[row][part] for row in change), reverse=True) for part in (0, 1))
        away = -shift(evaluated[frozenset()], logit)
        return len(change), function, len(change & doubtful), place, away, sorted(change)

    different: dict[frozenset[Hashable], tuple[Change, float]] = {}
    for pair in sorted(flipping_sets(evaluated), key=intrusion):
        different.setdefault(frozenset(space.ignoring_time(row) for row in pair[0]), pair)
    return tuple(different.values())


def _with_gaps(logits: Mapping[Change, float], space: SearchSpace) -> Change:
    """The added events that, alone and later than proposed, flip nothing: a matter of chance rather than of recency."""
    if frozenset() not in logits or space.graph.imagined is None:
        return frozenset()
    first_imagined, original = space.graph.num_events, logits[frozenset()]
    doubtful, failed = set(), set()
    for row in reversed([row for row in space.rows.tolist() if row >= first_imagined]):
        if space.graph.imagined.replaces[row - first_imagined] == NOTHING:
            if space.ignoring_time(row) in failed:
                doubtful.add(row)
            if not flips(original, logits.get(frozenset({row}), original)):
                failed.add(space.ignoring_time(row))
    return frozenset(doubtful)


def _shifted_events(run: SearchRun, base: TemporalGraph, query: Query) -> list[ShiftedEvent]:
    """The imagined events that answer alone, each at its least intrusive time, up to the first reliable one."""
    space, shifted = run.space, list[ShiftedEvent]()
    alone = [next(iter(change)) for change, _ in run.result.counterfactuals if len(change) == 1]
    if not alone or tuple(alone[:1]) != run.result.rows or alone[0] not in space.at_any_time:
        return []
    function = space.intrusion[alone[0]][0]  # the proposer of the answer
    movable = [row for row in alone if row in space.at_any_time and space.intrusion[row][0] == function]
    for row in movable[:SHIFTED]:
        edit = space.edits[row - base.num_events]
        assert isinstance(edit, Add | Move)  # others have no time of their own
        shifted.append(shift_event(run.model, base, query, row, edit, float(space.graph.time[row])))
        if shifted[-1].is_reliable:
            break
    return shifted


def _at_its_time(run: SearchRun, base: TemporalGraph, query: Query, shifted: list[ShiftedEvent]) -> SearchRun:
    """The search with the best shifted event as its answer; it becomes one more row if that time was not proposed."""
    best = min(shifted, key=lambda event: (not event.is_reliable, not event.reaches_query, event.edit.time))
    space, found = run.space, run.result
    edits, row = space.edits, best.row
    if best.is_shifted:
        edits, row = (*edits, best.edit), base.num_events + len(edits)
    longer = base.imagine(edits, query=query)
    model = model_on(run.model, longer)
    change: Change = frozenset({row})
    (logit,) = checked_logits(query, [change], open_session(model, query, [row]).logits([change]))
    answer = change, round(logit, DECIMALS)
    if not flips(dict(found.evaluated)[frozenset()], answer[1]):
        return run  # rounded in another batch, it is a near miss
    rows = sorted_unique(np.append(space.rows, row))
    intrusion = space.intrusion | {row: space.intrusion[best.row]}
    evaluated = dict(found.evaluated) | dict([answer])
    others = (pair for pair in found.counterfactuals if pair[0] != {best.row})
    new_sets = len(evaluated) - len(found.evaluated)
    space = replace(space, graph=longer, rows=longer.in_time_order(rows), edits=edits, intrusion=intrusion)
    return replace(
        run,
        model=model,
        space=space,
        oracle=Oracle(model, query, answers=dict(evaluated), session=space.session(model, query)),
        result=replace(found, rows=(row,), evaluated=tuple(evaluated.items()), counterfactuals=(answer, *others)),
        evaluations=run.evaluations + new_sets + sum(event.tested for event in shifted),
        window=best.window,
    )


# How far in time an imagined event can be shifted and still flip the prediction.

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
    margins = partial(_margins, model, base, query, edit)
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
    longer = base.imagine(edits, query=query)
    rows = range(longer.num_events, longer.num_rows)
    changes: list[Change] = [frozenset(), *(frozenset({row}) for row in rows)]
    session = open_session(model_on(model, longer), query, rows)
    original, *logits = checked_logits(query, changes, session.logits(changes))
    return [abs(logit) if flips(original, logit) else -abs(logit) for logit in logits]
