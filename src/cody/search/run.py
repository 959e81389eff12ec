"""One search in one space: an oracle for the model, then policy, search, proof and alternatives on it."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial

import numpy as np

from cody.errors import BudgetError, CallError
from cody.graph import IntArray, Query
from cody.graph.neighbourhood import groups
from cody.models.contract import Change, Model, Session
from cody.search.across_models import search_across
from cody.search.diverse import search_alternatives
from cody.search.exhaustive import number_of_sets, prove
from cody.search.options import SearchOptions, name_and_options
from cody.search.oracle import Oracle
from cody.search.result import SearchResult, Wider, Window, best_evaluated, result
from cody.search.space import SearchSpace
from cody.utils.deadline import check_seconds

SEARCHING = 0.75  # share of a budget of time; the rest is for the verification


@dataclass(frozen=True, slots=True)
class SearchRun:
    """A finished search: in which space, with which model, and what it found."""

    model: Model  # on the log of the space
    space: SearchSpace
    oracle: Oracle  # knows everything that was evaluated exactly
    result: SearchResult
    evaluations: int
    deadline: float  # of the search, on the clock `time.monotonic`
    window: Window | None = None  # when the one imagined event of the answer may be, if its time was shifted
    wider: Wider | None = None  # among how many more events nothing was found either


def run_search(
    model: Model,
    query: Query,
    space: SearchSpace,
    options: SearchOptions,
    answers: dict[Change, float] | None = None,
    session: Session | None = None,
) -> SearchRun:
    """Order the candidates and search among them, within the budgets of the options.

    Args:
        model: On the log of the space.
        query: The link.
        space: What may change.
        options: Policy, search, budgets, what to prove, and how many counterfactuals to look for.
        answers: What is known about the query; takes what is found out.
        session: Used instead of a new session of the model.
    """
    oracle = Oracle(
        model,
        query,
        evaluations=options.evaluations,
        seconds=None if options.seconds is None else SEARCHING * check_seconds(options.seconds),
        watch=options.watch,
        answers=answers,
        groups=groups(space.graph, space.rows),
        session=space.session(model, query) if session is None else session,
        paid=options.paid,
        limit=space.limit,
    )
    if options.seconds is not None:
        oracle.look_up([frozenset()])  # the prediction itself is reported in any case
    if options.across:
        others = [space.session(other, query) for other in options.across]
        options = replace(options, search=partial(search_across, options.search, others), across=())
    found = _search(oracle, space, options)
    return SearchRun(model, space, oracle, found, len(found.evaluated) + oracle.besides, oracle.deadline)


def _search(oracle: Oracle, space: SearchSpace, options: SearchOptions) -> SearchResult:
    """Search in the order of the policy; then test what is to be proven, and look for alternatives."""
    rows: list[int] = space.rows.tolist()
    try:
        ranking = ranked(oracle, space, options)
    except BudgetError as spent:  # before the search began
        return result(oracle, space.rows, best_evaluated(oracle, rows), 0, str(spent))
    with oracle.reserve(number_of_sets(len(ranking), options.prove) - 1):  # a search may use all it is given
        found = options.search(oracle, ranking)
    if len(set(found.rows)) < len(found.rows) or not set(found.rows) <= set(rows):
        name = name_and_options(options.search)["name"]
        raise CallError(f"the search {name!r} found {found.rows}, which are not distinct candidates")
    if options.prove > found.proven:
        found = prove(oracle, ranking, found, options.prove, every=options.reported > 1)
    if options.count is not None and options.count > 1 and not found.factual:
        found = search_alternatives(oracle, ranking, options.search, found, options.count)
    return found


def ranked(oracle: Oracle, space: SearchSpace, options: SearchOptions) -> IntArray:
    """The candidates in the order of the policy.

    Args:
        oracle: Scores changes of the link.
        space: Has the candidates.
        options: Policy and seed.
    """
    query = oracle.query
    rng = np.random.default_rng([options.seed, query.src, query.dst, query.before])  # the same for each link
    ranking = np.asarray(options.policy(space.graph, query, space.rows, oracle, rng))
    if sorted(ranking.tolist()) != sorted(space.rows.tolist()):
        name = name_and_options(options.policy)["name"]
        raise CallError(f"the policy {name!r} must return the events it was given, in its order")
    return ranking
