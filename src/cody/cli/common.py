"""The command line as such: where answers and messages go, options that many commands have, exit codes.

Answers go to standard output; progress and messages go to standard error. Exit codes: 0 done, 1 something failed,
2 the call was wrong.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Annotated, Any

import typer
from rich.console import Console, RenderableType
from rich.measure import Measurement
from rich.table import Table
from rich.text import Text
from typer.core import TyperGroup

from cody import _start, words
from cody._version import __version__
from cody.errors import CallError, CodyError


class Commands(TyperGroup):
    """Commands; where a call is not understood, the parser's message repeats no more of it than a person can read."""

    def make_context(self, *arguments: Any, **options: Any) -> Any:
        with _readable_errors():
            return super().make_context(*arguments, **options)

    def invoke(self, ctx: Any) -> Any:
        with _readable_errors():
            return super().invoke(ctx)


@contextmanager
def _readable_errors() -> Iterator[None]:
    try:
        yield
    except Exception as error:
        if isinstance(message := getattr(error, "message", None), str):  # the parser's; its classes are not public
            error.message = "\n".join(words.plain(line, 300) for line in message.split("\n"))  # type: ignore[attr-defined]
        raise


EXTRAS = {"torch": "train", "ray": "ray", "matplotlib": "figures"}  # what some commands need, and how to get it

app = typer.Typer(
    cls=Commands,
    help="Which past events, had they not happened, would have changed a prediction?",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"]},
)
data_commands = typer.Typer(
    help="Data sets: those known by name, and your own.", no_args_is_help=True, rich_markup_mode=None
)
app.add_typer(data_commands, name="data")

# Into a file or a pipe, tables are as wide as they need to be.
WIDEST = 200
_narrow = (sys.stdout is not None and sys.stdout.isatty()) or "COLUMNS" in os.environ


def _console(width: int | None = None, *, stderr: bool = False) -> Console:
    """Where nothing is markup."""
    return Console(stderr=stderr, markup=False, emoji=False, highlight=False, width=width)


out = _console(None if _narrow else WIDEST)
messages = _console(stderr=True)

DataOption = Annotated[str, typer.Option("--data", help="A data set's name, a file of events, or a saved graph.")]
ModelOption = Annotated[str, typer.Option("--model", help="A model's folder, or the name of a shipped one.")]
JsonOption = Annotated[bool, typer.Option("--json", help="Print one JSON document, and nothing else.")]
SortOption = Annotated[bool, typer.Option("--sort", help="Sort the events by time; equal times keep their order.")]
ScorerOption = Annotated[
    str | None, typer.Option("--scorer", help="What cody train-explainer trained. Default: that of a shipped model.")
]
OtherDataOption = Annotated[bool, typer.Option("--other-data", help="Ask the model about data it was not made for.")]


def main() -> None:
    """Run a command; an error of ours becomes one line and an exit code."""
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="replace")  # a terminal without → gets a question mark
    try:
        _start.end()
        app()
    except KeyboardInterrupt:  # commands that have something to say about it do that
        sys.exit(_start.STOPPED)
    except CodyError as error:
        say(Text.assemble(("error: ", "bold red"), words.plain(error, 2000)))
        sys.exit(2 if isinstance(error, CallError) else 1)
    except ModuleNotFoundError as error:
        if error.name not in EXTRAS:
            raise
        extra = f"pip install 'cody-explain[{EXTRAS[error.name]}]'"
        say(Text.assemble(("error: ", "bold red"), f"this needs {error.name}, which is not installed: {extra}"))
        sys.exit(1)
    except OSError as error:
        say(Text.assemble(("error: ", "bold red"), words.plain(error, 2000)))
        sys.exit(1)


def say(message: RenderableType) -> None:
    messages.print(message, soft_wrap=True)


def print_parts(parts: Iterable[RenderableType]) -> None:
    """Tables as wide as they are, prose (`Text`) at most 80 columns wide, other text as it is."""
    for part in parts:
        needed = Measurement.get(out, out.options.update(width=WIDEST), part).minimum
        if isinstance(part, Table) and needed > out.width:  # rather broken lines than numbers that are cut off
            _console(needed).print(part)
        else:
            width = min(out.width, 80) if isinstance(part, Text) else None
            out.print(part, soft_wrap=isinstance(part, str), width=width)


def print_json(document: Any) -> None:
    """One line, on its way at once. Where the terminal lacks a letter it is an escape: the value stays right."""
    text = words.to_json(document)
    try:
        text.encode(getattr(sys.stdout, "encoding", None) or "utf-8")
    except UnicodeEncodeError:
        text = words.to_json(document, ascii_only=True)
    print(text, flush=True)


def _version(wanted: bool) -> None:
    if wanted:
        print(f"cody {__version__}")
        raise typer.Exit


def use_threads(count: int) -> None:
    """For torch, now or when it is imported: the matrices of one question are small, a second thread only costs."""
    os.environ["OMP_NUM_THREADS"] = str(count)
    if "torch" in sys.modules:
        sys.modules["torch"].set_num_threads(count)


@app.callback()
def _options(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    pass
