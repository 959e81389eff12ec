"""Models of DyGLib: whether their links get the scores of the library's own batches, and how long an explanation takes.

    python bench/dyglib_models.py PATH/TO/DyGLib --links 5

The models have the library's usual sizes and random weights: how long an answer takes does not depend on them. Those
with memory are asked about the first events of the log only, since the library's own loop is slow. Seconds are those of
the processor on one thread, since others may use the machine too.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import time
import warnings
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import torch

import cody
from cody.adapters import dyglib
from cody.errors import ProbabilityWarning
from cody.graph.neighbourhood import events_on_paths

WIDTH, TIME, BATCH = 172, 100, 200
SHORT = 3_000  # events of models with memory
OPTIONS: dict[str, Any] = {"size": 64, "near": events_on_paths, "evaluations": 300}  # so that figures stay comparable


def models(graph: cody.TemporalGraph, short: cody.TemporalGraph, chosen: list[str]) -> Iterator[tuple[str, Any, Any]]:
    """The name of each, a function that makes it, and what it is asked with."""
    from models.CAWN import CAWN
    from models.DyGFormer import DyGFormer
    from models.GraphMixer import GraphMixer
    from models.MemoryModel import MemoryModel, compute_src_dst_node_time_shifts
    from models.TCL import TCL
    from models.TGAT import TGAT

    def with_memory(name: str) -> Any:
        shifts = compute_src_dst_node_time_shifts(short.src, short.dst, short.time)  # means and deviations
        return lambda: MemoryModel(*tables(short), None, TIME, name, 1, 2, 0.1, *shifts)

    made = {
        "TGAT": (lambda: TGAT(*tables(graph), None, TIME, num_layers=2), {"num_neighbors": 20}),
        "GraphMixer": (lambda: GraphMixer(*tables(graph), None, TIME, 30), {"num_neighbors": 30, "time_gap": 2000}),
        "DyGFormer": (lambda: DyGFormer(*tables(graph), None, TIME, 50, max_input_sequence_length=32), {}),
        "TCL": (lambda: TCL(*tables(graph), None, TIME, num_depths=21), {"num_neighbors": 20}),
        "CAWN": (lambda: CAWN(*tables(graph), None, TIME, WIDTH, walk_length=1), {"num_neighbors": 32}),
        "TGN": (with_memory("TGN"), {"num_neighbors": 10}),
        "DyRep": (with_memory("DyRep"), {"num_neighbors": 10}),
        "JODIE": (with_memory("JODIE"), {"num_neighbors": 10}),
    }
    for name in chosen or made:
        yield name, *made[name]


def tables(graph: cody.TemporalGraph) -> tuple[Any, Any]:
    """Features of nodes and events, none of node 0 and event 0."""
    rng = np.random.default_rng(0)
    made = rng.normal(0, 0.3, (graph.num_nodes + 1, WIDTH)), rng.normal(0, 0.3, (graph.num_events + 1, WIDTH))
    for table in made:
        table[0] = 0.0
    return made


@torch.no_grad()
def own_scores(backbone: Any, predictor: Any, graph: cody.TemporalGraph, first: int, options: Any) -> Any:
    """The scores of a batch as the library's loop has them, whose memory is fed from row 0."""
    from utils.utils import get_neighbor_sampler

    columns = {"src_node_ids": graph.src.astype(int) + 1, "dst_node_ids": graph.dst.astype(int) + 1}
    columns |= {"node_interact_times": graph.time.astype(float), "edge_ids": np.arange(graph.num_events) + 1}
    sampler = get_neighbor_sampler(SimpleNamespace(**columns), "recent", seed=0)
    for module in backbone.modules():
        if hasattr(module, "neighbor_sampler"):
            module.neighbor_sampler = sampler
    memory = hasattr(backbone, "memory_bank")
    for begin in range(0 if memory else first, first + 1, BATCH):
        batch = {
            name: column[begin : begin + BATCH] for name, column in columns.items() if memory or name != "edge_ids"
        }
        embedded = backbone.compute_src_dst_node_temporal_embeddings(**batch, **options)
    return predictor(*embedded).numpy().ravel()


def measure(
    name: str, make: Any, options: Any, graph: cody.TemporalGraph, links: int, hops: int | None
) -> dict[str, Any]:
    from models.modules import MergeLayer

    torch.manual_seed(0)
    backbone, predictor = make().eval(), MergeLayer(WIDTH, WIDTH, WIDTH, 1).eval()
    model = dyglib.wrap(backbone, predictor, data=graph, batch=BATCH, splits=(), hops=hops, **options)
    first = graph.num_events * 9 // 10 // BATCH * BATCH
    own = own_scores(backbone, predictor, graph, first, options)
    here = [model.logits(graph.query(row), [frozenset()])[0] for row in range(first, first + BATCH)]
    rows = np.random.default_rng(0).choice(np.arange(graph.num_events * 85 // 100, graph.num_events), links, False)
    times, found = [], 0
    for row in rows.tolist():
        began = time.process_time()
        why = cody.explain(model, graph, graph.query(row), **OPTIONS)
        times.append(time.process_time() - began)
        found += why.is_counterfactual
        print(f"{name} {row}: {times[-1]:.2f} s, {why.evaluations} sets", file=sys.stderr, flush=True)
    difference = float(np.abs(own - here).max())
    seconds = {"median": statistics.median(times), "slowest": max(times), "links": len(times), "counterfactuals": found}
    return {"hops": model.hops, "events": graph.num_events, "worst difference": difference} | seconds


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("clone", type=Path)
    parser.add_argument("--links", type=int, default=5)
    parser.add_argument("--models", nargs="*", default=[])
    parser.add_argument(
        "--hops", type=int, help="look for candidates that far away, instead of as far as a model looks"
    )
    options = parser.parse_args()
    sys.path.insert(0, str(options.clone))
    torch.set_num_threads(1)
    warnings.simplefilter("ignore", ProbabilityWarning)
    graph = cody.load("collegemsg")
    short = graph.select(np.arange(SHORT))
    found = {}
    for name, make, asked in models(graph, short, options.models):
        with_memory = name in ("TGN", "DyRep", "JODIE")
        found[name] = measure(name, make, asked, short if with_memory else graph, options.links, options.hops)
    print(json.dumps(found, indent=2))


if __name__ == "__main__":
    main()
