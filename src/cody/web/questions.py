"""The requests: a link, how it is decided, and the edits. Every size is checked before anything is computed."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, Any

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field

from cody.errors import CallError
from cody.explaining.what_if import Scenario
from cody.graph import TemporalGraph
from cody.graph.columns import LONGEST_NAME
from cody.graph.edits import Add, Edit, Move
from cody.models.contract import check_changes
from cody.models.deciding import ByLabel, above, in_top, labelled, rather_than
from cody.models.decision import Decision
from cody.utils.words import parse_moment

MOST_ROWS = 256  # removed events per request
MOST_EDITS = 16  # imagined events per request
LARGEST_ROW = 2**53 - 1  # JSON numbers beyond it are not exact everywhere


def _whole(number: Any) -> Any:
    """JSON does not tell 3.0 from 3."""
    return int(number) if isinstance(number, float) and number.is_integer() else number


Row = Annotated[int, BeforeValidator(_whole), Field(ge=0, le=LARGEST_ROW, strict=True)]
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


class LinkQuestion(Strict):
    """A link, by the row of its event or by its nodes and a time; how it is decided; and the edits."""

    event: Row | None = None
    src: Name | None = None
    dst: Name | None = None
    time: Time | None = None
    threshold: Number | None = None  # how it is decided: at most one of these four
    top: Row | None = None
    rather_than: Name | None = None
    label: Name | None = None
    without: list[Row] = Field(default=[], max_length=MOST_ROWS)
    add: list[Added] = Field(default=[], max_length=MOST_EDITS)
    move: list[Moved] = Field(default=[], max_length=MOST_EDITS)


class Search(LinkQuestion):
    """A request for a search: its edits are part of the search space."""

    explainer: Annotated[str, Field(min_length=1, max_length=60)]
    why_not: Annotated[bool, Field(strict=True)] = False  # also add and move events


def as_case(graph: TemporalGraph, request: LinkQuestion) -> Scenario:
    """The request as a scenario of the library."""
    removed = frozenset(request.without)
    check_changes(graph, [removed])
    edits: list[Edit] = [Add(entry.src, entry.dst, _time(entry.time)) for entry in request.add]
    edits += [Move(entry.row, _time(entry.time)) for entry in request.move]
    link = [request.src, request.dst, request.time]
    if request.event is not None and link == [None] * 3:
        return Scenario(graph.query(request.event), request.event, removed, tuple(edits))
    if request.event is not None or request.src is None or request.dst is None or request.time is None:
        raise CallError("give event, or src, dst and time of a link")
    query = graph.query_at(request.src, request.dst, _time(request.time))
    if not query.before:
        raise CallError(f"time {request.time!r} is before the first event, so there is no history to explain it by")
    return Scenario(query, None, removed, tuple(edits))


WAYS: dict[str, Callable[[Any], Decision | ByLabel]] = {
    "threshold": above,
    "top": in_top,
    "rather_than": rather_than,
    "label": labelled,
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


def _time(time: float | str) -> float:
    return parse_moment(time) if isinstance(time, str) else float(time)
