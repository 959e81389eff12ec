"""Findings that only limit the use of a model or are probably unintended: notes, since explanations are right."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from functools import partial
from typing import Any

import numpy as np

from cody.errors import first_line
from cody.graph import Query, whole_number
from cody.models.checks.check import Check, add_to
from cody.models.checks.trial import (
    UNCHANGED,
    Failed,
    Trial,
    TrialQuestion,
    TwoAnswers,
    identity_or_error,
    in_two_threads,
)
from cody.models.contract import HOPS, Change

CHECKS: list[Check] = []
_limit = add_to(CHECKS, only_noted=True)


@_limit(
    "removing the whole history changes some logit",
    skipped="no query has a history",
    note_if_equal="removing the whole history changes no logit of any query: the model ignores its history",
)
def _past_matters(trial: Trial, query: Query, changes: list[Change]) -> Iterable[TwoAnswers]:
    if query.before:
        past: Change = frozenset(range(query.before))
        one, other = trial.ask(query, [UNCHANGED, past])
        yield TwoAnswers(query, [past], np.array([one]), np.array([other]))


@_limit(
    "scoring much later changes some logit",
    note_if_equal="scoring later by twice the span of the graph changes no logit of any query: the model ignores time",
    quick=False,
)
def _time_matters(trial: Trial, query: Query, changes: list[Change]) -> Iterable[TwoAnswers]:
    graph = trial.graph
    span = float(graph.time[graph.num_events - 1] - graph.time[0])
    later = trial.ask(query._replace(time=query.time + 2.0 * span + 1.0), [UNCHANGED])
    yield TwoAnswers(query, [UNCHANGED], trial.ask(query, [UNCHANGED]), later)


@_limit(
    "links that did not happen are scored too",
    cause="the event is looked up in the graph: take nodes and time from the query; until then, only events that "
    "happened can be explained",
    quick=False,
)
def _hypothetical(trial: Trial, query: Query, changes: list[Change]) -> None:
    graph = trial.graph
    others = np.setdiff1d(graph.dst, [query.src, query.dst])
    with _usual_cause():
        if others.size:
            trial.ask(query._replace(dst=int(trial.rng.choice(others))), changes)
        time = max(query.time, float(graph.time[graph.num_events - 1])) + 1.0
        trial.ask(query._replace(time=time, before=graph.num_events), changes)


@_limit(
    "numpy integers, sets and tuples mean the same",
    "a row is a row, whatever its type",
    cause="rows are looked up by their type or changes used as keys: begin logits() with "
    "changes = cody.models.contract.check_changes(graph, changes), which converts them",
    quick=False,
)
def _argument_types(trial: Trial, query: Query, changes: list[Change]) -> Iterable[TwoAnswers]:
    def ask(plain: list[Change]) -> Any:
        odd: Any = tuple({np.int64(row) for row in change} for change in plain)
        numbers: Any = {"src": np.int64(query.src), "dst": np.int32(query.dst), "before": np.int64(query.before)}
        return trial.model.logits(query._replace(**numbers), odd)

    expected = trial.ask(query, changes)
    with _usual_cause("with numpy integers in sets, "):
        answers = trial.ask(query, changes, ask)
    yield TwoAnswers(query, changes, expected, answers, "with plain integers", "with numpy integers in sets")


@_limit(
    "answers come as a numpy array of floats",
    cause="the answers are used, but other code may need arrays: return np.asarray(scores, dtype=float)",
    once=True,
    at_the_end=True,
)
def _form(trial: Trial) -> None:
    if trial.odd_form:
        raise Failed(f"the model returned {trial.odd_form}")


@_limit(
    "an empty list of changes gives an empty array",
    cause="stacking or concatenating nothing fails: return np.empty(0) for no changes",
    quick=False,
)
def _empty_batch(trial: Trial, query: Query, changes: list[Change]) -> None:
    with _usual_cause():
        trial.ask(query, [])


@_limit("an event that does not exist is an error", quick=False)
def _unknown_rows(trial: Trial, query: Query, changes: list[Change]) -> None:
    for row in (-1, trial.graph.num_rows):
        trial.check_time()
        try:
            trial.model.logits(query, [frozenset({row})])
        except Exception:
            continue
        raise Failed(
            f"{query} with the change {{{row}}} raised no error, though rows go from 0 to {trial.graph.num_rows - 1}",
            "rows are not checked, so a mistake of the caller goes unnoticed: begin logits() with "
            "cody.models.contract.check_changes(graph, changes)",
        )


@_limit(
    "an answer is an array that no other call uses",
    "each call should return a new array",
    cause="a buffer or an entry of a cache is returned: return a copy; until then, copy the answers you keep",
    skipped="the answers are not arrays of floats",
    quick=False,
)
def _own_array(trial: Trial, query: Query, changes: list[Change]) -> Iterable[TwoAnswers]:
    returned: list[Any] = []

    def ask(changes: list[Change]) -> Any:
        returned.append(trial.model.logits(query, changes))
        return returned[-1]

    expected = trial.ask(query, changes, ask)
    if isinstance(returned[0], np.ndarray) and returned[0].dtype.kind == "f":
        trial.ask(query, changes[::-1])
        yield TwoAnswers(query, changes, expected, returned[0], "", "in the same array after the next call")
        with suppress(ValueError):  # a read-only array is safe
            returned[0][...] += 1
        again = trial.ask(query, changes)
        with suppress(ValueError):
            returned[0][...] = expected  # restored, in case it is in a cache
        yield TwoAnswers(
            query, changes, expected, again, "", "after the caller wrote into the array of the last answer"
        )


@_limit(
    "two threads at once get the usual answers",
    "only one thread at a time may use the model",
    cause="a call stores intermediate results in the model: use local variables, or take a lock",
    quick=False,
)
def _threads(trial: Trial, query: Query, changes: list[Change]) -> Iterable[TwoAnswers]:
    questions = [TrialQuestion(query, changes), trial.other(query)]
    expected = [trial.ask(*question) for question in questions]
    with _usual_cause():
        answers = in_two_threads([partial(trial.ask, *question) for question in questions])
    for question, one, answer in zip(questions, expected, answers, strict=True):
        yield TwoAnswers(*question, one, answer, "in one thread", "while another thread used the model too")


@_limit(
    "the model has a constant identity",
    cause="identity is a string that changes whenever the answers may, for example "
    "cody.models.contract.fingerprint(*weights); without it, results of different models cannot be distinguished",
    once=True,
    at_the_end=True,
)
def _identity(trial: Trial) -> None:
    now = identity_or_error(trial.model)
    if not isinstance(now, str) or not now:
        raise Failed(f"identity must be text, not {now!r:.60}")
    if now != trial.identity:
        raise Failed(f"identity was {trial.identity!r:.60} at first, and is {now!r:.60} now")
    if re.search("0x[0-9a-f]{6}", now):
        raise Failed(f"identity is {now!r:.80}: it contains a memory address, which differs in each run")


@_limit(
    "the model has `hops`, how far it looks",
    cause=f"hops is the number of its layers or of the hops that it samples; without it, {HOPS} are assumed",
    once=True,
)
def _hops(trial: Trial) -> None:
    try:
        hops = whole_number("hops", trial.model.hops)
    except Exception as error:
        raise Failed(f"model.hops raised {type(error).__name__}: {first_line(error)}") from None
    if hops < 1:
        raise Failed(f"hops must be at least 1, not {hops}")


@contextmanager
def _usual_cause(words: str = "") -> Iterator[None]:
    """Add the usual cause of the check to failures."""
    try:
        yield
    except Failed as failure:
        raise Failed(f"{words}{failure}") from None
