"""Models of snapshots: what they are fed under a change, compared with feeding what is left from the start."""

import sys
from functools import cache, partial
from importlib import import_module
from importlib.util import find_spec
from types import ModuleType

import numpy as np
import pytest
import torch
import torch_geometric
from torch import nn
from torch_geometric.nn import GCNConv

import cody
from cody import TemporalGraph
from cody.adapters import from_snapshots
from cody.errors import CallError, ModelError
from cody.models import check_model

NODES, EVERY = 12, 10.0


class Roland(nn.Module):
    """Node states that a GRU updates by what a graph convolution reads of each snapshot, as in ROLAND."""

    def __init__(self, width=8):
        super().__init__()
        self.convolution, self.update = GCNConv(width, width), nn.GRUCell(width, width)
        self.first = nn.Parameter(torch.randn(NODES, width))

    @torch.no_grad()
    def step(self, state, snapshot):
        return self.update(self.convolution(state, torch.from_numpy(snapshot.edge_index)).relu(), state)

    @torch.no_grad()
    def score(self, state, query):
        return 3 * float(state[query.src] @ state[query.dst])


class EvolvedWeights(nn.Module):
    """The weights of a convolution evolve by a GRU, as in EvolveGCN-O; the state is weights, and the latest edges."""

    def __init__(self, width=8):
        super().__init__()
        self.evolve, self.convolution = nn.GRUCell(width, width), GCNConv(width, width, bias=False)
        self.features = nn.Parameter(torch.randn(NODES, width))
        self.first = (torch.eye(width), torch.zeros(2, 0, dtype=torch.long))

    @torch.no_grad()
    def step(self, state, snapshot):
        return self.evolve(state[0], state[0]), torch.from_numpy(snapshot.edge_index)

    @torch.no_grad()
    def score(self, state, query):
        seen = self.convolution(self.features @ state[0], state[1])
        return float(seen[query.src] @ seen[query.dst])


class OfTgm(nn.Module):
    """A model of TGM's, which returns its new state; the first part of it is what nodes look like."""

    def __init__(self, name):
        super().__init__()
        classes = pytest.importorskip("tgm.nn", reason="tgm-lib, of the extra tgm, is not installed")
        given = {"ROLAND": (8, 8, NODES, 0.0, "gru"), "GCLSTM": (8, 8, 2)}[name]
        self.network, self.is_roland = getattr(classes, name)(*given).eval(), name == "ROLAND"
        self.features = nn.Parameter(torch.randn(NODES, 8))
        self.first = (torch.zeros(NODES, 8), torch.zeros(NODES, 8))

    @torch.no_grad()
    def step(self, state, snapshot):
        edges = torch.from_numpy(snapshot.edge_index)
        if self.is_roland:
            return tuple(self.network(self.features, edges, list(state)))
        return self.network(self.features, edges, H=state[0], C=state[1])

    @torch.no_grad()
    def score(self, state, query):
        return 3 * float(state[0][query.src] @ state[0][query.dst])


class OfGeometricTemporal(nn.Module):
    """A recurrent layer of PyTorch Geometric Temporal, with the state that it returns, or that it keeps in itself."""

    def __init__(self, name):
        super().__init__()
        if geometric_temporal() is None:
            pytest.skip("torch-geometric-temporal is not installed: pip install --no-deps torch-geometric-temporal")
        given = {"GConvGRU": (8, 8, 2), "GCLSTM": (8, 8, 2), "EvolveGCNO": (8,), "EvolveGCNH": (NODES, 8)}[name]
        self.network = getattr(geometric_temporal(), name)(*given).eval()
        self.features = nn.Parameter(torch.randn(NODES, 8))
        seen = torch.zeros(NODES, 8)
        self.first = {"GConvGRU": (seen,), "GCLSTM": (seen, seen)}.get(name, (seen, None))
        self.keeps_weights = "Evolve" in name

    @torch.no_grad()
    def step(self, state, snapshot):
        edges = torch.from_numpy(snapshot.edge_index)
        if self.keeps_weights:  # they begin anew where it has none
            self.network.weight = state[1]
            return self.network(self.features, edges), self.network.weight
        found = self.network(self.features, edges, None, *state)
        return found if isinstance(found, tuple) else (found,)

    @torch.no_grad()
    def score(self, state, query):
        return 3 * float(state[0][query.src] @ state[0][query.dst])


@cache
def geometric_temporal():
    """Its recurrent layers. They import a name of torch_sparse, which must be compiled; PyG has a stand-in for it."""
    if find_spec("torch_geometric_temporal") is None:
        return None
    stand_in = ModuleType("torch_sparse")
    stand_in.SparseTensor = torch_geometric.typing.SparseTensor
    with pytest.MonkeyPatch.context() as patch:
        if find_spec("torch_sparse") is None:
            patch.setitem(sys.modules, "torch_sparse", stand_in)
        return import_module("torch_geometric_temporal.nn.recurrent")


@pytest.fixture(scope="module")
def graph():
    rng = np.random.default_rng(3)
    src = rng.integers(0, NODES, 80)
    time = np.sort(rng.uniform(5, 200, 80))
    time[40:] += 35  # some periods have no events
    return TemporalGraph.from_arrays(src, (src + rng.integers(1, NODES, 80)) % NODES, time, num_nodes=NODES)


OF_LIBRARIES = [
    *(partial(OfTgm, name) for name in ("ROLAND", "GCLSTM")),
    *(partial(OfGeometricTemporal, name) for name in ("GConvGRU", "GCLSTM", "EvolveGCNO", "EvolveGCNH")),
]


@pytest.fixture(params=[Roland, EvolvedWeights, *OF_LIBRARIES], ids=str)
def network(request):
    torch.manual_seed(0)
    return request.param()


def wrapped(network, graph):
    return from_snapshots(
        graph, every=EVERY, start=lambda: network.first, step=network.step, score=network.score, identity="made"
    )


def plain(network, events, query):
    """The score with these events (src, dst, time), period by period from the first."""
    state, own = network.first, int(query.time // EVERY)
    for number in range(own):
        of_it = [(a, b) for a, b, time in events if int(time // EVERY) == number]

        class Fed:
            edge_index = np.array(of_it, dtype=np.int64).reshape(-1, 2).T.copy()

        state = network.step(state, Fed)
    return network.score(state, query)


def events_of(graph, removed=()):
    columns = zip(graph.src.tolist(), graph.dst.tolist(), graph.time.tolist(), strict=True)
    return [event for row, event in enumerate(columns) if row not in removed and row < graph.num_events]


def test_what_is_removed_is_missing_from_its_snapshot_and_borders_stay(network, graph):
    model, rng = wrapped(network, graph), np.random.default_rng(1)
    for row in (30, 41, 79):
        query = graph.query(row)
        changes = [frozenset(), *(frozenset(rng.choice(row, size, replace=False).tolist()) for size in (1, 4, row - 2))]
        expected = [plain(network, events_of(graph, change), query) for change in changes]
        np.testing.assert_allclose(model.logits(query, changes), expected, atol=1e-5)


def test_events_are_added_to_the_snapshot_of_their_time_also_at_its_end(network, graph):
    row = 50
    query = graph.query(row)
    own = int(query.time // EVERY) * EVERY
    for time in (own - 1e-6, own - 9.999, 57.0, own + 1e-6):
        longer = graph.imagine([cody.Add("1", "2", time)])
        (logit,) = wrapped(network, graph).on(longer).logits(query, [frozenset({graph.num_events})])
        assert logit == pytest.approx(plain(network, [*events_of(graph), (1, 2, time)], query), abs=1e-5), time


def test_events_of_the_own_period_change_nothing(network, graph):
    model = wrapped(network, graph)
    query = next(graph.query(row) for row in range(1, 80) if graph.time[row] // EVERY == graph.time[row - 1] // EVERY)
    changed, unchanged = model.logits(query, [frozenset({query.before - 1}), frozenset()])
    assert changed == unchanged


def test_snapshot_models_are_explained_by_earlier_snapshots(network, graph):
    model = wrapped(network, graph)
    why = cody.explain(model, graph, graph.query(70), size=8, evaluations=20)
    assert why.verification is None or why.is_counterfactual
    before = why.candidates[-1].time // EVERY
    assert before < graph.time[70] // EVERY


def test_edges_have_the_type_that_torch_wants(graph):
    kinds = set()

    def step(state, snapshot):
        kinds.add(snapshot.edge_index.dtype)
        return state

    model = from_snapshots(graph, every=EVERY, start=int, step=step, score=lambda *_: 0.0, identity="x")
    model.logits(graph.query(79), [frozenset()])
    assert kinds == {np.dtype(np.int64)}  # of periods with and without events


def test_numbers_about_the_whole_graph_are_decided(graph):
    def count(state, snapshot):
        return 0.5 * state + len(snapshot.src)

    model = from_snapshots(
        graph, every=EVERY, start=lambda: 0.0, step=count, score=lambda state, _: state, identity="activity"
    )
    check_model(model, graph)
    query = graph.query(30)
    (now,) = model.logits(query, [frozenset()])
    why = cody.explain(model, graph, query, decision=cody.between(now - 0.6, now + 1))
    assert why.is_counterfactual


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"begin": float("nan")}, "begin is a time, a number as in the log, not nan"),
        ({"begin": "monday"}, "begin is a time, a number as in the log, not 'monday'"),
        ({"begin": 50.0}, r"begin is 50, but the first event is at \d.*: no snapshot would have it"),
        ({"every": 1e-5}, r"every=1e-05 makes 2\d,\d{3},\d{3} snapshots .*a day is 86_400"),
        ({"begin": -1e12}, r"every=10 from begin=-1e\+12 makes 100,000,000,02\d snapshots"),
        ({"start": 3}, r"a function is called as start\(\); 3 is none"),
    ],
)
def test_periods_that_make_no_sense_are_refused(given, message, graph):
    arguments = {"every": EVERY, "start": int, "step": lambda state, day: 0, "score": lambda state, query: 0.0}
    with pytest.raises(CallError, match=message):
        from_snapshots(graph, **arguments | given, identity="x")


class Counter:
    """Counts events, in ways that make an answer depend on earlier calls."""

    def __init__(self):
        self.seen = 0.0

    def reset(self):
        self.seen = 0.0
        return np.zeros(1)

    def in_place(self, state, snapshot):
        state += len(snapshot.src)
        return state

    def in_a_module(self, state, snapshot):
        self.seen += len(snapshot.src)
        return np.full(1, self.seen)

    def at_random(self, state, snapshot):
        return state + np.random.default_rng().random()

    def rightly(self, state, snapshot):
        return state + len(snapshot.src)


@pytest.mark.parametrize("way", ["in_place", "in_a_module", "at_random"])
def test_a_step_whose_answers_depend_on_earlier_calls_is_refused(way, graph):
    counter = Counter()
    arguments = {"every": EVERY, "start": counter.reset, "score": lambda state, query: state[0], "identity": "x"}
    with pytest.raises(ModelError, match=r"after snapshot 0 depends on earlier calls: first it is .* a new state"):
        from_snapshots(graph, **arguments, step=getattr(counter, way))
    assert from_snapshots(graph, **arguments, step=counter.rightly).logits(graph.query(79), [frozenset()])[0] > 0


def test_an_exception_says_of_which_snapshot(graph):
    def step(state, snapshot):
        if snapshot.number == 3:
            raise IndexError("index 12 is out of range")
        return state

    def score(state, query):
        raise ValueError("nothing to score")

    arguments = {"every": EVERY, "start": int, "identity": "x"}
    number = int((graph.time[:80] // EVERY == 3).sum())
    model = from_snapshots(graph, **arguments, step=step, score=lambda *_: 0.0)
    said = rf"for snapshot 3 \({number} events?, from 30 to 40\) failed: IndexError: index 12 is out of range"
    with pytest.raises(ModelError, match=said) as raised:
        model.logits(graph.query(79), [frozenset()])
    assert isinstance(raised.value.__cause__, IndexError)
    model = from_snapshots(graph, **arguments, step=lambda *_: 0, score=score)
    with pytest.raises(ModelError, match=r"for the link \d+ → \d+ after snapshot \d+ failed: ValueError: nothing to"):
        model.logits(graph.query(79), [frozenset()])


@pytest.mark.parametrize("every", [0, -1.0, float("inf"), "a day"])
def test_a_period_has_a_length(graph, every):
    with pytest.raises(CallError, match="every is the length of a period"):
        from_snapshots(graph, every=every, start=int, step=lambda *_: 0, score=lambda *_: 0.0, identity="x")
