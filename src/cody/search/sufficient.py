"""The fewest candidates on which a decision rests: a counterfactual search on the complements of sets.

Begin with all candidates removed, and restore as few as possible so that the decision is what it was. That is the
question of a counterfactual search, from above: its change is a set of *kept* candidates, and its "nothing
changed" is a history without any. So every search can be used, and so can the proofs. The kept set is the smallest
sufficient past; all other candidates together are the largest set that could be missing.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np

from cody.errors import BudgetError
from cody.graph import FloatArray, IntArray, Query
from cody.models.contract import NOTHING, Change, Model, Session, logit_of_only
from cody.models.margins import flips
from cody.search.further import prove
from cody.search.oracle import Oracle
from cody.search.result import EXHAUSTED, Search, SearchResult, result
from cody.search.scout import scout
from cody.utils.signatures import readable_help


class KeptCandidates:
    """A session about sets of kept candidates: all other candidates are removed, other events stay.

    Args:
        oracle: Scores the removals, and counts them.
        candidates: All of them.
    """

    def __init__(self, oracle: Oracle, candidates: Change) -> None:
        self.oracle, self.candidates = oracle, candidates

    def logits(self, changes: Sequence[Change]) -> FloatArray:
        """One logit for each kept set. [B]"""
        return np.array(self.oracle.ask([self.candidates - kept for kept in changes]))


class OnlyKept:
    """A session about sets of kept candidates with nothing else in the history, candidate or not.

    Args:
        model: The model.
        query: The link.
        change: Gives the events that a set of candidates stands for.
    """

    def __init__(self, model: Model, query: Query, change: Callable[[Change], Change] = frozenset) -> None:
        self.model, self.query, self.change = model, query, change

    def logits(self, changes: Sequence[Change]) -> FloatArray:
        """One logit for each kept set. [B]"""
        return np.array([logit_of_only(self.model, self.query, self.change(kept)) for kept in changes])


class Sufficient(NamedTuple):
    """The smallest set of candidates that was found to suffice for the decision."""

    kept: tuple[int, ...] | None  # None: no set was found; not even all candidates need suffice with nothing else
    logit: float | None  # with these kept
    proven: int  # no set of fewer candidates suffices
    evaluations: int
    ended: str  # why the search ended: a word of cody.search.result

    @property
    def is_smallest(self) -> bool:
        """Whether it is proven that no smaller set suffices."""
        return self.kept is not None and self.proven >= len(self.kept)


@readable_help
def smallest_sufficient(
    oracle: Oracle, session: Session, ranking: IntArray, *, search: Search = scout, smaller: int = 1
) -> Sufficient:
    """The smallest set of kept candidates with which the decision stands, as far as a search finds it.

    Args:
        oracle: Scores changes of the link; its budgets hold for the search.
        session: About sets of kept candidates: `KeptCandidates` or `OnlyKept`.
        ranking: The candidates, the most promising first.
        search: A counterfactual search.
        smaller: Test all kept sets of fewer than this number of candidates.
    """
    (original,) = oracle.look_up([NOTHING])
    left = None if oracle.evaluations is None else max(1, oracle.evaluations - oracle.spent)
    mirrored = Oracle(oracle.model, oracle.query, session=session, groups=oracle.groups, evaluations=left)
    try:
        (origin,) = mirrored.ask([NOTHING])
        if not flips(original, origin):
            return Sufficient((), origin, 0, 1, EXHAUSTED)
        found = search(mirrored, ranking)
        if smaller > found.proven:
            found = prove(mirrored, ranking, found, smaller)
    except BudgetError as spent:
        return Sufficient(None, None, 0, len(mirrored.evaluated), str(spent))
    evaluated = len(mirrored.evaluated)
    if not found.counterfactuals:
        return Sufficient(None, None, found.proven, evaluated, found.ended)
    kept, logit = found.counterfactuals[0]
    order = ranking.tolist()
    return Sufficient(tuple(row for row in order if row in kept), logit, found.proven, evaluated, found.ended)


def sufficient(oracle: Oracle, ranking: IntArray) -> SearchResult:
    """The fewest candidates on which the decision already rests, with nothing else in the history; if none, all.

    A factual explainer: its answer suffices for the decision by construction, whether or not removing it flips the
    decision. Scoring a history of a few events is none of the oracle's evaluations: it counts them as `besides`.

    Args:
        oracle: Of the link that is explained.
        ranking: The candidates, the most promising first.
    """
    found = smallest_sufficient(oracle, OnlyKept(oracle.model, oracle.query), ranking)
    oracle.besides += found.evaluations
    kept = tuple(ranking.tolist()) if found.kept is None else found.kept
    return result(oracle, ranking, kept, found.evaluations, found.ended, factual=True)
