"""How the margins of a decision are drawn and written: where they lie between two ends, and as which numbers."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import NamedTuple

from cody.models.decision import Above, Decision, InTop
from cody.models.margins import numbers
from cody.utils.words import ordinal, sanitize

SHARES = (0.0, 1.0, 0.5, 0.25, 0.75)
FEW_MARKS = 6  # of an axis of margins


class Mark(NamedTuple):
    """A labelled place of an axis."""

    place: float  # share of the axis
    label: str


@dataclass(frozen=True, slots=True)
class ScoreGauge:
    """Where margins lie between two ends, and how they are written: as probabilities from 0 to 1."""

    decision: Above
    word: str = "score"  # what is shown

    @property
    def line(self) -> float:
        """Where the decision changes, as a share of the width."""
        return self.decision.threshold

    @property
    def ends(self) -> tuple[str, str, str]:
        """The words at the left end, at the line and at the right end."""
        negative, positive = (outcome(self.decision, margin) for margin in (-1.0, 1.0))
        return f"0: {negative}", f"{self.decision.threshold:g}", f"1: {positive}"

    def place(self, margin: float) -> float:
        """Where a margin lies, as a share of the width."""
        return self.decision.score(margin)

    def written(self, *margins: float | None) -> list[str]:
        """Margins as numbers to be read beside each other."""
        return self.decision.written(*margins)

    def in_full(self, margin: float) -> str:
        """A margin as a number of a column."""
        return f"{self.decision.score(margin):.3f}"

    def marks(self) -> Iterator[Mark]:
        """Places to label on an axis, the most important first; the first is where the decision changes."""
        for share in dict.fromkeys((self.decision.threshold, *SHARES)):
            yield Mark(share, f"{share:g}")


@dataclass(frozen=True, slots=True)
class MarginGauge:
    """The same as margins, with 0 in the middle."""

    decision: Decision
    span: float  # the largest margin on either side
    line: float = 0.5

    @property
    def word(self) -> str:
        return self.decision.headings[0]

    @property
    def ends(self) -> tuple[str, str, str]:
        negative, positive = (outcome(self.decision, margin) for margin in (-1.0, 1.0))
        tie = f"0: level with the {ordinal(self.decision.k)} rival" if isinstance(self.decision, InTop) else "0"
        return negative, tie, positive

    def place(self, margin: float) -> float:
        return min(max(0.5 + 0.5 * margin / self.span, 0.0), 1.0)

    def written(self, *margins: float | None) -> list[str]:
        return list(map(with_minus, numbers(*margins)))

    def in_full(self, margin: float) -> str:
        return with_minus(f"{margin:.3f}")

    def marks(self) -> Iterator[Mark]:
        step = _round_step(2 * self.span / FEW_MARKS)
        yield Mark(self.line, "0")
        for place in range(math.ceil(-self.span / step), math.floor(self.span / step) + 1):
            if place:
                yield Mark(self.place(place * step), with_minus(f"{place * step:g}"))


def with_minus(number: str) -> str:
    """A number with a minus sign instead of a hyphen, which is too short to be seen beside large figures."""
    return number.replace("-", "−")


Gauge = ScoreGauge | MarginGauge


def _round_step(least: float) -> float:
    """The next number of 1, 2 or 5 times a power of ten.

    >>> _round_step(0.7), _round_step(3.0), _round_step(130.0)
    (1.0, 5.0, 200.0)
    """
    power = 10.0 ** math.floor(math.log10(least))
    return next(factor * power for factor in (1.0, 2.0, 5.0, 10.0) if factor * power >= least)


def gauge(decision: Decision, margins: Iterable[float]) -> Gauge:
    """The gauge of a decision, with room for these margins."""
    if isinstance(decision, Above):
        return ScoreGauge(decision)
    return MarginGauge(decision, max((abs(margin) for margin in margins if math.isfinite(margin)), default=0.0) or 1.0)


def outcome(decision: Decision, margin: float) -> str:
    """What is decided, in printable words."""
    return sanitize(decision.outcome(margin), 80)
