import numpy as np
import pytest
import torch
from torch import nn
from torch_geometric.data import TemporalData

from adapters.pyg_models import naive_logit, random_tgn, states
from cody import Add, Move, TemporalGraph, explain
from cody.adapters import from_probabilities, pyg
from cody.errors import CallError, CodyError, ModelError, ProbabilityWarning
from cody.models import check_model
from cody.models.contract import as_model
from random_events import random_graph


def untied(rng, **kinds):
    """Some events, self-loops among them, in whole seconds, no two of the same time."""
    graph = random_graph(rng, ties=False, **kinds)
    return TemporalGraph.from_arrays(graph.src, graph.dst, np.arange(graph.num_events) * 7.0, features=graph.features)


def wrapped(tgn, data, **options):
    """A link sees all that comes before it, unless something else is said."""
    options = {"batch": 7, "neighbours": 20, "splits": (), "sees_own_batch": True, **options}
    return pyg.wrap(**tgn._asdict(), data=data, **options)


@pytest.mark.parametrize("seed", range(5))
def test_answers_are_those_of_the_users_own_loop(seed):
    rng = np.random.default_rng(seed)
    graph = untied(rng, edge_features=3 * (seed % 2))
    tgn, data = random_tgn(graph, seed)
    model = wrapped(tgn, data)
    for row in rng.integers(1, graph.num_events, 5).tolist():
        query = model.graph.query(row)
        changes = [frozenset(rng.integers(0, row, size).tolist()) for size in (0, 1, 5)]
        expected = [naive_logit(tgn, data, query, change, 7, 20) for change in changes]
        np.testing.assert_allclose(model.logits(query, changes), expected, atol=1e-5)


def test_it_keeps_all_rules_of_a_model():
    graph = random_graph(np.random.default_rng(0), events=25, edge_features=2)
    tgn, data = random_tgn(graph)
    model = wrapped(tgn, data, neighbours=3)
    report = check_model(model, model.graph, tolerance=1e-5, quick=True)
    report.raise_if_failed()
    noted = {outcome.name for outcome in report.outcomes if outcome.status == "noted"}
    assert noted <= {"time_matters"}  # a TGN of the library does not look at the time of the query


def test_a_graph_with_dates_is_asked_as_the_model_counts_time():
    graph = untied(np.random.default_rng(1))
    tgn, data = random_tgn(graph)
    dated = TemporalGraph.from_arrays(graph.src, graph.dst, graph.time + 1e9, num_nodes=graph.num_nodes)
    changes = [frozenset(), frozenset({40, 50})]
    expected = wrapped(tgn, data).logits(graph.query(60), changes)
    model = wrapped(tgn, dated, start=1e9, message=1.0)
    np.testing.assert_allclose(model.logits(dated.query(60), changes), expected, atol=1e-6)
    assert len({wrapped(tgn, dated, start=start, message=1.0).identity for start in (0.0, 1e9)}) == 2
    with pytest.raises(ModelError, match=r"the events have 0: pass as data .*, or as message the number"):
        wrapped(tgn, dated, start=1e9)
    with pytest.raises(CallError, match="message is for data without features"):
        wrapped(tgn, data, message=1.0)


def test_imagined_events_are_observed_and_attended_to():
    graph = random_graph(np.random.default_rng(2), edge_features=2)
    tgn, data = random_tgn(graph)
    model = wrapped(tgn, data)
    query = model.graph.query(70)
    src, dst = str(query.src), str(query.dst)
    longer = model.graph.imagine([Add(src, dst, query.time - 10), Move(60, query.time)])
    unchanged, added, moved = model.on(longer).logits(query, [frozenset(), frozenset({80}), frozenset({81})])
    assert abs(unchanged - added) > 1e-3
    assert unchanged == pytest.approx(float(model.logits(query, [frozenset()])[0]), abs=1e-6)
    assert moved != unchanged


@pytest.mark.parametrize("training", [True, False], ids=["in training", "in evaluation"])
def test_the_users_modules_are_left_as_they_were(training):
    graph = random_graph(np.random.default_rng(3))
    tgn, data = random_tgn(graph)
    for module in tgn:
        module.train(training)
    tgn.memory.update_state(data.src[:20], data.dst[:20], data.t[:20], data.msg[:20])  # with messages that wait
    before, memory = states(tgn), tgn.memory.memory
    model = wrapped(tgn, data)
    answers = model.logits(model.graph.query(50), [frozenset(), frozenset({30})])
    with pytest.raises(CallError):
        model.logits(model.graph.query(50), [frozenset({1000})])
    explain(model, model.graph, model.graph.query(60), evaluations=20)
    assert states(tgn) == before
    assert tgn.memory.memory is memory
    np.testing.assert_array_equal(model.logits(model.graph.query(50), [frozenset(), frozenset({30})]), answers)


@pytest.fixture
def two_threads():
    """Torch is set to two threads; afterwards to as many as before."""
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    yield
    torch.set_num_threads(before)


@pytest.mark.usefixtures("two_threads")
@pytest.mark.parametrize("fast", [True, False])
def test_modules_compute_with_one_thread_and_the_users_setting_is_there_again_also_after_a_failure(fast):
    class Watched(nn.Module):
        def __init__(self, predictor):
            super().__init__()
            self.predictor = predictor

        def forward(self, source, target):
            threads.add(torch.get_num_threads())
            if failing:
                raise RuntimeError("out of memory")
            return self.predictor(source, target)

    threads, failing = set(), []
    tgn, data = random_tgn(untied(np.random.default_rng(0)))
    model = wrapped(tgn._replace(link_predictor=Watched(tgn.link_predictor)), data, fast=fast)
    explain(model, model.graph, model.graph.query(50), size=8, evaluations=20)
    assert threads == {1}
    assert torch.get_num_threads() == 2

    failing.append(True)
    with pytest.raises(RuntimeError, match="out of memory"):
        model.logits(model.graph.query(50), [frozenset()])
    assert torch.get_num_threads() == 2


def test_training_goes_on_after_an_explanation_and_the_model_stays_what_it_was():
    graph = random_graph(np.random.default_rng(3))
    tgn, data = random_tgn(graph)
    model = wrapped(tgn, data)
    before = model.logits(model.graph.query(50), [frozenset()]), model.identity
    with torch.no_grad():
        tgn.link_predictor.lin_final.bias.add_(1.0)
    assert (model.logits(model.graph.query(50), [frozenset()]), model.identity) == before
    assert wrapped(tgn, data).identity != model.identity


def test_more_events_in_a_batch_than_neighbours_leave_the_latest_ones():
    """Where the library's loader keeps others, depending on events of other nodes."""
    src, dst = [0] * 12 + [5], [1, 2, 3, 4] * 3 + [6]
    graph = TemporalGraph.from_arrays(src, dst, np.arange(13.0) * 10)
    tgn, data = random_tgn(graph)
    model = wrapped(tgn, data, batch=13, neighbours=3)
    query = model.graph.link("0", "1", 125.0)
    steps = model.steps
    subgraph = steps.subgraph([query], [_past(model, query)])
    assert sorted(set(subgraph.rows.tolist())) == [0, 4, 8, 9, 10, 11]  # three of either node
    unrelated = model.logits(query, [frozenset(), frozenset({12})])
    assert unrelated[0] == pytest.approx(unrelated[1], abs=1e-6)


def _past(model, query):
    from cody.adapters import Past

    return Past(model.graph, query, model.graph.difference(frozenset(), query))


class Attention(nn.Module):
    """A GNN that looks at the time since each event, for models without memory."""

    def __init__(self, width):
        super().__init__()
        self.neighbour, self.own = nn.Linear(width + 2, width), nn.Linear(width, width)

    def forward(self, z, last_update, edge_index, t, msg):
        elapsed = (last_update[edge_index[1]] - t)[:, None].to(z.dtype) / 100
        events = self.neighbour(torch.cat([z[edge_index[0]], elapsed, msg], dim=-1)).tanh()
        return self.own(z).index_add(0, edge_index[1], events)


class Product(nn.Module):
    def forward(self, source, target):
        return (source * target).sum(dim=-1)


@pytest.mark.parametrize("hops", [1, 2])
def test_a_model_without_memory_is_asked_about_many_sets_at_once(hops):
    torch.manual_seed(0)
    graph = random_graph(np.random.default_rng(1), events=40, edge_features=1)
    gnn, features = Attention(4), torch.randn(graph.num_nodes, 4)
    model = pyg.wrap(
        gnn=gnn, link_predictor=Product(), data=graph, node_features=features, neighbours=5, hops=hops, batch=10
    )
    changes = [frozenset(), frozenset({3, 20}), frozenset(range(30))]
    together = model.logits(graph.query(30), changes)
    apart = [model.steps.score(graph.query(30), _changed(model, graph.query(30), change)) for change in changes]
    np.testing.assert_allclose(together, apart, atol=1e-5)
    check_model(model, graph, quick=True).raise_if_failed()


def _changed(model, query, change):
    from cody.adapters import Past

    return Past(model.graph, query, model.graph.difference(change, query))


class Sigmoid(nn.Module):
    def __init__(self, inner):
        super().__init__()
        self.inner = inner

    def forward(self, source, target):
        return self.inner(source, target).sigmoid()


def test_a_predictor_that_ends_with_a_sigmoid_can_be_wrapped_too():
    graph = random_graph(np.random.default_rng(4))
    tgn, data = random_tgn(graph)
    usual = wrapped(tgn, data)
    other = tgn._replace(link_predictor=Sigmoid(tgn.link_predictor))
    query, changes = usual.graph.query(60), [frozenset(), frozenset({50, 55})]
    expected = usual.logits(query, changes)
    np.testing.assert_allclose(wrapped(other, data, probabilities=True).logits(query, changes), expected, atol=1e-6)
    chances = wrapped(other, data, probabilities=False)
    np.testing.assert_allclose(from_probabilities(chances).logits(query, changes), expected, atol=1e-4)
    np.testing.assert_allclose(from_probabilities(chances).session(query).logits(changes), expected, atol=1e-4)


def test_an_explanation_of_probabilities_for_logits_warns():
    graph = random_graph(np.random.default_rng(4), events=120)
    tgn, data = random_tgn(graph)
    model = wrapped(tgn._replace(link_predictor=Sigmoid(tgn.link_predictor)), data, probabilities=False)
    with pytest.warns(ProbabilityWarning, match=r"cody.adapters.from_probabilities\(model\) does"):
        explain(model, model.graph, model.graph.query(110), evaluations=40)


def test_what_is_no_probability_is_refused():
    graph = random_graph(np.random.default_rng(4))
    model = from_probabilities(as_model(lambda graph, query, changes: [1.5], graph, identity="wrong"))
    with pytest.raises(ModelError, match="a probability must lie between 0 and 1, but the model returned"):
        model.logits(graph.query(3), [frozenset()])


def test_modules_that_do_not_fit_the_data_are_refused():
    graph = random_graph(np.random.default_rng(4), edge_features=2)
    tgn, data = random_tgn(graph)
    narrower = TemporalData(src=data.src, dst=data.dst, t=data.t, msg=data.msg[:, :1])
    with pytest.raises(ModelError, match="made for messages of 2 numbers, but the events have 1"):
        wrapped(tgn, narrower)
    with pytest.raises(CallError, match="Linear has no 'reset_state'"):
        wrapped(tgn._replace(memory=nn.Linear(2, 2)), graph)
    with pytest.raises(CallError, match="has no 'src'"):
        wrapped(tgn, [1, 2, 3])
    with pytest.raises(CallError, match="must be torch modules, not 'attention'"):
        wrapped(tgn._replace(gnn="attention"), data)
    with pytest.raises(CallError, match="needs node_features, a row for each of the 14 nodes"):
        wrapped(tgn._replace(memory=None), graph)
    larger = TemporalGraph.from_arrays(graph.src, graph.dst, graph.time, features=graph.features, num_nodes=20)
    with pytest.raises(ModelError, match="the memory has 14 nodes, but the data have 20"):
        wrapped(tgn, larger)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"neighbours": 2.5}, "neighbours must be a whole number, not 2.5"),
        ({"neighbours": 0}, "neighbours must be at least 1, not 0"),
        ({"hops": 0}, "hops must be at least 1, not 0"),
        ({"start": float("nan")}, "start must be a finite number, not nan"),
        ({"start": "first"}, "start must be a finite number, not 'first'"),
        ({"gnn": None}, "gnn is missing: only memory may be None"),
    ],
)
def test_options_that_make_no_sense_are_named(given, message):
    tgn, data = random_tgn(random_graph(np.random.default_rng(4)))
    with pytest.raises(CallError, match=message):
        pyg.wrap(**tgn._asdict() | {"data": data} | given)


class Altered(nn.Module):
    """A GNN whose output is changed by a function."""

    def __init__(self, gnn, change):
        super().__init__()
        self.gnn, self.change = gnn, change

    def forward(self, *given):
        return self.change(self.gnn(*given))


@pytest.mark.parametrize("memory", [True, False])
def test_modules_that_answer_at_random_are_refused(memory):
    tgn, data = random_tgn(random_graph(np.random.default_rng(4), ties=False))
    given = {"data": data} | ({} if memory else {"memory": None, "node_features": torch.randn(14, 8)})
    noisy = Altered(tgn.gnn, lambda z: nn.functional.dropout(z, 0.5, training=True))
    with pytest.raises(ModelError, match="for the same link and history: does one of them draw at random"):
        pyg.wrap(**tgn._replace(gnn=noisy)._asdict() | given)
    pyg.wrap(**tgn._replace(gnn=Altered(tgn.gnn, lambda z: z))._asdict() | given)


@pytest.mark.parametrize(("change", "returned"), [(lambda z: (z, 1), "a tuple"), (lambda z: z[:1], r"\(1, 8\)")])
def test_a_gnn_that_returns_something_else_is_named(change, returned):
    tgn, data = random_tgn(random_graph(np.random.default_rng(4)))
    with pytest.raises(ModelError, match=f"a row for each of . nodes; it returned {returned}"):
        pyg.wrap(**tgn._replace(gnn=Altered(tgn.gnn, change))._asdict(), data=data)


def test_data_without_events_are_refused():
    tgn, data = random_tgn(random_graph(np.random.default_rng(4), edge_features=2))
    with pytest.raises(CodyError, match="no events"):
        pyg.wrap(**tgn._asdict(), data=data[:0])


@pytest.mark.parametrize("sees_own_batch", [True, False])
def test_a_link_ahead_of_its_past_is_scored_as_if_the_log_ended_there(sees_own_batch):
    graph = untied(np.random.default_rng(2), edge_features=1)
    tgn, data = random_tgn(graph)
    model = wrapped(tgn, data, sees_own_batch=sees_own_batch)
    graph = model.graph
    for before in (30, 35, 50):  # 35 begins a batch
        later = graph.ahead(graph.query(before), 7.0 * graph.num_events)
        added = [Add(1, 2, 7.0 * before + 1, [0.5]), Add(3, 4, 7.0 * before + 10, [2.0])]
        change = frozenset({graph.num_events, graph.num_events + 1})
        found = model.on(graph.imagine(added, query=later)).logits(later, [frozenset(), change])
        for happened, answer in zip(([], added), found, strict=True):
            src, dst, time = (
                np.append(getattr(graph, name)[:before], [getattr(each, name) for each in happened])
                for name in ("src", "dst", "time")
            )
            features = np.append(graph.features[:before, 0], [each.features[0] for each in happened])
            alone = TemporalGraph.from_arrays(src, dst, time, features=features[:, None], num_nodes=graph.num_nodes)
            own = wrapped(tgn, random_tgn(alone)[1], sees_own_batch=sees_own_batch)
            query = later._replace(before=alone.num_events)
            np.testing.assert_allclose(own.logits(query, [frozenset()]), [answer], atol=1e-4)
