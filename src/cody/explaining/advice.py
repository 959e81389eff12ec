"""What to try next where nothing was found, and what that would cost, from the evaluations so far."""

from __future__ import annotations

from math import ceil, comb
from typing import TYPE_CHECKING, NamedTuple

from cody.explaining.wording import thing
from cody.search import scout
from cody.search.result import SECONDS
from cody.search.widening import WIDTHS
from cody.utils.words import duration

if TYPE_CHECKING:
    from cody.explaining.explanation import Explanation

NONE_AMONG = "none among the candidates"  # a verdict: every set was evaluated
LONGEST = 600.0  # seconds; nobody is sent to wait for longer


class NextStep(NamedTuple):
    """An option of `cody explain` that might find more, and what it is for."""

    option: str
    purpose: str


def next_steps(why: Explanation) -> list[NextStep]:
    """What to try next; nothing if an answer was found, or nothing else could matter."""
    if not is_open(why) or not why.candidates:
        return []
    if why.verdict == NONE_AMONG:
        return _older(why, len(why.candidates)) if not why.has_all_events else []
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
        kind = {1: f"single {thing(why)}s", 2: "pairs", 3: "triples"}.get(size, f"sets of {size}")
        purpose = f"to try the other {left:,} {kind}, too (within {duration(left * each)})"
        steps.append(NextStep(f"--prove {size + 1}", purpose))
    return steps + _older(why, number if why.wider is None else why.wider.events)


def is_open(why: Explanation) -> bool:
    """Whether nothing was found, but might be by another search."""
    return why.recourse is None and why.verdict in ("none within the budget", "none found", NONE_AMONG)


def _older(why: Explanation, looked_at: int) -> list[NextStep]:
    """More candidates, if there are any: fewer than were asked for are all that there are."""
    if looked_at not in (why.parameters["candidates"]["size"], *WIDTHS):
        return []
    return [NextStep(f"--candidates {4 * looked_at}", "to consider older events, too")]
