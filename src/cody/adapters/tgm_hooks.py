"""What hooks of TGM add to a batch, computed from a modified history."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch
from tgm import DGBatch, DGraph
from tgm.constants import PADDED_NODE_ID
from tgm.data import DGData
from torch import Tensor

from cody.adapters.past import Past, recent
from cody.errors import ModelError
from cody.graph import FloatArray, IntArray, TemporalGraph
from cody.graph.grid import Grid

ADDED = ("seed_nids", "seed_times", "nbr_nids", "nbr_edge_time", "nbr_edge_x")  # to a batch, a part of each hop


class LazyBatch(DGBatch):  # type: ignore[misc]
    """A batch whose hooks run when something is read that they produce."""

    prepare: Callable[[LazyBatch], None] | None = None

    def __getattr__(self, name: str) -> Any:
        prepare = self.prepare
        if prepare is None or name.startswith("__"):
            raise AttributeError(f"the batch has no {name!r}; which hook makes it? Give it in hooks=[…]")
        self.prepare = None
        prepare(self)
        return getattr(self, name)


class RecentNeighbours:
    """The neighbours that a `RecencyNeighborHook` finds, in modified histories.

    The hook keeps the last events of each node, as many as its widest hop, as they are before a batch. Events of a node
    at the same time that are fed in one batch are kept in two groups, first those that start at the node.
    """

    def __init__(self, hook: Any, grid: Grid) -> None:
        self.num_nbrs: list[int] = list(hook.num_nbrs)
        self.directed: bool = hook._directed
        self.seeds = list(zip(hook._seed_nodes_keys, hook._seed_times_keys, strict=True))
        self.grid = grid

    def __call__(self, batch: Any, pasts: Sequence[Past]) -> None:
        """Add what the hook adds. Link i of the batch has history i, or all have the same."""
        nodes = [getattr(batch, name) for name, _ in self.seeds]
        ends, place = np.cumsum([0, *map(len, nodes)]), 0
        batch.seed_node_nbr_mask = {}
        for place, (name, _) in enumerate(self.seeds):
            batch.seed_node_nbr_mask[name] = torch.arange(ends[place], ends[place + 1])
        seeds, times = torch.cat(nodes), torch.cat([getattr(batch, name) for _, name in self.seeds])
        of = np.concatenate([_past_of(len(each), len(pasts)) for each in nodes])
        for name in ADDED:
            setattr(batch, name, [])
        for number in self.num_nbrs:
            found = self.neighbours(pasts, of, seeds.numpy().astype(np.int64), times.numpy(), number)
            for name, column in zip(ADDED, (seeds, times, *found), strict=True):
                getattr(batch, name).append(column)
            seeds, times, of = found[0].flatten(), found[1].flatten(), np.repeat(of, number)

    def neighbours(
        self, pasts: Sequence[Past], of: IntArray, nodes: IntArray, times: IntArray, number: int
    ) -> tuple[Tensor, Tensor, Tensor]:
        """Nodes, times and features of the latest events that are earlier than `times`, latest last. [n, number]"""
        graph = pasts[0].graph
        rows = self._kept(pasts, of, nodes)
        when = whole(graph.time[np.maximum(rows, 0)])
        order = np.argsort(~((rows >= 0) & (when < times[:, None])), axis=1, kind="stable")[:, :number][:, ::-1]
        rows, when = np.take_along_axis(rows, order, axis=1), np.take_along_axis(when, order, axis=1)
        exists = (rows >= 0) & (when < times[:, None])
        others = graph.other_end(np.maximum(rows, 0), nodes[:, None])
        features = graph.features_of(np.maximum(rows, 0))
        if features is None:
            features = np.zeros((*rows.shape, 0), dtype=np.float32)
        return (
            torch.from_numpy(np.where(exists, others, PADDED_NODE_ID).astype(np.int32)),
            torch.from_numpy(np.where(exists, when, 0)),
            torch.from_numpy(np.where(exists[..., None], features, 0).astype(np.float32)),
        )

    def _kept(self, pasts: Sequence[Past], of: IntArray, nodes: IntArray) -> IntArray:
        """The rows that the hook keeps of each node, latest first, −1 where there are fewer. [n, max(num_nbrs)]"""
        most, width = max(self.num_nbrs), max(self.num_nbrs) + 1
        while True:
            rows = recent(pasts, of, np.maximum(nodes, 0), width)
            rows[nodes < 0] = -1
            kept, whole_groups = self._in_order(pasts[0].graph, nodes, rows, most)
            if whole_groups:
                return kept
            width *= 2

    def _in_order(self, graph: TemporalGraph, nodes: IntArray, rows: IntArray, most: int) -> tuple[IntArray, bool]:
        """The latest entries in the order in which the hook writes them, and whether more rows would change nothing."""
        places = np.maximum(rows, 0)
        when, batch = graph.time[places], self.grid.number(graph.next_real(places))
        group = np.zeros_like(rows)  # of one time and batch, counted from the latest
        group[:, 1:] = np.cumsum((np.diff(when, axis=1) != 0) | (np.diff(batch, axis=1) != 0), axis=1)
        width, exists, late = rows.shape[1], rows >= 0, np.iinfo(np.int64).max
        order = 2 * group * width + np.arange(width)
        starts = np.where(exists & (graph.src[places] == nodes[:, None]), order + width, late)
        ends = np.where(exists & (graph.dst[places] == nodes[:, None]) & (not self.directed), order, late)
        keys = np.concatenate([starts, ends], axis=1)
        latest = np.argsort(keys, axis=1, kind="stable")[:, :most]
        found = np.where(np.take_along_axis(keys, latest, axis=1) < late, np.tile(rows, 2)[_rows_of(latest)], -1)
        if found.shape[1] < most:
            found = np.pad(found, ((0, 0), (0, most - found.shape[1])), constant_values=-1)
        exhausted = rows[:, -1] < 0
        last_group = np.take_along_axis(np.tile(group, 2), latest[:, -1:], axis=1)[:, 0]
        enough = (found[:, -1] >= 0) & (last_group < group[:, -1])
        return found, bool((exhausted | enough).all())


class HistoryView:
    """The `DGraph` that a hook is called with: a history, then the batch. It is made when something of it is read."""

    def __init__(self, past: Past, since: int, batch: DGBatch) -> None:
        self._make: Any = (past, since, batch)
        self._made: Any = None

    def __getattr__(self, name: str) -> Any:
        if self._made is None:
            self._made = _dgraph(*self._make)
        return getattr(self._made, name)


def _dgraph(past: Past, since: int, batch: DGBatch) -> DGraph:
    """The events of a history from row `since` on, then those of the batch, which is the slice."""
    graph, rows = past.graph, past.rows(since)
    before = (torch.from_numpy(column[rows].astype(np.int32)) for column in (graph.src, graph.dst))
    ends = [torch.cat(parts) for parts in zip(before, (batch.edge_src, batch.edge_dst), strict=True)]
    time = torch.cat([torch.from_numpy(whole(graph.time[rows])), batch.edge_time])
    features = None
    if batch.edge_x is not None:
        features = torch.cat([torch.from_numpy(np.asarray(graph.features_of(rows), dtype=np.float32)), batch.edge_x])
    events = DGData.from_raw(edge_time=time, edge_index=torch.stack(ends, dim=1), edge_x=features)
    return DGraph(events).slice_events(len(rows), len(time))


def whole(times: FloatArray) -> IntArray:
    """Times as TGM has them: whole numbers."""
    return np.floor(times).astype(np.int64)


def _past_of(nodes: int, pasts: int) -> IntArray:
    """Which history each of the seeds of a key has."""
    if pasts == 1:
        return np.zeros(nodes, dtype=np.int64)
    if nodes != pasts:
        raise ModelError(f"a hook looks up neighbours of {nodes} nodes for {pasts} links")
    return np.arange(nodes)


def _rows_of(columns: IntArray) -> tuple[IntArray, IntArray]:
    return np.arange(len(columns))[:, None], columns
