"""How well scores separate links that happened from links that did not."""

from __future__ import annotations

import numpy as np

from cody.graph import BoolArray, FloatArray


def average_precision(scores: FloatArray, happened: BoolArray) -> float:
    """Mean over the links that happened of the precision among all links scored at least as high.

    >>> average_precision(np.array([3.0, 2.0, 1.0]), np.array([True, False, True]))
    0.8333333333333333
    """
    hits, shown = _by_threshold(scores, happened)
    gained = np.diff(hits, prepend=0)
    return float((gained * hits / shown).sum() / hits[-1])


def auc(scores: FloatArray, happened: BoolArray) -> float:
    """The chance that a link that happened scores above one that did not; ties count half.

    >>> auc(np.array([3.0, 2.0, 1.0, 0.0]), np.array([True, False, True, False]))
    0.75
    """
    hits, shown = _by_threshold(scores, happened)
    misses = shown - hits
    hits, misses = np.concatenate([[0], hits]), np.concatenate([[0], misses])
    area = (np.diff(misses) * (hits[1:] + hits[:-1]) / 2).sum()
    return float(area / (hits[-1] * misses[-1]))


def _by_threshold(scores: FloatArray, happened: BoolArray) -> tuple[FloatArray, FloatArray]:
    """For each distinct score, from high to low: links at or above it that happened, all links at or above it."""
    order = np.argsort(-scores, kind="stable")
    ordered = scores[order]
    last = np.flatnonzero(np.append(np.diff(ordered) != 0, True))
    hits = np.cumsum(happened[order])[last].astype(np.float64)
    return hits, (last + 1).astype(np.float64)
