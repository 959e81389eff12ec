"""What a label model answers: the class of an event, or of a node at a time.

Such a model scores the classes where a link model scores a link: `logits(query, changes)` is one logit per change for
two classes (above 0: the second), or a score for each of more classes, [B, C]. It has two properties more, `classes`
and `about`, and may propose a `threshold`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from cody.errors import ModelError
from cody.graph import Query, TemporalGraph
from cody.utils.words import sanitize

ABOUT = ("event", "node")


@dataclass(frozen=True, slots=True)
class LabelTask:
    """The classes that a network tells apart, and of what."""

    classes: tuple[str, ...]
    about: str = "event"  # or "node": only the state of the source is scored, and a query has it at both ends
    threshold: float | None = None  # proposed probability of the second of two classes from which on it is predicted

    def __post_init__(self) -> None:
        if len(self.classes) < 2 or len(set(self.classes)) < len(self.classes):
            raise ModelError(f"classes must be at least two different names, not {sanitize(list(self.classes))}")
        if self.about not in ABOUT:
            raise ModelError(f"a label is about an event or a node, not about {sanitize(repr(self.about))}")
        if self.threshold is not None and not 0 < self.threshold < 1:
            raise ModelError(f"threshold must be a probability between 0 and 1, not {sanitize(self.threshold)}")

    @property
    def outputs(self) -> int:
        """How many numbers the network gives: one for two classes, else one for each."""
        return 1 if len(self.classes) == 2 else len(self.classes)


def about_node(query: Query) -> Query:
    """The query about the state of the source alone: it has that node at both ends."""
    return query._replace(dst=query.src)


def event_of_query(graph: TemporalGraph, query: Query) -> int | None:
    """The row of the event that a query is about, or whose source it is about; None if the log has none."""
    if query.before >= graph.num_events:
        return None
    event = graph.query(query.before)
    return query.before if query in (event, about_node(event)) else None


def label_task_of(classes: Sequence[str] | None, about: str, threshold: float | None) -> LabelTask | None:
    """What a model labels, as its user says it; None if there are no classes: it predicts links.

    Args:
        classes: Names of the classes.
        about: What is labelled: "event" or "node".
        threshold: With two classes, the probability above which the second one is predicted.
    """
    return None if classes is None else LabelTask(tuple(map(str, classes)), about, threshold)


def add_labels(model: Any, task: LabelTask | None) -> None:
    """Give a model that labels its properties `classes`, `about` and, if it has one, `threshold`.

    A link model has none of them: the contract recognizes models of labels by these properties.
    """
    if task is not None:
        model.classes, model.about = task.classes, task.about
        if task.threshold is not None:
            model.threshold = task.threshold
