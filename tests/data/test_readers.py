"""Every format that is read, and every input that is refused."""

from __future__ import annotations

import gzip
import tracemalloc
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import date
from decimal import Decimal
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from pyarrow import parquet

from cody.data import from_table, from_temporal_data, load, read_events, save_graph
from cody.data.readers import unused_columns
from cody.data.writer import write_events
from cody.errors import CallError, DataError, TimeWarning
from cody.graph import TemporalGraph


def write(path: Path, text: str | bytes) -> Path:
    path.write_bytes(text.encode() if isinstance(text, str) else text)
    return path


def ends(graph: TemporalGraph) -> list[tuple[str, str]]:
    return [(graph.name(s), graph.name(d)) for s, d in zip(graph.src, graph.dst, strict=True)]


# Formats


def test_parquet_with_known_column_names_is_read(tmp_path: Path) -> None:
    table = pa.table({"src": pa.array([0, 1], pa.int32()), "dst": pa.array([1, 2], pa.int32()), "t": [1.0, 2.0]})
    parquet.write_table(table, tmp_path / "events.parquet")
    graph = read_events(tmp_path / "events.parquet")
    assert ends(graph) == [("0", "1"), ("1", "2")]
    assert graph.names is None
    assert graph.features is None


def test_the_format_is_recognized_by_content_not_by_name(tmp_path: Path) -> None:
    parquet.write_table(pa.table({"u": [0], "i": [1], "ts": [1]}), tmp_path / "events.csv")
    assert read_events(tmp_path / "events.csv").num_events == 1
    write(tmp_path / "events.parquet", gzip.compress(b"u,i,ts\n0,1,1\n"))
    assert read_events(tmp_path / "events.parquet").num_events == 1


@pytest.mark.parametrize(
    ("column", "kind"), [([{"id": 0}], "struct<id: int64>"), ([[0]], "list<element: int64>"), ([b"a"], "binary")]
)
def test_ids_of_other_types_in_a_parquet_file_are_refused(tmp_path: Path, column: list[Any], kind: str) -> None:
    parquet.write_table(pa.table({"src": [0], "dst": column, "t": [1]}), tmp_path / "x.parquet")
    with pytest.raises(DataError, match=f"column 'dst' must hold node ids, integers or text, not .*{kind}"):
        read_events(tmp_path / "x.parquet")


@pytest.mark.parametrize("delimiter", [",", "\t", ";", "|", " "])
@pytest.mark.parametrize("newline", ["\n", "\r\n", "\r"])
@pytest.mark.parametrize("compress", [bytes, gzip.compress])
def test_csv_with_guessed_columns_is_read(tmp_path: Path, delimiter: str, newline: str, compress: Any) -> None:
    lines = ["Sender,weight,Receiver,TIME", "ann,3,bob,1.5", "bob,4,eve,2.5", ""]
    path = write(tmp_path / "x.csv", compress(newline.join(lines).replace(",", delimiter).encode()))
    graph = read_events(path)
    assert ends(graph) == [("ann", "bob"), ("bob", "eve")]
    assert graph.time.tolist() == [1.5, 2.5]


@pytest.mark.parametrize("separator", [";", "^", "~", ":", "tab", "blank"])
def test_any_character_may_separate_columns(tmp_path: Path, separator: str) -> None:
    character = {"tab": "\t", "blank": " "}.get(separator, separator)
    rows = [["src", "dst", "time"], ['"a b"', '"c,d;e|f^g~h:i\tj"', "1"], []]
    path = write(tmp_path / "x.csv", "\n".join(map(character.join, rows)).encode())
    assert ends(read_events(path, separator=separator)) == [("a b", "c,d;e|f^g~h:i\tj")]
    assert unused_columns(path, separator=separator) == []


def test_separators_between_quotes_do_not_count(tmp_path: Path) -> None:
    lines = b'"from, who, where";to;time\n"Smith, Anna";b;2024-01-01T09:00+02:00\nb;"a;c";2024-01-01T09:00Z\n'
    graph = read_events(write(tmp_path / "x.csv", lines), src="from, who, where")
    assert ends(graph) == [("Smith, Anna", "b"), ("b", "a;c")]
    assert graph.time.tolist() == [1704092400.0, 1704099600.0]


@pytest.mark.parametrize(
    "name", ['a "quoted" name', "two\nlines", "a,b;c\td|e", "😀 Zoë", "back\\slash", "'", "NULL", " x"]
)
def test_names_with_any_character_are_written_and_read(tmp_path: Path, name: str) -> None:
    graph = TemporalGraph.from_arrays([0, 1], [1, 0], [1.0, 2.0], names=[name, "other"])
    write_events(graph, tmp_path / "events.csv")
    again = read_events(tmp_path / "events.csv")
    assert ends(again) == [(name.strip(), "other"), ("other", name.strip())]


@pytest.mark.parametrize("separator", ["", "ab", '"', "\n", "é", 3])
def test_a_separator_is_one_character(tmp_path: Path, separator: Any) -> None:
    with pytest.raises(CallError, match="separator is one character, such as ';' or 'tab', not"):
        read_events(write(tmp_path / "x.csv", b"src,dst,time\n0,1,1\n"), separator=separator)


def test_a_header_of_one_column_may_have_another_separator(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"line 1 has one column, 'src\^dst\^time'.*--separator"):
        read_events(write(tmp_path / "x.csv", b"src^dst^time\n0^1^1\n"))


def test_a_byte_order_mark_is_not_part_of_a_name(tmp_path: Path) -> None:
    assert read_events(write(tmp_path / "x.csv", b"\xef\xbb\xbfsrc,dst,t\n0,1,1\n")).num_events == 1


def test_columns_can_be_named(tmp_path: Path) -> None:
    path = write(tmp_path / "x.csv", "a,b,c,x,y,src\n0,1,5,7,8,9\n1,0,6,9,10,9\n")
    graph = read_events(path, src="a", dst="b", time="c", features=["y", "x"])
    assert graph.features is not None
    assert graph.features.tolist() == [[8, 7], [10, 9]]


@pytest.mark.parametrize("name", ["f", "feature_", "feat_", "Feature"])
def test_numbered_feature_columns_are_taken_in_the_order_of_their_numbers(name: str) -> None:
    frame = pd.DataFrame({"src": [0], "dst": [1], "t": [1], f"{name}10": [10], f"{name}2": [2], "label": [5]})
    graph = from_table(frame)
    assert graph.features is not None
    assert graph.features.tolist() == [[2, 10]]


@pytest.mark.parametrize("kind", [pa.list_(pa.float32()), pa.large_list(pa.int64()), pa.list_(pa.float64(), 2)])
@pytest.mark.parametrize("name", ["features", "msg"])
def test_a_list_column_is_a_table_of_features(tmp_path: Path, kind: pa.DataType, name: str) -> None:
    lists = pa.array([[9, 9], [1, 2], [3, 4]], kind)
    table = pa.table({"src": [9, 0, 1], "dst": [0, 1, 2], "t": [0, 1, 2], name: lists})
    parquet.write_table(table, tmp_path / "x.parquet")
    whole, part = read_events(tmp_path / "x.parquet"), from_table(table.slice(1))
    assert whole.features is not None
    assert part.features is not None
    assert whole.features.tolist() == [[9, 9], [1, 2], [3, 4]]
    assert part.features.tolist() == [[1, 2], [3, 4]]


JODIE = """user_id,item_id,timestamp,state_label,comma_separated_list_of_features
0,0,0.0,0,-0.17,0.5,1
1,0,36.0,0,0.25,0.5,2
0,1,36.0,1,0.75,0.5,3
"""


@pytest.mark.parametrize("newline", ["\n", "\r\n", "\r"])
def test_jodie_items_are_numbered_after_users(tmp_path: Path, newline: str) -> None:
    graph = read_events(write(tmp_path / "wiki.csv", JODIE.replace("\n", newline)))
    assert graph.src.tolist() == [0, 1, 0]
    assert graph.dst.tolist() == [2, 2, 3]
    assert ends(graph) == [("u0", "i0"), ("u1", "i0"), ("u0", "i1")]
    assert graph.node("i1") == 3
    assert graph.features is not None
    np.testing.assert_allclose(graph.features, [[-0.17, 0.5, 1], [0.25, 0.5, 2], [0.75, 0.5, 3]])


def ml_files(folder: Path, rows: str = "0,1,4,1.0,0,1\n1,2,4,2.0,0,2\n") -> Path:
    np.save(folder / "ml_x.npy", np.array([[0, 0], [1, 2], [3, 4]], dtype=np.float64))
    np.save(folder / "ml_x_node.npy", np.zeros((7, 3)))
    return write(folder / "ml_x.csv", ",u,i,ts,label,idx\n" + rows)


def test_ml_files_count_from_one_and_their_padding_is_dropped(tmp_path: Path) -> None:
    graph = read_events(ml_files(tmp_path))
    assert (graph.src.tolist(), graph.dst.tolist(), graph.time.tolist()) == ([0, 1], [3, 3], [1.0, 2.0])
    assert graph.features is not None
    assert graph.features.tolist() == [[1, 2], [3, 4]]
    assert graph.num_nodes == 6
    assert graph.node_features is not None
    assert graph.node_features.shape == (6, 3)


def test_ml_feature_files_are_optional(tmp_path: Path) -> None:
    path = ml_files(tmp_path)
    (tmp_path / "ml_x.npy").unlink()
    (tmp_path / "ml_x_node.npy").unlink()
    graph = read_events(path)
    assert (graph.num_nodes, graph.features, graph.node_features) == (4, None, None)


def test_a_saved_graph_is_opened(tmp_path: Path) -> None:
    graph = TemporalGraph.from_arrays([0], [1], [1.0])
    save_graph(graph, tmp_path / "saved")
    assert read_events(tmp_path / "saved").identity == graph.identity
    with pytest.raises(CallError, match="its columns are known"):
        read_events(tmp_path / "saved", src="src")


def test_temporal_data_is_read_with_messages() -> None:
    torch = pytest.importorskip("torch")
    data = SimpleNamespace(
        src=torch.tensor([0, 1]),
        dst=torch.tensor([2, 2]),
        t=torch.tensor([5, 6]),
        msg=torch.tensor([[1.0], [2.0]], requires_grad=True),
    )
    graph = load(data)
    assert ends(graph) == [("0", "2"), ("1", "2")]
    assert graph.features is not None
    assert graph.features.tolist() == [[1], [2]]
    assert from_temporal_data(SimpleNamespace(src=[5], dst=[9], t=[1])).names is not None
    with pytest.raises(DataError, match="SimpleNamespace has no t"):
        from_temporal_data(SimpleNamespace(src=[0], dst=[1]))


def test_a_real_temporal_data_is_read() -> None:
    data = pytest.importorskip("torch_geometric.data")
    torch = pytest.importorskip("torch")
    made = data.TemporalData(src=torch.tensor([0, 1]), dst=torch.tensor([2, 2]), t=torch.tensor([5, 6]))
    assert load(made).num_events == 2


# Node ids


def test_dense_ids_stay_and_all_others_are_numbered_in_sorted_order() -> None:
    def read(src: list[Any], dst: list[Any]) -> TemporalGraph:
        return from_table(pd.DataFrame({"src": src, "dst": dst, "t": range(len(src))}))

    assert read([2, 0], [1, 2]).names is None
    for src, dst, names in [
        ([1, 2], [2, 3], [1, 2, 3]),  # counted from one
        ([10**12, -5], [7, 7], [-5, 7, 10**12]),
        (["bob", "ann"], ["ann", "ünal"], ["ann", "bob", "ünal"]),
        ([0.0, 7.0], [7.0, 7.0], [0, 7]),
    ]:
        graph = read(src, dst)
        assert graph.names is not None
        assert graph.names.tolist() == names
        assert ends(graph) == [(str(int(s) if isinstance(s, float) else s), str(int(d) if isinstance(d, float) else d))
                               for s, d in zip(src, dst, strict=True)]  # fmt: skip


def test_ids_with_leading_zeros_and_words_that_look_missing_stay_different_nodes(tmp_path: Path) -> None:
    graph = read_events(write(tmp_path / "x.csv", "src,dst,t\n007,07,1\nNA,nan,2\n7,7,3\n"))
    assert ends(graph) == [("007", "07"), ("NA", "nan"), ("7", "7")]
    graph = read_events(write(tmp_path / "y.csv", "src,dst,t\n007,07,1\n7,7,2\n"))
    assert ends(graph) == [("007", "07"), ("7", "7")]


def test_categories_are_text() -> None:
    frame = pd.DataFrame({"src": pd.Categorical(["b", "a"]), "dst": pd.Categorical(["a", "c"]), "t": [1, 2]})
    assert ends(from_table(frame)) == [("b", "a"), ("a", "c")]


LIST_VIEW = getattr(pa, "list_view", pa.list_)
BINARY_VIEW = pa.binary_view() if hasattr(pa, "binary_view") else pa.binary()
STRING_VIEW = pa.string_view() if hasattr(pa, "string_view") else pa.string()  # since pyarrow 16
TEXT = [pa.array(["b", "a"], kind) for kind in (pa.string(), pa.large_string(), STRING_VIEW)]
NUMBERS = [
    *(pa.array([7, 5], kind) for kind in (pa.int8(), pa.int16(), pa.int32(), pa.int64())),
    *(pa.array([7, 5], kind) for kind in (pa.uint8(), pa.uint16(), pa.uint32(), pa.uint64())),
    *(pa.array(np.array([7.0, 5.0], kind)) for kind in (np.float16, np.float32, np.float64)),
    *(pa.array([Decimal(7), Decimal(5)], kind) for kind in (pa.decimal128(38, 0), pa.decimal256(50, 2))),
]
NO_IDS = [
    pa.array([True, False]),
    pa.array([date(2020, 1, 1)] * 2),
    pa.array([1, 2]).cast(pa.timestamp("s")),
    pa.array([1, 2]).cast(pa.time64("us")),
    pa.array([2**60, 2]).cast(pa.duration("s")),
    pa.array([b"a", b"b"]),
    pa.array([b"a", b"b"], pa.large_binary()),
    pa.array([b"a", b"b"], BINARY_VIEW),
    pa.array([b"a", b"b"], pa.binary(1)),
    pa.array([[1], [2]]),
    pa.array([["a"], ["b"]], LIST_VIEW(pa.string())),
    pa.array([{"a": 1}, {"a": 2}]),
    pa.array([[("a", 1)], [("b", 2)]], pa.map_(pa.string(), pa.int64())),
    pa.array([(1, 2, 3), (1, 2, 3)], pa.month_day_nano_interval()),
    pa.RunEndEncodedArray.from_arrays([1, 2], ["a", "b"]),
    pa.UnionArray.from_sparse(pa.array([0, 1], pa.int8()), [pa.array([1, 2]), pa.array(["a", "b"])]),
    *(
        pa.ExtensionArray.from_storage(pa.uuid(), pa.array([uuid.uuid4().bytes] * 2, pa.binary(16)))
        for _ in range(hasattr(pa, "uuid"))  # since pyarrow 18
    ),
]
NOT_UTF8 = pa.Array.from_buffers(
    pa.string(), 2, [None, pa.py_buffer(np.array([0, 1, 2], "<i4").tobytes()), pa.py_buffer(b"a\xff")]
)


def in_pieces(table: pa.Table) -> pa.Table:
    return pa.concat_tables([table.slice(0, 1), table.slice(1, 1)])


def dictionaries(column: pa.Array) -> list[pa.Array]:
    """The same column, looked up in a dictionary with words that do not occur, and with one that occurs twice."""
    longer, twice = column.to_pylist() + column.to_pylist()[:1], pa.array([2, 1], pa.uint8())
    return [pa.DictionaryArray.from_arrays(twice, pa.array(longer, column.type))]


@pytest.mark.parametrize("column", TEXT + NUMBERS, ids=lambda column: str(column.type))
def test_ids_of_every_sensible_type_are_read(column: pa.Array) -> None:
    expected = sorted({str(name) if isinstance(name, str) else str(int(name)) for name in column.to_pylist()})
    kinds = (
        [column] if pa.types.is_decimal(column.type) or column.type == pa.float16() else [column, *dictionaries(column)]
    )
    for kind in kinds:
        table = pa.table({"src": kind, "dst": kind.slice(0), "t": [1, 2]})
        for given in (table, in_pieces(table)):
            graph = from_table(given)
            assert [graph.name(node) for node in range(graph.num_nodes)] == expected
            assert graph.src.tolist() == graph.dst.tolist() == [1, 0]


@pytest.mark.parametrize("column", NO_IDS, ids=lambda column: str(column.type))
def test_ids_times_and_features_of_any_other_type_are_refused_in_one_sentence(column: pa.Array) -> None:
    good = {"src": pa.array([0, 1]), "dst": pa.array([1, 0]), "t": pa.array([1, 2])}
    with pytest.raises(DataError, match="column 'src' must hold node ids, integers or text, not "):
        from_table(pa.table(good | {"src": column}))
    for role in ("t", "f0"):
        try:
            from_table(pa.table(good | {role: column}))
        except DataError as error:
            assert "must be numbers" in str(error)  # noqa: PT017


def test_bad_text_and_bad_decimals_are_refused_with_column_and_row() -> None:
    good = {"src": ["a", "b"], "dst": ["a", "b"], "t": [1, 2]}
    half = {"src": pa.array([Decimal(1), Decimal("1.5")]), "dst": [0, 1]}
    empty = pa.DictionaryArray.from_arrays(pa.array([0, 1]), pa.array(["a", None]))
    for columns, message in [
        ({"dst": NOT_UTF8}, "column 'dst' cannot be used as node ids: Invalid UTF8"),
        ({"t": NOT_UTF8}, "time must be numbers or datetimes; column 't' has type string"),
        ({"f0": NOT_UTF8}, "features must be numbers; column 'f0' has type string"),
        (half, r"'src' must hold integer node ids up to 9223372036854775807; row 1 has 1\.5"),
        ({"src": pa.array([Decimal(10) ** 30, Decimal(1)]), "dst": [0, 1]}, "row 0 has 1000000"),
        ({"src": empty}, "column 'src' has no id in row 1"),
        ({"dst": pa.array(["a", ""], STRING_VIEW)}, "column 'dst' has no id in row 1"),
        ({"dst": pa.nulls(2)}, "column 'dst' has no id in row 0"),
    ]:
        with pytest.raises(DataError, match=message):
            from_table(pa.table(good | columns))
    with pytest.raises(DataError, match="the table cannot be used: Python int too large"):
        from_table(pd.DataFrame({"src": [2**70, 1], "dst": [0, 1], "t": [1, 2]}))


def test_reading_many_events_takes_little_more_memory_than_their_graph(tmp_path: Path) -> None:
    rng, events = np.random.default_rng(0), 400_000
    src, dst = rng.integers(0, 9_000, (2, events))
    table = pa.table({"src": src, "dst": dst, "time": np.arange(events, dtype=float)})
    parquet.write_table(table, tmp_path / "x.parquet")
    del table
    with peak_below(int(1.3 * 32 * events)):  # what the graph takes; Arrow and numpy each
        graph = read_events(tmp_path / "x.parquet")
    assert graph.src.tolist() == src.tolist()
    assert (src == dst).any()  # the index of self-loops takes no more
    assert len(graph.incidence) == 2 * events - (src == dst).sum()


# Long names, and files that unpack to more than there is room for


@contextmanager
def peak_below(limit: int) -> Iterator[None]:
    """What Python and Arrow allocate meanwhile stays below so many bytes."""
    usual = pa.default_memory_pool()
    watched = pa.proxy_memory_pool(usual)
    pa.set_memory_pool(watched)
    tracemalloc.start()
    try:
        yield
        assert tracemalloc.get_traced_memory()[1] < limit
        assert watched.max_memory() < limit
    finally:
        tracemalloc.stop()
        pa.set_memory_pool(usual)


LONG = "x" * 500_000


def test_a_long_name_is_refused_with_row_and_column_before_it_fills_the_memory(tmp_path: Path) -> None:
    names = [f"n{number}" for number in range(4_000)]
    frame = pd.DataFrame({"src": names, "dst": [*names[:-1], LONG], "t": range(4_000)})
    frame.to_csv(tmp_path / "x.csv", index=False)
    frame.to_parquet(tmp_path / "x.parquet")
    view = pa.table({"src": names, "dst": pa.array(frame["dst"].tolist(), STRING_VIEW), "t": range(4_000)})
    with peak_below(20 * 2**20):
        for source in (str(tmp_path / "x.csv"), str(tmp_path / "x.parquet"), frame, view):
            with pytest.raises(DataError, match=r"column 'dst' has a name of 500,000 characters in row 3999; .* 1,000"):
                load(source)
        data = SimpleNamespace(src=range(4_000), dst=[*names[:-1], LONG], t=range(4_000))
        with pytest.raises(DataError, match="'dst' must be an array of numbers: row 3999 has a text of 500,000"):
            load(data)


def test_one_longish_name_among_very_many_nodes_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("cody.graph.columns.MOST_ROOM_FOR_NAMES", 2**20)
    names = [f"n{number}" for number in range(4_000)]
    frame = pd.DataFrame({"src": names, "dst": [*names[:-1], "x" * 999], "t": range(4_000)})
    with (
        peak_below(4 * 2**20),
        pytest.raises(DataError, match=r"the names of 4,001 nodes would take .* of 999 characters"),
    ):
        load(frame)


@pytest.mark.parametrize("line", [b"0,1,1\n", b"\n", b"0"])
def test_a_text_that_unpacks_to_too_much_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, line: bytes
) -> None:
    monkeypatch.setattr("cody.data.streams.largest_unpacked", lambda: 3 * 10**6)
    path = write(tmp_path / "x.csv.gz", gzip.compress(b"src,dst,t\n" + line * (60 * 10**6 // len(line)), 1))
    with (
        peak_below(40 * 2**20),
        pytest.raises(DataError, match=r"x\.csv\.gz: (it unpacks to more than 3,000,000|.*straddl)"),
    ):
        read_events(path)


def zeros(rows: int, **more: Any) -> pa.Table:
    return pa.table({"src": np.zeros(rows, int), "dst": np.ones(rows, int), "t": np.zeros(rows), **more})


@pytest.mark.parametrize("compression", ["zstd", "gzip", "snappy", "none"])
def test_a_parquet_file_that_unpacks_to_too_much_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, compression: str
) -> None:
    path, many = tmp_path / "x.parquet", 400_000
    features = pa.array(np.zeros((1_000, many // 1_000)).tolist(), pa.list_(pa.float32()))
    tables = [zeros(many), zeros(1_000, msg=features)]
    tables += [zeros(1_000, **{f"f{number}": np.zeros(1_000) for number in range(400)})]
    monkeypatch.setattr("cody.data.readers.largest_unpacked", lambda: 10**6)
    for table in tables:
        parquet.write_table(table, path, compression=compression)
        with peak_below(8 * 2**20), pytest.raises(DataError, match=r"x\.parquet: it unpacks to more than 1,000,000"):
            read_events(path)


def test_a_parquet_file_is_given_up_where_it_exceeds_what_it_declared(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A text that stands in every row is in the file once, and takes its room in each row when it is read."""
    rows = 100_000
    table = zeros(rows).set_column(2, "t", pa.array(["2004-04-15 07:56:01" + " " * 1000] * rows))
    parquet.write_table(table, tmp_path / "x.parquet")
    assert (tmp_path / "x.parquet").stat().st_size < 10**5
    monkeypatch.setattr("cody.data.readers.largest_unpacked", lambda: 3 * 10**6)
    with peak_below(40 * 2**20), pytest.raises(DataError, match="it unpacks to more than 3,000,000"):
        read_events(tmp_path / "x.parquet")


def test_a_long_name_in_many_rows_of_a_parquet_file_is_kept_once(tmp_path: Path) -> None:
    rows, name = 100_000, "x" * 900
    words = pa.DictionaryArray.from_arrays(np.zeros(rows, np.int32), pa.array([name]))
    parquet.write_table(pa.table({"src": words, "dst": words, "t": np.arange(rows)}), tmp_path / "x.parquet")
    with peak_below(20 * 2**20):
        graph = read_events(tmp_path / "x.parquet")
    assert (graph.num_events, graph.name(0)) == (rows, name)


# Times


@pytest.mark.parametrize("unit", ["s", "ms", "us", "ns"])
@pytest.mark.parametrize("zone", [None, "UTC", "Europe/Berlin"])
def test_datetimes_of_every_unit_are_unix_seconds(unit: str, zone: str | None) -> None:
    moments = pd.to_datetime(pd.Series(["2004-04-15 07:56:01", "2004-04-16"]), format="ISO8601").dt.tz_localize("UTC")
    moments = moments.dt.tz_convert(zone).astype(f"datetime64[{unit}{', ' + zone if zone else ''}]")
    graph = from_table(pd.DataFrame({"src": [0, 1], "dst": [1, 0], "t": moments}))
    assert graph.time.tolist() == [1082015761.0, 1082073600.0]


def test_datetimes_in_text_files_and_dates_are_unix_seconds(tmp_path: Path) -> None:
    path = write(tmp_path / "x.csv", "src,dst,t\n0,1,2004-04-15 07:56:01\n1,0,2004-04-15 07:56:01.5\n")
    assert read_events(path).time.tolist() == [1082015761.0, 1082015761.5]
    days = pa.table({"src": [0], "dst": [1], "t": pa.array([12523], pa.date32())})
    assert from_table(days).time.tolist() == [12523 * 86_400.0]


def test_sort_is_offered_and_stable(tmp_path: Path) -> None:
    path = write(tmp_path / "x.csv", "src,dst,t,f0\n0,1,5,0\n1,2,1,1\n2,0,5,2\n0,2,1,3\n")
    with pytest.raises(DataError, match=r"x\.csv: events must be sorted by time; row 1 is earlier .*sort=True"):
        read_events(path)
    graph = read_events(path, sort=True)
    assert graph.features is not None
    assert graph.features[:, 0].tolist() == [1, 3, 0, 2]


def test_spaces_around_ids_and_times_mean_nothing(tmp_path: Path) -> None:
    graph = read_events(write(tmp_path / "x.csv", "src, dst, event kind, time\nann, bob, x, 3\nbob , ann, y, 4.5 \n"))
    assert ends(graph) == [("ann", "bob"), ("bob", "ann")]
    assert graph.time.tolist() == [3, 4.5]
    graph = read_events(
        write(tmp_path / "y.csv", "src, dst, t\n0, 1, 2004-04-15 07:56:01\n1, 0, 2004-04-15 07:56:01.5\n")
    )
    assert graph.names is None
    assert graph.time.tolist() == [1082015761.0, 1082015761.5]
    with pytest.raises(DataError, match="column 'dst' has no id in row 1"):
        read_events(write(tmp_path / "z.csv", "src,dst,t\na,b,1\na, ,2\n"))


@pytest.mark.parametrize(("unit", "scale"), [("ms", 10**3), ("us", 10**6), ("ns", 10**9)])
def test_times_that_are_not_seconds_are_remarked_on_and_can_be_named(tmp_path: Path, unit: str, scale: int) -> None:
    times = [1_700_000_000 * scale, 1_700_000_001 * scale]
    path = write(tmp_path / "x.csv", f"src,dst,t\n0,1,{times[0]}\n1,0,{times[1]}\n")
    data = SimpleNamespace(src=np.array([0, 1]), dst=np.array([1, 0]), t=np.array(times))
    for source in (path, pd.read_csv(path), data):
        with pytest.warns(TimeWarning, match=rf"2023-11-14 22:13 UTC.*{scale:,} times too long; give --unit {unit}"):
            assert load(source).time.tolist() == times
        assert load(source, unit=unit).time.tolist() == [1_700_000_000.0, 1_700_000_001.0]
        assert load(source, unit="s").time.tolist() == times  # without a warning


def test_jodie_and_ml_files_have_units_too(tmp_path: Path) -> None:
    header = "user_id,item_id,timestamp,state_label,comma_separated_list_of_features"
    jodie = write(tmp_path / "jodie.csv", f"{header}\n0,0,1700000000000,0,1\n1,0,1700000001000,0,1\n")
    ml = write(tmp_path / "ml_x.csv", ",u,i,ts,label,idx\n0,1,2,1700000000000,0,1\n1,2,1,1700000001000,0,2\n")
    for path in (jodie, ml):
        with pytest.warns(TimeWarning, match="milliseconds"):
            read_events(path)
        assert read_events(path, unit="ms").time.tolist() == [1_700_000_000.0, 1_700_000_001.0]


@pytest.mark.parametrize("times", [[0, 3.6e6], [0, 1.7e12], [1e8, 1e10], [1_700_000_000, 1_700_003_600]])
def test_times_that_may_well_be_seconds_are_not_remarked_on(times: list[float]) -> None:
    assert from_table(pd.DataFrame({"src": [0, 1], "dst": [1, 0], "t": times})).time.tolist() == times


def test_a_unit_is_refused_where_it_means_nothing(tmp_path: Path) -> None:
    path = write(tmp_path / "x.csv", "src,dst,t\n0,1,1\n1,0,2\n")
    dates = write(tmp_path / "dates.csv", "src,dst,t\n0,1,2025-03-01\n1,0,2025-03-02\n")
    folder = save_graph(read_events(path), tmp_path / "graph")
    for source, unit, message in [
        (path, "minutes", "unit must be one of s, ms, us, ns, not 'minutes'"),
        (dates, "ms", "column 't' holds dates"),
        (folder, "ms", "is a saved graph: give the unit, 'ms', when its file is imported"),
        ("collegemsg", "ms", "so unit cannot be given"),
    ]:
        with pytest.raises(CallError, match=message):
            load(source, unit=unit)


@pytest.mark.parametrize("kind", ["object", "string", "category"])
def test_dates_that_are_text_are_read_from_tables_as_from_a_csv(tmp_path: Path, kind: str) -> None:
    for first, second in [
        ("2025-03-01 09:00", "2025-03-01 09:30"),
        ("2025-03-01T09:00:00", " 2025-03-01T09:30:00.5 "),
        ("2025-03-01", "2025-03-02 10:00"),
        ("2025-03-01T09:00:00+01:00", "2025-03-01T09:30:00+02:00"),
        ("17", "18.5"),
    ]:
        path = write(tmp_path / "x.csv", f"src,dst,time\na,b,{first}\nb,c,{second}\n")
        frame = pd.DataFrame({"src": ["a", "b"], "dst": ["b", "c"], "time": [first, second]}).astype({"time": kind})
        expected = read_events(path, sort=True).time.tolist()
        assert from_table(frame, sort=True).time.tolist() == expected
        frame.to_parquet(tmp_path / "x.parquet")
        assert read_events(tmp_path / "x.parquet", sort=True).time.tolist() == expected
    with pytest.raises(DataError, match="such as 'yesterday' in row 1"):
        from_table(pd.DataFrame({"src": [0, 1], "dst": [1, 0], "time": ["2025-03-01", "yesterday"]}))


# Bad files


def test_a_missing_file_is_reported_with_the_closest_name(tmp_path: Path) -> None:
    write(tmp_path / "messages.csv", "src,dst,t\n0,1,1\n")
    with pytest.raises(DataError, match=r"there is no file .*mesages\.csv; did you mean 'messages\.csv'"):
        read_events(tmp_path / "mesages.csv")
    with pytest.raises(DataError, match="nor a directory"):
        read_events(tmp_path / "nowhere" / "x.csv")


def test_what_cannot_be_events_is_not_suggested(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in (".git", ".ci", "src"):
        (tmp_path / name).mkdir()
    for name in (".gitignore", ".events.csv.swp", "README.md", "Makefile"):
        write(tmp_path / name, "x")
    with pytest.raises(DataError, match=r"there is no file \S*zzz\.csv$"):
        read_events(tmp_path / "zzz.csv")
    save_graph(read_events(write(tmp_path / "mails.csv", "src,dst,t\n0,1,1\n")), tmp_path / "saved")
    with pytest.raises(DataError, match=r"there is no file \S*zzz\.csv; there are 'mails\.csv', 'saved'$"):
        read_events(tmp_path / "zzz.csv")
    monkeypatch.chdir(tmp_path)
    with pytest.raises(
        CallError, match=r"neither a data set nor a file; there are 'mails\.csv', 'saved', 'collegemsg'"
    ):
        load("zzz")


def test_a_directory_that_is_not_a_graph_is_refused(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="is a directory, but not a saved graph"):
        read_events(tmp_path)


BAD_TEXT = {
    "the file is empty": b"",
    "there are no events": b"src,dst,t\n",
    r"no column is called dst or similar \(columns: src, dest, t\).*; did you mean 'dest'": b"src,dest,t\n0,1,1\n",
    "name it: time='…' in Python, `cody data import --time …` on the command line": b"src,dst,when\n0,1,1\n",
    "no columns are called src, dst or similar.*; name them: src='…', dst='…' in Python": b"a,b,t\n0,1,1\n",
    "called src, dst, time or similar .*is the header line missing": b"ann,bob,2004-04-15\nbob,eve,2004-04-16\n",
    "line 1 of a csv is taken as the header.* a comment before it": b"# messages of May\nsrc,dst,t\n0,1,1\n",
    r"line 1 must name the columns \(src,dst,time\), but it is ''": b"\nsrc,dst,t\n0,1,1\n",
    "unknown format: this looks like JSON; events are read from Parquet and csv": b'{"src": 0, "dst": 1, "t": 1}\n',
    "unknown format: this looks like JSON": b'[{"src": 0, "dst": 1, "t": 1}]',
    "unknown format: this is neither Parquet nor text": b"PK\x03\x04" + b"xl/workbook.xml" * 9,
    "line 1, which must name the columns, cannot be read: field larger": b"x" * 200_000,
    "no column is called time or similar": b"src,dst,when\n0,1,1\n",
    "src could be 'src' or 'user'; choose one: src='src'": b"src,user,dst,t\n0,1,2,3\n",
    "column names must differ; 'src' occurs more than once": b"src,src,dst,t\n0,1,2,3\n",
    "line 1 must name the columns": b"1,2,1082040961\n3,4,1082155839\n",
    "time must be finite; row 1 has none": b"src,dst,t\n0,1,1\n1,0,\n",
    "time must be finite; row 2 has none": b"src,dst,t\n0,1,1\n1,0,2\n1,0,nan\n",
    "time must be finite; row 1 has inf": b"src,dst,t\n0,1,1\n1,0,inf\n",
    "time must be numbers or datetimes; .*'soon' in row 1": b"src,dst,t\n0,1,1\n1,0,soon\n",
    "column 'src' has no id in row 1": b"src,dst,t\n0,1,1\n,0,2\n",
    "column 'src' holds integers, but column 'dst' holds text": b"src,dst,t\n0,a,1\n1,b,2\n",
    "Row #3: Expected 3 columns, got 4": b"src,dst,t\n0,1,1\n1,0,2,9\n",
    "Row #3: Expected 3 columns, got 2": b"src,dst,t\n0,1,1\n1,0\n",
    "neither Parquet nor text": bytes(range(256)) * 50,
    "the text is not UTF-8|invalid UTF8": b"src,dst,t\nJos\xe9,ann,1\n",
    "the text is not UTF-8; convert": b"src,dst,t,caf\xe9\na,b,1,2\n",
    "gzip file is truncated or damaged": gzip.compress(b"src,dst,t\n" + b"0,1,1\n" * 9_999)[:-20],
    "gzip file is truncated or damaged ": b"\x1f\x8b" + b"nothing of the kind" * 9,
    "Parquet file is truncated or damaged": b"PAR1" + b"\x15\x04" * 40,
    "features must be finite numbers; row 1 of column 'f0' has": b"src,dst,t,f0\n0,1,1,1\n1,0,2,\n",
    "features must be numbers; column 'f0' has type string, such as 'x' in row 1": b"src,dst,t,f0\n0,1,1,1\n1,0,2,x\n",
}


@pytest.mark.parametrize("message", BAD_TEXT)
def test_bad_files_get_one_error_that_names_file_and_row(tmp_path: Path, message: str) -> None:
    path = write(tmp_path / "bad.csv", BAD_TEXT[message])
    with pytest.raises(DataError, match=rf"bad\.csv: .*({message.strip()})"):
        read_events(path)
    assert [file.name for file in tmp_path.iterdir()] == ["bad.csv"]


@pytest.mark.parametrize(
    ("rest", "message"),
    [
        (b"1,2,3," + bytes(300) + b"\n", r"Expected 3 columns, got 4: 1,2,3,\\x00\\x00.*…"),
        ("1,2,3,\u202e\x1b[2J\n".encode(), r"Expected 3 columns, got 4: 1,2,3,\\u202e\\x1b\[2J"),
        (b"1,2," + b"9" * 5_000 + b",4\n", r"Expected 3 columns, got 4: 1,2,999"),
    ],
)
def test_a_row_that_cannot_be_read_is_shown_in_one_readable_line(tmp_path: Path, rest: bytes, message: str) -> None:
    with pytest.raises(DataError, match=message) as caught:
        load(write(tmp_path / "x.csv", b"src,dst,t\n0,1,1\n" + rest))
    assert str(caught.value).isprintable()
    assert len(str(caught.value)) < 500


def test_a_parquet_file_whose_rows_are_missing_is_one_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pd.DataFrame({"src": [1, 2], "dst": [2, 1], "time": [0, 1]}).to_parquet(tmp_path / "events.parquet")
    monkeypatch.setattr(parquet.ParquetFile, "iter_batches", lambda *_, **__: iter(()))  # as a damaged footer says
    with pytest.raises(DataError, match=r"events.parquet: .* damaged \(column 'src' has 0 of 2 rows"):
        load(tmp_path / "events.parquet")


def test_a_file_whose_head_cannot_be_read_has_no_unused_columns_but_a_reason(tmp_path: Path) -> None:
    (tmp_path / "events.csv").write_bytes("src,dst,zeit,größe\n1,2,3,4\n".encode("latin-1"))
    with pytest.raises(DataError, match=r"events.csv: "):
        unused_columns(tmp_path / "events.csv")


def test_a_damaged_page_of_a_parquet_file_is_one_line(tmp_path: Path) -> None:
    table = pa.table({"src": list(range(500)), "dst": [0] * 500, "t": list(range(500))})
    parquet.write_table(table, tmp_path / "x.parquet")
    whole, messages = (tmp_path / "x.parquet").read_bytes(), set()
    for position in range(4, 64):
        write(tmp_path / "x.parquet", whole[:position] + b"\xff" + whole[position + 1 :])
        try:
            load(tmp_path / "x.parquet")
        except DataError as error:
            messages.add(str(error))
    assert any("Parquet file is truncated or damaged" in message for message in messages)
    assert all(message.isprintable() and "\\n" not in message for message in messages)


def test_a_truncated_parquet_file_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "x.parquet"
    parquet.write_table(pa.table({"src": range(1_000), "dst": range(1_000), "t": range(1_000)}), path)
    whole = path.read_bytes()
    for length in (10, len(whole) // 2, len(whole) - 1):
        path.write_bytes(whole[:length])
        with pytest.raises(DataError, match=r"x\.parquet: the Parquet file is truncated or damaged"):
            read_events(path)


def test_a_named_column_that_is_missing_is_reported_with_the_closest_name(tmp_path: Path) -> None:
    path = write(tmp_path / "x.csv", "src,dst,clock\n0,1,1\n")
    with pytest.raises(DataError, match=r"no column 'clok' \(columns: src, dst, clock\); did you mean 'clock'"):
        read_events(path, time="clok")
    with pytest.raises(DataError, match="there is no column 'speed'"):
        read_events(path, time="clock", features=["speed"])


BAD_JODIE = {
    "row 2 is earlier than row 1": JODIE.replace("0,1,36.0", "0,1,35.0"),
    "'user_id' must hold ids from 0 on; row 1 has -1": JODIE.replace("\n1,0,36", "\n-1,0,36"),
    "'item_id' must hold integer node ids; row 2 has 1.5": JODIE.replace("0,1,36.0", "0,1.5,36.0"),
    "'user_id' must hold integer ids, but it holds text": JODIE.replace("\n1,0,36", "\nbob,0,36"),
    "Expected 7 columns, got 6": JODIE.replace(",0.5,2\n", ",2\n"),
    "features must be finite numbers; row 0 of column 'f0'": JODIE.replace("-0.17", "nan"),
}


@pytest.mark.parametrize("message", BAD_JODIE)
def test_bad_jodie_files_are_refused(tmp_path: Path, message: str) -> None:
    with pytest.raises(DataError, match=message):
        read_events(write(tmp_path / "x.csv", BAD_JODIE[message]))


BAD_ML = {
    "'u' must hold ids from 1 on; row 1 has 0": "0,1,4,1.0,0,1\n1,0,4,2.0,0,2\n",
    "'i' must hold ids from 1 on; row 0 has -4": "0,1,-4,1.0,0,1\n1,2,4,2.0,0,2\n",
    "'u' must hold integer node ids; row 1 has 2.5": "0,1,4,1.0,0,1\n1,2.5,4,2.0,0,2\n",
    "'u' must hold integer ids, but it holds text": "0,1,4,1.0,0,1\n1,ann,4,2.0,0,2\n",
    "idx must count 1, 2, 3, …; row 1 has 3": "0,1,4,1.0,0,1\n1,2,4,2.0,0,3\n",
    r"ml_x\.npy must have 2 rows \(row 0 is padding\), not 3": "0,1,4,1.0,0,1\n",
    "node id 6 appears in the events, but node_features says 6 nodes": "0,1,7,1.0,0,1\n1,2,4,2.0,0,2\n",
    "there are no events": "",
    "'u' must hold integer node ids up to 9007199254740991": "0,99999999999999999999,4,1.0,0,1\n1,2,4,2.0,0,2\n",
}


def test_ml_ids_with_large_gaps_are_refused_before_they_fill_the_memory(tmp_path: Path) -> None:
    path = ml_files(tmp_path, "0,1,4,1.0,0,1\n1,2,2000000000,2.0,0,2\n")
    (tmp_path / "ml_x_node.npy").unlink()
    with pytest.raises(
        DataError, match=r"ml_x\.csv: 2,000,000,000 nodes are too many for 2 events: the ids are sparse"
    ):
        read_events(path)


@pytest.mark.parametrize("message", BAD_ML)
def test_bad_ml_files_are_refused(tmp_path: Path, message: str) -> None:
    with pytest.raises(DataError, match=rf"ml_x\.csv: {message}"):
        read_events(ml_files(tmp_path, BAD_ML[message]))


def test_bad_ml_features_are_refused(tmp_path: Path) -> None:
    path, features = ml_files(tmp_path), tmp_path / "ml_x.npy"
    whole = features.read_bytes()
    for content in (whole[:-3], whole[:20], b"", b"no npy at all"):
        features.write_bytes(content)
        with pytest.raises(DataError, match=r"ml_x\.npy is truncated, damaged or not a \.npy file"):
            read_events(path)
    np.save(features, np.array([[0], [1], [np.nan]]))
    with pytest.raises(DataError, match=r"ml_x\.npy must hold finite numbers; row 2 has a NaN"):
        read_events(path)
    np.save(features, np.array([{}], dtype=object), allow_pickle=True)
    with pytest.raises(DataError, match=r"ml_x\.npy is truncated, damaged or not a \.npy file"):
        read_events(path)


def test_no_damage_to_the_header_of_an_npy_file_is_a_traceback(tmp_path: Path) -> None:
    path, features = ml_files(tmp_path), tmp_path / "ml_x.npy"
    whole = features.read_bytes()
    rng = np.random.default_rng(0)
    headers = ["{'descr': '<f8', 'fortran_order': False, 'shape': (", "((", "'", "{", "1", "[" * 5_000, "\0", "(\n"]
    headers += [f"{{'descr': '<f8', 'fortran_order': False, 'shape': {shape}}}" for shape in (
        "(3, 2**60)", "(3, 1152921504606846976)", "(-3, -2)", "(3, 2.0)", "(True, 2)", "3", "()", "(10**12,)",
    )]  # fmt: skip
    headers += [f"{{'descr': {kind!r}, 'fortran_order': False, 'shape': (3, 2)}}" for kind in (
        "|O", "<f99", "", 5, [("a", "<f8")], [("a", "|O")], "<U1000000000", "|V16", "<c8",
    )]  # fmt: skip
    contents = [
        b"\x93NUMPY\1\0" + len(header).to_bytes(2, "little") + header.encode() + bytes(48) for header in headers
    ]
    for _ in range(100):
        damaged = bytearray(whole)
        for position in rng.integers(0, 128, rng.integers(1, 4)):
            damaged[position] = rng.integers(0, 256)
        contents.append(bytes(damaged))
    np.savez(tmp_path / "packed.npz", np.zeros((3, 2)))
    contents.append((tmp_path / "packed.npz").read_bytes())
    with peak_below(2**22):
        for content in contents:
            features.write_bytes(content)
            try:
                assert read_events(path).features is not None
            except DataError as error:
                assert "ml_x.npy " in str(error)  # noqa: PT017
                assert len(str(error)) < 500  # noqa: PT017


# Bad tables

GOOD: dict[str, list[Any]] = {"src": [0, 1], "dst": [1, 0], "t": [1, 2]}


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        ({"src": ["a", "b"]}, "column 'dst' holds integers, but column 'src' holds text"),
        ({"src": [1, "b"], "dst": ["a", "b"]}, "the table cannot be used"),
        ({"src": [0, 1.5]}, "'src' must hold integer node ids; row 1 has 1.5"),
        ({"src": [1e30, 2e30]}, r"'src' must hold integer node ids up to 9007199254740991 .*; row 0 has 1e\+30"),
        ({"src": [0.0, 2.0**53]}, r"the limit of float64\); row 1 has 9007199254740992"),
        (
            {"dst": pd.array([1.0, -(2.0**24)], "float32")},
            r"up to 16777215 \(the limit of float32\); row 1 has -16777216",
        ),
        ({"dst": pd.array([1, 2**63], "uint64")}, "up to 9223372036854775807 .*; row 1 has 9223372036854775808"),
        ({"src": [True, False]}, "must hold node ids, integers or text, not bool"),
        ({"dst": ["a", None], "src": ["a", "b"]}, "column 'dst' has no id in row 1"),
        ({"t": [1, None]}, "time must be finite; row 1 has none"),
        ({"t": [pd.Timestamp("2020-01-01"), pd.NaT]}, "time must be finite; row 1 has none"),
        ({"t": [1, float("inf")]}, "time must be finite; row 1 has inf"),
        ({"t": [True, False]}, "time must be numbers or datetimes; column 't' has type bool"),
        ({"msg": [[1.0], [1.0, 2.0]]}, "all rows must have equally many features; row 1 has 2, row 0 has 1"),
        ({"msg": [[1.0], None]}, "row 1 of column 'msg' has none"),
        ({"msg": [[1.0], [float("nan")]]}, "row 1 of column 'msg' has a NaN"),
    ],
)
def test_bad_tables_are_refused(columns: dict[str, list[Any]], message: str) -> None:
    with pytest.raises(DataError, match=message):
        from_table(pd.DataFrame(GOOD | columns))


def test_large_ids_stay_different_nodes() -> None:
    ids = pd.array([2**63 - 1, 2**63 - 2], "uint64")
    assert ends(from_table(pd.DataFrame(GOOD | {"src": ids}))) == [(str(2**63 - 1), "1"), (str(2**63 - 2), "0")]


@pytest.mark.parametrize(
    "columns",
    [
        {"src": "a", "dst": "a"},
        {"src": "dst"},
        {"time": "src"},
        {"features": ["x", "x"]},
        {"features": ["x", "t"]},
        {"features": "src"},
    ],
)
def test_a_column_in_two_roles_is_refused(columns: dict[str, Any]) -> None:
    frame = pd.DataFrame(GOOD | {"a": [0, 1], "x": [1.0, 2.0]})
    with pytest.raises(CallError, match="can only be one of src, dst, time and the features, and only once"):
        from_table(frame, **columns)


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        ({"src": [[0], [1, 2]]}, "'src' must be an array of numbers"),
        ({"src": 5}, r"'src' must hold integer node ids, not int64 of shape \(\)"),
        ({"src": [0, 1e30]}, "'src' must hold integer node ids up to"),
        ({"t": np.array([1, 2], "datetime64[s]")}, "convert it to seconds, or use cody.load"),
        ({"t": np.ma.masked_array([1, 2], [False, True])}, "time is a masked array"),
        ({"msg": [[1], [1, 2]]}, "'msg' must be an array of numbers"),
    ],
)
def test_bad_temporal_data_is_refused(columns: dict[str, Any], message: str) -> None:
    with pytest.raises(DataError, match=message):
        from_temporal_data(SimpleNamespace(**(GOOD | columns)))


def test_empty_tables_and_double_columns_are_refused() -> None:
    with pytest.raises(DataError, match="there are no events"):
        from_table(pd.DataFrame(GOOD).iloc[:0])
    double = pd.DataFrame([[0, 1, 2, 3]], columns=["src", "src", "dst", "t"])
    with pytest.raises(DataError, match=r"[Dd]uplicate column names|occurs more than once"):
        from_table(double)
    with pytest.raises(DataError, match="'src' occurs more than once"):
        from_table(pa.Table.from_arrays([pa.array([0])] * 4, names=["src", "src", "dst", "t"]))


# What strangers bring


def test_lists_of_edges_without_a_header_can_be_read(tmp_path):
    file = tmp_path / "edges.txt"
    file.write_text("# SNAP would say so\n% KONECT too\nann bob 2004-04-15\nbob eve 2004-04-16\n")
    graph = read_events(file, header=False)
    assert [graph.name(node) for node in range(3)] == ["ann", "bob", "eve"]
    assert graph.time.tolist() == [1081987200.0, 1082073600.0]


def test_columns_without_a_header_are_numbered_from_1(tmp_path):
    file = tmp_path / "edges.csv"
    file.write_text("5,1,0.5,30\n7,2,0.25,40\n")
    graph = read_events(file, header=False, src="2", dst="1", time="4", features=["3"])
    assert graph.time.tolist() == [30.0, 40.0]
    assert graph.features.tolist() == [[0.5], [0.25]]
    assert graph.name(int(graph.src[0])) == "1"


@pytest.mark.parametrize("first", ["1,2,3", "ann,bob,2004-04-15"])
def test_the_error_about_a_missing_header_offers_the_option(tmp_path, first):
    file = tmp_path / "edges.csv"
    file.write_text(f"{first}\n{first}\n")
    with pytest.raises(DataError, match="cody data import --no-header"):
        read_events(file)


@pytest.mark.parametrize("word", ["date", "datetime", "Date", "created_at", "sent_at"])
def test_usual_names_of_time_columns_are_known(tmp_path, word):
    file = tmp_path / "mails.csv"
    file.write_text(f"from,to,{word}\na,b,2004-04-15 14:56\nb,a,2004-04-16\n")
    assert read_events(file).time.tolist() == [1082040960.0, 1082073600.0]


def test_times_with_a_zone_are_read(tmp_path):
    file = tmp_path / "mails.csv"
    file.write_text("from,to,date\na,b,2004-04-15T14:56:00+02:00\nb,a,2004-04-15T14:56:00Z\n")
    assert read_events(file).time.tolist() == [1082033760.0, 1082040960.0]


def test_mixed_formats_of_dates_are_blamed_on_the_row_that_differs(tmp_path):
    file = tmp_path / "mails.csv"
    file.write_text("from,to,date\na,b,2004-04-15\nb,a,2004-04-16\na,b,16/04/2004\n")
    with pytest.raises(DataError, match=r"'16/04/2004' in row 2, unlike the date in row 0"):
        read_events(file)


def test_columns_that_are_left_out_are_known(tmp_path):
    file = tmp_path / "mails.csv"
    file.write_text("from,to,date,subject,size,f0\na,b,2004-04-15,hello,3,1\n")
    assert unused_columns(file) == ["subject", "size"]
    assert unused_columns(file, features=["size"]) == ["subject", "f0"]
    assert unused_columns(tmp_path) == []


@pytest.mark.parametrize("suffix", [".csv", ".parquet"])
def test_written_events_are_read_again(tmp_path, suffix):
    names = ["ann", "bob, the other", "eve"]
    graph = TemporalGraph.from_arrays(
        [0, 1, 2], [1, 2, 0], [1.5, 2.0, 1082040960.0], features=[[0.1, 2], [3, 4], [5, 6]], names=names
    )
    write_events(graph, tmp_path / f"events{suffix}")
    assert read_events(tmp_path / f"events{suffix}").identity == graph.identity


def test_events_are_not_written_in_an_unknown_form(tmp_path):
    with pytest.raises(CallError, match=r"must end in \.csv or \.parquet"):
        write_events(TemporalGraph.from_arrays([0], [1], [0.0]), tmp_path / "events.xlsx")
    assert not list(tmp_path.iterdir())


def test_an_export_replaces_no_file(tmp_path):
    graph = TemporalGraph.from_arrays([0, 1], [1, 2], [1.0, 2.0])
    file = tmp_path / "events.csv"
    file.touch()
    write_events(graph, file)  # nothing is lost of an empty file
    before = file.read_bytes()
    with pytest.raises(CallError, match="already exists and would be overwritten"):
        write_events(graph, file)
    assert file.read_bytes() == before
