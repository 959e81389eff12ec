"""Frames of other libraries."""

from __future__ import annotations

from typing import Any

from cody.errors import CallError, MissingExtraError, did_you_mean

KINDS = ("pandas", "polars", "arrow")


def frame_of_kind(frame: Any, kind: str) -> Any:
    """A pandas DataFrame as the frame of a library.

    Args:
        frame: The frame.
        kind: "pandas", "polars" or "arrow".

    >>> import pandas
    >>> frame_of_kind(pandas.DataFrame({"event": [3, 4]}), "arrow").column("event").to_pylist()
    [3, 4]
    """
    if kind not in KINDS:
        raise CallError(f"there are no frames called {kind!r}{did_you_mean(str(kind), KINDS)}")
    if kind == "pandas":
        return frame
    import pyarrow

    table = pyarrow.Table.from_pandas(frame, preserve_index=False)
    if kind == "arrow":
        return table
    try:
        import polars
    except ModuleNotFoundError:
        raise MissingExtraError("a frame of polars needs polars, which is not installed: pip install polars") from None
    return polars.from_arrow(table)
