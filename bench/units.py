"""What units cost: explanations of the busiest source and destination of a log, by event, pair, node and session.

    python bench/units.py --data wikipedia --model runs/tgn-wikipedia --json > units.json

CPU seconds and peak memory of a process of its own for each explanation; memory beyond that of a process that loads
the same data and model and scores the link.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import resource
import time
from typing import Any

import numpy as np

import cody
from cody.graph import TemporalGraph
from cody.graph.units import named_kind

KINDS = (None, "event", "pair", "node", "session")


def busiest(graph: TemporalGraph, column: np.ndarray) -> tuple[int, int]:
    """The node with the most events in a column, and its last event."""
    node = int(np.bincount(column[: graph.num_events]).argmax())
    return node, int(graph.history(node, graph.num_events)[-1])


def explained(data: str, model: str, row: int, kind: str | None) -> dict[str, Any]:
    """One explanation, in this process. Without a kind, the link is only scored."""
    graph = cody.load(data)
    loaded = cody.load_model(model, graph)
    query = graph.query(row)
    loaded.logits(query, [frozenset()])
    if kind is None:
        return {"MiB": peak()}
    begun = time.process_time()
    why = cody.explain(loaded, graph, query, by=named_kind(kind))
    return {
        "seconds": round(time.process_time() - begun, 1),
        "MiB": peak(),
        "candidates": len(why.candidates),
        "events": len(why.change_of(event.row for event in why.candidates)),
        "largest": max((len(unit.rows) for unit in why.units), default=1),
        "evaluations": why.evaluations,
        "verdict": why.verdict,
        "size": len(why.rows),
    }


def peak() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", default="wikipedia")
    parser.add_argument("--model", default="runs/tgn-wikipedia")
    parser.add_argument("--json", action="store_true")
    given = parser.parse_args()
    graph = cody.load(given.data)
    lines = []
    for what, column in (("source", graph.src), ("destination", graph.dst)):
        node, row = busiest(graph, column)
        base = 0
        for kind in KINDS:
            with multiprocessing.get_context("spawn").Pool(1) as pool:
                found = pool.apply(explained, (given.data, given.model, row, kind))
            base = found["MiB"] if kind is None else base
            line = {"busiest": what, "node": graph.name(node), "event": row, "by": kind, **found}
            lines.append(line | {"MiB": found["MiB"] - base})
            if kind is not None and not given.json:
                print(lines[-1], flush=True)
    if given.json:
        print(json.dumps([line for line in lines if line["by"] is not None], indent=1))


if __name__ == "__main__":
    main()
