"""Scout: far ahead with large sets until the decision changes, then back to a smallest set that still changes it.

Effects of events are neither additive nor monotone: a removed event may let an older one into a model's window. So a
walk that begins at nothing and always takes the best next step stops at the first hill, and that all candidates
together do not change the decision says little about some of them. This search asks about large sets first, lets events
go *and come back*, and looks for smaller sets afterwards, from above and from below.

The phases only ask. What the search answers is the best of all sets that it has asked about, so it can be stopped at
any moment. Whatever can be asked at the same time goes to the model in one batch.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import suppress
from itertools import combinations

import numpy as np

from cody.decision import flips, shift
from cody.errors import BudgetError
from cody.graph import BoolArray, FloatArray, IntArray
from cody.model import Change
from cody.oracle import Oracle
from cody.search.result import EVALUATIONS, EXHAUSTED, Found, best_asked, lower_bound, result

LIMIT = 300  # evaluations where the oracle has no budget, for up to 64 candidates
BEYOND_SINGLES = 236  # … and beyond one for each candidate where there are more
SIZES = (1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128, 192, 256, 384, 512)  # from fine to coarse
BLOCK = 8  # events that a climb tries at a time
PASSES = 2  # of a climb over the candidates
HILLS = 5  # from which climbs begin again
ROUND = 16  # sets that are asked about at a time in search of a smaller one
FEW = 4  # where nothing is found, sets of fewer events than this are looked through from below


def scout(oracle: Oracle, ranking: IntArray) -> Found:
    """The smallest set that changes the decision, of equal ones the furthest; if none does, the furthest set.

    Uses the oracle's budget of evaluations; if it has none, 300, or 236 more than there are candidates.
    """
    view = View(oracle, ranking.tolist())
    try:
        _look(view)
        ended = EXHAUSTED
    except BudgetError as spent:
        ended = str(spent)
        with suppress(BudgetError):
            view.ask_singles()
    best = set(best_asked(oracle))
    return result(oracle, ranking, tuple(row for row in view.ranking if row in best), view.rounds, ended)


def _look(view: View) -> None:
    """The phases, until every set that could be better was asked about, or the budget ends it."""
    view.ask([frozenset()])
    if 2 ** len(view.ranking) <= view.limit:
        view.ask(
            [frozenset(some) for size in range(len(view.ranking) + 1) for some in combinations(view.ranking, size)]
        )
        return
    first = [*_prefixes(view.ranking), *view.groups]
    view.ask(first)
    for start in (max(first, key=view.margin), frozenset(), frozenset(view.ranking)):
        if view.best is None:
            _climb(view, start)
    _shrink(view, view.best)
    view.ask_singles()
    rng = np.random.default_rng(0)  # the same search gives the same answer
    while not view.is_finished:
        _look_below(view)
        if view.best is None:
            _climb_elsewhere(view, rng)
        else:
            _exchange(view)
            _shrink_in_another_way(view, rng)


class View:
    """What the phases share: the candidates in order, the margins of all sets asked about, the best of them.

    The margin of a set says how far beyond the other decision it leads; below 0, it does not get there.
    n = candidates, k = sets asked about.
    """

    def __init__(self, oracle: Oracle, ranking: list[int]) -> None:
        self.oracle = oracle
        self.ranking = ranking
        self.place = {row: place for place, row in enumerate(ranking)}
        self.groups = [group for group in (group.intersection(ranking) for group in oracle.groups) if len(group) > 1]
        self.limit = oracle.evaluations or len(oracle.asked) + max(LIMIT, len(ranking) + BEYOND_SINGLES)
        self.kept = len(ranking) if self.limit >= 2 * len(ranking) else 0  # room for the single events still to come
        self.rounds = 0
        self.best: Change | None = None  # the smallest that changes the decision, of equal ones the furthest
        self.hills: list[Change] = []  # where climbs have ended without success
        self.numbers: dict[Change, int] = {}  # set → its place in the columns, in the order of asking
        self._member = np.zeros((64, len(ranking)), dtype=bool)  # [≥ k, n]
        self._margins: list[float] = []  # [k]

    def ask(self, sets: Sequence[Change]) -> list[float]:
        """The margins of sets. If the budget has no room for all of them, the first are asked before it ends."""
        new = [change for change in dict.fromkeys(sets) if change not in self.numbers]
        paid = sum(change in self.oracle.asked for change in new)
        room = max(0, self.limit - self.kept - len(self.oracle.asked)) + paid
        if new[:room]:
            self.rounds += 1
            logits = self.oracle.ask(new[:room])
            for change, logit in zip(new, logits, strict=False):
                self._learn(change, logit)
        if len(new) > room:
            raise BudgetError(EVALUATIONS)
        return [self.margin(change) for change in sets]

    def ask_singles(self) -> None:
        """Every event alone: whether one of them does it is known in any case."""
        self.kept = 0
        self.ask([frozenset({row}) for row in self.ranking])

    def _learn(self, change: Change, logit: float) -> None:
        number = len(self.numbers)
        if number == len(self._member):
            self._member = np.concatenate([self._member, np.zeros_like(self._member)])
        self._member[number, [self.place[row] for row in change]] = True
        self.numbers[change] = number
        if len(change) == 1:
            self.kept = max(0, self.kept - 1)
        original = self.oracle.asked[frozenset()]
        self._margins.append(shift(original, logit) - abs(original))
        if flips(original, logit) and (self.best is None or self._rank(change) < self._rank(self.best)):
            self.best = change

    def _rank(self, change: Change) -> tuple[int, float]:
        return len(change), -self.margin(change)

    def margin(self, change: Change) -> float:
        return self._margins[self.numbers[change]]

    def flips(self, change: Change) -> bool:
        return flips(self.oracle.asked[frozenset()], self.oracle.asked[change])

    def in_order(self, change: Change) -> list[int]:
        return sorted(change, key=self.place.__getitem__)

    @property
    def columns(self) -> tuple[BoolArray, FloatArray]:
        """Members and margins of the sets asked about. [k, n], [k]"""
        return self._member[: len(self.numbers)], np.array(self._margins)

    @property
    def gains(self) -> FloatArray:
        """How much further each event alone leads than nothing. [n]"""
        nothing = self.margin(frozenset())
        return np.array([self.margin(frozenset({row})) - nothing for row in self.ranking])

    @property
    def is_finished(self) -> bool:
        """Whether every set that could be better than the best one was asked about."""
        size = len(self.ranking) + 1 if self.best is None else len(self.best)
        return lower_bound(self.numbers, self.ranking) >= size


def _prefixes(rows: Sequence[int]) -> list[Change]:
    """The first few rows, more and more of them, up to all."""
    return [frozenset(rows[:size]) for size in SIZES if size < len(rows)] + [frozenset(rows)]


def _climb(view: View, current: Change) -> None:
    """Toggle events, a block at a time, as long as that leads closer, until the decision changes."""
    order = view.ranking
    for _ in range(PASSES):
        before, idle = current, set()
        for start in range(0, len(order), BLOCK):
            block = order[start : start + BLOCK]
            here, *margins = view.ask([current, *(current ^ {row} for row in block)])
            idle |= {row for row, margin in zip(block, margins, strict=True) if margin == here}
            helpful = [(margin, row) for row, margin in zip(block, margins, strict=True) if margin > here]
            if helpful:
                current = _step(view, current, [row for _, row in sorted(helpful, key=lambda pair: -pair[0])])
            if view.best is not None:
                return
        order = [row for row in order if row not in idle]  # what did nothing is not tried again
        if current == before:
            break
    view.hills.append(current)


def _step(view: View, current: Change, helpful: list[int]) -> Change:
    """Toggle the most helpful event, or the first third, two thirds or all of the helpful ones, whichever is best."""
    counts = sorted({1, *(-(-len(helpful) * thirds // 3) for thirds in (1, 2, 3))})
    steps = [current ^ frozenset(helpful[:count]) for count in counts]
    view.ask(steps)
    return max(steps, key=view.margin)


def _shrink(view: View, found: Change | None) -> None:
    """Put back what is not needed: first all that comes after some prefix, then as many single events as possible."""
    if found is None:
        return
    found = _smallest_prefix(view, found)
    while len(found) > 1:
        rows = view.in_order(found)
        view.ask([found - {row} for row in rows])
        free = [row for row in rows if view.flips(found - {row})]
        if not free:
            return
        free.sort(key=lambda row: -view.margin(found - {row}))  # those that cost least come first
        smaller = [found.difference(free[:count]) for count in SIZES if count <= len(free)]
        view.ask(smaller)
        found = min(filter(view.flips, smaller), key=len)


def _smallest_prefix(view: View, found: Change) -> Change:
    """The smallest prefix of a set, in the order of the candidates, that still changes the decision."""
    while True:
        prefixes = _prefixes(view.in_order(found))
        view.ask(prefixes)
        smaller = next(prefix for prefix in prefixes if view.flips(prefix))
        if smaller == found:
            return found
        found = smaller


def _look_below(view: View) -> None:
    """Smaller sets than the best one, from below: first those that would lead furthest if effects added up.

    A set that is too small is completed by the most helpful events; asked about are the completed sets of the most
    promising ones, and these with one event more.
    """
    target = FEW - 1 if view.best is None else len(view.best) - 1
    member, margins = view.columns
    small = np.flatnonzero(member.sum(axis=1) < target)
    member, margins, gains = member[small], margins[small], view.gains
    free = target - member.sum(axis=1, keepdims=True)  # [k, 1]
    helpful = np.argsort(-gains, kind="stable")
    count = np.cumsum(~member[:, helpful], axis=1)  # [k, n] of absent events, so many are at least as helpful
    absent = ~member[:, helpful]
    plan = absent & (count <= free)
    rest = np.where(absent & (count < free), np.maximum(gains[helpful], 0), 0).sum(axis=1)
    promise = margins + np.where(plan, np.maximum(gains[helpful], 0), 0).sum(axis=1)  # [k]
    grown = np.where(plan, promise[:, None], (margins + rest)[:, None] + gains[helpful])  # [k, n] with one event more
    grown[~absent] = -np.inf
    sets = list(view.numbers)
    completed = (
        sets[small[base]].union(view.ranking[place] for place in helpful[plan[base]])
        for base in np.argsort(-promise, kind="stable")[: ROUND // 2].tolist()
    )
    steps = (
        sets[small[choice // len(helpful)]] | {view.ranking[helpful[choice % len(helpful)]]}
        for choice in np.argsort(-grown, axis=None, kind="stable").tolist()
        if np.isfinite(grown.flat[choice])
    )
    view.ask([*_new(view, completed, ROUND // 2), *_new(view, steps, ROUND)][:ROUND])


def _new(view: View, sets: Iterator[Change], most: int) -> list[Change]:
    """The first sets that were not asked about yet."""
    new: dict[Change, None] = {}
    for change in sets:
        if len(new) == most:
            break
        if change not in view.numbers:
            new[change] = None
    return list(new)


def _exchange(view: View) -> None:
    """One event for another in sets that have one event less than the best one, where that should help most."""
    best = view.best
    if best is None or len(best) < 3:
        return
    gains = view.gains
    cost = {
        row: view.margin(best) - view.margin(best - {row}) if best - {row} in view.numbers else gains[view.place[row]]
        for row in best
    }
    near = sorted(
        (change for change in view.numbers if len(change) == len(best) - 1), key=lambda change: -view.margin(change)
    )
    hopes: dict[Change, float] = {}
    helpful = [view.ranking[place] for place in np.argsort(-gains, kind="stable").tolist()]
    for base in near[:4]:
        absent = [row for row in helpful if row not in base][:ROUND]
        for out in base:
            for row in absent:
                hope = view.margin(base) - cost.get(out, gains[view.place[out]]) + gains[view.place[row]]
                hopes[base - {out} | {row}] = hope
    view.ask(_new(view, iter(sorted(hopes, key=lambda change: -hopes[change])), ROUND))
    if view.best != best:
        _shrink(view, view.best)


def _shrink_in_another_way(view: View, rng: np.random.Generator) -> None:
    """The best set and some other events, from which then others are put back."""
    best = view.best
    if best is None or len(best) < 3:
        return
    others = [row for row in view.ranking if row not in best]
    larger = best | _some(others, max(2, len(best) // 2), rng)
    view.ask([larger])
    if view.flips(larger):
        _shrink(view, larger)


def _climb_elsewhere(view: View, rng: np.random.Generator) -> None:
    """From one of the best hills, with some events toggled, once more."""
    hills = sorted(view.hills, key=lambda hill: -view.margin(hill))[:HILLS]
    hill = hills[int(rng.integers(len(hills)))]
    _climb(view, hill ^ _some(view.ranking, int(rng.integers(3, 13)), rng))
    _shrink(view, view.best)


def _some(rows: Sequence[int], count: int, rng: np.random.Generator) -> Change:
    return frozenset(rng.choice(rows, min(count, len(rows)), replace=False).tolist())
