"""One attention layer, and the decoder of links: what `weights.py` computes, with as few products as can be."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from cody.engine.products import matvec, vecmat
from cody.engine.weights import Weights
from cody.graph import FloatArray, IntArray

NODES_AT_ONCE = 64  # what they attend to stays in the processor's cache


class Maps(NamedTuple):
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
        for asked in (own, own_bias):
            question = asked[..., : heads * width].reshape(*asked.shape[:-1], heads, width)
            question[..., :d] = question[..., :d] @ matrix.T
        answer = self.answer.reshape(heads, width, -1).copy()
        answer_bias = self.answer_bias + bias @ answer[:, :d].sum(axis=0)  # the shares of a node add up to 1
        answer[:, :d] = matrix @ answer[:, :d]
        return self._replace(
            own=own, own_bias=own_bias, answer=answer.reshape(self.answer.shape), answer_bias=answer_bias
        )

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
        self.source, self.target = matrix @ hidden[:d], matrix @ hidden[d:]
        self.bias = bias @ hidden[:d] + bias @ hidden[d:] + weights["score.hidden.bias"]
        self.out, self.out_bias = weights["score.out.weight"][0], weights["score.out.bias"][0]

    def score(self, source: FloatArray, target: FloatArray) -> FloatArray:
        """The logits of links from what both ends add. [n, d], [n, d] → [n]"""
        hidden = np.maximum(source + target + self.bias, 0)
        logits: FloatArray = hidden @ self.out + self.out_bias
        return logits


class Attention:
    """Hidden layers of nodes from what they attend to; equal to `Weights.attend`.

    What is attended to is gathered into room that is kept: fresh memory for each call would cost more than the sums.
    """

    def __init__(self, maps: Maps, places: int) -> None:
        self.maps = maps
        self.places = np.arange(places)  # K of them
        self.room: dict[int, FloatArray] = {}  # [NODES_AT_ONCE, K, width] by place among the parts of an event

    def __call__(self, asked: FloatArray, sources: list[tuple[FloatArray, IntArray]], length: IntArray) -> FloatArray:
        """The hidden layers of nodes. → [n, d]

        `asked` is what their own vectors map to, [n, H·W + d]. The sources are the parts of an event, side by side: a
        table of vectors and where those of each node stand in it, [≥ ids, width] and [n, K]. Places beyond the length
        of a node may hold anything.
        """
        hidden = np.empty((len(asked), len(self.maps.answer_bias)), dtype=asked.dtype)
        for first in range(0, len(asked), NODES_AT_ONCE):
            some = slice(first, first + NODES_AT_ONCE)
            gathered = [self._gather(*source, some, number) for number, source in enumerate(sources)]
            hidden[some] = self._attend(asked[some], gathered, length[some])
        return hidden

    def _gather(self, table: FloatArray, ids: IntArray, some: slice, number: int) -> FloatArray:
        ids = ids[some]
        if number not in self.room:
            self.room[number] = np.empty((NODES_AT_ONCE, len(self.places), table.shape[1]), dtype=table.dtype)
        room = self.room[number][: len(ids)]
        np.take(table, ids, axis=0, out=room, mode="clip")  # other modes make a copy first
        return room

    def _attend(self, asked: FloatArray, parts: list[FloatArray], length: IntArray) -> FloatArray:
        maps, n = self.maps, len(asked)
        question = asked[:, : maps.heads * maps.width].reshape(n, maps.heads, maps.width)
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
        seen = np.empty((n, maps.heads, maps.width), dtype=asked.dtype)
        for part, column in zip(parts, columns, strict=True):
            vecmat(shares, part[:, None], out=seen[..., column])
        hidden: FloatArray = seen.reshape(n, -1) @ maps.answer
        hidden += maps.answer_bias
        hidden[length == 0] = 0.0
        hidden += asked[:, maps.heads * maps.width :]
        return np.maximum(hidden, 0, out=hidden)
