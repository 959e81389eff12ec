"""Models of TGM: what your loop does with a batch, as a model that can be explained::

    def score(batch, encoder, decoder):
        z = encoder(x, batch.seed_nids, batch.seed_times, batch.nbr_nids, batch.nbr_edge_x, batch.nbr_edge_time)
        return decoder(*z.chunk(2))

    model = tgm.wrap(score, [encoder, decoder], data=data, hooks=[neighbour_hook])

A link is scored with what its batch would see in TGM's loop: the events before the batch, whose borders stay where they
are whatever is removed. The neighbours of a `RecencyNeighborHook` are looked up in the history that is scored; nothing
has to be fed for them. Other hooks are called as they are.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache, partial
from typing import Any

import numpy as np

from cody.utils.extras import needed_by

with needed_by("cody.adapters.tgm"):
    import torch
    from tgm import DGBatch, DGraph
    from tgm.constants import PADDED_NODE_ID
    from tgm.data import DGData
    from tgm.hooks import NeighborSamplerHook, RecencyNeighborHook
    from torch import Tensor, nn

from cody.adapters.history import SNAPSHOT_BYTES, HistoryModel, from_steps
from cody.adapters.modules import (
    check_modules,
    copied_state,
    evaluating,
    half_precision,
    unwrapped,
    warn_of_half_precision,
)
from cody.adapters.past import Events, Past, recent
from cody.adapters.probabilities import to_logits
from cody.adapters.trials import ScoresTogether, answers_alone, as_table, warn_if_long
from cody.errors import CallError, ModelError
from cody.graph import FloatArray, IntArray, Query, TemporalGraph
from cody.graph.grid import Grid, make_grid, usual_splits
from cody.models.contract import HOPS, fingerprint, label_task_of

__all__ = ["TgmSteps", "wrap"]

ADDED = ("seed_nids", "seed_times", "nbr_nids", "nbr_edge_time", "nbr_edge_x")  # to a batch, a part of each hop


def wrap(
    score: Callable[..., Any],
    modules: Sequence[Any],
    *,
    data: Any,
    hooks: Sequence[Any] = (),
    update: Callable[..., Any] | None = None,
    start: Callable[..., Any] | None = None,
    batch: int = 200,
    splits: Sequence[int] | None = None,
    hops: int | None = None,
    classes: Sequence[str] | None = None,
    about: str = "event",
    threshold: float | None = None,
    probabilities: bool = False,
    snapshot_bytes: int = SNAPSHOT_BYTES,
) -> HistoryModel:
    """A trained model of TGM as a model that can be explained.

    The modules are copied, and the copies are put into evaluation mode; yours are not modified. A `SlowModelWarning` is
    issued if an explanation will take long.

    Args:
        score: `score(batch, *modules)` returns one logit for each link of a `DGBatch`; with more than two classes, one
            score per class. The batch has what your hooks add to it. `batch.neg` are the destinations once more, so
            that what takes three ends (or returns scores of both) can be called as in training.
        modules: what `score` and `update` are called with: torch modules, or predictors such as `EdgeBankPredictor`.
        data: the `DGData` that the model was trained on, or a graph of the same events, which has names and dates.
        hooks: the hooks of your loop, in their order; those that make negatives are left out.
        update: of a model with a state, `update(batch, *modules)` feeds it the events of a batch.
        start: `start(*modules)` empties the state. Default: calls `reset_state()` of each module that has it.
        batch: number of events that your loader takes at a time.
        splits: rows at which your loop begins a new batch because it has a loader for each part of the data. None: as
            `data.split()` divides the events; of a graph, 70, 15 and 15 % by time. `()`: one loader for all.
        hops: how far the model looks. Default: as many steps as the hook has hops.
        classes: names of the classes, if the model labels events or nodes instead of predicting links.
        about: what is labelled: "event" or "node".
        threshold: with two classes, the probability above which the second one is predicted. Default: 0.5.
        probabilities: whether `score` returns probabilities instead of logits.
        snapshot_bytes: memory budget for saved states.
    """
    graph, parts = _events_of(data)
    grid = make_grid(batch, splits if splits is not None else parts)
    _check(score, update, start, hooks)
    labels = label_task_of(classes, about, threshold)
    steps = TgmSteps(graph, grid, score, modules, hooks, update, start, probabilities=probabilities)
    steps.outputs = 1 if labels is None else labels.outputs
    given: dict[str, Any] = {"score": steps.score, "batch": grid.size, "splits": grid.splits, "sees_own_batch": False}
    given |= {"classes": classes, "about": about, "threshold": threshold, "gives_logits": True}
    given |= {"hops": hops or steps.hops, "identity": steps.identity(), "snapshot_bytes": snapshot_bytes}
    if steps.has_state:
        given |= {"start": steps.begin, "observe": steps.observe, "save": steps.save, "restore": steps.restore}
    elif steps.calls_only_ours and answers_alone(steps, graph):
        given |= {"score_many": steps.score_many, "score_links": steps.score_links}
    model = from_steps(graph, **given)
    warn_if_long(model, "model")
    return model


class TgmSteps(ScoresTogether):
    """The functions of `from_steps`, on top of the user's functions, modules and hooks."""

    together = 32

    def __init__(
        self,
        graph: TemporalGraph,
        grid: Grid,
        score: Callable[..., Any],
        modules: Sequence[Any],
        hooks: Sequence[Any],
        update: Callable[..., Any] | None,
        start: Callable[..., Any] | None,
        *,
        probabilities: bool,
    ) -> None:
        self.graph, self.grid, self.probabilities, self.outputs = graph, grid, probabilities, 1
        self.score_of, self.update, self.start = score, update, start
        needed = [hook for hook in hooks if "neg" not in hook.produces]
        ours = [RecentNeighbours(hook, grid) if isinstance(hook, RecencyNeighborHook) else hook for hook in needed]
        self.hops = max((len(hook.num_nbrs) for hook in ours if isinstance(hook, RecentNeighbours)), default=HOPS)
        own, self.weights = _copied(modules)
        self.parts = [own, copied_state(ours)]  # all that can change

    @property
    def has_state(self) -> bool:
        return self.update is not None or any(getattr(hook, "has_state", False) for hook in self.parts[1])

    @property
    def calls_only_ours(self) -> bool:
        """Whether all hooks work for many histories at once."""
        return all(isinstance(hook, RecentNeighbours) for hook in self.parts[1])

    def save(self) -> Any:
        return copied_state(self.parts, self.weights)

    def restore(self, saved: Any) -> None:
        self.parts = copied_state(saved, self.weights)

    @torch.no_grad()
    def begin(self) -> None:
        modules, hooks = self.parts
        for each in hooks:
            if getattr(each, "has_state", False):
                each.reset_state()
        if self.start is not None:
            self.start(*modules)
        elif self.update is not None:
            for each in modules:
                if hasattr(each, "reset_state"):
                    each.reset_state()

    @torch.no_grad()
    def observe(self, events: Events) -> None:
        """Feed the events of a batch, as the user's loop does after it has scored them."""
        assert events.past is not None
        modules, hooks = self.parts
        number = int(self.grid.number(events.graph.next_real(events.rows[:1]))[0])
        past = _before(events.past, self.grid.first(number))
        batch = self._batch(events.src, events.dst, events.time, events.features, [past])
        if any(getattr(hook, "has_state", False) for hook in hooks):
            assert batch.prepare is not None
            batch.prepare(batch)
        if self.update is not None:
            self.update(batch, *modules)

    @torch.no_grad()
    def scores(self, links: Sequence[Query], pasts: Sequence[Past]) -> FloatArray:
        """The scores of links: each with a history of its own, or all with the same. [n, outputs]"""
        src, dst, time, _ = (np.array(column) for column in zip(*links, strict=True))
        width = None if self.graph.features is None else self.graph.features.shape[1]
        features = None if width is None else np.zeros((len(links), width), dtype=np.float32)
        batch = self._batch(src, dst, time, features, pasts)
        answers = self.score_of(batch, *self.parts[0])
        table = as_table(answers, len(links), self.outputs, "score(batch, …)")
        return to_logits(table) if self.probabilities else table

    def _batch(self, src: Any, dst: Any, time: FloatArray, features: Any, pasts: Sequence[Past]) -> LazyBatch:
        """A batch as TGM's loader makes it; hooks add to it when something of them is read."""
        ends = [torch.from_numpy(np.asarray(column, dtype=np.int32)) for column in (src, dst)]
        when = torch.from_numpy(whole(np.asarray(time, dtype=np.float64)))
        batch = LazyBatch(*ends, when)
        if features is not None:
            batch.edge_x = torch.from_numpy(np.asarray(features, dtype=np.float32))
        batch.neg, batch.neg_time = ends[1], when
        batch.prepare = partial(self._run_hooks, pasts=pasts)
        return batch

    def _run_hooks(self, batch: LazyBatch, pasts: Sequence[Past]) -> None:
        before = pasts[0].query.before
        since = max((split for split in self.grid.splits if split <= before), default=0)
        view = HistoryView(partial(_dgraph, pasts[0], since, batch))
        for hook in self.parts[1]:
            if isinstance(hook, RecentNeighbours):
                hook(batch, pasts)
            else:
                hook(view, batch)

    def identity(self) -> str:
        """A hash of the weights, the empty state, and how batches are made."""
        one, described = self._described()
        if self.has_state and self._described()[0] != one:
            raise ModelError(
                "start() leads to another state each time, so that no answer could be repeated; of a "
                "RandomProjectionModule, call reset_random_projections(reset_zero=False)"
            )
        return f"tgm-{fingerprint(np.frombuffer(f'{one} {described}'.encode(), np.uint8))}"

    def _described(self) -> tuple[str, str]:
        kept = self.save()
        if self.has_state:
            self.begin()
        modules, hooks = self.parts
        tensors = [value for module in _networks(modules) for value in module.state_dict().values()]
        numbers = [_plain_values(each) for each in modules if not isinstance(each, nn.Module)]
        looks = [(hook.num_nbrs, hook.directed) if isinstance(hook, RecentNeighbours) else type(hook) for hook in hooks]
        state = fingerprint(*(value.detach().cpu().float().numpy() for value in tensors))
        self.parts = kept
        kinds = [type(module).__name__ for module in modules]
        return state, f"{kinds} {numbers} {looks} {self.grid if self.has_state or self.grid.size > 1 else 0}"


def _before(past: Past, line: int) -> Past:
    """The part of a history before a line of the grid."""
    kept = [row for row in past.outcome.present if past.graph.next_real(np.array([row]))[0] < line]
    outcome = past.outcome._replace(present=tuple(kept))
    return Past(past.graph, past.query._replace(before=line), outcome)


def _networks(modules: Sequence[Any]) -> list[nn.Module]:
    return [each for each in modules if isinstance(each, nn.Module)]


def _plain_values(predictor: Any) -> list[tuple[str, Any]]:
    """The settings of a predictor that is no network."""
    plain = str | int | float | bool
    return sorted((name, value) for name, value in vars(predictor).items() if isinstance(value, plain))


def _copied(modules: Sequence[Any]) -> tuple[list[Any], list[nn.Parameter]]:
    """Copies in evaluation mode and single precision, and those of their parameters that only training changes."""
    own = copied_state([unwrapped(each) for each in modules])
    check_modules(**{f"modules[{place}]": each for place, each in enumerate(own) if isinstance(each, nn.Module)})
    warn_of_half_precision(*_networks(own))
    trained = [each for module in _networks(own) for each in module.parameters() if each.requires_grad]
    for each in _networks(own):
        if half_precision(each):
            each.float()
        evaluating(each)
    return own, trained


def _events_of(data: Any) -> tuple[TemporalGraph, tuple[int, ...]]:
    """The graph of some data, and where its parts begin."""
    if isinstance(data, TemporalGraph):
        times = data.time[: data.num_events]
        if len(times) and not (np.equal(times, np.floor(times)).all() and 0 <= times[0] <= times[-1] < 2**31):
            raise CallError("TGM counts time in whole numbers from 0 to 2³¹; the times of this graph are others")
        return data, usual_splits(data)
    if not isinstance(data, DGData):
        raise CallError(f"data must be a DGData or a graph of cody.load, not {data!r:.60}")
    if data.node_x_mask is not None or data.node_y_mask is not None:
        raise CallError("the data have events of nodes, which count in batches; only events of edges are supported")
    if data.edge_type is not None:
        raise CallError("the data have several types of edges, which are not supported")
    src, dst = data.edge_index.numpy().T
    features = None if data.edge_x is None else data.edge_x.numpy()
    nodes = data.num_nodes if data.static_node_x is None else len(data.static_node_x)
    graph = TemporalGraph.from_arrays(src, dst, data.time.numpy(), features=features, num_nodes=nodes)
    lengths = [len(part.edge_index) for part in data.split()]
    return graph, tuple(np.cumsum(lengths)[:-1].tolist())


def _check(score: Any, update: Any, start: Any, hooks: Sequence[Any]) -> None:
    if not callable(score):
        raise CallError(f"score is a function of a batch and the modules, not {score!r:.60}")
    for name, function in (("update", update), ("start", start)):
        if function is not None and not callable(function):
            raise CallError(f"{name} is a function, not {function!r:.60}")
    for hook in hooks:
        if isinstance(hook, NeighborSamplerHook):
            raise CallError(
                "a NeighborSamplerHook draws neighbours at random, so no answer could be repeated; "
                "use RecencyNeighborHook"
            )
        if not callable(hook) or not hasattr(hook, "produces"):
            raise CallError(f"hooks are those of TGM, called as hook(dg, batch), not {hook!r:.60}")


# What hooks of TGM add to a batch, computed from a modified history.


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
        places = torch.split(torch.arange(sum(map(len, nodes))), list(map(len, nodes)))
        batch.seed_node_nbr_mask = {name: part for (name, _), part in zip(self.seeds, places, strict=True)}
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
        """Nodes, times and features of the latest events that are earlier than `times`, latest last. [n, number]

        Args:
            pasts: The histories.
            of: Which history each node has. [n]
            nodes: The nodes. [n]
            times: A time for each. [n]
            number: How many events of each.
        """
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
        found = np.where(
            np.take_along_axis(keys, latest, axis=1) < late, np.take_along_axis(np.tile(rows, 2), latest, axis=1), -1
        )
        if found.shape[1] < most:
            found = np.pad(found, ((0, 0), (0, most - found.shape[1])), constant_values=-1)
        exhausted = rows[:, -1] < 0
        last_group = np.take_along_axis(np.tile(group, 2), latest[:, -1:], axis=1)[:, 0]
        enough = (found[:, -1] >= 0) & (last_group < group[:, -1])
        return found, bool((exhausted | enough).all())


class HistoryView:
    """The `DGraph` that a hook is called with: a history, then the batch. It is made when something of it is read."""

    def __init__(self, make: Callable[[], DGraph]) -> None:
        self._made = cache(make)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._made(), name)


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
