"""Among how many candidates to search: a few, and more of them as long as nothing is found."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace
from typing import NamedTuple

from cody.graph import Query, TemporalGraph
from cody.graph.neighbourhood import SIZE
from cody.models.contract import Change, Model, Session, model_on, weight_of
from cody.search import estimates
from cody.search.intrusion import each_alone_first, prefer_least_intrusive
from cody.search.options import SearchOptions
from cody.search.proposals import Proposer, removals
from cody.search.result import Wider
from cody.search.run import SEARCHING, Answers, SearchRun
from cody.search.scout import usual_evaluations
from cody.search.space import SearchSpace
from cody.utils.deadline import check_seconds

WIDTHS = (SIZE, 128, 256)  # candidates: more of them where nothing was found
NUMBERS = 1_000_000_000  # that a wider search may compute: a few seconds
FEWEST_EVALUATIONS = 400  # of a wider search: with fewer, hardly anything is found


class Stage(NamedTuple):
    """One of several searches."""

    size: int  # number of candidate events
    edits: tuple[Proposer, ...]


SpaceOf = Callable[[int, tuple[Proposer, ...]], SearchSpace]


def stages(options: SearchOptions) -> list[Stage]:
    """Among how many candidates and by which edits to search, one after the other.

    A proof is about a given number of candidates. Where additions and moves flip nothing, removals are searched alone,
    so that allowing more never answers less.
    """
    first = Stage(SIZE if options.size is None else options.size, options.edits)
    if options.size is not None or options.prove > 1 or removals not in options.edits:
        return [first]
    alone = [Stage(size, (removals,)) for size in WIDTHS]
    return alone if first == alone[0] else [first, *alone]


def search_widening(
    model: Model, graph: TemporalGraph, query: Query, space_of: SpaceOf, options: SearchOptions, answers: Answers
) -> SearchRun:
    """Search among a few candidates, and among more as long as nothing is found and the budgets allow it.

    Args:
        model: On that graph.
        graph: The log, without anything proposed.
        query: The link.
        space_of: Gives the search space with a number of candidates and these edits.
        options: Of the search.
        answers: What is known about the query; takes what is found out.

    Returns:
        The search that found a counterfactual, or the first one, with how far the others looked.
    """
    started = time.monotonic()
    planned = stages(options)
    first: SearchRun | None = None
    evaluated: set[Change] = set()
    evaluations = searched = further = 0
    before: tuple[Proposer, ...] = ()
    for stage in planned:
        left = left_of_budgets(options, evaluations, time.monotonic() - started)
        space = space_of(*stage)
        near = int((space.rows < graph.num_events).sum()) if space.edits else len(space.rows)
        if first is not None and near <= searched and stage.edits == before:
            break  # there are no other events
        has_budget = left is None or left.evaluations is not None or left.seconds is not None
        weighs = not has_budget and (bool(space.members) or first is not None)
        session = space.session(model, query) if weighs else None  # opened once, to be weighed and to search with
        if space.members:  # one evaluation may change thousands of events
            left = _within_reach(session, space, left)
        if first is not None:
            left = _affordable(session, space, left)
            if left is None:
                break  # too little of the budget is left, or it would take too long
        paid = frozenset() if options.evaluations is None else frozenset(evaluated)
        left = replace(left or options, paid=paid)
        run = search_space(model, graph, query, space, left, answers, stage != planned[-1], session)
        new = {change for change, _ in run.result.evaluated} - evaluated
        evaluations += run.evaluations - (len(run.result.evaluated) - len(new))  # what is known costs nothing
        if new or first is None:  # a search that evaluates nothing new has not looked any further
            searched, further = near, further + (first is not None)
        first, evaluated, before = first or run, evaluated | new, stage.edits
        if run.result.counterfactuals or run.result.factual:
            return replace(run, evaluations=evaluations)
        del run, session  # what they remember may be large
    assert first is not None
    wider = Wider(searched, evaluations - first.evaluations) if further else None
    return replace(first, evaluations=evaluations, wider=wider)


def search_space(
    model: Model,
    graph: TemporalGraph,
    query: Query,
    space: SearchSpace,
    options: SearchOptions,
    answers: Answers,
    more: bool,
    session: Session | None = None,
) -> SearchRun:
    """Search in one space, and prefer the least intrusive of equally small answers.

    Args:
        model: On that graph.
        graph: The log, without anything proposed.
        query: The link.
        space: What may change.
        options: Of the search.
        answers: Scores that are known; new ones are added.
        more: Whether more candidates could follow: then something must be found with a part of the budget.
        session: Of the model in this space, if there is one.
    """
    usual = usual_evaluations(len(space.rows))
    if more and options.evaluations is not None and options.evaluations > usual:
        run = search_space(model, graph, query, space, replace(options, evaluations=usual), answers, False)
        if not run.result.counterfactuals:
            return run  # the rest is for more candidates; else it is for a smaller counterfactual
    if not space.edits:
        return estimates.run(model, query, space, options, answers, session)
    search = each_alone_first(options.search, space, options.reported)
    # Imagined rows are those of this space only, so their scores are not shared.
    options, longer = replace(options, search=search), model_on(model, space.graph)
    run = estimates.run(longer, query, space, options, dict(answers), None)
    return prefer_least_intrusive(run, graph, query, options)


def _affordable(session: Session | None, space: SearchSpace, options: SearchOptions | None) -> SearchOptions | None:
    """The options of a wider search, with as many evaluations as take a few seconds; None: too few of them.

    The memories of a TGN may have to be followed through tens of thousands of events. What that takes is counted, not
    measured, so that the answer does not depend on the machine. A budget of the user is used up.
    """
    if options is not None and options.evaluations is not None:
        return options if options.evaluations > len(space.rows) else None  # each event alone, at least
    if options is None or session is None:
        return options
    most = NUMBERS // max(1, weight_of(session))
    if most >= usual_evaluations(len(space.rows)):
        return options
    enough = most >= FEWEST_EVALUATIONS and most > len(space.rows)
    return replace(options, evaluations=most) if enough else None


def _within_reach(session: Session | None, space: SearchSpace, options: SearchOptions | None) -> SearchOptions | None:
    """The options of a search among units: without a budget, as many evaluations as take a few seconds.

    At least each unit is evaluated alone.
    """
    if options is None or session is None:
        return options
    most = max(NUMBERS // max(1, weight_of(session)), len(space.rows) + 1)
    return options if most >= usual_evaluations(len(space.rows)) else replace(options, evaluations=most)


def left_of_budgets(options: SearchOptions, evaluations: int, seconds: float) -> SearchOptions | None:
    """The options with what is left of their budgets; None: nothing is.

    Args:
        options: With the whole budgets.
        evaluations: How many were spent.
        seconds: How many were spent.
    """
    left = options
    if options.evaluations is not None:
        left = replace(left, evaluations=options.evaluations - evaluations)
    if options.seconds is not None and seconds > 0:
        left = replace(left, seconds=check_seconds(options.seconds) - seconds / SEARCHING)
    spent = (left.evaluations is not None and left.evaluations < 1) or (left.seconds is not None and left.seconds <= 0)
    return None if spent else left
