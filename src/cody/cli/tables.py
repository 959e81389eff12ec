"""cody tables: explainers compared."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import click
import numpy as np

from cody.cli.command import FILE, argument, command, option

record_files = argument(
    "files", "Files of records that cody evaluate wrote; also .gz.", nargs=-1, required=True, type=FILE
)


@command("tables")
@record_files
@option(
    "--format",
    "form",
    type=click.Choice(["text", "markdown", "latex", "csv"]),
    default="text",
    help="Format of the tables.",
)
@option("--paper", is_flag=True, help="Print the paper's own figures next to ours.")
@option("--intervals", is_flag=True, help="Print bootstrap intervals of 95 %.")
def tables(files: Sequence[Path], form: str, paper: bool, intervals: bool) -> None:
    """Compare explainers in the tables of the paper."""
    from cody.paper import typeset
    from cody.paper.tables import tables
    from cody.study.record_file import read_failures, read_runs

    records = read_runs(files)
    failures = [failure for file in files for failure in read_failures(file)]
    rng = np.random.default_rng(0) if intervals else None
    made = tables(records, paper=paper, rng=rng, failures=failures)
    writers = {
        "text": typeset.as_text,
        "markdown": typeset.as_markdown,
        "latex": typeset.as_latex,
        "csv": typeset.as_csv,
    }
    print(writers[form](made), end="")
