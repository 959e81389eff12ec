"""The requests: a link, how it is decided, and the edits. Every size is checked before anything is computed."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Annotated, Any, NamedTuple

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError

from cody.errors import CallError
from cody.explaining.what_if import Scenario, parse_add, parse_move, parse_rows
from cody.graph import TemporalGraph
from cody.graph.columns import LONGEST_NAME
from cody.graph.edits import Add, Edit, Move
from cody.models.contract import check_changes
from cody.models.deciding import ByLabel, above, between, in_top, labelled, parse_range, rather_than
from cody.models.decision import Decision
from cody.web.live import Live
from cody.web.sessions import Wanted

MOST_ROWS = 256  # removed events per request
MOST_SIDE = 12  # rows to compare
MOST_EDITS = 16  # imagined events per request
LONGEST_TEXT = 4096  # characters of one part of an address
LARGEST_ROW = 2**53 - 1  # JSON numbers beyond it are not exact everywhere


def _whole(number: Any) -> Any:
    """JSON does not tell 3.0 from 3."""
    return int(number) if isinstance(number, float) and number.is_integer() else number


Row = Annotated[int, BeforeValidator(_whole), Field(ge=0, le=LARGEST_ROW, strict=True)]
Budget = Annotated[int, BeforeValidator(_whole), Field(ge=1, le=1_000_000, strict=True)]
Name = Annotated[str, Field(min_length=1, max_length=LONGEST_NAME)]
Number = Annotated[float, Field(allow_inf_nan=False, strict=True)]
Time = Number | Annotated[str, Field(min_length=1, max_length=40)]


class Strict(BaseModel):
    """A part of a request; unknown fields are rejected."""

    model_config = ConfigDict(extra="forbid")


class Added(Strict):
    """An event that did not happen."""

    src: Name
    dst: Name
    time: Time


class Moved(Strict):
    """An event at another time."""

    row: Row
    time: Time


Typed = Annotated[str, Field(max_length=LONGEST_TEXT)] | None
TypedOften = Annotated[list[Annotated[str, Field(max_length=LONGEST_TEXT)]], Field(max_length=MOST_EDITS)]


class Address(BaseModel):
    """What the address of a page says, as it was typed: wrong input is shown beside its field, not rejected here."""

    event: Typed = None
    src: Typed = None
    dst: Typed = None
    time: Typed = None
    without: Typed = None  # rows that are removed
    add: TypedOften = []  # as `cody what-if --add` has it
    move: TypedOften = []
    take: Typed = None  # of the form: rows to remove, too
    add_src: Typed = None
    add_dst: Typed = None
    add_time: Typed = None
    move_row: Typed = None
    move_time: Typed = None
    explainer: Typed = None
    why_not: Typed = None
    evaluations: Typed = None
    candidates: Typed = None
    threshold: Typed = None
    top: Typed = None
    rather_than: Typed = None
    label: Typed = None
    between: Typed = None
    node: Typed = None
    side: TypedOften = []  # rows to compare
    before: Typed = None

    def given(self, *names: str) -> dict[str, str]:
        """Those of the fields that say something."""
        texts = {name: (getattr(self, name) or "").strip() for name in names}
        return {name: text for name, text in texts.items() if text}


class FieldError(CallError):
    """What is wrong with one field of a form."""

    def __init__(self, field: str, words: str) -> None:
        super().__init__(words)
        self.field = field


@contextmanager
def in_field(field: str) -> Iterator[None]:
    """Errors are about this field."""
    try:
        yield
    except FieldError:
        raise
    except CallError as error:
        raise FieldError(field, str(error)) from None
    except ValidationError as error:
        raise FieldError(field, error.errors()[0]["msg"]) from None


def whole(field: str, text: str) -> int:
    """A number of one or more, or of a row."""
    if not re.fullmatch("[0-9]{1,15}", text):
        raise FieldError(field, f"{text[:40]!r} is not a whole number")
    return int(text)


class LinkQuestion(Strict):
    """A link, by the row of its event or by its nodes and a time; how it is decided; and the edits."""

    event: Row | None = None
    src: Name | None = None
    dst: Name | None = None
    time: Time | None = None
    threshold: Number | None = None  # how it is decided: at most one of these five
    top: Row | None = None
    rather_than: Name | None = None
    label: Name | None = None
    between: Name | None = None  # as on the command line: 2..5
    without: list[Row] = Field(default=[], max_length=MOST_ROWS)
    add: list[Added] = Field(default=[], max_length=MOST_EDITS)
    move: list[Moved] = Field(default=[], max_length=MOST_EDITS)


class Search(LinkQuestion):
    """A request for a search: its edits are part of the search space."""

    explainer: Annotated[str, Field(min_length=1, max_length=60)]
    why_not: Annotated[bool, Field(strict=True)] = False  # also add and move events
    evaluations: Budget | None = None  # None: as the explainer usually has it
    candidates: Budget | None = None

    @property
    def options(self) -> dict[str, Any]:
        """How far it searches."""
        return {"why_not": self.why_not, "evaluations": self.evaluations, "candidates": self.candidates}


def as_case(graph: TemporalGraph, request: LinkQuestion) -> Scenario:
    """The request as a scenario of the library."""
    removed = frozenset(request.without)
    check_changes(graph, [removed])
    edits: list[Edit] = [Add(entry.src, entry.dst, graph.when(entry.time)) for entry in request.add]
    edits += [Move(entry.row, graph.when(entry.time)) for entry in request.move]
    link = [request.src, request.dst, request.time]
    if request.event is not None and link == [None] * 3:
        return Scenario(graph.query(request.event), request.event, removed, tuple(edits))
    if request.event is not None or request.src is None or request.dst is None or request.time is None:
        raise CallError("give event, or src, dst and time of a link")
    query = graph.query_at(request.src, request.dst, graph.when(request.time))
    if not query.before:
        raise CallError(f"time {request.time!r} is before the first event, so there is no history to explain it by")
    return Scenario(query, None, removed, tuple(edits))


WAYS: dict[str, Callable[[Any], Decision | ByLabel]] = {
    "threshold": above,
    "top": in_top,
    "rather_than": rather_than,
    "label": labelled,
    "between": lambda text: between(*parse_range(text)),
}


def as_decision(request: LinkQuestion) -> Decision | ByLabel | None:
    """How the request is decided; None: as the model does by itself."""
    given = {way: value for way in WAYS if (value := getattr(request, way)) is not None}
    if len(given) > 1:
        raise CallError(f"a question is decided in one way: give {' or '.join(given)}, not {len(given)} of them")
    return next((WAYS[way](value) for way, value in given.items()), None)


def as_question(case: Scenario, graph: TemporalGraph) -> dict[str, Any]:
    """The link of a scenario in the form of a request."""
    if case.event is not None:
        return {"event": case.event}
    return {"src": graph.name(case.query.src), "dst": graph.name(case.query.dst), "time": case.query.time}


# Addresses: what is typed in them, and what is wrong with it


class DecideBy(NamedTuple):
    """How the question of a page is decided, as it was typed."""

    decision: Wanted = None
    way: str = ""  # a name of `WAYS`; empty: as the model decides by itself
    text: str = ""
    value: float | str | None = None  # what the text means; None: there is none, or it is wrong
    problem: str = ""  # why it cannot be decided this way

    @property
    def given(self) -> dict[str, Any]:
        """The same in the form of a request."""
        return {} if self.value is None else {self.way: self.value}


def decide_by(live: Live, case: Scenario, typed: dict[str, str]) -> DecideBy:
    """What is decided, or what is wrong with it, for the page to say so beside what was typed."""
    way, text = next(iter(typed.items()), ("", ""))
    try:
        given = {way: _meant(way, text) for way, text in typed.items()}
        decision = as_decision(LinkQuestion.model_validate(given))
        live.check(case, decision)
        return DecideBy(decision, way, text, given.get(way))
    except ValidationError as error:
        return DecideBy(None, way, text, problem=f"{way}: {error.errors()[0]['msg']}")
    except CallError as error:
        return DecideBy(None, way, text, problem=str(error))


def link_of(live: Live, entered: Address) -> Scenario:
    """The link that an address names."""
    graph, named = live.graph, entered.given("src", "dst", "time")
    if entered.given("event"):
        with in_field("event"):
            if named:
                raise CallError("give the row of an event, or from, to and when, not both")
            return as_case(graph, LinkQuestion(event=whole("event", (entered.event or "").strip())))
    _filled(entered, {"src": graph.node, "dst": graph.node, "time": graph.when})
    with in_field("time"):
        return as_case(graph, LinkQuestion.model_validate(named))


def with_edits(live: Live, case: Scenario, entered: Address) -> Scenario:
    """The link with the edits of an address, and with those of its forms."""
    graph = live.graph
    with in_field("take"):
        removed = parse_rows(f"{entered.without or ''} {entered.take or ''}")
        if len(removed) > MOST_ROWS:
            raise CallError(f"at most {MOST_ROWS} events can be removed at once, not {len(removed)}")
        check_changes(graph, [frozenset(removed)])
    edits: list[Edit] = [*map(parse_add, filter(None, entered.add)), *map(parse_move, filter(None, entered.move))]
    added = _filled(entered, {"add_src": graph.node, "add_dst": graph.node, "add_time": graph.when})
    moved = _filled(entered, {"move_row": lambda text: graph.query(whole("move_row", text)), "move_time": graph.when})
    if added:
        edits.append(Add(added["add_src"], added["add_dst"], graph.when(added["add_time"])))
    if moved:
        edits.append(Move(int(moved["move_row"]), graph.when(moved["move_time"])))
    case = case._replace(removed=frozenset(removed), edits=tuple(edits))
    with in_field("move_row" if moved else "add_time"):
        live.imagined(case)
    return case


def _filled(entered: Address, checks: Mapping[str, Callable[[str], object]]) -> dict[str, str]:
    """The fields of one form, each checked; empty if nothing was typed."""
    typed = entered.given(*checks)
    for field, check in checks.items() if typed else ():
        if field not in typed:
            raise FieldError(field, "fill in every field")
        with in_field(field):
            check(typed[field])
    return typed


def rows_of(live: Live, text: str) -> list[int]:
    with in_field("side"):
        rows = list(dict.fromkeys(parse_rows(text)))
        if not 0 < len(rows) <= MOST_SIDE:
            raise CallError(f"give 1 to {MOST_SIDE} event rows, separated by commas")
        return [live.graph.query(row).before for row in rows]


def _meant(way: str, text: str) -> float | str:
    """What was typed, as a number where one is meant."""
    kinds: dict[str, tuple[Callable[[str], float], str]]
    kinds = {"threshold": (float, "a number between 0 and 1"), "top": (int, "a whole number")}
    convert, kind = kinds.get(way, (str, ""))
    try:
        return convert(text)
    except ValueError:
        raise CallError(f"{way} {text[:40]!r} is not {kind}") from None
