"""The answers of the published code, as a model: what it replayed for the memory of a TGN while it searched.

To answer quickly, the published code did not replay all events for the memory, and it replayed them on another grid:

- *Where it began.* The memory at the oldest event under consideration. From there the batches were counted, not from
  the first event of the log.
- *What it replayed while searching.* Only the events under consideration, without those removed. CoDy considers all
  candidates; GreeDy those of its present step, ten events. What GreeDy removed earlier and lies before the oldest of
  the ten stays in the memory.
- *How it confirmed.* If that changed the decision, it asked again with all later events but the removed ones. The
  oldest event under consideration was left out, removed or not.
- *What it compared with.* The logit with nothing removed and everything replayed.

The attention always saw exactly the events that were not removed, so nothing here differs for a TGAT. The sizes of
batches are the model's.
"""

from collections.abc import Sequence
from itertools import islice

import numpy as np

from cody.engine import FastTGN, Replay
from cody.engine.replay import MemoryState
from cody.engine.weights import Weights
from cody.graph import Difference, IntArray, Query, TemporalGraph
from cody.models.contract import Change
from cody.models.margins import flips


class PublishedAnswers:
    """A TGN that answers as the published code did. `by_step`: considered are the events of one step, as in GreeDy.

    An answer then depends on what it is asked together with: considered are the events that the questions of a batch
    do not agree on.
    """

    def __init__(self, model: FastTGN, *, by_step: bool) -> None:
        self.model, self.by_step = model, by_step
        self.graph = model.graph

    @property
    def identity(self) -> str:
        return f"{self.model.identity} as published{', by step' if self.by_step else ''}"

    @property
    def hops(self) -> int:
        return self.model.hops

    def session(self, query: Query, rows: Sequence[int] = ()) -> "PublishedSession":
        return PublishedSession(self, query, rows)

    def logits(self, query: Query, changes: Sequence[Change]) -> np.ndarray:
        return self.session(query, sorted(frozenset().union(*changes))).logits(changes)


class PublishedSession:
    """Answers about one query, whose candidates are `rows`."""

    def __init__(self, model: PublishedAnswers, query: Query, rows: Sequence[int]) -> None:
        self.query, self.rows, self.by_step = query, rows, model.by_step
        self.replay = PartialReplay(model.model.replay.weights, model.graph)
        oldest = min(rows, default=query.before)
        line = oldest // self.replay.batch * self.replay.batch
        exact = model.model.state(line)
        self.begin = self.replay.later(exact, range(line, oldest), oldest)
        self.original = self.ask(frozenset(), self.begin, range(oldest, query.before))

    def logits(self, changes: Sequence[Change]) -> np.ndarray:
        considered = self.considered([change for change in changes if change])
        oldest = min(considered, default=self.begin.row)
        begin = self.replay.later(self.begin, range(self.begin.row, oldest), oldest)
        return np.array([self._answer(change, begin, considered) for change in changes])

    def considered(self, changes: Sequence[Change]) -> list[int]:
        """The events under consideration, ascending."""
        if not self.by_step or not changes:
            return sorted(self.rows)
        together = frozenset.union(*changes)
        return sorted(together - frozenset.intersection(*changes) or together)  # a single question agrees with itself

    def _answer(self, change: Change, begin: MemoryState, considered: list[int]) -> float:
        if not change:
            return self.original
        logit = self.ask(change, begin, considered)
        if flips(self.original, logit):
            logit = self.ask(change, begin, range(begin.row + 1, self.query.before))
        return logit

    def ask(self, change: Change, begin: MemoryState, rows: Sequence[int]) -> float:
        """The logit where the memory has seen these rows since `begin`, but for the change."""
        return float(self.replay.after(begin, rows).logits(self.query, [change])[0])


class PartialReplay(Replay):
    """A replay of some rows only, in batches that are counted from the row where it begins."""

    rows: Sequence[int] = ()

    def __init__(self, weights: Weights, graph: TemporalGraph) -> None:
        super().__init__(weights, graph)
        self.histories: dict[tuple[int, int], list[int]] = {}  # (node, before) → its rows, latest first

    @property
    def batch(self) -> int:
        return self.weights.sizes.batch

    def after(self, begin: MemoryState, rows: Sequence[int]) -> "PartialReplay":
        other = self.on(self.graph, begin)
        other.rows = rows
        return other

    def _replay(self, query: Query, difference: Difference, roots: IntArray) -> MemoryState:
        return self.later(self.start, [row for row in self.rows if row not in difference.absent], query.before)

    def _recent(self, node: int, query: Query, difference: Difference) -> IntArray:
        key, count = (node, query.before), self.weights.sizes.neighbours
        if key not in self.histories:
            self.histories[key] = self.graph.history(*key)[::-1].tolist()
        happened = islice((row for row in self.histories[key] if row not in difference.absent), count)
        rows = np.full(count, -1)
        recent = list(happened)
        rows[: len(recent)] = recent
        return rows

    def later(self, begin: MemoryState, rows: Sequence[int], stop: int) -> MemoryState:
        """The memory after these rows, ascending, have happened; it holds for the time before row `stop`."""
        memory, updated = begin.memory.astype(self.weights.dtype), begin.updated.copy()
        rows = np.array(rows, dtype=np.int64)
        for number in np.unique((rows - begin.row) // self.batch):
            self._update(memory, updated, rows[(rows - begin.row) // self.batch == number])
        return MemoryState(stop, memory, updated)

    def _update(self, memory: np.ndarray, updated: np.ndarray, rows: IntArray) -> None:
        """Let one batch happen: of each node, its last event counts."""
        graph = self.graph
        ends = np.stack([graph.src[rows], graph.dst[rows]], axis=1).ravel()[::-1]
        nodes, place = np.unique(ends, return_index=True)  # the first from the end
        last = rows[len(rows) - 1 - place // 2]
        other = graph.other_end(last, nodes)
        elapsed = (graph.time[last] - updated[nodes]).astype(self.weights.dtype)
        memory[nodes] = self.weights.remember(memory[nodes], memory[other], self.weights.edge(graph, last), elapsed)
        updated[nodes] = graph.time[last]
