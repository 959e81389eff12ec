"""The command line as such: which commands there are, where answers and messages go, and exit codes.

Answers go to standard output; progress and messages go to standard error. Exit codes: 0 done, 1 something failed,
2 the call was wrong, 130 stopped by Ctrl-C.
"""

from __future__ import annotations

import gc
import os
import sys
import warnings
from typing import Any, NoReturn

import click

from cody._version import __version__
from cody.cli.command import CommandGroup, verbose_option
from cody.cli.terminal import say
from cody.errors import CallError, CodyError, CodyWarning, first_line
from cody.utils import extras, start, words

# Commands that are in the module of another one.
BESIDE = {"verify": "view", "causes": "impact", "mcp": "serve", "figures": "tables", "cache": "data"}
BESIDE |= {"train-explainer": "train", "import-model": "train"}

app = CommandGroup(
    "cody",
    help="Counterfactual explanations for temporal graph models: which past events decide a prediction?",
    params=[verbose_option()],
    examples={
        "cody predict": "score the links of the test period, misses marked",
        "cody explain --event 53854": "find what decides one of them",
    },
    summaries={  # what the help of each begins with: a command is imported when it is called
        "demo": "See which past event decides a real prediction.",
        "predict": "Score links or labels, and see which predictions are right.",
        "what-if": "Score a link under a modified history.",
        "explain": "Find the smallest change to the history that flips a prediction.",
        "verify": "Check the claims of an explanation.",
        "impact": "Find the later predictions that would be different without some events.",
        "view": "Turn an explanation into an HTML page.",
        "serve": "Explore a model in the browser.",
        "mcp": "Give a language model tools: predict, explain, what-if, audit and survey.",
        "survey": "Explain many predictions and summarize what decides them.",
        "causes": "Find the few causes that many predictions share.",
        "audit": "Find out what a model reacts to.",
        "train": "Train a model that predicts links, or the labels of events.",
        "train-explainer": "Train an explainer for a model.",
        "import-model": "Import the weights of a model trained elsewhere.",
        "evaluate": "Run explainers on the same links and record every answer.",
        "benchmark": "Compare explainers where the causes of links are known.",
        "tables": "Compare explainers in the tables of the paper.",
        "figures": "Draw the figures of the paper's evaluation.",
        "data": "List, inspect, import and export data sets.",
        "cache": "Show or clear the cache.",
    },
    modules=BESIDE,
)
click.version_option(__version__, prog_name="cody", message="%(prog)s %(version)s", help="Print the version.")(app)


def main() -> None:
    """Run a command; an error of ours becomes one line and an exit code."""
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="replace")  # a terminal without → gets a question mark
    warnings.showwarning = _show_warning
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # before numpy is imported: the matrices of a query are small
    try:
        sys.exit(app.main(standalone_mode=False))
    except (KeyboardInterrupt, click.Abort):  # commands that have something to say about it do that
        sys.exit(start.STOPPED)
    except click.ClickException as error:  # the call was wrong
        error.show()
        sys.exit(error.exit_code)
    except CodyError as error:
        _fail(words.sanitize(error, 2000), 2 if isinstance(error, CallError) else 1)
    except ModuleNotFoundError as error:
        if error.name not in extras.EXTRAS:
            raise
        _fail(str(extras.missing("this", error.name)), 1)
    except OSError as error:
        where = "" if error.filename is None else f"{error.filename}: "
        _fail(words.sanitize(f"{where}{first_line(error)}", 2000), 1)
    finally:
        if "duckdb" not in sys.modules:  # which reports what is left as leaked
            gc.freeze()  # the process ends: nothing needs to be looked through for garbage


def _show_warning(message: Warning | str, category: type[Warning], *where: Any, **further: Any) -> None:
    """A warning of ours as one line; others as Python shows them."""
    if issubclass(category, CodyWarning):
        say(str(message), before="warning: ")
    else:
        _show_others(message, category, *where, **further)


_show_others = warnings.showwarning


def _fail(message: str, code: int) -> NoReturn:
    say(message, before="error: ")
    sys.exit(code)
