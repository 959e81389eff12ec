"""Files: arrays that open or give one clear error, and files that appear whole or not at all."""

from __future__ import annotations

import math
import os
import re
import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, Any

import numpy as np
from numpy.typing import NDArray

from cody.errors import DataError

STALE = 15 * 60.0  # seconds after which nobody is still writing what a killed process left behind


def load_array(file: Path, *, mapped: bool) -> NDArray[Any]:
    """The array in a `.npy` file, read or only mapped. Whatever is wrong with the file is a DataError that names it.

    Nothing is allocated before the size that the header speaks of was found to be that of the file.
    """
    try:
        with file.open("rb") as stream:
            _check_size(stream)
        array: NDArray[Any] = np.load(file, mmap_mode="r" if mapped else None, allow_pickle=False)
    except FileNotFoundError:
        raise DataError(f"{file} is missing") from None
    except OSError as error:
        raise DataError(f"{file} cannot be read: {error.strerror or error}") from None
    except Exception as error:  # numpy reads the header with Python's own parser, and raises whatever that meets
        reason = (str(error).splitlines() or [type(error).__name__])[0]
        raise DataError(f"{file} is truncated, damaged or not a .npy file ({reason})") from None
    return np.asarray(array)  # a plain view of a map: indexing a memmap object is slower


def _check_size(stream: IO[bytes]) -> None:
    """Refuse an array that the rest of the file cannot hold, or that is not all of it."""
    version = np.lib.format.read_magic(stream)
    read_header = np.lib.format.read_array_header_1_0 if version == (1, 0) else np.lib.format.read_array_header_2_0
    shape, _, dtype = read_header(stream)
    if dtype.hasobject:
        raise ValueError("it holds Python objects")
    expected = math.prod(shape) * dtype.itemsize
    found = os.fstat(stream.fileno()).st_size - stream.tell()
    if min(shape, default=0) < 0 or expected != found:
        raise ValueError(f"{dtype} {list(shape)} takes {expected:,} bytes, but there are {found:,}")


def write_atomically(file: Path, content: bytes | str) -> None:
    """Write the file all at once: whoever opens it sees the old content or the new one, also after a crash."""
    with replacing(file) as partial:
        partial.write_bytes(content.encode() if isinstance(content, str) else content)


@contextmanager
def replacing(file: Path) -> Iterator[Path]:
    """The path of an empty file to write to, which becomes `file` when the block ends, and vanishes if it fails.

    It gets the mode of any file that the user makes, whatever the writer thought of. A link is replaced itself, not
    what it points to.
    """
    _clear_leftovers(file)
    partial = file.with_name(f".{file.name}.{uuid.uuid4().hex[:8]}.partial")
    try:
        partial.touch()
        usual_mode = partial.stat().st_mode
        yield partial
        partial.chmod(usual_mode)
        flush(partial)
        partial.replace(file)
    finally:
        with suppress(OSError):  # what stopped the writing may stop this, and is the better message
            partial.unlink(missing_ok=True)


def flush(file: Path) -> None:
    """Wait until the file is on the disk, so that nothing points at it before it is safe from a power cut."""
    with file.open("rb") as stream:
        os.fsync(stream.fileno())


def _clear_leftovers(file: Path) -> None:
    """Remove what killed processes left of this file. What was written to lately may be work in progress."""
    pattern = re.compile(rf"\.{re.escape(file.name)}\.[0-9a-f]{{8}}\.partial")
    with suppress(OSError):
        for leftover in filter(lambda path: pattern.fullmatch(path.name), file.parent.iterdir()):
            if time.time() - leftover.stat().st_mtime > STALE:
                leftover.unlink(missing_ok=True)
