"""The command line as such: its commands, options that many of them have, where answers and messages go, exit codes.

Answers go to standard output; progress and messages go to standard error. Exit codes: 0 done, 1 something failed,
2 the call was wrong.
"""

from __future__ import annotations

import os
import sys
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from enum import StrEnum
from functools import partial
from typing import TYPE_CHECKING, Annotated, Any, NoReturn, TextIO

import click
from click.core import ParameterSource

from cody._version import __version__
from cody.cli.messages import say as say  # commands import it from here
from cody.cli.parser import Commands, Listed, Option, verbose_option
from cody.cli.progress import progress
from cody.errors import CallError, CodyError, CodyWarning, ModelError
from cody.utils import extras as install
from cody.utils import start as _start
from cody.utils import words

if TYPE_CHECKING:
    from cody.engine.named import NamedModel
    from cody.graph import TemporalGraph
    from cody.models.contract import Model


class TimeUnit(StrEnum):
    s = "s"
    ms = "ms"
    us = "us"
    ns = "ns"


app = Commands(
    "cody",
    help="Which past events, had they not happened, would have changed a prediction?",
    examples={
        "cody predict": "the links of the test period, missed ones marked",
        "cody explain --event 53854": "what decides one of them",
    },
    listed={
        "demo": Listed("cody.cli.explain", "See which past event decides a real prediction."),
        "predict": Listed(
            "cody.cli.predict", "Score links: which does the model get right, and who is likely to be next?"
        ),
        "what-if": Listed("cody.cli.what_if", "Ask what a model would say were the past otherwise."),
        "explain": Listed(
            "cody.cli.explain", "Find what would have had to be otherwise for a model to decide otherwise."
        ),
        "view": Listed("cody.cli.view", "Make a page of an explanation."),
        "serve": Listed("cody.cli.serve", "Explore a model in the browser."),
        "survey": Listed("cody.cli.survey", "Explain many predictions, and say what decides in general."),
        "train": Listed("cody.cli.models", "Train a model to predict links."),
        "train-explainer": Listed("cody.cli.models", "Train an explainer for a model."),
        "import-model": Listed("cody.cli.models", "Import the weights of a model that was trained elsewhere."),
        "evaluate": Listed("cody.cli.evaluate", "Run explainers on the same links, and keep a record of each answer."),
        "tables": Listed("cody.cli.evaluate", "Compare explainers as the paper's tables do."),
        "figures": Listed("cody.cli.evaluate", "Draw the figures of the paper's evaluation."),
        "data": Listed("cody.cli.data", "Data sets: those known by name, and your own."),
        "cache": Listed("cody.cli.cache", "Show or clear what is kept so that answers come sooner."),
    },
)
app.params.append(verbose_option())
click.version_option(__version__, prog_name="cody", message="%(prog)s %(version)s", help="Print the version.")(app)

DEFAULT_DATA, DEFAULT_MODEL = "collegemsg", "tgn-collegemsg"

DataOption = Annotated[str, Option("--data", help="A data set's name, a file of events, or a saved graph.")]
ModelOption = Annotated[
    str, Option("--model", help="A model's folder, the name of a shipped one, or MODULE:FUNCTION, which makes one.")
]
JsonOption = Annotated[bool, Option("--json", help="Print one JSON document, and nothing else.")]
SortOption = Annotated[bool, Option("--sort", help="Sort the events by time; equal times keep their order.")]
UnitOption = Annotated[
    TimeUnit | None, Option("--unit", help="Unit of times that are numbers in a file. Default: s, seconds.")
]
ScorerOption = Annotated[
    str | None, Option("--scorer", help="What cody train-explainer trained. Default: that of a shipped model.")
]
OtherDataOption = Annotated[bool, Option("--other-data", help="Ask the model about data it was not made for.")]


def main() -> None:
    """Run a command; an error of ours becomes one line and an exit code."""
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="replace")  # a terminal without → gets a question mark
    warnings.showwarning = _show_warning
    try:
        app()
    except KeyboardInterrupt:  # commands that have something to say about it do that
        sys.exit(_start.STOPPED)
    except CodyError as error:
        _fail(words.sanitize(error, 2000), 2 if isinstance(error, CallError) else 1)
    except ModuleNotFoundError as error:
        if error.name not in install.EXTRAS:
            raise
        _fail(str(install.missing("this", error.name)), 1)
    except OSError as error:
        _fail(words.sanitize(error, 2000), 1)


def _show_warning(
    message: Warning | str,
    category: type[Warning],
    filename: str,
    lineno: int,
    file: TextIO | None = None,
    line: str | None = None,
) -> None:
    """A warning of ours as one line; others as Python shows them."""
    if issubclass(category, CodyWarning):
        say(str(message), before="warning: ")
    else:
        _show_others(message, category, filename, lineno, file, line)


_show_others = warnings.showwarning


def _fail(message: str, code: int) -> NoReturn:
    say(message, before="error: ")
    sys.exit(code)


def print_json(document: Any) -> None:
    """One line, on its way at once. Where the terminal lacks a letter it is an escape: the value stays right."""
    text = words.to_json(document)
    try:
        text.encode(getattr(sys.stdout, "encoding", None) or "utf-8")
    except UnicodeEncodeError:
        text = words.to_json(document, ascii_only=True)
    print(text, flush=True)


def parse_shares(text: str) -> tuple[float, float]:
    """What `--period` says: two shares of the events."""
    try:
        first, last = (float(share) for share in text.split(".."))
    except ValueError:
        raise CallError(f"--period {text!r} is not understood; write two shares of the events: 0.85..1") from None
    if not 0 <= first < last <= 1:
        raise CallError(f"--period {text!r}: a period is two increasing shares of the events, between 0 and 1")
    return first, last


def use_threads(count: int) -> None:
    """For torch, now or when it is imported: the matrices of one question are small, a second thread only costs."""
    os.environ["OMP_NUM_THREADS"] = str(count)
    if "torch" in sys.modules:
        sys.modules["torch"].set_num_threads(count)


def open_model(named: NamedModel, *, allow_data_mismatch: bool, plainly: bool = False) -> Model:
    """Load a model. If the table of its memory has to be built, that shows how far it is."""
    from cody.engine import fast_model, reference_model

    use_threads(1)
    with progress("Loading the model ...", None) as move:
        events = named.graph.num_events

        def watch(built: int) -> None:
            move(description="Building the memory table, once", completed=built, total=events)

        engine = reference_model if plainly else partial(fast_model, watch=watch)
        with naming_what_was_left_out(named.name, named.graph):
            return named.open(engine=engine, allow_data_mismatch=allow_data_mismatch)


@contextmanager
def naming_what_was_left_out(model: str, graph: TemporalGraph) -> Iterator[None]:
    """Where a model does not belong to the data, and one of both is a default, the error says which option is missing.

    Identities, which the error of the library compares, say nothing to somebody who forgot an option.
    """
    try:
        yield
    except ModelError:
        if not _belongs(model, graph) and is_left_out("data"):
            raise CallError(
                f"--data is missing: without it the data are {DEFAULT_DATA}, and the model {model!r} was made for "
                "others; give those that it was made for, or use it on these anyway with --other-data"
            ) from None
        if not _belongs(model, graph) and is_left_out("model"):
            raise CallError(
                f"--model is missing: without it the model is {DEFAULT_MODEL}, which was not made for these data; "
                "give yours (cody train makes one), or use that one anyway with --other-data"
            ) from None
        raise


def _belongs(model: str, graph: TemporalGraph) -> bool:
    """Whether a model was made for these events; a folder that is no model says nothing against it."""
    from cody.models.folder import read_model

    try:
        return read_model(model).data == graph.identity
    except CodyError:
        return True


def is_left_out(option: str) -> bool:
    """Whether the command that is running has its own default for an option."""
    context = click.get_current_context(silent=True)
    source = None if context is None else context.get_parameter_source(option)
    return source is ParameterSource.DEFAULT
