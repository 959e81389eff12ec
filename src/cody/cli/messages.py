"""What a command prints: messages on standard error, answers for other programs on standard output."""

from __future__ import annotations

import logging
import os
import shutil
import sys
import textwrap
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple, NoReturn, TextIO, TypeAlias

import click

from cody.utils import start, words

if TYPE_CHECKING:
    from cody.utils.tables import TextTable

WRONG = click.style(" (wrong)", fg="red")
PROSE = 80  # columns of a sentence, however wide the terminal is
_filled = partial(textwrap.fill, break_long_words=False, break_on_hyphens=False)


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
            say(f"{time.strftime('%H:%M:%S', time.localtime(record.created))} {record.name}: {message}")


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
