"""Dependants: events that would not have happened without another one, as a rule says.

A log does not say why an event happened. A rule is an assumption about it: `reply` takes an answer to be due to the
message before it, `forward` takes what a node sends on to be due to what it received. Each event is due to one other
at most.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from cody.errors import CallError
from cody.graph.columns import IntArray, whole_number
from cody.graph.log import TemporalGraph
from cody.utils.words import parse_duration

WITHIN = 86_400.0  # seconds, where times are dates
MOST_DEPENDANTS = 20_000  # of a change: with more, a rule explains nothing

# (graph, row, before) → rows of later events below `before` that are due to that one
Direct = Callable[[TemporalGraph, int, int], Iterable[int]]


@dataclass(frozen=True, slots=True)
class Rule:
    """Which events are due to which."""

    name: str
    direct: Direct
    options: tuple[tuple[str, Any], ...] = ()  # what it was given, for documents

    def as_parameters(self) -> dict[str, Any]:
        """As plain data, for documents."""
        return {"name": self.name, **dict(self.options)}


def dependants(graph: TemporalGraph, rule: Rule, rows: Iterable[int], before: int) -> IntArray:
    """The events that go along with some that are removed, directly or through others, ascending.

    Args:
        graph: The log.
        rule: Which events are due to which.
        rows: The removed events.
        before: Only events before this row count: later ones change nothing.

    >>> graph = TemporalGraph.from_arrays([0, 1, 1, 0], [1, 0, 2, 1], [1.0, 2.0, 3.0, 4.0])
    >>> dependants(graph, reply(1.5), [0], before=4), dependants(graph, reply(3), [0], before=4)
    (array([1]), array([1, 3]))
    """
    removed = set(rows)
    waiting, found = sorted(removed), set[int]()
    while waiting:
        row = waiting.pop()
        if not row < before:
            continue
        for later in rule.direct(graph, row, before):
            number = whole_number(f"an event that is due to another by {rule.name!r}", later)
            if not row < number < graph.num_events:
                raise CallError(
                    f"by {rule.name!r}, event {number} is due to event {row}: only a later one can be (rows {row + 1} "
                    f"to {graph.num_events - 1})"
                )
            if number < before and number not in removed:
                removed.add(number)
                found.add(number)
                waiting.append(number)
        if len(found) > MOST_DEPENDANTS:
            raise CallError(
                f"by {rule.name!r}, more than {MOST_DEPENDANTS:,} events go along with the removed ones: a rule like "
                "that explains nothing; choose a shorter time"
            )
    return np.array(sorted(found), dtype=np.int64)


def _replies(graph: TemporalGraph, row: int, before: int, *, within: float) -> list[int]:
    """What the receiver of an event sends to its sender in time, and before it hears from the sender again."""
    sender, later = int(graph.src[row]), _of_receiver(graph, row, before, within)
    return _due(graph, row, heard=later[graph.src[later] == sender], sent=later[graph.dst[later] == sender])


def _forwards(graph: TemporalGraph, row: int, before: int, *, within: float) -> list[int]:
    """What the receiver of an event sends to others than its sender in time, and before it hears from anybody again."""
    later = _of_receiver(graph, row, before, within)
    ends = int(graph.src[row]), int(graph.dst[row])
    return _due(graph, row, heard=later, sent=later[~np.isin(graph.dst[later], ends)])


def _of_receiver(graph: TemporalGraph, row: int, before: int, within: float) -> IntArray:
    """The later events of the receiver of an event, in time; of a self-loop, none."""
    receiver = int(graph.dst[row])
    if int(graph.src[row]) == receiver:
        return graph.incidence[:0]
    history = graph.history(receiver, before)
    later = history[np.searchsorted(history, row, side="right") :]
    return later[: np.searchsorted(graph.time[later], graph.time[row] + within, side="right")]


def _due(graph: TemporalGraph, row: int, heard: IntArray, sent: IntArray) -> list[int]:
    """Of some events of the receiver, what it `sent` after the event, up to the next of those that it `heard`."""
    time, receiver = float(graph.time[row]), int(graph.dst[row])
    again = heard[(graph.dst[heard] == receiver) & (graph.src[heard] != receiver)]
    last = float(graph.time[again[0]]) if len(again) else np.inf  # what is sent after that is due to that
    in_time = (graph.time[sent] > time) & (graph.time[sent] <= last)
    return sent[(graph.src[sent] == receiver) & in_time].tolist()


def _own(graph: TemporalGraph, row: int, before: int, *, function: Callable[..., Any]) -> Iterable[int]:
    given = function(graph, row)
    if not isinstance(given, Iterable):
        name = getattr(function, "__name__", type(function).__name__)
        raise CallError(f"dependants={name} must return rows of events, not {given!r:.60}")
    return given


def reply(within: float = WITHIN) -> Rule:
    """An answer is due to the latest message from its receiver, if that is at most `within` seconds older."""
    return _within("reply", _replies, within)


def forward(within: float = WITHIN) -> Rule:
    """What a node sends is due to what it last received, if that came from somebody else, `within` seconds before."""
    return _within("forward", _forwards, within)


def _within(name: str, direct: Callable[..., list[int]], within: float) -> Rule:
    """A rule about events that lie at most so far apart."""
    if not within > 0:
        raise CallError(f"the time of {name!r} must be above 0, not {within}")
    return Rule(name, partial(direct, within=float(within)), (("within", float(within)),))


RULES = {"reply": reply, "forward": forward}


def named_rule(name: str, within: str | None = None) -> Rule:
    """The rule of that name.

    Args:
        name: One of `RULES`.
        within: A duration such as "1h".
    """
    if name not in RULES:
        raise CallError(f"there is no rule {name!r} for dependants; there are {', '.join(RULES)}")
    return RULES[name]() if within is None else RULES[name](parse_duration(within))


def as_rule(rule: Rule | Callable[[TemporalGraph, int], Iterable[int]] | None) -> Rule | None:
    """A rule, or a function `(graph, row) → rows of later events that are due to it`, as a rule; None: no rule."""
    if rule is None or isinstance(rule, Rule):
        return rule
    if not callable(rule):
        raise CallError(f"dependants is a rule such as cody.graph.dependants.reply(), or a function, not {rule!r:.60}")
    return Rule(getattr(rule, "__name__", type(rule).__name__), partial(_own, function=rule))
