"""The command line. Each command parses its arguments, calls one function of the library, and prints."""

from cody.cli.app import app, main

__all__ = ["app", "main"]
