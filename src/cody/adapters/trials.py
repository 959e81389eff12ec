"""Models that may score many histories in one call, and trials of a model when it is wrapped.

The trials find which shortcuts are valid for it, and how long an explanation takes.
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Hashable, Sequence
from hashlib import blake2b
from typing import TYPE_CHECKING, Any

import numpy as np

from cody.adapters.history import HistoryModel
from cody.adapters.past import Events, Past
from cody.engine.threads import one_thread
from cody.errors import ModelError, SlowModelWarning
from cody.graph import Difference, FloatArray, IntArray, Query, TemporalGraph
from cody.graph.neighbourhood import candidates
from cody.models.contract import Change
from cody.utils.words import duration

if TYPE_CHECKING:
    from cody.adapters.dyglib import DyglibSteps

TOLERANCE = 1e-4  # of logits; rounding moves them by less
TRIED = 3  # links, and batches
SHORT = 2 ** np.arange(9)  # events that are left of a node's history
SETS = 300  # of an explanation
LONG = 30.0  # seconds of an explanation that cause a warning


class ScoresTogether:
    """The functions of `from_steps` that score links, of a model that takes many rows at once."""

    together = 64  # rows that the model takes at once

    def scores(self, links: Sequence[Query], pasts: Sequence[Past]) -> FloatArray:
        """The scores of links: each with a history of its own, or all with the same. [n, outputs]"""
        raise NotImplementedError

    def read(self, query: Query, pasts: Sequence[Past]) -> Sequence[Hashable]:
        """What is read of each history; where it is the same, the score is the same. By default, none agree. [n]"""
        return range(len(pasts))

    def score(self, query: Query, past: Past) -> FloatArray:
        return self.scores([query], [past])[0]

    def score_many(self, query: Query, pasts: Sequence[Past]) -> FloatArray:
        """Many histories at once, for a model without memory; those of which the same is read are scored once."""
        _, first, which = distinct(self.read(query, pasts))
        some = [pasts[place] for place in first.tolist()]
        parts = [some[begin : begin + self.together] for begin in range(0, len(some), self.together)]
        scores: FloatArray = np.concatenate([self.scores([query] * len(part), part) for part in parts])[which]
        return scores

    def score_links(self, links: Sequence[Query], past: Past) -> FloatArray:
        """Many links of one moment at once, for a model without memory."""
        parts = [links[first : first + self.together] for first in range(0, len(links), self.together)]
        return np.concatenate([self.scores(part, [past]) for part in parts])


def distinct(keys: IntArray | Sequence[Hashable]) -> tuple[list[Any], IntArray, IntArray]:
    """The distinct keys, where each of them is first, and which of them each key is."""
    if isinstance(keys, np.ndarray):
        numbers, first, which = np.unique(keys, return_index=True, return_inverse=True)
        return numbers.tolist(), first, which
    places: dict[Any, int] = {}
    which = np.array([places.setdefault(key, len(places)) for key in keys], dtype=np.int64)
    return list(places), np.unique(which, return_index=True)[1], which


def keys_of(table: IntArray) -> list[bytes]:
    """A short key for each row of a table: those of equal rows are equal. [n, K] → [n]"""
    return [blake2b(row, digest_size=16).digest() for row in np.ascontiguousarray(table)]


def as_table(answers: Any, links: int, outputs: int, call: str) -> FloatArray:
    """What a user's function returned for some links, as a table. [links, outputs]

    Args:
        answers: An array, or a tensor of any device.
        links: How many there were.
        outputs: How many numbers each has.
        call: How the function was called, for the error.
    """
    scores = np.asarray(answers.detach().cpu().numpy() if hasattr(answers, "detach") else answers)
    if scores.size != links * outputs:
        wanted = "one number" if outputs == 1 else f"{outputs} numbers, one per class,"
        raise ModelError(f"{call} returned {scores.shape} for {links} links; it must return {wanted} for each")
    return scores.astype(np.float64).reshape(links, outputs)


@one_thread()
def answers_alone(steps: ScoresTogether, graph: TemporalGraph) -> bool:
    """Whether sets that are evaluated together get the same answers as alone."""
    for row in some_rows(graph):
        query = graph.query(row)
        past = [graph.history(node, row) for node in (query.src, query.dst)]
        older = [np.concatenate([rows[:-count] for rows in past]).tolist() for count in SHORT]
        absent = [frozenset(rows) for rows in ((), past[0][-3:].tolist(), past[1][-3:].tolist(), *older, range(row))]
        pasts = [Past(graph, query, Difference(rows, ())) for rows in absent]
        try:
            together = steps.score_many(query, pasts)
        except Exception:
            return False
        if not np.allclose(together, [steps.score(query, past) for past in pasts], rtol=0, atol=TOLERANCE):
            return False
    return True


def some_rows(graph: TemporalGraph) -> list[int]:
    """Rows of the last tenth of a log."""
    last = np.linspace(graph.num_events * 9 // 10, graph.num_events - 1, TRIED, dtype=int)
    return sorted(set(last.tolist())) if graph.num_events else []


@one_thread()
def keeps_state_without_embeddings(steps: DyglibSteps, model: HistoryModel) -> bool:
    """Whether the first batches leave the same state if no embeddings are computed while they are observed."""
    states = []
    with model.borrowed():
        for steps.embeds in (True, False):
            try:
                _feed(steps, model, model.grid.batches(model.graph.num_events)[:TRIED])
                states.append(steps.save())
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
    batch, seconds = model.grid.rows(model.grid.number(graph.num_events // 2), graph.num_events), []
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


def _seconds_of_a_state(model: HistoryModel) -> float:
    """How long it takes to save a state, after some batches before the middle of the log, and to restore it."""
    steps: Any = model.steps
    if steps.start is None:
        return 0.0
    middle = model.grid.number(model.graph.num_events // 2)
    _feed(steps, model, range(max(0, middle - TRIED), middle))
    return _seconds(lambda: steps.restore(steps.save()))


def _feed(steps: Any, model: HistoryModel, batches: range) -> None:
    """Start afresh, and feed some batches."""
    graph, past = model.graph, Past.whole(model.graph, model.graph.num_events)
    steps.start()
    for number in batches:
        steps.observe(Events(graph, model.grid.rows(number, graph.num_events), past))


def _seconds_of_a_set(model: HistoryModel, past: Past) -> float:
    if model.steps.score_many is None:
        return _seconds(lambda: model.score(past, [past.query]))
    many, together = model.steps.score_many, [past] * 8
    return _seconds(lambda: many(past.query, together)) / len(together)


def _seconds(action: Any) -> float:
    began = time.thread_time()
    action()
    return time.thread_time() - began


def _same(one: Any, other: Any) -> bool:
    """Whether two states are equal, whatever they are made of."""
    if hasattr(one, "detach"):
        one, other = one.detach().cpu(), other.detach().cpu()
        return one.shape == other.shape and np.allclose(one, other, rtol=0, atol=1e-6)
    if isinstance(one, dict):  # a node without messages may have an empty list, or none
        some, others = ({key: value for key, value in each.items() if len(value)} for each in (one, other))
        return some.keys() == others.keys() and all(_same(value, others[key]) for key, value in some.items())
    if isinstance(one, list | tuple):
        return len(one) == len(other) and all(_same(*pair) for pair in zip(one, other, strict=True))
    return bool(np.all(one == other))
