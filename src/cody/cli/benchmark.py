"""cody benchmark: explainers where the causes of links are known."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import click
import msgspec

from cody.cli.command import FOLDER, CommandGroup, Output, argument, bundled, option, option_fields, real, whole
from cody.cli.messages import print_json, print_parts
from cody.cli.options import json_option, names_in, use_threads
from cody.cli.progress import progress
from cody.cli.running import say_failures, stoppable
from cody.cli.show_benchmark import FORMATS, benchmark_parts, shown_rows
from cody.data.mechanisms import MECHANISMS
from cody.errors import CallError, DataError
from cody.graph.neighbourhood import SIZE
from cody.study.benchmark import BENCHMARK_MODELS, CHECKS, ORACLE, benchmark_rows, run_benchmark
from cody.study.explainers import BENCHMARKED, Explainer, explainer, find
from cody.study.record_file import read_failures

benchmark = CommandGroup("benchmark", help="Compare explainers where the causes of links are known.")
_run = option_fields("")
ALL, NONE = "all", "none"
ENTRY = Output("an entry", ".json")


@dataclass(frozen=True, slots=True)
class BenchmarkOptions:
    """Which explainers explain which models on which logs."""

    out: Path = _run("Folder for the records; resumes an existing one.", type=FOLDER, required=True)
    mechanisms: str = _run(f"{', '.join(MECHANISMS)}, or all.", default=ALL, metavar="NAMES")
    explainers: str = _run(
        "Names, as of cody evaluate; MODULE:FUNCTION for your own.", default=",".join(BENCHMARKED), metavar="NAMES"
    )
    models: str = _run(f"{', '.join(BENCHMARK_MODELS)}, or all.", default=ORACLE, metavar="NAMES")
    checks: str = _run(
        f"Explain each link again with one difference: {', '.join(CHECKS)}, all or none.", default=NONE, metavar="NAMES"
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
@option("--format", "form", type=click.Choice(["text", *FORMATS]), default="text", help="All but text have intervals.")
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
    elif form in FORMATS:
        print(FORMATS[form](shown_rows(rows, each=each)), end="")
    else:
        parts = list(benchmark_parts(shown_rows(rows, each=each)))
        print_parts(parts[:-1] if parts and parts[-1] == "" else parts)
