"""T-GNNExplainer: a tree search for the events that suffice for a prediction.

Reference: Xia et al., "Explaining temporal graph models through an explorer-navigator framework", ICLR 2023. Written
from the paper's description.

A node of the tree is a set of candidates that are *kept*; all other candidates are removed, and events that are not
candidates stay. The root keeps all, a child drops one event. The reward of a node is how far the logit lies beyond
the original one, on the side of the original decision. The ranking is the navigator: the event it ranks last is
dropped first.

A roll-out goes from the root to a set of one event. At each node it adds the next child, then goes to the child with
the largest

    W / N + exploration · sqrt(N of all children) / (1 + N)

where N counts the roll-outs through a set and W sums the rewards at their ends. Dropping the same events in another
order leads to the same node. Selection depends on the rewards of single events only, so these are evaluated first,
and all others in large batches, whenever there are enough of them.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import NamedTuple

from cody.errors import BudgetError, CallError
from cody.graph import IntArray, whole_number
from cody.models.contract import Change
from cody.models.margins import shift
from cody.search.oracle import Oracle
from cody.search.result import EXHAUSTED, FOUND, ITERATIONS, SearchResult, result

ROOT = 0
BATCH = 200  # sets to collect before the model evaluates them


class Level(NamedTuple):
    """The best of the visited sets with at most `size` events."""

    size: int
    kept: tuple[int, ...]  # in the navigator's order
    reward: float


class Explored(NamedTuple):
    """The result of the search, and what it would have been with a smaller limit on the number of events."""

    found: SearchResult  # its rows are the kept events: they are the explanation
    levels: tuple[Level, ...]  # by size, from the smallest that was visited


def tgnnexplainer(
    oracle: Oracle, ranking: IntArray, *, rollouts: int = 500, size: int = 30, exploration: float = 10.0
) -> SearchResult:
    """The set of kept events with the largest reward; among equals, the smallest.

    The events support the decision; removing them need not flip it.

    Args:
        oracle: Evaluates changes of the query, and counts the evaluations.
        ranking: Candidate rows, most promising first.
        rollouts: Number of roll-outs of the tree search.
        size: Only the first `size` candidates may be dropped; the others always stay.
        exploration: Weight of exploration in the tree search.
    """
    return explore(oracle, ranking, rollouts=rollouts, size=size, exploration=exploration).found


def explore(
    oracle: Oracle, ranking: IntArray, *, rollouts: int = 500, size: int = 30, exploration: float = 10.0
) -> Explored:
    """The tree search, with the best set of each size.

    Args:
        oracle: Evaluates changes of the query, and counts the evaluations.
        ranking: Candidate rows, most promising first.
        rollouts: Number of roll-outs of the tree search.
        size: Only the first `size` candidates may be dropped; the others always stay.
        exploration: Weight of exploration in the tree search.
    """
    if whole_number("rollouts", rollouts) < 1 or whole_number("size", size) < 1:
        raise CallError(f"rollouts and size must be at least 1, not {rollouts} and {size}")
    if not 0 <= exploration < math.inf:
        raise CallError(f"exploration must be a finite number, at least 0, not {exploration}")
    tree = ExploredTree(ranking[:size].tolist(), exploration)
    if not tree.events:
        return Explored(result(oracle, ranking, (), 0, EXHAUSTED, factual=True), ())
    done, ended = 0, ITERATIONS
    try:
        original = oracle.ask([frozenset()])[0]
        tree.reward[ROOT] = 0.0
        _evaluate(tree, oracle, original)  # the sets of one event
        while done < rollouts and ended == ITERATIONS:
            _roll_out(tree)
            done += 1
            if len(tree.bits) == 2 ** len(tree.events) - 1:
                ended = FOUND  # every set except the empty one is in the tree; that says nothing about counterfactuals
            if len(tree.bits) - len(tree.reward) >= BATCH:
                _evaluate(tree, oracle, original)
        _evaluate(tree, oracle, original)
    except BudgetError as spent:
        ended = str(spent)
    levels = tuple(_levels(tree))
    kept = levels[-1].kept if levels else ()
    return Explored(result(oracle, ranking, kept, done, ended, factual=True), levels)


class ExploredTree:
    """The kept sets: each list has one entry for each node. A candidate is represented by its rank."""

    def __init__(self, events: list[int], exploration: float) -> None:
        self.events = events
        self.exploration = exploration
        self.bits: list[int] = []  # which events are kept, by rank
        self.undropped: list[int] = []  # which of these no child has dropped yet
        self.children: list[list[int]] = []  # nodes, in the order in which they were added
        self.visits: list[int] = []  # N
        self.total: list[float] = []  # W
        self.ids: dict[int, int] = {}  # bits → node
        self.reward: dict[int, float] = {}  # of the evaluated nodes, which are the first ones
        self.node(2 ** len(events) - 1)
        for rank in range(len(events)):
            self.node(1 << rank)

    def node(self, bits: int) -> int:
        """The node of a set, added if it is new."""
        found = self.ids.get(bits)
        if found is None:
            found = self.ids[bits] = len(self.bits)
            self.bits.append(bits)
            self.undropped.append(bits if bits & bits - 1 else 0)  # the last event is not dropped
            self.children.append([])
            self.visits.append(0)
            self.total.append(0.0)
        return found

    def add_child(self, node: int) -> None:
        """Drop the next event: the last in the ranking of those that no child has dropped yet."""
        bit = 1 << self.undropped[node].bit_length() - 1
        self.undropped[node] ^= bit
        self.children[node].append(self.node(self.bits[node] ^ bit))

    def priority(self, node: int, siblings: int) -> float:
        """The priority of a set in selection, given how often all children of its parent were visited."""
        visits = self.visits[node]
        explore = self.exploration * math.sqrt(siblings) / (1 + visits)
        return self.total[node] / visits + explore if visits else explore

    def kept_rows(self, node: int) -> tuple[int, ...]:
        return tuple(event for rank, event in enumerate(self.events) if self.bits[node] >> rank & 1)

    def removed(self, node: int) -> Change:
        return frozenset(event for rank, event in enumerate(self.events) if not self.bits[node] >> rank & 1)


def _roll_out(tree: ExploredTree) -> None:
    """Go from the root to a set of one event, and add its reward to all sets on the way."""
    path = [ROOT]
    while True:
        if tree.undropped[path[-1]]:
            tree.add_child(path[-1])
        children = tree.children[path[-1]]
        if not children:
            break
        siblings = sum(tree.visits[child] for child in children)
        path.append(max(children, key=lambda child: tree.priority(child, siblings)))  # the first of equal ones
    reward = tree.reward[path[-1]]
    for node in path:
        tree.visits[node] += 1
        tree.total[node] += reward


def _evaluate(tree: ExploredTree, oracle: Oracle, original: float) -> None:
    """Evaluate all sets that have no reward yet, oldest first, as far as the budget allows."""
    while (first := len(tree.reward)) < len(tree.bits):
        stop = len(tree.bits)
        if oracle.evaluations is not None:
            stop = min(stop, first + max(1, oracle.evaluations - len(oracle.evaluated)))
        nodes = range(first, stop)
        logits = oracle.ask([tree.removed(node) for node in nodes])
        tree.reward.update((node, -shift(original, logit)) for node, logit in zip(nodes, logits, strict=True))


def _levels(tree: ExploredTree) -> Iterator[Level]:
    by_size: dict[int, int] = {}
    for node, reward in tree.reward.items():
        size = tree.bits[node].bit_count()
        if size not in by_size or reward > tree.reward[by_size[size]]:
            by_size[size] = node
    best = -math.inf
    for size, node in sorted(by_size.items()):
        if tree.reward[node] > best:
            best, kept = tree.reward[node], tree.kept_rows(node)
        yield Level(size, kept, best)
