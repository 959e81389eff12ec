"""Which predictions an evaluation explains, whether they are correct, and what they are called.

They are about real events; correct and incorrect ones are sampled separately. Whoever draws them knows how each is
decided with nothing changed. What happened is in the log: of links, every event; of labels, the label of the event. So
a prediction is

- of links, correct where the margin is above 0: the link is above the threshold, in the top k, ranked above the other
  one, within the range;
- of labels, correct where the predicted label is the one in the log. Events without a label are left out.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from cody.errors import CallError
from cody.graph import Query, TemporalGraph
from cody.models.contract import NOTHING, Model, as_scores, label_task, logits_of_links, subject_of
from cody.models.decided import LINK_PREDICTED, decision_of
from cody.models.deciding import ByLabel
from cody.models.decision import Above, Between, Decision, InTop, Labelled, RatherThan
from cody.study.record import KINDS, Record
from cody.utils.words import count

TEST_PERIOD = (0.85, 1.0)  # shares of the events; the default
PAPER_PERIOD, PAPER_MARGIN = (0.2, 0.6), 0.2  # of the links behind the published tables
ANY = Query(0, 0, 0.0, 0)
GivenDecision = Decision | ByLabel | None  # as the user gave it; None: what the model decides by itself


class Link(NamedTuple):
    """A prediction to explain: its event, and whether it is correct."""

    event: int
    kind: str


def sample_kinds(
    model: Model,
    graph: TemporalGraph,
    count: int,
    kinds: Iterable[str],
    *,
    period: tuple[float, float] = TEST_PERIOD,
    margin: float = 0.0,
    seed: int = 0,
    events: Sequence[int] | None = None,
    decision: GivenDecision = None,
) -> dict[str, list[int]]:
    """Rows of up to `count` random events for each kind: about which the prediction is "correct" or "incorrect".

    Drawn from the events between the two shares of `period`, or with `events` among these rows; `margin` leaves out
    those whose margin is closer to 0. The rows ascend.
    """
    check_sample(count, period, margin)
    check_decision(model, graph, decision)
    rows: dict[str, list[int]] = {kind: [] for kind in kinds}
    among = rows_of(period, graph) if events is None else events
    for row in np.random.default_rng(seed).permutation(np.array(among)).tolist():
        kind, found = predicted(model, graph, row, decision)
        if kind in rows and abs(found) >= margin and len(rows[kind]) < count:
            rows[kind].append(row)
            if all(len(drawn) == count for drawn in rows.values()):
                break
    return {kind: sorted(found) for kind, found in rows.items()}


def predicted(model: Model, graph: TemporalGraph, event: int, decision: GivenDecision) -> tuple[str | None, float]:
    """Whether the prediction about an event is correct or incorrect, and its margin; None: that cannot be said.

    Args:
        model: The model.
        graph: The log of events.
        event: The row of the event.
        decision: As the user gave it.
    """
    query = graph.query(event)
    chosen = decision_about(model, graph, query, decision)
    if chosen is None:
        return None, 0.0
    margin = margin_of(model, graph, query, chosen)
    return kind_of(graph, event, chosen, margin, subject_of(model)), margin


def check_sample(count: int, period: tuple[float, float], margin: float) -> None:
    """Reject a sample that makes no sense."""
    if not 0 <= period[0] < period[1] <= 1:
        raise CallError(f"a period is two increasing shares of the events, between 0 and 1, not {period}")
    if count < 1:
        raise CallError(f"there must be at least 1 link of each kind, not {count}")
    if not 0 <= margin < math.inf:
        raise CallError(f"margin must be a finite number, at least 0, not {margin}")


def rows_of(period: tuple[float, float], graph: TemporalGraph) -> range:
    """The rows of the events in a period."""
    first, last = (round(share * graph.num_events) for share in period)
    return range(first, last)


# What is decided about each


def settled(model: Model, decision: GivenDecision) -> Decision | None:
    """The decision that is made about every link; None: about the predicted one of several labels, whichever it is.

    A decision that the model cannot answer is rejected.
    """
    task = label_task(model)
    if decision is None and task is not None and len(task.classes) > 2:
        return None
    return decision_of(model, ANY, replace(decision, own=None) if isinstance(decision, InTop) else decision)


def decision_about(model: Model, graph: TemporalGraph, query: Query, decision: GivenDecision) -> Decision | None:
    """The decision about one link; None if there is nothing to decide.

    That is so where a link is to be ranked above one of its own ends, or where all destinations are in the top. A
    link is never among its own rivals.

    Args:
        model: The model.
        graph: The log of events.
        query: The link.
        decision: As the user gave it.
    """
    return decision_of(model, query, decision).about(graph, query)


def margin_of(model: Model, graph: TemporalGraph, query: Query, decision: Decision) -> float:
    """The margin of a link with nothing changed, compared with all rivals.

    Args:
        model: The model.
        graph: The log of events.
        query: The link.
        decision: As `decision_about` gives it.
    """
    rivals = [query._replace(dst=rival) for rival in decision.rivals(graph, query).tolist()]
    scores = as_scores(query, [NOTHING], model.logits(query, [NOTHING]))
    if rivals:
        scores = np.append(scores, [logits_of_links(model, rivals)], axis=1)
    return float(decision.margin(scores)[0])


def kind_of(graph: TemporalGraph, event: int, decision: Decision, margin: float, subject: str) -> str | None:
    """Whether a prediction is "correct" or "incorrect"; None: the log does not say which label is right.

    Args:
        graph: The log of events.
        event: The row of the event.
        decision: As `decision_about` gives it.
        margin: With nothing changed.
        subject: What is decided on, as explanations say it: "link", or what is labelled.
    """
    positive = margin > 0
    claimed = decision.predicted_label
    if subject == "link" or claimed is None:
        return KINDS[not positive]
    label = graph.label_of(event)
    return None if label is None else KINDS[positive != (label == claimed)]


def same_decision(one: Record, other: Record) -> bool:
    """Whether two records can be counted together: what is decided is the same, apart from the link it is about."""
    return general(one.decision) == general(other.decision) and one.subject == other.subject


def general(decision: Decision) -> Decision | None:
    """A decision without what depends on the link: its name, its rivals, or of several labels the one in question."""
    decision = decision.of_any_link()
    if isinstance(decision, InTop):
        return replace(decision, own=None, among=None if decision.among is None else ())
    return replace(decision, label="") if isinstance(decision, Labelled) else decision


def in_words(decision: Decision | None) -> str:
    """What is decided, for messages.

    >>> in_words(LINK_PREDICTED), in_words(InTop(5)), in_words(RatherThan("942"))
    ('link above 0.5', 'in the top 5', 'ranked above 942')
    """
    if decision is None:
        return "the predicted label"
    if isinstance(decision, Above):
        return f"{decision.positive} above {decision.threshold:g}"
    if isinstance(decision, InTop) and decision.rivals_of:
        return f"{decision.claim()} of its own rivals ({decision.rivals_of})"
    named = decision.among if isinstance(decision, InTop) else None
    return decision.claim() + ("" if named is None else f" of {len(named)} named ones")


class KindWords(NamedTuple):
    """What predictions of a kind are called."""

    noun: str
    rest: str = ""
    subject: str = "link"  # what is predicted: a link, or the label of an event or node

    def counted(self, number: int) -> str:
        return f"{count(number, self.noun)}{self.rest}"

    @property
    def plural(self) -> str:
        return f"{self.noun}s{self.rest}"


def kind_in_words(kind: str, decision: Decision | None = LINK_PREDICTED, subject: str = "link") -> KindWords:
    """What predictions of a kind are called.

    Args:
        kind: "correct" or "incorrect".
        decision: What is decided; None: the predicted one of several labels.
        subject: What it is decided on, as explanations say it.

    >>> kind_in_words("correct").counted(2), kind_in_words("incorrect", InTop(5)).counted(1)
    ('2 correct links', '1 link not in the top 5')
    """
    if decision == LINK_PREDICTED:
        return KindWords(f"{kind} link")
    if decision is None or (subject != "link" and decision.predicted_label is not None):
        return KindWords(f"{kind}ly labelled {subject}", subject=subject)
    negation = "" if kind == KINDS[0] else "not "
    if isinstance(decision, Above | RatherThan):
        what = f"above {decision.threshold:g}" if isinstance(decision, Above) else in_words(decision)
        return KindWords(subject, f" {negation}{what}", subject)
    outcome = decision.outcome(-1.0 if negation else 1.0)
    rest = outcome if isinstance(decision, InTop | Between) else f"decided {outcome!r}"
    return KindWords(subject, f" {rest}", subject)


def check_decision(model: Model, graph: TemporalGraph, decision: GivenDecision) -> Decision | None:
    """The settled decision; one that cannot be made about any link is rejected.

    Args:
        model: The model.
        graph: The log of events.
        decision: As the user gave it.
    """
    chosen = settled(model, decision)
    if isinstance(chosen, RatherThan):
        graph.node(chosen.other)
    if isinstance(chosen, InTop):
        last, named = graph.query(graph.num_events - 1), set(map(graph.node, chosen.among or ()))
        other = next((node for node in (last.src, *range(graph.num_nodes)) if node not in named), last.src)
        chosen.rivals(graph, last._replace(dst=other))  # no link has more rivals
    if subject_of(model) != "link" and (chosen is None or chosen.predicted_label is not None) and graph.labels is None:
        raise CallError("the data have no labels, so it is not known which predictions are correct")
    return chosen
