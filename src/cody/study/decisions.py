"""What a decision means in an evaluation: about which links it is made, which predictions are correct, and the words.

Whoever draws links knows how each is decided with nothing changed. What happened is in the log: of links, every event;
of labels, the label of the event. So a prediction is

- of links, correct where the margin is above 0: the link is above the threshold, in the top k, ranked above the other
  one, within the range;
- of labels, correct where the predicted label is the one in the log. Events without a label are left out.
"""

from __future__ import annotations

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

ANY = Query(0, 0, 0.0, 0)


def settled(model: Model, decision: Decision | ByLabel | None) -> Decision | None:
    """The decision that is made about every link; None: about the predicted one of several labels, whichever it is.

    A decision that the model cannot answer is rejected.
    """
    task = label_task(model)
    if decision is None and task is not None and len(task.classes) > 2:
        return None
    return decision_of(model, ANY, replace(decision, own=None) if isinstance(decision, InTop) else decision)


def decision_about(
    model: Model, graph: TemporalGraph, query: Query, decision: Decision | ByLabel | None
) -> Decision | None:
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
    among = (
        f" of {len(decision.among)} named ones" if isinstance(decision, InTop) and decision.among is not None else ""
    )
    return f"{decision.claim()}{among}"


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


def check_decision(model: Model, graph: TemporalGraph, decision: Decision | ByLabel | None) -> Decision | None:
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
