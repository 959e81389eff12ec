"""The benchmark: explainers on generated logs whose causes are known, with models that decide by these causes."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from cody.data.mechanisms import PlantedCauses, planted
from cody.errors import DataError
from cody.models.oracles import ORACLES
from cody.study import run as evaluation
from cody.study.explainers import Explainer
from cody.study.record import Record
from cody.study.record_file import read_runs
from cody.study.truth import SCORES, Mean, mean_of

ALL = "all mechanisms"
_planted = cache(planted)


def run_benchmark(
    folder: str | Path, logs: Sequence[str], explainers: Sequence[Explainer], *, links: int = 20, seed: int = 0
) -> Iterator[evaluation.RunProgress]:
    """Let explainers explain links of generated logs, one file of records for each log. The same call resumes it.

    Args:
        folder: Where the files are written.
        logs: Mechanisms, with sizes and noise if they are not the usual ones: "reply", "joint noise=3".
        explainers: What to compare.
        links: How many links of each log are explained at most.
        seed: Draws the links, and is the seed of the explainers.
    """
    for text in logs:
        made = _planted(text)
        name = made.name.split()[0]
        plan = evaluation.EvaluationPlan(made.name, f"oracle {name}", tuple(explainers), seed)
        sample = evaluation.Sample(min(links, len(made.ways)), ("correct",), (0.0, 1.0), events=tuple(made.ways))
        file = Path(folder) / f"{made.name.replace(' ', '-')}.jsonl"
        yield from evaluation.run(file, ORACLES[name](made.graph), made.graph, plan, sample)


@dataclass(frozen=True, slots=True)
class BenchmarkRow:
    """What is known about one explainer on one log, or on all of them."""

    log: str
    explainer: str
    factual: bool
    links: int
    scores: dict[str, Mean]  # by their names in `cody.study.truth.SCORES`
    evaluations: Mean


def benchmark_rows(files: Iterable[str | Path]) -> list[BenchmarkRow]:
    """The table of a benchmark: one row for each explainer over all logs, then one for each log and explainer.

    Args:
        files: Records that `run_benchmark` wrote. The logs are generated again, and must be the same.
    """
    groups: dict[tuple[str, str], list[Record]] = {}
    for record in read_runs(files, documents=True):
        for log in (ALL, record.data):
            groups.setdefault((log, record.explainer), []).append(record)
    rows = [_row(log, explainer, records) for (log, explainer), records in groups.items()]
    return sorted(rows, key=lambda row: (row.log != ALL, row.log, row.factual, -row.scores["exact"].value))


def _row(log: str, explainer: str, records: Sequence[Record]) -> BenchmarkRow:
    scores = {name: mean_of(score(record, _truth(record)) for record in records) for name, score in SCORES.items()}
    return BenchmarkRow(
        log, explainer, records[0].factual, len(records), scores, mean_of(record.evaluations for record in records)
    )


def _truth(record: Record) -> PlantedCauses:
    made = _planted(record.data)
    if made.graph.identity != record.data_identity:
        raise DataError(f"the log {record.data!r} is another one than the records are about: {record.data_identity}")
    return made
