"""Of several counterfactuals, the least intrusive one.

Fewer edits first, then what the proposers put first. An added event is then shifted into the past as far as it still
flips the prediction, a moved one back to its own time as near as that.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from contextlib import suppress
from dataclasses import replace

import numpy as np

from cody.errors import BudgetError, CallError
from cody.graph import IntArray, Query, TemporalGraph, sorted_unique
from cody.graph.edits import NOTHING, Add, Move
from cody.models.contract import DECIMALS, Change, checked_logits, model_on, open_session
from cody.models.margins import flips, shift
from cody.search.options import SearchOptions
from cody.search.oracle import Oracle
from cody.search.result import FOUND, Evaluated, Search, SearchResult, flipping_sets, result
from cody.search.run import SearchRun
from cody.search.space import SearchSpace
from cody.search.time_shift import MOST_TIMES, ShiftedEvent, shift_event
from cody.utils.deadline import until

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
    rows = tuple(sorted(ordered[0][0], key=lambda row: (space.intrusion[row], row)))
    return replace(found, counterfactuals=ordered, rows=rows)


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
    shifted: list[ShiftedEvent] = []
    for row in _movable(run.result, run.space)[:SHIFTED]:
        edit = run.space.edits[row - base.num_events]
        assert isinstance(edit, Add | Move)  # others have no time of their own
        shifted.append(shift_event(run.model, base, query, row, edit, float(run.space.graph.time[row])))
        if shifted[-1].is_reliable:
            break
    return shifted


def _movable(found: SearchResult, space: SearchSpace) -> list[int]:
    """The imagined rows that answer alone, may be at any time, and come from the proposer of the answer."""
    alone = [next(iter(change)) for change, _ in found.counterfactuals if len(change) == 1]
    if not alone or tuple(alone[:1]) != found.rows or alone[0] not in space.at_any_time:
        return []
    function = space.intrusion[alone[0]][0]
    return [row for row in alone if row in space.at_any_time and space.intrusion[row][0] == function]


def _at_its_time(run: SearchRun, base: TemporalGraph, query: Query, shifted: list[ShiftedEvent]) -> SearchRun:
    """The search with the best shifted event as its answer; it becomes one more row if that time was not proposed."""
    best = min(shifted, key=lambda event: (not event.is_reliable, not event.reaches_query, event.edit.time))
    space, found = run.space, run.result
    edits, row = space.edits, best.row
    if best.is_shifted:
        edits, row = (*edits, best.edit), base.num_events + len(edits)
    longer = base.imagine(edits)
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
