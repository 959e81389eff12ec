"""cody audit: what a model reacts to."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from contextlib import nullcontext
from pathlib import Path

import click

from cody.cli import options as shared
from cody.cli.command import COUNT, LINES, command, section
from cody.cli.messages import print_csv, print_json
from cody.cli.options import ModelSource, csv_option, html_option, json_option, model_options, parse_period
from cody.cli.progress import progress
from cody.cli.running import made_there, stoppable, worker_opener
from cody.cli.show import Prose, ShownPart, print_parts
from cody.errors import CallError
from cody.study.audit import LINKS
from cody.study.audit import audit as audit_model
from cody.study.audit_report import FAIL, PASS, WARN, AuditReport
from cody.study.instances import TEST_PERIOD
from cody.study.shares import Share
from cody.utils.tables import TextTable
from cody.utils.words import count

_links, _decision, _output = section("Which links"), section("The decision"), section("Output")
NEVER = "never"
COLUMNS = (
    "name",
    "group",
    "links",
    "flipped",
    "low",
    "high",
    "moved",
    "size",
    "largest",
    "average_precision",
    "gained",
)


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
@_links("--links", type=COUNT, default=LINKS, help="Number of events to draw; as many links that did not happen join.")
@shared.period_option
@shared.seed_option
@model_options
@shared.workers_option
@shared.ray_option
@_decision(
    "--threshold", type=float, metavar="P", help="Predicted above this probability. Default: the model's, else 0.5."
)
@_output("--out", type=LINES, help="File for the scores of each link; resumes an existing file.")
@html_option
@csv_option
@json_option
@_output(
    "--at-most",
    multiple=True,
    metavar="NAME=SHARE",
    help="A check: this intervention changes at most this share of the decisions. Repeatable.",
)
@_output(
    "--fail-on",
    type=click.Choice([FAIL, WARN, NEVER]),
    default=NEVER,
    help="Exit with code 1 if a check fails, or warns.",
)
def audit(
    links: int,
    period: str | None,
    seed: int,
    source: ModelSource,
    workers: int,
    ray: str | None,
    threshold: float | None,
    out: Path | None,
    html: Path | None,
    as_csv: bool,
    as_json: bool,
    at_most: Sequence[str],
    fail_on: str,
) -> None:
    """Find out what a model reacts to: the order of events, their times, direction and features, and how much history.

    The past of many links is modified in one way after the other, and each time the model decides again. Links are
    events of the test period, and as many that did not happen.
    """
    shared.check_formats(as_csv, as_json)
    limits = dict(map(_limit, at_most))
    if ray is not None and workers > 1:
        raise CallError("give --workers or --ray, not both")
    shared.check_page(html)
    shared.use_threads(1)
    named = source.named()
    model = source.open(named)
    processes = worker_opener(source.data, named.graph, source.model, source.allow_data_mismatch)
    with (
        stoppable(out, "nothing was saved (use --out FILE)"),
        processes if workers > 1 else nullcontext() as opener,
        progress("Modifying the past of links", None) as move,
    ):
        report = audit_model(
            model,
            named.graph,
            links=links,
            period=TEST_PERIOD if period is None else parse_period(period),
            at_most=limits,
            threshold=threshold,
            seed=seed,
            out=out,
            workers=workers,
            opener=opener,
            ray=ray,
            load=made_there(source.model),
            watch=lambda done, total: move(completed=done, total=total),
        )
    shared.write_page(lambda: report.to_html(named.name, source.data), html)
    if as_json:
        print_json(report.to_dict())
    elif as_csv:
        print_csv(COLUMNS, _rows(report))
    else:
        print_parts(_shown(report, named.name, source.data))
    if fail_on != NEVER and report.status in (FAIL, fail_on):
        sys.exit(1)


def _limit(text: str) -> tuple[str, float]:
    name, _, share = text.rpartition("=")
    try:
        return name.strip(), float(share)
    except ValueError:
        raise CallError(f'--at-most {text!r} is not understood; write "times rounded to the day=0.3"') from None


def _rows(report: AuditReport) -> Iterator[dict[str, object]]:
    for effect in report.effects:
        flipped, moved = effect.flipped, effect.moved
        yield {
            **{name: getattr(effect, name) for name in ("name", "group", "links", "size", "largest")},
            "average_precision": effect.average_precision,
            "flipped": None if flipped is None else flipped.value,
            "low": None if flipped is None else flipped.low,
            "high": None if flipped is None else flipped.high,
            "moved": None if moved is None else moved.value,
            "gained": None if effect.gained is None else effect.gained.value,
        }


def _shown(report: AuditReport, model: str, data: str) -> Iterator[ShownPart]:
    known = report.average_precision
    precision = "" if known is None else f", average precision {100 * known:.1f} %"
    yield Prose(f"{model} on {data}: {count(report.links, 'prediction')}{precision}\n", bold=True)
    yield Prose(report.summary, bold=True)
    yield Prose("In brackets: of its decisions, the share that changes without it.\n")
    for sentence in report.verdict:
        yield Prose(sentence)
    yield ""
    yield _effects(report)
    missing: dict[str, list[str]] = {}
    for effect in report.effects:
        if effect.reason:
            missing.setdefault(effect.reason, []).append(effect.name)
    for reason, names in missing.items():
        yield Prose(f"Not applicable: {', '.join(names)} ({reason}).")
    if report.references:
        yield ""
        yield _references(report)
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
        logit = f"{effect.moved.value:+.2f}".replace("-0.00", "+0.00")
        gained = "" if effect.gained is None else f"{100 * effect.gained.value:+.1f}".replace("-0.0", "+0.0")
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
    table = TextTable("check", "", "", whole=[1])
    for check in report.checks:
        if check.status != PASS:
            table.add_row(check.name, click.style(check.status, fg=colours[check.status], bold=True), check.detail)
    if table.rows:
        yield table
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
