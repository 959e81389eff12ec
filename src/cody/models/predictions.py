"""What predictions of links, labels and ranks have in common: a list of scored links with a summary in words."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Generic, NamedTuple, Protocol, Self, TypeVar

import numpy as np

from cody.errors import CallError
from cody.graph import IntArray, Query, TemporalGraph, check_query
from cody.utils.frames import frame_of_kind
from cody.utils.words import count, from_to, is_date

PERIOD = (0.85, 1.0)  # default period of scored links, as shares of all events: no model was fit to it
LINKS_AT_ONCE = 1024  # between two reports of progress

Watch = Callable[[int, int], None]  # how many links are scored, of how many


class PredictedLink(Protocol):
    """One row of a list of predictions: a named tuple."""

    @property
    def time(self) -> float: ...
    @property
    def right(self) -> bool | None: ...  # whether the prediction is right; None: unknown
    def _asdict(self) -> dict[str, Any]: ...


Row = TypeVar("Row", bound=PredictedLink)


@dataclass(frozen=True, slots=True, repr=False)
class PredictionList(Generic[Row]):
    """Scored links, each a named tuple."""

    columns: ClassVar[tuple[str, ...]]  # names of the fields of a row

    graph: TemporalGraph
    queries: tuple[Query, ...]
    rows: tuple[Row, ...]

    def __len__(self) -> int:
        return len(self.rows)

    def __iter__(self) -> Iterator[Row]:
        return iter(self.rows)

    def __getitem__(self, place: int) -> Row:
        return self.rows[place]

    def at(self, places: Iterable[int]) -> Self:
        """The predictions at some positions, counted from 0."""
        chosen = list(places)
        queries = tuple(self.queries[place] for place in chosen)
        return replace(self, queries=queries, rows=tuple(self.rows[place] for place in chosen))

    @property
    def wrong(self) -> Self:
        """Those that are known to be wrong."""
        return self.at(place for place, row in enumerate(self.rows) if row.right is False)

    @property
    def unit(self) -> str:
        """What one of them is called in sentences."""
        return self.graph.name_of_event()

    @property
    def sentence(self) -> str:
        """How many there are, from when to when, and how good the predictions are."""
        if not len(self):
            return f"No {self.unit}s."
        first, last = (limit(query.time for query in self.queries) for limit in (min, max))
        return f"{count(len(self), self.unit)} from {from_to(first, last)}: {'; '.join(self._outcomes())}."

    def _outcomes(self) -> Iterator[str]:
        raise NotImplementedError

    def to_frame(self, kind: str = "pandas") -> Any:
        """A table with one row for each of them; times that are dates are readable ones, in UTC.

        Args:
            kind: "pandas", "polars" or "arrow".
        """
        import pandas

        frame = pandas.DataFrame(list(self), columns=list(self.columns))
        if len(self) and all(is_date(row.time) for row in self):
            frame["time"] = pandas.to_datetime(frame["time"], unit="s", utc=True)
        return frame_of_kind(frame, kind)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.sentence})"


class PredictionCounts(NamedTuple):
    """How many links were predicted and how many happened, where that is known.

    >>> PredictionCounts(hits=90, missed=10, false_alarms=30, rejected=70).recall
    0.9
    >>> PredictionCounts(hits=90, missed=10, false_alarms=30, rejected=70).precision
    0.75
    """

    hits: int  # happened, and predicted
    missed: int  # happened, not predicted
    false_alarms: int  # did not happen, but predicted
    rejected: int  # neither

    @classmethod
    def of(cls, links: Iterable[tuple[bool | None, bool]]) -> PredictionCounts:
        """Counts of links, each given by whether it happened and whether it was predicted; None: not known."""
        kinds = Counter(links)
        return cls(kinds[True, True], kinds[True, False], kinds[False, True], kinds[False, False])

    @property
    def happened(self) -> int:
        return self.hits + self.missed

    @property
    def did_not_happen(self) -> int:
        return self.false_alarms + self.rejected

    @property
    def recall(self) -> float | None:
        """The share of predicted links among those that happened; None if there are none."""
        return self.hits / self.happened if self.happened else None

    @property
    def precision(self) -> float | None:
        """The share of links that happened among those predicted; None without links of both kinds and a prediction."""
        predicted = self.hits + self.false_alarms
        return self.hits / predicted if predicted and self.happened and self.did_not_happen else None

    @property
    def found(self) -> str:
        """The hits and misses, in words."""
        return f"{self.hits:,} predicted, {self.missed:,} missed (recall {_percent(self.recall)})"

    @property
    def alarms(self) -> str:
        """The false alarms, in words."""
        precision = "" if self.precision is None else f" (precision {_percent(self.precision)})"
        return f"{count(self.false_alarms, 'false alarm')}{precision}"


def _percent(share: float | None) -> str:
    return "–" if share is None else f"{100 * share:.1f} %"


def links_to_score(
    graph: TemporalGraph, links: Iterable[int | Query] | None, node: Any = None, called: str = "links"
) -> list[int | Query]:
    """The given links, else the events of the test period, all or those of a node.

    Args:
        graph: The log of events.
        links: Rows of events, and queries; None: the test period.
        node: Only the events of this node, by its name.
        called: What the links are called in an error.
    """
    if links is not None and node is not None:
        raise CallError(f"give {called} or a node, not both")
    if links is not None:
        return list(links)
    rows = rows_between(graph, PERIOD)
    return list((rows if node is None else of_node(graph, rows, node)).tolist())


def rows_and_queries(
    graph: TemporalGraph, links: Iterable[int | Query]
) -> tuple[tuple[int | None, ...], tuple[Query, ...]]:
    """The row of each link that is an event of the log, and the query about each link, checked."""
    chosen = list(links)
    rows = tuple(None if isinstance(link, Query) else int(link) for link in chosen)
    queries = tuple(link if isinstance(link, Query) else graph.query(link) for link in chosen)
    for query in queries:
        check_query(graph, query)
    return rows, queries


def beginning(graph: TemporalGraph, event: int | None, query: Query) -> tuple[int | None, str, str, float]:
    """What every prediction begins with: the row of the event, if it happened, its nodes by their names, and the time.

    Args:
        graph: The log of events.
        event: The row of the event.
        query: The query about it; about a node, it has that node at both ends.
    """
    dst = query.dst if event is None else int(graph.dst[event])
    return event, graph.name(query.src), graph.name(dst), query.time


def score_in_parts(
    queries: Sequence[Query], score: Callable[[Sequence[Query]], Iterable[Any]], watch: Watch | None
) -> list[Any]:
    """The scores of many links, a part at a time.

    Args:
        queries: The links.
        score: Scores some of them.
        watch: Called with the number of scored links so far and in total.
    """
    scores: list[Any] = []
    for first in range(0, len(queries), LINKS_AT_ONCE):
        scores.extend(score(queries[first : first + LINKS_AT_ONCE]))
        if watch is not None:
            watch(len(scores), len(queries))
    return scores


def rows_between(graph: TemporalGraph, shares: tuple[float, float]) -> IntArray:
    """The rows of the events in a period, given as two shares of the log."""
    first, last = (round(share * graph.num_events) for share in shares)
    return np.arange(first, last)


def of_node(graph: TemporalGraph, rows: IntArray, node: Any) -> IntArray:
    """Those of the rows that are events of a node.

    Args:
        graph: The log of events.
        rows: Rows to choose from.
        node: The node, by its name.
    """
    one = graph.node(node)
    return rows[(graph.src[rows] == one) | (graph.dst[rows] == one)]
