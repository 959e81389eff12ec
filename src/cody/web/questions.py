"""What a request may ask: a link, and what is changed. Everything in it is bounded before anything is computed."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field

from cody.errors import CallError
from cody.explain.what_if import Scenario
from cody.graph import LONGEST_NAME, TemporalGraph
from cody.graph.edits import Add, Edit, Move
from cody.models.contract import check_changes
from cody.utils.words import parse_moment

MOST_ROWS = 256  # events that one question may take away
MOST_EDITS = 16  # events that one question may imagine
LARGEST_ROW = 2**53 - 1  # JSON numbers beyond it are not exact everywhere


def _whole(number: Any) -> Any:
    """JSON does not tell 3.0 from 3."""
    return int(number) if isinstance(number, float) and number.is_integer() else number


Row = Annotated[int, BeforeValidator(_whole), Field(ge=0, le=LARGEST_ROW, strict=True)]
Name = Annotated[str, Field(min_length=1, max_length=LONGEST_NAME)]
Time = Annotated[float, Field(allow_inf_nan=False, strict=True)] | Annotated[str, Field(min_length=1, max_length=40)]


class Strict(BaseModel):
    """A part of a request; what it does not know, it refuses."""

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
    """A link, by the row of its event or by its nodes and a time; and what is changed."""

    event: Row | None = None
    src: Name | None = None
    dst: Name | None = None
    time: Time | None = None
    without: list[Row] = Field(default=[], max_length=MOST_ROWS)
    add: list[Added] = Field(default=[], max_length=MOST_EDITS)
    move: list[Moved] = Field(default=[], max_length=MOST_EDITS)


class Search(LinkQuestion):
    """A question that a search shall answer: its own changes are part of what might have been."""

    explainer: Annotated[str, Field(min_length=1, max_length=60)]
    why_not: Annotated[bool, Field(strict=True)] = (
        False  # also events that might have happened, and others at other times
    )


def as_case(graph: TemporalGraph, asked: LinkQuestion) -> Scenario:
    """The question as the library asks it."""
    removed = frozenset(asked.without)
    check_changes(graph, [removed])
    edits: list[Edit] = [Add(entry.src, entry.dst, _time(entry.time)) for entry in asked.add]
    edits += [Move(entry.row, _time(entry.time)) for entry in asked.move]
    link = [asked.src, asked.dst, asked.time]
    if asked.event is not None and link == [None] * 3:
        return Scenario(graph.query(asked.event), asked.event, removed, tuple(edits))
    if asked.event is not None or asked.src is None or asked.dst is None or asked.time is None:
        raise CallError("give event, or src, dst and time of a link")
    query = graph.query_at(asked.src, asked.dst, _time(asked.time))
    if not query.before:
        raise CallError(f"time {asked.time!r} is before the first event: there is no past to explain it by")
    return Scenario(query, None, removed, tuple(edits))


def as_question(case: Scenario, graph: TemporalGraph) -> dict[str, Any]:
    """The link of a case as a request names it."""
    if case.event is not None:
        return {"event": case.event}
    return {"src": graph.name(case.query.src), "dst": graph.name(case.query.dst), "time": case.query.time}


def _time(time: float | str) -> float:
    return parse_moment(time) if isinstance(time, str) else float(time)
