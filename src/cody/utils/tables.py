"""Plain text tables: columns side by side, as wide as they are, or folded to fit."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Collection, Iterable, Iterator, Sequence
from itertools import zip_longest
from typing import Any

from cody.utils.words import columns, padded

GAP = 2  # blanks between two columns
JOINED = "\u00a0"  # a blank at which no line is broken
STYLE = re.compile(r"\x1b\[[\d;]*m")  # what makes a text bold or coloured on a terminal


class TextTable:
    """A table whose columns are aligned. Cells may have several lines, and styles for a terminal.

    >>> table = TextTable("event", "#score")
    >>> table.add_row("a long name", "0.5")
    >>> print("\\n".join(table.lines()))
    event        score
    a long name    0.5
    >>> print("\\n".join(table.lines(width=12)))
    event  score
    a        0.5
    long
    name
    >>> links = TextTable("link")
    >>> links.add_row("1667 → 105")
    >>> list(links.lines(width=7))
    ['link', '1667 →', '105']

    Args:
        headings: of the columns; # stands before those of numbers, which are aligned on the right and never folded.
            Without any text in them there is no line of headings.
        rows: the cells of the first rows; `add_row` adds more.
        title: a line above the table.
        whole: places of further columns that are folded only where folding the others is not enough.
    """

    def __init__(
        self, *headings: str, rows: Iterable[Iterable[str]] = (), title: str = "", whole: Collection[int] = ()
    ) -> None:
        self.title, self.headings = title, [heading.removeprefix("#") for heading in headings]
        self.numbers = [heading.startswith("#") for heading in headings]
        self.whole = [number or place in whole for place, number in enumerate(self.numbers)]
        self.rows = [tuple(row) for row in rows]

    def add_row(self, *cells: str) -> None:
        self.rows.append(cells)

    def lines(self, width: int | None = None) -> Iterator[str]:
        """The lines of the table. With `width`, they are at most that wide, if its words allow it."""
        yield from self.title.split("\n") if self.title else ()
        rows: Sequence[Sequence[str]] = [self.headings, *self.rows] if any(self.headings) else self.rows
        widths = self._widths(rows, width)
        for row in rows:
            cells = [_folded(cell, room) for cell, room in zip(row, widths, strict=True)]
            for parts in zip_longest(*cells, fillvalue=""):
                aligned = (
                    padded(part, room + len(part) - len(STYLE.sub("", part)), right=number)
                    for part, room, number in zip(parts, widths, self.numbers, strict=True)
                )
                yield (" " * GAP).join(aligned).rstrip()

    def _widths(self, rows: Sequence[Sequence[str]], limit: int | None) -> list[int]:
        """How wide the columns are; those that may be folded, no wider than the limit leaves room for."""
        cells = [[STYLE.sub("", cell) for cell in column] for column in zip(*rows, strict=True)]
        widths = [max(columns(line) for cell in column for line in cell.split("\n")) for column in cells]
        if limit is None:
            return widths
        longest = [max(columns(word) for cell in column for word in _joined(cell).split(" ")) for column in cells]
        for kept in (self.whole, self.numbers):
            least = [width if keep else word for width, keep, word in zip(widths, kept, longest, strict=True)]
            while sum(widths) + GAP * (len(widths) - 1) > limit:
                foldable = [place for place, width in enumerate(widths) if width > least[place]]
                if not foldable:
                    break
                widths[max(foldable, key=widths.__getitem__)] -= 1
        return widths


def _folded(cell: str, width: int) -> list[str]:
    """The lines of a cell, broken between words where they are too wide."""
    lines = cell.split("\n")
    if all(columns(STYLE.sub("", line)) <= width for line in lines):
        return lines
    options: dict[str, Any] = {"break_long_words": False, "break_on_hyphens": False}
    return [part.replace(JOINED, " ") for line in lines for part in textwrap.wrap(_joined(line), width, **options)]


def _joined(cell: str) -> str:
    """A text in which no arrow and no % begins a line: "1667 → 105" is broken after the arrow."""
    return re.sub(r" (?=[→%])", JOINED, cell.replace("\n", " "))
