"""CoDy once more, as the paper describes it: nodes as objects, every sum recomputed, one question at a time."""

import math


class Node:
    def __init__(self, events, parent):
        self.events = events  # in order
        self.parent = parent
        self.children = []  # in the policy's order, visited or not
        self.logit = None
        self.visits = 0
        self.score = None
        self.selectable = True

    def own_score(self, original):
        return max(0.0, towards(original, self.logit) / max(abs(original), 1e-5))


def towards(original, logit):
    return original - logit if original > 0 else logit - original


def changed(original, logit):
    return (original > 0) != (logit > 0)


def select(node, alpha):
    if node.logit is None:
        return node
    best, largest = None, None
    for child in node.children:
        if not child.selectable:
            continue
        score, visits = (0.0, 1) if child.score is None else (child.score, child.visits)
        claim = alpha * score + (1 - alpha) * math.sqrt(math.log(node.visits) / visits)
        if best is None or claim > largest + 1e-9:  # of equal ones the first in the policy's order
            best, largest = child, claim
    return select(best, alpha)


def plain_search(ask, ranking, iterations, alpha):
    """(visited sets in order, best set in order, whether every set that could win was tried)"""
    original = ask(frozenset())
    root = Node((), None)
    visited = []
    smallest = math.inf
    while len(visited) < iterations and root.selectable:
        node = select(root, alpha)
        node.logit = ask(frozenset(node.events))
        node.visits, node.score = 1, node.own_score(original)
        visited.append(node)
        if changed(original, node.logit):
            smallest = min(smallest, len(node.events))
        else:
            node.children = [Node((*node.events, event), node) for event in ranking if event not in node.events]
        parent = node.parent
        while parent is not None:
            parent.visits += 1
            parent.score = parent.own_score(original)
            for child in parent.children:
                if child.score is not None:
                    parent.score += child.score * child.visits
            parent.score /= parent.visits
            parent = parent.parent
        close(root, smallest, {frozenset(node.events): node for node in visited}, original)
    return visited, best_of(visited, original), not root.selectable


def close(node, smallest, known, original):
    """Whether anything below is still worth selecting, computed from scratch."""
    if known.get(frozenset(node.events), node) is not node:
        node.selectable = False  # the same set stands elsewhere
    elif node.logit is None:
        node.selectable = len(node.events) <= smallest
    elif changed(original, node.logit) or len(node.events) >= smallest:
        node.selectable = False
    else:
        for child in node.children:
            close(child, smallest, known, original)
        node.selectable = any(child.selectable for child in node.children)


def best_of(visited, original):
    counterfactual = [node for node in visited if changed(original, node.logit)]
    if counterfactual:
        return min(counterfactual, key=lambda node: (len(node.events), -towards(original, node.logit))).events
    return min(visited, key=lambda node: (-towards(original, node.logit), len(node.events))).events
