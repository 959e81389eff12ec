"""Temporary folders of a run. What a killed run leaves behind, the next run removes."""

from __future__ import annotations

import os
import re
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from cody.utils.locks import lock

PREFIX = "cody-workers-"


def clear_abandoned() -> None:
    """Remove the folders that killed runs left behind."""
    for folder in filter(_is_scratch, Path(tempfile.gettempdir()).glob(f"{PREFIX}*")):
        opened = _lock(folder, wait=False)
        if opened is not None:  # no run uses it
            shutil.rmtree(folder, ignore_errors=True)
            os.close(opened)


@contextmanager
def scratch_folder() -> Iterator[Path]:
    """A folder for the graph that the workers of a run share, locked as long as the run lasts."""
    folder, opened = _new_folder()
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)
        if opened is not None:
            os.close(opened)


def _new_folder() -> tuple[Path, int | None]:
    while True:
        folder = Path(tempfile.mkdtemp(prefix=PREFIX))
        opened = _lock(folder, wait=True)
        if folder.exists():
            return folder, opened
        if opened is not None:
            os.close(opened)  # another run found the folder before it was locked, and removed it


def _lock(folder: Path, *, wait: bool) -> int | None:
    """Lock a folder until this process ends, however it does. None: it cannot be locked, as on Windows."""
    opened = None
    with suppress(OSError):
        opened = os.open(folder, os.O_RDONLY | getattr(os, "O_DIRECTORY", 0) | getattr(os, "O_NOFOLLOW", 0))
        lock(opened, wait=wait)
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
