"""CoDy: a tree search for the smallest set of events whose removal flips the prediction.

A node of the tree is a removal set; each of its children removes one event more. One iteration selects the most
promising unvisited set, evaluates it, and updates all sets on the path to it. The scores are the paper's (section 4.4
and appendix B): the own score of a set is the share of the way to the decision boundary that it covers, its value the
mean of the own scores of all visited sets below it, itself included. Selected is the child with the largest upper
confidence bound

    ucb = alpha · value + (1 - alpha) · sqrt(ln(visits of the parent) / visits)

where an unvisited set has the value 0 and one visit, and of equal bounds the first in the ranking wins.

What never needs to be evaluated is closed: sets that flip the prediction (larger ones cannot win), sets that were
visited as a child of another parent (a set stands in the tree once), sets as large as a known counterfactual (its
children would be larger), and sets all of whose children are closed.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

import numpy as np

from cody.errors import BudgetError, CallError
from cody.graph import FloatArray, IntArray, whole_number
from cody.models.contract import Change
from cody.models.margins import flips, shift
from cody.search.greedy import Path, walk
from cody.search.oracle import Oracle
from cody.search.result import EVALUATIONS, EXHAUSTED, FOUND, ITERATIONS, SECONDS, SearchResult, best_evaluated, result

ROOT, NO_PARENT, UNVISITED = 0, -1, -1
ALPHA = 2 / 3  # the paper's
SMALLEST = 1e-5  # logits are rounded to this; an original logit of 0 must not be divided by
SAME = 9  # decimals to which values are kept, so that sums of the same numbers in another order are equal


class Tree:
    """The visited sets as columns. n = nodes, m = candidates, each known by its rank in the policy's order."""

    def __init__(self, ranking: Sequence[int], original: float, alpha: float) -> None:
        self.ranking = list(ranking)
        self.original = original
        self.alpha = alpha
        self.limit = len(self.ranking) + 1  # size of the smallest counterfactual so far
        self.ids: dict[int, int] = {}  # removal set as bits, by rank → node
        self.taken: dict[int, int] = {}  # removal set as bits → those that, added, give a visited set
        # One entry for each node.
        self.visits: list[int] = []  # visited sets below, itself included
        self.total: list[float] = []  # sum of their own scores
        self.shift: list[float] = []  # how far the logit moved towards the decision boundary
        self.flipped: list[bool] = []
        self.open: list[int] = []  # number of children that are not closed
        self.bits: list[int] = []
        self.depth: list[int] = []
        self.parent: list[int] = []
        self.rank: list[int] = []  # which child of its parent it is
        # One row for each node, one column for each of its children.
        self.child = np.empty((0, len(self.ranking)), dtype=np.int32)  # [≥ n, m] node, or UNVISITED
        self.closed = np.empty(self.child.shape, dtype=bool)  # [≥ n, m]
        self.value = np.empty(self.child.shape)  # [≥ n, m] mean own score of the visited sets below, itself included
        self.exploration = np.empty(self.child.shape)  # [≥ n, m] 1 / sqrt(visits)
        self.resize(64)

    def copy(self) -> Tree:
        """A tree that can be grown without changing this one."""
        other = object.__new__(Tree)
        for name, value in vars(self).items():
            setattr(other, name, value.copy() if isinstance(value, (list, dict)) else value)
        other.resize(len(self) + 32)
        return other

    def resize(self, rows: int) -> None:
        """Copy the columns of children into new ones with that many rows."""
        for name, empty in {"child": UNVISITED, "closed": False, "value": 0.0, "exploration": 1.0}.items():
            old = getattr(self, name)
            new = np.empty((rows, len(self.ranking)), dtype=old.dtype)
            new[: len(self)], new[len(self) :] = old[: len(self)], empty
            setattr(self, name, new)

    def __len__(self) -> int:
        return len(self.bits)

    def events(self, node: int) -> Path:
        """The events of a set, in the order of the path to it."""
        path: list[int] = []
        while node != ROOT:
            path.append(self.ranking[self.rank[node]])
            node = self.parent[node]
        return tuple(reversed(path))


def cody(
    oracle: Oracle,
    ranking: IntArray,
    *,
    iterations: int = 300,
    alpha: float = ALPHA,
    ahead: int = 16,
    stop_at_first: bool = False,
) -> SearchResult:
    """The smallest set of candidates that flips the prediction; of equally small ones, that with the largest shift.

    If none is found within the budget, the set with the largest shift.

    Args:
        oracle: Scores changes of the link.
        ranking: The candidates, the most promising first.
        iterations: Number of sets to visit.
        alpha: Between 0 (exploration) and 1 (exploitation of what is known).
        ahead: Number of sets to evaluate at a time, guessing what the search will select next. It changes the number
            of calls of the model, not the result.
        stop_at_first: End with the first counterfactual instead of looking for a smaller one.
    """
    return _search(oracle, ranking, [], iterations, alpha, ahead, stop_at_first)


def greedy_then_cody(
    oracle: Oracle,
    ranking: IntArray,
    *,
    children: int = 10,
    iterations: int = 300,
    alpha: float = ALPHA,
    ahead: int = 16,
    stop_at_first: bool = False,
) -> SearchResult:
    """GreeDy, then CoDy from all that GreeDy visited: to find what it missed, or fewer events than it found.

    Each set that GreeDy visits is an iteration. At the end, events that are not needed are restored, one at a time, so
    that no event of a counterfactual can be left out.

    Args:
        oracle: Scores changes of the link.
        ranking: The candidates, the most promising first.
        children: Number of candidates that GreeDy evaluates in each step.
        iterations: Number of sets to visit, those of GreeDy included.
        alpha: Between 0 (exploration) and 1 (exploitation of what is known).
        ahead: Number of sets to evaluate at a time; it does not change the result.
        stop_at_first: If GreeDy finds a counterfactual, it is the answer, as the paper proposes.
    """
    first = walk(oracle, ranking, children)
    if first.ended == FOUND and stop_at_first:
        return result(oracle, ranking, first.best, len(first.visited), FOUND)
    found = _search(oracle, ranking, first.visited, iterations, alpha, ahead, stop_at_first)
    if found.ended == EXHAUSTED:
        return found  # nothing smaller is left to try
    rows = needed(oracle, found.rows)
    return result(oracle, ranking, rows, found.iterations, found.ended)


def needed(oracle: Oracle, removed: Path) -> Path:
    """Restore events while the prediction stays flipped, always the one that costs least of the shift."""
    try:
        original, logit = oracle.ask([frozenset(), frozenset(removed)])
        while flips(original, logit) and len(removed) > 1:
            smaller = [tuple(event for event in removed if event != back) for back in removed]
            logits = oracle.ask([frozenset(events) for events in smaller])
            events, logit = max(zip(smaller, logits, strict=True), key=lambda pair: shift(original, pair[1]))
            if flips(original, logit):
                removed = events
    except BudgetError:
        pass  # what is left is still a counterfactual
    return removed


def _search(
    oracle: Oracle, ranking: IntArray, seen: list[Path], iterations: int, alpha: float, ahead: int, stop_at_first: bool
) -> SearchResult:
    if whole_number("iterations", iterations) < 1 or whole_number("ahead", ahead) < 1:
        raise CallError(f"iterations and ahead must be at least 1, not {iterations} and {ahead}")
    if not 0 <= alpha <= 1:
        raise CallError(f"alpha must lie between 0 and 1, not {alpha}")
    try:
        original = oracle.ask([frozenset()])[0]
    except BudgetError as spent:
        return result(oracle, ranking, (), 0, str(spent))
    tree = Tree(ranking.tolist(), original, alpha)
    for path in seen or [()]:  # the root is the first iteration
        parent, rank = _place(tree, path)
        _visit(tree, parent, rank, oracle.ask([frozenset(path)])[0])
    ended = _iterate(tree, oracle, iterations, ahead, stop_at_first)
    best = tree.events(_best(tree))
    if ended in (EVALUATIONS, SECONDS) and set(best) != set(best_evaluated(oracle, ranking.tolist())):
        best = best_evaluated(oracle, ranking.tolist())
    return result(oracle, ranking, best, len(tree), ended)


def _iterate(tree: Tree, oracle: Oracle, iterations: int, ahead: int, stop_at_first: bool) -> str:
    """Grow the tree until something ends it."""
    while tree.open[ROOT]:
        if stop_at_first and tree.limit <= len(tree.ranking):
            return FOUND
        if len(tree) >= iterations:
            return ITERATIONS
        parent, rank = _select(tree)
        removal = _removal(tree, parent, rank)
        try:
            if not oracle.knows(removal) and ahead > 1:
                oracle.prefetch(_guess(tree, oracle, min(ahead, iterations - len(tree))))
            logit = oracle.ask([removal])[0]
        except BudgetError as spent:
            return str(spent)
        _visit(tree, parent, rank, logit)
    return EXHAUSTED


def _select(tree: Tree) -> tuple[int, int]:
    """Go down from the root, always to the child with the largest bound, to an unvisited one: (parent, its rank)."""
    node = ROOT
    while True:
        rank = int(_ucb(tree, node).argmax())  # the first of equal ones
        child = int(tree.child[node, rank])
        if child == UNVISITED:
            return node, rank
        node = child


def _ucb(tree: Tree, node: int) -> FloatArray:
    """The upper confidence bound of each child; closed ones are never selected. [m]"""
    weight = (1 - tree.alpha) * math.sqrt(math.log(tree.visits[node]))
    ucb: FloatArray = tree.alpha * tree.value[node] + weight * tree.exploration[node]
    np.copyto(ucb, -np.inf, where=tree.closed[node])
    return ucb


def _visit(tree: Tree, parent: int, rank: int, logit: float) -> None:
    """Add an evaluated set to the tree, close what can no longer win, and update all sets on the path to it."""
    node = _expand(tree, parent, rank, logit)
    if tree.flipped[node] and tree.depth[node] < tree.limit:
        tree.limit = tree.depth[node]
        for other in range(node):
            if tree.depth[other] >= tree.limit:
                _close(tree, other)
    if tree.flipped[node] or tree.depth[node] >= tree.limit or not tree.open[node]:
        _close(tree, node)
    _backpropagate(tree, node)


def _expand(tree: Tree, parent: int, rank: int, logit: float) -> int:
    """Add a visited set and its unvisited children."""
    if len(tree) == len(tree.child):
        tree.resize(2 * len(tree))
    node = len(tree)
    bits = 0 if node == ROOT else tree.bits[parent] | 1 << rank
    moved = shift(tree.original, logit)
    own = max(0.0, moved / max(abs(tree.original), SMALLEST))
    tree.visits.append(1)
    tree.total.append(own)
    tree.shift.append(moved)
    tree.flipped.append(flips(tree.original, logit))
    tree.bits.append(bits)
    tree.depth.append(0 if node == ROOT else tree.depth[parent] + 1)
    tree.parent.append(parent)
    tree.rank.append(rank)
    tree.ids[bits] = node
    taken = list(_ranks(bits | tree.taken.get(bits, 0)))
    tree.closed[node, taken] = True
    tree.open.append(len(tree.ranking) - len(taken))
    if node != ROOT:
        tree.child[parent, rank] = node
        tree.value[parent, rank] = round(own, SAME)
        _close_elsewhere(tree, node)
    return node


def _ranks(bits: int) -> Iterator[int]:
    """The ranks in a set of bits."""
    while bits:
        lowest = bits & -bits
        yield lowest.bit_length() - 1
        bits ^= lowest


def _close_elsewhere(tree: Tree, node: int) -> None:
    """A set stands in the tree once: it is not a child of its other parents, whether these are visited yet or not."""
    bits = tree.bits[node]
    for rank in _ranks(bits):
        smaller = bits ^ 1 << rank
        tree.taken[smaller] = tree.taken.get(smaller, 0) | 1 << rank
        other = tree.ids.get(smaller)
        if other is not None and other != tree.parent[node]:
            _close_child(tree, other, rank)


def _close(tree: Tree, node: int) -> None:
    tree.open[node] = 0
    if node != ROOT:
        _close_child(tree, tree.parent[node], tree.rank[node])


def _close_child(tree: Tree, parent: int, rank: int) -> None:
    if tree.closed[parent, rank]:
        return
    tree.closed[parent, rank] = True
    if tree.open[parent]:
        tree.open[parent] -= 1
        if not tree.open[parent]:
            _close(tree, parent)


def _backpropagate(tree: Tree, node: int) -> None:
    """Update the value of each set on the way up. Counting up is the same as summing over children anew."""
    own = tree.total[node]
    while node != ROOT:
        node = tree.parent[node]
        tree.visits[node] += 1
        tree.total[node] += own
        if node != ROOT:
            place = tree.parent[node], tree.rank[node]
            tree.value[place] = round(tree.total[node] / tree.visits[node], SAME)
            tree.exploration[place] = 1 / math.sqrt(tree.visits[node])


def _best(tree: Tree) -> int:
    """The smallest counterfactual, of equal ones that with the largest shift; if there is none, the largest shift."""
    if flipped := [node for node in range(len(tree)) if tree.flipped[node]]:
        return min(flipped, key=lambda node: (tree.depth[node], -tree.shift[node]))
    return min(range(len(tree)), key=lambda node: (-tree.shift[node], tree.depth[node]))


def _removal(tree: Tree, parent: int, rank: int) -> Change:
    return frozenset({*tree.events(parent), tree.ranking[rank]})


def _place(tree: Tree, path: Path) -> tuple[int, int]:
    """Where a set belongs: its parent, and which child of it it is."""
    if not path:
        return NO_PARENT, 0
    *before, event = path
    bits = sum(1 << tree.ranking.index(other) for other in before)
    return tree.ids[bits], tree.ranking.index(event)


def _guess(tree: Tree, oracle: Oracle, count: int) -> list[Change]:
    """The sets that the search will probably select next: it continues in a copy of the tree, with guessed logits.

    The guess is that the effects of events add up.
    """
    tree = tree.copy()
    wanted: list[Change] = []
    for _ in range(4 * count):
        if not tree.open[ROOT] or len(wanted) == count:
            break
        parent, rank = _select(tree)
        removal = _removal(tree, parent, rank)
        logit = oracle.remembered(removal)
        if logit is None:
            wanted.append(removal)
            alone = tree.ids.get(1 << rank)
            moved = tree.shift[parent] + (0.0 if alone is None else tree.shift[alone])
            logit = tree.original - moved if tree.original > 0 else tree.original + moved
        _visit(tree, parent, rank, logit)
    return wanted
