"""The prediction that is explained is the one that a user's own test loop makes."""

import json

import numpy as np
import pytest
import torch
from click.testing import CliRunner
from torch_geometric.loader import TemporalDataLoader
from torch_geometric.nn.models.tgn import LastNeighborLoader

import cody
from adapters.pyg_models import random_tgn
from adapters.test_pyg import wrapped
from adapters.test_pyg_folder import FED, parts
from cody import Add, Move, TemporalGraph
from cody.adapters import from_steps, pyg
from cody.adapters.pyg_folder import import_pyg
from cody.adapters.sourced import SourcedModel
from cody.cli import app
from cody.data import save_graph
from cody.errors import CallError
from cody.explaining.what_if import effects
from cody.graph.grid import Grid, make_grid, usual_splits
from cody.models import check_model
from cody.models.contract import as_seen
from cody.study import cases
from cody.study.record import Record
from cody.study.record_file import iterate_records
from random_events import random_graph

BATCH, NEIGHBOURS = 7, 20
LOOP = {
    "batch": BATCH,
    "neighbours": NEIGHBOURS,
    "splits": None,
    "sees_own_batch": False,
}  # as in the library's example


@torch.no_grad()
def scores_of_the_loop(tgn, data):
    """The logit of every event, as the library's example scores them: a loader for each part, updates afterwards."""
    memory, gnn, link_predictor = tgn
    memory.eval()
    memory.reset_state()
    neighbours = LastNeighborLoader(memory.num_nodes, NEIGHBOURS)
    place = torch.empty(memory.num_nodes, dtype=torch.long)
    scores = []
    for part in data.train_val_test_split(val_ratio=0.15, test_ratio=0.15):
        for batch in TemporalDataLoader(part, batch_size=BATCH):
            n_id, edge_index, e_id = neighbours(torch.cat([batch.src, batch.dst]).unique())
            place[n_id] = torch.arange(len(n_id))
            z, last_update = memory(n_id)
            z = gnn(z, last_update, edge_index, data.t[e_id], data.msg[e_id])
            scores += link_predictor(z[place[batch.src]], z[place[batch.dst]]).flatten().tolist()
            memory.update_state(batch.src, batch.dst, batch.t, batch.msg)
            neighbours.insert(batch.src, batch.dst)
    return np.array(scores)


@pytest.fixture
def loop():
    graph = random_graph(np.random.default_rng(5), edge_features=2)
    tgn, data = random_tgn(graph)
    return graph, tgn, data


@pytest.mark.parametrize("fast", [True, False])
def test_by_default_a_link_gets_the_score_of_the_librarys_own_loop(loop, fast):
    _, tgn, data = loop
    expected = scores_of_the_loop(tgn, data)
    model = pyg.wrap(**tgn._asdict(), data=data, batch=BATCH, neighbours=NEIGHBOURS, fast=fast)
    graph = model.graph
    scores = [model.logits(graph.query(row), [frozenset()])[0] for row in range(graph.num_events)]
    np.testing.assert_allclose(scores, expected, atol=1e-5)
    for other in ({"splits": ()}, {"sees_own_batch": True}):  # each of the two is needed
        differs = wrapped(tgn, data, **{**LOOP, **other, "fast": fast})
        scores = [differs.logits(graph.query(row), [frozenset()])[0] for row in range(graph.num_events)]
        assert np.abs(scores - expected).max() > 1e-2


@pytest.mark.parametrize("seed", range(6))
def test_the_fast_path_agrees_with_replay_whatever_the_batches_are(seed):
    rng = np.random.default_rng(seed)
    graph = random_graph(rng, edge_features=2, ties=seed % 2 > 0)
    tgn, _ = random_tgn(graph, seed)
    splits = rng.integers(1, graph.num_events, 3).tolist()
    options = {**LOOP, "splits": splits, "sees_own_batch": seed % 3 == 0, "batch": int(rng.integers(3, 12))}
    options["neighbours"] = 4
    fast, slow = wrapped(tgn, graph, **options), wrapped(tgn, graph, **options, fast=False)
    assert isinstance(fast, SourcedModel)
    edits = [Add(0, 1, float(graph.time[30])), Move(20, float(graph.time[40])), Add(2, 3, float(graph.time[-1]))]
    longer = graph.imagine(edits)
    fast, slow = fast.on(longer), slow.on(longer)
    for row in [*rng.integers(1, graph.num_events, 4).tolist(), graph.num_events]:
        query = graph.link(0, 1, graph.time[-1] + 1) if row == graph.num_events else graph.query(row)
        changes = [frozenset(rng.choice(longer.num_rows, size, replace=False).tolist()) for size in (0, 1, 4, 9)]
        expected = [slow.reference(query, change, full=True).logits(query, [change])[0] for change in changes]
        np.testing.assert_allclose(slow.logits(query, changes), expected, atol=1e-5)
        np.testing.assert_allclose(fast.logits(query, changes), expected, atol=1e-5)
        judged = [fast.reference(query, change).logits(query, [change])[0] for change in changes]
        np.testing.assert_allclose(judged, expected, atol=1e-5)


def test_a_link_after_the_last_event_sees_everything(loop):
    graph, tgn, _ = loop
    model = wrapped(tgn, graph, **LOOP)
    query = graph.link(int(graph.src[-1]), int(graph.dst[-1]), graph.time[-1] + 1)
    assert model.sees_before(query) == graph.num_events == query.before
    last = frozenset({graph.num_events - 1})
    assert abs(np.diff(model.logits(query, [frozenset(), last]))[0]) > 1e-6


def test_events_of_the_links_own_batch_are_no_candidates_and_change_nothing(loop):
    graph, tgn, _ = loop
    model = wrapped(tgn, graph, **LOOP)
    for row in range(30, graph.num_events):
        query = graph.query(row)
        line = model.sees_before(query)
        assert model.grid.number(line) == model.grid.number(row)
        assert line <= row
        unseen = frozenset(range(line, row))
        assert np.ptp(model.logits(query, [frozenset(), unseen])) < 1e-6
    why = cody.explain(
        model, graph, graph.query(row), edits=(cody.search.proposals.removals, cody.search.proposals.additions)
    )
    assert why.candidates
    assert all(event.time <= graph.time[line] for event in why.candidates)
    assert all(event.row < line for event in why.candidates if event.row < graph.num_events)
    near = effects(model, graph, graph.query(row)).candidates
    assert near.max() < line


def test_what_a_model_sees_is_checked(loop):
    graph, tgn, _ = loop
    model = wrapped(tgn, graph, **LOOP)
    assert not check_model(model, graph, seconds=20.0).failures
    model.sees_before = lambda query: 0  # says that it sees nothing, and does
    assert "later" in {failure.name for failure in check_model(model, graph, quick=True).failures}


def test_a_folder_keeps_how_the_model_is_fed(loop, tmp_path):
    graph, tgn, _ = loop
    torch.save(parts(tgn), tmp_path / "tgn.pt")
    for name, options in (("a", {}), ("b", {"splits": [11, 30], "sees_own_batch": True})):
        import_pyg(tmp_path / "tgn.pt", graph, tmp_path / name, **FED, **options)
        expected = wrapped(tgn, graph, **{**LOOP, "neighbours": 5, **options})
        model = cody.load_model(tmp_path / name, graph)
        for row in (25, 33, 60):
            changes = [frozenset(), frozenset({row - 1, 20})]
            query = graph.query(row)
            np.testing.assert_allclose(model.logits(query, changes), expected.logits(query, changes), atol=1e-6)


def test_a_folder_of_the_version_before_answers_as_it_did(loop, tmp_path):
    graph, tgn, _ = loop
    torch.save(parts(tgn), tmp_path / "tgn.pt")
    import_pyg(tmp_path / "tgn.pt", graph, tmp_path / "old", **FED, splits=(), sees_own_batch=True)
    file = tmp_path / "old" / "model.json"
    document = json.loads(file.read_text())
    for name in ("splits", "sees_own_batch"):
        del document["sizes"][name]
    document.pop("checksum", None)
    file.write_text(json.dumps(document))
    model = cody.load_model(tmp_path / "old", graph)
    assert model.sees_before(graph.query(33)) == 33
    assert model.grid == Grid(7)


def test_the_command_line_imports_and_keeps_the_options(loop, tmp_path):
    graph, tgn, _ = loop
    torch.save(parts(tgn), tmp_path / "tgn.pt")
    save_graph(graph, tmp_path / "events")
    command = ["import-model", str(tmp_path / "tgn.pt"), "--from", "pyg", "--data", str(tmp_path / "events")]
    command += ["--heads", "2", "--neighbours", "5", "--batch", "7"]
    given = {"usual": [], "none": ["--splits", "none", "--sees-own-batch"], "two": ["--splits", "9,50"]}
    for name, more in given.items():
        done = CliRunner().invoke(app, [*command, "--out", str(tmp_path / name), *more])
        assert done.exit_code == 0, done.output
    models = {name: cody.load_model(tmp_path / name, graph) for name in ("usual", "none", "two")}
    assert models["usual"].grid.splits == usual_splits(graph)
    assert models["none"].grid.splits == ()
    assert models["none"].sees_before(graph.query(33)) == 33
    assert models["two"].grid.splits == (9, 50)
    assert models["two"].sees_before(graph.query(33)) == 30
    original = [*command, "--from", "tgn-original", "--layers", "1", "--splits", "3", "--out", "x"]
    assert "--splits is for --from pyg" in str(CliRunner().invoke(app, original).exception)


def test_an_evaluation_and_a_survey_have_the_candidates_that_the_model_sees(loop, tmp_path, monkeypatch):
    graph, tgn, _ = loop
    torch.save(parts(tgn), tmp_path / "tgn.pt")
    import_pyg(tmp_path / "tgn.pt", graph, tmp_path / "mine", **FED)
    save_graph(graph, tmp_path / "events")
    monkeypatch.chdir(tmp_path)
    command = ["evaluate", "--data", "events", "--model", "mine", "--instances", "3", "--explainers", "scout"]
    done = CliRunner().invoke(app, [*command, "--out", "run.jsonl", "--period", "0.5..1"])
    assert done.exit_code == 0, done.output
    model, records = cody.load_model("mine", graph), list(iterate_records("run.jsonl", documents=True))
    for case in cases(records, graph):
        line = model.sees_before(case.query)
        assert len(case.candidates) == case.record.candidates
        assert case.candidates.max(initial=0) < line
        assert Record.from_json(case.record.to_json()) == case.record
    done = CliRunner().invoke(app, ["survey", "--data", "events", "--model", "mine", "--instances", "2"])
    assert done.exit_code == 0, done.output


def test_the_frame_is_told_the_batches_too():
    graph = random_graph(np.random.default_rng(0))
    seen = from_steps(
        graph, score=lambda query, past: len(past.events) - 0.5, identity="counts", batch=10, splits=[25], hops=1
    )
    unseen = from_steps(
        graph,
        score=lambda query, past: len(past.events) - 0.5,
        identity="counts",
        batch=10,
        splits=[25],
        sees_own_batch=False,
        hops=1,
    )
    rows = [9, 24, 25, 34, 35, graph.num_events - 1]
    assert [int(seen.logits(graph.query(row), [frozenset()])[0] + 0.5) for row in rows] == rows
    lines = [0, 20, 25, 25, 35, 75]
    assert [int(unseen.logits(graph.query(row), [frozenset()])[0] + 0.5) for row in rows] == lines
    assert as_seen(unseen, graph, graph.query(34)).before == 25


@pytest.mark.parametrize(
    ("splits", "message"),
    [(5, "splits must be rows of events"), ([2.5], "must be a whole number"), ([-1], "-1 is negative")],
)
def test_splits_that_are_no_rows_are_refused(splits, message):
    with pytest.raises(CallError, match=message):
        make_grid(10, splits)


def test_usual_splits_are_those_of_the_library():
    rng = np.random.default_rng(0)
    for _ in range(20):
        times = np.sort(rng.integers(0, 60, 97)).astype(float)
        graph = TemporalGraph.from_arrays(rng.integers(0, 9, 97), rng.integers(0, 9, 97), times)
        _, data = random_tgn(graph)
        train, val, _ = data.train_val_test_split(0.15, 0.15)
        assert usual_splits(graph) == (len(train.src), len(train.src) + len(val.src))
