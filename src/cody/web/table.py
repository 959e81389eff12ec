"""The tables of the page: of the candidates, for keyboards, screen readers and sorting; and of what answers survive."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from cody.explaining.explanation import ChangedUnit, Event
from cody.explaining.unit_words import span
from cody.models.margins import flips
from cody.utils.words import count, heading_of_times, moment, sanitize
from cody.web.charts import outcome
from cody.web.facts import IMAGINED, REMOVED, Facts
from cody.web.markup import Markup, cell, join, link, percent, row, table, tag

COLUMNS = (
    ("on", "happened"),
    ("row", "row"),
    ("link", "link"),
    ("when", "when"),
    ("before", "before"),
    ("hops", "hops"),
    ("alone", ""),
)


def candidates_table(facts: Facts, chosen: frozenset[int]) -> Markup:
    """One row for each candidate, the one with the largest effect first."""
    imagined = any(event.edit != REMOVED for event in facts.why.candidates)
    titles = {
        "on": "included" if imagined else "happened",
        "link": facts.thing if facts.why.unit_name or facts.why.subject != "link" else "link",
        "when": heading_of_times(facts.why.query.time),
        "alone": f"{facts.gauge.word} if changed alone",
    }
    heads = (
        tag.th(
            tag.button(titles.get(key, title), type="button", data_sort=key),
            scope="col",
            class_=key,
            aria_sort="descending" if key == "alone" else None,
        )
        for key, title in COLUMNS
    )
    rows = list(_rows(facts, chosen))
    return tag.table(
        tag.caption(f"Candidate {facts.thing}s", class_="hidden-text"),
        tag.thead(tag.tr(*heads)),
        tag.tbody(*rows),
        class_="candidates",
    )


def _rows(facts: Facts, chosen: frozenset[int]) -> Iterator[Markup]:
    latest_first = reversed(range(len(facts.why.candidates)))
    for number in sorted(latest_first, key=lambda number: -facts.strength(number)):
        event = facts.why.candidates[number]
        on = (number in chosen) == (event.edit != REMOVED)
        box = tag.input(type="checkbox", checked=on, aria_label=f"happened: {facts.phrase(event)}", data_toggle=number)
        kind = IMAGINED.get(event.edit)
        remark = ", ".join(part for part in (kind, event.carries) if part)
        name = str(event.row if event.edit == REMOVED else event.replaces if event.replaces is not None else "new")
        cells = (
            tag.td(box, class_="on"),
            tag.td(name, class_="row"),
            tag.th(
                _unit_cell(facts, event),
                tag.small(f", {remark}") if remark else None,
                tag.small(", ", tag.span(f"{facts.before(event)} before"), class_="narrow"),
                scope="row",
            ),
            tag.td(moment(event.time), class_="when"),
            tag.td(facts.before(event), class_="before"),
            tag.td(str(facts.distance(event)), class_="hops"),
            tag.td(*_alone(facts, number), class_="alone"),
        )
        yield tag.tr(
            *cells, data_e=number, class_=" ".join(["imagined"] * bool(kind) + ["changed"] * (number in chosen)) or None
        )


def _alone(facts: Facts, number: int) -> Iterator[Markup]:
    """The score or lead with only this one changed, and a bar from the original one to it."""
    known = facts.alone(number)
    if known is None:
        yield tag.span("not evaluated", class_="unevaluated")
        return
    share, lower = 0.5 * facts.strength(number), known.logit < facts.why.original
    bar = tag.rect(x=percent(0.5 - share * lower), y=4, width=percent(max(share, 0.006)), height=6)
    yield tag.span(facts.gauge.in_full(known.logit))
    yield tag.svg(bar, class_=f"mini {facts.effect(number)}", aria_hidden="true")
    turned = flips(facts.why.original, known.logit)
    yield tag.span(outcome(facts, known.logit), class_="turned" if turned else "same")


def _unit_cell(facts: Facts, event: Event) -> Markup:
    """What a candidate stands for: its link, or the name of a unit that opens into its latest events."""
    unit = facts.unit(event)
    if unit is None:
        return facts.link(event)
    events = [each for each in facts.why.unit_events if each.row in {*unit.rows, *unit.dependants}]
    if not events:
        return join([facts.link(event), tag.small(_about_unit(facts, unit))])
    listed = [tag.li(f"{each.row}: ", link(each.src, each.dst), f", {moment(each.time)}") for each in reversed(events)]
    more = len({*unit.rows, *unit.dependants}) - len(events)
    older = tag.li(f"and {count(more, f'older {facts.why.event_name}')}") if more > 0 else None
    opened = tag.ul(*listed, older, class_="unit")
    return tag.details(tag.summary(facts.link(event), tag.small(_about_unit(facts, unit))), opened)


def _about_unit(facts: Facts, unit: ChangedUnit) -> str:
    along = f", and {count(len(unit.dependants), 'dependant')}" if unit.dependants else ""
    return f", {count(len(unit.rows), facts.why.event_name)}, {span(unit)}{along}"


# What the answer survives: other models, and the explained one under noise.

WIDEST = 40  # letters of a name


def stability_table(facts: Facts) -> Markup:
    """One row for the model itself, and one for each other that was tested: its score before and after, who flips."""
    heads = ["", f"{facts.gauge.word} before", "after", "the answer", *["alternatives that flip it"] * _several(facts)]
    return table(heads, _models(facts), "elsewhere", caption="What other models decide")


def _several(facts: Facts) -> bool:
    return bool(facts.why.alternatives)


def _models(facts: Facts) -> Iterator[Markup]:
    why = facts.why
    if why.verification is not None:
        here = why.verification.without, *(other.verification.without for other in why.alternatives)
        yield _model(facts, "the explained model", why.verification.original, here)
    for each in why.elsewhere:
        yield _model(facts, sanitize(each.name, WIDEST), each.original, each.without)


def _model(facts: Facts, name: str, original: float, without: Sequence[float]) -> Markup:
    agrees = not flips(facts.why.original, original)
    holding = [flips(original, margin) for margin in without]
    flipping = [str(number) for number, holds in enumerate(holding) if holds and number]
    verdict = ("flips it" if holding[0] else "does not flip it") if agrees else "decides differently from the start"
    others = [", ".join(flipping) if agrees and flipping else "–"] if _several(facts) else []
    scores = (facts.gauge.in_full(margin) for margin in (original, without[0]))
    return row(name, *scores, cell(verdict, class_="turned" if agrees and holding[0] else "same"), *others)
