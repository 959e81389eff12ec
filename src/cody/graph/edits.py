"""What might have been: events added, at another time, or with other features. Each edit is one imagined row.

`graph.imagine` gives a log that is longer by these rows. They are absent unless a change names them, and are in the
order of time like all others, after the real rows of the same time. Real rows keep their numbers; imagined ones are
numbered after them, in the order in which they were given.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from cody.errors import CallError, first_line
from cody.utils.signatures import readable_help

if TYPE_CHECKING:
    from cody.graph.log import TemporalGraph

NOTHING = -1  # an added row replaces no other
REMOVED, ADDED, MOVED, ALTERED = "removed", "added", "moved", "altered"  # what a change does to a row, in a word


@readable_help
class Add(NamedTuple):
    """An event that did not happen. Nodes have the user's names; features are zero unless given."""

    src: Any
    dst: Any
    time: Any  # a number, or a date
    features: Sequence[float] | None = None


@readable_help
class Move(NamedTuple):
    """A real event, at another time."""

    row: int
    time: Any


@readable_help
class Alter(NamedTuple):
    """A real event, with other features."""

    row: int
    features: Sequence[float]


Edit = Add | Move | Alter


@dataclass(frozen=True, slots=True, eq=False)
class Imagined:
    """The imagined rows of a log, as columns of k values. The row at position i has the number `num_events` + i."""

    edits: tuple[Edit, ...]
    src: NDArray[np.int32]
    dst: NDArray[np.int32]
    time: NDArray[np.float64]
    features: NDArray[np.float32] | None  # [k, F]
    next_real: NDArray[np.int64]  # the real row that it comes before
    rank: NDArray[np.int64]  # its position among the imagined rows, in the order of time
    base_identity: str  # of the log without them
    replaces: NDArray[np.int64]  # the real row that is absent where this one is present; NOTHING if it is an added one

    def __len__(self) -> int:
        return len(self.src)


def imagined_rows(graph: TemporalGraph, edits: Sequence[Edit], base_identity: str, last: int) -> Imagined:
    """The imagined rows of some edits.

    Args:
        graph: The log of events.
        edits: The edits, in the order in which their rows are numbered.
        base_identity: Identity of the log without imagined rows.
        last: No added or moved row comes after this real one, whatever its time.
    """
    events = [_event(graph, edit) for edit in edits]
    src, dst, time, later, replaces = (np.array(column) for column in zip(*events, strict=True))
    next_real = np.where(later == replaces, later, np.minimum(later, last))
    rank = np.empty(len(edits), dtype=np.int64)
    rank[np.lexsort((np.arange(len(edits)), time, next_real))] = np.arange(len(edits))
    features = None if graph.features is None else np.stack([_features(graph, edit) for edit in edits])
    ends = src.astype(np.int32), dst.astype(np.int32)
    return Imagined(tuple(edits), *ends, time.astype(np.float64), features, next_real, rank, base_identity, replaces)


def _event(graph: TemporalGraph, edit: Edit) -> tuple[int, int, float, int, int]:
    """Source, destination, time, the real row that it comes before, and the real row that it replaces."""
    if isinstance(edit, Add):
        link = graph.query_at(edit.src, edit.dst, edit.time)
        return link.src, link.dst, link.time, link.before, NOTHING
    if not isinstance(edit, Move | Alter):
        raise CallError(f"an edit is Add(src, dst, time), Move(row, time) or Alter(row, features), not {edit!r:.60}")
    event = graph.query(edit.row)
    if isinstance(edit, Alter):  # it takes the place of the event itself
        return event.src, event.dst, event.time, event.before, event.before
    link = graph.query_at(graph.name(event.src), graph.name(event.dst), edit.time)
    return link.src, link.dst, link.time, link.before, event.before


def _features(graph: TemporalGraph, edit: Edit) -> NDArray[np.float32]:
    """The features of an imagined event, in a graph whose events have features."""
    assert graph.features is not None
    if isinstance(edit, Move):
        return np.asarray(graph.features[edit.row])
    width = graph.features.shape[1]
    if edit.features is None:
        return np.zeros(width, dtype=np.float32)
    try:
        features = np.asarray(edit.features, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise CallError(f"features must be {width} numbers: {first_line(error)}") from None
    if features.shape != (width,) or not all(map(math.isfinite, features.tolist())):
        raise CallError(f"features must be {width} finite numbers, as the events of this graph have")
    return features.astype(np.float32)


def check_features(graph: TemporalGraph, edits: Sequence[Edit]) -> None:
    """Reject features if the events of the graph have none."""
    given = [edit for edit in edits if isinstance(edit, Add | Alter) and edit.features is not None]
    if graph.features is None and given:
        raise CallError(f"the events of this graph have no features, so {given[0]!r:.60} cannot have any")
