"""Training speed: events per second, against the plain formulation of the same network, in one run.

Plain: every neighbour of every node is computed and projected, however often it occurs, with the textbook attention.
Ours: each distinct (question, node) once, with the folded attention. The losses must agree.

    python bench/training.py [--data uci-messages] [--preset paper] [--batches 3]
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable

import numpy as np
import torch
from torch import Tensor, nn

import cody
from cody.graph import FloatArray, IntArray, TemporalGraph
from cody.models.sizes import PRESETS
from cody.train.architectures import ARCHITECTURES, Network
from cody.train.layers import EmbeddingPlan, Hop, plan
from cody.train.training import new_network


def plain_plan(
    graph: TemporalGraph, roots: IntArray, moment: FloatArray, before: IntArray, layers: int, neighbours: int
) -> EmbeddingPlan:
    """Every node wherever it is needed, nothing shared."""
    nodes, question = roots.ravel(), np.repeat(np.arange(len(roots)), roots.shape[1])
    hops: list[Hop] = []
    for _ in range(layers):
        rows = graph.recent(nodes, before[question], neighbours)
        exists = rows >= 0
        other = np.where(exists, graph.other_end(rows, nodes[:, None]), nodes[:, None])
        n = len(nodes)
        elapsed = np.where(exists, moment[question][:, None] - graph.time[rows], 0.0).astype(np.float32)
        neighbour = torch.arange(n, n + n * neighbours).view(n, neighbours)
        hops.insert(0, Hop(torch.arange(n), neighbour, None, torch.from_numpy(elapsed), torch.from_numpy(exists)))
        nodes = np.concatenate([nodes, other.ravel()])
        question = np.concatenate([question, np.repeat(question, neighbours)])
    return EmbeddingPlan(nodes, question, before[question], hops, torch.arange(roots.size).view(roots.shape), [])


def plain_embed(network: Network, plan_: EmbeddingPlan, inputs: Tensor | None) -> Tensor:
    embeddings = inputs
    if embeddings is None:
        embeddings = torch.zeros(len(plan_.nodes), network.sizes.dimension)
    for attention, hop in zip(network.attention, plan_.hops, strict=True):
        embeddings = attention.reference(embeddings, hop, network.encode)
    return embeddings[plan_.roots]


def step(
    network: Network,
    graph: TemporalGraph,
    rows: IntArray,
    make_plan: Callable[..., EmbeddingPlan],
    embed: Callable[..., Tensor],
) -> float:
    """Forward and backward of one training batch; returns its loss."""
    negatives = np.random.default_rng(0).integers(0, graph.num_nodes, len(rows))
    roots = np.stack([graph.src[rows], graph.dst[rows], negatives], axis=1).astype(np.int64)
    made = make_plan(graph, roots, graph.time[rows], rows, network.sizes.layers, network.sizes.neighbours)
    stream = streams[network]
    embeddings = embed(network, made, stream.inputs(made.nodes, made.before))
    logits = network.score(embeddings[:, :1].expand(-1, 2, -1), embeddings[:, 1:]).squeeze(-1)
    loss = nn.functional.binary_cross_entropy_with_logits(logits, torch.tensor([1.0, 0.0]).expand_as(logits))
    network.zero_grad()
    loss.backward()
    return loss.item()


streams: dict[Network, object] = {}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", default="collegemsg")
    parser.add_argument("--preset", default="paper", choices=PRESETS)
    parser.add_argument("--batches", type=int, default=3)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--json", action="store_true")
    arguments = parser.parse_args()
    torch.set_num_threads(arguments.threads)
    graph = cody.load(arguments.data)
    results = []
    for kind, architecture in ARCHITECTURES.items():
        network = new_network(architecture, graph, PRESETS[arguments.preset], seed=0).eval()
        streams[network] = network.stream(graph)
        size = network.sizes.batch
        middle = graph.num_events // 2 // size * size
        streams[network].advance(middle)
        seconds, losses = {"plain": [], "ours": []}, {"plain": [], "ours": []}
        for _ in range(arguments.batches + 1):  # the first one is a warm-up
            rows = np.arange(middle, middle + size)
            for name, make_plan, embed in (("plain", plain_plan, plain_embed), ("ours", plan, type(network).embed)):
                start = time.perf_counter()
                losses[name].append(step(network, graph, rows, make_plan, embed))
                seconds[name].append(time.perf_counter() - start)
        rate = {name: size / float(np.median(spent[1:])) for name, spent in seconds.items()}
        difference = max(abs(a - b) for a, b in zip(losses["plain"], losses["ours"], strict=True))
        results.append(
            {
                "model": kind,
                "plain": rate["plain"],
                "ours": rate["ours"],
                "ratio": rate["ours"] / rate["plain"],
                "loss_difference": difference,
            }
        )
    if arguments.json:
        print(json.dumps(results))
        return
    print(f"{arguments.data}, preset {arguments.preset}, {arguments.threads} thread(s), forward and backward")
    for result in results:
        print(
            f"{result['model']:<5} plain {result['plain']:8.0f} events/s   ours {result['ours']:8.0f} events/s   "
            f"{result['ratio']:.1f} times   (losses differ by {result['loss_difference']:.1e})"
        )


if __name__ == "__main__":
    main()
