"""What users call to say which decision is meant.

- `above(0.8)`: is the probability above a threshold? The default is 0.5: is the link predicted?
- `rather_than("942")`: is this destination ranked above that one?
- `in_top(10)`: is it among the ten best?
- `labelled("fraud")`: is this the predicted class?
- `between(2, 5)`: is the number within a range?
- `decided_by(function)`: anything else that a function of the scores decides.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields, is_dataclass
from typing import Any, ClassVar

from cody.errors import CallError, did_you_mean
from cody.graph import FloatArray, Query, whole_number
from cody.models.decision import Above, Between, DecidedBy, Decision, InTop, Labelled, RatherThan
from cody.models.margins import probability
from cody.utils.signatures import readable_help

# Fields of decisions that are not plain data, or not given by the user.
FOUND_OUT = {"function", "name", "of", "overtaking", "own", "rivals_of"}


def described(decision: Decision | ByLabel) -> dict[str, Any]:
    """A decision as plain data: its kind, and what the user gave.

    >>> described(InTop(5)), described(RatherThan("942"))
    ({'kind': 'top', 'k': 5, 'among': None}, {'kind': 'rather', 'other': '942'})
    """
    assert is_dataclass(decision)
    given = {field.name: getattr(decision, field.name) for field in fields(decision) if field.name not in FOUND_OUT}
    plain = {name: list(value) if isinstance(value, tuple) else value for name, value in given.items()}
    if isinstance(decision, InTop) and decision.own is not None:
        plain["among"] = decision.rivals_of or repr(decision.own)
    return {"kind": decision.kind} | plain


@readable_help
def above(threshold: float = 0.5, *, logit: float | None = None) -> Above:
    """Whether the predicted probability is above a threshold.

    Args:
        threshold: A probability between 0 and 1.
        logit: The threshold as a logit, instead.

    >>> above(0.8)
    Above(threshold=0.8, positive='link', negative='no link')
    """
    share = _number(threshold) if logit is None else probability(_number(logit))
    if not 0 < share < 1:
        raise CallError(f"a threshold is a probability between 0 and 1, not {threshold if logit is None else logit}")
    return Above(share)


@readable_help
def rather_than(other: Any) -> RatherThan:
    """Whether the destination of the link is ranked above another node.

    Args:
        other: That node, as the user names it.
    """
    return RatherThan(str(other))


@readable_help
def in_top(k: int, among: Sequence[Any] | Callable[[Query], Sequence[Any]] | None = None) -> InTop:
    """Whether the destination of the link is among the k best for its source.

    Args:
        k: How many places count.
        among: The rivals, as the user names them; or a function that names those of a link, such as
            `cody.data.tgb.negatives("tgbl-wiki")`. By default every node that has been a destination by then.
    """
    if whole_number("k", k) < 1:
        raise CallError(f"k must be at least 1, not {k}")
    if isinstance(among, str):
        raise CallError(f"among is a list of nodes, not the text {among!r:.60}: write [{among!r:.60}]")
    if callable(among):
        return InTop(int(k), own=among, rivals_of=getattr(among, "__name__", None) or repr(among))
    if among is not None and not len(among):
        raise CallError("among names no rival: name some nodes, or leave it out to rank all destinations")
    return InTop(int(k), None if among is None else tuple(map(str, among)))


@dataclass(frozen=True, slots=True)
class ByLabel:
    """What `labelled` asks for, before the classes of the model are known."""

    label: str
    threshold: float | None = None

    kind: ClassVar[str] = "label"

    def of(self, classes: Sequence[str]) -> Above | Labelled:
        """The decision of a model with these classes."""
        if self.label not in classes:
            known = ", ".join(map(repr, classes))
            guess = did_you_mean(self.label, classes, listed=())
            raise CallError(f"{self.label!r} is not one of the model's classes, {known}{guess}")
        if len(classes) == 2:
            return Above(0.5 if self.threshold is None else self.threshold, classes[1], classes[0])
        if self.threshold is not None:
            raise CallError("a threshold is for two classes; of several, the one with the highest score is predicted")
        return Labelled(self.label, tuple(classes))


@readable_help
def labelled(label: str, *, threshold: float | None = None) -> ByLabel:
    """Whether an event or a node is given a label.

    Args:
        label: One of the model's classes.
        threshold: With two classes, the probability above which the second one is predicted. By default the model's
            own threshold, else 0.5.
    """
    return ByLabel(str(label), None if threshold is None else above(threshold).threshold)


@readable_help
def between(low: float, high: float) -> Between:
    """Whether the number that a model predicts lies within a range.

    Args:
        low: The lower end.
        high: The upper end.
    """
    lower, higher = _number(low), _number(high)
    if not lower < higher:
        raise CallError(f"a range goes from a lower to a higher number, not from {low} to {high}")
    return Between(lower, higher)


def _number(given: Any) -> float:
    """What a user gives for a number; NaN if it is none."""
    try:
        return float(given)
    except (TypeError, ValueError):
        return math.nan


def parse_range(text: str) -> tuple[float, float]:
    """The ends of a range, as users write it.

    >>> parse_range("2..5"), parse_range("-1..inf")
    ((2.0, 5.0), (-1.0, inf))
    """
    try:
        low, high = map(float, text.split(".."))
    except ValueError:
        raise CallError(f"{text[:40]!r} is not understood; write two numbers: 2..5") from None
    return low, high


@readable_help
def decided_by(function: Callable[[FloatArray], Any], *, positive: str = "yes", negative: str = "no") -> DecidedBy:
    """A decision of your own: a function from scores to margins.

    Args:
        function: Gets an array of scores, one row per changed history, and returns one number for each: above 0, the
            decision is positive.
        positive: What a positive margin means, in a word.
        negative: What a margin of 0 or below means.
    """
    if not callable(function):
        raise CallError(f"decided_by takes a function from scores to margins, not {function!r:.60}")
    return DecidedBy(function, positive, negative)


def entered(decision: Decision) -> tuple[str, str]:
    """A decision as people enter it: an option, and its value; both empty for a function of their own."""
    if isinstance(decision, Above):
        return "threshold", f"{decision.threshold:g}"
    if isinstance(decision, InTop):
        return "top", str(decision.k)
    if isinstance(decision, RatherThan):
        return "rather_than", decision.other
    if isinstance(decision, Labelled):
        return "label", decision.label
    return ("between", f"{decision.low:g}..{decision.high:g}") if isinstance(decision, Between) else ("", "")
