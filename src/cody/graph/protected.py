"""Events that an explanation may not remove."""

from __future__ import annotations

import math
import operator
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from cody.errors import CallError
from cody.graph.columns import BoolArray, IntArray
from cody.graph.log import Query, TemporalGraph


@dataclass(frozen=True, slots=True)
class Protected:
    """Events that may not be removed: by row, by a node they touch (as the user calls it), or by a time range.

    `simultaneous` protects those of the very moment of the link: where one mail to many people is many events, they
    tell that the mail was sent, and nothing about why.

    >>> graph = TemporalGraph.from_arrays(src=[0, 1, 3, 0], dst=[1, 2, 4, 2], time=[1.0, 2.0, 3.0, 4.0])
    >>> Protected(events=[2], nodes=[0]).mask(graph, np.arange(4))
    array([ True, False,  True,  True])
    >>> Protected(times=[(1.5, 3.0)]).mask(graph, np.arange(4))
    array([False,  True,  True, False])
    >>> Protected(simultaneous=True).at(graph.link(0, 4, 3.0)).mask(graph, np.arange(4))
    array([False, False,  True, False])
    """

    events: Sequence[int] = ()
    nodes: Sequence[Any] = ()
    times: Sequence[tuple[float, float]] = ()  # both ends included
    simultaneous: bool = False  # events of the very moment of the link

    def at(self, query: Query) -> Protected:
        """The same for one link: simultaneous events are those of its time."""
        given = self.as_parameters()
        if not given["simultaneous"]:
            return self
        return replace(self, times=[*given["times"], (query.time, query.time)], simultaneous=False)

    def mask(self, graph: TemporalGraph, rows: IntArray) -> BoolArray:
        """Which of the rows are protected. [n] → [n]"""
        given = self.as_parameters()
        for event in given["events"]:
            graph.query(event)  # raises an error if there is no such event
        nodes = [graph.node(name) for name in given["nodes"]]
        protected = np.isin(rows, given["events"])
        protected |= np.isin(graph.src[rows], nodes) | np.isin(graph.dst[rows], nodes)
        for first, last in given["times"]:
            if not first <= last:
                raise CallError(f"a time range must not end before it starts: {first} to {last}")
            protected |= (first <= graph.time[rows]) & (graph.time[rows] <= last)
        if given["simultaneous"]:
            raise CallError("simultaneous events are those of the moment of a link: protected.at(query) says which")
        return protected

    def as_parameters(self) -> dict[str, Any]:
        """As plain data, for records."""
        if not isinstance(self.simultaneous, bool):
            raise CallError(f"simultaneous must be True or False, not {self.simultaneous!r}")
        if isinstance(self.nodes, str):
            raise CallError(f"nodes must be a list of names, not {self.nodes!r}")
        try:
            events = [operator.index(event) for event in self.events]
            nodes = [str(name) for name in self.nodes]
            times = [[_finite(first), _finite(last)] for first, last in self.times]
        except (TypeError, ValueError):
            raise CallError(
                "protected events are given as lists: events=[3, 7], nodes=['a'], times=[(begin, end)], not "
                f"{self.events!r}, {self.nodes!r}, {self.times!r}"
            ) from None
        return {"events": events, "nodes": nodes, "times": times, "simultaneous": self.simultaneous}

    @classmethod
    def from_parameters(cls, written: Any) -> Protected | None:
        """What `as_parameters` wrote; None: nothing is protected."""
        if written is None:
            return None
        if not isinstance(written, dict):
            raise CallError(f"protected events are written as an object, not {written!r:.60}")
        known = {name: value for name, value in written.items() if name in cls.__slots__}
        return cls(**known)


def _finite(time: float) -> float:
    if isinstance(time, str) or not math.isfinite(time):
        raise ValueError
    return float(time)
