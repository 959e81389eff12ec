"""What `--protect` names: events that may not be removed."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from cody.errors import CallError
from cody.explain.what_if import parse_rows
from cody.graph import TemporalGraph
from cody.graph.protected import Protected
from cody.utils import words

SIMULTANEOUS = "simultaneous"
FORMS = f"events=3,7 or nodes=105,9 or times=2004-07-01..2004-07-28 or {SIMULTANEOUS}"


def protected(graph: TemporalGraph, texts: Sequence[str]) -> Protected | None:
    """What the options name, each as kind=values or `simultaneous`. A comma may be part of a node's name."""
    found: dict[str, list[Any]] = {"events": [], "nodes": [], "times": []}
    for text in (text for text in texts if text.strip() != SIMULTANEOUS):
        kind, _, values = text.partition("=")
        if kind not in found or not values.strip(", "):
            raise CallError(f"--protect {text!r} is not understood; write {FORMS}")
        if kind == "events":
            found[kind] += parse_rows(values)
        elif kind == "nodes":
            whole = graph.names is not None and values in graph.names.astype(str)
            found[kind] += [values] if whole else [name.strip() for name in values.split(",") if name.strip()]
        else:
            found[kind].append(_time_range(text, values))
    simultaneous = any(text.strip() == SIMULTANEOUS for text in texts)
    return Protected(**found, simultaneous=simultaneous) if texts else None


def _time_range(text: str, values: str) -> tuple[float, float]:
    """Both ends included; a day as the end is the whole day."""
    begin, dots, end = (part.strip() for part in values.partition(".."))
    if not (begin and dots and end):
        raise CallError(f"--protect {text!r} is not a time range; write times=BEGIN..END")
    first, last = words.parse_moment(begin), words.end_of(end)
    if last < first:
        raise CallError(f"--protect {text!r} ends before it begins")
    return first, last
