"""The table of candidates: the events and switches of the timeline, for keyboards, screen readers and sorting."""

from __future__ import annotations

from collections.abc import Iterator

from cody.models.decision import decision, probability
from cody.utils.words import heading_of_times
from cody.web.facts import REMOVED, Facts
from cody.web.markup import Markup, element, percent

COLUMNS = (
    ("on", "happened"),
    ("row", "row"),
    ("link", "link"),
    ("when", "when"),
    ("before", "before"),
    ("hops", "hops"),
    ("alone", "score if changed alone"),
)


def table(facts: Facts, chosen: frozenset[int]) -> Markup:
    """One row for each candidate, the latest first."""
    titles = {"when": heading_of_times(facts.why.query.time)}
    heads = (
        element(
            "th",
            element("button", titles.get(key, title), type="button", data_sort=key),
            scope="col",
            class_=key,
            aria_sort="descending" if key == "when" else None,
        )
        for key, title in COLUMNS
    )
    rows = list(_rows(facts, chosen))[::-1]
    return element(
        "table",
        element("caption", "Candidate events", class_="hidden-text"),
        element("thead", element("tr", *heads)),
        element("tbody", *rows),
        class_="candidates",
    )


def _rows(facts: Facts, chosen: frozenset[int]) -> Iterator[Markup]:
    for number, event in enumerate(facts.why.candidates):
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
            element("th", facts.link(event), element("small", remark) if remark else None, scope="row"),
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
    """The score with only this one changed, and a bar from the original score to it."""
    known = facts.alone(number)
    if known is None:
        yield element("span", "not evaluated", class_="unevaluated")
        return
    first, last = probability(facts.why.original), probability(known.logit)
    low, high = sorted((first, last))
    bar = element("rect", x=percent(low), y=4, width=percent(max(high - low, 0.006)), height=6)
    yield element("span", f"{last:.3f}")
    yield element("svg", bar, class_=f"mini {facts.effect(number)}", aria_hidden="true")
    yield element("span", decision(known.logit), class_="turned" if _turned(facts, known.logit) else "same")


def _turned(facts: Facts, logit: float) -> bool:
    return decision(logit) != decision(facts.why.original)
