"""The table of candidates: the events and switches of the timeline, for keyboards, screen readers and sorting."""

from __future__ import annotations

from collections.abc import Iterator

from cody.models.margins import flips
from cody.utils.words import heading_of_times
from cody.web.charts import outcome
from cody.web.facts import REMOVED, Facts
from cody.web.markup import Markup, element, percent
from cody.web.units import unit_cell

COLUMNS = (
    ("on", "happened"),
    ("row", "row"),
    ("link", "link"),
    ("when", "when"),
    ("before", "before"),
    ("hops", "hops"),
    ("alone", ""),
)


def table(facts: Facts, chosen: frozenset[int]) -> Markup:
    """One row for each candidate, the one with the largest effect first."""
    titles = {
        "link": "link" if facts.why.subject == "link" else facts.event,
        "when": heading_of_times(facts.why.query.time),
        "alone": f"{facts.gauge.word} if changed alone",
    }
    heads = (
        element(
            "th",
            element("button", titles.get(key, title), type="button", data_sort=key),
            scope="col",
            class_=key,
            aria_sort="descending" if key == "alone" else None,
        )
        for key, title in COLUMNS
    )
    rows = list(_rows(facts, chosen))
    return element(
        "table",
        element("caption", f"Candidate {facts.event}s", class_="hidden-text"),
        element("thead", element("tr", *heads)),
        element("tbody", *rows),
        class_="candidates",
    )


def _rows(facts: Facts, chosen: frozenset[int]) -> Iterator[Markup]:
    latest_first = reversed(range(len(facts.why.candidates)))
    for number in sorted(latest_first, key=lambda number: -facts.strength(number)):
        event = facts.why.candidates[number]
        on = (number in chosen) == (event.edit != REMOVED)
        box = element(
            "input",
            type="checkbox",
            checked=on,
            aria_label=f"happened: {facts.phrase(event)}",
            data_toggle=number,
        )
        kind = facts.edit(event)
        remark = ", ".join(part for part in (kind, event.carries) if part)
        name = str(event.row if event.edit == REMOVED else event.replaces if event.replaces is not None else "new")
        cells = (
            element("td", box, class_="on"),
            element("td", name, class_="row"),
            element(
                "th",
                unit_cell(facts, event),
                element("small", f", {remark}") if remark else None,
                element("small", f", {facts.before(event)} before", class_="narrow"),
                scope="row",
            ),
            element("td", facts.when(event), class_="when"),
            element("td", facts.before(event), class_="before"),
            element("td", str(facts.distance(event)), class_="hops"),
            element("td", *_alone(facts, number), class_="alone"),
        )
        yield element(
            "tr",
            *cells,
            data_e=number,
            class_=" ".join(["imagined"] * bool(kind) + ["changed"] * (number in chosen)) or None,
        )


def _alone(facts: Facts, number: int) -> Iterator[Markup]:
    """The score or lead with only this one changed, and a bar from the original one to it."""
    known = facts.alone(number)
    if known is None:
        yield element("span", "not evaluated", class_="unevaluated")
        return
    share, lower = 0.5 * facts.strength(number), known.logit < facts.why.original
    bar = element("rect", x=percent(0.5 - share * lower), y=4, width=percent(max(share, 0.006)), height=6)
    yield element("span", facts.gauge.in_full(known.logit))
    yield element("svg", bar, class_=f"mini {facts.effect(number)}", aria_hidden="true")
    turned = flips(facts.why.original, known.logit)
    yield element("span", outcome(facts, known.logit), class_="turned" if turned else "same")
