"""The start of a command: what it imports takes longer than most answers, so nothing else is done meanwhile.

Ctrl-C ends it without a word, since nothing has begun yet; garbage is not collected, since there is none.

The package imports this module first. A program that imports the package is not the command, and keeps its signals.
"""

from __future__ import annotations

import gc
import os
import signal
import sys
from contextlib import suppress
from itertools import pairwise
from pathlib import Path
from types import FrameType

STOPPED = 130  # the exit code of a command that Ctrl-C ended


def _stop(number: int, frame: FrameType | None) -> None:
    os._exit(STOPPED)  # an exception would come out of a half-imported module, if at all


def _is_command() -> bool:
    """Whether this process is `cody` or `python -m cody`; the latter is called "-m" until its module is found."""
    name = Path((sys.argv or [""])[0]).name.removesuffix(".exe")
    if name != "-m":
        return name == "cody"
    modules = (word for option, word in pairwise(sys.orig_argv) if option.startswith("-") and option.endswith("m"))
    return next(modules, None) == "cody"


def end() -> None:
    """From here on Ctrl-C is an exception, which a command can handle, and garbage is collected among what is new."""
    gc.freeze()
    gc.enable()
    if signal.getsignal(signal.SIGINT) is _stop:
        signal.signal(signal.SIGINT, signal.default_int_handler)


if _is_command():
    gc.disable()
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:  # workers ignore it
        with suppress(ValueError):  # not the main thread
            signal.signal(signal.SIGINT, _stop)
