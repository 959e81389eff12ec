"""The command line. Each command parses its arguments, calls one function of the library, and prints."""

from cody.cli import explain, data, models, evaluate, bench  # noqa: F401, I001  (in the order in which help lists commands)
from cody.cli.common import app, main

__all__ = ["app", "main"]
