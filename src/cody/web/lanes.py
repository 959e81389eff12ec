"""Where the nodes of a timeline lie: the two ends of the link in the middle, the others outwards by distance.

Nodes that do not matter share a lane on either side.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, replace

from cody.explaining.explanation import Event, Explanation

TOP = 16.0  # pixels above the first lane
BETWEEN_ENDS = 52.0
AROUND_ENDS = 26.0
RING_GAP = 7.0  # between nodes of different distance
MANY = 36  # lanes; more of them lie closer together


@dataclass(frozen=True, slots=True)
class Lane:
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
    latest = _latest(shown)
    above = _belonging_to_src(why, shown, hops)
    others = [name for name in hops if name not in (why.src, why.dst)]
    upper = sorted((name for name in others if above[name]), key=lambda name: (-hops[name], latest.get(name, -1)))
    lower = sorted((name for name in others if not above[name]), key=lambda name: (hops[name], -latest.get(name, -1)))
    ends = list(dict.fromkeys([why.src, why.dst]))
    first, upper = _folded(upper, kept)
    last, lower = _folded(lower, kept)
    placed, height = _spread([*first[:1], *upper, *ends, *lower, *last[:1]], set(ends), hops)
    for folded in filter(None, (first, last)):
        lane = replace(placed[folded[0]], shared=len(folded))
        placed |= dict.fromkeys(folded, lane)
    return placed, height


def _folded(names: list[str], kept: Collection[str] | None) -> tuple[list[str], list[str]]:
    """The nodes that share a lane, and the others; a single one keeps its own."""
    folded = [] if kept is None else [name for name in names if name not in kept]
    return (folded, [name for name in names if name in (kept or ())]) if len(folded) > 1 else ([], names)


def distances(why: Explanation) -> dict[str, int]:
    """The distance of each node from the link: from the document, or else along the candidates."""
    found = {why.src: 0, why.dst: 0}
    if why.surroundings is not None:
        found |= {node.name: node.hops for node in why.surroundings.nodes if node.name not in found}
    else:
        _follow(why.candidates, found)
    furthest = max(found.values()) or 1
    for event in [*why.candidates, *(why.surroundings.events if why.surroundings else ())]:
        for end in (event.src, event.dst):
            found.setdefault(end, furthest)
    return found


def _follow(events: Sequence[Event], found: dict[str, int]) -> None:
    """Extend distances along events until nothing more can be reached."""
    ring = 0
    while ring in found.values():
        for event in events:
            for here, there in ((event.src, event.dst), (event.dst, event.src)):
                if found.get(here) == ring:
                    found.setdefault(there, ring + 1)
        ring += 1


def _latest(events: Iterable[Event]) -> dict[str, float]:
    """When each node was seen last."""
    latest: dict[str, float] = {}
    for event in events:
        for end in (event.src, event.dst):
            latest[end] = max(event.time, latest.get(end, event.time))
    return latest


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
