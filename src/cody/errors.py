"""Everything that CoDy raises on purpose.

    CodyError
    ├── CallError     the call was wrong: an unknown name, a row out of range     (exit code 2)
    ├── DataError     a table, file or folder of events cannot be used           (exit code 1)
    ├── ModelError    weights, checkpoint or model do not fit                    (exit code 1)
    └── BudgetError   an oracle was asked for more than its budget allows; searches end on it

The message of each repeats what the user gave and says what to do about it.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable

HANDFUL = 5
MANY = 5_000


class CodyError(Exception):
    """Any error of this package."""


class CallError(CodyError, ValueError):
    """An argument that cannot be meant."""


class DataError(CodyError, ValueError):
    """Events that cannot be read, or do not form a temporal graph."""


class ModelError(CodyError, ValueError):
    """Weights or a checkpoint that do not fit the graph or the architecture."""


class BudgetError(CodyError):
    """A question that the budget of an oracle has no room for; the message is what ran out."""


def did_you_mean(given: str, known: Iterable[str]) -> str:
    """A half-sentence to append to an error message: the closest known word, or a handful of them.

    >>> did_you_mean("uci-mesages", ["uci-messages", "wikipedia"])
    "; did you mean 'uci-messages'?"
    >>> did_you_mean("xyz", ["src", "dst"])
    "; there are 'src', 'dst'"
    """
    words = [str(word) for word in known]
    folded = {word.casefold(): word for word in words}
    close = difflib.get_close_matches(given.casefold(), _worth_comparing(given.casefold(), list(folded)), n=1)
    if close:
        return f"; did you mean {folded[close[0]]!r}?"
    if not words:
        return ""
    shown = ", ".join(repr(word) for word in words[:HANDFUL])
    return f"; there are {shown}" + (", …" if len(words) > HANDFUL else "")


def _worth_comparing(given: str, words: list[str]) -> list[str]:
    """Comparing is slow. Of very many words, those that begin or end like `given`: one slip leaves half of it as it is.

    If that is still too many, more than half.
    """
    shared = len(given) // 2
    while len(words) > MANY and shared < len(given):
        start, end = given[:shared], given[len(given) - shared :]
        alike = [word for word in words if word.startswith(start) or word.endswith(end)]
        if not alike:
            break
        words, shared = alike, shared + 1
    return words[:MANY]
