"""Three ways to lay out time: as it passed, by how long before (logarithmic), and one event after the other."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from datetime import datetime
from typing import NamedTuple

from cody.utils.words import ago, is_date, moment, zone

LEFT, RIGHT = 0.015, 0.985  # share of the width for past events
STEPS = (60, 300, 900, 3600, 3 * 3600, 6 * 3600, 12 * 3600, 86_400, 2 * 86_400, 7 * 86_400, 14 * 86_400, 28 * 86_400)
AGES = (1, 10, 60, 600, 3600, 6 * 3600, 86_400, 7 * 86_400, 30 * 86_400, 365 * 86_400, 3650 * 86_400)
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

    dated = is_date(now)
    marks: Sequence[float] = AGES if dated else [10.0**power for power in range(-9, 19)]
    label: Callable[[float], str] = _age if dated else "{:g}".format
    ticks = [Tick(place(mark), f"−{label(mark)}") for mark in marks if unit <= mark <= oldest]
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


def _age(seconds: float) -> str:
    """A round duration.

    >>> _age(600), _age(86_400), _age(30 * 86_400)
    ('10 min', '1 day', '30 days')
    """
    for unit, size in (("year", 365 * 86_400), ("day", 86_400), ("h", 3600), ("min", 60), ("s", 1)):
        if seconds >= size:
            number = round(seconds / size)
            return f"{number} {unit}{'s' if number > 1 and unit in ('year', 'day') else ''}"
    return f"{seconds:g} s"


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
