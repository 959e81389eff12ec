import json
import random
import resource
from contextlib import suppress
from dataclasses import replace

import numpy as np
import pytest
import torch
from safetensors.torch import save_file

from cody.baselines import ScorerSettings, learned_order, load_scorer, train_explainer
from cody.baselines.differentiable import SoftModel
from cody.baselines.lessons import temperature_in
from cody.baselines.pgexplainer import scorer_inputs
from cody.engine import fast_model
from cody.errors import CallError, DataError, ModelError
from cody.graph import TemporalGraph
from cody.graph.neighbourhood import candidates
from cody.train.checkpoint import ResumeFile
from cody.utils.files import with_checksum
from random_events import random_graph, random_network

QUICK = ScorerSettings(links=20, epochs=3, batch=8, hidden=16)


@pytest.fixture(scope="module", params=["tgn", "tgat"])
def model(request):
    graph = random_graph(np.random.default_rng(0), nodes=20, events=300, edge_features=2)
    return SoftModel(fast_model(random_network(graph, request.param), graph))


def untrained(model, seed=0):
    return ScorerSettings(hidden=16, seed=seed).new_scorer(model.network.sizes)


def order_of(model, scorer, row=250):
    query = model.graph.query(row)
    events = candidates(model.graph, query)
    return learned_order(model, scorer)(model.graph, query, events, None, np.random.default_rng(0)).tolist(), events


def test_a_candidate_is_described_by_embeddings_features_and_the_time_since(model):
    graph, d = model.graph, model.network.sizes.dimension
    queries = [graph.query(250), graph.query(30)]
    events = [candidates(graph, query, size=12)[:-3] for query in queries]
    described = scorer_inputs(model, queries, events)
    assert described.shape == (sum(map(len, events)), 5 * d + 2)
    alone = torch.cat([scorer_inputs(model, [query], [rows]) for query, rows in zip(queries, events, strict=True)])
    torch.testing.assert_close(described, alone, rtol=0, atol=1e-5)
    # The model scores a link from its two embeddings, which are the last in the description.
    logits = model.network.score(described[:, -2 * d : -d], described[:, -d:]).squeeze(-1).numpy()
    expected = np.repeat([model.fast.logits(query, [frozenset()])[0] for query in queries], list(map(len, events)))
    np.testing.assert_allclose(logits, expected, rtol=0, atol=1e-4)
    # A candidate that is a link's own pair of nodes has the same embeddings as the link.
    row = int(events[0][0])
    twin = scorer_inputs(
        model, [queries[0]._replace(src=int(graph.src[row]), dst=int(graph.dst[row]))], [np.array([row])]
    )
    torch.testing.assert_close(twin[:, : 2 * d], twin[:, -2 * d :], rtol=0, atol=0)
    torch.testing.assert_close(twin[:, 2 * d : 2 * d + 2], torch.from_numpy(graph.features[[row]]))
    since = torch.tensor(queries[0].time - graph.time[row])
    torch.testing.assert_close(twin[0, 2 * d + 2 : 3 * d + 2], model.network.encode(since.float()))


def test_the_policy_orders_all_candidates_by_score(model):
    scorer = untrained(model, seed=1)
    order, events = order_of(model, scorer)
    assert sorted(order) == events.tolist()
    query = model.graph.query(250)
    scores = dict(zip(events.tolist(), scorer(scorer_inputs(model, [query], [events])).tolist(), strict=True))
    assert [scores[row] for row in order] == pytest.approx(sorted(scores.values(), reverse=True), abs=1e-4)


def test_where_there_are_no_candidates_there_is_nothing_to_order(model):
    assert order_of(model, untrained(model, seed=1), row=0)[0] == []


def test_a_policy_is_refused_on_a_graph_that_its_model_does_not_know(model):
    other = random_graph(np.random.default_rng(9), nodes=20, events=300, edge_features=2)
    policy = learned_order(model, untrained(model, seed=1))
    with pytest.raises(CallError, match=other.identity):
        policy(other, other.query(250), np.arange(3), None, np.random.default_rng(0))


def test_the_same_seed_gives_the_same_scorer_and_training_leaves_the_model_alone(model, tmp_path):
    before = {name: weight.clone() for name, weight in model.network.state_dict().items()}
    state = torch.get_rng_state()
    for folder, seed in [("one", 0), ("two", 0), ("three", 1)]:
        settings = ScorerSettings(links=20, epochs=3, batch=8, hidden=16, seed=seed)
        steps = list(train_explainer(model, settings, tmp_path / folder))
        assert [step.epoch for step in steps] == [1, 2, 3]
    files = [(tmp_path / folder / "explainer.safetensors").read_bytes() for folder in ("one", "two", "three")]
    assert files[0] == files[1] != files[2]
    assert torch.equal(torch.get_rng_state(), state)
    for name, weight in model.network.state_dict().items():
        assert torch.equal(weight, before[name])
        assert weight.grad is None


@pytest.mark.parametrize("finished", [1, 2, 3])
def test_an_interrupted_training_ends_like_one_that_was_not(model, tmp_path, finished):
    list(train_explainer(model, QUICK, tmp_path / "whole"))
    steps = train_explainer(model, QUICK, tmp_path / "parts")
    for _ in range(finished):
        next(steps)
    steps.close()
    rest = list(train_explainer(model, QUICK, tmp_path / "parts"))
    assert [step.epoch for step in rest] == [1, 2, 3][finished:]
    for file in ("explainer.safetensors", "explainer.json"):
        assert (tmp_path / "parts" / file).read_bytes() == (tmp_path / "whole" / file).read_bytes()
    assert not (tmp_path / "parts" / "training.safetensors").exists()


def test_an_interrupted_training_with_other_settings_is_refused(model, tmp_path):
    next(train_explainer(model, QUICK, tmp_path))
    # How sharp the gates are depends on the number of epochs, so not even that may change.
    with pytest.raises(CallError, match=r"interrupted training in which epochs was 3 \(now 4\)\. Choose"):
        train_explainer(model, replace(QUICK, epochs=4), tmp_path)


def test_the_gates_are_drawn_again_in_each_epoch_and_with_each_seed(model):
    losses = []
    for seed in (0, 1):
        settings = ScorerSettings(
            links=80, first=0.5, last=0.75, epochs=2, learning_rate=0.0, temperature=(1.0, 1.0), seed=seed
        )
        losses += [round(step.loss, 6) for step in settings.train(model, untrained(model))]
    assert len(set(losses)) == 4


def test_the_scorer_brings_what_it_reads_to_one_scale(model):
    scorer = untrained(model)
    described = torch.randn(200, scorer.hidden.in_features, generator=torch.Generator().manual_seed(0))
    stretched = described * torch.linspace(0.1, 100, described.shape[1]) + 7
    stretched[:, 0] = 3.0  # a constant stays harmless
    scorer.fit_scale([described])
    scores = scorer(described)
    scorer.fit_scale([stretched])
    assert scorer(stretched).isfinite().all()
    torch.testing.assert_close(scorer(stretched), scores, rtol=0, atol=0.3)


def test_size_and_entropy_cost_what_they_say(model):
    def train(**costs):
        settings = ScorerSettings(links=40, epochs=15, batch=8, hidden=16, learning_rate=0.01, **costs)
        scorer = untrained(model)
        *_, last = settings.train(model, scorer)
        queries = [model.graph.query(row) for row in range(100, 160)]
        described = scorer_inputs(model, queries, [candidates(model.graph, query) for query in queries])
        weights = torch.sigmoid(scorer(described))
        return last.weight, (weights * (1 - weights)).mean().item()

    assert train(size=20.0, entropy=0.0)[0] < 0.5 * train(size=0.0, entropy=0.0)[0]
    assert train(size=0.0, entropy=20.0)[1] < 0.5 * train(size=0.0, entropy=0.0)[1]


def test_the_opening_of_gates_costs_each_link_the_same_however_many_candidates_it_has(model):
    graph, hops = model.graph, model.network.sizes.layers
    period = [graph.query(row) for row in range(3, 24)]
    links = [(query, events) for query in period if len(events := candidates(graph, query, hops))]
    sizes = [len(events) for _, events in links]
    assert len(set(sizes)) > 5  # links of the beginning have few candidates, and not equally many
    is_open = WideOpenOrShut().is_open(scorer_inputs(model, *map(list, zip(*links, strict=True)))).float()

    def loss(size):
        settings = ScorerSettings(first=0.01, last=0.08, epochs=1, learning_rate=0.0, size=size, entropy=0.0)
        (progress,) = settings.train(model, WideOpenOrShut())
        return progress.loss

    cost = loss(1.0) - loss(0.0)
    assert cost == pytest.approx(np.mean([gates.mean() for gates in is_open.split(sizes)]), abs=1e-5)
    assert cost != pytest.approx(is_open.mean().item(), abs=1e-3), "else each candidate might count the same"


class WideOpenOrShut(torch.nn.Module):
    """A scorer so sure of itself that its gates are open or shut, whatever is drawn."""

    def __init__(self):
        super().__init__()
        self.weight = torch.nn.Parameter(torch.tensor(200.0))

    def fit_scale(self, described):
        pass

    def is_open(self, described):
        return (10 * described.sum(dim=1)).sin() > 0  # some of these, some of those

    def forward(self, described):
        return self.weight * (self.is_open(described).float() - 0.5)


def test_the_temperature_falls_from_the_first_epoch_to_the_last():
    assert [temperature_in((4.0, 1.0), epoch, epochs=3) for epoch in range(3)] == pytest.approx([4.0, 2.0, 1.0])
    assert temperature_in((4.0, 1.0), 0, epochs=1) == 4.0


def test_only_links_of_the_period_are_learned_from():
    """Those of the first half have a past, those of the second have none."""
    fresh = np.arange(2, 22)
    graph = TemporalGraph.from_arrays([0] * 10 + fresh[::2].tolist(), [1] * 10 + fresh[1::2].tolist(), np.arange(20.0))
    model = SoftModel(fast_model(random_network(graph, "tgat"), graph))
    for first, last in [(0.0, 0.5), (0.25, 0.75)]:
        assert next(ScorerSettings(first=first, last=last).train(model, untrained(model)))
    with pytest.raises(DataError, match="none of the links"):
        next(ScorerSettings(first=0.5, last=1.0).train(model, untrained(model)))


def test_a_saved_scorer_comes_back_for_its_model_and_is_refused_for_others(model, tmp_path):
    list(train_explainer(model, QUICK, tmp_path))
    scorer = load_scorer(tmp_path, model)
    trained = untrained(model)
    list(QUICK.train(model, trained))
    assert order_of(model, scorer)[0] == order_of(model, trained)[0]
    document = json.loads((tmp_path / "explainer.json").read_text())
    assert document["origin"]["settings"]["links"] == 20

    kind = model.network.kind
    stranger = SoftModel(fast_model(random_network(model.graph, kind, seed=5), model.graph))
    with pytest.raises(
        ModelError, match=f"another model: it was trained for {document['model']}, the model is [0-9a-f]+"
    ):
        load_scorer(tmp_path, stranger)
    other = random_graph(np.random.default_rng(9), nodes=20, events=300, edge_features=2)
    elsewhere = SoftModel(fast_model(random_network(model.graph, kind), other))
    with pytest.raises(ModelError, match=f"{model.graph.identity}.*{other.identity}"):
        load_scorer(tmp_path, elsewhere)
    load_scorer(tmp_path, elsewhere, allow_data_mismatch=True)


def test_a_trained_explainer_is_not_overwritten(model, tmp_path):
    list(train_explainer(model, QUICK, tmp_path))
    with pytest.raises(CallError, match="already holds a trained explainer"):
        train_explainer(model, QUICK, tmp_path)


def change(folder, **entries):
    """Say something else, with the right checksum."""
    document = json.loads((folder / "explainer.json").read_text())
    (folder / "explainer.json").write_text(json.dumps(with_checksum(document | entries)))


def test_what_a_training_that_was_killed_at_its_end_left_is_cleared_up(model, tmp_path, monkeypatch):
    with monkeypatch.context() as killed:
        killed.setattr(ResumeFile, "discard", lambda kept: None)
        list(train_explainer(model, QUICK, tmp_path))
    assert (tmp_path / "training.safetensors").exists()
    with pytest.raises(CallError, match="already holds a trained explainer"):
        train_explainer(model, replace(QUICK, seed=5), tmp_path)
    assert sorted(file.name for file in tmp_path.iterdir()) == ["explainer.json", "explainer.safetensors"]


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (lambda folder: (folder / "explainer.json").unlink(), "there is no trained explainer"),
        (lambda folder: (folder / "explainer.json").write_text("{"), "explainer.json is damaged"),
        (lambda folder: (folder / "explainer.json").write_text('{"schema": "x"}'), "has schema 'x'"),
        (lambda folder: change(folder, schema="é\u202e\n" + "1" * 400), "has schema 'é.*….*this version reads"),
        (lambda folder: change(folder, model="é\u202e\n" + "1" * 400), "another model: it was trained for é.*…"),
        (lambda folder: change(folder, data="é\u202e\n" + "1" * 400), "other data: it was trained on é.*…"),
        (lambda folder: change(folder, hidden=10**400), "hidden must be a number from 1 to 1,000,000, not 1000.*…"),
        (lambda folder: (folder / "explainer.safetensors").unlink(), "explainer.safetensors is missing"),
        (lambda folder: (folder / "explainer.safetensors").write_bytes(b"123"), "explainer.safetensors is damaged"),
    ],
)
def test_a_damaged_explainer_is_refused(model, tmp_path, damage, message):
    list(train_explainer(model, QUICK, tmp_path))
    damage(tmp_path)
    with pytest.raises(ModelError, match=message) as caught:
        load_scorer(tmp_path, model)
    assert str(caught.value).isprintable()
    assert len(str(caught.value)) < 500


@pytest.mark.parametrize("hidden", [-1, 0, 1.5, True, "16", None, 17, 1_000_000, 10**30])
def test_a_width_that_the_weights_do_not_have_is_refused(model, tmp_path, hidden):
    list(train_explainer(model, QUICK, tmp_path))
    change(tmp_path, hidden=hidden)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    with pytest.raises(ModelError, match=r"hidden must be a number|has shape"):
        load_scorer(tmp_path, model)
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss < before + 100_000  # kB


@pytest.mark.parametrize("file", ["explainer.json", "explainer.safetensors"])
def test_flipped_bits_in_an_explainer_are_refused_or_harmless(model, tmp_path, file):
    list(train_explainer(model, QUICK, tmp_path))
    expected = load_scorer(tmp_path, model).state_dict()
    whole, rng = (tmp_path / file).read_bytes(), random.Random(0)
    for _ in range(40):
        damaged = bytearray(whole)
        damaged[rng.randrange(min(len(whole), 2_000))] ^= 1 << rng.randrange(8)
        (tmp_path / file).write_bytes(damaged)
        with suppress(ModelError):
            found = load_scorer(tmp_path, model).state_dict()
            assert all(torch.equal(weight, found[name]) for name, weight in expected.items())


@pytest.mark.parametrize("name", ["explainer.safetensors", "training.safetensors"])
def test_foreign_files_are_not_replaced_by_an_explainer(model, tmp_path, name):
    save_file({"weights": torch.zeros(3)}, tmp_path / name)
    content = (tmp_path / name).read_bytes()
    with pytest.raises(CallError, match=f"{name} was not written by cody and would be overwritten"):
        train_explainer(model, QUICK, tmp_path)
    assert [(file.name, file.read_bytes()) for file in tmp_path.iterdir()] == [(name, content)]


def test_links_without_a_past_cannot_be_learned_from():
    graph = TemporalGraph.from_arrays(np.arange(0, 20, 2), np.arange(1, 21, 2), np.arange(10.0))
    model = SoftModel(fast_model(random_network(graph, "tgat"), graph))
    with pytest.raises(DataError, match="none of the links"):
        list(QUICK.train(model, untrained(model)))


@pytest.mark.parametrize(
    "wrong", [{"links": 0}, {"epochs": 0}, {"first": 0.7}, {"last": 1.5}, {"temperature": (1.0, 0.0)}]
)
def test_settings_that_make_no_sense_are_refused(wrong):
    with pytest.raises(CallError, match=next(iter(wrong))):
        ScorerSettings(**wrong)
