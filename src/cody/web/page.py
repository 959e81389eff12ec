"""The page: everything about an explanation in one self-contained HTML file that makes no network requests."""

from __future__ import annotations

import base64
import hashlib
import html
from collections.abc import Iterable, Iterator, Sequence
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

from cody.models.decision import decision, scores
from cody.utils.words import count, is_date, moment, moment_and_zone, sanitize, to_json
from cody.web.axes import Axis
from cody.web.charts import Dot, alternatives, landscape, meter, progress, waterfall
from cody.web.facts import AGAINST, REMOVED, TOWARDS, UNKNOWN, Facts, NamedChange
from cody.web.markup import Markup, element, join, link
from cody.web.shown import Shown, ShownEvent
from cody.web.table import table
from cody.web.timeline import timeline

GENERATOR = "CoDy"
HERE = Path(__file__).parent
UNSEARCHED = "{} of the {} near this link {} evaluated alone. Change some together, or run an explainer."
MOST_NAMED = 5  # events in the head of the page
SHORT_LINK = 18  # characters of both names that stay on one line of the headline
MUCH_TO_PRINT = 40  # lanes, and steps of the answer twice: more of them are printed smaller, to fit one sheet
FRAME_HEIGHT = 860  # pixels of a notebook's cell; the page scrolls inside


@cache
def asset(file: str) -> str:
    """A style or a script of this folder."""
    return (HERE / file).read_text(encoding="utf-8")


class LiveControls(NamedTuple):
    """What a page needs if there is a model behind it."""

    bar: Markup  # above everything else
    change: Sequence[int]  # rows that are changed when the page opens
    searched: bool  # an explainer was run
    data: dict[str, Any]  # for the script


def page(why: Shown, model: LiveControls | None = None) -> str:
    """An explanation as one self-contained HTML file; with a model, as a page that uses the server it comes from."""
    facts = Facts(why)
    opened = facts.states[min(1, len(facts.states) - 1)]
    if model is not None and (model.change or not model.searched):
        opened = NamedChange("", tuple(facts.number[row] for row in model.change if row in facts.number), True)
    body, drawn = content(facts, opened, searched=model is None or model.searched)
    data = _data(facts, drawn, opened) | {"live": None if model is None else model.data}
    title = f"{sanitize(why.src)} → {sanitize(why.dst)}: why the model predicts {decision(why.original)}"
    parts = [None if model is None else model.bar, body, data_block(data)]
    return document(title, join(parts), ["page.js", *([] if model is None else ["live.js"])], served=model is not None)


def data_block(data: dict[str, Any]) -> Markup:
    """Data for the script."""
    return element("script", Markup(_harmless(to_json(data))), type="application/json", id="data")


def document(title: str, body: Markup, files: Sequence[str], *, served: bool, styles: Sequence[str] = ()) -> str:
    """A complete HTML document that may run our scripts and load nothing; with a server, connect to it."""
    style = Markup("\n".join(asset(file) for file in ("page.css", *styles)))
    scripts = [Markup(asset(file)) for file in files]
    server = "'self'" if served else "'none'"
    hashes = " ".join(f"'{_hash(script)}'" for script in scripts) or "'none'"
    policy = (
        f"default-src 'none'; script-src {hashes}; style-src '{_hash(style)}'; img-src blob: data:; "
        f"connect-src {server}; frame-src {server}; form-action {server}; base-uri 'none'"
    )
    head = element(
        "head",
        element("meta", charset="utf-8"),
        element("meta", http_equiv="Content-Security-Policy", content=policy),
        element("meta", name="viewport", content="width=device-width, initial-scale=1"),
        element("meta", name="color-scheme", content="light dark"),
        element("meta", name="generator", content=GENERATOR),
        element("title", title),
        element("style", style),
    )
    code = join([element("script", script, type="module") for script in scripts])
    return f"<!doctype html>\n{element('html', head, element('body', body, code), lang='en')}\n"


def frame(why: Shown, table_: str) -> str:
    """The page for a notebook: in a frame of its own, so that neither changes the other; below it a plain table."""
    inside = html.escape(page(why))
    return (
        f'<iframe srcdoc="{inside}" sandbox="allow-scripts allow-downloads" loading="lazy" width="100%" '
        f'height="{FRAME_HEIGHT}" style="border: 0" title="Explanation"></iframe>'
        f"<details><summary>The same as a table</summary>{table_}</details>"
    )


def _hash(text: str) -> str:
    return "sha256-" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()


def _harmless(json: str) -> str:
    r"""JSON that ends no element and opens no comment, whatever the names in it: < can be written as \u003c."""
    return json.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")


class Drawn(NamedTuple):
    """Positions, for the script to move or draw things."""

    axes: list[Axis]
    dots: list[Dot]


def content(facts: Facts, opened: NamedChange, *, searched: bool = True) -> tuple[Markup, Drawn]:
    """The visible parts, from top to bottom."""
    chosen = frozenset(opened.change)
    picture, axes = timeline(facts, chosen)
    tried, dots = landscape(facts)
    left, right = (
        list(_answers(facts)),
        [_section("search", "Evaluated sets", _search_words(facts), tried, progress(facts))],
    )
    (left if len(left) < 2 else right).append(_trust(facts))
    parts = [
        _head(facts, opened, searched=searched),
        _section("timeline", "Past events", _timeline_words(facts), _controls(axes), picture, _legend(facts)),
        element("div", *(element("div", *column, class_="stack") for column in (left, right)), class_="two"),
        _section("all", "All candidate events", _table_words(facts), _filter(), _scrolled(facts, chosen)),
    ]
    if not facts.why.candidates:
        parts[1:] = [_trust(facts)]
    tall = len(facts.hops) + 2 * len(facts.why.rows) > MUCH_TO_PRINT
    return element("main", *parts, class_="tall" if tall else None), Drawn(axes, dots)


def _answers(facts: Facts) -> Iterator[Markup]:
    """The answer step by step; then, if there are any, its alternatives."""
    if facts.why.rows:
        yield _section("steps", _steps_title(facts), _steps_words(facts), waterfall(facts))
    if sum(bool(state.change) for state in facts.states) > 1:
        yield _section("ways", "Counterfactuals", _ways_words(facts), alternatives(facts))


def _section(key: str, title: str, words: Markup | str, *parts: Markup) -> Markup:
    head = element("header", element("h2", title, id=f"{key}-title"), element("p", words) if words else None)
    return element("section", head, *parts, class_=f"card part-{key}", aria_labelledby=f"{key}-title")


def _unsearched(facts: Facts) -> str:
    """What was evaluated without a search: each event alone, as far as time allowed."""
    number = len(facts.why.candidates)
    tried = sum(facts.alone(event) is not None for event in range(number))
    how_many = "Each" if tried == number else str(tried or "None")
    return UNSEARCHED.format(how_many, facts.past, "were" if 1 < tried < number else "was")


def _head(facts: Facts, opened: NamedChange, *, searched: bool) -> Markup:
    why = facts.why
    sentence = why.sentence if searched or not why.candidates else _unsearched(facts)
    known = facts.answers.get(tuple(sorted(opened.change)))
    words = element(
        "div",
        element("p", _occasion(facts), class_="occasion"),
        element("h1", *_headline(facts)),
        element("p", sentence, class_="answer"),
        _named(facts),
        element("p", why.simultaneity, class_="note") if why.simultaneity else None,
        element("ul", *_badges(facts), class_="badges") if searched else None,
        class_="words",
    )
    first = scores(why.original, None if known is None else known.logit)[0]
    score, as_it_was = "–" if known is None else known.score, not opened.change
    now = element(
        "div",
        element("p", opened.name, class_="now-name", id="now-name"),
        element(
            "p",
            element("span", score, id="now-score"),
            element("span", "not evaluated" if known is None else decision(known.logit), id="now-prediction"),
            class_="now-score",
        ),
        meter(why.original, None if known is None else known.logit),
        element("p", *(element("span", end) for end in ("0: no link", "0.5", "1: link")), class_="ends"),
        element("p", f"It was {first} ({decision(why.original)}) with nothing changed.", id="was", hidden=as_it_was),
        element("p", "", id="status", role="status"),
        element("div", *_buttons(facts, opened), class_="states", role="group", aria_label="Shown"),
        class_="now",
    )
    return element("header", words, now, class_="head card")


def _named(facts: Facts) -> Markup | None:
    """The events of the answer, if there are only a few."""
    why = facts.why
    events = [(facts.number[row], why.candidates[facts.number[row]]) for row in why.rows]
    if not 0 < len(events) <= MOST_NAMED:
        return None
    listed = (
        element(
            "li",
            element("span", "+" if facts.edit(event) else "•" if why.factual else "✕", aria_hidden="true"),
            facts.link(event),
            element("small", facts.beside(event)),
            data_e=number,
        )
        for number, event in events
    )
    return element("ul", *listed, class_="named")


def _occasion(facts: Facts) -> str:
    why = facts.why
    when = moment_and_zone(why.query.time) if is_date(why.query.time) else f"time {moment(why.query.time)}"
    return f"Event {why.event} · {when}" if why.event is not None else f"A link that need not have happened · {when}"


def _headline(facts: Facts) -> Iterator[Markup | str]:
    why = facts.why
    short = len(sanitize(why.src, 24)) + len(sanitize(why.dst, 24)) <= SHORT_LINK
    link_text = element("span", link(why.src, why.dst, 40), class_="together" if short else None)
    if why.original > 0:
        yield from ("The model predicts ", link_text, ".")
        return
    yield from ("The model does not predict ", link_text)
    yield "." if why.event is None else ", although it happened."


def _badges(facts: Facts) -> Iterator[Markup]:
    """What is verified and proven, and what it cost."""
    why = facts.why
    if why.is_counterfactual:
        yield _badge("✓ verified by replay", why.certainty, "good")
        if why.is_minimal:
            yield _badge("✓ no smaller set", why.certainty, "good")
    else:
        yield _badge(f"{why.verdict}", why.certainty or why.sentence, "")
    yield _badge(f"{count(why.evaluations, 'set')} evaluated", why.effort, "")
    yield _badge(f"seed {sanitize(why.seed, 12)}", "The same seed gives the same explanation.", "")


def _badge(text: str, title: str, kind: str) -> Markup:
    return element("li", text, title=title, class_=kind or None)


def _buttons(facts: Facts, opened: NamedChange) -> Iterator[Markup]:
    for place, state in enumerate(facts.states):
        pressed = str(state.change == opened.change).lower()
        yield element("button", state.name, type="button", data_state=place, aria_pressed=pressed)


def _timeline_words(facts: Facts) -> str:
    imagined = sum(event.edit != REMOVED for event in facts.why.candidates)
    past = count(len(facts.why.candidates) - imagined, "past event")
    dashed = f", or one of {imagined} imagined events (dashed)" if imagined > 1 else ""
    dashed = ", or the imagined event (dashed)" if imagined == 1 else dashed
    click = "Click one to remove or restore the event" + (", or to add an imagined one." if imagined else ".")
    return (
        f"Each horizontal line is a node, each arrow one of the {past} near this link{dashed}. Time runs to the "
        f"right, up to the explained link (?). Thicker arrows have a larger effect. {click}"
    )


def _controls(axes: list[Axis]) -> Markup:
    radios = (
        element(
            "label",
            element("input", type="radio", name="axis", value=axis.key, checked=axis is axes[0]),
            element("span", axis.title),
        )
        for axis in axes
    )
    return element(
        "div",
        element("fieldset", element("legend", "Time axis", class_="hidden-text"), *radios, class_="axes"),
        element("span", class_="grow"),
        element("button", "SVG", type="button", id="save-svg", title="Save the timeline as SVG"),
        element("button", "PNG", type="button", id="save-png", title="Save the timeline as PNG"),
        class_="controls",
    )


def _legend(facts: Facts) -> Markup:
    """The legend: what colours and marks mean for this prediction."""
    down = facts.why.original > 0
    imagined = any(event.edit != REMOVED for event in facts.why.candidates)
    alone = "changed alone" if imagined else "without it alone"
    effects = {facts.effect(number) for number in range(len(facts.why.candidates))}
    entries = [
        (TOWARDS, f"{alone}, the score {'falls' if down else 'rises'}", TOWARDS in effects),
        (AGAINST, f"{alone}, the score {'rises' if down else 'falls'}", AGAINST in effects),
        ("slight", "negligible effect alone", "slight" in effects),
        (UNKNOWN, "not evaluated alone", UNKNOWN in effects),
        ("crossed", "removed", True),
        ("imagined", "imagined", imagined),
        ("other", "not a candidate", bool(facts.why.surroundings and facts.why.surroundings.events)),
    ]
    shown = (element("li", _sample(key), words) for key, words, there in entries if there)
    return element("ul", *shown, class_="legend")


def _sample(key: str) -> Markup:
    big = key in (TOWARDS, AGAINST)
    path = "M4 9Q15 3 27 9M22 4.5L27 9L21.5 10.5"
    parts = [element("path", d=path, class_="arc", stroke_width=3 if big else 1.5)]
    if key != "other":
        parts.append(element("circle", cx=4, cy=9, r=3 if big else 1.8))
    if key == "crossed":
        parts.append(element("path", d="M10.5 2l9 9m0-9l-9 9", class_="cross"))
    kinds = {"crossed": "event slight changed", "other": "beside", "imagined": "event slight imagined present"}
    sample = element("g", *parts, class_=kinds.get(key, f"event {key}"))
    return element("svg", sample, width=30, height=14, aria_hidden="true")


def _steps_title(facts: Facts) -> str:
    if facts.why.factual:
        return "The named events, step by step"
    return "The answer, step by step" if facts.why.is_counterfactual else "The closest set, step by step"


def _steps_words(facts: Facts) -> str:
    return "One edit after the other, and the score after each. The vertical line is the decision threshold."


def _search_words(facts: Facts) -> str:
    turned = len(facts.why.counterfactuals)
    found = "None of them flips the prediction"
    if turned:
        found = f"{turned} flip the prediction: diamonds" if turned > 1 else "One flips the prediction: the diamond"
    words = f"Each dot is a set of edits that was evaluated. {found}. Click one to see it."
    elsewhere = facts.why.evaluations - len(facts.why.evaluated)  # a search among more or fewer events, or for times
    return f"{words} {elsewhere:,} more, evaluated with other candidates, are not shown." if elsewhere > 0 else words


def _ways_words(facts: Facts) -> str:
    if facts.why.is_counterfactual and not facts.why.factual:
        return "Different sets of edits, each of which flips the prediction. None contains another."
    return "These sets of edits flip the prediction. None contains another."


def _table_words(facts: Facts) -> str:
    imagined = any(event.edit != REMOVED for event in facts.why.candidates)
    tick = ", tick an imagined one to add it" if imagined else ""
    return f"Untick an event to remove it{tick}. The last column is the score with only that event changed."


def _filter() -> Markup:
    field = element("input", type="search", id="filter", placeholder="Find a node or row", autocomplete="off")
    label = element("label", element("span", "Find a node or row", class_="hidden-text"), field)
    return element("div", label, element("span", "", id="found", role="status"), class_="controls")


def _scrolled(facts: Facts, chosen: frozenset[int]) -> Markup:
    region = {"tabindex": 0, "role": "region", "aria-label": "Table of events"}
    return element("div", table(facts, chosen), class_="scroll", **region)


def _trust(facts: Facts) -> Markup:
    """How certain the answer is, and how it was found, for those who want to verify or reproduce it."""
    why = facts.why
    notes = (why.certainty, why.leeway, why.effort, why.considered, why.protection)
    words = join([element("p", text) for text in notes if text])
    return _section("trust", "How certain is this?", "", words, _settings(facts))


def _settings(facts: Facts) -> Markup:
    why = facts.why
    entries = [("Model", sanitize(why.model, 80)), ("Data", sanitize(why.data, 80)), ("Seed", sanitize(why.seed, 40))]
    entries += [(key.capitalize(), sanitize(to_json(value), 400)) for key, value in why.parameters.items() if value]
    listed = (join([element("dt", sanitize(key, 40)), element("dd", value)]) for key, value in entries if value)
    return element("details", element("summary", "Model, data and settings"), element("dl", *listed))


def _data(facts: Facts, drawn: Drawn, opened: NamedChange) -> dict[str, Any]:
    """What the script needs: events, positions, and all evaluated sets."""
    why = facts.why
    sets = zip(facts.known, drawn.dots, strict=True)
    return {
        "original": why.original,
        "events": [_event(facts, number) for number in range(len(why.candidates))],
        "sets": [[_bits(known.change), known.logit, known.score, dot.x, dot.y] for known, dot in sets],
        "states": [{"name": state.name, "change": list(state.change)} for state in facts.states],
        "opened": list(opened.change),
        "places": {axis.key: [round(100 * place, 2) for place in axis.places] for axis in drawn.axes},
        "command": facts.command,
        "file": f"cody-{why.event if why.event is not None else 'link'}",
    }


def _event(facts: Facts, number: int) -> dict[str, Any]:
    """A candidate for the script; missing values are left out."""
    event = facts.why.candidates[number]
    entry: dict[str, Any] = {"row": event.row, "sort": [event.time, facts.distance(event), _alone(facts, number)]}
    more = {"imagined": event.edit != REMOVED, "option": facts.option(event), "edit": _edit(event)}
    return entry | {key: value for key, value in more.items() if value}


def _bits(numbers: Iterable[int]) -> str:
    """A set of numbers in compact form: the bits of a hexadecimal number.

    >>> _bits([0, 1, 5])
    '23'
    """
    return f"{sum(1 << number for number in numbers):x}"


def _edit(event: ShownEvent) -> dict[str, Any] | None:
    """An imagined event in the form of a request."""
    if event.edit == "added":
        return {"src": event.src, "dst": event.dst, "time": event.time}
    return {"row": event.replaces, "time": event.time} if event.edit == "moved" else None


def _alone(facts: Facts, number: int) -> float | None:
    known = facts.alone(number)
    return None if known is None else known.logit
