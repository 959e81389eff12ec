"""Columns of events: user input checked once and turned into arrays, the index of events by node, the identity."""

from __future__ import annotations

import hashlib
import operator
from collections.abc import Sequence
from contextlib import suppress
from datetime import UTC, date, datetime
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from cody.errors import CallError, DataError, first_line
from cody.utils.words import parse_moment

IntArray = NDArray[np.integer[Any]]
FloatArray = NDArray[np.floating[Any]]
BoolArray = NDArray[np.bool_]

LONGEST_NAME = 1_000  # characters; the names of all nodes take as much room as the longest
MOST_ROOM_FOR_NAMES = 2 * 2**30  # bytes
NUMBERED_AT_ONCE = 1 << 16  # events, so that their numbers take little memory
MOST_CLASSES = 100  # of labels
LATEST_TIME = 1e19  # above nanoseconds since 1970; float32 models cannot compute with larger times


def first_row(wrong: Any) -> int | None:
    """The first row of which something is true; None: it is true of none."""
    return int(np.argmax(wrong)) if wrong.any() else None


def check_times(time: ArrayLike) -> FloatArray:
    array = as_array("time", time)
    try:
        times = own(array, np.float64)
    except (TypeError, ValueError, OverflowError) as error:
        raise DataError(f"time must be numbers: {first_line(error)} (cody.load converts dates)") from None
    if times.ndim != 1:
        raise DataError(f"time must be one column, not an array of shape {times.shape}")
    if not times.size:
        raise DataError("there are no events")
    if (bad := first_row(~(np.abs(times) <= LATEST_TIME))) is not None:
        limit = f" and at most {LATEST_TIME:g} in size" if np.isfinite(times[bad]) else ""
        raise DataError(f"time must be finite{limit}; row {bad} has {times[bad]}")
    return times


def check_sorted(times: FloatArray) -> None:
    if (row := first_row(times[1:] < times[:-1])) is not None:
        raise DataError(
            f"events must be sorted by time; row {row + 1} is earlier than row {row} "
            "(sort=True, or --sort on the command line, sorts them and keeps the order of equal times)"
        )


def check_node_ids(column: str, ids: ArrayLike, events: int) -> IntArray:
    array = as_array(column, ids)
    if array.shape != (events,):
        raise DataError(f"{column} has shape {array.shape}, time has {events} rows")
    if array.dtype.kind not in "iu":
        whole = array.dtype.kind == "f" and bool(np.all(np.isfinite(array) & (array == np.round(array))))
        if not whole:
            raise DataError(f"{column} must be integer node ids, not {array.dtype} (cody.load maps other ids)")
    if (bad := first_row((array < 0) | (array >= 2**31))) is not None:
        raise DataError(f"{column} must be ids from 0 to 2^31 - 1; row {bad} has {array[bad]}")
    return own(array, np.int32)


class HandedOver(np.ndarray):
    """A column that a graph takes as it is, where a copy would take too much memory: whoever made it keeps nothing."""


def hand_over(column: NDArray[Any]) -> HandedOver:
    """A column for a graph only: nobody else may have it, or a view of it."""
    column = column if column.base is None else column.copy()
    column.setflags(write=False)
    return column.view(HandedOver)


def own(array: NDArray[Any], dtype: Any) -> NDArray[Any]:
    """A copy as this type; or the array itself, if it is of this type and was handed over."""
    if isinstance(array, HandedOver) and array.dtype == dtype:
        return array.view(np.ndarray)
    return array.astype(dtype)


def check_feature_table(column: str, table: ArrayLike | None, rows: int, of_what: str) -> FloatArray | None:
    if table is None:
        return None
    array = as_array(column, table)
    try:
        with np.errstate(over="ignore"):  # numbers too large for float32 become infinite, and are rejected below
            array = array.astype(np.float32)
    except (TypeError, ValueError, OverflowError) as error:
        raise DataError(f"{column} must be numbers: {first_line(error)}") from None
    if array.ndim != 2 or len(array) != rows:
        raise DataError(f"{column} must have {rows} rows, one for each of the {of_what}, not shape {array.shape}")
    if (bad := first_row(~np.isfinite(array).all(axis=1))) is not None:
        raise DataError(f"{column} must be finite numbers; row {bad} has a NaN or an infinity")
    return array if array.shape[1] else None


def check_feature_names(features: FloatArray | None, names: Sequence[str] | None) -> tuple[str, ...] | None:
    if names is None:
        return None
    width = 0 if features is None else features.shape[1]
    texts = tuple(map(str, names))
    if len(texts) != width or len(set(texts)) < width:
        raise DataError(f"feature_names must be {width} different names, one for each feature, not {list(texts)!r:.60}")
    return texts


def check_labels(labels: ArrayLike, events: int) -> IntArray:
    """Classes as int32; what is missing (a NaN) is unknown: -1."""
    array = as_array("labels", labels)
    if array.shape != (events,):
        raise DataError(f"labels has shape {array.shape}, but there are {events} events")
    if array.dtype.kind == "f":
        array = np.where(np.isnan(array), -1, array)
    elif array.dtype.kind not in "iub":
        raise DataError(f"labels must be whole numbers, one class for each event, not {array.dtype}")
    if (bad := first_row(~((array == np.round(array)) & (array >= -1) & (array < MOST_CLASSES)))) is not None:
        raise DataError(
            f"labels must be classes from 0 to {MOST_CLASSES - 1}, or -1 where unknown; row {bad} has {array[bad]}"
        )
    classes = array.astype(np.int32)
    classes.setflags(write=False)
    return classes


def check_label_names(labels: IntArray | None, names: Sequence[str] | None) -> tuple[str, ...] | None:
    """A name for each class, at least two; by default their numbers."""
    if labels is None:
        if names is not None:
            raise DataError("label_names names the classes of labels, and there are none")
        return None
    needed = max(2, int(labels.max(initial=0)) + 1)
    if names is None:
        return tuple(map(str, range(needed)))
    texts = tuple(map(str, names))
    if isinstance(names, str) or len(texts) < needed or len(set(texts)) < len(texts) or not all(texts):
        raise DataError(f"label_names must be at least {needed} different names, not {list(names)!s:.60}")
    return texts


def count_nodes(
    src: IntArray, dst: IntArray, num_nodes: int | None, node_features: NDArray[Any] | None, names: NDArray[Any] | None
) -> int:
    largest = int(max(src.max(), dst.max()))
    given = {} if num_nodes is None else {"num_nodes": whole_number("num_nodes", num_nodes)}
    tables = {"node_features": node_features, "names": names}
    given |= {key: table.shape[0] if table.ndim else 0 for key, table in tables.items() if table is not None}
    if len(set(given.values())) > 1:
        counts = ", ".join(f"{key}: {count}" for key, count in given.items())
        raise DataError(f"the number of nodes is contradictory ({counts})")
    count = next(iter(given.values()), largest + 1)
    if largest >= count:
        raise DataError(f"node id {largest} appears in the events, but {next(iter(given))} says {count} nodes")
    if count > 1_000 * len(src) + 10**6 and node_features is None and names is None:
        raise DataError(
            f"{count:,} nodes are too many for {len(src):,} events: the ids are sparse; number the nodes 0, 1, 2, … "
            "(cody.load on a table with the columns src, dst and time does)"
        )
    return count


def check_names(names: Sequence[Any] | NDArray[Any]) -> NDArray[Any]:
    """The names as an array of whole numbers, or of text of a fixed width."""
    try:
        given = np.array(names, dtype=None if isinstance(names, np.ndarray) else object)
        if given.dtype.kind == "O" and all(type(name) is int or isinstance(name, np.integer) for name in given.flat):
            numbers = np.array(given.tolist())
            given = numbers if numbers.dtype.kind in "iu" else given  # too large numbers would become floats
    except (TypeError, ValueError) as error:
        raise DataError(f"names must be one word or number for each node: {first_line(error)}") from None
    if given.ndim != 1:
        raise DataError(f"names must be one-dimensional, not an array of shape {given.shape}")
    labels = given if given.dtype.kind in "iu" else _texts(given)
    distinct, counts = np.unique(labels, return_counts=True)
    if len(distinct) < len(labels):
        raise DataError(f"names must differ from node to node; {str(distinct[counts > 1][0])!r} occurs more than once")
    return labels


def _texts(names: NDArray[Any]) -> NDArray[np.str_]:
    """Names as an array of text, if their longest leaves room for all."""
    texts = names if names.dtype.kind == "U" else [_text(node, name) for node, name in enumerate(names)]
    lengths = np.char.str_len(names) if texts is names else np.array([len(text) for text in texts], dtype=np.int64)
    if (bad := first_row(lengths > LONGEST_NAME)) is not None:
        raise DataError(f"names must have at most {LONGEST_NAME:,} characters; that of node {bad} has {lengths[bad]:,}")
    longest = int(lengths.max(initial=1))
    check_room_for_names(len(names), longest)
    labels = np.array(texts, dtype=f"U{longest}")
    letters = labels.view(np.uint32).reshape(len(labels), longest)
    if (bad := first_row(((letters >= 0xD800) & (letters < 0xE000)).any(axis=1))) is not None:
        raise DataError(f"names must be text; that of node {bad} has half a character: {str(labels[bad])!a}")
    return labels


def _text(node: int, name: Any) -> str:
    if isinstance(name, list | tuple | dict | np.ndarray):
        raise DataError(f"names must be one word or number for each node; node {node} has {_shortened(name)}")
    try:
        return name.decode() if isinstance(name, bytes) else str(name)
    except ValueError as error:  # bytes that are not UTF-8, a number of thousands of digits
        reason = first_line(error)
        raise DataError(f"names must be one word or number for each node; that of node {node}: {reason}") from None


def check_room_for_names(nodes: int, longest: int) -> None:
    """Reject names that would fill the memory: each takes as much room as the longest."""
    room = 4 * nodes * longest
    if room > MOST_ROOM_FOR_NAMES:
        raise DataError(
            f"the names of {nodes:,} nodes would take {room / 2**30:.1f} GiB, because each takes as much room as "
            f"the longest, of {longest:,} characters; shorten the longest ones, or number the nodes"
        )


def as_array(column: str, values: Any) -> NDArray[Any]:
    """The values as a numpy array, unless they would lose their meaning when converted to numbers."""
    if isinstance(values, HandedOver):
        return values
    # An ndarray proper is not masked; asking numpy.ma would import it, which takes longer than all the rest.
    if type(values) is not np.ndarray and isinstance(values, np.ma.MaskedArray):
        raise DataError(f"{column} is a masked array; fill in or drop the masked values")
    try:
        reject_long_texts(values)
        array = np.asarray(values)
    except (TypeError, ValueError, RuntimeError) as error:
        raise DataError(f"{column} must be an array of numbers: {first_line(error)}") from None
    if array.dtype.kind in "mM":
        raise DataError(f"{column} holds {array.dtype}; convert it to seconds, or use cody.load, which converts dates")
    if array.dtype.kind == "c":
        raise DataError(f"{column} must be real numbers, not {array.dtype}")
    return array


def reject_long_texts(values: Any) -> None:
    """Reject long texts in a list before numpy reads it: in an array, each text takes as much room as the longest."""
    if not isinstance(values, list | tuple):
        return
    table = np.array(values, dtype=object)
    for position, value in enumerate(table.ravel()):
        if isinstance(value, str | bytes) and len(value) > LONGEST_NAME:
            row = position * len(values) // table.size
            raise ValueError(f"row {row} has a text of {len(value):,} characters")


def index_by_node(src: IntArray, dst: IntArray, num_nodes: int) -> tuple[IntArray, IntArray]:
    # Sorting node · 2E + 2 · row + side in place needs a quarter of the memory of a stable argsort, and less time.
    slots = 2 * len(src)
    keys = np.empty((len(src), 2), dtype=np.int64)
    for first in range(0, len(src), NUMBERED_AT_ONCE):
        rows = slice(first, first + NUMBERED_AT_ONCE)
        keys[rows, 0], keys[rows, 1] = src[rows], dst[rows]
        keys[rows] *= slots
        keys[rows] += np.arange(2 * first, min(2 * rows.stop, slots)).reshape(-1, 2)
    loops = np.flatnonzero(src == dst)  # a self-loop occurs once: its second key goes to the end, and then away
    keys[loops, 1] = np.iinfo(np.int64).max
    flat = keys.reshape(-1)
    flat.sort()
    flat = flat[: slots - len(loops)]
    offsets = np.searchsorted(flat, np.arange(num_nodes + 1) * slots).astype(np.int64)
    flat %= slots
    flat //= 2
    return offsets, flat


def identity_of(num_nodes: int, *columns: NDArray[Any] | None) -> str:
    digest = hashlib.blake2b(str(num_nodes).encode(), digest_size=16)
    for column in columns:
        digest.update(b"|")
        if column is not None:
            digest.update(f"{column.dtype.str}{column.shape}".encode())
            digest.update(np.ascontiguousarray(column).data)
    return digest.hexdigest()


def to_seconds(time: Any) -> float:
    """A number unchanged, a date (also as text) as unix seconds, like the readers of files."""
    if isinstance(time, str):
        time = parse_moment(time)
    try:
        if isinstance(time, date) and not isinstance(time, datetime):
            time = datetime(time.year, time.month, time.day)
        if isinstance(time, datetime):  # pandas' Timestamp too
            time = (time if time.tzinfo else time.replace(tzinfo=UTC)).timestamp()
        if isinstance(time, np.datetime64):
            time = (time - np.datetime64(0, "s")) / np.timedelta64(1, "s")
    except (ValueError, TypeError):  # NaT
        raise CallError(f"time must be a moment, not {time!r}") from None
    return finite_time(time)


def finite_time(time: Any) -> float:
    rejected = (str, bytes, bool, np.datetime64, np.timedelta64)  # float() takes some of them
    try:
        number = float("nan") if isinstance(time, rejected) else float(time)
    except (TypeError, ValueError, OverflowError):
        number = float("nan")
    if not abs(number) <= LATEST_TIME:
        raise CallError(f"time must be a finite number, at most {LATEST_TIME:g} in size, not {_shortened(time)}")
    return number


def whole_number(what: str, value: Any) -> int:
    """An int or a numpy integer; 1.0, True and "1" are errors."""
    if not isinstance(value, bool | np.bool_):  # older versions of numpy count with theirs
        with suppress(TypeError):
            return operator.index(value)
    raise CallError(f"{what} must be a whole number, not {_shortened(value)}")


def _shortened(value: Any) -> str:
    try:
        text = repr(value)
    except ValueError:  # Python does not print integers of thousands of digits
        return "such a large number"
    return text if len(text) <= 40 else f"{text[:40]}…"


def sorted_unique(numbers: IntArray) -> IntArray:
    """The different numbers, in order: `numpy.unique`, which takes several times as long for a few numbers.

    >>> sorted_unique(np.array([3, 1, 3])).tolist()
    [1, 3]
    """
    ordered = np.sort(numbers, axis=None)
    is_first = np.ones(len(ordered), dtype=bool)
    np.not_equal(ordered[1:], ordered[:-1], out=is_first[1:])
    return ordered[is_first]


def is_in(numbers: IntArray, others: IntArray) -> BoolArray:
    """Which of the numbers are among others: `numpy.isin`, which takes several times as long for a few numbers.

    >>> is_in(np.array([3, 1, 7]), np.array([7, 3])).tolist(), is_in(np.array([3]), np.array([], dtype=int)).tolist()
    ([True, False, True], [False])
    """
    if not len(others):
        return np.zeros(len(numbers), dtype=bool)
    ordered = np.sort(others)
    return ordered[np.searchsorted(ordered[:-1], numbers)] == numbers
