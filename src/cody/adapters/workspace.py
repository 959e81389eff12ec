"""What a session knows about its links, whichever way states of the memory are followed."""

from __future__ import annotations

import copy
from abc import ABC, abstractmethod
from collections.abc import Sequence
from functools import cached_property
from typing import Any, Self

import torch
from numpy.typing import NDArray
from torch import Tensor

from cody.adapters.memory_table import MemoryLog
from cody.adapters.past import Past
from cody.engine.fast import REFINED
from cody.engine.tgn import FINER
from cody.graph import FloatArray, IntArray, Query
from cody.models.contract import Change

NUMBERS_KEPT = 2**25  # that a session remembers; then it starts afresh
MANY_STATES = 500  # that changes may concern: then states are taken for the same if they differ by less than …
SMALL_CHANGE = 1e-4  # … this, in every number; see `engine/selfcheck.py`


class Workspace(ABC):
    """All that is known about links of one moment, for changes of some rows. It only grows.

    Args:
        log: The events as the memory sees them.
        links: The links, with what the model sees before them.
        rows: Those that may be changed.
        count: How many states changes may concern.
    """

    def __init__(self, log: MemoryLog, links: Sequence[Query], rows: frozenset[int], count: int) -> None:
        self.log, self.links, self.rows, self.count = log, links, rows, count
        self.refined = 0  # how often estimates were made less rough
        self.most = SMALL_CHANGE if count > MANY_STATES else 0.0  # that states may differ and be taken for the same
        self._begin(self.most)

    @abstractmethod
    def _begin(self, most: float) -> None:
        """Nothing is computed yet; states that differ by `most` are taken for the same."""

    @abstractmethod
    def _states(self, nodes: IntArray, of: IntArray, changes: Sequence[Change]) -> tuple[Tensor, NDArray[Any]]:
        """Memory and last update of nodes, each under one of the changes. [n], [n] → [n, d], [n]"""

    @property
    @abstractmethod
    def own_size(self) -> int:
        """How many numbers are remembered, without those of `exactly`."""

    @property
    def exact(self) -> bool:
        """Whether its answers are exact, not estimates."""
        return self.most == 0.0

    @cached_property
    def exactly(self) -> Self:
        """The same without approximation. It has its own states, and the rest in common."""
        return self._with(0.0)

    @cached_property
    def finer(self) -> Self:
        """The same with estimates that are less rough; those of the finest are exact."""
        if self.refined == REFINED:
            return self.exactly
        other = self._with(self.most / FINER)
        other.refined += 1
        return other

    def afresh(self) -> Self:
        """The same with nothing computed."""
        other = self._with(self.most)
        for less_rough in ("finer", "exactly"):
            vars(other).pop(less_rough, None)
        return other

    def _with(self, most: float) -> Self:
        other = copy.copy(self)
        other.most = most
        other._begin(most)
        return other

    @property
    def size(self) -> int:
        """How many numbers are remembered."""
        return self.own_size + (self.exactly.own_size if "exactly" in vars(self) else 0)

    @property
    def has_room(self) -> bool:
        """Whether more may be remembered."""
        return self.size <= NUMBERS_KEPT

    def answer(self, changes: Sequence[Change]) -> list[FloatArray]:
        """The scores of all links for each change, [m]."""
        graph, steps, query = self.log.graph, self.log.steps, self.links[0]
        pasts = [Past(graph, query, graph.difference(change, query)) for change in changes]
        subgraph = steps.subgraph(self.links, pasts)
        memory, updated = self._states(subgraph.nodes, subgraph.of, changes)
        scores = steps.answers(subgraph, graph, memory, torch.as_tensor(updated, device=memory.device))
        return list(scores.reshape(len(changes), -1))
