"""Which predictions an evaluation explains: about real events, correct and incorrect ones sampled separately."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import NamedTuple

import numpy as np

from cody.errors import CallError
from cody.graph import TemporalGraph
from cody.models.contract import Model, subject_of
from cody.models.deciding import ByLabel
from cody.models.decision import Decision
from cody.study.decisions import check_decision, decision_about, kind_of, margin_of

TEST_PERIOD = (0.85, 1.0)  # shares of the events; the default
PAPER_PERIOD, PAPER_MARGIN = (0.2, 0.6), 0.2  # of the links behind the published tables


class Link(NamedTuple):
    """A prediction to explain: its event, and whether it is correct."""

    event: int
    kind: str


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
    decision: Decision | ByLabel | None = None,
) -> dict[str, list[int]]:
    """Rows of up to `count` random events for each kind: about which the prediction is "correct" or "incorrect".

    Drawn from the events between the two shares of `period`, or with `events` among these rows; `margin` leaves out
    those whose margin is closer to 0. The rows ascend.
    """
    check_sample(count, period, margin)
    check_decision(model, graph, decision)
    rows: dict[str, list[int]] = {kind: [] for kind in kinds}
    among = rows_of(period, graph) if events is None else events
    for row in np.random.default_rng(seed).permutation(np.array(among)).tolist():
        kind, found = predicted(model, graph, row, decision)
        if kind in rows and abs(found) >= margin and len(rows[kind]) < count:
            rows[kind].append(row)
            if all(len(drawn) == count for drawn in rows.values()):
                break
    return {kind: sorted(found) for kind, found in rows.items()}


def predicted(
    model: Model, graph: TemporalGraph, event: int, decision: Decision | ByLabel | None
) -> tuple[str | None, float]:
    """Whether the prediction about an event is correct or incorrect, and its margin; None: that cannot be said.

    Args:
        model: The model.
        graph: The log of events.
        event: The row of the event.
        decision: As the user gave it.
    """
    query = graph.query(event)
    chosen = decision_about(model, graph, query, decision)
    if chosen is None:
        return None, 0.0
    margin = margin_of(model, graph, query, chosen)
    return kind_of(graph, event, chosen, margin, subject_of(model)), margin


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
