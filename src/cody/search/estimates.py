"""Estimate, then evaluate: a slow model is searched by estimates, and what looks like an answer is evaluated exactly.

This is the two-stage idea of the paper. Nothing outside of this file knows of it: what comes back is a search like any
other, in which every score is exact.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace

import numpy as np

from cody.errors import BudgetError
from cody.graph import FloatArray, Query
from cody.models.contract import DECIMALS, NOTHING, Change, Model, Session, as_floats, open_estimates
from cody.models.margins import flips
from cody.search.further import diverse_counterfactuals
from cody.search.options import SearchOptions
from cody.search.oracle import Oracle
from cody.search.result import SearchResult, flipping_sets, lower_bound
from cody.search.run import Answers, SearchRun, run_search
from cody.search.space import SearchSpace
from cody.utils.deadline import until


def run(
    model: Model, query: Query, space: SearchSpace, options: SearchOptions, answers: Answers, session: Session | None
) -> SearchRun:
    """What `run_search` gives; a model that offers estimates is searched by these.

    Args:
        model: On the log of the space.
        query: The link.
        space: What may change.
        options: Of the search.
        answers: What is known about the query; takes what is found out, but no estimates.
        session: Used instead of a new session of the model.
    """
    rows: list[int] = space.rows.tolist()
    cheap = None if options.across else open_estimates(model, query, space.events)
    if cheap is None:
        return run_search(model, query, space, options, answers, session)
    exactly = space.session(model, query) if session is None else session
    staged = TwoStageSession(exactly, space.in_units(cheap))
    estimated = run_search(model, query, space, options, session=staged)
    found = estimated.result
    if not found.factual:
        with until(estimated.deadline):
            found = _without_needless_events(found, staged, options.reported)
    exact = _exactly(found, staged, rows)
    oracle = Oracle(model, query, answers=dict(exact.evaluated), session=staged.exact)
    return replace(estimated, oracle=oracle, result=exact, evaluations=len(found.evaluated))


class TwoStageSession:
    """A session that estimates, and evaluates exactly wherever an estimate says that the prediction flips.

    An estimate is the exact score with nothing changed, moved by as much as the cheap session moves. So a
    counterfactual that the cheap session takes for harmless can be missed; a harmless change is never taken for a
    counterfactual.
    """

    def __init__(self, exact: Session, cheap: Session) -> None:
        self.exact, self.cheap = exact, cheap
        self.known: dict[Change, float] = {}  # exact scores

    def logits(self, changes: Sequence[Change]) -> FloatArray:
        """One logit for each change, some of them estimates; `known` has the others. [B]"""
        if NOTHING not in self.known:
            self.evaluate([NOTHING])
        original = self.known[NOTHING]
        unknown = [change for change in dict.fromkeys(changes) if change not in self.known]
        estimates: dict[Change, float] = {}
        if unknown:
            before, *after = as_floats(self.cheap.logits([NOTHING, *unknown]))
            moved = zip(unknown, after, strict=True)
            estimates = {change: original + logit - before for change, logit in moved}
            self.evaluate([change for change, logit in estimates.items() if flips(original, logit)])
        return np.array([self.known.get(change, estimates.get(change, 0.0)) for change in changes], dtype=np.float64)

    def evaluate(self, changes: list[Change]) -> None:
        """Have the exact scores of these changes known."""
        if changes:
            self.known.update(zip(changes, as_floats(self.exact.logits(changes)), strict=True))


def _without_needless_events(found: SearchResult, session: TwoStageSession, count: int) -> SearchResult:
    """Evaluate exactly whether any event of the reported counterfactuals can be left out, until none can."""
    tested: set[Change] = set()
    with suppress(BudgetError):
        while True:
            smaller = {change - {row} for change in diverse_counterfactuals(found, count) for row in change}
            if smaller <= tested:
                break
            tested |= smaller
            session.evaluate(sorted(smaller - session.known.keys(), key=sorted))
            evaluated = dict(found.evaluated) | {change: round(session.known[change], DECIMALS) for change in smaller}
            flipping = flipping_sets(evaluated)
            rows = found.rows if len(found.rows) <= len(flipping[0][0]) else tuple(sorted(flipping[0][0]))
            found = replace(found, rows=rows, counterfactuals=flipping, evaluated=tuple(evaluated.items()))
    return found


def _exactly(found: SearchResult, session: TwoStageSession, rows: list[int]) -> SearchResult:
    """What a search by estimates found, without the estimates: nothing is shown or proven by them."""
    exact = {change: round(session.known[change], DECIMALS) for change, _ in found.evaluated if change in session.known}
    proven = lower_bound(exact, rows, dict(flipping_sets(exact)))
    estimated = len(found.evaluated) - len(exact)
    return replace(found, evaluated=tuple(exact.items()), proven=proven, estimated=estimated)
