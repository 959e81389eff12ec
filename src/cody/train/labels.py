"""Training on the labels of events: the loss, how good the labels are, calibration, and baselines to compare with."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from cody.engine.weights import Weights
from cody.errors import CallError, DataError
from cody.graph import BoolArray, FloatArray, IntArray, TemporalGraph
from cody.models.contract import LabelTask
from cody.models.margins import probability
from cody.models.separation import Quality, best_f1, separation_of_classes
from cody.models.sizes import edge_width
from cody.train.architectures import ARCHITECTURES, FeatureStream, MemoryStream, Network
from cody.train.checkpoint import Checkpoint
from cody.train.layers import plan

WEIGHT_POWER = 0.5  # of the inverse rate of a class in the loss: 0 leaves classes as they are, 1 makes them equal


def label_logits(
    network: Network, stream: MemoryStream | FeatureStream, graph: TemporalGraph, rows: IntArray
) -> Tensor:
    """Scores of the classes of events `rows` [n], each as of just before it: no feature of its own is seen. [n, C]"""
    assert network.task is not None
    ends = [graph.src[rows]] if network.task.about == "node" else [graph.src[rows], graph.dst[rows]]
    roots = np.stack(ends, axis=1).astype(np.int64)  # [n, 1 or 2]
    plan_ = plan(graph, roots, graph.time[rows], rows, network.sizes.layers, network.sizes.neighbours)
    embeddings = network.embed(plan_, stream.inputs(plan_.nodes, plan_.before))  # [n, 1 or 2, d]
    source = embeddings[:, 0]
    # The weights of the target are zero where only the source counts; without a target they have no gradient either.
    target = embeddings[:, 1] if len(ends) == 2 else torch.zeros_like(source)
    return network.score(source, target)


def new_task(graph: TemporalGraph, about: str = "event") -> LabelTask:
    """The task of predicting the labels of a graph."""
    if graph.labels is None or graph.label_names is None:
        raise CallError(
            "the events have no labels to train on; cody data import --label COLUMN (label=… in Python) reads them"
        )
    return LabelTask(graph.label_names, about)


def with_encoder(
    link_model: Checkpoint, task: LabelTask, graph: TemporalGraph, kind: str, seed: int
) -> tuple[Network, str]:
    """A network that labels, with the encoder of a link model and a new decoder; and the identity of the link model.

    Args:
        link_model: The model whose attention, time encoding and memory are taken. Its sizes are those of the network.
        task: What the new network labels.
        graph: The log that it will be trained on.
        kind: The architecture that the link model must have.
        seed: For the weights of the decoder.
    """
    encoder = link_model.network
    if encoder.kind != kind:
        raise CallError(f"cannot use the encoder of a {encoder.kind.upper()} in a {kind.upper()}")
    if edge_width(graph) != encoder.sizes.edge_features:
        raise CallError(
            f"the encoder reads {encoder.sizes.edge_features} event features, but the data have {edge_width(graph)}"
        )
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        network: Network = ARCHITECTURES[kind](encoder.sizes, task)
    known = {name: weight for name, weight in encoder.state_dict().items() if not name.startswith("score.")}
    network.load_state_dict(known, strict=False)
    return network, Weights.of(encoder).identity


@dataclass(frozen=True, slots=True)
class LabelObjective:
    """What training on labels minimizes and measures."""

    graph: TemporalGraph
    train: IntArray
    validation: IntArray
    test: IntArray
    unseen: BoolArray  # [N] nodes without any training event

    def __post_init__(self) -> None:
        for period in ("train", "validation", "test"):
            rows = self._known(getattr(self, period))
            if len(np.unique(self._labels[rows])) < 2:
                raise DataError(
                    f"the {'training' if period == 'train' else period} period has {len(rows):,} known labels, but "
                    "there must be at least two classes among them"
                )

    @property
    def _labels(self) -> IntArray:
        assert self.graph.labels is not None
        return self.graph.labels

    def _known(self, rows: IntArray) -> IntArray:
        return rows[self._labels[rows] >= 0]

    def loss(self, network: Network, graph: TemporalGraph, epoch: int) -> Callable[[Any, IntArray], Tensor | None]:
        """The loss of a batch of rows of the training graph; None where no label of it is known.

        Rare classes weigh more, so that the first steps do not settle on the common one; `finish` takes that away.
        """
        labels = torch.from_numpy(np.array(graph.labels, dtype=np.int64))
        assert network.task is not None
        counts = torch.bincount(labels[labels >= 0], minlength=len(network.task.classes))
        weights = (counts.sum() / counts.clamp(min=1)) ** WEIGHT_POWER
        weights = weights / (weights * counts / counts.sum()).sum()  # 1 in the mean over the events

        def of_batch(stream: Any, rows: IntArray) -> Tensor | None:
            known = rows[labels[rows].numpy() >= 0]
            if not len(known):
                return None
            return cross_entropy(label_logits(network, stream, graph, known), labels[known], weights)

        return of_batch

    def measure(self, network: Network, rows: IntArray) -> Quality:
        """How well the classes of the events `rows` with known labels are separated."""
        rows = self._known(rows)
        scores, labels = logits_of_rows(network, self.graph, rows), self._labels[rows]
        new = self.unseen[self.graph.src[rows]] | self.unseen[self.graph.dst[rows]]
        enough = len(np.unique(labels[new])) > 1
        inductive = separation_of_classes(scores[new], labels[new]) if enough else (None, None)
        return Quality(*separation_of_classes(scores, labels), *inductive)

    def finish(self, network: Network) -> dict[str, Any]:
        """Calibrate the scores on the validation period, propose a threshold, and compare with baselines."""
        assert network.task is not None
        rows = self._known(self.validation)
        labels = self._labels[rows]
        calibrate(network, logits_of_rows(network, self.graph, rows), labels)
        if network.task.outputs == 1:
            threshold = probability(best_f1(logits_of_rows(network, self.graph, rows), labels == 1))
            network.task = replace(network.task, threshold=float(f"{min(max(threshold, 1e-6), 1 - 1e-6):.4g}"))
        rows = self._known(self.test)
        return {
            "task": "label",
            "events": {name: len(self._known(getattr(self, name))) for name in ("train", "validation", "test")},
            "baselines": {
                name: dict(
                    zip(("average_precision", "auc"), separation_of_classes(scores, self._labels[rows]), strict=True)
                )
                for name, scores in baselines(self.graph, rows).items()
            },
            "test_labels": _counts(self._labels[rows], network.task.classes),
            "mean_score": _mean_scores(logits_of_rows(network, self.graph, rows), network.task.classes),
        }


def cross_entropy(logits: Tensor, labels: Tensor, weights: Tensor) -> Tensor:
    """The mean of the events' losses, each times the weight of its class. [n, 1 or C], [n], [C]"""
    if logits.shape[1] > 1:
        losses = nn.functional.cross_entropy(logits, labels, reduction="none")
    else:
        wanted = labels.to(logits.dtype)
        losses = nn.functional.binary_cross_entropy_with_logits(logits[:, 0], wanted, reduction="none")
    return (losses * weights[labels]).mean()


def logits_of_rows(network: Network, graph: TemporalGraph, rows: IntArray) -> FloatArray:
    """Scores of the classes of events, in row order. [n], or [n, C] for more than two classes"""
    logits = score_in_batches(
        network, graph, rows, lambda stream, part: label_logits(network, stream, graph, rows[part])
    )
    return logits[:, 0] if logits.shape[1] == 1 else logits


def score_in_batches(
    network: Any, graph: TemporalGraph, rows: IntArray, score: Callable[[Any, slice], Tensor]
) -> FloatArray:
    """The scores of events, in row order, batch by batch.

    Args:
        network: The network, which is not trained meanwhile.
        graph: The log of events.
        rows: The events.
        score: Scores some of the rows, given the inputs of their nodes.
    """
    network.eval()
    stream = network.stream(graph)
    begins = np.flatnonzero(np.diff(rows // network.sizes.batch, prepend=-1))  # of the rows of each batch
    parts = []
    with torch.no_grad():
        for first, stop in pairwise([*begins.tolist(), len(rows)]):
            stream.advance(int(rows[first]))
            parts.append(score(stream, slice(first, stop)).double())
    return torch.cat(parts).numpy()


def calibrate(network: Network, logits: FloatArray, labels: IntArray) -> None:
    """Scale and shift the scores of a network so that its probabilities fit these labels best (Platt scaling).

    That takes away what the weights of the classes in the loss have shifted, and what overfitting has sharpened. The
    order of the scores of a class stays the same for two classes.
    """
    given = torch.from_numpy(logits.reshape(len(logits), -1))
    sharpness = torch.zeros((), dtype=torch.float64, requires_grad=True)  # logarithm of the scale, which is positive
    shift = torch.zeros(given.shape[1], dtype=torch.float64, requires_grad=True)
    wanted = torch.from_numpy(np.array(labels, dtype=np.int64))
    even = torch.ones(int(wanted.max()) + 1, dtype=torch.float64)
    optimizer = torch.optim.LBFGS([sharpness, shift], max_iter=100, line_search_fn="strong_wolfe")

    def loss() -> Tensor:
        optimizer.zero_grad()
        value = cross_entropy(given * sharpness.exp() + shift, wanted, even)
        value.backward()  # type: ignore[no-untyped-call]
        return value

    optimizer.step(loss)  # type: ignore[no-untyped-call]
    if not (torch.isfinite(sharpness) and torch.isfinite(shift).all()):
        raise DataError("the scores cannot be calibrated on the validation period: they are not finite numbers")
    with torch.no_grad():
        network.score.out.weight *= sharpness.exp().float()
        network.score.out.bias.copy_(network.score.out.bias * sharpness.exp().float() + shift.float())


def baselines(graph: TemporalGraph, rows: IntArray) -> dict[str, FloatArray]:
    """Scores that need no model: how often each class occurred before, for the same target, the same source, at all."""
    overall = past_shares(graph, np.zeros_like(graph.src))
    found = {"past mean of the target": graph.dst, "past mean of the source": graph.src}
    shares = {name: _filled(past_shares(graph, nodes), overall)[rows] for name, nodes in found.items()}
    shares["class rate"] = np.broadcast_to(_filled(overall, overall)[rows[:1]], shares["past mean of the target"].shape)
    return {name: share[:, 1] if share.shape[1] == 2 else share for name, share in shares.items()}


def past_shares(graph: TemporalGraph, group: IntArray) -> FloatArray:
    """The share of each class among the earlier labels of the same group; NaN where there are none. [E] → [E, C]"""
    assert graph.labels is not None
    assert graph.label_names is not None
    known = (graph.labels[:, None] == np.arange(len(graph.label_names))).astype(np.float64)  # [E, C]
    order = np.argsort(group, kind="stable")
    before = np.cumsum(known[order], axis=0) - known[order]
    ordered = group[order]
    first = np.searchsorted(ordered, ordered)  # where each group begins
    counts = np.empty_like(before)
    counts[order] = before - before[first]
    with np.errstate(invalid="ignore"):
        shares: FloatArray = counts / counts.sum(axis=1, keepdims=True)
    return shares


def _filled(shares: FloatArray, overall: FloatArray) -> FloatArray:
    return np.nan_to_num(np.where(np.isnan(shares), overall, shares), nan=1 / shares.shape[1])


def _counts(labels: IntArray, classes: tuple[str, ...]) -> dict[str, int]:
    return dict(zip(classes, np.bincount(labels, minlength=len(classes)).tolist(), strict=True))


def _mean_scores(logits: FloatArray, classes: tuple[str, ...]) -> dict[str, float]:
    """The mean probability of each class: if the scores are calibrated, about as many events have it."""
    if logits.ndim == 1:
        logits = np.stack([np.zeros_like(logits), logits], axis=1)
    shares = np.exp(logits - logits.max(axis=1, keepdims=True))
    return dict(zip(classes, (shares / shares.sum(axis=1, keepdims=True)).mean(axis=0).tolist(), strict=True))
