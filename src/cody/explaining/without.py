"""Many events at once that did not happen: all of a node, a pair, a day, or of a period; and what goes along."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from cody.errors import CallError
from cody.graph import TemporalGraph
from cody.graph.dependants import Rule, dependants
from cody.graph.units import Unit, day, find_unit, node, pair
from cody.models.contract import Change, check_changes
from cody.utils.words import count, from_to, moment_and_zone


class Removal(NamedTuple):
    """Events that did not happen, and how they were named."""

    rows: Change
    names: tuple[str, ...]  # where units were named: "node 105 (12 messages)", and beside them single rows

    def dependants(self, graph: TemporalGraph, rule: Rule | None, before: int) -> Change:
        """What goes along with them by a rule, of the events before a row; nothing without a rule.

        Args:
            graph: The log.
            rule: Which events are due to which.
            before: The row.
        """
        return frozenset() if rule is None else frozenset(dependants(graph, rule, self.rows, before).tolist())


def without(
    graph: TemporalGraph,
    *,
    events: Sequence[int] = (),
    nodes: Sequence[Any] = (),
    pairs: Sequence[str | tuple[Any, Any]] = (),
    days: Sequence[str] = (),
    after: Any = None,
    before: Any = None,
) -> Removal:
    """The events of all that is named. What has no events is an error.

    Args:
        graph: The log.
        events: Rows.
        nodes: Names of nodes: all their events.
        pairs: Two names of nodes, or a text with both: all events between them.
        days: Dates such as "2004-07-27".
        after: A time: all later events.
        before: A time: all earlier events.

    >>> graph = TemporalGraph.from_arrays(src=[0, 1, 3, 0], dst=[1, 0, 4, 2], time=[1.0, 2.0, 3.0, 4.0])
    >>> sorted(without(graph, pairs=[(0, 1)], after=3.0).rows)
    [0, 1, 3]
    """
    (rows,) = check_changes(graph, [events])
    single = few_rows(rows)
    units = [find_unit(graph, node, str(name)) for name in nodes]
    units += [find_unit(graph, pair, each if isinstance(each, str) else shlex.join(map(str, each))) for each in pairs]
    units += [find_unit(graph, day, text) for text in days]
    units += [_period(graph, time, late) for time, late in ((after, True), (before, False)) if time is not None]
    names = tuple(dict.fromkeys(f"{unit.name} ({count(len(unit.rows), graph.name_of_event())})" for unit in units))
    names += (single,) if names and single else ()
    return Removal(rows.union(*(unit.rows.tolist() for unit in units)), names)


def few_rows(rows: Change) -> str:
    """Rows of events as text, many of them by the first and their number.

    >>> few_rows(frozenset({7, 3})), few_rows(frozenset(range(9)))
    ('3, 7', '0, 1, 2, … (9 events)')
    """
    ordered = [str(row) for row in sorted(rows)]
    return ", ".join(ordered) if len(ordered) <= 4 else f"{', '.join(ordered[:3])}, … ({len(ordered)} events)"


def _period(graph: TemporalGraph, time: Any, late: bool) -> Unit:
    """All events after a time, or before it."""
    moment, times = graph.when(time), graph.time[: graph.num_events]
    line = int(np.searchsorted(times, moment, side="right" if late else "left"))
    rows = np.arange(line, graph.num_events) if late else np.arange(line)
    name = f"everything {'after' if late else 'before'} {moment_and_zone(moment)}"
    if not len(rows):
        span = from_to(*times[[0, -1]].tolist()) if len(times) else "nothing to nothing"
        raise CallError(f"there are no events {name.removeprefix('everything ')}; the log goes from {span}")
    return Unit(name, rows)
