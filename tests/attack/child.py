"""A command in a process of its own, in folders of its own, that can be killed at any of its steps on the disk.

Processes are forked from a server that has imported everything, so that a command takes no longer than its work.
"""

from __future__ import annotations

import multiprocessing
import os
import signal
import sys
import tempfile
from functools import cache
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any

import cody.cli

WHEN_NEEDED = [
    "pandas",
    "pyarrow.csv",
    "torch._dynamo",
    "cody.baselines",
    "cody.train.training",
]  # commands import them
WHEN_NEEDED += ["cody.baselines.differentiable", "cody.study.on_ray", "cody.study.pool"]
WHEN_NEEDED += [f"cody.cli.{name}" for name in ("explain", "data", "train", "evaluate", "running", "show")]
STEPS = {"open", "os.rename", "os.remove", "os.mkdir", "os.rmdir", "os.truncate", "os.link", "os.symlink"}


def start(words: list[str], folder: Path, last_step: int | None = None) -> BaseProcess:
    """Run `cody words` below `folder`; it kills itself before it takes step `last_step` on the disk."""
    context = multiprocessing.get_context("forkserver")
    here = [name for name in ("pytest",) if name in sys.modules]  # the child of a test imports it again
    context.set_forkserver_preload(["attack.child", *WHEN_NEEDED, *here])
    process = context.Process(target=_run, args=(words, str(folder), last_step))
    process.start()
    return process


@cache
def warm_up() -> None:
    """Start the server."""
    with tempfile.TemporaryDirectory() as folder:
        start(["--version"], Path(folder)).join()


def _run(words: list[str], folder: str, last_step: int | None) -> None:
    for name, variable in (("tmp", "TMPDIR"), ("cache", "XDG_CACHE_HOME"), ("home", "HOME")):
        Path(folder, name).mkdir(exist_ok=True)
        os.environ[variable] = str(Path(folder, name))
    os.environ.pop("CODY_DATA", None)
    tempfile.tempdir = None
    tempfile.gettempdir()  # tries TMPDIR, with a file of its own
    os.chdir(folder)
    for stream, name in ((1, "stdout"), (2, "stderr")):
        os.dup2(os.open(f"{name}.txt", os.O_WRONLY | os.O_CREAT | os.O_TRUNC), stream)
    steps = Steps(folder, last_step)
    sys.addaudithook(steps)
    sys.argv = ["cody", *words]
    try:
        cody.cli.main()
    finally:
        sys.stdout.flush()
        Path(folder, "steps.txt").write_text(str(steps.taken))


class Steps:
    """Counts what is done to files below a folder."""

    def __init__(self, folder: str, last: int | None) -> None:
        self.folder, self.last, self.taken = folder, last, 0

    def __call__(self, event: str, arguments: tuple[Any, ...]) -> None:
        if event not in STEPS or not arguments or not isinstance(arguments[0], str | os.PathLike):
            return
        path = str(Path(self.folder, arguments[0]))  # relative ones are relative to it
        if not path.startswith(self.folder) or (event == "open" and _only_reads(arguments)):
            return
        if self.taken == self.last:
            os.kill(os.getpid(), signal.SIGKILL)
        self.taken += 1


def _only_reads(arguments: tuple[Any, ...]) -> bool:
    _, mode, flags = arguments
    return not (flags & (os.O_WRONLY | os.O_RDWR)) and not set(mode or "") & set("wax+")
