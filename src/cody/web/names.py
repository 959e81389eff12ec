"""Short labels that distinguish long names."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from itertools import takewhile

from cody.utils.words import sanitize

SHORT = 20  # characters that fit beside a lane or in a table
SHORTEST = 10  # characters that fit beside a lane on a phone
WORTH_CUTTING = 4  # characters that all names share at an end


def labels(names: Collection[str], width: int = SHORT) -> dict[str, str]:
    """A label for each name. If one is long, the common ending is left out, and if necessary the common beginning.

    >>> labels(["ann.berger@example.org", "bob.doe@example.org"])
    {'ann.berger@example.org': 'ann.berger…', 'bob.doe@example.org': 'bob.doe…'}
    """
    shown = {name: sanitize(name, 400) for name in names}
    first, last = 0, 0
    if max(map(len, shown.values()), default=0) > width and len(shown) > 1:
        first = _shared(shown.values())
        last = _shared(text[first:][::-1] for text in shown.values())
    first, last = (length if length >= WORTH_CUTTING else 0 for length in (first, last))
    if max(map(len, shown.values()), default=0) - last < width:
        first = 0
    return {name: sanitize(_cut(text, first, last), width) for name, text in shown.items()}


def _shared(texts: Iterable[str]) -> int:
    """The length of their common prefix."""
    return sum(1 for _ in takewhile(lambda letters: len(set(letters)) == 1, zip(*texts, strict=False)))


def _cut(text: str, first: int, last: int) -> str:
    inner = text[first : len(text) - last]
    return f"{'…' if first else ''}{inner}{'…' if last else ''}"
