"""Which columns of a table make events: those that a user names, or those with usual names."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import NamedTuple

from cody.data.labels import LabelRule, label_rule
from cody.errors import CallError, DataError, did_you_mean

SRC_WORDS = ("src", "source", "u", "user", "user_id", "from", "sender")
DST_WORDS = ("dst", "target", "destination", "i", "item", "item_id", "to", "receiver", "recipient")
TIME_WORDS = ("t", "time", "ts", "timestamp", "unixts", "date", "datetime", "date_time", "created_at", "sent_at")
FEATURE_LIST_WORDS = ("features", "msg")
FEATURE_COLUMN = re.compile(r"(?:f|feature_?|feat_?)(\d+)", re.IGNORECASE)
NO_HEADER = "if line 1 is already an event: header=False in Python, `cody data import --no-header` on the command line"


class GivenColumns(NamedTuple):
    """The columns as a user names them; None: they are recognized by their usual names."""

    src: str | None
    dst: str | None
    time: str | None
    features: Sequence[str] | None


class TableHead(NamedTuple):
    """What a file says about its columns before any event."""

    names: list[str]
    lists: Sequence[str] = ()  # columns whose cells are lists
    delimiter: str = ""
    skip: int = 0  # lines before the first event


class EventColumns(NamedTuple):
    """The columns of a table that make events."""

    src: str
    dst: str
    time: str
    features: list[str]
    label: LabelRule | None = None

    @property
    def needed(self) -> list[str]:
        """All of them, each once."""
        label = [] if self.label is None else [self.label.column, self.label.names_in]
        return list(dict.fromkeys([self.src, self.dst, self.time, *self.features, *filter(None, label)]))


def choose_columns(head: TableHead, given: GivenColumns, label: str | None, *, header: bool = True) -> EventColumns:
    """The columns that make events: those that the user names, else those with usual names.

    Args:
        head: The columns that there are.
        given: Those that the user names.
        label: The column of labels, or a comparison.
        header: Whether the columns have names; else they are numbered.
    """
    names = head.names
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise DataError(f"column names must differ; {twice[0]!r} occurs more than once")
    usual = (SRC_WORDS, DST_WORDS, TIME_WORDS) if header else (("1",), ("2",), ("3",))
    words = dict(zip(("src", "dst", "time"), usual, strict=True))
    found = {role: _pick(role, getattr(given, role), words[role], names) for role in words}
    missing = [role for role, name in found.items() if name is None]
    if missing:
        raise _missing_columns(missing, [word for role in missing for word in words[role]], names)
    wanted = [given.features] if isinstance(given.features, str) else given.features
    listed = _guess_features(head) if wanted is None else [_given(name, names) for name in wanted]
    chosen = EventColumns(str(found["src"]), str(found["dst"]), str(found["time"]), listed)
    used = [*chosen[:3], *listed]
    twice = [name for name in used if used.count(name) > 1]
    if twice:
        raise CallError(f"column {twice[0]!r} can only be one of src, dst, time and the features, and only once")
    return chosen._replace(label=rule_of_labels(label, names, used))


def rule_of_labels(label: str | None, names: Sequence[str], used: Sequence[str]) -> LabelRule | None:
    """The rule for labels, if its column exists.

    Args:
        label: A column, or a comparison; None: recognized by its name.
        names: The columns that there are.
        used: Those that are used for something else.
    """
    rule = label_rule(label, names, used)
    if rule is not None:
        _given(rule.column, names)
    return rule


def _pick(role: str, given: str | None, words: Sequence[str], names: Sequence[str]) -> str | None:
    if given is not None:
        return _given(given, names)
    found = [name for name in names if name.casefold() in words]
    if len(found) > 1:
        raise DataError(
            f"{role} could be {' or '.join(map(repr, found))}; choose one: {role}={found[0]!r} in Python, "
            f"`cody data import --{role} {found[0]}` on the command line"
        )
    return found[0] if found else None


def _missing_columns(missing: Sequence[str], words: Sequence[str], names: Sequence[str]) -> DataError:
    if len(names) == 1:
        raise DataError(
            f"line 1 has one column, {names[0][:60]!r}; if something unusual separates them, name it: separator='^' in "
            "Python, `cody data import --separator ^` on the command line"
        )
    hint = next(filter(None, (_closest(word, names) for word in words if len(word) > 2)), "")
    if len(missing) == 3 or names[0].startswith("#"):
        hint += (
            f"; line 1 of a csv is taken as the header: is the header line missing, or a comment before it? {NO_HEADER}"
        )
    python, options = ", ".join(f"{role}='…'" for role in missing), " ".join(f"--{role} …" for role in missing)
    called, them = ("column is called", "it") if len(missing) == 1 else ("columns are called", "them")
    return DataError(
        f"no {called} {', '.join(missing)} or similar (columns: {_listed(names)}); name {them}: {python} in Python, "
        f"`cody data import {options}` on the command line{hint}"
    )


def _given(name: str, names: Sequence[str]) -> str:
    if name in names:
        return name
    raise DataError(f"there is no column {name!r} (columns: {_listed(names)}){_closest(name, names)}")


def _listed(names: Sequence[str]) -> str:
    return ", ".join(names[:20]) + (", …" if len(names) > 20 else "")


def _closest(word: str, names: Sequence[str]) -> str:
    hint = did_you_mean(word, names)
    return hint if "did you mean" in hint else ""  # the message lists all columns already


def _guess_features(head: TableHead) -> list[str]:
    numbered = {name: match for name in head.names if (match := FEATURE_COLUMN.fullmatch(name))}
    if numbered:
        return sorted(numbered, key=lambda name: int(numbered[name][1]))
    return [name for name in head.lists if name.casefold() in FEATURE_LIST_WORDS][:1]
