"""The first thing a newcomer runs: real links, a trained model, and the past event that matters most."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from cody.data import load
from cody.graph import FloatArray, IntArray, Query, TemporalGraph, candidates
from cody.inference import load_model
from cody.inference.replay import Replay

DATA, MODEL = "collegemsg", "tgn-collegemsg"


class Demo(NamedTuple):
    """Some links of the last weeks with their logits, and what single past events do to one of them."""

    graph: TemporalGraph
    rows: IntArray  # [n] links that happened
    logits: FloatArray  # [n]
    chosen: Query  # the link that is looked into
    before: float  # its logit
    candidates: IntArray  # [m] past events that might matter to it
    without: FloatArray  # [m] its logit without each of them


def run_demo(links: int = 6) -> Demo:
    """Score a few links of the test period, then remove past events from one of them, one at a time."""
    graph = load(DATA)
    model = load_model(MODEL, graph)
    first = int(0.9 * graph.num_events)
    rows = first + np.arange(links)
    recent = Replay(model.network, graph, start=model.state(first))
    logits = np.array([recent.logits(graph.query(row), [frozenset()])[0] for row in rows.tolist()])
    chosen = graph.query(int(rows[np.argmax(logits)]))
    near = candidates(graph, chosen, hops=model.network.sizes.layers)
    since = Replay(model.network, graph, start=model.state(int(near[0])))
    answers = since.logits(chosen, [frozenset(), *(frozenset({int(row)}) for row in near)])
    return Demo(graph, rows, logits, chosen, answers[0], near, answers[1:])
