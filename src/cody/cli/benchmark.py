"""cody benchmark: explainers where the causes of links are known."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

from cody.cli.command import COUNT, FOLDER, CommandGroup, argument, option, real, whole
from cody.cli.messages import print_json
from cody.cli.options import json_option, names_in
from cody.cli.progress import progress
from cody.cli.running import stoppable
from cody.cli.show import Prose, print_parts
from cody.data.mechanisms import MECHANISMS
from cody.errors import CallError
from cody.graph.neighbourhood import SIZE
from cody.study.benchmark import ALL, BenchmarkRow, benchmark_rows, run_benchmark
from cody.study.explainers import BENCHMARKED, explainer, find
from cody.study.truth import Mean

benchmark = CommandGroup("benchmark", help="Compare explainers where the causes of links are known.")
LEGEND = (
    "exact: share of right answers, with no event too many or too few, and its bootstrap interval of 95 %; precision, "
    "recall: of the events named; rank: mean place of the first true cause; sets: mean number of sets evaluated."
)


@benchmark.command("run")
@option("--out", "folder", type=FOLDER, required=True, help="Folder for the records; resumes an existing one.")
@option("--mechanisms", default="all", metavar="NAMES", help=f"{', '.join(MECHANISMS)}, or all.")
@option("--explainers", default=",".join(BENCHMARKED), metavar="NAMES", help="Names, as of cody evaluate.")
@option("--links", type=COUNT, default=20, help="Links of each mechanism.")
@option("--noise", type=real(0, 100), default=1.0, help="Random events, as a share of those of the mechanism.")
@option("--seed", type=whole(0), default=0, help="Seed of the logs, the links and the explainers.")
@json_option
def run_(folder: Path, mechanisms: str, explainers: str, links: int, noise: float, seed: int, as_json: bool) -> None:
    """Explain links of generated logs, and print the table. Rerun a command that was stopped to resume it."""
    chosen = [explainer(find(name).name, size=SIZE) for name in names_in(explainers)]
    names = MECHANISMS if mechanisms == "all" else names_in(mechanisms)
    logs = [name + f" noise={noise:g}" * (noise != 1) + f" seed={seed}" * (seed != 0) for name in names]
    total = len(logs) * len(chosen) * links
    with stoppable(folder, "nothing was done yet"), progress("links explained", total) as move:
        done = 0
        for step in run_benchmark(folder, logs, chosen, links=links, seed=seed):
            done += step.record is not None
            move(completed=done, total=total)
    _print(folder, as_json=as_json)


@benchmark.command("table")
@argument("folder", "Folder that cody benchmark run has written.", type=FOLDER)
@option("--each", is_flag=True, help="One table for each mechanism, too.")
@json_option
def table_(folder: Path, each: bool, as_json: bool) -> None:
    """Print the table of the records in a folder."""
    _print(folder, each=each, as_json=as_json)


def _print(folder: Path, *, each: bool = False, as_json: bool) -> None:
    files = sorted(folder.glob("*.jsonl"))
    if not files:
        raise CallError(f"there are no records in {folder}: cody benchmark run writes them")
    rows = benchmark_rows(files)
    if as_json:
        print_json([asdict(row) for row in rows])
        return
    for log in dict.fromkeys(row.log for row in rows if each or row.log == ALL):
        _table(log, [row for row in rows if row.log == log])
    print_parts(["", Prose(LEGEND)])


def _table(log: str, rows: Sequence[BenchmarkRow]) -> None:
    from cody.utils.tables import TextTable

    names = ["explainer", "answers", "#exact", "#", "#precision", "#recall", "#rank", "#sets"]
    table = TextTable(*names, title=f"{log}, {max(row.links for row in rows)} links", whole=[0])
    for row in rows:
        exact, others = row.scores["exact"], [row.scores[name].value for name in ("precision", "recall")]
        kind = "factual" if row.factual else "counterfactual"
        shares = (f"{value:.2f}" for value in others)
        rank, sets = f"{row.scores['rank'].value:.1f}", f"{row.evaluations.value:,.0f}"
        table.add_row(row.explainer, kind, f"{exact.value:.2f}", _interval(exact), *shares, rank, sets)
    print_parts([table])


def _interval(mean: Mean) -> str:
    return f"{mean.low:.2f}–{mean.high:.2f}"
