"""Attention as attribution: the weights are those of the torch modules, and the shares are those of the formulas."""

import json

import numpy as np
import pytest
import torch
from click.testing import CliRunner

import cody
from cody import above
from cody.baselines import attention as explainers
from cody.cli import app
from cody.engine import FastTGAT, FastTGN
from cody.engine.replay import Replay
from cody.errors import CallError
from cody.explaining.attributing import with_shares
from cody.graph import TemporalGraph
from cody.models import ToyModel
from cody.models.contract import AttentionLayer, attention_of
from cody.search.attributions import attention_rollout, mean_attention
from cody.study.explainers import explainer
from cody.train.layers import plan
from random_events import random_graph, random_network

FAST = {"tgn": FastTGN, "tgat": FastTGAT}


def networks(edge_features=2):
    graph = random_graph(np.random.default_rng(5), edge_features=edge_features, node_features=3)
    return graph, {kind: random_network(graph, kind, seed=3, layers=2) for kind in FAST}


@torch.no_grad()
def weights_of_the_modules(network, graph, query):
    """Of each layer, the lowest first: nodes, rows and softmax(question · key), from the training's own inputs."""
    roots = np.array([[query.src, query.dst]])
    planned = plan(graph, roots, np.array([query.time]), np.array([query.before]), 2, network.sizes.neighbours)
    stream = network.stream(graph)
    stream.advance(query.before)
    embeddings, found = stream.inputs(planned.nodes, planned.before), []
    for layer, hop, rows in zip(network.attention, planned.hops, planned.events, strict=True):
        edge = [] if hop.edge is None else [hop.edge]
        events = torch.cat([embeddings[hop.neighbour], *edge, network.encode(hop.elapsed)], dim=-1)
        own = embeddings[hop.own]
        question = layer.query(torch.cat([own, network.encode(torch.zeros(len(own)))], dim=-1))
        question, key = question.view(len(own), 1, layer.heads, -1), layer.key(events)
        scores = (question * key.view(*hop.exists.shape, layer.heads, -1)).sum(-1) / question.shape[-1] ** 0.5
        scores = scores.masked_fill(~hop.exists[..., None], -torch.inf)
        found.append((rows, torch.nan_to_num(torch.softmax(scores, dim=1)).permute(0, 2, 1).numpy()))
        embeddings = layer(embeddings, hop, network.encode)
    return found


@pytest.mark.parametrize("kind", FAST)
@pytest.mark.parametrize("edge_features", [0, 2])
def test_weights_are_those_of_the_torch_modules(kind, edge_features):
    graph, made = networks(edge_features)
    for row in (3, 40, 79):
        query = graph.query(row)
        layers = attention_of(FAST[kind](made[kind], graph), query)
        for layer, (rows, weights) in zip(layers[::-1], weights_of_the_modules(made[kind], graph, query), strict=True):
            np.testing.assert_array_equal(layer.rows, rows)
            np.testing.assert_allclose(layer.weights, weights, atol=1e-5)
        plain = Replay(made[kind], graph).attention(query)
        for layer, other in zip(layers, plain, strict=True):
            np.testing.assert_array_equal(layer.nodes, other.nodes)
            np.testing.assert_allclose(layer.weights, other.weights, atol=1e-5)


@pytest.mark.parametrize("kind", FAST)
def test_rollout_is_the_product_of_the_matrices_of_the_layers(kind):
    graph, made = networks()
    model, query = FAST[kind](made[kind], graph), graph.query(60)
    share, events = np.zeros(graph.num_events), np.zeros(graph.num_nodes)
    events[[query.src, query.dst]] += 0.5
    layers = attention_of(model, query)
    for layer in layers:
        to_nodes, to_rows = (np.zeros((graph.num_nodes, width)) for width in (graph.num_nodes, graph.num_events))
        for node, rows, weights in zip(layer.nodes, layer.rows, layer.weights.mean(axis=1), strict=True):
            for row, weight in zip(rows, weights, strict=True):
                if row >= 0:
                    to_nodes[node, graph.src[row] + graph.dst[row] - node] += weight
                    to_rows[node, row] += weight
        share += events @ to_rows / 2
        events = events @ (np.eye(graph.num_nodes) + to_nodes) / 2
    found = attention_rollout(model, graph, query)
    np.testing.assert_allclose([found.get(row, 0.0) for row in range(graph.num_events)], share * 2 / len(layers))


class TwoLayers:
    """Node 0 attends to rows 0 and 2, node 1 to row 1; below, nodes 0, 1 and 2 attend to one row each."""

    identity, hops = "two layers", 2

    def logits(self, query, changes):
        return np.ones(len(changes))

    def attention(self, query):
        high = np.array([[[0.75, 0.25], [0.25, 0.75]], [[1.0, 0.0], [1.0, 0.0]]])
        low = np.ones((3, 2, 1))
        return [
            AttentionLayer(np.array([0, 1]), np.array([[0, 2], [1, -1]]), high),
            AttentionLayer(np.array([0, 1, 2]), np.array([[2], [1], [0]]), low),
        ]


GRAPH = TemporalGraph.from_arrays(src=[0, 1, 0, 0], dst=[2, 2, 2, 1], time=[1.0, 2.0, 3.0, 4.0])


def test_shares_of_two_layers_by_hand():
    mean = mean_attention(TwoLayers(), GRAPH, GRAPH.query(3))
    assert mean == pytest.approx({0: (0.5 + 1) / 2, 1: (1 + 1) / 2, 2: (0.5 + 1) / 2})
    # Above: 1/4 of 1/2 each for rows 0 and 2, 1/4 for row 1; then nodes 0 and 1 stand for 1/4 each, node 2 for 1/2.
    rollout = attention_rollout(TwoLayers(), GRAPH, GRAPH.query(3))
    assert rollout == pytest.approx({0: 1 / 8 + 1 / 4, 1: 1 / 4 + 1 / 8, 2: 1 / 8 + 1 / 8})
    assert sum(rollout.values()) == pytest.approx(1)


def test_a_model_without_attention_is_rejected_with_a_reason():
    model = ToyModel(GRAPH, weights=[1, 2, -1, 0])
    with pytest.raises(CallError, match=r"offers no attention; a TGN and a TGAT of this package do"):
        attention_of(model, GRAPH.query(3))
    call = ["explain", "--data", "joint", "--model", "cody.models.oracles:joint", "--event", "378"]
    result = CliRunner().invoke(app, [*call, "--attribute", "attention"])
    assert "offers no attention" in str(result.exception)


def test_an_explanation_shows_shares_of_the_attention():
    graph = cody.load("collegemsg")
    model = cody.load_model("tgat-collegemsg", graph)
    query = graph.query(53_854)
    for decision in (None, above(0.7)):
        found = cody.explain(model, graph, query, size=16, decision=decision)
        why = with_shares(found, model, graph, "attention")
        shares = attention_rollout(model, graph, query)
        assert why.shares.values == tuple(round(shares.get(row, 0.0), 5) for row in why.shares.rows)
    assert "Share of each message in what the model attends to (attention rollout):\n53852" in str(why)
    assert "without all" not in str(why)
    assert 'class="waterfall"' in why.to_html()
    assert cody.Explanation.from_json(why.to_json()).shares == why.shares
    assert json.loads(why.to_json())["shares"]["name"] == "attention"


@pytest.mark.parametrize("name", ["attention_rollout", "mean_attention"])
def test_as_explainers_they_name_what_is_attended_to_most(name):
    graph, made = networks()
    model, query = FastTGN(made["tgn"], graph), graph.query(60)
    mine = explainer(f"cody.baselines.attention:{name}", size=16)
    assert mine.search.factual
    why = mine.explain(model, graph, query)
    shares = {"attention_rollout": attention_rollout, "mean_attention": mean_attention}[name](model, graph, query)
    candidates = [event.row for event in why.candidates]
    best = sorted(candidates, key=lambda row: -shares.get(row, 0.0))[: len(why.rows)]
    assert set(why.rows) == set(best)
    assert explainers.mean_attention.factual
