"""Temporal motifs: up to three past events that hang together and end at a node of a link, the latest first.

Event 1 touches an end of the link, event 2 is earlier and touches event 1, event 3 is earlier still and lies among the
nodes of the other two. TempME gives importance to motifs, and through them to the events they consist of.

`end` is the end of the link, `other` the other node of event 1, `third` the node that event 2 brings in:

    event 2   the same pair as event 1 | end and third | other and third
    event 3   none | end and other | end and third | other and third

These are 12 kinds. An event 1 that nothing precedes is a motif of its own, of the 13th kind.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from cody.graph import BoolArray, FloatArray, IntArray, Query, TemporalGraph

MISSING = -1  # in place of an event
KINDS = 13
ALONE = 12  # the kind of a single event

FIRST, DRAWS = 20, 3  # events 1 for each end of a link; events 2 for each of them


class Motifs(NamedTuple):
    """The motifs of one link."""

    events: IntArray  # [M, 3] places among the candidates, the latest first; MISSING where there is none
    kind: IntArray  # [M]


def sample_motifs(
    graph: TemporalGraph,
    query: Query,
    events: IntArray,
    rng: np.random.Generator,
    *,
    first: int = FIRST,
    draws: int = DRAWS,
) -> Motifs:
    """Motifs among the candidates of a link, which must be in the order of time.

    Each of the latest `first` candidates at an end of the link is event 1 of up to `draws` motifs.
    """
    return _sample(graph.src[events], graph.dst[events], query, rng, first, draws)


def null_frequencies(
    graph: TemporalGraph, queries: Sequence[Query], events: Sequence[IntArray], rng: np.random.Generator
) -> FloatArray:
    """How frequent each kind would be by chance: the candidates of a link keep their times and swap destinations.

    Every link counts the same. One motif of each kind is added, so that no frequency is 0. [KINDS]
    """
    total, links = np.ones(KINDS) / KINDS, 1
    for query, rows in zip(queries, events, strict=True):
        _, kind = _sample(graph.src[rows], rng.permutation(graph.dst[rows]), query, rng, FIRST, DRAWS)
        if len(kind):
            total, links = total + np.bincount(kind, minlength=KINDS) / len(kind), links + 1
    return total / links


def _sample(src: IntArray, dst: IntArray, query: Query, rng: np.random.Generator, first: int, draws: int) -> Motifs:
    found: list[tuple[int, int, int]] = []
    kinds: list[int] = []
    for end in dict.fromkeys((query.src, query.dst)):
        latest = np.flatnonzero((src == end) | (dst == end))[::-1][:first]
        for one in latest.tolist():
            for two in _draw(_touching(src[:one], dst[:one], (src[one], dst[one])), draws, rng):
                nodes = (src[one], dst[one], src[two], dst[two])
                three = _draw(_among(src[:two], dst[:two], nodes), 1, rng)[0] if two != MISSING else MISSING
                found.append((one, two, three))
                kinds.append(kind_of(end, _pair(src, dst, one), _pair(src, dst, two), _pair(src, dst, three)))
    return Motifs(np.array(found, dtype=np.int64).reshape(-1, 3), np.array(kinds, dtype=np.int64))


def _touching(src: IntArray, dst: IntArray, nodes: Sequence[int]) -> IntArray:
    """The places of events with an end among the nodes."""
    return np.flatnonzero(_is_one_of(src, nodes) | _is_one_of(dst, nodes))


def _among(src: IntArray, dst: IntArray, nodes: Sequence[int]) -> IntArray:
    """The places of events with both ends among the nodes."""
    return np.flatnonzero(_is_one_of(src, nodes) & _is_one_of(dst, nodes))


def _is_one_of(ends: IntArray, nodes: Sequence[int]) -> BoolArray:
    return (ends[:, None] == np.array(nodes)).any(axis=1)


def _draw(places: IntArray, count: int, rng: np.random.Generator) -> list[int]:
    """Up to `count` different ones; MISSING if there is none."""
    drawn: list[int] = rng.permutation(places)[:count].tolist()
    return drawn or [MISSING]


def _pair(src: IntArray, dst: IntArray, place: int) -> set[int]:
    return set() if place == MISSING else {int(src[place]), int(dst[place])}


def kind_of(end: int, one: set[int], two: set[int], three: set[int]) -> int:
    """The kind of a motif whose events connect these nodes: two each, one if it begins where it ends, none if missing.

    >>> a, b, c = 0, 1, 2
    >>> kind_of(a, {a, b}, set(), set()), kind_of(a, {a, b}, {a, b}, set()), kind_of(a, {a, b}, {b, c}, {a, c})
    (12, 0, 10)
    """
    if not two:
        return ALONE
    shape = 0 if two == one else 1 if end in two else 2
    if not three:
        return 4 * shape
    third = two - one
    place = 1 if three <= one else 2 if three <= {end} | third else 3
    return 4 * shape + place
