"""T-GNNExplainer: a tree search for the events that alone keep a prediction up.

Reference: Xia et al., "Explaining temporal graph models through an explorer-navigator framework", ICLR 2023. Written
from the paper's description.

A node of the tree is a set of candidates that are *kept*; all other candidates are removed, events that are no
candidates stay. The root keeps all, a child drops one event. The reward of a node is how far the logit lies beyond
the original one, on the side of the original decision. The ranking is the navigator: what it puts last is dropped
first.

A roll-out goes from the root to a set of one event. At each node it adds the next child, then goes to the child with
the largest

    W / N + exploration · sqrt(N of all children) / (1 + N)

where N counts the roll-outs through a set and W sums up the rewards at their ends. Different orders of dropping the
same events lead to the same node. Selection reads rewards of ends only, so all new sets of a roll-out are asked for
in one batch.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from cody.errors import BudgetError, CallError
from cody.graph import IntArray, whole_number
from cody.oracle import Oracle, Removal
from cody.policies import shift
from cody.search.found import EXHAUSTED, ITERATIONS, Found

ROOT = 0


class Level(NamedTuple):
    """The best of the visited sets with at most `size` events."""

    size: int
    kept: tuple[int, ...]  # in the navigator's order
    reward: float


class Explored(NamedTuple):
    """What the search settled for, and what it would have settled for had it been asked for fewer events."""

    found: Found  # `removed` holds the kept events: they are the explanation
    levels: tuple[Level, ...]  # by size, from the smallest that was visited


def tgnnexplainer(
    oracle: Oracle, ranking: IntArray, *, rollouts: int = 500, size: int = 30, exploration: float = 10.0
) -> Found:
    """The kept set with the largest reward; of equal ones the smallest.

    Only the first `size` candidates of the ranking may be dropped or kept; the others stay. The events found are
    those that explain the decision, not ones whose removal changes it.
    """
    return explore(oracle, ranking, rollouts=rollouts, size=size, exploration=exploration).found


def explore(
    oracle: Oracle, ranking: IntArray, *, rollouts: int = 500, size: int = 30, exploration: float = 10.0
) -> Explored:
    """The search with the best set of each size."""
    if whole_number("rollouts", rollouts) < 1 or whole_number("size", size) < 1:
        raise CallError(f"rollouts and size must be at least 1, not {rollouts} and {size}")
    if not 0 <= exploration < math.inf:
        raise CallError(f"exploration must be a number of at least 0, not {exploration}")
    events: list[int] = ranking[:size].tolist()
    if not events:
        return Explored(Found((), 0, EXHAUSTED), ())
    tree = Tree(events, exploration)
    done, ended = 0, ITERATIONS
    try:
        original = oracle.ask([frozenset()])[0]
        tree.reward[ROOT] = 0.0
        while done < rollouts:
            _roll_out(tree, oracle, original)
            done += 1
            if len(tree.bits) == 2 ** len(events) - 1:
                ended = EXHAUSTED  # every set but the empty one was visited
                break
    except BudgetError as spent:
        ended = str(spent)
    levels = tuple(_levels(tree))
    best = levels[-1].kept if levels else ()
    return Explored(Found(best, done, ended), levels)


class Tree:
    """The kept sets as columns. n = nodes, m = candidates, each known by its rank."""

    def __init__(self, events: list[int], exploration: float) -> None:
        self.events = events
        self.exploration = exploration
        room, m = 1024, len(events)
        self.child = np.zeros((room, m), dtype=np.int32)  # [≥ n, m] nodes, in the order of their making
        self.visits = np.zeros(room)  # [≥ n] N
        self.total = np.zeros(room)  # [≥ n] W
        # One entry a node.
        self.bits = [2**m - 1]  # which events are kept, by rank
        self.children = [0]  # how many have been made
        self.ids = {self.bits[ROOT]: ROOT}
        self.reward: dict[int, float] = {}  # of those that were asked about

    def add_child(self, node: int) -> None:
        """Drop the next event: the last in the ranking of those that no child of the node has dropped yet."""
        bits = remaining = self.bits[node]
        for _ in range(self.children[node]):
            remaining ^= 1 << remaining.bit_length() - 1
        bits ^= 1 << remaining.bit_length() - 1
        self.child[node, self.children[node]] = self._node(bits)
        self.children[node] += 1

    def _node(self, bits: int) -> int:
        found = self.ids.get(bits)
        if found is not None:
            return found
        node = self.ids[bits] = len(self.bits)
        self.bits.append(bits)
        self.children.append(0)
        if node == len(self.child):
            self.child = np.concatenate([self.child, 0 * self.child])
            self.visits, self.total = (np.concatenate([column, 0 * column]) for column in (self.visits, self.total))
        return node

    def kept(self, node: int) -> tuple[int, ...]:
        return tuple(event for rank, event in enumerate(self.events) if self.bits[node] >> rank & 1)

    def removal(self, node: int) -> Removal:
        return frozenset(event for rank, event in enumerate(self.events) if not self.bits[node] >> rank & 1)


def _roll_out(tree: Tree, oracle: Oracle, original: float) -> None:
    """From the root to a set of one event; then all sets on the way are told its reward."""
    first_new = len(tree.bits)
    path = [ROOT]
    while (size := tree.bits[path[-1]].bit_count()) > 1:
        if tree.children[path[-1]] < size:
            tree.add_child(path[-1])
        path.append(_select(tree, path[-1]))
    new = range(first_new, len(tree.bits))
    if new:
        logits = oracle.ask([tree.removal(node) for node in new])
        tree.reward.update((node, -shift(original, logit)) for node, logit in zip(new, logits, strict=True))
    tree.visits[path] += 1
    tree.total[path] += tree.reward[path[-1]]


def _select(tree: Tree, node: int) -> int:
    children = tree.child[node, : tree.children[node]]
    visits = tree.visits[children]
    mean = tree.total[children] / np.maximum(visits, 1)
    claims = mean + tree.exploration * math.sqrt(visits.sum()) / (1 + visits)
    return int(children[claims.argmax()])  # the first of equal ones


def _levels(tree: Tree) -> Iterator[Level]:
    by_size: dict[int, int] = {}
    for node, reward in tree.reward.items():
        size = tree.bits[node].bit_count()
        if size not in by_size or reward > tree.reward[by_size[size]]:
            by_size[size] = node
    best = -math.inf
    for size, node in sorted(by_size.items()):
        if tree.reward[node] > best:
            best, kept = tree.reward[node], tree.kept(node)
        yield Level(size, kept, best)
