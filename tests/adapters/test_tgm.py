"""Models of TGM: the scores of its own loops, and the answers of a full replay, on its own classes."""

from functools import cache

import numpy as np
import pytest
import torch

import cody
from cody.adapters import compare

pytest.importorskip("tgm", reason="tgm-lib, of the extra tgm, is not installed")

from adapters import tgm_models
from cody.adapters import tgm
from cody.adapters.modules import copied_state
from cody.errors import CallError, ModelError

pytestmark = [
    pytest.mark.filterwarnings("ignore:Sparse invariant checks:UserWarning"),  # TNCN's own
    pytest.mark.filterwarnings("ignore::cody.errors.SlowModelWarning"),  # estimated on machines that are busy
]


@pytest.fixture(scope="module")
def data():
    return tgm_models.new_data()


def made(name):
    torch.manual_seed(0)
    return tgm_models.CASES[name]()


def wrapped(case, data, **more):
    options = {"hooks": case.hooks, "update": case.update, "start": case.start, "batch": case.batch, "splits": ()}
    return tgm.wrap(case.score, case.modules, data=data, **options | more)


@pytest.mark.parametrize("name", tgm_models.CASES)
def test_scores_are_those_of_a_loop_of_tgm(name, data):
    case = made(name)
    model, given = wrapped(case, data), tgm_models.scores_of_the_loop(data, case)
    rows = range(tgm_models.EVENTS - 110, tgm_models.EVENTS)
    compared = compare(model, rows, given[rows.start :])
    assert compared.agree == 110, compared
    assert len(np.unique(given[rows.start :])) > 1


@pytest.mark.parametrize("name", tgm_models.CASES)
def test_removed_events_are_missing_from_what_tgm_would_be_fed(name, data):
    """With one event at a time there are no borders of batches, so a loop over the other events is the same."""
    case, last = made(name)._replace(batch=1), 60
    model = wrapped(case, tgm_models.first(data, last + 1))
    rng, query = np.random.default_rng(0), model.graph.query(last)
    changes = [frozenset(rng.choice(last, size, replace=False).tolist()) for size in (1, 6, 30)]
    changes.append(frozenset({row for node in query[:2] for row in model.graph.history(node, last)[-3:].tolist()}))
    scores = model.logits(query, changes)
    for change, score in zip(changes, scores, strict=True):
        kept = torch.tensor([row for row in range(last + 1) if row not in change])
        assert score == pytest.approx(tgm_models.scores_of_the_loop(tgm_models.part(data, kept), case)[-1], abs=1e-5)
        full = model.reference(query, change, full=True).logits(query, [change])
        assert score == pytest.approx(full[0], abs=1e-5)


@pytest.mark.parametrize("name", ["tgat", "tpnet"])
def test_an_explanation_is_verified_and_leaves_the_modules_as_they_were(name, data):
    case = made(name)
    before = {key: value.clone() for module in case.modules for key, value in module.state_dict().items()}
    model = wrapped(case, data, batch=20)
    why = cody.explain(model, model.graph, model.graph.query(150), evaluations=40)
    assert why.verification is None or why.verification.confirmed
    after = {key: value for module in case.modules for key, value in module.state_dict().items()}
    assert all(torch.equal(after[key], value) for key, value in before.items())
    assert all(module.training for module in case.modules)


def test_many_sets_and_many_links_at_once_get_the_answers_of_each_alone(data):
    model = wrapped(made("tgat"), data)
    query, rng = model.graph.query(150), np.random.default_rng(1)
    changes = [frozenset(rng.choice(140, 3).tolist()) for _ in range(40)]
    together = model.logits(query, changes)
    np.testing.assert_allclose(together, [model.logits(query, [change])[0] for change in changes], atol=1e-5)
    assert model.steps.score_many is not None


def test_added_events_are_found_as_neighbours(data):
    model = wrapped(made("tgat"), data, batch=1)
    query = model.graph.query(150)
    graph = model.graph.imagine([cody.Add(query.src, 3, query.time - 1)])
    without, added = model.on(graph).logits(query, [frozenset(), frozenset({graph.num_events})])
    assert without == pytest.approx(model.logits(query, [frozenset()])[0], abs=1e-5)
    assert abs(added - without) > 1e-4


def test_parts_of_the_data_are_those_of_its_split(data):
    """A loader for each part begins a new batch there."""
    assert wrapped(made("tgat"), data, splits=None).grid.splits == tuple(
        np.cumsum([len(part.edge_index) for part in data.split()])[:-1]
    )


def test_identities_tell_weights_and_batches_apart(data):
    case, other = made("tgat"), made("tgat")
    assert wrapped(case, data).identity == wrapped(other, data).identity
    assert wrapped(case, data).identity != wrapped(case, data, batch=7).identity
    with torch.no_grad():
        next(other.modules[1].parameters()).add_(1)
    assert wrapped(case, data).identity != wrapped(other, data).identity


def random_walks():
    walks = tgm_models.RandomProjectionModule(14, 2, 1e-3, 0.0, use_matrix=False, enforce_dim=4)
    return walks, lambda walks: walks.reset_random_projections(), lambda batch, walks: walks.update(*_ends(batch))


def _ends(batch):
    return batch.edge_src, batch.edge_dst, batch.edge_time


def test_a_state_that_starts_at_random_is_refused(data):
    walks, start, update = random_walks()
    with pytest.raises(ModelError, match="reset_zero=False"):
        tgm.wrap(lambda batch, walks: walks(*_ends(batch)[:2]).sum(1), [walks], data=data, start=start, update=update)


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"data": "events.csv"}, "data must be a DGData or a graph of cody.load, not 'events.csv'"),
        ({"hooks": [tgm_models.NeighborSamplerHook([3], ["edge_src"], ["edge_time"])]}, "at random"),
        ({"hooks": [len]}, "hooks are those of TGM"),
        ({"score": "decoder"}, "score is a function of a batch and the modules, not 'decoder'"),
        ({"update": 3}, "update is a function, not 3"),
    ],
)
def test_bad_arguments_are_named(changed, message, data):
    arguments = {"score": lambda batch: 0.0, "modules": [], "data": data} | changed
    with pytest.raises(CallError, match=message):
        tgm.wrap(**arguments)


def test_a_score_for_each_link_and_known_columns_are_needed(data):
    with pytest.raises(ModelError, match="one number for each"):
        tgm.wrap(lambda batch: torch.zeros(3), [], data=data)
    with pytest.raises(AttributeError, match="which hook makes it"):
        tgm.wrap(lambda batch: batch.nbr_nids[0].sum(1), [], data=data)


def test_graphs_with_times_that_tgm_cannot_count_are_refused():
    graph = cody.TemporalGraph.from_arrays([0, 1], [1, 2], [0.5, 3.0])
    with pytest.raises(CallError, match="whole numbers"):
        tgm.wrap(lambda batch: 0.0, [], data=graph)


class Remembering:
    """A hook that keeps what it was last called with, and a function with a cache."""

    requires, produces = frozenset(), {"fed"}

    def __init__(self):
        self.last, self.scaled = None, cache(lambda number: number / 100)

    def __call__(self, dg, batch):
        self.last = dg
        batch.fed = self.scaled(dg.num_nodes) + batch.edge_src / 10

    def reset_state(self):
        self.last = None


def test_a_hook_may_keep_what_it_is_called_with(data):
    model = tgm.wrap(lambda batch: batch.fed, [], data=data, hooks=[Remembering()], batch=20, splits=())
    query, change = model.graph.query(100), frozenset({3})
    (score,) = model.logits(query, [change])
    assert score == pytest.approx(model.reference(query, change, full=True).logits(query, [change])[0], abs=1e-5)


def test_long_linked_states_are_copied_without_recursion():
    case = made("edgebank")
    rows = torch.arange(3000)
    (bank,) = case.modules
    bank.update(rows % 50, rows % 7, rows)
    (copy,) = copied_state([bank])
    assert copy.memory == bank.memory
    assert copy._head is not bank._head
    bank.update(torch.tensor([60]), torch.tensor([61]), torch.tensor([9000]))
    assert (60, 61) not in copy.memory
