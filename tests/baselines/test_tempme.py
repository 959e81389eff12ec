import json
import math

import numpy as np
import pytest
import torch

from cody.baselines import MotifSettings, ScorerSettings, load_pgexplainer, load_tempme, motif_order, train_explainer
from cody.baselines.differentiable import SoftModel
from cody.baselines.lessons import draw_links
from cody.baselines.tempme import (
    KINDS,
    MISSING,
    Described,
    Motifs,
    describe_motifs,
    divergence,
    importance,
    sample_motifs,
)
from cody.engine import fast_model
from cody.errors import CallError, ModelError
from cody.graph.neighbourhood import candidates
from cody.search.oracle import Oracle
from random_events import random_graph, random_network

QUICK = MotifSettings(links=8, epochs=2, batch=8, hidden=8)


@pytest.fixture(scope="module", params=["tgn", "tgat"])
def model(request):
    graph = random_graph(np.random.default_rng(0), nodes=20, events=300, edge_features=2)
    return SoftModel(fast_model(random_network(graph, request.param), graph))


@pytest.fixture
def scorer(model):
    return MotifSettings(hidden=8, seed=1).new_scorer(model.network.sizes)


def links(model, rows=(250, 30)):
    queries = [model.graph.query(row) for row in rows]
    events = [candidates(model.graph, query, size=20) for query in queries]
    rng = np.random.default_rng(0)
    return queries, events, [sample_motifs(model.graph, *link, rng) for link in zip(queries, events, strict=True)]


def test_an_event_is_described_by_features_time_and_its_places_in_motifs(model):
    graph, d = model.graph, model.network.sizes.dimension
    queries, events, motifs = links(model)
    described = describe_motifs(model, queries, events, motifs)
    assert described.event.shape == (sum(map(len, events)), 2 + d + 3)
    row, place = int(events[1][4]), len(events[0]) + 4
    np.testing.assert_allclose(described.event[place, :2], graph.features[row])
    since = torch.tensor(queries[1].time - graph.time[row]).float()
    torch.testing.assert_close(described.event[place, 2:-3], model.network.encode(since))
    counts = [(motifs[1].events[:, position] == 4).sum() / len(motifs[1].kind) for position in range(3)]
    np.testing.assert_allclose(described.event[place, -3:], counts, rtol=1e-6)
    ends = model.embed([queries[1]], np.array([[graph.src[row], graph.dst[row]]]))[0]
    torch.testing.assert_close(described.ends[place], ends, rtol=0, atol=1e-5)


def test_links_described_together_get_the_scores_that_they_get_alone(model, scorer):
    queries, events, motifs = links(model)
    together = scorer(describe_motifs(model, queries, events, motifs))
    each = zip(queries, events, motifs, strict=True)
    alone = [scorer(describe_motifs(model, *([part] for part in link))) for link in each]
    torch.testing.assert_close(together, torch.cat(alone), rtol=0, atol=1e-5)


def plain_score(scorer, described, number):
    """The score of one motif, computed step by step."""

    def event(place):
        about = scorer.event((described.event[place] - scorer.mean) / scorer.scale)
        src, dst = (scorer.node((end - scorer.node_mean) / scorer.node_scale) for end in described.ends[place])
        return torch.relu(
            torch.cat([scorer.step(src + torch.relu(dst + about)), scorer.step(dst + torch.relu(src + about))])
        )

    one, *earlier = [event(place) for place in described.motifs[number].tolist() if place < len(described.event)]
    context = torch.zeros(scorer.size)
    if earlier:
        fits = [(scorer.query(one) @ scorer.key(other)).item() / math.sqrt(scorer.size) for other in earlier]
        shares = np.exp(fits) / np.exp(fits).sum()
        context = sum(share * scorer.value(other) for share, other in zip(shares, earlier, strict=True))
    motif = torch.relu(scorer.merge(torch.cat([one, context])))
    kind = torch.zeros(KINDS)
    kind[described.kind[number]] = 1
    return scorer.out(torch.relu(scorer.hidden(torch.cat([motif, kind])))).item()


def test_the_network_computes_what_its_description_says(model, scorer):
    described = describe_motifs(model, *links(model))
    scorer.fit_scale([described])
    missing = (described.motifs == len(described.event)).sum(dim=1)
    assert set(missing.tolist()) == {0, 1, 2}  # with three events, with two, and alone
    expected = [plain_score(scorer, described, number) for number in range(len(described.kind))]
    np.testing.assert_allclose(scorer(described).detach(), expected, rtol=0, atol=1e-4)


def test_the_importance_of_an_event_is_the_largest_of_its_motifs():
    described = Described(torch.zeros(5, 1), None, torch.tensor([[4, 2, 5], [4, 5, 5], [3, 2, 1]]), None, None)
    values = torch.tensor([0.2, 0.9, 0.6], requires_grad=True)
    found = importance(values, described)
    assert found.tolist() == pytest.approx([0, 0.6, 0.6, 0.6, 0.9])
    found.sum().backward()
    assert values.grad.tolist() == [0, 1, 3]


def order_of(model, scorer, row=250, seed=0):
    query = model.graph.query(row)
    events = candidates(model.graph, query)
    oracle = Oracle(model.fast, query)
    ranking = motif_order(model, scorer)(model.graph, query, events, oracle, np.random.default_rng(seed)).tolist()
    assert not oracle.evaluated
    return ranking, events


def test_the_policy_orders_all_candidates_by_importance(model, scorer):
    order, events = order_of(model, scorer)
    assert sorted(order) == events.tolist()
    query = model.graph.query(250)
    motifs = sample_motifs(model.graph, query, events, np.random.default_rng(0))
    described = describe_motifs(model, [query], [events], [motifs])
    found = importance(torch.sigmoid(scorer(described)), described).tolist()
    of = dict(zip(events.tolist(), np.round(found, 5).tolist(), strict=True))
    assert order == sorted(order, key=lambda row: (-of[row], -row))
    assert order_of(model, scorer)[0] == order
    in_motifs = {int(events[place]) for place in motifs.events.ravel() if place != MISSING}
    assert len(in_motifs) < len(events)
    assert set(order[: len(in_motifs)]) == in_motifs  # what is in no motif comes last


def test_where_there_are_no_candidates_there_is_nothing_to_order(model, scorer):
    assert order_of(model, scorer, row=0)[0] == []


def test_a_policy_is_refused_on_a_graph_that_its_model_does_not_know(model, scorer):
    other = random_graph(np.random.default_rng(9), nodes=20, events=300, edge_features=2)
    with pytest.raises(CallError, match=other.identity):
        motif_order(model, scorer)(other, other.query(250), np.arange(3), None, np.random.default_rng(0))


def test_the_divergence_is_zero_where_the_gates_are_as_the_null_model_has_them(model):
    lesson, *_ = MotifSettings(links=16, batch=16).lessons(model)
    motifs = len(lesson.described.kind)
    shares = torch.zeros(KINDS).index_add(0, lesson.described.kind, lesson.share)  # of the kinds in these links
    as_expected = torch.full((motifs,), math.log(0.3 / 0.7))  # each gate is open with probability 0.3
    assert lesson.share.sum().item() == pytest.approx(1)
    assert divergence(as_expected, lesson._replace(frequencies=shares), 0.3).item() == pytest.approx(0, abs=1e-5)
    assert divergence(as_expected + 1, lesson._replace(frequencies=shares), 0.3).item() > 0.01
    assert divergence(as_expected - 1, lesson._replace(frequencies=shares), 0.3).item() > 0.01
    even = torch.full((KINDS,), 1 / KINDS)
    p, q = 0.3, 0.3 * shares[shares > 0].numpy()
    by_hand = 0.7 * math.log(0.7 / 0.7) + float((q * np.log(q / (p / KINDS))).sum())
    assert divergence(as_expected, lesson._replace(frequencies=even), 0.3).item() == pytest.approx(by_hand, abs=1e-5)


def test_links_without_motifs_can_be_learned_from(model):
    lesson, *_ = MotifSettings(links=4).lessons(model)
    none = Motifs(np.zeros((0, 3), dtype=np.int64), np.zeros(0, dtype=np.int64))
    events = [np.arange(3)]
    described = describe_motifs(model, [model.graph.query(200)], events, [none])
    assert importance(torch.zeros(0), described).tolist() == [0, 0, 0]
    empty = lesson._replace(described=described, share=torch.zeros(0))
    scores = torch.zeros(0, requires_grad=True)
    assert divergence(scores, empty, 0.3).item() == 0


def test_every_other_link_to_learn_from_has_a_random_destination(model):
    drawn = [query for queries, _ in draw_links(model, MotifSettings(links=40), strangers=True) for query in queries]
    graph = model.graph
    real = [query.dst == graph.dst[query.before] and query.src == graph.src[query.before] for query in drawn]
    assert 0.45 <= np.mean(real) <= 0.65
    known = [query for queries, _ in draw_links(model, MotifSettings(links=40)) for query in queries]
    assert all(query.dst == graph.dst[query.before] for query in known)


def test_the_prior_says_how_many_gates_open_and_training_leaves_the_model_alone(model):
    before = {name: weight.clone() for name, weight in model.network.state_dict().items()}

    def opened(prior):
        settings = MotifSettings(links=8, epochs=15, batch=8, learning_rate=0.02, prior=prior, divergence=20.0)
        steps = list(settings.train(model, MotifSettings(hidden=8, seed=0).new_scorer(model.network.sizes)))
        assert steps[-1].loss < steps[0].loss
        return steps[-1].weight

    assert 0.02 < opened(0.1) < 0.3 < 0.45 < opened(0.6) < 0.75
    for name, weight in model.network.state_dict().items():
        assert torch.equal(weight, before[name])


def test_the_same_seed_gives_the_same_weights_and_an_interrupted_training_ends_the_same(model, tmp_path):
    for folder, seed in [("one", 0), ("two", 0), ("three", 1)]:
        list(train_explainer(model, MotifSettings(links=8, epochs=2, batch=8, hidden=8, seed=seed), tmp_path / folder))
    steps = train_explainer(model, QUICK, tmp_path / "parts")
    next(steps)
    steps.close()
    list(train_explainer(model, QUICK, tmp_path / "parts"))
    files = [(tmp_path / folder / "motifs.safetensors").read_bytes() for folder in ("one", "two", "three", "parts")]
    assert files[0] == files[1] == files[3] != files[2]
    assert sorted(file.name for file in (tmp_path / "parts").iterdir()) == ["motifs.json", "motifs.safetensors"]


def test_a_folder_can_hold_both_explainers_of_a_model(model, tmp_path):
    list(train_explainer(model, QUICK, tmp_path))
    with pytest.raises(ModelError, match=r"no trained explainer.*folder with explainer\.json"):
        load_pgexplainer(tmp_path, model.fast)
    list(train_explainer(model, ScorerSettings(links=8, epochs=1, batch=8, hidden=8), tmp_path))
    assert load_pgexplainer(tmp_path, model.fast).__name__ == "pgexplainer"
    policy = load_tempme(tmp_path, model.fast)
    trained = MotifSettings(hidden=8, seed=0).new_scorer(model.network.sizes)
    list(QUICK.train(model, trained))
    query = model.graph.query(250)
    events = candidates(model.graph, query)
    expected = order_of(model, trained)[0]
    assert policy(model.graph, query, events, None, np.random.default_rng(0)).tolist() == expected
    document = json.loads((tmp_path / "motifs.json").read_text())
    assert document["origin"]["settings"]["prior"] == 0.05
    with pytest.raises(CallError, match="already holds a trained explainer"):
        train_explainer(model, QUICK, tmp_path)


@pytest.mark.parametrize(
    "wrong", [{"links": 0}, {"prior": 0.0}, {"prior": 1.0}, {"divergence": -1.0}, {"temperature": (1.0, 0.0)}]
)
def test_settings_that_make_no_sense_are_refused(wrong):
    with pytest.raises(CallError, match=next(iter(wrong))):
        MotifSettings(**wrong)
