"""How much of the truth explanations name, where the causes of links are known (`cody.data.mechanisms`).

Each score is a function of one explanation X (an `Explanation` or a `Record`) and the log that it is about. What is
right depends on what an explainer claims. A counterfactual one names events without which the link would not have
happened: a smallest such set is right. A factual one names events that led to it: one complete way is right.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol

from cody.data.mechanisms import PlantedCauses
from cody.errors import CallError
from cody.models.contract import Change


class NamesEvents(Protocol):
    """What the scores read of an explanation of an event."""

    @property
    def event(self) -> int | None: ...

    @property
    def rows(self) -> tuple[int, ...]: ...

    @property
    def factual(self) -> bool: ...

    @property
    def candidates(self) -> int | Sequence[object]: ...


TruthScore = Callable[[NamesEvents, PlantedCauses], float]


def precision(answer: NamesEvents, truth: PlantedCauses) -> float:
    """|X ∩ causes| / |X|, where the causes are all events of all ways; 0 if X is empty."""
    causes = frozenset[int]().union(*_ways(answer, truth))
    return len(causes.intersection(answer.rows)) / len(answer.rows) if answer.rows else 0.0


def recall(answer: NamesEvents, truth: PlantedCauses) -> float:
    """The largest |X ∩ R| / |R| over the right answers R: smallest counterfactuals, or of factual explainers ways."""
    return max(len(right.intersection(answer.rows)) / len(right) for right in right_answers(answer, truth))


def exact(answer: NamesEvents, truth: PlantedCauses) -> float:
    """1 if X is a right answer, no event too many or too few, else 0."""
    return float(frozenset(answer.rows) in right_answers(answer, truth))


def first_rank(answer: NamesEvents, truth: PlantedCauses) -> float:
    """The place of the first true cause in X, in the order of the explainer; 1 is the best.

    If X has none, it is the expected place where the other candidates follow in random order: |X| + (r + 1) / (c + 1),
    of r other candidates and c causes.
    """
    causes = frozenset[int]().union(*_ways(answer, truth))
    for place, row in enumerate(answer.rows, start=1):
        if row in causes:
            return float(place)
    candidates = answer.candidates if isinstance(answer.candidates, int) else len(answer.candidates)
    return len(answer.rows) + (candidates - len(answer.rows) + 1) / (len(causes) + 1)


SCORES: dict[str, TruthScore] = {"precision": precision, "recall": recall, "exact": exact, "rank": first_rank}


def right_answers(answer: NamesEvents, truth: PlantedCauses) -> tuple[Change, ...]:
    """The sets that would be right: ways for a factual explanation, smallest counterfactuals for others.

    Args:
        answer: The explanation.
        truth: The log that it is about.
    """
    ways = _ways(answer, truth)
    if answer.factual:
        return ways
    changes = truth.counterfactuals(int(answer.event or 0))
    return tuple(change for change in changes if len(change) == len(changes[0]))


def _ways(answer: NamesEvents, truth: PlantedCauses) -> tuple[Change, ...]:
    if answer.event is None or answer.event not in truth.ways:
        raise CallError(f"the causes of event {answer.event} are not known; they are for {len(truth.ways)} others")
    return truth.ways[answer.event]
