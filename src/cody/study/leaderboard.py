"""A row of the leaderboard: a file with what an explainer named, from which anyone can compute its scores once more."""

from __future__ import annotations

import os
import platform
import sys
from collections.abc import Iterable, Iterator, Sequence
from functools import cache
from pathlib import Path
from typing import Any

from cody._version import __version__
from cody.data.mechanisms import MECHANISMS
from cody.errors import CallError, DataError
from cody.models.contract import Model, identity_of
from cody.models.oracles import ORACLES
from cody.study.benchmark import MEASURED, ORACLE, BenchmarkAnswer, answers_in, check_log, planted_once
from cody.study.instances import sample_kinds
from cody.study.metrics import grouped
from cody.study.record_file import read_runs
from cody.utils.forms import Count, Document, Form, as_line

SCHEMA = "cody/leaderboard/1"
LINKS = 20  # of each mechanism: what a row of the leaderboard is about
PACKAGES = ("numpy", "torch")
OF_RECORDS = ("data_identity", "model_identity", "seed", "search", "policy", "options")
OF_ANSWERS = ("rows", "candidates", "evaluations")


class EntryAnswers(Form, frozen=True, kw_only=True):
    """What one explainer named on one log with one model, a column each."""

    log: str
    model: str
    explainer: str
    factual: bool
    data_identity: str
    model_identity: str
    seed: Count
    search: str
    policy: str
    options: dict[str, Any]
    events: tuple[Count, ...]
    rows: tuple[tuple[Count, ...], ...]
    candidates: tuple[Count, ...]
    evaluations: tuple[Count, ...]
    seconds: tuple[float | None, ...]
    checks: dict[str, tuple[float | None, ...]]


class LeaderboardEntry(Document, frozen=True, kw_only=True, tag_field="schema", tag=SCHEMA):
    """What some explainers named, and with what it was made."""

    kind = "a leaderboard entry"
    authors: str
    url: str
    note: str
    versions: dict[str, str]
    hardware: dict[str, str]
    answers: tuple[EntryAnswers, ...]


def entry_of(files: Iterable[str | Path], *, authors: str = "", url: str = "", note: str = "") -> LeaderboardEntry:
    """The entry of the records of a benchmark, with versions, hardware, seeds and the identities of logs and models.

    Args:
        files: Records that `cody.study.benchmark.run_benchmark` wrote.
        authors: Who made the explainers.
        url: Where they can be found.
        note: Anything that a reader should know.
    """
    if url and not url.startswith(("https://", "http://")):
        raise CallError(f"a url begins with https://, not {url!r}")
    answers = [group for file in map(Path, files) for group in _groups(file)]
    loaded = {name: str(sys.modules[name].__version__) for name in PACKAGES if name in sys.modules}
    versions = {"cody": __version__, "python": platform.python_version()} | loaded
    hardware = {"system": platform.system(), "machine": platform.machine(), "processor": _processor()}
    hardware["cores"] = str(os.cpu_count() or 1)
    about: dict[str, Any] = {"authors": authors, "url": url, "note": note, "versions": versions, "hardware": hardware}
    return LeaderboardEntry(**about, answers=tuple(answers))


def _groups(file: Path) -> Iterator[EntryAnswers]:
    """The answers of each explainer in a file."""
    records = {record.explainer: record for record in read_runs([file])}
    in_order = sorted(answers_in(file), key=lambda answer: answer.event)
    known = grouped(in_order, lambda answer: answer.explainer)
    for name, made_by in records.items():
        first, answers = known[name][0], known[name]
        checks = dict.fromkeys(check for answer in answers for check in answer.checks)
        about: dict[str, Any] = {field: getattr(first, field) for field in ("log", "model", "explainer", "factual")}
        about |= {field: getattr(made_by, field) for field in OF_RECORDS}
        about |= {field: tuple(getattr(answer, field) for answer in answers) for field in OF_ANSWERS}
        yield EntryAnswers(
            **about,
            events=tuple(answer.event for answer in answers),
            seconds=tuple(_rounded(answer.seconds) for answer in answers),
            checks={check: tuple(_rounded(answer.checks.get(check)) for answer in answers) for check in checks},
        )


def _rounded(number: float | None) -> float | None:
    return None if number is None else round(number, 5)


def _processor() -> str:
    """Its name, which `platform` does not know everywhere."""
    known = Path("/proc/cpuinfo")
    lines = known.read_text(encoding="utf-8").splitlines() if known.exists() else []
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.processor()


def write_entry(path: str | Path, entry: LeaderboardEntry) -> None:
    """Write the file of an entry: one line of JSON.

    Args:
        path: The file.
        entry: Its content.
    """
    Path(path).parent.mkdir(parents=True, exist_ok=True)
    Path(path).write_text(as_line(entry) + "\n", encoding="utf-8")


def read_entry(path: str | Path) -> LeaderboardEntry:
    """The entry in a file. A damaged one, and one about logs that are other ones here, is rejected."""
    try:
        text = Path(path).read_bytes()
    except OSError as error:
        raise DataError(f"cannot read {path}: {error.strerror}") from None
    entry = LeaderboardEntry.from_json(text)
    for group in entry.answers:
        check_log(group.log, group.data_identity)
        problem = _problem(group)
        if problem:
            raise DataError(f"this entry is damaged: {group.explainer} on {group.log} has {problem}")
    return entry


def _problem(group: EntryAnswers) -> str | None:
    """What cannot be in the answers of one explainer on one log."""
    columns: Sequence[Sequence[Any]] = (group.rows, group.candidates, group.evaluations, group.seconds)
    if any(len(column) != len(group.events) for column in (*columns, *group.checks.values())):
        return "columns of several lengths"
    ways = planted_once(group.log).ways
    for event in group.events:
        if event not in ways or group.events.count(event) > 1:
            return f"event {event} twice, or one without known causes"
    for event, rows, candidates in zip(group.events, group.rows, group.candidates, strict=True):
        if len(set(rows)) < len(rows) or len(rows) > candidates or max(rows, default=-1) >= event:
            return f"an answer about event {event} that is no choice of past candidates: {list(rows)}"
    for name, values in group.checks.items():
        if name not in MEASURED or any(not 0 <= value <= 1 for value in values if value is not None):
            return f"values of {name!r} that are none of a check"
    return None


def answers_of(entry: LeaderboardEntry) -> Iterator[BenchmarkAnswer]:
    """What an entry says, an explanation at a time: `cody.study.benchmark.rows_of` makes the table."""
    for group in entry.answers:
        about = group.log, group.model, group.explainer, group.factual
        answers = zip(group.events, group.rows, group.candidates, group.evaluations, group.seconds, strict=True)
        for place, (event, rows, candidates, evaluations, seconds) in enumerate(answers):
            checks = {name: value for name, values in group.checks.items() if (value := values[place]) is not None}
            yield BenchmarkAnswer(*about, event, rows, candidates, evaluations, seconds, checks)


def check_complete(entry: LeaderboardEntry) -> None:
    """Reject an entry whose figures could not be compared: 20 links of each mechanism, those that seed 0 draws."""
    names = {group.explainer for group in entry.answers}
    if not names:
        raise CallError("there are no answers in these records")
    for name in sorted(names):
        groups = [group for group in entry.answers if group.explainer == name and group.model == ORACLE]
        answered = {(group.log, group.model_identity): group.events for group in groups if group.seed == 0}
        missing = [log for log in MECHANISMS if answered.get((log, identity_of(_oracle(log)))) != _drawn(log)]
        if missing:
            raise CallError(
                f"{name} has not answered the {LINKS} links of {missing[0]} that seed 0 draws, with the model that "
                "decides by it: a row is made of what cody benchmark run explains without further options, and with "
                "--checks all"
            )


@cache
def _oracle(log: str) -> Model:
    return ORACLES[log](planted_once(log).graph)


@cache
def _drawn(log: str) -> tuple[int, ...]:
    """The links of a row of the leaderboard."""
    made = planted_once(log)
    return tuple(sample_kinds(_oracle(log), made.graph, LINKS, ["correct"], events=tuple(made.ways))["correct"])
