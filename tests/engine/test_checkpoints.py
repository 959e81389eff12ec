"""Tables that store some versions and compute the others are, bit for bit, those that store all."""

import logging
import os
import pickle
import shutil

import numpy as np
import pytest

from cody.engine import FastTGN, checkpoints
from cody.engine.checkpoints import MOST_COMPUTED, CheckpointedTable, open_memory_table
from cody.engine.versions import VersionTable, versions_in_memory
from cody.engine.weights import Weights
from cody.errors import CallError
from cody.graph.edits import Add
from random_events import random_graph, random_network

in_each_form = pytest.mark.usefixtures("form")
SINGLE = np.dtype(np.float32)


@pytest.fixture(autouse=True)
def chosen(monkeypatch):
    monkeypatch.setenv("CODY_TABLE", "checkpoints")


def made(seed=0, *, batch=32, events=900, features=2):
    graph = random_graph(np.random.default_rng(seed), nodes=40, events=events, edge_features=features)
    return graph, Weights.of(random_network(graph, "tgn", batch=batch)).astype(np.float64)


def opened(graph, network, folder, **how):
    table = open_memory_table(network, graph, SINGLE, folder, **how)
    assert isinstance(table, CheckpointedTable)
    return table


def only_file(folder, kind="checkpoints"):
    (file,) = folder.glob(f"*.{kind}")
    return file


@pytest.mark.parametrize(("seed", "batch"), [(0, 32), (1, 7), (2, 1), (3, 200)])
def test_every_version_is_bit_for_bit_that_of_a_whole_table(tmp_path, seed, batch):
    graph, network = made(seed, batch=batch, features=seed % 2)
    whole, table = versions_in_memory(network, graph, SINGLE), opened(graph, network, tmp_path)
    everything = np.arange(2 * graph.num_events)
    np.testing.assert_array_equal(table.read(everything), whole.read(everything))
    some = np.random.default_rng(seed).integers(0, len(everything), 50)  # in any order, some twice
    np.testing.assert_array_equal(table.read(some), whole.read(some))
    assert not table.complained


def test_few_versions_are_stored_and_few_computed_for_any(tmp_path, monkeypatch):
    graph, network = made(batch=7, events=3000)
    table, computed = opened(graph, network, tmp_path), []
    assert len(table.checkpoints) < 0.35 * 2 * graph.num_events
    assert table.nbytes < 0.6 * versions_in_memory(network, graph, SINGLE).nbytes  # at 8 dimensions; at 64: 0.36
    compute = checkpoints.next_versions
    monkeypatch.setattr(checkpoints, "next_versions", lambda *given: computed.append(len(given[2])) or compute(*given))
    most = 0
    for index in np.random.default_rng(0).integers(0, 2 * graph.num_events, 100):
        computed.clear()
        table.read(np.array([index]))
        most = max(most, sum(computed))
    assert MOST_COMPUTED // 2 < most <= 2 * MOST_COMPUTED + 1


@in_each_form
@pytest.mark.parametrize("seed", [4, 5])
def test_answers_are_those_of_a_whole_table(tmp_path, seed):
    graph, network = made(seed)
    whole = FastTGN(network, graph, table_dtype=SINGLE)
    model = FastTGN(network, graph, folder=tmp_path, table_dtype=SINGLE)
    assert isinstance(model.table, CheckpointedTable)
    rng = np.random.default_rng(seed)
    for before in (850, 899):
        sets = [frozenset(), *(frozenset(rng.integers(600, before, 3).tolist()) for _ in range(6))]
        query = graph.query(before)
        np.testing.assert_array_equal(model.logits(query, sets), whole.logits(query, sets))
        again = [each.reference(query, sets[1]).logits(query, sets[1:2]) for each in (model, whole)]
        np.testing.assert_array_equal(*again)


@in_each_form
def test_imagined_events_have_versions_in_no_table(tmp_path):
    graph, network = made(6)
    query = graph.query(880)
    longer = graph.imagine([Add(query.src, 3, float(graph.time[870])), Add(5, query.dst, float(graph.time[860]))])
    sets = [frozenset(), frozenset({900}), frozenset({901, 850}), frozenset({900, 901})]
    model = FastTGN(network, graph, folder=tmp_path, table_dtype=SINGLE)
    whole = FastTGN(network, graph, table_dtype=SINGLE)
    answers = [each.on(longer).logits(query, sets) for each in (model, whole)]
    np.testing.assert_array_equal(*answers)


class KilledError(Exception):
    pass


@pytest.mark.parametrize("at", [0, 300, 640, 899])
def test_a_build_that_is_killed_resumes_to_the_same_file(tmp_path, monkeypatch, at):
    monkeypatch.setattr(checkpoints, "EVENTS_IN_BLOCK", 128)
    graph, network = made()
    opened(graph, network, tmp_path / "whole")

    def kill(events):
        if events > at:
            raise KilledError

    with pytest.raises(KilledError):
        opened(graph, network, tmp_path / "killed", watch=kill)
    steps = []
    opened(graph, network, tmp_path / "killed", watch=steps.append)
    assert steps[0] >= at // 128 * 128, "it does not begin again"
    assert only_file(tmp_path / "killed").read_bytes() == only_file(tmp_path / "whole").read_bytes()
    assert [file.suffix for file in (tmp_path / "killed").iterdir()] == [".checkpoints"]


def test_the_lock_of_a_build_that_was_killed_when_it_was_done_is_removed(tmp_path):
    graph, network = made()
    table = opened(graph, network, tmp_path)
    table.file.with_suffix(".lock").touch()
    opened(graph, network, tmp_path)
    assert list(tmp_path.iterdir()) == [table.file]


@pytest.mark.parametrize("how", ["header", "short", "other table"])
def test_what_cannot_be_resumed_is_begun_anew(tmp_path, how):
    graph, network = made()
    table = opened(graph, network, tmp_path)
    expected, file = table.file.read_bytes(), table.file
    unfinished = file.with_suffix(".unfinished")
    file.rename(unfinished)
    if how == "header":
        unfinished.write_bytes(expected.replace(b'"rows": 900', b'"rows": 800'))
    elif how == "short":
        unfinished.write_bytes(expected[:-50])
    else:
        opened(*made(9), tmp_path)
        unfinished.write_bytes(only_file(tmp_path).read_bytes())
    opened(graph, network, tmp_path)
    assert file.read_bytes() == expected


@pytest.mark.parametrize("part", ["sums", "places", "checkpoints", "a page"])
def test_a_damaged_table_changes_no_answer(tmp_path, part, caplog):
    graph, network = made(7, events=600)
    expected = versions_in_memory(network, graph, SINGLE).read(np.arange(1200))
    file, rng = opened(graph, network, tmp_path).file, np.random.default_rng(3)
    content, layout = file.read_bytes(), checkpoints._FileSections(network, graph)
    end = {"sums": layout.places, "places": layout.places + 4 * 1200}
    first = {"sums": layout.sums, "places": layout.places}.get(part, layout.checkpoints)
    for _ in range(6):
        broken = bytearray(content)
        if part == "a page":
            broken[first : first + 4096] = bytes(4096)
        else:
            for place in rng.integers(first, end.get(part, len(content)), 3):
                broken[place] ^= 1 << int(rng.integers(8))
        file.write_bytes(broken)
        with caplog.at_level(logging.WARNING):
            np.testing.assert_array_equal(opened(graph, network, tmp_path).read(np.arange(1200)), expected)
    assert "do not have their checksums" in caplog.text


def test_a_version_that_was_rounded_in_its_company_is_computed_in_it(tmp_path, monkeypatch):
    """As where the last bits of a product depend on how many rows it has."""
    graph, network = made(8)
    compute = checkpoints.next_versions

    def rounded(network, graph, rows, own, other, updated):
        versions = compute(network, graph, rows, own, other, updated)
        return versions if len(rows) == 64 else np.nextafter(versions, SINGLE.type(2))

    table = opened(graph, network, tmp_path)
    monkeypatch.setattr(checkpoints, "next_versions", rounded)
    index = np.array([700])
    while table.places[index[0]] != -1:  # it is computed from two checkpoints
        index -= 1
    np.testing.assert_array_equal(table.read(index), versions_in_memory(network, graph, SINGLE).read(index))


def test_large_tables_have_checkpoints_and_others_are_whole(tmp_path, monkeypatch):
    graph, network = made()
    monkeypatch.delenv("CODY_TABLE")
    assert isinstance(open_memory_table(network, graph, SINGLE, tmp_path), VersionTable)
    monkeypatch.setattr(checkpoints, "WHOLE_UP_TO", 1000)
    assert isinstance(open_memory_table(network, graph, SINGLE, tmp_path), VersionTable), "it is there already"
    assert isinstance(open_memory_table(network, graph, SINGLE, tmp_path / "b"), CheckpointedTable)
    assert isinstance(open_memory_table(network, graph, np.dtype(np.float64), tmp_path / "c"), VersionTable)
    monkeypatch.setenv("CODY_TABLE", "whole")
    assert isinstance(open_memory_table(network, graph, SINGLE, tmp_path / "d"), VersionTable)
    monkeypatch.setenv("CODY_TABLE", "half")
    with pytest.raises(CallError, match="CODY_TABLE=half: give whole or checkpoints"):
        open_memory_table(network, graph, SINGLE, tmp_path)


def test_another_process_opens_the_file_or_builds_it(tmp_path):
    graph, network = made()
    table = opened(graph, network, tmp_path / "cache")
    sent = pickle.dumps(table)
    assert len(sent) < table.nbytes + 200_000
    np.testing.assert_array_equal(pickle.loads(sent).places, table.places)
    shutil.rmtree(tmp_path / "cache")  # as on a machine that does not share the disk
    np.testing.assert_array_equal(pickle.loads(sent).read(np.arange(9)), table.read(np.arange(9)))


def test_a_disk_without_room_is_one_clear_error(tmp_path, monkeypatch):
    monkeypatch.setattr(shutil, "disk_usage", lambda _: shutil._ntuple_diskusage(10, 9, 1))
    with pytest.raises(CallError, match=r"memory table of 900 events cannot be stored in .*XDG_CACHE_HOME"):
        opened(*made(), tmp_path)
    assert not list(tmp_path.iterdir())


def test_a_build_that_was_killed_long_ago_is_removed(tmp_path):
    graph, network = made()
    for name, when in (("old", 0), ("recent", None)):
        (tmp_path / f"{name}.unfinished").write_bytes(b"half of a table")
        if when is not None:
            os.utime(tmp_path / f"{name}.unfinished", (when, when))
    opened(graph, network, tmp_path)
    assert only_file(tmp_path, "unfinished").stem == "recent"
