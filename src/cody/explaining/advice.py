"""What to try next where nothing was found, and what that would cost, from the evaluations so far."""

from __future__ import annotations

from math import ceil, comb
from typing import TYPE_CHECKING, NamedTuple

from cody.search import scout
from cody.search.result import SECONDS
from cody.search.widening import WIDTHS
from cody.utils.words import duration

if TYPE_CHECKING:
    from cody.explaining.explanation import Explanation

LONGEST = 600.0  # seconds; nobody is sent to wait for longer


class NextStep(NamedTuple):
    """An option of `cody explain` that might find more, and what it is for."""

    option: str
    purpose: str


def next_steps(why: Explanation) -> list[NextStep]:
    """What to try next; nothing if an answer was found, or there is none."""
    if why.verdict not in ("none within the budget", "none found") or not why.candidates or why.recourse is not None:
        return []
    if why.ended == SECONDS:  # until there is more time, nothing else would help
        return [NextStep(f"--seconds {ceil(10 * why.seconds)}", "to look further")]
    each, usual = why.seconds / max(1, why.evaluations), scout.__name__
    larger = 10 * why.evaluations
    steps = [NextStep(f"--evaluations {larger}", f"to look further (within {duration(larger * each)})")]
    if why.parameters["search"]["name"] != usual:
        steps = [NextStep(f"--explainer {usual}", "to search further with the same budget")]
    size, number = why.proven, len(why.candidates)
    left = comb(number, size) - sum(len(rows) == size for rows, _ in why.evaluated)
    if 0 < left * each < LONGEST:
        kind = {1: "single events", 2: "pairs", 3: "triples"}.get(size, f"sets of {size}")
        purpose = f"to try the other {left:,} {kind}, too (within {duration(left * each)})"
        steps.append(NextStep(f"--prove {size + 1}", purpose))
    looked_at = number if why.wider is None else why.wider.events
    if looked_at in (why.parameters["candidates"]["size"], *WIDTHS):  # if it is less, there are no others
        steps.append(NextStep(f"--candidates {4 * looked_at}", "to consider older events, too"))
    return steps
