"""The page: everything about an explanation in one self-contained HTML file that makes no network requests."""

from __future__ import annotations

import base64
import hashlib
import html
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

from cody.explaining.explanation import Event, Explanation
from cody.explaining.waterfall import waterfall_title
from cody.models.decision import Above, InTop, Labelled, State
from cody.utils.words import count, sanitize, to_json
from cody.web.charts import MOST_STEPS, alternatives, landscape, progress, steps, waterfall_chart
from cody.web.commands import command, edit_option
from cody.web.facts import AGAINST, FOR, REMOVED, UNKNOWN, Facts, NamedChange
from cody.web.gauge import MarginGauge
from cody.web.head import bar, head, title, what_next
from cody.web.markup import Child, Markup, card, join, scrolled, search_field, tag
from cody.web.network import network
from cody.web.standing import WIDEST, as_plain, before_and_after, lines, may_stand_apart, words_of
from cody.web.table import candidates_table, stability_table
from cody.web.timeline import Axis, timeline

GENERATOR = "CoDy"
HERE = Path(__file__).parent
FRAME_HEIGHT = 860  # pixels of a notebook's cell; the page scrolls inside


@cache
def asset(file: str) -> str:
    """A style or a script of this folder, without indentation and lines of comments: every page carries it."""
    lines = map(str.strip, (HERE / file).read_text(encoding="utf-8").splitlines())
    return "\n".join(line for line in lines if line and not line.startswith("//"))


class LiveControls(NamedTuple):
    """What a page needs if there is a model behind it."""

    bar: Markup  # above everything else
    change: Sequence[int]  # rows that are changed when the page opens
    searched: bool  # an explainer was run
    data: dict[str, Any]  # for the script
    starts: bool = False  # an explainer runs as soon as the page is open


def page(why: Explanation, model: LiveControls | None = None, *, back: str = "") -> str:
    """An explanation as one self-contained HTML file.

    Args:
        why: The explanation.
        model: With it, a page that uses the server it comes from.
        back: Address of the page that lists this explanation among others, if there is one.
    """
    facts = Facts(why, served=model is not None)
    opened = facts.states[min(1, len(facts.states) - 1)]
    if model is not None and (model.change or not model.searched):
        opened = NamedChange("", tuple(facts.number[row] for row in model.change if row in facts.number), True)
    body, axes, dots = content(facts, opened, model)
    data = _data(facts, axes, dots, opened) | {"live": None if model is None else model.data}
    way_back = tag.nav(tag.a("← All predictions", href=back), class_="back") if back else None
    parts = [way_back if model is None else model.bar, body, data_block(data)]
    behind = words_of(why.decision) is not None
    script = " ".join(["page.js", "save.js", *["standing.js"] * behind, *["threshold.js"] * facts.movable])
    scripts = [script] if model is None else [script, "live.js"]
    styles = ["standing.css"] * behind
    return document(title(facts), join(parts), scripts, served=model is not None, styles=styles)


def data_block(data: dict[str, Any]) -> Markup:
    """Data for the script, as JSON that ends no element and opens no comment, whatever the names in it."""
    json = to_json(data).replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")
    return tag.script(Markup(json), type="application/json", id="data")


def document(title: str, body: Markup, codes: Sequence[str], *, served: bool, styles: Sequence[str] = ()) -> str:
    """A complete HTML document that may run our scripts and load nothing; with a server, connect to it.

    A script may consist of several files, as in "page.js standing.js".
    """
    style = Markup("\n".join(map(asset, ["page.css", *styles, *(["live.css"] if served else [])])))
    scripts = [Markup("\n".join(map(asset, files.split()))) for files in codes]
    server = "'self'" if served else "'none'"
    hashes = " ".join(f"'{_hash(script)}'" for script in scripts) or "'none'"
    policy = (
        f"default-src 'none'; script-src {hashes}; style-src '{_hash(style)}'; img-src blob: data:; "
        f"connect-src {server}; frame-src {server}; form-action {server}; base-uri 'none'"
    )
    head = tag.head(
        tag.meta(charset="utf-8"),
        tag.meta(http_equiv="Content-Security-Policy", content=policy),
        tag.meta(name="viewport", content="width=device-width, initial-scale=1"),
        tag.meta(name="color-scheme", content="light dark"),
        tag.meta(name="generator", content=GENERATOR),
        tag.title(title),
        tag.style(style),
    )
    code = join([tag.script(script, type="module") for script in scripts])
    return f"<!doctype html>\n{tag.html(head, tag.body(body, code), lang='en')}\n"


def report_page(title: str, *parts: Child) -> str:
    """A report as a self-contained HTML file, without scripts."""
    return document(title, tag.main(*parts, class_="impact"), [], served=False, styles=["impact.css"])


def frame(why: Explanation, table_: str) -> str:
    """The page for a notebook: in a frame of its own, so that neither changes the other; below it a plain table."""
    inside = html.escape(page(why))
    return (
        f'<iframe srcdoc="{inside}" sandbox="allow-scripts allow-downloads" loading="lazy" width="100%" '
        f'height="{FRAME_HEIGHT}" style="border: 0" title="Explanation"></iframe>'
        f"<details><summary>The same as a table</summary>{table_}</details>"
    )


def _hash(text: str) -> str:
    return "sha256-" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()


def content(
    facts: Facts, opened: NamedChange, model: LiveControls | None = None
) -> tuple[Markup, list[Axis], list[float]]:
    """The visible parts, from top to bottom; and positions, for the script to move or draw things: of axes and dots."""
    why, chosen, searched = facts.why, frozenset(opened.change), model is None or model.searched
    top = head(facts, searched=searched, starts=model is not None and model.starts)
    picture, axes = timeline(facts, chosen)
    tried, dots = landscape(facts)
    parts = [top, bar(facts, opened), what_next(facts) if searched else None]
    words = words_of(why.decision)
    behind = None if words is None else card("behind", *words, before_and_after(facts, opened))
    if why.candidates:
        several = sum(bool(state.change) for state in facts.states) > 1
        drawing = tag.div(network(facts, chosen), tag.div(_controls(axes), picture), class_="drawing")
        every = f"All {facts.past}" if len(why.candidates) > 1 else f"The one {facts.thing}"
        listed = scrolled(candidates_table(facts, chosen), f"Table of {facts.thing}s")
        parts += [
            card("timeline", _timeline_title(facts), _timeline_words(facts), drawing, _legend(facts)),
            behind,
            card("ways", "Counterfactuals", _ways_words(facts), alternatives(facts)) if several else None,
            card("survives", "What it survives", why.stability, scrolled(stability_table(facts), "Table of models"))
            if why.elsewhere
            else None,
            card("all", every, _table_words(facts), _filter(), listed),
        ]
    else:
        parts.append(behind)
    if why.shares is not None:
        heading = f"What each {facts.event} adds" if why.shares.adds_up else "Attention"
        parts.append(card("shares", heading, waterfall_title(why).removesuffix(":"), waterfall_chart(why)))
    answer = [card("steps", _steps_title(facts), _steps_words(facts), steps(facts))] if why.rows else []
    search = card("search", "Evaluated sets", _search_words(facts), tried, progress(facts))
    parts.append(_how(facts, [*answer, search] if why.candidates else []))
    tip = tag.div("", id="tip", role="tooltip", hidden=True)
    return tag.main(*parts, tip), axes, dots


def _how(facts: Facts, charts: Sequence[Markup]) -> Markup:
    """How it was found and how certain it is, folded: for those who want to verify or reproduce it."""
    why = facts.why
    notes = (why.togetherness, why.certainty, why.leeway, why.effort, why.considered, why.protection)
    words = join([tag.p(text) for text in notes if text])
    return tag.details(
        tag.summary("How it was found, and how certain it is"),
        tag.div(*charts, class_="two") if charts else None,
        card("trust", "How certain is this?", "", words),
        card("settings", "Model, data and settings", "", _settings(facts)),
        class_="how",
        open=not charts,
    )


def _timeline_title(facts: Facts) -> str:
    could = facts.why.recourse is not None
    return f"{facts.event.capitalize()}s that could be added" if could else f"Past {facts.event}s"


def _timeline_words(facts: Facts) -> str:
    imagined, event = facts.imagined, facts.event
    past = count(len(facts.why.candidates) - imagined, facts.thing if facts.why.unit_name else f"past {event}")
    if facts.why.recourse is not None:
        which, click = f"{imagined} imagined {event}s", "Click one to add it, or to leave it out."
        return f"Each arrow is one of {which}, thicker the larger its effect; ? is the {facts.subject} then. {click}"
    dashed = f", or one of {imagined} imagined {event}s (dashed)" if imagined > 1 else ""
    dashed = f", or the imagined {event} (dashed)" if imagined == 1 else dashed
    click = "Click one to remove or restore it" + (", or to add an imagined one." if imagined else ".")
    arrows = f"Each arrow is one of {past}{dashed}, thicker the larger its effect"
    if len(facts.why.candidates) == 1:
        arrows, click = f"The arrow is the one candidate, {past}", click.replace("one to", "it to")
    return f"{arrows}; ? is the {facts.subject} in question. {click}"


def _controls(axes: list[Axis]) -> Markup:
    radios = (
        tag.label(tag.input(type="radio", name="axis", value=axis.key, checked=axis is axes[0]), tag.span(axis.title))
        for axis in axes
    )
    return tag.div(
        tag.fieldset(tag.legend("Time axis", class_="hidden-text"), *radios, class_="axes"),
        tag.span(class_="grow"),
        save_buttons("the timeline"),
        class_="controls",
    )


def save_buttons(what: str) -> Markup:
    """Buttons that save what is drawn in a card."""
    buttons = (
        tag.button(kind.upper(), type="button", data_save=kind, title=f"Save “{what}” as {kind.upper()}")
        for kind in ("svg", "png")
    )
    return tag.span(*buttons, class_="save")


def _legend(facts: Facts) -> Markup:
    """The legend: what colours and marks mean for this prediction."""
    effects = {facts.effect(number) for number in range(len(facts.why.candidates))}
    positive, word = f"“{facts.outcome(1.0)}”", facts.gauge.word
    entries = [
        (FOR, f"for {positive}: without it, the {word} falls", FOR in effects),
        (AGAINST, f"against {'it' if FOR in effects else positive}: without it, the {word} rises", AGAINST in effects),
        ("slight", "negligible effect alone", "slight" in effects),
        (UNKNOWN, "not evaluated alone", UNKNOWN in effects),
        ("crossed", "removed", facts.imagined < len(facts.why.candidates)),
        ("imagined", f"imagined; for {positive} if the {word} rises with it", facts.imagined > 0),
        ("other", "not a candidate", bool(facts.why.surroundings and facts.why.surroundings.events)),
    ]
    shown = (tag.li(_sample(key), words) for key, words, there in entries if there)
    return tag.ul(*shown, class_="legend")


def _sample(key: str) -> Markup:
    big = key in (FOR, AGAINST)
    path = "M4 9Q15 3 27 9M22 4.5L27 9L21.5 10.5"
    parts = [tag.path(d=path, class_="arc", stroke_width=3 if big else 1.5)]
    if key != "other":
        parts.append(tag.circle(cx=4, cy=9, r=3 if big else 1.8))
    if key == "crossed":
        parts.append(tag.path(d="M10.5 2l9 9m0-9l-9 9", class_="cross"))
    kinds = {"crossed": "event slight changed", "other": "beside", "imagined": "event slight imagined present"}
    sample = tag.g(*parts, class_=kinds.get(key, f"event {key}"))
    return tag.svg(sample, width=30, height=14, aria_hidden="true")


def _steps_title(facts: Facts) -> str:
    if facts.why.factual:
        return f"The named {facts.thing}s, step by step"
    return "The answer, step by step" if facts.why.is_counterfactual else "The closest set, step by step"


def _steps_words(facts: Facts) -> str:
    line = "decision threshold" if isinstance(facts.why.decision, Above) else "point where the decision changes"
    drawn = "vertical" if len(facts.why.rows) <= MOST_STEPS else "dashed"
    return f"One edit after the other, and the {facts.gauge.word} after each. The {drawn} line is the {line}."


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
    article = "an" if facts.thing[:1].lower() in "aeiou" else "a"
    tick = ", tick an imagined one to add it" if facts.imagined else ""
    click = f"Untick {article} {facts.thing} to remove it{tick}."
    if facts.imagined == len(facts.why.candidates):
        click = f"Tick {article} {facts.thing} to add it."
    return f"{click} Last column: the {facts.gauge.word} with only that {facts.thing} changed; largest effect first."


def _filter() -> Markup:
    found = tag.span("", id="found", role="status")
    clear = tag.button("clear", type="button", id="clear", hidden=True)
    return tag.div(search_field("Find a node or row"), found, clear, class_="controls")


def _settings(facts: Facts) -> Markup:
    """Identities and settings, each in words."""
    why = facts.why
    named = [(name.capitalize(), why.parameters.get(name), getattr(why, name)) for name in ("model", "data")]
    who = [
        (name, f"{called} ({identity})" if isinstance(called, str) else identity) for name, called, identity in named
    ]
    entries = [*who, ("Seed", why.seed), *_flat(why.parameters)]
    listed = (join([tag.dt(sanitize(key, 60)), tag.dd(sanitize(value, 120))]) for key, value in entries)
    return tag.dl(*listed)


def _flat(settings: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, object]]:
    """Settings one by one; what was left to its default is left out, and so is the request that they came from."""
    for key, value in settings.items():
        if not prefix and key in ("model", "data", "request"):
            continue
        called = (prefix if key == "name" else f"{prefix} {key}").strip().replace("_", " ").capitalize()
        if isinstance(value, Mapping):
            yield from _flat(value, key)
        elif isinstance(value, list):
            yield from [(called, ", ".join(map(str, value)))] if value else []
        elif isinstance(value, str) and key in ("name", "near"):  # a function
            yield called, value.replace("_", " ")
        elif value is not None and value is not False:
            yield called, value


def _data(facts: Facts, axes: list[Axis], dots: list[float], opened: NamedChange) -> dict[str, Any]:
    """What the script needs: events, positions, and all evaluated sets."""
    why = facts.why
    return {
        "original": why.original,
        "decision": _how_decided(facts),
        "events": [_event(facts, number) for number in range(len(why.candidates))],
        "sets": [[_bits(known.change), known.logit, x] for known, x in zip(facts.known, dots, strict=True)],
        "clicks": _clicks(facts),
        "states": [{"name": state.name, "change": list(state.change)} for state in facts.states],
        "opened": list(opened.change),
        "places": {axis.key: [round(100 * place, 2) for place in axis.places] for axis in axes},
        "command": command(why, "what-if"),
        "event": facts.thing,
        "file": f"cody-{why.event if why.event is not None else facts.why.subject}",
    }


def _clicks(facts: Facts) -> dict[str, Any]:
    """First clicks: a row of margins for each set that is offered, one for each candidate; then the pairs."""
    left, rows = dict(facts.clicks), []
    for state in facts.states:
        toggled = (tuple(sorted({*state.change} ^ {number})) for number in range(len(facts.why.candidates)))
        rows.append([left.pop(change, None) for change in toggled])
    return {"rows": rows, "pairs": [[list(change), margin] for change, margin in left.items()]}


def _how_decided(facts: Facts) -> dict[str, Any]:
    """How the script writes and draws a margin."""
    decision = facts.why.decision
    given: dict[str, Any] = {"positive": facts.outcome(1.0), "negative": facts.outcome(-1.0), "word": facts.gauge.word}
    if isinstance(decision, Above):
        return given | {"threshold": decision.threshold, "line": decision.line}
    if isinstance(facts.gauge, MarginGauge):
        given["span"] = facts.gauge.span
    return given | {
        "name": sanitize(decision.named, WIDEST),
        "last": decision.k if isinstance(decision, InTop) else 0,
        "lines": lines(facts),
        "apart": may_stand_apart(decision),
        "shares": not isinstance(decision, Labelled),
        "behind": words_of(decision) is not None,
        "standings": {
            _bits(change): as_plain(decision, State(None, standing)) for change, standing in facts.standings.items()
        },
    }


def _event(facts: Facts, number: int) -> dict[str, Any]:
    """A candidate for the script; missing values are left out."""
    event = facts.why.candidates[number]
    entry: dict[str, Any] = {"row": event.row, "sort": [event.time, facts.distance(event), facts.moved(number)]}
    unit = facts.unit(event)
    rows = [] if unit is None else sorted({*unit.rows, *unit.dependants})
    option = edit_option(event)
    more = {"rows": rows, "imagined": event.edit != REMOVED, "option": option, "unnamed": option is None}
    more["edit"] = _edit(event)
    return entry | {key: value for key, value in more.items() if value}


def _bits(numbers: Iterable[int]) -> str:
    """A set of numbers in compact form: the bits of a hexadecimal number.

    >>> _bits([0, 1, 5])
    '23'
    """
    return f"{sum(1 << number for number in numbers):x}"


def _edit(event: Event) -> dict[str, Any] | None:
    """An imagined event in the form of a request."""
    if event.edit == "added":
        return {"src": event.src, "dst": event.dst, "time": event.time}
    return {"row": event.replaces, "time": event.time} if event.edit == "moved" else None
