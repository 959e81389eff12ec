"""Verifies the files of a saved graph by their checksums."""

from __future__ import annotations

import hashlib
import time
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

from cody.errors import DataError, first_line
from cody.utils.files import cache_directory, file_checksum

QUICKLY_READ = 64 << 20  # bytes; files up to this size are checked whenever a graph is opened
VALID_FOR = 7 * 86_400.0  # seconds after which larger files are checked again: a disk can fail without any writing
TICK = 2.0  # seconds: the coarsest clock of a file system; within it a file can change unnoticed


def check_files(checksums: Mapping[Path, str]) -> None:
    """Reject files whose checksums do not match. Large files are read once, and again after they have changed."""
    try:
        if sum(file.stat().st_size for file in checksums) <= QUICKLY_READ:
            _compare(checksums)
            return
        note = cache_directory() / "intact" / _state(checksums)
        if not _is_recent(note):
            settled = time.time() - TICK > max(_changed(file) for file in checksums)
            _compare(checksums)
            if settled:
                _remember(note)
    except OSError as error:
        raise DataError(f"{error.filename or 'a column'} cannot be read: {first_line(error)}") from None


def _compare(checksums: Mapping[Path, str]) -> None:
    for file, checksum in checksums.items():
        if file_checksum(file) != checksum:
            raise DataError(f"{file} is damaged: its checksum does not match")


def _state(checksums: Mapping[Path, str]) -> str:
    """A hash that changes when one of the files is written to, moved or replaced."""
    digest = hashlib.blake2b(digest_size=16)
    for file, checksum in checksums.items():
        status = file.stat()
        where = (str(file.resolve()), status.st_dev, status.st_ino)
        digest.update(repr((*where, status.st_size, status.st_mtime_ns, status.st_ctime_ns, checksum)).encode())
    return digest.hexdigest()


def _changed(file: Path) -> float:
    status = file.stat()
    return max(status.st_mtime, status.st_ctime)


def _is_recent(note: Path) -> bool:
    try:
        return abs(time.time() - note.stat().st_mtime) < VALID_FOR
    except OSError:
        return False


def _remember(note: Path) -> None:
    """Leave an empty file whose name is the note, and remove outdated ones."""
    with suppress(OSError):  # if the note cannot be written, the files are read each time
        note.parent.mkdir(parents=True, exist_ok=True)
        note.touch()
        for other in note.parent.iterdir():
            if not _is_recent(other):
                other.unlink()
