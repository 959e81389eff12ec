"""Whether a counterfactual survives: in other models, such as retrained ones, and under a little noise."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from cody.errors import CallError
from cody.explaining.explanation import ADDED, ALTERED, MOVED, REMOVED, Elsewhere, Event
from cody.explaining.verification import reference_logit
from cody.graph import Query, TemporalGraph
from cody.graph.edits import Add, Alter, Edit, Move
from cody.models.contract import DECIMALS, NOTHING, Change, Model, check_belongs, identity_of, model_on
from cody.models.decided import decide
from cody.utils.words import is_date

if TYPE_CHECKING:
    from cody.explaining.explanation import Explanation

UNRELATED = ("(unrelated)", "(unrelated, too)")  # names of two nodes that nobody knows
MINUTE = 60.0  # seconds
PART = 1e-3  # of the span of a log whose times are not dates


def with_stability(
    why: Explanation, model: Model, graph: TemporalGraph, also: Mapping[str, Model], *, noise: bool = False
) -> Explanation:
    """The explanation with what other models say about its counterfactuals, and this one under noise.

    Args:
        why: The explanation.
        model: The model that it explains.
        graph: The log of events.
        also: Other models of the same log, by name.
        noise: Whether to test this model a minute later, and with an unrelated event added.
    """
    check_models(also, graph)
    if graph.imagined is not None:
        raise CallError("other models and noise need a log without imagined rows")
    changes = [NOTHING, *counterfactuals_of(why)]
    if len(changes) == 1:
        return why
    edits = edits_of(why.candidates)
    longer = graph.imagine(edits, query=why.query)

    def decided(
        name: str, model: Model, log: TemporalGraph = longer, query: Query = why.query, always: Change = NOTHING
    ) -> Elsewhere:
        """What a model decides with nothing changed, and with each counterfactual, by its reference implementation."""
        moved = decide(model if log.imagined is None else model_on(model, log), log, query, why.decision)
        margins = [reference_logit(moved, query, change | always, full=False)[0] for change in changes]
        original, *without = (round(margin, DECIMALS) for margin in margins)
        return Elsewhere(name, "", original, tuple(without))

    found = [decided(name, other)._replace(model=identity_of(other)) for name, other in also.items()]
    if noise:  # the link a little later, and an added event that has nothing to do with it
        query, dated = why.query, is_date(why.query.time)
        delay = MINUTE if dated else PART * float(graph.time[graph.num_events - 1] - graph.time[0])
        name = "a minute later" if dated else f"{delay:.3g} later"
        at = float(graph.time[query.before - 1]) if query.before else query.time
        strange = graph.imagine([*edits, Add(*UNRELATED, at)], new_nodes=UNRELATED, query=query)
        row = frozenset({strange.num_rows - 1})
        found.append(decided(name, model, query=query._replace(time=query.time + delay)))
        found.append(decided("with an unrelated event", model, strange, always=row))
    return replace(why, elsewhere=tuple(found))


def check_models(also: Mapping[str, Model], graph: TemporalGraph) -> None:
    """Reject what is no model, or a model of another log.

    Args:
        also: Models by name.
        graph: The log of events.
    """
    for name, model in also.items():
        check_belongs(model, graph, name)


def counterfactuals_of(why: Explanation) -> list[Change]:
    """The verified counterfactuals of an explanation: the answer, then its alternatives."""
    if not why.is_counterfactual:
        return []
    return [why.change, *(why.change_of(other.rows) for other in why.alternatives)]


def edits_of(candidates: Sequence[Event]) -> list[Edit]:
    """The imagined events among the candidates, in the order in which their rows are numbered.

    Args:
        candidates: Of an explanation.
    """
    imagined = sorted((event for event in candidates if event.edit != REMOVED), key=lambda event: event.row)
    return [edit_of(event) for event in imagined]


def edit_of(event: Event) -> Edit:
    """The edit that an imagined event is."""
    if event.edit == ADDED:
        return Add(event.src, event.dst, event.time, event.features)
    if event.edit == MOVED and event.replaces is not None:
        return Move(event.replaces, event.time)
    if event.edit == ALTERED and event.replaces is not None and event.features is not None:
        return Alter(event.replaces, event.features)
    raise CallError("altered features are not part of a document, so they cannot be replayed")
