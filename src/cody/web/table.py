"""The tables of the page: of the candidates, for keyboards, screen readers and sorting; and of what answers survive."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from cody.explaining.explanation import Event
from cody.explaining.unit_words import span
from cody.models.margins import flips
from cody.utils.words import count, heading_of_times, moment, sanitize
from cody.web.charts import outcome
from cody.web.facts import IMAGINED, REMOVED, Facts
from cody.web.markup import Markup, cell, join, link, percent, row, table, tag


def candidates_table(facts: Facts, chosen: frozenset[int]) -> Markup:
    """One row for each candidate, the one with the largest effect first."""
    titles = {
        "on": "included" if facts.imagined else "happened",
        "row": "row",
        "link": facts.thing if facts.why.unit_name or facts.why.subject != "link" else "link",
        "when": heading_of_times(facts.why.query.time),
        "before": "before",
        "hops": "hops",
        "alone": f"{facts.gauge.word} if changed alone",
    }
    heads = (
        tag.th(
            tag.button(title, type="button", data_sort=key),
            scope="col",
            class_=key,
            aria_sort="descending" if key == "alone" else None,
        )
        for key, title in titles.items()
    )
    latest_first = reversed(range(len(facts.why.candidates)))
    strongest_first = sorted(latest_first, key=lambda number: -facts.strength(number))
    return tag.table(
        tag.caption(f"Candidate {facts.thing}s", class_="hidden-text"),
        tag.thead(tag.tr(*heads)),
        tag.tbody(*(_row(facts, number, changed=number in chosen) for number in strongest_first)),
        class_="candidates",
    )


def _row(facts: Facts, number: int, *, changed: bool) -> Markup:
    event = facts.why.candidates[number]
    happens = changed == (event.edit != REMOVED)
    label = f"happened: {facts.phrase(event)}"
    kind, before = IMAGINED.get(event.edit), f"{facts.before(event)} before"
    remark = ", ".join(part for part in (kind, event.carries) if part)
    row = event.row if event.edit == REMOVED else "new" if event.replaces is None else event.replaces
    return tag.tr(
        tag.td(tag.input(type="checkbox", checked=happens, aria_label=label, data_toggle=number), class_="on"),
        tag.td(str(row), class_="row"),
        tag.th(
            _unit_cell(facts, event),
            tag.small(f", {remark}") if remark else None,
            tag.small(", ", tag.span(before), class_="narrow"),
            scope="row",
        ),
        tag.td(moment(event.time), class_="when"),
        tag.td(facts.before(event), class_="before"),
        tag.td(str(facts.distance(event)), class_="hops"),
        tag.td(*_alone(facts, number), class_="alone"),
        data_e=number,
        class_=" ".join(["imagined"] * bool(kind) + ["changed"] * changed) or None,
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
    unit, name = facts.unit(event), facts.why.event_name
    if unit is None:
        return facts.link(event)
    rows = {*unit.rows, *unit.dependants}
    along = f", and {count(len(unit.dependants), 'dependant')}" if unit.dependants else ""
    about = [facts.link(event), tag.small(f", {count(len(unit.rows), name)}, {span(unit)}{along}")]
    events = [each for each in facts.why.unit_events if each.row in rows]
    if not events:
        return join(about)
    listed = [tag.li(f"{each.row}: ", link(each.src, each.dst), f", {moment(each.time)}") for each in reversed(events)]
    more = len(rows) - len(events)
    older = tag.li(f"and {count(more, f'older {name}')}") if more > 0 else None
    return tag.details(tag.summary(*about), tag.ul(*listed, older, class_="unit"))


# What the answer survives: other models, and the explained one under noise.

WIDEST = 40  # letters of a name


def stability_table(facts: Facts) -> Markup:
    """One row for the model itself, and one for each other that was tested: its score before and after, who flips."""
    why = facts.why
    heads = ["", f"{facts.gauge.word} before", "after", "the answer"]
    heads += ["alternatives that flip it"] if why.alternatives else []
    rows = [_model(facts, sanitize(each.name, WIDEST), each.original, each.without) for each in why.elsewhere]
    if why.verification is not None:
        here = why.verification.without, *(other.verification.without for other in why.alternatives)
        rows.insert(0, _model(facts, "the explained model", why.verification.original, here))
    return table(heads, rows, "elsewhere", caption="What other models decide")


def _model(facts: Facts, name: str, original: float, without: Sequence[float]) -> Markup:
    agrees = not flips(facts.why.original, original)
    holding = [flips(original, margin) for margin in without]
    flipping = [str(number) for number, holds in enumerate(holding) if holds and number]
    verdict = ("flips it" if holding[0] else "does not flip it") if agrees else "decides differently from the start"
    others = [", ".join(flipping) if agrees and flipping else "–"] if facts.why.alternatives else []
    scores = (facts.gauge.in_full(margin) for margin in (original, without[0]))
    return row(name, *scores, cell(verdict, class_="turned" if agrees and holding[0] else "same"), *others)
