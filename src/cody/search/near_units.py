"""Which units are candidates: those of the nearest events, each with all its events before the link."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain
from typing import Any

import numpy as np

from cody.errors import CallError
from cody.graph import IntArray, Query, TemporalGraph
from cody.graph.dependants import RULES, WITHIN, Rule, dependants
from cody.graph.neighbourhood import Near, ends_first, nearest
from cody.graph.protected import Protected
from cody.graph.units import EVENT, KINDS, Label, Unit, UnitKind, day, named_kind, node, pair
from cody.models.contract import Model, as_seen
from cody.utils.words import is_date

MOST_READ = 65_536  # nearest events that are looked at for units
MOST_EVENTS = 5_000  # of all candidate units together: what one evaluation may change, and what takes memory
FEWEST, OVERLAP = 3, 0.8  # events of an answer, and the share of it and a unit that both have, to be nearly that unit


@dataclass(slots=True, eq=False)
class NearUnits:
    """The units near a link; each is known by the same row whatever the number of candidates."""

    graph: TemporalGraph
    query: Query  # the link, as the model sees it
    hops: int  # neighbourhood radius
    near: Near  # finds the nearest events
    protect: Protected | None  # events that may not be removed, as of this link: units are without them
    kind: UnitKind | None  # which events change together; None: each event is a unit of its own
    rule: Rule | None  # which events go along with others; None: none
    row_of: dict[Label, int] = field(default_factory=dict)  # by which each unit is known
    left_out: int = 0  # of the units that were wanted last, because all together would be too large

    def of_size(self, size: int) -> dict[int, Unit]:
        """At most `size` units, by the row that each is known by, the nearest first."""
        if self.kind is None:
            rows = nearest(self.graph, self.query, self.hops, size, self.near, self.protect)
            units = {row: Unit("", np.array([row])) for row in rows.tolist()}
        else:
            units = self._units(self.kind, size)
        return self._limited(units)

    def known_by(self, rows: Sequence[int]) -> dict[int, Unit]:
        """The units that rows stand for, where a user names rows; rows that stand for themselves are left out."""
        given = np.array([row for row in rows if row < self.query.before], dtype=np.int64)
        if self.kind is None:
            labelled = {row: Unit("", np.array([row])) for row in given.tolist()}
        else:
            labels = self.kind.labels(self.graph, self.query, given)
            pairs = [(row, label) for row, some in zip(given.tolist(), labels, strict=True) for label in some]
            if self.kind.anchors is not None:
                named = [label for _, label in pairs]
                anchors = dict(zip(named, self.kind.anchors(self.graph, self.query, self.hops, named), strict=True))
                pairs = [(row, label) for row, label in pairs if anchors[label] == row]
            made = self.kind.units(self.graph, self.query.before, [label for _, label in pairs])
            labelled = {row: unit for (row, _), unit in zip(pairs, made, strict=True)}
        free = {row: unit._replace(rows=self._unprotected(unit.rows)) for row, unit in labelled.items()}
        return {row: unit._replace(dependants=self._dependants(unit.rows.tolist())) for row, unit in free.items()}

    def _units(self, kind: UnitKind, size: int) -> dict[int, Unit]:
        labels = self._nearest_labels(kind, size)
        named = [(label, self.row_of[label]) for label in labels if label in self.row_of]
        made = kind.units(self.graph, self.query.before, [label for label, _ in named])
        free = (unit._replace(rows=self._unprotected(unit.rows)) for unit in made)
        return {row: unit for (_, row), unit in zip(named, free, strict=True) if len(unit.rows)}

    def _nearest_labels(self, kind: UnitKind, size: int) -> list[Label]:
        """The labels of the nearest events, the nearest first; what a unit is known by is noted in `row_of`."""
        count = size
        while True:
            rows = nearest(self.graph, self.query, self.hops, count, self.near, self.protect)
            labelled = kind.labels(self.graph, self.query, rows)
            labels = list(dict.fromkeys(chain.from_iterable(labelled)))
            if len(labels) >= size or len(rows) < count or count >= MOST_READ:
                break
            count *= 4
        labels = labels[:size]
        if kind.anchors is None:  # an event belongs to one unit, so the nearest one is that of no other
            for row, some in zip(rows.tolist(), labelled, strict=True):
                self.row_of |= {label: self.row_of.get(label, row) for label in some}
        else:
            anchors = zip(labels, kind.anchors(self.graph, self.query, self.hops, labels), strict=True)
            self.row_of |= {label: row for label, row in anchors if row is not None}
        return labels

    def _unprotected(self, rows: IntArray) -> IntArray:
        return rows if self.protect is None else rows[~self.protect.mask(self.graph, rows)]

    def _limited(self, units: dict[int, Unit]) -> dict[int, Unit]:
        """The nearest units with what goes along, as many as are not too large to be evaluated together."""
        chosen: dict[int, Unit] = {}
        events = self.left_out = 0
        for row, unit in units.items():
            complete = unit._replace(dependants=self._dependants(unit.rows.tolist()))
            events += len(complete.rows) + len(complete.dependants)
            if chosen and events > MOST_EVENTS:
                self.left_out = len(units) - len(chosen)
                break
            chosen[row] = complete
        return chosen

    def _dependants(self, rows: Iterable[int]) -> IntArray:
        if self.rule is None:
            return np.zeros(0, dtype=np.int64)
        return self._unprotected(dependants(self.graph, self.rule, rows, self.query.before))


def nearly_a_unit(graph: TemporalGraph, query: Query, rows: Sequence[int]) -> tuple[Unit, int] | None:
    """The conversation, node or day that a set of events nearly is, and how many of them it has; None: it is none.

    Most of the events belong to it, and they are most of its events.

    Args:
        graph: The log.
        query: The link.
        rows: The events.
    """
    real = np.array([row for row in rows if row < graph.num_events], dtype=np.int64)
    if len(real) < FEWEST or len(real) < len(rows):
        return None
    found: list[tuple[float, Unit, int]] = []
    dated = is_date(float(graph.time[real].min())) and is_date(
        query.time
    )  # seconds since a first event grow into dates
    for kind in (pair, node, day) if dated else (pair, node):
        counted = Counter(chain.from_iterable(kind.labels(graph, query, real)))
        if not counted:
            continue
        label, shared = counted.most_common(1)[0]
        (unit,) = kind.units(graph, query.before, [label])
        found.append((shared / (len(real) + len(unit.rows) - shared), unit, shared))
    overlap, unit, shared = max(found, key=lambda each: each[0], default=(0.0, Unit("", real), 0))
    return (unit, shared) if overlap >= OVERLAP else None


def written_units(parameters: Mapping[str, Any], model: Model, graph: TemporalGraph, query: Query) -> NearUnits | None:
    """The units near a link that the settings of a document describe; None: they were made by a user's function.

    Args:
        parameters: The settings.
        model: The model that is explained.
        graph: The log of events.
        query: The link.
    """
    by, rule, settings = (parameters.get(name) or {} for name in ("by", "dependants", "candidates"))
    if not all(isinstance(each, dict) for each in (by, rule, settings)):
        raise CallError("its settings are not understood")
    if by.get("name", EVENT) not in KINDS or (rule and rule.get("name") not in RULES):
        return None
    kind = named_kind(by.get("name", EVENT), gap=by.get("gap"), ends=bool(by.get("ends")))
    chosen = RULES[rule["name"]](rule.get("within", WITHIN)) if rule else None
    protect = Protected.from_parameters(parameters.get("protect"))
    seen, hops = as_seen(model, graph, query), int(settings.get("hops") or 1)
    return NearUnits(graph, seen, hops, ends_first, protect and protect.at(query), kind, chosen)
