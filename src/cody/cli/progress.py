"""How far a command is, on a terminal; elsewhere nothing is shown, and what draws it is not imported."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

Update = Callable[..., None]  # completed=, total=, description=: what has changed


def on_terminal() -> bool:
    return sys.stderr is not None and sys.stderr.isatty()


@contextmanager
def status(text: str) -> Iterator[Callable[[str], None]]:
    """A line about what is being done, while the block runs; the function that is given replaces it."""
    if not on_terminal():
        yield lambda text: None
        return
    with _console().status(text) as shown:
        yield shown.update


@contextmanager
def progress(description: str, total: int | None, *, completed: int = 0, in_bytes: bool = False) -> Iterator[Update]:
    """A bar, while the block runs; the function that is given moves it."""
    if not on_terminal():
        yield lambda **changes: None
        return
    from rich.progress import BarColumn, DownloadColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    count = DownloadColumn() if in_bytes else MofNCompleteColumn()
    columns = (TextColumn("{task.description}", markup=False), BarColumn(), count, TimeRemainingColumn())
    with Progress(*columns, console=_console(), transient=True) as bar:
        task = bar.add_task(description, total=total, completed=completed)
        yield lambda **changes: bar.update(task, **changes)


def _console() -> Any:
    from rich.console import Console

    return Console(stderr=True, markup=False, emoji=False, highlight=False)
