"""One row of an evaluation: what one explainer said about one link, and what it cost."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import asdict, dataclass, fields
from typing import Any

from cody.decision import flips
from cody.errors import DataError
from cody.evaluate.lines import check_line, parse_line, shown, write_line

SCHEMA = "cody/record/1"
KINDS = ("correct", "incorrect")


@dataclass(frozen=True, slots=True, kw_only=True)
class Record:
    """X = the events of the explanation. All logits are exact answers of the model."""

    data: str  # names, as the user gave them
    model: str
    explainer: str  # for example cody-spatio-temporal
    kind: str  # of the prediction: "correct" or "incorrect"
    event: int  # row of the explained link
    candidates: int  # how many events could be removed
    removed: tuple[int, ...]  # X, rows in the order of the explainer
    original: float  # logit with nothing removed
    without: float  # logit without X
    only: float  # logit of a past that consists of X only
    ended: str  # why the search ended: a word of cody.search.result; whether it found something is `is_necessary`
    iterations: int
    evaluations: int  # distinct sets that the explainer asked about
    first: int | None  # how many of them until the first that changes the decision; None: no such set
    seconds: float | None  # wall time, without confirmation and without `only`; None: it profited from other explainers
    seed: int
    parameters: dict[str, Any]  # what the explainer was told
    model_identity: str
    data_identity: str
    version: str  # of this package

    @property
    def sparsity(self) -> float:
        """|X| / |C|; 0 where there is nothing to remove."""
        return len(self.removed) / self.candidates if self.candidates else 0.0

    @property
    def is_necessary(self) -> bool:
        """Fidelity+ of one link: the decision changes without X."""
        return flips(self.original, self.without)

    @property
    def is_sufficient(self) -> bool:
        """Fidelity- of one link: the decision stays when the past consists of X only."""
        return not flips(self.original, self.only)

    def to_json(self) -> str:
        """One line."""
        return write_line({"schema": SCHEMA, **asdict(self)})

    @classmethod
    def from_json(cls, line: str) -> Record:
        """What `to_json` wrote; anything else is an error that says which field is wrong."""
        document = parse_line(line, "record", SCHEMA)
        for name, (is_right, meant) in FIELDS.items():
            if name not in document:
                raise DataError(f"this record is damaged: {name!r} is missing")
            if not is_right(document[name]):
                raise DataError(f"this record is damaged: {name} must be {meant}, not {shown(document[name])}")
        check_line(document, "record", set(FIELDS))
        values = {field.name: document[field.name] for field in fields(cls)}
        record = cls(**values | {"removed": tuple(values["removed"])})
        if len(set(record.removed)) < len(record.removed) or len(record.removed) > record.candidates:
            raise DataError(
                f"this record is damaged: {len(record.removed)} events, {len(set(record.removed))} different ones, "
                f"cannot be removed of {record.candidates} candidates"
            )
        if max(record.removed, default=-1) >= record.event:
            raise DataError(f"this record is damaged: event {max(record.removed)} was not before {record.event}")
        if (record.first or 0) > record.evaluations:
            raise DataError(f"this record is damaged: first is {record.first} of {record.evaluations} evaluations")
        return record


def _is_text(value: Any) -> bool:
    return isinstance(value, str)


def is_count(value: Any) -> bool:
    """A whole number that fits a column; True and False are none."""
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 2**63


def _is_counts(value: Any) -> bool:
    return isinstance(value, list) and all(map(is_count, value))


def _is_logit(value: Any) -> bool:
    whole = isinstance(value, int) and not isinstance(value, bool) and abs(value) < 2**63
    return whole or (isinstance(value, float) and math.isfinite(value))


def _is_seconds(value: Any) -> bool:
    return value is None or (_is_logit(value) and 0 <= value < 1e9)


def _is_shallow(value: Any, levels: int = 10) -> bool:
    """Not nested so deeply that walking through it could fail."""
    inner = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return levels > 0 and all(_is_shallow(part, levels - 1) for part in inner)


COUNT, LOGIT, TEXT = (is_count, "a whole number of at least 0"), (_is_logit, "a finite number"), (_is_text, "text")

# What each field may hold, and that in words.
FIELDS: dict[str, tuple[Callable[[Any], bool], str]] = {
    "data": TEXT,
    "model": TEXT,
    "explainer": TEXT,
    "kind": (lambda value: _is_text(value) and value in KINDS, " or ".join(map(repr, KINDS))),
    "event": COUNT,
    "candidates": COUNT,
    "removed": (_is_counts, "a list of rows"),
    "original": LOGIT,
    "without": LOGIT,
    "only": LOGIT,
    "ended": TEXT,
    "iterations": COUNT,
    "evaluations": COUNT,
    "first": (lambda value: value is None or (is_count(value) and value > 0), "null or a whole number of at least 1"),
    "seconds": (_is_seconds, "null or a number of at least 0 and below a billion"),
    "seed": COUNT,
    "parameters": (lambda value: isinstance(value, dict) and _is_shallow(value), "an object of a few levels"),
    "model_identity": TEXT,
    "data_identity": TEXT,
    "version": TEXT,
}
