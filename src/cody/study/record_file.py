"""The file of an evaluation: JSON Lines, one record a line, appended while it runs.

A line counts once its newline is written, so a run that is killed loses at most the line it was writing. Besides
records there are failures (`failure.py`), and headers (`"schema": "cody/evaluation/2"`): what was asked for, and which
links were drawn. The first
line is one; a run that is continued with more links or more explainers adds another. Each line ends with a checksum, so
that damage is noticed.
"""

from __future__ import annotations

import gzip
import json
import zlib
from collections.abc import Hashable, Iterable, Iterator
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any, BinaryIO, cast

from cody.errors import DataError
from cody.study.appending import LineAppender, appending_lines
from cody.study.failure import SCHEMA as FAILURE
from cody.study.failure import Failure
from cody.study.lines import check_line, is_complete, parse_line, shown, write_line
from cody.study.record import KINDS, Record, is_count
from cody.study.upgrade import upgraded_explainer

HEADER, OLD_HEADER = "cody/evaluation/2", "cody/evaluation/1"
HEADER_FIELDS = {
    *("version", "data", "model", "data_identity", "model_identity", "seed", "share"),
    *("period", "margin", "instances", "explainers", "links"),
}
LONGEST = 2**28  # bytes of a line; the header of a million links takes 8 million

Header = dict[str, Any]


def read_records(path: str | Path) -> list[Record]:
    """The records in a file, which may be compressed (`.gz`) or still being written."""
    return list(iterate_records(path))


def read_runs(paths: Iterable[str | Path]) -> list[Record]:
    """The records of several files together, for example of parts of a run that were made on different machines.

    The same answer may be in several of them, and counts once.
    """
    known: dict[Hashable, Record] = {}
    for record in (record for path in paths for record in iterate_records(path)):
        of_model = record.data_identity, record.model_identity
        made_by = (
            record.explainer,
            record.search,
            record.policy,
            json.dumps(record.options, sort_keys=True),
            record.seed,
        )
        known.setdefault((of_model, made_by, record.kind, record.event), record)
    return list(known.values())


def iterate_records(path: str | Path) -> Iterator[Record]:
    """The records one at a time, for files larger than memory."""
    return (entry for entry in _read(path) if isinstance(entry, Record))


def read_failures(path: str | Path) -> list[Failure]:
    """What could not be explained, and still has no record."""
    failed: dict[tuple[str, str, int], Failure] = {}
    for entry in _read(path):
        if isinstance(entry, Record):
            failed.pop((entry.explainer, entry.kind, entry.event), None)
        elif isinstance(entry, Failure):
            failed[entry.explainer, entry.kind, entry.event] = entry
    return list(failed.values())


def _read(path: str | Path) -> Iterator[Record | Failure | Header]:
    path = Path(path)
    try:
        with gzip.open(path) if _is_compressed(path) else path.open("rb") as file:
            yield from _entries(path, cast(BinaryIO, file), last=True)  # gzip's files are binary too
    except (OSError, EOFError, zlib.error) as error:
        raise DataError(f"cannot read {path}: {getattr(error, 'strerror', None) or error}") from None


def _is_compressed(path: Path) -> bool:
    if not path.is_file():  # a pipe can be read only once
        return path.suffix == ".gz"
    with path.open("rb") as file:
        return file.read(2) == b"\x1f\x8b"


def _entries(path: Path, file: BinaryIO, *, last: bool = False) -> Iterator[Record | Failure | Header]:
    """All complete lines; with `last` also the last one if only its newline is missing."""
    for number, line in enumerate(iter(lambda: file.readline(LONGEST), b""), start=1):
        if len(line) == LONGEST:
            raise DataError(f"{path}, line {number} does not end: this is not a file of records")
        is_whole = line.endswith(b"\n")
        if not is_whole and not last:
            return
        try:
            text = line.decode("utf-8")
            is_header = any(f'"{schema}"' in text[:100] for schema in (HEADER, OLD_HEADER))
            is_failure = f'"{FAILURE}"' in text[:100]
            yield _header(text) if is_header else (Failure if is_failure else Record).from_json(text)
        except UnicodeDecodeError:
            raise DataError(f"{path}, line {number}: this is not a record: it is not UTF-8") from None
        except DataError as error:
            if not is_whole and not is_complete(line):
                return  # it is still being written
            raise DataError(f"{path}, line {number}: {error}") from None


def _header(text: str) -> Header:
    header = parse_line(text, "header", (HEADER, OLD_HEADER))
    explainers, links = header.get("explainers", {}), header.get("links", {})
    if not isinstance(explainers, dict) or not all(isinstance(given, dict) for given in explainers.values()):
        raise DataError("this header is damaged: explainers must be an object of objects, the options of each")
    rows: list[Any] = list(links.values()) if isinstance(links, dict) and links.keys() <= set(KINDS) else [None]
    if not all(isinstance(events, list) and all(map(is_count, events)) for events in rows):
        raise DataError(f"this header is damaged: links must be lists of rows, for {' and '.join(map(repr, KINDS))}")
    if any(sorted(set(events)) != events for events in rows) or len(set().union(*rows)) < sum(map(len, rows)):
        raise DataError("this header is damaged: the rows of its links must be ascending, each of one kind only")
    most = max(map(len, rows), default=0)
    instances = header.get("instances", most)
    if not is_count(instances) or instances < most:
        raise DataError(f"this header is damaged: it has {most} links of one kind, but instances is {shown(instances)}")
    check_line(header, "header", HEADER_FIELDS | {"events"})
    if header["schema"] == OLD_HEADER:
        header["explainers"] = {name: upgraded_explainer(name, given) for name, given in explainers.items()}
    return header


class Appender(LineAppender[Record | Failure | Header]):
    """A file of records that is open for appending."""

    beginnings = (b'{"schema": "cody/evaluation/', b'{"schema": "cody/record/', b'{"schema": "cody/failure/')

    def entries(self) -> Iterator[Record | Failure | Header]:
        return _entries(self.path, self.file)

    def write_header(self, header: Header) -> None:
        self.write_line(write_line({"schema": HEADER, **header}))

    def write(self, entry: Record | Failure) -> None:
        self.write_line(entry.to_json())


def appending(path: str | Path) -> AbstractContextManager[Appender]:
    """Open a file of records, or start one. Only one run at a time can have it open."""
    return appending_lines(path, Appender)
