"""Saving a graph and opening it again."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cody.data import open_graph, save_graph, storage
from cody.errors import DataError
from cody.graph import TemporalGraph

COLUMNS = ("src", "dst", "time", "features", "node_features", "names", "offsets", "incidence")


def small_graph() -> TemporalGraph:
    return TemporalGraph.from_arrays(
        [0, 1, 1], [1, 2, 1], [1, 2, 2], features=[[1.5], [2], [3]], node_features=np.eye(4), names=["ä", "b", "c", "d"]
    )


@pytest.fixture
def saved(tmp_path: Path) -> Path:
    return save_graph(small_graph(), tmp_path / "graph")


def assert_same(one: TemporalGraph, other: TemporalGraph) -> None:
    assert one.identity == other.identity
    for name in COLUMNS:
        expected, actual = getattr(one, name), getattr(other, name)
        assert (expected is None) == (actual is None), name
        if expected is not None:
            assert expected.dtype == actual.dtype, name
            np.testing.assert_array_equal(expected, actual)


def test_a_saved_graph_opens_as_it_was_and_cannot_be_written(saved: Path) -> None:
    opened = open_graph(saved)
    assert_same(small_graph(), opened)
    assert not opened.src.flags.writeable
    assert json.loads((saved / "graph.json").read_text())["schema"] == "cody/graph/1"
    assert [file.name for file in saved.parent.iterdir()] == ["graph"]


@settings(max_examples=25)
@given(
    st.lists(st.tuples(st.integers(0, 5), st.integers(0, 5)), min_size=1, max_size=8),
    st.booleans(),
    st.one_of(st.none(), st.just(range(10, 16)), st.just("abcdef")),
)
def test_every_graph_survives_the_round_trip(
    tmp_path_factory: pytest.TempPathFactory, events: list[tuple[int, int]], featured: bool, names: object
) -> None:
    src, dst = zip(*events, strict=True)
    graph = TemporalGraph.from_arrays(
        src,
        dst,
        np.arange(len(src)),
        features=np.ones((len(src), 2)) if featured else None,
        names=None if names is None else list(names),  # type: ignore[call-overload]
        num_nodes=6,
    )
    folder = tmp_path_factory.mktemp("saved") / "graph"
    assert_same(graph, open_graph(save_graph(graph, folder)))


def test_saving_again_replaces_the_graph_even_by_itself(saved: Path) -> None:
    save_graph(open_graph(saved), saved)
    assert_same(small_graph(), open_graph(saved))
    other = TemporalGraph.from_arrays([0], [1], [1.0])
    save_graph(other, saved)
    assert_same(other, open_graph(saved))
    assert [file.name for file in saved.parent.iterdir()] == ["graph"]


def test_what_is_not_a_saved_graph_is_not_overwritten(tmp_path: Path) -> None:
    (tmp_path / "thesis").mkdir()
    (tmp_path / "thesis" / "chapter.txt").write_text("years of work")
    for target in (tmp_path / "thesis", tmp_path / "thesis" / "chapter.txt"):
        with pytest.raises(DataError, match="is not a saved graph; choose another folder"):
            save_graph(small_graph(), target)
    assert (tmp_path / "thesis" / "chapter.txt").read_text() == "years of work"


def test_an_interrupted_save_leaves_the_old_graph_and_nothing_else(
    saved: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(storage.json, "dumps", interrupted)
    with pytest.raises(KeyboardInterrupt):
        save_graph(TemporalGraph.from_arrays([0], [1], [1.0]), saved)
    with pytest.raises(KeyboardInterrupt):
        save_graph(small_graph(), saved.parent / "new")
    assert [file.name for file in saved.parent.iterdir()] == ["graph"]
    assert_same(small_graph(), open_graph(saved))


def test_a_full_disk_is_one_clear_error(saved: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object, **__: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(np, "save", full)
    with pytest.raises(DataError, match=r"could not be saved as .*new: No space left"):
        save_graph(small_graph(), saved.parent / "new")
    assert [file.name for file in saved.parent.iterdir()] == ["graph"]


def cut(file: Path) -> None:
    file.write_bytes(file.read_bytes()[:-1])


def empty(file: Path) -> None:
    file.write_bytes(b"")


def foreign(file: Path) -> None:
    file.write_bytes(b"GIF89a" * 100)


def pickled(file: Path) -> None:
    np.save(file, np.array([{}, {}], dtype=object), allow_pickle=True)


def longer(file: Path) -> None:
    np.save(file, np.zeros(99, dtype=np.int32))


@pytest.mark.parametrize("damage", [Path.unlink, cut, empty, foreign, pickled, longer])
@pytest.mark.parametrize("name", ["src", "incidence", "names"])
def test_a_damaged_column_is_named(saved: Path, name: str, damage: object) -> None:
    damage(saved / f"{name}.npy")  # type: ignore[operator]
    with pytest.raises(DataError, match=rf"graph/{name}\.npy (is|holds)"):
        open_graph(saved)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"schema": "cody/graph/2"}, "'cody/graph/2', this version of cody reads 'cody/graph/1'; update cody"),
        ({"schema": "other/thing/1"}, "is not a saved graph"),
        ({"columns": {}}, "does not describe the columns"),
        ({"columns": []}, "does not describe the columns"),
        ({"nodes": 5}, "rows instead of"),
    ],
)
def test_a_strange_description_is_refused(saved: Path, change: dict[str, object], message: str) -> None:
    file = saved / "graph.json"
    file.write_text(json.dumps(json.loads(file.read_text()) | change))
    with pytest.raises(DataError, match=message):
        open_graph(saved)


@pytest.mark.parametrize("text", ["", "{", "[]", "3", '{"schema": "cody/graph/1"}', "\udcff"])
def test_broken_json_is_named(saved: Path, text: str) -> None:
    (saved / "graph.json").write_bytes(text.encode("utf-8", "surrogateescape"))
    with pytest.raises(DataError, match=r"graph/graph\.json is damaged"):
        open_graph(saved)


def test_a_folder_without_description_is_not_a_graph(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"is not a saved graph: there is no graph\.json"):
        open_graph(tmp_path)
