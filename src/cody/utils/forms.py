"""JSON forms that are defined as typed structs: written with a checksum, and checked by their definition when read."""

from __future__ import annotations

import hashlib
from typing import Annotated, Any, ClassVar, Self, TypeVar

import msgspec
from msgspec import Meta

from cody.errors import DataError
from cody.utils.words import sanitize, to_json

DEEPEST = 10  # levels of nested options, so that recursion over them cannot fail
JSON_ERRORS = (msgspec.MsgspecError, TypeError, ValueError, RecursionError)

Count = Annotated[int, Meta(ge=0, le=2**63 - 1)]  # True is not one
Seconds = Annotated[float, Meta(ge=0, lt=1e9)]
Shape = TypeVar("Shape")


class Form(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A JSON object. A field that it does not know is an error: it may be a misspelt or damaged one."""


class Document(Form, frozen=True):
    """A form that is a document of its own: a subclass gives `tag_field="schema"`, its schema as `tag`, and `kind`."""

    kind: ClassVar[str]  # what errors call it: "an impact"

    def to_dict(self) -> dict[str, Any]:
        """Plain data for JSON, with a checksum."""
        return as_plain(self)

    def to_json(self) -> str:
        """The document."""
        return to_json(self.to_dict())

    @classmethod
    def from_dict(cls, document: dict[str, Any]) -> Self:
        """What a document says; a damaged one is rejected."""
        schema = str(cls.__struct_config__.tag)
        if document.get("schema") != schema:
            raise unknown_schema(document.get("schema"), cls.kind, schema)
        return read(document, cls, cls.kind)

    @classmethod
    def from_json(cls, text: str | bytes) -> Self:
        """What a document says; a damaged one is rejected."""
        return cls.from_dict(parse(text, cls.kind))


def as_plain(form: Form) -> dict[str, Any]:
    """A form as plain data, with its checksum."""
    plain: dict[str, Any] = msgspec.to_builtins(form, str_keys=True, enc_hook=lambda number: number.item())
    return plain | {"checksum": _checksum(plain)}


def as_line(form: Form) -> str:
    """A form as one line of ASCII."""
    return to_json(as_plain(form), ascii_only=True, compact=True)


def parse(text: str | bytes, what: str) -> dict[str, Any]:
    """The object in a text that should be `what`, for example "a record"."""
    try:
        document = msgspec.json.decode(text)
    except JSON_ERRORS as error:
        raise DataError(f"this is not {what}: it is not JSON ({error})") from None
    if not isinstance(document, dict):
        raise DataError(f"this is not {what}: it is not a JSON object")
    return document


def read(document: dict[str, Any], shape: type[Shape], what: str) -> Shape:
    """A document as its form. It needs no checksum, but if it has one, that must be right."""
    content = {name: value for name, value in document.items() if name != "checksum"}
    try:
        made = msgspec.convert(content, shape)
        is_intact = "checksum" not in document or document["checksum"] == _checksum(content)
    except JSON_ERRORS as error:
        raise damaged(what, error) from None
    if not is_intact:
        raise damaged(what, "checksum mismatch")
    return made


def damaged(what: str, reason: object) -> DataError:
    """The error about a document that cannot be what it should be, with the place first where msgspec names it."""
    problem, _, place = sanitize(reason, 200).partition(" - at `$")
    place = place.strip("`.")
    problem = f"{place}: {problem[:1].lower()}{problem[1:]}" if place else problem
    return DataError(f"this {what.partition(' ')[2]} is damaged: {problem}")


def unknown_schema(found: object, what: str, schema: str) -> DataError:
    """The error about a document of another form: it says so if that is one of a later version."""
    family, _, version = str(found).rpartition("/")
    if family == schema.rpartition("/")[0] and version.isdecimal():
        older = int(version) < int(schema.rpartition("/")[2])
        advice = "CoDy 0.2 can read it" if older else "upgrade it"
        return DataError(f"this is {what} of {sanitize(found)!r}; this version of CoDy reads {schema!r}: {advice}")
    return DataError(f"this is not {what}: its schema is {sanitize(found)!r}, not {schema!r}")


def is_shallow(value: Any, levels: int = DEEPEST) -> bool:
    """Whether a value is not nested so deeply that recursion over it could fail."""
    inner = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return levels > 0 and all(is_shallow(part, levels - 1) for part in inner)


def _checksum(content: dict[str, Any]) -> str:
    """The same for the same values, however they are written."""
    return hashlib.blake2b(msgspec.json.encode(content, order="sorted"), digest_size=8).hexdigest()
