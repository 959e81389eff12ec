"""What the tools of an assistant answer: its clients get the schema of each."""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel

from cody.web.bodies import Scored


class AboutModel(BaseModel):
    """The data and the model, and what the model predicts."""

    data: str
    model: str
    events: int
    nodes: int
    event_name: str
    first: str
    last: str
    predicts: str


class PredictedEvent(BaseModel):
    """The prediction of an event, made just before it, or of a link that is still to come."""

    event: int | None
    src: str
    dst: str
    time: str
    score: float
    predicted: bool | str
    right: bool | None


class PredictedEvents(BaseModel):
    """Predictions, and how they were verified."""

    predictions: list[PredictedEvent]
    verified: bool
    verification: str


class ScoredCase(BaseModel):
    """The prediction with nothing changed and with the changes, and how it was verified."""

    before: str
    after: Scored
    changed: bool
    verified: bool
    verification: str
    remarks: list[str]  # about changes that have no effect


class ChangedEvent(BaseModel):
    """A part of an answer: an event that is removed, added, moved or altered."""

    event: int
    edit: str
    src: str
    dst: str
    time: str


class ExplainedAnswer(BaseModel):
    """The smallest change to the history that was found to change the decision, and what is certain about it."""

    question: str
    reason: str
    sentence: str
    certainty: str
    verdict: str
    changes: list[ChangedEvent]
    alternatives: list[list[int]]
    remarks: list[str]
    verified: bool
    verification: str
    document: str


class Summary(BaseModel):
    """What holds for many links, and how it was verified."""

    summary: str
    findings: list[str]
    figures: list[dict[str, Any]]
    verified: bool
    verification: str
