"""Temporary folders of a run. What a killed run leaves behind, the next run removes."""

from __future__ import annotations

import fcntl
import os
import re
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

PREFIX = "cody-workers-"


def clear_abandoned() -> None:
    """Remove the folders that killed runs left behind."""
    for folder in filter(_is_scratch, Path(tempfile.gettempdir()).glob(f"{PREFIX}*")):
        lock = _lock(folder, fcntl.LOCK_NB)
        if lock is not None:  # no run uses it
            shutil.rmtree(folder, ignore_errors=True)
            os.close(lock)


@contextmanager
def scratch_folder() -> Iterator[Path]:
    """A folder for the graph that the workers of a run share, locked as long as the run lasts."""
    folder, lock = _new_folder()
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)
        if lock is not None:
            os.close(lock)


def _new_folder() -> tuple[Path, int | None]:
    while True:
        folder = Path(tempfile.mkdtemp(prefix=PREFIX))
        lock = _lock(folder)
        if folder.exists():
            return folder, lock
        if lock is not None:
            os.close(lock)  # another run found the folder before it was locked, and removed it


def _lock(folder: Path, flags: int = 0) -> int | None:
    """Lock a folder until this process ends, however it does. None: it cannot be locked."""
    opened = None
    with suppress(OSError):
        opened = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
        fcntl.flock(opened, fcntl.LOCK_EX | flags)
        return opened
    if opened is not None:
        os.close(opened)
    return None


def _is_scratch(folder: Path) -> bool:
    """Whether a folder is named like ours and holds nothing but a graph."""
    with suppress(OSError):  # it is gone already, or belongs to another user
        named = re.fullmatch(rf"{PREFIX}[a-z0-9_]{{8}}", folder.name) is not None
        return named and all(re.fullmatch(r"graph|\.graph\.\w+\.\w+", file.name) for file in folder.iterdir())
    return False
