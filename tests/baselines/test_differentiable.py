import numpy as np
import pytest
import torch

from cody.baselines.differentiable import SoftModel
from cody.engine import Replay, fast_model
from cody.errors import CallError
from cody.graph.neighbourhood import candidates
from random_events import random_graph, random_network

ROOMY = {"neighbours": 40}  # more than any node has events: no removal lets an older event in


def links(graph, *, rows=(79, 63, 78, 79, 5), size=20):
    queries = [graph.query(row) for row in rows]
    return queries, [candidates(graph, query, size=size) for query in queries]


def make(kind, seed=0, *, edge_features=2, node_features=0, **sizes):
    graph = random_graph(
        np.random.default_rng(seed), nodes=10, edge_features=edge_features, node_features=node_features
    )
    return graph, random_network(graph, kind, seed, **sizes)


@pytest.mark.parametrize("kind", ["tgn", "tgat"])
@pytest.mark.parametrize("node_features", [0, 3])
@pytest.mark.parametrize("sizes", [{}, ROOMY], ids=["few neighbours", "all neighbours"])
def test_with_all_weights_1_the_logits_are_those_of_the_model(kind, node_features, sizes):
    graph, network = make(kind, node_features=node_features, **sizes)
    queries, events = links(graph)
    model, replay = fast_model(network, graph), Replay(network, graph)
    soft = SoftModel(model).links(queries, events)
    logits = soft.logits(torch.ones(sum(soft.sizes)))
    expected = [replay.logits(query, [frozenset()])[0] for query in queries]
    np.testing.assert_allclose(logits.numpy(), expected, rtol=0, atol=1e-4)


@pytest.mark.parametrize("kind", ["tgn", "tgat"])
@pytest.mark.parametrize("edge_features", [0, 2])
@pytest.mark.parametrize("share", [0.1, 0.5, 0.9, 1.0])
def test_weights_0_and_1_are_removal_and_keeping(kind, edge_features, share):
    graph, network = make(kind, 1, edge_features=edge_features, **ROOMY)
    queries, events = links(graph)
    model, replay = fast_model(network, graph), Replay(network, graph)
    soft = SoftModel(model).links(queries, events)
    rng = np.random.default_rng(2)
    for _ in range(5):
        gone = [rng.random(len(rows)) < share for rows in events]
        logits = soft.logits(torch.from_numpy(~np.concatenate(gone)).float())
        removals = [frozenset(rows[out].tolist()) for rows, out in zip(events, gone, strict=True)]
        expected = [replay.logits(query, [removal])[0] for query, removal in zip(queries, removals, strict=True)]
        np.testing.assert_allclose(logits.numpy(), expected, rtol=0, atol=1e-4)
        assert any(
            replay.logits(query, [frozenset()])[0] != logit for query, logit in zip(queries, expected, strict=True)
        )


@pytest.mark.parametrize("kind", ["tgn", "tgat"])
def test_the_gradient_is_what_a_small_change_of_the_weights_does(kind):
    graph, network = make(kind, 3)
    queries, events = links(graph)
    model = SoftModel(fast_model(network.double(), graph), dtype=torch.float64)
    soft = model.links(queries, events)
    weights = torch.rand(sum(soft.sizes), dtype=torch.float64, generator=torch.Generator().manual_seed(4))
    weights = (0.1 + 0.8 * weights).requires_grad_()
    assert torch.autograd.gradcheck(lambda values: soft.logits(values), [weights], eps=1e-6, atol=1e-4)
    (gradient,) = torch.autograd.grad(soft.logits(weights).sum(), [weights])
    assert (gradient != 0).float().mean() > 0.5


def test_links_prepared_together_do_not_mix():
    graph, network = make("tgn", 5)
    queries, events = links(graph)
    model = fast_model(network, graph)
    weights = [
        torch.rand(len(rows), generator=torch.Generator().manual_seed(number)) for number, rows in enumerate(events)
    ]
    together = SoftModel(model).links(queries, events).logits(torch.cat(weights))
    alone = [
        SoftModel(model).links([query], [rows]).logits(weight)
        for query, rows, weight in zip(queries, events, weights, strict=True)
    ]
    torch.testing.assert_close(together, torch.cat(alone), rtol=0, atol=1e-5)


def test_a_link_without_candidates_can_be_asked():
    graph, network = make("tgn", 6)
    model = fast_model(network, graph)
    query = graph.query(0)
    logits = SoftModel(model).links([query], [candidates(graph, query)]).logits(torch.ones(0))
    assert logits.item() == pytest.approx(model.logits(query, [frozenset()])[0], abs=1e-5)


def test_a_model_without_gradients_is_refused():
    graph, network = make("tgat", 7)
    with pytest.raises(CallError, match="not for Replay"):
        SoftModel(Replay(network, graph))
