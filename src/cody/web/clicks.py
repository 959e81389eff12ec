"""What every first click leads to: each candidate switched, from everything that a page offers by name.

A page has no model. So these sets are scored when it is made, as far as there is time, and stored in it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import combinations
from typing import Any

from cody.explaining.explanation import Explanation
from cody.models.contract import Change

SECONDS = 3.0  # that scoring may take; shipped models need a tenth of a second
SMALL_ANSWER = 8  # all pairs within an answer up to this size are scored, too


def first_clicks(candidates: Sequence[int], offered: Sequence[Change]) -> Iterator[Change]:
    """The sets that one click leads to, from nothing, then from each set that is offered; then pairs within those.

    >>> [sorted(change) for change in first_clicks([1, 2, 3], [frozenset(), frozenset({1, 2})])]
    [[1], [2], [3], [2], [1], [1, 2, 3], [1, 2]]
    """
    for start in offered:
        yield from (start ^ {row} for row in candidates)
    for start in offered:
        if 1 < len(start) <= SMALL_ANSWER:
            yield from map(frozenset, combinations(sorted(start), 2))


def scored_clicks(why: Explanation, offered: Sequence[Change], known: Mapping[Change, float]) -> dict[Change, float]:
    """The margins of first clicks that are not known yet; none if the model is not here."""
    if why.rescore is None:
        return {}
    wanted = dict.fromkeys(first_clicks([event.row for event in why.candidates], offered))
    unknown = [change for change in wanted if change not in known]
    return why.rescore(unknown, SECONDS) if unknown else {}


def as_plain(clicks: Mapping[tuple[int, ...], float], offered: Sequence[Sequence[int]], size: int) -> dict[str, Any]:
    """Clicks for the script: a row of margins for each set that is offered, one for each candidate; then the pairs.

    Args:
        clicks: Margins of sets, by the numbers of their candidates, ascending.
        offered: The sets that are offered.
        size: Number of candidates.
    """
    left = dict(clicks)
    rows = []
    for start in offered:
        toggled = (tuple(sorted({*start} ^ {number})) for number in range(size))
        rows.append([left.pop(change, None) for change in toggled])
    return {"rows": rows, "pairs": [[list(change), margin] for change, margin in left.items()]}
