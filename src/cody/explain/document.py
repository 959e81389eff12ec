"""Reading the document of an explanation. Values are checked where they are read: what is accepted can be shown.

Each reader takes a JSON value and returns what it means, or raises a ValueError that says what is wrong.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, TypeVar, get_type_hints

from cody.errors import DataError
from cody.utils.files import is_as_written
from cody.utils.words import sanitize, to_json

Item = TypeVar("Item")
First = TypeVar("First")
Second = TypeVar("Second")

Reader = Callable[[Any], Any]
Readers = dict[str, Reader]

FIRST_SCHEMA = "cody/explanation/1"
# What documents of before lack.
NEW: dict[str, Any] = {"window": None, "surroundings": None, "wider": None, "scope": "some"}


def upgraded(written: Any, schema: str) -> dict[str, Any]:
    """A document in its current form. Those without a checksum were written by other programs, and are read as well."""
    found = written.get("schema") if isinstance(written, dict) else None
    if found == FIRST_SCHEMA and "removed" in written:
        return {**NEW, **written, "rows": written["removed"], "alternatives": []}
    if found != schema:
        raise DataError(_schema_error(found, schema))
    if "checksum" in written and not is_as_written(written):
        raise DataError("this explanation is damaged: it is not as it was written (its checksum differs)")
    return {**NEW, **written}


def _schema_error(found: object, schema: str) -> str:
    family, _, version = str(found).rpartition("/")
    if family == schema.rpartition("/")[0] and version.isdecimal():
        return f"this explanation has the form {sanitize(found)!r}; this version of CoDy reads {schema!r}: upgrade it"
    return f"this is not an explanation: its schema is {sanitize(found)!r}, not {schema!r}"


def read_field(readers: Readers, name: str, value: Any) -> Any:
    try:
        return readers[name](value)
    except ValueError as error:
        raise ValueError(f"{name}: {error}") from None


def text(value: Any) -> str:
    if not isinstance(value, str):
        raise ValueError(f"{_shown(value)} is not text")
    value.encode()  # raises an error for half a character, which cannot be printed
    return value


def one_of(*words: str) -> Callable[[Any], str]:
    def read(value: Any) -> str:
        if value not in words:
            raise ValueError(f"{_shown(value)} is not one of {', '.join(words)}")
        return str(value)

    return read


def flag(value: Any) -> bool:
    if not isinstance(value, bool):
        raise ValueError(f"{_shown(value)} is neither true nor false")
    return value


def finite(value: Any) -> float:
    try:
        number = float("nan") if isinstance(value, bool | str | bytes) else float(value)
    except (TypeError, OverflowError):
        number = float("nan")
    if not math.isfinite(number):
        raise ValueError(f"{_shown(value)} is not a finite number")
    return number


def row_number(value: Any) -> int:
    return _whole(value, bits=63)


def seed(value: Any) -> int:
    return _whole(value, bits=10_000)  # as many as can be printed


def _whole(value: Any, bits: int) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or value < 0 or value.bit_length() > bits:
        raise ValueError(f"{_shown(value)} is not a whole number from 0 to 2^{bits} - 1")
    return value


def tuple_of(read: Callable[[Any], Item]) -> Callable[[Any], tuple[Item, ...]]:
    def read_all(value: Any) -> tuple[Item, ...]:
        if not isinstance(value, list | tuple):
            raise ValueError(f"{_shown(value)} is not a list")
        return tuple(map(read, value))

    return read_all


def or_none(read: Callable[[Any], Item]) -> Callable[[Any], Item | None]:
    return lambda value: None if value is None else read(value)


READERS_OF_TYPES: dict[Any, Reader] = {
    int: row_number,
    float: finite,
    str: text,
    int | None: or_none(row_number),
    float | None: or_none(finite),
}


def named_tuple(part: type[Item], **special: Reader) -> Callable[[Any], Item]:
    """A reader of a named tuple that reads its fields by their types; those with a default may be missing."""
    hints = {name: kind for name, kind in get_type_hints(part).items() if name not in special}
    readers = special | {name: READERS_OF_TYPES[kind] for name, kind in hints.items()}
    needed = set(readers) - set(getattr(part, "_field_defaults", {}))

    def read(value: Any) -> Item:
        if not isinstance(value, dict) or not needed <= set(value) <= set(readers):
            raise ValueError(f"{_shown(value)} is not an object of {', '.join(readers)}")
        return part(**{name: readers[name](entry) for name, entry in value.items()})

    return read


def pair(first: Callable[[Any], First], second: Callable[[Any], Second]) -> Callable[[Any], tuple[First, Second]]:
    def read(value: Any) -> tuple[First, Second]:
        if not isinstance(value, list | tuple) or len(value) != 2:
            raise ValueError(f"{_shown(value)} is not a pair")
        return first(value[0]), second(value[1])

    return read


def parameters(value: Any) -> dict[str, Any]:
    """Anything that JSON can hold; the protected events are checked, because they are shown."""
    if not isinstance(value, dict):
        raise ValueError(f"{_shown(value)} is not an object")
    to_json(value)  # raises an error for infinities, wherever they are
    protect = value.get("protect")
    if protect is not None:
        if not isinstance(protect, dict):
            raise ValueError(f"protect is {_shown(protect)}, not an object")
        tuple_of(row_number)(protect.get("events", []))
        tuple_of(text)(protect.get("nodes", []))
        tuple_of(pair(finite, finite))(protect.get("times", []))
        flag(protect.get("simultaneous", False))
    return value


def _shown(value: Any) -> str:
    return sanitize(repr(value))
