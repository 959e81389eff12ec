"""One attention layer, and the decoder of links: what `weights.py` computes, with as few products as can be."""

from __future__ import annotations

import ctypes
import math
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import Any

import numpy as np

from cody.engine.library import address, library, structure
from cody.engine.vectors import Matrix
from cody.engine.weights import Weights
from cody.graph import FloatArray, IntArray

NODES_AT_ONCE = 64  # what they attend to stays in the processor's cache
MANY = 512  # at once where nothing is gathered: bounds the temporary memory

Source = tuple[FloatArray, IntArray]  # a table of vectors, and where those of nodes stand in it: [≥ ids, width], [n, …]

_Source = structure("_Source", "*table *ids width ids_stride")


def _matvec(matrices: FloatArray, vectors: FloatArray) -> FloatArray:
    """[…, m, n], […, n] → […, m]"""
    return np.matmul(matrices, vectors[..., None])[..., 0]


def _vecmat(vectors: FloatArray, matrices: FloatArray, out: FloatArray) -> FloatArray:
    """[…, m], […, m, n] → […, n]"""
    np.matmul(vectors[..., None, :], matrices, out=out[..., None, :])
    return out


# Products of stacks: since numpy 2.2 there are functions for this, which are a little faster.
matvec = getattr(np, "matvec", _matvec)
vecmat = getattr(np, "vecmat", _vecmat)


@dataclass(frozen=True)
class Maps:
    """The linear maps of an attention layer, as few as they can be. H = heads, W = width of an event, d = dimension.

    Each node asks a single question, so the question is projected into key space, and the weighted sum of the events
    out of value space; no neighbour is ever projected. Linear maps that follow each other are multiplied first. The
    last step of a layer, from its hidden layer to the embedding, is linear too, and so is whatever reads an embedding;
    so embeddings are never computed, hidden layers are kept in their place, and the step belongs to who reads them.
    """

    own: FloatArray  # [d, H·W + d] what a node has below → its question to the events, its share of the hidden layer
    own_bias: FloatArray  # [H·W + d]
    answer: FloatArray  # [H·W, d] weighted sum of the events → hidden layer
    answer_bias: FloatArray  # [d]
    heads: int
    width: int

    @classmethod
    def of(cls, weights: Weights, layer: int, *, with_embeddings: bool) -> Maps:
        """Of layer `layer`. Without embeddings, those of the layer below are all zero and left out: W = d + F."""
        maps = cls._of_embeddings(weights, layer, with_embeddings=with_embeddings)
        return maps if layer == 0 else maps._of_hidden(*finish(weights, layer - 1))

    def _of_hidden(self, matrix: FloatArray, bias: FloatArray) -> Maps:
        """The same maps for hidden layers, of which `hidden @ matrix + bias` are the embeddings."""
        d, heads, width = len(matrix), self.heads, self.width
        own, own_bias = matrix @ self.own, bias @ self.own + self.own_bias
        # The embedding comes first in an event. Its bias adds the same number to all scores of a node: left out.
        for questions in (own, own_bias):
            question = questions[..., : heads * width].reshape(*questions.shape[:-1], heads, width)
            question[..., :d] = question[..., :d] @ matrix.T
        answer = self.answer.reshape(heads, width, -1).copy()
        answer_bias = self.answer_bias + bias @ answer[:, :d].sum(axis=0)  # the shares of a node add up to 1
        answer[:, :d] = matrix @ answer[:, :d]
        answers = answer.reshape(self.answer.shape)
        return replace(self, own=own, own_bias=own_bias, answer=answers, answer_bias=answer_bias)

    @cached_property
    def to_questions(self) -> Matrix:
        """What a node has below → its question to the events, its share of the hidden layer."""
        return Matrix(self.own, self.own_bias)

    @cached_property
    def to_answers(self) -> Matrix:
        """Weighted sum of the events → hidden layer."""
        return Matrix(self.answer, self.answer_bias)

    @classmethod
    def _of_embeddings(cls, weights: Weights, layer: int, *, with_embeddings: bool) -> Maps:
        name, heads, d = f"attention.{layer}", weights.sizes.heads, weights.sizes.dimension
        query, key, value = (weights[f"{name}.{which}.weight"] for which in ("query", "key", "value"))  # [2d, ...]
        width = key.shape[1] - (0 if with_embeddings else d)
        query, key, value = (each.reshape(heads, -1, each.shape[1]) for each in (query, key, value))  # [H, 2d/H, ...]
        key, value = key[..., -width:], value[..., -width:]
        scale = 1 / math.sqrt(query.shape[1])
        now = weights[f"{name}.query.bias"] + weights[f"{name}.query.weight"][:, d:] @ weights.encode(np.zeros(()))
        hidden, hidden_bias = weights[f"{name}.merge.hidden.weight"], weights[f"{name}.merge.hidden.bias"]
        onward = (hidden[:, : 2 * d] @ weights[f"{name}.out.weight"]).reshape(d, heads, -1)  # [d, H, 2d/H]
        # The key's bias adds the same number to all scores of a node, which the softmax takes away again.
        ask = np.einsum("hcw,hcd->dhw", key, query[..., :d]).reshape(d, -1) * scale
        ask_bias = np.einsum("hcw,hc->hw", key, now.reshape(heads, -1)).ravel() * scale
        value_bias = np.einsum("ohc,hc->o", onward, weights[f"{name}.value.bias"].reshape(heads, -1))
        return cls(
            own=np.concatenate([ask, hidden[:, 2 * d :].T], axis=1),
            own_bias=np.concatenate([ask_bias, hidden_bias]),
            answer=np.einsum("ohc,hcw->hwo", onward, value).reshape(-1, d),
            answer_bias=value_bias + hidden[:, : 2 * d] @ weights[f"{name}.out.bias"],
            heads=heads,
            width=width,
        )


def finish(weights: Weights, layer: int) -> tuple[FloatArray, FloatArray]:
    """The matrix and the bias that make embeddings of the hidden layer of layer `layer`. [d, d], [d]"""
    name = f"attention.{layer}.merge.out"
    return weights[f"{name}.weight"].T, weights[f"{name}.bias"]


class Decoder:
    """The scores of links from the hidden layers of the last attention layer; equal to `Weights.score`.

    What each end adds to the decoder's own hidden layer is computed once.
    """

    def __init__(self, weights: Weights) -> None:
        d = weights.sizes.dimension
        matrix, bias = finish(weights, weights.sizes.layers - 1)
        hidden = weights["score.hidden.weight"].T  # [2d, d]
        self.source, self.target = Matrix(matrix @ hidden[:d]), Matrix(matrix @ hidden[d:])
        self.bias = bias @ hidden[:d] + bias @ hidden[d:] + weights["score.hidden.bias"]
        out, out_bias = weights["score.out.weight"], weights["score.out.bias"]  # [C, d], [C]
        self.out: FloatArray = out[0] if len(out) == 1 else out.T  # [d], or [d, C]
        self.out_bias: FloatArray = out_bias[0] if len(out) == 1 else out_bias

    def score(self, source: FloatArray, target: FloatArray) -> FloatArray:
        """The logits of links from what both ends add. [n, d], [n, d] → [n], or [n, C] for C > 2 classes"""
        hidden = np.maximum(source + target + self.bias, 0)
        return hidden @ self.out + self.out_bias


class Attention:
    """Hidden layers of nodes from what they attend to; equal to `Weights.attend`.

    What is attended to is gathered into room that is kept: fresh memory for each call would cost more than the sums.
    """

    def __init__(self, maps: Maps, places: int) -> None:
        self.maps = maps
        self.places = np.arange(places)  # K of them
        self.room: dict[int, FloatArray] = {}  # [NODES_AT_ONCE, K, width] by place among the parts of an event
        self.shares = np.empty((maps.heads, places))

    def __call__(self, questions: Source, sources: list[Source], length: IntArray) -> FloatArray:
        """The hidden layers of nodes. → [n, d]

        Args:
            questions: What vectors map to, [≥ ids, H·W + d], and where that of each node stands. [n]
            sources: The parts of an event, side by side. Places beyond the length of a node may hold anything.
            length: How many events each node has. [n]
        """
        table, which = questions
        hidden = np.empty((len(which), len(self.maps.answer_bias)), dtype=table.dtype)
        loaded = library() if table.dtype == np.float64 else None
        look, at_once = (self._look, NODES_AT_ONCE) if loaded is None else (partial(self._look_compiled, loaded), MANY)
        for first in range(0, len(which), at_once):
            some = slice(first, first + at_once)
            seen = look([(vectors, ids[some]) for vectors, ids in sources], (table, which[some]), length[some])
            hidden[some] = self._finish(seen, (table, which[some]), length[some])
        return hidden

    def _gather(self, table: FloatArray, ids: IntArray, number: int) -> FloatArray:
        if number not in self.room:
            self.room[number] = np.empty((NODES_AT_ONCE, len(self.places), table.shape[1]), dtype=table.dtype)
        room = self.room[number][: len(ids)]
        np.take(table, ids, axis=0, out=room, mode="clip")  # other modes make a copy first
        return room

    def _look(self, sources: list[Source], questions: Source, length: IntArray) -> FloatArray:
        """What nodes see of the events: a weighted sum for each head. → [n, H·W]"""
        maps, (table, which) = self.maps, questions
        n = len(which)
        parts = [self._gather(*source, number) for number, source in enumerate(sources)]
        question = table[which, : maps.heads * maps.width].reshape(n, maps.heads, maps.width)
        ends = np.cumsum([part.shape[-1] for part in parts])
        columns = [slice(end - part.shape[-1], end) for end, part in zip(ends, parts, strict=True)]
        scores = matvec(parts[0][:, None], question[..., columns[0]])  # [n, H, K]
        for part, column in zip(parts[1:], columns[1:], strict=True):
            scores += matvec(part[:, None], question[..., column])
        # A node without events sees nothing: its first place gets all, and nothing of it is used.
        np.copyto(scores, -np.inf, where=(self.places >= np.maximum(length, 1)[:, None])[:, None])
        scores -= scores.max(axis=-1, keepdims=True)
        shares = np.exp(scores, out=scores)
        shares /= shares.sum(axis=-1, keepdims=True)
        seen = np.empty((n, maps.heads, maps.width), dtype=table.dtype)
        for part, column in zip(parts, columns, strict=True):
            vecmat(shares, part[:, None], out=seen[..., column])
        return seen.reshape(n, -1)

    def _look_compiled(self, loaded: Any, sources: list[Source], questions: Source, length: IntArray) -> FloatArray:
        """The same by the compiled library, which need not gather the events."""
        maps, n = self.maps, len(length)
        seen = np.empty((n, maps.heads * maps.width))
        parts = (_Source * len(sources))(*(_Source(*_addresses(*source)) for source in sources))
        sizes = n, maps.heads, maps.width, len(self.places)
        others = map(address, (length, self.shares, seen))
        loaded.attend(*sizes, ctypes.byref(_Source(*_addresses(*questions))), parts, len(parts), *others)
        return seen

    def _finish(self, seen: FloatArray, questions: Source, length: IntArray) -> FloatArray:
        """The hidden layers of nodes, from what they see of the events and from their own share. → [n, d]"""
        table, which = questions
        hidden = self.maps.to_answers.times(seen)
        hidden[length == 0] = 0.0
        hidden += table[:, self.maps.heads * self.maps.width :].take(which, axis=0)
        return np.maximum(hidden, 0, out=hidden)


def _addresses(table: FloatArray, ids: IntArray) -> tuple[int, int, int, int]:
    """Where both begin, and how far it is from one vector, and from the ids of one node, to the next."""
    return address(table), address(ids), table.shape[1], ids.strides[0] // ids.itemsize
