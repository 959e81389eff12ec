"""The page of an audit: the verdict, what changes decisions, reference models and checks, in one HTML file."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from cody.study.audit_report import FAIL, PASS, AuditReport, InterventionEffect, percent, signed
from cody.study.shares import Share
from cody.utils.words import applied_to, count, sanitize
from cody.web.gauge import with_minus
from cody.web.markup import Markup, TableCell, bar, card, cell, report_head, row, table, tag, tile
from cody.web.markup import percent as width
from cody.web.page import report_page

TELLS = {
    "order and times": "Order and times: does it matter which event happened when?",
    "order": "Order: does it matter which event came first?",
    "times": "Times: when did the events happen?",
    "direction": "Direction: who acted on whom?",
    "partners": "Partners: with whom did the two interact?",
    "neighbours": "Neighbours: what did those whom the two met do with others?",
    "features": "Features: what do the events carry?",
    "history": "History: how much of the past does it need, and whose?",
    "must not matter": "Must not matter: a model that reacts to these is wrong, or its adapter is",
}


def audit_page(report: AuditReport, model: str, data: str) -> str:
    """An audit as a self-contained HTML file."""
    name, log = sanitize(model, 60), sanitize(data, 60)
    parts = [_head(report, name, log), _checks(report), _effects(report)]
    parts += [_references(report)] if report.references else []
    return report_page(f"Audit of {name}", *parts)


def _head(report: AuditReport, model: str, data: str) -> Markup:
    passed = sum(check.status == PASS for check in report.checks)
    true = "happened" if report.label is None else f"are {sanitize(report.label, 24)}"
    precision = "–" if report.average_precision is None else f"{100 * report.average_precision:.0f} %"
    tiles = [
        tile(f"{report.links:,}", "predictions", f"{report.happened:,} of them {true}"),
        tile(precision, "average precision", "with nothing modified"),
        tile(f"{passed}/{len(report.checks)}", "checks pass", f"overall: {report.status}"),
    ]
    finding = f"The model {report.summary[:1].lower()}{report.summary[1:]}"
    return report_head(f"Audit · {applied_to(model, data)}", finding, report.verdict, tiles=tiles)


def _checks(report: AuditReport) -> Markup:
    worst_first = sorted(report.checks, key=lambda check: (check.status == PASS, check.status != FAIL))
    rows = [
        row(
            check.name,
            cell(check.status, class_=None if check.status == PASS else "some"),
            cell(check.detail, class_="said"),
        )
        for check in worst_first
    ]
    words = "What a model should do, and what it must not do."
    return card("checks", "Checks", words, tag.table(tag.tbody(*rows), class_="bins"))


def _effects(report: AuditReport) -> Markup:
    known = [effect for effect in report.effects if effect.flipped is not None]
    heads = ["", "decisions that change", "", "logit", "AP", "predictions"]
    rows: list[Markup] = []
    for group in dict.fromkeys(each.group for each in known):
        title = tag.th(tag.b(TELLS.get(group, group)), colspan=len(heads), scope="rowgroup")
        rows += [tag.tr(title), *_rows(known, group)]
    reasons = [f"Not applicable: {each.name} ({each.reason})." for each in report.effects if each.reason]
    words = (
        "The past of each prediction is modified in one way, and the model decides again, exactly. Bars: share of "
        "decisions that change, with its 95 % interval. Logit: mean change. AP: change of average precision, in "
        "points; the mouse shows their intervals."
    )
    notes = (tag.p(each) for each in reasons)
    return card("effects", "What changes its decisions", words, table(heads, rows, "bins"), *notes)


def _rows(effects: Sequence[InterventionEffect], group: str) -> Iterator[Markup]:
    for each in effects:
        if each.group == group and each.flipped is not None and each.moved is not None:
            moved = _change(each.moved, 1, 2)
            points = cell("–") if each.gained is None else _change(each.gained, 100, 1)
            yield row(each.name, percent(each.flipped.value), _bar(each.flipped), moved, points, f"{each.links:,}")


def _change(share: Share, times: float, decimals: int) -> TableCell:
    """A change, with its interval where the mouse is over it."""
    value, low, high = (with_minus(signed(times * each, decimals)) for each in (share.value, share.low, share.high))
    return cell(value, title=f"{value}, between {low} and {high}")


def _references(report: AuditReport) -> Markup:
    rows = []
    for each in report.references:
        right = "–" if each.right is None else percent(each.right.value)
        precision = "–" if each.average_precision is None else f"{100 * each.average_precision:.1f}"
        rows.append(row(each.name, percent(each.agrees.value), _bar(each.agrees), right, precision))
    words = (
        f"Rules that cost nothing, on the same {count(report.links, 'link')}. Where they decide like the model, it has "
        "learned little else; where they differ, is it right?"
    )
    heads = ["", "decides alike", "", "model right where they differ", "AP"]
    return card("references", "Reference models", words, table(heads, rows, "bins"))


def _bar(share: Share) -> TableCell:
    """A share with its interval."""
    low, high = width(share.low), width(share.high)
    title = tag.title(f"{percent(share.value)}, between {percent(share.low)} and {percent(share.high)}")
    axis = tag.line(x1="0", x2="100%", y1=9, y2=9, stroke="var(--line)")
    interval = tag.line(x1=low, x2=high, y1=9, y2=9, stroke="var(--ink)", stroke_width=1.5)
    return bar(share.value, title, axis, interval)
