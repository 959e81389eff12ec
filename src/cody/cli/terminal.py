"""What a command prints: messages and how far it is on standard error, answers on standard output."""

from __future__ import annotations

import logging
import os
import shutil
import sys
import textwrap
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from dataclasses import dataclass, field
from time import localtime, monotonic, strftime
from typing import TYPE_CHECKING, Any, NamedTuple, NoReturn, TextIO, TypeAlias

import click

from cody.utils import start, words

if TYPE_CHECKING:
    from cody.utils.tables import TextTable

WRONG = click.style(" (wrong)", fg="red")
PROSE = 80  # columns of a sentence, however wide the terminal is


def say(message: str, before: str = "") -> None:
    """Print a message on standard error, `before` it in red; above the bar, while there is one."""
    if sys.stderr is None:
        return
    message = (click.style(before, fg="red", bold=True) if before else "") + wrapped(message, before)
    # Not click.echo: it looks for the stream behind the one that a bar has put in place, and writes into the bar.
    print(styled(message, sys.stderr), file=sys.stderr, flush=True)


def styled(text: str, stream: TextIO) -> str:
    """A text with its colours where the stream is a terminal, unless NO_COLOR is set."""
    return text if stream.isatty() and "NO_COLOR" not in os.environ else click.unstyle(text)


def wrapped(message: str, beside: str = "") -> str:
    """A message for standard error: on a terminal, its lines end between words; a path or a command stays whole.

    `beside`: what stands before it on its first line.
    """
    if sys.stderr is None or not sys.stderr.isatty():
        return message
    width = shutil.get_terminal_size().columns
    lines = [
        _filled(line, max(width - 1, 20)) if words.columns(line) >= width else line
        for line in (beside + message).split("\n")
    ]
    return "\n".join(lines).removeprefix(beside)


def _filled(line: str, width: int) -> str:
    """A line broken between words, but not between a number and its %."""
    joined = line.replace(" %", "\u00a0%")
    return textwrap.fill(joined, width, break_long_words=False, break_on_hyphens=False).replace("\u00a0%", " %")


def stop(left: str = "") -> NoReturn:
    """End a command after Ctrl-C, and say what it leaves behind."""
    say(f"stopped; {left}" if left else "stopped")
    sys.exit(start.STOPPED)


LEVELS = (logging.WARNING, logging.INFO, logging.DEBUG)  # without -v, with one, with two


@contextmanager
def logged(verbosity: int) -> Iterator[None]:
    """Print what the package logs while the block runs: warnings; with -v also what is done, with -vv in detail."""
    logger, handler = logging.getLogger("cody"), _Saying()
    before = logger.level
    logger.addHandler(handler)
    logger.setLevel(LEVELS[min(verbosity, len(LEVELS) - 1)])
    try:
        yield
    finally:
        logger.removeHandler(handler)
        logger.setLevel(before)


class _Saying(logging.Handler):
    """Says what is logged; what is not a warning with the time and the part of the package it comes from."""

    def emit(self, record: logging.LogRecord) -> None:
        message = words.sanitize(record.getMessage(), 2000)
        if record.levelno >= logging.WARNING:
            say(message, before="warning: ")
        else:
            say(f"{strftime('%H:%M:%S', localtime(record.created))} {record.name}: {message}")


def green(text: str, changed: bool = True) -> str:
    """What stands out on a terminal."""
    return click.style(text, fg="green", bold=True) if changed and text else text


class Prose(NamedTuple):
    """Sentences, whose lines are broken between words."""

    text: str
    bold: bool = False


ShownPart: TypeAlias = "TextTable | Prose | str"  # a text by itself is printed as it is


def print_parts(parts: Iterable[ShownPart]) -> None:
    """Print tables, prose and text. Into a file or a pipe, tables are as wide as they need to be."""
    narrow = sys.stdout.isatty() or "COLUMNS" in os.environ
    width = shutil.get_terminal_size().columns if narrow else None
    for part in parts:
        print(styled(_as_text(part, width), sys.stdout))


def _as_text(part: ShownPart, width: int | None) -> str:
    if isinstance(part, str):
        return part
    if not isinstance(part, Prose):
        return "\n".join(part.lines(width))
    filled = "\n".join(_filled(line, min(width or PROSE, PROSE)) for line in part.text.split("\n"))
    return click.style(filled, bold=True) if part.bold else filled


def print_json(document: Any) -> None:
    """One line, on its way at once. Where the terminal lacks a letter it is an escape: the value stays right."""
    text = words.to_json(document)
    try:
        text.encode(getattr(sys.stdout, "encoding", None) or "utf-8")
    except UnicodeEncodeError:
        text = words.to_json(document, ascii_only=True)
    print(text, flush=True)


def print_csv(columns: Sequence[str], rows: Iterable[Mapping[str, object]]) -> None:
    """Comma-separated values, each row on its way as soon as it is known."""
    import csv  # only where it is wanted

    writer = csv.DictWriter(sys.stdout, columns, lineterminator="\n")
    writer.writeheader()
    for row in rows:
        writer.writerow(row)
        sys.stdout.flush()


# How far a command is: a bar on a terminal; elsewhere a line every minute. Standard output is left alone, so that what
# a command prints arrives wherever it is sent. Nothing else uses rich's bars and spinners: unless they are told not to,
# they redirect standard output to the stream that they are drawn on.

EVERY = 60.0  # seconds between two lines where there is no terminal
BAR = 20  # columns; with a description and the time that is left it fits 80

Update = Callable[..., None]  # (completed, total, description): what has changed, so it can be given as a `watch`


@dataclass(slots=True)
class Work:
    """A piece of work that takes a while, and how far it is."""

    description: str
    total: int | None = None  # None: nobody knows
    completed: int = 0
    in_bytes: bool = False
    at_most: bool = False  # it may end before everything is done
    begun: float = field(default_factory=monotonic)
    first: int = 0  # what was completed then

    def __post_init__(self) -> None:
        self.first = self.completed

    def update(self, completed: int | None = None, total: int | None = None, description: str | None = None) -> None:
        self.completed = self.completed if completed is None else completed
        if self.total is None and total is not None:  # what came before was preparation
            self.begun, self.first = monotonic(), self.completed
        self.total = self.total if total is None else total
        self.description = self.description if description is None else description

    @property
    def count(self) -> str:
        """How much is done, of how much."""
        scale, unit, digits = (1e6, " MB", 1) if self.in_bytes else (1, "", 0)
        total = "?" if self.total is None else f"{self.total / scale:,.{digits}f}"
        return f"{self.completed / scale:,.{digits}f}/{total}{unit}"

    @property
    def left(self) -> str:
        """How long the rest will take at the present rate; empty if that is not known."""
        done, seconds = self.completed - self.first, monotonic() - self.begun
        if self.total is None or done <= 0 or self.completed >= self.total:
            return ""
        rest = (self.total - self.completed) * seconds / done
        return f"{'at most ' if self.at_most else ''}{words.ago(rest)} left"

    @property
    def line(self) -> str:
        """How far it is, where there is no bar."""
        if self.total is None:
            return f"{self.description.removesuffix(' ...')} ({words.ago(monotonic() - self.begun)} so far)"
        parts = [self.count.replace("/", " of "), f"{100 * self.completed // max(1, self.total)} %", self.left]
        return f"{self.description}: {', '.join(filter(None, parts))}"


_under_way: list[Work | None] = []  # the innermost last; None: nothing is printed about it


def on_terminal() -> bool:
    return sys.stderr is not None and sys.stderr.isatty()


@contextmanager
def command(name: str) -> Iterator[None]:
    """A whole command. Where there is no terminal, what it is doing is printed every minute."""
    ended = threading.Event()

    def speak() -> None:
        while not ended.wait(EVERY):
            with suppress(OSError, ValueError):  # nobody listens any more
                if not on_terminal() and (work := _under_way[-1]) is not None:
                    say(work.line)

    speaker = threading.Thread(target=speak, name="progress", daemon=True)
    with _entered(Work(name)):
        speaker.start()
        try:
            yield
        finally:
            ended.set()
            speaker.join()


@contextmanager
def waiting() -> Iterator[None]:
    """Print nothing about a command while it waits for its user."""
    with _entered(None):
        yield


@contextmanager
def progress(description: str, total: int | None, *, drawn: bool = True, **more: Any) -> Iterator[Update]:
    """A bar, while the block runs; the function that is given moves it.

    Args:
        description: What is counted, or what is being done.
        total: How much it is; None: nobody knows.
        drawn: Whether there is a bar.
        more: What else is known about the `Work`.
    """
    work = Work(description, total, **more)
    with _entered(work), _drawn(work) if drawn else nullcontext():
        yield work.update


def status(text: str) -> AbstractContextManager[Update]:
    """A line about what is being done, while the block runs."""
    return progress(text, None)


@contextmanager
def _entered(work: Work | None) -> Iterator[None]:
    _under_way.append(work)
    try:
        yield
    finally:
        _under_way.pop()


@contextmanager
def _drawn(work: Work) -> Iterator[None]:
    """Draw the work on the terminal, if there is one; if there is none, what draws is not imported."""
    if not on_terminal():
        yield
        return
    from rich.console import Console
    from rich.live import Live
    from rich.progress_bar import ProgressBar
    from rich.spinner import Spinner
    from rich.table import Table
    from rich.text import Text

    spinner = Spinner("dots")

    def draw() -> Table:
        row = Table.grid(padding=(0, 1, 0, 0))
        description = Text(work.description, no_wrap=True, overflow="ellipsis")
        if work.total is None:
            row.add_row(spinner, description)
        else:
            bar = ProgressBar(total=max(1, work.total), completed=work.completed, width=BAR)
            row.add_row(description, bar, Text(work.count, no_wrap=True), Text(work.left, no_wrap=True))
        return row

    with Live(
        get_renderable=draw,
        console=Console(stderr=True, markup=False, emoji=False, highlight=False),
        transient=True,
        redirect_stdout=share_a_terminal(),  # only there: what is printed stands above the bar
    ):
        yield


def share_a_terminal() -> bool:
    """Whether standard output is the terminal on which the bar is drawn."""
    with suppress(OSError, ValueError, AttributeError):  # a stream without a file
        return sys.stdout.isatty() and os.path.sameopenfile(sys.stdout.fileno(), sys.stderr.fileno())
    return False
