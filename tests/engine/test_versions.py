"""The table of memory versions: used again, never stale, and damage that changes no answer."""

import gc
import multiprocessing
import os
import shutil
import time
import tracemalloc

import numpy as np
import pytest
import torch

from cody.engine import FastTGN, Replay, fast_model, load_model, versions
from cody.engine import tgn as engine
from cody.errors import ModelError
from cody.graph import TemporalGraph
from cody.train.checkpoint import Checkpoint, save_model
from random_events import random_graph, random_network

in_each_form = pytest.mark.usefixtures("form")
SETS = [frozenset(), frozenset({250, 270}), frozenset({40, 41, 120})]


@pytest.fixture
def tgn():
    graph = random_graph(np.random.default_rng(4), nodes=20, events=300, edge_features=2)
    return graph, random_network(graph, "tgn", batch=32)


def count_builds(monkeypatch):
    built = []
    build = versions.build_versions
    monkeypatch.setattr(versions, "build_versions", lambda *arguments: built.append(1) or build(*arguments))
    return built


def only_file(folder):
    (file,) = folder.iterdir()
    return file


def test_a_saved_table_is_used_again_and_is_memory_mapped(tgn, tmp_path, monkeypatch):
    graph, network = tgn
    built = count_builds(monkeypatch)
    first = FastTGN(network, graph, folder=tmp_path)
    again = FastTGN(network, graph, folder=tmp_path)
    assert len(built) == 1
    assert isinstance(again.table.words.base, np.memmap)
    np.testing.assert_array_equal(first.logits(graph.query(280), SETS), again.logits(graph.query(280), SETS))
    assert only_file(tmp_path).suffix == ".versions"


@pytest.mark.parametrize("change", ["weights", "data", "grid", "dtype", "truncated", "empty", "gone"])
def test_a_table_of_something_else_or_of_another_size_is_not_used(tgn, tmp_path, monkeypatch, change):
    graph, network = tgn
    FastTGN(network, graph, folder=tmp_path)
    dtype, table = np.float32, only_file(tmp_path)
    if change == "weights":
        with torch.no_grad():
            network.memory.weight_hh[0, 0] += 0.1
    elif change == "data":
        graph = graph.select(np.arange(299))
    elif change == "grid":
        network = random_network(graph, "tgn", batch=31)
    elif change == "dtype":
        dtype = np.float64
    elif change == "gone":
        table.unlink()
    else:
        table.write_bytes(table.read_bytes()[: 5000 if change == "truncated" else 0])
    built = count_builds(monkeypatch)
    model = FastTGN(network, graph, folder=tmp_path, table_dtype=dtype)
    assert len(built) == 1
    expected = Replay(network, graph, dtype=dtype).logits(graph.query(280), SETS)
    np.testing.assert_allclose(model.logits(graph.query(280), SETS), expected, rtol=0, atol=1e-4)


def damage(table, how, rng):
    """Change a table's file. Returns its content before."""
    content = table.read_bytes()
    broken = bytearray(content)
    if how == "bit":
        place = int(rng.integers(len(broken)))
        broken[place] ^= 1 << int(rng.integers(8))
    elif how == "page":
        place = int(rng.integers(len(broken) // 4096)) * 4096
        broken[place : place + 4096] = bytes(4096)
    elif how == "zeros":
        broken[:] = bytes(len(broken))
    elif how == "swapped":
        width = len(broken) // 600
        broken[: 300 * width], broken[300 * width :] = content[300 * width :], content[: 300 * width]
    table.write_bytes(broken)
    return content


@in_each_form
@pytest.mark.parametrize("how", ["bit", "page", "zeros", "swapped"])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_a_damaged_table_changes_no_answer_and_is_repaired(tgn, tmp_path, monkeypatch, how, dtype):
    graph, network = tgn
    rng = np.random.default_rng(7)
    expected = FastTGN(network, graph, folder=tmp_path, table_dtype=dtype).logits(graph.query(280), SETS)
    table = only_file(tmp_path)
    built = count_builds(monkeypatch)
    for _ in range(20 if how in ("bit", "page") else 1):
        content = damage(table, how, rng)
        model = FastTGN(network, graph, folder=tmp_path, table_dtype=dtype)
        np.testing.assert_array_equal(model.logits(graph.query(280), SETS), expected)
        model.table.read(np.arange(600))  # what the query did not need
        assert table.read_bytes() == content
    assert not built


def test_versions_are_kept_in_double_precision_where_the_memory_amplifies_rounding(tmp_path, monkeypatch):
    graph = random_graph(np.random.default_rng(31), nodes=2, events=900)
    network = random_network(graph, "tgn", seed=31, layers=1, heads=2, dimension=24, neighbours=1, batch=1)
    query, changes = graph.query(890), [frozenset(), frozenset({500}), frozenset({850, 851})]
    expected = Replay(network, graph, dtype=np.float64).logits(query, changes)
    rounded = FastTGN(network, graph, table_dtype=np.float32).logits(query, changes)
    assert np.abs(rounded - expected).max() > 1.0, "in single precision not even the prediction is right"
    for folder in (None, tmp_path):
        model = FastTGN(network, graph, folder=folder)
        assert model.table.dtype == np.float64
        np.testing.assert_allclose(model.logits(query, changes), expected, rtol=0, atol=1e-4)
    monkeypatch.setattr(versions, "precision_for", lambda *_: pytest.fail("it was looked at again"))
    assert FastTGN(network, graph, folder=tmp_path).table.file == only_file(tmp_path)


def test_choosing_the_precision_takes_memory_for_the_first_events_not_for_all_nodes(tgn):
    graph, network = tgn
    many = TemporalGraph.from_arrays(
        graph.src, graph.dst, graph.time, features=graph.features, num_nodes=graph.num_nodes + 300_000
    )
    weights = FastTGN(network, graph).weights
    tracemalloc.start()
    try:
        assert versions.precision_for(weights, many) == versions.precision_for(weights, graph) == np.float32
        assert tracemalloc.get_traced_memory()[1] < 10 * 2**20  # of all nodes, 30 MiB
    finally:
        tracemalloc.stop()


@in_each_form
def test_a_table_that_is_damaged_while_it_is_in_use_changes_no_answer(tgn, tmp_path):
    graph, network = tgn
    model = FastTGN(network, graph, folder=tmp_path)
    expected = model.logits(graph.query(280), SETS)
    damage(only_file(tmp_path), "zeros", np.random.default_rng(0))
    model.table.words.flags.writeable = False  # as in a process that was sent it
    np.testing.assert_array_equal(model.logits(graph.query(280), SETS), expected)


@in_each_form
def test_a_table_that_is_damaged_while_a_session_is_open_changes_no_answer(tgn, tmp_path):
    """Versions that were compared with, but not yet read as parents, are read after the damage."""
    graph, network = tgn
    model, query, rng = FastTGN(network, graph, folder=tmp_path), graph.query(280), np.random.default_rng(1)
    for _ in range(30):
        rows = rng.choice(np.arange(200, 280), 12, replace=False).tolist()
        first, then = ([frozenset(rng.choice(rows, size).tolist()) for size in (1, 2, 4, 6)] for _ in range(2))
        expected, session = model.logits(query, then), model.session(query, rows)
        session.logits(first)
        content = damage(only_file(tmp_path), "zeros", rng)
        np.testing.assert_allclose(session.logits(then), expected, rtol=0, atol=1e-6)
        only_file(tmp_path).write_bytes(content)


def test_the_confirmation_notices_a_damaged_table_too(tgn, tmp_path):
    graph, network = tgn
    query, removal = graph.query(280), frozenset({270})
    expected = FastTGN(network, graph, folder=tmp_path).reference(query, removal).logits(query, [removal])
    damage(only_file(tmp_path), "zeros", np.random.default_rng(0))
    model = FastTGN(network, graph, folder=tmp_path)
    np.testing.assert_array_equal(model.reference(query, removal).logits(query, [removal]), expected)


@in_each_form
def test_a_table_that_cannot_be_written_is_repaired_for_the_process(tgn, tmp_path, monkeypatch):
    graph, network = tgn
    expected = FastTGN(network, graph, folder=tmp_path).logits(graph.query(280), SETS)
    table = only_file(tmp_path)
    damage(table, "zeros", np.random.default_rng(0))
    opened = np.memmap

    def read_only(file, *, mode, **how):
        if mode == "r+":
            raise PermissionError(file)
        return opened(file, mode=mode, **how)

    monkeypatch.setattr(np, "memmap", read_only)
    np.testing.assert_array_equal(FastTGN(network, graph, folder=tmp_path).logits(graph.query(280), SETS), expected)
    assert not any(table.read_bytes())


def test_versions_of_another_table_are_not_taken_for_its_own(tgn, tmp_path):
    graph, network = tgn
    expected = FastTGN(network, graph, folder=tmp_path / "own").logits(graph.query(280), SETS)
    FastTGN(random_network(graph, "tgn", batch=32, seed=9), graph, folder=tmp_path / "other")
    shutil.copy(only_file(tmp_path / "other"), only_file(tmp_path / "own"))
    model = FastTGN(network, graph, folder=tmp_path / "own")
    np.testing.assert_array_equal(model.logits(graph.query(280), SETS), expected)


def test_a_model_folder_cannot_carry_a_table(tgn, tmp_path, monkeypatch):
    graph, network = tgn
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    save_model(tmp_path / "model", Checkpoint(network, graph.identity))
    files = sorted((tmp_path / "model").iterdir())
    load_model(tmp_path / "model", graph)
    assert sorted((tmp_path / "model").iterdir()) == files
    assert only_file(tmp_path / "cache" / "cody" / "versions").suffix == ".versions"


@pytest.mark.parametrize("change", ["one bit", "two bits", "two words", "another row"])
def test_a_checksum_changes_with_its_words_and_their_place(change):
    rng = np.random.default_rng(3)
    words, index = rng.integers(2**32, size=(500, 7), dtype=np.uint32), np.arange(500)
    expected = versions.checksums(words, index, np.uint64(5))
    other, places = words.copy(), (np.arange(500), rng.integers(7, size=500))
    if "bit" in change:
        for _ in range(2 if change == "two bits" else 1):
            other[places] ^= np.uint32(1) << rng.integers(32, size=500, dtype=np.uint32)
            places = (places[0], (places[1] + 1) % 7)
    elif change == "two words":
        other[:, [2, 5]] = other[:, [5, 2]]
    else:
        index = index[::-1]
    assert (versions.checksums(other, index, np.uint64(5)) != expected).all()
    assert (versions.checksums(words, np.arange(500), np.uint64(6)) != expected).all()


def test_a_model_whose_memory_is_not_a_number_is_refused(tgn):
    graph, network = tgn
    with torch.no_grad():
        network.memory.weight_hh[0, 0] = float("nan")
    with pytest.raises(ModelError, match="memory is not finite after events"):
        FastTGN(network, graph)


def test_where_nothing_can_be_written_the_table_is_made_in_memory(tgn, tmp_path):
    graph, network = tgn
    (tmp_path / "file").write_text("")
    model = FastTGN(network, graph, folder=tmp_path / "file" / "below")
    expected = Replay(network, graph).logits(graph.query(280), [frozenset()])
    np.testing.assert_allclose(model.logits(graph.query(280), [frozenset()]), expected, rtol=0, atol=1e-4)


def test_a_full_disk_is_met_before_the_table_is_mapped(tgn, tmp_path, monkeypatch):
    graph, network = tgn

    def full(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "posix_fallocate", full)
    FastTGN(network, graph, folder=tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_a_table_that_fails_to_be_built_leaves_nothing(tgn, tmp_path, monkeypatch):
    graph, network = tgn
    monkeypatch.setattr(versions, "build_versions", lambda *_: (_ for _ in ()).throw(KeyboardInterrupt))
    with pytest.raises(KeyboardInterrupt):
        FastTGN(network, graph, folder=tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_leftovers_of_killed_builds_and_unused_tables_are_removed(tgn, tmp_path):
    graph, network = tgn
    for name in ("killed.partial", "unused.versions", "used.versions", "mine.npy"):
        (tmp_path / name).write_bytes(b"half of a table")
    os.utime(tmp_path / "unused.versions", (0, 0))
    FastTGN(network, graph, folder=tmp_path)
    left = {file.name for file in tmp_path.iterdir()}
    assert {"mine.npy", "used.versions"} < left
    assert len(left) == 3


def test_the_lock_of_a_build_that_was_killed_when_it_was_done_is_removed(tgn, tmp_path):
    graph, network = tgn
    FastTGN(network, graph, folder=tmp_path)
    (table,) = tmp_path.iterdir()
    table.with_suffix(".lock").touch()
    FastTGN(network, graph, folder=tmp_path)
    assert list(tmp_path.iterdir()) == [table]


def build(folder, together, done):
    torch.set_num_threads(1)
    graph = random_graph(np.random.default_rng(1), nodes=20, events=300)
    network, steps = random_network(graph, "tgn"), []
    os.posix_fallocate = slow_down(os.posix_fallocate)  # while it makes room on the disk, others come too
    together.wait(60)
    model = fast_model(network, graph, folder, watch=steps.append)
    done.put((bool(steps), model.logits(graph.query(280), [frozenset(), frozenset({279, 250})]).tolist()))


def slow_down(function):
    def slow(*arguments):
        time.sleep(0.5)
        return function(*arguments)

    return slow


def test_processes_that_build_at_once_build_one_table_and_get_the_same_answers(tmp_path):
    graph = random_graph(np.random.default_rng(1), nodes=20, events=300)
    context = multiprocessing.get_context("spawn")
    answers, together = context.Queue(), context.Barrier(3)
    workers = [context.Process(target=build, args=(tmp_path, together, answers)) for _ in range(3)]
    for worker in workers:
        worker.start()
    found = [answers.get(timeout=120) for _ in workers]
    for worker in workers:
        worker.join()
    expected = Replay(random_network(graph, "tgn"), graph).logits(
        graph.query(280), [frozenset(), frozenset({279, 250})]
    )
    for _, answer in found:
        np.testing.assert_allclose(answer, expected, rtol=0, atol=1e-4)
    assert sorted(has_built for has_built, _ in found) == [False, False, True]
    assert only_file(tmp_path).suffix == ".versions"


@in_each_form
def test_the_cached_values_of_a_query_are_freed_at_once(tgn):
    graph, network = tgn
    for model in (FastTGN(network, graph), FastTGN(random_network(graph, "tgn", layers=1), graph)):
        gc.disable()
        try:
            session = model.session(graph.query(280))
            session.logits(SETS)
            gc.collect()
            gc.set_debug(gc.DEBUG_SAVEALL)  # what only the collector could free is in gc.garbage afterwards
            del session
            gc.collect()
            assert [thing for thing in gc.garbage if type(thing).__module__.startswith("cody.")] == []
        finally:
            gc.set_debug(0)
            gc.garbage.clear()
            gc.enable()


@in_each_form
def test_an_answer_does_not_depend_on_what_else_a_session_may_be_asked(tgn, monkeypatch):
    """A version is the same number whether it was read from the table or computed, unless the history is long."""
    monkeypatch.setattr(engine, "MANY_VERSIONS", 10**9)
    graph, network = tgn
    model = FastTGN(network, graph)
    for row in (250, 280, 299):
        few, many = model.session(graph.query(row), []), model.session(graph.query(row), range(row))
        np.testing.assert_allclose(few.logits(SETS), many.logits(SETS), rtol=0, atol=1e-12)


def test_building_a_table_says_how_far_it_is(tgn, tmp_path):
    graph, network = tgn
    said: list[int] = []
    fast_model(network, graph, tmp_path, watch=said.append)
    assert said[-1] == graph.num_events
    assert said == sorted(said)
    fast_model(network, graph, tmp_path, watch=lambda events: pytest.fail("it is there already"))


def test_tables_beyond_a_total_size_go_the_least_recently_used_first(tmp_path, monkeypatch):
    graphs = [random_graph(np.random.default_rng(seed)) for seed in range(4)]
    network = random_network(graphs[0], "tgn")
    made = [fast_model(network, graph, tmp_path).table.file for graph in graphs[:3]]
    for number, file in enumerate(made):
        os.utime(file, (time.time() - 1000 + number, time.time() - 1000 + number))
    fast_model(network, graphs[0], tmp_path)  # used again
    monkeypatch.setattr(versions, "MOST_KEPT", 3 * made[0].stat().st_size)
    newest = fast_model(network, graphs[3], tmp_path).table.file
    assert sorted(tmp_path.glob("*.versions")) == sorted([made[0], made[2], newest])
    monkeypatch.setattr(versions, "MOST_KEPT", 1)
    only = fast_model(network, random_graph(np.random.default_rng(9)), tmp_path).table.file
    assert list(tmp_path.glob("*.versions")) == [only]
