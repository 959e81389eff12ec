"""One line of a file of records: a JSON object with a checksum, which lines of earlier versions lack."""

from __future__ import annotations

import json
import re
from typing import Any

from cody.errors import DataError
from cody.utils.files import is_as_written, with_checksum
from cody.utils.words import sanitize, to_json


def write_line(document: dict[str, Any]) -> str:
    return to_json(with_checksum(document), ascii_only=True)


def parse_line(line: str, what: str, schemas: tuple[str, ...]) -> dict[str, Any]:
    """The document in a line that should be a record or a header, whichever `what` says. The newest schema is first."""
    if line.startswith("\ufeff"):
        raise DataError("this line begins with a byte order mark; save the file as UTF-8 without one")
    if not line.strip():
        raise DataError("this line is empty, which evaluations never write; remove it")
    try:
        document = json.loads(line, parse_constant=_reject_constant)
    except json.JSONDecodeError as error:
        raise DataError(
            f"this is not a {what}: it is not JSON from character {error.pos + 1} on ({error.msg})"
        ) from None
    except (ValueError, RecursionError) as error:
        raise DataError(f"this is not a {what}: {error}") from None
    found = document.get("schema") if isinstance(document, dict) else None
    if found not in schemas:
        raise DataError(f"this is not a {what}: its schema is {shown(found)}, not {schemas[0]!r}")
    return dict(document)


def check_line(document: dict[str, Any], what: str, fields: set[str]) -> None:
    """Reject a line that is not as it was written. If the word "checksum" itself is damaged, it is an unknown field."""
    for name in document.keys() - fields - {"schema", "checksum"}:
        raise DataError(f"this {what} is damaged: there is no field {sanitize(repr(name))}")
    if "checksum" in document and not is_as_written(document):
        raise DataError(f"this {what} is damaged: it is not as it was written (its checksum differs)")


def is_complete(line: bytes) -> bool:
    """Whether a line that cannot be read was once written to its end, checksum and all."""
    return re.search(rb', "checksum": "\w+"\}', line) is not None


def shown(value: Any) -> str:
    return "a list" if isinstance(value, list) else "an object" if isinstance(value, dict) else sanitize(repr(value))


def _reject_constant(name: str) -> None:
    raise ValueError(f"{name} is not a JSON number")
