"""Write docs/cli.md from the command line's own --help: `python docs/make_cli_reference.py`."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import click
from click.testing import CliRunner

from cody.cli import app

TARGET = Path(__file__).parent / "cli.md"
INTRODUCTION = """# Command line

*Made from `--help` by `python docs/make_cli_reference.py`; a test fails when it is out of date.*

Answers go to standard output; progress and messages go to standard error: a bar on a terminal, elsewhere a line a
minute. `-v` logs what is done, `-vv` in detail. Exit codes: 0 done, 1 something failed, 2 the call was wrong.
"""


def commands(command: click.Command, *parents: str) -> Iterator[tuple[str, ...]]:
    """The words of every command, groups included."""
    yield parents
    if isinstance(command, click.Group):
        context = click.Context(command)
        for name in command.list_commands(context):
            inner = command.get_command(context, name)
            assert inner is not None
            yield from commands(inner, *parents, name)


def reference() -> str:
    """The help of every command, one after the other."""
    text = INTRODUCTION
    for words in commands(app):
        help_ = CliRunner().invoke(app, [*words, "--help"], env={"COLUMNS": "80"}).output.strip()
        text += f"\n{'#' * (2 + len(words))} {' '.join(['cody', *words])}\n\n```text\n{help_}\n```\n"
    return text


if __name__ == "__main__":
    TARGET.write_text(reference(), encoding="utf-8")
