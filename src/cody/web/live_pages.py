"""The pages of the server, made of the same parts as the page in a file."""

from __future__ import annotations

import shlex
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from importlib.util import find_spec
from typing import Any
from urllib.parse import urlencode

from cody.explaining.explanation import Explanation
from cody.explaining.what_if import Scenario
from cody.graph import TemporalGraph
from cody.graph.edits import Add, Edit, Move
from cody.models.decided import LINK_PREDICTED
from cody.models.deciding import entered
from cody.models.predict import Prediction
from cody.models.predictions import LabelPrediction
from cody.study.explainers import DEFAULT_SEARCH, FACTUAL, SEARCHES, find
from cody.utils.words import count, earlier, heading_of_times, moment, moment_and_zone, sanitize, zone_name
from cody.web.facts import Facts
from cody.web.live import Live
from cody.web.markup import Markup, cell, join, link, name, percent, row, scrolled, table, tag
from cody.web.overview import Overview, histogram, overview
from cody.web.page import LiveControls, data_block, document, page
from cody.web.questions import Address, DecideBy, FieldError, as_question

NAMES = [*SEARCHES, *(entry.name for entry in FACTUAL)]
RECENT = 25  # events on the start page
LANES, LANE, MOST_DRAWN = 8, 22, 400  # partners, pixels of a lane, and events of a node's timeline
MOST_NAMED = 2  # events of an answer, in a comparison
TAGLINE = "Which change to the history would have flipped a prediction?"


def link_page(
    live: Live,
    case: Scenario,
    wanted: str | None,
    by: DecideBy,
    choice: Mapping[str, Any],
    entered: Address,
    problem: FieldError | None,
) -> str:
    """A link with everything near it, and the result of an explainer, if there is one.

    Args:
        live: What is served.
        case: The link and its edits.
        wanted: Name of the explainer, if one was run.
        by: How it is decided.
        choice: How far is searched, as `SearchLimits` has it.
        entered: What was typed.
        problem: What is wrong with it.
    """
    why = live.found(case, wanted, decision=by.decision, **choice) if wanted else None
    searched = why is not None
    shown = why if why is not None else live.look(case, by.decision)
    rows = sorted(case.removed) + [live.graph.num_events + place for place in range(len(case.edits))]
    change = [] if searched and not case.removed else rows
    question = as_question(case, live.graph)
    fresh = not (case.removed or case.edits)  # a link that was just chosen is explained at once
    start = not (searched or by.problem or problem) and (fresh or bool(wanted))
    data = {"question": question | by.given, "edits": _edits(case.edits), "start": start}
    chosen = {key: int(value) for key, value in choice.items() if value} | ({"explainer": wanted} if wanted else {})
    limits = problem is not None and problem.field in ("evaluations", "candidates")
    bar = tag.div(
        _home(live),
        tag.span("", id="progress", role="status"),
        tag.button("Cancel", type="button", id="cancel", hidden=True),
        tag.details(
            tag.summary("Search again, decide differently"),
            _search_bar(live, wanted, choice, entered, problem),
            _decide_bar(live, shown, by, _hidden(case, question | chosen)),
            open=limits or bool(by.problem),
        ),
        _imagine(list(_hidden(case, question | by.given)), entered, problem),
        class_="topbar card",
    )
    return page(shown, LiveControls(bar, change, searched, data, start))


def start_page(live: Live, before: int, entered: Address, problem: FieldError | None = None) -> str:
    """The start page: what is worth looking at, how good the model is, recent events, and forms for any other link."""
    graph = live.graph
    listed = live.events(before, RECENT)
    older = tag.a("Earlier", href=address(before=max(1, before - RECENT)), class_="button")
    later = address(before=min(graph.num_events, before + RECENT))
    newer = tag.a("Later", href=later, class_="button") if before < graph.num_events else None
    words = "Scored as of just before each happened. Choose one to see why, or tick several to compare them."
    more = tag.p(tag.button("Compare the ticked ones"), older, newer, class_="foot fields")
    recent = _card(f"Recent {graph.name_of_event()}s", words, tag.form(_events(listed, tick=True), more, method="get"))
    parts = [tag.div(recent, _welcome(live, entered, problem), class_="two start")]
    known = overview(live) if before == graph.num_events and problem is None else None
    return _page("CoDy: choose a link", live, [*([_seen(live, known)] if known else []), *parts])


def _seen(live: Live, known: Overview) -> Markup:
    """The model at a glance: examples, quality, scores."""
    lists = (
        tag.div(tag.h3(title), tag.p(words, class_="note"), tag.ul(*map(_example, predictions), class_="examples"))
        for title, words, predictions in known.examples
        if predictions
    )
    model = sanitize(live.model_name or "the model", 40)
    examples = _card("Worth looking at", "Choose one: the page says why.", tag.div(*lists, class_="kinds"))
    return tag.div(examples, _card(f"How good is {model}?", known.quality, histogram(known)), class_="two start")


def _example(scored: Prediction | LabelPrediction) -> Markup:
    target = tag.a(link(scored.src, scored.dst, 18), href=address(event=scored.event))
    return tag.li(target, tag.span(f"{scored.score:.3f}"))


def node_page(live: Live, node: int, listed: int) -> str:
    """The events of a node over time, and its most likely next partners."""
    graph, event = live.graph, live.graph.name_of_event()
    called, now = graph.name(node), float(graph.time[graph.num_events - 1])
    partners = [_partner(scored, called, graph, now) for scored in live.partners(node, 12)]
    who = _table(["with", "score", "predicted", f"{event}s so far", "the last one"], partners)
    likely = f"The most likely partners after {moment_and_zone(now)}, among all possible ones."
    words = "One lane per partner, those with the most events first. ● from this node, ○ to it."
    latest = _events(live.events_of(node, listed))
    parts = [
        tag.h1("Node ", name(called, 60)),
        _card("Its past", words, node_timeline(graph, node)),
        *([_card("Who next?", likely, who)] if live.task is None else []),
        _card(f"Its latest {event}s", "Scored as of just before each happened.", latest),
    ]
    return _page(f"CoDy: {called}", live, parts)


def side_page(live: Live, rows: Sequence[int]) -> str:
    """Several links in one table. The script explains those that were not explained yet."""
    cases = [live.as_scored(Scenario(live.graph.query(row), row)) for row in rows]
    shown = [(case, live.found(case, DEFAULT_SEARCH)) for case in cases]
    waiting = [as_question(case, live.graph) for case, why in shown if why is None]
    heads = ["link", heading_of_times(cases[0].query.time), "score", "without them", "size", "decisive events", "why"]
    listed = _table(heads, (_compared(live, case, why) for case, why in shown), "list compared")
    words = "Each row is one prediction, with the smallest change that was found to flip it."
    status = tag.p("", id="progress", role="status")
    parts = [_card(f"{count(len(rows), 'prediction')} compared", words, listed, status)]
    data = data_block({"waiting": [question | {"explainer": DEFAULT_SEARCH} for question in waiting]})
    return _page("CoDy: comparison", live, parts, [data], ["compare.js"])


def _compared(live: Live, case: Scenario, why: Explanation | None) -> Markup:
    named = link(live.graph.name(case.query.src), live.graph.name(case.query.dst))
    first = tag.a(named, href=address(event=case.event, explainer=DEFAULT_SEARCH)), moment(case.query.time)
    if why is None:
        return row(*first, cell("is being explained …", colspan=5))
    facts = Facts(why, served=True)
    flips = why.is_counterfactual and why.without is not None
    was, *now = facts.gauge.written(why.original, *[why.without] * flips)
    cells = [f"{was} {facts.outcome(why.original)}", "–", "none found", ""]
    if why.without is not None and flips:
        events = [facts.phrase(why.candidates[facts.number[row]]) for row in why.rows]
        more = [f"{len(events) - MOST_NAMED} more"] if len(events) > MOST_NAMED else []
        decisive = "; ".join([*events[:MOST_NAMED], *more])
        cells[1:] = [f"{now[0]} {facts.outcome(why.without)}", str(len(events)), decisive]
    return row(*first, *cells, why.reason or why.sentence)


def error_page(live: Live, words: str) -> str:
    return _page("CoDy", live, [_card("This page cannot be shown", words, tag.a("Choose a link", href="/"))])


def address(**parts: Any) -> str:
    return f"?{urlencode(parts)}"


def _page(
    title: str, live: Live, parts: Iterable[Markup], below: Sequence[Markup] = (), scripts: Sequence[str] = ()
) -> str:
    bar = tag.div(_home(live), tag.p(TAGLINE, class_="tagline"), class_="topbar card")
    return document(title, join([bar, tag.main(*parts), *below]), scripts, served=True)


def _home(live: Live) -> Markup:
    about = " · ".join(filter(None, [live.data_name, live.model_name]))
    return tag.p(tag.a("CoDy", href="."), tag.small(about), class_="home")


def _card(title: str, words: str, *parts: Markup) -> Markup:
    head = tag.header(tag.h2(title), tag.p(words))
    return tag.section(head, *parts, class_="card")


def _welcome(live: Live, entered: Address, problem: FieldError | None) -> Markup:
    graph = live.graph
    words = f"{graph.num_events:,} events between {graph.num_nodes:,} nodes. Choose a prediction to explain."
    example, now = str(graph.num_events - 1), moment(float(graph.time[graph.num_events - 1]))
    when = ("time", f"When ({zone_name()})", f"now, or {now}")
    forms: tuple[tuple[str, tuple[tuple[str, str, str], ...], str], ...] = (
        ("Any link, at any time", (("src", "From", ""), ("dst", "To", ""), when), "Explain"),
        ("An event, by its row", (("event", "Row", example),), "Explain"),
        ("A node: its events and likely partners", (("node", "Node", ""),), "Show"),
        ("Several events in one table", (("side", "Rows", f"{graph.num_events - 2},{example}"),), "Compare them"),
    )
    made = (
        tag.form(tag.h3(title), *_fields(fields, verb, entered, problem), method="get", class_="request")
        for title, fields, verb in forms
    )
    return _card("Choose another link", words, *made)


def _fields(
    fields: Iterable[tuple[str, str, str]], verb: str, entered: Address, problem: FieldError | None
) -> Iterator[Markup]:
    """The fields of a form, and its button."""
    yield from (tag.label(label, *_input(key, example, entered, problem)) for key, label, example in fields)
    yield tag.button(verb)


def _input(
    key: str, example: str, entered: Address, problem: FieldError | None, *, required: bool = True
) -> Iterator[Markup]:
    """A field with what was typed, and what is wrong with it."""
    typed = getattr(entered, key)
    wrong = problem if problem is not None and problem.field == key else None
    about = {"aria_invalid": "true", "aria_describedby": f"{key}-problem"} if wrong else {}
    value = ",".join(typed) if isinstance(typed, list) else typed
    yield tag.input(name=key, id=key, value=value or None, placeholder=example or None, required=required, **about)
    if wrong:
        yield tag.span(sanitize(str(wrong), 300), class_="problem", id=f"{key}-problem", role="alert")


def _partner(scored: Prediction, called: str, graph: TemporalGraph, now: float) -> Markup:
    other = scored.dst if scored.src == called else scored.src
    target = address(src=scored.src, dst=scored.dst, time=scored.time)
    node, partner = graph.node(called), graph.node(other)
    events = graph.history(node, graph.num_events)
    together = graph.time[events[graph.other_end(events, node) == partner]]
    bar = tag.rect(x=0, y=3, width=percent(scored.score), height=8, class_="could")
    drawn = tag.svg(bar, width=90, height=14, aria_hidden="true")
    return row(
        tag.a(name(other), href=target),
        cell(drawn, f" {scored.score:.2f}", class_="bar"),
        LINK_PREDICTED.outcome(scored.logit),
        f"{len(together):,}",
        f"{earlier(float(together[-1]), now)} before" if len(together) else "never",
    )


def node_timeline(graph: TemporalGraph, node: int) -> Markup:
    """The past of a node: a lane for each of the partners with the most events, and one for all others."""
    rows = graph.history(node, graph.num_events)[-MOST_DRAWN:]
    others, times = graph.other_end(rows, node), graph.time[rows]
    often = [partner for partner, _ in Counter(others.tolist()).most_common(LANES)]
    first, last = (float(times[0]), float(times[-1])) if len(times) else (0.0, 0.0)
    names = [sanitize(graph.name(partner), 16) for partner in often]
    names += ["others"] if len(set(others.tolist())) > LANES else []
    parts = [tag.text(text, x=0, y=LANE * place + 14) for place, text in enumerate(names)]
    for event, partner, time in zip(rows.tolist(), others.tolist(), times.tolist(), strict=True):
        lane = often.index(partner) if partner in often else len(often)
        x = 0.14 + 0.84 * ((time - first) / (last - first) if last > first else 0.5)
        kind = "from" if int(graph.src[event]) == node else "to"
        parts.append(tag.circle(cx=percent(x), cy=LANE * lane + 10, r=3.5, class_=kind))
    height = LANE * len(names) + 24
    ends = [
        tag.text(moment(time), x=at, y=height - 4, class_=kind)
        for time, at, kind in ((first, "14%", "start"), (last, "98%", "end"))
    ]
    label = f"{len(rows)} events with {len(set(others.tolist()))} partners"
    return tag.svg(*parts, *ends, width="100%", height=height, role="img", aria_label=label, class_="past")


def _events(listed: Iterable[Prediction | LabelPrediction], *, tick: bool = False) -> Markup:
    shown = list(listed)
    when = heading_of_times(shown[0].time) if shown else "when"
    heads = [*["compare"] * tick, "row", "link", when, "score", "predicted"]
    return _table(heads, (_event(each, tick=tick) for each in shown), "list events-list")


def _event(scored: Prediction | LabelPrediction, *, tick: bool) -> Markup:
    predicted = LINK_PREDICTED.outcome(scored.logit) if isinstance(scored, Prediction) else scored.predicted
    box = tag.input(type="checkbox", name="side", value=scored.event, aria_label=f"Compare event {scored.event}")
    return row(
        *[box] * tick,
        str(scored.event),
        tag.a(link(scored.src, scored.dst), href=address(event=scored.event)),
        moment(scored.time),
        f"{scored.score:.2f}",
        cell(sanitize(predicted, 24), tag.b(" (wrong)") if scored.right is False else None),
        heading=1 + tick,
    )


def _table(heads: Sequence[str], rows: Iterable[Markup], kind: str = "list") -> Markup:
    return scrolled(table(heads, rows, kind), "Table")


def _search_bar(
    live: Live, wanted: str | None, choice: Mapping[str, Any], entered: Address, problem: FieldError | None
) -> Markup:
    chosen = wanted or DEFAULT_SEARCH
    options = []
    for each in dict.fromkeys([*NAMES, chosen]):
        cannot = _cannot_run(live, each)
        words = f"{each} ({cannot})" if cannot else each
        options.append(tag.option(words, value=each, selected=each == chosen, disabled=bool(cannot)))
    why_not = {"type": "checkbox", "id": "why-not", "checked": bool(choice.get("why_not"))}
    return tag.div(
        tag.label("Explainer", tag.select(*options, id="explainer")),
        tag.label(tag.input(**why_not), "also add and move events"),
        tag.label("Evaluations", *_input("evaluations", "usual", entered, problem, required=False)),
        tag.label("Candidates", *_input("candidates", "usual", entered, problem, required=False)),
        tag.button("Explain", type="button", id="explain", class_="main"),
        class_="fields",
    )


def _cannot_run(live: Live, explainer: str) -> str:
    """Why an explainer cannot run here; empty if it can."""
    if not find(explainer).needs_scorer:
        return ""
    if find_spec("torch") is None:
        return "needs PyTorch"
    return "explains predicted links only" if live.task is not None else ""


def _decide_bar(live: Live, why: Explanation, by: DecideBy, kept: Iterable[Markup]) -> Markup:
    """How the question is decided: one choice, and its value. The script names the field as the choice says."""
    ways = _ways(live)
    way, text = (by.way, by.text) if by.way else entered(why.decision)
    if way not in ways:
        way, text = next(iter(ways)), ""
    options = (
        tag.option(label, value=each, selected=each == way, data_usual=usual) for each, (label, usual) in ways.items()
    )
    problem = tag.span(sanitize(by.problem, 300), class_="problem", id="problem", role="alert")
    field = {"aria-label": "Value", "aria-invalid": "true" if by.problem else None, "aria-describedby": "problem"}
    return tag.form(
        *kept,
        tag.label("Decide by", tag.select(*options, id="decide-by")),
        tag.input(name=way, id="decide-value", value=text, size=8, required=True, autocomplete="off", **field),
        tag.button("Apply"),
        problem if by.problem else None,
        method="get",
        class_="fields decide",
    )


def _ways(live: Live) -> dict[str, tuple[str, str]]:
    """How a question to this model can be decided: what it is called, and a usual value."""
    if live.task is None:
        return {
            "threshold": ("score above", "0.5"),
            "top": ("place in the top", "10"),
            "rather_than": ("rank above node", ""),
            "between": ("number within", "-1..1"),
        }
    if len(live.task.classes) == 2:
        return {"threshold": (f"score of {sanitize(live.task.classes[1], 24)} above", "0.5")}
    return {"label": ("class", live.task.classes[-1])}


def _imagine(kept: Sequence[Markup], entered: Address, problem: FieldError | None) -> Markup:
    """Forms that add an event, move one, or remove any past event: each leads to another address."""
    forms = (
        ("Add", (("add_src", "from", ""), ("add_dst", "to", ""), ("add_time", "when", "2004-07-28 03:54"))),
        ("Move", (("move_row", "row", "53159"), ("move_time", "to the time", "2004-07-28 04:00"))),
        ("Remove", (("take", "any past event, by its row", "53159"),)),
    )
    edited = problem is not None and any(problem.field == key for _, fields in forms for key, *_ in fields)
    shown = entered if edited else Address()  # what was accepted is an edit now
    made = (
        tag.form(
            *kept,
            tag.b(f"{verb} an event" if verb != "Remove" else "Remove"),
            *_fields(fields, verb, shown, problem),
            method="get",
            class_="fields",
        )
        for verb, fields in forms
    )
    return tag.details(tag.summary("Edit the history"), *made, open=edited)


def _hidden(case: Scenario, question: Mapping[str, object]) -> Iterator[Markup]:
    """A question and its edits as fields of a form that nobody sees."""
    parts: list[tuple[str, object]] = list(question.items())
    parts += [("without", ",".join(map(str, sorted(case.removed))))] if case.removed else []
    for edit in case.edits:
        if isinstance(edit, Add):
            parts.append(("add", shlex.join([str(edit.src), str(edit.dst), repr(edit.time)])))
        elif isinstance(edit, Move):
            parts.append(("move", f"{edit.row} {edit.time!r}"))
    for key, value in parts:
        yield tag.input(type="hidden", name=key, value=str(value))


def _edits(edits: Sequence[Edit]) -> dict[str, Any]:
    """Imagined events in the form of a search request."""
    return {
        "add": [{"src": str(e.src), "dst": str(e.dst), "time": e.time} for e in edits if isinstance(e, Add)],
        "move": [{"row": e.row, "time": e.time} for e in edits if isinstance(e, Move)],
    }
