"""Columns of a table as arrays: ids numbered from 0, times in seconds, features as numbers. Errors name the row."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from contextlib import suppress
from datetime import datetime
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cody.data.arrow import compute, pa, types
from cody.errors import CallError, DataError, TimeWarning, first_line
from cody.graph.columns import LONGEST_NAME, check_room_for_names, first_row, reject_long_texts
from cody.utils.words import is_date, moment_and_zone, sanitize

UNITS_PER_SECOND = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}
UNIT_NAMES = {"ms": "milliseconds", "us": "microseconds", "ns": "nanoseconds"}

Integers = NDArray[np.int64]
Floats = NDArray[np.float64]


def id_column(column: Any, name: str) -> Any:
    """Node ids as an int64 array, or as text: an Arrow dictionary array, which stores each word once."""
    kind = column.type.value_type if types.is_dictionary(column.type) else column.type
    if is_text(kind):
        return _text_ids(column, name)
    numbers = types.is_integer(kind) or types.is_floating(kind) or types.is_decimal(kind)
    if not (numbers or types.is_null(kind)):
        raise DataError(f"column {name!r} must hold node ids, integers or text, not {column.type}")
    column = in_one_piece(column)
    if (empty := first_row(column.is_null().to_numpy(zero_copy_only=False))) is not None:
        raise DataError(f"column {name!r} has no id in row {empty}")
    if types.is_decimal(kind):
        return _whole_decimals(column, name)
    return whole_numbers(column.to_numpy(zero_copy_only=False), name)


def in_one_piece(column: Any) -> Any:
    """A column as one array of its values; a dictionary may be a category of pandas."""
    whole = column.combine_chunks()
    return whole.dictionary_decode() if types.is_dictionary(whole.type) else whole


def _whole_decimals(column: Any, name: str) -> Integers:

    try:
        return np.asarray(column.cast(pa.int64()).to_numpy(zero_copy_only=False))
    except pa.ArrowInvalid:
        for row, item in enumerate(column):
            value = item.as_py()
            if value != value.to_integral_value() or not -(2**63) <= value < 2**63:
                raise DataError(
                    f"{name!r} must hold integer node ids up to {2**63 - 1}; row {row} has {value}"
                ) from None
        raise DataError(f"column {name!r} cannot be used as node ids") from None


def is_text(kind: Any) -> bool:
    return _is_one_of(kind, "is_string", "is_large_string", "is_string_view")


def _is_one_of(kind: Any, *checks: str) -> bool:
    """Whether an Arrow type is one of these, if this version of pyarrow has them."""
    return any(getattr(types, check)(kind) for check in checks if hasattr(types, check))


def _text_ids(column: Any, name: str) -> Any:
    """Text ids as a dictionary, so that a long word in many rows is checked before it is copied."""
    try:
        if types.is_dictionary(column.type):
            column = column.cast(pa.dictionary(pa.int32(), pa.large_string())).unify_dictionaries()
        else:
            column = column.cast(pa.large_string()).dictionary_encode()
        column = column.combine_chunks()
        words = column.dictionary
        words.validate(full=True)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
        raise DataError(f"column {name!r} cannot be used as node ids: {first_line(error)}") from None
    lengths = compute.utf8_length(words).fill_null(0).to_numpy(zero_copy_only=False)
    if column.indices.null_count or (lengths == 0).any() or (lengths > LONGEST_NAME).any():
        _check_rows(column, np.append(lengths, 0), name)  # a row without a word counts as one of length 0
    return column


def _check_rows(column: Any, lengths: Integers, name: str) -> None:
    """Reject a bad word, unless no row uses it."""
    rows = lengths[column.indices.fill_null(len(column.dictionary)).to_numpy(zero_copy_only=False)]
    if (empty := first_row(rows == 0)) is not None:
        raise DataError(f"column {name!r} has no id in row {empty}")
    if (long := first_row(rows > LONGEST_NAME)) is not None:
        raise DataError(
            f"column {name!r} has a name of {rows[long]:,} characters in row {long}; names may have {LONGEST_NAME:,}"
        )


def whole_numbers(values: NDArray[Any], name: str) -> Integers:
    if values.dtype.kind not in "iuf" or values.ndim != 1:
        raise DataError(f"{name!r} must hold integer node ids, not {values.dtype} of shape {values.shape}")
    if values.dtype.kind == "i" and values.size and values.min() >= -(2**63 - 1):  # many, so without temporary arrays
        return values.astype(np.int64, copy=False)
    # Up to this number every integer has its own value: 2^53 - 1 for float64.
    exact = 2 ** (np.finfo(values.dtype).nmant + 1) - 1 if values.dtype.kind == "f" else 2**63 - 1
    if (bad := first_row(~((values == np.round(values)) & (values <= exact) & (values >= -exact)))) is not None:
        size = f" up to {exact} (the limit of {values.dtype})" if np.abs(values[bad]) > exact else ""
        raise DataError(f"{name!r} must hold integer node ids{size}; row {bad} has {values[bad]}")
    return values.astype(np.int64)


def ids_from(least: int, column: Any, name: str) -> Integers:
    """Node ids that are integers, counted from a number on."""
    ids = id_column(column, name)
    if not isinstance(ids, np.ndarray):
        raise DataError(f"{name!r} must hold integer ids, but it holds text, such as {ids[0].as_py()!r}")
    if (bad := first_row(ids < least)) is not None:
        raise DataError(f"{name!r} must hold ids from {least} on; row {bad} has {ids[bad]}")
    return ids


def integers_if_possible(column: Any) -> Any:
    """A text column as integers, if that loses nothing."""
    try:
        integers = column.cast(pa.int64())
    except pa.ArrowInvalid:
        return column
    return integers if compute.all(compute.equal(integers.cast(pa.string()), column)).as_py() else column


def number_integers(
    src: NDArray[Any], dst: NDArray[Any]
) -> tuple[NDArray[Any], NDArray[Any], NDArray[np.int64] | None]:
    if not src.size:
        raise DataError("there are no events")
    largest = int(max(src.max(), dst.max()))
    if min(src.min(), dst.min()) < 0 or largest > 8 * len(src):  # sparse: sort instead of marking the ids that occur
        distinct, rank = np.unique(np.concatenate([src, dst]), return_inverse=True)
        return rank[: len(src)], rank[len(src) :], distinct.astype(np.int64)
    occurs = np.zeros(largest + 1, dtype=bool)
    occurs[src] = True
    occurs[dst] = True
    if occurs.all():
        return src, dst, None
    ranks = np.cumsum(occurs) - 1
    return ranks[src], ranks[dst], np.flatnonzero(occurs)


def number_text(src: Any, dst: Any) -> tuple[Integers, Integers, NDArray[np.str_]]:
    """Number the words of two dictionary arrays in sorted order."""
    both = pa.concat_arrays([src.dictionary, dst.dictionary]).dictionary_encode()
    known, first = both.indices.to_numpy(), len(src.dictionary)
    ids = np.concatenate([known[:first][src.indices.to_numpy()], known[first:][dst.indices.to_numpy()]])
    occurs = np.zeros(len(both.dictionary), dtype=bool)
    occurs[ids] = True
    used = both.dictionary.filter(pa.array(occurs))
    check_room_for_names(len(used), compute.max(compute.utf8_length(used)).as_py())
    words = np.array(used.to_pylist(), dtype=str)
    order = np.argsort(words)
    rank = np.empty(len(occurs), dtype=np.int64)
    rank[np.flatnonzero(occurs)[order]] = np.arange(len(words))
    return rank[ids[: len(src)]], rank[ids[len(src) :]], words[order]


def time_column(column: Any, name: str, unit: str | None = None) -> Floats:
    """Times as float64: dates, also as text, as unix seconds; numbers are converted by `in_seconds`."""
    column = in_one_piece(column)
    if is_text(column.type):
        column = _moments(column)
    if (missing := first_row(column.is_null().to_numpy(zero_copy_only=False))) is not None:
        raise DataError(f"time must be finite; row {missing} has none (column {name!r})")
    if types.is_date(column.type):
        column = column.cast(pa.timestamp("s" if types.is_date32(column.type) else "ms"))
    if types.is_timestamp(column.type):
        if unit is not None:
            raise CallError(
                f"unit {str(unit)!r} is for times that are numbers; column {name!r} holds dates: leave it out"
            )
        whole, rest = np.divmod(column.cast(pa.int64()).to_numpy(), UNITS_PER_SECOND[column.type.unit])
        return whole + rest / UNITS_PER_SECOND[column.type.unit]
    if not (types.is_integer(column.type) or types.is_floating(column.type) or types.is_decimal(column.type)):
        raise DataError(f"time must be numbers or datetimes; column {name!r} has type {column.type}{_example(column)}")
    numbers = column.cast(pa.float64(), safe=False).to_numpy(zero_copy_only=False)
    return in_seconds(np.asarray(numbers, dtype=np.float64), name, unit)


def _moments(column: Any) -> Any:
    """A text column as numbers or datetimes, if possible; spaces around them, or dates of several lengths, are text."""
    for kind in (pa.float64(), pa.timestamp("ns"), pa.timestamp("ns", tz="UTC")):
        with suppress(pa.ArrowInvalid):
            return compute.utf8_trim_whitespace(column.cast(pa.large_string())).cast(kind)
    return column


def in_seconds(times: Floats, name: str, unit: str | None) -> Floats:
    """Numbers of that unit as seconds. Without a unit they are seconds, with a warning if that is unlikely."""
    if unit is not None and unit not in UNITS_PER_SECOND:
        raise CallError(f"unit must be one of {', '.join(UNITS_PER_SECOND)}, not {str(unit)!r}")
    likely = _likely_unit(times) if unit is None else None
    if likely is not None:
        first = times.min() / UNITS_PER_SECOND[likely]
        warnings.warn(
            f"the times in {name!r} look like {UNIT_NAMES[likely]} since 1970 (then the first is "
            f"{moment_and_zone(float(first))}), but they are taken as seconds, which makes every duration "
            f"{UNITS_PER_SECOND[likely]:,} times too long; give --unit {likely} (unit={likely!r} in Python), or s if "
            "they are seconds",
            TimeWarning,
            stacklevel=2,
        )
    return times if unit is None else times / UNITS_PER_SECOND[unit]


def _likely_unit(times: Floats) -> str | None:
    """The unit in which all of these numbers are dates, if they are not dates in seconds."""
    if not len(times):
        return None
    limits = float(times.min()), float(times.max())
    return next((unit for unit in UNIT_NAMES if all(is_date(time / UNITS_PER_SECOND[unit]) for time in limits)), None)


def _example(column: Any) -> str:
    """The first value that is not a number, for an error message. Among dates, the first that is not like the first."""
    first = None
    for row, item in enumerate(column[:100_000]):
        try:
            value = item.as_py()
        except (ValueError, OverflowError):  # text that is not UTF-8, a duration of too many years
            return ""
        kind = _kind_of_time(value)
        first = first or kind
        if kind == OTHER or kind != first:
            unlike = f", unlike {_kind_of_time(column[0].as_py())} in row 0" if row else ""
            return f", such as {sanitize(repr(value))} in row {row}{unlike}"
    return ""


OTHER = "something else"


def _kind_of_time(value: Any) -> str:
    try:
        float(value)
        return "the number"
    except (TypeError, ValueError):
        pass
    try:
        zone = datetime.fromisoformat(str(value).strip()).tzinfo
    except ValueError:
        return OTHER
    return "the date" if zone is None else "the date with a time zone"


def feature_table(table: Any, names: Sequence[str]) -> tuple[NDArray[np.float32] | None, list[str] | None]:
    """The columns of features side by side, and their names; the elements of a list column are numbered."""
    parts: list[NDArray[np.float32]] = []
    found: list[str] = []
    for name in names:
        column = table[name].combine_chunks()
        parts.append(_feature_columns(column, name))
        found += [f"{name}[{place}]" for place in range(parts[-1].shape[1])] if is_list(column.type) else [name]
    return (np.concatenate(parts, axis=1), found) if names else (None, None)


def _feature_columns(column: Any, name: str) -> NDArray[np.float32]:
    """One column of numbers, or of lists of equal length, as [E, width]."""
    if (missing := first_row(column.is_null().to_numpy(zero_copy_only=False))) is not None:
        raise DataError(f"features must be finite numbers; row {missing} of column {name!r} has none")
    rows = len(column)
    if is_list(column.type):
        lengths = compute.list_value_length(column).to_numpy(zero_copy_only=False)
        if (odd := first_row(lengths != lengths[0])) is not None:
            raise DataError(
                f"all rows must have equally many features; row {odd} has {lengths[odd]}, row 0 has {lengths[0]}"
            )
        column = column.flatten()
    try:
        values = column.cast(pa.float64(), safe=False).to_numpy(zero_copy_only=False).reshape(rows, -1)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
        raise DataError(f"features must be numbers; column {name!r} has type {column.type}{_example(column)}") from None
    if (bad := first_row(~np.isfinite(values).all(axis=1))) is not None:
        raise DataError(f"features must be finite numbers; row {bad} of column {name!r} has a NaN or an infinity")
    return np.asarray(values, dtype=np.float32)


def is_list(kind: Any) -> bool:
    views = ("is_list_view", "is_large_list_view")
    return _is_one_of(kind, "is_list", "is_large_list", "is_fixed_size_list", *views)


def to_numpy(value: Any, name: str) -> NDArray[Any]:
    """An array from anything array-like, including torch tensors on any device, without importing torch."""
    for step in ("detach", "cpu"):
        if hasattr(value, step):
            value = getattr(value, step)()
    try:
        reject_long_texts(value)
        return np.asanyarray(value)
    except (TypeError, ValueError) as error:
        raise DataError(f"{name!r} must be an array of numbers: {first_line(error)}") from None
