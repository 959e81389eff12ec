"""What a search is given, and what it gives back."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from cody.graph import IntArray
from cody.model import Change
from cody.oracle import Oracle
from cody.policies import shift

# Why a search ended. The last three are budgets.
EXHAUSTED = "exhausted"  # every set of candidates that could have won was tried
FOUND = "found"  # it was content with what it had
STUCK = "stuck"  # none of the next steps led closer
ITERATIONS = "iterations"
EVALUATIONS = "evaluations"
SECONDS = "seconds"


class Found(NamedTuple):
    """The best set of a search, in the order in which events were added to it."""

    removed: tuple[int, ...]
    iterations: int
    ended: str  # one of the words above
    factual: bool = False  # the events that speak for the decision, whether or not it changes without them


Search = Callable[[Oracle, IntArray], Found]


def best_asked(oracle: Oracle) -> tuple[int, ...]:
    """The best of all sets that were asked about: the smallest that changes the decision, else the furthest.

    What a search answers when its budget ran out before it could look at everything it had paid for.
    """
    original = oracle.asked.get(frozenset())
    if original is None:
        return ()

    def worth(removal: Change) -> tuple[bool, float, float]:
        moved, size = shift(original, oracle.asked[removal]), float(len(removal))
        changed = flips(original, oracle.asked[removal])
        return (changed, -size, moved) if changed else (changed, moved, -size)

    best: Change = max(oracle.asked, key=worth)
    return tuple(sorted(best))


def flips(original: float, logit: float) -> bool:
    """Whether the decision is another one. A logit of exactly 0 is no link.

    >>> flips(0.5, 0.0), flips(-0.5, 0.0), flips(0.0, 0.1)
    (True, False, True)
    """
    return (original > 0) != (logit > 0)
