"""Models of DyGLib: TGAT, GraphMixer, DyGFormer, TCL and CAWN (without memory); TGN, DyRep and JODIE (with memory).

    model = dyglib.wrap(model[0], model[1], data=graph, num_neighbors=20)

DyGLib counts nodes and events from 1: row r of the graph is its event r + 1, node v its node v + 1. Neighbours are the
most recent ones in the history that is scored, so that nothing is sampled at random; as in the library, only strictly
earlier events count.

An answer does not depend on other evaluations. DyGFormer pads histories to the longest one of a batch without masking
its attention, so in the library a score depends on the other links of its batch. Here histories are padded to the
longest that the model accepts (`max_input_sequence_length`), as in a batch with one such history.
"""

from __future__ import annotations

import inspect
import warnings
from collections import defaultdict
from collections.abc import Callable, Hashable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from functools import partial
from typing import Any

import numpy as np

from cody.utils.extras import needed_by

with needed_by("cody.adapters.dyglib"):
    import torch
    from torch import Tensor, nn

from cody.adapters.dyglib_sampler import PastSampler, Probe, Sampler
from cody.adapters.history import SNAPSHOT_BYTES, HistoryModel, from_steps
from cody.adapters.modules import LogitPredictor, check_modules, copied, evaluating, unwrapped, warn_of_half_precision
from cody.adapters.past import Events, Past
from cody.adapters.trials import (
    ScoresTogether,
    answers_alone,
    distinct,
    keeps_state_without_embeddings,
    keys_of,
    replays_rightly,
    warn_if_long,
)
from cody.engine.threads import one_thread
from cody.errors import CallError, ModelError, SlowModelWarning, did_you_mean
from cody.graph import FloatArray, IntArray, Query, TemporalGraph
from cody.graph.grid import make_grid, usual_splits
from cody.models.contract import HOPS, fingerprint, label_task_of

__all__ = ["DyglibSteps", "Past", "PastSampler", "wrap"]

STATE = "memory_bank."  # in names of parameters that are not weights
TABLES = ("neighbor_sampler", "node_raw_features", "edge_raw_features")  # large, and never changed
ONE_END = "compute_node_temporal_embeddings"  # of a backbone that embeds the ends of a link one after the other
EMBEDDINGS_KEPT = 4096


def wrap(
    backbone: nn.Module,
    link_predictor: nn.Module,
    *,
    data: TemporalGraph,
    batch: int = 200,
    splits: Sequence[int] | None = None,
    sees_own_batch: bool = False,
    hops: int | None = None,
    classes: Sequence[str] | None = None,
    about: str = "event",
    threshold: float | None = None,
    probabilities: bool | None = None,
    snapshot_bytes: int = SNAPSHOT_BYTES,
    **options: Any,
) -> HistoryModel:
    """A trained model of DyGLib (there, `model[0]` and `model[1]`) as a model that can be explained.

    The modules are copied, and the copies are put into evaluation mode; yours are not modified. A `SlowModelWarning` is
    issued if an explanation will take long.

    Args:
        backbone: has `compute_src_dst_node_temporal_embeddings`.
        link_predictor: called with `input_1` and `input_2`; returns logits. With more than two classes, it returns one
            score per class.
        data: the graph of the events that the model was trained on, for example `cody.load("ml_wikipedia.csv")`, which
            is a processed file of DyGLib's.
        batch: of a model with memory, how many events it was fed at a time.
        splits: of a model with memory, rows at which your loop begins a new batch because it has a loader for each part
            of the data. None: 70, 15 and 15 % by time, as in the library. `()`: one loader for all.
        sees_own_batch: of a model with memory, whether the memory has the earlier events of a link's own batch. In the
            library's loops it does not; neighbours of the same batch are seen in any case.
        hops: how far the model looks. By default this is detected: how many steps from the link it looks up
            neighbours.
        classes: names of the classes, if the model labels events or nodes instead of predicting links. Of two, the
            second one is predicted where the logit is above 0.
        about: what is labelled: "event" or "node"; of a node, both arguments of `link_predictor` are its embedding.
        threshold: with two classes, the probability above which the second one is predicted. Default: 0.5.
        probabilities: whether the link predictor ends with a sigmoid; the library's does not. None: this is
            detected, and a `ProbabilityWarning` is issued.
        snapshot_bytes: memory budget for saved states.
        options: further arguments of the model's method, such as `num_neighbors=20` or `time_gap=2000`.
    """
    if not isinstance(data, TemporalGraph):
        raise CallError(f"data must be a graph, as returned by cody.load, not {data!r:.60}")
    for module in (backbone, link_predictor):
        if not isinstance(module, nn.Module):
            raise CallError(
                f"backbone and link_predictor must be torch modules (model[0], model[1]), not {module!r:.60}"
            )
    backbone, link_predictor = unwrapped(backbone), unwrapped(link_predictor)
    check_modules(backbone=backbone, link_predictor=link_predictor)
    warn_of_half_precision(backbone, link_predictor)
    _check(backbone, data, options)
    labels = label_task_of(classes, about, threshold)
    steps = DyglibSteps(_copied(backbone), _copied(link_predictor), options, 1 if labels is None else labels.outputs)
    grid = make_grid(batch, usual_splits(data) if splits is None else splits)
    feeding = {"batch": grid.size, "splits": grid.splits, "feeds_own_batch": bool(sees_own_batch)}
    given: dict[str, Any] = {"score": steps.score, "identity": steps.identity(feeding), **feeding}
    given |= {"classes": classes, "about": about, "threshold": threshold, "snapshot_bytes": snapshot_bytes}
    found, gives_logits = steps.try_out(probabilities)
    steps.predict.warn()
    given |= {"hops": found if hops is None else hops, "gives_logits": gives_logits}
    model = (_without_memory if steps.bank is None else _with_memory)(data, steps, given)
    warn_if_long(model, steps.name)
    return model


def _without_memory(graph: TemporalGraph, steps: DyglibSteps, given: dict[str, Any]) -> HistoryModel:
    """Many sets at once, if the model's answers do not depend on the batch."""
    alone = answers_alone(steps, graph)
    if not alone and steps.shares:  # it reads something else than what the probe has seen
        steps.shares = False
        alone = answers_alone(steps, graph)
    if alone:
        return from_steps(graph, **given, score_many=steps.score_many, score_links=steps.score_links)
    warnings.warn(
        f"explanations will be slow: the score of a link by {steps.name} depends on the other links of its batch. "
        "Here each link is scored alone, so scores may differ from those of your loop",
        SlowModelWarning,
        stacklevel=3,
    )
    return from_steps(graph, **given)


def _with_memory(graph: TemporalGraph, steps: DyglibSteps, given: dict[str, Any]) -> HistoryModel:
    """Replay only events that can reach the link, and without embeddings, if that gives the same answers."""
    given |= {"start": steps.start, "observe": steps.observe, "save": steps.save, "restore": steps.restore}
    everything = from_steps(graph, **given)
    steps.embeds = not keeps_state_without_embeddings(steps, everything)
    if steps.embeds:  # a message may depend on the memories of others than its nodes
        return everything
    model = from_steps(graph, **given, reads=steps.reads)
    if not replays_rightly(steps, model):
        steps.narrow = False
        return everything
    return model


class DyglibSteps(ScoresTogether):
    """The functions of `from_steps`, on top of the user's modules."""

    together = 16

    def __init__(self, backbone: Any, link_predictor: Any, options: dict[str, Any], outputs: int = 1) -> None:
        self.backbone, self.link_predictor, self.options = backbone, link_predictor, options
        self.predict = LogitPredictor(link_predictor, "link_predictor(input_1=…, input_2=…)", outputs=outputs)
        self.name = type(backbone).__name__
        self.bank: Any = getattr(backbone, "memory_bank", None)
        self.scoring: dict[str, Any] = {} if self.bank is None else {"edge_ids": None, "edges_are_positive": False}
        self.samplers = [module for module in backbone.modules() if hasattr(module, "neighbor_sampler")]
        self.tables = [module for module in backbone.modules() if hasattr(module, "edge_raw_features")]
        self.events: Tensor = backbone.edge_raw_features  # [E + 1, F], the first of no event
        self.embeds = True  # whether embeddings are computed when a batch is observed
        self.narrow = False  # whether pending messages are applied only for the nodes that a score reads
        self.probe = Probe()
        self.shares = False  # whether histories of which the same is read have the same score
        self.by_end = self.bank is None and hasattr(type(backbone), ONE_END)
        self.embedded: dict[Hashable, Tensor] = {}  # of nodes, by what is read; of this log:
        self.embedded_on: TemporalGraph | None = None
        for module in backbone.modules():
            if hasattr(type(module), "pad_sequences"):
                vars(module)["pad_sequences"] = partial(_padded, module)

    def start(self) -> None:
        self.bank.__init_memory_bank__()

    def save(self) -> Any:
        """The memories and the pending messages; the library's own way to copy them is slow."""
        bank = self.bank
        if not hasattr(bank, "node_raw_messages"):
            return bank.backup_memory_bank()
        waiting = {node: list(messages) for node, messages in bank.node_raw_messages.items() if messages}
        return bank.node_memories.data.clone(), bank.node_last_updated_times.data.clone(), waiting

    def restore(self, saved: Any) -> None:
        bank = self.bank
        if not hasattr(bank, "node_raw_messages"):
            bank.reload_memory_bank(saved)
            return
        bank.node_memories.data, bank.node_last_updated_times.data = saved[0].clone(), saved[1].clone()
        bank.node_raw_messages = defaultdict(list, {node: list(messages) for node, messages in saved[2].items()})

    @torch.no_grad()
    def observe(self, events: Events) -> None:
        assert events.past is not None
        with self._without_embeddings() if not self.embeds else nullcontext():
            links = events.src, events.dst, events.time
            sampler, features = PastSampler([events.past]), self._features(events.graph)
            self._embed(sampler, features, *links, edge_ids=events.rows + 1)

    @torch.no_grad()
    def scores(self, links: Sequence[Query], pasts: Sequence[Past]) -> FloatArray:
        """The scores of links: each with a history of its own, or all with the same."""
        columns = (np.array(column) for column in list(zip(*links, strict=True))[:3])
        with self._only_what_is_read(links[0], pasts[0]) if self.narrow else nullcontext():
            sampler, features = PastSampler(pasts), self._features(pasts[0].graph)
            source, target = self._embed(sampler, features, *columns, **self.scoring)
        return self.predict(len(links), input_1=source, input_2=target)

    def read(self, query: Query, pasts: Sequence[Past]) -> Sequence[Hashable]:
        if not self.shares or self.by_end:
            return super().read(query, pasts)
        nodes = np.tile([query.src + 1, query.dst + 1], len(pasts))
        keys = self._read_by(PastSampler(pasts), nodes, np.full(len(nodes), query.time))
        return list(zip(keys[::2], keys[1::2], strict=True))

    def score_many(self, query: Query, pasts: Sequence[Past]) -> FloatArray:
        with self._each_end_once(pasts[0].graph):
            return super().score_many(query, pasts)

    def score_links(self, links: Sequence[Query], past: Past) -> FloatArray:
        with self._each_end_once(past.graph):
            return super().score_links(links, past)

    def _each_end_once(self, graph: TemporalGraph) -> AbstractContextManager[None]:
        """Inside, a node is embedded once for all histories of which the same is read."""
        if not (self.shares and self.by_end):
            return nullcontext()
        if graph is not self.embedded_on:
            self.embedded, self.embedded_on = {}, graph
        return _replaced((self.backbone, ONE_END, self._embed_once))

    def _embed_once(self, node_ids: IntArray, node_interact_times: FloatArray, *more: Any, **options: Any) -> Tensor:
        """The embeddings of nodes, each in its history. [n] → [n, d]"""
        hook, sampler = vars(self.backbone)[ONE_END], self.sampler
        embed: Callable[..., Tensor] = getattr(type(self.backbone), ONE_END)
        if any(not isinstance(each, int | float | str) for each in (*more, *options.values())):
            self.by_end = False  # something about all of these nodes was computed before
            return embed(self.backbone, node_ids, node_interact_times, *more, **options)
        assert isinstance(sampler, PastSampler)
        read = self._read_by(sampler, node_ids, node_interact_times)
        every = zip(node_ids.tolist(), node_interact_times.tolist(), read, strict=True)
        different, first, which = distinct(list(every))
        if len(self.embedded) + len(different) > EMBEDDINGS_KEPT:
            self.embedded = {}
        new = [(key, place) for key, place in zip(different, first.tolist(), strict=True) if key not in self.embedded]
        if new:
            keys, places = zip(*new, strict=True)
            nodes = node_ids[list(places)], node_interact_times[list(places)]
            del vars(self.backbone)[ONE_END]  # it may embed the neighbours of these nodes in the same way
            try:
                self._use(sampler.some(node_ids, list(places)))
                self.embedded |= zip(keys, embed(self.backbone, *nodes, *more, **options), strict=True)
            finally:
                self._use(sampler)
                vars(self.backbone)[ONE_END] = hook
        return torch.stack([self.embedded[key] for key in different])[torch.from_numpy(which)]

    def _read_by(self, sampler: PastSampler, nodes: IntArray, times: FloatArray) -> list[bytes]:
        """A key of the events that are read to embed each node. [n]"""
        _, events, _ = sampler.get_multi_hop_neighbors(self.probe.hops, nodes, times, self.probe.neighbours)
        return keys_of(np.concatenate(events, axis=1))

    def _use(self, sampler: Sampler) -> None:
        for module in self.samplers:
            module.neighbor_sampler = sampler

    def _embed(
        self, sampler: Sampler, features: Tensor, src: IntArray, dst: IntArray, time: FloatArray, **more: Any
    ) -> Any:
        self.sampler = sampler
        self._use(sampler)
        for module in self.tables:
            module.edge_raw_features = features
        nodes = {"src_node_ids": src.astype(np.int64) + 1, "dst_node_ids": dst.astype(np.int64) + 1}
        return self.backbone.compute_src_dst_node_temporal_embeddings(
            **nodes, node_interact_times=np.asarray(time, dtype=np.float64), **self.options, **more
        )

    def _features(self, graph: TemporalGraph) -> Tensor:
        """The features of all rows, imagined ones after the real ones. [rows + 1, F]"""
        if graph.imagined is None:
            return self.events
        rows = self.events.new_zeros((graph.num_rows - graph.num_events, self.events.shape[1]))
        if graph.imagined.features is not None:
            rows[:, : graph.imagined.features.shape[1]] = torch.as_tensor(graph.imagined.features).to(rows)
        return torch.cat([self.events, rows])

    def _without_embeddings(self) -> AbstractContextManager[None]:
        """Inside, memories replace the embeddings that are computed from them, and pending messages stay pending.

        It is for models whose messages are made of memories alone; `keeps_state_without_embeddings` tries that.
        """
        return _replaced(
            (self.backbone.embedding_module, "compute_node_temporal_embeddings", _memories_of),
            (self.backbone, "get_updated_memories", self._memories),
        )

    def _only_what_is_read(self, query: Query, past: Past) -> AbstractContextManager[None]:
        """Inside, pending messages are applied to the memories that a score reads; in the library, to all of them."""
        update, nodes = type(self.backbone).get_updated_memories, self.reads(query, past) + 1

        def update_some(node_ids: IntArray, **named: Any) -> Any:
            return update(self.backbone, nodes, **named)

        return _replaced((self.backbone, "get_updated_memories", update_some))

    def _memories(self, *_: Any, **__: Any) -> tuple[Tensor, Tensor]:
        return self.bank.node_memories, self.bank.node_last_updated_times

    @torch.no_grad()
    @one_thread()
    def try_out(self, probabilities: bool | None) -> tuple[int, bool]:
        """How many steps from a link the model looks up neighbours, and whether its outputs are certainly logits.

        Both are detected by running it.
        """
        if self.bank is not None:
            self.start()
        link = np.zeros(2, dtype=np.int64), np.zeros(2, dtype=np.int64), np.full(2, Probe.NOW)
        try:
            source, _ = self._embed(self.probe, self.events, *link, **self.scoring)
        except Exception:  # it does not accept artificial neighbours
            self.predict.probabilities = bool(probabilities)
            return HOPS, bool(probabilities)
        surely = self.predict.settle(probabilities, source, ("input_1", "input_2"))
        longest = [length for module in self.backbone.modules() if (length := _longest_history(module))]
        self.probe.neighbours = max([self.probe.neighbours, *longest])
        self.shares = self.bank is None and (not self.probe.every or bool(longest))
        return max(1, self.probe.hops), surely

    def reads(self, query: Query, past: Past) -> IntArray:
        """The nodes whose memories a score depends on."""
        sampler, count = PastSampler([past]), self.probe.neighbours
        nodes, times = np.array([query.src, query.dst]) + 1, np.full(2, query.time)
        read = [nodes]
        for _ in range(self.probe.hops):
            neighbours, _, when = sampler.get_historical_neighbors(nodes, times, count)
            nodes, times = neighbours[neighbours > 0], when[neighbours > 0].astype(np.float64)
            read.append(nodes)
        return np.unique(np.concatenate(read)) - 1

    def identity(self, feeding: dict[str, Any]) -> str:
        weights = {**self.backbone.state_dict(prefix="0."), **self.link_predictor.state_dict(prefix="1.")}
        arrays = [weight.cpu().numpy() for name, weight in weights.items() if STATE not in name]
        described = f"{self.name} {sorted(self.options.items())} {feeding if self.bank else 0}"
        return f"dyglib-{fingerprint(*arrays, np.frombuffer(described.encode(), np.uint8))}"


def _memories_of(node_memories: Tensor, node_ids: IntArray, **_: Any) -> Tensor:
    return node_memories[torch.from_numpy(node_ids)]


@contextmanager
def _replaced(*methods: tuple[Any, str, Callable[..., Any]]) -> Iterator[None]:
    """Inside, objects have other methods: owner, name and function of each."""
    for owner, name, function in methods:
        vars(owner)[name] = function
    try:
        yield
    finally:
        for owner, name, _ in methods:
            del vars(owner)[name]


def _longest_history(module: nn.Module) -> int:
    """The length to which a module cuts histories, if it does that."""
    length: int = getattr(module, "max_input_sequence_length", 0) if hasattr(type(module), "pad_sequences") else 0
    return length


def _padded(module: Any, *given: Any, **named: Any) -> tuple[Any, ...]:
    """Histories padded to the longest that a model accepts instead of the longest of a batch."""
    tables = type(module).pad_sequences(module, *given, **named)
    patch, longest = named.get("patch_size", 1), named.get("max_input_sequence_length", 0)
    full = -(-longest // patch) * patch
    return tuple(np.pad(table, ((0, 0), (0, max(0, full - table.shape[1])))) for table in tables)


def _copied(module: Any) -> Any:
    """A copy in evaluation mode; tables and the neighbour sampler, which are never written to, are shared."""
    tables = [getattr(part, name) for part in module.modules() for name in TABLES if hasattr(part, name)]
    return evaluating(copied(module, tables))


def _check(backbone: Any, graph: TemporalGraph, options: dict[str, Any]) -> None:
    kind, compute = type(backbone).__name__, getattr(backbone, "compute_src_dst_node_temporal_embeddings", None)
    if compute is None:
        raise CallError(f"{kind} has no compute_src_dst_node_temporal_embeddings; give model[0] and model[1] of DyGLib")
    known = list(inspect.signature(compute).parameters)
    for name in options:
        if name not in known:
            raise CallError(f"{kind} has no option {name!r}{did_you_mean(name, known)}")
    for what, table, count in (
        ("events", "edge_raw_features", graph.num_events),
        ("nodes", "node_raw_features", graph.num_nodes),
    ):
        made = len(getattr(backbone, table)) - 1
        if made < count or (what == "events" and made > count):
            raise ModelError(f"the model was made for {made:,} {what}, but the data have {count:,}")
