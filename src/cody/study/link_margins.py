"""The margins of decisions about many links, with nothing changed and without some events."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import NamedTuple

import numpy as np

from cody.errors import CallError
from cody.graph import BoolArray, FloatArray, Query, TemporalGraph
from cody.models.contract import Change, LinksUnderRemoval, Model, links_without, scores_of_links
from cody.models.deciding import ByLabel
from cody.models.decision import Decision
from cody.models.predictions import LINKS_AT_ONCE, Compared, Watch, scores_compared

MOST_SCORES = 5_000_000  # of links and rivals together

Score = Callable[[Sequence[Query]], FloatArray]  # links → scores of each. [n, m]


class LinkMargins(NamedTuple):
    """Margins of links that some events can reach. The others have the same margin with and without them."""

    decisions: dict[int, Decision]  # place of a link → what is decided about it
    original: FloatArray  # [n] with nothing changed; NaN where the events cannot reach the link
    without: FloatArray  # [n] without the events

    @property
    def reached(self) -> BoolArray:
        """Which links the events can reach. [n]"""
        return ~np.isnan(self.original)


def margins_without(
    model: Model,
    graph: TemporalGraph,
    queries: Sequence[Query],
    removed: Change,
    decision: Decision | ByLabel | None = None,
    watch: Watch | None = None,
) -> LinkMargins:
    """The margins of links with nothing changed, and without some events.

    Args:
        model: The model.
        graph: The log of events.
        queries: The links, in the order of time.
        removed: Rows of events.
        decision: As in `cody.explain`.
        watch: Called with the number of links done so far and in total.
    """
    rivals = len(Compared.of(model, graph, queries[-1], decision).links) - 1
    if len(queries) * (1 + rivals) > MOST_SCORES:  # it would take hours
        raise CallError(
            f"each of {len(queries):,} links is compared with up to {rivals:,} others: too many to score twice; choose "
            "fewer links, or name the rivals"
        )
    found = LinkMargins({}, np.full(len(queries), np.nan), np.full(len(queries), np.nan))
    changed = links_without(model, removed)
    for first in range(0, len(queries), LINKS_AT_ONCE):
        places = range(first, min(first + LINKS_AT_ONCE, len(queries)))
        compared = {place: Compared.of(model, graph, queries[place], decision) for place in places}
        _score(found, model, changed, compared)
        if watch is not None:
            watch(places.stop, len(queries))
    return found


def _score(found: LinkMargins, model: Model, changed: LinksUnderRemoval, compared: dict[int, Compared]) -> None:
    """Add the margins of some links that can differ."""
    differ = changed.can_differ([link for each in compared.values() for link in each.links])
    stops = np.cumsum([len(each.links) for each in compared.values()])
    parts = zip(compared.items(), np.split(differ, stops[:-1]), strict=True)
    reached = {place: each for (place, each), part in parts if part.any()}

    def without(links: Sequence[Query]) -> FloatArray:
        return changed.logits(links).reshape(len(links), -1)

    if reached:
        found.decisions.update((place, each.decision) for place, each in reached.items())
        places, decided = list(reached), list(reached.values())
        found.original[places] = _margins(partial(scores_of_links, model), decided)
        found.without[places] = _margins(without, decided)


def _margins(score: Score, compared: Sequence[Compared]) -> list[float]:
    """The margin of each decision. The scores of all links are computed together."""
    scores = scores_compared(score, compared)
    return [float(each.decision.margin(part)[0]) for each, part in zip(compared, scores, strict=True)]
