"""Saving a graph and opening it again."""

from __future__ import annotations

import json
import os
import random
import stat
import subprocess
import sys
from contextlib import suppress
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cody.data import open_graph, save_graph, storage, verify_graph
from cody.errors import DataError
from cody.graph import TemporalGraph
from cody.utils import files
from cody.utils.files import file_checksum, with_checksum

COLUMNS = ("src", "dst", "time", "features", "node_features", "names", "offsets", "incidence")


def small_graph() -> TemporalGraph:
    return TemporalGraph.from_arrays(
        [0, 1, 1], [1, 2, 1], [1, 2, 2], features=[[1.5], [2], [3]], node_features=np.eye(4), names=["ä", "b", "c", "d"]
    )


def other_graph() -> TemporalGraph:
    return TemporalGraph.from_arrays([0], [1], [1.0])


@pytest.fixture
def saved(tmp_path: Path) -> Path:
    return save_graph(small_graph(), tmp_path / "graph")


def column_file(folder: Path, name: str) -> Path:
    (found,) = folder.glob(f"{name}-*.npy")
    return found


def files_of(graph: TemporalGraph) -> int:
    return 1 + sum(getattr(graph, name) is not None for name in COLUMNS)


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
    assert json.loads((saved / "graph.json").read_text())["schema"] == "cody/graph/2"
    assert [file.name for file in saved.parent.iterdir()] == ["graph"]


@settings(max_examples=25, deadline=None)
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
    opened = open_graph(saved)
    save_graph(other_graph(), saved)
    assert_same(other_graph(), open_graph(saved))
    assert_same(small_graph(), opened)
    assert [file.name for file in saved.parent.iterdir()] == ["graph"]
    assert len(list(saved.iterdir())) == files_of(other_graph())


def test_saving_again_keeps_foreign_files(saved: Path) -> None:
    folder = saved
    (folder / "model").mkdir()
    for name in ("model/model.json", "records.jsonl", "extra.npy", ".hidden"):
        (folder / name).write_text("years of work")
    save_graph(other_graph(), folder)
    assert_same(other_graph(), open_graph(folder))
    for name in ("model/model.json", "records.jsonl", "extra.npy", ".hidden"):
        assert (folder / name).read_text() == "years of work"
    assert len(list(folder.iterdir())) == files_of(other_graph()) + 4


@pytest.mark.parametrize(
    "content", ["{}", "", '{"schema": "theirs/graph/1"}', '{"a": {"schema": "cody/graph/1"}}', "[1]"]
)
def test_a_foreign_description_is_not_overwritten(tmp_path: Path, content: str) -> None:
    (tmp_path / "graph.json").write_text(content)
    (tmp_path / "thesis.tex").write_text("years of work")
    with pytest.raises(DataError, match=r"graph\.json was not written by this version of cody; choose another folder"):
        save_graph(small_graph(), tmp_path)
    assert (tmp_path / "graph.json").read_text() == content
    assert sorted(file.name for file in tmp_path.iterdir()) == ["graph.json", "thesis.tex"]


def test_a_newer_format_is_not_overwritten(saved: Path) -> None:
    describe(saved, schema="cody/graph/9")
    with pytest.raises(DataError, match="this version of cody"):
        save_graph(small_graph(), saved)


def test_a_damaged_description_is_replaced(saved: Path) -> None:
    cut(saved / "graph.json")
    cut(saved / "graph.json")
    save_graph(other_graph(), saved)
    assert_same(other_graph(), open_graph(saved))


def test_files_have_the_usual_mode(saved: Path) -> None:
    mask = os.umask(0)
    os.umask(mask)
    assert {stat.S_IMODE(file.stat().st_mode) for file in saved.iterdir()} == {0o666 & ~mask}


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

    monkeypatch.setattr(storage, "write_atomically", interrupted)
    with pytest.raises(KeyboardInterrupt):
        save_graph(other_graph(), saved)
    with pytest.raises(KeyboardInterrupt):
        save_graph(small_graph(), saved.parent / "new")
    assert [file.name for file in saved.parent.iterdir()] == ["graph"]
    assert_same(small_graph(), open_graph(saved))
    assert len(list(saved.iterdir())) == files_of(small_graph())


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
    damage(column_file(saved, name))  # type: ignore[operator]
    with pytest.raises(DataError, match=rf"graph/{name}-\w+\.npy (is|holds).*; save the graph again, or import its"):
        open_graph(saved)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"schema": "cody/graph/1"}, "reads 'cody/graph/2': CoDy 0.2 can read it"),
        ({"schema": "cody/graph/3"}, "of 'cody/graph/3'; this version of CoDy reads 'cody/graph/2': upgrade it"),
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
        ({"columns": {name: {} for name in COLUMNS}}, "does not describe the columns"),
        ({"columns": {name: {"file": "../src.npy"} for name in COLUMNS}}, "does not describe the columns"),
        ({"schema": ["x"]}, "is not a saved graph"),
    ],
)
def test_a_strange_description_is_refused(saved: Path, change: dict[str, object], message: str) -> None:
    describe(saved, **change)
    with pytest.raises(DataError, match=message):
        open_graph(saved)


def describe(folder: Path, **change: object) -> None:
    """Say something else in the description, with the right checksum."""
    description = json.loads((folder / "graph.json").read_text())
    (folder / "graph.json").write_text(json.dumps(with_checksum(description | change)))


@pytest.mark.parametrize("change", [{"identity": "0" * 32}, {"nodes": 5}, {"more": 1}, {"checksum": None}])
def test_a_description_that_was_changed_is_refused(saved: Path, change: dict[str, object]) -> None:
    description = json.loads((saved / "graph.json").read_text()) | change
    (saved / "graph.json").write_text(json.dumps(description))
    with pytest.raises(DataError, match=r"graph\.json is damaged: its checksum does not match; save"):
        open_graph(saved)


@pytest.mark.parametrize("name", [*COLUMNS, "graph.json"])
def test_flipped_bits_are_refused_or_harmless(saved: Path, name: str) -> None:
    file = saved / name if name == "graph.json" else column_file(saved, name)
    whole, rng = file.read_bytes(), random.Random(0)
    for _ in range(40):
        damaged = bytearray(whole)
        damaged[rng.randrange(len(whole))] ^= 1 << rng.randrange(8)
        file.write_bytes(damaged)
        with suppress(DataError):
            assert_same(small_graph(), open_graph(saved))


class Large:
    """A folder whose graph counts as large, and how often it was read for its checksums."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.folder, self.reads = folder, Fraction(0)
        monkeypatch.setattr(storage, "QUICKLY_READ", 0)
        monkeypatch.setenv("XDG_CACHE_HOME", str(folder.parent / "cache"))
        files = len(list(folder.glob("*.npy")))

        def counted(file: Path) -> str:
            self.reads += Fraction(1, files)
            return file_checksum(file)

        monkeypatch.setattr(storage, "file_checksum", counted)

    def open(self, times: int = 1) -> Fraction:
        """How often all files were read when it was opened."""
        self.reads = Fraction(0)
        for _ in range(times):
            assert_same(small_graph(), open_graph(self.folder))
        return self.reads


def test_a_large_graph_is_read_once_and_again_when_it_was_changed(saved: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    large = Large(saved, monkeypatch)
    assert large.open(times=3) == 3  # a file that has just been written may change within a tick of the clock
    monkeypatch.setattr(storage, "TICK", -1.0)
    assert large.open(times=3) == 1
    file = column_file(saved, "time")
    status, content = file.stat(), file.read_bytes()
    file.write_bytes(content)
    os.utime(file, ns=(status.st_atime_ns, status.st_mtime_ns))
    assert large.open(times=3) == 1
    file.write_bytes(content[:-1] + b"?")
    os.utime(file, ns=(status.st_atime_ns, status.st_mtime_ns))
    with pytest.raises(DataError, match=r"time-\w+\.npy is damaged: its checksum does not match"):
        open_graph(saved)


def test_a_large_graph_is_read_again_after_a_week(saved: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    large = Large(saved, monkeypatch)
    monkeypatch.setattr(storage, "TICK", -1.0)
    large.open()
    (note,) = (saved.parent / "cache" / "cody" / "intact").iterdir()
    os.utime(note, (0, 0))
    old = note.with_name("0" * 32)
    old.touch()
    os.utime(old, (0, 0))
    assert large.open(times=2) == 1
    assert not old.exists()


def test_a_large_graph_opens_where_nothing_can_be_remembered(saved: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    large = Large(saved, monkeypatch)
    monkeypatch.setattr(storage, "TICK", -1.0)
    (saved.parent / "cache").write_text("not a directory")
    assert large.open(times=2) == 2


def replace_column(folder: Path, name: str, column: np.ndarray) -> None:
    """Put another column there, and say so in the description."""
    file = column_file(folder, name)
    np.save(file, column)
    columns = json.loads((folder / "graph.json").read_text())["columns"]
    columns[name] |= {"dtype": column.dtype.str, "shape": list(column.shape), "crc32": file_checksum(file)}
    describe(folder, columns=columns)


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
    with pytest.raises(DataError, match=rf"graph/{name}-\w+\.npy is damaged"):
        open_graph(saved)


def test_columns_of_a_strange_shape_are_refused(saved: Path) -> None:
    for name in ("src", "names", "features"):
        column = np.zeros((), dtype=storage.COLUMN_TYPES[name] or "<i8")
        replace_column(saved, name, column)
        with pytest.raises(DataError, match=rf"graph/{name}-\w+\.npy has the shape \(\)"):
            open_graph(saved)
        save_graph(small_graph(), saved)


def test_columns_that_belong_to_another_graph_are_found_by_verifying(tmp_path: Path) -> None:
    rows = np.arange(1_000)
    saved = save_graph(TemporalGraph.from_arrays(rows, rows, rows), tmp_path / "graph")
    verify_graph(open_graph(saved))
    other = np.array(open_graph(saved).src)
    other[1] = 7
    replace_column(saved, "src", other)
    with pytest.raises(DataError, match="changed or damaged"):
        verify_graph(open_graph(saved))


KILLED = """
import os, random, signal, sys, time
from pathlib import Path
import numpy as np
from cody.data import open_graph, save_graph
from cody.graph import TemporalGraph, verify_graph

folder, rng = Path(sys.argv[1]), random.Random(0)
rows = np.arange(20_000)
graphs = [TemporalGraph.from_arrays(rows, rows // 2, rows), TemporalGraph.from_arrays(rows // 3, rows, rows + 1.0)]
known = {graph.identity for graph in graphs}

def in_a_child(action):
    child = os.fork()
    if not child:
        action()
        os._exit(0)
    return child

def save_until(step):
    left = [step]
    def count(event, _):
        if event in ("open", "os.rename", "os.remove", "os.mkdir", "os.chmod"):
            left[0] -= 1
            if left[0] < 0:
                os.kill(os.getpid(), signal.SIGKILL)
    sys.addaudithook(count)
    save_graph(graphs[step % 2], folder)

def save_on_and_on():
    while True:
        for graph in graphs:
            save_graph(graph, folder)

def check():
    opened = open_graph(folder)
    assert opened.identity in known
    verify_graph(opened)
    assert (folder / "thesis.tex").read_text() == "years of work"

save_graph(graphs[0], folder)
(folder / "thesis.tex").write_text("years of work")
step, status = 0, signal.SIGKILL
while status == signal.SIGKILL:  # killed before each thing it does to a file
    status = os.waitpid(in_a_child(lambda: save_until(step)), 0)[1]
    check()
    step += 1
assert status == 0 and step > 30, (status, step)
for _ in range(10):  # and at any moment; opened before, too
    child = in_a_child(save_on_and_on)
    end = time.monotonic() + rng.random() / 20
    while time.monotonic() < end:
        check()
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    check()
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_a_save_killed_at_any_moment_leaves_the_old_graph_or_the_new_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    subprocess.run([sys.executable, "-c", KILLED, str(tmp_path / "graph")], check=True, timeout=240)
    monkeypatch.setattr(storage, "STALE", -1.0)
    monkeypatch.setattr(files, "STALE", -1.0)
    save_graph(small_graph(), tmp_path / "graph")
    assert_same(small_graph(), open_graph(tmp_path / "graph"))
    assert len(list((tmp_path / "graph").iterdir())) == files_of(small_graph()) + 1


def test_what_a_killed_save_left_in_the_folder_is_cleared_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    left = tmp_path / "src-0123456789abcdef.npy"
    left.touch()
    (tmp_path / ".graph.json.0123abcd.partial").touch()
    save_graph(small_graph(), tmp_path)
    assert left.exists()  # it may be another save that is going on
    monkeypatch.setattr(storage, "STALE", -1.0)
    monkeypatch.setattr(files, "STALE", -1.0)
    save_graph(other_graph(), tmp_path)
    assert len(list(tmp_path.iterdir())) == files_of(other_graph())
    assert_same(other_graph(), open_graph(tmp_path))


def test_a_rename_that_fails_leaves_the_old_graph(saved: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def failing(self: Path, target: Path) -> Path:
        raise OSError(5, "Input/output error")

    monkeypatch.setattr(Path, "replace", failing)
    with pytest.raises(DataError, match="Input/output error"):
        save_graph(other_graph(), saved)
    assert_same(small_graph(), open_graph(saved))


def test_a_link_to_a_graph_stays_and_what_it_points_to_is_replaced(saved: Path) -> None:
    link = saved.with_name("link")
    link.symlink_to("graph")
    other = other_graph()
    assert save_graph(other, link) == link
    assert link.is_symlink()
    assert_same(other, open_graph(saved))


def test_a_roundabout_path_is_the_folder_it_leads_to(saved: Path) -> None:
    (saved.parent / "x").mkdir()
    other = other_graph()
    save_graph(other, saved.parent / "x" / ".." / "graph")
    assert_same(other, open_graph(saved))
    with pytest.raises(DataError, match="is not a saved graph; choose another folder"):
        save_graph(other, saved / "..")


def test_a_graph_in_the_working_directory_is_replaced_like_any_other(
    saved: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(saved)
    save_graph(other_graph(), ".")
    assert_same(other_graph(), open_graph("."))


def test_links_in_a_circle_are_one_clear_error(tmp_path: Path) -> None:
    (tmp_path / "a").symlink_to("a")
    with pytest.raises(DataError, match="could not be saved"):
        save_graph(small_graph(), tmp_path / "a")


@pytest.mark.parametrize("text", ["", "{", "[]", "3", '{"schema": "cody/graph/2"}', "\udcff"])
def test_broken_json_is_named(saved: Path, text: str) -> None:
    (saved / "graph.json").write_bytes(text.encode("utf-8", "surrogateescape"))
    with pytest.raises(DataError, match=r"graph/graph\.json is damaged"):
        open_graph(saved)


def test_a_folder_without_description_is_not_a_graph(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"is not a saved graph: there is no graph\.json"):
        open_graph(tmp_path)


def test_an_interrupt_right_after_the_description_was_replaced_loses_nothing(tmp_path, monkeypatch):
    old, new = (TemporalGraph.from_arrays([0, 1], [1, 2], [1.0, time]) for time in (2.0, 3.0))
    save_graph(old, tmp_path / "graph")
    write = storage.write_atomically

    def interrupted(*arguments):
        write(*arguments)
        raise KeyboardInterrupt

    monkeypatch.setattr(storage, "write_atomically", interrupted)
    with pytest.raises(KeyboardInterrupt):
        save_graph(new, tmp_path / "graph")
    assert open_graph(tmp_path / "graph").identity == new.identity
