"""What a command says to whoever watches it: on standard error, which leaves standard output to the answer."""

from __future__ import annotations

import os
import sys

import click


def say(message: str) -> None:
    """Print a line on standard error; above the bar, while there is one."""
    if sys.stderr is None:
        return
    coloured = sys.stderr.isatty() and "NO_COLOR" not in os.environ
    # Not click.echo: it looks for the stream behind the one that a bar has put in place, and writes into the bar.
    print(message if coloured else click.unstyle(message), file=sys.stderr, flush=True)
