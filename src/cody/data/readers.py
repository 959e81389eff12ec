"""Events from files and tables, in any of several formats, as a TemporalGraph.

The format is recognized by the content of a file, not by its name: Parquet, csv with named columns (also gzipped),
JODIE csv, `ml_X.csv` with its npy files, or a folder written by `save_graph`. All errors name the file and the 0-based
row.
"""

from __future__ import annotations

import csv
import os
import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeGuard

import numpy as np
from numpy.typing import NDArray

from cody.data import choice, columns
from cody.data.arrow import compute, pa, parquet, types
from cody.data.choice import EventColumns, GivenColumns, LabelOptions, LabelRule, TableHead
from cody.data.columns import Integers
from cody.data.streams import errors_about, largest_unpacked, open_text, read_text_columns, starts_with, too_large
from cody.errors import CallError, DataError, did_you_mean, first_line
from cody.graph import TemporalGraph
from cody.graph.columns import first_row, hand_over
from cody.utils.extras import needed_by
from cody.utils.files import load_array

JODIE_COLUMNS = ["user_id", "item_id", "timestamp", "state_label", "comma_separated_list_of_features"]
ML_COLUMNS = ["", "u", "i", "ts", "label", "idx"]
READABLE = "events are read from Parquet and csv files (cody.load also takes a pandas DataFrame)"

ENDINGS = (".csv", ".csv.gz", ".tsv", ".parquet")  # of most files of events; others are read, too

BATCH = 1 << 14


def read_events(
    path: str | os.PathLike[str],
    *,
    src: str | None = None,
    dst: str | None = None,
    time: str | None = None,
    features: Sequence[str] | None = None,
    unit: str | None = None,
    sort: bool = False,
    header: bool = True,
    separator: str | None = None,
    label: str | None = None,
    label_name: str | None = None,
    label_names: Sequence[str] | None = None,
    event_name: str | None = None,
) -> TemporalGraph:
    """The events of a file, or a saved graph, as a TemporalGraph.

    Columns that are not given are recognized by their usual names (`src`, `user_id`, `from`, …; `timestamp`, `ts`, …).
    Nodes numbered 0 … N-1 keep their numbers; any other ids are numbered in sorted order, and `graph.names` has them.
    Times are dates (as such or as text; without a time zone, in UTC) or numbers.

    Args:
        path: A file or a folder.
        src: Name of the source column.
        dst: Name of the destination column.
        time: Name of the time column.
        features: Names of the feature columns. By default f0, f1, … or feature_0, feature_1, …, or a list column
            `features` or `msg`.
        unit: Unit of numeric times: s, ms, us or ns. By default, seconds; a `TimeWarning` is issued if they look like
            another unit.
        sort: Sort events that are not in time order instead of raising an error.
        header: False for text without column names: the columns are then called 1, 2, 3, …, the first three are source,
            destination and time unless given, and leading lines that start with # or % are skipped.
        separator: What separates two columns of a csv, one character. By default, found in the first line: commas,
            semicolons, tabs, bars or blanks.
        label: Name of the column with the label of each event, or a comparison of a column with a number, such as
            "rating<0". By default, a column `label` or `state_label`. Empty cells are unknown labels. No model sees
            labels as inputs.
        label_name: Name of the second of two classes; the first is then called "no " and this.
        label_names: Names of all classes, in the order of their values.
        event_name: What one event is called: message, rating, payment, …
    """
    file, given = Path(path), GivenColumns(src, dst, time, features)
    labels = LabelOptions(label, label_name, label_names, event_name)
    if not exists(file):
        raise _missing_file(file)
    if file.is_dir():
        return _open_folder(file, named=labels.given or any(given), unit=unit)
    with errors_about(file):
        if file.stat().st_size == 0:
            raise DataError("the file is empty")
        head = _head_of_file(file, header, separator)
        if (read := _known_format(head, given)) is not None:
            return read(file, unit, sort, labels)
        chosen = choice.choose_columns(head, given, label, header=header or not head.delimiter)
        table = _csv_table(file, head, chosen) if head.delimiter else ParquetColumns(file, chosen)
        return _graph(table, chosen, unit, sort, labels)


def unused_columns(
    path: str | os.PathLike[str],
    *,
    label: str | None = None,
    header: bool = True,
    separator: str | None = None,
    **columns: Any,
) -> list[str]:
    """The columns of a file that `read_events` leaves out.

    Args:
        path: A file.
        label: Name of the label column, or a comparison.
        header: Whether the first line has the column names.
        separator: What separates two columns.
        columns: Names of columns, as in `read_events`: src, dst, time, features.
    """
    file, given = Path(path), GivenColumns(*(columns.get(name) for name in GivenColumns._fields))
    if is_query(path) or not file.is_file():
        return []
    with errors_about(file):
        head = _head_of_file(file, header, separator)
    if _known_format(head, given) is not None:
        return []
    chosen = choice.choose_columns(head, given, label, header=header or not head.delimiter)
    return [name for name in head.names if name not in chosen.needed]


def from_table(
    table: Any,
    *,
    src: str | None = None,
    dst: str | None = None,
    time: str | None = None,
    features: Sequence[str] | None = None,
    unit: str | None = None,
    sort: bool = False,
    label: str | None = None,
    label_name: str | None = None,
    label_names: Sequence[str] | None = None,
    event_name: str | None = None,
) -> TemporalGraph:
    """Events from a pandas DataFrame, a pyarrow Table or any other table that can be exported to Arrow.

    Columns and dates are handled as in `read_events`.

    Args:
        table: The table.
        src: Name of the source column.
        dst: Name of the destination column.
        time: Name of the time column.
        features: Names of the feature columns.
        unit: Unit of numeric times: s, ms, us or ns. By default, seconds.
        sort: Sort events that are not in time order instead of raising an error.
        label: Name of the column with the label of each event, or a comparison such as "rating<0".
        label_name: Name of the second of two classes.
        label_names: Names of all classes, in the order of their values.
        event_name: What one event is called: message, rating, payment, …

    >>> import pandas as pd
    >>> graph = from_table(pd.DataFrame({"sender": ["ann", "bob"], "receiver": ["bob", "eve"], "time": [1, 2]}))
    >>> graph, graph.name(0)
    (TemporalGraph(3 nodes, 2 events), 'ann')
    """
    arrow = _as_arrow(table)
    chosen = choice.choose_columns(_head(arrow.schema), GivenColumns(src, dst, time, features), label)
    return _graph(arrow, chosen, unit, sort, LabelOptions(label, label_name, label_names, event_name))


def from_temporal_data(
    data: Any,
    *,
    unit: str | None = None,
    sort: bool = False,
    label_name: str | None = None,
    label_names: Sequence[str] | None = None,
    event_name: str | None = None,
) -> TemporalGraph:
    """Events from a PyTorch Geometric `TemporalData`: anything with `src`, `dst`, `t`, optionally `msg` and labels `y`.

    Args:
        data: The object.
        unit: Unit of the times: s, ms, us or ns. A model that was trained on these times expects them unchanged:
            `unit="s"`.
        sort: Sort events that are not in time order instead of raising an error.
        label_name: Name of the second of two classes.
        label_names: Names of all classes, in the order of their values.
        event_name: What one event is called: message, rating, payment, …
    """
    missing = [name for name in ("src", "dst", "t") if getattr(data, name, None) is None]
    if missing:
        raise DataError(f"{type(data).__name__} has no {' and no '.join(missing)}; TemporalData has src, dst and t")
    ends = {name: columns.to_numpy(getattr(data, name), name) for name in ("src", "dst")}
    message = getattr(data, "msg", None)
    features = None if message is None else columns.to_numpy(message, "msg")
    if features is not None and features.ndim == 1:
        features = features[:, None]
    numbers = (columns.whole_numbers(given, name) for name, given in ends.items())
    sources, destinations, names = columns.number_integers(*numbers)
    times = columns.to_numpy(data.t, "t")
    if times.dtype.kind in "iuf" and times.ndim == 1:  # from_arrays rejects everything else
        times = columns.in_seconds(times.astype(np.float64), "t", unit)
    labels = _labels_of_data(data, LabelOptions(None, label_name, label_names, event_name))
    return TemporalGraph.from_arrays(sources, destinations, times, features=features, names=names, sort=sort, **labels)


def _labels_of_data(data: Any, options: LabelOptions) -> dict[str, Any]:
    """The labels `y` of a TemporalData, where they are one class for each event."""
    given = getattr(data, "y", None)
    values = None if given is None else columns.to_numpy(given, "y")
    if values is None or values.ndim != 1 or values.dtype.kind not in "iufb" or len(values) != len(data.src):
        return choice.without_labels(options)
    return choice.read_labels(pa.chunked_array([values]), LabelRule("label", guessed=True), options)


def _labels_in(table: Any, rule: LabelRule | None, options: LabelOptions) -> dict[str, Any]:
    if rule is None:
        return choice.without_labels(options)
    return choice.read_labels(table[rule.column], rule, options, table[rule.names_in] if rule.names_in else None)


def two_sided(src: Integers, dst: Integers, words: tuple[str, str]) -> tuple[Integers, Integers, list[str]]:
    """Numbers and names of two kinds of nodes whose ids overlap: sources in sorted order, then destinations.

    Args:
        src: Source ids.
        dst: Destination ids.
        words: What to call a source and a destination.
    """
    sources, src_rank = np.unique(src, return_inverse=True)
    destinations, dst_rank = np.unique(dst, return_inverse=True)
    names = [f"{words[0]}{node}" for node in sources] + [f"{words[1]}{node}" for node in destinations]
    return src_rank, dst_rank + len(sources), names


def exists(path: Path) -> bool:
    """Whether a path exists; one that cannot be looked up is an error."""
    try:
        path.stat()
    except (FileNotFoundError, NotADirectoryError):
        return False
    except (OSError, ValueError) as error:  # too long, with a zero byte, no permission
        text = str(path) if len(str(path)) <= 60 else f"{str(path)[:60]}…"
        raise CallError(f"{text!r} cannot be used as a path: {first_line(error)}") from None
    return True


def _open_folder(folder: Path, named: bool, unit: str | None) -> TemporalGraph:
    from cody.data.storage import open_graph  # only where a graph was saved: what describes it takes time to import

    if not is_saved_graph(folder):
        raise DataError(
            f"{folder} is a directory, but not a saved graph (it has no graph.json); did you mean a file in it?"
        )
    if named:
        raise CallError(f"{folder} is a saved graph: its columns are known, so they cannot be given")
    if unit is not None:
        raise CallError(f"{folder} is a saved graph: give the unit, {str(unit)!r}, when its file is imported")
    return open_graph(folder)


def is_saved_graph(folder: Path) -> bool:
    """Whether `save_graph` wrote this folder; `graph.json` is written last."""
    return (folder / "graph.json").is_file()


def _missing_file(file: Path) -> DataError:
    if not file.parent.is_dir():
        return DataError(f"there is no file {file}, nor a directory {file.parent}")
    return DataError(f"there is no file {file}{did_you_mean(file.name, *files_to_suggest(file.parent))}")


def files_to_suggest(folder: Path) -> tuple[list[str], list[str]]:
    """File names to suggest: all but hidden ones, and those that look like events."""
    visible = sorted(path.name for path in folder.iterdir() if not path.name.startswith("."))
    return visible, [name for name in visible if name.endswith(ENDINGS) or is_saved_graph(folder / name)]


def _first_lines(file: Path) -> list[bytes]:
    """The first lines, whatever their line endings."""
    with open_text(file) as stream:
        return stream.read(10**6).replace(b"\r\n", b"\n").replace(b"\r", b"\n").split(b"\n")


def _head_of_file(file: Path, header: bool, separator: str | None) -> TableHead:
    """The head of a Parquet file, which has no delimiter, or of a csv."""
    if starts_with(file, b"PAR1"):
        with errors_of_parquet():
            return _head(parquet.read_schema(file))
    return _header(file, separator) if header else _no_header(file, separator)


def _known_format(head: TableHead, given: GivenColumns) -> Callable[..., TemporalGraph] | None:
    """What reads a csv of a format whose columns are known, unless a user names others."""
    if any(given) or not head.delimiter:
        return None
    return _read_ml if head.names == ML_COLUMNS else _read_jodie if head.names == JODIE_COLUMNS else None


def _header(file: Path, separator: str | None) -> TableHead:
    """The head of a csv whose first line names the columns."""
    text = _text_line(_first_lines(file)[0])
    names, delimiter = _cells(text, "line 1, which must name the columns,", separator)
    if all(re.fullmatch(r"[-+.\deE]*", name) for name in names):
        raise DataError(f"line 1 must name the columns (src,dst,time), but it is {text[:80]!r}; {choice.NO_HEADER}")
    return TableHead(names, delimiter=delimiter, skip=1)


def _no_header(file: Path, separator: str | None) -> TableHead:
    """The head of a csv without names: columns are called 1, 2, 3, …, and lines of comments may come first."""
    lines = _first_lines(file)
    skip = next((number for number, line in enumerate(lines) if not line.startswith((b"#", b"%"))), len(lines))
    if skip == len(lines) or not lines[skip]:
        raise DataError("there are no events")
    cells, delimiter = _cells(_text_line(lines[skip]), f"line {skip + 1}", separator)
    return TableHead([str(number) for number in range(1, len(cells) + 1)], delimiter=delimiter, skip=skip)


def _text_line(line: bytes) -> str:
    if b"\0" in line or line.startswith(b"PK\3\4"):
        raise DataError(f"unknown format: this is neither Parquet nor text; {READABLE}")
    text = line.decode("utf-8-sig")
    if text.lstrip().startswith(("{", "[")):
        raise DataError(f"unknown format: this looks like JSON; {READABLE}")
    return text


def _cells(text: str, what: str, separator: str | None) -> tuple[list[str], str]:
    """The cells of a line, and the delimiter between them."""
    delimiter = _delimiter(text) if separator is None else _one_character(separator)
    try:
        return [cell.strip() for cell in next(csv.reader([text], delimiter=delimiter), [])], delimiter
    except csv.Error as error:
        raise DataError(f"{what} cannot be read: {first_line(error)}") from None


def _delimiter(text: str) -> str:
    """What seems to separate the cells of a line; what is between quotes does not count."""
    text = re.sub('"[^"]*"', "", text)
    delimiter = max(",\t;", key=text.count) if re.search("[,\t;]", text) else " "
    if delimiter == " " and len(text.split()) < 3 <= len(text.split("|")):  # a name between blanks may have bars
        return "|"
    return delimiter


def _one_character(separator: str) -> str:
    """The separator as a user writes it: a character, or a word for one that is hard to type."""
    character = {"tab": "\t", "\\t": "\t", "space": " ", "blank": " "}.get(separator, separator)
    if not isinstance(character, str) or len(character) != 1 or not character.isascii() or character in '"\r\n':
        raise CallError(f"separator is one character, such as ';' or 'tab', not {separator!r:.60}")
    return character


def _head(schema: Any) -> TableHead:
    return TableHead(schema.names, [field.name for field in schema if columns.is_list(field.type)])


class ParquetColumns:
    """The columns of a Parquet file, each read when it is taken: read together, they would be freed together."""

    def __init__(self, file: Path, chosen: EventColumns) -> None:
        # Ids as dictionaries: a file of a few bytes can repeat a long word in any number of rows.
        with errors_of_parquet():
            kinds = parquet.read_schema(file)
            words = [name for name in (chosen.src, chosen.dst) if not types.is_nested(kinds.field(name).type)]
            self.file = parquet.ParquetFile(file, read_dictionary=words, pre_buffer=False)
        self.num_rows = self.file.metadata.num_rows
        self.at_most, self.allocated_before = largest_unpacked(), pa.total_allocated_bytes()
        if _declared_size(self.file.metadata, chosen.needed) > self.at_most:
            raise too_large(self.at_most)

    def __getitem__(self, name: str) -> Any:
        """One column; raises a DataError as soon as it turns out to be too large."""
        pa.default_memory_pool().release_unused()
        chunks = []
        with errors_of_parquet():
            for batch in self.file.iter_batches(BATCH, columns=[name]):
                chunks.append(batch.column(0))
                if pa.total_allocated_bytes() - self.allocated_before > self.at_most:
                    raise too_large(self.at_most)
        if (found := sum(map(len, chunks))) != self.num_rows:
            raise damaged_parquet(f"column {name!r} has {found:,} of {self.num_rows:,} rows")
        return pa.chunked_array(chunks)


@contextmanager
def errors_of_parquet() -> Iterator[None]:
    try:
        yield
    except (pa.ArrowException, OSError) as error:
        raise damaged_parquet(first_line(error)) from None


def damaged_parquet(how: str) -> DataError:
    return DataError(f"the Parquet file is truncated or damaged ({how})")


def _declared_size(metadata: Any, columns: list[str]) -> int:
    """Bytes that the columns will take. A run of equal values takes no room in the file, but does in memory."""
    size = 0
    for number in range(metadata.num_columns):
        if metadata.schema.column(number).path.split(".")[0] in {name.split(".")[0] for name in columns}:
            chunks = [metadata.row_group(group).column(number) for group in range(metadata.num_row_groups)]
            size += sum(max(chunk.total_uncompressed_size, 8 * chunk.num_values) for chunk in chunks)
    return size


def _csv_table(file: Path, head: TableHead, chosen: EventColumns) -> Any:
    ids = (chosen.src, chosen.dst)
    as_text = [*ids, chosen.label.names_in] if chosen.label and chosen.label.names_in else ids  # "007" is not 7
    with open_text(file) as stream:
        kinds = dict.fromkeys(as_text, pa.string())
        table = read_text_columns(stream, head.names, head.delimiter, skip=head.skip, types=kinds)
    for name in ids:
        numbers = columns.integers_if_possible(compute.utf8_trim_whitespace(table[name]))
        table = table.set_column(head.names.index(name), name, numbers)
    return table


def _read_jodie(file: Path, unit: str | None, sort: bool, labels: LabelOptions) -> TemporalGraph:
    """Users and items both count from 0, and each row has more fields than the header: the features."""
    width = max(b"".join(_first_lines(file)[1:2]).count(b",") + 1 - 4, 0)
    names = [*JODIE_COLUMNS[:4], *(f"f{number}" for number in range(width))]
    with open_text(file) as stream:
        table = read_text_columns(stream, names, ",", skip=1)
    users, items = (columns.ids_from(0, table[name], name) for name in ("user_id", "item_id"))
    src, dst, node_names = two_sided(users, items, ("u", "i"))
    times = columns.time_column(table["timestamp"], "timestamp", unit)
    features, _ = columns.feature_table(table, names[4:])
    known = _labels_in(table, choice.rule_of_labels(labels.label, names, ()), labels)
    return TemporalGraph.from_arrays(src, dst, times, features=features, names=node_names, sort=sort, **known)


def _read_ml(file: Path, unit: str | None, sort: bool, labels: LabelOptions) -> TemporalGraph:
    """Ids, events and the rows of both npy files count from 1; row 0 of the npy files is padding."""
    with open_text(file) as stream:
        table = read_text_columns(stream, ["", *ML_COLUMNS[1:]], ",", skip=1)
    src, dst = (columns.ids_from(1, table[name], name) - 1 for name in ("u", "i"))
    order = columns.id_column(table["idx"], "idx")
    if (wrong := first_row(order != np.arange(1, len(order) + 1))) is not None:
        raise DataError(f"idx must count 1, 2, 3, …; row {wrong} has {order[wrong]}")
    stem = file.with_name(file.name.removesuffix(".gz").removesuffix(".csv"))
    times = columns.time_column(table["ts"], "ts", unit)
    features = _padded_table(Path(f"{stem}.npy"), rows=len(src))
    of_nodes = _padded_table(Path(f"{stem}_node.npy"), rows=None)
    known = _labels_in(table, choice.rule_of_labels(labels.label, ML_COLUMNS[1:], ()), labels)
    return TemporalGraph.from_arrays(src, dst, times, features=features, node_features=of_nodes, sort=sort, **known)


def _padded_table(file: Path, rows: int | None) -> NDArray[Any] | None:
    if not file.exists():
        return None
    table = load_array(file, mapped=False)
    if table.ndim != 2 or table.dtype.kind not in "fiu":
        raise DataError(f"{file.name} must be a table of numbers, not {table.dtype} of shape {table.shape}")
    if rows is not None and len(table) != rows + 1:
        raise DataError(f"{file.name} must have {rows + 1} rows (row 0 is padding), not {len(table)}")
    if (bad := first_row(~np.isfinite(table[1:]).all(axis=1))) is not None:
        raise DataError(f"{file.name} must hold finite numbers; row {bad + 1} has a NaN or an infinity")
    return table[1:]


def _as_arrow(table: Any) -> Any:
    try:
        if hasattr(table, "iloc"):  # pandas: drop its index
            return pa.Table.from_pandas(table, preserve_index=False)
        return pa.table(table)
    except (pa.ArrowException, TypeError, ValueError, OverflowError) as error:
        raise DataError(f"the table cannot be used: {'; '.join(map(first_line, error.args))}") from None


def _graph(table: Any, chosen: EventColumns, unit: str | None, sort: bool, labels: LabelOptions) -> TemporalGraph:
    if not table.num_rows:
        raise DataError("there are no events")
    features, feature_names = columns.feature_table(table, chosen.features)
    src, dst = (_small(columns.id_column(table[name], name)) for name in (chosen.src, chosen.dst))
    names: NDArray[Any] | None
    if isinstance(src, np.ndarray) and isinstance(dst, np.ndarray):
        src, dst, names = columns.number_integers(src, dst)
    elif isinstance(src, np.ndarray) or isinstance(dst, np.ndarray):
        number, text = (chosen.src, chosen.dst) if isinstance(src, np.ndarray) else (chosen.dst, chosen.src)
        raise DataError(
            f"column {number!r} holds integers, but column {text!r} holds text, so the same node could have two "
            "names; make both integers or both text"
        )
    else:
        src, dst, names = columns.number_text(src, dst)
    src, dst = hand_over(_small(src)), hand_over(_small(dst))  # without copies, as these take most memory
    times = hand_over(columns.time_column(table[chosen.time], chosen.time, unit))
    pa.default_memory_pool().release_unused()  # what Arrow has may be half of the memory
    known = _labels_in(table, chosen.label, labels) | {"features": features, "feature_names": feature_names}
    return TemporalGraph.from_arrays(src, dst, times, names=names, sort=sort, **known)


def _small(ids: Any) -> Any:
    """Whole numbers as int32, if they are small enough: many events take much memory."""
    if not isinstance(ids, np.ndarray) or not (ids.min() >= -(2**31) and ids.max() < 2**31):
        return ids
    return ids.astype(np.int32, copy=False)


# Events by an SQL query: `duckdb:events.db?query=SELECT …`, answered by DuckDB. What follows `?query=` is the query as
# it is. Without a file (`duckdb:?query=…`), it may name csv and Parquet files, as DuckDB's queries can.

SCHEME, QUERY = "duckdb:", "?query="
FORM = 'duckdb:events.db?query=SELECT "from" AS src, "to" AS dst, sent AS time FROM mails ORDER BY sent'


def is_query(source: Any) -> TypeGuard[str]:
    """Whether a source is the address of a query, by its form."""
    return isinstance(source, str) and source.startswith(SCHEME)


def read_query(address: str, **columns: Any) -> TemporalGraph:
    """The events that a query returns.

    Args:
        address: `duckdb:FILE?query=SQL`.
        columns: Those of `from_table`.
    """
    file, given, query = address.removeprefix(SCHEME).partition(QUERY)
    for name in ("header", "separator"):
        if name in columns:
            raise CallError(f"{name} is about csv files; of a query, the columns have names")
    with needed_by("a query of DuckDB"):
        import duckdb
    if file and not Path(file).is_file():
        raise DataError(f"there is no file {file} to query")
    try:
        with duckdb.connect(file or ":memory:", read_only=bool(file)) as connection:
            if not given or not query.strip():
                raise CallError(f"{address!r:.60} says no query{_tables(connection)}; for example {FORM}")
            table = connection.sql(query)
            if table is None:
                raise DataError(f"the query returns no table: {query!r:.200}")
            return from_table(table.to_arrow_table(), **columns)
    except duckdb.Error as error:
        raise DataError(f"DuckDB cannot answer {query or file!r:.200}: {first_line(error)}") from None


def _tables(connection: Any) -> str:
    names = [name for (name,) in connection.sql("SELECT table_name FROM duckdb_tables()").fetchall()]
    return f" (tables: {', '.join(names[:20])})" if names else ""
