"""Models of DyGLib: TGAT, GraphMixer, DyGFormer, TCL and CAWN without memory; TGN, DyRep and JODIE with.

    model = dyglib.wrap(model[0], model[1], data=graph, num_neighbors=20)

DyGLib counts nodes and events from 1: row r of the graph is its event r + 1, node v its node v + 1. Neighbours come
from the past that is asked about, the most recent ones, so that nothing is drawn at random; which of them a time sees
is decided as there: events that are strictly earlier.
"""

from __future__ import annotations

import copy
import inspect
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from cody.adapters.history import SNAPSHOT_BYTES, HistoryModel, from_steps
from cody.adapters.past import Events, Past
from cody.errors import CallError, ModelError, did_you_mean
from cody.graph import FloatArray, IntArray, Query, TemporalGraph
from cody.model import fingerprint

STATE = "memory_bank."  # of names of parameters that are no weights
TABLES = ("neighbor_sampler", "node_raw_features", "edge_raw_features")  # large, and never changed


def wrap(
    backbone: nn.Module,
    link_predictor: nn.Module,
    *,
    data: TemporalGraph,
    batch: int = 200,
    hops: int = 2,
    snapshot_bytes: int = SNAPSHOT_BYTES,
    **options: Any,
) -> HistoryModel:
    """A trained model of DyGLib (there, `model[0]` and `model[1]`) as one that can be explained.

    The modules are copied, and the copies are in evaluation mode; yours stay as they are.

    Args:
        backbone: has `compute_src_dst_node_temporal_embeddings`.
        link_predictor: called with `input_1` and `input_2`; gives logits.
        data: the graph of the events that the model was trained on, for example `cody.load("ml_wikipedia.csv")`, which
            is a processed file of DyGLib's.
        batch: of a model with memory, how many events it was fed at a time.
        hops: how far the model looks: its number of layers or the length of its walks.
        snapshot_bytes: how much memory states of the model may take.
        options: what the model is asked with there, such as `num_neighbors=20` or `time_gap=2000`.
    """
    if not isinstance(data, TemporalGraph):
        raise CallError(f"data must be a graph, as cody.load gives it, not {data!r:.60}")
    for module in (backbone, link_predictor):
        if not isinstance(module, nn.Module):
            raise CallError(
                f"backbone and link_predictor must be torch modules (model[0], model[1]), not {module!r:.60}"
            )
    _check(backbone, data, options)
    steps = DyglibSteps(_copied(backbone), _copied(link_predictor), options)
    given: dict[str, Any] = {"score": steps.score, "identity": steps.identity(batch), "batch": batch, "hops": hops}
    if steps.bank is not None:
        given |= {"start": steps.start, "observe": steps.observe, "snapshot_bytes": snapshot_bytes}
        given |= {"save": steps.bank.backup_memory_bank, "restore": steps.bank.reload_memory_bank}
    return from_steps(data, **given)


class DyglibSteps:
    """What the frame asks of the user's modules."""

    def __init__(self, backbone: Any, link_predictor: Any, options: dict[str, Any]) -> None:
        self.backbone, self.link_predictor, self.options = backbone, link_predictor, options
        self.bank: Any = getattr(backbone, "memory_bank", None)
        self.samplers = [module for module in backbone.modules() if hasattr(module, "neighbor_sampler")]
        self.tables = [module for module in backbone.modules() if hasattr(module, "edge_raw_features")]
        self.events: Tensor = backbone.edge_raw_features  # [E + 1, F], the first of no event

    def start(self) -> None:
        self.bank.__init_memory_bank__()

    @torch.no_grad()
    def observe(self, events: Events) -> None:
        assert events.past is not None
        self._embed(events.past, events.src, events.dst, events.time, {"edge_ids": events.rows + 1})

    @torch.no_grad()
    def score(self, query: Query, past: Past) -> float:
        more = {} if self.bank is None else {"edge_ids": None, "edges_are_positive": False}
        ends = np.array([query.src]), np.array([query.dst])
        source, target = self._embed(past, *ends, np.array([query.time]), more)
        logit = self.link_predictor(input_1=source, input_2=target)
        if logit.numel() != 1:
            raise ModelError(f"link_predictor(input_1=…, input_2=…) gave {tuple(logit.shape)} for one link")
        return float(logit.reshape(-1)[0])

    def _embed(self, past: Past, src: IntArray, dst: IntArray, time: FloatArray, more: dict[str, Any]) -> Any:
        sampler = PastSampler(past)
        for module in self.samplers:
            module.neighbor_sampler = sampler
        features = self._features(past.graph)
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

    def identity(self, batch: int) -> str:
        weights = {**self.backbone.state_dict(prefix="0."), **self.link_predictor.state_dict(prefix="1.")}
        arrays = [weight.cpu().numpy() for name, weight in weights.items() if STATE not in name]
        described = f"{type(self.backbone).__name__} {sorted(self.options.items())} {batch if self.bank else 0}"
        return f"dyglib-{fingerprint(*arrays, np.frombuffer(described.encode(), np.uint8))}"


class PastSampler:
    """What DyGLib's `NeighborSampler` with the strategy "recent" gives, of the past that is asked about."""

    sample_neighbor_strategy = "recent"
    seed = 0

    def __init__(self, past: Past) -> None:
        self.past = past
        self._known: dict[int, tuple[IntArray, IntArray, FloatArray]] = {}

    def reset_random_state(self) -> None:
        """Nothing is random."""

    def find_neighbors_before(
        self, node_id: int, interact_time: float, return_sampled_probabilities: bool = False
    ) -> tuple[IntArray, IntArray, FloatArray, FloatArray | None]:
        """Neighbours, events and times of a node before a time, oldest first."""
        if return_sampled_probabilities:
            raise ModelError("neighbours drawn with probabilities are not supported; use those that are most recent")
        neighbours, events, times = self._of(int(node_id) - 1)
        count = int(np.searchsorted(times, interact_time))
        return neighbours[:count], events[:count], times[:count], None

    def _of(self, node: int) -> tuple[IntArray, IntArray, FloatArray]:
        if node not in self._known:
            if node < 0:  # there, node 0 stands for none
                nothing = np.empty(0, dtype=np.int64)
                self._known[node] = nothing, nothing, np.empty(0)
            else:
                graph = self.past.graph
                rows = self.past.of_node(node)
                self._known[node] = graph.other_end(rows, node).astype(np.int64) + 1, rows + 1, graph.time[rows]
        return self._known[node]

    def get_historical_neighbors(
        self, node_ids: IntArray, node_interact_times: FloatArray, num_neighbors: int = 20
    ) -> tuple[IntArray, IntArray, FloatArray]:
        """The most recent ones, in the last of `num_neighbors` places each. [n, K] three times"""
        shape = len(node_ids), num_neighbors
        nodes, events, times = (np.zeros(shape, dtype) for dtype in (np.int64, np.int64, np.float32))
        for place, (node, time) in enumerate(zip(node_ids.tolist(), node_interact_times.tolist(), strict=True)):
            columns = self.find_neighbors_before(node, time)
            first = num_neighbors - min(len(columns[0]), num_neighbors)
            nodes[place, first:] = columns[0][-num_neighbors:]
            events[place, first:] = columns[1][-num_neighbors:]
            times[place, first:] = columns[2][-num_neighbors:]
        return nodes, events, times

    def get_multi_hop_neighbors(
        self, num_hops: int, node_ids: IntArray, node_interact_times: FloatArray, num_neighbors: int = 20
    ) -> tuple[list[IntArray], list[IntArray], list[FloatArray]]:
        """The same, of neighbours of neighbours too: a list of hops each."""
        hops = [self.get_historical_neighbors(node_ids, node_interact_times, num_neighbors)]
        while len(hops) < num_hops:
            nodes, _, times = hops[-1]
            further = self.get_historical_neighbors(nodes.ravel(), times.ravel(), num_neighbors)
            hops.append(tuple(table.reshape(len(node_ids), -1) for table in further))  # type: ignore[arg-type]
        nodes_, events, times_ = zip(*hops, strict=True)
        return list(nodes_), list(events), list(times_)

    def get_all_first_hop_neighbors(
        self, node_ids: IntArray, node_interact_times: FloatArray
    ) -> tuple[list[IntArray], list[IntArray], list[FloatArray]]:
        """All neighbours of each node before its time."""
        asked = zip(node_ids.tolist(), node_interact_times.tolist(), strict=True)
        found = [self.find_neighbors_before(node, time)[:3] for node, time in asked]
        nodes, events, times = zip(*found, strict=True)
        return list(nodes), list(events), list(times)


def _copied(module: Any) -> Any:
    """A copy in evaluation mode; tables and the neighbour sampler, which are never written to, are shared."""
    shared = [getattr(part, name) for part in module.modules() for name in TABLES if hasattr(part, name)]
    busy = {id(tensor): tensor.detach().clone() for tensor in module.buffers() if tensor.grad_fn is not None}
    return copy.deepcopy(module, busy | {id(table): table for table in shared}).eval().requires_grad_(False)


def _check(backbone: Any, graph: TemporalGraph, options: dict[str, Any]) -> None:
    kind, compute = type(backbone).__name__, getattr(backbone, "compute_src_dst_node_temporal_embeddings", None)
    if compute is None:
        raise CallError(f"{kind} has no compute_src_dst_node_temporal_embeddings; give model[0] and model[1] of DyGLib")
    known = list(inspect.signature(compute).parameters)
    for name in options:
        if name not in known:
            raise CallError(f"{kind} is not asked with {name!r}{did_you_mean(name, known)}")
    for what, table, count in (
        ("events", "edge_raw_features", graph.num_events),
        ("nodes", "node_raw_features", graph.num_nodes),
    ):
        made = len(getattr(backbone, table)) - 1
        if made < count or (what == "events" and made > count):
            raise ModelError(f"the model was made for {made:,} {what}, and the data have {count:,}")
