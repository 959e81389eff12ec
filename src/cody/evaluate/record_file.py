"""The file of an evaluation: JSON Lines, one record a line, appended while it runs.

A line counts once its newline is written, so a run that is killed loses at most the line it was writing. Besides
records there are headers (`"schema": "cody/evaluation/2"`): what was asked for, and which links were drawn. The first
line is one; a run that is continued with more links or more explainers adds another. Each line ends with a checksum, so
that damage is noticed.
"""

from __future__ import annotations

import gzip
import os
import time
import zlib
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, BinaryIO, cast

from cody import words
from cody.errors import CallError, CodyError, DataError
from cody.evaluate.lines import check_line, is_complete, parse_line, shown, write_line
from cody.evaluate.record import KINDS, Record, is_count
from cody.evaluate.upgrade import upgraded_explainer

HEADER, OLD_HEADER = "cody/evaluation/2", "cody/evaluation/1"
HEADER_FIELDS = {
    *("version", "data", "model", "data_identity", "model_identity", "seed", "share"),
    *("period", "margin", "instances", "explainers", "links"),
}
BEGINNINGS = (b'{"schema": "cody/evaluation/', b'{"schema": "cody/record/')  # of every line
SYNC_EVERY = 1.0  # seconds; younger records are lost if the machine crashes, but not if the process does
LONGEST = 2**28  # bytes of a line; the header of a million links takes 8 million

Header = dict[str, Any]


def read_records(path: str | Path) -> list[Record]:
    """The records in a file, which may be compressed (`.gz`) or still being written."""
    return list(iterate_records(path))


def iterate_records(path: str | Path) -> Iterator[Record]:
    """The records one at a time, for files larger than memory."""
    path = Path(path)
    try:
        with gzip.open(path) if _is_compressed(path) else path.open("rb") as file:
            entries = _entries(path, cast(BinaryIO, file), last=True)  # gzip's files are binary too
            yield from (entry for entry in entries if isinstance(entry, Record))
    except (OSError, EOFError, zlib.error) as error:
        raise DataError(f"cannot read {path}: {getattr(error, 'strerror', None) or error}") from None


def _is_compressed(path: Path) -> bool:
    if not path.is_file():  # a pipe can be read only once
        return path.suffix == ".gz"
    with path.open("rb") as file:
        return file.read(2) == b"\x1f\x8b"


def _entries(path: Path, file: BinaryIO, *, last: bool = False) -> Iterator[Record | Header]:
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
            yield _header(text) if is_header else Record.from_json(text)
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


class Appender:
    """A file of records that is open for appending, locked against a second run."""

    def __init__(self, path: Path, file: BinaryIO) -> None:
        self.path = path
        self.file = file
        self.synced = time.monotonic()

    def known(self) -> Iterator[Record | Header]:
        """What the file holds. Read it to the end before writing anything."""
        self.file.seek(0)
        yield from _entries(self.path, self.file)
        self._cut_incomplete_line()

    def _cut_incomplete_line(self) -> None:
        """Drop the line that was being written when the last run was killed, if that is what the file ends with."""
        complete, rest = 0, b""
        self.file.seek(0)
        for line in self.file:
            complete, rest = (complete + len(line), b"") if line.endswith(b"\n") else (complete, line)
        begun = rest.rstrip(b"\0")  # a crash of the machine can leave zero bytes
        if not any(begun[: len(beginning)] == beginning[: len(begun)] for beginning in BEGINNINGS):
            raise DataError(f"{self.path} ends with something that no evaluation wrote: {words.plain(rest[:40])}")
        self.file.truncate(complete)
        self.file.seek(complete)

    def write_header(self, header: Header) -> None:
        self._write(write_line({"schema": HEADER, **header}))

    def write(self, record: Record) -> None:
        self._write(record.to_json())

    def _write(self, line: str) -> None:
        try:
            self.file.write(line.encode() + b"\n")
            self.file.flush()
            if time.monotonic() - self.synced > SYNC_EVERY:
                self.sync()
        except OSError as error:
            raise CodyError(
                f"cannot write {self.path}: {error.strerror}. What it holds is kept, and the same command continues"
            ) from None

    def sync(self) -> None:
        os.fsync(self.file.fileno())
        try:
            is_there = os.path.samestat(os.fstat(self.file.fileno()), self.path.stat())
        except OSError:
            is_there = False
        if not is_there:
            raise CodyError(f"{self.path} was removed or replaced while it was being written: its records are lost")
        self.synced = time.monotonic()


@contextmanager
def appending(path: str | Path) -> Iterator[Appender]:
    """Open a file of records, or start one. Only one run at a time can have it open."""
    path = Path(path)
    if path.suffix == ".gz":
        raise CallError(
            f"records cannot be appended to {path}: write a plain file, and compress it when the run is finished"
        )
    try:
        if path.exists() and not path.is_file():
            raise CallError(f"cannot write {path}: it is not an ordinary file; --out takes the name of a file")
        begun = not path.exists()
        path.parent.mkdir(parents=True, exist_ok=True)
        file = os.fdopen(os.open(path, os.O_RDWR | os.O_CREAT, 0o666), "r+b")
    except OSError as error:
        reason = f"{path.parent} is not a folder" if path.parent.is_file() else error.strerror
        raise CallError(f"cannot write {path}: {reason}") from None
    try:
        _lock(path, file)
        try:
            appender = Appender(path, file)
            yield appender
            appender.sync()
        finally:
            if begun and not os.fstat(file.fileno()).st_size:
                path.unlink(missing_ok=True)  # nothing was written
    finally:
        with suppress(OSError):  # a failed write has been reported already
            file.close()


def _lock(path: Path, file: BinaryIO) -> None:
    import fcntl  # reading records needs no lock, and works where there is no fcntl

    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)  # released when the process ends, however it does
        if not os.fstat(file.fileno()).st_nlink:
            raise BlockingIOError  # the other run had started the file as well, and has removed it
    except BlockingIOError:
        raise CallError(f"another run is writing {path}; wait for it, or choose another file") from None
    except OSError as error:
        raise CallError(
            f"{path} cannot be locked against a second run: {error.strerror}; choose another disk"
        ) from None
