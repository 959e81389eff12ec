"""What each event adds to a decision as a waterfall: its steps, and how a terminal shows them.

Shares of the attention do not add up to the decision: their bars all begin at 0.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, NamedTuple

from cody.utils.tables import TextTable
from cody.utils.words import count, moment, sanitize

if TYPE_CHECKING:
    from cody.explaining.explanation import EventShares, Explanation

SHOWN = 10  # events of a waterfall; the others are one step
BAR = 24  # columns
TITLES = {"shapley": "Shapley values", "owen": "Owen values", "attention": "attention rollout"}


class WaterfallStep(NamedTuple):
    """A step of a waterfall, from one margin to the next."""

    row: int | None  # None: several events together
    events: int
    value: float
    error: float  # half of its interval
    begin: float
    end: float


def waterfall(shares: EventShares, shown: int = SHOWN) -> list[WaterfallStep]:
    """The steps from the margin without any candidate to that with all of them, the largest last.

    Where values do not add up, every step begins at 0, and the largest comes first.

    Args:
        shares: What each candidate adds.
        shown: Number of events with a step of their own.
    """
    order = sorted(range(len(shares.rows)), key=lambda place: -abs(shares.values[place]))
    others, own = order[shown:], order[:shown][::-1]
    parts: list[tuple[int | None, Sequence[int]]] = [(None, others)] if others else []
    parts += [(shares.rows[place], [place]) for place in own]
    steps, at = [], shares.base
    for row, places in parts:
        value = sum(shares.values[place] for place in places)
        error = math.sqrt(sum(shares.errors[place] ** 2 for place in places))
        steps.append(WaterfallStep(row, len(places), value, error, at, at + value))
        at += value if shares.adds_up else 0.0
    return steps if shares.adds_up else steps[::-1]


def bars(steps: Sequence[WaterfallStep], width: int = BAR) -> Iterator[str]:
    """A bar for each step, where it lies between the least and the largest margin.

    Args:
        steps: Of a waterfall.
        width: Columns of the whole range.
    """
    ends = [end for step in steps for end in (step.begin, step.end)] + [0.0]
    least, span = min(ends), (max(ends) - min(ends)) or 1.0
    for step in steps:
        first, last = sorted(round((end - least) / span * width) for end in (step.begin, step.end))
        yield " " * first + ("█" if step.value > 0 else "░") * max(1, last - first)


def waterfall_title(why: Explanation) -> str:
    """What the waterfall shows."""
    assert why.shares is not None
    if not why.shares.adds_up:
        return f"Share of each {why.event_name} in what the model attends to ({TITLES[why.shares.name]}):"
    sampled = ", with intervals of 95 % from random orders" if any(why.shares.errors) else ""
    margin = why.decision.headings[0] or "margin"
    return f"What each {why.event_name} adds to the {margin} ({TITLES[why.shares.name]}{sampled}):"


def labels(why: Explanation, steps: Sequence[WaterfallStep]) -> Iterator[tuple[str, str, str]]:
    """Row, link and time of each step."""
    for step in steps:
        if step.row is None:
            yield "", count(step.events, f"other {why.event_name}"), ""
        else:
            event = why.candidate(step.row)
            yield str(event.row), f"{sanitize(event.src)} → {sanitize(event.dst)}", moment(event.time)


def amount(step: WaterfallStep, shares: EventShares) -> str:
    """What a step adds, with its interval."""
    if not shares.adds_up:
        return f"{step.value:.3f}"
    return f"{step.value:+.3f}" + (f" ± {step.error:.3f}" if step.error else "")


def waterfall_lines(why: Explanation) -> list[str]:
    """The waterfall as text; nothing where values were not computed."""
    if why.shares is None:
        return []
    steps = waterfall(why.shares)
    drawn = zip(labels(why, steps), steps, bars(steps), strict=True)
    table = TextTable("#", "", "", "#", "")  # row, link, time, amount, bar
    if why.shares.adds_up:
        table.add_row("", f"without all {len(why.shares.rows)}", "", f"{why.shares.base:.3f}", "")
    for label, step, bar in drawn:
        table.add_row(*label, amount(step, why.shares), bar)
    if why.shares.adds_up:
        table.add_row("", "with all of them", "", f"{why.original:.3f}", "")
    return ["", waterfall_title(why), *table.lines(), ""]
