"""Ctrl-C while the command is still importing what it needs: nothing has begun yet, so it ends without a word.

The package imports this module first. A program that imports the package is not the command, and keeps its signals.
"""

from __future__ import annotations

import os
import signal
import sys
from types import FrameType

STOPPED = 130  # the exit code of a command that Ctrl-C ended


def _stop(number: int, frame: FrameType | None) -> None:
    os._exit(STOPPED)  # an exception would come out of a half-imported module, if at all


def _is_command() -> bool:
    """Whether this process is `cody` or `python -m cody`; the latter is called "-m" until its module is found."""
    name, words = (sys.argv or [""])[0], sys.orig_argv
    return os.path.basename(name) == "cody" or (name == "-m" and words[words.index("-m") + 1 :][:1] == ["cody"])  # noqa: PTH119


def end() -> None:
    """From here on Ctrl-C is an exception, which a command can handle."""
    if signal.getsignal(signal.SIGINT) is _stop:
        signal.signal(signal.SIGINT, signal.default_int_handler)


if _is_command() and signal.getsignal(signal.SIGINT) is signal.default_int_handler:  # workers ignore it, for example
    signal.signal(signal.SIGINT, _stop)
