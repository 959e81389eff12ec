"""What a command says to whoever watches it: on standard error, which leaves standard output to the answer."""

from __future__ import annotations

import os
import shutil
import sys
import textwrap

import click

from cody import words


def say(message: str, before: str = "") -> None:
    """Print a message on standard error, `before` it in red; above the bar, while there is one."""
    if sys.stderr is None:
        return
    coloured = sys.stderr.isatty() and "NO_COLOR" not in os.environ
    message = (click.style(before, fg="red", bold=True) if before else "") + wrapped(message, before)
    # Not click.echo: it looks for the stream behind the one that a bar has put in place, and writes into the bar.
    print(message if coloured else click.unstyle(message), file=sys.stderr, flush=True)


def wrapped(message: str, beside: str = "") -> str:
    """A message for standard error: on a terminal, its lines end between words; a path or a command stays whole.

    `beside`: what stands before it on its first line.
    """
    if sys.stderr is None or not sys.stderr.isatty():
        return message
    width = shutil.get_terminal_size().columns
    lines = [
        textwrap.fill(line, max(width - 1, 20), break_long_words=False, break_on_hyphens=False, drop_whitespace=True)
        if words.columns(line) >= width
        else line
        for line in (beside + message).split("\n")
    ]
    return "\n".join(lines).removeprefix(beside)
