"""The decision that a logit stands for, whether it flips, and how far the logit moves."""

from __future__ import annotations

import math


def probability(logit: float) -> float:
    """The probability that a logit stands for.

    >>> probability(0.0)
    0.5
    """
    return 1 / (1 + math.exp(-min(max(logit, -700.0), 700.0)))


def decision(logit: float) -> str:
    """The decision in words. A logit of exactly 0 means no link."""
    return "link" if logit > 0 else "no link"


def flips(original: float, logit: float) -> bool:
    """Whether the decision flips.

    >>> flips(0.5, 0.0), flips(-0.5, 0.0), flips(0.0, 0.1)
    (True, False, True)
    """
    return (original > 0) != (logit > 0)


def shift(original: float, logit: float) -> float:
    """How far a logit has moved from the original one towards the other decision; negative if away from it.

    >>> shift(2.0, 0.5), shift(-2.0, 0.5), shift(-2.0, -3.0)
    (1.5, 2.5, -1.0)
    """
    return original - logit if original > 0 else logit - original


def scores(*logits: float | None) -> list[str]:
    """Probabilities as text, with two digits, or with as many, up to six, as are needed to tell them apart.

    >>> scores(2.448, -2.73), scores(2.448, 2.449), scores(50.0, 60.0), scores(1.0, None)
    (['0.92', '0.06'], ['0.9204', '0.9205'], ['1.00', '1.00'], ['0.73', '–'])
    """
    known = {logit for logit in logits if logit is not None}

    def written(digits: int) -> int:
        return len({f"{probability(logit):.{digits}f}" for logit in known})

    digits = next((digits for digits in range(2, 7) if written(digits) == len(known)), 2)
    return ["–" if logit is None else f"{probability(logit):.{digits}f}" for logit in logits]
