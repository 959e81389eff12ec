"""Tests of a model of DyGLib when it is wrapped: which shortcuts are valid for it, and how long it takes."""

from __future__ import annotations

import time
import warnings
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from cody.adapters.history import HistoryModel
from cody.adapters.past import Events, Past
from cody.adapters.together import some_rows
from cody.errors import SlowModelWarning
from cody.graph import IntArray
from cody.graph.neighbourhood import candidates
from cody.models.contract import Change
from cody.utils.words import duration

if TYPE_CHECKING:
    from cody.adapters.dyglib import DyglibSteps

TOLERANCE = 1e-4  # of logits; rounding moves them by less
TRIED = 3  # links, and batches
SETS = 300  # of an explanation
LONG = 30.0  # seconds of an explanation that cause a warning


def keeps_state_without_embeddings(steps: DyglibSteps, model: HistoryModel) -> bool:
    """Whether the first batches leave the same state if no embeddings are computed while they are observed."""
    states = []
    with model.borrowed():
        for steps.embeds in (True, False):
            try:
                states.append(_after_the_first_batches(steps, model))
            except Exception:  # there is nothing to leave out, or it is needed
                steps.embeds = True
                return False
    return _same(*states)


def replays_rightly(steps: DyglibSteps, model: HistoryModel) -> bool:
    """Whether a replay of what can reach a link, and memories of what it reads, give the answers of a full replay.

    It is tested on the first batches. Afterwards the steps are narrow.
    """
    rng, graph = np.random.default_rng(0), model.graph
    row = min(TRIED * model.grid.size + model.grid.size // 2, graph.num_events - 1)
    query = graph.query(row)
    changes: list[Change] = [frozenset(rng.integers(0, row, size).tolist()) for size in (0, 1, row // 10) if row]
    full = model.reference(query, frozenset(), full=True).logits(query, changes)
    steps.narrow = hasattr(type(steps.backbone), "get_updated_memories")
    return np.allclose(model.logits(query, changes), full, rtol=0, atol=TOLERANCE)


def warn_if_long(model: HistoryModel, name: str) -> None:
    """Warn of explanations that will take long. For functions that the user calls."""
    seconds = expected_seconds(model)
    if seconds > LONG:
        warnings.warn(
            f"an explanation with 300 evaluations may take {duration(seconds)} with this {name}; "
            "evaluations=… and seconds=… limit it",
            SlowModelWarning,
            stacklevel=3,
        )


def expected_seconds(model: HistoryModel) -> float:
    """An estimate of the longest time of an explanation: half of the candidates' batches are replayed per set."""
    graph = model.graph
    if not graph.num_events:
        return 0.0
    batch, seconds = _batch_in_the_middle(model), []
    with model.borrowed():
        state = _seconds_of_a_state(model)
        for row in some_rows(graph):
            query = graph.query(row)
            past = Past(graph, query)
            once = _seconds_of_a_set(model, past)
            if model.steps.observe is not None and len(batch):
                rows = candidates(graph, query, model.hops, 64)
                between = (row - int(rows[0])) / model.grid.size if len(rows) else 0.0
                once += between / 2 * _seconds(lambda past=past: model.steps.observe(Events(graph, batch, past)))
            seconds.append(SETS * (once + state))
    return float(np.median(seconds))


def _batch_in_the_middle(model: HistoryModel) -> IntArray:
    return model.grid.rows(model.grid.number(model.graph.num_events // 2), model.graph.num_events)


def _seconds_of_a_state(model: HistoryModel) -> float:
    """How long it takes to save a state, after some batches before the middle of the log, and to restore it."""
    start, observe, save, restore = (getattr(model.steps, name) for name in ("start", "observe", "save", "restore"))
    if start is None:
        return 0.0
    graph, grid = model.graph, model.grid
    past = Past.whole(graph, graph.num_events)
    middle = grid.number(graph.num_events // 2)
    start()
    for number in range(max(0, middle - TRIED), middle):
        observe(Events(graph, grid.rows(number, graph.num_events), past))
    return _seconds(lambda: restore(save()))


def _seconds_of_a_set(model: HistoryModel, past: Past) -> float:
    if model.steps.score_many is None:
        return _seconds(lambda: model.score(past, [past.query]))
    many, together = model.steps.score_many, [past] * 8
    return _seconds(lambda: many(past.query, together)) / len(together)


def _seconds(action: Any) -> float:
    began = time.thread_time()
    action()
    return time.thread_time() - began


def _after_the_first_batches(steps: DyglibSteps, model: HistoryModel) -> Any:
    graph, grid = model.graph, model.grid
    past = Past.whole(graph, graph.num_events)
    steps.start()
    for number in grid.batches(graph.num_events)[:TRIED]:
        steps.observe(Events(graph, grid.rows(number, graph.num_events), past))
    return steps.save()


def _same(one: Any, other: Any) -> bool:
    """Whether two states are equal, whatever they are made of."""
    if isinstance(one, torch.Tensor):
        return one.shape == other.shape and bool(torch.allclose(one, other, rtol=0, atol=1e-6))
    if isinstance(one, dict):  # a node without messages may have an empty list, or none
        some, others = ({key: value for key, value in each.items() if len(value)} for each in (one, other))
        return some.keys() == others.keys() and all(_same(value, others[key]) for key, value in some.items())
    if isinstance(one, list | tuple):
        return len(one) == len(other) and all(_same(*pair) for pair in zip(one, other, strict=True))
    return bool(np.all(one == other))
