"""The records of an evaluation in a few numbers: a row for each explainer and kind of prediction."""

from __future__ import annotations

import math
from collections.abc import Iterable
from statistics import fmean
from typing import NamedTuple

from cody.evaluate.record import Record


class Summary(NamedTuple):
    """Means over the links of one explainer and kind."""

    explainer: str
    kind: str
    links: int
    fidelity_plus: float  # share whose decision changes without X
    fidelity_minus: float  # share whose decision stays when the past consists of X only
    sparsity: float  # |X| / |C|
    aufsc_plus: float  # mean of (1 - sparsity) where the decision changes, 0 where it does not
    evaluations: float
    seconds: float | None  # None where explainers shared answers


def summarise(records: Iterable[Record]) -> list[Summary]:
    """In the order in which explainers and kinds first come. The records need not fit into memory."""
    groups: dict[tuple[str, str], list[tuple[float, ...]]] = {}
    for record in records:
        numbers = (
            record.is_necessary,
            record.is_sufficient,
            record.sparsity,
            record.is_necessary * (1 - record.sparsity),
            record.evaluations,
            math.nan if record.seconds is None else record.seconds,
        )
        groups.setdefault((record.kind, record.explainer), []).append(numbers)
    return [_summary(explainer, kind, numbers) for (kind, explainer), numbers in groups.items()]


def _summary(explainer: str, kind: str, numbers: list[tuple[float, ...]]) -> Summary:
    plus, minus, sparsity, aufsc, evaluations, seconds = (fmean(column) for column in zip(*numbers, strict=True))
    timed = None if math.isnan(seconds) else seconds
    return Summary(explainer, kind, len(numbers), plus, minus, sparsity, aufsc, evaluations, timed)
