"""Ranks of many links: where the destination that was chosen stands among all others."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from cody.errors import CallError
from cody.graph import Query, TemporalGraph
from cody.models.contract import Model, check_is_model, label_task, logits_of_links
from cody.models.deciding import in_top
from cody.models.decision import InTop
from cody.models.margins import probability
from cody.models.predictions import PredictionList, Watch, beginning, links_to_score, rows_and_queries
from cody.utils.signatures import readable_help
from cody.utils.words import count


class RankPrediction(NamedTuple):
    """One ranked link, with the names of its nodes."""

    event: int | None  # the row of the event, if the link happened; it is ranked as of just before
    src: str
    dst: str
    time: float
    score: float
    rank: int  # 1 is the best
    of: int  # how many destinations are ranked
    in_top: bool
    ties: int = 0  # rivals with the same score; they count against the link

    @property
    def right(self) -> bool:
        return self.in_top


@dataclass(frozen=True, slots=True, repr=False)
class RankPredictions(PredictionList[RankPrediction]):
    """Ranked links, each a `RankPrediction`. `wrong` has those that are not in the top."""

    columns = RankPrediction._fields

    k: int
    left_out: int = 0  # links with so few rivals that every destination is in the top

    @property
    def hits(self) -> float:
        """The share of links in the top k, also called recall at k or hits at k."""
        return float(np.mean([each.in_top for each in self]))

    @property
    def mean_reciprocal_rank(self) -> float:
        """The mean of 1 / rank."""
        return float(np.mean([1 / each.rank for each in self]))

    def as_tgb(self) -> dict[str, float]:
        """Mean reciprocal rank and hits as TGB's evaluator has them: half of the ties rank below."""
        ranks = np.array([each.rank - each.ties / 2 for each in self])
        return {"mrr": float(np.mean(1 / ranks)), f"hits@{self.k}": float(np.mean(ranks <= self.k))}

    def _outcomes(self) -> Iterator[str]:
        """How well the links rank."""
        median = int(np.median([each.rank for each in self]))
        ranks = f"{100 * self.hits:.1f} % in the top {self.k}, mean reciprocal rank {self.mean_reciprocal_rank:.3f}"
        yield f"{ranks}, median rank {median:,} of {self[-1].of:,}"
        if self.left_out:
            yield f"left out: {count(self.left_out, 'link')} with fewer than {count(self.k, 'rival')}"


@readable_help
def predict_ranks(
    model: Model,
    graph: TemporalGraph,
    links: Sequence[int | Query] | None = None,
    *,
    k: int = 10,
    among: Sequence[Any] | Callable[[Query], Sequence[Any]] | None = None,
    watch: Watch | None = None,
) -> RankPredictions:
    """The rank of the destination of each link among all others, as of just before the link.

    Args:
        model: A model that scores links.
        graph: The log of events.
        links: Rows of events, and queries (`graph.link`). By default, the events of the last 15 % of the log.
        k: How many places count as the top.
        among: The rivals, as the user names them, or a function that names those of a link
            (`cody.data.tgb.negatives`); a link is never its own rival. By default every node that has been a
            destination by then.
        watch: Called with the number of ranked links so far and in total.

    Returns:
        The ranked links, without those that have fewer than k rivals.
    """
    check_is_model(model)
    if label_task(model) is not None:
        raise CallError("the model predicts labels, so it ranks no destinations")
    top = in_top(k, among)
    events, queries = rows_and_queries(graph, links_to_score(graph, links))
    ranked: list[tuple[Query, RankPrediction]] = []
    for number, (event, query) in enumerate(zip(events, queries, strict=True), start=1):
        if (about := top.about(graph, query)) is not None:
            ranked.append((query, _ranked(model, graph, query, event, about)))
        if watch is not None:
            watch(number, len(queries))
    if not ranked:
        top.of_link(queries[-1]).rivals(graph, queries[-1])  # says why not
    kept, ranks = zip(*ranked, strict=True)
    return RankPredictions(graph, kept, ranks, k, len(queries) - len(ranked))


def _ranked(model: Model, graph: TemporalGraph, query: Query, event: int | None, top: InTop) -> RankPrediction:
    rivals = top.rivals(graph, query).tolist()
    scores = np.array(logits_of_links(model, [query, *(query._replace(dst=rival) for rival in rivals)]))
    rank = 1 + int((scores[1:] >= scores[0]).sum())
    score, ties = probability(float(scores[0])), int((scores[1:] == scores[0]).sum())
    return RankPrediction(*beginning(graph, event, query), score, rank, len(scores), rank <= top.k, ties)
