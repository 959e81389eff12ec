"""A trained TGN or TGAT as plain arrays, and what it computes: what the networks in `cody.models` do, without torch."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from cody.engine.library import address, contiguous, library
from cody.graph import FloatArray, IntArray, TemporalGraph
from cody.models.contract import LabelTask
from cody.models.sizes import Sizes, node_inputs


class HopInputs(NamedTuple):
    """What one attention layer reads: n nodes, each with K places for recent events.

    `own` and `neighbour` point into the embeddings of the layer below.
    """

    own: IntArray  # [n]
    neighbour: IntArray  # [n, K]
    edge: FloatArray | None  # [n, K, F] features of the events
    elapsed: FloatArray  # [n, K] query time - event time
    exists: NDArray[np.bool_]  # [n, K] False where the node has fewer than K events


@dataclass(frozen=True)
class Weights:
    """Everything that a network's answers depend on, besides the graph, in one precision.

    Times are encoded in the precision of the training, whatever the others are in: at 10^7 seconds, double precision
    would give other phases than the network was trained with.
    """

    kind: str  # of architecture
    sizes: Sizes
    arrays: Mapping[str, NDArray[Any]]  # by the names that they have in a checkpoint
    dtype: np.dtype[Any]
    task: LabelTask | None = None  # what the network labels; None: it scores links

    @classmethod
    def of(cls, network: Any) -> Weights:
        """The weights of a network of `cody.models`; weights are their own."""
        if isinstance(network, Weights):
            return network
        arrays = {name: weight.detach().cpu().numpy().copy() for name, weight in network.state_dict().items()}
        return cls(network.kind, network.sizes, arrays, np.dtype(arrays["score.out.weight"].dtype), network.task)

    def astype(self, dtype: Any) -> Weights:
        """The same network, computing in another precision."""
        arrays = {
            name: array if name.startswith("encode.") else array.astype(dtype) for name, array in self.arrays.items()
        }
        return Weights(self.kind, self.sizes, arrays, np.dtype(dtype), self.task)

    def __getitem__(self, name: str) -> NDArray[Any]:
        return self.arrays[name]

    @property
    def has_memory(self) -> bool:
        return "memory.weight_ih" in self.arrays

    @cached_property
    def identity(self) -> str:
        """A hash of architecture, sizes and weights. It stays the same when the weights are widened to float64."""
        described = {"architecture": self.kind, "sizes": asdict(self.sizes)}
        digest = hashlib.blake2b(json.dumps(described, sort_keys=True).encode(), digest_size=16)
        for name, array in sorted(self.arrays.items()):
            digest.update(name.encode() + np.ascontiguousarray(array, dtype=np.float64).tobytes())
        return digest.hexdigest()

    def features(self, graph: TemporalGraph) -> FloatArray | None:
        """What each node brings into the lowest layer besides its memory; None if nothing. [N, d]"""
        features = node_inputs(graph, self.sizes)
        return None if features is None else features.astype(self.dtype)

    def edge(self, graph: TemporalGraph, rows: IntArray) -> FloatArray | None:
        """The features of events, None where there are none. [...] → [..., F]"""
        features = graph.features_of(rows)
        return None if features is None else features.astype(self.dtype)

    def encode(self, elapsed: FloatArray) -> FloatArray:
        """Durations as cosines. [...] → [..., d]

        Multiplication and addition are element-wise steps in the precision of the training, see `TimeEncoder`.
        """
        frequency, phase = self["encode.frequency"], self["encode.phase"]
        angle = elapsed.astype(frequency.dtype)[..., None] * frequency + phase
        return np.cos(angle.astype(self.dtype))

    def encode_into(self, elapsed: FloatArray, out: FloatArray) -> None:
        """The same, written to where it is needed: by the compiled library, equal up to the last bit. [n] → [n, d]"""
        encoder, loaded = self.encoder, library()
        if encoder is not None and loaded is not None:
            values = out if out.dtype == np.float64 else np.empty(out.shape)
            sizes, arrays = out.shape, (contiguous(elapsed.astype(np.float32)), *encoder, values)
            if loaded.encode(*sizes, *map(address, arrays), values.strides[0] // values.itemsize):
                if values is not out:
                    out[:] = values
                return
        out[:] = self.encode(elapsed)  # also where an angle may be too large for the library

    def events_into(self, graph: TemporalGraph, rows: IntArray, elapsed: FloatArray, out: FloatArray) -> None:
        """What layers read of events besides neighbours: features, encoding of the time since. [n], [n] → [n, F + d]"""
        self.encode_into(elapsed, out[:, self.sizes.edge_features :])
        features = self.edge(graph, rows)
        if features is not None:
            out[:, : self.sizes.edge_features] = features

    @cached_property
    def encoder(self) -> tuple[NDArray[Any], NDArray[Any]] | None:
        """Frequencies and phases of the time encoding as the library reads them; None: not in single precision."""
        frequency, phase = contiguous(self["encode.frequency"]), contiguous(self["encode.phase"])
        return (frequency, phase) if frequency.dtype == phase.dtype == np.float32 else None

    def linear(self, name: str, values: FloatArray) -> FloatArray:
        """One linear layer. [..., k] → [..., o]"""
        weight = self[f"{name}.weight"]
        result: FloatArray = values.reshape(-1, weight.shape[1]) @ weight.T  # one product, not one for each node
        result += self[f"{name}.bias"]
        return result.reshape(*values.shape[:-1], -1)

    def perceptron(self, name: str, first: FloatArray, second: FloatArray) -> FloatArray:
        """Two linear layers with a ReLU between, on two inputs side by side."""
        hidden = self.linear(f"{name}.hidden", np.concatenate([first, second], axis=-1))
        return self.linear(f"{name}.out", np.maximum(hidden, 0))

    def score(self, source: FloatArray, target: FloatArray) -> FloatArray:
        """The logits of links, or of the second of two classes; of more classes, their scores.

        [n, d], [n, d] → [n], or [n, C] for C > 2 classes.
        """
        scores = self.perceptron("score", source, target)
        return scores[..., 0] if scores.shape[-1] == 1 else scores

    def remember(self, own: FloatArray, other: FloatArray, edge: FloatArray | None, elapsed: FloatArray) -> FloatArray:
        """A node's next memory: its own, the other node's, the event, the time since its last update. → [n, d]"""
        parts = [own, other] if edge is None else [own, other, edge]
        message = np.concatenate([*parts, self.encode(elapsed)], axis=-1)  # [n, 3d + F]
        given = message @ self["memory.weight_ih"].T + self["memory.bias_ih"]  # [n, 3d]
        kept = own @ self["memory.weight_hh"].T + self["memory.bias_hh"]  # [n, 3d]
        d = own.shape[-1]
        return gated(own, given[..., : 2 * d] + kept[..., : 2 * d], given[..., 2 * d :], kept[..., 2 * d :])

    def attend(self, layer: int, embeddings: FloatArray, hop: HopInputs) -> FloatArray:
        """One attention layer in its textbook form: every neighbour is projected to a key and to a value. → [n, d]

        query = [own embedding, encoding of 0]; key = value = [neighbour's embedding, features, encoding of elapsed].
        """
        name, (n, places) = f"attention.{layer}", hop.elapsed.shape
        events = self._events(embeddings, hop)
        values = self.linear(f"{name}.value", events).reshape(n, places, self.sizes.heads, -1)  # [n, K, H, 2d/H]
        shares = self.attention(layer, embeddings, hop, events)
        answer = self.linear(f"{name}.out", np.einsum("nhk,nkhc->nhc", shares, values).reshape(n, -1))  # [n, 2d]
        answer *= hop.exists.any(axis=1, keepdims=True)
        return self.perceptron(f"{name}.merge", answer, embeddings[hop.own])

    def attention(
        self, layer: int, embeddings: FloatArray, hop: HopInputs, events: FloatArray | None = None
    ) -> FloatArray:
        """How much each node attends to each of its events, in each head; where it has none, equally. → [n, H, K]"""
        name, heads, (n, places) = f"attention.{layer}", self.sizes.heads, hop.elapsed.shape
        events = self._events(embeddings, hop) if events is None else events
        now = self.encode(np.zeros(n))  # [n, d]
        own = np.concatenate([embeddings[hop.own], now], axis=-1)  # [n, 2d]
        queries = self.linear(f"{name}.query", own).reshape(n, heads, -1)  # [n, H, 2d/H]
        keys = self.linear(f"{name}.key", events).reshape(n, places, heads, -1)  # [n, K, H, 2d/H]
        scores = np.einsum("nhc,nkhc->nhk", queries, keys) / np.sqrt(queries.shape[-1]).astype(self.dtype)
        return softmax(scores, hop.exists)

    def _events(self, embeddings: FloatArray, hop: HopInputs) -> FloatArray:
        """What is attended to: neighbour's embedding, features, encoding of elapsed. → [n, K, 2d + F]"""
        edge = [] if hop.edge is None else [hop.edge]
        return np.concatenate([embeddings[hop.neighbour], *edge, self.encode(hop.elapsed)], axis=-1)


def gated(own: FloatArray, gates: FloatArray, given: FloatArray, kept: FloatArray) -> FloatArray:
    """The gates of a GRU. [n, d], [n, 2d], [n, d], [n, d] → [n, d]

    `gates` opens the gates; `given` and `kept` are what message and memory add to the new memory.
    """
    reset, update = np.split(sigmoid(gates), 2, axis=-1)
    new = np.tanh(given + reset * kept)
    return new + update * (own - new)


def sigmoid(values: FloatArray) -> FloatArray:
    """1 / (1 + exp(-x)); where exp overflows, that is 0 all the same."""
    with np.errstate(over="ignore"):
        result: FloatArray = 1 / (1 + np.exp(-values))
    return result


def softmax(scores: FloatArray, exists: NDArray[np.bool_]) -> FloatArray:
    """Shares of the events that exist; of a node without events, equal ones. [n, H, K], [n, K] → [n, H, K]"""
    scores = np.where(exists[:, None], scores, np.finfo(scores.dtype).min)
    shares: FloatArray = np.exp(scores - scores.max(axis=-1, keepdims=True))
    shares /= shares.sum(axis=-1, keepdims=True)
    return shares
