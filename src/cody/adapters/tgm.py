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
from functools import partial
from typing import Any

import numpy as np

from cody.utils.extras import needed_by

with needed_by("cody.adapters.tgm"):
    import torch
    from tgm.data import DGData
    from tgm.hooks import NeighborSamplerHook, RecencyNeighborHook
    from torch import nn

    from cody.adapters.tgm_hooks import HistoryView, LazyBatch, RecentNeighbours, whole

from cody.adapters.dyglib_trials import warn_if_long
from cody.adapters.history import SNAPSHOT_BYTES, HistoryModel, from_steps
from cody.adapters.modules import check_modules, evaluating, half_precision, unwrapped, warn_of_half_precision
from cody.adapters.past import Events, Past
from cody.adapters.probabilities import to_logits
from cody.adapters.state import copied_state
from cody.adapters.together import ScoresTogether, answers_alone, as_table
from cody.errors import CallError, ModelError
from cody.graph import FloatArray, Query, TemporalGraph
from cody.graph.grid import Grid, make_grid, usual_splits
from cody.models.contract import HOPS, fingerprint, label_task_of

__all__ = ["TgmSteps", "wrap"]


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
        self.parts: tuple[list[Any], list[Any]] = (own, copied_state(ours))  # all that can change

    @property
    def has_state(self) -> bool:
        return self.update is not None or any(getattr(hook, "has_state", False) for hook in self.parts[1])

    @property
    def calls_only_ours(self) -> bool:
        """Whether all hooks work for many histories at once."""
        return all(isinstance(hook, RecentNeighbours) for hook in self.parts[1])

    def save(self) -> Any:
        return self._copy(self.parts)

    def restore(self, saved: Any) -> None:
        self.parts = self._copy(saved)

    def _copy(self, parts: tuple[list[Any], list[Any]]) -> tuple[list[Any], list[Any]]:
        modules, hooks = copied_state(parts, self.weights)
        return modules, hooks

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
        view = HistoryView(pasts[0], since, batch)
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
