"""A replay of a user's test loop: memory and neighbours are fed batch by batch, links scored before their batch."""

from __future__ import annotations

import copy
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from cody.utils.extras import needed_by

with needed_by("cody.adapters.compare"):
    import torch

from cody.adapters.compare import Loop
from cody.adapters.history import HistoryModel
from cody.adapters.past import Events, Past
from cody.adapters.pyg import PygMemoryState, PygSteps, Subgraph
from cody.errors import CallError
from cody.graph import FloatArray, IntArray, Query, TemporalGraph


@torch.no_grad()
def play(frame: HistoryModel, graph: TemporalGraph, loop: Loop, rows: Sequence[int]) -> FloatArray:
    """The logit of the link of each row, as computed by the loop. The copied modules are restored afterwards."""
    memory = frame.modules.memory
    with frame.borrowed():
        ours = vars(memory).pop("_update_msg_store", None) if loop.library and memory is not None else None
        try:
            scores = dict(_Player(frame.modules, graph, loop).scores(sorted(set(rows))))
        finally:
            if ours is not None:  # the library's own sort was used
                memory._update_msg_store = ours
            if memory is not None:
                memory.reset_state()
                memory.eval()
    return np.array([scores[row] for row in rows])


class _Player:
    """The state of a loop."""

    def __init__(self, steps: PygSteps, graph: TemporalGraph, loop: Loop) -> None:
        self.steps, self.graph, self.loop = steps, graph, loop
        self.before = 0  # the rows before it are in the neighbour loader
        self.loader: Any = None  # the library's own
        if loop.library:
            from torch_geometric.nn.models.tgn import LastNeighborLoader

            self.loader = LastNeighborLoader(graph.num_nodes, steps.options.neighbours)

    def scores(self, rows: Sequence[int]) -> Iterator[tuple[int, float]]:
        """Each of some sorted rows with its logit."""
        grid, wanted = self.loop.feeding.grid, np.array(rows)
        self._begin()
        for batch in grid.batches(rows[-1] + 1 if rows else 0):
            events = grid.rows(batch, self.graph.num_events)
            here = wanted[(wanted >= events[0]) & (wanted <= events[-1])]
            self._switch(int(events[0]))
            for row in here.tolist():
                yield row, self._score_within(row, events) if self.loop.feeding.sees_own_batch else self._score(row)
            self._feed(events)

    def _begin(self) -> None:
        memory = self.steps.memory
        if memory is not None:
            memory.reset_state()
            memory.train(self.loop.lazily and self.loop.since > 0)
        self.given = False

    def _switch(self, first: int) -> None:
        """The end of training: the memory gets its state of then; evaluation mode applies pending messages."""
        if self.given or first < self.loop.since or self.steps.memory is None:
            return
        self.given = True
        if self.loop.memory is not None:
            _take_over(self.steps, self.loop.memory)
        self.steps.memory.eval()

    def _feed(self, events: IntArray) -> None:
        self.before = int(events[-1]) + 1
        if self.loader is not None:
            ends = self.graph.src[events], self.graph.dst[events]
            self.loader.insert(*(torch.as_tensor(end.astype(np.int64)) for end in ends))
        if self.steps.memory is None:
            return
        if self.loop.memory is not None:
            events = events[events >= self.loop.since]
        if len(events):
            self.steps.observe(Events(self.graph, events))

    def _score(self, row: int) -> float:
        query = self.graph.query(row)
        subgraph = self._subgraph(query)
        state = self.steps.state_of(query, subgraph)
        return float(self.steps.answers(subgraph, self.graph, *state)[0])

    def _subgraph(self, query: Query) -> Subgraph:
        """The most recent events of both nodes, or what the library's loader returns."""
        if self.loader is None:
            query = query._replace(before=self.before)
            return self.steps.subgraph([query], [Past(self.graph, query)])
        nodes, edges, rows = (part.numpy() for part in self.loader(torch.tensor(sorted({query.src, query.dst}))))
        ends = np.searchsorted(nodes, np.array([[query.src], [query.dst]]))
        return Subgraph(nodes, np.zeros_like(nodes), edges, rows, ends)

    def _score_within(self, row: int, events: IntArray) -> float:
        """For links that see earlier events of their own batch."""
        kept = self.steps.save() if self.steps.memory is not None else None
        before, loader = self.before, self.loader
        self.loader = copy.deepcopy(loader)
        if row > events[0]:
            self._feed(events[events < row])
        score = self._score(row)
        self.before, self.loader = before, loader
        if kept is not None:
            self.steps.restore(kept)
        return score


def _take_over(steps: PygSteps, given: Any) -> None:
    """The state of the user's memory, pending messages included."""
    for name in PygMemoryState._fields:
        if not hasattr(given, name):
            raise CallError(f"memory must be a copy of your TGNMemory; {type(given).__name__} has no {name!r}")
    steps.memory.train(given.training)
    steps.restore(PygMemoryState(*(getattr(given, name) for name in PygMemoryState._fields)))
