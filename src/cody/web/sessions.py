"""Sessions about one link: what is decided under any change, and what lies behind it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from cody.graph import Query, TemporalGraph
from cody.models.contract import Change, Model, Session, checked_logits, open_exact_session_of_links, open_session
from cody.models.decided import DecidedModel, decide, decision_in, decision_of
from cody.models.deciding import ByLabel
from cody.models.decision import Decision, State

Wanted = Decision | ByLabel | None  # how a question is decided; None: as the model does by itself


class Answer(NamedTuple):
    """What is decided with nothing changed, and with changes."""

    original: float  # margins; of the default decision, logits
    logit: float
    decision: Decision
    state: State  # with the changes


class LogitStates:
    """The default decision, whose margins are the model's logits."""

    def __init__(self, session: Session, query: Query, decision: Decision) -> None:
        self.session, self.query, self.decision = session, query, decision

    def states(self, changes: Sequence[Change]) -> list[State]:
        """The decision under each change."""
        return [State(logit) for logit in checked_logits(self.query, changes, self.session.logits(changes))]


class MarginStates:
    """Any other decision: compared with all rivals, and with what lies behind each margin."""

    def __init__(self, model: DecidedModel, query: Query) -> None:
        self.model, self.decision = model, model.decision
        links = model.links(query, every=True)
        self.names = [model.graph.name(link.dst) for link in links]
        self.session = open_exact_session_of_links(model.model, links, model.decision.margin)

    def states(self, changes: Sequence[Change]) -> list[State]:
        rows = self.session.scores(changes)
        return [State(self.model.margin_of_all(row[None]), self.decision.standing(row, self.names)) for row in rows]


StateSession = LogitStates | MarginStates


def open_states(model: Model, graph: TemporalGraph, query: Query, wanted: Wanted) -> StateSession:
    """A session about a link and a decision."""
    chosen = decision_of(model, query, wanted)
    decided = decide(model, graph, query, chosen)
    if isinstance(decided, DecidedModel):
        return MarginStates(decided, query)
    return LogitStates(open_session(decided, query), query, decision_in(decided) or chosen)
