"""At most so many edits of one day: which sets of candidates that leaves."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime

from cody.errors import CallError
from cody.graph import TemporalGraph
from cody.models.contract import Change
from cody.utils.words import is_date, zone_named


@dataclass(frozen=True, slots=True)
class DailyLimit:
    """How many candidates of one calendar day may change together, and the day of each.

    A removed event counts on the day on which it happened, an added or moved one on the day on which it would happen.
    """

    most: int
    day: Mapping[int, int]  # row → number of its day

    def allows(self, change: Change) -> bool:
        """Whether a set has at most so many candidates of each day.

        >>> DailyLimit(1, {3: 0, 4: 0, 5: 1}).allows(frozenset({3, 5}))
        True
        """
        return max(Counter(self.day[row] for row in change).values(), default=0) <= self.most

    def fitting(self, rows: Iterable[int]) -> list[int]:
        """Of some candidates, as many as it allows together: the first ones.

        >>> DailyLimit(1, {3: 0, 4: 0, 5: 1}).fitting([4, 3, 5])
        [4, 5]
        """
        known: Counter[int] = Counter()
        chosen = []
        for row in rows:
            if known[self.day[row]] < self.most:
                chosen.append(row)
                known[self.day[row]] += 1
        return chosen

    def number_of_sets(self, rows: Collection[int], size: int) -> int:
        """How many sets of that many of these candidates it allows.

        >>> DailyLimit(1, {3: 0, 4: 0, 5: 1}).number_of_sets([3, 4, 5], 2)
        2
        """
        numbers = self._numbers(rows)
        return numbers[size] if size < len(numbers) else 0

    def number_of_all(self, rows: Collection[int]) -> int:
        """How many sets of some candidates it allows, whatever their size.

        >>> DailyLimit(1, {3: 0, 4: 0, 5: 1}).number_of_all([3, 4, 5])
        6
        """
        return sum(self._numbers(rows))

    def _numbers(self, rows: Collection[int]) -> list[int]:
        """How many sets of 0, 1, … of some candidates it allows."""
        numbers = [1]
        for own in Counter(self.day[row] for row in rows).values():
            of_day = [math.comb(own, some) for some in range(min(self.most, own) + 1)]
            longer = [0] * (len(numbers) + len(of_day) - 1)
            for before, ways in enumerate(numbers):
                for some, choices in enumerate(of_day):
                    longer[before + some] += ways * choices
            numbers = longer
        return numbers

    def all_sets(self, rows: Collection[int]) -> list[Change]:
        """All sets of some candidates that it allows, small ones first.

        >>> [sorted(each) for each in DailyLimit(1, {3: 0, 4: 0, 5: 1}).all_sets([3, 4, 5])]
        [[], [3], [4], [5], [3, 5], [4, 5]]
        """
        sets: list[Change] = [frozenset()]
        for row in rows:
            sets += [larger for each in sets if self.allows(larger := each | {row})]
        return sorted(sets, key=lambda change: (len(change), sorted(change)))


def daily_limit(most: int, zone: str, times: Iterable[tuple[int, float]]) -> DailyLimit:
    """A limit for some candidates.

    Args:
        most: How many may change on a day.
        zone: Name of the time zone that says when days begin.
        times: The candidates, each with its time.
    """
    begins = zone_named(zone)
    days: dict[int, int] = {}
    for row, time in times:
        if not is_date(time):
            raise CallError(f"a limit for each day needs dates, and the times of these events are numbers ({time:g})")
        days[row] = datetime.fromtimestamp(time, begins).toordinal()
    return DailyLimit(most, days)


def limit_in_space(most: int, zone: str, graph: TemporalGraph, rows: Iterable[int]) -> DailyLimit:
    """A limit for rows of a log, imagined ones included.

    Args:
        most: How many may change on a day.
        zone: Name of the time zone that says when days begin.
        graph: The log.
        rows: The candidates.
    """
    return daily_limit(most, zone, ((row, float(graph.time[row])) for row in rows))
