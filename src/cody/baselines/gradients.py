"""Gradient × input: how the logit changes with the weight of an event, where a model can be differentiated.

Every event of the past has weight 1, so the gradient by its weight is gradient × input of that weight. For our TGN and
TGAT; as an explainer, `--explainers cody.baselines.gradients:gradient_times_input`.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from cody.graph import FloatArray, IntArray, Query, TemporalGraph
from cody.models.contract import Model


def gradients(model: Model, query: Query, rows: IntArray) -> tuple[FloatArray, float]:
    """The derivative of the logit by the weight of each event, and the logit.

    Args:
        model: A TGN or TGAT of this package.
        query: The link.
        rows: The events.
    """
    import torch

    from cody.baselines.differentiable import SoftModel

    rows = np.sort(rows)
    weights = torch.ones(len(rows), requires_grad=True)
    logit = SoftModel(model).links([query], [rows]).logits(weights).sum()
    logit.backward()  # type: ignore[no-untyped-call]
    found = np.zeros(len(rows)) if weights.grad is None else weights.grad.numpy().astype(np.float64)
    return found, float(logit.detach())


def gradient_times_input(model: Any, graph: TemporalGraph, query: Query, candidates: IntArray) -> dict[int, float]:
    """A score for each candidate: how much of the decision rests on it, as far as the gradient says.

    Args:
        model: As an own explainer gets it: `model.wrapped` is the model itself.
        graph: The log of events.
        query: The link.
        candidates: The events.
    """
    if not len(candidates):
        return {}
    values, logit = gradients(model.wrapped, query, candidates)
    towards = values if logit > 0 else -values
    return dict(zip(np.sort(candidates).tolist(), towards.tolist(), strict=True))


gradient_times_input.factual = True  # type: ignore[attr-defined]
