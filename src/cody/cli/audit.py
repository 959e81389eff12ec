"""cody audit: what a model reacts to."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path

import click

from cody.cli import options as shared
from cody.cli.command import bundled, command, given_by, option_fields
from cody.cli.running import made_there, stoppable, worker_opener
from cody.cli.terminal import Prose, ShownPart, progress
from cody.cli.types import LINES
from cody.errors import CallError
from cody.study.audit import LINKS
from cody.study.audit import audit as audit_model
from cody.study.audit_report import FAIL, PASS, WARN, AuditReport, signed
from cody.study.instances import TEST_PERIOD
from cody.study.shares import Share
from cody.utils.tables import TextTable
from cody.utils.words import applied_to, count, sanitize

_links, _decision, _output = option_fields("Which links"), option_fields("The decision"), option_fields("Output")
NEVER = "never"
COLUMNS = ["name", "group", "links", "flipped", "low", "high", "moved", "moved_low", "moved_high", "size", "largest"]
COLUMNS += ["average_precision", "gained", "gained_low", "gained_high"]


@dataclass(frozen=True, slots=True)
class AuditOptions:
    """Which links are scored, who does the work, and where the result goes."""

    links: int = _links(
        "Number of events to draw; where links are predicted, as many that did not happen join.", default=LINKS
    )
    period: str | None = given_by(shared.period_option)
    seed: int = given_by(shared.seed_option)
    threshold: float | None = _decision("Predicted above this probability. Default: the model's, else 0.5.", "P")
    source: shared.ModelSource = given_by(shared.model_options)
    work: shared.WorkOptions = given_by(shared.work_options)
    out: Path | None = _output("File for the scores of each link; resumes an existing file.", type=LINES)
    output: shared.OutputOptions = given_by(shared.output_options)
    at_most: Sequence[str] = _output(
        "A check: this intervention changes at most this share of the decisions. Repeatable.", "NAME=SHARE"
    )
    fail_on: str = _output("Exit with code 1 if a check fails, or warns.", one_of=[FAIL, WARN, NEVER], default=NEVER)


@command(
    "audit",
    examples={
        "cody audit": "what does the shipped model react to?",
        "cody audit --html audit.html": "the same as a page",
        "cody audit --links 1000 --workers 4 --out audit.jsonl": "many links; rerun to resume",
        "cody audit --data events --model my-tgn --fail-on warn": "in continuous integration",
        'cody audit --at-most "times rounded to the day=0.3"': "a check of your own",
    },
)
@bundled("options", AuditOptions)
def audit(options: AuditOptions) -> None:
    """Find out what a model reacts to: the order of events, their times, direction and features, and how much history.

    The past of many predictions is modified in one way after the other, and each time the model decides again. These
    are events of the test period, and as many links that did not happen unless labels are predicted.
    """
    options.output.check()
    limits = dict(map(_limit, options.at_most))
    options.work.check()
    shared.use_threads(1)
    source, named = options.source, options.source.named()
    model = source.open(named)
    processes = worker_opener(named.data, named.graph, source.model, source.allow_data_mismatch)
    with (
        stoppable(options.out, "nothing was saved (use --out FILE)"),
        processes if options.work.workers > 1 else nullcontext() as opener,
        progress("Modifying the past of links", None) as move,
    ):
        report = audit_model(
            model,
            named.graph,
            links=options.links,
            period=TEST_PERIOD if options.period is None else shared.parse_period(options.period),
            at_most=limits,
            threshold=options.threshold,
            seed=options.seed,
            out=options.out,
            workers=options.work.workers,
            opener=opener,
            ray=options.work.ray,
            load=made_there(source.model),
            watch=move,
        )
    shared.write_page(lambda: report.to_html(named.name, named.data), options.output.html)
    options.output.print(report, COLUMNS, _rows(report), _shown(report, named.name, named.data))
    if options.fail_on != NEVER and report.status in (FAIL, options.fail_on):
        sys.exit(1)


def _limit(text: str) -> tuple[str, float]:
    name, _, share = text.rpartition("=")
    try:
        return name.strip(), float(share)
    except ValueError:
        raise CallError(f'--at-most {text!r} is not understood; write "times rounded to the day=0.3"') from None


def _rows(report: AuditReport) -> Iterator[dict[str, object]]:
    for effect in report.effects:
        row: dict[str, object] = {name: getattr(effect, name, None) for name in COLUMNS}
        for name, prefix in (("flipped", ""), ("moved", "moved_"), ("gained", "gained_")):
            share: Share | None = getattr(effect, name)
            value, low, high = (None, None, None) if share is None else (share.value, share.low, share.high)
            row |= {name: value, f"{prefix}low": low, f"{prefix}high": high}
        yield row


def _shown(report: AuditReport, model: str, data: str) -> Iterator[ShownPart]:
    known = report.average_precision
    precision = "" if known is None else f", average precision {100 * known:.1f} %"
    what = count(report.links, "prediction")
    if report.label is not None:
        what += f" of {sanitize(report.label, 24)} (true of {report.happened:,})"
    yield Prose(f"{applied_to(model, data)}: {what}{precision}\n", bold=True)
    yield Prose(report.summary, bold=True)
    yield Prose("In brackets: of its decisions, the share that changes without it.\n")
    yield from map(Prose, report.verdict)
    yield from ("", _effects(report))
    reasons = dict.fromkeys(effect.reason for effect in report.effects if effect.reason)
    for reason in reasons:
        names = ", ".join(effect.name for effect in report.effects if effect.reason == reason)
        yield Prose(f"Not applicable: {names} ({reason}).")
    if report.references:
        yield from ("", _references(report))
    yield ""
    yield from _checks(report)


def _effects(report: AuditReport) -> TextTable:
    """One row for each way to modify the past, below what it tells about."""
    table = TextTable("modified past", "decisions", "#that change", "#logit", "#AP")
    group = None
    for effect in report.effects:
        if effect.moved is None or effect.flipped is None:
            continue
        if effect.group != group:
            group = effect.group
            table.add_row(click.style(group, bold=True), "", "", "", "")
        logit = signed(effect.moved.value, 2)
        gained = "" if effect.gained is None else signed(100 * effect.gained.value, 1)
        table.add_row(f"  {effect.name}", bar(effect.flipped.value), _interval(effect.flipped), logit, gained)
    return table


def _references(report: AuditReport) -> TextTable:
    table = TextTable("reference model", "decides", "#alike", "#right where not", "#AP")
    for each in report.references:
        precision = "" if each.average_precision is None else f"{100 * each.average_precision:.1f}"
        alike = bar(each.agrees.value), _interval(each.agrees)
        table.add_row(each.name, *alike, _interval(each.right), precision)
    return table


def _checks(report: AuditReport) -> Iterator[ShownPart]:
    """What does not pass, one by one; then what does."""
    colours = {FAIL: "red", WARN: "yellow"}
    rows = [
        (check.name, click.style(check.status, fg=colours[check.status], bold=True), check.detail)
        for check in report.checks
        if check.status != PASS
    ]
    if rows:
        yield TextTable("check", "", "", rows=rows, whole=[1])
    passed = [check.name for check in report.checks if check.status == PASS]
    if passed:
        yield Prose(f"Passed: {'; '.join(passed)}.")


def bar(share: float, width: int = 10) -> str:
    """A share as a bar of block characters.

    >>> bar(0.45, 10), bar(0.001, 10), bar(0.0, 10)
    ('████▌', '▏', '')
    """
    eighths = max(round(8 * width * share), int(share > 0))
    return "█" * (eighths // 8) + " ▏▎▍▌▋▊▉"[eighths % 8].strip()


def _interval(share: Share | None) -> str:
    return "–" if share is None else f"{100 * share.value:.0f} % [{100 * share.low:.0f}, {100 * share.high:.0f}]"
