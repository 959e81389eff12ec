"""A user's scores are compared with those that are explained, and each difference is given a cause."""

import copy
import itertools

import numpy as np
import pytest
import torch
from torch_geometric.nn.models.tgn import LastNeighborLoader

from adapters.pyg_models import random_tgn
from adapters.test_own_loop import scores_of_the_loop
from adapters.test_pyg import untied
from cody import TemporalGraph
from cody.adapters import compare, from_steps, pyg
from cody.adapters.compare import LAZY, LIBRARY, MOVED, OWN_BATCH, RESTARTS
from cody.errors import CallError
from cody.models import ToyModel
from random_events import random_graph

BATCH = 20


def busy_graph(seed=0, events=300):
    """Few nodes, so that a node has more events in a batch than a loader has places; many of the same time."""
    rng = np.random.default_rng(seed)
    src, dst = rng.integers(0, 6, events), rng.integers(6, 12, events)
    return TemporalGraph.from_arrays(src, dst, np.sort(rng.integers(0, 90, events)) * 10.0)


@torch.no_grad()
def own_scores(tgn, data, rows, *, batch=BATCH, splits=(), neighbours=4, train_until=0, sees_own_batch=False):
    """A user's loop with the library's own loader and sort."""
    memory, gnn, link_predictor = copy.deepcopy(tgn)
    memory.reset_state()
    memory.train(train_until > 0)
    loader = LastNeighborLoader(memory.num_nodes, neighbours)
    starts = sorted({*range(0, len(data.src), batch)} if not splits else _starts(len(data.src), batch, splits))
    scores = {}
    for first, stop in zip(starts, [*starts[1:], len(data.src)], strict=True):
        if first >= train_until and memory.training:
            memory.eval()
        for row in range(first, stop):
            if row in rows:
                fed = (copy.deepcopy(memory), copy.deepcopy(loader)) if sees_own_batch else (memory, loader)
                if sees_own_batch and row > first:
                    some = data[first:row]
                    fed[0].update_state(some.src, some.dst, some.t, some.msg)
                    fed[1].insert(some.src, some.dst)
                scores[row] = _score(fed, gnn, link_predictor, data, row)
        some = data[first:stop]
        memory.update_state(some.src, some.dst, some.t, some.msg)
        loader.insert(some.src, some.dst)
    return [scores[row] for row in rows]


def _starts(events, batch, splits):
    edges = [0, *splits, events]
    return {start for first, stop in itertools.pairwise(edges) for start in range(first, stop, batch)}


def _score(fed, gnn, link_predictor, data, row):
    memory, loader = fed
    ends = data.src[row], data.dst[row]
    n_id, edge_index, e_id = loader(torch.stack(ends).unique())
    z, last_update = memory(n_id)
    z = gnn(z, last_update, edge_index, data.t[e_id], data.msg[e_id])
    return float(link_predictor(*(z[n_id == end] for end in ends)))


ROWS = list(range(215, 300, 3))


@pytest.fixture
def made():
    graph = busy_graph()
    tgn, data = random_tgn(graph)
    return tgn, data, pyg.wrap(**tgn._asdict(), data=data, batch=BATCH, neighbours=4, splits=())


def test_the_scores_of_the_librarys_loop_agree_where_nothing_is_overwritten():
    graph = untied(np.random.default_rng(5), edge_features=2)
    tgn, data = random_tgn(graph)
    model = pyg.wrap(**tgn._asdict(), data=data, batch=7, neighbours=20)
    result = compare(model, range(graph.num_events), scores_of_the_loop(tgn, data))
    assert result.agree == graph.num_events
    assert str(result).startswith(f"All {graph.num_events} scores agree (within 0.0001, worst difference ")


@pytest.mark.parametrize(
    ("cause", "options"),
    [
        (RESTARTS, {"splits": (215,)}),
        (OWN_BATCH, {"sees_own_batch": True}),
        (LAZY, {"train_until": 200}),
        (LIBRARY, {}),
    ],
)
def test_each_cause_is_found(made, cause, options):
    tgn, data, model = made
    given = own_scores(tgn, data, ROWS, **options)
    result = compare(model, ROWS, given, since=options.get("train_until"))
    assert result.unexplained == ()
    assert sum(cause in causes for causes in result.causes) > 0
    assert {one for causes in result.causes for one in causes} <= {cause, LIBRARY}
    (effect,) = (effect for effect in result.effects if effect.cause == cause)
    assert effect.changed > 0 < effect.worst
    assert cause in str(result)
    assert "; 0 unexplained." in str(result)


def test_several_causes_together_are_found(made):
    tgn, data, model = made
    given = own_scores(tgn, data, ROWS, splits=(215,), sees_own_batch=True, train_until=215)
    result = compare(model, ROWS, given)
    assert result.unexplained == ()
    assert {one for causes in result.causes for one in causes} >= {RESTARTS, OWN_BATCH, LAZY}
    assert compare(model, ROWS, given, splits=(230,)).unexplained  # another loop does not explain it


def test_a_memory_that_other_weights_built_is_found_if_it_is_given(made):
    tgn, data, _ = made
    until = 200
    memory, loader = copy.deepcopy(tgn.memory), LastNeighborLoader(tgn.memory.num_nodes, 4)
    memory.train()
    for first in range(0, until, BATCH):  # the last epoch, in which the weights moved
        some = data[first : first + BATCH]
        with torch.no_grad():
            memory.update_state(some.src, some.dst, some.t, some.msg)
            memory.gru.weight_hh.add_(0.02)
        loader.insert(some.src, some.dst)
    tgn = tgn._replace(memory=memory)
    model = pyg.wrap(**tgn._asdict(), data=data, batch=BATCH, neighbours=4, splits=())
    then = copy.deepcopy(memory)
    given = []
    with torch.no_grad():
        memory.eval()
        for first in range(until, 300, BATCH):
            rows = [row for row in ROWS if first <= row < first + BATCH]
            given += [_score((memory, loader), tgn.gnn, tgn.link_predictor, data, row) for row in rows]
            some = data[first : first + BATCH]
            memory.update_state(some.src, some.dst, some.t, some.msg)
            loader.insert(some.src, some.dst)
    without = compare(model, ROWS, given, since=until)
    assert without.unexplained
    assert "Give memory= to test whether the memory was built while the weights still changed" in str(without)
    result = compare(model, ROWS, given, memory=then, since=until)
    assert result.unexplained == ()
    assert sum(MOVED in causes for causes in result.causes) > 10


def test_nothing_is_left_behind_in_the_model(made):
    tgn, data, model = made
    query = model.graph.query(260)
    before = model.reference(query, frozenset(), full=True).logits(query, [frozenset()])
    compare(model, ROWS, np.zeros(len(ROWS)), since=200)
    assert np.array_equal(model.reference(query, frozenset(), full=True).logits(query, [frozenset()]), before)
    assert not model.steps.memory.training
    again = pyg.wrap(**tgn._asdict(), data=data, batch=BATCH, neighbours=4, splits=())
    assert again.identity == model.identity


def test_probabilities_are_compared_as_logits(made):
    _, _, model = made
    ours = np.array([model.logits(model.graph.query(row), [frozenset()])[0] for row in ROWS])
    assert compare(model, ROWS, 1 / (1 + np.exp(-ours)), probabilities=True).agree == len(ROWS)


@pytest.mark.parametrize(
    ("scores", "message"),
    [
        ([0.5], "there are 2 rows and 1 scores"),
        ([0.5, float("nan")], "the score of event 240 is nan; scores must be finite"),
        (["high", "low"], "scores must be numbers: could not convert string"),
    ],
)
def test_scores_that_are_no_numbers_are_refused(scores, message, made):
    with pytest.raises(CallError, match=message):
        compare(made[2], [230, 240], scores)


def test_of_other_models_scores_are_compared():
    graph = random_graph(np.random.default_rng(0))
    toy = ToyModel(graph, weights=np.linspace(-1, 1, graph.num_events))
    toy.graph = graph
    rows = list(range(20, 60))
    ours = np.array([toy.logits(graph.query(row), [frozenset()])[0] for row in rows])
    result = compare(toy, rows, ours + ([1.0] * 10 + [0.0] * 30))
    assert result.agree == 30
    assert result.unexplained == tuple(range(20, 30))
    with pytest.raises(CallError, match="40 rows and 3 scores"):
        compare(toy, rows, [1.0, 2.0, 3.0])
    del toy.graph
    with pytest.raises(CallError, match="knows its graph"):
        compare(toy, rows, ours)


def test_of_a_model_of_functions_the_batches_are_tried():
    graph = random_graph(np.random.default_rng(0))
    model = from_steps(graph, score=lambda query, past: len(past.events), identity="counts", batch=10)
    rows = list(range(40, 70))
    result = compare(model, rows, [row // 10 * 10 for row in rows])
    assert result.unexplained == ()
    assert {one for causes in result.causes for one in causes} == {OWN_BATCH}
