"""Explained links, and what can be said about an event that might be decisive."""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from cody.errors import CallError
from cody.explain.explanation import ADDED, REMOVED, Event
from cody.explain.pipeline import event_of
from cody.graph import BoolArray, FloatArray, IntArray, Query, TemporalGraph
from cody.graph.neighbourhood import SIZE, candidates
from cody.graph.protected import Protected
from cody.models.contract import until
from cody.search.space import build_space
from cody.study.explainers import EDITS, NEAR
from cody.study.record import REMOVALS, Record

SAME, REVERSE = "the same link before", "the reverse direction"
SOURCE, DESTINATION, FURTHER = (
    "another event of the source",
    "another event of the destination",
    "two or more hops away",
)
RELATIONS = (SAME, REVERSE, SOURCE, DESTINATION, FURTHER)


@dataclass(frozen=True, slots=True)
class ExplainedLink:
    """A link, its candidates, and which of them are decisive: the prediction changes if they are otherwise."""

    record: Record
    query: Query
    candidates: IntArray  # [C] rows, in the order of time; imagined ones are numbered after all events of the log
    decisive: BoolArray  # [C]; all False where no counterfactual was found
    imagined: tuple[Event, ...] = ()  # what could have been added or moved, in the order of these numbers

    @property
    def event(self) -> int:
        return self.record.event

    @property
    def flips(self) -> bool:
        """Whether a counterfactual was found."""
        return bool(self.decisive.any())

    @property
    def size(self) -> int:
        """How many edits it consists of."""
        return int(self.decisive.sum())


def cases(records: Iterable[Record], graph: TemporalGraph) -> list[ExplainedLink]:
    """The records of one explainer as cases. The candidates of each are those that the explainer had."""
    return [_case(record, graph) for record in records]


def _case(record: Record, graph: TemporalGraph) -> ExplainedLink:
    near = {function.__name__: function for function in NEAR.values()}
    chosen = record.options["candidates"]
    query = graph.query(record.event)
    seen = query if record.sees_before is None else until(graph, query, record.sees_before)
    protect = Protected.from_parameters(record.options.get("protect"))
    protect = protect and protect.at(query)
    size = _size(record)
    rows = candidates(graph, seen, chosen["hops"], size, near=near[chosen["near"]], protect=protect)
    named = set(record.rows) if record.is_necessary else set()
    if record.allowed == REMOVALS:
        return ExplainedLink(record, query, rows, np.isin(rows, list(named)))
    rows, imagined = _considered(record, graph, seen, rows, protect)
    if record.is_necessary:
        number = {_without_row(event): event.row for event in reversed(imagined)}
        named |= {number[_without_row(Event(0, **edit))] for edit in record.imagined}
    return ExplainedLink(record, query, rows, np.isin(rows, list(named)), imagined)


def _size(record: Record) -> int:
    """How many candidates were wanted. Where the explainer chose the number, it is that of the candidates it had."""
    size = record.options["candidates"]["size"]
    if size is not None:
        return int(size)
    return max(1, record.candidates) if record.allowed == REMOVALS else SIZE


def _considered(
    record: Record, graph: TemporalGraph, query: Query, near: IntArray, protect: Protected | None
) -> tuple[IntArray, tuple[Event, ...]]:
    """All that could be otherwise: rows in the order of time, and the imagined ones among them.

    The answer may be at another time than was proposed; then it is one more, as in the explanation itself.
    """
    known = {function.__name__: function for function in EDITS.values()}
    unknown = [name for name in record.allowed if name not in known]
    if unknown:
        raise CallError(f"a survey knows the edits {', '.join(known)}, and these records allow {unknown[0]!r}")
    proposing = [known[name] for name in record.allowed]
    considered = build_space(graph, query, near, _size(record), proposing, protect)
    imagined = [event_of(considered.graph, row) for row in range(graph.num_events, considered.graph.num_rows)]
    proposed, rows = {_without_row(event) for event in imagined}, considered.rows
    for edit in record.imagined:
        event = Event(graph.num_events + len(imagined), **edit)
        if _without_row(event) not in proposed:
            place = np.searchsorted(considered.graph.time[considered.rows], event.time, side="right")
            imagined.append(event)
            rows = np.insert(rows, place, event.row)
    return rows, tuple(imagined)


def _without_row(event: Event) -> Event:
    """The same for the same edit, whatever its number."""
    return event._replace(row=0)


class CandidateColumns(NamedTuple):
    """The candidates of a case. [C] each"""

    src: IntArray
    dst: IntArray
    time: FloatArray
    before: IntArray  # the row of the log that each comes before; that of an event itself is its own


def columns(graph: TemporalGraph, case: ExplainedLink) -> CandidateColumns:
    """Nodes, times and places of the candidates of a case."""
    rows = case.candidates
    if not case.imagined:
        return CandidateColumns(graph.src[rows], graph.dst[rows], graph.time[rows], rows)
    links = [_link(graph, case, row) for row in rows.tolist()]
    return CandidateColumns(*(np.array(column) for column in zip(*links, strict=True)))


def _link(graph: TemporalGraph, case: ExplainedLink, row: int) -> Query:
    if row < graph.num_events:
        return graph.query(row)
    event = case.imagined[row - graph.num_events]
    return graph.query_at(event.src, event.dst, event.time)


def decisive_events(graph: TemporalGraph, case: ExplainedLink) -> list[Event]:
    """The events of the counterfactual, in the order of time."""
    rows = case.candidates[case.decisive].tolist()
    return [event_of(graph, row) if row < graph.num_events else case.imagined[row - graph.num_events] for row in rows]


def reason(event: Event) -> Hashable:
    """The same for edits that differ in time only: which event is missing or moved, or who met."""
    if event.edit == REMOVED:
        return event.row
    return (event.edit, event.src, event.dst) if event.edit == ADDED else (event.edit, event.replaces)


def named(event: Event) -> int | str:
    """What is otherwise, in short: the row of an event that is missing, or words."""
    if event.edit == REMOVED:
        return event.row
    return f"{event.src} → {event.dst} added" if event.edit == ADDED else f"{event.replaces} moved"


def relations(graph: TemporalGraph, case: ExplainedLink) -> IntArray:
    """What each candidate is to the link, as a place in `RELATIONS`. [C]"""
    src, dst, *_ = columns(graph, case)
    one, other = case.query.src, case.query.dst
    kinds = [
        (src == one) & (dst == other),
        (src == other) & (dst == one),
        (src == one) | (dst == one),
        (src == other) | (dst == other),
    ]
    return np.select(kinds, range(len(kinds)), len(kinds))


def is_repeated(graph: TemporalGraph, case: ExplainedLink) -> BoolArray:
    """Whether the two nodes of each candidate had an event with each other before. [C]"""
    moved = {event.row: event.replaces for event in case.imagined}  # an event was not before itself
    src, dst, _, before = (column.tolist() for column in columns(graph, case))
    found = [
        _met_before(graph, one, other, place, moved.get(row))
        for one, other, place, row in zip(src, dst, before, case.candidates.tolist(), strict=True)
    ]
    return np.array(found, dtype=bool)


def _met_before(graph: TemporalGraph, src: int, dst: int, before: int, itself: int | None) -> bool:
    earlier = graph.history(src, before)
    together = earlier[graph.other_end(earlier, src) == dst]
    return bool((together != itself).any()) if itself is not None else bool(len(together))


def ages(graph: TemporalGraph, case: ExplainedLink) -> FloatArray:
    """How long before the link each candidate happened. [C]"""
    return np.asarray(case.query.time - columns(graph, case).time)


def ranks(case: ExplainedLink) -> IntArray:
    """1 for the latest candidate, 2 for the one before it, … [C]"""
    return np.arange(len(case.candidates), 0, -1)
