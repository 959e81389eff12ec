"""How long an explanation of a DyGLib model takes; in one run, on one thread.

    python bench/dyglib_models.py PATH/TO/DyGLib --links 5

The models have the library's usual sizes and random weights: how long an answer takes does not depend on them. Seconds
are those of the processor, since others may use the machine too.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import time
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import torch

import cody
from cody.adapters import dyglib
from cody.errors import ProbabilityWarning


def models(clone: Path, graph: cody.TemporalGraph) -> dict[str, tuple[Any, dict[str, Any]]]:
    """The backbones, and what each of them is asked with."""
    sys.path.insert(0, str(clone))
    from models.GraphMixer import GraphMixer
    from models.TGAT import TGAT

    tables = np.zeros((graph.num_nodes + 1, 172), np.float32), np.zeros((graph.num_events + 1, 172), np.float32)
    tables[0][:] = np.random.default_rng(0).normal(size=tables[0].shape)
    sampler = dyglib.PastSampler(None)
    return {
        "TGAT": (TGAT(*tables, sampler, 100, num_layers=2, num_heads=2), {"num_neighbors": 20}),
        "GraphMixer": (GraphMixer(*tables, sampler, 100, num_tokens=30), {"num_neighbors": 30, "time_gap": 2000}),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("clone", type=Path)
    parser.add_argument("--links", type=int, default=5)
    options = parser.parse_args()
    torch.set_num_threads(1)
    torch.manual_seed(0)
    warnings.simplefilter("ignore", ProbabilityWarning)
    graph = cody.load("collegemsg")
    rows = np.random.default_rng(0).choice(
        np.arange(graph.num_events * 85 // 100, graph.num_events), options.links, replace=False
    )
    found = {}
    for name, (backbone, asked) in models(options.clone, graph).items():
        from models.modules import MergeLayer

        model = dyglib.wrap(backbone, MergeLayer(172, 172, 172, 1), data=graph, hops=2, **asked)
        times = []
        for row in rows.tolist():
            began = time.process_time()
            why = cody.explain(model, graph, graph.query(row))
            times.append(time.process_time() - began)
            print(f"{name} {row}: {times[-1]:.2f} s, {why.evaluations} sets", file=sys.stderr, flush=True)
        found[name] = {"median": statistics.median(times), "slowest": max(times), "links": len(times)}
    print(json.dumps(found, indent=2))


if __name__ == "__main__":
    main()
