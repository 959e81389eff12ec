"""Write docs/cli.md from the command line's own --help: `python docs/make_cli_reference.py`."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import typer
from typer.testing import CliRunner

from cody.cli import app

TARGET = Path(__file__).parent / "cli.md"
INTRODUCTION = """# Command line

*Made from `--help` by `python docs/make_cli_reference.py`; a test fails when it is out of date.*

Answers go to standard output; progress and messages go to standard error. Exit codes: 0 done, 1 something failed,
2 the call was wrong.
"""


def commands(app: typer.Typer, *parents: str) -> Iterator[tuple[str, ...]]:
    """The words of every command, groups included."""
    yield parents
    for command in app.registered_commands:
        assert command.callback is not None
        yield (*parents, command.name or command.callback.__name__)
    for group in app.registered_groups:
        yield from commands(group.typer_instance, *parents, str(group.name))


def reference() -> str:
    """The help of every command, one after the other."""
    text = INTRODUCTION
    for words in commands(app):
        help_ = CliRunner().invoke(app, [*words, "--help"], env={"COLUMNS": "80"}).output.strip()
        help_ = help_.replace("Usage: root", "Usage: cody")
        text += f"\n{'#' * (2 + len(words))} {' '.join(['cody', *words])}\n\n```text\n{help_}\n```\n"
    return text


if __name__ == "__main__":
    TARGET.write_text(reference(), encoding="utf-8")
