"""Versions of a node that do not count in the order of their rows.

A node's memory after a batch is its last version in it. In our own models that is the one of its last row. In those of
other libraries, events of the same time may count in another order, which depends on the node: the side it is on. And
the message of an earlier batch may count once more, instead of those of the same time in a later one.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from cody.graph import IntArray


@dataclass(frozen=True, slots=True, eq=False)
class NodeOrder:
    """Groups of versions, each of one node and one batch and side by side in the order of rows, and how they count.

    Each member takes the place, in the order of rows, of a member of its group.
    """

    members: IntArray  # [m] indices of versions, ascending
    place: IntArray  # [m] the member whose place each takes
    at_place: IntArray  # [m] the member that takes the place of each
    begins: IntArray  # [m] the first row of the group
    ends: IntArray  # [m] the last row of the group
    repeating: IntArray  # [r] indices of versions that are made by the message of an earlier event, ascending
    message: IntArray  # [r] the row of that event

    @property
    def is_plain(self) -> bool:
        """Whether it is the order of rows, without an exception."""
        return not len(self.members) and not len(self.repeating)

    def counting(self, index: IntArray) -> IntArray:
        """Of the versions that are the latest by row, those that count. [n] → [n]"""
        found, member = find(index, self.members)
        counting = index.copy()
        counting[found] = self.at_place[member]
        return counting

    def rows(self, index: IntArray) -> IntArray:
        """The rows in whose places versions count. [n] → [n]"""
        found, member = find(index, self.members)
        rows = index // 2
        rows[found] = self.place[member] // 2
        return rows

    def messages(self, index: IntArray) -> IntArray:
        """The rows of the events that make versions. [n] → [n]"""
        found, which = find(index, self.repeating)
        rows = index // 2
        rows[found] = self.message[which]
        return rows

    def is_cut(self, index: IntArray, before: int) -> bool:
        """Whether a query sees only a part of the group of one of these versions."""
        _, member = find(index, self.members)
        return bool(((self.begins[member] < before) & (self.ends[member] >= before)).any())


def find(numbers: IntArray, among: IntArray) -> tuple[IntArray, IntArray]:
    """Which of the numbers are among ascending ones, and where they stand there. [n], [m] → [k], [k]

    >>> find(np.array([7, 4, 1]), np.array([1, 3, 7]))
    (array([0, 2]), array([2, 0]))
    """
    place = np.searchsorted(among, numbers)
    inside = np.flatnonzero(place < len(among))
    found = inside[among[place[inside]] == numbers[inside]]
    return found, place[found]


ORDER_OF_ROWS = NodeOrder(*[np.zeros(0, dtype=np.int64)] * 7)
