"""Write the table of docs/engine.md from the output of `bench/engine.py --json`: `python docs/make_bench_table.py`.

The runs are results/bench.json (the default), bench-tail.json (--only tail) and bench-growth.json (--only growth).
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

ROOT = Path(__file__).parent.parent
TARGET = ROOT / "docs" / "engine.md"
RUNS = [ROOT / "results" / name for name in ("bench.json", "bench-tail.json", "bench-growth.json")]
NOT_MEASURED = "–"

Values = dict[str, Any]


class Line(NamedTuple):
    """A line of the table: where its figure comes from, and what it should reach."""

    what: str
    row: str  # of bench/engine.py
    model: str | None
    figure: Callable[[Values], str]
    least: str
    aim: str
    key: str = "ratio"  # a value that the row must have


def times(values: Values) -> str:
    return f"{values['ratio']:.{0 if values['ratio'] >= 10 else 1}f}×"


def share(values: Values) -> str:
    return f"{100 * values['share_outside']:.0f} %"


def tail(values: Values) -> str:
    ratios = f"{values['late_ratio']:.0f}× / {values['slowest_ratio']:.0f}×"
    return f"{ratios} ({values['links']:,} links of {values['data']})"


def peak(values: Values) -> str:
    return f"{values['peak_mib']:,.0f} MiB"


def growth(values: Values) -> str:
    sizes = "" if values["preset"] == "paper" else f", {values['preset']} sizes"
    return f"{values['ratio']:.2f}× ({values['events']:,} against {values['against']:,} events{sizes})"


LINES = [
    Line("TGAT, one set: plain against fast", "sets", "tgat", times, "130×", "200×"),
    Line("TGN, one set: plain against fast", "sets", "tgn", times, "100×", "150×"),
    Line("TGN, one explanation of 300 sets, verified: plain against ours", "explanation", "tgn", times, "80×", "120×"),
    Line("TGAT, the same", "explanation", "tgat", times, "80×", "120×"),
    Line(
        "TGN, its share outside matrix products and attention",
        "explanation",
        "tgn",
        share,
        "35 %",
        "15 %",
        key="share_outside",
    ),
    Line("TGAT, the same", "explanation", "tgat", share, "35 %", "15 %", key="share_outside"),
    Line(
        '`cody explain --event 53854`, whole process, against `python -c "import numpy"`',
        "startup",
        None,
        times,
        "3.5×",
        "2.5×",
    ),
    Line(
        "links of a test period, TGN, default search: slowest 1 % / slowest against the median",
        "tail",
        None,
        tail,
        "5× / 20×",
        "3× / 10×",
        key="late_ratio",
    ),
    Line("their peak memory beyond graph and table", "tail", None, peak, "300 MiB", "200 MiB", key="peak_mib"),
    Line("TGN, scoring one link with nothing changed: plain against fast", "scoring", "tgn", times, "6×", "15×"),
    Line("TGN, one explanation in a larger graph", "growth", "tgn", growth, "1.1×", "1.0×"),
]


def measured() -> list[Values]:
    documents = [json.loads(file.read_text(encoding="utf-8")) for file in RUNS if file.exists()]
    return [row | {"preset": document["settings"]["preset"]} for document in documents for row in document["rows"]]


def figure(line: Line, rows: list[Values]) -> str:
    """The last of the rows that fit: of `cody explain` after `--help`, of the comparison after its sizes."""
    fitting = [row for row in rows if row["row"] == line.row and line.key in row]
    fitting = [row for row in fitting if line.model is None or row.get("model") == line.model]
    return line.figure(fitting[-1]) if fitting else NOT_MEASURED


def table() -> str:
    rows = measured()
    text = "| | figure | at least | aim | `--only` |\n|---|---|---|---|---|\n"
    for line in LINES:
        text += f"| {line.what} | **{figure(line, rows)}** | {line.least} | {line.aim} | {line.row} |\n"
    return text


def page() -> str:
    """The page with the table as it should be."""
    text = TARGET.read_text(encoding="utf-8")
    block = re.compile(r"(<!-- bench -->\n).*?(<!-- /bench -->)", re.DOTALL)
    return block.sub(lambda found: found[1] + table() + found[2], text)


if __name__ == "__main__":
    TARGET.write_text(page(), encoding="utf-8")
