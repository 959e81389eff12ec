"""Scout: large sets first, until one flips the prediction, then back to a smallest set that still does.

Effects of events are neither additive nor monotone: a removed event may let an older one into a model's window. So a
walk that starts with nothing and always takes the best next step stops at the first local optimum, and that all
candidates together do not flip the prediction says little about some of them. This search evaluates large sets first,
removes events *and restores them*, and looks for smaller sets afterwards, from above and from below.

The phases only evaluate sets. The result is the best of all evaluated sets, so the search can be stopped at any time.
Whatever can be evaluated at the same time goes to the model in one batch.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import chain, combinations, islice, product

import numpy as np

from cody.errors import BudgetError
from cody.graph import BoolArray, FloatArray, IntArray
from cody.models.contract import Change
from cody.models.margins import flips, shift
from cody.search.oracle import Oracle
from cody.search.result import EVALUATIONS, EXHAUSTED, FOUND, SearchResult, best_evaluated, lower_bound, result

LIMIT, FEW_CANDIDATES = 300, 64  # evaluations where the oracle has no budget, for few candidates
EACH, AT_MOST = 8, 1024  # … for each candidate where there are more of them, and in total
# Without a budget, evaluations that may be spent in vain on a smaller set: at least, and for each of its events.
PATIENCE, PATIENCE_EACH = 32, 8
AT_LEAST = 100  # evaluations beyond one for each candidate: else single events are not all evaluated at first
SIZES = (1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128, 192, 256, 384, 512)  # from fine to coarse
BLOCK = 8  # events that a climb evaluates at a time where there are few evaluations; else all of them
PASSES = 3  # of a climb over the candidates
HILLS = 5  # local optima from which climbs begin again
ROUND = 32  # sets that are evaluated at a time in search of a smaller one
NEAR = 4  # sets in which events are exchanged
SORTED = 512  # of many sets, the number that is sorted at first
FEW = 4  # where nothing is found, sets of fewer events than this are looked through from below


def scout(oracle: Oracle, ranking: IntArray) -> SearchResult:
    """The smallest set that flips the prediction, of equal ones that with the largest shift; if none does, the nearest.

    Uses the whole budget of evaluations that the oracle has. If it has none, it takes at most 300, or 8 for each of
    more than 64 candidates up to 1,024, and ends when looking for a smaller set no longer pays.
    """
    view = View(oracle, ranking.tolist())
    try:
        ended = _look(view)
    except BudgetError as spent:
        ended = str(spent)
    best = view.strongest_first(frozenset(best_evaluated(oracle, ranking.tolist())))
    return result(oracle, ranking, best, view.rounds, ended)


def usual_evaluations(candidates: int) -> int:
    """How many evaluations a search takes at most where no budget is given.

    >>> usual_evaluations(64), usual_evaluations(128), usual_evaluations(256)
    (300, 1024, 1024)
    """
    return LIMIT if candidates <= FEW_CANDIDATES else min(EACH * candidates, AT_MOST)


def _look(view: View) -> str:
    """The phases, until every set that could be better was evaluated, or it no longer pays. Returns why it ended."""
    if view.number_of_sets <= view.limit:
        view.ask(view.all_sets())
        return EXHAUSTED
    most = view.fitting(view.ranking)
    first = [frozenset(), *_prefixes(most), *view.groups, *([] if view.is_short else view.singles)]
    view.ask(first)
    for start in (max(first, key=view.margin), frozenset(), frozenset(most)):
        if view.best is None:
            _climb(view, start)
    _shrink(view, view.best)
    view.ask(view.singles)
    rng = np.random.default_rng(0)  # the same search gives the same answer
    while not view.is_finished:
        if view.is_content:
            return FOUND
        _look_below(view)
        if view.best is None:
            _climb_elsewhere(view, rng)
        else:
            _exchange(view)
            _shrink_in_another_way(view, rng)
    return EXHAUSTED


class View:
    """What the phases share: the candidates in order, the margins of all evaluated sets, the best of them.

    The margin of a set is its distance beyond the decision boundary; below 0, it does not flip the prediction.
    n = candidates, k = evaluated sets.
    """

    def __init__(self, oracle: Oracle, ranking: list[int]) -> None:
        self.oracle = oracle
        self.ranking = ranking
        self.place = {row: place for place, row in enumerate(ranking)}
        self.groups = [group for group in (group.intersection(ranking) for group in oracle.groups) if len(group) > 1]
        self.limit = oracle.evaluations or oracle.spent + usual_evaluations(len(ranking))
        self.is_short = self.limit < len(ranking) + AT_LEAST  # of evaluations
        self.singles: list[Change] = [frozenset({row}) for row in ranking]
        self.rounds = 0
        self.best: Change | None = None  # the smallest that flips the prediction, of equal ones the largest margin
        self._improved = 0  # evaluated sets when the best one became smaller
        self.hills: list[Change] = []  # local optima: where climbs ended without success
        self.numbers: dict[Change, int] = {}  # set → its place in the columns, in the order of evaluation
        self._member = np.zeros((64, len(ranking)), dtype=bool)  # [≥ k, n]
        self._margins: list[float] = []  # [k]

    def ask(self, sets: Sequence[Change]) -> list[float]:
        """The margins of sets. If the budget has no room for all of them, the first are evaluated before it ends."""
        new = [change for change in dict.fromkeys(sets) if change not in self.numbers]
        costs = np.cumsum(list(map(self.oracle.costs, new)))
        room = int(np.searchsorted(costs, self.limit - self.oracle.spent, side="right"))
        if new[:room]:
            self.rounds += 1
            self._learn(new[:room], self.oracle.ask(new[:room]))
        if len(new) > room:
            raise BudgetError(EVALUATIONS)
        return [self.margin(change) for change in sets]

    def _learn(self, changes: list[Change], logits: list[float]) -> None:
        """Take the answers of sets that were not evaluated before."""
        known, original = len(self.numbers), self.oracle.evaluated[frozenset()]
        while known + len(changes) > len(self._member):
            self._member = np.concatenate([self._member, np.zeros_like(self._member)])
        numbers = np.repeat(np.arange(known, known + len(changes)), list(map(len, changes)))
        self._member[numbers, [self.place[row] for row in chain.from_iterable(changes)]] = True
        for change, logit in zip(changes, logits, strict=True):
            self.numbers[change] = len(self.numbers)
            self._margins.append(shift(original, logit) - abs(original))
            if flips(original, logit) and (self.best is None or self._rank(change) < self._rank(self.best)):
                if self.best is None or len(change) < len(self.best):
                    self._improved = len(self.numbers)
                self.best = change

    @property
    def is_content(self) -> bool:
        """Whether, without a budget to use up, the best set has not become smaller for long enough to stop."""
        if self.oracle.evaluations is not None or self.best is None:
            return False
        return len(self.numbers) - self._improved > max(PATIENCE, PATIENCE_EACH * len(self.best))

    def _rank(self, change: Change) -> tuple[int, float]:
        return len(change), -self.margin(change)

    def margin(self, change: Change) -> float:
        return self._margins[self.numbers[change]]

    def flips(self, change: Change) -> bool:
        return flips(self.oracle.evaluated[frozenset()], self.oracle.evaluated[change])

    def in_order(self, change: Change) -> list[int]:
        return sorted(change, key=self.place.__getitem__)

    def strongest_first(self, change: Change) -> tuple[int, ...]:
        """First the events with the largest margin alone, as far as that is known."""
        alone = {row: -self.margin(frozenset({row})) for row in change if frozenset({row}) in self.numbers}
        return tuple(sorted(self.in_order(change), key=lambda row: alone.get(row, np.inf)))

    @property
    def columns(self) -> tuple[BoolArray, FloatArray]:
        """Members and margins of the evaluated sets. [k, n], [k]"""
        return self._member[: len(self.numbers)], np.array(self._margins)

    @property
    def gains(self) -> FloatArray:
        """By how much each event alone raises the margin. [n]"""
        nothing = self.margin(frozenset())
        return np.array([self.margin(frozenset({row})) - nothing for row in self.ranking])

    @property
    def is_finished(self) -> bool:
        """Whether every set that could be better than the best one was evaluated."""
        size = len(self.ranking) + 1 if self.best is None else len(self.best)
        limit = self.oracle.limit
        known = self.numbers if limit is None else {change for change in self.numbers if limit.allows(change)}
        return lower_bound(known, self.ranking, limit=limit) >= size

    @property
    def number_of_sets(self) -> int:
        """How many sets of candidates there are."""
        limit = self.oracle.limit
        return 2 ** len(self.ranking) if limit is None else limit.number_of_all(self.ranking)

    def all_sets(self) -> list[Change]:
        """All of them, small ones first."""
        if self.oracle.limit is not None:
            return self.oracle.limit.all_sets(self.ranking)
        sizes = range(len(self.ranking) + 1)
        return [frozenset(some) for size in sizes for some in combinations(self.ranking, size)]

    def fitting(self, rows: Iterable[int]) -> list[int]:
        """Of some events, in their order, as many as may change together."""
        return list(rows) if self.oracle.limit is None else self.oracle.limit.fitting(rows)


def _prefixes(rows: Sequence[int]) -> list[Change]:
    """The first few rows, more and more of them, up to all."""
    return [frozenset(rows[:size]) for size in SIZES if size < len(rows)] + [frozenset(rows)]


def _climb(view: View, current: Change) -> None:
    """Toggle events, a block at a time, as long as the margin grows, until the prediction flips."""
    order = view.ranking
    block = BLOCK if view.is_short else len(order)
    for _ in range(PASSES):
        before, idle = current, set()
        for start in range(0, len(order), block):
            rows = [row for row in order[start : start + block] if view.oracle.is_possible(current ^ {row})]
            here, *margins = view.ask([current, *(current ^ {row} for row in rows)])
            gains = {row: margin - here for row, margin in zip(rows, margins, strict=True)}
            idle |= {row for row in rows if gains[row] == 0}
            current = _step(view, current, sorted((row for row in rows if gains[row] > 0), key=lambda row: -gains[row]))
            if view.best is not None:
                return
        order = [row for row in order if row not in idle]  # what has no effect is not evaluated again
        if current == before:
            break
    view.hills.append(current)


def _step(view: View, current: Change, helpful: list[int]) -> Change:
    """Toggle the most helpful event, or more of the helpful ones, up to all: whatever has the largest margin."""
    if not helpful:
        return current
    steps = [step for some in _prefixes(helpful) if view.oracle.is_possible(step := current ^ some)]
    view.ask(steps)
    return max(steps, key=view.margin)


def _shrink(view: View, found: Change | None) -> None:
    """Restore what is not needed: first all that comes after some prefix, then as many single events as possible."""
    if found is None:
        return
    current = _smallest_prefix(view, found)
    while len(current) > 1:
        view.ask([current - {row} for row in view.in_order(current)])
        cost = {row: -view.margin(current - {row}) for row in view.in_order(current) if view.flips(current - {row})}
        if not cost:
            return
        free = sorted(cost, key=cost.__getitem__)
        smaller = [current.difference(free[:count]) for count in SIZES if count <= len(free)]
        view.ask(smaller)
        current = min(filter(view.flips, smaller), key=len)


def _smallest_prefix(view: View, found: Change) -> Change:
    """The smallest prefix of a set, in the order of the candidates, that still flips the prediction."""
    while True:
        prefixes = _prefixes(view.in_order(found))
        view.ask(prefixes)
        smaller = next(prefix for prefix in prefixes if view.flips(prefix))
        if smaller == found:
            return found
        found = smaller


def _look_below(view: View) -> None:
    """Evaluate sets that are smaller than the best one, first those that would lead furthest if effects added up.

    Half of them are small sets, completed by the events that help most; the other half are small sets with one event
    more. Goes through all sets in the end.
    """
    target = FEW - 1 if view.best is None else len(view.best) - 1
    sets, rows, added, promise, promise_with = _small_sets(view, target)
    completed = (
        sets[number].union(rows[place] for place in np.flatnonzero(added[number]).tolist())
        for number in _from_largest(promise)
    )
    possible = (divmod(place, len(rows)) for place in _from_largest(promise_with) if promise_with.flat[place] > -np.inf)
    extended = (sets[number] | {rows[place]} for number, place in possible)
    view.ask([*_new(view, islice(completed, ROUND), ROUND // 2), *_new(view, extended, ROUND // 2)])


def _small_sets(view: View, target: int) -> tuple[list[Change], list[int], BoolArray, FloatArray, FloatArray]:
    """Evaluated sets of fewer than `target` events, and the margins they promise at that size. k sets, n rows.

    A set promises the sum of its margin and what the added events do alone.

    Returns:
        The sets; the candidates, those that help most first; the most helpful events that complete each set [k, n];
        the promise of each set so completed [k], and of each set completed with a given event [k, n]. That is -inf
        where the event is a member.
    """
    member, margins = view.columns
    numbers = np.flatnonzero(member.sum(axis=1) < target)
    helpful = np.argsort(-view.gains, kind="stable")  # [n] places, most helpful first
    gains = view.gains[helpful]
    absent, margins = ~member[numbers][:, helpful], margins[numbers, None]  # [k, n], [k, 1]
    room = target - member[numbers].sum(axis=1, keepdims=True)  # [k, 1]
    order = np.cumsum(absent, axis=1)  # [k, n] 1 for the most helpful absent event, 2 for the next, …
    added = absent & (order <= room)
    helps = np.maximum(gains, 0)
    promise = margins + (added * helps).sum(axis=1, keepdims=True)
    without_last = margins + (added * helps * (order < room)).sum(axis=1, keepdims=True)
    promise_with = np.where(added, promise, without_last + gains)
    promise_with[~absent] = -np.inf
    sets = list(view.numbers)
    rows = [view.ranking[place] for place in helpful.tolist()]
    return [sets[number] for number in numbers.tolist()], rows, added, promise[:, 0], promise_with


def _from_largest(values: FloatArray) -> Iterator[int]:
    """The places of values, the largest first; only the first ones are sorted unless more are needed."""
    flat = -values.ravel()
    if len(flat) > 4 * SORTED:
        first = np.sort(np.argpartition(flat, SORTED)[:SORTED])
        yield from first[np.argsort(flat[first], kind="stable")].tolist()
    yield from np.argsort(flat, kind="stable").tolist()


def _new(view: View, sets: Iterable[Change], most: int) -> list[Change]:
    """The first sets that were not evaluated yet."""
    unknown = (change for change in sets if change not in view.numbers and view.oracle.is_possible(change))
    return list(dict.fromkeys(islice(unknown, most)))


def _exchange(view: View) -> None:
    """One event for another in sets that have one event less than the best one, where that should help most."""
    best = view.best
    if best is None or len(best) < 3:
        return
    gains = dict(zip(view.ranking, view.gains.tolist(), strict=True))
    helpful = sorted(view.ranking, key=lambda row: -gains[row])
    cost = gains | {row: view.margin(best) - view.margin(best - {row}) for row in best if best - {row} in view.numbers}
    near = [change for change in view.numbers if len(change) == len(best) - 1]
    bit = {row: 1 << place for row, place in view.place.items()}
    hopes: dict[int, tuple[float, Change, int, int]] = {}  # by the bits of a set: of thousands, few are made
    for base in sorted(near, key=lambda change: -view.margin(change))[:NEAR]:
        absent, bits = [row for row in helpful if row not in base][:ROUND], sum(bit[row] for row in base)
        for out, row in product(base, absent):
            hopes[bits ^ bit[out] ^ bit[row]] = view.margin(base) - cost[out] + gains[row], base, out, row
    exchanged = sorted(hopes.values(), key=lambda hope: -hope[0])
    view.ask(_new(view, (base - {out} | {row} for _, base, out, row in exchanged), ROUND))
    if view.best != best:
        _shrink(view, view.best)


def _shrink_in_another_way(view: View, rng: np.random.Generator) -> None:
    """Add some other events to the best set, then restore what is not needed."""
    best = view.best
    if best is None or len(best) < 3:
        return
    others = [row for row in view.ranking if row not in best]
    some = _some(others, max(2, len(best) // 2), rng)
    larger = frozenset(view.fitting([*view.in_order(best), *view.in_order(some)]))
    view.ask([larger])
    if view.flips(larger):
        _shrink(view, larger)


def _climb_elsewhere(view: View, rng: np.random.Generator) -> None:
    """Climb again from one of the best local optima, with some events toggled."""
    hills = sorted(view.hills, key=lambda hill: -view.margin(hill))[:HILLS]
    hill = hills[int(rng.integers(len(hills)))]
    elsewhere = hill ^ _some(view.ranking, int(rng.integers(3, 13)), rng)
    _climb(view, frozenset(view.fitting(view.in_order(elsewhere))))
    _shrink(view, view.best)


def _some(rows: Sequence[int], count: int, rng: np.random.Generator) -> Change:
    return frozenset(rng.choice(rows, min(count, len(rows)), replace=False).tolist())
