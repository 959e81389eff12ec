"""The page of an audit: the verdict, what changes decisions, reference models and checks, in one HTML file."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from cody.study.audit_report import FAIL, PASS, AuditReport, InterventionEffect, percent
from cody.study.shares import Share
from cody.utils.words import count, sanitize
from cody.web.impact_page import card, tile
from cody.web.markup import Child, Markup, element
from cody.web.markup import percent as width
from cody.web.page import document

TELLS = {
    "order": "Order: is it only which event came first?",
    "times": "Times: when did the events happen?",
    "direction": "Direction: who acted on whom?",
    "partners": "Partners: with whom did the two interact?",
    "features": "Features: what do the events carry?",
    "history": "History: how much of the past does it need, and whose?",
    "must not matter": "Must not matter: a model that reacts to these is wrong, or its adapter is",
}


def audit_page(report: AuditReport, model: str, data: str) -> str:
    """An audit as a self-contained HTML file."""
    name, log = sanitize(model, 60), sanitize(data, 60)
    parts = [_head(report, name, log), _checks(report), _effects(report)]
    parts += [_references(report)] if report.references else []
    body = element("main", *parts, class_="impact")
    return document(f"Audit of {name}", body, [], served=False, styles=["impact.css"])


def _head(report: AuditReport, model: str, data: str) -> Markup:
    words = element(
        "div",
        element("p", f"Audit · {model} on {data}", class_="occasion"),
        element("h1", report.summary),
        *(element("p", sentence, class_="answer") for sentence in report.verdict),
        class_="words",
    )
    passed = sum(check.status == PASS for check in report.checks)
    tiles = [
        tile(f"{report.links:,}", "predictions", f"{report.happened:,} of them happened"),
        tile(
            "–" if report.average_precision is None else f"{100 * report.average_precision:.0f} %",
            "average precision",
            "with nothing modified",
        ),
        tile(f"{passed}/{len(report.checks)}", "checks pass", f"the worst result is: {report.status}"),
    ]
    return element("header", words, element("ul", *tiles, class_="tiles"), class_="head card")


def _checks(report: AuditReport) -> Markup:
    worst_first = sorted(report.checks, key=lambda check: (check.status == PASS, check.status != FAIL))
    rows = [
        element(
            "tr",
            element("th", check.name, scope="row"),
            element("td", check.status, class_=None if check.status == PASS else "some"),
            element("td", check.detail),
        )
        for check in worst_first
    ]
    words = "What a model should do, and what it must not do."
    return card("checks", "Checks", words, element("table", element("tbody", *rows), class_="bins"))


def _effects(report: AuditReport) -> Markup:
    known = [effect for effect in report.effects if effect.flipped is not None]
    heads = ["", "decisions that change", "", "logit", "AP", "links"]
    groups = [
        (TELLS.get(group, group), list(_rows(known, group))) for group in dict.fromkeys(each.group for each in known)
    ]
    tables = [_table(heads, groups)]
    reasons = [f"Not applicable: {each.name} ({each.reason})." for each in report.effects if each.reason]
    words = (
        "The past of each link is modified in one way, and the model decides again, exactly. Bars: share of decisions "
        "that change, with its 95 % interval. Logit: mean change. AP: change of average precision, in points."
    )
    return card("effects", "What changes its decisions", words, *tables, *(element("p", each) for each in reasons))


def _rows(effects: Sequence[InterventionEffect], group: str) -> Iterator[Sequence[Child]]:
    for each in effects:
        if each.group == group and each.flipped is not None and each.moved is not None:
            points = "–" if each.gained is None else f"{100 * each.gained.value:+.1f}"
            moved = f"{each.moved.value:+.2f}"
            yield (each.name, percent(each.flipped.value), _bar(each.flipped), moved, points, f"{each.links:,}")


def _references(report: AuditReport) -> Markup:
    rows = [
        (
            each.name,
            percent(each.agrees.value),
            _bar(each.agrees),
            "–" if each.right is None else percent(each.right.value),
            "–" if each.average_precision is None else f"{100 * each.average_precision:.1f}",
        )
        for each in report.references
    ]
    words = (
        f"Rules that cost nothing, on the same {count(report.links, 'link')}. Where they decide like the model, it has "
        "learned little else; where they differ, is it right?"
    )
    heads = ["", "decides alike", "", "model right where they differ", "AP"]
    return card("references", "Reference models", words, _table(heads, [("", rows)]))


def _table(heads: Sequence[str], groups: Sequence[tuple[str, Sequence[Sequence[Child]]]]) -> Markup:
    """Rows with a bar in the third column, in groups below their titles."""
    head = element("tr", *(element("th", name, scope="col") for name in heads))
    body = []
    for title, rows in groups:
        if title:
            body.append(element("tr", element("th", element("b", title), colspan=len(heads), scope="rowgroup")))
        body += [
            element(
                "tr",
                element("th", name, scope="row"),
                element("td", share),
                element("td", drawn, class_="bar"),
                *(element("td", cell) for cell in rest),
            )
            for name, share, drawn, *rest in rows
        ]
    return element("table", element("thead", head), element("tbody", *body), class_="bins")


def _bar(share: Share) -> Markup:
    """A share with its interval."""
    return element(
        "svg",
        element("title", f"{percent(share.value)}, between {percent(share.low)} and {percent(share.high)}"),
        element("line", x1="0", x2="100%", y1=9, y2=9, stroke="var(--line)"),
        element("rect", x="0", y=3, width=width(share.value), height=12, class_="mean"),
        element("line", x1=width(share.low), x2=width(share.high), y1=9, y2=9, stroke="var(--ink)", stroke_width=1.5),
        width="100%",
        height=18,
    )
