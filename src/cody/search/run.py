"""One search in one space: an oracle for the model, then policy, search, proof and alternatives on it."""

from __future__ import annotations

import math
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial

import numpy as np

from cody.errors import BudgetError, CallError
from cody.graph import FloatArray, IntArray, Query
from cody.graph.neighbourhood import groups
from cody.models.contract import DECIMALS, NOTHING, Change, Model, Session, as_floats
from cody.models.margins import flips
from cody.search.further import number_of_sets, prove, search_alternatives
from cody.search.options import SearchOptions, name_and_options
from cody.search.oracle import Oracle
from cody.search.result import Search, SearchResult, Wider, Window, best_evaluated, flipping_sets, result
from cody.search.space import SearchSpace
from cody.utils.deadline import check_seconds

Answers = dict[Change, float]  # scores of a query that are known; a search adds its own
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
    answers: Answers | None = None,
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


# A search for what flips a decision in several models at once. Its margin is that of the model which is furthest from
# the other decision: where that one flips, all of them do. So any search can be used, and knows nothing of it.


class WorstOf:
    """A session whose margins are those of the model that is furthest from the other decision.

    Args:
        oracle: Of the model that is explained.
        others: Sessions of the other models, about the same candidates.
        original: The margin with nothing changed.
    """

    def __init__(self, oracle: Oracle, others: Sequence[Session], original: float) -> None:
        self.oracle, self.others = oracle, others
        self.sign = 1.0 if flips(-1.0, original) else -1.0  # of the decision
        self.margins: dict[Change, tuple[float, ...]] = {}  # of each model

    def logits(self, changes: Sequence[Change]) -> FloatArray:
        """The margin of the worst model for each change. [B]"""
        every = [self.oracle.look_up(changes), *(as_floats(session.logits(changes)) for session in self.others)]
        margins = np.round(np.array(every, dtype=np.float64), DECIMALS)  # [models, B]
        self.margins.update(zip(changes, map(tuple, margins.T.tolist()), strict=True))
        return self.sign * (self.sign * margins).max(axis=0)

    def held(self, change: Change) -> int:
        """In how many models a change flips the decision."""
        return sum(flips(self.sign, margin) for margin in self.margins[change])


def search_across(search: Search, others: Sequence[Session], oracle: Oracle, ranking: IntArray) -> SearchResult:
    """What flips the decision of all models, if the search finds it; else what flips that of most.

    In the latter case, it searches once more for what flips that of the explained model alone: margins of a model that
    never flips lead nowhere. Models that decide differently from the start are left out.

    Args:
        search: Any search.
        others: Sessions of the other models, about the same candidates.
        oracle: Of the model that is explained: its margins are reported.
        ranking: The candidates.
    """
    (original,) = oracle.ask([NOTHING])
    agreeing = [session for session in others if not flips(original, as_floats(session.logits([NOTHING]))[0])]
    worst = WorstOf(oracle, agreeing, original)
    # Half of a budget is for what flips the explained model alone.
    left = None if oracle.evaluations is None else max(1, (oracle.evaluations - oracle.spent) // 2)
    inner = Oracle(
        oracle.model,
        oracle.query,
        evaluations=left,
        seconds=None if math.isinf(oracle.deadline) else max(1e-3, (oracle.deadline - time.monotonic()) / 2),
        watch=None if oracle.watch is None else lambda _: oracle.watch and oracle.watch(oracle),
        groups=oracle.groups,
        session=worst,
    )
    found = search(inner, ranking)
    oracle.ask(list(inner.evaluated))  # all of them are known
    rows = found.rows
    if agreeing and not found.factual and frozenset(rows) not in dict(found.counterfactuals):
        found = search(oracle, ranking)
        rows = _best(found, worst, oracle)
    return result(oracle, ranking, rows, found.iterations, found.ended, factual=found.factual)


def _best(found: SearchResult, worst: WorstOf, oracle: Oracle) -> tuple[int, ...]:
    """The set that flips most models, the explained one among them; none does: what the search says."""
    flipping = [change for change, _ in flipping_sets(oracle.evaluated)]
    if not flipping:
        return found.rows
    worst.logits([change for change in flipping if change not in worst.margins])
    best: Change = min(flipping, key=lambda change: (-worst.held(change), len(change), sorted(change)))
    return tuple(sorted(best))
