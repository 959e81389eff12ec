"""The timeline: a lane for each node, an arc between two lanes for each event, and three ways to lay out time."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator, Sequence
from datetime import datetime
from typing import NamedTuple

from cody.explaining.explanation import Event, Explanation
from cody.utils.words import ago, is_date, moment, zone
from cody.web.facts import REMOVED, SLIGHT, UNKNOWN, Facts, distances
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


# Where nodes lie: the two ends of the link in the middle, the others outwards by distance; those that do not matter
# share a lane on either side

TOP = 16.0  # pixels above the first lane
BETWEEN_ENDS = 52.0
AROUND_ENDS = 26.0
RING_GAP = 7.0  # between nodes of different distance
MANY = 36  # lanes; more of them lie closer together


class Lane(NamedTuple):
    """A node of the timeline."""

    name: str
    hops: int
    y: float
    shared: int = 1  # how many nodes lie on it


def lanes(why: Explanation, kept: Collection[str] | None = None) -> tuple[dict[str, Lane], float]:
    """The lane of each node, and the height of all of them.

    Args:
        why: What is shown.
        kept: Nodes with a lane of their own; the others share one on either side. By default, all.
    """
    hops = distances(why)
    shown = [*why.candidates, *(why.surroundings.events if why.surroundings else ())]
    latest = {end: event.time for event in sorted(shown, key=lambda event: event.time) for end in event[1:3]}
    above = _belonging_to_src(why, shown, hops)
    others = [name for name in hops if name not in (why.src, why.dst)]
    upper = sorted((name for name in others if above[name]), key=lambda name: (-hops[name], latest.get(name, -1)))
    lower = sorted((name for name in others if not above[name]), key=lambda name: (hops[name], -latest.get(name, -1)))
    ends = list(dict.fromkeys([why.src, why.dst]))
    first, upper = _folded(upper, kept)
    last, lower = _folded(lower, kept)
    placed, height = _spread([*first[:1], *upper, *ends, *lower, *last[:1]], set(ends), hops)
    for folded in filter(None, (first, last)):
        placed |= dict.fromkeys(folded, placed[folded[0]]._replace(shared=len(folded)))
    return placed, height


def _folded(names: list[str], kept: Collection[str] | None) -> tuple[list[str], list[str]]:
    """The nodes that share a lane, and the others; a single one keeps its own."""
    folded = [] if kept is None else [name for name in names if name not in kept]
    return (folded, [name for name in names if name in (kept or ())]) if len(folded) > 1 else ([], names)


def _belonging_to_src(why: Explanation, events: Sequence[Event], hops: dict[str, int]) -> dict[str, bool]:
    """Whether a node is drawn on the side of the link's source, depending on its latest event towards the link."""
    side = {why.dst: False, why.src: True}
    for name in sorted(hops, key=lambda name: hops[name]):
        if name in side:
            continue
        inwards = [
            (event.time, side[other])
            for event in events
            if name in (event.src, event.dst)
            and (other := event.dst if event.src == name else event.src) in side
            and hops[other] < hops[name]
        ]
        balance = sum(side.values()) * 2 <= len(side)
        side[name] = max(inwards)[1] if inwards else balance
    return side


def _spread(names: list[str], ends: set[str], hops: dict[str, int]) -> tuple[dict[str, Lane], float]:
    """Assign a position to each lane."""
    pitch = 17.0 if len(names) <= MANY else max(8.0, round(17.0 * MANY / len(names), 1))  # few digits: small files
    placed: dict[str, Lane] = {}
    y, last = TOP, ""
    for name in names:
        if last:
            y += _gap(last, name, ends, hops, pitch)
        placed[name] = Lane(name, hops[name], y)
        last = name
    return placed, y + TOP


def _gap(last: str, name: str, ends: set[str], hops: dict[str, int], pitch: float) -> float:
    if last in ends and name in ends:
        return BETWEEN_ENDS
    if last in ends or name in ends:
        return AROUND_ENDS
    return pitch + (RING_GAP if hops[last] != hops[name] else 0.0)


# Time as it passed, by how long before (logarithmic), and one event after the other

LEFT, RIGHT = 0.015, 0.985  # share of the width for past events
STEPS = (60, 300, 900, 3600, 3 * 3600, 6 * 3600, 12 * 3600, 86_400, 2 * 86_400, 7 * 86_400, 14 * 86_400, 28 * 86_400)
AGES = (1, 10, 60, 600, 3600, 6 * 3600, 86_400, 7 * 86_400, 30 * 86_400, 365 * 86_400, 3650 * 86_400)
AGES_IN_WORDS = ("1 s", "10 s", "1 min", "10 min", "1 h", "6 h", "1 day", "7 days", "30 days", "1 year", "10 years")
MOST_TICKS = 6


class Tick(NamedTuple):
    """A mark on an axis."""

    at: float  # share of the width
    label: str


class Axis(NamedTuple):
    """One layout of time."""

    key: str
    title: str
    places: list[float]  # share of the width, for each event
    ticks: list[Tick]


def axes(times: Sequence[float], now: float) -> list[Axis]:
    """The layouts for events at these times, seen from `now`. The first is the one a page opens with."""
    past = [min(max(time, -1e300), min(now, 1e300)) for time in times]
    ages = [max(0.0, now - time) for time in past]
    return [_by_age(ages, now), _by_time(past, now), _by_order(past, now)]


def _by_time(times: Sequence[float], now: float) -> Axis:
    first = min(times, default=now)
    span = now - first

    def place(time: float) -> float:
        return _inside(1.0 - (now - time) / span if 0 < span < math.inf else 1.0)

    marks = _dates(first, now) if is_date(first) and is_date(now) else _numbers(first, now)
    ticks = [Tick(place(mark), label) for mark, label in marks if first <= mark <= now]
    return Axis("time", "calendar", [place(time) for time in times], _apart(ticks))


def _by_age(ages: Sequence[float], now: float) -> Axis:
    oldest = min(max(ages, default=0.0), 1e300)
    unit = max(min((age for age in ages if age > 0), default=1.0), oldest / 1e6) or 1.0

    def place(age: float) -> float:
        return _inside(1.0 - math.log1p(min(age, oldest) / unit) / math.log1p(oldest / unit) if oldest else 1.0)

    powers = [10.0**power for power in range(-9, 19)]
    marks = zip(AGES, AGES_IN_WORDS, strict=True) if is_date(now) else ((mark, f"{mark:g}") for mark in powers)
    ticks = [Tick(place(mark), f"−{label}") for mark, label in marks if unit <= mark <= oldest]
    return Axis("log", "how long before", [place(age) for age in ages], _apart(ticks))


def _by_order(times: Sequence[float], now: float) -> Axis:
    order = sorted(range(len(times)), key=lambda number: times[number])  # stable: equal times as they were
    places = [0.0] * len(times)
    for rank, number in enumerate(order):
        places[number] = _inside((rank + 0.5) / len(times))
    wanted = sorted({round(share * (len(order) - 1)) for share in (0, 0.25, 0.5, 0.75, 1)}) if order else []
    ticks = [Tick(places[order[rank]], _age_or_difference(times[order[rank]], now)) for rank in wanted]
    return Axis("order", "evenly spaced", places, _apart(ticks))


def _inside(share: float) -> float:
    return LEFT + (RIGHT - LEFT) * min(max(share, 0.0), 1.0)


def _apart(ticks: list[Tick]) -> list[Tick]:
    """Ticks that neither overlap nor repeat each other, from the latest back."""
    kept: list[Tick] = []
    for tick in sorted(ticks, reverse=True):
        if not kept or (kept[-1].at - tick.at >= 0.14 and kept[-1].label != tick.label):
            kept.append(tick)
    return kept[::-1]


def _age_or_difference(time: float, now: float) -> str:
    return f"−{ago(now - time).replace('.0 ', ' ') if is_date(now) else f'{now - time:.4g}'}"


def _dates(first: float, now: float) -> list[tuple[float, str]]:
    """Round dates between two moments."""
    span = max(now - first, 1.0)
    step = next((step for step in STEPS if span / step <= MOST_TICKS), 0)
    if not step:
        step = 28 * 86_400 * math.ceil(span / (28 * 86_400 * MOST_TICKS))
    offset = datetime.fromtimestamp(first, zone()).utcoffset()
    shift = 0.0 if offset is None else offset.total_seconds()
    begin = math.ceil((first + shift) / step) * step - shift  # round in the reader's time zone
    shape = "%H:%M" if step < 43_200 and span < 86_400 else "%d %b %H:%M" if step < 86_400 else "%d %b %Y"
    marks = [begin + number * step for number in range(MOST_TICKS + 1)]
    return [(mark, datetime.fromtimestamp(mark, zone()).strftime(shape)) for mark in marks if is_date(mark)]


def _numbers(first: float, now: float) -> list[tuple[float, str]]:
    """Round numbers between two times that are not dates."""
    span = now - first
    if not 0 < span < math.inf:
        return [(now, moment(now))]
    step = 10.0 ** math.floor(math.log10(span))
    step *= next(factor for factor in (0.2, 0.5, 1, 2, 5) if span / (step * factor) <= MOST_TICKS)
    begin = math.ceil(first / step) * step
    return [(begin + number * step, f"{begin + number * step:.6g}") for number in range(MOST_TICKS + 1)]
