"""The JSON of an explanation, the only record there is: its form is defined once, here, and checked when it is read.

An evaluation, a survey and `cody explain --events` write files of such documents, one a line; `evaluation` is what an
evaluation adds. The JSON Schemas in docs/schemas are made of these definitions.

Two things keep a line small. Events are columns, not a list of objects. The evaluated sets are a matrix of bits, one
row for each set and one bit for each candidate, compressed; their logits are plain numbers.
"""

from __future__ import annotations

import base64
import zlib
from collections.abc import Sequence
from typing import Annotated, Any, Literal

import msgspec
import numpy as np
from msgspec import UNSET, Meta, UnsetType
from msgspec.structs import astuple

from cody.explain import upgrade
from cody.explain.explanation import Counterfactual, Event, Explanation, Neighbour, Surroundings, Verification
from cody.graph import Query
from cody.search.result import Wider, Window
from cody.utils.forms import JSON_ERRORS, Count, Form, as_plain, damaged, is_shallow, parse, read, unknown_schema
from cody.utils.words import to_json

SCHEMA = "cody/explanation/3"

Seed = Annotated[int, Meta(ge=0)]
Edit = Literal["removed", "added", "moved", "altered"]
Kind = Annotated[str, Meta(pattern="^(correct|incorrect)$")]  # of a prediction
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


class NodeTable(Form, frozen=True):
    """Nodes near the link, and how many events lie between."""

    name: tuple[str, ...]
    hops: tuple[Count, ...]


class SurroundingsPart(Form, frozen=True):
    """What is shown around an answer: nodes of the candidates, and events between them that are not candidates."""

    nodes: NodeTable
    events: EventTable


class EvaluatedPart(Form, frozen=True):
    """Every set of candidates that the model was asked to score, in that order."""

    sets: Annotated[
        str | Sets,
        Meta(
            description="base64 of zlib of bits: ceil(candidates / 8) bytes a set; bit i % 8 of byte i // 8, lowest "
            "first, says whether candidate i is in it. Or a list of lists of rows."
        ),
    ]
    logits: tuple[float, ...]


class VerificationPart(Form, frozen=True):
    """The decisive answers, computed once more by the reference implementation."""

    by: Annotated[str, Meta(description="how, in words")]
    original: Annotated[float, Meta(description="the logit with nothing changed")]
    without: Annotated[float, Meta(description="the logit with the change")]


class AlternativePart(Form, frozen=True):
    """Another counterfactual."""

    rows: tuple[Count, ...]
    verification: VerificationPart


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

    verdict: Annotated[str, Meta(description="this and the next five follow from the rest, and are not read")] = ""
    is_counterfactual: bool = False
    is_minimal: bool = False
    proven: Count = 1
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
    evaluation: EvaluationPart | UnsetType = UNSET


class ProtectedPart(msgspec.Struct, frozen=True):
    """Events that may not be removed. They are shown, so they are checked."""

    events: tuple[Count, ...] = ()
    nodes: tuple[str, ...] = ()
    times: tuple[tuple[float, float], ...] = ()
    simultaneous: bool = False


class ParametersPart(msgspec.Struct, frozen=True):
    """What is known about the parameters of every explainer; the others are its own."""

    protect: ProtectedPart | None = None


WHAT = "an explanation"
DERIVED = ("verdict", "is_counterfactual", "is_minimal", "proven", "sentence")  # for programs that only read
# Fields that an explanation and its document have in the same form.
SAME = (
    *("src", "dst", "event", "rows", "logits", "ended", "factual", "iterations", "evaluations", "seconds"),
    *("without_all", "parameters", "seed", "model", "data", "scope"),
)


def to_plain(why: Explanation) -> dict[str, Any]:
    """The document of an explanation as plain data."""
    return as_plain(document_of(why))


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
    around = why.surroundings
    return ExplanationDocument(
        remarks=tuple(remark for remark in (why.simultaneity,) if remark),
        query=QueryPart(*why.query),
        **{name: getattr(why, name) for name in (*DERIVED, *SAME)},
        candidates=_columns(why.candidates),
        verification=None if why.verification is None else VerificationPart(*why.verification),
        evaluated=_packed(why.evaluated, [event.row for event in why.candidates]),
        alternatives=tuple(AlternativePart(rows, VerificationPart(*said)) for rows, said in why.alternatives),
        window=None if why.window is None else WindowPart(*why.window),
        surroundings=None
        if around is None
        else SurroundingsPart(
            NodeTable(tuple(node.name for node in around.nodes), tuple(node.hops for node in around.nodes)),
            _columns(around.events),
        ),
        wider=None if why.wider is None else WiderPart(*why.wider),
        evaluation=evaluation,
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
    around = form.surroundings
    try:
        return Explanation(
            **{name: getattr(form, name) for name in SAME},
            query=Query(*astuple(form.query)),
            candidates=events_of(form.candidates),
            verification=None if form.verification is None else Verification(*astuple(form.verification)),
            evaluated=_unpacked(form.evaluated, form.candidates.row),
            alternatives=tuple(
                Counterfactual(other.rows, Verification(*astuple(other.verification))) for other in form.alternatives
            ),
            window=None if form.window is None else Window(*astuple(form.window)),
            surroundings=None if around is None else Surroundings(_nodes(around.nodes), events_of(around.events)),
            wider=None if form.wider is None else Wider(*astuple(form.wider)),
        )
    except (ValueError, zlib.error) as error:
        raise damaged(WHAT, error) from None


def _columns(events: Sequence[Event]) -> EventTable:
    """Events as columns; those that have nothing but defaults are left out."""
    usual = Event._field_defaults
    columns = {name: tuple(getattr(event, name) for event in events) for name in Event._fields}
    said = {name: column for name, column in columns.items() if name not in usual or {*column} - {usual[name]}}
    return EventTable(**said)


def events_of(columns: EventTable) -> tuple[Event, ...]:
    size, usual = len(columns.row), Event._field_defaults
    given = {name: getattr(columns, name) for name in Event._fields}
    filled = [column if column or name not in usual else (usual[name],) * size for name, column in given.items()]
    if {*map(len, filled)} != {size}:
        raise ValueError("the columns of events differ in length")
    return tuple(map(Event, *filled))


def _nodes(columns: NodeTable) -> tuple[Neighbour, ...]:
    return tuple(Neighbour(name, hops) for name, hops in zip(columns.name, columns.hops, strict=True))


def _packed(evaluated: Sequence[tuple[Sequence[int], float]], rows: Sequence[int]) -> EvaluatedPart:
    place = {row: number for number, row in enumerate(rows)}
    bits = np.zeros((len(evaluated), len(rows)), dtype=bool)
    for number, (change, _) in enumerate(evaluated):
        bits[number, [place[row] for row in change]] = True
    packed = zlib.compress(np.packbits(bits, axis=1, bitorder="little").tobytes(), 9)
    return EvaluatedPart(base64.b64encode(packed).decode(), tuple(logit for _, logit in evaluated))


def _unpacked(part: EvaluatedPart, rows: Sequence[int]) -> tuple[tuple[tuple[int, ...], float], ...]:
    sets = _sets(part.sets, len(part.logits), rows) if isinstance(part.sets, str) else part.sets
    if len(sets) != len(part.logits):
        raise ValueError(f"{len(sets)} sets were evaluated, but there are {len(part.logits)} logits")
    if not {*rows}.issuperset(set().union(*sets)):
        raise ValueError("a set that was evaluated has rows that are not candidates")
    return tuple((tuple(sorted(change)), logit) for change, logit in zip(sets, part.logits, strict=True))


def _sets(packed: str, count: int, rows: Sequence[int]) -> Sequence[Sequence[int]]:
    width = -(-len(rows) // 8)  # bytes of a set
    size = count * width
    content = zlib.decompressobj().decompress(base64.b64decode(packed, validate=True), size + 1)
    if len(content) != size:
        raise ValueError(f"the evaluated sets do not fit {count} logits and {len(rows)} candidates")
    bytes_of = np.frombuffer(content, dtype=np.uint8).reshape(count, width)
    bits = np.unpackbits(bytes_of, axis=1, bitorder="little")[:, : len(rows)]
    numbers = np.array(rows, dtype=np.int64)
    return [numbers[chosen.astype(bool)].tolist() for chosen in bits]


def _check(form: ExplanationDocument) -> None:
    """Reject a document whose parts do not belong together."""
    if len(set(form.rows)) < len(form.rows) or len(form.logits) != len(form.rows) + 1:
        raise ValueError("the rows of the answer and their logits do not belong together")
    if form.logits[0] is None:
        raise ValueError("the logit with nothing changed is missing")
    known = set(form.candidates.row)
    if len(known) < len(form.candidates.row):
        raise ValueError("an event stands twice among the candidates")
    for rows in (form.rows, *(other.rows for other in form.alternatives)):
        if not known.issuperset(rows):
            raise ValueError(f"{min(set(rows) - known)} is not the row of a candidate")
    options = form.evaluation.options if form.evaluation else {}
    if not is_shallow(form.parameters) or not is_shallow(options):
        raise ValueError("parameters and options must be objects of a few levels")
    msgspec.convert(form.parameters, ParametersPart)
