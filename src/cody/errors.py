"""Everything that CoDy raises on purpose.

    CodyError
    ├── CallError     the call was wrong: an unknown name, a row out of range     (exit code 2)
    ├── DataError     a table, file or folder of events cannot be used           (exit code 1)
    ├── ModelError    weights, checkpoint or model do not fit                    (exit code 1)
    ├── BudgetError   a request exceeds the budget of an oracle; searches end on it
    └── MissingExtraError   a package that only a part of CoDy needs is not installed; also an ImportError

and what it warns of:

    CodyWarning
    ├── PrecisionWarning     a model in half precision is computed in single precision
    ├── ProbabilityWarning   the answers of a model look like probabilities, not like logits
    ├── FailedLinksWarning   some links of a survey could not be explained
    ├── SlowModelWarning     a model of another library has no fast path
    └── TimeWarning          times look like milliseconds, or a question lies long after the log

Each message repeats what the user gave and says what to do about it. It is one readable line, whatever it repeats: see
`CodyError`.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable

HANDFUL = 5  # words that a message lists
MANY = 5_000  # words that are compared with a misspelt one
LONGEST = 1_000  # characters of a message
LONGEST_QUOTE = 200  # characters of another library's message


class CodyError(Exception):
    """Any error of this package. Its message is one printable line of at most 1,000 characters.

    So nothing that it repeats, be it a name, an entry of a file or the message of another library, can fool or flood a
    terminal. Each argument is a line of the message.
    """

    def __init__(self, *lines: str) -> None:
        super().__init__(*map(readable, lines))

    def __str__(self) -> str:
        return "\n".join(self.args)


class CallError(CodyError, ValueError):
    """An argument that makes no sense."""


class DataError(CodyError, ValueError):
    """Events that cannot be read, or do not form a temporal graph."""


class ModelError(CodyError, ValueError):
    """Weights or a checkpoint that do not fit the graph or the architecture."""


class BudgetError(CodyError):
    """A question that exceeds the budget of an oracle; the message says what ran out."""


class MissingExtraError(CodyError, ImportError):
    """A package that only a part of CoDy needs is not installed; the message says how to install it."""


class CodyWarning(UserWarning):
    """Anything that this package warns of. The command line prints it as one line."""

    def __init__(self, message: str) -> None:
        super().__init__(readable(message))


class ProbabilityWarning(CodyWarning):
    """Answers that look like probabilities: each of them says "link", so nothing can change the decision."""


class PrecisionWarning(CodyWarning):
    """A model in half precision, which is computed in single precision."""


class FailedLinksWarning(CodyWarning):
    """Links that could not be explained, and why; the others were."""


class SlowModelWarning(CodyWarning):
    """A model of another library that has to be replayed event by event, and why."""


class TimeWarning(CodyWarning):
    """Times that are probably not what they are taken for."""


def readable(text: str, longest: int = LONGEST) -> str:
    r"""The text with escapes for unprintable characters (line breaks, control characters, changes of direction).

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
    """The first line of another library's error, without the details for its own developers."""
    text = str(getattr(error, "strerror", None) or error).strip()
    return readable(text.splitlines()[0], LONGEST_QUOTE) if text else type(error).__name__


def did_you_mean(given: str, known: Iterable[str], listed: Iterable[str] | None = None) -> str:
    """A half-sentence to append to an error message: the closest known word, or a handful of them.

    Args:
        given: What the user wrote.
        known: All known words.
        listed: The words to list if none is close, if not every known word is a sensible suggestion.

    >>> did_you_mean("uci-mesages", ["uci-messages", "wikipedia"])
    "; did you mean 'uci-messages'?"
    >>> did_you_mean("xyz", ["src", "dst"])
    "; there are 'src', 'dst'"
    >>> did_you_mean("xyz", ["src"])
    "; there is only 'src'"
    """
    words = [str(word) for word in known]
    if (close := closest(given, words)) is not None:
        return f"; did you mean {close!r}?"
    words = words if listed is None else [str(word) for word in listed]
    if not words:
        return ""
    shown = ", ".join(repr(word) for word in words[:HANDFUL])
    return f"; there {'is only' if len(words) == 1 else 'are'} {shown}" + (", …" if len(words) > HANDFUL else "")


def closest(given: str, known: Iterable[str]) -> str | None:
    """The known word that is most like what the user wrote; None if none is."""
    folded = {word.casefold(): word for word in known}
    close = difflib.get_close_matches(given.casefold(), _worth_comparing(given.casefold(), list(folded)), n=1)
    return folded[close[0]] if close else None


def _worth_comparing(given: str, words: list[str]) -> list[str]:
    """Comparing is slow: of very many words, those that share the first or last half with `given`, as most slips do.

    If these are still too many, those that share more than half.
    """
    shared = len(given) // 2
    while len(words) > MANY and shared < len(given):
        start, end = given[:shared], given[len(given) - shared :]
        similar = [word for word in words if word.startswith(start) or word.endswith(end)]
        if not similar:
            break
        words, shared = similar, shared + 1
    return words[:MANY]
