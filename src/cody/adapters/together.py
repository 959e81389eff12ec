"""Whether a model may score many histories in one call."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from hashlib import blake2b
from typing import Any

import numpy as np

from cody.adapters.past import Past
from cody.errors import ModelError
from cody.graph import Difference, FloatArray, IntArray, Query, TemporalGraph

TOLERANCE = 1e-4  # of logits; rounding moves them by less
TRIED = 3  # links
SHORT = 2 ** np.arange(9)  # events that are left of a node's history


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
