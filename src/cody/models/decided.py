"""A model and a decision together: again a model, whose answers are margins.

Whatever works on logits, where the sign decides, then works on any decision.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from cody.errors import CallError, ModelError
from cody.graph import FloatArray, IntArray, Query, TemporalGraph, is_in, sorted_unique
from cody.models import contract
from cody.models.contract import NOTHING, Change, Model
from cody.models.deciding import ByLabel
from cody.models.decision import Above, Between, DecidedBy, Decision, InTop, Labelled, RatherThan, Standing, State
from cody.models.margins import flips

LINK_PREDICTED = Above()
FULL_RANKINGS = 9  # along an answer


@dataclass(frozen=True, slots=True, eq=False)
class DecidedModel:
    """A model whose answers are the margins of a decision about one link."""

    model: Model
    graph: TemporalGraph
    decision: Decision
    rivals: IntArray  # other destinations that the decision compares with
    contenders: IntArray  # those of them that a search compares with: places among the rivals
    focus: tuple[int, ...] = ()  # rivals whose past is part of the search space

    @property
    def identity(self) -> str:
        return contract.identity_of(self.model)

    @property
    def hops(self) -> int:
        return contract.reach(self.model)

    @property
    def gives_logits(self) -> bool:
        """Margins may all lie between 0 and 1; only probabilities in place of logits must not."""
        return contract.gives_logits(self.model) or not isinstance(self.decision, Above)

    def links(self, query: Query, *, every: bool = False) -> list[Query]:
        """The links whose scores the decision reads: with all rivals, or with those that a search compares with."""
        rivals = self.rivals if every else self.rivals[self.contenders]
        return [query, *(query._replace(dst=rival) for rival in rivals.tolist())]

    def logits(self, query: Query, changes: Sequence[Change]) -> FloatArray:
        """The margin for each change. [B]"""
        return self.session(query).logits(changes)

    def session(self, query: Query, rows: Sequence[int] = ()) -> DecidedSession:
        """A session for a query, whose answers are margins."""
        margin = self.decision.margin
        return DecidedSession(contract.open_session_of_links(self.model, self.links(query), margin, rows), margin)

    def approximate(self, query: Query, rows: Sequence[int]) -> DecidedSession | None:
        """A session whose margins are estimates; None if the model has no estimates."""
        links, sessions = self.links(query), []
        for link in links:
            session = contract.open_estimates(self.model, link, rows)
            if session is None:
                return None
            sessions.append(session)
        return DecidedSession(contract.SessionsOfLinks(links, tuple(sessions)), self.decision.margin)

    def on(self, graph: TemporalGraph) -> DecidedModel:
        """The same on another log of the same nodes."""
        return replace(self, model=contract.model_on(self.model, graph), graph=graph)

    def only(self, query: Query, kept: Change) -> float:
        """The margin under a history that consists of these rows only, compared with all rivals."""
        scores = contract.scores_of_only(self.model, self.links(query, every=True), kept)
        return float(self.decision.margin(scores[None])[0])

    def logits_of_links(self, queries: Sequence[Query]) -> FloatArray:
        """The margin of each query with nothing changed. [n]"""
        return np.array([self.logits(query, [NOTHING])[0] for query in queries])

    def sees_before(self, query: Query) -> int:
        """The first row that the query does not see."""
        return contract.as_seen(self.model, self.graph, query).before

    def attended(self, query: Query) -> IntArray | None:
        """The rows that the answer depends on; None if not known."""
        return None if len(self.rivals) else contract.attended_by(self.model, query)

    def attention(self, query: Query) -> list[contract.AttentionLayer]:
        """What the model attends to for the link itself."""
        return contract.attention_of(self.model, query)

    @property
    def has_reference(self) -> bool:
        """What compares with all rivals is the reference of what compares with some: they may disagree."""
        return contract.has_reference(self.model) or self.is_large

    def verifier(self, query: Query, change: Change, *, full: bool = False) -> tuple[VerifiedMargin, str]:
        """What verifies an answer, and a description of it. Rankings are verified against all rivals."""
        links = self.links(query, every=True)
        if isinstance(self.model, contract.OffersReferenceOfLinks):
            reference = self.model.reference_of_links(links, change, full=full)
            margin = self.margin_of_all(reference.scores(links, [change]))
            return VerifiedMargin(margin, reference.since), contract.replayed_from(reference.since)
        scores, by = [], ""
        for link in links:
            each, by = contract.verifier_for(self.model, link, change, full=full)
            scores.append(contract.as_scores(link, [change], each.logits(link, [change])))
        return VerifiedMargin(self.margin_of_all(np.concatenate(scores, axis=1))), by

    def margin_of_all(self, scores: FloatArray) -> float:
        """The margin from the scores of all rivals; as a search has it, unless a rival that it left out decides. [1, m]

        A search compares with the rivals that rank highest, which can only make the margin larger.
        """
        among_all = float(self.decision.margin(scores)[0])
        if not len(self.rivals):
            return among_all
        among_some = float(self.decision.margin(scores[:, np.append(0, 1 + self.contenders)])[0])
        return among_all if flips(among_some, among_all) else among_some

    @property
    def is_large(self) -> bool:
        """Whether there are more rivals than a search compares with, so that a full ranking takes its time."""
        return len(self.contenders) < len(self.rivals)

    def with_overtaking(self, query: Query, change: Change, original: float) -> Decision:
        """The decision compared also with rivals that a search left out, where they undo that a change flips it."""
        if not isinstance(self.decision, InTop) or not self.is_large:
            return self.decision
        _, scores = self._scores_of_all(query, [change])
        if flips(original, self.margin_of_all(scores)):
            return self.decision
        left_out = np.setdiff1d(np.arange(len(self.rivals)), self.contenders)
        best = np.argsort(-scores[0, 1:], kind="stable")[: self.decision.k]
        found = best[is_in(best, left_out) & (scores[0, 1 + best] >= scores[0, 0])]
        names = [self.graph.name(rival) for rival in self.rivals[found].tolist()]
        return replace(self.decision, overtaking=(*self.decision.overtaking, *names))

    def _scores_of_all(self, query: Query, changes: Sequence[Change]) -> tuple[list[Query], FloatArray]:
        """The links with all rivals, and their scores under some changes. [B, m]"""
        links = self.links(query, every=True)
        rows = sorted(frozenset().union(*changes))
        session = contract.open_exact_session_of_links(self.model, links, self.decision.margin, rows)
        return links, session.scores(changes)

    def states(self, query: Query, changes: Sequence[Change]) -> list[State]:
        """The decision under some changes, with what lies behind the margins, compared with all rivals."""
        links, rows = self._scores_of_all(query, changes)
        names = [self.graph.name(link.dst) for link in links]
        return [State(self.margin_of_all(row[None]), self.decision.standing(row, names)) for row in rows]


class DecidedSession:
    """A session whose answers are margins."""

    def __init__(self, session: contract.ScoreSession, margin: contract.Margin) -> None:
        self.scored, self.margin = session, margin

    def logits(self, changes: Sequence[Change]) -> FloatArray:
        """The margin for each change. [B]"""
        return self.margin(self.scored.scores(changes))

    @property
    def size(self) -> int:
        return contract.size_of(self.scored)

    @property
    def weight(self) -> int:
        return contract.weight_of(self.scored)

    @property
    def corrections(self) -> Mapping[Change, float]:
        """Margins that were answered before the session found that it must not approximate."""
        corrected = contract.corrected_scores_of(self.scored).items()
        return {change: float(self.margin(scores[None])[0]) for change, scores in corrected}


@dataclass(frozen=True, slots=True)
class VerifiedMargin:
    """The margin of one change, by the reference implementation."""

    margin: float
    since: int = 0  # the row from which it replayed events

    def logits(self, query: Query, changes: Sequence[Change]) -> FloatArray:
        """That margin, for the one change it was computed for. [1]"""
        return np.full(len(changes), self.margin)


class Standings(NamedTuple):
    """What lies behind the margins that an answer reports; None where a margin says it all, or it was not computed."""

    steps: tuple[Standing | None, ...]
    others: tuple[Standing | None, ...]


def decision_of(model: Model, query: Query, decision: Decision | ByLabel | None = None) -> Decision:
    """The decision that is meant: the one that is given, or the one that a model makes by itself.

    A decision that the model cannot answer is rejected.

    Args:
        model: The model.
        query: The link, event or node that is decided on.
        decision: None: whether the link is predicted; of a model of labels, whether this is the predicted one.
    """
    task = contract.label_task(model)
    if task is None:
        if isinstance(decision, ByLabel | Labelled):
            raise CallError(
                f"the model predicts links, not labels such as {decision.label!r}; train one with --task label"
            )
        chosen = LINK_PREDICTED if decision is None else decision
        if not isinstance(chosen, Decision):
            forms = "cody.above(0.8), cody.rather_than(node), cody.in_top(10), cody.labelled(name), cody.between(2, 5)"
            raise CallError(f"a decision is {forms} or cody.decided_by(function), not {decision!r:.60}")
        return chosen.of_link(query) if isinstance(chosen, InTop) else chosen
    classes = task.classes
    if decision is None:
        decision = ByLabel(classes[-1] if len(classes) == 2 else _predicted(model, query, classes))
    if isinstance(decision, ByLabel):
        known = decision.of(classes)
        if isinstance(known, Above) and decision.threshold is None and task.threshold is not None:
            return replace(known, threshold=task.threshold)
        return known
    if isinstance(decision, Above) and len(classes) == 2:
        return replace(decision, positive=classes[1], negative=classes[0])
    if isinstance(decision, DecidedBy | Labelled):
        return decision
    names = ", ".join(map(repr, classes))
    raise CallError(f"the model predicts labels of {task.about}s ({names}), not {decision.question}")


def check_named(model: Model, query: Query, decision: Decision) -> None:
    """Reject a decision in other words than the model's, whose classes a document may exchange.

    Args:
        model: The model.
        query: The link, event or node that is decided on.
        decision: As a document has it.
    """
    if not isinstance(decision, Above | Labelled):
        return  # these have no words of their own
    asked = Above(decision.threshold) if isinstance(decision, Above) else ByLabel(decision.label)
    if decision_of(model, query, asked) != decision:
        raise CallError("the document names the outcomes of the decision differently from the model")


def subject_of_decision(model: Model, decision: Decision | ByLabel | None) -> str:
    """What is decided on: a link, or an event or node that is labelled. A number is that of an event, too.

    Args:
        model: The model.
        decision: What is decided; None: what the model decides by itself.
    """
    return "event" if isinstance(decision, Between) else contract.subject_of(model)


def name_of_subject(model: Model, graph: TemporalGraph, decision: Decision | ByLabel | None) -> str:
    """What the user calls that: a link, a node, or what an event is called.

    Args:
        model: The model.
        graph: The log of events.
        decision: What is decided; None: what the model decides by itself.
    """
    subject = subject_of_decision(model, decision)
    return graph.name_of_event() if subject == "event" else subject


def _predicted(model: Model, query: Query, classes: Sequence[str]) -> str:
    """The class with the highest score, with nothing changed."""
    scores = contract.as_scores(query, [NOTHING], model.logits(query, [NOTHING]))[0]
    if len(scores) != len(classes):
        raise ModelError(f"the model has {len(classes)} classes, but returns {len(scores)} class scores")
    return classes[int(scores.argmax())]


def decide(model: Model, graph: TemporalGraph, query: Query, decision: Decision) -> Model:
    """The model that answers margins of a decision; the model itself where its logits are the margins.

    Args:
        model: The model.
        graph: The log of events.
        query: The link that is decided on.
        decision: As `decision_of` gives it.
    """
    if isinstance(decision, Above) and decision.threshold == 0.5:
        return model
    rivals = decision.rivals(graph, query)
    decision = named_decision(decision, graph, query)
    if not isinstance(decision, InTop):
        return DecidedModel(model, graph, decision, rivals, np.arange(len(rivals)), tuple(rivals.tolist()))
    decision = replace(decision, of=1 + len(rivals))
    scores = np.array(contract.logits_of_links(model, [query._replace(dst=rival) for rival in rivals.tolist()]))
    best = np.argsort(-scores, kind="stable")
    overtaking = [place for place, rival in enumerate(rivals.tolist()) if graph.name(rival) in decision.overtaking]
    contenders = sorted_unique(np.concatenate([best[: decision.contenders], np.array(overtaking, dtype=np.int64)]))
    return DecidedModel(model, graph, decision, rivals, contenders, (int(rivals[best[decision.k - 1]]),))


def named_decision(decision: Decision, graph: TemporalGraph, query: Query) -> Decision:
    """The decision with the name of the destination that it is about, where its words need one.

    Args:
        decision: The decision.
        graph: The log of events.
        query: The link that is decided on.
    """
    return replace(decision, name=graph.name(query.dst)) if isinstance(decision, RatherThan | InTop) else decision


def states_of(model: Model, query: Query, changes: Sequence[Change]) -> list[State]:
    """The decision under some changes, with what lies behind the margins.

    Args:
        model: A model of margins, as `decide` gives it.
        query: The link.
        changes: The changes.
    """
    if isinstance(model, DecidedModel):
        return model.states(query, changes)
    margins = contract.open_session(model, query).logits(changes)
    return [State(margin) for margin in contract.checked_logits(query, changes, margins)]


def decision_in(model: Model) -> Decision | None:
    """The decision whose margins a model answers; None if it is not known to it."""
    return model.decision if isinstance(model, DecidedModel) else None


def with_overtaking(model: Model, query: Query, change: Change, original: float) -> Decision | None:
    """The decision compared also with rivals that overtake under a change; None if there are none besides those known.

    Args:
        model: A model of margins, as `decide` gives it.
        query: The link.
        change: What seemed to flip the decision.
        original: The margin with nothing changed.
    """
    if not isinstance(model, DecidedModel):
        return None
    found = model.with_overtaking(query, change, original)
    return None if found == model.decision else found


def focus_of(model: Model) -> tuple[int, ...]:
    """Destinations besides that of the link whose past is part of the search space."""
    return model.focus if isinstance(model, DecidedModel) else ()


def standings_of(model: Model, query: Query, steps: Sequence[Change], others: Sequence[Change]) -> Standings:
    """What lies behind the margins with nothing changed, after each edit of an answer, and of other changes.

    Full rankings take their time: of a long answer, only the first and the last are made.

    Args:
        model: The model.
        query: The link.
        steps: Nothing changed, then one more edit of the answer in each.
        others: Other changes that are reported.
    """
    if not isinstance(model, DecidedModel) or not model.decision.has_standing:
        return Standings((None,) * len(steps), (None,) * len(others))
    shown = steps if len(steps) <= FULL_RANKINGS or not model.is_large else [steps[0], steps[-1]]
    changes = list(dict.fromkeys([*shown, *others]))
    known = {change: state.standing for change, state in zip(changes, model.states(query, changes), strict=True)}
    return Standings(tuple(map(known.get, steps)), tuple(map(known.get, others)))
