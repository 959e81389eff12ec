"""Event-sourced memory for TGNs of other libraries: exact answers that compute only what a change changes.

Read `engine/replay.py` and docs/engine.md first: the idea is that of our own engine. The user's own modules compute
everything, so any message function, GNN and predictor will do.

The state after each slot of the log as it is stands in a table (`memory_table.py`). The state after a slot under a
change is a function of the node's state before, of the state of one other node at the start of the batch, and of one
event; it is computed only where the change can reach the slot, and the slot the query (`slots.py`), and is followed
only as long as it differs from the one in the table. Where many slots can change, it may differ a little:
`engine/selfcheck.py` says what is done for answers to stay right.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterable, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple, Self

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from cody.adapters.history import HistoryModel, HistoryReference
from cody.adapters.memory_table import NONE, MemoryLog, StateTable
from cody.adapters.slots import UNKNOWN, BatchSlots, OpenSlot, SlotLineage
from cody.adapters.trials import distinct
from cody.adapters.versioned import FollowedMemory, VersionWorkspace, gru_weights
from cody.adapters.workspace import Workspace
from cody.engine.selfcheck import CheckedSession
from cody.engine.threads import one_thread
from cody.engine.vectors import NearDuplicates
from cody.graph import BoolArray, FloatArray, IntArray, Query, TemporalGraph
from cody.models.contract import Change, Margin, add_labels, check_changes, scores_of_only
from cody.utils.deadline import check_deadline

if TYPE_CHECKING:
    from cody.adapters.pyg import PygSteps

SETS_AT_ONCE = 64
LINKS_AT_ONCE = 4096  # in all sets together
VECTORS_OF_A_STATE = 4  # that are computed for it: itself, and a message of two memories and a time encoding
MOST_STATES = 2 * UNKNOWN  # of a session; a pair of them and the number of a slot fit into 64 bits


class Messages(NamedTuple):
    """What makes states of nodes, which are given by their numbers, as all states are. [n] each"""

    own: IntArray  # the node's state before
    other: IntArray  # that of the node at the other end
    row: IntArray  # of the message that counts
    target: BoolArray  # whether the node is its target
    last: IntArray  # [n, 2] the node's last rows as source and as target
    place: IntArray  # of the state after it in the list of a lineage

    def some(self, which: IntArray) -> Messages:
        own, other, row, target, last, place = self
        return Messages(own[which], other[which], row[which], target[which], last[which], place[which])


class Found(NamedTuple):
    """The numbers of some states. [n] each"""

    place: IntArray  # in the list of a lineage
    of: IntArray  # the change, by its place
    number: IntArray


class States:
    """States of nodes, by number: 0 is that of a node without past, -1, -2, … stand in the table, 1, 2, … are computed.

    Columns hold the computed ones from the front and the others from the back, so that every number is a place.
    """

    def __init__(self, table: StateTable, log: MemoryLog, standing: IntArray, most: float) -> None:
        self.log = log
        self.count = 1  # of those from 0 on
        self.most = most  # that states may differ, in any number, and be taken for the same
        room, width, self._standing = 2 * len(standing) + 256, table.memory.shape[1], len(standing) - 1
        number, slots = -np.arange(1, len(standing)), standing[1:]
        self.memory = table.memory.new_zeros((room, width))
        self.memory[torch.as_tensor(number)] = table.memory[torch.as_tensor(slots)]
        self.updated = np.zeros(room, dtype=log.times.dtype)
        self.updated[number] = table.updated[slots]
        self.last = np.full((room, 2), NONE)  # the last rows as source and as target, if they may still count
        self.last[number] = self._that_may_count(table.last[:, slots].T, self.updated[number])
        self.same = np.zeros(room, dtype=np.int64)  # the number of the state that stands for it
        self.same[number] = number
        self._near = NearDuplicates(width, most)
        self._of_message: dict[Any, int] = {}
        self._to_compute: list[Messages] = []

    @property
    def size(self) -> int:
        """How many numbers it holds."""
        return self.count * self.memory.shape[1]

    def after(self, keys: IntArray | Sequence[Any], messages: Callable[[IntArray], Messages]) -> IntArray:
        """The numbers of the states that nodes have after messages; those with the same key are the same. [n]

        Args:
            keys: One for each message.
            messages: The messages at some places among them.
        """
        different, first, inverse = distinct(keys)
        numbers = np.array([self._of_message.get(key, NONE) for key in different], dtype=np.int64)
        new = np.flatnonzero(numbers == NONE)
        if len(new):
            numbers[new] = np.arange(self.count, self.count + len(new))
            self._of_message.update((different[place], int(numbers[place])) for place in new.tolist())
            self._add(messages(first[new]))
        return numbers[inverse]

    def _add(self, messages: Messages) -> None:
        """Give the next numbers to states; they are computed later."""
        first, self.count = self.count, self.count + len(messages.own)
        self._reserve()
        self.updated[first : self.count] = updated = self.log.times[messages.row]
        self.same[first : self.count] = np.arange(first, self.count)
        self.last[first : self.count] = self._that_may_count(messages.last, updated)
        self._to_compute.append(messages)

    def _that_may_count(self, last: IntArray, updated: NDArray[Any]) -> IntArray:
        """Last rows, without those older than the last update: every later message comes before them. [n, 2]"""
        return np.where(self.log.times[last] < updated[:, None], NONE, last)

    def _reserve(self) -> None:
        """Make room for as many as there are."""
        back, needed = self._standing, self.count + self._standing
        if needed > len(self.same):
            front = len(self.same) - back
            wider = self.memory.new_zeros((2 * needed, self.memory.shape[1]))
            wider[:front], wider[2 * needed - back :] = self.memory[:front], self.memory[front:]
            self.memory = wider
            self.updated, self.last, self.same = (
                _wider(column, 2 * needed, front) for column in (self.updated, self.last, self.same)
            )

    def compute(self, usual: IntArray) -> None:
        """Fill in the memory of the states that were added; none of them is computed from another one.

        `usual` has the number of the state with nothing changed at each place, UNKNOWN if it is not in the table. Each
        new state is replaced by that one, or by another of its place, if they are the same.
        """
        if not self._to_compute:
            return
        messages = Messages(*map(np.concatenate, zip(*self._to_compute, strict=True)))
        self._to_compute = []
        order = np.argsort(messages.target, kind="stable")  # of sources before those of targets
        numbers = self.count - len(order) + order
        own, other, row, target, _, place = messages.some(order)
        parents = self.memory[torch.as_tensor(own)], self.memory[torch.as_tensor(other)]
        elapsed = self.updated[numbers] - self.updated[own]
        sources = len(row) - int(np.count_nonzero(target))
        values = self.log.steps.remember(self.log.graph, *parents, row, sources, elapsed)
        self.memory[torch.as_tensor(numbers)] = values
        if usual[place[0]] != UNKNOWN:
            self._share(numbers, place, usual[place], values)

    def _share(self, numbers: IntArray, places: IntArray, usual: IntArray, values: Tensor) -> None:
        alike = (self.updated[numbers] == self.updated[usual]) & (self.last[numbers] == self.last[usual]).all(axis=1)
        difference = (values - self.memory[torch.as_tensor(usual)]).abs_().amax(dim=1).cpu().numpy()
        back = alike & (difference <= self.most)
        self.same[numbers[back]] = usual[back]
        if self.most:
            rest = np.flatnonzero(alike & ~back)
            different = values.cpu().numpy()[rest]
            inside = np.abs(different).max(axis=1, initial=0.0) <= 1.0  # what `NearDuplicates` can tell apart
            self._share_among(numbers[rest[inside]], places[rest[inside]], different[inside])

    def _share_among(self, numbers: IntArray, slots: IntArray, values: FloatArray) -> None:
        """Replace each state by another one of its slot that is nearly the same."""
        found = self._near.find(slots, values, self.memory.cpu().numpy())
        self.same[numbers[found != NONE]] = found[found != NONE]
        numbers, slots, values = (column[found == NONE] for column in (numbers, slots, values))
        first = self._near.first_of_each(slots, values)
        self.same[numbers] = numbers[first]
        new = first == np.arange(len(first))
        self._near.add(slots[new], values[new], numbers[new])

    def share_from_now_on(self) -> None:
        """Let new states be replaced by those that were added so far."""
        self._near.sort()


def _wider(column: NDArray[Any], room: int, front: int) -> NDArray[Any]:
    wider = np.zeros((room, *column.shape[1:]), dtype=column.dtype)
    wider[:front], wider[room - len(column) + front :] = column[:front], column[front:]
    return wider


class SlotWorkspace(Workspace):
    """A workspace that follows the states after slots, computed by the user's modules."""

    def __init__(self, table: StateTable, log: MemoryLog, links: Sequence[Query], rows: frozenset[int]) -> None:
        self.table = table
        self.lineage = SlotLineage(table, log, links, rows)
        super().__init__(log, links, rows, self.lineage.count)

    def _begin(self, most: float) -> None:
        self.states = States(self.table, self.log, self.lineage.standing, most)

    @property
    def own_size(self) -> int:
        return self.states.size

    @property
    def has_room(self) -> bool:
        return super().has_room and self.states.count <= MOST_STATES // 4

    def _states(self, nodes: IntArray, of: IntArray, changes: Sequence[Change]) -> tuple[Tensor, NDArray[Any]]:
        outcomes = (self.log.graph.difference(change, self.links[0]) for change in changes)
        known = self._follow([frozenset((*outcome.absent, *outcome.present)) for outcome in outcomes])
        numbers = self.lineage.states_at_query(nodes, known, of)
        return self.states.memory[torch.as_tensor(numbers)], self.states.updated[numbers]

    def _follow(self, changes: list[Change]) -> IntArray:
        """The number of each state of the lineage under each change. [states, B]"""
        states, lineage = self.states, self.lineage
        happens = [[row in change for change in changes] for row in lineage.events.tolist()]
        changed = np.array(happens, dtype=np.float32).reshape(-1, len(changes))  # [events, B]
        masks = [sum(lineage.bit[row] for row in change) for change in changes]
        known = np.repeat(lineage.usual[:, None], len(changes), axis=1)
        differs = known == UNKNOWN  # from what it is with nothing changed
        for batch in lineage.batches:
            check_deadline()
            settled = self._after_settled(batch, known, differs)
            opened = self._after_open(batch, changed, masks, known, differs) if batch.open.slots else ()
            states.compute(lineage.usual)
            for place, of, number in filter(None, (settled, opened)):
                known[place, of] = numbers = states.same[number]
                differs[place, of] = numbers != lineage.usual[place]
        states.share_from_now_on()
        return known

    def _after_settled(self, batch: BatchSlots, known: IntArray, differs: BoolArray) -> Found | None:
        """The numbers of the states after slots in which no change can choose the message, if they may differ."""
        stop = batch.first + len(batch.row)
        which, of = np.nonzero(differs[batch.own] | differs[batch.other] | differs[batch.first : stop])
        if not len(which):
            return None
        own, other, place = known[batch.own[which], of], known[batch.other[which], of], batch.first + which

        def messages(some: IntArray) -> Messages:
            slot = which[some]
            last = np.where(batch.last[slot] == NONE, self.states.last[own[some]], batch.last[slot])
            return Messages(own[some], other[some], batch.row[slot], batch.target[slot], last, place[some])

        keys = (place * MOST_STATES + own + UNKNOWN) * MOST_STATES + other + UNKNOWN
        return Found(place, of, self.states.after(keys, messages))

    def _after_open(
        self, batch: BatchSlots, changed: FloatArray, masks: list[int], known: IntArray, differs: BoolArray
    ) -> Found | None:
        """The numbers of the states after slots in which a change may choose the message, if they may differ."""
        opened, first = batch.open, batch.first + len(batch.row)
        touched = opened.touched(differs, changed) | differs[first : first + len(opened.slots)]
        which, of = np.nonzero(touched)
        if not len(which):
            return None
        number = known[opened.states[opened.own[which]], of]  # the state before, where nothing happens to the node
        pairs = zip(which.tolist(), of.tolist(), strict=True)
        chosen = np.array([self._last(opened.slots[slot], masks[change]) for slot, change in pairs])  # [n, 2]
        some = np.flatnonzero((chosen != NONE).any(axis=1))
        own, chosen = number[some], chosen[some]
        last = np.where(chosen == NONE, self.states.last[own], chosen)
        row, target = self.log.counts(*last.T)
        other = known[opened.states[opened.place(which[some], self.log.other_end(row, target))], of[some]]
        messages = Messages(own, other, row, target, last, first + which[some])
        keys = list(zip(own.tolist(), other.tolist(), *last.T.tolist(), strict=True))
        number[some] = self.states.after(keys, messages.some)
        return Found(first + which, of, number)

    def _last(self, slot: OpenSlot, mask: int) -> tuple[int, int]:
        """The node's last rows that happen in a slot, as source and as target; NONE where there are none."""
        bits = mask & slot.choosing
        chosen = slot.chosen.get(bits)
        if chosen is None:
            graph, bit = self.log.graph, self.lineage.bit
            happened = [row for row in slot.rows if bool(bits & bit.get(row, 0)) == (row >= graph.num_events)]
            last = np.full((2, graph.num_nodes), NONE)
            self.log.enter(last, np.array(happened, dtype=np.int64))
            source, target = last[:, slot.node].tolist()
            chosen = slot.chosen[bits] = source, target
        return chosen


class SourcedSession(CheckedSession):
    """A model with event-sourced memory asked about one link, or about several of the same moment."""

    def __init__(self, model: SourcedModel, links: Sequence[Query], margin: Margin | None, rows: Iterable[int]) -> None:
        super().__init__(links, model.outputs, margin, rows)
        self.model = model
        self._workspace: Workspace | None = None

    @property
    def size(self) -> int:
        """How many numbers it keeps, roughly."""
        return 0 if self._workspace is None else self._workspace.size

    @property
    def weight(self) -> int:
        """How many numbers one answer computes at most, roughly: the states that may change, and their messages."""
        with one_thread():
            self._workspace = self._take(frozenset())
        return self._workspace.count * VECTORS_OF_A_STATE * int(self.model.like.shape[1])

    @torch.no_grad()
    @one_thread()
    def scores(self, changes: Sequence[Change]) -> FloatArray:
        """The scores of all links for each change. [B, m]"""
        changes = check_changes(self.model.graph, changes)
        answers: list[FloatArray] = []
        at_once = max(1, min(SETS_AT_ONCE, LINKS_AT_ONCE // len(self.links)))
        for first in range(0, len(changes), at_once):
            some = changes[first : first + at_once]
            workspace = self._take(frozenset[int]().union(*some))
            answers += self._check.answer(workspace, some)
            self._workspace = self._check.trusted(workspace)
        return self.table(answers)

    def _take(self, asked: frozenset[int]) -> Workspace:
        workspace, self._workspace = self._workspace, None
        if workspace is not None and asked <= workspace.rows:
            return workspace if workspace.has_room else workspace.afresh()
        self.rows |= asked
        return self._check.trusted(self.model.workspace(self.links, self.rows))


class SourcedModel:
    """A model with event-sourced memory: equal to its plain form, the frame around the user's own modules."""

    def __init__(self, plain: HistoryModel, steps: PygSteps, like: Tensor) -> None:
        self.frame, self.steps, self.like = plain, steps, like
        self.graph, self.identity, self.hops, self.grid = plain.graph, plain.identity, plain.hops, plain.grid
        self.log = MemoryLog(steps, self.graph, self.grid)
        add_labels(self, plain.steps.labels)

    @property
    def outputs(self) -> int:
        """How many numbers there are for a link: 1, or one for each class."""
        return self.frame.steps.outputs

    @property
    def gives_logits(self) -> bool:
        return self.frame.gives_logits

    @cached_property
    def table(self) -> StateTable:
        """Made when it is first needed, once for all logs that are longer by imagined rows."""
        with torch.no_grad(), one_thread():
            return StateTable(self.log, self.like)

    @cached_property
    def followed(self) -> FollowedMemory | None:
        """The memory for our own engine, if it is a GRU as in the libraries' examples."""
        with torch.no_grad(), one_thread():
            weights = gru_weights(self.steps, self.graph, self.like.shape[1])
        return None if weights is None else FollowedMemory(self.table, self.log, weights)

    def workspace(self, links: Sequence[Query], rows: frozenset[int]) -> Workspace:
        """What is to be known about links of one moment, for changes of some rows."""
        known = None if self.followed is None else VersionWorkspace.of(self.followed, links, rows)
        return known or SlotWorkspace(self.table, self.log, links, rows)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.identity} on {self.graph})"

    def logits(self, query: Query, changes: Sequence[Change]) -> FloatArray:
        """One logit for each change, [B]; with more than two classes, the score of each. [B, C]"""
        return self.session(query).logits(changes)

    def session(self, query: Query, rows: Iterable[int] = ()) -> SourcedSession:
        """A session about a query; `rows` will probably be changed."""
        return SourcedSession(self, [self.frame.as_fed(query)], None, rows)

    def session_of_links(self, links: Sequence[Query], margin: Margin, rows: Iterable[int] = ()) -> SourcedSession:
        """A session about links of one moment: each state that a change leads to is computed once for all of them.

        Args:
            links: All with the same time and visible past.
            margin: Of the decision that their scores lead to: where it is close to 0, scores are exact.
            rows: Rows that will probably be changed.
        """
        return SourcedSession(self, [self.frame.as_fed(link) for link in links], margin, rows)

    def sees_before(self, query: Query) -> int:
        """The row from which on nothing matters to a query."""
        return self.frame.sees_before(query)

    def reference(self, query: Query, change: Change, *, full: bool = False) -> HistoryReference:
        """The user's own modules, fed event by event: all events from row 0 if `full`, else those that can matter.

        Args:
            query: The link that is scored.
            change: The edited rows: a real row is removed, an imagined row is added.
            full: Replay every event from row 0 instead of from the last line before the change.
        """
        if full:
            return self.frame.reference(query, change, full=True)
        (change,) = check_changes(self.graph, [change])
        seen = self.frame.as_fed(query)
        line = self.frame.line_before(seen, self.graph.difference(change, seen))
        with self.frame.borrowed():
            if line and line not in self.frame.snapshots:
                self.frame.snapshots.keep(line, self.steps.state(self.graph, *self.table.at(line, self.log, self.like)))
        return HistoryReference(self.frame, self.frame.snapshots.last_line(line), self.log.needed)

    def reference_of_links(self, links: Sequence[Query], change: Change, *, full: bool = False) -> HistoryReference:
        """The same for links of one moment."""
        return self.reference(links[0], change, full=full)

    def only_of_links(self, links: Sequence[Query], kept: Change) -> FloatArray:
        """The scores of links of one moment under a history of these rows only: the user's modules are fed no others.

        Args:
            links: The links that are scored.
            kept: The rows of that history.
        """
        return scores_of_only(self.frame, links, kept)

    def on(self, graph: TemporalGraph) -> Self:
        """The same model on another log of the same nodes."""
        other = copy.copy(self)
        other.frame, other.graph, other.log = self.frame.on(graph), graph, MemoryLog(self.steps, graph, self.grid)
        for name in ("table", "followed"):
            vars(other).pop(name, None)
        if graph.base_identity == self.graph.base_identity:
            vars(other)["table"] = self.table
            vars(other)["followed"] = None if self.followed is None else self.followed.on(other.log)
        return other

    def __getstate__(self) -> dict[str, Any]:
        """Another process makes its own `followed`."""
        return {name: value for name, value in vars(self).items() if name != "followed"}
