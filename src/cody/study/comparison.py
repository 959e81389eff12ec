"""Two models on the same links: where they agree, in what they say and in why."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from cody.graph import TemporalGraph
from cody.study.cases import ExplainedLink, decisive_events, named, reason
from cody.study.report import LISTED
from cody.study.shares import Share, mean

HALF = 0.5  # of the events of both: more is agreement


class ExplainedByBoth(NamedTuple):
    """One link that both models explain, with the rows of either counterfactual."""

    event: int
    src: str
    dst: str
    rows: tuple[int | str, ...]  # imagined events in words
    others: tuple[int | str, ...]
    overlap: float  # |X ∩ Y| / |X ∪ Y|; an added event counts as the same whenever it would have been


@dataclass(frozen=True, slots=True)
class ModelComparison:
    """How two models agree on the same links."""

    models: tuple[str, str]
    links: int
    same_decision: Share  # (1/N) Σ 1[both say link, or both say no link]
    both_explained: int  # links with the same decision for which both have a counterfactual
    overlap: Share | None  # mean over these of |X ∩ Y| / |X ∪ Y|
    same_reason: Share | None  # mean over these of 1[X = Y]
    agree: tuple[ExplainedByBoth, ...]  # those with the largest overlap
    differ: tuple[ExplainedByBoth, ...]  # those with the smallest
    pairs: tuple[ExplainedByBoth, ...]  # all of these, the largest overlap first
    apart: tuple[int, ...]  # events about which they decide differently

    def to_dict(self) -> dict[str, Any]:
        """Plain data for JSON."""
        shares = {name: getattr(self, name) for name in ("same_decision", "overlap", "same_reason")}
        return {
            "models": list(self.models),
            "links": self.links,
            "both_explained": self.both_explained,
            **{name: None if share is None else share._asdict() for name, share in shares.items()},
            "agree": [pair._asdict() for pair in self.agree],
            "differ": [pair._asdict() for pair in self.differ],
            "pairs": [pair._asdict() for pair in self.pairs],
            "apart": list(self.apart),
        }


def compare(one: Sequence[ExplainedLink], other: Sequence[ExplainedLink], graph: TemporalGraph) -> ModelComparison:
    """Where two models agree; links that only one of them has are left out.

    Args:
        one: The explained links of one model.
        other: Those of the other.
        graph: The log of events.
    """
    theirs = {case.event: case for case in other}
    both = [(case, theirs[case.event]) for case in one if case.event in theirs]
    same = [mine.record.kind == their.record.kind for mine, their in both]
    explained = [
        (mine, their) for (mine, their), agree in zip(both, same, strict=True) if agree and mine.flips and their.flips
    ]
    pairs = sorted(
        (_pair(mine, their, graph) for mine, their in explained), key=lambda pair: (-pair.overlap, pair.event)
    )
    return ModelComparison(
        (one[0].record.model, other[0].record.model),
        len(both),
        mean(same),
        len(pairs),
        mean([pair.overlap for pair in pairs]) if pairs else None,
        mean([pair.overlap == 1 for pair in pairs]) if pairs else None,
        tuple(pair for pair in pairs if pair.overlap >= HALF)[:LISTED],
        tuple(pair for pair in reversed(pairs) if pair.overlap < HALF)[:LISTED],
        tuple(pairs),
        tuple(mine.event for (mine, _), agree in zip(both, same, strict=True) if not agree),
    )


def _pair(one: ExplainedLink, other: ExplainedLink, graph: TemporalGraph) -> ExplainedByBoth:
    mine, theirs = (decisive_events(graph, case) for case in (one, other))
    shared, union = {*map(reason, mine)} & {*map(reason, theirs)}, {*map(reason, mine)} | {*map(reason, theirs)}
    ends = graph.name(one.query.src), graph.name(one.query.dst)
    rows, others = (tuple(map(named, events)) for events in (mine, theirs))
    return ExplainedByBoth(one.event, *ends, rows, others, len(shared) / len(union))
