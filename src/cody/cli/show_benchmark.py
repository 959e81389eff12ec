"""The table of a benchmark: in the terminal in parts of 80 columns, as Markdown, LaTeX and csv in one."""

from __future__ import annotations

import csv
import io
from collections.abc import Callable, Iterator, Sequence
from itertools import chain
from typing import NamedTuple

from msgspec.structs import astuple

from cody.cli.messages import Prose, ShownPart
from cody.paper.typeset import latex_text
from cody.study.benchmark import ALL, BenchmarkRow
from cody.study.disturbances import DISTURBANCES
from cody.study.shares import Share
from cody.utils.tables import TextTable

MISSING = "–"


class BenchmarkColumn(NamedTuple):
    """A figure of the table."""

    name: str
    value: Callable[[BenchmarkRow], Share | None]
    meaning: str
    digits: int = 2


def _score(name: str, meaning: str, digits: int = 2) -> BenchmarkColumn:
    return BenchmarkColumn(name, lambda row: row.scores[name], meaning, digits)


def _check(name: str, meaning: str) -> BenchmarkColumn:
    return BenchmarkColumn(name.replace("fidelity", "fid"), lambda row: row.checks[name], meaning)


TRUTH = (
    _score("exact", "share of right answers, with no event too many or too few, and its bootstrap interval of 95 %"),
    _score("precision", "share of causes among the events named"),
    _score("recall", "share of a right answer that is named"),
    _score("rank", "mean place of the first true cause", 1),
    BenchmarkColumn("sets", lambda row: row.evaluations, "mean number of sets evaluated", 0),
)
SANITY = (
    _check("fidelity+", "share whose decision changes without the events named"),
    _check("robust+", "the same without a random half of them"),
    _check("fidelity-", "share whose decision stays with these events alone"),
    _check("robust-", "the same without a random half of the others"),
    _check("cohesion", "how near the events named are to each other and to the link"),
    _check("gaps", "how likely the longest silence is that would remain without them"),
    _check("degrees", "how likely it is that a node has as few events as it would have without them"),
)
SIMILARITY = tuple(_check(name, disturbance.meaning) for name, disturbance in DISTURBANCES.items())
PARTS = (TRUTH, SANITY, SIMILARITY)
SECONDS = BenchmarkColumn("seconds", lambda row: row.seconds, "mean time of an explanation", 4)


def benchmark_parts(rows: Sequence[BenchmarkRow]) -> Iterator[ShownPart]:
    """The tables for the terminal, with what their columns mean.

    Args:
        rows: What is shown; what was not measured for any of them is left out.
    """
    for number, columns in enumerate(PARTS):
        known = [column for column in columns if any(column.value(row) is not None for row in rows)]
        if not known:
            continue
        for log, model in dict.fromkeys((row.log, row.model) for row in rows):
            chosen = [row for row in rows if (row.log, row.model) == (log, model)]
            yield _table(chosen, known, with_interval=number == 0)
            yield ""
        yield Prose("; ".join(f"{column.name}: {column.meaning}" for column in known) + ".")
        yield ""


def _table(rows: Sequence[BenchmarkRow], columns: Sequence[BenchmarkColumn], *, with_interval: bool) -> TextTable:
    headings = ["explainer", *(["answers"] if with_interval else [])]
    for column in columns:
        headings += [f"#{column.name}", *(["#"] if with_interval and column.name == "exact" else [])]
    table = TextTable(*headings, title=_title(rows), whole=[0])
    for row in rows:
        cells = [row.explainer, *([_kind(row)] if with_interval else [])]
        for column in columns:
            mean = column.value(row)
            cells.append(_number(mean, column.digits))
            if with_interval and column.name == "exact" and mean is not None:
                cells.append(f"{mean.low:.2f}–{mean.high:.2f}")
        table.add_row(*cells)
    return table


def _title(rows: Sequence[BenchmarkRow]) -> str:
    model = "" if rows[0].model == "oracle" else f", model {rows[0].model}"
    return f"{rows[0].log}{model}, {max(row.links for row in rows)} links"


def _kind(row: BenchmarkRow) -> str:
    return "factual" if row.factual else "counterfactual"


def _number(mean: Share | None, digits: int) -> str:
    return MISSING if mean is None else f"{mean.value:,.{digits}f}"


def benchmark_markdown(rows: Sequence[BenchmarkRow]) -> str:
    """One table of everything, with the intervals.

    Args:
        rows: What is shown; what was not measured for any of them is left out.
    """
    headings, *lines = _with_intervals(rows)
    return "\n".join(map(_piped, [headings, ["---"] * len(headings), *lines])) + "\n"


def benchmark_latex(rows: Sequence[BenchmarkRow]) -> str:
    """One table of everything, with the intervals, for `\\input`; needs nothing but LaTeX and graphicx.

    Args:
        rows: What is shown; what was not measured for any of them is left out.
    """
    headings, *lines = (" & ".join(map(latex_text, cells)) + r" \\" for cells in _with_intervals(rows))
    begin = rf"\begin{{tabular}}{{llll{'r' * (headings.count(' & ') - 3)}}}"
    before = [r"\begin{table*}", r"\resizebox{\textwidth}{!}{%", begin, r"\hline", headings, r"\hline"]
    return "\n".join([*before, *lines, r"\hline", r"\end{tabular}}", r"\end{table*}"]) + "\n"


def _with_intervals(rows: Sequence[BenchmarkRow]) -> Iterator[list[str]]:
    """The cells of the whole table, its headings first."""
    columns = _known_columns(rows)
    yield ["log", "model", "explainer", "answers", "links", *(column.name for column in columns)]
    for row in rows:
        cells = (_with_interval(column.value(row), column.digits) for column in columns)
        yield [row.log, row.model, row.explainer, _kind(row), str(row.links), *cells]


def benchmark_csv(rows: Sequence[BenchmarkRow]) -> str:
    """One line for each row, with all digits; empty where something was not measured.

    Args:
        rows: What is written.
    """
    columns, out = _known_columns(rows), io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    names = [name for column in columns for name in (column.name, f"{column.name} low", f"{column.name} high")]
    writer.writerow(["log", "model", "explainer", "answers", "links", *names])
    for row in rows:
        means = [column.value(row) for column in columns]
        figures = [part for mean in means for part in ((None,) * 3 if mean is None else astuple(mean))]
        writer.writerow([row.log, row.model, row.explainer, _kind(row), row.links, *figures])
    return out.getvalue()


def _known_columns(rows: Sequence[BenchmarkRow]) -> list[BenchmarkColumn]:
    columns = [*chain.from_iterable(PARTS), SECONDS]
    return [column for column in columns if any(column.value(row) is not None for row in rows)]


def _with_interval(mean: Share | None, digits: int) -> str:
    if mean is None:
        return MISSING
    return f"{mean.value:,.{digits}f} [{mean.low:,.{digits}f}, {mean.high:,.{digits}f}]"


def _piped(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cells)} |"


def shown_rows(rows: Sequence[BenchmarkRow], *, each: bool) -> list[BenchmarkRow]:
    """Those over all logs, or with `each` those of single logs, too."""
    return [row for row in rows if each or row.log == ALL]


FORMATS = {"markdown": benchmark_markdown, "latex": benchmark_latex, "csv": benchmark_csv}
