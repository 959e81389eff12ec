"""Saving a graph and opening it again."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cody.data import load, open_graph, save_graph, storage, verify_graph
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
        ({"nodes": "x"}, "does not describe the columns"),
        ({"nodes": True}, "does not describe the columns"),
        ({"events": 3.0}, "does not describe the columns"),
        ({"events": None}, "does not describe the columns"),
        ({"identity": 7}, "does not describe the columns"),
        ({"columns": {name: [] for name in COLUMNS}}, "does not describe the columns"),
        ({"columns": {name: {} for name in COLUMNS}}, "the files do not belong together"),
        ({"schema": ["x"]}, "is not a saved graph"),
    ],
)
def test_a_strange_description_is_refused(saved: Path, change: dict[str, object], message: str) -> None:
    file = saved / "graph.json"
    file.write_text(json.dumps(json.loads(file.read_text()) | change))
    with pytest.raises(DataError, match=message):
        open_graph(saved)


def replace_column(folder: Path, name: str, column: np.ndarray) -> None:
    """Put another column there, and say so in the description."""
    np.save(folder / f"{name}.npy", column)
    description = json.loads((folder / "graph.json").read_text())
    description["columns"][name] = {"dtype": column.dtype.str, "shape": list(column.shape)}
    (folder / "graph.json").write_text(json.dumps(description))


@pytest.mark.parametrize(
    ("name", "values"),
    [
        ("src", [0, 1, 4]),
        ("dst", [-1, 2, 1]),
        ("time", [1, 2, np.nan]),
        ("time", [3, 2, 2]),
        ("offsets", [1, 1, 4, 5, 5]),
        ("offsets", [0, 1, 4, 5, 6]),
        ("offsets", [0, 4, 1, 5, 5]),
        ("incidence", [0, 0, 1, 2, 3]),
        ("incidence", [0, 0, -1, 2, 1]),
        ("features", [[1], [np.inf], [2]]),
        ("node_features", np.eye(4) * np.nan),
    ],
)
def test_values_that_no_graph_has_are_found_when_it_is_opened(saved: Path, name: str, values: object) -> None:
    replace_column(saved, name, np.array(values, dtype=storage.COLUMN_TYPES[name]))
    with pytest.raises(DataError, match=rf"graph/{name}\.npy is damaged"):
        open_graph(saved)


def test_columns_of_a_strange_shape_are_refused(saved: Path) -> None:
    for name in ("src", "names", "features"):
        column = np.zeros((), dtype=storage.COLUMN_TYPES[name] or "<i8")
        replace_column(saved, name, column)
        with pytest.raises(DataError, match=rf"graph/{name}\.npy has the shape \(\)"):
            open_graph(saved)
        save_graph(small_graph(), saved)


def test_damage_between_the_samples_is_found_by_verifying(tmp_path: Path) -> None:
    rows = np.arange(1_000)
    saved = save_graph(TemporalGraph.from_arrays(rows, rows, rows), tmp_path / "graph")
    verify_graph(open_graph(saved))
    damaged = np.array(open_graph(saved).src)
    damaged[1] = 7
    np.save(saved / "src.npy", damaged)
    with pytest.raises(DataError, match="changed or damaged"):
        verify_graph(open_graph(saved))


def killed_between_renames(folder: Path) -> None:
    """As a save leaves it that was killed at the worst moment."""
    folder.rename(folder.with_name(f".{folder.name}.0123abcd.old"))
    folder.with_name(f".{folder.name}.0123abcd.partial").mkdir()


@pytest.mark.parametrize("again", [open_graph, load, lambda folder: load(str(folder))])
def test_a_save_killed_between_its_renames_loses_nothing(saved: Path, again: Callable[[Path], TemporalGraph]) -> None:
    killed_between_renames(saved)
    assert_same(small_graph(), again(saved))
    killed_between_renames(saved.rename(saved.with_name("g [1].x")))
    assert_same(small_graph(), again(saved.with_name("g [1].x")))


def test_saving_again_clears_up_after_a_killed_save(saved: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    killed_between_renames(saved)
    monkeypatch.setattr(storage, "STALE", -1.0)
    save_graph(TemporalGraph.from_arrays([0], [1], [1.0]), saved)
    assert [file.name for file in saved.parent.iterdir()] == ["graph"]


def test_what_may_be_in_use_or_is_not_ours_is_not_cleared_up(saved: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    names = ("graph.0123abcd", "graph.4567abcd", "other.0123abcd")
    fresh, foreign, other = (saved.with_name(f".{name}.partial") for name in names)
    for folder in (fresh, foreign, other):
        folder.mkdir()
    (foreign / "thesis.txt").write_text("years of work")
    open_graph(saved)
    assert fresh.exists()
    monkeypatch.setattr(storage, "STALE", -1.0)
    open_graph(saved)
    assert [fresh.exists(), foreign.exists(), other.exists()] == [False, True, True]


def test_a_rename_that_fails_leaves_the_old_graph(saved: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rename = Path.rename

    def failing(self: Path, target: Path) -> Path:
        if self.suffix == ".partial":
            raise OSError(5, "Input/output error")
        return rename(self, target)

    monkeypatch.setattr(Path, "rename", failing)
    with pytest.raises(DataError, match="Input/output error"):
        save_graph(TemporalGraph.from_arrays([0], [1], [1.0]), saved)
    assert_same(small_graph(), open_graph(saved))


def test_a_link_to_a_graph_stays_and_what_it_points_to_is_replaced(saved: Path) -> None:
    link = saved.with_name("link")
    link.symlink_to("graph")
    other = TemporalGraph.from_arrays([0], [1], [1.0])
    assert save_graph(other, link) == link
    assert link.is_symlink()
    assert_same(other, open_graph(saved))


def test_a_roundabout_path_is_the_folder_it_leads_to(saved: Path) -> None:
    (saved.parent / "x").mkdir()
    other = TemporalGraph.from_arrays([0], [1], [1.0])
    save_graph(other, saved.parent / "x" / ".." / "graph")
    assert_same(other, open_graph(saved))
    with pytest.raises(DataError, match="is not a saved graph; choose another folder"):
        save_graph(other, saved / "..")


def test_the_working_directory_is_not_replaced(saved: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(saved)
    with pytest.raises(DataError, match="graph is the working directory, which cannot be replaced"):
        save_graph(TemporalGraph.from_arrays([0], [1], [1.0]), ".")
    assert_same(small_graph(), open_graph("."))


def test_links_in_a_circle_are_one_clear_error(tmp_path: Path) -> None:
    (tmp_path / "a").symlink_to("a")
    with pytest.raises(DataError, match="could not be saved"):
        save_graph(small_graph(), tmp_path / "a")


@pytest.mark.parametrize("text", ["", "{", "[]", "3", '{"schema": "cody/graph/1"}', "\udcff"])
def test_broken_json_is_named(saved: Path, text: str) -> None:
    (saved / "graph.json").write_bytes(text.encode("utf-8", "surrogateescape"))
    with pytest.raises(DataError, match=r"graph/graph\.json is damaged"):
        open_graph(saved)


def test_a_folder_without_description_is_not_a_graph(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"is not a saved graph: there is no graph\.json"):
        open_graph(tmp_path)
