"""Two models on the same links: where they agree, in what they say and in why."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec

from cody.graph import TemporalGraph
from cody.study.cases import ExplainedLink, decisive_events, named, reason
from cody.study.report import LISTED, Survey
from cody.study.shares import Share, mean
from cody.utils.forms import Count, Form, parse, read

HALF = 0.5  # of the events of both: more is agreement


class ExplainedByBoth(Form, frozen=True):
    """One link that both models explain, with the rows of either counterfactual."""

    event: Count
    src: str
    dst: str
    rows: tuple[int | str, ...]  # imagined events in words
    others: tuple[int | str, ...]
    overlap: float  # |X ∩ Y| / |X ∪ Y|; an added event counts as the same whenever it would have been


class ModelComparison(Form, frozen=True, kw_only=True):
    """How two models agree on the same links."""

    models: tuple[str, str]
    links: Count
    both_explained: Count  # links with the same decision for which both have a counterfactual
    same_decision: Share  # (1/N) Σ 1[both decide alike]
    overlap: Share | None  # mean over the links that both explain of |X ∩ Y| / |X ∪ Y|
    same_reason: Share | None  # mean over these of 1[X = Y]
    agree: tuple[ExplainedByBoth, ...]  # those with the largest overlap
    differ: tuple[ExplainedByBoth, ...]  # those with the smallest
    pairs: tuple[ExplainedByBoth, ...]  # all of these, the largest overlap first
    apart: tuple[Count, ...]  # events about which they decide differently


class SurveyOutput(Form, frozen=True):
    """What `cody survey --json` prints: a survey of each model, and what comparing two of them says."""

    surveys: tuple[Survey, ...]
    comparison: ModelComparison | None

    def to_dict(self) -> dict[str, Any]:
        """Plain data for JSON."""
        return msgspec.to_builtins(self)


def read_surveys(text: str | bytes) -> SurveyOutput:
    """What `cody survey --json` printed, checked."""
    return read(parse(text, "a survey"), SurveyOutput, "a survey")


def compare_models(
    one: Sequence[ExplainedLink], other: Sequence[ExplainedLink], graph: TemporalGraph
) -> ModelComparison:
    """Where two models agree; links that only one of them has are left out.

    Args:
        one: The explained links of one model.
        other: Those of the other.
        graph: The log of events.
    """
    theirs = {case.event: case for case in other}
    both = [(case, theirs[case.event]) for case in one if case.event in theirs]
    same = [_outcome(mine) == _outcome(their) for mine, their in both]
    alike = [pair for pair, agree in zip(both, same, strict=True) if agree]
    explained = [_pair(mine, their, graph) for mine, their in alike if mine.flips and their.flips]
    pairs = sorted(explained, key=lambda pair: (-pair.overlap, pair.event))
    return ModelComparison(
        models=(one[0].record.model, other[0].record.model),
        links=len(both),
        both_explained=len(pairs),
        same_decision=mean(same),
        overlap=mean([pair.overlap for pair in pairs]) if pairs else None,
        same_reason=mean([pair.overlap == 1 for pair in pairs]) if pairs else None,
        agree=tuple(pair for pair in pairs if pair.overlap >= HALF)[:LISTED],
        differ=tuple(pair for pair in reversed(pairs) if pair.overlap < HALF)[:LISTED],
        pairs=tuple(pairs),
        apart=tuple(mine.event for (mine, _), agree in zip(both, same, strict=True) if not agree),
    )


def _outcome(case: ExplainedLink) -> str:
    """What a model decides: of links, as they were drawn; of labels, which one it predicts."""
    record = case.record
    return record.kind if record.subject == "link" else record.decision.outcome(record.original)


def _pair(one: ExplainedLink, other: ExplainedLink, graph: TemporalGraph) -> ExplainedByBoth:
    changed = [(case, decisive_events(graph, case)) for case in (one, other)]
    mine, theirs = ({reason(case, event) for event in events} for case, events in changed)
    shared, union = mine & theirs, mine | theirs
    ends = graph.name(one.query.src), graph.name(one.query.dst)
    rows, others = (tuple(named(case, event) for event in events) for case, events in changed)
    return ExplainedByBoth(one.event, *ends, rows, others, len(shared) / len(union))
