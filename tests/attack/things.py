"""Odd graphs, networks, queries and removal sets, all drawn from one generator."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from cody.engine import FastTGAT, FastTGN
from cody.engine.weights import Weights
from cody.graph import FloatArray, Query, TemporalGraph
from cody.graph.edits import Add, Alter, Edit, Move
from cody.models.contract import Change
from random_events import random_graph, random_network

Generator = np.random.Generator


def odd_times(rng: Generator, events: int) -> FloatArray:
    """Non-decreasing times of all sorts: equal, negative, fractional, with huge gaps, in nanoseconds."""
    made = {
        "equal": lambda: np.full(events, float(rng.integers(-5, 5))),
        "negative": lambda: rng.normal(-1e6, 1e5, events),
        "fractional": lambda: rng.random(events),
        "tiny steps": lambda: 1e9 + rng.integers(0, 3, events) * 1e-6,
        "unix": lambda: 1.7e9 + rng.integers(0, 10**7, events),
        "milliseconds": lambda: 1.7e12 + rng.integers(0, 10**9, events),
        "nanoseconds": lambda: 1.7e18 + rng.integers(0, 10**15, events),
        "gaps": lambda: 10.0 ** rng.integers(-3, 16, events),
        "around zero": lambda: rng.integers(-2, 3, events) * 1.0,
        "huge": lambda: rng.choice([-1e19, 0.0, 1e19], events),
    }
    kind = str(rng.choice(list(made)))
    return np.sort(made[kind]())


def odd_graph(rng: Generator, *, most: int = 150) -> TemporalGraph:
    """Self-loops, hubs, isolated nodes and repeated edges occur; so do graphs of one event."""
    nodes, events = int(rng.choice([2, 3, 8, 20, 40])), int(rng.choice([1, 2, 12, 60, most]))
    usual = random_graph(
        rng,
        nodes=nodes,
        events=events,
        edge_features=int(rng.choice([0, 0, 1, 3])),
        node_features=int(rng.choice([0, 0, 2, 6])),
        bipartite=bool(rng.integers(2)),
    )
    src, dst = usual.src.copy(), usual.dst.copy()
    if rng.random() < 0.4:  # a hub
        src[rng.random(events) < 0.7] = rng.integers(nodes)
    if rng.random() < 0.3:  # more self-loops
        loops = rng.random(events) < 0.3
        dst[loops] = src[loops]
    return TemporalGraph.from_arrays(
        src,
        dst,
        usual.time if rng.random() < 0.3 else odd_times(rng, events),
        features=usual.features,
        node_features=usual.node_features,
        num_nodes=usual.num_nodes,
    )


def odd_network(rng: Generator, graph: TemporalGraph, kind: str | None = None) -> Any:
    sizes = {
        "layers": int(rng.choice([1, 2, 2, 3])),
        "heads": int(rng.choice([1, 2, 4])),
        "dimension": int(rng.choice([6, 8, 12])),
        "neighbours": int(rng.choice([1, 2, 5, 20])),
        "batch": int(rng.choice([1, 2, 7, 50, 500])),
    }
    chosen = kind or str(rng.choice(["tgn", "tgat"]))
    return random_network(graph, chosen, seed=int(rng.integers(10**6)), **sizes)


def odd_query(rng: Generator, graph: TemporalGraph) -> Query:
    """An event, or a link that did not happen, at the start, at the end or between, perhaps long after the last."""
    rows = [0, graph.num_events - 1, *rng.integers(0, graph.num_events, 3)]
    if rng.random() < 0.4:
        return graph.query(int(rng.choice(rows)))
    before = int(rng.choice([*rows, graph.num_events]))
    latest = float(graph.time[before - 1]) if before else float(graph.time[0])
    later = float(rng.choice([0.0, 0.0, 0.5, 3600.0, 1e9]))
    src, dst = rng.integers(0, graph.num_nodes, 2).tolist()
    return Query(src, dst, min(latest + later, 1e19), before)


def odd_edits(rng: Generator, graph: TemporalGraph) -> list[Edit]:
    """Events more, moved and altered, anywhere in time; some stand for the same event."""
    first, last = float(graph.time[0]), float(graph.time[-1])
    edits: list[Edit] = []
    for _ in range(int(rng.integers(1, 8))):
        row = int(rng.integers(graph.num_events))
        when = float(rng.choice([graph.time[row], rng.uniform(first, last), first - 1.0, last + 1.0]))
        features = None if graph.features is None else rng.normal(size=graph.features.shape[1]).tolist()
        kind = rng.integers(3)
        if kind == 0:
            src, dst = rng.integers(0, graph.num_nodes, 2).tolist()
            edits.append(Add(src, dst, when, features if rng.random() < 0.5 else None))
        elif kind == 1 or features is None:
            edits.append(Move(row, when))
        else:
            edits.append(Alter(row, features))
    return edits


def odd_changes(rng: Generator, graph: TemporalGraph, query: Query, count: int = 6) -> list[Change]:
    """From nothing to everything, also of rows that the query does not see, and of imagined ones."""
    sets: list[Change] = [frozenset(), frozenset(range(graph.num_rows)), frozenset(range(query.before))]
    near = np.arange(max(0, query.before - 20), query.before)
    imagined = np.arange(graph.num_events, graph.num_rows)
    for size in rng.integers(0, 9, count).tolist():
        rows = near if rng.random() < 0.6 and len(near) else np.arange(graph.num_rows)
        chosen = rng.choice(rows, min(size, len(rows)), replace=False).tolist()
        chosen += rng.choice(imagined, int(rng.integers(len(imagined) + 1)), replace=False).tolist()
        sets.append(frozenset(chosen))
    return [sets[place] for place in rng.permutation(len(sets))]


def double_engine(network: Any, graph: TemporalGraph, _: Path | None = None) -> FastTGN | FastTGAT:
    """In double precision throughout, rounding cannot hide a mistake."""
    weights = Weights.of(network)
    if weights.has_memory:
        return FastTGN(weights, graph, dtype=np.float64, table_dtype=np.float64)
    return FastTGAT(weights, graph, dtype=np.float64)
