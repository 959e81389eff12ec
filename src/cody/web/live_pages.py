"""The pages of the server, made of the same parts as the page in a file."""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple
from urllib.parse import urlencode

from cody.explaining.explanation import Explanation
from cody.explaining.what_if import Scenario
from cody.graph.edits import Add, Edit, Move
from cody.models.decided import LINK_PREDICTED
from cody.models.decision import Above
from cody.models.predict import Prediction
from cody.models.predict_labels import LabelPrediction
from cody.study.explainers import DEFAULT_SEARCH, FACTUAL, SEARCHES
from cody.utils.words import heading_of_times, moment, moment_and_zone, sanitize, zone_name
from cody.web.live import Live
from cody.web.markup import Markup, element, join, link, name
from cody.web.page import LiveControls, document, page
from cody.web.questions import as_question
from cody.web.sessions import Wanted
from cody.web.standing import about

NAMES = [*SEARCHES, *(entry.name for entry in FACTUAL)]
TAGLINE = "Which change to the history would have flipped a prediction?"


class DecideBy(NamedTuple):
    """How the question of a page is decided, as it was typed."""

    decision: Wanted = None
    way: str = ""  # a name of `questions.WAYS`; empty: as the model decides by itself
    text: str = ""
    value: float | str | None = None  # what the text means; None: there is none, or it is wrong
    problem: str = ""  # why it cannot be decided this way

    @property
    def given(self) -> dict[str, Any]:
        """The same in the form of a request."""
        return {} if self.value is None else {self.way: self.value}


AS_IT_IS = DecideBy()


def link_page(live: Live, case: Scenario, wanted: str | None, by: DecideBy = AS_IT_IS, *, why_not: bool = False) -> str:
    """A link with everything near it, and the result of an explainer, if there is one."""
    why = live.found(case, wanted, why_not=why_not, decision=by.decision) if wanted else None
    searched = why is not None
    shown = why if why is not None else live.look(case, by.decision)
    rows = sorted(case.removed) + [live.graph.num_events + place for place in range(len(case.edits))]
    change = [] if searched and not case.removed else rows
    question = as_question(case, live.graph)
    fresh = not (case.removed or case.edits)  # a link that was just chosen is explained at once
    start = not (searched or by.problem) and (fresh or bool(wanted))
    data = {"question": question | by.given, "edits": _edits(case.edits), "start": start}
    chosen = {"explainer": wanted} | ({"why_not": "1"} if why_not else {}) if wanted else {}
    bar = element(
        "div",
        _home(live),
        _search_bar(wanted, why_not),
        _decide_bar(live, shown, by, _hidden(case, question | chosen)),
        _imagine(list(_hidden(case, question | by.given))),
        class_="topbar card",
    )
    return page(shown, LiveControls(bar, change, searched, data))


def start_page(live: Live, before: int, count: int) -> str:
    """The start page: recent events, a node, or any two nodes and a time."""
    graph = live.graph
    listed = live.events(before, count)
    older = element("a", "Earlier", href=address(before=max(1, before - count)), class_="button")
    newer = element("a", "Later", href=address(before=min(graph.num_events, before + count)), class_="button")
    ideal = ", so an ideal model predicts all of them" if live.task is None else ""
    words = f"Each was scored as of just before it happened{ideal}. Choose one to see why."
    more = element("p", older, " ", newer, class_="foot")
    recent = _card(f"Recent {graph.name_of_event()}s", words, _events(listed), more)
    return _page("CoDy: choose a link", live, [element("div", recent, _welcome(live), class_="two start")])


def node_page(live: Live, node: int, count: int) -> str:
    """The events of a node, and its most likely next partners."""
    graph = live.graph
    called = graph.name(node)
    now = float(graph.time[graph.num_events - 1])
    partners = [_partner(scored, called) for scored in live.partners(node, 12)]
    who = _table(["with", "score", "predicted"], partners)
    likely = f"The most likely partners after {moment_and_zone(now)}, among all possible ones."
    parts = [
        *([_card("Who next?", likely, who)] if live.task is None else []),
        _card(
            f"Its latest {graph.name_of_event()}s",
            "Scored as of just before each happened.",
            _events(live.events_of(node, count)),
        ),
    ]
    return _page(f"CoDy: {called}", live, [element("h1", "Node ", name(called, 60)), *parts])


def side_page(live: Live, rows: Sequence[int]) -> str:
    """Several links beside each other."""
    frames = (
        element("iframe", src=address(event=row, explainer=DEFAULT_SEARCH), title=f"Event {row}", loading="lazy")
        for row in rows
    )
    return _page("CoDy: side by side", live, [element("div", *frames, class_="side")])


def error_page(live: Live, words: str) -> str:
    return _page("CoDy", live, [_card("This page cannot be shown", words)])


def address(**parts: Any) -> str:
    return f"?{urlencode(parts)}"


def _page(title: str, live: Live, parts: Iterable[Markup]) -> str:
    bar = element("div", _home(live), element("p", TAGLINE, class_="tagline"), class_="topbar card")
    return document(title, join([bar, element("main", *parts)]), [], served=True)


def _home(live: Live) -> Markup:
    about = " · ".join(filter(None, [live.data_name, live.model_name]))
    return element("p", element("a", "CoDy", href="."), element("small", about), class_="home")


def _card(title: str, words: str, *parts: Markup) -> Markup:
    head = element("header", element("h2", title), element("p", words))
    return element("section", head, *parts, class_="card")


def _welcome(live: Live) -> Markup:
    graph = live.graph
    words = f"{graph.num_events:,} events between {graph.num_nodes:,} nodes. Choose a prediction to explain."
    example, now = str(graph.num_events - 1), moment(float(graph.time[graph.num_events - 1]))
    when = ("time", f"When ({zone_name()})", now)
    forms = (
        ("Any link, at any time", (("src", "From", ""), ("dst", "To", ""), when), "Explain"),
        ("An event, by its row", (("event", "Row", example),), "Explain"),
        ("A node: its events and likely partners", (("node", "Node", ""),), "Show"),
        ("Several events side by side", (("side", "Rows", f"{graph.num_events - 2},{example}"),), "Compare them"),
    )
    return _card("Choose another link", words, *(_form(*form) for form in forms))


def _form(title: str, fields: Iterable[tuple[str, str, str]], verb: str) -> Markup:
    inputs = (
        element("label", label, element("input", name=key, placeholder=example or None, required=True))
        for key, label, example in fields
    )
    return element("form", element("h3", title), *inputs, element("button", verb), method="get", class_="request")


def _partner(scored: Prediction, called: str) -> Markup:
    other = scored.dst if scored.src == called else scored.src
    target = address(src=scored.src, dst=scored.dst, time=scored.time)
    return element(
        "tr",
        element("th", element("a", name(other), href=target), scope="row"),
        element("td", f"{scored.score:.2f}"),
        element("td", LINK_PREDICTED.outcome(scored.logit)),
    )


def _events(listed: Iterable[Prediction | LabelPrediction]) -> Markup:
    shown = list(listed)
    when = heading_of_times(shown[0].time) if shown else "when"
    return _table(["row", "link", when, "score", "predicted"], map(_event, shown), "list events-list")


def _event(scored: Prediction | LabelPrediction) -> Markup:
    predicted = LINK_PREDICTED.outcome(scored.logit) if isinstance(scored, Prediction) else scored.predicted
    return element(
        "tr",
        element("td", str(scored.event)),
        element("th", element("a", link(scored.src, scored.dst), href=address(event=scored.event)), scope="row"),
        element("td", moment(scored.time)),
        element("td", f"{scored.score:.2f}"),
        element("td", sanitize(predicted, 24), element("b", " (wrong)") if scored.right is False else None),
    )


def _table(heads: Sequence[str], rows: Iterable[Markup], kind: str = "list") -> Markup:
    head = element("tr", *(element("th", title, scope="col") for title in heads))
    made = element("table", element("thead", head), element("tbody", *rows), class_=kind)
    region = {"tabindex": 0, "role": "region", "aria-label": "Table"}
    return element("div", made, class_="scroll", **region)


def _search_bar(wanted: str | None, why_not: bool) -> Markup:
    chosen = wanted or DEFAULT_SEARCH
    options = [element("option", each, value=each, selected=each == chosen) for each in dict.fromkeys([*NAMES, chosen])]
    return element(
        "div",
        element("label", "Explainer", element("select", *options, id="explainer")),
        element("label", element("input", type="checkbox", id="why-not", checked=why_not), "also add and move events"),
        element("button", "Explain", type="button", id="explain", class_="main"),
        element("button", "Cancel", type="button", id="cancel", hidden=True),
        element("span", "", id="progress", role="status"),
        class_="fields",
    )


def _decide_bar(live: Live, why: Explanation, by: DecideBy, kept: Iterable[Markup]) -> Markup:
    """How the question is decided: one choice, and its value. The script names the field as the choice says."""
    ways = _ways(live)
    way = by.way or next(iter(ways))
    own = why.decision
    text = by.text or (f"{own.threshold:g}" if isinstance(own, Above) else about(own))
    options = (
        element("option", label, value=each, selected=each == way, data_usual=usual)
        for each, (label, usual) in ways.items()
    )
    problem = element("span", sanitize(by.problem, 300), class_="problem", id="problem", role="alert")
    field = {"aria-label": "Value", "aria-invalid": "true" if by.problem else None, "aria-describedby": "problem"}
    return element(
        "form",
        *kept,
        element("label", "Decide by", element("select", *options, id="decide-by")),
        element("input", name=way, id="decide-value", value=text, size=8, required=True, autocomplete="off", **field),
        element("button", "Apply"),
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
        }
    if len(live.task.classes) == 2:
        return {"threshold": (f"score of {sanitize(live.task.classes[1], 24)} above", "0.5")}
    return {"label": ("class", live.task.classes[-1])}


def _imagine(kept: Sequence[Markup]) -> Markup:
    """Forms that add an event, move one, or remove any past event: each leads to another address."""
    forms = (
        ("add", "Add an event", "1395 1772 2004-07-28 03:54", "Add"),
        ("move", "Move an event", "53159 2004-07-28 04:00", "Move"),
        ("take", "Remove any past event, by its row", "53159", "Remove"),
    )
    made = (
        element(
            "form",
            *kept,
            element("label", label, element("input", name=key, placeholder=example, required=True)),
            element("button", verb),
            method="get",
            class_="fields",
        )
        for key, label, example, verb in forms
    )
    return element("details", element("summary", "Edit the history"), *made)


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
        yield element("input", type="hidden", name=key, value=str(value))


def _edits(edits: Iterable[Edit]) -> dict[str, Any]:
    """Imagined events in the form of a search request."""
    edits = list(edits)
    return {
        "add": [{"src": str(e.src), "dst": str(e.dst), "time": e.time} for e in edits if isinstance(e, Add)],
        "move": [{"row": e.row, "time": e.time} for e in edits if isinstance(e, Move)],
    }
