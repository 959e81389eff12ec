"""What the reference implementation says about each claim, before it is reported.

A counterfactual is reported only if the reference confirms it: the replay that defines the model's answers, or, where a
model has none, the model itself, called with that change alone.
"""

from __future__ import annotations

from contextlib import suppress
from typing import NamedTuple

import numpy as np

from cody.errors import BudgetError, ModelError
from cody.explain.explanation import Counterfactual, Verification
from cody.graph import Query, TemporalGraph
from cody.models.contract import (
    Change,
    GivesLogits,
    Model,
    OffersReference,
    as_floats,
    checked_logits,
    looks_like_probabilities,
    verifier_for,
)
from cody.models.decision import flips
from cody.search import SearchResult, diverse_counterfactuals
from cody.search.oracle import Oracle
from cody.search.run import SearchRun
from cody.utils.deadline import check_deadline

CONTRADICTION = 1e-3  # rounding moves a logit by far less
MANY_ANSWERS, OTHER_LINKS = 20, 5  # all between 0 and 1, of that many links: hardly by chance


class VerifiedAnswer(NamedTuple):
    """The answer of a search with what the reference says, and the alternatives that the reference confirms."""

    logits: tuple[float | None, ...]  # after 0, 1, … all edits; None: there was no time
    verification: Verification | None  # None: the answer claims no flip, or there was no time
    without_all: float | None  # the logit with all candidates changed; None: verified, or no time
    alternatives: tuple[Counterfactual, ...]


def verify(run: SearchRun, query: Query, *, count: int, full: bool) -> VerifiedAnswer:
    """Verify the answer of a search and its alternatives, as far as there is time.

    Args:
        run: The search.
        query: The link.
        count: Number of counterfactuals to report, the answer included.
        full: Replay all events, not only those since the oldest changed one.
    """
    rows = run.result.rows
    logits = _in_time(run.oracle, [frozenset(rows[:length]) for length in range(len(rows) + 1)])
    verification = None
    if logits[0] is not None and logits[-1] is not None and flips(logits[0], logits[-1]):
        verification = _verify_change(run.model, query, frozenset(rows), (logits[0], logits[-1]), full)
    if verification is None:
        (without_all,) = _in_time(run.oracle, [frozenset(run.space.rows.tolist())])
        return VerifiedAnswer(logits, None, without_all, ())
    others = _verify_alternatives(run.model, query, run.result, verification.original, count, full)
    return VerifiedAnswer(_as_verified(logits, verification), verification, None, others)


def _in_time(oracle: Oracle, changes: list[Change]) -> tuple[float | None, ...]:
    """The logits that are known or can be computed in time."""
    with suppress(BudgetError):
        oracle.look_up(changes)
    return tuple(oracle.remembered(change) for change in changes)


def _verify_change(
    model: Model, query: Query, change: Change, claimed: tuple[float, float], full: bool, original: float | None = None
) -> Verification | None:
    """What the reference says about a claimed flip, from one logit to another. None if there is no time left for it.

    `original` is the reference's logit with nothing changed, where it is known.
    """
    try:
        before = _reference_logit(model, query, frozenset(), full)[0] if original is None else original
        after, by = _reference_logit(model, query, change, full)
    except BudgetError:
        return None
    for searched, verified in zip(claimed, (before, after), strict=True):
        if _differ(searched, verified):
            about = f"about {query} and the change {sorted(change)}: {searched} and, {by}, {verified:.5f}"
            _check_difference(model, about, prediction_flips=flips(claimed[0], before))
            by += f" ({verified:.5f}, which counts; the search had {searched:.5f})"
    return Verification(by, round(before, 5), round(after, 5))


def _reference_logit(model: Model, query: Query, change: Change, full: bool) -> tuple[float, str]:
    """The logit of a change by the reference, and how it was computed, in words."""
    reference, by = verifier_for(model, query, change, full=full)
    return checked_logits(query, [change], reference.logits(query, [change]))[0], by


def _differ(searched: float, verified: float) -> bool:
    """Whether two computations of a logit differ by more than rounding."""
    return abs(searched - verified) > CONTRADICTION * max(1.0, abs(verified))


def _check_difference(model: Model, about: str, *, prediction_flips: bool) -> None:
    """Reject logits that differ, unless there is a reference that says which of them is right."""
    if not isinstance(model, OffersReference):
        raise ModelError(f"the model contradicts itself {about}; cody.models.check_model shows which rule it breaks")
    if prediction_flips:
        raise ModelError(
            f"the fast computation and the replay that defines an answer disagree {about}; so it is not certain what "
            "the prediction is. This is a fault of the fast computation, not of your modules: please report it"
        )


def _as_verified(logits: tuple[float | None, ...], verification: Verification) -> tuple[float | None, ...]:
    """The logits along the answer; where the reference has others, these."""
    if not flips(verification.original, verification.without):
        return logits
    ends = (logits[0], verification.original), (logits[-1], verification.without)
    first, last = (right if known is None or _differ(known, right) else known for known, right in ends)
    return first, *logits[1:-1], last


def _verify_alternatives(
    model: Model, query: Query, found: SearchResult, original: float, count: int, full: bool
) -> tuple[Counterfactual, ...]:
    """Counterfactuals besides the answer: as many as there is time to verify."""
    logits = dict(found.counterfactuals)
    others: list[Counterfactual] = []
    for change in [] if found.factual else diverse_counterfactuals(found, count)[1:]:
        claimed = original, logits[change]
        verification = _verify_change(model, query, change, claimed, full, original) if flips(*claimed) else None
        if verification is not None and flips(verification.original, verification.without):
            others.append(Counterfactual(tuple(sorted(change)), verification))
    return tuple(others)


def gives_probabilities(model: Model, graph: TemporalGraph, logits: list[float]) -> bool:
    """Whether a model seems to answer with probabilities: then each of them means "link", and none flips another.

    Logits may lie between 0 and 1 by chance, so if those of a search do, the model scores other links: a few, or as
    many as are needed. Only 0 and 1 are labels, and decide rightly. Our own networks are known to give logits.

    Args:
        model: Any model.
        graph: Its log.
        logits: What it answered about one link; those of other links are added.
    """
    if isinstance(model, GivesLogits) and model.gives_logits:
        return False
    others = max(OTHER_LINKS, min(MANY_ANSWERS - len(logits), graph.num_events))
    try:
        for row in np.linspace(graph.num_events - 1, 0, others, dtype=int).tolist():
            if not looks_like_probabilities(logits):
                return False
            check_deadline()
            logits += as_floats(model.logits(graph.query(row), [frozenset()]))
    except Exception:  # no time left, or a model that answers about this link only
        return False
    within = any(0 < logit < 1 for logit in logits)
    return within and len(logits) >= MANY_ANSWERS and looks_like_probabilities(logits)
