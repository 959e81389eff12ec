"""How well scores separate links that happened from links that did not, or events of one class from the others."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from cody.graph import BoolArray, FloatArray, IntArray


@dataclass(frozen=True, slots=True)
class Quality:
    """How well a network separates real links from random ones, or classes; inductive: of nodes unseen in training."""

    average_precision: float
    auc: float
    inductive_average_precision: float | None
    inductive_auc: float | None


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


def separation_of_classes(scores: FloatArray, labels: IntArray) -> tuple[float, float]:
    """Average precision and AUC of the second of two classes, scores [n]; of more, [n, C], the mean over the classes.

    A class without events does not count, nor one that all events have.

    >>> separation_of_classes(np.array([3.0, 2.0, 1.0, 0.0]), np.array([1, 0, 1, 0]))
    (0.8333333333333333, 0.75)
    """
    if scores.ndim == 1:
        return average_precision(scores, labels == 1), auc(scores, labels == 1)
    present = [place for place in range(scores.shape[1]) if 0 < (labels == place).sum() < len(labels)]
    each = [
        (average_precision(scores[:, place], own := labels == place), auc(scores[:, place], own)) for place in present
    ]
    precision, area = np.mean(each, axis=0).tolist()
    return precision, area


def best_f1(scores: FloatArray, labels: BoolArray) -> float:
    """The threshold with the largest F1: half-way between the last score above it and the first below.

    >>> best_f1(np.array([4.0, 3.0, 2.0, 1.0]), np.array([True, True, False, True]))
    0.5
    >>> best_f1(np.array([4.0, 3.0, 2.0, 1.0]), np.array([True, True, False, False]))
    2.5
    """
    hits, shown = _by_threshold(scores, labels)
    best = int(np.argmax(2 * hits / (shown + labels.sum())))
    distinct = np.unique(scores)[::-1]
    below = distinct[best + 1] if best + 1 < len(distinct) else distinct[best] - 1
    return float((distinct[best] + below) / 2)


def _by_threshold(scores: FloatArray, happened: BoolArray) -> tuple[FloatArray, FloatArray]:
    """For each distinct score, from high to low: links at or above it that happened, all links at or above it."""
    order = np.argsort(-scores, kind="stable")
    ordered = scores[order]
    last = np.flatnonzero(np.append(np.diff(ordered) != 0, True))
    hits = np.cumsum(happened[order])[last].astype(np.float64)
    return hits, (last + 1).astype(np.float64)
