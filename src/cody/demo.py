"""The first thing a newcomer runs: real links, a trained model, and the past event that matters most."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from cody.data import load
from cody.graph import FloatArray, IntArray, TemporalGraph
from cody.inference import load_model
from cody.what_if import Effects, effects

DATA, MODEL = "collegemsg", "tgn-collegemsg"
PERIOD = 0.9  # the demo looks at links from here on: well within the test period


class Demo(NamedTuple):
    """Some links of the last weeks with their logits, and one of them that hangs on a single past event."""

    graph: TemporalGraph
    rows: IntArray  # [n] links that happened
    logits: FloatArray  # [n]
    chosen: Effects


def run_demo(links: int = 6) -> Demo:
    """Score a few links of the test period; then look for the first predicted one that a single event decides."""
    graph = load(DATA)
    model = load_model(MODEL, graph)
    rows = int(PERIOD * graph.num_events) + np.arange(links)
    logits = np.array([model.logits(graph.query(row), [frozenset()])[0] for row in rows.tolist()])
    predicted = (effects(model, graph, graph.query(row)) for row in range(int(rows[0]), graph.num_events))
    chosen = next(found for found in predicted if found.logit > 0 and found.without.min() < 0)
    return Demo(graph, rows, logits, chosen)
