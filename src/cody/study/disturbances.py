"""What an explanation should survive, and what it should not: the same links explained once more, with one difference.

An explanation of a model whose weights are random should be another one; with another seed, with times that are
slightly off, or with an unrelated event just before the link, it should be the same. The similarity of both is
|X ∩ Y| / |X ∪ Y|, 1 if both are empty.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from cody.data.mechanisms import PERSON, PlantedCauses
from cody.graph import FloatArray, IntArray, TemporalGraph
from cody.models.margins import flips
from cody.study.metrics import similarity
from cody.study.record import Record
from cody.utils.signatures import readable_help

JITTER = 0.1  # of the time to the next event
SAME, RANDOMISED, RETRAINED = "same", "randomised", "retrained"


class MovedLog(NamedTuple):
    """A log like another one, and where each row of that one is now."""

    graph: TemporalGraph
    rows: IntArray  # [E] of the old log → row of the new one


def unchanged(made: PlantedCauses) -> MovedLog:
    """The log itself."""
    return MovedLog(made.graph, np.arange(made.graph.num_events))


@readable_help
@dataclass(frozen=True, slots=True)
class Disturbance:
    """One difference: of the log, of the model, or of the seed."""

    name: str
    meaning: str
    should_differ: bool = False
    log: Callable[[PlantedCauses], MovedLog] = unchanged
    model: str = SAME  # or RANDOMISED, or RETRAINED
    seed: int = 0  # is added to that of the explainers


def jittered(made: PlantedCauses) -> MovedLog:
    """The log with each time moved by up to a tenth of the time to its neighbours, so that the order is the same."""
    graph, rng = made.graph, np.random.default_rng(0)
    gaps = np.diff(graph.time, prepend=graph.time[0], append=graph.time[-1])
    moves = rng.uniform(-1, 1, graph.num_events)
    moved = graph.time + JITTER * moves * np.where(moves < 0, gaps[:-1], gaps[1:])
    return MovedLog(_log(graph, graph.src, graph.dst, moved), np.arange(graph.num_events))


def with_unrelated_events(made: PlantedCauses) -> MovedLog:
    """The log with one event added just before each link of interest, between two unrelated persons.

    They are the two persons, other than those of the link, whose own next link of interest is furthest away.
    """
    graph = made.graph
    assert graph.node_features is not None
    persons = np.flatnonzero(graph.node_features[:, PERSON])
    links = np.array(sorted(made.ways))
    pairs = []
    for link in links.tolist():
        later = links[links >= link][::-1]  # the last first, so that the next one is what stays
        due = dict.fromkeys(persons.tolist(), np.inf)
        for row in later.tolist():
            due[int(graph.src[row])] = due[int(graph.dst[row])] = graph.time[row]
        pairs.append(sorted(persons.tolist(), key=lambda person, due=due: -due[person])[:2])  # type: ignore[misc]
    src, dst = np.array(pairs).T
    time = (graph.time[links] + graph.time[links - 1]) / 2
    rows = np.arange(graph.num_events) + np.searchsorted(links, np.arange(graph.num_events), side="right")
    columns = zip((graph.src, graph.dst, graph.time), (src, dst, time), strict=True)
    return MovedLog(_log(graph, *(np.insert(old, links, new) for old, new in columns)), rows)


def _log(graph: TemporalGraph, src: IntArray, dst: IntArray, time: FloatArray) -> TemporalGraph:
    return TemporalGraph.from_arrays(src, dst, time, node_features=graph.node_features, names=graph.names)


_EVERY = (
    Disturbance("weights", "similarity to that of a model with random weights, better low", True, model=RANDOMISED),
    Disturbance("seed", "similarity with another seed, better high, as of all that follow", seed=1),
    Disturbance("jitter", "similarity with times moved by up to a tenth of their distances", log=jittered),
    Disturbance("unrelated", "similarity with an unrelated event just before the link", log=with_unrelated_events),
    Disturbance("training", "similarity with another seed of the training", model=RETRAINED),
)
DISTURBANCES = {each.name: each for each in _EVERY}


def similarities(
    records: Sequence[Record], others: Sequence[Record], moved: IntArray, disturbance: Disturbance
) -> dict[tuple[str, int], float]:
    """The similarity of each explanation to that of the same link under a disturbance, by explainer and event.

    Where a disturbance should not matter, links that the model decides differently do not count.

    Args:
        records: Explanations.
        others: Those under the disturbance.
        moved: Where the rows of the log are in that of the others.
        disturbance: What is different.
    """
    there: Mapping[tuple[str, int], Record] = {(other.explainer, other.event): other for other in others}
    found = {}
    for record in records:
        other = there.get((record.explainer, int(moved[record.event])))
        if other is None or (not disturbance.should_differ and flips(record.original, other.original)):
            continue
        found[record.explainer, record.event] = similarity(moved[list(record.rows)].tolist(), other.rows)
    return found
