"""Searching a history-fed model with estimates: only candidates and the events of the two nodes are replayed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import fields

import numpy as np

from cody.adapters.history import HistoryModel, HistorySession, Snapshots
from cody.adapters.past import Past
from cody.errors import CallError
from cody.graph import FloatArray, IntArray, Query, TemporalGraph
from cody.utils.deadline import check_deadline


def approximately(model: HistoryModel) -> ApproximateModel:
    """The same model, searched with estimates. Every reported answer is exact; a search may miss some.

    During the search, only the candidates and the events of the query's nodes are replayed, from the state before the
    oldest candidate. Every apparent counterfactual is then evaluated exactly, and the explanation says so.
    """
    if not isinstance(model, HistoryModel) or model.steps.save is None:
        raise CallError(f"estimates need a model that is fed its history and has save(), not {model}")
    return ApproximateModel(*(getattr(model, each.name) for each in fields(HistoryModel)))


class ApproximateModel(HistoryModel):
    """A history-fed model that offers estimates."""

    def approximate(self, query: Query, rows: Sequence[int]) -> EstimatingSession:
        """A session of estimates, for changes of these rows."""
        return EstimatingSession(self, self.as_fed(query), rows)


class EstimatingSession(HistorySession):
    """Evaluates changes of one query, fed with a part of the history since the oldest candidate."""

    def __init__(self, model: ApproximateModel, query: Query, rows: Sequence[int]) -> None:
        super().__init__(model, [query])
        places = model.graph.next_real(np.array(sorted(rows), dtype=np.int64)).tolist()
        self.oldest = model.grid.line(min([query.before, *places]))
        self.fed = _near(model.graph, query, rows, self.oldest)
        self.kept = Snapshots(model.snapshots.most)

    def _scores(self, past: Past) -> FloatArray:
        check_deadline()
        line = self._go_to(max(self.oldest, self.model.line_before(self.query, past.outcome)))
        self.model.feed(past, line, self.links, needed=None, fed=self.fed)
        return self.model.score(past, self.links)

    def _go_to(self, line: int) -> int:
        """Bring the model to a line of the grid, with none of the fed rows changed."""
        begin, saved = self.kept.last(line)
        if saved is None:
            begin = self.oldest
            self.model.go_to(begin, self.kept)
        else:
            self.model.begin(saved)
        if begin < line:
            self.model.feed(Past.whole(self.model.graph, line), begin, [], needed=None, fed=self.fed)
            self.model.keep(self.kept, line)
        return line


def _near(graph: TemporalGraph, query: Query, rows: Sequence[int], oldest: int) -> IntArray:
    """The rows to feed: those that may change, and all events of the query's nodes since the oldest of them."""
    own = np.concatenate([graph.history(node, query.before) for node in (query.src, query.dst)])
    return np.union1d(own[own >= oldest], np.array(sorted(rows), dtype=np.int64))
