"""The timeline: a lane for each node, and an arc between two lanes for each event."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator, Sequence

from cody.explaining.explanation import Event
from cody.web.axes import Axis, axes
from cody.web.facts import REMOVED, SLIGHT, UNKNOWN, Facts
from cody.web.lanes import Lane, lanes
from cody.web.markup import Markup, percent, tag

AXIS_ROOM = 26.0  # pixels below the lanes for the labels of the axis
LINK_GAP = 22.0  # pixels between the past events and the explained link
LETTER = 6.6  # pixels of a letter beside a lane
LETTER_OF_AN_END = 9.0
THINNEST, THICKEST = 1.3, 5.0
BESIDE_A_LANE = 8.0  # pixels between a lane and the middle of a label
TAG_HEIGHT = 15.0
FEW = 12  # events of an answer that are crossed out in full size
TAG_LETTER = 8.0  # pixels of a letter of such a label
USUAL_WIDTH = 560.0  # pixels of the plot on a screen that shows them
MOST_TAGS = 3  # events of an answer that are labelled in place


def timeline(facts: Facts, chosen: frozenset[int]) -> tuple[Markup, list[Axis]]:
    """The chart, and the positions of its events on each axis: first the candidates, then other events."""
    why = facts.why
    rows, height = lanes(why, facts.kept_lanes)
    beside = [event for event in why.surroundings.events if _shows(event, rows)] if why.surroundings else []
    layouts = axes([event.time for event in [*why.candidates, *beside]], why.query.time)
    places, shown = layouts[0].places, {lane.y: lane for lane in rows.values()}.values()
    plot = tag.svg(
        *(_lane(lane, facts) for lane in shown),
        *(_ticks(axis, height, hidden=axis is not layouts[0]) for axis in layouts),
        tag.g(*_beside(beside, places, len(why.candidates), rows), class_="beside", aria_hidden="true"),
        tag.g(*_candidates(facts, places, rows, chosen), class_="events"),
        tag.g(*_tags(facts, places, rows), aria_hidden="true"),
        _explained_link(facts, rows),
        class_="plot",
        width="100%",
        height=height + AXIS_ROOM,
        role="group",
        aria_label="Timeline of the past events. Arrow keys go from event to event, space switches one off or on.",
    )
    labels = tag.svg(
        *(_label(lane, facts) for lane in shown),
        class_="names",
        width=_room_for_names(facts, shown),
        height=height + AXIS_ROOM,
        aria_hidden="true",
    )
    return tag.div(labels, plot, class_="timeline", data_drawn=True), layouts


def _room_for_names(facts: Facts, shown: Collection[Lane]) -> float:
    """The width of the longest name; those of the ends are bold."""
    ends = max(len(facts.labels[name]) for name in (facts.why.src, facts.why.dst)) * LETTER_OF_AN_END
    return max(ends, max(map(len, [*facts.labels.values(), *map(_others, shown)])) * LETTER) + 6


def _shows(event: Event, rows: dict[str, Lane]) -> bool:
    """Whether an event that is no candidate is drawn: not between nodes that do not matter."""
    return rows[event.src].shared == rows[event.dst].shared == 1


def _others(lane: Lane) -> str:
    return f"{lane.shared} others" if lane.shared > 1 else ""


def _lane(lane: Lane, facts: Facts) -> Markup:
    kind = "lane end" if lane.name in (facts.why.src, facts.why.dst) else "lane"
    return tag.line(class_=kind, x1=0, x2="100%", y1=lane.y, y2=lane.y)


def _label(lane: Lane, facts: Facts) -> Markup:
    kind = "end" if lane.name in (facts.why.src, facts.why.dst) else f"hop{min(lane.hops, 2)}"
    label, short = facts.labels[lane.name], facts.short_labels[lane.name]
    if lane.shared > 1:
        label = short = _others(lane)
    parts = [tag.tspan(label)] if label == short else [tag.tspan(label), tag.tspan(short)]
    return tag.text(*parts, class_=kind, x="100%", y=lane.y)


def _ticks(axis: Axis, height: float, *, hidden: bool) -> Markup:
    lines = [tag.line(x1=percent(tick.at), x2=percent(tick.at), y1=4, y2=height + 4) for tick in axis.ticks]
    labels = [
        tag.text(tick.label, x=percent(tick.at), y=height + 20, class_="start" if tick.at < 0.1 else None)
        for tick in axis.ticks
    ]
    return tag.g(*lines, *labels, class_="ticks", data_axis=axis.key, hidden=hidden, aria_hidden="true")


def _arc(event: Event, rows: dict[str, Lane]) -> tuple[str, float, float]:
    """The path of an event from its source to an arrow at its destination, and its middle."""
    start, end = rows[event.src].y, rows[event.dst].y
    if start == end and event.src != event.dst:  # between nodes that share a lane
        return f"M0 {start - 4:g}v8", 0.0, start
    if start == end:
        return f"M0 {start:g}c-9-15 13-15 4-3m0-5v5h-5", 1.0, start - 10
    bulge = min(22.0, 5.0 + abs(end - start) * 0.11)
    middle = (start + end) / 2
    head = end - 4.5 if end > start else end + 4.5
    path = f"M0 {start:g}Q{bulge:g} {middle:g} 0 {end:g}M-1.5 {head:g}L0 {end:g}L4.5 {head:g}"
    return path, bulge / 2, middle


def _candidates(
    facts: Facts, places: Sequence[float], rows: dict[str, Lane], chosen: frozenset[int]
) -> Iterator[Markup]:
    order = sorted(range(len(facts.why.candidates)), key=facts.strength)  # what matters is drawn last, on top
    arm = 5.0 if len(facts.why.rows) <= FEW else 3.5  # many crosses would cover each other
    for number in order:
        event = facts.why.candidates[number]
        path, x, y = _arc(event, rows)
        effect = facts.effect(number)
        width = THINNEST + (THICKEST - THINNEST) * facts.strength(number) * (effect != SLIGHT)
        imagined = "" if event.edit == REMOVED else " imagined"
        yield tag.svg(
            tag.g(
                tag.path(d=path, class_="arc", stroke_width=width),
                tag.circle(cx=0, cy=rows[event.src].y, r=1.8 if effect in (SLIGHT, UNKNOWN) else 3.2),
                None if imagined else tag.circle(class_="halo", cx=x, cy=y, r=arm),
                None if imagined else tag.path(class_="cross", d=_cross(x, y, arm)),
                class_=f"event {effect}{imagined}" + (" changed" if number in chosen else ""),
                data_e=number,
                aria_label=f"{facts.phrase(event)}; {facts.said_alone(number)}",
            ),
            x=percent(places[number]),
            data_at=number,
        )


def _cross(x: float, y: float, arm: float) -> str:
    return f"M{x - arm:g} {y - arm:g}l{2 * arm:g} {2 * arm:g}m0-{2 * arm:g}l-{2 * arm:g} {2 * arm:g}"


def _tags(facts: Facts, places: Sequence[float], rows: dict[str, Lane]) -> Iterator[Markup]:
    """Labels at the events of a short answer: which they are, and how long before."""
    numbers = [facts.number[row] for row in facts.why.rows]
    if len(numbers) > MOST_TAGS:
        return
    last = -math.inf
    middles = {number: _arc(facts.why.candidates[number], rows) for number in numbers}
    for number in sorted(numbers, key=lambda number: middles[number][2]):
        event, (_, x, y) = facts.why.candidates[number], middles[number]
        last = _off_the_lanes(max(y, last + TAG_HEIGHT), rows)  # none overlaps the one above it
        link = f"{facts.short_labels[event.src]} → {facts.short_labels[event.dst]}"
        which = f"{'this' if event.edit == REMOVED else 'imagined'} {facts.thing}" if len(numbers) == 1 else link
        when = f"{facts.before(event)} before"
        room = max(places[number], 1 - places[number]) * USUAL_WIDTH
        words = f"{which}, {when}" if (len(which) + len(when)) * TAG_LETTER < room else when
        left = places[number] * USUAL_WIDTH > len(words) * TAG_LETTER or places[number] > 0.5
        text = tag.text(words, class_="tag end" if left else "tag", x=x - 12 if left else x + 14, y=last)
        yield tag.svg(text, x=percent(places[number]), data_at=number)


def _off_the_lanes(y: float, rows: dict[str, Lane]) -> float:
    """Where a label stands whose middle should be there, so that no lane strikes it through."""
    return next((lane.y + BESIDE_A_LANE for lane in rows.values() if abs(lane.y - y) < BESIDE_A_LANE), y)


def _beside(events: Sequence[Event], places: Sequence[float], first: int, rows: dict[str, Lane]) -> Iterator[Markup]:
    for number, event in enumerate(events, start=first):
        path = tag.path(d=_arc(event, rows)[0])
        yield tag.svg(path, x=percent(places[number]), data_at=number)


def _explained_link(facts: Facts, rows: dict[str, Lane]) -> Markup:
    """The explained link, at the right edge."""
    why = facts.why
    start, end = rows[why.src].y, rows[why.dst].y
    middle = (start + end) / 2 if start != end else start - 12
    direction = 5 if end >= start else -5
    path = f"M{LINK_GAP} {start:g}V{end:g}m-4 {-direction}l4 {direction}l4 {-direction}"
    lanes_of_ends = (tag.path(d=f"M0 {y:g}h36", class_="lane end") for y in {start, end})
    return tag.svg(
        *lanes_of_ends,
        tag.path(d=path),
        tag.circle(cx=LINK_GAP, cy=middle, r=9),
        tag.text("?", x=LINK_GAP, y=middle),
        x="100%",
        class_="explained",
        aria_hidden="true",
    )
