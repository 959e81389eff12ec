"""Statistics of a data set, as in the paper's table."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from cody.graph import BoolArray, TemporalGraph

SECONDS_PER_DAY = 86_400


@dataclass(frozen=True, slots=True)
class DataSummary:
    nodes: int  # with at least one event
    events: int
    unique_edges: int  # distinct pairs (source, destination): a → b and b → a are two
    days: float  # from the first event to the last, if times are seconds
    simultaneous: float  # share of events that share source and time with another event
    kind: str  # "bipartite" where no node is both a source and a destination, else "unipartite"
    event_features: int
    node_features: int
    first_time: float
    last_time: float
    event_name: str  # what one event is called
    labels: dict[str, int] | None  # events of each class; None: events have no labels


def summarise(graph: TemporalGraph) -> DataSummary:
    """The statistics of a graph.

    >>> graph = TemporalGraph.from_arrays(src=[0, 1, 0], dst=[2, 2, 2], time=[0.0, 43_200.0, 86_400.0])
    >>> summary = summarise(graph)
    >>> summary.nodes, summary.events, summary.unique_edges, summary.days, summary.kind
    (3, 3, 2, 1.0, 'bipartite')
    """
    sources, destinations = np.zeros((2, graph.num_nodes), dtype=bool)
    sources[graph.src] = True
    destinations[graph.dst] = True
    first, last = float(graph.time[0]), float(graph.time[-1])
    return DataSummary(
        nodes=int((sources | destinations).sum()),
        events=graph.num_events,
        unique_edges=_unique_edges(graph),
        days=(last - first) / SECONDS_PER_DAY,
        simultaneous=_simultaneous(graph),
        kind="unipartite" if (sources & destinations).any() else "bipartite",
        event_features=0 if graph.features is None else graph.features.shape[1],
        node_features=0 if graph.node_features is None else graph.node_features.shape[1],
        first_time=first,
        last_time=last,
        event_name=graph.name_of_event(),
        labels=_labels(graph),
    )


def _labels(graph: TemporalGraph) -> dict[str, int] | None:
    if graph.labels is None or graph.label_names is None:
        return None
    counts = np.bincount(graph.labels[graph.labels >= 0], minlength=len(graph.label_names))
    return dict(zip(graph.label_names, counts.tolist(), strict=True))


def _simultaneous(graph: TemporalGraph) -> float:
    """The share of events that share source and time with another event.

    >>> _simultaneous(TemporalGraph.from_arrays(src=[0, 0, 1, 0], dst=[1, 2, 2, 1], time=[1.0, 1.0, 1.0, 2.0]))
    0.5
    """
    time = graph.time[: graph.num_events]
    rows = np.flatnonzero(_with_the_one_before(time[1:] == time[:-1]))  # others have a time of their own
    rows = rows[np.lexsort((graph.src[rows], graph.time[rows]))]
    same = (np.diff(graph.src[rows]) == 0) & (np.diff(graph.time[rows]) == 0)
    return float(_with_the_one_before(same).sum() / graph.num_events)


def _with_the_one_before(same: BoolArray) -> BoolArray:
    """Which events have a neighbour like them, from which are like the one before. [E - 1] → [E]"""
    found: BoolArray = np.append(same, False) | np.append(False, same)
    return found


def _unique_edges(graph: TemporalGraph) -> int:
    pairs = graph.src.astype(np.int64)
    pairs *= graph.num_nodes
    pairs += graph.dst
    pairs.sort()  # in place, because there may be many
    return 1 + int((pairs[1:] != pairs[:-1]).sum())
