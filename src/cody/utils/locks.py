"""Locks on files, which are gone when the process is, however it ends."""

from __future__ import annotations

import os
import time
from contextlib import suppress
from typing import Any

try:
    import fcntl
except ImportError:  # Windows
    fcntl = None  # type: ignore[assignment]

FAR = (1 << 31) - 2  # the byte that is locked on Windows: it cannot be read meanwhile, so it is beyond most files
RETRY = 0.1  # seconds between two attempts there


def lock(opened: int, *, wait: bool) -> None:
    """Lock an open file until it is closed. Without `wait`, BlockingIOError says that another process has the lock."""
    if fcntl is not None:
        fcntl.flock(opened, fcntl.LOCK_EX if wait else fcntl.LOCK_EX | fcntl.LOCK_NB)
        return
    while not _lock_byte(opened):
        if not wait:
            raise BlockingIOError("another process has locked this file")
        time.sleep(RETRY)


def _lock_byte(opened: int) -> bool:
    """Lock one byte, as Windows does it."""
    import msvcrt

    windows: Any = msvcrt  # type checkers see the module as it is on their own system
    place = os.lseek(opened, 0, os.SEEK_CUR)
    os.lseek(opened, FAR, os.SEEK_SET)
    try:
        with suppress(OSError):
            windows.locking(opened, windows.LK_NBLCK, 1)
            return True
        return False
    finally:
        os.lseek(opened, place, os.SEEK_SET)
