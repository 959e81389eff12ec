"""The fast TGN: the memory of each node, without some events, from the table of all versions.

A version is known by its position in `graph.incidence`: the event that wrote it, for one of its two nodes. It was
computed from the latest versions of both nodes at the start of its batch, its parents. So removing events changes a
version only if it changes which versions are its parents, or their values; all other versions stand in the table.
"""

from __future__ import annotations

import weakref
from pathlib import Path
from typing import NamedTuple, cast

import numpy as np
import torch
from torch import Tensor

from cody.deadline import check_deadline, in_time
from cody.graph import IntArray, Query, TemporalGraph
from cody.inference.fast import FastModel, Inputs, Store, Unchanged
from cody.inference.replay import Replay, State, frozen
from cody.inference.scope import Mask, Universe
from cody.inference.versions import index_of, open_versions, versions_in_memory
from cody.models import TGN
from cody.models.tgn import latest_version
from cody.oracle import Removal

NO_VERSION = -1  # before a node's first event: the memory is zero


class Version(NamedTuple):
    """A version that removed events may change. Positions are those of `graph.incidence`."""

    row: int  # of the event that wrote it
    own: int  # the node's version at the start of the batch
    other: int  # the other node's version at the start of the batch
    previous: int  # what the node has if the event is removed
    bit: Mask  # of the event, if it is in the universe
    parents: Mask  # the removed events that the value can depend on
    memory: Mask  # the same for the node's memory right after: the event itself may be removed


class MemoryInputs:
    """Memory plus features of each node, for any removal set of a query."""

    def __init__(self, model: FastTGN, query: Query, universe: Universe) -> None:
        self.model = model
        self.query = query
        self.universe = universe
        self.latest: dict[int, int] = {}  # node → position of its version before the query
        self.versions: dict[int, Version] = {}  # position → what may change it; absent: nothing
        self.depends: dict[int, Mask] = {}
        itself = weakref.proxy(self)  # an object that refers to itself is freed late
        self.unchanged = Unchanged(lambda node: itself.changed(node, 0))
        self.memory: Store[tuple[int, Mask]] = Store(model.network.sizes.dimension, model.dtype)  # by version and mask
        self.memory.ids[NO_VERSION, 0] = 0  # the first vector is zero
        self.summed: Store[tuple[int, int]] = Store(model.network.sizes.dimension, model.dtype)  # by node and memory id

    @property
    def size(self) -> int:
        """How many numbers are remembered."""
        return self.memory.size + self.summed.size

    @property
    def most(self) -> int:
        """How many numbers a set can add at most."""
        return len(self.versions) * self.model.network.sizes.dimension

    @property
    def values(self) -> Tensor:
        return self.memory.values if self.model.features is None else self.summed.values

    def changed(self, node: int, mask: Mask) -> int:
        version = self._want_version(self._kept(self.latest[node], mask), mask)
        return version if self.model.features is None else self.summed.id((node, version))

    def _kept(self, position: int, mask: Mask) -> int:
        """The latest version at or before `position` whose event is not removed."""
        while (version := self.versions.get(position)) is not None and version.bit & mask:
            position = version.previous
        return position

    def _want_version(self, position: int, mask: Mask) -> int:
        version = self.versions.get(position)
        return self.memory.id((position, 0 if version is None else mask & version.parents))

    def grow(self, nodes: list[int]) -> None:
        graph = self.model.graph
        wanted = np.array(nodes, dtype=np.int64)
        positions = latest_version(graph, wanted, self.query.before)
        self.latest = dict(zip(nodes, positions.tolist(), strict=True))
        self.versions = {}
        rows = self._changeable(wanted, positions)
        for row, position, own, other, previous in in_time(
            sorted(rows)
        ):  # parents are older, so their masks are made first
            parents = self._memory(own) | self._memory(other)
            bit = self.universe.bits.get(row, 0)
            memory = parents | bit | self._memory(previous) if bit else parents
            self.versions[position] = Version(row, own, other, previous, bit, parents, memory)
        self.depends = {node: self._memory(position) for node, position in self.latest.items()}

    def _memory(self, position: int) -> Mask:
        version = self.versions.get(position)
        return 0 if version is None else version.memory

    def _changeable(self, nodes: IntArray, positions: IntArray) -> set[tuple[int, ...]]:
        """The versions that these may depend on and the universe may change: (row, position, own, other, previous).

        A version older than every event of the universe cannot change. An event can be the latest one left only if all
        later ones of its node can be removed, so the version before it counts only where it is in the universe.
        """
        graph, batch = self.model.graph, self.model.network.sizes.batch
        oldest = min(self.universe.bits, default=self.query.before)
        found: set[tuple[int, ...]] = set()
        known: set[int] = {NO_VERSION}
        while True:
            check_deadline()
            positions, first = np.unique(positions, return_index=True)  # many versions share their parents
            nodes = nodes[first]
            fresh = np.array([position not in known for position in positions.tolist()], dtype=bool)
            nodes, positions = nodes[fresh], positions[fresh]
            rows = graph.incidence[positions]
            late = rows >= oldest
            nodes, positions, rows = nodes[late], positions[late], rows[late]
            if not len(rows):
                return found
            known.update(positions.tolist())
            others = graph.src[rows] + graph.dst[rows] - nodes
            own, other = (latest_version(graph, ends, rows // batch * batch) for ends in (nodes, others))
            previous = np.where(positions > graph.offsets[nodes], positions - 1, NO_VERSION)
            columns = (rows, positions, own, other, previous)
            found.update(zip(*(column.tolist() for column in columns), strict=True))
            removable = np.array([row in self.universe.bits for row in rows.tolist()], dtype=bool)
            nodes = np.concatenate([nodes, others, nodes[removable]])
            positions = np.concatenate([own, other, previous[removable]])

    def compute(self) -> None:
        """Read the versions that nothing changes from the table; compute the others, parents first."""
        table, changed = self._expand()
        self.memory.reserve()
        if table:
            ids, positions = (np.array(column, dtype=np.int64) for column in zip(*table, strict=True))
            self.memory.values[ids] = self.model.read_versions(positions)
        for generation in _generations(changed):
            check_deadline()
            self._remember(generation)
        self.memory.pending = []
        self._add_features()

    def _expand(self) -> tuple[list[tuple[int, int]], list[tuple[int, ...]]]:
        """The new ids: (id, position) if in the table, else (row, id, own id, other id, own position)."""
        table: list[tuple[int, int]] = []
        changed: list[tuple[int, ...]] = []
        first = len(self.memory.ids) - len(self.memory.pending)
        for number, (position, mask) in enumerate(
            in_time(self.memory.pending)
        ):  # the list grows as parents are asked for
            if not mask:
                table.append((first + number, position))
                continue
            version = self.versions[position]
            own, other = self._kept(version.own, mask), self._kept(version.other, mask)
            parents = self._want_version(own, mask), self._want_version(other, mask)
            changed.append((version.row, first + number, *parents, own))
        return table, changed

    def _remember(self, generation: list[tuple[int, ...]]) -> None:
        row, id_, own_id, other_id, own = np.array(generation, dtype=np.int64).T
        graph, memory = self.model.graph, self.memory.values
        updated = np.where(own == NO_VERSION, 0.0, graph.time[graph.incidence[own]])
        elapsed = torch.from_numpy(graph.time[row] - updated).to(self.model.dtype)
        edge = None if graph.features is None else torch.from_numpy(graph.features[row]).to(self.model.dtype)
        memory[id_] = self.model.tgn.remember(memory[own_id], memory[other_id], edge, elapsed)

    def _add_features(self) -> None:
        if self.model.features is not None and self.summed.pending:
            nodes, versions = torch.tensor(self.summed.pending).T
            self.summed.write(self.memory.values[versions] + self.model.features[nodes])


def _generations(changed: list[tuple[int, ...]]) -> list[list[tuple[int, ...]]]:
    """Versions in groups, each computable from the groups before it."""
    depth: dict[int, int] = {}
    groups: list[list[tuple[int, ...]]] = []
    for entry in in_time(sorted(changed)):  # by row: parents come from earlier batches
        _, id_, own_id, other_id, _ = entry
        level = depth[id_] = max(depth.get(own_id, -1), depth.get(other_id, -1)) + 1
        if level == len(groups):
            groups.append([])
        groups[level].append(entry)
    return groups


class FastTGN(FastModel):
    """A TGN, equal to its `Replay`.

    The table of all versions is made in memory, or kept in `folder` for the next time. It is large, so it is in single
    precision by default, whatever the engine computes in.
    """

    def __init__(
        self,
        network: TGN,
        graph: TemporalGraph,
        *,
        folder: Path | None = None,
        dtype: torch.dtype = torch.float64,
        table_dtype: torch.dtype = torch.float32,
    ) -> None:
        super().__init__(network, graph, has_inputs=True, dtype=dtype)
        self.tgn = cast(TGN, self.network)
        writer = frozen(network, table_dtype)
        if folder is None:
            self.table = versions_in_memory(writer, graph)
        else:
            self.table = open_versions(writer, graph, folder)

    def inputs(self, query: Query, universe: Universe) -> Inputs:
        return MemoryInputs(self, query, universe)

    def plain(self, query: Query, removal: Removal, *, full: bool = False) -> Replay:
        return self._replay if full else self._replay.on(self.graph, self._state_for(query, removal))

    def _state_for(self, query: Query, removal: Removal) -> State:
        """The memory at the grid line before the oldest removed event, for all nodes that the answer can depend on."""
        graph, sizes = self.graph, self.network.sizes
        line = min(removal, default=query.before) // sizes.batch * sizes.batch
        nodes = np.array([query.src, query.dst])
        for _ in range(sizes.layers):
            rows = graph.recent(nodes, query.before, sizes.neighbours + len(removal))
            rows = rows[rows >= 0]
            nodes = np.unique(np.concatenate([nodes, graph.src[rows], graph.dst[rows]]))
        since = slice(line, query.before)
        return self.state(line, np.unique(np.concatenate([nodes, graph.src[since], graph.dst[since]])))

    def state(self, line: int, nodes: IntArray) -> State:
        """The memory of some nodes at a line of the batch grid, from the table; that of all others stays zero."""
        position = latest_version(self.graph, nodes, line)
        known = position >= 0
        memory = torch.zeros(self.graph.num_nodes, self.network.sizes.dimension, dtype=self.dtype)
        memory[nodes[known]] = self.read_versions(position[known])
        updated = np.zeros(self.graph.num_nodes)
        updated[nodes[known]] = self.graph.time[self.graph.incidence[position[known]]]
        return State(line, memory, updated)

    def read_versions(self, positions: IntArray) -> Tensor:
        """The versions with nothing removed. [n] → [n, d]"""
        nodes = np.searchsorted(self.graph.offsets, positions, side="right") - 1
        versions = self.table.read(index_of(self.graph, self.graph.incidence[positions], nodes))
        return torch.from_numpy(versions).to(self.dtype)
