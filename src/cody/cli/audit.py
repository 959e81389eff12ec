"""cody audit: what a model reacts to."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence

import click

from cody.cli import options as shared
from cody.cli.command import COUNT, command, section
from cody.cli.messages import print_csv, print_json
from cody.cli.options import ModelSource, json_option, model_options, parse_period
from cody.cli.progress import progress
from cody.cli.show import Prose, ShownPart, print_parts
from cody.errors import CallError
from cody.study.audit import FAIL, LINKS, WARN, AuditReport
from cody.study.audit import audit as audit_model
from cody.study.instances import TEST_PERIOD
from cody.study.shares import Share
from cody.utils.tables import TextTable
from cody.utils.words import count

_links, _output = section("Which links"), section("Output")
NEVER = "never"
COLUMNS = ("name", "group", "links", "flipped", "low", "high", "moved", "size", "largest", "average_precision")


@command(
    "audit",
    examples={
        "cody audit": "what does the shipped model react to?",
        "cody audit --data events --model my-tgn --fail-on warn": "in continuous integration",
        'cody audit --at-most "times rounded to the day=0.3"': "a check of your own",
    },
)
@_links("--links", type=COUNT, default=LINKS, help="Number of events to draw; as many links that did not happen join.")
@shared.period_option
@shared.seed_option
@model_options
@_output("--csv", "as_csv", is_flag=True, help="Print a table for other programs, one row per intervention.")
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
    as_csv: bool,
    as_json: bool,
    at_most: Sequence[str],
    fail_on: str,
) -> None:
    """Find out what a model reacts to: the order of events, their times, direction and features, and how much history.

    The past of many links is modified in one way after the other, and each time the model decides again. Links are
    events of the test period, and as many that did not happen.
    """
    if as_csv and as_json:
        raise CallError("give --csv or --json, not both")
    limits = dict(map(_limit, at_most))
    named = source.named()
    model = source.open(named)
    with progress("Modifying the past of links", None) as move:
        report = audit_model(
            model,
            named.graph,
            links=links,
            period=TEST_PERIOD if period is None else parse_period(period),
            at_most=limits,
            seed=seed,
            watch=lambda done, total: move(completed=done, total=total),
        )
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
        }


def _shown(report: AuditReport, model: str, data: str) -> Iterator[ShownPart]:
    known = report.average_precision
    precision = "" if known is None else f", average precision {_percent(known)}"
    yield Prose(f"{model} on {data}: {count(report.links, 'prediction')}{precision}.\n", bold=True)
    for sentence in report.verdict:
        yield Prose(sentence)
    yield ""
    yield _effects(report)
    for effect in report.effects:
        if effect.reason:
            yield Prose(f"Not applicable: {effect.name} ({effect.reason}).")
    if report.references:
        yield ""
        yield _references(report)
    yield ""
    checks = TextTable("check", "result", "detail", whole=[1])
    for check in report.checks:
        checks.add_row(check.name, check.status, check.detail)
    yield checks


def _effects(report: AuditReport) -> TextTable:
    table = TextTable("modified past", "#decisions changed", "#logit", "#AP")
    for effect in report.effects:
        if effect.moved is not None:
            logit = f"{effect.moved.value:+.2f}".replace("-0.00", "+0.00")
            table.add_row(effect.name, _interval(effect.flipped), logit, _percent(effect.average_precision))
    return table


def _references(report: AuditReport) -> TextTable:
    table = TextTable("reference model", "#decides alike", "#right where they differ", "#AP")
    for each in report.references:
        table.add_row(each.name, _interval(each.agrees), _interval(each.right), _percent(each.average_precision))
    return table


def _interval(share: Share | None) -> str:
    return "–" if share is None else f"{100 * share.value:.0f} % [{100 * share.low:.0f}, {100 * share.high:.0f}]"


def _percent(share: float | None) -> str:
    return "–" if share is None else f"{100 * share:.1f} %"
