"""The compiled form of following changes: built from its source, never a stale one, and equal to the numpy form.

`test_fast.py`, `test_imagined.py`, `test_selfcheck.py` and `test_versions.py` run in both forms.
"""

import gc
import re
import shutil
import subprocess
import sys
from functools import partial
from pathlib import Path

import numpy as np
import pytest
import torch

from cody.engine import FastTGAT, FastTGN, attention, compiled, fast, library, lineage, tgn, vectors
from cody.engine.layer import CompiledLayer, Layer
from cody.engine.lineage import Lineage
from cody.engine.masks import EditableEvents
from cody.engine.memory import PureFollow
from cody.engine.replay import Replay
from cody.engine.vectors import CompiledRows, PureRows
from cody.engine.weights import Weights
from cody.errors import BudgetError
from cody.graph import TemporalGraph, sorted_unique
from cody.graph.grid import Grid
from cody.models.sizes import Sizes
from cody.utils.deadline import until
from random_events import random_graph, random_network

ROOT = Path(__file__).parents[2]
needs_library = pytest.mark.skipif(library.library() is None, reason="the compiled library is not built")


@pytest.fixture
def model(monkeypatch):
    monkeypatch.setattr(tgn, "MANY_VERSIONS", 10**9)  # nothing is approximated
    graph = random_graph(np.random.default_rng(1), nodes=20, events=300, edge_features=2)
    return FastTGN(random_network(graph, "tgn", batch=8), graph, table_dtype=np.float64)


def some_sets(count=40):
    rng = np.random.default_rng(2)
    return [frozenset(rng.choice(280, size, replace=False).tolist()) for size in rng.integers(0, 9, count)]


def in_each_form(monkeypatch, ask):
    answers = []
    for pure in ("1", "0"):
        monkeypatch.setenv("CODY_PURE", pure)
        answers.append(ask())
    return answers


@needs_library
@pytest.mark.parametrize("dtype", [np.float32, np.float64])  # of the table
@pytest.mark.parametrize(("scale", "batch"), [(1.0, 8), (30.0, 100), (3000.0, 100)])  # gates shut or wide open
def test_both_forms_give_the_same_answers_and_compute_the_same_versions(model, monkeypatch, scale, batch, dtype):
    network = random_network(model.graph, "tgn", batch=batch)
    with torch.no_grad():
        network.memory.weight_ih.mul_(scale)
        network.memory.weight_hh.mul_(scale)
    scaled = FastTGN(network, model.graph, table_dtype=dtype)

    def ask():
        workspace = fast.QueryWorkspace(scaled, [model.graph.query(280)], range(280))
        return workspace.answer(some_sets()), workspace.inputs

    (pure, pure_inputs), (quick, quick_inputs) = in_each_form(monkeypatch, ask)
    np.testing.assert_allclose(quick, pure, rtol=0, atol=1e-9)
    assert isinstance(pure_inputs.following, PureFollow)
    assert isinstance(quick_inputs.following, compiled.CompiledFollow)
    kept, kept_by_pure = quick_inputs.store.vectors.length, pure_inputs.store.vectors.length
    assert abs(kept / kept_by_pure - 1) < 0.02  # the last bit of some may differ


@needs_library
@pytest.mark.parametrize("seed", range(12))
def test_both_forms_find_the_same_versions_and_what_they_depend_on(monkeypatch, seed):
    rng = np.random.default_rng(seed)
    graph = random_graph(rng, nodes=int(rng.integers(2, 30)), events=300, ties=bool(seed % 2))
    query = graph.query(int(rng.integers(1, 300)))
    rows = rng.choice(query.before, min(query.before, int(rng.integers(0, 90))), replace=False).tolist()
    nodes = sorted_unique(rng.integers(0, graph.num_nodes, 5))
    editable = EditableEvents(graph, query, rows)
    used, loaded = [], library.library()
    for name in ("lineage_columns", "lineage_depend"):
        form = getattr(loaded, name)
        monkeypatch.setattr(loaded, name, lambda *given, name=name, form=form: used.append(name) or form(*given))
    pure, quick = in_each_form(
        monkeypatch, partial(Lineage.of, graph, Grid((1, 7, 50)[seed % 3]), query, editable, nodes)
    )
    assert used == ["lineage_columns", "lineage_depend"]
    for column in ("index", "own", "other", "previous", "bit", "parents", "memory", "latest"):
        np.testing.assert_array_equal(getattr(quick, column), getattr(pure, column))
    masks = editable.masks([frozenset(rng.permutation(rows)[: number * 9].tolist()) for number in range(8)])
    latest, masks = np.repeat(quick.latest, len(masks)), np.tile(masks, (len(quick.latest), 1))
    kept, kept_by_pure = in_each_form(monkeypatch, lambda: quick.kept_each(latest, masks))
    np.testing.assert_array_equal(kept, kept_by_pure)
    level = np.full(len(quick.index), -1)
    for number, versions in enumerate(quick.levels):
        level[versions] = number
    assert sum(map(len, quick.levels)) == sum(map(len, pure.levels))
    for version in range(len(level)):
        children, _ = quick.children.of(np.array([version]))
        assert sorted(children) == sorted(pure.children.of(np.array([version]))[0])
        assert (level[children] > level[version]).all()


@needs_library
def test_more_versions_than_are_computed_or_remembered_at_once_give_the_same_answers(model, monkeypatch):
    expected = model.logits(model.graph.query(280), some_sets())
    monkeypatch.setattr(compiled, "AT_ONCE", 3)
    monkeypatch.setattr(compiled, "PRODUCTS_KEPT", 5)
    monkeypatch.setattr(compiled, "EVENT_NUMBERS", 0)
    np.testing.assert_allclose(model.logits(model.graph.query(280), some_sets()), expected, rtol=0, atol=1e-9)


@needs_library
def test_what_events_add_to_the_gates_is_computed_once_however_many_versions_there_are(model, monkeypatch):
    monkeypatch.setattr(compiled, "AT_ONCE", 8)
    monkeypatch.setattr(compiled, "PRODUCTS_KEPT", 8)
    workspace = fast.QueryWorkspace(model, [model.graph.query(280)], range(200, 280))
    workspace.answer([frozenset({row}) for row in range(200, 280)])
    events = workspace.inputs.events
    head, following, elapsed = (events.arrays[name] for name in ("head", "next", "elapsed"))
    added = []
    for version, slot in enumerate(head.tolist()):
        while slot >= 0:
            added.append((version, elapsed[slot]))
            slot = following[slot]
    assert len(added) == len(set(added)) == events.known.used > 8


@needs_library
@pytest.mark.parametrize("encoder", ["known", "unknown"])
def test_what_events_add_is_right_whoever_computes_it_and_however_long_a_node_has_rested(model, monkeypatch, encoder):
    graph = model.graph
    columns = graph.src, graph.dst, graph.time + 1e12  # nodes were never updated before
    graph = TemporalGraph.from_arrays(*columns, features=graph.features, num_nodes=graph.num_nodes)
    network = random_network(graph, "tgn", batch=8)
    expected = Replay(network, graph, dtype=np.float64).logits(graph.query(280), some_sets())
    if encoder == "unknown":
        monkeypatch.setattr(Weights, "encoder", None)
    added, add = [], compiled.EventParts.add
    monkeypatch.setattr(compiled.EventParts, "add", lambda *given: added.append(given) or add(*given))
    quick = FastTGN(network, graph, table_dtype=np.float64)
    np.testing.assert_allclose(quick.logits(graph.query(280), some_sets()), expected, rtol=0, atol=1e-9)
    assert bool(added) == (encoder == "unknown")


@needs_library
def test_estimates_and_the_exact_answers_beside_them_share_what_events_add(monkeypatch):
    monkeypatch.setattr(tgn, "MANY_VERSIONS", 0)
    graph = random_graph(np.random.default_rng(3), nodes=20, events=300, edge_features=2)
    workspace = fast.QueryWorkspace(FastTGN(random_network(graph, "tgn", batch=8), graph), [graph.query(290)], [200])
    estimated, exact = workspace.inputs, workspace.exactly.inputs
    workspace.answer([frozenset({200})])
    used = estimated.events.known.used
    assert exact.following.events is estimated.following.events
    workspace.exactly.answer([frozenset({200})])
    assert 0 < used <= estimated.events.known.used < 2 * used


@needs_library
def test_more_than_64_changes_followed_together_give_the_answers_of_each(model):
    sets = some_sets(200)
    session = model.session(model.graph.query(280), range(280))
    together = session.logits(sets)
    alone = [model.session(model.graph.query(280), range(280)).logits([change])[0] for change in sets[::20]]
    np.testing.assert_allclose(together[::20], alone, rtol=0, atol=1e-9)


@needs_library
def test_estimates_of_long_histories_share_at_least_as_much_and_move_as_little(monkeypatch):
    graph = random_graph(np.random.default_rng(3), nodes=60, events=1500)
    network = random_network(graph, "tgn", batch=8)
    with torch.no_grad():
        network.memory.weight_ih.mul_(0.3)
        network.memory.weight_hh.mul_(0.3)
    model = FastTGN(network, graph)
    changes = [frozenset({row, row + 1}) for row in range(700, 1400, 20)]

    def ask():
        workspace = fast.QueryWorkspace(model, [graph.query(1490)], sorted(frozenset().union(*changes)))
        assert not workspace.exact
        return workspace.answer(changes), workspace.inputs.store.vectors.length

    (pure, most), (quick, length) = in_each_form(monkeypatch, ask)
    np.testing.assert_allclose(quick, pure, rtol=0, atol=1e-3)
    assert length <= most


@needs_library
def test_a_deadline_stops_the_compiled_form_between_levels(model, monkeypatch):
    levels, compute = [], compiled.CompiledFollow._compute
    monkeypatch.setattr(compiled.CompiledFollow, "_compute", lambda self: levels.append(1) or compute(self))
    inputs = [fast.QueryWorkspace(model, [model.graph.query(280)], range(280)).inputs for _ in range(2)]
    masks = inputs[0].lineage.editable.masks(some_sets())
    latest = (
        np.repeat(inputs[0].lineage.latest, len(masks)),
        np.tile(np.arange(len(masks)), len(inputs[0].lineage.latest)),
    )
    inputs[0].following.follow(masks, *latest)
    assert len(levels) > 10
    levels.clear()
    with pytest.raises(BudgetError), until(0.0):
        inputs[1].following.follow(masks, *latest)
    assert not levels


@needs_library
def test_what_the_library_holds_is_freed_with_the_session(model, monkeypatch):
    closed, close = [], library.library().follow_close
    monkeypatch.setattr(library.library(), "follow_close", lambda handle: closed.append(handle) or close(handle))
    session = model.session(model.graph.query(280), range(280))
    session.logits(some_sets())
    gc.disable()
    try:
        assert closed == []
        del session
        assert len(closed) == 1
    finally:
        gc.enable()


def test_the_environment_chooses_the_numpy_form(model, monkeypatch):
    monkeypatch.setenv("CODY_PURE", "1")
    assert library.form() == "numpy"
    workspace = fast.QueryWorkspace(model, [model.graph.query(280)], [270])
    assert isinstance(workspace.inputs.following, PureFollow)


def built():
    (file,) = library.FOLDER.glob("follow.*.so")
    return file


def copy_sources(folder):
    for name in library.SOURCES:
        shutil.copy(library.FOLDER / name, folder)


@needs_library
@pytest.mark.parametrize("source", library.SOURCES)
def test_a_library_of_another_source_is_not_loaded(tmp_path, monkeypatch, source):
    copy_sources(tmp_path)
    shutil.copy(built(), tmp_path)
    monkeypatch.setattr(library, "FOLDER", tmp_path)
    assert library._library.__wrapped__() is not None
    with (tmp_path / source).open("a") as source:
        source.write("/* changed */\n")
    assert library._library.__wrapped__() is None


@pytest.mark.parametrize("broken", ["absent", "no library", "no source"])
def test_without_a_library_that_can_be_used_nothing_fails(tmp_path, monkeypatch, broken):
    if broken == "no library":
        copy_sources(tmp_path)
        (tmp_path / "follow.abi3.so").write_text("not a library")
    elif broken == "no source":
        for file in library.FOLDER.glob("follow.*.so"):
            shutil.copy(file, tmp_path)
    monkeypatch.setattr(library, "FOLDER", tmp_path)
    assert library._library.__wrapped__() is None


LOAD = """
import sys
from pathlib import Path
from cody.engine import library
library.FOLDER = Path(sys.argv[1])
print(library.form())
"""


@needs_library
@pytest.mark.parametrize("share", [0.0, 0.0001, 0.001, 0.01, 0.1, 0.5, 0.9999, 1.0])
def test_a_library_that_was_not_written_to_its_end_is_not_loaded(tmp_path, share):
    copy_sources(tmp_path)
    whole = built().read_bytes()
    (tmp_path / built().name).write_bytes(whole[: int(share * len(whole))])
    command = [sys.executable, "-c", LOAD, str(tmp_path)]  # apart, because loading it would kill
    ran = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (ran.returncode, ran.stdout.strip()) == (0, "compiled" if share == 1.0 else "numpy"), ran.stderr


STRUCTURES = [
    (compiled, "Events"),
    (compiled, "Setup"),
    (compiled, "Memories"),
    (compiled, "Missing"),
    (lineage, "Log"),
    (attention, "Source"),
]


@pytest.mark.parametrize(("module", "structure"), STRUCTURES)
def test_both_sides_mean_the_same_by_what_is_passed(module, structure):
    sources = "".join((library.FOLDER / name).read_text() for name in library.SOURCES)
    declared = next(
        body for body, name in re.findall(r"typedef struct \{(.*?)\} (\w+);", sources, re.DOTALL) if name == structure
    )
    declared = re.sub(r"/\*.*?\*/", "", declared, flags=re.DOTALL)
    lines = [line.strip() for line in declared.split(";") if line.strip()]
    names = [re.search(r"(\w+)$", part.strip())[1] for line in lines for part in line.split(",")]
    fields = getattr(module, f"_{structure}")._fields_
    assert names == [name for name, _ in fields]
    pointers = [("*" in part) for line in lines for part in line.split(",")]
    assert pointers == [kind is library.Pointer for _, kind in fields]


@pytest.mark.skipif(shutil.which("cc") is None, reason="there is no compiler")
def test_the_source_builds_where_there_is_a_compiler(tmp_path, monkeypatch):
    pytest.importorskip("setuptools")
    options = ["build_ext", "--build-lib", tmp_path, "--build-temp", tmp_path / "objects"]
    environment = {"CODY_PURE": "0", "PATH": "/usr/bin:/bin"}
    ran = subprocess.run(
        [sys.executable, "setup.py", *map(str, options)], cwd=ROOT, capture_output=True, text=True, env=environment
    )
    assert ran.returncode == 0, ran.stderr
    folder = tmp_path / "cody" / "engine"
    copy_sources(folder)
    monkeypatch.setattr(library, "FOLDER", folder)
    assert library._library.__wrapped__() is not None


def test_where_many_versions_can_change_they_are_followed_in_either_form(monkeypatch):
    graph = random_graph(np.random.default_rng(5), nodes=8, events=120)
    monkeypatch.setattr(tgn, "MANY_VERSIONS", 0)
    model = FastTGN(random_network(graph, "tgn", batch=7), graph)
    answers = in_each_form(monkeypatch, lambda: model.logits(graph.query(110), [frozenset({80, 90}), frozenset({100})]))
    np.testing.assert_allclose(*answers, rtol=0, atol=1e-3)


@needs_library
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("longest", [1e-3, 1.0, 1e4, 4e7, 1e12])  # at last, angles are too large for the library
def test_both_forms_encode_times_alike(monkeypatch, longest, dtype):
    rng = np.random.default_rng(3)
    frequency, phase = rng.uniform(-1, 1, (2, 21)).astype(np.float32)
    arrays = {"encode.frequency": frequency, "encode.phase": 10 * phase}
    weights = Weights("tgat", Sizes(dimension=21), arrays, np.dtype(dtype))
    elapsed = np.concatenate([[0.0], rng.uniform(0, longest, 50)])

    def ask():
        out = np.full((len(elapsed), 4 + 21), 7.0, dtype=dtype)
        weights.encode_into(elapsed, out[:, 4:])
        return out

    pure, quick = in_each_form(monkeypatch, ask)
    np.testing.assert_array_equal(pure[:, 4:], weights.encode(elapsed))
    np.testing.assert_allclose(quick, pure, rtol=0, atol=1e-15 if dtype == np.float64 else 1e-6)


@needs_library
@pytest.mark.parametrize("seed", range(4))
def test_both_forms_know_the_same_rows_under_masks(seed):
    rng = np.random.default_rng(seed)
    words = int(rng.integers(1, 3))
    depends = rng.integers(0, 4, (6, words)).astype(np.uint64)
    forms = [PureRows(), CompiledRows(library.library(), 1 + words)]
    for count in (0, 1, 40, 40):
        nodes, masks = rng.integers(0, 6, count), rng.integers(0, 4, (count, words)).astype(np.uint64)
        for pure, quick in zip(*(rows.find_masked(nodes, masks, depends) for rows in forms), strict=True):
            np.testing.assert_array_equal(quick, pure)


@needs_library
@pytest.mark.parametrize("kept", [3, 4096])  # products that are remembered
@pytest.mark.parametrize("features", [0, 2])
@pytest.mark.parametrize("kind", ["tgn", "tgat"])
def test_the_layers_of_both_forms_make_the_same_vectors(monkeypatch, kind, features, kept):
    monkeypatch.setattr(vectors, "PRODUCTS_KEPT", kept)
    monkeypatch.setattr(tgn, "MANY_VERSIONS", 10**9)  # nothing is approximated
    graph = random_graph(np.random.default_rng(7), nodes=40, events=400, edge_features=features)
    network = random_network(graph, kind, batch=8)
    asked = FastTGN(network, graph, table_dtype=np.float64) if kind == "tgn" else FastTGAT(network, graph)
    rng, rows = np.random.default_rng(8), np.arange(300, 390)
    some = [frozenset(rng.choice(rows, size, replace=False).tolist()) for size in rng.integers(0, 30, 300)]

    def ask():
        workspace = fast.QueryWorkspace(asked, [graph.query(390)], rows.tolist())
        answers = [answer for first in (0, 1, 5, 60) for answer in workspace.answer(some[first : 4 * first + 3])]
        return workspace.layers, np.array(answers), workspace.size

    (pure, answers, size), (quick, same, same_size) = in_each_form(monkeypatch, ask)
    assert {type(layer) for layer in pure} == {Layer}
    assert {type(layer) for layer in quick} == {CompiledLayer}
    np.testing.assert_allclose(same, answers, rtol=0, atol=1e-9)
    assert kept == 3 or same_size == size
    for one, other in zip(pure, quick, strict=True):
        np.testing.assert_array_equal(other.ids.values[: other.ids.length, 0], one.known.ids)
        count = one.vectors.length
        assert other.vectors.length == count > 10
        np.testing.assert_allclose(other.values[:count], one.values[:count], rtol=0, atol=1e-9)
    assert sum(layer.vectors.length for layer in quick) > 128  # more than are attended to at once


@needs_library
@pytest.mark.parametrize("kind", ["tgn", "tgat"])
def test_both_forms_score_links_alike(monkeypatch, kind):
    graph = random_graph(np.random.default_rng(6), nodes=12, events=200, edge_features=2)
    network = random_network(graph, kind, batch=8)
    scored = FastTGN(network, graph) if kind == "tgn" else FastTGAT(network, graph)
    queries = [graph.query(row) for row in (0, 1, 50, 50, 199)]
    pure, quick = in_each_form(monkeypatch, lambda: scored.logits_of_links(queries))
    np.testing.assert_allclose(quick, pure, rtol=0, atol=1e-9)
