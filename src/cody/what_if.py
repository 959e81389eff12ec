"""Questions about removal sets: what would the model have said had these events not happened?"""

from __future__ import annotations

import json
from collections import defaultdict
from pathlib import Path
from typing import NamedTuple

from cody.errors import CallError
from cody.graph import FloatArray, IntArray, Query, TemporalGraph
from cody.model import Change, Model, check_changes, check_logits
from cody.nearby import candidates


class Case(NamedTuple):
    """The link of event `event`, asked just before it happened, with the rows in `removed` taken out of its past."""

    event: int
    removed: Change


class Effects(NamedTuple):
    """What single past events do to the score of a link."""

    query: Query
    logit: float  # with nothing removed
    candidates: IntArray  # [m] past events near the link
    without: FloatArray  # [m] the logit without each of them


def effects(model: Model, graph: TemporalGraph, query: Query) -> Effects:
    """Remove the candidates of a query, one at a time."""
    near = candidates(graph, query)
    removals = [frozenset(), *(frozenset({row}) for row in near.tolist())]
    answers = model.logits(query, removals)
    check_logits(query, removals, answers.tolist())
    return Effects(query, float(answers[0]), near, answers[1:])


def check_cases(graph: TemporalGraph, cases: list[Case]) -> None:
    """Refuse cases about events that are not there."""
    for case in cases:
        graph.query(case.event)
    check_changes(graph, [case.removed for case in cases])


def answer_cases(model: Model, graph: TemporalGraph, cases: list[Case]) -> list[float]:
    """The logit of each case, in their order. Cases of the same event are asked together."""
    places = defaultdict(list)
    for place, case in enumerate(cases):
        places[case.event].append(place)
    logits = [0.0] * len(cases)
    for event, same in places.items():
        query, removals = graph.query(event), [cases[place].removed for place in same]
        answers = model.logits(query, removals).tolist()
        check_logits(query, removals, answers)
        for place, logit in zip(same, answers, strict=True):
            logits[place] = logit
    return logits


def parse_rows(text: str) -> list[int]:
    """The rows in a list with commas or white space between.

    >>> parse_rows("9, 3,7")
    [9, 3, 7]
    """
    words = text.replace(",", " ").split()
    for word in words:
        if not (word.isascii() and word.isdecimal() and len(word) < 19):
            raise CallError(f"{word[:40]!r} is not an event row; rows are whole numbers with commas between")
    return [int(word) for word in words]


def read_rows(text: str) -> list[int]:
    """The rows in a list, or, if it is none, in the file of that name."""
    if not text.strip(" ,0123456789"):
        return parse_rows(text)
    try:
        return parse_rows(Path(text).read_text(encoding="utf-8-sig"))
    except (OSError, ValueError) as error:
        if isinstance(error, CallError):
            raise
        raise CallError(f"{text[:60]!r} is neither a list of event rows nor a file that can be read: {error}") from None


def read_cases(path: Path) -> list[Case]:
    """The cases in a JSON file: `[{"event": 218, "removed": [196, 213]}, …]`; other keys are ignored."""
    try:
        document = json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise CallError(f"cannot read {path}: {error.strerror}") from None
    except (ValueError, RecursionError) as error:
        raise CallError(f"{path} is not JSON: {error}") from None
    if isinstance(document, dict):
        document = document.get("cases")
    if not isinstance(document, list):
        raise CallError(f'{path} must hold a list of {{"event": row, "removed": [rows]}}')
    return [_case(entry, f"{path}, case {number}") for number, entry in enumerate(document)]


def _case(entry: object, where: str) -> Case:
    if not isinstance(entry, dict) or not {"event", "removed"} <= entry.keys():
        raise CallError(f'{where}: expected {{"event": row, "removed": [rows]}}, not {json.dumps(entry)[:80]}')
    event, removed = entry["event"], entry["removed"]
    rows = [event, *removed] if isinstance(removed, list) else [None]
    if not all(type(row) is int for row in rows):
        raise CallError(f"{where}: event and removed must be whole numbers, not {json.dumps(entry)[:80]}")
    return Case(event, frozenset(removed))
