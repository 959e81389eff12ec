"""Time to save, open and ask a graph of many events, hubs included.

python bench/graph_scale.py [--events 10_000_000] [--nodes 1_000_000]
"""

from __future__ import annotations

import argparse
import resource
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from cody.data import open_graph, save_graph
from cody.data.storage import TICK
from cody.graph import Query, TemporalGraph
from cody.graph.neighbourhood import candidates, events_among_nodes, events_on_paths


def power_law_ends(events: int, nodes: int, rng: np.random.Generator) -> list[np.ndarray]:
    """Events between nodes whose share of the events falls as 1 / rank^0.8: the first node has a few per cent."""
    weights = np.arange(1, nodes + 1) ** -0.8
    cumulative = np.cumsum(weights / weights.sum())
    names = rng.permutation(nodes)
    return [names[np.searchsorted(cumulative, rng.random(events)).clip(max=nodes - 1)] for _ in range(2)]


def timed(action: Callable[[], Any]) -> tuple[Any, float]:
    start = time.perf_counter()
    return action(), time.perf_counter() - start


def report(what: str, actions: list[Callable[[], Any]]) -> None:
    """Median and maximum, in wall time and in processor time: on a busy machine only the second is meaningful."""
    wall, processor = [], []
    for action in actions:
        start = time.process_time()
        wall.append(timed(action)[1] * 1e3)
        processor.append((time.process_time() - start) * 1e3)
    figures = "   ".join(f"{np.median(ms):8.3f} {max(ms):8.3f}" for ms in (wall, processor))
    print(f"{what:44s} {figures}")


def ask(graph: TemporalGraph, what: str, queries: list[Query]) -> None:
    for query in queries:  # once before timing, so that the disk is not measured
        candidates(graph, query, near=events_among_nodes)
    print(f"\n{what:44s} {'wall ms: median, max':>17s} {'processor ms':>18s}")
    report("history", [partial(graph.history, query.src, query.before) for query in queries])
    pairs = [(np.array([query.src, query.dst]), query.before) for query in queries]
    report("recent 20 of both nodes", [partial(graph.recent, nodes, before, 20) for nodes, before in pairs])
    for near in (events_on_paths, events_among_nodes):
        report(f"candidates, {near.__name__}", [partial(candidates, graph, query, near=near) for query in queries])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--events", type=int, default=10_000_000)
    parser.add_argument("--nodes", type=int, default=1_000_000)
    parser.add_argument("--queries", type=int, default=100)
    sizes = parser.parse_args()
    rng = np.random.default_rng(0)
    src, dst = power_law_ends(sizes.events, sizes.nodes, rng)
    when = np.arange(sizes.events, dtype=np.float64)
    built, seconds = timed(lambda: TemporalGraph.from_arrays(src, dst, when, num_nodes=sizes.nodes))
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    print(f"{built}: built in {seconds:.1f} s, peak memory with the generated columns {peak:.2f} GiB")
    with tempfile.TemporaryDirectory() as folder:
        saved = Path(folder) / "graph"
        print(f"save {timed(lambda: save_graph(built, saved))[1]:.2f} s")
        time.sleep(TICK)  # files that were just written are checked again
        first, again = timed(lambda: open_graph(saved))[1], timed(lambda: open_graph(saved))[1]
        print(f"open {first * 1e3:.1f} ms, computing checksums; then {again * 1e3:.1f} ms")
        graph = open_graph(saved)
        late = rng.integers(sizes.events // 2, sizes.events, size=sizes.queries)
        ask(graph, "events", [graph.query(int(row)) for row in late])
        degrees = np.diff(graph.offsets)
        hubs, leaves = np.argsort(-degrees)[:20], np.flatnonzero(degrees <= 3)
        print(f"hubs have {degrees[hubs[-1]]:,} to {degrees[hubs[0]]:,} events")
        ask(graph, "hub to hub", [questions(graph, rng, hubs, hubs, int(row)) for row in late])
        ask(graph, "leaf to leaf", [questions(graph, rng, leaves, leaves, int(row)) for row in late])
        ask(graph, "hub to leaf", [questions(graph, rng, hubs, leaves, int(row)) for row in late])


def questions(
    graph: TemporalGraph, rng: np.random.Generator, sources: np.ndarray, destinations: np.ndarray, before: int
) -> Query:
    return Query(int(rng.choice(sources)), int(rng.choice(destinations)), float(graph.time[before]), before)


if __name__ == "__main__":
    main()
