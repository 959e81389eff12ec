"""Link predictors that end with a sigmoid: their logits, and what happens if nobody says so."""

import warnings

import numpy as np
import pytest
import torch
from torch import nn

from adapters.pyg_models import random_tgn
from cody.adapters import dyglib, pyg
from cody.adapters.modules import LogitPredictor
from cody.adapters.probabilities import to_logits
from cody.errors import ModelError, ProbabilityWarning
from random_events import random_graph

ENDS = {
    "a method": lambda logits: logits.sigmoid(),
    "a function": lambda logits: torch.sigmoid(logits).squeeze(-1),
    "of nn.functional": nn.functional.sigmoid,
    "a module": nn.Sigmoid(),
    "after another one": lambda logits: (logits * torch.sigmoid(logits * 0 + 50)).sigmoid(),
}


class Ending(nn.Module):
    """The sum of all numbers, then an end."""

    def __init__(self, end):
        super().__init__()
        self.end = end

    def forward(self, source, target):
        return self.end((source + target).sum(-1, keepdim=True))


def far_apart():
    """Embeddings of links whose probabilities are nearly all 0 or 1 in single precision, and their logits."""
    logits = torch.linspace(-200, 200, 41)
    return torch.stack([logits, torch.zeros(41)], dim=1), torch.zeros(41, 2), logits.numpy()


@pytest.mark.parametrize("end", ENDS.values(), ids=ENDS)
def test_logits_are_what_the_sigmoid_is_fed(end):
    source, target, logits = far_apart()
    predict = LogitPredictor(Ending(end), "predictor(source, target)", probabilities=True)
    np.testing.assert_allclose(predict(41, source, target), logits, rtol=1e-6)


@pytest.mark.filterwarnings("ignore:`torch.jit:DeprecationWarning")
def test_where_the_sigmoid_cannot_be_seen_only_equal_probabilities_have_equal_logits():
    source, target, _ = far_apart()
    module = torch.jit.trace(Ending(torch.sigmoid), (source, target))
    answers = LogitPredictor(module, "predictor(source, target)", probabilities=True)(41, source, target)
    with torch.no_grad():
        probabilities = module(source, target).numpy().ravel()
    assert np.isfinite(answers).all()
    assert len(set(answers.tolist())) == len(set(probabilities.tolist())) > 10
    assert (np.diff(answers) >= 0).all()


def test_logits_of_probabilities_are_exact_and_beyond_all_others_where_they_are_rounded():
    logits = np.array([-700.0, -40.0, -16.0, 0.0, 16.0, 30.0])
    np.testing.assert_allclose(to_logits(1 / (1 + np.exp(-logits))), logits, atol=1e-2)
    nearest = np.nextafter(np.float32(1), np.float32(0))
    low, lowest = to_logits(np.array([1e-45, 0.0], np.float32))
    high, highest = to_logits(np.array([nearest, 1.0], np.float32))
    assert lowest < low < -100
    assert 16 < high < highest < 18


def test_a_shape_that_does_not_fit_is_refused():
    predict = LogitPredictor(Ending(lambda logits: logits.expand(-1, 2)), "predictor(source, target)")
    with pytest.raises(ModelError, match=r"predictor\(source, target\) returned \(3, 2\) for 3 links"):
        predict(3, torch.zeros(3, 2), torch.zeros(3, 2))


def test_class_scores_need_the_names_of_the_classes():
    module, zeros = Ending(lambda logits: logits.expand(-1, 3)), torch.zeros(4, 2)
    with pytest.raises(ModelError, match=r"it must return one number per link \(for class scores, pass classes=…\)"):
        LogitPredictor(module, "predictor(source, target)")(4, zeros, zeros)
    assert LogitPredictor(module, "predictor(source, target)", outputs=3)(4, zeros, zeros).shape == (4, 3)
    with pytest.raises(ModelError, match="it must return 5 numbers per link, one per class"):
        LogitPredictor(module, "predictor(source, target)", outputs=5)(4, zeros, zeros)


class WithSigmoid(nn.Module):
    def __init__(self, inner):
        super().__init__()
        self.inner = inner

    def forward(self, *given, **named):
        return self.inner(*given, **named).sigmoid()


def of_pyg(end=lambda inner: inner, **options):
    graph = random_graph(np.random.default_rng(4))
    tgn, data = random_tgn(graph)
    return pyg.wrap(**tgn._replace(link_predictor=end(tgn.link_predictor))._asdict(), data=data, batch=7, **options)


class Mean(nn.Module):
    """The mean of a node's neighbours, called as a backbone of DyGLib is."""

    def __init__(self, graph):
        super().__init__()
        torch.manual_seed(0)
        self.node_raw_features = torch.randn(graph.num_nodes + 1, 4)
        self.edge_raw_features = torch.zeros(graph.num_events + 1, 1)
        self.neighbor_sampler = None

    def compute_src_dst_node_temporal_embeddings(self, src_node_ids, dst_node_ids, node_interact_times):
        ends = (
            self.neighbor_sampler.get_historical_neighbors(ids, node_interact_times, num_neighbors=5)[0]
            for ids in (src_node_ids, dst_node_ids)
        )
        return tuple(self.node_raw_features[torch.from_numpy(nodes)].mean(1) for nodes in ends)


class Product(nn.Module):
    def forward(self, input_1, input_2):
        return (input_1 * input_2).sum(-1)


def of_dyglib(end=lambda inner: inner, **options):
    graph = random_graph(np.random.default_rng(4))
    return dyglib.wrap(Mean(graph), end(Product()), data=graph, **options)


@pytest.mark.parametrize("make", [of_pyg, of_dyglib])
def test_a_sigmoid_that_nobody_mentions_is_noticed_when_a_model_is_wrapped(make):
    with pytest.warns(ProbabilityWarning, match="pass probabilities=True if they are, and False") as caught:
        noticed = make(WithSigmoid)
    assert caught[0].filename == __file__
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        models = [make(), make(WithSigmoid, probabilities=True), noticed]
        left_as_they_are = make(WithSigmoid, probabilities=False)
    query, changes = models[0].graph.query(60), [frozenset(), frozenset({50, 55})]
    expected, *others = (model.logits(query, changes) for model in models)
    for answers in others:
        np.testing.assert_allclose(answers, expected, atol=1e-6)
    assert [model.gives_logits for model in models] == [True] * 3
    assert not left_as_they_are.gives_logits
    assert ((left_as_they_are.logits(query, changes) > 0) & (left_as_they_are.logits(query, changes) < 1)).all()
