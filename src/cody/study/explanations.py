"""Explanations of many links: in this process or in several, and in a file that a later run resumes."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from cody.errors import DataError
from cody.explaining.document import from_text
from cody.explaining.explanation import ADDED, REMOVED, Event, Explanation
from cody.graph import Query, TemporalGraph
from cody.models.contract import Model, identity_of
from cody.models.margins import probability
from cody.study.appending import LineAppender, appending_lines, check_same_run
from cody.study.pool import ATTEMPTS, Opener, run_in_processes
from cody.study.record import NOT_OF_A_LINK, reason_of
from cody.study.request import Request
from cody.utils.words import timestamp

logger = logging.getLogger(__name__)


class Unexplained(NamedTuple):
    """A link that could not be explained."""

    query: Query
    reason: str  # the error, in one line


Answer = Explanation | Unexplained
Explain = Callable[[Sequence[Query]], Iterable[Answer]]


def explain_each(
    model: Model, graph: TemporalGraph, queries: Iterable[Query], request: Request, **beyond: Any
) -> Iterator[Answer]:
    """The explanations of links, each as soon as it is finished. A failure does not stop the others.

    Args:
        model: The model that is explained.
        graph: The log of events.
        queries: The links.
        request: How to explain them.
        beyond: Further arguments of `cody.explain`, as in `Request.explain`.
    """
    for query in queries:
        try:
            yield request.explain(model, graph, query, **beyond)
        except NOT_OF_A_LINK:
            raise
        except Exception as error:
            yield Unexplained(query, reason_of(error))


def explain_in_processes(opener: Opener, workers: int, queries: Sequence[Query], request: Request) -> Iterator[Answer]:
    """The results of `explain_each`, computed in several processes, in any order.

    Args:
        opener: Opens model and graph in each process.
        workers: Number of processes.
        queries: The links.
        request: How to explain them.
    """
    work = partial(explain_each, request=request)
    return run_in_processes(opener, workers, work, queries, message=lambda query: [query], lost=_unexplained)


def _unexplained(queries: Sequence[Query]) -> str:
    shown = ", ".join(f"{query.src} → {query.dst} before row {query.before}" for query in queries[:5])
    return f"{len(queries)} predictions are not explained because their workers died {ATTEMPTS} times: nodes {shown}"


def in_order(queries: Sequence[Query], answers: Iterable[Answer]) -> Iterator[Answer]:
    """The answers in the order of the links, each as soon as those before it are known."""
    waiting: dict[Query, Answer] = {}
    left = iter(queries)
    following = next(left, None)
    for answer in answers:
        waiting[answer.query] = answer
        while following in waiting:
            yield waiting.pop(following)
            following = next(left, None)


class ExplanationProgress(NamedTuple):
    """How far a run has come."""

    finished: int  # explained or not
    total: int
    answer: Answer | None  # the latest; None: before the first one


class ExplanationFile(LineAppender[Explanation]):
    """A file of explanations, one a line, that is open for appending."""

    beginnings = (b'{"schema":"cody/explanation/', b'{"schema": "cody/explanation/')  # the second: of 0.2

    def read_line(self, line: bytes, number: int) -> Explanation:
        return from_text(line)


def read_explanations(path: str | Path) -> Iterator[Explanation]:
    """The explanations in a file, one a line."""
    with Path(path).open("rb") as file:
        for number, line in enumerate(file, start=1):
            try:
                yield from_text(line)
            except DataError as error:
                raise DataError(f"{path}, line {number}: {error}") from None


def explain_into(
    path: str | Path, model: Model, graph: TemporalGraph, queries: Sequence[Query], request: Request, explain: Explain
) -> Iterator[ExplanationProgress]:
    """Append the explanation of each link to a file, unless it has it already. Yields at first and after each link.

    The same call resumes a run that was stopped; with more links it extends the run. A file of other data, another
    model or another request is rejected, and so is a file that another run is writing.

    Args:
        path: The file.
        model: The model that is explained.
        graph: The log of events.
        queries: The links.
        request: How to explain them.
        explain: Explains the missing links: `explain_each`, or the same in several processes.
    """
    with appending_lines(path, ExplanationFile) as file:
        here = {"the model": identity_of(model), "the data": graph.identity} | _flat(request.described(model))
        done: set[Query] = set()
        for number, why in enumerate(file.known(), start=1):
            there = {"the model": why.model, "the data": why.data} | _flat(why.parameters.get("request", {}))
            check_same_run(f"{file.path}, line {number}", there, here)
            done.add(why.query)
        left = [query for query in queries if query not in done]
        finished = len(queries) - len(left)
        logger.info("%s: %d of %d explanations are done", file.path, finished, len(queries))
        yield ExplanationProgress(finished, len(queries), None)
        for answer in explain(left) if left else ():
            if isinstance(answer, Explanation):
                file.write_line(answer.to_json())
            finished += 1
            yield ExplanationProgress(finished, len(queries), answer)


def _flat(given: Any, name: str = "") -> dict[str, Any]:
    """Nested options with their full names."""
    if not isinstance(given, dict):
        return {name: given}
    return {
        full: value
        for key, inner in given.items()
        for full, value in _flat(inner, key if name in ("", "options") else f"{key} of {name}").items()
    }


COLUMNS = (
    *("event", "src", "dst", "time", "logit", "score", "predicted", "verdict", "changes", "what"),
    *("logit_after", "score_after", "minimal", "alternatives", "evaluations", "seconds"),
)


def row_of(why: Explanation) -> dict[str, Any]:
    """An explanation as a row of a table, with these `COLUMNS`. Sets that only came close are not named."""
    named = why.is_counterfactual or why.factual
    after = why.without if named and why.rows else None
    return {
        "event": why.event,
        "src": why.src,
        "dst": why.dst,
        "time": timestamp(why.query.time),
        "logit": round(why.original, 6),
        "score": round(probability(why.original), 6),
        "predicted": why.original > 0,
        "verdict": why.verdict,
        "changes": len(why.rows) if named else None,
        "what": "; ".join(_what(why, step.event) for step in why.steps) if named else None,
        "logit_after": None if after is None else round(after, 6),
        "score_after": None if after is None else round(probability(after), 6),
        "minimal": why.is_minimal,
        "alternatives": len(why.alternatives),
        "evaluations": why.evaluations,
        "seconds": round(why.seconds, 3),
    }


def _what(why: Explanation, event: Event) -> str:
    """An edit in a few words: the name of a unit or the row of an event that is removed, or what else is done."""
    unit = why.unit(event.row)
    if unit is not None and unit.name:
        return unit.name
    if event.edit == REMOVED:
        return f"{event.row}"
    if event.edit == ADDED:
        return f"added {event.src} → {event.dst} at {timestamp(event.time)}"
    return f"{event.replaces} {event.edit}" + ("" if event.time == event.was else f" to {timestamp(event.time)}")
