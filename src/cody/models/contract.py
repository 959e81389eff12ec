"""The model contract: the one method that every model has, and the optional ones.

A model needs three things: `identity`, `hops` and `logits(query, changes)`. Everything else is optional, has a name
here and a default that works for every model. No other file looks for methods of a model.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

import numpy as np

from cody.errors import CallError, ModelError
from cody.graph import FloatArray, IntArray, Query, TemporalGraph, whole_number
from cody.utils.signatures import readable_help

Change = frozenset[int]  # changed rows: a real one did not happen, an imagined one did

HOPS = 2  # default of models without `hops`
DECIMALS = 5  # of a logit
LARGEST_LOGIT = 2**53 / 10**DECIMALS  # beyond it, a double does not have that many decimals: it must be a mistake


class Model(Protocol):
    """Anything that scores a link of a temporal graph under a modified history.

    An answer depends on the arguments only: no call affects a later one.
    """

    @property
    def identity(self) -> str:
        """A string that identifies this model: a hash of everything its answers depend on besides the graph."""
        ...

    @property
    def hops(self) -> int:
        """How many events away from a link the model looks."""
        ...

    def logits(self, query: Query, changes: Sequence[Change]) -> FloatArray:
        """One logit for each change; above 0 means that the link is predicted. [B]"""
        ...


class Session(Protocol):
    """Evaluates changes of one query, and caches what it has computed. It belongs to whoever opened it."""

    def logits(self, changes: Sequence[Change]) -> FloatArray:
        """The same logits as `model.logits(query, changes)`. [B]"""
        ...


@runtime_checkable
class Measured(Protocol):
    """A session that reports the size of its cache, for those who keep many open."""

    @property
    def size(self) -> int:
        """Approximate number of cached values."""
        ...


@runtime_checkable
class Weighed(Protocol):
    """A session that reports the cost of an evaluation, independent of the machine."""

    @property
    def weight(self) -> int:
        """Approximate maximum number of values that one evaluation computes."""
        ...


@runtime_checkable
class CorrectsItself(Protocol):
    """A session that compares some of its answers with exact ones, and may correct earlier ones."""

    @property
    def corrections(self) -> Mapping[Change, float]:
        """Corrected logits of earlier answers; empty if all were right."""
        ...


class Reference(Protocol):
    """A reference implementation, to verify an answer with."""

    @property
    def since(self) -> int:
        """The row from which it replays events."""
        ...

    def logits(self, query: Query, changes: Sequence[Change]) -> FloatArray: ...


@runtime_checkable
class OffersSessions(Protocol):
    """A model with sessions of its own."""

    def session(self, query: Query, rows: Sequence[int] = ()) -> Session:
        """A session for a query. `rows` are the rows that will probably be changed."""
        ...


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
        ...


@runtime_checkable
class GivesLogits(Protocol):
    """A model that knows whether its answers are logits; for others, this is inferred from the answers."""

    @property
    def gives_logits(self) -> bool: ...


@runtime_checkable
class OffersOnly(Protocol):
    """A model with a fast way to score a history of a few events."""

    def only(self, query: Query, kept: Change) -> float:
        """The logit under a history that consists of these rows only."""
        ...


@runtime_checkable
class OffersLinks(Protocol):
    """A model that can score many links at once, with nothing changed."""

    def logits_of_links(self, queries: Sequence[Query]) -> FloatArray:
        """The logit of each query with nothing changed. [n]"""
        ...


@runtime_checkable
class OffersOther(Protocol):
    """A model that can be moved to another log of the same nodes, for example a longer one."""

    def on(self, graph: TemporalGraph) -> Model:
        """The same model on that log."""
        ...


@runtime_checkable
class SeesPart(Protocol):
    """A model that does not see every event before a query, for example none of the query's own batch."""

    def sees_before(self, query: Query) -> int:
        """The first row that the query does not see, at most `query.before`; later changes have no effect."""
        ...


@runtime_checkable
class LacksOwnBatch(Protocol):
    """A model whose state lacks the events of a query's own batch, although it sees them in other ways."""

    def state_before(self, query: Query) -> int:
        """The first row that the state does not include, at most `query.before`."""
        ...


@runtime_checkable
class HasNoMemory(Protocol):
    """A model whose answers depend on the events that it attends to, up to `hops` away, and on nothing else."""

    def attended(self, query: Query) -> IntArray:
        """The rows that the answer depends on with nothing changed, sorted: no other single event can change it."""
        ...


@runtime_checkable
class OffersEstimates(Protocol):
    """A slow model with cheap estimates, which the search uses. What is reported is evaluated exactly."""

    def approximate(self, query: Query, rows: Sequence[int]) -> Session:
        """A session whose answers are estimates. `rows` are the rows that will be changed."""
        ...


def size_of(session: Session) -> int:
    """Approximate number of values that a session caches; 0 if unknown."""
    return session.size if isinstance(session, Measured) else 0


def weight_of(session: Session) -> int:
    """Approximate maximum number of values that one evaluation computes; 0 if unknown."""
    return session.weight if isinstance(session, Weighed) else 0


def corrections_of(session: Session) -> Mapping[Change, float]:
    """Answers that a session has corrected since it gave them; by default, none."""
    return session.corrections if isinstance(session, CorrectsItself) else {}


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
    if not isinstance(model, OffersReference):
        return model, "by scoring this set once more, alone"
    reference = model.reference(query, change, full=full)
    return reference, f"by replay from {'the memory at ' if reference.since else ''}event {reference.since}"


def logit_of_only(model: Model, query: Query, kept: Change) -> float:
    """The logit under a history that consists of a few rows only.

    Args:
        model: The model.
        query: The link that is scored.
        kept: The rows of that history.
    """
    if isinstance(model, OffersOnly):
        return float(model.only(query, kept))
    change: Change = frozenset(range(query.before)) - kept
    (logit,) = checked_logits(query, [change], model.logits(query, [change]))
    return logit


def logits_of_links(model: Model, queries: Sequence[Query]) -> list[float]:
    """The logit of each link with nothing changed."""
    unchanged: list[Change] = [frozenset()]
    if not isinstance(model, OffersLinks):
        return [checked_logits(query, unchanged, model.logits(query, unchanged))[0] for query in queries]
    logits = as_floats(model.logits_of_links(queries))
    if len(logits) != len(queries):
        raise ModelError(f"the model returned {len(logits)} logits for {len(queries)} links")
    for query, logit in zip(queries, logits, strict=True):
        check_logits(query, unchanged, [logit])
    return logits


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
    return until(graph, query, model.sees_before(query)) if isinstance(model, SeesPart) else query


def attended_by(model: Model, query: Query) -> IntArray | None:
    """The rows that the answer depends on with nothing changed; None if unknown, or if the model has a memory."""
    return model.attended(query) if isinstance(model, HasNoMemory) else None


def until(graph: TemporalGraph, query: Query, before: int) -> Query:
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


def describe(model: Any) -> str:
    return repr(str(model)[:60])


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
    """A plain function as a model."""

    function: Callable[[TemporalGraph, Query, Sequence[Change]], Any]
    graph: TemporalGraph
    identity: str
    hops: int = HOPS

    def logits(self, query: Query, changes: Sequence[Change]) -> FloatArray:
        return np.asarray(self.function(self.graph, query, changes), dtype=np.float64)

    def on(self, graph: TemporalGraph) -> FunctionModel:
        return FunctionModel(self.function, graph, self.identity, self.hops)


@readable_help
def as_model(
    function: Callable[[TemporalGraph, Query, Sequence[Change]], Any],
    graph: TemporalGraph,
    *,
    identity: str,
    hops: int = HOPS,
) -> FunctionModel:
    """A model from a function `f(graph, query, changes) -> logits`.

    Args:
        function: Returns one logit per change.
        graph: The log of events.
        identity: A string that changes whenever the answers of the function may change.
        hops: How many events away from a link the function looks.

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
    return FunctionModel(function, graph, str(identity), whole_number("hops", hops))


def check_changes(graph: TemporalGraph, changes: Iterable[Iterable[int]]) -> list[Change]:
    """Changes as frozen sets of plain integers; rows that the graph does not have are rejected."""
    try:
        checked = [_as_rows(change) for change in changes]
    except TypeError:
        raise CallError("changes must be sets of event rows, for example [frozenset(), frozenset({3, 7})]") from None
    for change in checked:
        if change and not (min(change) >= 0 and max(change) < graph.num_rows):
            row = next(row for row in change if not 0 <= row < graph.num_rows)
            raise CallError(f"event {row} does not exist: rows go from 0 to {graph.num_rows - 1}")
    return checked


def _as_rows(change: Iterable[int]) -> Change:
    if type(change) is frozenset and set(map(type, change)) <= {int}:
        return change
    return frozenset(operator.index(row) for row in change)


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
