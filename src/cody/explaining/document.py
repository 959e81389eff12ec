"""The JSON of an explanation, the only record there is: its form is defined once, here, and checked when it is read.

An evaluation, a survey and `cody explain --events` write files of such documents, one a line; `evaluation` is what an
evaluation adds. The JSON Schemas in docs/schemas are made of these definitions.

Two things keep a line small. Events are columns, not a list of objects. The evaluated sets are a matrix of bits, one
row for each set and one bit for each candidate, compressed; their logits are plain numbers.
"""

from __future__ import annotations

import zlib
from collections.abc import Sequence
from dataclasses import fields, replace
from typing import Annotated, Any, Literal

import msgspec
from msgspec import UNSET, Meta, UnsetType
from msgspec.structs import astuple

from cody.errors import CallError
from cody.explaining import packing, upgrade
from cody.explaining.explanation import (
    ADDED,
    ALTERED,
    ChangedUnit,
    Counterfactual,
    Elsewhere,
    Event,
    EventShares,
    Explanation,
    Neighbour,
    Recourse,
    Surroundings,
    Verification,
    WholeUnit,
)
from cody.graph import Query
from cody.models.decided import LINK_PREDICTED
from cody.models.decision import Above, Between, DecidedBy, Decision, InTop, Labelled, Leader, RatherThan, Standing
from cody.search.daily import daily_limit
from cody.search.result import Wider, Window
from cody.utils.forms import JSON_ERRORS, Count, Form, damaged, is_shallow, parse, read, unknown_schema
from cody.utils.words import to_json

SCHEMA = "cody/explanation/3"

Seed = Annotated[int, Meta(ge=0)]
Edit = Literal["removed", "added", "moved", "altered"]
Kind = Annotated[str, Meta(pattern="^(correct|incorrect)$")]  # of a prediction
LabelledThing = Annotated[str, Meta(pattern="^(event|node)$")]
Sets = tuple[tuple[Count, ...], ...]  # the rows of each set, as other programs may write them


class QueryPart(Form, frozen=True):
    """The scored link."""

    src: Annotated[Count, Meta(description="number of the source node")]
    dst: Annotated[Count, Meta(description="number of the destination node")]
    time: float
    before: Annotated[Count, Meta(description="how many events of the log precede it")]


class EventTable(Form, frozen=True, omit_defaults=True):
    """Events as columns of equal length, oldest first. A column that is left out has its default in every row."""

    row: tuple[Count, ...]
    src: Annotated[tuple[str, ...], Meta(description="names of nodes")]
    dst: Annotated[tuple[str, ...], Meta(description="names of nodes")]
    time: tuple[float, ...]
    edit: Annotated[tuple[Edit, ...], Meta(description="what changing it means; by default it is removed")] = ()
    replaces: Annotated[tuple[Count | None, ...], Meta(description="the row of an event that is moved or altered")] = ()
    was: Annotated[tuple[float | None, ...], Meta(description="when that event happened")] = ()
    carries: Annotated[tuple[str, ...], Meta(description="its features in words")] = ()
    features: Annotated[str, Meta(description=packing.PACKED_FEATURES)] = ""


NO_EVENTS = EventTable((), (), (), ())


class NodeTable(Form, frozen=True):
    """Nodes near the link, and how many events lie between."""

    name: tuple[str, ...]
    hops: tuple[Count, ...]


class SurroundingsPart(Form, frozen=True):
    """What is shown around an answer: nodes of the candidates, and events between them that are not candidates."""

    nodes: NodeTable
    events: EventTable


class EvaluatedPart(Form, frozen=True):
    """Every set of candidates that the model scored, in that order."""

    sets: Annotated[str | Sets, Meta(description=packing.PACKED_SETS)]
    logits: tuple[float, ...]


class VerificationPart(Form, frozen=True):
    """The decisive answers, computed once more by the reference implementation."""

    by: Annotated[str, Meta(description="how, in words")]
    original: Annotated[float, Meta(description="the logit with nothing changed")]
    without: Annotated[float, Meta(description="the logit with the change")]


class LeaderPart(Form, frozen=True):
    """A place of a ranking."""

    name: Annotated[str, Meta(description="of a node or a class")]
    score: float


class StandingPart(Form, frozen=True, omit_defaults=True):
    """What lies behind a margin, where the margin does not say it all."""

    value: Annotated[float | None, Meta(description="the number that lies in a range or not")] = None
    rank: Annotated[Count | None, Meta(description="1 is the best")] = None
    leaders: Annotated[tuple[LeaderPart, ...], Meta(description="the best of a ranking, or all classes")] = ()


class DecisionPart(Form, frozen=True, omit_defaults=True):
    """What flips: a signed margin of the model's scores, above 0 where the decision is positive."""

    kind: Literal["above", "between", "own", "top", "rather", "labelled"]
    threshold: Annotated[float, Meta(gt=0, lt=1, description="above: the probability that decides")] = 0.5
    positive: Annotated[str, Meta(description="above, own: what a positive margin means")] = ""
    negative: Annotated[str, Meta(description="above, own: what a negative margin means")] = ""
    low: Annotated[float, Meta(description="between: the lower end of the range")] = 0.0
    high: Annotated[float, Meta(description="between: the upper end of the range")] = 0.0
    k: Annotated[int, Meta(ge=1, description="top: how many places count")] = 1
    of: Annotated[Count, Meta(description="top: how many destinations are ranked")] = 0
    among: Annotated[tuple[str, ...] | None, Meta(description="top: names of the rivals; null: all")] = None
    rivals_of: Annotated[str, Meta(description="top: what named the rivals, where each link has its own")] = ""
    overtaking: Annotated[
        tuple[str, ...], Meta(description="top: rivals that were searched against besides the highest-ranked ones")
    ] = ()
    other: Annotated[str, Meta(description="rather: name of the rival")] = ""
    label: Annotated[str, Meta(description="labelled: the class")] = ""
    classes: Annotated[tuple[str, ...], Meta(description="labelled: all classes")] = ()


class AlternativePart(Form, frozen=True):
    """Another counterfactual."""

    rows: tuple[Count, ...]
    verification: VerificationPart
    standing: StandingPart | UnsetType = UNSET


class WindowPart(Form, frozen=True):
    """The times at which the one imagined event of the answer has the same effect."""

    first: float
    last: float
    tried: Count
    fails: float | None = None


class WiderPart(Form, frozen=True):
    """A search among more events that found nothing."""

    events: Count
    evaluations: Count


class UnitsPart(Form, frozen=True, omit_defaults=True):
    """What candidates stand for, where several events change together: columns of equal length."""

    name: Annotated[str, Meta(description="what one unit is; empty: an event with those that depend on it")]
    row: Annotated[tuple[Count, ...], Meta(description="of the candidate")]
    names: tuple[str, ...]
    rows: Annotated[str | Sets, Meta(description=f"the events of each unit before the link: {packing.PACKED_ROWS}")]
    first: Annotated[tuple[float, ...], Meta(description="when its first event happened")]
    last: tuple[float, ...]
    dependants: Annotated[str | Sets, Meta(description="what goes along with each by a rule, as rows")] = ()
    events: Annotated[EventTable, Meta(description="the latest events of units that are reported")] = NO_EVENTS
    literal: Annotated[
        float | None, Meta(description="the logit without the events of the answer, where others went along")
    ] = None


class WholePart(Form, frozen=True):
    """A unit that an answer of single events nearly is."""

    name: str
    rows: Annotated[tuple[Count, ...], Meta(description="its events before the link")]
    shared: Annotated[Count, Meta(description="how many of them the answer has")]
    logit: Annotated[float, Meta(description="without all of them, by the reference implementation")]
    by: Annotated[str, Meta(description="how it was computed, in words")]


class EventSharesPart(Form, frozen=True):
    """What each candidate adds to the logit with nothing changed, or its share of the attention."""

    name: Annotated[
        Literal["shapley", "owen", "attention"],
        Meta(description="how it is shared among the candidates; attention: shares of what the model attends to"),
    ]
    base: Annotated[
        float,
        Meta(description="the logit without any candidate; with the values it adds up to the first; attention: 0"),
    ]
    rows: tuple[Count, ...]
    values: tuple[float, ...]
    errors: Annotated[tuple[float, ...], Meta(description="half of the interval of 95 %; 0: exact")]


class ElsewherePart(Form, frozen=True):
    """What another model decides, or the explained one under noise."""

    name: str
    model: Annotated[str, Meta(description="its identity; empty: the explained model under noise")]
    original: Annotated[float, Meta(description="margin with nothing changed")]
    without: Annotated[tuple[float, ...], Meta(description="with the answer, then with each alternative")]


class RecoursePart(Form, frozen=True):
    """The question about a node that could add events from one moment on, until the time of the link."""

    actor: Annotated[str, Meta(description="name of the node")]
    since: Annotated[float, Meta(description="the moment")]
    event: Annotated[Count | None, Meta(description="the row of the event that the link was then, if it happened")]
    now: Annotated[float, Meta(description="the logit at that moment")]
    keep: Annotated[bool, Meta(description="whether the decision of that moment is to be kept; else the other one")]


class EvaluationPart(Form, frozen=True):
    """What an evaluation adds to the document of an explanation."""

    data: Annotated[str, Meta(description="the name of the data, as the user gave it")]
    model: Annotated[str, Meta(description="the name of the model, as the user gave it")]
    explainer: str
    search: str
    policy: str
    options: Annotated[dict[str, Any], Meta(description="of search, policy and candidates")]
    kind: Annotated[Kind, Meta(description="of the prediction")]
    only: Annotated[float, Meta(description="the logit when the past consists of the answer only")]
    version: Annotated[str, Meta(description="of this package")]
    shared: Annotated[bool, Meta(description="explainers shared answers, so that seconds cannot be compared")] = False


class ExplanationDocument(Form, frozen=True, kw_only=True, tag_field="schema", tag=SCHEMA):
    """What an explainer found about one prediction."""

    verdict: Annotated[str, Meta(description="this and the next six follow from the rest, and are not read")] = ""
    is_counterfactual: bool = False
    is_minimal: bool = False
    proven: Count = 1
    reason: Annotated[str, Meta(description="what the answer comes down to")] = ""
    sentence: str = ""
    remarks: tuple[str, ...] = ()
    query: QueryPart
    src: Annotated[str, Meta(description="name of the source node")]
    dst: Annotated[str, Meta(description="name of the destination node")]
    event: Annotated[Count | None, Meta(description="the row of the event, if the link is one that happened")]
    candidates: Annotated[EventTable, Meta(description="what may be changed")]
    rows: Annotated[tuple[Count, ...], Meta(description="the answer: rows of candidates, in the order of the search")]
    logits: Annotated[tuple[float | None, ...], Meta(description="with 0, 1, … all of them changed; null: no time")]
    ended: Literal["exhausted", "found", "stuck", "iterations", "evaluations", "seconds"]
    factual: Annotated[bool, Meta(description="the explainer names what matters, whether or not it flips the decision")]
    iterations: Count
    evaluations: Annotated[Count, Meta(description="how many sets were scored")]
    seconds: Annotated[float, Meta(description="without verification")]
    verification: VerificationPart | None
    without_all: Annotated[float | None, Meta(description="the logit with all candidates changed")]
    parameters: Annotated[dict[str, Any], Meta(description="what the explainer was given")]
    seed: Seed
    model: Annotated[str, Meta(description="the identity of the model")]
    data: Annotated[str, Meta(description="the identity of the data")]
    evaluated: EvaluatedPart = EvaluatedPart(sets=(), logits=())
    alternatives: tuple[AlternativePart, ...] = ()
    window: WindowPart | None = None
    surroundings: SurroundingsPart | None = None
    wider: WiderPart | None = None
    scope: Annotated[
        Literal["some", "seen", "all"],
        Meta(
            description="which events besides the candidates can matter: some, none alone (seen), or none at all (all)"
        ),
    ] = "some"
    decision: Annotated[
        DecisionPart | UnsetType, Meta(description="what flips; by default, whether the link is predicted")
    ] = UNSET
    standings: Annotated[
        tuple[StandingPart | None, ...] | UnsetType, Meta(description="what lies behind each number of logits")
    ] = UNSET
    subject: Annotated[
        LabelledThing | UnsetType, Meta(description="what is labelled; by default, a link is predicted")
    ] = UNSET
    event_name: Annotated[str | UnsetType, Meta(description="what the data call an event")] = UNSET
    label: Annotated[
        str | UnsetType, Meta(description="where a label is predicted: that of the event in the log, if it is known")
    ] = UNSET
    units: Annotated[UnitsPart | UnsetType, Meta(description="by default, candidates are single events")] = UNSET
    whole: Annotated[WholePart | UnsetType, Meta(description="the unit that the answer nearly is")] = UNSET
    elsewhere: Annotated[
        tuple[ElsewherePart, ...] | UnsetType, Meta(description="other models, and the explained one under noise")
    ] = UNSET
    shares: Annotated[EventSharesPart | UnsetType, Meta(description="what each candidate adds to the logit")] = UNSET
    recourse: Annotated[RecoursePart | UnsetType, Meta(description="what a node could still do")] = UNSET
    evaluation: EvaluationPart | UnsetType = UNSET


class ProtectedPart(msgspec.Struct, frozen=True):
    """Events that may not be removed. They are shown, so they are checked."""

    events: tuple[Count, ...] = ()
    nodes: tuple[str, ...] = ()
    times: tuple[tuple[float, float], ...] = ()
    simultaneous: bool = False


class DailyPart(msgspec.Struct, frozen=True):
    """How many events of a day may change. It says which sets there are, so it is checked."""

    most: Annotated[int, Meta(ge=1)]
    zone: str


class ParametersPart(msgspec.Struct, frozen=True):
    """What is known about the parameters of every explainer; the others are its own."""

    protect: ProtectedPart | None = None
    per_day: DailyPart | None = None


WHAT = "an explanation"
DERIVED = ("verdict", "is_counterfactual", "is_minimal", "proven", "reason", "sentence")  # for programs that only read
# Fields that an explanation and its document have in the same form.
SAME = (
    *("src", "dst", "event", "rows", "logits", "ended", "factual", "iterations", "evaluations", "seconds"),
    *("without_all", "parameters", "seed", "model", "data", "scope"),
)


def from_text(text: str | bytes) -> Explanation:
    """The explanation in a text of JSON."""
    return explanation_of(read_document(parse(text, WHAT)))


def from_plain(document: Any) -> Explanation:
    """The explanation in plain data."""
    try:
        text = to_json(document)
    except JSON_ERRORS as error:  # numbers that JSON does not know, or nested without end
        raise damaged(WHAT, error) from None
    return from_text(text)


def document_of(why: Explanation, evaluation: EvaluationPart | UnsetType = UNSET) -> ExplanationDocument:
    """The document of an explanation."""
    return ExplanationDocument(
        remarks=tuple(remark for remark in (why.simultaneity,) if remark),
        query=QueryPart(*why.query),
        **{name: getattr(why, name) for name in (*DERIVED, *SAME)},
        candidates=_columns(why.candidates),
        verification=None if why.verification is None else VerificationPart(*why.verification),
        evaluated=_evaluated_part(why),
        alternatives=tuple(
            AlternativePart(rows, VerificationPart(*verification), _standing_part(standing) or UNSET)
            for rows, verification, standing in why.alternatives
        ),
        decision=UNSET if why.decision == LINK_PREDICTED else decision_part(why.decision),
        standings=tuple(map(_standing_part, why.standings)) or UNSET,
        subject=UNSET if why.subject == "link" else why.subject,
        event_name=UNSET if why.event_name == "event" else why.event_name,
        label=UNSET if why.label is None else why.label,
        window=None if why.window is None else WindowPart(*why.window),
        surroundings=None if why.surroundings is None else _surroundings_part(why.surroundings),
        wider=None if why.wider is None else WiderPart(*why.wider),
        units=_units_part(why) if why.units or why.unit_name else UNSET,
        whole=UNSET if why.whole is None else WholePart(*why.whole),
        elsewhere=tuple(ElsewherePart(*each) for each in why.elsewhere) or UNSET,
        shares=UNSET if why.shares is None else EventSharesPart(*why.shares),
        recourse=UNSET if why.recourse is None else RecoursePart(*why.recourse),
        evaluation=evaluation,
    )


def _evaluated_part(why: Explanation) -> EvaluatedPart:
    sets, logits = [change for change, _ in why.evaluated], tuple(logit for _, logit in why.evaluated)
    return EvaluatedPart(packing.pack_sets(sets, [event.row for event in why.candidates]), logits)


def _surroundings_part(around: Surroundings) -> SurroundingsPart:
    nodes = NodeTable(tuple(node.name for node in around.nodes), tuple(node.hops for node in around.nodes))
    return SurroundingsPart(nodes, _columns(around.events))


def _units_part(why: Explanation) -> UnitsPart:
    columns = {name: tuple(getattr(unit, name) for unit in why.units) for name in ("row", "first", "last")}
    dependants = [unit.dependants for unit in why.units]
    return UnitsPart(
        name=why.unit_name,
        names=tuple(unit.name for unit in why.units),
        rows=packing.pack_rows([unit.rows for unit in why.units]),
        dependants=packing.pack_rows(dependants) if any(dependants) else (),
        events=_columns(why.unit_events),
        literal=why.literal,
        **columns,
    )


def read_document(document: Any) -> ExplanationDocument:
    """A document as its form, if its parts belong together; also one that 0.2 wrote."""
    found = document.get("schema") if isinstance(document, dict) else None
    if found == upgrade.EXPLANATION:
        document = upgrade.explanation(document, SCHEMA)
    elif found != SCHEMA:
        raise unknown_schema(found, WHAT, SCHEMA)
    form = read(document, ExplanationDocument, WHAT)
    try:
        _check(form)
    except JSON_ERRORS as error:
        raise damaged(WHAT, error) from None
    return form


def explanation_of(form: ExplanationDocument) -> Explanation:
    """What a document says."""
    try:
        return Explanation(
            **{name: getattr(form, name) for name in SAME},
            query=Query(*astuple(form.query)),
            candidates=events_of(form.candidates),
            verification=None if form.verification is None else Verification(*astuple(form.verification)),
            evaluated=_evaluated(form.evaluated, form.candidates.row),
            alternatives=tuple(
                Counterfactual(
                    other.rows, Verification(*astuple(other.verification)), _standing(other.standing or None)
                )
                for other in form.alternatives
            ),
            decision=LINK_PREDICTED if form.decision is UNSET else decision_in_part(form.decision, form.dst),
            standings=tuple(map(_standing, form.standings or ())),
            subject="link" if form.subject is UNSET else form.subject,
            event_name="event" if form.event_name is UNSET else form.event_name,
            label=None if form.label is UNSET else form.label,
            window=None if form.window is None else Window(*astuple(form.window)),
            surroundings=None if form.surroundings is None else _surroundings(form.surroundings),
            wider=None if form.wider is None else Wider(*astuple(form.wider)),
            whole=None if form.whole is UNSET else WholeUnit(*astuple(form.whole)),
            elsewhere=tuple(_elsewhere(each, 1 + len(form.alternatives)) for each in (form.elsewhere or ())),
            shares=None if form.shares is UNSET else _shares(form.shares, form.candidates.row),
            recourse=None if form.recourse is UNSET else Recourse(*astuple(form.recourse)),
            **({} if form.units is UNSET else _units_of(form.units)),
        )
    except (ValueError, zlib.error) as error:
        raise damaged(WHAT, error) from None


def _shares(part: EventSharesPart, candidates: Sequence[int]) -> EventShares:
    if sorted(part.rows) != sorted(candidates) or not len(part.rows) == len(part.values) == len(part.errors):
        raise ValueError(f"the {part.name} values are not those of the {len(candidates)} candidates")
    return EventShares(*astuple(part))


def _elsewhere(part: ElsewherePart, counterfactuals: int) -> Elsewhere:
    if len(part.without) != counterfactuals:
        raise ValueError(f"{part.name} has {len(part.without)} margins for {counterfactuals} counterfactuals")
    return Elsewhere(*astuple(part))


def _lists(rows: str | Sets) -> Sequence[tuple[int, ...]]:
    return packing.unpack_rows(rows) if isinstance(rows, str) else rows


def _units_of(part: UnitsPart) -> dict[str, Any]:
    """The fields of an explanation that its units make."""
    count = len(part.row)
    dependants = _lists(part.dependants) if part.dependants else [()] * count
    columns = part.row, part.names, _lists(part.rows), dependants, part.first, part.last
    if {*map(len, columns)} != {count}:
        raise ValueError("the columns of units differ in length")
    units = tuple(map(ChangedUnit, *columns))
    events = events_of(part.events)
    return {"unit_name": part.name, "units": units, "unit_events": events, "literal": part.literal}


KINDS: tuple[type[Decision], ...] = (Above, Between, DecidedBy, InTop, RatherThan, Labelled)
DECISIONS = {each.kind: each for each in KINDS}


def decision_part(decision: Decision) -> DecisionPart:
    """A decision as a part of a document; a function of the user's is left out."""
    return DecisionPart(decision.kind, **{name: getattr(decision, name) for name in _documented(decision)})  # type: ignore[arg-type]


def decision_in_part(part: DecisionPart, dst: str) -> Decision:
    """The decision that a document speaks of, about a destination."""
    kind = DECISIONS[part.kind]
    decision = kind(**{name: getattr(part, name) for name in _documented(kind)})
    if isinstance(decision, InTop | RatherThan):
        return replace(decision, name=dst)
    if isinstance(decision, Labelled) and decision.label not in decision.classes:
        raise ValueError(f"{decision.label!r} is not one of the classes")
    return decision


def _documented(decision: Decision | type[Decision]) -> list[str]:
    return [field.name for field in fields(decision) if field.name in DecisionPart.__struct_fields__]  # type: ignore[arg-type]


def _standing_part(standing: Standing | None) -> StandingPart | None:
    leaders = () if standing is None else tuple(LeaderPart(*leader) for leader in standing.leaders)
    return None if standing is None else StandingPart(standing.value, standing.rank, leaders)


def _standing(part: StandingPart | None) -> Standing | None:
    leaders = () if part is None else tuple(Leader(leader.name, leader.score) for leader in part.leaders)
    return None if part is None else Standing(part.value, part.rank, leaders)


def _columns(events: Sequence[Event]) -> EventTable:
    """Events as columns; those that have nothing but defaults are left out."""
    usual = Event._field_defaults
    columns = {name: tuple(getattr(event, name) for event in events) for name in Event._fields}
    features = packing.pack_features([values for values in columns.pop("features") if values is not None])
    unusual = {name: column for name, column in columns.items() if name not in usual or {*column} - {usual[name]}}
    return EventTable(**unusual, features=features)


def events_of(columns: EventTable) -> tuple[Event, ...]:
    size, usual = len(columns.row), Event._field_defaults
    given = {name: getattr(columns, name) for name in Event._fields if name != "features"}
    filled = [column if column or name not in usual else (usual[name],) * size for name, column in given.items()]
    if {*map(len, filled)} != {size}:
        raise ValueError("the columns of events differ in length")
    events = tuple(map(Event, *filled))
    if not columns.features:
        return events
    new = [place for place, event in enumerate(events) if event.edit in (ADDED, ALTERED)]
    features = dict(zip(new, packing.unpack_features(columns.features, len(new)), strict=True))
    return tuple(event._replace(features=features.get(place)) for place, event in enumerate(events))


def _surroundings(part: SurroundingsPart) -> Surroundings:
    nodes = zip(part.nodes.name, part.nodes.hops, strict=True)
    return Surroundings(tuple(Neighbour(name, hops) for name, hops in nodes), events_of(part.events))


def _evaluated(part: EvaluatedPart, rows: Sequence[int]) -> tuple[tuple[tuple[int, ...], float], ...]:
    sets = packing.unpack_sets(part.sets, len(part.logits), rows) if isinstance(part.sets, str) else part.sets
    if len(sets) != len(part.logits):
        raise ValueError(f"{len(sets)} sets were evaluated, but there are {len(part.logits)} logits")
    if not {*rows}.issuperset(set().union(*sets)):
        raise ValueError("a set that was evaluated has rows that are not candidates")
    return tuple((tuple(sorted(change)), logit) for change, logit in zip(sets, part.logits, strict=True))


def _check(form: ExplanationDocument) -> None:
    """Reject a document whose parts do not belong together."""
    if len(set(form.rows)) < len(form.rows) or len(form.logits) != len(form.rows) + 1:
        raise ValueError("the rows of the answer and their logits do not belong together")
    if form.standings and len(form.standings) != len(form.logits):
        raise ValueError("there must be a standing for each logit")
    if form.logits[0] is None:
        raise ValueError("the logit with nothing changed is missing")
    known = set(form.candidates.row)
    if len(known) < len(form.candidates.row):
        raise ValueError("an event stands twice among the candidates")
    answers = [form.rows, *(other.rows for other in form.alternatives)]
    for rows in answers:
        if not known.issuperset(rows):
            raise ValueError(f"{min(set(rows) - known)} is not the row of a candidate")
        if len(set(rows)) < len(rows):
            raise ValueError("an event stands twice in an alternative")
    if len(set(map(frozenset, answers))) < len(answers):
        raise ValueError("an alternative stands twice, or is the answer itself")
    units = () if form.units is UNSET else form.units.row
    if not known.issuperset(units):
        raise ValueError("a unit is not that of a candidate")
    if len(set(units)) < len(units):
        raise ValueError("a unit stands twice among the units")
    options = form.evaluation.options if form.evaluation else {}
    if not is_shallow(form.parameters) or not is_shallow(options):
        raise ValueError("parameters and options must be objects of a few levels")
    daily = msgspec.convert(form.parameters, ParametersPart).per_day
    try:
        if daily is not None:
            daily_limit(daily.most, daily.zone, zip(form.candidates.row, form.candidates.time, strict=True))
    except CallError as error:
        raise ValueError(f"the limit for each day is not one: {error}") from None
