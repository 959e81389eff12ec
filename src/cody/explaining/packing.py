"""Many sets and lists of rows in few characters, as documents have them: compressed, and written as base64."""

from __future__ import annotations

import base64
import zlib
from collections.abc import Sequence

import numpy as np

PACKED_SETS = (
    "base64 of zlib of bits: ceil(candidates / 8) bytes a set; bit i % 8 of byte i // 8, lowest first, says whether "
    "candidate i is in it. Or a list of lists of rows."
)
PACKED_ROWS = (
    "base64 of zlib of 64-bit integers, lowest byte first: for each unit the number of its rows, then the first of "
    "them, and how much larger each following one is. Or a list of lists of rows."
)
PACKED_FEATURES = (
    "base64 of zlib of 32-bit floats, lowest byte first: the features of each added or altered event, in order"
)
LARGEST = 80_000_000  # bytes of rows: more is not a document of ours


def pack_sets(sets: Sequence[Sequence[int]], rows: Sequence[int]) -> str:
    """Sets of some rows, as bits."""
    place = {row: number for number, row in enumerate(rows)}
    bits = np.zeros((len(sets), len(rows)), dtype=bool)
    for number, change in enumerate(sets):
        bits[number, [place[row] for row in change]] = True
    return _compressed(np.packbits(bits, axis=1, bitorder="little").tobytes())


def unpack_sets(packed: str, count: int, rows: Sequence[int]) -> Sequence[Sequence[int]]:
    """What `pack_sets` packed.

    Args:
        packed: The sets.
        count: How many there are.
        rows: What they are sets of.
    """
    width = -(-len(rows) // 8)  # bytes of a set
    size = count * width
    content = _decompressed(packed, size + 1)
    if len(content) != size:
        raise ValueError(f"the evaluated sets do not fit {count} logits and {len(rows)} candidates")
    bytes_of = np.frombuffer(content, dtype=np.uint8).reshape(count, width)
    bits = np.unpackbits(bytes_of, axis=1, bitorder="little")[:, : len(rows)]
    numbers = np.array(rows, dtype=np.int64)
    return [numbers[chosen.astype(bool)].tolist() for chosen in bits]


def pack_rows(lists: Sequence[Sequence[int]]) -> str:
    """Lists of ascending rows, as differences.

    >>> unpack_rows(pack_rows([(3, 4, 9), (), (7,)]))
    [(3, 4, 9), (), (7,)]
    """
    parts = [np.concatenate([[len(rows)], np.diff(rows, prepend=0)]) for rows in lists]
    numbers = np.concatenate(parts).astype("<i8") if parts else np.zeros(0, dtype="<i8")
    return _compressed(numbers.tobytes())


def unpack_rows(packed: str) -> list[tuple[int, ...]]:
    """What `pack_rows` packed."""
    content = _decompressed(packed, LARGEST)
    numbers = np.frombuffer(content[: len(content) // 8 * 8], dtype="<i8")
    lists, place = [], 0
    while place < len(numbers):
        stop = place + 1 + int(numbers[place])
        if not place < stop <= len(numbers):
            raise ValueError("the rows of units are not complete")
        lists.append(tuple(np.cumsum(numbers[place + 1 : stop]).tolist()))
        place = stop
    return lists


def pack_features(features: Sequence[Sequence[float]]) -> str:
    """Features of some events, as many of each; empty where there are none.

    >>> unpack_features(pack_features([(0.5, 1.0), (2.0, 3.0)]), 2)
    [(0.5, 1.0), (2.0, 3.0)]
    """
    table = np.array(features, dtype="<f4")
    return _compressed(table.tobytes()) if table.size else ""


def unpack_features(packed: str, count: int) -> list[tuple[float, ...]]:
    """What `pack_features` packed.

    Args:
        packed: The features.
        count: Of how many events.
    """
    content = _decompressed(packed, LARGEST)
    if not count or not content or len(content) % (4 * count):
        raise ValueError(f"the features are not those of {count} added or altered events")
    return list(map(tuple, np.frombuffer(content, dtype="<f4").reshape(count, -1).tolist()))


def _compressed(content: bytes) -> str:
    return base64.b64encode(zlib.compress(content, 9)).decode()


def _decompressed(packed: str, most: int) -> bytes:
    return zlib.decompressobj().decompress(base64.b64decode(packed, validate=True), most)
