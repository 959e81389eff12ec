"""What a node could still do: events from now on that lead to another decision at a later time, or keep this one.

The link is decided on at that later time as if nothing else had happened since. Where time alone leads to what is
wanted, nothing has to be done, and the answer says so.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import date
from typing import Any, NamedTuple

import numpy as np

from cody.errors import CallError
from cody.explaining.explanation import Explanation, Recourse
from cody.explaining.pipeline import check_explainable, explain
from cody.explaining.verification import reference_logit
from cody.graph import IntArray, Query, TemporalGraph
from cody.models.contract import DECIMALS, NOTHING, Model, event_of_query
from cody.models.decided import decide, decision_of
from cody.models.deciding import ByLabel
from cody.models.decision import Decision
from cody.search.proposals import Proposal, Proposer, from_now_on, own_pairs
from cody.utils.signatures import readable_help


class Plan(NamedTuple):
    """What is to be explained: the link at the later time, by the decision of now, with what the node could add."""

    query: Query
    decision: Decision
    edits: Proposer
    recourse: Recourse


@readable_help
def recourse(
    model: Model,
    graph: TemporalGraph,
    query: Query,
    actor: Any,
    until: float | str | date | np.datetime64,
    *,
    keep: bool = False,
    decision: Decision | ByLabel | None = None,
    **options: Any,
) -> Explanation:
    """Find the fewest events that a node could add from now on for a link to be decided differently at a later time.

    Args:
        model: As in `cody.explain`.
        graph: The log of events.
        query: The link, now: later events of the log are not seen.
        actor: The node, as the user names it. All added events start at it.
        until: The later time. Nothing else happens until then.
        keep: Find instead the fewest events that keep the decision as it is now, where time alone would change it.
        decision: As in `cody.explain`.
        options: Of `cody.explain`, such as `per_day`, `prove` or `seconds`.

    Returns:
        The explanation of the link at that time, verified like any other: `why.reason` says what to do, or that
        nothing has to be done; `why.recourse` has the decision of now.

    Raises:
        CallError: The time is not after that of the link, the node does not exist, or it can add no event.

    >>> from cody.models import ToyModel
    >>> graph = TemporalGraph.from_arrays(src=[0, 0, 1], dst=[1, 2, 2], time=[0.0, 5.0, 10.0])
    >>> why = recourse(ToyModel(graph, bias=-1.5), graph, graph.query(2), 1, 20.0)
    >>> why.reason
    'With 1 more event from 1 to 2 by time 18.43, the model would predict 1 → 2 at time 20.'
    """
    plan = plan_recourse(model, graph, query, actor, until, keep=keep, decision=decision)
    why = explain(model, graph, plan.query, decision=plan.decision, edits=plan.edits, **options)
    return with_recourse(why, plan)


def with_recourse(why: Explanation, plan: Plan) -> Explanation:
    """The explanation that answers a plan.

    Args:
        why: Of the plan's query, by its decision and edits.
        plan: The question.
    """
    return replace(why, recourse=plan.recourse, parameters=why.parameters | {"actor": plan.recourse.actor})


def plan_recourse(
    model: Model,
    graph: TemporalGraph,
    query: Query,
    actor: Any,
    until: float | str | date | np.datetime64,
    *,
    keep: bool = False,
    decision: Decision | ByLabel | None = None,
) -> Plan:
    """What is to be explained for `recourse`.

    Args:
        model: As in `recourse`.
        graph: The log of events.
        query: The link, now.
        actor: The node, as the user names it.
        until: The later time.
        keep: Whether the decision of now is wanted; else the other one.
        decision: As in `cody.explain`.
    """
    query = check_explainable(model, graph, query)
    if graph.imagined is not None:
        raise CallError("what a node could do from now on needs a log without imagined rows")
    node, later = graph.node(actor), graph.ahead(query, until)
    chosen = decision_of(model, query, decision)
    now, then = (_margin(model, graph, each, chosen) for each in (query, later))
    wanted = Recourse(graph.name(node), query.time, event_of_query(graph, query), now, keep)
    if wanted.is_met_by(then):
        return Plan(later, chosen, nothing, wanted)
    if not own_pairs(graph, later, node):
        why_not = "it has never been the source of one, or no node near the link has been a destination"
        raise CallError(f"{graph.name(node)!r} could add no {graph.name_of_event()}: {why_not}")
    return Plan(later, chosen, from_now_on(node, query.time), wanted)


def nothing(graph: TemporalGraph, query: Query, rows: IntArray, room: int) -> Sequence[Proposal]:
    """Proposes nothing.

    Args:
        graph: Not used.
        query: Not used.
        rows: Not used.
        room: Not used.
    """
    return []


def _margin(model: Model, graph: TemporalGraph, query: Query, decision: Decision) -> float:
    """What is decided with nothing changed, by the reference implementation."""
    return round(reference_logit(decide(model, graph, query, decision), query, NOTHING, full=False)[0], DECIMALS)
