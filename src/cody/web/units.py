"""Units on the page: one row of the table for all events of a unit, which opens into them."""

from __future__ import annotations

from cody.explaining.explanation import ChangedUnit, Event
from cody.explaining.unit_words import span
from cody.utils.words import count, moment
from cody.web.facts import Facts
from cody.web.markup import Markup, element, join


def unit_cell(facts: Facts, event: Event) -> Markup:
    """What a candidate stands for: its link, or the name of a unit that opens into its latest events."""
    unit = facts.unit(event)
    if unit is None:
        return facts.link(event)
    events = [each for each in facts.why.unit_events if each.row in {*unit.rows, *unit.dependants}]
    if not events:
        return join([facts.link(event), element("small", _about(facts, unit))])
    listed = [element("li", f"{each.row}: {each.src} → {each.dst}, {moment(each.time)}") for each in reversed(events)]
    more = len({*unit.rows, *unit.dependants}) - len(events)
    older = element("li", f"and {count(more, f'older {facts.why.event_name}')}") if more > 0 else None
    opened = element("ul", *listed, older, class_="unit")
    return element("details", element("summary", facts.link(event), element("small", _about(facts, unit))), opened)


def _about(facts: Facts, unit: ChangedUnit) -> str:
    along = f", and {count(len(unit.dependants), 'dependant')}" if unit.dependants else ""
    return f", {count(len(unit.rows), facts.why.event_name)}, {span(unit)}{along}"
