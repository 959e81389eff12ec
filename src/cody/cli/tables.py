"""cody tables and cody figures: explainers compared."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from cody.cli.command import argument, command, option
from cody.cli.types import FILE, FOLDER
from cody.errors import CallError

FORMATS = ["text", "markdown", "latex", "csv"]
record_files = argument(
    "files", "Files of records that cody evaluate wrote; also .gz.", nargs=-1, required=True, type=FILE
)


@command("tables")
@record_files
@option("--format", "form", one_of=FORMATS, default="text", help="Format of the tables.")
@option("--benchmark", is_flag=True, help="Print the table of cody benchmark run: FILES are its folder or files.")
@option("--paper", is_flag=True, help="Print the paper's own figures next to ours.")
@option("--intervals", is_flag=True, help="Print bootstrap intervals of 95 %.")
def tables(files: Sequence[Path], form: str, benchmark: bool, paper: bool, intervals: bool) -> None:
    """Compare explainers in the tables of the paper."""
    if benchmark:
        _of_benchmark(files, form, paper=paper, intervals=intervals)
        return
    from cody.paper import typeset
    from cody.paper.tables import tables
    from cody.study.record_file import read_failures, read_runs

    records = read_runs(files)
    failures = [failure for file in files for failure in read_failures(file)]
    rng = np.random.default_rng(0) if intervals else None
    made = tables(records, paper=paper, rng=rng, failures=failures)
    writers = [typeset.as_text, typeset.as_markdown, typeset.as_latex, typeset.as_csv]
    print(dict(zip(FORMATS, writers, strict=True))[form](made), end="")


def _of_benchmark(files: Sequence[Path], form: str, *, paper: bool, intervals: bool) -> None:
    from cody.cli.benchmark import print_benchmark, records_in

    if paper:
        raise CallError("give --benchmark or --paper, not both: the paper has no links with known causes")
    if intervals and form == "text":
        raise CallError("with --benchmark, text has no room for --intervals: give --format markdown, latex or csv")
    print_benchmark([one for path in files for one in (records_in(path) if path.is_dir() else [path])], form=form)


@command("figures")
@record_files
@option("--out", type=FOLDER, default="figures", help="Folder for the figures, as SVG and PNG.")
def figures(files: Sequence[Path], out: Path) -> None:
    """Draw the figures of the paper's evaluation."""
    from cody.paper.figures import save_figures
    from cody.study.record_file import read_runs

    records = read_runs(files)
    for path in save_figures(records, out):
        print(path)
