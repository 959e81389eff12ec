"""Events from files and tables, in any of several formats, as a TemporalGraph.

The format is recognized by the content of a file, not by its name: Parquet, csv with named columns (also gzipped),
JODIE csv, `ml_X.csv` with its npy files, or a folder written by `save_graph`. All errors name the file and the 0-based
row.
"""

from __future__ import annotations

import csv
import gzip
import io
import os
import re
import zlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from cody.data.columns import (
    Integers,
    counted_from,
    feature_table,
    id_column,
    in_seconds,
    integers_if_possible,
    is_list,
    names_of_features,
    number_integers,
    number_text,
    time_column,
    to_numpy,
    whole_numbers,
)
from cody.data.storage import clear_up, is_saved_graph, open_graph
from cody.errors import CallError, DataError, did_you_mean, first_line
from cody.graph import TemporalGraph
from cody.utils.files import load_array

SRC_WORDS = ("src", "source", "u", "user", "user_id", "from", "sender")
DST_WORDS = ("dst", "target", "destination", "i", "item", "item_id", "to", "receiver", "recipient")
TIME_WORDS = ("t", "time", "ts", "timestamp", "unixts", "date", "datetime", "date_time", "created_at", "sent_at")
FEATURE_LIST_WORDS = ("features", "msg")
FEATURE_COLUMN = re.compile(r"(?:f|feature_?|feat_?)(\d+)", re.IGNORECASE)
JODIE_COLUMNS = ["user_id", "item_id", "timestamp", "state_label", "comma_separated_list_of_features"]
ML_COLUMNS = ["", "u", "i", "ts", "label", "idx"]
NO_HEADER = "if line 1 is already an event: header=False in Python, `cody data import --no-header` on the command line"
READABLE = "events are read from Parquet and csv files (cody.load also takes a pandas DataFrame)"

ENDINGS = (".csv", ".csv.gz", ".tsv", ".parquet")  # of most files of events; others are read, too

BATCH = 1 << 14  # rows of a Parquet file that are read at once
ASSUMED_MEMORY = 8 * 2**30  # bytes, for a machine that does not say how many it has

ByteStream = IO[bytes] | io.BufferedReader


class EventColumns(NamedTuple):
    """The columns of a table that make events."""

    src: str
    dst: str
    time: str
    features: list[str]


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
    """
    file = Path(path)
    if not exists(file):
        raise _missing_file(file)
    if file.is_dir():
        return _open_folder(file, named=any((src, dst, time, features)), unit=unit)
    with errors_about(file):
        if file.stat().st_size == 0:
            raise DataError("the file is empty")
        if _starts_with(file, b"PAR1"):
            return _read_parquet(file, src, dst, time, features, unit, sort)
        names, delimiter, skip = _header(file) if header else _no_header(file)
        if names == ML_COLUMNS and not any((src, dst, time, features)):
            return _read_ml(file, unit, sort)
        if names == JODIE_COLUMNS and not any((src, dst, time, features)):
            return _read_jodie(file, unit, sort)
        with _open_text(file) as stream:
            chosen = _choose(names, [], src, dst, time, features, header)
            return _graph(_csv_table(stream, names, delimiter, skip, chosen), chosen, unit, sort)


def unused_columns(
    path: str | os.PathLike[str],
    *,
    src: str | None = None,
    dst: str | None = None,
    time: str | None = None,
    features: Sequence[str] | None = None,
    header: bool = True,
) -> list[str]:
    """The columns of a file that `read_events` leaves out.

    Args:
        path: A file.
        src: Name of the source column.
        dst: Name of the destination column.
        time: Name of the time column.
        features: Names of the feature columns.
        header: Whether the first line has the column names.
    """
    file = Path(path)
    if not file.is_file():
        return []
    if _starts_with(file, b"PAR1"):
        from pyarrow import parquet

        schema = parquet.read_schema(file)
        names, lists = schema.names, [field.name for field in schema if is_list(field.type)]
    else:
        names, lists = (_header(file) if header else _no_header(file))[0], []
    if names in (ML_COLUMNS, JODIE_COLUMNS) and not any((src, dst, time, features)):
        return []
    chosen = _choose(names, lists, src, dst, time, features, header)
    return [name for name in names if name not in (*chosen[:3], *chosen.features)]


def from_table(
    table: Any,
    *,
    src: str | None = None,
    dst: str | None = None,
    time: str | None = None,
    features: Sequence[str] | None = None,
    unit: str | None = None,
    sort: bool = False,
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

    >>> import pandas as pd
    >>> graph = from_table(pd.DataFrame({"sender": ["ann", "bob"], "receiver": ["bob", "eve"], "time": [1, 2]}))
    >>> graph, graph.name(0)
    (TemporalGraph(3 nodes, 2 events), 'ann')
    """
    arrow = _as_arrow(table)
    lists = [field.name for field in arrow.schema if is_list(field.type)]
    chosen = _choose(arrow.column_names, lists, src, dst, time, features)
    return _graph(arrow, chosen, unit, sort)


def from_temporal_data(data: Any, *, unit: str | None = None, sort: bool = False) -> TemporalGraph:
    """Events from a PyTorch Geometric `TemporalData`: anything with `src`, `dst`, `t` and optionally `msg`.

    Args:
        data: The object.
        unit: Unit of the times: s, ms, us or ns. A model that was trained on these times expects them unchanged:
            `unit="s"`.
        sort: Sort events that are not in time order instead of raising an error.
    """
    missing = [name for name in ("src", "dst", "t") if getattr(data, name, None) is None]
    if missing:
        raise DataError(f"{type(data).__name__} has no {' and no '.join(missing)}; TemporalData has src, dst and t")
    source, destination = (whole_numbers(to_numpy(getattr(data, name), name), name) for name in ("src", "dst"))
    message = getattr(data, "msg", None)
    features = None if message is None else to_numpy(message, "msg")
    if features is not None and features.ndim == 1:
        features = features[:, None]
    sources, destinations, names = number_integers(source, destination)
    times = to_numpy(data.t, "t")
    if times.dtype.kind in "iuf" and times.ndim == 1:  # from_arrays rejects everything else
        times = in_seconds(times.astype(np.float64), "t", unit)
    return TemporalGraph.from_arrays(sources, destinations, times, features=features, names=names, sort=sort)


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


def read_text_columns(
    stream: ByteStream, names: list[str], delimiter: str, *, skip: int = 0, types: dict[str, Any] | None = None
) -> Any:
    """A pyarrow Table from delimited text. Ragged rows, damaged text and empty tables raise a DataError.

    Args:
        stream: The text, as bytes.
        names: Names of the columns.
        delimiter: What separates two columns.
        skip: Number of leading lines to skip.
        types: Arrow types of some columns.
    """
    import pyarrow as pa
    from pyarrow import csv as arrow_csv

    try:
        table = arrow_csv.read_csv(
            stream,
            # One thread: only then can the parser say which row is wrong.
            read_options=arrow_csv.ReadOptions(column_names=names, skip_rows=skip, use_threads=False),
            parse_options=arrow_csv.ParseOptions(delimiter=delimiter),
            convert_options=arrow_csv.ConvertOptions(column_types=types or {}),
        )
    except pa.ArrowInvalid as error:
        if "Empty CSV" in str(error):
            raise DataError("there are no events") from None
        raise DataError(f"the text cannot be read as a table: {first_line(error)}") from None
    if not table.num_rows:
        raise DataError("there are no events")
    return table


def exists(path: Path) -> bool:
    """Whether a path exists, if need be after restoring a graph whose replacement was interrupted."""
    try:
        path.stat()
    except (FileNotFoundError, NotADirectoryError):
        clear_up(path)
        return path.exists()
    except (OSError, ValueError) as error:  # too long, with a zero byte, no permission
        text = str(path) if len(str(path)) <= 60 else f"{str(path)[:60]}…"
        raise CallError(f"{text!r} cannot be used as a path: {first_line(error)}") from None
    return True


@contextmanager
def errors_about(file: Path) -> Iterator[None]:
    """Prefix every error with the name of the file."""
    try:
        yield
    except DataError as error:
        raise DataError(f"{file}: {error}") from error.__cause__
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
        raise DataError(f"{file}: the gzip file is truncated or damaged ({first_line(error)})") from None
    except UnicodeDecodeError:
        raise DataError(f"{file}: the text is not UTF-8; convert it first") from None
    except OSError as error:
        raise DataError(f"{file}: cannot be read: {first_line(error)}") from None


def _open_folder(folder: Path, named: bool, unit: str | None) -> TemporalGraph:
    if not is_saved_graph(folder):
        raise DataError(
            f"{folder} is a directory, but not a saved graph (it has no graph.json); did you mean a file in it?"
        )
    if named:
        raise CallError(f"{folder} is a saved graph: its columns are known, so they cannot be given")
    if unit is not None:
        raise CallError(f"{folder} is a saved graph: give the unit, {str(unit)!r}, when its file is imported")
    return open_graph(folder)


def _missing_file(file: Path) -> DataError:
    folder = file.parent
    if not folder.is_dir():
        return DataError(f"there is no file {file}, nor a directory {folder}")
    return DataError(f"there is no file {file}{did_you_mean(file.name, *files_to_suggest(folder))}")


def files_to_suggest(folder: Path) -> tuple[list[str], list[str]]:
    """File names to suggest: all but hidden ones, and those that look like events."""
    visible = sorted(path.name for path in folder.iterdir() if not path.name.startswith("."))
    return visible, [name for name in visible if name.endswith(ENDINGS) or is_saved_graph(folder / name)]


def _starts_with(file: Path, magic: bytes) -> bool:
    with file.open("rb") as stream:
        return stream.read(len(magic)) == magic


def _open_text(file: Path) -> ByteStream:
    return unpack_gzip(file, largest_unpacked()) if _starts_with(file, b"\x1f\x8b") else file.open("rb")


def largest_unpacked() -> int:
    """How many bytes a compressed file may unpack to: a quarter of the machine's memory, as reading makes copies."""
    try:
        memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, ValueError, OSError):
        memory = ASSUMED_MEMORY
    return memory // 4


def unpack_gzip(file: Path, at_most: int) -> io.BufferedReader:
    return at_most_bytes(gzip.open(file), at_most)


def at_most_bytes(stream: IO[bytes] | gzip.GzipFile, at_most: int) -> io.BufferedReader:
    """The stream; reading beyond `at_most` bytes raises a DataError."""
    return io.BufferedReader(_Limited(stream, at_most), buffer_size=1 << 20)


class _Limited(io.RawIOBase):
    def __init__(self, stream: IO[bytes] | gzip.GzipFile, at_most: int) -> None:
        self._stream, self._at_most, self._read = stream, at_most, 0

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        block = self._stream.read(len(buffer))
        self._read += len(block)
        if self._read > self._at_most:
            raise _too_large(self._at_most)
        buffer[: len(block)] = block
        return len(block)

    def close(self) -> None:
        self._stream.close()
        super().close()


def _too_large(at_most: int) -> DataError:
    return DataError(
        f"it unpacks to more than {at_most:,} bytes, the limit for a compressed file on this machine; if that is "
        "right, unpack it first, or use a machine with more memory"
    )


def _first_lines(file: Path) -> list[bytes]:
    """The first lines, whatever their line endings."""
    with _open_text(file) as stream:
        return stream.read(10**6).replace(b"\r\n", b"\n").replace(b"\r", b"\n").split(b"\n")


def _header(file: Path) -> tuple[list[str], str, int]:
    """The names of a csv's columns, the delimiter between them, and how many lines they take."""
    text = _text_line(_first_lines(file)[0])
    names, delimiter = _cells(text, "line 1, which must name the columns,")
    if all(re.fullmatch(r"[-+.\deE]*", name) for name in names):
        raise DataError(f"line 1 must name the columns (src,dst,time), but it is {text[:80]!r}; {NO_HEADER}")
    return names, delimiter, 1


def _no_header(file: Path) -> tuple[list[str], str, int]:
    """Numbers as names of the columns, the delimiter, and how many lines of comments come first."""
    lines = _first_lines(file)
    skip = next((number for number, line in enumerate(lines) if not line.startswith((b"#", b"%"))), len(lines))
    if skip == len(lines) or not lines[skip]:
        raise DataError("there are no events")
    cells, delimiter = _cells(_text_line(lines[skip]), f"line {skip + 1}")
    return [str(number) for number in range(1, len(cells) + 1)], delimiter, skip


def _text_line(line: bytes) -> str:
    if b"\0" in line or line.startswith(b"PK\3\4"):
        raise DataError(f"unknown format: this is neither Parquet nor text; {READABLE}")
    text = line.decode("utf-8-sig")
    if text.lstrip().startswith(("{", "[")):
        raise DataError(f"unknown format: this looks like JSON; {READABLE}")
    return text


def _cells(text: str, what: str) -> tuple[list[str], str]:
    """The cells of a line, and the delimiter between them."""
    delimiter = max(",\t;", key=text.count) if re.search("[,\t;]", text) else " "
    try:
        return [cell.strip() for cell in next(csv.reader([text], delimiter=delimiter), [])], delimiter
    except csv.Error as error:
        raise DataError(f"{what} cannot be read: {first_line(error)}") from None


def _read_parquet(
    file: Path,
    src: str | None,
    dst: str | None,
    time: str | None,
    features: Sequence[str] | None,
    unit: str | None,
    sort: bool,
) -> TemporalGraph:
    import pyarrow as pa
    from pyarrow import parquet

    try:
        schema = parquet.read_schema(file)
        lists = [field.name for field in schema if is_list(field.type)]
        chosen = _choose(schema.names, lists, src, dst, time, features)
        # Ids as dictionaries: a file of a few bytes can repeat a long word in any number of rows.
        with parquet.ParquetFile(file, read_dictionary=[chosen.src, chosen.dst]) as opened:
            table = _read_batches(opened, list(dict.fromkeys([*chosen[:3], *chosen.features])), largest_unpacked())
    except (pa.ArrowException, OSError) as error:
        raise DataError(f"the Parquet file is truncated or damaged ({first_line(error)})") from None
    return _graph(table, chosen, unit, sort)


def _read_batches(opened: Any, columns: list[str], at_most: int) -> Any:
    """Columns of a Parquet file; raises a DataError as soon as they turn out to be too large."""
    import pyarrow as pa

    if _declared_size(opened.metadata, columns) > at_most:
        raise _too_large(at_most)
    before, batches = pa.total_allocated_bytes(), []
    for batch in opened.iter_batches(BATCH, columns=columns):
        batches.append(batch)
        if pa.total_allocated_bytes() - before > at_most:
            raise _too_large(at_most)
    return pa.Table.from_batches(batches, schema=None if batches else opened.schema_arrow)


def _declared_size(metadata: Any, columns: list[str]) -> int:
    """Bytes that the columns will take. A run of equal values takes no room in the file, but does in memory."""
    size = 0
    for number in range(metadata.num_columns):
        if metadata.schema.column(number).path.split(".")[0] in {name.split(".")[0] for name in columns}:
            chunks = [metadata.row_group(group).column(number) for group in range(metadata.num_row_groups)]
            size += sum(max(chunk.total_uncompressed_size, 8 * chunk.num_values) for chunk in chunks)
    return size


def _csv_table(stream: ByteStream, header: list[str], delimiter: str, skip: int, chosen: EventColumns) -> Any:
    import pyarrow as pa
    from pyarrow import compute

    ids_as_text = {chosen.src: pa.string(), chosen.dst: pa.string()}  # "007" is not 7
    table = read_text_columns(stream, header, delimiter, skip=skip, types=ids_as_text)
    for name in (chosen.src, chosen.dst):
        ids = integers_if_possible(compute.utf8_trim_whitespace(table[name]))
        table = table.set_column(header.index(name), name, ids)
    return table


def _read_jodie(file: Path, unit: str | None, sort: bool) -> TemporalGraph:
    """Users and items both count from 0, and each row has more fields than the header: the features."""
    width = max(b"".join(_first_lines(file)[1:2]).count(b",") + 1 - 4, 0)
    names = [*JODIE_COLUMNS[:4], *(f"f{number}" for number in range(width))]
    with _open_text(file) as stream:
        table = read_text_columns(stream, names, ",", skip=1)
    users, items = (counted_from(0, id_column(table[name], name), name) for name in ("user_id", "item_id"))
    src, dst, node_names = two_sided(users, items, ("u", "i"))
    return TemporalGraph.from_arrays(
        src,
        dst,
        time_column(table["timestamp"], "timestamp", unit),
        features=feature_table(table, names[4:]),
        names=node_names,
        sort=sort,
    )


def _read_ml(file: Path, unit: str | None, sort: bool) -> TemporalGraph:
    """Ids, events and the rows of both npy files count from 1; row 0 of the npy files is padding."""
    with _open_text(file) as stream:
        table = read_text_columns(stream, ["", *ML_COLUMNS[1:]], ",", skip=1)
    src, dst = (counted_from(1, id_column(table[name], name), name) - 1 for name in ("u", "i"))
    order = id_column(table["idx"], "idx")
    wrong = np.flatnonzero(order != np.arange(1, len(order) + 1))
    if wrong.size:
        raise DataError(f"idx must count 1, 2, 3, …; row {wrong[0]} has {order[wrong[0]]}")
    stem = file.with_name(file.name.removesuffix(".gz").removesuffix(".csv"))
    return TemporalGraph.from_arrays(
        src,
        dst,
        time_column(table["ts"], "ts", unit),
        features=_padded_table(Path(f"{stem}.npy"), rows=len(src)),
        node_features=_padded_table(Path(f"{stem}_node.npy"), rows=None),
        sort=sort,
    )


def _padded_table(file: Path, rows: int | None) -> NDArray[Any] | None:
    if not file.exists():
        return None
    table = load_array(file, mapped=False)
    if table.ndim != 2 or table.dtype.kind not in "fiu":
        raise DataError(f"{file.name} must be a table of numbers, not {table.dtype} of shape {table.shape}")
    if rows is not None and len(table) != rows + 1:
        raise DataError(f"{file.name} must have {rows + 1} rows (row 0 is padding), not {len(table)}")
    bad = np.flatnonzero(~np.isfinite(table[1:]).all(axis=1))
    if bad.size:
        raise DataError(f"{file.name} must hold finite numbers; row {bad[0] + 1} has a NaN or an infinity")
    return table[1:]


def _as_arrow(table: Any) -> Any:
    import pyarrow as pa

    try:
        if hasattr(table, "iloc"):  # pandas: drop its index
            return pa.Table.from_pandas(table, preserve_index=False)
        return pa.table(table)
    except (pa.ArrowException, TypeError, ValueError, OverflowError) as error:
        raise DataError(f"the table cannot be used: {'; '.join(map(first_line, error.args))}") from None


def _choose(
    names: Sequence[str],
    list_columns: Sequence[str],
    src: str | None,
    dst: str | None,
    time: str | None,
    features: Sequence[str] | None,
    header: bool = True,
) -> EventColumns:
    twice = sorted({name for name in names if list(names).count(name) > 1})
    if twice:
        raise DataError(f"column names must differ; {twice[0]!r} occurs more than once")
    wanted = [features] if isinstance(features, str) else features
    usual = (SRC_WORDS, DST_WORDS, TIME_WORDS) if header else (("1",), ("2",), ("3",))
    roles = {"src": (src, usual[0]), "dst": (dst, usual[1]), "time": (time, usual[2])}
    found = {role: _pick(role, given, words, names) for role, (given, words) in roles.items()}
    missing = [role for role, name in found.items() if name is None]
    if missing:
        raise _missing_columns(missing, [word for role in missing for word in roles[role][1]], names)
    listed = _guess_features(names, list_columns) if wanted is None else [_given(name, names) for name in wanted]
    chosen = EventColumns(str(found["src"]), str(found["dst"]), str(found["time"]), listed)
    used = [*chosen[:3], *listed]
    twice = [name for name in used if used.count(name) > 1]
    if twice:
        raise CallError(f"column {twice[0]!r} can only be one of src, dst, time and the features, and only once")
    return chosen


def _pick(role: str, given: str | None, words: Sequence[str], names: Sequence[str]) -> str | None:
    if given is not None:
        return _given(given, names)
    found = [name for name in names if name.casefold() in words]
    if len(found) > 1:
        raise DataError(
            f"{role} could be {' or '.join(map(repr, found))}; choose one: {role}={found[0]!r} in Python, "
            f"`cody data import --{role} {found[0]}` on the command line"
        )
    return found[0] if found else None


def _missing_columns(missing: Sequence[str], words: Sequence[str], names: Sequence[str]) -> DataError:
    hint = next(filter(None, (_closest(word, names) for word in words if len(word) > 2)), "")
    if len(missing) == 3 or names[0].startswith("#"):
        hint += (
            f"; line 1 of a csv is taken as the header: is the header line missing, or a comment before it? {NO_HEADER}"
        )
    python, options = ", ".join(f"{role}='…'" for role in missing), " ".join(f"--{role} …" for role in missing)
    called, them = ("column is called", "it") if len(missing) == 1 else ("columns are called", "them")
    return DataError(
        f"no {called} {', '.join(missing)} or similar (columns: {_listed(names)}); name {them}: {python} in Python, "
        f"`cody data import {options}` on the command line{hint}"
    )


def _given(name: str, names: Sequence[str]) -> str:
    if name in names:
        return name
    raise DataError(f"there is no column {name!r} (columns: {_listed(names)}){_closest(name, names)}")


def _listed(names: Sequence[str]) -> str:
    return ", ".join(names[:20]) + (", …" if len(names) > 20 else "")


def _closest(word: str, names: Sequence[str]) -> str:
    hint = did_you_mean(word, names)
    return hint if "did you mean" in hint else ""  # the message lists all columns already


def _guess_features(names: Sequence[str], list_columns: Sequence[str]) -> list[str]:
    numbered = {name: match for name in names if (match := FEATURE_COLUMN.fullmatch(name))}
    if numbered:
        return sorted(numbered, key=lambda name: int(numbered[name][1]))
    return [name for name in list_columns if name.casefold() in FEATURE_LIST_WORDS][:1]


def _graph(table: Any, chosen: EventColumns, unit: str | None, sort: bool) -> TemporalGraph:
    if not table.num_rows:
        raise DataError("there are no events")
    src, dst = (id_column(table[name], name) for name in (chosen.src, chosen.dst))
    if isinstance(src, np.ndarray) and isinstance(dst, np.ndarray):
        numbered: tuple[Integers, Integers, NDArray[Any] | None] = number_integers(src, dst)
    elif isinstance(src, np.ndarray) or isinstance(dst, np.ndarray):
        number, text = (chosen.src, chosen.dst) if isinstance(src, np.ndarray) else (chosen.dst, chosen.src)
        raise DataError(
            f"column {number!r} holds integers, but column {text!r} holds text, so the same node could have two "
            "names; make both integers or both text"
        )
    else:
        numbered = number_text(src, dst)
    sources, destinations, names = numbered
    return TemporalGraph.from_arrays(
        sources,
        destinations,
        time_column(table[chosen.time], chosen.time, unit),
        features=feature_table(table, chosen.features),
        feature_names=names_of_features(table, chosen.features),
        names=names,
        sort=sort,
    )
