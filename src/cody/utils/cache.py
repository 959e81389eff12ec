"""What is kept on this machine so that the next answer comes sooner. All of it can be made or downloaded again."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from cody.utils.files import cache_directory

MADE = {  # what can be cleared: it is made again when it is needed
    "versions": "memories of TGNs, one table for each model and data set",
    "intact": "notes on saved graphs that were verified",
}
OTHERS = "downloaded data sets and other files"


class CacheEntry(NamedTuple):
    """Files of one kind."""

    name: str  # "": all others
    what: str
    files: int
    size: int  # bytes


def kept() -> list[CacheEntry]:
    """What the cache holds, by kind."""
    folder = cache_directory()
    made = [_kept(name, what, _files(folder / name)) for name, what in MADE.items()]
    rest = [file for file in _files(folder) if file.relative_to(folder).parts[0] not in MADE]
    return [*made, _kept("", OTHERS, iter(rest))]


def clear() -> int:
    """Remove what can be made again; how many bytes that frees. Downloads stay."""
    size = sum(each.size for each in kept() if each.name)
    for name in MADE:
        shutil.rmtree(cache_directory() / name, ignore_errors=True)
    return size - sum(each.size for each in kept() if each.name)


def _kept(name: str, what: str, files: Iterator[Path]) -> CacheEntry:
    sizes = []
    for file in files:
        with suppress(OSError):  # another process may clear it just now
            sizes.append(file.stat().st_size)
    return CacheEntry(name, what, len(sizes), sum(sizes))


def _files(folder: Path) -> Iterator[Path]:
    return (file for file in folder.rglob("*") if file.is_file())
