"""The model contract: the one method that every model has, and the optional ones.

A model needs three things: `identity`, `hops` and `logits(query, changes)`. Everything else is optional, has a name
here and a default that works for every model: methods have a protocol, and attributes a function that reads them. No
other file looks for methods of a model.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain, groupby
from typing import Any, NamedTuple, Protocol, Self, cast, runtime_checkable

import numpy as np

from cody.errors import CallError, ModelError, shortened
from cody.graph import BoolArray, FloatArray, IntArray, Query, TemporalGraph, whole_number
from cody.utils.signatures import readable_help
from cody.utils.words import sanitize

Change = frozenset[int]  # changed rows: a real one did not happen, an imagined one did
NOTHING: Change = frozenset()  # is changed

SCORED_AGAIN = "by scoring this set once more, alone"
HOPS = 2  # default of models without `hops`
DECIMALS = 5  # of a logit
NEAR_THE_LINE = 1e-3  # of a decision: sessions do not estimate there
LARGEST_LOGIT = 2**53 / 10**DECIMALS  # beyond it, a double does not have that many decimals: it must be a mistake

# Of a decision: the scores that it reads → a number above 0 where the decision is positive. [B, m] → [B]
Margin = Callable[[FloatArray], FloatArray]


def first_score(scores: FloatArray) -> FloatArray:
    """The margin of "is this link predicted?": the logit of the link itself. [B, m] → [B]"""
    return scores[:, 0]


class Model(Protocol):
    """Anything that scores a link of a temporal graph under a modified history.

    An answer depends on the arguments only: no call affects a later one.
    """

    @property
    def identity(self) -> str:
        """A string that identifies this model: a hash of everything its answers depend on besides the graph."""

    @property
    def hops(self) -> int:
        """How many events away from a link the model looks."""

    def logits(self, query: Query, changes: Sequence[Change]) -> FloatArray:
        """One logit for each change; above 0 means that the link is predicted. [B]"""


class Session(Protocol):
    """Evaluates changes of one query, and caches what it has computed. It belongs to whoever opened it."""

    def logits(self, changes: Sequence[Change]) -> FloatArray:
        """The same logits as `model.logits(query, changes)`. [B]"""


class ScoreSession(Protocol):
    """A session about links of one moment: the score of each, and of each class."""

    def scores(self, changes: Sequence[Change]) -> FloatArray:
        """The scores of all links for each change, or the class scores of a single link. [B, m]"""


class Reference(Protocol):
    """A reference implementation, to verify an answer with."""

    @property
    def since(self) -> int:
        """The row from which it replays events."""

    def logits(self, query: Query, changes: Sequence[Change]) -> FloatArray: ...


@runtime_checkable
class OffersSessions(Protocol):
    """A model with sessions of its own."""

    def session(self, query: Query, rows: Sequence[int] = ()) -> Session:
        """A session for a query. `rows` are the rows that will probably be changed."""


@runtime_checkable
class OffersReference(Protocol):
    """A model with a reference implementation."""

    def reference(self, query: Query, change: Change, *, full: bool = False) -> Reference:
        """The reference implementation for one query and change.

        Args:
            query: The link that is scored.
            change: The edited rows: a real row is removed, an imagined row is added.
            full: Replay from row 0 instead of from the latest state before the change.
        """


@runtime_checkable
class ScoresLinks(Protocol):
    """A model whose sessions can be about many links of one moment, so that what they share is computed once."""

    def session_of_links(self, links: Sequence[Query], margin: Margin, rows: Sequence[int] = ()) -> ScoreSession:
        """A session for several links with the same time and visible past.

        Args:
            links: The links.
            margin: Of the decision, which has to be right; where it is within `NEAR_THE_LINE` of 0, the scores have to
                be exact.
            rows: The rows that will probably be changed.
        """


class ReferenceOfLinks(Reference, Protocol):
    """A reference implementation for several links of one moment."""

    def scores(self, links: Sequence[Query], changes: Sequence[Change]) -> FloatArray:
        """The scores of all links for each change. [B, m]"""


@runtime_checkable
class OffersReferenceOfLinks(Protocol):
    """A model with a reference implementation for several links of one moment."""

    def reference_of_links(self, links: Sequence[Query], change: Change, *, full: bool = False) -> ReferenceOfLinks:
        """As `OffersReference.reference`.

        Args:
            links: The links that are scored.
            change: The edited rows.
            full: Replay from row 0 instead of from the latest state before the change.
        """


@runtime_checkable
class OffersVerifier(Protocol):
    """A model that wraps another one, and verifies by what that one is verified by."""

    @property
    def has_reference(self) -> bool: ...

    def verifier(self, query: Query, change: Change, *, full: bool = False) -> tuple[Reference | Model, str]:
        """As `verifier_for`.

        Args:
            query: The link that is scored.
            change: The edited rows.
            full: Replay from row 0 instead of from the latest state before the change.
        """


@runtime_checkable
class OffersOnly(Protocol):
    """A model with a fast way to score a history of a few events."""

    def only(self, query: Query, kept: Change) -> float:
        """The logit under a history that consists of these rows only."""


@runtime_checkable
class OffersOnlyOfLinks(Protocol):
    """The same for several links of one moment, or for class scores."""

    def only_of_links(self, links: Sequence[Query], kept: Change) -> FloatArray:
        """The scores of the links under a history that consists of these rows only. [m]"""


@runtime_checkable
class OffersLinks(Protocol):
    """A model that can score many links at once, with nothing changed."""

    def logits_of_links(self, queries: Sequence[Query]) -> FloatArray:
        """The logit of each query with nothing changed. [n]"""


class LinksUnderRemoval(Protocol):
    """Scores many links, in the order of time, under the removal of some events."""

    def can_differ(self, queries: Sequence[Query]) -> BoolArray:
        """Whether the answer about each link can be other than with nothing removed. [n]"""

    def logits(self, queries: Sequence[Query]) -> FloatArray:
        """The logit of each query, [n]; with more than two classes, the score of each class. [n, C]"""


@runtime_checkable
class OffersLinksWithout(Protocol):
    """A model that follows the removal of some events once, for many links."""

    def links_without(self, removed: Change) -> LinksUnderRemoval:
        """Scores links of the log without these real events."""


@runtime_checkable
class OffersOther(Protocol):
    """A model that can be moved to another log of the same nodes, for example a longer one."""

    def on(self, graph: TemporalGraph) -> Model:
        """The same model on that log."""


@runtime_checkable
class SeesPart(Protocol):
    """A model that does not see every event before a query, for example none of the query's own batch."""

    def sees_before(self, query: Query) -> int:
        """The first row that the query does not see, at most `query.before`; later changes have no effect."""


@runtime_checkable
class LacksOwnBatch(Protocol):
    """A model whose state lacks the events of a query's own batch, although it sees them in other ways."""

    def state_before(self, query: Query) -> int:
        """The first row that the state does not include, at most `query.before`."""


@runtime_checkable
class HasNoMemory(Protocol):
    """A model whose answers depend on the events that it attends to, up to `hops` away, and on nothing else."""

    def attended(self, query: Query) -> IntArray | None:
        """The rows that the answer depends on with nothing changed, sorted: no other single event can change it.

        None: they are not known.
        """


class AttentionLayer(NamedTuple):
    """What a layer attends to: n nodes, each with K places for its events, and H heads."""

    nodes: IntArray  # [n] ascending
    rows: IntArray  # [n, K] -1: there is no event
    weights: FloatArray  # [n, H, K] they add up to 1 over the events of a node that has any; 0 where there is none


@runtime_checkable
class OffersAttention(Protocol):
    """A model whose layers attend to events."""

    def attention(self, query: Query) -> list[AttentionLayer]:
        """The layers with nothing changed, the highest first.

        The nodes of the highest are those of the query; the nodes of each other layer are those of the layer above and
        all that it attends to.
        """


@runtime_checkable
class OffersEstimates(Protocol):
    """A slow model with cheap estimates, which the search uses. What is reported is evaluated exactly."""

    def approximate(self, query: Query, rows: Sequence[int]) -> Session | None:
        """A session whose answers are estimates; None: there are none. `rows` are the rows that will be changed."""


# What a label model answers: the class of an event, or of a node at a time. It scores the classes where a link model
# scores a link, and has two properties more, `classes` and `about`, and perhaps a `threshold`.

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


def size_of(session: Session | ScoreSession) -> int:
    """Approximate number of values that a session caches: its `size`; 0 if unknown."""
    return int(getattr(session, "size", 0))


def weight_of(session: Session | ScoreSession) -> int:
    """Approximate maximum number of values that one evaluation computes: its `weight`; 0 if unknown.

    It does not depend on the machine.
    """
    return int(getattr(session, "weight", 0))


def corrections_of(session: Session) -> Mapping[Change, float]:
    """The `corrections` of a session that compares some answers with exact ones: logits that it has corrected since."""
    return getattr(session, "corrections", {})


def corrected_scores_of(session: ScoreSession) -> Mapping[Change, FloatArray]:
    """The same of a session about links of one moment: its `corrected_scores`."""
    return getattr(session, "corrected_scores", {})


def open_session(model: Model, query: Query, rows: Sequence[int] = ()) -> Session:
    """A session of a model, whether or not the model has sessions of its own.

    Args:
        model: The model.
        query: The link that is scored.
        rows: The rows that may change in this session.
    """
    if isinstance(model, OffersSessions):
        return model.session(query, rows)
    return _AskEachTime(model, query)


def open_estimates(model: Model, query: Query, rows: Sequence[int]) -> Session | None:
    """A session whose answers are cheap estimates; None if the model has none.

    Args:
        model: The model.
        query: The link that is scored.
        rows: The rows that will be changed.
    """
    return model.approximate(query, rows) if isinstance(model, OffersEstimates) else None


def open_session_of_links(
    model: Model, links: Sequence[Query], margin: Margin, rows: Sequence[int] = ()
) -> ScoreSession:
    """A session about links of one moment, whether or not the model has such sessions of its own.

    Args:
        model: The model.
        links: Links with the same time and visible past.
        margin: Of the decision that their scores lead to.
        rows: The rows that may change in this session.
    """
    if isinstance(model, ScoresLinks):
        return model.session_of_links(links, margin, rows)
    return SessionsOfLinks(links, tuple(open_session(model, link, rows) for link in links))


def open_exact_session_of_links(
    model: Model, links: Sequence[Query], margin: Margin, rows: Sequence[int] = ()
) -> ScoreSession:
    """A session whose scores are all shown: every one is exact, as those near the decision line are.

    Args:
        model: The model.
        links: Links with the same time and visible past.
        margin: Of the decision that their scores lead to.
        rows: The rows that may change in this session.
    """

    def near(scores: FloatArray) -> FloatArray:
        return np.clip(margin(scores), -NEAR_THE_LINE, NEAR_THE_LINE)

    return open_session_of_links(model, links, near, rows)


@dataclass(frozen=True, slots=True)
class SessionsOfLinks:
    """A session of its own for each of several links."""

    links: Sequence[Query]
    sessions: tuple[Session, ...]

    def scores(self, changes: Sequence[Change]) -> FloatArray:
        answers = zip(self.links, self.sessions, strict=True)
        return np.concatenate([as_scores(link, changes, each.logits(changes)) for link, each in answers], axis=1)

    @property
    def size(self) -> int:
        return sum(map(size_of, self.sessions))

    @property
    def weight(self) -> int:
        return sum(map(weight_of, self.sessions))


def as_scores(query: Query, changes: Sequence[Change], answers: Any) -> FloatArray:
    """The answers of a model about one link as a table of finite numbers: one score, or one per class. [B, m]

    Args:
        query: The link that is scored.
        changes: The changes that were evaluated.
        answers: One number, or one row of class scores, per change.
    """
    try:
        scores = np.asarray(answers, dtype=np.float64)
    except (TypeError, ValueError):
        scores = np.zeros(0)
    if scores.ndim not in (1, 2) or len(scores) != len(changes):
        wanted = f"one number (or one row of class scores) for each of {len(changes)} changes"
        raise ModelError(f"the model must return {wanted}, not {str(answers)[:60]!r}")
    scores = scores.reshape(len(changes), scores.shape[1] if scores.ndim == 2 else 1)
    for change, row in zip(changes, scores, strict=True):
        check_logits(query, [change] * len(row), row.tolist())
    return scores


@dataclass(frozen=True, slots=True)
class _AskEachTime:
    model: Model
    query: Query

    def logits(self, changes: Sequence[Change]) -> FloatArray:
        return self.model.logits(self.query, changes)


def verifier_for(model: Model, query: Query, change: Change, *, full: bool = False) -> tuple[Reference | Model, str]:
    """What verifies an answer, and a description of it: the reference implementation, or else the model itself.

    Args:
        model: The model.
        query: The link that is scored.
        change: The edited rows: a real row is removed, an imagined row is added.
        full: Replay from row 0 instead of from the latest state before the change.
    """
    if isinstance(model, OffersVerifier):
        return model.verifier(query, change, full=full)
    if not isinstance(model, OffersReference):
        return model, SCORED_AGAIN
    reference = model.reference(query, change, full=full)
    return reference, replayed_from(reference.since)


def replayed_from(row: int) -> str:
    """How an answer was verified, in words."""
    return f"by replay from {'the memory at ' if row else ''}event {row}"


def has_reference(model: Model) -> bool:
    """Whether a model has a reference implementation."""
    return model.has_reference if isinstance(model, OffersVerifier) else isinstance(model, OffersReference)


def gives_logits(model: Model) -> bool:
    """Whether a model is known to answer with logits: its `gives_logits`; if not, this is inferred from its answers."""
    return bool(getattr(model, "gives_logits", False))


def logit_of_only(model: Model, query: Query, kept: Change) -> float:
    """The logit under a history that consists of a few rows only.

    Args:
        model: The model.
        query: The link that is scored.
        kept: The rows of that history.
    """
    if isinstance(model, OffersOnly):
        return float(model.only(query, kept))
    (logit,) = scores_of_only(model, [query], kept).tolist()
    return float(logit)


def scores_of_only(model: Model, links: Sequence[Query], kept: Change) -> FloatArray:
    """The scores of links of one moment under a history that consists of a few rows only. [m]

    Args:
        model: The model.
        links: The links that are scored.
        kept: The rows of that history.
    """
    if isinstance(model, OffersOnlyOfLinks):
        return model.only_of_links(links, kept)
    task = label_task(model)
    if isinstance(model, OffersOnly) and (task is None or task.outputs == 1):
        return np.array([model.only(link, kept) for link in links])
    change: Change = frozenset(range(links[0].before)) - kept
    return np.concatenate([as_scores(link, [change], model.logits(link, [change]))[0] for link in links])


def logits_of_links(model: Model, queries: Sequence[Query]) -> list[float]:
    """The logit of each link with nothing changed."""
    return scores_of_links(model, queries)[:, 0].tolist()


def scores_of_links(model: Model, queries: Sequence[Query]) -> FloatArray:
    """The scores of each link with nothing changed: one, or one per class. [n, m]"""
    unchanged: list[Change] = [frozenset()]
    task = label_task(model)
    if not queries:
        return np.zeros((0, 1))
    if isinstance(model, OffersLinks):
        answers = np.asarray(model.logits_of_links(queries), dtype=np.float64)
    elif isinstance(model, ScoresLinks) and (task is None or task.outputs == 1):
        sessions = (model.session_of_links(links, first_score) for links in of_one_moment(queries))
        answers = np.concatenate([session.scores(unchanged).ravel() for session in sessions])
    else:
        return np.concatenate([as_scores(query, unchanged, model.logits(query, unchanged)) for query in queries])
    if len(answers) != len(queries):
        raise ModelError(f"the model returned {len(answers)} logits for {len(queries)} links")
    scores = answers.reshape(len(queries), -1)
    for query, row in zip(queries, scores.tolist(), strict=True):
        check_logits(query, unchanged * len(row), row)
    return scores


def of_one_moment(queries: Sequence[Query]) -> list[list[Query]]:
    """Consecutive queries with the same time and visible past, together."""
    return [list(some) for _, some in groupby(queries, key=lambda query: (query.time, query.before))]


def links_without(model: Model, removed: Change) -> LinksUnderRemoval:
    """Scores many links under the removal of some real events, whether or not the model has its own way to do so."""
    return model.links_without(removed) if isinstance(model, OffersLinksWithout) else _LinkByLink(model, removed)


@dataclass(frozen=True, slots=True)
class _LinkByLink:
    model: Model
    removed: Change

    def can_differ(self, queries: Sequence[Query]) -> BoolArray:
        first = min(self.removed, default=math.inf)
        return np.array([query.before > first for query in queries], dtype=bool)

    def logits(self, queries: Sequence[Query]) -> FloatArray:
        return np.array([open_session(self.model, query).logits([self.removed])[0] for query in queries])


def model_on(model: Model, graph: TemporalGraph) -> Model:
    """The same model on another log of the same nodes."""
    if not isinstance(model, OffersOther):
        raise CallError(
            f"{describe(model)} cannot score another log: give it a method on(graph) that returns "
            "the same model on that graph"
        )
    return model.on(graph)


def as_seen(model: Model, graph: TemporalGraph, query: Query) -> Query:
    """The same link as of the moment up to which the model looks: later events cannot be candidates.

    Args:
        model: The model.
        graph: The log of events.
        query: The link that is scored.
    """
    return as_of(graph, query, model.sees_before(query)) if isinstance(model, SeesPart) else query


def attended_by(model: Model, query: Query) -> IntArray | None:
    """The rows that the answer depends on with nothing changed; None if unknown, or if the model has a memory."""
    return model.attended(query) if isinstance(model, HasNoMemory) else None


def attention_of(model: Model, query: Query) -> list[AttentionLayer]:
    """What the layers of a model attend to with nothing changed, the highest first."""
    check_attention(model)
    return cast(OffersAttention, model).attention(query)


def check_attention(model: Model) -> None:
    """Reject a model that does not say what it attends to."""
    if not isinstance(model, OffersAttention):
        raise CallError(
            f"the model {identity_of(model)!r} offers no attention; a TGN and a TGAT of this package do, and any model "
            "with a method attention(query)"
        )


def as_of(graph: TemporalGraph, query: Query, before: int) -> Query:
    """The same link as of an earlier row.

    Args:
        graph: The log of events.
        query: The link that is scored.
        before: The row: the query sees only rows before it.
    """
    return query if before == query.before else query._replace(before=before, time=float(graph.time[before]))


def identity_of(model: Model) -> str:
    """The identity of a model; if it has none, the name of its class."""
    return str(getattr(model, "identity", type(model).__qualname__))


def label_task(model: Model) -> LabelTask | None:
    """What a model labels; None for a model that scores links.

    A model that labels has `classes`, the names of the classes. With two of them, `logits` answers one number per
    change: above 0, it is the second class. With more, it answers one score per class. [B, C] It may also have `about`,
    what it labels ("event", the default, or "node": a query about a node has it at both ends), and a `threshold`, the
    probability above which the second of two classes is predicted.
    """
    classes = getattr(model, "classes", None)
    if classes is None:
        return None
    return LabelTask(tuple(classes), getattr(model, "about", "event"), getattr(model, "threshold", None))


def subject_of(model: Model) -> str:
    """What a model decides about: a link, or an event or node that it labels."""
    task = label_task(model)
    return "link" if task is None else task.about


def has_identity(model: Model) -> bool:
    """Whether a model has an identity."""
    return isinstance(getattr(model, "identity", None), str)


def reach(model: Model) -> int:
    """How many hops away from a link the model looks."""
    return int(getattr(model, "hops", HOPS))


def graph_of(model: Model) -> TemporalGraph | None:
    """The graph that a model belongs to, if known."""
    graph = getattr(model, "graph", None)
    return graph if isinstance(graph, TemporalGraph) else None


def check_is_model(model: Any) -> None:
    """Reject what is not a model."""
    if not callable(getattr(model, "logits", None)):
        raise CallError(
            f"a model has a method logits(query, changes); {describe(model)} has none "
            "(cody.load_model? For a plain function: cody.as_model)"
        )


def check_belongs(model: Any, graph: TemporalGraph, name: str = "the model") -> None:
    """Reject what is not a model, and a model of another log.

    Args:
        model: The model.
        graph: The log of events.
        name: What errors call the model.
    """
    check_is_model(model)
    known = graph_of(model)
    if known is not None and known.base_identity != graph.base_identity:
        raise CallError(f"{name} was made for the graph {known.identity}, and this is {graph.identity}")


def describe(model: Any) -> str:
    return repr(shortened(str(model), 80))


def fingerprint(*arrays: Any) -> str:
    """A hash of arrays (weights, or anything numpy can read), useful as the identity of your own model.

    >>> fingerprint([1.0, 2.0]) == fingerprint(np.array([1.0, 2.0])), fingerprint([1.0]) == fingerprint([2.0])
    (True, False)
    """
    import hashlib

    digest = hashlib.blake2b(digest_size=16)
    for array in arrays:
        column = np.ascontiguousarray(array)
        digest.update(f"{column.dtype.str}{column.shape}".encode())
        digest.update(column.tobytes())
    return digest.hexdigest()


@dataclass(frozen=True, slots=True)
class FunctionModel:
    """A plain function as a model; with `classes`, as a model of labels."""

    function: Callable[[TemporalGraph, Query, Sequence[Change]], Any]
    graph: TemporalGraph
    identity: str
    hops: int = HOPS
    classes: tuple[str, ...] | None = None
    about: str = "event"
    threshold: float | None = None

    def logits(self, query: Query, changes: Sequence[Change]) -> FloatArray:
        return np.asarray(self.function(self.graph, query, changes), dtype=np.float64)

    def on(self, graph: TemporalGraph) -> Self:
        return replace(self, graph=graph)


@readable_help
def as_model(
    function: Callable[[TemporalGraph, Query, Sequence[Change]], Any],
    graph: TemporalGraph,
    *,
    identity: str,
    hops: int = HOPS,
    classes: Sequence[str] | None = None,
    about: str = "event",
    threshold: float | None = None,
) -> FunctionModel:
    """A model from a function `f(graph, query, changes) -> logits`.

    Args:
        function: Returns one logit per change; with more than two classes, one row of class scores per change.
        graph: The log of events.
        identity: A string that changes whenever the answers of the function may change.
        hops: How many events away from a link the function looks.
        classes: Names of the classes, if the function labels events or nodes instead of predicting links. Of two, the
            second one is predicted where the logit is above 0.
        about: What is labelled: "event" or "node".
        threshold: With two classes, the probability above which the second one is predicted. Default: 0.5.

    >>> graph = TemporalGraph.from_arrays(src=[0, 0, 0], dst=[1, 1, 1], time=[1.0, 2.0, 3.0])
    >>> def count(graph, query, changes):
    ...     return [query.before - len(change) - 1.5 for change in changes]
    >>> as_model(count, graph, identity="counts the past").logits(graph.query(2), [frozenset(), frozenset({0})])
    array([ 0.5, -0.5])
    """
    if not callable(function):
        raise CallError(f"a model is made of a function f(graph, query, changes), not {function!r:.60}")
    if not isinstance(graph, TemporalGraph):
        raise CallError(f"the second argument is a graph, as returned by cody.load, not {graph!r:.60}")
    hops = whole_number("hops", hops)
    task = label_task_of(classes, about, threshold)
    labels = () if task is None else (task.classes, task.about, task.threshold)
    return FunctionModel(function, graph, str(identity), hops, *labels)


def check_changes(graph: TemporalGraph, changes: Iterable[Iterable[int]]) -> list[Change]:
    """Changes as frozen sets of plain integers; rows that the graph does not have are rejected."""
    try:
        checked = [change if type(change) is frozenset else frozenset(change) for change in changes]
        if not set(map(type, chain.from_iterable(checked))) <= {int}:
            checked = [frozenset(map(operator.index, change)) for change in checked]
    except TypeError:
        raise CallError("changes must be sets of event rows, for example [frozenset(), frozenset({3, 7})]") from None
    rows = frozenset[int]().union(*checked)
    if rows and not (min(rows) >= 0 and max(rows) < graph.num_rows):
        row = next(row for row in chain.from_iterable(checked) if not 0 <= row < graph.num_rows)
        raise CallError(f"event {row} does not exist: rows go from 0 to {graph.num_rows - 1}")
    return checked


def checked_logits(query: Query, changes: Sequence[Change], answers: Any) -> list[float]:
    """The answers of a model as plain numbers; anything else raises a ModelError.

    Args:
        query: The link that is scored.
        changes: The changes that were evaluated.
        answers: What the model returned for them.
    """
    logits = as_floats(answers)
    check_logits(query, changes, logits)
    return logits


def as_floats(answers: Any) -> list[float]:
    """The answers of a model as plain numbers."""
    try:
        return [float(logit) for logit in answers]
    except (TypeError, ValueError):
        raise ModelError(f"the model must return one number per change, not {str(answers)[:60]!r}") from None


def check_logits(query: Query, changes: Sequence[Change], logits: Sequence[float]) -> None:
    """Reject logits that are not finite, or absurdly large, and name the change that led to them.

    Args:
        query: The link that is scored.
        changes: The changes that were evaluated.
        logits: One logit per change.
    """
    if len(logits) != len(changes):
        raise ModelError(f"the model returned {len(logits)} logits for {len(changes)} changes")
    for change, logit in zip(changes, logits, strict=True):
        if not abs(logit) < LARGEST_LOGIT:
            raise ModelError(f"the model's logit is {logit} for {query} and the change {sorted(change)[:8]}")


def looks_like_probabilities(logits: Iterable[float]) -> bool:
    """Whether all answers are within [0, 1]: as logits, each of them would mean "link", which cannot be intended.

    >>> looks_like_probabilities([0.2, 0.7, 0.9]), looks_like_probabilities([0.2, -0.7])
    (True, False)
    """
    values = [logit for logit in logits if math.isfinite(logit)]
    return len(values) > 1 and all(0 <= logit <= 1 for logit in values)
