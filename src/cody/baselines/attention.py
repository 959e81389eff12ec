"""Attention as explainers, for models that offer it: `--explainers cody.baselines.attention:attention_rollout`.

The formulas are in `cody.search.attributions`.
"""

from __future__ import annotations

from typing import Any

from cody.graph import IntArray, Query, TemporalGraph
from cody.search import attributions


def attention_rollout(model: Any, graph: TemporalGraph, query: Query, candidates: IntArray) -> dict[int, float]:
    """A score for each candidate: its share in what all layers together attend to; 0 where none attends to it.

    Args:
        model: As an own explainer gets it: `model.wrapped` is the model itself.
        graph: The log of events.
        query: The link.
        candidates: The events.
    """
    return _of(candidates, attributions.attention_rollout(model.wrapped, graph, query))


def mean_attention(model: Any, graph: TemporalGraph, query: Query, candidates: IntArray) -> dict[int, float]:
    """A score for each candidate: the mean weight that layers, heads and nodes give to it.

    Args:
        model: As an own explainer gets it: `model.wrapped` is the model itself.
        graph: The log of events.
        query: The link.
        candidates: The events.
    """
    return _of(candidates, attributions.mean_attention(model.wrapped, graph, query))


def _of(candidates: IntArray, shares: attributions.Shares) -> dict[int, float]:
    return {row: shares.get(row, 0.0) for row in candidates.tolist()}


for each in (attention_rollout, mean_attention):
    each.factual = True  # type: ignore[attr-defined]
