"""Explained links, and what can be said about an event that might be decisive."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple

import numpy as np

from cody.explaining.document import ExplanationDocument
from cody.explaining.explanation import ADDED, REMOVED, Elsewhere, Event
from cody.explaining.pipeline import event_of
from cody.explaining.upgrade import RecordOf02, candidates_of_0_2
from cody.explaining.verification import with_stability
from cody.graph import BoolArray, FloatArray, IntArray, Query, TemporalGraph
from cody.models.contract import Model, identity_of
from cody.models.decision import Decision, InTop, RatherThan, State
from cody.study.record import Record
from cody.study.record_file import with_elsewhere
from cody.study.shares import Share, mean
from cody.utils.forms import Count, Form

SAME, REVERSE = "the same link before", "the reverse direction"
SOURCE, DESTINATION = "another event of the source", "another event of the destination"
FURTHER = "two or more hops away"
RELATIONS = (SAME, REVERSE, SOURCE, DESTINATION, FURTHER)
SAME_NODES = "the same two nodes before"  # where it is no link that is predicted
ALL_MODELS = "all of these models"
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
    query = graph.query(record.event)
    if isinstance(record.document, RecordOf02):
        rows = candidates_of_0_2(record.document, graph)
        return ExplainedLink(record, query, rows, np.isin(rows, record.rows) & record.is_necessary)
    why = record.explanation
    rows = np.array([event.row for event in why.candidates], dtype=np.int64)
    decisive = np.isin(rows, why.rows) & record.is_necessary
    imagined = tuple(event for event in why.candidates if event.edit != REMOVED)
    units = {unit.row: unit.name for unit in why.units if unit.name}
    return ExplainedLink(record, query, rows, decisive, imagined, units, why.elsewhere)


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
    imagined = {event.row: graph.query_at(event.src, event.dst, event.time) for event in case.imagined}
    links = [imagined[row] if row in imagined else graph.query(row) for row in rows.tolist()]
    return CandidateColumns(*(np.array(column) for column in zip(*links, strict=True)))


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
    from_src, to_src, from_dst, to_dst = (ends == node for node in case.query[:2] for ends in (src, dst))
    kinds = [from_src & to_dst, from_dst & to_src, from_src | to_src, from_dst | to_dst]
    if compares(case.record.decision):
        rivals = [graph.node(name) for name in case.rivals]
        kinds.append(np.isin(src, rivals) | np.isin(dst, rivals))
    return np.select(kinds, range(len(kinds)), len(kinds))


def is_repeated(graph: TemporalGraph, case: ExplainedLink) -> BoolArray:
    """Whether the two nodes of each candidate had an event with each other before. [C]"""
    moved = {event.row: event.replaces for event in case.imagined}  # an event was not before itself
    src, dst, _, before = (column.tolist() for column in columns(graph, case))
    found = []
    for one, other, place, row in zip(src, dst, before, case.candidates.tolist(), strict=True):
        earlier = graph.history(one, place)
        together = earlier[graph.other_end(earlier, one) == other]
        found.append(not {*together.tolist()} <= {moved.get(row)})
    return np.array(found, dtype=bool)


def ages(graph: TemporalGraph, case: ExplainedLink) -> FloatArray:
    """How long before the link each candidate happened. [C]"""
    return np.asarray(case.query.time - columns(graph, case).time)


def ranks(case: ExplainedLink) -> IntArray:
    """1 for the latest candidate, 2 for the one before it, … [C]"""
    return np.arange(len(case.candidates), 0, -1)


# In how many other models the answers hold, and how many hold under noise


class Survival(Form, frozen=True):
    """How many answers hold in another model, or under noise."""

    what: str  # the name of the model, `ALL_MODELS`, or what the noise is
    tested: Count  # counterfactuals for whose links it decides the same with nothing changed
    holds: Share | None  # (1/tested) Σ [the counterfactual flips it, too]; None: none was tested


def with_survival(
    case: ExplainedLink, model: Model, graph: TemporalGraph, also: Mapping[str, Model], *, noise: bool = False
) -> ExplainedLink:
    """A link with what other models say about its counterfactual, and this one under noise; its record has it, too.

    What is known already is not computed again.

    Args:
        case: An explained link whose document was kept.
        model: The model that was explained; it is used only for noise.
        graph: The log of events.
        also: Other models of the same log, by name.
        noise: Whether to test this model a minute later, and with an unrelated event added.
    """
    if not case.flips:
        return case
    known = {each.model: each for each in case.elsewhere if each.model}
    found = {name: identity_of(other) for name, other in also.items()}
    missing = {name: other for name, other in also.items() if found[name] not in known}
    under_noise = tuple(each for each in case.elsewhere if not each.model)
    noisy = noise and not under_noise
    if missing or noisy:
        why = with_stability(case.record.explanation, model, graph, missing, noise=noisy)
        known |= {each.model: each for each in why.elsewhere if each.model}
        under_noise = under_noise or tuple(each for each in why.elsewhere if not each.model)
    known |= {identity: known[identity]._replace(name=name) for name, identity in found.items()}
    elsewhere = (*known.values(), *under_noise)
    return replace(case, elsewhere=elsewhere, record=with_elsewhere(case.record, elsewhere))


def held_in(case: ExplainedLink) -> tuple[int, int] | None:
    """In how many other models an answer holds, and how many decide the same with nothing changed; None: not tested."""
    models = [each for each in case.elsewhere if each.model]
    agreeing = [each for each in models if each.agrees_with(case.record.original)]
    return (sum(each.holds(0) for each in agreeing), len(agreeing)) if models else None


def survival_of(cases: Sequence[ExplainedLink]) -> tuple[Survival, ...]:
    """How many answers hold in each other model, in all of them where there are several, and under noise.

    Args:
        cases: The explained links of one kind.
    """
    tested = [case for case in cases if case.elsewhere]
    names = dict.fromkeys((each.name, bool(each.model)) for case in tested for each in case.elsewhere)
    models = [_of_one(tested, name) for name, is_model in names if is_model]
    counts = [counted for case in tested if (counted := held_in(case)) is not None and counted[1]]
    together = [_survival(ALL_MODELS, [holding == agreeing for holding, agreeing in counts])] if len(models) > 1 else []
    return (*models, *together, *(_of_one(tested, name) for name, is_model in names if not is_model))


def _of_one(cases: Sequence[ExplainedLink], name: str) -> Survival:
    pairs = [(case, each) for case in cases for each in case.elsewhere if each.name == name]
    return _survival(name, [each.holds(0) for case, each in pairs if each.agrees_with(case.record.original)])


def _survival(what: str, holds: Sequence[bool]) -> Survival:
    return Survival(what, len(holds), mean(holds) if holds else None)
