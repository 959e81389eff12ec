"""Shares with intervals: means over links, and bootstrap samples of links."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from cody.graph import FloatArray
from cody.study.metrics import draws, within
from cody.utils.forms import Form

SAMPLES = 1000


class Share(Form, frozen=True):
    """A number with its bootstrap interval of 95 %."""

    value: float
    low: float
    high: float


class Contrast(Form, frozen=True):
    """How often something holds of decisive events, and of all candidates of the same links."""

    what: str
    decisive: Share  # mean over links of (share of the decisive events for which it holds)
    candidates: Share  # mean over the same links of (share of the candidates for which it holds)
    ratio: Share | None  # decisive / candidates; above 1: over-represented. None: it holds of no candidate


def mean(values: Sequence[float] | FloatArray, seed: int = 0) -> Share:
    """(1/N) Σ values, over links."""
    column = np.asarray(values, dtype=np.float64)
    sampled = _sampled(column[:, None], seed)[:, 0]
    return Share(float(column.mean()), *within(sampled))


def flipping(sizes: Sequence[int], most: int) -> list[Share]:
    """The shares of predictions that flip with at most 1, 2, … events.

    Args:
        sizes: Of the counterfactual of each prediction; 0: none was found.
        most: The last number of events.
    """
    return [mean([0 < size <= number for size in sizes]) for number in range(1, most + 1)]


def contrast(what: str, decisive: Sequence[float], candidates: Sequence[float], seed: int = 0) -> Contrast:
    """The comparison of two shares per link over all links. [N], [N]

    Args:
        what: What the shares are of.
        decisive: The share among decisive events, per link.
        candidates: The share among candidates, per link.
        seed: Seed of the bootstrap.
    """
    both = np.stack([decisive, candidates], axis=1)
    sampled = _sampled(both, seed)
    one, other = both.mean(axis=0).tolist()
    shares = [Share(value, *within(column)) for value, column in zip((one, other), sampled.T, strict=True)]
    return Contrast(what, shares[0], shares[1], _ratio(one, other, sampled))


def _ratio(one: float, other: float, sampled: FloatArray) -> Share | None:
    defined = sampled[:, 1] > 0
    if other <= 0 or not defined.any():
        return None
    return Share(one / other, *within(sampled[defined, 0] / sampled[defined, 1]))


def _sampled(values: FloatArray, seed: int) -> FloatArray:
    """The means in samples of as many links, drawn with replacement. [N, c] → [S, c]"""
    rng = np.random.default_rng(seed)
    return np.concatenate([counts @ values / len(values) for counts in draws(len(values), SAMPLES, rng)])
