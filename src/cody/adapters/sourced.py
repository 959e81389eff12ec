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
from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property
from typing import Any, NamedTuple, Self

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from cody.adapters.history import HistoryModel, HistoryReference
from cody.adapters.memory_table import NONE, MemoryLog, MemorySteps, StateTable
from cody.adapters.past import Past
from cody.adapters.slots import UNKNOWN, BatchSlots, OpenSlot, SlotLineage
from cody.engine.fast import REFINED
from cody.engine.selfcheck import SelfCheck
from cody.engine.tgn import FINER
from cody.engine.vectors import NearDuplicates
from cody.graph import BoolArray, FloatArray, IntArray, Query, TemporalGraph
from cody.models.contract import Change, check_changes
from cody.utils.deadline import check_deadline

STATES_KEPT = 2**25  # numbers that a session remembers; then it starts afresh
SETS_AT_ONCE = 64
VECTORS_OF_A_STATE = 4  # that are computed for it: itself, and a message of two memories and a time encoding
MOST_STATES = 2 * UNKNOWN  # of a session; a pair of them and the number of a slot fit into 64 bits
MANY_SLOTS = 500  # that changes may concern: then states are taken for the same if they differ by less than …
SMALL_CHANGE = 1e-4  # … this, in every number; see `engine/selfcheck.py`


class Message(NamedTuple):
    """What makes a state of a node: its state before, that of the node at the other end, its last rows."""

    own: int
    other: int
    source: int
    target: int


class Recipes(NamedTuple):
    """How states are computed from others, which are given by their numbers. [n] each"""

    number: IntArray
    own: IntArray
    other: IntArray
    row: IntArray
    target: BoolArray
    elapsed: NDArray[Any]


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
        self._of_message: dict[int | Message, int] = {}
        self._to_compute: list[Recipes] = []

    @property
    def size(self) -> int:
        """How many numbers it holds."""
        return self.count * self.memory.shape[1]

    def after(self, messages: Sequence[Message]) -> list[int]:
        """The numbers of the states that nodes have after messages."""
        new = [message for message in dict.fromkeys(messages) if message not in self._of_message]
        if new:
            own, other, source, target = np.array(new, dtype=np.int64).T
            numbers = self._add(own, other, *self.log.counts(source, target), np.stack([source, target], axis=1))
            self._of_message.update(zip(new, numbers.tolist(), strict=True))
        return [self._of_message[message] for message in messages]

    def after_settled(self, own: IntArray, other: IntArray, batch: BatchSlots, place: IntArray) -> IntArray:
        """The same for slots in which no change can choose the message. [n] each → [n]"""
        keys = (batch.slots[place] * MOST_STATES + own + UNKNOWN) * MOST_STATES + other + UNKNOWN
        distinct, first, inverse = np.unique(keys, return_index=True, return_inverse=True)
        numbers = np.array([self._of_message.get(key, NONE) for key in distinct.tolist()])
        new = np.flatnonzero(numbers == NONE)
        if len(new):
            own, other, place = own[first[new]], other[first[new]], place[first[new]]
            last = np.where(batch.last[place] == NONE, self.last[own], batch.last[place])
            numbers[new] = self._add(own, other, batch.row[place], batch.target[place], last)
            self._of_message.update(zip(distinct[new].tolist(), numbers[new].tolist(), strict=True))
        found: IntArray = numbers[inverse.reshape(-1)]
        return found

    def _add(self, own: IntArray, other: IntArray, row: IntArray, target: BoolArray, last: IntArray) -> IntArray:
        """Numbers for states that are computed from others."""
        self._reserve(len(row))
        numbers = np.arange(self.count, self.count + len(row))
        self.count += len(row)
        self.updated[numbers], self.same[numbers] = self.log.times[row], numbers
        self.last[numbers] = self._that_may_count(last, self.updated[numbers])
        elapsed = self.updated[numbers] - self.updated[own]
        self._to_compute.append(Recipes(numbers, own, other, row, target, elapsed))
        return numbers

    def _that_may_count(self, last: IntArray, updated: NDArray[Any]) -> IntArray:
        """Last rows, without those older than the last update: every later message comes before them. [n, 2]"""
        may_count: IntArray = np.where(self.log.times[last] < updated[:, None], NONE, last)
        return may_count

    def _reserve(self, more: int) -> None:
        """Make room."""
        front, back, needed = self.count, self._standing, self.count + more + self._standing
        if needed > len(self.same):
            wider = self.memory.new_zeros((2 * needed, self.memory.shape[1]))
            wider[:front], wider[2 * needed - back :] = self.memory[:front], self.memory[len(self.memory) - back :]
            self.memory = wider
            self.updated, self.last, self.same = (
                _wider(column, 2 * needed, front, back) for column in (self.updated, self.last, self.same)
            )

    def compute(self) -> None:
        """Fill in the memory of the states that were added; none of them is computed from another one."""
        if self._to_compute:
            recipes = Recipes(*map(np.concatenate, zip(*self._to_compute, strict=True)))
            parents = self.memory[torch.as_tensor(recipes.own)], self.memory[torch.as_tensor(recipes.other)]
            written = self.log.remember(*parents, recipes.row, recipes.target, recipes.elapsed)
            self.memory[torch.as_tensor(recipes.number)] = written
            self._to_compute = []

    def share(self, numbers: IntArray, slots: IntArray, usual: IntArray) -> None:
        """Replace each new state by the one of its slot with nothing changed, or by another, if they are the same."""
        alike = (self.updated[numbers] == self.updated[usual]) & (self.last[numbers] == self.last[usual]).all(axis=1)
        numbers, slots, usual = numbers[alike], slots[alike], usual[alike]
        values = self.memory[torch.as_tensor(numbers)]
        difference = (values - self.memory[torch.as_tensor(usual)]).abs().amax(dim=1).cpu().numpy()
        back = difference <= self.most
        self.same[numbers[back]] = usual[back]
        if self.most:
            rest = ~back & (values.abs().amax(dim=1).cpu().numpy() <= 1.0)  # what `NearDuplicates` can tell apart
            self._share_among(numbers[rest], slots[rest], values.cpu().numpy()[rest])

    def _share_among(self, numbers: IntArray, slots: IntArray, values: FloatArray) -> None:
        found = self._near.find(slots, values, self.memory.cpu().numpy())
        self.same[numbers[found != NONE]] = found[found != NONE]
        numbers, slots, values = (column[found == NONE] for column in (numbers, slots, values))
        first = self._near.first_of_each(slots, values)
        self.same[numbers] = numbers[first]
        new = first == np.arange(len(first))
        self._near.add(slots[new], values[new], numbers[new])

    def share_from_now_on(self) -> None:
        """Let what was added be found by `share`."""
        self._near.sort()


def _wider(column: NDArray[Any], room: int, front: int, back: int) -> NDArray[Any]:
    wider = np.zeros((room, *column.shape[1:]), dtype=column.dtype)
    wider[:front], wider[room - back :] = column[:front], column[len(column) - back :]
    return wider


class SlotWorkspace:
    """All that is known about one query, for changes of some rows. It only grows."""

    def __init__(self, table: StateTable, log: MemoryLog, query: Query, rows: frozenset[int]) -> None:
        self.table, self.log, self.query, self.rows = table, log, query, rows
        self.lineage = SlotLineage(table, log, query, rows)
        self.refined = 0  # how often estimates were made less rough
        self._begin(0.0 if self.lineage.count <= MANY_SLOTS else SMALL_CHANGE)

    def _begin(self, most: float) -> None:
        """Nothing is computed yet; states that differ by `most` are taken for the same."""
        self.states = States(self.table, self.log, self.lineage.standing, most)

    @property
    def exact(self) -> bool:
        """Whether its answers are exact, not estimates."""
        return self.states.most == 0.0

    @cached_property
    def exactly(self) -> SlotWorkspace:
        """The same without approximation. It has its own states, and the rest in common."""
        return self._with(0.0)

    @cached_property
    def finer(self) -> SlotWorkspace:
        """The same with estimates that are less rough; those of the finest are exact."""
        if self.refined == REFINED:
            return self.exactly
        other = self._with(self.states.most / FINER)
        other.refined += 1
        return other

    def afresh(self) -> SlotWorkspace:
        """The same with nothing computed."""
        other = self._with(self.states.most)
        for less_rough in ("finer", "exactly"):
            vars(other).pop(less_rough, None)
        return other

    def _with(self, most: float) -> SlotWorkspace:
        other = copy.copy(self)
        other._begin(most)
        return other

    @property
    def size(self) -> int:
        """How many numbers are remembered."""
        return self.states.size + (self.exactly.states.size if "exactly" in vars(self) else 0)

    @property
    def has_room(self) -> bool:
        """Whether more may be remembered."""
        return self.size <= STATES_KEPT and self.states.count <= MOST_STATES // 4

    def answer(self, changes: Sequence[Change]) -> list[float]:
        """One logit for each change. [B]"""
        graph, steps, query = self.log.graph, self.log.steps, self.query
        outcomes = [graph.difference(change, query) for change in changes]
        subgraph = steps.subgraph(query, [Past(graph, query, outcome) for outcome in outcomes])
        masks = [sum(self.lineage.bit[row] for row in (*outcome.absent, *outcome.present)) for outcome in outcomes]
        known = self._follow(masks)
        numbers = self.lineage.states_at_query(subgraph.nodes, known, subgraph.of)
        updated = torch.tensor(self.states.updated[numbers])
        memory = self.states.memory[torch.as_tensor(numbers)]
        logits: list[float] = steps.answers(subgraph, graph, memory, updated).tolist()
        return logits

    def _follow(self, masks: list[int]) -> IntArray:
        """The number of the state after each slot that is needed, under each change. [slots, B]"""
        states = self.states
        known = np.zeros((self.lineage.count + 1, len(masks)), dtype=np.int64)  # the last one is for NONE
        for batch in self.lineage.batches:
            check_deadline()
            first = states.count
            found = np.repeat(batch.usual[:, None], len(masks), axis=1)  # [A, B]
            self._after_settled(batch, found[: len(batch.row)], known)
            self._after_open(batch, found, masks, known)
            states.compute()
            if states.count > first and batch.usual[0] != UNKNOWN:
                new, where = np.unique(found, return_index=True)
                places = where[new >= first] // len(masks)
                states.share(new[new >= first], batch.slots[places], batch.usual[places])
            known[batch.slots] = states.same[found]
        states.share_from_now_on()
        return known

    def _after_settled(self, batch: BatchSlots, found: IntArray, known: IntArray) -> None:
        """Enter the numbers of the states after slots in which no change can choose the message. [S, B]"""
        own, other = batch.own.states(known), batch.other.states(known)
        changed = (own != batch.own.number[:, None]) | (other != batch.other.number[:, None]) | (found == UNKNOWN)
        if changed.any():
            found[changed] = self.states.after_settled(own[changed], other[changed], batch, np.nonzero(changed)[0])

    def _after_open(self, batch: BatchSlots, found: IntArray, masks: list[int], known: IntArray) -> None:
        """Enter the numbers of the states after slots in which a change may choose the message. [A, B]"""
        asked: list[tuple[int, int]] = []
        messages: list[Message] = []
        for slot in batch.open:
            states = slot.parents.states(known)  # [ends, B]
            changed = (states != slot.parents.number[:, None]).any(axis=0) | (batch.usual[slot.place] == UNKNOWN)
            touched = changed | [bool(mask & slot.choosing) for mask in masks]
            own = states[slot.end(slot.node)]
            last = self.states.last[own].tolist()
            for of in np.flatnonzero(touched).tolist():
                message = self._message(slot, masks[of], last[of], states[:, of], int(own[of]))
                if message is None:
                    found[slot.place, of] = own[of]
                else:
                    asked.append((slot.place, of))
                    messages.append(message)
        if asked:
            places, changes = np.array(asked).T
            found[places, changes] = self.states.after(messages)

    def _message(self, slot: OpenSlot, mask: int, before: list[int], states: IntArray, own: int) -> Message | None:
        """What happens to a node in a slot, given its last rows before and the states of all ends; None: nothing."""
        bits = mask & slot.choosing
        chosen = slot.chosen.get(bits)
        if chosen is None:
            chosen = slot.chosen[bits] = self._last(slot, bits)
        if chosen == (NONE, NONE):
            return None
        source, target = (old if new == NONE else new for new, old in zip(chosen, before, strict=True))
        place = slot.others.get((source, target))
        if place is None:
            counts = self.log.counts(np.array([source]), np.array([target]))
            place = slot.others[source, target] = slot.end(int(self.log.other_end(*counts)[0]))
        return Message(own, int(states[place]), source, target)

    def _last(self, slot: OpenSlot, bits: int) -> tuple[int, int]:
        """The node's last rows that happen in a slot, as source and as target; NONE where there are none."""
        graph, bit = self.log.graph, self.lineage.bit
        happened = [row for row in slot.rows if bool(bits & bit.get(row, 0)) == (row >= graph.num_events)]
        rows = np.array(happened, dtype=np.int64)
        last = np.full((2, graph.num_nodes), NONE)
        self.log.enter(last, rows)
        source, target = last[:, slot.node].tolist()
        return source, target


class SourcedSession:
    """A model with event-sourced memory asked about one query.

    What it knows is taken out while it changes: if a call fails or is interrupted, the next one starts afresh.
    """

    def __init__(self, model: SourcedModel, query: Query, rows: Iterable[int]) -> None:
        self.model, self.query = model, query
        self.rows = frozenset(rows)
        self._workspace: SlotWorkspace | None = None
        self._check = SelfCheck()

    @property
    def size(self) -> int:
        """How many numbers it keeps, roughly."""
        return 0 if self._workspace is None else self._workspace.size

    @property
    def weight(self) -> int:
        """How many numbers one answer computes at most, roughly: the states that may change, and their messages."""
        self._workspace = self._take(frozenset())
        return self._workspace.lineage.count * VECTORS_OF_A_STATE * int(self.model.like.shape[1])

    @property
    def corrections(self) -> Mapping[Change, float]:
        """The exact answers to what it had answered before it found that it must not approximate."""
        return self._check.corrections

    @torch.no_grad()
    def logits(self, changes: Sequence[Change]) -> FloatArray:
        """One logit for each change. [B]"""
        changes = check_changes(self.model.graph, changes)
        answers: list[float] = []
        for first in range(0, len(changes), SETS_AT_ONCE):
            some = changes[first : first + SETS_AT_ONCE]
            workspace = self._take(frozenset[int]().union(*some))
            answers += self._check.answer(workspace, some)
            self._workspace = self._check.trusted(workspace)
        return np.array(answers, dtype=np.float64)

    def _take(self, asked: frozenset[int]) -> SlotWorkspace:
        workspace, self._workspace = self._workspace, None
        if workspace is not None and asked <= workspace.rows:
            return workspace if workspace.has_room else workspace.afresh()
        self.rows |= asked
        return self._check.trusted(SlotWorkspace(self.model.table, self.model.log, self.query, self.rows))


class SourcedModel:
    """A model with event-sourced memory: equal to its plain form, the frame around the user's own modules."""

    def __init__(self, plain: HistoryModel, steps: MemorySteps, like: Tensor) -> None:
        self.frame, self.steps, self.like = plain, steps, like
        self.graph, self.identity, self.hops, self.grid = plain.graph, plain.identity, plain.hops, plain.grid
        self.log = MemoryLog(steps, self.graph, self.grid)

    @property
    def gives_logits(self) -> bool:
        return self.frame.gives_logits

    @cached_property
    def table(self) -> StateTable:
        """Made when it is first needed, once for all logs that are longer by imagined rows."""
        with torch.no_grad():
            return StateTable(self.log, self.like)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.identity} on {self.graph})"

    def logits(self, query: Query, changes: Sequence[Change]) -> FloatArray:
        """One logit for each change. [B]"""
        return self.session(query).logits(changes)

    def session(self, query: Query, rows: Iterable[int] = ()) -> SourcedSession:
        """A session about a query; `rows` will probably be otherwise."""
        return SourcedSession(self, self.frame.as_fed(query), rows)

    def sees_before(self, query: Query) -> int:
        """The row from which on nothing matters to a query."""
        return self.frame.sees_before(query)

    def reference(self, query: Query, change: Change, *, full: bool = False) -> HistoryReference:
        """The user's own modules, fed event by event: from row 0 if `full`, else from the last line before a change."""
        if not full:
            (change,) = check_changes(self.graph, [change])
            seen = self.frame.as_fed(query)
            line = self.frame.line_before(seen, self.graph.difference(change, seen))
            with self.frame.borrowed():
                if line and line not in self.frame.snapshots:
                    self.frame.snapshots.keep(line, self.steps.state(self.graph, *self.table.at(line, self.like)))
        return self.frame.reference(query, change, full=full)

    def on(self, graph: TemporalGraph) -> Self:
        """The same model on another log of the same nodes."""
        other = copy.copy(self)
        other.frame, other.graph, other.log = self.frame.on(graph), graph, MemoryLog(self.steps, graph, self.grid)
        if graph.base_identity == self.graph.base_identity:
            vars(other)["table"] = self.table
        else:
            vars(other).pop("table", None)
        return other
