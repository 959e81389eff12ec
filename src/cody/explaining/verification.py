"""What the reference implementation says about each claim, before it is reported.

A counterfactual is reported only if the reference confirms it: the replay that defines the model's answers, or, where a
model has none, the model itself, called with that change alone.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from cody.errors import BudgetError, CallError, ModelError
from cody.explaining.explanation import Counterfactual, Elsewhere, Event, Explanation, Verification, WholeUnit
from cody.graph import Query, TemporalGraph
from cody.graph.edits import ADDED, ALTERED, MOVED, REMOVED, Add, Alter, Edit, Move
from cody.models import contract
from cody.models.contract import DECIMALS, NOTHING, Change, Model, check_belongs, identity_of, model_on
from cody.models.decided import decide
from cody.models.margins import flips
from cody.search import diverse_counterfactuals
from cody.search.oracle import Oracle
from cody.search.run import SearchRun
from cody.search.space import nearly_a_unit
from cody.utils.deadline import check_deadline
from cody.utils.words import is_date

CONTRADICTION = 1e-3  # rounding moves a logit by far less
CORRECTED = re.compile(r" \(-?[\d.]+, which counts; the search had -?[\d.]+\)$")  # where the two differ
MANY_ANSWERS, OTHER_LINKS = 20, 5  # all between 0 and 1, of that many links: hardly by chance


class VerifiedAnswer(NamedTuple):
    """The answer of a search with what the reference says, and the alternatives that the reference confirms."""

    logits: tuple[float | None, ...]  # after 0, 1, … all edits; None: there was no time
    verification: Verification | None  # None: the answer claims no flip, or there was no time
    without_all: float | None  # the logit with all candidates changed; None: verified, or no time
    alternatives: tuple[Counterfactual, ...]
    literal: float | None = None  # the logit without the events of the answer alone, where others go along by a rule
    whole: WholeUnit | None = None  # the unit that the answer nearly is


def verify(run: SearchRun, query: Query, *, count: int, full: bool) -> VerifiedAnswer:
    """Verify the answer of a search and its alternatives, as far as there is time.

    Args:
        run: The search.
        query: The link.
        count: Number of counterfactuals to report, the answer included.
        full: Replay all events, not only those since the oldest changed one.
    """
    rows, space = run.result.rows, run.space
    logits = _in_time(run.oracle, [frozenset(rows[:length]) for length in range(len(rows) + 1)])
    verification = None
    if logits[0] is not None and logits[-1] is not None and flips(logits[0], logits[-1]):
        verification = verify_change(run.model, query, space.change(rows), (logits[0], logits[-1]), full)
    if verification is None:
        every = [frozenset(space.rows.tolist())]
        (without_all,) = _in_time(run.oracle, every) if run.oracle.is_possible(every[0]) else (None,)
        return VerifiedAnswer(logits, None, without_all, ())
    others = _verify_alternatives(run, query, verification.original, count, full)
    logits = _as_verified(logits, verification)
    literal, whole = _literally(run, query, full), _whole_unit(run, query, verification, full)
    return VerifiedAnswer(logits, verification, None, others, literal, whole)


def _in_time(oracle: Oracle, changes: list[Change]) -> tuple[float | None, ...]:
    """The logits that are known or can be computed in time."""
    with suppress(BudgetError):
        oracle.look_up(changes)
    return tuple(oracle.remembered(change) for change in changes)


def verify_change(
    model: Model, query: Query, change: Change, claimed: tuple[float, float], full: bool, original: float | None = None
) -> Verification | None:
    """What the reference says about a change that is claimed to move a logit. None if there is no time left for it.

    Args:
        model: The model.
        query: The link.
        change: The edited rows.
        claimed: The logits with nothing changed and with the change.
        full: Replay all events, not only those since the oldest changed one.
        original: The reference's logit with nothing changed, where it is known.
    """
    try:
        before = reference_logit(model, query, frozenset(), full=full)[0] if original is None else original
        after, by = reference_logit(model, query, change, full=full)
    except BudgetError:
        return None
    for searched, verified in zip(claimed, (before, after), strict=True):
        if differ(searched, verified):
            about = f"about {query} and the change {sorted(change)}: {searched} and, {by}, {verified:.5f}"
            _check_difference(model, about, prediction_flips=flips(claimed[0], before))
            by += f" ({verified:.5f}, which counts; the search had {searched:.5f})"
    return Verification(by, round(before, 5), round(after, 5))


def reference_logit(model: Model, query: Query, change: Change, *, full: bool) -> tuple[float, str]:
    """The logit of a change by the reference, and how it was computed, in words.

    Args:
        model: The model.
        query: The link.
        change: The edited rows.
        full: Replay all events, not only those since the oldest changed one.
    """
    reference, by = contract.verifier_for(model, query, change, full=full)
    return contract.checked_logits(query, [change], reference.logits(query, [change]))[0], by


def is_a_verification(by: str, before: int) -> bool:
    """Whether these are words for how an answer was verified, about a link with that many events before it."""
    by = CORRECTED.sub("", by)
    row = by.rpartition(" ")[2]
    is_replay = row.isdecimal() and int(row) <= before and by == contract.replayed_from(int(row))
    return is_replay or by == contract.SCORED_AGAIN


def differ(searched: float, verified: float) -> bool:
    """Whether two computations of a logit differ by more than rounding."""
    return abs(searched - verified) > CONTRADICTION * max(1.0, abs(verified))


def _check_difference(model: Model, about: str, *, prediction_flips: bool) -> None:
    """Reject logits that differ, unless there is a reference that says which of them is right."""
    if not contract.has_reference(model):
        raise ModelError(f"the model contradicts itself {about}; cody.models.check_model shows which rule it breaks")
    if prediction_flips:
        disagree = f"the fast computation and the replay that defines an answer disagree {about}"
        fault = "This is a fault of the fast computation, not of your modules: please report it"
        raise ModelError(f"{disagree}; so it is not certain what the prediction is. {fault}")


def _as_verified(logits: tuple[float | None, ...], verification: Verification) -> tuple[float | None, ...]:
    """The logits along the answer; where the reference has others, these."""
    if not flips(verification.original, verification.without):
        return logits
    ends = (logits[0], verification.original), (logits[-1], verification.without)
    first, last = (right if known is None or differ(known, right) else known for known, right in ends)
    return first, *logits[1:-1], last


def _verify_alternatives(
    run: SearchRun, query: Query, original: float, count: int, full: bool
) -> tuple[Counterfactual, ...]:
    """Counterfactuals besides the answer: as many as there is time to verify."""
    found, logits, others = run.result, dict(run.result.counterfactuals), list[Counterfactual]()
    for change in [] if found.factual else diverse_counterfactuals(found, count)[1:]:
        claimed, events = (original, logits[change]), run.space.change(change)
        verification = verify_change(run.model, query, events, claimed, full, original) if flips(*claimed) else None
        if verification is not None and flips(verification.original, verification.without):
            others.append(Counterfactual(tuple(sorted(change)), verification))
    return tuple(others)


def _literally(run: SearchRun, query: Query, full: bool) -> float | None:
    """The logit without the events of the answer alone; None if nothing goes along with them, or no time is left."""
    units = [run.space.units[row] for row in run.result.rows if row in run.space.units]
    along = frozenset().union(*(unit.dependants.tolist() for unit in units))
    named = frozenset().union(*(unit.rows.tolist() for unit in units))
    if not along - named:
        return None
    change = run.space.change(run.result.rows) - (along - named)
    with suppress(BudgetError):
        return round(reference_logit(run.model, query, change, full=full)[0], DECIMALS)
    return None


def _whole_unit(run: SearchRun, query: Query, known: Verification, full: bool) -> WholeUnit | None:
    """The unit that nearly all events of an answer belong to, and what is decided without all of it."""
    if run.space.units or run.result.factual:
        return None
    found = nearly_a_unit(run.space.graph, query, run.result.rows)
    if found is None:
        return None
    (unit, shared), logit, by = found, known.without, known.by
    rows = tuple(unit.rows.tolist())
    if not shared == len(rows) == len(run.result.rows):
        try:
            logit, by = reference_logit(run.model, query, frozenset(rows), full=full)
        except BudgetError:
            return None
    return WholeUnit(unit.name, rows, shared, round(logit, DECIMALS), by)


def gives_probabilities(model: Model, graph: TemporalGraph, logits: list[float]) -> bool:
    """Whether a model seems to answer with probabilities: then each of them means "link", and none flips another.

    Logits may lie between 0 and 1 by chance, so if those of a search do, the model scores other links: a few, or as
    many as are needed. Only 0 and 1 are labels, and decide rightly. Our own networks are known to give logits.

    Args:
        model: Any model.
        graph: Its log.
        logits: What it answered about one link; those of other links are added.
    """
    if contract.gives_logits(model):
        return False
    others = max(OTHER_LINKS, min(MANY_ANSWERS - len(logits), graph.num_events))
    try:
        for row in np.linspace(graph.num_events - 1, 0, others, dtype=int).tolist():
            if not contract.looks_like_probabilities(logits):
                return False
            check_deadline()
            logits += contract.as_floats(model.logits(graph.query(row), [frozenset()]))
    except Exception:  # no time left, or a model that answers about this link only
        return False
    within = any(0 < logit < 1 for logit in logits)
    return within and len(logits) >= MANY_ANSWERS and contract.looks_like_probabilities(logits)


# Whether a counterfactual survives: in other models, such as retrained ones, and under a little noise.

UNRELATED = ("(unrelated)", "(unrelated, too)")  # names of two nodes that nobody knows
MINUTE = 60.0  # seconds
PART = 1e-3  # of the span of a log whose times are not dates


def with_stability(
    why: Explanation, model: Model, graph: TemporalGraph, also: Mapping[str, Model], *, noise: bool = False
) -> Explanation:
    """The explanation with what other models say about its counterfactuals, and this one under noise.

    Args:
        why: The explanation.
        model: The model that it explains.
        graph: The log of events.
        also: Other models of the same log, by name.
        noise: Whether to test this model a minute later, and with an unrelated event added.
    """
    check_models(also, graph)
    if graph.imagined is not None:
        raise CallError("other models and noise need a log without imagined rows")
    changes = [NOTHING, *counterfactuals_of(why)]
    if len(changes) == 1:
        return why
    longer = with_imagined(graph, why)

    def decided(
        name: str, model: Model, log: TemporalGraph = longer, query: Query = why.query, always: Change = NOTHING
    ) -> Elsewhere:
        """What a model decides with nothing changed, and with each counterfactual, by its reference implementation."""
        moved = decide(model if log.imagined is None else model_on(model, log), log, query, why.decision)
        margins = [reference_logit(moved, query, change | always, full=False)[0] for change in changes]
        original, *without = (round(margin, DECIMALS) for margin in margins)
        return Elsewhere(name, "", original, tuple(without))

    found = [decided(name, other)._replace(model=identity_of(other)) for name, other in also.items()]
    if noise:  # the link a little later, and an added event that has nothing to do with it
        query, dated = why.query, is_date(why.query.time)
        delay = MINUTE if dated else PART * float(graph.time[graph.num_events - 1] - graph.time[0])
        name = "a minute later" if dated else f"{delay:.3g} later"
        at = float(graph.time[query.before - 1]) if query.before else query.time
        strange = graph.imagine([*edits_of(why.candidates), Add(*UNRELATED, at)], new_nodes=UNRELATED, query=query)
        row = frozenset({strange.num_rows - 1})
        found.append(decided(name, model, query=query._replace(time=query.time + delay)))
        found.append(decided("with an unrelated event", model, strange, always=row))
    return replace(why, elsewhere=tuple(found))


def check_models(also: Mapping[str, Model], graph: TemporalGraph) -> None:
    """Reject what is no model, or a model of another log.

    Args:
        also: Models by name.
        graph: The log of events.
    """
    for name, model in also.items():
        check_belongs(model, graph, name)


def counterfactuals_of(why: Explanation) -> list[Change]:
    """The verified counterfactuals of an explanation: the answer, then its alternatives."""
    if not why.is_counterfactual:
        return []
    return [why.change, *(why.change_of(other.rows) for other in why.alternatives)]


def edits_of(candidates: Sequence[Event]) -> list[Edit]:
    """The imagined events among the candidates, in the order in which their rows are numbered.

    Args:
        candidates: Of an explanation.
    """
    imagined = sorted((event for event in candidates if event.edit != REMOVED), key=lambda event: event.row)
    return [edit_of(event) for event in imagined]


def with_imagined(graph: TemporalGraph, why: Explanation) -> TemporalGraph:
    """A log with the imagined events among the candidates of an explanation; itself where there are none."""
    edits = edits_of(why.candidates)
    return graph.imagine(edits, query=why.query) if edits else graph


def edit_of(event: Event) -> Edit:
    """The edit that an imagined event is."""
    if event.edit == ADDED:
        return Add(event.src, event.dst, event.time, event.features)
    if event.edit == MOVED and event.replaces is not None:
        return Move(event.replaces, event.time)
    if event.edit == ALTERED and event.replaces is not None and event.features is not None:
        return Alter(event.replaces, event.features)
    raise CallError("altered features are not part of a document, so they cannot be replayed")
