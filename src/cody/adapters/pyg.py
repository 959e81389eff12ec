"""Models of PyTorch Geometric, and of TGB and TGM, whose classes are called in the same way.

    model = pyg.wrap(memory=memory, gnn=gnn, link_predictor=link_pred, data=data, batch=200, neighbours=10)
    why = cody.explain(model, model.graph, model.graph.query(50_000))

Your modules are copied, and the copies are put into evaluation mode; yours are never modified. After more training,
call `wrap` again.

Two parts of the library are replaced in the copies, because they make an answer depend on unrelated events. Neighbours
come from `Past.recent`: `LastNeighborLoader` drops recent events if a node has more of them in one batch than fit.
Messages of one node are sorted in the order of the log by a stable sort, which decides between events of equal time.

No module is called with a single row. The kernels of torch for one row round differently from those for several, and if
times are seconds over years, the cosine of a time encoding amplifies this to an entirely different number. So a single
row is passed twice, and the second result is dropped.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Sequence
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from cody.utils.extras import needed_by

with needed_by("cody.adapters.pyg", "pyg"):
    import torch
    from torch import Tensor, nn

from cody.adapters.history import SNAPSHOT_BYTES, Feeding, HistoryModel
from cody.adapters.modules import LogitPredictor, check_modules, copied, evaluating, warn_of_half_precision
from cody.adapters.past import Events, Past, recent
from cody.adapters.pyg_ways import CLOSE, Frame, choose_way, updater
from cody.adapters.sourced import SourcedModel
from cody.adapters.trials import ScoresTogether
from cody.engine.threads import one_thread
from cody.errors import CallError, ModelError, SlowModelWarning
from cody.graph import FloatArray, IntArray, Query, TemporalGraph, whole_number
from cody.graph.grid import make_grid, usual_splits
from cody.models.contract import fingerprint, label_task_of
from cody.utils.words import count

STATE = ("memory", "last_update", "_assoc")  # buffers of a TGNMemory that are not weights
ROW_BY_ROW = ("time_enc", "msg_s_module", "msg_d_module", "gru", "memory_updater")  # parts of a TGNMemory
GRU_WEIGHTS = {"weight_ih", "weight_hh", "bias_ih", "bias_hh"}
PLACE_OF_A_STORE = 64  # bytes of an entry of a message store; its tensors are shared


def wrap(
    *,
    gnn: nn.Module,
    link_predictor: nn.Module,
    data: Any,
    memory: nn.Module | None = None,
    node_features: Any = None,
    batch: int = 200,
    splits: Sequence[int] | None = None,
    sees_own_batch: bool = False,
    neighbours: int = 10,
    hops: int = 1,
    start: float = 0.0,
    message: float | None = None,
    classes: Sequence[str] | None = None,
    about: str = "event",
    threshold: float | None = None,
    probabilities: bool | None = None,
    fast: bool = True,
    snapshot_bytes: int = SNAPSHOT_BYTES,
) -> HistoryModel | SourcedModel:
    """A trained model of PyTorch Geometric as a model that can be explained.

    The defaults follow the test loops of PyG, TGB and TGM: docs/own-model.md says exactly which prediction is
    explained, and `cody.adapters.compare` tests whether it matches your own loop.

    Args:
        gnn: called as `gnn(z, last_update, edge_index, t, msg)`, as in the library's TGN example.
        link_predictor: called as `link_predictor(z_src, z_dst)`; returns logits. With more than two classes, it returns
            one score per class.
        data: the `TemporalData` that the model was trained on, or a graph of the same events, which has names and
            dates. Its `src` and `dst` are indices of the memory, its features are the messages.
        memory: a `TGNMemory`, or anything with its methods. Without one, `z` are the `node_features` of the nodes, and
            `last_update` is the time of the query for all of them.
        node_features: one row per node. With a memory, `z` is the memory of a node followed by its features.
        batch: number of events per update of the memory. It is part of the model: answers depend on it.
        splits: rows at which your loop starts a new batch because it has one loader per part of the data, for
            example the first rows of validation and test. None: as `data.train_val_test_split(0.15, 0.15)` splits the
            events, which is also TGB's split. `()`: one loader for all.
        sees_own_batch: whether a link sees the earlier events of its own batch. In the libraries' loops it does not: a
            batch is scored first and then passed to the memory and to the neighbour loader.
        neighbours: number of recent events per node that the GNN sees.
        hops: radius of the events that the GNN sees: 1, those of the query's nodes; 2, also those of their neighbours.
        start: the time in `data` that the model counts as 0.
        message: the message of every event, if `data` has no features.
        classes: names of the classes, if the model labels events or nodes instead of predicting links. Of two, the
            second one is predicted where the logit is above 0.
        about: what is labelled: "event" or "node"; of a node, both arguments of `link_predictor` are its `z`.
        threshold: with two classes, the probability above which the second one is predicted. Default: 0.5.
        probabilities: whether the link predictor ends with a sigmoid, as TGB's does; logits are then its inputs. None:
            this is detected, and a `ProbabilityWarning` is issued.
        fast: compute only what a change affects. It needs a memory that keeps the last message of each node, as
            `TGNMemory` with `LastAggregator` does; with another one a `SlowModelWarning` gives the reason.
        snapshot_bytes: memory budget for saved states.
    """
    graph = data if isinstance(data, TemporalGraph) else _graph(data, memory, node_features)
    for name, module in (("gnn", gnn), ("link_predictor", link_predictor)):
        if module is None:
            raise CallError(f"{name} is missing: only memory may be None")
    modules = Modules(*(_copied(module) for module in (memory, gnn, link_predictor)))
    check_modules(**modules._asdict())
    warn_of_half_precision(memory, gnn, link_predictor)
    options = _options(neighbours, hops, start, message)
    _check(modules, graph, node_features, options)
    labels = label_task_of(classes, about, threshold)
    node_features = None if node_features is None else torch.as_tensor(node_features).detach().clone()
    steps = PygSteps(modules, node_features, options, 1 if labels is None else labels.outputs)
    gives_logits = steps.gives_logits(graph, probabilities)
    steps.predict.warn()
    steps.check_repeatable(graph)
    feeding = Feeding(make_grid(batch, usual_splits(graph) if splits is None else splits), bool(sees_own_batch))
    given = {"identity": _identity(steps, feeding), "hops": options.hops, "gives_logits": gives_logits}
    given |= {"classes": classes, "about": about, "threshold": threshold, "snapshot_bytes": snapshot_bytes}
    frame = Frame(steps, feeding, given)
    if memory is None:
        return frame.model(graph, "score_many")
    way, reason = choose_way(frame, graph, fast=fast)
    if reason:
        warnings.warn(f"explanations will be slow: {reason} (fast=False: no warning)", SlowModelWarning, stacklevel=2)
    return way(frame, graph)


class Modules(NamedTuple):
    """The user's modules, copied."""

    memory: Any
    gnn: Any
    link_predictor: Any


class Options(NamedTuple):
    """How the modules are called; part of the model's identity."""

    neighbours: int
    hops: int
    start: float
    message: float | None
    probabilities: bool = False


class PygMemoryState(NamedTuple):
    """The state of a TGNMemory."""

    memory: Tensor  # [N, d]
    last_update: Tensor  # [N]
    msg_s_store: dict[int, Any]
    msg_d_store: dict[int, Any]

    @property
    def nbytes(self) -> int:
        stores = PLACE_OF_A_STORE * (len(self.msg_s_store) + len(self.msg_d_store))
        return self.memory.nbytes + self.last_update.nbytes + stores


class Subgraph(NamedTuple):
    """The input of a GNN for m links in each of B histories: the parts of different links share no edges."""

    nodes: IntArray  # [n] sorted within each part
    of: IntArray  # [n] the history that each belongs to, sorted
    edges: IntArray  # [2, m] from neighbour to node, by their places in `nodes`
    rows: IntArray  # [m] the event of each edge
    ends: IntArray  # [2, B·m] places of the nodes of all links, those of the first history first


def twice(subgraph: Subgraph) -> Subgraph:
    """The same histories, twice."""
    nodes, of, edges, rows, ends = subgraph
    of, edges = np.concatenate([of, of + ends.shape[1]]), np.concatenate([edges, edges + len(nodes)], axis=1)
    ends = np.concatenate([ends, ends + len(nodes)], axis=1)
    return Subgraph(np.tile(nodes, 2), of, edges, np.tile(rows, 2), ends)


class PygSteps(ScoresTogether):
    """The functions of `from_steps`, on top of the user's modules, and what a table of their memory needs."""

    together = 1024  # bounds the temporary memory

    def __init__(self, modules: Modules, node_features: Tensor | None, options: Options, outputs: int = 1) -> None:
        self.memory, self.gnn, self.link_predictor = modules
        self.node_features, self.options = node_features, options
        self.predict = LogitPredictor(self.link_predictor, "link_predictor(z_src, z_dst)", outputs=outputs)
        self.first_counts = False  # whether of a node's messages of the same time the first one counts, not the last
        some = next(iter([*self.gnn.parameters(), *self.link_predictor.parameters()]), torch.zeros(0))
        self.device, self.dtype = some.device, some.dtype
        self.time_dtype = torch.float64 if self.memory is None else self.memory.last_update.dtype

    def start(self) -> None:
        self.memory.reset_state()

    @torch.no_grad()
    def observe(self, events: Events) -> None:
        src, dst = self._long(events.src), self._long(events.dst)
        self.memory.update_state(src, dst, self._times(events), self._messages(events))

    def save(self) -> PygMemoryState:
        memory = self.memory
        state = memory.memory.detach().clone(), memory.last_update.clone()
        return PygMemoryState(*state, dict(memory.msg_s_store), dict(memory.msg_d_store))

    def restore(self, saved: PygMemoryState) -> None:
        self.memory.memory.copy_(saved.memory)
        self.memory.last_update.copy_(saved.last_update)
        self.memory.msg_s_store, self.memory.msg_d_store = dict(saved.msg_s_store), dict(saved.msg_d_store)

    def reads(self, query: Query, past: Past) -> IntArray:
        return self.subgraph([query], [past]).nodes

    def score_many(self, query: Query, pasts: Sequence[Past]) -> FloatArray:
        """One link in many histories at once, which have the same memory, or none."""
        return self.scores([query], pasts)

    @torch.no_grad()
    def scores(self, links: Sequence[Query], pasts: Sequence[Past]) -> FloatArray:
        """The scores of all links in each history, of which there are several only for a single link."""
        subgraph = self.subgraph(links, pasts)
        return self.answers(subgraph, pasts[0].graph, *self.state_of(links[0], subgraph))

    def state_of(self, query: Query, subgraph: Subgraph) -> tuple[Tensor, Tensor]:
        """`z` and the last update of the nodes of a subgraph, from the current memory, or without one."""
        nodes = self._long(subgraph.nodes)
        if self.memory is not None:
            z, last_update = self.memory(nodes)
            return z, last_update
        assert self.node_features is not None
        features = self.node_features.to(self.device, self.dtype)[nodes]
        now = query.time - self.options.start
        return features, torch.full((len(features),), now, dtype=self.time_dtype, device=self.device)

    def subgraph(self, links: Sequence[Query], pasts: Sequence[Past]) -> Subgraph:
        """The recent events of the nodes of links, and of their neighbours, as `LastNeighborLoader` gives them.

        Each link has a part of its own: a GNN of several layers would let it see the events of other links.
        """
        graph, count = pasts[0].graph, pasts[0].graph.num_nodes
        pairs = np.array([[link.src, link.dst] for link in links]).T  # [2, m]
        ends = np.arange(len(pasts) * len(links)) * count + np.tile(pairs, len(pasts))  # [2, B·m] part · N + node
        front = nodes = np.unique(ends)
        edges: list[IntArray] = []
        rows: list[IntArray] = []
        for _ in range(self.options.hops):
            latest = recent(pasts, front // count // len(links), front % count, self.options.neighbours)  # [n, K]
            of, some = _as_inserted(graph, latest)
            towards = front[of]
            others = graph.other_end(some, towards % count) + towards // count * count
            edges.append(np.stack([others, towards]))
            rows.append(some)
            front = np.setdiff1d(others, nodes)
            nodes = np.union1d(nodes, front)
        places = np.searchsorted(nodes, np.concatenate(edges, axis=1))
        of = nodes // count // len(links)
        return Subgraph(nodes % count, of, places, np.concatenate(rows), np.searchsorted(nodes, ends))

    def answers(self, subgraph: Subgraph, graph: TemporalGraph, z: Tensor, last_update: Tensor) -> FloatArray:
        """The logit of each link in each history, [B·m]; with more than two classes, the score of each. [B·m, C]

        Args:
            subgraph: Nodes and edges of the histories.
            graph: The log of events.
            z: Memory or features of the nodes.
            last_update: Time of the last memory update of each node.
        """
        count = subgraph.ends.shape[1]
        if count == 1 or len(subgraph.rows) == 1:
            subgraph, z, last_update = twice(subgraph), torch.cat([z, z]), torch.cat([last_update, last_update])
        z = self.embed(subgraph, graph, z, last_update)
        logits = self.predict(subgraph.ends.shape[1], *(z[self._long(end)] for end in subgraph.ends))
        return logits[:count]

    def embed(self, subgraph: Subgraph, graph: TemporalGraph, z: Tensor, last_update: Tensor) -> Tensor:
        """The output of the GNN for each node of the subgraph.

        Args:
            subgraph: Nodes and edges of the histories.
            graph: The log of events.
            z: Memory or features of the nodes.
            last_update: Time of the last memory update of each node.
        """
        if self.memory is not None and self.node_features is not None:
            z = torch.cat([z, self.node_features.to(z)[self._long(subgraph.nodes)]], dim=-1)
        events = Events(graph, subgraph.rows)
        embedded = self.gnn(z, last_update, self._long(subgraph.edges), self._times(events), self._messages(events))
        if not isinstance(embedded, Tensor) or embedded.shape[:1] != z.shape[:1]:
            given = tuple(embedded.shape) if isinstance(embedded, Tensor) else f"a {type(embedded).__name__}"
            raise ModelError(
                f"gnn(z, last_update, edge_index, t, msg) must return a tensor with a row for each of {len(z)} nodes; "
                f"it returned {given}"
            )
        return embedded

    @one_thread()
    def check_repeatable(self, graph: TemporalGraph) -> None:
        """Reject modules that answer the same question in different ways."""
        if not graph.num_events:
            return
        query = graph.query(graph.num_events - 1)
        first, second = (self.score(query, Past(graph, query)) for _ in range(2))
        if not np.allclose(first, second, atol=CLOSE, rtol=CLOSE, equal_nan=True):
            raise ModelError(
                f"the modules give {first} and then {second} for the same link and history: does one of them "
                "draw at random in evaluation mode, too (dropout that is always on, sampled neighbours)?"
            )

    @torch.no_grad()
    @one_thread()
    def gives_logits(self, graph: TemporalGraph, probabilities: bool | None) -> bool:
        """Whether outputs are certainly logits, after testing the link predictor."""
        if not graph.num_events:
            return False
        query = graph.query(0)
        subgraph = self.subgraph([query], [Past(graph, query)])
        embedded = self.embed(subgraph, graph, *self.state_of(query, subgraph))
        surely = self.predict.settle(probabilities, embedded)
        self.options = self.options._replace(probabilities=self.predict.probabilities)
        return surely

    def times(self, graph: TemporalGraph) -> NDArray[Any]:
        """The times of all rows, as the memory counts them. [rows]"""
        return np.asarray(torch.tensor(graph.time - self.options.start).to(self.time_dtype))

    def remember(
        self, graph: TemporalGraph, own: Tensor, other: Tensor, rows: IntArray, sources: int, elapsed: NDArray[Any]
    ) -> Tensor:
        """The memories that `TGNMemory` writes from the last message of each node.

        Args:
            graph: The log of events.
            own: Memory of the updated nodes.
            other: Memory of the nodes at the other end of the events.
            rows: The event of each message.
            sources: Number of events, the first ones, whose source is updated; of the others it is the destination.
            elapsed: Time since the previous update.
        """
        memory = self.memory
        raw, encoded = self._messages(Events(graph, rows)), self._encoded(elapsed)
        sides = (memory.msg_s_module, slice(sources)), (memory.msg_d_module, slice(sources, None))
        messages = [
            module(own[some], other[some], raw[some], encoded[some]) for module, some in sides if len(rows[some])
        ]
        return updater(memory)(torch.cat(messages), own)

    def _encoded(self, elapsed: NDArray[Any]) -> Tensor:
        distinct, places = np.unique(elapsed, return_inverse=True)  # the cosine of a large number takes time
        encoded: Tensor = self.memory.time_enc(torch.as_tensor(distinct, device=self.device).to(self.dtype))
        return encoded[self._long(places)]

    @torch.no_grad()
    def encode(self, elapsed: NDArray[Any]) -> NDArray[Any]:
        """Durations as the memory encodes them. [n] → [n, T]"""
        return self._encoded(elapsed).cpu().numpy()

    def raw_messages(self, graph: TemporalGraph, rows: IntArray) -> NDArray[Any]:
        """What the memory is fed of events, besides their nodes and times. [n] → [n, F]"""
        return self._messages(Events(graph, rows)).cpu().numpy()

    def gru(self) -> dict[str, NDArray[Any]] | None:
        """The weights of the GRU that writes the memory, as `engine.Weights` names them; None if there is none."""
        weights = dict(updater(self.memory).named_parameters())
        if weights.keys() != GRU_WEIGHTS:
            return None
        return {f"memory.{name}": weight.detach().cpu().numpy() for name, weight in weights.items()}

    def tensor(self, numbers: FloatArray) -> Tensor:
        """Numbers as the modules take them."""
        return torch.as_tensor(numbers, dtype=self.dtype, device=self.device)

    def reachable(self, links: Sequence[Query], graph: TemporalGraph, rows: Sequence[int]) -> IntArray:
        """The nodes that the GNN may read for these links when rows are changed.

        Args:
            links: The links that are scored, all of one moment.
            graph: The log of events.
            rows: Rows that may be changed.
        """
        nodes = np.unique(np.array([[link.src, link.dst] for link in links], dtype=np.int64))
        imagined = np.array([row for row in rows if row >= graph.num_events], dtype=np.int64)
        added = np.concatenate([graph.src[imagined], graph.dst[imagined]])
        for _ in range(self.options.hops):
            recent = graph.recent(nodes, links[0].before, self.options.neighbours + len(rows))
            recent = recent[recent >= 0]
            nodes = np.unique(np.concatenate([nodes, graph.src[recent], graph.dst[recent], added])).astype(np.int64)
        return nodes

    def state(self, graph: TemporalGraph, memory: Tensor, updated: NDArray[Any], last: IntArray) -> PygMemoryState:
        """The memory as it would be saved, from what is known about each node.

        Args:
            graph: The log of events.
            memory: The memory of each node.
            updated: The time of its last update.
            last: The row of its last message as source and as destination, -1 if none can still count.
        """
        self.memory.reset_state()
        stores = dict(self.memory.msg_s_store), dict(self.memory.msg_d_store)
        for store, rows, ends in zip(stores, last, ((graph.src, graph.dst), (graph.dst, graph.src)), strict=True):
            nodes = np.flatnonzero(rows >= 0)
            events = Events(graph, rows[nodes])
            own, other = (torch.tensor(end[events.rows], dtype=torch.long, device=self.device) for end in ends)
            columns = own, other, self._times(events), self._messages(events)
            for node, *parts in zip(nodes.tolist(), *(torch.split(column, 1) for column in columns), strict=True):
                store[node] = tuple(parts)
        return PygMemoryState(memory, torch.as_tensor(updated, device=self.device), *stores)

    def _long(self, numbers: IntArray) -> Tensor:
        return torch.as_tensor(np.ascontiguousarray(numbers, dtype=np.int64), device=self.device)

    def _times(self, events: Events) -> Tensor:
        return torch.tensor(events.time - self.options.start, device=self.device).to(self.time_dtype)

    def _messages(self, events: Events) -> Tensor:
        features = events.features
        if features is None:
            message = self.options.message
            shape = len(events), int(message is not None)
            return torch.full(shape, message or 0.0, dtype=self.dtype, device=self.device)
        return torch.tensor(features, dtype=self.dtype, device=self.device)


def _as_inserted(graph: TemporalGraph, latest: IntArray) -> tuple[IntArray, IntArray]:
    """Latest rows of nodes, and the node of each by its index; a self-loop is inserted twice."""
    exists = latest >= 0
    loops = exists & (graph.src[latest] == graph.dst[latest])
    if not loops.any():
        return np.nonzero(exists)[0], latest[exists]
    places = exists + loops.astype(np.int64)
    fitting = np.clip(latest.shape[1] - (np.cumsum(places, axis=1) - places), 0, places)  # [n, K] how many of each
    of = np.broadcast_to(np.arange(len(latest))[:, None], latest.shape)
    return np.repeat(of.ravel(), fitting.ravel()), np.repeat(latest.ravel(), fitting.ravel())


def _graph(data: Any, memory: Any, node_features: Any) -> TemporalGraph:
    """The events of a TemporalData, with the same node numbers."""
    missing = [name for name in ("src", "dst", "t") if getattr(data, name, None) is None]
    if missing:
        raise CallError(
            f"data must be a TemporalData or a graph of cody.load; {type(data).__name__} has no {missing[0]!r}"
        )
    nodes = getattr(memory, "num_nodes", None) if node_features is None else len(node_features)
    columns = (np.asarray(getattr(data, name).cpu()) for name in ("src", "dst", "t"))
    message = getattr(data, "msg", None)
    if message is not None:
        message = message[:, None] if message.dim() == 1 else message.flatten(1)
    features = None if message is None else message.detach().float().cpu().numpy()
    return TemporalGraph.from_arrays(*columns, features=features, num_nodes=nodes)


def _copied(module: Any) -> Any:
    """A copy of a module, in evaluation mode and with an empty state."""
    if module is None:
        return None
    if not isinstance(module, nn.Module):
        raise CallError(f"memory, gnn and link_predictor must be torch modules, not {module!r:.60}")
    same = copied(module)
    if hasattr(same, "reset_state"):
        same.reset_state()  # first: a TGNMemory that is switched to evaluation applies pending messages
    if hasattr(same, "_update_msg_store"):
        same._update_msg_store = _update_in_order
        for part in (getattr(same, name, None) for name in ROW_BY_ROW):
            if isinstance(part, nn.Module) and not isinstance(part, torch.jit.ScriptModule):
                part.forward = partial(_at_least_two_rows, part.forward)
    return evaluating(same)


def _at_least_two_rows(function: Any, *rows: Tensor) -> Tensor:
    """The result of a function of rows that gets a single row twice; see the top of this file."""
    if len(rows[0]) != 1:
        return function(*rows)
    doubled: Tensor = function(*(torch.cat([row, row]) for row in rows))
    return doubled[:1]


def _update_in_order(src: Tensor, dst: Tensor, t: Tensor, raw_msg: Tensor, msg_store: dict[int, Any]) -> None:
    """The aggregation of `TGNMemory`, with the events of each node in the order of the log."""
    nodes, order = src.sort(stable=True)
    nodes, count = torch.unique_consecutive(nodes, return_counts=True)
    columns = (torch.split(column[order], count.tolist()) for column in (src, dst, t, raw_msg))
    msg_store.update(zip(nodes.tolist(), zip(*columns, strict=True), strict=True))


def _options(neighbours: Any, hops: Any, start: Any, message: Any) -> Options:
    """How the modules are called; what makes no sense is rejected."""
    counts = {"neighbours": whole_number("neighbours", neighbours), "hops": whole_number("hops", hops)}
    for name, number in counts.items():
        if number < 1:
            raise CallError(f"{name} must be at least 1, not {number}")
    numbers = {"start": start, "message": 0.0 if message is None else message}
    for name, value in numbers.items():
        try:
            finite = math.isfinite(value)
        except (TypeError, ValueError):
            finite = False
        if not finite:
            raise CallError(f"{name} must be a finite number, not {value!r:.60}")
    return Options(counts["neighbours"], counts["hops"], float(start), None if message is None else float(message))


def _check(modules: Modules, graph: TemporalGraph, node_features: Any, options: Options) -> None:
    memory = modules.memory
    if options.message is not None and graph.features is not None:
        raise CallError("message is for data without features; these have some, which are the messages")
    if node_features is not None and len(node_features) < graph.num_nodes:
        raise CallError(f"node_features must have a row for each of the {graph.num_nodes:,} nodes")
    if memory is None:
        if node_features is None:
            raise CallError(
                f"a model without memory needs node_features, a row for each of the {graph.num_nodes:,} nodes"
            )
        return
    missing = [name for name in ("reset_state", "update_state", "memory", "last_update") if not hasattr(memory, name)]
    if missing:
        raise CallError(f"memory must be a TGNMemory or work like one; {type(memory).__name__} has no {missing[0]!r}")
    if len(memory.memory) < graph.num_nodes:
        raise ModelError(f"the memory has {len(memory.memory):,} nodes, but the data have {graph.num_nodes:,}")
    width = int(options.message is not None) if graph.features is None else graph.features.shape[1]
    wanted = getattr(memory, "raw_msg_dim", width)
    if width != wanted:
        raise ModelError(
            f"the memory was made for messages of {count(wanted, 'number')}, but the events have {width}: "
            "pass as data the TemporalData that the model was trained with"
            + (", or as message the number that each event had" if wanted == 1 and width == 0 else "")
        )


def _identity(steps: PygSteps, feeding: Feeding) -> str:
    """A hash of weights, structure and options; not of the state of the memory."""
    arrays = [
        weight.detach().cpu().numpy()
        for module in (steps.memory, steps.gnn, steps.link_predictor)
        if module is not None
        for name, weight in module.state_dict().items()
        if name not in STATE
    ]
    structure = f"{steps.memory}{steps.gnn}{steps.link_predictor}{feeding} {steps.options}"
    features = [] if steps.node_features is None else [steps.node_features.cpu().numpy()]
    return f"pyg-{fingerprint(*arrays, *features, np.frombuffer(structure.encode(), np.uint8))}"
