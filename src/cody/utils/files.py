"""Files: arrays that open or give one clear error, files written completely or not at all, checksums, locks.

Locks are those of filelock: they are gone when the process is, however it ends. So what is left behind and not locked
belongs to a process that was killed, and can be removed.
"""

from __future__ import annotations

import hashlib
import io
import json
import math
import os
import re
import shutil
import tempfile
import time
import uuid
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from cody.errors import CallError, DataError, first_line

STALE = 15 * 60.0  # seconds without a write after which an unfinished file is taken for that of a killed process
LONGEST_HEADER = 1 << 16  # bytes; a damaged one may claim to be gigabytes long
BLOCK = 1 << 20  # bytes read at once for a checksum


def load_array(file: Path, *, mapped: bool) -> NDArray[Any]:
    """The array in a `.npy` file, read or memory-mapped. Anything wrong with the file is a DataError that names it.

    Nothing is allocated before the size in the header is known to be that of the file.
    """
    try:
        with file.open("rb") as stream:
            _check_size(stream.read(LONGEST_HEADER), os.fstat(stream.fileno()).st_size)
        array: NDArray[Any] = np.load(file, mmap_mode="r" if mapped else None, allow_pickle=False)
    except FileNotFoundError:
        raise DataError(f"{file} is missing") from None
    except OSError as error:
        raise DataError(f"{file} cannot be read: {first_line(error)}") from None
    except Exception as error:  # numpy reads the header with Python's own parser, which may raise anything
        raise DataError(f"{file} is truncated, damaged or not a .npy file ({first_line(error)})") from None
    return np.asarray(array)  # a plain view of a map: indexing a memmap object is slower


def _check_size(beginning: bytes, size: int) -> None:
    """Reject an array whose size is not that of the rest of the file."""
    stream = io.BytesIO(beginning)
    version = np.lib.format.read_magic(stream)
    read_header = np.lib.format.read_array_header_1_0 if version == (1, 0) else np.lib.format.read_array_header_2_0
    shape, _, dtype = read_header(stream)
    if dtype.hasobject:
        raise ValueError("it holds Python objects")
    expected = math.prod(shape) * dtype.itemsize
    found = size - stream.tell()
    if min(shape, default=0) < 0 or expected != found:
        raise ValueError(f"{dtype} {list(shape)} takes {expected:,} bytes, but there are {found:,}")


def check_target(file: Path, what: str, is_ours: Callable[[Path], bool] = lambda file: True) -> None:
    """Reject a place where a file cannot be written, or where it would overwrite something else.

    Args:
        file: Where it is to be written.
        what: What is written: "page".
        is_ours: Whether an existing file is such a one, and may be overwritten.
    """
    if file.is_dir() or not file.absolute().parent.is_dir():
        raise CallError(f"{file} is not a file in a folder that exists; give the name of a file for the {what}")
    if file.exists() and not is_ours(file):
        raise CallError(f"{file} is not a {what} that cody wrote, and would be overwritten; choose another name")


def write_atomically(file: Path, content: bytes | str) -> None:
    """Write the file atomically: a reader sees the old content or the new one, even after a crash."""
    with replacing(file) as partial:
        partial.write_bytes(content.encode() if isinstance(content, str) else content)


@contextmanager
def replacing(file: Path) -> Iterator[Path]:
    """The path of an empty file to write to, which becomes `file` when the block ends, and is removed if it fails.

    It gets the user's default mode, whatever the writer sets. A link is replaced itself, not what it points to; a
    device, as `/dev/null` or `/dev/stdout`, is not replaced.
    """
    if file.exists() and not (file.is_file() or file.is_dir()):
        raise CallError(f"{file} is not a file that can be replaced; choose another name")
    _clear_leftovers(file)
    partial = file.with_name(f".{file.name}.{uuid.uuid4().hex[:8]}.partial")
    try:
        partial.touch()
        usual_mode = partial.stat().st_mode
        yield partial
        partial.chmod(usual_mode)
        flush(partial)
        partial.replace(file)
    except OSError as error:
        if error.filename != str(partial):
            raise
        raise OSError(error.errno, error.strerror, str(file)) from None  # nobody knows our name for it
    finally:
        with suppress(OSError):  # the error that stopped the writing is the better message
            partial.unlink(missing_ok=True)


def flush(file: Path) -> None:
    """Wait until the file is on the disk, so that nothing points at it before it is safe from a power cut."""
    with file.open("r+b") as stream:  # Windows flushes only what is open for writing
        os.fsync(stream.fileno())


def file_checksum(file: Path) -> str:
    """The CRC-32 of a file's bytes, which reveals accidental damage, at some gigabytes a second."""
    checksum, block = 0, memoryview(bytearray(BLOCK))
    with file.open("rb", buffering=0) as stream:
        while count := stream.readinto(block):
            checksum = zlib.crc32(block[:count], checksum)
    return f"{checksum:08x}"


def with_checksum(document: dict[str, Any]) -> dict[str, Any]:
    """The document with its checksum as an entry."""
    as_read_back = json.loads(json.dumps(document))  # all keys are text
    return document | {"checksum": _document_checksum(as_read_back)}


def is_as_written(document: dict[str, Any]) -> bool:
    """Whether a document that was read has the checksum that `with_checksum` gave it."""
    return document.get("checksum") == _document_checksum(document)


def _document_checksum(document: dict[str, Any]) -> str:
    rest = {key: value for key, value in document.items() if key != "checksum"}
    return hashlib.blake2b(json.dumps(rest, sort_keys=True).encode(), digest_size=8).hexdigest()


def cache_directory() -> Path:
    """The folder for files that can be made or downloaded again."""
    cache = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(cache) / "cody"


def _clear_leftovers(file: Path) -> None:
    """Remove what killed processes left of this file. Recent leftovers may be work in progress."""
    pattern = re.compile(rf"\.{re.escape(file.name)}\.[0-9a-f]{{8}}\.partial")
    with suppress(OSError):
        for leftover in filter(lambda path: pattern.fullmatch(path.name), file.parent.iterdir()):
            if time.time() - leftover.stat().st_mtime > STALE:
                leftover.unlink(missing_ok=True)


def lock_open_file(opened: int) -> None:
    """Lock an open file until it is closed. BlockingIOError: another process has the lock."""
    from filelock import lock_descriptor  # only where something is locked: it takes time to import

    if not lock_descriptor(opened, blocking=False):
        raise BlockingIOError


@contextmanager
def locked(lock: Path) -> Iterator[None]:
    """Keep other processes out of a block, as long as it runs. The lock is a file of that name, which goes with it."""
    from filelock import FileLock

    with FileLock(lock):  # who waits for it looks again if the file is gone
        try:
            yield
        finally:
            with suppress(OSError):  # Windows keeps what is open
                lock.unlink(missing_ok=True)


def remove_unless_locked(lock: Path, left: Path) -> None:
    """Remove what a process left behind that worked under this lock, and the lock, unless it is still at work."""
    from filelock import FileLock, Timeout

    with suppress(OSError, Timeout), FileLock(lock, timeout=0):
        if left.is_dir():
            shutil.rmtree(left, ignore_errors=True)
        else:
            left.unlink(missing_ok=True)
        lock.unlink(missing_ok=True)


@contextmanager
def scratch_folder(prefix: str) -> Iterator[Path]:
    """A temporary folder, as long as the block runs. Those that killed processes left behind are removed first."""
    parent = Path(tempfile.gettempdir())
    for lock in parent.glob(f"{prefix}*.lock"):
        remove_unless_locked(lock, lock.with_suffix(""))
    folder = parent / f"{prefix}{uuid.uuid4().hex}"
    lock = folder.with_suffix(".lock")
    with locked(lock):  # before there is a folder: one without a lock is not ours
        folder.mkdir(mode=0o700)
        try:
            yield folder
        finally:
            shutil.rmtree(folder, ignore_errors=True)


# The cache of this machine. All of it can be made or downloaded again.

MADE = {  # what can be cleared: it is made again when it is needed
    "versions": "memories of TGNs, one table for each model and data set",
    "intact": "notes on saved graphs that were verified",
}
OTHERS = "downloaded data sets and other files"


class CacheEntry(NamedTuple):
    """Files of one kind."""

    name: str  # "": all others
    what: str
    files: int
    size: int  # bytes


def kept() -> list[CacheEntry]:
    """What the cache holds, by kind."""
    folder = cache_directory()
    made = [_kept(name, what, (folder / name).rglob("*")) for name, what in MADE.items()]
    rest = (file for file in folder.rglob("*") if file.relative_to(folder).parts[0] not in MADE)
    return [*made, _kept("", OTHERS, rest)]


def clear() -> int:
    """Remove what can be made again; how many bytes that frees. Downloads stay."""
    size = sum(each.size for each in kept() if each.name)
    for name in MADE:
        shutil.rmtree(cache_directory() / name, ignore_errors=True)
    return size - sum(each.size for each in kept() if each.name)


def _kept(name: str, what: str, files: Iterator[Path]) -> CacheEntry:
    sizes = []
    for file in files:
        with suppress(OSError):  # another process may clear it just now
            if file.is_file():
                sizes.append(file.stat().st_size)
    return CacheEntry(name, what, len(sizes), sum(sizes))
