"""cody figures: the paper's evaluation, drawn."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from cody.cli.command import FOLDER, command, option
from cody.cli.tables import record_files


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
