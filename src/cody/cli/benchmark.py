"""cody benchmark: explainers where the causes of links are known."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import NamedTuple

import msgspec
from msgspec.structs import astuple

from cody.cli.command import CommandGroup, argument, bundled, option, option_fields
from cody.cli.options import json_option, names_in, use_threads
from cody.cli.running import say_failures, stoppable
from cody.cli.terminal import Prose, ShownPart, print_json, print_parts, progress
from cody.cli.types import FOLDER, Output, real, whole
from cody.data.mechanisms import MECHANISMS
from cody.errors import CallError, DataError
from cody.graph.neighbourhood import SIZE
from cody.paper.typeset import latex_text
from cody.study.benchmark import ALL as ALL_LOGS
from cody.study.benchmark import BENCHMARK_MODELS, CHECKS, ORACLE, BenchmarkRow, benchmark_rows, run_benchmark
from cody.study.disturbances import DISTURBANCES
from cody.study.explainers import BENCHMARKED, Explainer, explainer, find
from cody.study.record_file import read_failures
from cody.study.shares import Share
from cody.utils.tables import TextTable

benchmark = CommandGroup("benchmark", help="Compare explainers where the causes of links are known.")
_run = option_fields("")
ALL, NONE = "all", "none"
ENTRY = Output("an entry", ".json")


@dataclass(frozen=True, slots=True)
class BenchmarkOptions:
    """Which explainers explain which models on which logs."""

    out: Path = _run("Folder for the records; resumes an existing one.", type=FOLDER, required=True)
    mechanisms: str = _run(f"{', '.join(MECHANISMS)}, or all.", "NAMES", default=ALL)
    explainers: str = _run(
        "Names, as of cody evaluate; MODULE:FUNCTION for your own.", "NAMES", default=",".join(BENCHMARKED)
    )
    models: str = _run(f"{', '.join(BENCHMARK_MODELS)}, or all.", "NAMES", default=ORACLE)
    checks: str = _run(
        f"Explain each link again with one difference: {', '.join(CHECKS)}, all or none.", "NAMES", default=NONE
    )
    links: int = _run("Links of each mechanism.", default=20)
    episodes: int = _run("How often each mechanism causes a link.", default=100)
    noise: float = _run("Random events, as a share of those of the mechanism.", type=real(0, 100), default=1.0)
    seed: int = _run("Seed of the logs, the links and the explainers.", type=whole(0), default=0)

    @property
    def logs(self) -> list[str]:
        """The logs that are explained, as `planted` takes them."""
        changed = f" episodes={self.episodes}" * (self.episodes != 100) + f" noise={self.noise:g}" * (self.noise != 1)
        names = _all_or("--mechanisms", self.mechanisms, MECHANISMS)
        return [name + changed + f" seed={self.seed}" * (self.seed != 0) for name in names]


@benchmark.command("run")
@bundled("options", BenchmarkOptions)
@json_option
def run_(options: BenchmarkOptions, as_json: bool) -> None:
    """Explain links of generated logs, and print the table. Rerun a command that was stopped to resume it."""
    use_threads(1)
    chosen, logs = _explainers(options.explainers), options.logs
    models = _all_or("--models", options.models, BENCHMARK_MODELS)
    checks = [] if options.checks == NONE else _all_or("--checks", options.checks, CHECKS)
    total = len(logs) * len(models) * len(chosen) * options.links
    with stoppable(options.out, "nothing was done yet"), progress("links explained", total) as move:
        done = checked = 0
        for step in run_benchmark(
            options.out, logs, chosen, links=options.links, seed=options.seed, models=models, checks=checks
        ):
            if step.check is None:
                done += step.progress.record is not None
            else:
                checked += step.progress.record is not None
            for_checks = f", {checked:,} for checks" if checks else ""
            move(done, total, f"links explained{for_checks}")
    print_benchmark(records_in(options.out), as_json=as_json)


@benchmark.command("table")
@argument("folder", "Folder that cody benchmark run has written.", type=FOLDER)
@option("--each", is_flag=True, help="One table for each mechanism, too.")
@option(
    "--format", "form", one_of=["text", "markdown", "latex", "csv"], default="text", help="All but text have intervals."
)
@json_option
def table_(folder: Path, each: bool, form: str, as_json: bool) -> None:
    """Print the table of the records in a folder."""
    print_benchmark(records_in(folder), each=each, form=form, as_json=as_json)


@benchmark.command("check")
@argument("explainers", "Names, as of cody evaluate; MODULE:FUNCTION for your own.", metavar="NAMES")
def check_(explainers: str) -> None:
    """Try explainers on a few links: whether they obey the rules without which figures cannot be compared."""
    from cody.study.conformance import check_explainer

    failed = []
    for each in _explainers(explainers):
        report = check_explainer(each)
        print(f"{each.name}: {report}")
        failed += [] if report.passed else [each.name]
    if failed:
        raise CallError(f"{', '.join(failed)}: not as an explainer should be")


@benchmark.command("submit-file")
@argument("folder", "Folder that cody benchmark run has written.", type=FOLDER)
@option("--out", type=ENTRY, required=True, help="File of the entry, JSON; for results/leaderboard.")
@option("--authors", default="", help="Who made the explainers.")
@option("--url", default="", help="Where they can be found.")
@option("--note", default="", help="What a reader should know.")
def submit_file_(folder: Path, out: Path, authors: str, url: str, note: str) -> None:
    """Write a row of the leaderboard: answers, versions, seeds, hardware and identities in one file."""
    from cody.study.leaderboard import check_complete, entry_of, write_entry

    entry = entry_of(records_in(folder), authors=authors, url=url, note=note)
    check_complete(entry)
    write_entry(out, entry)
    names = dict.fromkeys(group.explainer for group in entry.answers)
    print(f"{out}: {', '.join(names)} on {len({group.log for group in entry.answers})} logs")


def _explainers(names: str) -> list[Explainer]:
    return [explainer(find(name).name, size=SIZE) for name in _some("explainers", names)]


def _all_or(option: str, names: str, known: Sequence[str]) -> Sequence[str]:
    return known if names == ALL else _some(option, names)


def _some(what: str, names: str) -> list[str]:
    found = names_in(names)
    if not found:
        raise CallError(f"{what} {names!r} names nothing: give a name, or several with commas")
    return found


def records_in(folder: Path) -> list[Path]:
    """The files that `cody benchmark run` has written into a folder."""
    files = sorted(folder.glob("*.jsonl"))
    if not files:
        raise CallError(f"there are no records in {folder}: cody benchmark run writes them")
    return files


def print_benchmark(files: Sequence[Path], *, each: bool = False, form: str = "text", as_json: bool = False) -> None:
    """Print the table of the records of a benchmark.

    Args:
        files: Records that `cody benchmark run` wrote.
        each: One table for each mechanism, too.
        form: "text", or one of `FORMATS`.
        as_json: Print one JSON document instead.
    """
    rows = benchmark_rows(files)
    failures = [failure for file in files for failure in read_failures(file)]
    say_failures(failures)
    if not rows and not failures:
        raise DataError(f"there are no records in {', '.join(map(str, files)):.200}: cody benchmark run writes them")
    if as_json:
        print_json(msgspec.to_builtins(rows))
        return
    shown = [row for row in rows if each or row.log == ALL_LOGS]
    if form in FORMATS:
        print(FORMATS[form](shown), end="")
    else:
        print_parts(_as_text(shown))


# The table: in the terminal in parts of 80 columns; as Markdown, LaTeX and csv in one, with the intervals.


class BenchmarkColumn(NamedTuple):
    """A figure of the table."""

    name: str
    meaning: str
    digits: int = 2

    def of(self, row: BenchmarkRow) -> Share | None:
        """The figure of a row; None: it was not measured."""
        return {**row.scores, **row.checks, "sets": row.evaluations, "seconds": row.seconds}[self.name]

    @property
    def heading(self) -> str:
        return self.name.replace("fidelity", "fid")


EXACT = "exact"  # the column whose interval the terminal shows, too
PARTS = (
    (
        BenchmarkColumn(
            EXACT, "share of right answers, with no event too many or too few, and its bootstrap interval of 95 %"
        ),
        BenchmarkColumn("precision", "share of causes among the events named"),
        BenchmarkColumn("recall", "share of a right answer that is named"),
        BenchmarkColumn("rank", "mean place of the first true cause", 1),
        BenchmarkColumn("sets", "mean number of sets evaluated", 0),
    ),
    (
        BenchmarkColumn("fidelity+", "share whose decision changes without the events named"),
        BenchmarkColumn("robust+", "the same without a random half of them"),
        BenchmarkColumn("fidelity-", "share whose decision stays with these events alone"),
        BenchmarkColumn("robust-", "the same without a random half of the others"),
        BenchmarkColumn("cohesion", "how near the events named are to each other and to the link"),
        BenchmarkColumn("gaps", "how likely the longest silence is that would remain without them"),
        BenchmarkColumn("degrees", "how likely it is that a node has as few events as it would have without them"),
    ),
    tuple(BenchmarkColumn(name, disturbance.meaning) for name, disturbance in DISTURBANCES.items()),
)
SECONDS = BenchmarkColumn("seconds", "mean time of an explanation", 4)


def _measured(columns: Iterable[BenchmarkColumn], rows: Sequence[BenchmarkRow]) -> list[BenchmarkColumn]:
    return [column for column in columns if any(column.of(row) is not None for row in rows)]


def _as_text(rows: Sequence[BenchmarkRow]) -> Iterator[ShownPart]:
    """The tables for the terminal, with what their columns mean; what was not measured for any row is left out."""
    shown = [columns for part in PARTS if (columns := _measured(part, rows))]
    for number, columns in enumerate(shown):
        for log, model in dict.fromkeys((row.log, row.model) for row in rows):
            yield _table([row for row in rows if (row.log, row.model) == (log, model)], columns)
            yield ""
        yield Prose("; ".join(f"{column.heading}: {column.meaning}" for column in columns) + ".")
        yield from [""] * (number < len(shown) - 1)


def _table(rows: Sequence[BenchmarkRow], columns: Sequence[BenchmarkColumn]) -> TextTable:
    with_kind = columns[0] in PARTS[0]
    headings = ["explainer", *(["answers"] if with_kind else [])]
    for column in columns:
        headings += [f"#{column.heading}", *(["#"] if column.name == EXACT else [])]
    model = "" if rows[0].model == "oracle" else f", model {rows[0].model}"
    title = f"{rows[0].log}{model}, {max(row.links for row in rows)} links"
    table = TextTable(*headings, title=title, whole=[0])
    for row in rows:
        cells = [row.explainer, *([_kind(row)] if with_kind else [])]
        for column in columns:
            mean = column.of(row)
            cells.append("–" if mean is None else f"{mean.value:,.{column.digits}f}")
            if column.name == EXACT and mean is not None:
                cells.append(f"{mean.low:.2f}–{mean.high:.2f}")
        table.add_row(*cells)
    return table


def _kind(row: BenchmarkRow) -> str:
    return "factual" if row.factual else "counterfactual"


def _as_markdown(rows: Sequence[BenchmarkRow]) -> str:
    headings, *lines = _with_intervals(rows)
    return "".join(f"| {' | '.join(cells)} |\n" for cells in [headings, ["---"] * len(headings), *lines])


def _as_latex(rows: Sequence[BenchmarkRow]) -> str:
    """For `\\input`; needs nothing but LaTeX and graphicx."""
    headings, *lines = (" & ".join(map(latex_text, cells)) + r" \\" for cells in _with_intervals(rows))
    begin = rf"\begin{{tabular}}{{llll{'r' * (headings.count(' & ') - 3)}}}"
    before = [r"\begin{table*}", r"\resizebox{\textwidth}{!}{%", begin, r"\hline", headings, r"\hline"]
    return "\n".join([*before, *lines, r"\hline", r"\end{tabular}}", r"\end{table*}"]) + "\n"


def _with_intervals(rows: Sequence[BenchmarkRow]) -> Iterator[list[str]]:
    """The cells of the whole table, its headings first."""
    columns = _measured([*chain.from_iterable(PARTS), SECONDS], rows)
    yield ["log", "model", "explainer", "answers", "links", *(column.heading for column in columns)]
    for row in rows:
        cells = [row.log, row.model, row.explainer, _kind(row), str(row.links)]
        for mean, digits in ((column.of(row), column.digits) for column in columns):
            numbers = () if mean is None else (f"{number:,.{digits}f}" for number in astuple(mean))
            cells.append("{} [{}, {}]".format(*numbers) if mean is not None else "–")
        yield cells


def _as_csv(rows: Sequence[BenchmarkRow]) -> str:
    """One line for each row, with all digits; empty where something was not measured."""
    columns, out = _measured([*chain.from_iterable(PARTS), SECONDS], rows), io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    names = [f"{column.heading}{bound}" for column in columns for bound in ("", " low", " high")]
    writer.writerow(["log", "model", "explainer", "answers", "links", *names])
    for row in rows:
        means = [column.of(row) for column in columns]
        figures = [part for mean in means for part in ((None,) * 3 if mean is None else astuple(mean))]
        writer.writerow([row.log, row.model, row.explainer, _kind(row), row.links, *figures])
    return out.getvalue()


FORMATS = {"markdown": _as_markdown, "latex": _as_latex, "csv": _as_csv}
