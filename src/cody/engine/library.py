"""The compiled library of `follow.c`, `layers.c` and `products.c`, where the installation has built it.

Without it, or with CODY_PURE=1 in the environment, the engine does the same in numpy. The library knows nothing of
Python: it is loaded with ctypes when a network is first used.
"""

from __future__ import annotations

import ctypes
import os
import struct
import zlib
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cody.graph import TemporalGraph

FOLDER = Path(__file__).parent
SOURCES = ("follow.c", "layers.c", "products.c", "numbers.h", "products.h", "tile.h")
NO_ROOM, DAMAGED = -1, -2  # what its functions return instead of a count

Pointer, Number = ctypes.c_void_p, ctypes.c_int64

_ARGUMENTS: dict[str, list[Any]] = {
    "follow_open": [Pointer],
    "follow_close": [Pointer],
    "follow_table": [Pointer, Pointer],
    "follow_begin": [Pointer, Number, Number, Pointer, Pointer, Pointer, Number],
    "follow_advance": [Pointer],
    "follow_compute": [Pointer, Pointer, Pointer],
    "follow_result": [Pointer, Pointer, Pointer, Number, Pointer],
    "lineage_trace": [Pointer, Pointer, Number, Pointer, Number],
    "lineage_count": [Pointer, Pointer],
    "lineage_columns": [*[Pointer] * 3, Number, *[Pointer] * 6],
    "lineage_children": [Number, *[Pointer] * 8],
    "lineage_depend": [Number, Number, *[Pointer] * 9],
    "lineage_kept": [Number, Number, *[Pointer] * 5],
    "rows_open": [Number],
    "rows_close": [Pointer],
    "rows_find": [Pointer, Number, Pointer, Pointer, Pointer],
    "layer_find": [Pointer, *[Number] * 2, *[Pointer] * 6],
    "layer_plan": [Pointer, Number, *[Pointer] * 3],
    "layer_compute": [Pointer, Number, Pointer, Number, *[Pointer] * 3],
    "links_score": [*[Pointer] * 2, Number, *[Pointer] * 2, Number, *[Pointer] * 5],
    "rows_all": [Pointer, Pointer],
    "histories_latest": [*[Pointer] * 2, Number, *[Pointer] * 3],
    "versions_read": [Pointer, Number, Pointer, Number, *[Pointer] * 3],
    "histories_attended": [*[Pointer] * 3, *[Number] * 2, *[Pointer] * 6],
    "matrix_open": [*[Number] * 3, *[Pointer] * 2],
    "matrix_close": [Pointer],
    "matrix_multiply": [Pointer, *[Number] * 2, *[Pointer] * 2, Number, Pointer, Number],
    "encode": [*[Number] * 2, *[Pointer] * 4, Number],
    "attend": [*[Number] * 4, Pointer, Pointer, Number, Pointer, Pointer, Pointer],
}


def form() -> str:
    """Which form of the engine runs in this process."""
    return "numpy" if library() is None else "compiled"


def library() -> Any:
    """The compiled library, or None where it is absent, cut off, of another source, or not wanted."""
    return None if os.environ.get("CODY_PURE") == "1" else _library()


@cache
def _library() -> Any:
    try:
        file = next(FOLDER.glob("follow.*.so"))
        if not _is_whole(file):
            return None
        loaded = ctypes.CDLL(str(file))
        loaded.follow_source.restype = Number
        if loaded.follow_source() != source_number():
            return None  # left behind by an older version of the source
    except (OSError, AttributeError, StopIteration):
        return None
    for name, arguments in _ARGUMENTS.items():
        function = getattr(loaded, name)
        function.argtypes, function.restype = arguments, Pointer if name.endswith("_open") else Number
    return loaded


def _is_whole(file: Path) -> bool:
    """Whether a library is there to its end: loading the beginning of one, left by an interrupted installation, kills.

    The last thing in an ELF file is the table of its sections. Loaders of other formats check for themselves.
    """
    with file.open("rb") as opened:
        header = opened.read(64)
    if not header.startswith(b"\x7fELF"):
        return True
    if len(header) < 64:
        return False
    is_wide, order = header[4] == 2, "<" if header[5] == 1 else ">"
    (start,) = struct.unpack_from(order + ("Q" if is_wide else "I"), header, 40 if is_wide else 32)
    length, count = struct.unpack_from(order + "HH", header, 58 if is_wide else 46)
    return start + length * count <= file.stat().st_size


def source_number() -> int:
    """A number that changes with the sources; what is built from them has it, too."""
    return zlib.crc32(b"".join((FOLDER / name).read_bytes() for name in SOURCES))


def structure(name: str, fields: str, **others: Any) -> type[ctypes.Structure]:
    """A structure of the library: `*` stands before pointers, as in C; the rest are numbers, but for `others`."""
    types = {field.lstrip("*"): Pointer if field.startswith("*") else Number for field in fields.split()}
    return type(name, (ctypes.Structure,), {"_fields_": list((types | others).items())})


def graph_columns(graph: TemporalGraph) -> dict[str, NDArray[Any]]:
    """Ends of events and lists of the events of each node, as the library reads them."""
    dtypes = {"src": np.int32, "dst": np.int32, "offsets": np.int64, "incidence": np.int64}  # as graphs have them
    return {name: np.ascontiguousarray(getattr(graph, name), dtype) for name, dtype in dtypes.items()}


def check_count(returned: int) -> int:
    """A count that a function of the library returned; a lack of memory is an error."""
    if returned == NO_ROOM:
        raise MemoryError
    return returned


def contiguous(array: NDArray[Any]) -> NDArray[Any]:
    """The array as the library reads it: without gaps."""
    return array if array.flags.c_contiguous else np.ascontiguousarray(array)


def address(array: NDArray[Any]) -> int:
    """Where an array begins: `array.ctypes.data`, which takes several times as long."""
    try:
        return ctypes.addressof(ctypes.c_char.from_buffer(array))  # type: ignore[arg-type]
    except (TypeError, ValueError):  # it may not be written to, or is empty, or has gaps
        return int(array.ctypes.data)
