"""The small graph: the two ends of the link and their neighbours, each line as wide as its events are many."""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from cody.utils.words import count
from cody.web.facts import REMOVED, Facts
from cody.web.markup import Markup, tag

WIDTH, HEIGHT, MIDDLE = 360.0, 236.0, 118.0
ENDS_AT = 112.0  # pixels of an end from the side
RADIUS = 74.0  # of the half circle of neighbours around an end
SIDE, COMMON = 6, 3  # neighbours that are drawn: of one end only, and of both
HALF = 82.0  # degrees that neighbours lie apart from the horizontal at most
BESIDE = 13  # letters of the two ends that fit between them
OUTWARDS = 0.64  # of a line from an end to a neighbour: where it is struck through
NOT_BETWEEN_TWO = ("node", "day", "hour")  # units of events between many nodes


class Spot(NamedTuple):
    """Where a node is drawn, and on which side of it its name stands."""

    x: float
    y: float
    anchor: str  # start, middle or end


Pair = tuple[str, str]  # two names in alphabetical order: a line has no direction


def network(facts: Facts, chosen: frozenset[int]) -> Markup:
    """The picture with these candidates changed, and what it leaves out said below it."""
    lines = _lines(facts)
    spots = _spots(facts, lines)
    drawn = {pair: numbers for pair, numbers in lines.items() if pair[0] in spots and pair[1] in spots}
    marks = sorted(drawn.items(), key=lambda entry: -len(entry[1]))  # thin lines on top
    edges = [(pair, numbers) for pair, numbers in marks if pair[0] != pair[1]]
    picture = tag.svg(
        *(_line(facts, chosen, spots[one], spots[other], numbers) for (one, other), numbers in edges),
        _question(spots, facts),
        *(_node(facts, name, spot) for name, spot in spots.items()),
        class_="network",
        viewBox=f"0 0 {WIDTH:g} {HEIGHT:g}",
        aria_hidden="true",  # timeline and table have the same for keyboards and screen readers
    )
    why, left_out = facts.why, sum(map(len, lines.values())) - sum(map(len, drawn.values()))
    nodes = len(facts.hops.keys() - spots.keys())
    others = f"{count(nodes, 'other node')}, {count(left_out, facts.thing)}" if left_out else ""
    apart = (why.parameters.get("by") or {}).get("name") in NOT_BETWEEN_TWO
    each = f"{facts.thing}s, each at one of its {facts.event}s" if apart else f"{facts.thing}s between two nodes"
    words = f"Lines: {each}, wider where there are more."
    return tag.figure(picture, tag.figcaption(f"{words} Not drawn: {others}." if others else words))


def _lines(facts: Facts) -> dict[Pair, list[int]]:
    """The candidates between each two nodes."""
    lines: dict[Pair, list[int]] = defaultdict(list)
    for number, event in enumerate(facts.why.candidates):
        first, second = sorted((event.src, event.dst))
        lines[first, second].append(number)
    return dict(lines)


def _spots(facts: Facts, lines: dict[Pair, list[int]]) -> dict[str, Spot]:
    """Places of the ends and of the neighbours that matter most: those of the answers first, then by events."""
    why, offered = facts.why, {number for state in facts.states for number in state.change}
    weight: Counter[str] = Counter()
    near: dict[str, set[str]] = defaultdict(set)
    for pair, numbers in lines.items():
        for node, other in (pair, pair[::-1]):
            weight[node] += len(numbers) + 1000 * len(offered.intersection(numbers))
            if other in (why.src, why.dst):
                near[node].add(other)
    ranked = [node for node, _ in weight.most_common() if node not in (why.src, why.dst)]
    spots = {why.src: Spot(ENDS_AT, MIDDLE, "middle"), why.dst: Spot(WIDTH - ENDS_AT, MIDDLE, "middle")}
    if why.src == why.dst:
        spots = {why.src: Spot(WIDTH / 2, MIDDLE, "middle")}
    both = [node for node in ranked if len(near[node]) == 2][:COMMON]
    for place, node in enumerate(both):
        spots[node] = Spot(WIDTH / 2, (24.0, HEIGHT - 24.0, HEIGHT - 62.0)[place], "middle")
    for end, sign in ((why.src, -1), (why.dst, 1)):
        spots |= _around(spots[end], sign, [node for node in ranked if near[node] == {end}][:SIDE])
    return spots


def _around(end: Spot, sign: int, nodes: Sequence[str]) -> Iterator[tuple[str, Spot]]:
    """Nodes on a half circle on one side of an end."""
    for place, node in enumerate(nodes):
        share = 0.5 if len(nodes) == 1 else place / (len(nodes) - 1)
        angle = math.radians(HALF * (2 * share - 1))
        x, y = end.x + sign * RADIUS * math.cos(angle), end.y + 1.2 * RADIUS * math.sin(angle)
        yield node, Spot(round(x, 1), round(y, 1), "end" if sign < 0 else "start")


def _line(facts: Facts, chosen: frozenset[int], first: Spot, second: Spot, numbers: Sequence[int]) -> Markup:
    """All events between two nodes, as the script shows them: struck through where none is left."""
    path = f"M{first.x:g} {first.y:g}L{second.x:g} {second.y:g}"
    x, y = _strike(first, second)
    kinds = Counter(facts.effect(number) for number in numbers if facts.strength(number) > 0.2)
    kind = kinds.most_common(1)[0][0] if kinds else "slight"
    imagined = {number for number in numbers if facts.why.candidates[number].edit != REMOVED}
    left = [number for number in numbers if (number in chosen) == (number in imagined)]
    states = {"gone": not left and len(imagined) < len(numbers), "imagined": left and imagined.issuperset(left)}
    event = facts.why.candidates[numbers[0]]
    between = f"{facts.labels[event.src]} and {facts.labels[event.dst]}: {count(len(numbers), facts.thing)}"
    return tag.g(
        tag.path(d=path, class_="hit"),
        tag.path(d=path, class_="whole", stroke_width=_width(len(numbers))),
        tag.path(d=path, class_="left", stroke_width=_width(len(left)) if left else 0),
        tag.path(d=f"M{x - 5:g} {y - 5:g}l10 10m0-10l-10 10", class_="cross"),
        tag.text("", x=x, y=y + 4),
        class_=" ".join(["edge", kind, *(name for name, holds in states.items() if holds)]),
        data_es=",".join(map(str, numbers)),
        data_label=between,
    )


def _strike(first: Spot, second: Spot) -> tuple[float, float]:
    """Where a line is struck through: nearer to the neighbour than to the end, where lines are further apart."""
    share = OUTWARDS if second.anchor != "middle" else 1 - OUTWARDS if first.anchor != "middle" else 0.5
    return round(first.x + share * (second.x - first.x), 1), round(first.y + share * (second.y - first.y), 1)


def _width(events: int) -> float:
    """The width of a line; the script computes the same."""
    return min(1.0 + 1.4 * math.log2(1 + events), 11.0)


def _question(spots: dict[str, Spot], facts: Facts) -> Markup | None:
    """The link that is explained."""
    start, end = spots[facts.why.src], spots[facts.why.dst]
    if start == end:
        return None
    bow = f"M{start.x:g} {start.y - 9:g}Q{WIDTH / 2:g} {start.y - 62:g} {end.x:g} {end.y - 9:g}"
    head = f"M{end.x - 9:g} {end.y - 12:g}L{end.x - 1:g} {end.y - 9:g}L{end.x - 3:g} {end.y - 18:g}"
    at = start.y - 36
    return tag.g(
        tag.path(d=bow),
        tag.path(d=head),
        tag.circle(cx=WIDTH / 2, cy=at, r=9),
        tag.text("?", x=WIDTH / 2, y=at),
        class_="explained",
        aria_hidden="true",
    )


def _node(facts: Facts, name: str, spot: Spot) -> Markup:
    is_end = name in (facts.why.src, facts.why.dst)
    anchor = spot.anchor
    x = spot.x + {"start": 8, "end": -8, "middle": 0}[anchor]
    y = spot.y + (20 if anchor == "middle" and spot.y >= MIDDLE else -10 if anchor == "middle" else 4)
    if is_end and facts.why.src != facts.why.dst:  # the name lies between the ends, where fewer lines are
        inwards = 1 if name == facts.why.src else -1
        both = len(facts.short_labels[facts.why.src]) + len(facts.short_labels[facts.why.dst])
        lower = 15 * (both > BESIDE and inwards < 0)  # names that do not fit beside each other
        x, y, anchor = spot.x - 6 * inwards, spot.y + 23 + lower, "start" if inwards > 0 else "end"
    return tag.g(
        tag.circle(cx=spot.x, cy=spot.y, r=7 if is_end else 4),
        tag.text(facts.short_labels[name], x=x, y=y, class_=anchor),
        class_="node end" if is_end else "node",
    )
