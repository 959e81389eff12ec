"""The fastest valid method to evaluate a user's TGN of PyTorch Geometric.

There are four methods. On a few short logs with events left out at random, each must give the same answers as the
reference: the user's modules fed every remaining event, batch by batch, from the first one. The first such
method is used.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np
import torch

from cody.adapters.history import Feeding, HistoryModel, from_steps
from cody.adapters.memory_table import MemoryLog, memory_after
from cody.adapters.past import Past
from cody.adapters.sourced import SourcedModel
from cody.engine.threads import one_thread
from cody.errors import ModelError, first_line
from cody.graph import Difference, Query, TemporalGraph
from cody.graph.grid import Grid
from cody.graph.neighbourhood import candidates
from cody.models.contract import Change

TABLE_BYTES = 4 * 2**30  # maximum size of the states of all nodes after all batches
EXACT = 2**24  # whole numbers up to here are exact in single precision
CLOSE = 1e-4  # two computations of a logit; rounding moves it by far less
TRIED = 2_000  # rows of a test log, at most, unless batches are larger
FEW_BATCHES, FEW_ROWS = 10, 100
QUERIES, CANDIDATES = 3, 64
OF_STATE = ("start", "observe", "save", "restore")  # what feeds a memory, saves it and puts it back
PARTS = ("msg_s_module", "msg_d_module", "aggr_module", "time_enc", "msg_s_store", "msg_d_store")  # of a TGNMemory


class Frame(NamedTuple):
    """The user's modules, and how they are fed."""

    steps: Any  # a `pyg.PygSteps`
    feeding: Feeding
    given: dict[str, Any]  # identity, hops and so on, for `from_steps`

    def model(self, graph: TemporalGraph, *functions: str) -> HistoryModel:
        """The HistoryModel of the user's modules, with the functions of the steps that a method needs."""
        grid, steps = self.feeding.grid, self.steps
        called = {name: getattr(steps, name) for name in ("score", "score_links", *functions)}
        fed: dict[str, Any] = {"batch": grid.size, "splits": grid.splits, "sees_own_batch": self.feeding.sees_own_batch}
        made = from_steps(graph, **called, **fed, **self.given)
        made.modules = steps
        return made

    @property
    def name(self) -> str:
        """What the memory is called in messages."""
        return type(self.steps.memory).__name__


Way = Callable[[Frame, TemporalGraph], HistoryModel | SourcedModel]


def replaying_everything(frame: Frame, graph: TemporalGraph) -> HistoryModel:
    """Everything from the first event, for each answer: valid for all modules."""
    return frame.model(graph, "start", "observe")


def replaying_from_states(frame: Frame, graph: TemporalGraph) -> HistoryModel:
    """Everything since the last saved state before the oldest change."""
    return frame.model(graph, *OF_STATE)


def replaying_what_reaches(frame: Frame, graph: TemporalGraph) -> HistoryModel:
    """The same, without events that cannot reach the nodes that are read."""
    return frame.model(graph, *OF_STATE, "reads")


def event_sourced(frame: Frame, graph: TemporalGraph) -> SourcedModel:
    """Only what a change affects; see `sourced.py`."""
    return SourcedModel(replaying_what_reaches(frame, graph), frame.steps, torch.zeros_like(frame.steps.memory.memory))


@torch.no_grad()
@one_thread()
def choose_way(frame: Frame, graph: TemporalGraph, *, fast: bool) -> tuple[Way, str]:
    """The fastest valid method, and why it is not the fast one: "" if it is, or if that was not requested."""
    not_last = why_not_last(frame, graph)
    ways: list[Way] = [replaying_everything, replaying_from_states]
    if not not_last:  # else old messages count too, and with them the current state of nodes that are not read
        ways.append(replaying_what_reaches)
    reason = not_last or why_not_sourced(frame, graph)
    if fast and not reason:
        ways.append(event_sourced)
    for way in reversed(ways[1:]):
        wrong = _difference(way, frame, graph)
        if not wrong:
            return way, reason if fast else ""
        reason = reason or wrong
    return ways[0], reason if fast else ""


def why_not_last(frame: Frame, graph: TemporalGraph) -> str:
    """Why the memory does not keep the last message only, "" if it does; and which of those of the same time."""
    steps = frame.steps
    missing = [name for name in PARTS if not hasattr(steps.memory, name)]
    missing += [] if updater(steps.memory) else ["gru"]
    if missing:
        return f"{frame.name} has no {missing[0]!r}, so it is not known what it computes"
    module = steps.memory.aggr_module
    name = f"{frame.name} with {type(module).__name__}"

    def chosen(*times: int) -> float:
        messages = torch.arange(1.0, len(times) + 1, dtype=steps.dtype, device=steps.device)[:, None]
        index = torch.zeros(len(times), dtype=torch.long, device=steps.device)
        when = torch.tensor(times, dtype=steps.time_dtype, device=steps.device)
        return float(module(messages, index, when, 1).sum())

    try:
        answers = chosen(3, 9, 5), chosen(3, 5, 5, 4), chosen(EXACT, EXACT + 1)
    except Exception as error:
        return f"{name} cannot be tested on a few messages: {first_line(error)}"
    if answers[0] != 2 or answers[1] not in (2, 3):
        return f"{name} does not keep the last message of a node, as LastAggregator does"
    if answers[2] != 2 and np.abs(steps.times(graph)).max(initial=0) >= EXACT:
        return (
            f"{name} rounds times, so that some different times are equal; if your model counts time from the first "
            "event, pass start=…"
        )
    steps.first_counts = answers[1] == 2
    return ""


def why_not_sourced(frame: Frame, graph: TemporalGraph) -> str:
    """Other reasons against an event-sourced memory."""
    steps, like = frame.steps, torch.zeros_like(frame.steps.memory.memory)
    states = min(2 * graph.num_events, graph.num_nodes * (frame.feeding.grid.number(graph.num_events) + 1))
    if states * like[:1].nbytes > TABLE_BYTES:
        return f"the states of all nodes would take {states * like[:1].nbytes / 2**30:.0f} GiB"
    log = MemoryLog(steps, graph, Grid(frame.feeding.grid.size))
    stop = min(3 * log.grid.size, graph.num_events - 1)
    plain = replaying_everything(frame, graph)
    plain.begin(None)
    for batch in log.grid.batches(stop):
        plain.observe(log.grid.rows(batch, stop))
    if not torch.allclose(steps.memory.memory, memory_after(log, stop, like), atol=CLOSE):
        return f"{frame.name} does something else with the last message of a node than the library's"
    query = graph.query(stop)
    pasts = [Past(graph, query, Difference(frozenset(range(first, stop)), ())) for first in (stop, stop // 2)]
    if not np.allclose(steps.score_many(query, pasts), [steps.score(query, past) for past in pasts], atol=CLOSE):
        return f"{type(steps.gnn).__name__} mixes parts of a graph that no edge joins, so sets cannot be batched"
    return ""


def _difference(way: Way, frame: Frame, graph: TemporalGraph) -> str:
    """How a method differs from the reference, in words; "" if it does not."""
    for log in _short_logs(frame, graph):
        tried = frame._replace(feeding=Feeding(Grid(frame.feeding.grid.size)))
        model, plain = way(tried, log), replaying_everything(tried, log)
        for query, changes in _questions(log):
            given = model.session(query, sorted(frozenset[int]().union(*changes))).logits(changes)
            by_judge = [model.reference(query, change).logits(query, [change])[0] for change in changes]
            right = plain.reference(query, frozenset(), full=True).logits(query, changes)
            if np.isnan(right).any():
                raise ModelError(f"the logits of the modules are NaN on a few test events, fed to {frame.name}")
            for answers in (given, np.array(by_judge)):
                if not np.allclose(answers, right, atol=CLOSE, rtol=CLOSE):
                    worst = int(np.nanargmax(np.abs(answers - right)))
                    return (
                        f"on a few test events, the shortcuts that are valid for the library's TGNMemory give "
                        f"{answers[worst]:.5f} where {frame.name} itself, fed event by event, gives {right[worst]:.5f}"
                    )
    return ""


def _short_logs(frame: Frame, graph: TemporalGraph) -> Iterator[TemporalGraph]:
    """The first events and the last ones, a few batches of either."""
    size, total = frame.feeding.grid.size, graph.num_events
    length = min(total, max(FEW_ROWS, FEW_BATCHES * size), max(TRIED, 3 * size // 2))
    for first in sorted({0, total - length}):
        yield graph.select(np.arange(first, first + length))


def _questions(graph: TemporalGraph) -> Iterator[tuple[Query, list[Change]]]:
    """Some links with a long history, each with nothing left out, with events near it left out, and with any events."""
    rng = np.random.default_rng(0)
    later = np.arange(graph.num_events // 2, graph.num_events)
    degrees = np.diff(graph.offsets)
    busy = later[np.argsort(-(degrees[graph.src[later]] + degrees[graph.dst[later]]), kind="stable")]
    for row in sorted({int(later[-1]), *busy[: len(busy) // 2 : max(1, len(busy) // 2 // (QUERIES - 1))].tolist()}):
        query = graph.query(row)
        near, everything = candidates(graph, query, 2, CANDIDATES), np.arange(query.before)
        shares = [(near, 0.3), (near, 0.7), (everything, 0.1)]
        yield query, [frozenset(), *(frozenset(rows[rng.random(len(rows)) < share].tolist()) for rows, share in shares)]


def updater(memory: Any) -> Any:
    """The module that writes the memory, under its name in PyG, or in TGB and TGM."""
    return getattr(memory, "gru", None) or getattr(memory, "memory_updater", None)
