"""Which links an evaluation explains: real events, those that the model predicts and those that it misses, apart."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from cody.errors import CallError
from cody.graph import IntArray, TemporalGraph
from cody.oracle import Model, check_logits

TEST_PERIOD = (0.85, 1.0)  # what a user's question is about
PAPER_PERIOD, PAPER_MARGIN = (0.2, 0.6), 0.2  # what the published tables were made from


def sample_links(
    model: Model,
    graph: TemporalGraph,
    count: int,
    *,
    correct: bool,
    period: tuple[float, float] = TEST_PERIOD,
    margin: float = 0.0,
    seed: int = 0,
) -> IntArray:
    """Rows of `count` random events that the model predicts (`correct`) or does not, ascending; fewer if there are not.

    Drawn from the events between the two shares of `period`; `margin` leaves out those whose logit is closer to 0.
    """
    if not 0 <= period[0] < period[1] <= 1:
        raise CallError(f"a period is two growing shares of the events between 0 and 1, not {period}")
    if count < 1 or margin < 0:
        raise CallError(f"count must be at least 1 and margin at least 0, not {count} and {margin}")
    wanted = (
        row for row, logit in _scored(model, graph, period, seed) if (logit > 0) == correct and abs(logit) >= margin
    )
    return np.sort(np.array([row for row, _ in zip(wanted, range(count), strict=False)], dtype=np.int64))


def _scored(model: Model, graph: TemporalGraph, period: tuple[float, float], seed: int) -> Iterator[tuple[int, float]]:
    first, last = (round(share * graph.num_events) for share in period)
    for row in np.random.default_rng(seed).permutation(np.arange(first, last)).tolist():
        query = graph.query(row)
        (logit,) = model.logits(query, [frozenset()])
        check_logits(query, [frozenset()], [float(logit)])
        yield row, float(logit)
