"""Files that a run appends to, line by line, and a later run resumes."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, BinaryIO, Generic, TypeVar

from cody.errors import CallError, CodyError, DataError
from cody.utils import words
from cody.utils.files import lock_open_file

SYNC_EVERY = 1.0  # seconds; younger lines are lost if the machine crashes, but not if the process does

Entry = TypeVar("Entry")
Appender = TypeVar("Appender", bound="LineAppender[Any]")


class LineAppender(Generic[Entry]):
    """A file of lines that is open for appending, locked against a second run.

    A line counts once its newline is written, so a run that is killed loses at most the line it was writing.
    """

    beginnings: tuple[bytes, ...]  # of every line

    def __init__(self, path: Path, file: BinaryIO) -> None:
        self.path = path
        self.file = file
        self.synced = time.monotonic()

    def read_line(self, line: bytes, number: int) -> Entry:
        """What a line holds; the first one has the number 1."""
        raise NotImplementedError

    def entries(self) -> Iterator[Entry]:
        """What the complete lines hold, from where the file is."""
        for number, line in enumerate(iter(self.file.readline, b""), start=1):
            if not line.endswith(b"\n"):
                return
            try:
                yield self.read_line(line, number)
            except DataError as error:
                raise DataError(f"{self.path}, line {number}: {error}") from None

    def known(self) -> Iterator[Entry]:
        """What the file holds. Read it to the end before writing anything."""
        self.file.seek(0)
        yield from self.entries()
        self._cut_incomplete_line()

    def _cut_incomplete_line(self) -> None:
        """Drop the line that was being written when the last run was killed, if that is what the file ends with."""
        complete, rest = 0, b""
        self.file.seek(0)
        for line in self.file:
            complete, rest = (complete + len(line), b"") if line.endswith(b"\n") else (complete, line)
        begun = rest.rstrip(b"\0")  # a crash of the machine can leave zero bytes
        if not self.may_be_ours(begun):
            foreign = words.sanitize(rest[:40])
            raise DataError(f"{self.path} ends with something that this command never writes: {foreign}")
        self.file.truncate(complete)
        self.file.seek(complete)

    def may_be_ours(self, begun: bytes) -> bool:
        """Whether a last line without its end could be one that a run was writing."""
        return any(begun[: len(beginning)] == beginning[: len(begun)] for beginning in self.beginnings)

    def write_line(self, line: str) -> None:
        try:
            self.file.write(line.encode() + b"\n")
            self.file.flush()
            if time.monotonic() - self.synced > SYNC_EVERY:
                self.sync()
        except OSError as error:
            kept = "What it holds is kept, and the same command continues"
            raise CodyError(f"cannot write {self.path}: {error.strerror}. {kept}") from None

    def sync(self) -> None:
        os.fsync(self.file.fileno())
        try:
            is_there = os.path.samestat(os.fstat(self.file.fileno()), self.path.stat())
        except OSError:
            is_there = False
        if not is_there:
            raise CodyError(f"{self.path} was removed or replaced while it was being written: what it held is lost")
        self.synced = time.monotonic()


@contextmanager
def appending_lines(path: str | Path, kind: Callable[[Path, BinaryIO], Appender]) -> Iterator[Appender]:
    """Open a file that a run resumes, or start one. Only one run at a time can have it open."""
    path = Path(path)
    if path.suffix == ".gz":
        advice = "write a plain file, and compress it when the run is finished"
        raise CallError(f"lines cannot be appended to {path}: {advice}")
    try:
        if path.exists() and not path.is_file():
            raise CallError(f"cannot write {path}: it is not an ordinary file; --out takes the name of a file")
        begun = not path.exists()
        path.parent.mkdir(parents=True, exist_ok=True)
        file = os.fdopen(os.open(path, os.O_RDWR | os.O_CREAT | getattr(os, "O_BINARY", 0), 0o666), "r+b")
    except OSError as error:
        reason = f"{path.parent} is not a folder" if path.parent.is_file() else error.strerror
        raise CallError(f"cannot write {path}: {reason}") from None
    try:
        _lock(path, file)
        try:
            appender = kind(path, file)
            yield appender
            appender.sync()
        finally:
            if begun and not os.fstat(file.fileno()).st_size:
                path.unlink(missing_ok=True)  # nothing was written
    finally:
        with suppress(OSError):  # a failed write has been reported already
            file.close()


def _lock(path: Path, file: BinaryIO) -> None:
    try:
        lock_open_file(file.fileno())
        if not os.fstat(file.fileno()).st_nlink:
            raise BlockingIOError  # the other run had started the file as well, and has removed it
    except BlockingIOError:
        raise CallError(f"another run is writing {path}; wait for it, or choose another file") from None
    except OSError as error:
        reason = f"{error.strerror}; choose another disk"
        raise CallError(f"{path} cannot be locked against a second run: {reason}") from None


def check_same_run(where: str, there: dict[str, Any], here: dict[str, Any], run: str = "run") -> None:
    """Reject lines that were written with other settings than those of the run that is to continue them."""
    for name in here | there:
        if there.get(name) != here.get(name):
            theirs, ours = ("not given" if given.get(name) is None else given[name] for given in (there, here))
            difference = f"there {name} is {theirs}, here it is {ours}"
            raise DataError(f"{where} belongs to another {run}: {difference}; choose another file")
