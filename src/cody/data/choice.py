"""Which columns of a table make events: those that a user names, or those with usual names.

Labels of events are the values of a column as classes, or a comparison such as `rating<0`.
"""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from cody.data.arrow import compute, pa, types
from cody.data.columns import in_one_piece, is_text
from cody.errors import CallError, DataError, did_you_mean
from cody.graph.columns import MOST_CLASSES, IntArray
from cody.utils.words import sanitize

SRC_WORDS = ("src", "source", "u", "user", "user_id", "from", "sender")
DST_WORDS = ("dst", "target", "destination", "i", "item", "item_id", "to", "receiver", "recipient")
TIME_WORDS = ("t", "time", "ts", "timestamp", "unixts", "date", "datetime", "date_time", "created_at", "sent_at")
FEATURE_LIST_WORDS = ("features", "msg")
FEATURE_COLUMN = re.compile(r"(?:f|feature_?|feat_?)(\d+)", re.IGNORECASE)
NO_HEADER = "if line 1 is already an event: header=False in Python, `cody data import --no-header` on the command line"
LABEL_WORDS = ("label", "state_label")  # columns that are taken as labels unless another is given
NAME_OF_LABEL = "label_name"  # the column beside `label` with the name of the class, as `cody data export` writes it
COMPARISONS: dict[str, tuple[Callable[[Any, Any], Any], str, str]] = {  # function, in words, its opposite in words
    "<": (operator.lt, "<", "≥"),
    "<=": (operator.le, "≤", ">"),
    ">": (operator.gt, ">", "≤"),
    ">=": (operator.ge, "≥", "<"),
    "=": (operator.eq, "=", "≠"),
    "==": (operator.eq, "=", "≠"),
    "!=": (operator.ne, "≠", "="),
}
COMPARISON = re.compile(r"(.+?)\s*(<=|>=|==|!=|<|>|=)\s*([-+]?\d+(?:\.\d*)?(?:[eE][-+]?\d+)?|[-+]?\.\d+)")


class LabelOptions(NamedTuple):
    """What a user says about labels and events."""

    label: str | None = None  # a column, or a comparison of a column with a number
    label_name: str | None = None  # of the second of two classes
    label_names: Sequence[str] | None = None  # of all classes
    event_name: str | None = None

    @property
    def given(self) -> bool:
        return any(value is not None for value in self)


class LabelRule(NamedTuple):
    """How a column becomes labels."""

    column: str
    comparison: str = ""  # "": its values are the classes
    number: float = 0.0
    guessed: bool = False  # the column was recognized by its name: it need not be a label
    names_in: str = ""  # a column with the name of each event's class


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


# Labels of events


def label_rule(label: str | None, names: Sequence[str], used: Sequence[str] = ()) -> LabelRule | None:
    """The rule that `label` means; without it, the column with a usual name, unless it is used for something else.

    >>> label_rule("rating<0", ["src", "dst", "time", "rating"])
    LabelRule(column='rating', comparison='<', number=0.0, guessed=False, names_in='')
    """
    named = NAME_OF_LABEL if NAME_OF_LABEL in names and NAME_OF_LABEL not in used else ""
    if label is None:
        found = next((name for name in names if name.casefold() in LABEL_WORDS and name not in used), None)
        return None if found is None else LabelRule(found, guessed=True, names_in=named)
    if label in LABEL_WORDS and label in names:
        return LabelRule(label, names_in=named)
    match = None if label in names else COMPARISON.fullmatch(label.strip())
    return LabelRule(label) if match is None else LabelRule(match[1].strip(), match[2], float(match[3]))


def read_labels(column: Any, rule: LabelRule, options: LabelOptions, named: Any = None) -> dict[str, Any]:
    """The labels in an Arrow column, as arguments of `from_arrays`; none if it was only guessed to have some.

    Args:
        column: The column.
        rule: How it becomes labels.
        options: What the user says about them.
        named: An Arrow column with the name of each event's class, if there is one.
    """
    column = in_one_piece(column)
    if rule.comparison:
        return _compared(column, rule, options)
    try:
        values = _values(column, rule.column)
    except DataError:
        if rule.guessed:
            return without_labels(options)
        raise
    words = [] if named is None else named.to_pylist()
    if rule.guessed and len(values) < 2 and not any(words):  # many files have one value for all events: it says nothing
        return without_labels(options)
    return _by_value(column, values, rule, options, words)


def _compared(column: Any, rule: LabelRule, options: LabelOptions) -> dict[str, Any]:
    if not (types.is_integer(column.type) or types.is_floating(column.type) or types.is_decimal(column.type)):
        raise DataError(f"{rule.column!r} must hold numbers to be compared with {rule.number:g}, not {column.type}")
    numbers = column.cast(pa.float64(), safe=False).to_numpy(zero_copy_only=False)
    function, word, opposite = COMPARISONS[rule.comparison]
    classes = np.where(np.isnan(numbers), -1, function(numbers, rule.number)).astype(np.int32)
    number = f"{rule.number:g}"
    default = (f"{rule.column} {opposite} {number}", f"{rule.column} {word} {number}")
    return _labels(classes, default, rule, options)


def _values(column: Any, name: str) -> list[Any]:
    """The different values of a column, sorted; 0 and 1 where there is nothing else."""
    kind = column.type
    if not (types.is_boolean(kind) or types.is_integer(kind) or types.is_floating(kind) or is_text(kind)):
        raise DataError(f"column {name!r} must hold labels, text or whole numbers, not {kind}")
    values = sorted(value for value in column.drop_null().unique().to_pylist() if value != "" and value == value)
    if types.is_floating(kind) and any(value != round(value) for value in values):
        raise DataError(f"column {name!r} holds numbers, not classes; compare it with one, such as {name + '<0'!r}")
    if len(values) > MOST_CLASSES:
        raise DataError(
            f"column {name!r} has {len(values):,} different values; labels have at most {MOST_CLASSES} classes"
        )
    if not values:
        raise DataError(f"column {name!r} has no label in any row")
    return values


def _by_value(
    column: Any, values: list[Any], rule: LabelRule, options: LabelOptions, words: Sequence[Any]
) -> dict[str, Any]:
    subject = "label" if rule.column.casefold() in LABEL_WORDS else rule.column
    default: tuple[str, ...] = tuple(f"{value:g}" if isinstance(value, float) else str(value) for value in values)
    if set(values) <= {0, 1} and not is_text(column.type):
        values, default = [False, True] if pa.types.is_boolean(column.type) else [0, 1], (f"no {subject}", subject)
    found = compute.index_in(column, value_set=pa.array(values, type=column.type))
    classes = found.fill_null(-1).to_numpy(zero_copy_only=False).astype(np.int32)
    return _labels(classes, _named(default, classes, words), rule, options)


def _named(default: tuple[str, ...], classes: IntArray, words: Sequence[Any]) -> tuple[str, ...]:
    """The names that events give their classes; the default ones, unless each class has one name of its own."""
    pairs = {(number, str(word)) for number, word in zip(classes.tolist(), words, strict=False) if number >= 0 and word}
    given = dict(pairs)
    names = tuple(given.get(number, name) for number, name in enumerate(default))
    return names if len(given) == len(pairs) and len(set(names)) == len(names) else default


def _labels(classes: IntArray, default: tuple[str, ...], rule: LabelRule, options: LabelOptions) -> dict[str, Any]:
    names = _class_names(default, rule, options)
    return {"labels": classes, "label_names": names, "event_name": options.event_name}


def _class_names(default: tuple[str, ...], rule: LabelRule, options: LabelOptions) -> tuple[str, ...]:
    if options.label_name is not None and options.label_names is not None:
        raise CallError("give label_name, which names the second of two classes, or label_names, not both")
    if options.label_name is not None:
        if len(default) != 2:
            listed = sanitize(", ".join(default), 60)
            raise CallError(
                f"label_name {options.label_name!r} is for two classes, but {rule.column!r} has {len(default)} "
                f"({listed}); label_names names them all"
            )
        return (f"no {options.label_name}", options.label_name)
    if options.label_names is None:
        return default
    names = tuple(map(str, options.label_names))
    if len(names) != len(default) or len(set(names)) < len(names):
        raise CallError(
            f"label_names must be {len(default)} different names, for {sanitize(', '.join(default), 60)}, "
            f"not {', '.join(names)!r}"
        )
    return names


def without_labels(options: LabelOptions) -> dict[str, Any]:
    """The arguments of `from_arrays` where there are no labels; names of classes are refused then."""
    several = None if options.label_names is None else ", ".join(map(str, options.label_names))
    for given, names in (("label_name", options.label_name), ("label_names", several)):
        if names is not None:
            raise CallError(
                f"{given} {names!r:.60} names classes, but there are no labels: label=… in Python, --label on the "
                "command line, says which column has them"
            )
    return {"event_name": options.event_name}
