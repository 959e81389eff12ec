"""Of several ways out, the least intrusive one; and how far in time it may be shifted and still be one.

Fewer edits first, then what the proposal functions put first. An added event is then shifted into the past as far as
it still changes the decision, a moved one back to where it was as near as that.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from cody.errors import BudgetError, CallError
from cody.graph import IntArray, Query, TemporalGraph
from cody.graph.edits import NOTHING, Add, Edit, Move
from cody.models.contract import DECIMALS, Change, Model, checked_logits, model_on, open_session
from cody.models.decision import flips, shift
from cody.search.oracle import Oracle
from cody.search.proposals import SearchSpace, horizon, tidy_time
from cody.search.result import FOUND, Evaluated, Search, SearchResult, flipping_sets, result
from cody.utils.deadline import check_deadline

BETWEEN = 7  # times asked about together
FURTHER = (1.25, 1.5, 1.75, 2.0, 2.5, 3.0, 4.0)  # times as long ago as is known to do
ROUNDS = 2
CLEAR = 0.005  # logits beyond 0: plain replay must land on the same side
TRIED = 3  # answers that are looked at until one is found that does not depend on odd times
MOST_TIMES = TRIED * (2 + 2 * ROUNDS) * BETWEEN + 1  # that are asked about


def each_alone_first(search: Search, considered: SearchSpace, enough: int) -> Search:
    """A search that asks about every edit alone, then lets `search` look for removals, then for sets of all edits.

    It continues until `enough` counterfactuals are known.
    """

    def searched(oracle: Oracle, ranking: IntArray) -> SearchResult:
        rows = frozenset(ranking.tolist())

        def known() -> Evaluated:  # an oracle may have been asked about other rows before
            return in_order(tuple(pair for pair in oracle.evaluated.items() if pair[0] <= rows), considered)

        with suppress(BudgetError):  # the search says so too
            oracle.ask([frozenset(), *(frozenset({row}) for row in ranking.tolist())])
        found = result(oracle, ranking, (), len(ranking), FOUND)
        for some in (ranking[ranking < considered.graph.num_events], ranking):
            if len(known()) < enough and len(some):
                found = search(oracle, some)
        if found.factual:
            raise CallError("this explainer names events that happened: it knows removals only, no other edits")
        best = tuple(sorted(known()[0][0])) if known() else found.rows
        return result(oracle, ranking, best, found.iterations, found.ended)

    return searched


def least_intrusive(found: SearchResult, considered: SearchSpace) -> SearchResult:
    """What was found, with the least intrusive of all counterfactuals as the answer."""
    ordered = in_order(found.evaluated, considered)
    if not ordered or frozenset(found.rows) == ordered[0][0]:
        return replace(found, counterfactuals=ordered)
    rows = tuple(sorted(ordered[0][0], key=lambda row: (considered.intrusion[row], row)))
    return replace(found, counterfactuals=ordered, rows=rows)


def in_order(asked: Evaluated, considered: SearchSpace) -> Evaluated:
    """The counterfactuals among what was asked, the least intrusive first; the same at another time is no other."""
    logits = dict(asked)
    doubtful = _with_gaps(logits, considered)

    def worth(pair: tuple[Change, float]) -> tuple[int, list[int], int, list[int], float, list[int]]:
        change, logit = pair
        function, place = (sorted((considered.intrusion[row][part] for row in change), reverse=True) for part in (0, 1))
        away = -shift(logits[frozenset()], logit)
        return len(change), function, len(change & doubtful), place, away, sorted(change)

    different: dict[frozenset[Hashable], tuple[Change, float]] = {}
    for pair in sorted(flipping_sets(logits), key=worth):
        different.setdefault(frozenset(considered.what(row) for row in pair[0]), pair)
    return tuple(different.values())


def _with_gaps(logits: Mapping[Change, float], considered: SearchSpace) -> Change:
    """The added events that, alone and later than proposed, do nothing: a matter of chance rather than of recency."""
    if frozenset() not in logits or considered.graph.imagined is None:
        return frozenset()
    first_imagined, original = considered.graph.num_events, logits[frozenset()]
    doubtful, failed = set(), set()
    for row in reversed([row for row in considered.rows.tolist() if row >= first_imagined]):
        if considered.graph.imagined.replaces[row - first_imagined] == NOTHING:
            if considered.what(row) in failed:
                doubtful.add(row)
            if not flips(original, logits.get(frozenset({row}), original)):
                failed.add(considered.what(row))
    return frozenset(doubtful)


class Window(NamedTuple):
    """When an imagined event could have been, to the same effect. Every number in it was asked about."""

    first: float
    last: float
    tried: int  # times from the first to the last, both of them too: the decision changes at each
    fails: float | None  # the next time beyond, on the less intrusive side, at which it does not; None: not tried


class Narrowed(NamedTuple):
    """The answer at the least intrusive time that was found."""

    considered: SearchSpace
    model: Model
    found: SearchResult
    window: Window
    questions: int  # that this took


def narrow(
    model: Model, base: TemporalGraph, query: Query, considered: SearchSpace, found: SearchResult
) -> Narrowed | None:
    """Shift the one imagined event of an answer to the least intrusive time. None: there is no such event, or no time.

    `base` is the log without anything imagined. If an added event does nothing at some of the times after it was
    proposed, the next ones are looked at too, and the one that could have been longest ago is the answer.
    """
    clocks: list[TimeShift] = []
    try:
        for row in _alike(considered, found)[:TRIED]:
            clocks.append(TimeShift(model, base, query, considered, row))
            if clocks[-1].is_sound:
                break
        if clocks:
            best = min(clocks, key=lambda clock: (not clock.is_sound, not clock.reaches_question, clock.least))
            return _at(model, base, query, considered, found, best, sum(len(clock.tried) - 1 for clock in clocks))
    except BudgetError:
        pass
    return None


def _alike(considered: SearchSpace, found: SearchResult) -> list[int]:
    """The imagined rows that answer alone, may be at any time, and come from the function that the answer is from."""
    alone = [next(iter(change)) for change, _ in found.counterfactuals if len(change) == 1]
    if not alone or tuple(alone[:1]) != found.rows or alone[0] not in considered.at_any_time:
        return []
    function = considered.intrusion[alone[0]][0]
    return [row for row in alone if row in considered.at_any_time and considered.intrusion[row][0] == function]


class TimeShift:
    """An edit at whatever time: how far it changes the decision. Looks for the least intrusive time when it is made."""

    def __init__(self, model: Model, base: TemporalGraph, query: Query, considered: SearchSpace, row: int) -> None:
        edit = considered.edits[row - base.num_events]
        assert isinstance(edit, Add | Move)  # what `_alike` lets through
        self.edit, self.row, self.query = edit, row, query
        self.start = float(considered.graph.time[row])
        self.first_time = min(self.start, horizon(base, query))
        self._margins: Callable[[Sequence[float]], list[float]] = lambda times: _margins(
            model, base, query, edit, times
        )
        self.tried = {self.start: np.inf}  # times with how far the other decision is reached; the start is known to do
        self.was = float(base.time[edit.row]) if isinstance(edit, Move) else None
        self.least_is_last = self.was is not None and self.start < self.was  # it was moved back
        self.least = self._oldest() if self.was is None else self._nearest(self.was)

    def ask(self, times: Sequence[float]) -> None:
        tidy = dict.fromkeys(tidy_time(time, self.query) for time in times)
        new = [time for time in tidy if time not in self.tried and time >= self.first_time]
        if new:
            self.tried |= dict(zip(new, self._margins(new), strict=True))

    def run(self) -> list[float]:
        """Times without a gap at which the decision changes: up to the question, else around the start."""
        times = sorted(self.tried)
        does = [self.tried[time] > CLEAR for time in times]
        first = last = len(times) - 1 if self.was is None and does[-1] else times.index(self.start)
        while first and does[first - 1]:
            first -= 1
        while last + 1 < len(times) and does[last + 1]:
            last += 1
        return times[first : last + 1]

    @property
    def reaches_question(self) -> bool:
        return self.run()[-1] == max(self.tried)

    @property
    def is_sound(self) -> bool:
        """Whether it does as proposed, and at all times that were tried after that."""
        return self.was is not None or (self.reaches_question and self.least <= self.start)

    def _oldest(self) -> float:
        """The oldest time to which an added event can be shifted."""
        now, age = self.query.time, self.query.time - self.start
        self.ask([now, *(now - age * share for share in np.geomspace(1e-3, 1.0, BETWEEN)[:-1])])
        for _ in range(ROUNDS):
            oldest = self.run()[0]
            if oldest == min(self.tried):  # nothing older is known to fail
                self.ask([now - (now - oldest) * factor for factor in FURTHER])
        self._ask_between(self.run()[-1], self.run()[0])
        for _ in range(ROUNDS):
            beyond = self._beyond(self.run()[0])
            if beyond is not None:
                self._ask_between(self.run()[0], beyond)
        return self.run()[0]

    def _nearest(self, was: float) -> float:
        """The time nearest to its own to which a moved event can be shifted."""
        end = -1 if self.least_is_last else 0
        for _ in range(1 + ROUNDS):
            beyond = self._beyond(self.run()[end])
            self._ask_between(self.run()[end], was if beyond is None else beyond)
        return self.run()[end]

    def _beyond(self, time: float, most: float = np.inf) -> float | None:
        """The next time that was tried on the less intrusive side, of those whose margin is at most that."""
        later = self.least_is_last
        others = [other for other in self.tried if (other > time if later else other < time)]
        others = [other for other in others if self.tried[other] <= most]
        return (min(others) if later else max(others)) if others else None

    def _ask_between(self, time: float, other: float) -> None:
        self.ask(np.linspace(time, other, BETWEEN + 2)[1:-1].tolist())

    @property
    def window(self) -> Window:
        run = self.run()
        return Window(run[0], run[-1], len(run), self._beyond(self.least, most=0.0))


def _margins(model: Model, base: TemporalGraph, query: Query, edit: Add | Move, times: Sequence[float]) -> list[float]:
    """How far an edit at some times reaches the other decision; 0 and below: it does not."""
    check_deadline()
    edits: list[Edit] = [edit._replace(time=time) for time in times]
    longer = base.imagine(edits)
    rows = range(longer.num_events, longer.num_rows)
    changes: list[Change] = [frozenset(), *(frozenset({row}) for row in rows)]
    session = open_session(model_on(model, longer), query, rows)
    original, *logits = checked_logits(query, changes, session.logits(changes))
    return [abs(logit) if flips(original, logit) else -abs(logit) for logit in logits]


def _at(
    model: Model,
    base: TemporalGraph,
    query: Query,
    considered: SearchSpace,
    found: SearchResult,
    clock: TimeShift,
    questions: int,
) -> Narrowed | None:
    """The answer at the least intrusive time, which becomes one more row if nobody proposed it."""
    edits, row = considered.edits, clock.row
    if clock.least != clock.start:
        edits, row = (*edits, clock.edit._replace(time=clock.least)), base.num_events + len(edits)
    longer = base.imagine(edits)
    change: Change = frozenset({row})
    model = model_on(model, longer)
    (logit,) = checked_logits(query, [change], open_session(model, query, [row]).logits([change]))
    answer = change, round(logit, DECIMALS)
    if not flips(dict(found.evaluated)[frozenset()], answer[1]):
        return None  # rounded in another batch, it is a near miss
    rows = np.union1d(considered.rows, [row])
    rows = longer.in_time_order(rows)
    intrusion = considered.intrusion | {row: considered.intrusion[clock.row]}
    better = SearchSpace(longer, rows, edits, intrusion, considered.at_any_time)
    others = (pair for pair in found.counterfactuals if pair[0] != {clock.row})
    asked = dict(found.evaluated) | dict([answer])
    known = replace(found, rows=(row,), evaluated=tuple(asked.items()), counterfactuals=(answer, *others))
    return Narrowed(better, model, known, clock.window, questions)
