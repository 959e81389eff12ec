"""One row of an evaluation: what one explainer answered about one link, and what that cost."""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable
from dataclasses import asdict, dataclass, fields
from typing import Any

from cody.errors import DataError
from cody.explain.explanation import ADDED, ALTERED, MOVED
from cody.models.decision import flips
from cody.study.lines import check_line, parse_line, shown, write_line
from cody.study.upgrade import upgraded_record

SCHEMA, OLD_SCHEMA = "cody/record/2", "cody/record/1"
KINDS = ("correct", "incorrect")
REMOVALS = ("removals",)  # the only kind of edit in the paper, and in records that name none

Fields = dict[str, tuple[Callable[[Any], bool], str]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Record:
    """X = the events of the explanation. All logits are exact answers of the model."""

    data: str  # names, as the user gave them
    model: str
    explainer: str  # its name, from the catalogue or chosen by the user
    search: str  # what it is made of, as `cody.study.explainers.name_of` calls it
    policy: str
    options: dict[str, Any]  # of search, policy and candidates
    kind: str  # of the prediction: "correct" or "incorrect"
    event: int  # row of the explained link
    candidates: int  # how many events X could have been made of
    rows: tuple[int, ...]  # X, in the order of the explainer; without what is imagined
    original: float  # logit with nothing changed
    without: float  # logit without X
    only: float  # logit when the past consists of X only
    ended: str  # why the search ended, in a word of cody.search.result; whether X is a counterfactual: `is_necessary`
    iterations: int
    evaluations: int  # distinct sets that the explainer asked about
    first: int | None  # how many of them up to the first that changes the decision; None: no such set
    seconds: float | None  # wall time, without confirmation and `only`; None: it shared answers with other explainers
    seed: int
    model_identity: str
    data_identity: str
    version: str  # of this package
    imagined: tuple[dict[str, Any], ...] = ()  # the rest of X: events that were added, moved or altered
    sees_before: int | None = None  # the first row that the model does not see; None: that of the event

    @property
    def sparsity(self) -> float:
        """|X| / |C|, both in edits; 0 where there is nothing that could be otherwise."""
        return self.size / self.candidates if self.candidates else 0.0

    @property
    def size(self) -> int:
        """|X|: how many edits."""
        return len(self.rows) + len(self.imagined)

    @property
    def changes(self) -> frozenset[Hashable]:
        """X as something that can be compared."""
        return frozenset([*self.rows, *(tuple(sorted(edit.items())) for edit in self.imagined)])

    @property
    def allowed(self) -> tuple[str, ...]:
        """Which kinds of edits the explainer could choose from. Records that do not say so knew removals only."""
        return tuple(map(str, self.options.get("edits") or REMOVALS))

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
        written = asdict(self)
        for name in OPTIONAL:
            if not written[name] and written[name] != 0:  # most have none, and earlier versions read those
                del written[name]
        return write_line({"schema": SCHEMA, **written})

    @classmethod
    def from_json(cls, line: str) -> Record:
        """What `to_json` wrote; anything else is an error that says which field is wrong."""
        document = parse_line(line, "record", (SCHEMA, OLD_SCHEMA))
        if document["schema"] == OLD_SCHEMA:
            _check_fields(document, OLD_FIELDS)
            document = upgraded_record(document)
        else:
            _check_fields(document, FIELDS)
        values = {field.name: document[field.name] for field in fields(cls) if field.name in document}
        tuples = {name: tuple(values.get(name, ())) for name in ("rows", "imagined")}
        record = cls(**values | tuples)
        if len(record.changes) < record.size or record.size > record.candidates:
            raise DataError(
                f"this record is damaged: {record.size} events, {len(record.changes)} different ones, "
                f"cannot be among {record.candidates} candidates"
            )
        if max(record.rows, default=-1) >= record.event:
            raise DataError(f"this record is damaged: event {max(record.rows)} is not before event {record.event}")
        if (record.first or 0) > record.evaluations:
            raise DataError(f"this record is damaged: first is {record.first} of {record.evaluations} evaluations")
        return record


def _check_fields(document: dict[str, Any], known: Fields) -> None:
    for name, (is_valid, expected) in known.items():
        if name not in document and name in OPTIONAL:
            continue
        if name not in document:
            raise DataError(f"this record is damaged: {name!r} is missing")
        if not is_valid(document[name]):
            raise DataError(f"this record is damaged: {name} must be {expected}, not {shown(document[name])}")
    check_line(document, "record", set(known))


def _is_text(value: Any) -> bool:
    return isinstance(value, str)


def is_count(value: Any) -> bool:
    """Whether a value is a whole number that fits into a column; True and False are not."""
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 2**63


def _is_counts(value: Any) -> bool:
    return isinstance(value, list) and all(map(is_count, value))


def _is_edits(value: Any) -> bool:
    return isinstance(value, list) and all(map(_is_edit, value))


def _is_edit(value: Any) -> bool:
    """An event of an explanation that is imagined, without its row."""
    if not isinstance(value, dict) or value.keys() != {"edit", "src", "dst", "time", "replaces", "was"}:
        return False
    texts = _is_text(value["src"]) and _is_text(value["dst"]) and value["edit"] in (ADDED, MOVED, ALTERED)
    real = value["replaces"] is None or is_count(value["replaces"])
    return texts and real and _is_logit(value["time"]) and (value["was"] is None or _is_logit(value["was"]))


def _is_logit(value: Any) -> bool:
    whole = isinstance(value, int) and not isinstance(value, bool) and abs(value) < 2**63
    return whole or (isinstance(value, float) and math.isfinite(value))


def _is_seconds(value: Any) -> bool:
    return value is None or (_is_logit(value) and 0 <= value < 1e9)


def _is_shallow(value: Any, levels: int = 10) -> bool:
    """Whether a value is not nested so deeply that recursion over it could fail."""
    inner = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return levels > 0 and all(_is_shallow(part, levels - 1) for part in inner)


COUNT, LOGIT, TEXT = (is_count, "a whole number, at least 0"), (_is_logit, "a finite number"), (_is_text, "text")
ROWS = (_is_counts, "a list of rows")
OPTIONS = (lambda value: isinstance(value, dict) and _is_shallow(value), "an object of a few levels")

# Whether a value is valid for each field, and what would be, in words.
FIELDS: Fields = {
    "data": TEXT,
    "model": TEXT,
    "explainer": TEXT,
    "search": TEXT,
    "policy": TEXT,
    "options": OPTIONS,
    "kind": (lambda value: _is_text(value) and value in KINDS, " or ".join(map(repr, KINDS))),
    "event": COUNT,
    "candidates": COUNT,
    "rows": ROWS,
    "original": LOGIT,
    "without": LOGIT,
    "only": LOGIT,
    "ended": TEXT,
    "iterations": COUNT,
    "evaluations": COUNT,
    "first": (lambda value: value is None or (is_count(value) and value > 0), "null or a whole number, at least 1"),
    "seconds": (_is_seconds, "null or a number, at least 0 and below a billion"),
    "seed": COUNT,
    "model_identity": TEXT,
    "data_identity": TEXT,
    "version": TEXT,
    "imagined": (_is_edits, "a list of events that are added, moved or altered"),
    "sees_before": COUNT,
}
OPTIONAL = ("imagined", "sees_before")  # records of earlier versions lack them
NEW_FIELDS = ("search", "policy", "options", "rows", *OPTIONAL)
OLD_FIELDS = {name: check for name, check in FIELDS.items() if name not in NEW_FIELDS}
OLD_FIELDS |= {"removed": ROWS, "parameters": OPTIONS}
