"""The options of cody explain about what one node could have done, or could still do."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from cody.cli.command import COUNT, option_fields
from cody.errors import CallError
from cody.explaining.what_if import later_time
from cody.graph import Query, TemporalGraph
from cody.models.contract import Model
from cody.search.proposals import removals
from cody.study.explainers import Explainer, find
from cody.study.request import Request

if TYPE_CHECKING:
    from cody.explaining.recourse import Plan

_own = option_fields("What one node could do")


@dataclass(frozen=True, slots=True)
class ActorOptions:
    """Whose events may change, how many a day, and until when."""

    actor: str | None = _own(metavar="NODE", help="Change only what this node could: events that start at it.")
    per_day: int | None = _own(type=COUNT, metavar="N", help="Change at most N events of a calendar day.")
    until: str | None = _own(
        metavar="TIME",
        help="With --actor: which events could it add from now on, for the other decision at this time? Also '1 day "
        "later'.",
    )
    keep: bool = _own(is_flag=True, help="With --until: which events keep the decision as it is now?")

    def check(self, chosen: Explainer, others: Mapping[str, bool]) -> None:
        """Refuse what does not go with these options.

        Args:
            chosen: What explains.
            others: Options that do not go with them, and whether each is given.
        """
        if self.until is not None and self.actor is None:
            raise CallError("--until is about what one node could do until then: name it with --actor NODE")
        if self.keep and self.until is None:
            raise CallError("--keep is about the decision at a later time: give --until TIME")
        if self.until is not None and chosen.edits != (removals,):
            raise CallError("--until is about events that could still be added: leave out --allow and --why-not")
        for option in (name for name in ("per_day", "until") if getattr(self, name) is not None):
            if find(chosen.name).factual:
                raise CallError(
                    f"--{option.replace('_', '-')} needs a search for counterfactuals, and {chosen.name!r} is none: "
                    "leave out --explainer"
                )
        given = [name for name in ("actor", "per_day") if getattr(self, name) is not None]
        for other in (name for name, is_given in others.items() if given and is_given):
            option = f"--{given[0].replace('_', '-')}"
            raise CallError(f"{option} chooses single events of one link's past: leave out {other}")

    def limited(self, chosen: Explainer, graph: TemporalGraph) -> Explainer:
        """The explainer, with only those edits that the actor could make, if there is one.

        Args:
            chosen: What explains.
            graph: The log of events.
        """
        if self.actor is None:
            return chosen
        from cody.search.actor import done_by

        node = graph.node(self.actor)
        return replace(chosen, edits=tuple(done_by(node, propose) for propose in chosen.edits))

    def plan(self, model: Model, graph: TemporalGraph, query: Query, request: Request) -> Plan | None:
        """What is asked about the time from now on; None: nothing.

        Args:
            model: The model.
            graph: The log of events.
            query: The link, now.
            request: How it is explained.
        """
        if self.until is None:
            return None
        from cody.explaining.recourse import plan_recourse

        until = later_time(self.until, query.time, graph)
        return plan_recourse(model, graph, query, self.actor, until, keep=self.keep, decision=request.decision)
