"""On a made-up campus the cause of a link is known: a course answers a student because of the student's post."""

import numpy as np
import pytest

from cody.baselines import MotifSettings, ScorerSettings, explore, learned_order, motif_order
from cody.baselines.differentiable import SoftModel
from cody.data import campus
from cody.engine import fast_model
from cody.graph.neighbourhood import candidates, events_on_paths
from cody.models.sizes import Sizes
from cody.search import top_share
from cody.search.oracle import Oracle
from cody.search.policies import event_impact, random
from cody.train.architectures import TGAT, TGN
from cody.train.training import TrainingSettings as ModelSettings
from cody.train.training import new_network, new_optimizer, run_epoch, split


@pytest.fixture(scope="module", params=[TGN, TGAT], ids=["tgn", "tgat"])
def learned(request):
    """A model, the learned policy, and the predicted answers of the test period, each with its cause."""
    made = campus(students=100, seed=0)
    graph, parts = made.graph, split(made.graph, ModelSettings())
    network = new_network(request.param, graph, Sizes(dimension=24, neighbours=8, batch=50), seed=0)
    optimizer = new_optimizer(network, 2e-3)
    for epoch in range(6):
        list(run_epoch(network, optimizer, graph.select(parts.train), 0, epoch))
    model = fast_model(network, graph)
    scorer = ScorerSettings(hidden=128, seed=0).new_scorer(network.sizes)
    soft = SoftModel(model)
    list(ScorerSettings(links=200, epochs=12).train(soft, scorer))
    rows = [row for row in parts.test.tolist() if made.causes[row] and "student" in graph.name(graph.dst[row])]
    answers = [row for row in rows if model.logits(graph.query(row), [frozenset()])[0] > 0]
    return model, learned_order(soft, scorer), [(graph.query(row), *made.causes[row]) for row in answers]


def found_sets(model, policy, search, answers):
    for query, cause in answers:
        oracle = Oracle(model, query)
        events = candidates(model.graph, query, near=events_on_paths)  # what the learned ones were trained on
        ranking = policy(model.graph, query, events, oracle, np.random.default_rng(query.before))
        yield search(oracle, ranking), cause, len(events)


def test_ranking_methods_put_the_cause_first_where_chance_would_put_it_at_1_in_64(learned):
    model, learned_policy, answers = learned
    assert len(answers) > 60
    first, within = {}, {}
    for name, policy in [("pgexplainer", learned_policy), ("pbone", event_impact), ("random", random)]:
        found = list(found_sets(model, policy, top_share, answers))
        first[name] = np.mean([one.rows[0] == cause for one, cause, _ in found])
        within[name] = np.mean([cause in one.rows[:5] for one, cause, _ in found])
        assert all(len(one.rows) == max(1, round(0.2 * count)) for one, _, count in found)
    assert first["random"] < 0.1
    assert first["pbone"] > 0.8
    assert first["pgexplainer"] > 0.4
    assert within["pgexplainer"] > 0.9  # 5 in 64 by chance


def test_tempme_puts_the_cause_first_far_more_often_than_chance(learned):
    model, _, answers = learned
    soft = SoftModel(model)
    scorer = MotifSettings(hidden=32, seed=0).new_scorer(soft.network.sizes)
    list(MotifSettings(links=100, epochs=10).train(soft, scorer))
    found = list(found_sets(model, motif_order(soft, scorer), top_share, answers))
    assert np.mean([one.rows[0] == cause for one, cause, _ in found]) > 0.6  # 1 in 64 by chance
    assert np.mean([cause in one.rows[:5] for one, cause, _ in found]) > 0.9  # 5 in 64 by chance


def test_tgnnexplainer_keeps_the_cause(learned):
    model, learned_policy, answers = learned
    found = list(found_sets(model, learned_policy, explore, answers[:15]))
    assert np.mean([cause in explored.found.rows for explored, cause, _ in found]) > 0.7
    # Asked for a single event, it answers with the cause.
    assert np.mean([explored.levels[0].kept == (cause,) for explored, cause, _ in found]) > 0.7
