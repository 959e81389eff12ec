"""Everything that CoDy raises on purpose.

    CodyError
    ├── CallError     the call was wrong: an unknown name, a row out of range     (exit code 2)
    ├── DataError     a table, file or folder of events cannot be used           (exit code 1)
    ├── ModelError    weights, checkpoint or model do not fit                    (exit code 1)
    └── BudgetError   an oracle was asked for more than its budget allows; searches end on it

and what it warns of:

    ProbabilityWarning   the answers of a model look like probabilities, not like logits

The message of each repeats what the user gave and says what to do about it. It is one line that can be read, whatever
it repeats: see `CodyError`.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable

HANDFUL = 5
MANY = 5_000
LONGEST = 1_000  # characters of a message
LONGEST_QUOTE = 200  # characters of what another library says


class CodyError(Exception):
    """Any error of this package. Its message is one printable line of at most 1,000 characters.

    So nothing that it repeats, be it a name, an entry of a file or what another library says, can fool a terminal or
    flood it. A message of several lines is given them as so many arguments.
    """

    def __init__(self, *lines: str) -> None:
        super().__init__(*map(readable, lines))

    def __str__(self) -> str:
        return "\n".join(self.args)


class CallError(CodyError, ValueError):
    """An argument that cannot be meant."""


class DataError(CodyError, ValueError):
    """Events that cannot be read, or do not form a temporal graph."""


class ModelError(CodyError, ValueError):
    """Weights or a checkpoint that do not fit the graph or the architecture."""


class BudgetError(CodyError):
    """A question that the budget of an oracle has no room for; the message is what ran out."""


class ProbabilityWarning(UserWarning):
    """Answers that look like probabilities: each of them says "link", so nothing can change the decision."""


def readable(text: str, longest: int = LONGEST) -> str:
    r"""The text with escapes for what cannot be seen (line breaks, control characters, changes of direction).

    >>> print(readable("two\nlines"))
    two\nlines
    """
    text = text if len(text) <= 2 * longest else text[:longest] + text[-longest:]  # the rest is left out anyway
    shown = "".join(letter if letter.isprintable() else letter.encode("unicode_escape").decode() for letter in text)
    return shortened(shown, longest)


def shortened(text: str, width: int) -> str:
    """The text, without its middle if it is too long.

    >>> shortened("a" * 30 + "@example", 20)
    'aaaaaaaaa…aa@example'
    """
    end = (width + 1) // 2
    return text if len(text) <= width else text[: width - 1 - end] + "…" + text[-end:]


def first_line(error: object) -> str:
    """What another library says in an error, without the lines for its own developers."""
    text = str(getattr(error, "strerror", None) or error).strip()
    return readable(text.splitlines()[0], LONGEST_QUOTE) if text else type(error).__name__


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
