"""What removed events change in the memories of a TGN, where the past they may change is long.

Followed back from a link, a long past holds tens of thousands of versions that *can* depend on a removed event. Few do:
every update forgets a part of what was before, and mostly after some dozens the change is smaller than rounding. So
here it is followed forward, from the removed events to the versions computed from theirs, until it has died away.

The table is rounded, and a version computed anew from rounded parents differs from the stored one a little even if
nothing was removed. That difference would never die away. So what is added to the stored version is the effect alone:
what the update gives from the changed parents, less what it gives from the stored ones.

Some changes live long. Then one more event is removed: its own change dies away, and the versions are again those of
the set without it. So a set begins with what is known of a smaller one, and values equal up to rounding are one value.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from heapq import heappop, heappush

import numpy as np
import torch
from torch import Tensor

from cody.graph import BoolArray, IntArray
from cody.inference.fast import Store
from cody.inference.scope import Mask, Version

STORED = -1  # instead of an id: the version is the one in the table
ENTRIES_KEPT = 2_000_000  # of sets that were followed, some 200 MB
COMPARED = 4  # latest values of a version that a new one may be equal to
SMALLEST = {torch.float32: 1e-9, torch.float64: 1e-13}  # change that counts, by the precision of the table


Key = tuple[int, int, int, int, int]  # position; own parent and its id; other parent and its id
Update = Callable[
    [IntArray, IntArray, Tensor, Tensor], Tensor
]  # rows, positions of own parents, values of both parents


class Spread:
    """The versions that differ without some events: their values, made once for each pair of changed parents."""

    def __init__(
        self,
        versions: Mapping[int, Version],
        batch: int,
        kept: Callable[[int, Mask], int],
        read: Callable[[IntArray], Tensor],
        update: Update,
        smallest: float,
    ) -> None:
        self.versions, self.batch, self.smallest = versions, batch, smallest
        self.kept, self.read, self.update = kept, read, update
        self.children: defaultdict[int, list[int]] = defaultdict(list)  # position → versions computed from it
        self.written: defaultdict[Mask, list[int]] = defaultdict(list)  # bit of an event → the versions it wrote
        self.after: dict[int, int] = {}  # position → the node's next version, if its event can be removed
        for position, version in versions.items():
            self.children[version.own].append(position)
            self.children[version.other].append(position)
            if version.bit:
                self.written[version.bit].append(position)
                self.after[version.previous] = position
        zero = read(np.array([], dtype=np.int64))
        self.values: Store[Key] = Store(zero.shape[1], zero.dtype)
        self.stored_update: Store[int] = Store(zero.shape[1], zero.dtype)  # of a position, from its stored parents
        self.equal: list[int] = []  # id → the first id with that value, or `STORED`
        self.first: defaultdict[int, list[int]] = defaultdict(list)  # position → ids with different values
        self.known: dict[Mask, dict[int, int]] = {0: {}}  # set → position → id, where it differs from the table

    def value(self, position: int, mask: Mask) -> int:
        """The id of a version's value without these events, or `STORED`. The set must have been followed."""
        return self.known[mask].get(position, STORED)

    @property
    def size(self) -> int:
        """How many numbers are remembered."""
        return self.values.values.numel() + self.stored_update.values.numel()

    def follow(self, masks: Iterable[Mask]) -> None:
        """Find what each of these sets changes, all sets together: the next batch of each in every round."""
        self._forget_old_sets()
        walks = [Walk(self, mask) for mask in dict.fromkeys(masks) if mask not in self.known]
        while walks:
            reached = [
                (walk, position, STORED if key is None else self.values.id(key))
                for walk in walks
                for position, key in walk.next_batch()
            ]
            self._compute()
            for walk, position, id_ in reached:
                walk.set(position, STORED if id_ == STORED else self.equal[id_])
            self.known.update((walk.mask, walk.changed) for walk in walks if not walk.batches)
            walks = [walk for walk in walks if walk.batches]

    def _forget_old_sets(self) -> None:
        """They are only good to begin others with."""
        kept = sum(map(len, self.known.values()))
        for mask in list(self.known):
            if kept <= ENTRIES_KEPT:
                return
            if mask:
                kept -= len(self.known.pop(mask))

    def _compute(self) -> None:
        """The values of all new keys."""
        new = self.values.pending
        if not new:
            return
        position, own, own_id, other, other_id = np.array(new, dtype=np.int64).T
        rows = np.array([self.versions[each].row for each in position.tolist()], dtype=np.int64)
        values = self.values.reserve()
        parents = (self._vectors(own, own_id, values), self._vectors(other, other_id, values))
        effect = self.update(rows, own, *parents) - self._stored_updates(position)
        first = len(self.values.ids) - len(new)
        self.values.write(self.read(position) + effect)
        self._find_equal(position, range(first, first + len(new)), effect)

    def _find_equal(self, positions: IntArray, ids: range, effect: Tensor) -> None:
        """Which of the new values are stored ones, or ones that are known already."""
        equal = np.array(ids)
        equal[self._is_small(effect)] = STORED
        values = self.values.values
        for place in range(COMPARED):
            pairs = [
                (number, known[-1 - place])
                for number, position in enumerate(positions.tolist())
                if equal[number] == ids[number] and len(known := self.first[position]) > place
            ]
            if not pairs:
                break
            numbers, others = np.array(pairs).T
            same = self._is_small(values[ids.start + numbers] - values[others])
            equal[numbers[same]] = others[same]
        self.equal += equal.tolist()
        for number, position in enumerate(positions.tolist()):
            if equal[number] == ids[number]:
                self.first[position].append(ids[number])

    def _is_small(self, differences: Tensor) -> BoolArray:
        return (differences.abs().amax(dim=1) <= self.smallest).numpy()

    def _vectors(self, positions: IntArray, ids: IntArray, values: Tensor) -> Tensor:
        found = self.read(positions)
        changed = ids != STORED
        found[changed] = values[ids[changed]]
        return found

    def _stored_updates(self, positions: IntArray) -> Tensor:
        ids = [self.stored_update.id(position) for position in positions.tolist()]
        new = self.stored_update.pending
        if new:
            versions = [self.versions[position] for position in new]
            columns = [[version.row, version.own, version.other] for version in versions]
            rows, own, other = np.array(columns, dtype=np.int64).T
            self.stored_update.write(self.update(rows, own, self.read(own), self.read(other)))
        return self.stored_update.values[ids]


class Walk:
    """One set on its way: versions that may differ wait for their batch, since their parents are of earlier ones."""

    def __init__(self, spread: Spread, mask: Mask) -> None:
        self.spread, self.mask = spread, mask
        one_less = (mask & ~bit for bit in spread.written if bit & mask)
        smaller = next((less for less in one_less if less in spread.known), 0)
        self.changed = dict(spread.known[smaller])
        self.waiting: defaultdict[int, set[int]] = defaultdict(set)
        self.batches: list[int] = []  # a heap
        for bit, positions in spread.written.items():
            if bit & mask & ~smaller:
                for position in positions:
                    self._go_on_from(position)

    def set(self, position: int, id_: int) -> None:
        """Note the value of a version; what is computed from it may differ if it was another one."""
        if id_ != self.changed.get(position, STORED):
            if id_ == STORED:
                del self.changed[position]
            else:
                self.changed[position] = id_
            self._go_on_from(position)

    def _go_on_from(self, position: int) -> None:
        """To what is computed from a version, or from a later one of the node instead of which it is left."""
        spread, place = self.spread, position
        while True:
            for child in spread.children.get(place, ()):
                batch = spread.versions[child].row // spread.batch
                if batch not in self.waiting:
                    heappush(self.batches, batch)
                self.waiting[batch].add(child)
            place = spread.after.get(place, STORED)
            if place == STORED or not spread.versions[place].bit & self.mask:
                return

    def next_batch(self) -> Iterator[tuple[int, Key | None]]:
        """The versions of the next batch, with the parents that they have now; None: those in the table."""
        if not self.batches:
            return
        kept, mask, changed = self.spread.kept, self.mask, self.changed
        for position in sorted(self.waiting.pop(heappop(self.batches))):
            version = self.spread.versions[position]
            if version.bit & mask:
                continue  # not written at all; what is computed from it was begun with
            own, other = kept(version.own, mask), kept(version.other, mask)
            key = (position, own, changed.get(own, STORED), other, changed.get(other, STORED))
            yield position, None if key[1:] == (version.own, STORED, version.other, STORED) else key
