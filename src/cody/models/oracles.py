"""Models that provably decide by a mechanism, so that a cause that is missed is missed by the explainer.

Each function makes the model of one mechanism of `cody.data.mechanisms` on a log: `reply(graph)`, or on the command
line `--model cody.models.oracles:reply`. The sign of its logit follows from the rule alone. Its size does not: other
events of the two nodes move it, within bounds, as they do in trained models.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from cody.errors import CallError
from cody.graph import IntArray, TemporalGraph
from cody.models.heuristics import NO, YES, KnownPast, RuleModel

DISTRACTION = 0.3  # of a logit of 1: how much of it other events can move at most
MINUTE, HOUR, DAY = 60.0, 3_600.0, 86_400.0
PERSON, HOST = 0, 2  # columns of the node features

Holds = Callable[[KnownPast], bool]
Maker = Callable[..., RuleModel]

_RULES: dict[str, Holds] = {}
ORACLES: dict[str, Maker] = {}  # by the names of the mechanisms


@dataclass(frozen=True, slots=True)
class DistractedRule:
    """A rule that says yes or no, with a logit that also depends on events that the rule ignores."""

    name: str
    distraction: float

    def __call__(self, past: KnownPast) -> float:
        rows = np.union1d(past.of_src, past.of_dst)
        pair = past.graph.src[rows].astype(np.int64) * 40_503 + past.graph.dst[rows]  # who, not when or in which row
        moved = math.sin(float(((pair * 2_654_435_761) % 2**32 / 2**31 - 1).sum()))  # from -1 to 1
        return (YES if _RULES[self.name](past) else NO) + self.distraction * moved


def _oracle(name: str) -> Callable[[Holds], Maker]:
    """Turns a rule into the function that makes its model."""

    def maker_of(rule: Holds) -> Maker:
        def make(graph: TemporalGraph, *, distraction: float = DISTRACTION) -> RuleModel:
            if not 0 <= distraction < 1:
                raise CallError(f"distraction must be at least 0 and below 1, not {distraction}")
            if graph.node_features is None or graph.node_features.shape[1] != 3:
                raise CallError(f"the model of {name!r} needs a log that cody.data.mechanism made")
            return RuleModel(graph, f"oracle {name} {distraction:g}", DistractedRule(name, distraction))

        make.__doc__ = rule.__doc__
        make.__name__ = make.__qualname__ = rule.__name__
        _RULES[name], ORACLES[name] = rule, make
        return make

    return maker_of


def _ago(past: KnownPast, rows: IntArray, window: float) -> IntArray:
    """Those of the rows that lie at most so long before the link."""
    return rows[past.query.time - past.graph.time[rows] <= window]


def _into(past: KnownPast, node: int, window: float, kind: int = PERSON) -> IntArray:
    """Events that came to the source or to the destination, from nodes of a kind."""
    assert past.graph.node_features is not None
    rows = _ago(past, past.of_src if node == past.query.src else past.of_dst, window)
    fits = (past.graph.dst[rows] == node) & (past.graph.node_features[past.graph.src[rows], kind] > 0)
    return np.asarray(rows[fits])


@_oracle("reply")
def reply(past: KnownPast) -> bool:
    """Called by the destination within the last hour."""
    rows = _ago(past, past.of_src, HOUR)
    return bool(((past.graph.src[rows] == past.query.dst) & (past.graph.dst[rows] == past.query.src)).any())


@_oracle("triadic-closure")
def triadic_closure(past: KnownPast) -> bool:
    """Both met a third node within a day."""
    ends = past.query.src, past.query.dst
    met = (
        set(past.graph.other_end(_ago(past, rows, DAY), end).tolist())
        for rows, end in zip((past.of_src, past.of_dst), ends, strict=True)
    )
    return bool(set.intersection(*met) - {*ends})


@_oracle("periodicity")
def periodicity(past: KnownPast) -> bool:
    """The same link a day before, within ten minutes."""
    rows = past.of_src[past.graph.dst[past.of_src] == past.query.dst]
    rows = rows[past.graph.src[rows] == past.query.src]
    return bool((np.abs(past.query.time - past.graph.time[rows] - DAY) <= 10 * MINUTE).any())


@_oracle("contagion")
def contagion(past: KnownPast) -> bool:
    """Somebody visited the destination, then called the source, within six hours."""
    first: dict[int, int] = {}  # visitor → first visit
    for row in _ago(past, past.of_dst, 6 * HOUR).tolist():
        if past.graph.dst[row] == past.query.dst:
            first.setdefault(int(past.graph.src[row]), row)
    calls = _into(past, past.query.src, 6 * HOUR).tolist()
    return any(first.get(int(past.graph.src[row]), row) < row for row in calls)


@_oracle("burst")
def burst(past: KnownPast) -> bool:
    """The source sent at least three events within ten minutes."""
    return int((past.graph.src[_ago(past, past.of_src, 10 * MINUTE)] == past.query.src).sum()) >= 3


@_oracle("popularity")
def popularity(past: KnownPast) -> bool:
    """At least three different persons came to the destination within the last hour."""
    return len(np.unique(past.graph.src[_into(past, past.query.dst, HOUR)])) >= 3


@_oracle("redundant")
def redundant(past: KnownPast) -> bool:
    """Anybody called the source within half an hour."""
    return len(_into(past, past.query.src, HOUR / 2)) > 0


@_oracle("joint")
def joint(past: KnownPast) -> bool:
    """Somebody called the source within the last hour, and the host invited it."""
    return all(len(_into(past, past.query.src, HOUR, kind)) > 0 for kind in (PERSON, HOST))


@_oracle("masked")
def masked(past: KnownPast) -> bool:
    """The destination was the last one to call the source, within the last hour."""
    calls = _into(past, past.query.src, HOUR)
    return len(calls) > 0 and bool(past.graph.src[calls[-1]] == past.query.dst)


@_oracle("confounded")
def confounded(past: KnownPast) -> bool:
    """The host invited the source within the last hour."""
    return len(_into(past, past.query.src, HOUR, HOST)) > 0


@dataclass(frozen=True, slots=True)
class RandomWeights:
    """The sum of a random weight for each event of the two nodes, and of one for the link."""

    seed: int

    def __call__(self, past: KnownPast) -> float:
        rows = np.union1d(past.of_src, past.of_dst)
        drawn = (np.random.default_rng([self.seed, int(row)]).normal() for row in rows)
        return float(np.random.default_rng([self.seed, *past.query[:2]]).normal() + math.fsum(drawn))


def randomised(graph: TemporalGraph, seed: int = 0) -> RuleModel:
    """A model that decides by random weights of events: its explanations should not be those of another model.

    Args:
        graph: The log.
        seed: Of the weights.
    """
    return RuleModel(graph, f"random {seed}", RandomWeights(seed))
