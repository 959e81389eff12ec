"""What a search is given, and what it gives back."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from cody.graph import IntArray
from cody.oracle import Oracle

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


Search = Callable[[Oracle, IntArray], Found]


def flips(original: float, logit: float) -> bool:
    """Whether the decision is another one. A logit of exactly 0 is no link.

    >>> flips(0.5, 0.0), flips(-0.5, 0.0), flips(0.0, 0.1)
    (True, False, True)
    """
    return (original > 0) != (logit > 0)
