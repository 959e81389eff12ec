"""Explained links, and what can be said about an event that might be decisive."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from cody.explaining.document import ExplanationDocument
from cody.explaining.explanation import ADDED, REMOVED, Elsewhere, Event
from cody.explaining.pipeline import event_of
from cody.explaining.upgrade import RecordOf02, candidates_of_0_2
from cody.graph import BoolArray, FloatArray, IntArray, Query, TemporalGraph
from cody.models.decision import Decision, InTop, RatherThan, State
from cody.study.record import Record

SAME, REVERSE = "the same link before", "the reverse direction"
SOURCE, DESTINATION, FURTHER = (
    "another event of the source",
    "another event of the destination",
    "two or more hops away",
)
RELATIONS = (SAME, REVERSE, SOURCE, DESTINATION, FURTHER)
SAME_NODES = "the same two nodes before"  # where it is no link that is predicted
RIVAL = "another event of a rival"  # where destinations are compared


@dataclass(frozen=True, slots=True)
class ExplainedLink:
    """A link, its candidates, and which of them are decisive: changing these flips the prediction."""

    record: Record
    query: Query
    candidates: IntArray  # [C] rows, in the order of time; imagined ones are numbered after all events of the log
    decisive: BoolArray  # [C]; all False where no counterfactual was found
    imagined: tuple[Event, ...] = ()  # those of the candidates that could have been added or moved
    units: Mapping[int, str] = field(default_factory=dict)  # names of the units that candidates stand for, by row
    elsewhere: tuple[Elsewhere, ...] = ()  # other models, and this one under noise; empty: not tested

    @property
    def event(self) -> int:
        return self.record.event

    @property
    def states(self) -> tuple[State, State]:
        """The decision with nothing changed, and with the answer, as far as the record knows what lies behind it."""
        document, record = self.record.document, self.record
        states = record.explanation.states if isinstance(document, ExplanationDocument) else (State(record.original),)
        return states[0], states[-1]._replace(margin=record.without)

    @property
    def rivals(self) -> tuple[str, ...]:
        """The destinations that this one is compared with: the best ones with nothing changed."""
        standing = self.states[0].standing if compares(self.record.decision) else None
        return () if standing is None else tuple(leader.name for leader in standing.leaders)

    @property
    def flips(self) -> bool:
        """Whether a counterfactual was found."""
        return bool(self.decisive.any())

    @property
    def size(self) -> int:
        """How many edits it consists of."""
        return int(self.decisive.sum())


def cases(records: Iterable[Record], graph: TemporalGraph) -> list[ExplainedLink]:
    """The records of one explainer as explained links. Records of CoDy 0.2 name no candidates: these are found anew."""
    return [_case(record, graph) for record in records]


def _case(record: Record, graph: TemporalGraph) -> ExplainedLink:
    query, imagined, units = graph.query(record.event), tuple[Event, ...](), dict[int, str]()
    elsewhere: tuple[Elsewhere, ...] = ()
    if isinstance(record.document, RecordOf02):
        rows, named = candidates_of_0_2(record.document, graph), record.rows
    else:
        why = record.explanation
        rows, named = np.array([event.row for event in why.candidates], dtype=np.int64), why.rows
        imagined = tuple(event for event in why.candidates if event.edit != REMOVED)
        units = {unit.row: unit.name for unit in why.units if unit.name}
        elsewhere = why.elsewhere
    decisive = np.isin(rows, named) & record.is_necessary
    return ExplainedLink(record, query, rows, decisive, imagined, units, elsewhere)


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
    event = next(event for event in case.imagined if event.row == row)
    return graph.query_at(event.src, event.dst, event.time)


def decisive_events(graph: TemporalGraph, case: ExplainedLink) -> list[Event]:
    """The events of the counterfactual, in the order of time."""
    imagined = {event.row: event for event in case.imagined}
    rows = case.candidates[case.decisive].tolist()
    return [imagined[row] if row in imagined else event_of(graph, row) for row in rows]


def reason(case: ExplainedLink, event: Event) -> Hashable:
    """The same for edits that differ in time only: which event or unit is missing or moved, or who met."""
    if event.edit == REMOVED:
        return case.units.get(event.row, event.row)
    return (event.edit, event.src, event.dst) if event.edit == ADDED else (event.edit, event.replaces)


def named(case: ExplainedLink, event: Event) -> int | str:
    """What is changed, in short: the row of an event that is missing, the name of a unit, or words."""
    if event.edit == REMOVED:
        return case.units.get(event.row, event.row)
    return f"{event.src} → {event.dst} added" if event.edit == ADDED else f"{event.replaces} moved"


def compares(decision: Decision) -> bool:
    """Whether a decision compares destinations."""
    return isinstance(decision, InTop | RatherThan)


def relation_names(record: Record) -> tuple[str, ...]:
    """What a candidate can be to a prediction, in words."""
    if compares(record.decision):
        return (*RELATIONS[:-1], RIVAL, FURTHER)
    return RELATIONS if record.subject == "link" else (SAME_NODES, *RELATIONS[1:])


def relations(graph: TemporalGraph, case: ExplainedLink) -> IntArray:
    """What each candidate is to the link, as a place in `relation_names`. [C]"""
    src, dst, *_ = columns(graph, case)
    one, other = case.query.src, case.query.dst
    kinds = [
        (src == one) & (dst == other),
        (src == other) & (dst == one),
        (src == one) | (dst == one),
        (src == other) | (dst == other),
    ]
    if compares(case.record.decision):
        rivals = [graph.node(name) for name in case.rivals]
        kinds.append(np.isin(src, rivals) | np.isin(dst, rivals))
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
