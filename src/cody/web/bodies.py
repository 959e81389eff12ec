"""The answers of the server and of an assistant's tools as typed structs: clients get the schema of each."""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel

from cody.models.predict import Prediction
from cody.models.predictions import LabelPrediction
from cody.web.gauge import gauge, outcome
from cody.web.live import Job
from cody.web.sessions import Answer
from cody.web.standing import as_plain


class Problem(BaseModel):
    """Why a request failed, with the library's own error message."""

    detail: str


class LeaderBody(BaseModel):
    """A place of a ranking: a node or a class, and its score."""

    name: str
    score: float


class StandingBody(BaseModel):
    """What lies behind a margin: a rank and the best, or a number; and the same in words."""

    value: float | None
    rank: int | None
    leaders: list[LeaderBody]
    figure: str


class Scored(BaseModel):
    """The prediction with nothing changed, and with the changes.

    `original` and `logit` are margins of the decision: above 0, it is positive. By default they are logits.
    """

    original: float
    logit: float
    score: str
    probability: float | None
    predicted: bool
    outcome: str
    standing: StandingBody | None


class SearchProgress(BaseModel):
    """The progress of a search."""

    id: str
    state: str
    explainer: str
    tried: int
    error: str | None
    sentence: str | None


class EventBody(BaseModel):
    """An event, and the model's prediction just before it."""

    row: int
    src: str
    dst: str
    time: float
    logit: float | None
    probability: float
    predicted: bool | str  # whether the link is predicted, or the predicted class


class Partner(BaseModel):
    """A node, and how likely the next event with it is."""

    name: str
    logit: float
    probability: float


class Node(BaseModel):
    """A node with its latest events and most likely partners."""

    name: str
    events: list[EventBody]
    partners: list[Partner]


class About(BaseModel):
    """The model and the data of this server."""

    version: str
    data: str
    model: str
    events: int
    nodes: int
    explainers: list[str]


def scored_body(answer: Answer) -> Scored:
    """What is decided about a link, as the server says it."""
    original, logit, decision, state = answer
    standing = as_plain(decision, state)
    return Scored(
        original=round(original, 6),
        logit=round(logit, 6),
        score=gauge(decision, ()).written(round(original, 5), round(logit, 5))[1],
        probability=None if (score := decision.score(logit)) is None else round(score, 6),
        predicted=logit > 0,
        outcome=outcome(decision, logit),
        standing=None if standing is None else StandingBody(**standing),
    )


def event_body(scored: Prediction | LabelPrediction) -> EventBody:
    """The prediction of an event, as the server says it."""
    assert scored.event is not None  # a row was requested
    logit = round(scored.logit, 6) if isinstance(scored, Prediction) else None
    given = scored._asdict() | {"row": scored.event, "logit": logit, "probability": round(scored.score, 6)}
    return EventBody(**given)


def partner_body(scored: Prediction, node: str) -> Partner:
    """The other end of a link of a node, as the server says it."""
    name = scored.dst if scored.src == node else scored.src
    return Partner(name=name, logit=round(scored.logit, 6), probability=round(scored.score, 6))


def progress_body(job: Job) -> SearchProgress:
    """How far a search is, as the server says it."""
    return SearchProgress(
        id=job.id,
        state=job.state,
        explainer=job.choice.explainer,
        tried=job.tried,
        error=job.error,
        sentence=None if job.why is None else job.why.sentence,
    )


# What the tools of an assistant answer


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
