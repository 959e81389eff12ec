"""Write docs/leaderboard.md from the entries in results/leaderboard. `python docs/make_leaderboard.py`."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import quote

from cody.study.benchmark import ALL, BenchmarkRow, rows_of
from cody.study.leaderboard import LeaderboardEntry, answers_of, check_complete, read_entry
from cody.study.shares import Share

ROOT = Path(__file__).parents[1]
ENTRIES = ROOT / "results" / "leaderboard"
PAGE = ROOT / "docs" / "leaderboard.md"

IN_URLS = ":/?#@!$&'*+,;=%~"
SHOWN = ("robust+", "robust-", "weights", "seed", "unrelated")  # checks

TOP = """# Leaderboard

Explainers on [generated logs with known causes](benchmark.md): 20 links of each of ten mechanisms, with models that
decide by the mechanism. Every row comes from a file in [results/leaderboard](../results/leaderboard) that holds what
the explainer named; exact, precision, recall and rank are computed from these answers and the generated logs (`python
docs/make_leaderboard.py`; a test fails if they differ), the other columns are what was measured where it ran. [How to
add a row](../CONTRIBUTING.md#add-a-row-to-the-leaderboard).

Intervals are bootstraps over links, 95 %. [What the columns mean](benchmark.md#scores), and
[the checks](benchmark.md#checks).
"""


def page() -> str:
    """The text of the page."""
    entries = {file.name: read_entry(file) for file in sorted(ENTRIES.glob("*.json"))}
    for entry in entries.values():
        check_complete(entry)
    rows = [(file, row) for file, entry in entries.items() for row in rows_of(answers_of(entry)) if row.log == ALL]
    rows = [(file, row) for file, row in rows if row.model == "oracle"]
    rows.sort(key=lambda pair: -pair[1].scores["exact"].value)
    return "\n".join([TOP, *_tables(rows), *_made_with(entries)]) + "\n"


def _tables(rows: list[tuple[str, BenchmarkRow]]) -> Iterator[str]:
    for factual, title in ((False, "Counterfactual explainers"), (True, "Factual explainers")):
        chosen = [(file, row) for file, row in rows if row.factual == factual]
        yield f"## {title}\n"
        yield f"| explainer | exact | precision | recall | rank | sets | {' | '.join(SHOWN)} |"
        yield "|---|---|---|---|---|---" + "|---" * len(SHOWN) + "|"
        for file, row in chosen:
            scores, checks = row.scores, row.checks
            cells = [
                f"[{row.explainer}](../results/leaderboard/{file})",
                _number(scores["exact"], interval=True),
                _number(scores["precision"]),
                _number(scores["recall"]),
                _number(scores["rank"], digits=1),
                _number(row.evaluations, digits=0),
                *(_number(checks[name]) for name in SHOWN),
            ]
            yield f"| {' | '.join(cells)} |"
        yield ""


def _number(mean: Share | None, *, digits: int = 2, interval: bool = False) -> str:
    if mean is None:
        return "–"
    shown = f"{mean.value:,.{digits}f}"
    return f"{shown} [{mean.low:.{digits}f}, {mean.high:.{digits}f}]" if interval else shown


def _made_with(entries: dict[str, LeaderboardEntry]) -> Iterator[str]:
    yield "## Made with\n"
    yield "| file | by | versions | hardware | note |"
    yield "|---|---|---|---|---|"
    for file, entry in entries.items():
        by = (
            f"[{_cell(entry.authors or entry.url)}]({quote(entry.url, safe=IN_URLS)})"
            if entry.url
            else _cell(entry.authors)
        )
        versions = ", ".join(f"{name} {version}" for name, version in entry.versions.items())
        hardware = f"{entry.hardware.get('processor')}, {entry.hardware.get('cores')} cores"
        yield f"| [{file}](../results/leaderboard/{file}) | {by} | {versions} | {hardware} | {_cell(entry.note)} |"


def _cell(text: str) -> str:
    """Text on one line that stays in its cell of a table."""
    return re.sub(r"([\\`*_\[\]<>|])", r"\\\1", " ".join(text.split()))


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
