"""Which links an evaluation explains: real events, sampled separately where the model predicts them and misses them."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence

import numpy as np

from cody.errors import CallError
from cody.graph import IntArray, TemporalGraph
from cody.models.contract import Model, check_logits

TEST_PERIOD = (0.85, 1.0)  # shares of the events; the default
PAPER_PERIOD, PAPER_MARGIN = (0.2, 0.6), 0.2  # of the links behind the published tables


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
    """Rows of up to `count` random events that the model predicts (`correct`) or misses, ascending.

    Drawn from the events between the two shares of `period`; `margin` leaves out those whose logit is closer to 0.
    """
    kind = "correct" if correct else "incorrect"
    rows = sample_kinds(model, graph, count, [kind], period=period, margin=margin, seed=seed)[kind]
    return np.array(rows, dtype=np.int64)


def sample_kinds(
    model: Model,
    graph: TemporalGraph,
    count: int,
    kinds: Iterable[str],
    *,
    period: tuple[float, float] = TEST_PERIOD,
    margin: float = 0.0,
    seed: int = 0,
    events: Sequence[int] | None = None,
) -> dict[str, list[int]]:
    """For each kind, "correct" or "incorrect", the links that `sample_links` draws; no event is scored twice.

    With `events`, they are drawn among these rows, whatever the period.
    """
    check_sample(count, period, margin)
    rows: dict[str, list[int]] = {kind: [] for kind in kinds}
    for row, logit in _scored(model, graph, rows_of(period, graph) if events is None else events, seed):
        of_kind = rows.get("correct" if logit > 0 else "incorrect", [])
        if abs(logit) >= margin and len(of_kind) < count:
            of_kind.append(row)
            if all(len(found) == count for found in rows.values()):
                break
    return {kind: sorted(found) for kind, found in rows.items()}


def check_sample(count: int, period: tuple[float, float], margin: float) -> None:
    """Reject a sample that makes no sense."""
    if not 0 <= period[0] < period[1] <= 1:
        raise CallError(f"a period is two increasing shares of the events, between 0 and 1, not {period}")
    if count < 1:
        raise CallError(f"there must be at least 1 link of each kind, not {count}")
    if not 0 <= margin < math.inf:
        raise CallError(f"margin must be a finite number, at least 0, not {margin}")


def rows_of(period: tuple[float, float], graph: TemporalGraph) -> range:
    """The rows of the events in a period."""
    first, last = (round(share * graph.num_events) for share in period)
    return range(first, last)


def _scored(model: Model, graph: TemporalGraph, rows: Sequence[int], seed: int) -> Iterator[tuple[int, float]]:
    for row in np.random.default_rng(seed).permutation(np.array(rows)).tolist():
        query = graph.query(row)
        (logit,) = model.logits(query, [frozenset()])
        check_logits(query, [frozenset()], [float(logit)])
        yield row, float(logit)
