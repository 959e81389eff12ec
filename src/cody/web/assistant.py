"""A Model Context Protocol server: language models ask a temporal graph model instead of guessing about it.

Each question is a tool, and each answer says how it was verified. The limits are those of the web server.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Annotated, Any, TypeVar

import anyio
import numpy as np
from anyio import to_thread
from mcp.server import MCPServer
from mcp.server.mcpserver import Context
from mcp.server.mcpserver.exceptions import ToolError
from pydantic import Field, ValidationError

from cody._version import __version__
from cody.errors import BudgetError, CallError, CodyError, did_you_mean, first_line
from cody.explaining import wording
from cody.explaining.explanation import Explanation, Verification
from cody.explaining.verification import differ
from cody.explaining.what_if import Scenario, near, without_effect
from cody.models.deciding import above
from cody.models.margins import flips
from cody.models.predict import Predictions
from cody.models.predictions import LabelPredictions
from cody.study.audit import audit
from cody.study.explainers import DEFAULT_SEARCH, explainer
from cody.study.instances import TEST_PERIOD, rows_of
from cody.study.surveys import survey
from cody.utils.deadline import until
from cody.utils.words import moment_and_zone
from cody.web import bodies
from cody.web.gauge import outcome
from cody.web.live import DONE, RUNNING, WAITING, BusyError, Live
from cody.web.questions import (
    MOST_EDITS,
    MOST_ROWS,
    Added,
    Budget,
    LinkQuestion,
    Moved,
    Name,
    Number,
    Row,
    Search,
    Time,
    as_case,
    as_decision,
)
from cody.web.sessions import Answer

T = TypeVar("T")

MOST_LINKS = 50  # of an audit or a survey
MOST_PREDICTED = 25
SAMPLE = 5  # links of an audit whose scores are compared with the reference
POLL = 0.05  # seconds

INSTRUCTIONS = """\
These tools ask a trained model of a temporal graph (a log of events: who interacted with whom, when) about its own
predictions, by replaying its history with changes. Rows are numbers of events. Say what the answers say: "verified"
tells whether the reference implementation confirmed the numbers. Where it is false, say so. An explanation is about
what the model does, not about what causes events in the world."""

EventRow = Annotated[Row | None, Field(description="the row of an event; or else give src, dst and time of a link")]
Source = Annotated[Name | None, Field(description="source of a link, which need not have happened")]
Destination = Annotated[Name | None, Field(description="destination of that link")]
When = Annotated[Time | None, Field(description="when: a date, a number, or now, the end of the log")]
Threshold = Annotated[Number | None, Field(description="decide by: predicted above this probability")]
Top = Annotated[Row | None, Field(description="decide by: is the destination among the K best for the source?")]
Rival = Annotated[Name | None, Field(description="decide by: is the destination ranked above this node?")]
Label = Annotated[Name | None, Field(description="decide by: is this the predicted label?")]
Range = Annotated[Name | None, Field(description="decide by: is the predicted number within this range, like 2..5?")]
Predicted = Annotated[list[Row] | None, Field(max_length=MOST_PREDICTED, description="rows of events")]
Rows = Annotated[list[Row] | None, Field(max_length=MOST_ROWS, description="rows of events that did not happen")]
AddedEvents = Annotated[list[Added] | None, Field(max_length=MOST_EDITS, description="events that happened as well")]
MovedEvents = Annotated[
    list[Moved] | None, Field(max_length=MOST_EDITS, description="events that happened at another time")
]
Links = Annotated[int, Field(ge=1, le=MOST_LINKS, description="how many links are drawn from the last 15 % of the log")]


def create_assistant(live: Live) -> MCPServer[None]:
    """The server about a model: tools about, predict, what_if, explain, audit and survey, and documents as resources.

    Args:
        live: The graph and the model, with the limits of searches.
    """
    server = _Server(
        "cody", instructions=INSTRUCTIONS, version=__version__, lifespan=live.lifespan, log_level="WARNING"
    )
    _add_links(server, live)
    _add_searches(server, live)
    _add_many(server, live)
    return server


class _Server(MCPServer[None]):
    """A server that refuses arguments which a tool has not got, rather than answering another question."""

    async def call_tool(self, name: str, arguments: dict[str, Any], context: Any = None) -> Any:
        tools = {tool.name: tool.input_schema.get("properties", {}) for tool in await self.list_tools()}
        known = tools.get(name, arguments)  # an unknown tool is refused below
        for unknown in (argument for argument in arguments if argument not in known):
            raise ToolError(f"{name} has no argument {first_line(repr(unknown))}{did_you_mean(unknown, known)}")
        try:
            return await super().call_tool(name, arguments, context)
        except ToolError as error:
            if isinstance(error.__cause__, ValidationError):
                raise ToolError(_in_a_line(error.__cause__)) from None
            raise


def _in_a_line(error: ValidationError) -> str:
    """What is wrong with an argument, and what was given."""
    problem = error.errors()[0]
    return f"{'.'.join(map(str, problem['loc']))}: {problem['msg']}, not {problem['input']!r:.60}"


def _add_links(server: MCPServer[None], live: Live) -> None:
    async def about() -> bodies.AboutModel:
        return await _in_thread(partial(_about, live))

    async def predict(
        events: Predicted = None,
        node: Annotated[Name | None, Field(description="the latest events of a node instead")] = None,
        next_partners: Annotated[bool, Field(description="with node: its most likely next partners instead")] = False,
        count: Annotated[int, Field(ge=1, le=MOST_PREDICTED, description="how many, if events does not say")] = 10,
    ) -> bodies.PredictedEvents:
        """What the model predicts for events, each as of just before it happened; by default, the latest ones."""
        return await _in_thread(partial(_predict, live, events, node, next_partners, count))

    async def what_if(
        event: EventRow = None,
        src: Source = None,
        dst: Destination = None,
        time: When = None,
        without: Rows = None,
        add: AddedEvents = None,
        move: MovedEvents = None,
        threshold: Threshold = None,
        top: Top = None,
        rather_than: Rival = None,
        label: Label = None,
        between: Range = None,
    ) -> bodies.ScoredCase:
        """What the model would predict had some past events not happened, happened at another time, or others too."""
        link = {"event": event, "src": src, "dst": dst, "time": time, "without": without, "add": add, "move": move}
        ways = {"threshold": threshold, "top": top, "rather_than": rather_than, "label": label} | {"between": between}
        return await _in_thread(partial(_what_if, live, link | ways))

    server.add_tool(about, description="Which data and model these tools are about.")
    server.add_tool(predict)
    server.add_tool(what_if)


def _add_searches(server: MCPServer[None], live: Live) -> None:
    async def explain(
        context: Context,
        event: EventRow = None,
        src: Source = None,
        dst: Destination = None,
        time: When = None,
        threshold: Threshold = None,
        top: Top = None,
        rather_than: Rival = None,
        label: Label = None,
        between: Range = None,
        why_not: Annotated[bool, Field(description="events may also be added and moved, not only removed")] = False,
        evaluations: Annotated[Budget | None, Field(description="limit of evaluations of the model")] = None,
    ) -> bodies.ExplainedAnswer:
        """Why the model decides as it does about a link: the fewest past events without which it would not."""
        link = {"event": event, "src": src, "dst": dst, "time": time, "why_not": why_not, "evaluations": evaluations}
        ways = {"threshold": threshold, "top": top, "rather_than": rather_than, "label": label} | {"between": between}
        return await _explain(live, link | ways, context.report_progress)

    def document(id: str) -> str:
        """The whole explanation as JSON, which `cody verify` checks against data and model."""
        job = live.job(id)
        return "" if job.why is None else job.why.to_json()

    server.add_tool(explain)
    server.resource(_document("{id}"), name="explanation", mime_type="application/json")(document)


def _add_many(server: MCPServer[None], live: Live) -> None:
    working = anyio.CapacityLimiter(live.limits.searches)

    async def audit(links: Links = 10) -> bodies.Summary:
        """What the model reacts to in general (order, times, direction, partners, features), from modified pasts."""
        return await _in_time(live, working, links, _audit)

    async def survey(links: Links = 10) -> bodies.Summary:
        """What decides the model's right and wrong predictions in general, from explanations of some of each."""
        return await _in_time(live, working, links, _survey)

    server.add_tool(audit)
    server.add_tool(survey)


def _document(id: str) -> str:
    return f"cody://explanations/{id}"


# Single links


def _about(live: Live) -> bodies.AboutModel:
    graph, task = live.graph, live.task
    labels = "" if task is None else f"the label of events or nodes: {', '.join(task.classes)}"
    first, last = (moment_and_zone(float(graph.time[row])) for row in (0, -1)) if graph.num_events else ("", "")
    return bodies.AboutModel(
        data=live.data_name,
        model=live.model_name,
        events=graph.num_events,
        nodes=graph.num_nodes,
        event_name=graph.name_of_event(),
        first=first,
        last=last,
        predicts=labels or "whether a link happens",
    )


def _predict(
    live: Live, events: list[int] | None, node: str | None, next_partners: bool, count: int
) -> bodies.PredictedEvents:
    found: Predictions | LabelPredictions
    if events and node is not None:
        raise CallError("give events or node, not both")
    if next_partners and node is None:
        raise CallError("next_partners lists the partners of a node: give node, too")
    if node is not None and next_partners:
        found = live.partners(live.graph.node(node), count)
    elif node is not None:
        found = live.events_of(live.graph.node(node), count)
    else:
        found = live.predicted(events) if events else live.events(live.graph.num_events, count)
    verified = _all_verified([_verified(live, Scenario(query, None)) for query in found.queries])
    shown = [each._asdict() | {"time": moment_and_zone(each.time), "score": round(each.score, 6)} for each in found]
    return bodies.PredictedEvents(predictions=[bodies.PredictedEvent(**each) for each in shown], **verified)


def _what_if(live: Live, given: dict[str, Any]) -> bodies.ScoredCase:
    question = LinkQuestion.model_validate(_given(given))
    case = live.as_scored(as_case(live.graph, question))
    answer = live.score(case, as_decision(question))
    verification = live.verify(case, answer)
    return bodies.ScoredCase(
        before=outcome(answer.decision, answer.original),
        after=bodies.scored_body(answer),
        changed=flips(answer.original, answer.logit),
        verified=_confirms(verification, answer),
        verification=_in_words(verification),
        remarks=list(without_effect(live.graph, case)),
    )


def _given(arguments: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in arguments.items() if value is not None}


def _confirms(verification: Verification | None, answer: Answer) -> bool:
    """Whether the reference has the same numbers."""
    if verification is None:
        return False
    pairs = (answer.original, verification.original), (answer.logit, verification.without)
    return not any(differ(*pair) for pair in pairs)


def _in_words(verification: Verification | None) -> str:
    return "not verified: there was no time" if verification is None else verification.by


async def _explain(
    live: Live, given: dict[str, Any], report: Callable[[float, float | None], Awaitable[None]]
) -> bodies.ExplainedAnswer:
    """Search as the server does, with its queue and limits; who cancels the request cancels the search."""

    def start() -> str:
        search = Search.model_validate({"explainer": DEFAULT_SEARCH, **_given(given)})
        case = live.as_scored(as_case(live.graph, search))
        return live.search(case, search.explainer, decision=as_decision(search), **search.options).id

    id = await _in_thread(start)
    try:
        while (job := live.job(id)).state in (WAITING, RUNNING):
            await report(job.tried, given["evaluations"])
            await anyio.sleep(POLL)
    except anyio.get_cancelled_exc_class():
        live.cancel(id)
        raise
    if job.state != DONE or job.why is None:
        raise ToolError(job.error or f"the search is {job.state}")
    return explained(job.why, _document(id))


def explained(why: Explanation, document: str) -> bodies.ExplainedAnswer:
    """An explanation as a tool says it.

    Args:
        why: The explanation.
        document: Where all of it is.
    """
    changes = [
        bodies.ChangedEvent(event=each.row, edit=each.edit, src=each.src, dst=each.dst, time=moment_and_zone(each.time))
        for each, _ in why.steps
    ]
    return bodies.ExplainedAnswer(
        **{name: getattr(why, name) for name in ("question", "reason", "sentence", "certainty", "verdict")},
        changes=changes,
        alternatives=[list(other.rows) for other in why.alternatives],
        remarks=[note for note in wording.notes(why) if note and note != why.certainty],
        verified=why.is_counterfactual,
        verification=_in_words(why.verification) if why.rows else "there is no counterfactual to verify",
        document=document,
    )


# Many links


def _audit(live: Live, links: int, watch: Callable[[int, int], None]) -> bodies.Summary:
    report = audit(live.model, live.graph, links=links, watch=watch)
    rows = np.array(rows_of(TEST_PERIOD, live.graph))
    drawn = np.random.default_rng(0).choice(rows, min(SAMPLE, len(rows)), replace=False)
    findings = [*report.verdict, *(f"{check.status}: {check.name}: {check.detail}" for check in report.checks)]
    effects = [each for each in report.to_dict()["effects"] if each["links"]]
    verified = _all_verified([_verified_without_latest(live, int(row)) for row in drawn])
    verified["verification"] = f"of a sample of scores under a modified past, {verified['verification']}"
    return bodies.Summary(summary=report.summary, findings=findings, figures=effects, **verified)


def _verified_without_latest(live: Live, row: int) -> Verification | None:
    """What the reference says about the score of an event without the latest event near it."""
    case = live.as_scored(Scenario(live.graph.query(row), row))
    return _verified(live, case._replace(removed=frozenset(near(live.model, live.graph, case.query)[-1:].tolist())))


def _survey(live: Live, links: int, watch: Callable[[int, int], None]) -> bodies.Summary:
    chosen = explainer(DEFAULT_SEARCH, protect=live.protect, by=live.by, dependants=live.dependants)
    found = survey(
        live.model,
        live.graph,
        instances=links,
        explainer=chosen,
        decision=live.decision,
        data_name=live.data_name,
        model_name=live.model_name,
        watch=watch,
    )
    parts = [
        f"{each.kind}: {each.explained} of {each.links} have a counterfactual. {each.caution}" for each in found.parts
    ]
    explained = sum(part.explained for part in found.parts)
    return bodies.Summary(
        summary=" ".join(part.strip() for part in parts),
        findings=[each.sentence for part in found.parts for each in part.most_fragile],
        figures=found.rows(),
        verified=True,
        verification=f"each of the {explained} counterfactuals was confirmed by the reference before it was counted",
    )


def _verified(live: Live, case: Scenario) -> Verification | None:
    """What the reference says about the score of a case; None: there was no time, or it disagrees."""
    case = live.as_scored(case)
    answer = live.score(case, above() if live.task is None else None)
    found = live.verify(case, answer)
    return found if _confirms(found, answer) else None


def _all_verified(found: list[Verification | None]) -> dict[str, Any]:
    """How many of some scores the reference confirms."""
    confirmed = [each for each in found if each is not None]
    ways = sorted({each.by.split(" from ")[0].split(" (")[0] for each in confirmed})
    how = f", {', '.join(ways)}" if ways else ""
    return {
        "verified": len(confirmed) == len(found),
        "verification": f"{len(confirmed)} of {len(found)} confirmed{how}",
    }


# Threads, time and errors


async def _in_time(
    live: Live, working: anyio.CapacityLimiter, links: int, work: Callable[[Live, int, Callable[[int, int], None]], T]
) -> T:
    """What takes longer, in its queue and with its time; it ends when nobody waits for it any more."""
    if working.statistics().tasks_waiting >= live.limits.queue:
        raise ToolError(str(BusyError(f"{live.limits.queue} audits and surveys are queued; try again later")))
    gone = threading.Event()
    done = [0, links]

    def run() -> T:
        ends = time.monotonic() + live.limits.seconds

        def watch(*progress: int) -> None:
            done[:] = progress
            if gone.is_set() or (time.monotonic() > ends and progress[0] < progress[1]):
                raise BudgetError("seconds")

        try:
            with until(ends):
                return work(live, links, watch)
        except BudgetError:
            reached = f"{done[0]} of {done[1]} links were done within {live.limits.seconds:g} seconds"
            raise BudgetError(f"{reached}; ask about fewer") from None

    try:
        return await _in_thread(run, limiter=working, abandon_on_cancel=True)
    finally:
        gone.set()


async def _in_thread(function: Callable[[], T], **options: Any) -> T:
    """The result of a function that takes a while; errors of the library in its own words, and others in a line."""
    try:
        return await to_thread.run_sync(function, **options)
    except ValidationError as error:
        raise ToolError(_in_a_line(error)) from None
    except CodyError as error:
        raise ToolError(str(error)) from None
    except Exception as error:  # a user's model may raise anything; the server keeps running
        raise ToolError(f"{type(error).__name__}: {first_line(error)}") from None
