"""One explanation for each kind of decision, of models that can be computed by hand."""

from functools import cache

import numpy as np

import cody
from cody import TemporalGraph, explain
from cody.models import ToyModel
from web.explained import DST, SRC

NAMES = ["Ann", "Bob", "Cid", "Dee", "Eve"]


@cache
def graph():
    return TemporalGraph.from_arrays(SRC, DST, [10.0 * row for row in range(len(SRC))], names=NAMES)


@cache
def model():
    return ToyModel(graph(), weights=[1, 2, 0, 0, 4, 4, -2, 0], bias=-3.0, half_life=1e9)


class Classes:
    """Three classes: each counts the events of Ann and Bob in its own way."""

    identity, hops, classes = "classes", 1, ("good", "odd", "fraud")

    def logits(self, query, changes):
        weights = np.array([[0.2, 0.1, 0.0, 0.3, 0.5, 0.1, 0, 0], [0.4] * 8, [0.1, 0.6, 0.1, 0.1, 1.5, 0.9, 0, 0]])
        kept = np.array([[row < query.before and row not in change for row in range(8)] for change in changes])
        return kept @ weights.T


def two_classes():
    made = ToyModel(graph(), weights=[1, 2, 0, 0, 4, 4, -2, 0], bias=-9.0, half_life=1e9)
    made.classes, made.threshold = ("fine", "fraud"), 0.3
    return made


def of_links(decision):
    return explain(model(), graph(), graph().query(7), decision=decision, count=3)


DECISIONS = {
    "threshold": lambda: of_links(cody.above(0.99)),
    "low": lambda: of_links(cody.above(0.04)),
    "top": lambda: of_links(cody.in_top(2)),
    "rather": lambda: of_links(cody.rather_than("Dee")),
    "between": lambda: of_links(cody.between(2, 7)),
    "own": lambda: of_links(cody.decided_by(lambda scores: scores[:, 0] - 4, positive="many", negative="few")),
    "label": lambda: explain(Classes(), graph(), graph().query(7)),
    "two labels": lambda: explain(two_classes(), graph(), graph().query(7)),
}


@cache
def decided(kind):
    """The explanation of a decision of this kind."""
    return DECISIONS[kind]()
