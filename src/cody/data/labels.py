"""Labels of events from a column of a table: its values as classes, or a comparison such as `rating<0`."""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from cody.data.arrow import compute, pa, types
from cody.data.columns import is_text
from cody.errors import CallError, DataError
from cody.graph.columns import MOST_CLASSES, IntArray
from cody.utils.words import sanitize

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


class Labels(NamedTuple):
    """The classes of events, and their names."""

    classes: IntArray  # [E] -1: unknown
    names: tuple[str, ...]


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


def read_labels(column: Any, rule: LabelRule, options: LabelOptions, named: Any = None) -> Labels | None:
    """The labels in an Arrow column; None if it was only guessed to have some, and has not.

    Args:
        column: The column.
        rule: How it becomes labels.
        options: What the user says about them.
        named: An Arrow column with the name of each event's class, if there is one.
    """
    column = column.combine_chunks()
    if types.is_dictionary(column.type):
        column = column.dictionary_decode()
    if rule.comparison:
        return _compared(column, rule, options)
    try:
        values = _values(column, rule.column)
    except DataError:
        if rule.guessed:
            return None
        raise
    words = [] if named is None else named.to_pylist()
    if rule.guessed and len(values) < 2 and not any(words):  # many files have one value for all events: it says nothing
        return None
    return _by_value(column, values, rule, options, words)


def _compared(column: Any, rule: LabelRule, options: LabelOptions) -> Labels:

    if not (types.is_integer(column.type) or types.is_floating(column.type) or types.is_decimal(column.type)):
        raise DataError(f"{rule.column!r} must hold numbers to be compared with {rule.number:g}, not {column.type}")
    numbers = column.cast(pa.float64(), safe=False).to_numpy(zero_copy_only=False)
    function, word, opposite = COMPARISONS[rule.comparison]
    classes = np.where(np.isnan(numbers), -1, function(numbers, rule.number)).astype(np.int32)
    number = f"{rule.number:g}"
    default = (f"{rule.column} {opposite} {number}", f"{rule.column} {word} {number}")
    return Labels(classes, _class_names(default, rule, options))


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


def _by_value(column: Any, values: list[Any], rule: LabelRule, options: LabelOptions, words: Sequence[Any]) -> Labels:

    subject = "label" if rule.column.casefold() in LABEL_WORDS else rule.column
    default: tuple[str, ...] = tuple(f"{value:g}" if isinstance(value, float) else str(value) for value in values)
    if set(values) <= {0, 1} and not is_text(column.type):
        values, default = [False, True] if pa.types.is_boolean(column.type) else [0, 1], (f"no {subject}", subject)
    found = compute.index_in(column, value_set=pa.array(values, type=column.type))
    classes = found.fill_null(-1).to_numpy(zero_copy_only=False).astype(np.int32)
    return Labels(classes, _class_names(_named(default, classes, words), rule, options))


def _named(default: tuple[str, ...], classes: IntArray, words: Sequence[Any]) -> tuple[str, ...]:
    """The names that events give their classes; the default ones, unless each class has one name of its own."""
    pairs = {(number, str(word)) for number, word in zip(classes.tolist(), words, strict=False) if number >= 0 and word}
    given = dict(pairs)
    names = tuple(given.get(number, name) for number, name in enumerate(default))
    return names if len(given) == len(pairs) and len(set(names)) == len(names) else default


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


def check_no_names(options: LabelOptions) -> None:
    """Refuse names of classes where there are no labels."""
    if options.label_name is not None or options.label_names is not None:
        given, names = "label_name", options.label_name
        if options.label_name is None:
            given, names = "label_names", ", ".join(map(str, options.label_names or ()))
        raise CallError(
            f"{given} {names!r:.60} names classes, but there are no labels: label=… in Python, --label on the "
            "command line, says which column has them"
        )
