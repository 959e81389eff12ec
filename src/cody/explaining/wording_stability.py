"""In how many models a counterfactual holds, in words."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from cody.utils.words import count, enumerated

if TYPE_CHECKING:
    from cody.explaining.explanation import Elsewhere, Explanation


def stability(why: Explanation) -> str:
    """In how many models the answer and its alternatives hold, and whether noise changes that; empty if not tested."""
    if not why.elsewhere:
        return ""
    models = [each for each in why.elsewhere if each.model]
    noise = [each for each in why.elsewhere if not each.model]
    return " ".join(part for part in (_in_models(why, models), _alternatives(why, models), _under(why, noise)) if part)


def _in_models(why: Explanation, models: Sequence[Elsewhere]) -> str:
    """Where the answer holds: in this model, and in others that decide the same from the start."""
    if not models:
        return ""
    agreeing = [each for each in models if each.agrees_with(why.original)]
    holding = [each.name for each in agreeing if each.holds(0)]
    failing = [each.name for each in agreeing if not each.holds(0)]
    others = [each.name for each in models if each not in agreeing]
    parts = [f"Holds in {1 + len(holding)} of {count(1 + len(agreeing), 'model')}"]
    parts[0] += f", not in {enumerated(failing)}." if failing else "."
    if others:
        parts.append(f"{count(len(others), 'model')} decided differently from the start: {enumerated(others)}.")
    return " ".join(parts)


def _alternatives(why: Explanation, models: Sequence[Elsewhere]) -> str:
    """Which alternatives hold in more models than the answer."""
    agreeing = [each for each in models if each.agrees_with(why.original)]
    here = sum(each.holds(0) for each in agreeing)
    numbers = range(1, len(why.alternatives) + 1)
    better = [number for number in numbers if sum(each.holds(number) for each in agreeing) > here]
    return " ".join(
        f"Alternative {number} holds in {1 + sum(each.holds(number) for each in agreeing)}." for number in better
    )


def _under(why: Explanation, noise: Sequence[Elsewhere]) -> str:
    """Whether the answer holds under noise."""
    if not noise:
        return ""
    holding = [each.name for each in noise if each.agrees_with(why.original) and each.holds(0)]
    failing = [each.name for each in noise if each.name not in holding]
    parts = [f"It {'also ' if not failing else ''}holds {enumerated(holding)}."] if holding else []
    return " ".join([*parts, *([f"It does not hold {enumerated(failing)}."] if failing else [])])
