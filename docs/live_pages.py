"""The pages that the site shows in frames, made by the commands of the question pages.

`python docs/live_pages.py FOLDER` writes them.
"""

from __future__ import annotations

import shlex
import sys
from pathlib import Path

from click.testing import CliRunner

PAGES = {
    "why": "explain --event 53854",
    "why-not": "explain --event 53852 --why-not",
    "ranking": "explain --event 53851 --top 10",
    "ranks": "explain --event 59828 --model tgat-collegemsg --top 10 --why-not",
    "labels": "explain --data bitcoin-otc --model tgn-bitcoin-otc --event 35585",
    "alternatives": "explain --event 53869 --count 3",
    "units": "explain --event 53007 --by pair",
    "actor": 'explain --event 53852 --actor 1395 --until "1 day later"',
    "protect": "explain --event 53007 --protect events=53006",
    "how-sure": "explain --event 53854 --also tgat-collegemsg --noise",
    "even-if": "explain --event 53869 --even-if",
    "impact": "impact --event 53852",
    "audit": "audit --model tgat-collegemsg --links 30",
}
NEEDS = {"labels": "bitcoin-otc"}  # data that are fetched first


def write_pages(folder: Path) -> None:
    """Write every page. Where its data are not here, it says how to get them."""
    import cody
    from cody.cli import app

    folder.mkdir(parents=True, exist_ok=True)
    for name, command in PAGES.items():
        file = folder / f"{name}.html"
        missing = NEEDS.get(name)
        if missing is not None:
            try:
                cody.load(missing)
            except cody.CodyError:
                file.write_text(
                    f"<p>This page needs data: <code>cody data fetch {missing}</code></p>", encoding="utf-8"
                )
                continue
        result = CliRunner().invoke(app, [*shlex.split(command), "--html", str(file)], catch_exceptions=False)
        if result.exit_code:
            raise RuntimeError(f"cody {command} failed: {result.output}")


if __name__ == "__main__":
    write_pages(Path(sys.argv[1]))
