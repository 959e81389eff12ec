"""Checks of explanations that need no known cause: each is a function of one explanation, its log and its model.

X is what an explanation names, C its candidates, t the time of the link. `cody.study.disturbances` has the checks that
compare two explanations of a link: of a randomised model, with another seed, of a log that differs where it should not
matter.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from cody.errors import CallError
from cody.graph import FloatArray, IntArray, TemporalGraph
from cody.models.contract import Change, Model, checked_logits, open_session
from cody.models.margins import flips
from cody.study.truth import NamesEvents

SAMPLES = 20  # random removals, for robust fidelity
SHARE = 0.5  # of the events that are removed


def cohesiveness(answer: NamesEvents, graph: TemporalGraph) -> float:
    """Mean over pairs of X and the link of cos(|t₁ - t₂| / T), 0 where they share no node; T is the time they span.

    T-GNNExplainer's measure, with the link among the events, so that a single event has a value. 1 for an empty X.

    Args:
        answer: The explanation.
        graph: The log that it is about.
    """
    rows = np.array([*answer.rows, _event(answer)])
    if len(rows) == 1:
        return 1.0
    time = graph.time[rows]
    one, other = np.triu_indices(len(rows), 1)
    src, dst = graph.src[rows], graph.dst[rows]
    shared = (src[one] == src[other]) | (src[one] == dst[other]) | (dst[one] == src[other]) | (dst[one] == dst[other])
    near = np.cos(np.abs(time[one] - time[other]) / max(float(np.ptp(time)), 1e-9))
    return float(np.mean(near * shared))


def gap_likelihood(answer: NamesEvents, graph: TemporalGraph) -> float:
    """How likely the longest silence is that X leaves behind: the share of silences in the log that are as long.

    A silence lies between two successive events of a node; those that X leaves end with the next event that is kept,
    or with the link. (1 + number at least as long) / (1 + number), the least over the nodes of X; 1 for an empty X.

    Args:
        answer: The explanation.
        graph: The log that it is about.
    """
    event, removed = _event(answer), frozenset(answer.rows)
    usual = np.sort(_silences(graph, event))
    left = [silence for node in _nodes(graph, answer.rows) for silence in _left_behind(graph, node, event, removed)]
    if not left:
        return 1.0
    longer = len(usual) - np.searchsorted(usual, max(left))
    return float(1 + longer) / (1 + len(usual))


def degree_likelihood(answer: NamesEvents, graph: TemporalGraph) -> float:
    """How likely it is that a node has as few events as X leaves it: the share of nodes with as few, the least over X.

    (1 + number of nodes with at most as many) / (1 + number of nodes), before the link; 1 for an empty X.

    Args:
        answer: The explanation.
        graph: The log that it is about.
    """
    event, removed = _event(answer), frozenset(answer.rows)
    nodes = _nodes(graph, answer.rows)
    if not nodes:
        return 1.0
    counts = np.bincount(np.concatenate([graph.src[:event], graph.dst[:event]]), minlength=graph.num_nodes)
    left = min(len(set(graph.history(node, event).tolist()) - removed) for node in nodes)
    known = counts[counts > 0]
    return float(1 + np.count_nonzero(known <= left)) / (1 + len(known))


class RobustFidelity(NamedTuple):
    """Fidelity under random partial removals; both are shares of the samples."""

    plus: float  # the decision changes without a random part of X
    minus: float  # it stays without a random part of the other candidates


def robust_fidelity(
    answer: NamesEvents,
    candidates: IntArray,
    model: Model,
    graph: TemporalGraph,
    rng: np.random.Generator,
    *,
    share: float = SHARE,
    samples: int = SAMPLES,
) -> RobustFidelity:
    """Fidelity+ and fidelity- where each event is removed with a probability, instead of all at once.

    plus: P(the decision changes without a random part of X); minus: P(it stays without a random part of C \\ X).
    Removing everything makes histories that a model has never seen; removing parts does so less.

    Args:
        answer: The explanation.
        candidates: The events that it could have named.
        model: The model that was explained.
        graph: The log that it is about.
        rng: Draws the removed events.
        share: The probability of each event to be removed.
        samples: Random removals of each of both kinds.
    """
    if not 0 < share <= 1 or samples < 1:
        raise CallError(f"share must be above 0 and at most 1, and samples at least 1, not {share} and {samples}")
    query, named = graph.query(_event(answer)), np.array(answer.rows, dtype=np.int64)
    others = np.setdiff1d(candidates, named)
    parts = [(rows, drawn) for rows in (named, others) for drawn in rng.random((samples, len(rows))) < share]
    changes: list[Change] = [frozenset(), *(frozenset(rows[drawn].tolist()) for rows, drawn in parts)]
    original, *logits = checked_logits(query, changes, open_session(model, query).logits(changes))
    changed = [flips(original, logit) for logit in logits]
    return RobustFidelity(float(np.mean(changed[:samples])), 1 - float(np.mean(changed[samples:])))


def _event(answer: NamesEvents) -> int:
    if answer.event is None:
        raise CallError("these checks are about explanations of events of the log, not of other links")
    return int(answer.event)


def _nodes(graph: TemporalGraph, rows: tuple[int, ...]) -> list[int]:
    named = list(rows)
    return sorted({*graph.src[named].tolist(), *graph.dst[named].tolist()})


def _silences(graph: TemporalGraph, event: int) -> FloatArray:
    """The times between successive events of a node, over all nodes, before an event."""
    node = np.concatenate([graph.src[:event], graph.dst[:event]])
    time = np.tile(graph.time[:event], 2)
    order = np.lexsort([time, node])
    same = node[order][1:] == node[order][:-1]
    return np.asarray(np.diff(time[order])[same])


def _left_behind(graph: TemporalGraph, node: int, event: int, removed: Change) -> Iterator[float]:
    """The silences of a node that contain a removed event; before its first event, from the start of the log."""
    begun, interrupted = float(graph.time[0]), False
    for row in [*graph.history(node, event).tolist(), event]:
        if row in removed:
            interrupted = True
        else:
            if interrupted:
                yield float(graph.time[row]) - begun
            begun, interrupted = float(graph.time[row]), False
