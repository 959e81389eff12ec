"""All checks, on one model."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator, Sequence

import numpy as np

from cody.errors import CallError
from cody.graph import Query, TemporalGraph, check_queries
from cody.models.checks import offers, rules
from cody.models.checks.check import Check, CheckResult, Report, run
from cody.models.checks.trial import QUICK_QUERIES, Trial, TrialQuestion, pick_changes, pick_queries
from cody.models.contract import Model, graph_of
from cody.utils.deadline import check_seconds

CHECKS: list[Check] = sorted([*rules.CHECKS, *offers.CHECKS, *rules.LIMITS], key=lambda check: check.at_the_end)


def check_model(
    model: Model,
    graph: TemporalGraph,
    *,
    queries: Sequence[Query] | None = None,
    reference: Model | None = None,
    tolerance: float = 1e-4,
    seed: int = 0,
    quick: bool = False,
    seconds: float | None = None,
    watch: Callable[[CheckResult], None] | None = None,
) -> Report:
    """A report of which rules of `Model` a model breaks, from hundreds of calls.

    A check that *failed* found something that makes explanations wrong or impossible; its result names the likely
    cause. One that is *noted* found something that only limits the use of the model (two threads cannot use it at once,
    it rejects numpy integers) or is probably unintended (it ignores the history). A broken model gives a failed
    result, never an exception; `raise_if_failed()` of the result raises one.

    Args:
        model: The model to check.
        graph: The log that it was made for.
        queries: Links to score. By default a handful: the first and the last event and some between.
        reference: A model known to be right, whose answers are compared.
        tolerance: Up to which difference two logits count as equal: the last bits of a matrix product depend on its
            shape.
        seed: For the random sets of changes.
        quick: For slow models: the most informative checks with two queries (the first two of `queries`), in at most
            50 calls of at most 8 sets each; 85 calls if the model offers all that a model may offer, and 12 more if
            all answers lie between 0 and 1.
        seconds: Time limit. The remaining checks are skipped; a call that has begun is waited for, unless the model
            checks the deadline (`cody.utils.deadline`).
        watch: Called with each result as soon as it is known.

    Returns:
        The report; `print` shows each check.
    """
    if not tolerance >= 0:
        raise CallError(f"tolerance must be 0 or more, not {tolerance}")
    deadline = math.inf if seconds is None else time.monotonic() + check_seconds(seconds)
    if not isinstance(graph, TemporalGraph):
        raise CallError(f"the second argument is a graph, as returned by cody.load, not {str(graph)[:60]!r}")
    known = graph_of(model)
    if known is not None and known.identity != graph.identity:
        raise CallError(f"the model was made for the graph {known.identity}, but this is {graph.identity}")
    rng = np.random.default_rng(seed)
    questions = _questions(graph, queries, rng, quick=quick)
    trial = Trial(model, graph, questions, reference, tolerance, rng, quick, deadline)
    outcomes: list[CheckResult] = []
    for outcome in _outcomes(trial):
        outcomes.append(outcome)
        if watch is not None:
            watch(outcome)
    return Report(tuple(outcomes))


def _questions(
    graph: TemporalGraph, queries: Sequence[Query] | None, rng: np.random.Generator, *, quick: bool
) -> list[TrialQuestion]:
    chosen = pick_queries(graph, rng, quick=quick) if queries is None else list(queries)
    if not chosen:
        raise CallError("queries is empty: pass at least one, or None to have some picked")
    check_queries(graph, chosen)
    some = chosen[: QUICK_QUERIES if quick else None]
    return [TrialQuestion(query, pick_changes(graph, query, rng, quick=quick)) for query in some]


def _outcomes(trial: Trial) -> Iterator[CheckResult]:
    """The results of the checks, one after the other, and why some were not run."""
    chosen = [check for check in CHECKS if check.quick or not trial.quick]
    for place, check in enumerate(chosen, start=1):
        outcome = run(check, trial)
        yield outcome
        if check.vital and outcome.status == "failed":
            yield _rest(chosen[place:], f"not run, since {check.name} failed: fix that first")
            return
        if place < len(chosen) and time.monotonic() > trial.deadline:
            yield _rest(chosen[place:], f"not run, since time ran out: {_names(chosen[place:])}")
            return
    if len(chosen) < len(CHECKS):
        left_out = [check for check in CHECKS if check not in chosen]
        yield _rest(left_out, f"not part of the quick form: {_names(left_out)}")


def _rest(checks: Sequence[Check], why: str) -> CheckResult:
    return CheckResult("the rest", f"{len(checks)} more checks", "skipped", why)


def _names(checks: Sequence[Check]) -> str:
    return ", ".join(check.name for check in checks)
