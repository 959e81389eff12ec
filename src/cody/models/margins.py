"""Margins: numbers above 0 where a decision is positive, and how they are written."""

from __future__ import annotations

import math

import numpy as np

from cody.graph import FloatArray


def probability(logit: float) -> float:
    """The probability that a logit stands for.

    >>> probability(0.0)
    0.5
    """
    return 1 / (1 + math.exp(-min(max(logit, -700.0), 700.0)))


def logit_of(share: float) -> float:
    """The logit that stands for a probability.

    >>> logit_of(0.5), round(probability(logit_of(0.8)), 6)
    (0.0, 0.8)
    """
    return math.log(share) - math.log1p(-share)


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
    """Probabilities as text; see `numbers`.

    >>> scores(2.448, -2.73), scores(2.448, 2.449), scores(50.0, 60.0), scores(1.0, None)
    (['0.92', '0.06'], ['0.9204', '0.9205'], ['1.00', '1.00'], ['0.73', '–'])
    """
    return numbers(*(None if logit is None else probability(logit) for logit in logits), line=0.5)


def numbers(*values: float | None, line: float = 0.0) -> list[str]:
    """Numbers as text, with two digits, or with up to six if that tells the first from the last, or one from the line.

    Args:
        values: The numbers; None is not known.
        line: Where the decision changes. A number that is not this one is not written like it.

    >>> numbers(0.92, 0.498, line=0.5), numbers(1.5, -0.001), numbers(0.92, 0.5, line=0.5), numbers(None)
    (['0.920', '0.498'], ['1.500', '-0.001'], ['0.92', '0.50'], ['–'])

    A probability near a small threshold has as many digits as it takes to write two of the threshold:

    >>> numbers(0.0021, 0.0087, line=0.00616)
    ['0.0021', '0.0087']
    >>> numbers(0.998, 0.881, line=0.9), numbers(0.998, 0.881, line=0.99)
    (['1.00', '0.88'], ['0.998', '0.881'])
    """
    known = [value for value in values if value is not None]
    pairs = [*((value, line) for value in known), *zip(known[:1], known[-1:], strict=True)]
    pairs = [(one, other) for one, other in pairs if one != other]

    def tells_apart(digits: int) -> bool:
        return all(_fixed(one, digits) != _fixed(other, digits) for one, other in pairs)

    rare = max(round(min(line, 1 - line), 9), 1e-9) if 0 < line < 1 else 1.0  # 1 - 0.9 is just below 0.1
    least = min(max(2, 1 - math.floor(math.log10(rare))), 6)
    digits = next((digits for digits in range(least, 7) if tells_apart(digits)), least)
    return ["–" if value is None else _fixed(value, digits) for value in values]


def _fixed(value: float, digits: int) -> str:
    """A number with some digits; never a negative zero."""
    return f"{round(value, digits) + 0.0:.{digits}f}"


def kth_best(scores: FloatArray, k: int) -> FloatArray:
    """The k-th largest score of each row; −∞ where a row has fewer. [B, m] → [B]"""
    if scores.shape[1] < k:
        return np.full(len(scores), -np.inf)
    return np.partition(scores, -k, axis=1)[:, -k]
