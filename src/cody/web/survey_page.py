"""The page of a survey: every figure in one HTML file, with the predictions behind it."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Container, Iterator, Sequence
from typing import NamedTuple

from msgspec import UNSET, structs

from cody.explaining.document import decision_in_part
from cody.explaining.explanation import ADDED, MOVED, REMOVED
from cody.explaining.wording import capital
from cody.study.comparison import ExplainedByBoth, ModelComparison
from cody.study.report import FEW, LATEST, LISTED, Decisive, Example, Part, Survey, with_name
from cody.study.shares import Contrast
from cody.utils.words import count, earlier, is_date, moment, sanitize, zone_name
from cody.web.commands import decision_options
from cody.web.file import SURVEY_TITLE
from cody.web.markup import Child, Markup, card, join, link, report_head, row, search_field, table, tag, tile
from cody.web.page import data_block, document, save_buttons
from cody.web.survey_charts import Chosen, between, comparison_rows, contrasts, deciders, fragility, percent_words

TITLES = {"correct": "predicted links", "incorrect": "missed links"}
NONE_FOUND = "No counterfactual was found for any of these predictions."
MOST_EVENTS = 4  # of a prediction, in the list
HALF = 0.5
DEFAULTS = {"--data": "collegemsg", "--model": "tgn-collegemsg"}  # of cody explain

Test = Callable[[Decisive], bool]
PageOf = Callable[[int, int], str | None]  # (place of the survey, event) → address of the explanation's page


class Panel(NamedTuple):
    """The links of one kind that were explained for one model."""

    title: str
    place: int  # of the survey
    survey: Survey
    part: Part
    first: int  # number of its first prediction
    lists: PredictionLists  # shared by all panels

    def numbers(self, holds: Callable[[Example], bool]) -> list[int]:
        """The predictions that meet a condition."""
        return [self.first + place for place, each in enumerate(self.part.predictions) if holds(each)]

    def chosen(self, which: str, holds: Callable[[Example], bool]) -> Chosen:
        """The same behind a figure, with words for it."""
        return self.lists.add(f"{self.title} {which}", self.numbers(holds))


class PredictionLists(list[tuple[str, list[int]]]):
    """The predictions behind each figure, with a title, for the script."""

    def add(self, title: str, numbers: list[int]) -> Chosen:
        self.append((title, numbers))
        return Chosen(len(self) - 1, len(numbers))


def survey_page(
    surveys: Sequence[Survey], comparison: ModelComparison | None = None, *, page_of: PageOf | None = None
) -> str:
    """One or two surveys as a self-contained HTML file."""
    panels = panels_of(surveys)
    sections = [
        _head(surveys, panels, comparison),
        None if comparison is None else _comparison(comparison, panels),
        _fragility(panels),
        _decisive(panels),
        _ages(panels),
        _survival(panels),
        _who(panels),
        _extremes(panels),
        _formulas(surveys),
    ]
    charts = tag.div(*sections, class_="figures")
    body = tag.main(charts, _list(panels, page_of), class_="survey")
    data = data_block({"lists": panels[0].lists, "file": "survey"})
    title = f"{SURVEY_TITLE} {' and '.join(sanitize(each.model, 40) for each in surveys)}"
    return document(title, join([body, data]), ["survey.js save.js"], served=False, styles=["survey.css"])


def panels_of(surveys: Sequence[Survey]) -> list[Panel]:
    """What is explained of each model, kind by kind: the kinds below each other, the models side by side.

    Args:
        surveys: One model, or two on the same predictions.
    """
    panels: list[Panel] = []
    first, lists = 0, PredictionLists()
    for kind in TITLES:
        for place, survey in enumerate(surveys):
            for part in (part for part in survey.parts if part.kind == kind):
                title = _kind(survey, part)
                title = f"{sanitize(survey.model, 30)}: {title.lower()}" if len(surveys) > 1 else capital(title)
                panels.append(Panel(title, place, survey, part, first, lists))
                first += len(part.predictions)
    return panels


def _called(survey: Survey) -> str:
    """What the data call an event."""
    return sanitize(survey.event_name, 24)


def _section(key: str, title: str, words: str, *parts: Child, saved: bool = True) -> Markup:
    return card(key, title, words, *parts, aside=save_buttons(title) if saved else None)


def _side_by_side(panels: Sequence[Panel], draw: Callable[[Panel], Child]) -> Markup:
    drawn = (
        tag.div(tag.h3(panel.title, tag.small(count(panel.part.links, "prediction"))), draw(panel), class_="panel")
        for panel in panels
    )
    return tag.div(*drawn, class_="panels", data_drawn=True)


# ---- the head --------------------------------------------------------------------------------------------------------


def _head(surveys: Sequence[Survey], panels: Sequence[Panel], comparison: ModelComparison | None) -> Markup:
    survey, part = surveys[0], panels[0].part
    badges = [
        count(sum(panel.part.links for panel in panels), "explained prediction"),
        f"Only {count(part.links, 'prediction')}: the shares say little." if part.links < FEW else None,
        f"search: {sanitize(survey.explainer, 30)}",
        "intervals: 95 %",
        f"allowed: {', '.join(survey.allowed)}" if survey.allowed != ("removals",) else None,
        survey.protected.rstrip(".") or None,
        f"times: {zone_name()}" if any(is_date(each.time) for each in part.predictions) else None,
    ]
    one = panels[0]
    finding, answer = (_headline(one), _finding(one)) if comparison is None else _agreement(comparison)
    data = [] if survey.data == survey.model else [sanitize(survey.data, 40)]  # they come with the model
    occasion = " · ".join(["Survey", *data, " and ".join(sanitize(each.model, 40) for each in surveys)])
    return report_head(occasion, finding, [answer], badges, map(_tile, panels))


def _tile(panel: Panel) -> Markup:
    """How many predictions depend on a single edit."""
    one, share = len(panel.numbers(lambda each: len(each.events) == 1)), panel.part.fragility[0].share
    counted = f"{one} of {panel.part.links:,} ({between(share)})"
    return tile(percent_words(share.value), panel.title, f"flip with one {panel.survey.edit_name}: {counted}")


def _agreement(found: ModelComparison) -> tuple[str, str]:
    """The findings about two models: how often they agree, and how often for the same reason."""
    agree = percent_words(found.same_decision.value)
    finding = f"The two models agree on {agree} of {count(found.links, 'prediction')}."
    if found.same_reason is None:
        return finding, "There is no prediction on which they agree and for which both have a counterfactual."
    both, same = count(found.both_explained, "prediction"), percent_words(found.same_reason.value)
    return finding, f"Of {both} that both explain, {same} have exactly the same reason."


def _headline(panel: Panel) -> Markup:
    """The first finding: how few events decide most predictions, with its interval."""
    part, kind, name = panel.part, _kind(panel.survey, panel.part), panel.survey.edit_name
    enough = next((each for each in part.fragility if each.share.value >= HALF), part.fragility[-1])
    events = f"a single {name}" if enough.edits == 1 else f"at most {count(enough.edits, name)}"
    if not enough.share.value:
        return join([f"No change of {events} was found that flips {kind}."])
    interval = tag.small(f" ({between(enough.share)})")
    flip = f" of {kind} flip if {events} {'is' if enough.edits == 1 else 'are'} changed."
    return join([percent_words(enough.share.value), interval, flip])


def _kind(survey: Survey, part: Part) -> str:
    """What a part of a survey is about, within a sentence."""
    return TITLES[part.kind] if survey.decision is UNSET else sanitize(part.title, 60)


def _finding(panel: Panel) -> str:
    """The second: which kind of event is over-represented by the largest difference."""
    part, called = panel.part, _called(panel.survey)
    kinds = [
        *((each.what, each) for each in (*part.relations, *part.latest, part.repetition) if each is not None),
        *((f"age {each.what}", each) for each in part.ages),
    ]
    clear = [(what, each) for what, each in kinds if each.ratio is not None and each.ratio.low > 1]
    if not clear:
        return f"No kind of {called} is clearly decisive more often than its number suggests."
    what, most = max(clear, key=lambda pair: pair[1].decisive.value - pair[1].candidates.value)
    shares = f"{percent_words(most.decisive.value)} against {percent_words(most.candidates.value)}"
    larger = f"{with_name(what, called)} ({shares})"
    return f"The largest difference between decisive {called}s and all candidates: {larger}."


# ---- the figures -----------------------------------------------------------------------------------------------------


def _fragility(panels: Sequence[Panel]) -> Markup:
    def behind(panel: Panel, most: int) -> Chosen:
        changed = f"{count(most, panel.survey.edit_name)} {'is' if most == 1 else 'are'} changed"
        return panel.chosen(f"that flip if at most {changed}", lambda one: 0 < len(one.events) <= most)

    def draw(panel: Panel) -> Markup:
        points, name = panel.part.fragility, panel.survey.edit_name
        sizes = [len(each.events) for each in panel.part.predictions]
        curve = fragility(sizes, points, [behind(panel, each.edits) for each in points], name)
        return join([curve, *_notes(_beyond(sizes, points[-1].edits, name), panel.part.simultaneous.advice)])

    edits = f"{panels[0].survey.edit_name}s"
    words = (
        f"Share of the predictions that flip if at most this many {edits} are changed, with its interval. Select a "
        "point to see them. Flips that the search did not find are not counted, so the true curve may lie higher."
    )
    return _section("fragility", f"How many {edits} does a prediction depend on?", words, _side_by_side(panels, draw))


def _notes(*texts: str | None) -> Iterator[Markup]:
    """Notes below a figure; empty texts are left out."""
    return (tag.p(text, class_="note") for text in texts if text)


def _beyond(sizes: Sequence[int], last: int, edit_name: str) -> str:
    """What lies to the right of the curve."""
    more, none = [size for size in sizes if size > last], sizes.count(0)
    range_ = " to ".join(map(str, sorted({min(more, default=0), max(more, default=0)})))
    needed = f"{len(more)} more flip with {range_} {edit_name}s" if more else ""
    found = f"for {none}, no flip was found" if none else ""
    return f"{capital('; '.join(filter(None, [needed, found])))}." if needed or found else ""


def _decisive(panels: Sequence[Panel]) -> Markup:
    called = _called(panels[0].survey)

    def draw(panel: Panel) -> Markup:
        part = panel.part
        tests = [
            *((each, _has("relation", each.what)) for each in part.relations),
            *((each, _is_among(most)) for each, most in zip(part.latest, LATEST, strict=bool(part.latest))),
            *((each, _has("repeated", True)) for each in (part.repetition,) if each is not None),
        ]
        return join([_contrasts(panel, tests), *_notes(part.caution, panel.survey.units_note)])

    words = (
        f"Decisive {called}s (●) and all candidates (○) of the same predictions. If ● lies to the right of ○, such "
        f"{called}s are decisive more often than their number suggests: ratio = ● / ○, with its interval."
    )
    return _section("decisive", f"What are the decisive {called}s?", words, _side_by_side(panels, draw))


def _has(name: str, value: object) -> Test:
    """Whether an event has this value."""
    return lambda event: getattr(event, name) == value


def _is_among(most: int) -> Test:
    return lambda event: event.latest <= most


def _ages(panels: Sequence[Panel]) -> Markup:
    def draw(panel: Panel) -> Markup:
        tests = [(each, _has("age", each.what)) for each in panel.part.ages]
        return join([_contrasts(panel, tests), *_notes(_medians(panel))])

    called = _called(panels[0].survey)
    words = f"How long before the prediction they happened: decisive {called}s (●) and all candidates (○)."
    return _section("ages", "How old are they?", words, _side_by_side(panels, draw))


def _medians(panel: Panel) -> str:
    age = panel.part.age
    if age is None:
        return ""
    now = panel.part.predictions[0].time
    old, usual = (earlier(now - each, now) for each in (age.decisive, age.candidates))
    return f"Half of the decisive {_called(panel.survey)}s are at most {old} old; of all candidates, {usual}."


def _contrasts(panel: Panel, tests: Sequence[tuple[Contrast, Test]]) -> Markup:
    """Rows of shares; behind each, the predictions with such a decisive event."""
    if not tests:
        return tag.p(NONE_FOUND, class_="note")

    def behind(what: str, holds: Test) -> Chosen:
        which = f"with such a decisive {called}: {with_name(what, called)}"
        return panel.chosen(which, lambda one: any(map(holds, one.events)))

    called = _called(panel.survey)
    shown = [structs.replace(each, what=with_name(each.what, called)) for each, _ in tests]
    return contrasts(shown, [behind(each.what, holds) for each, holds in tests])


def _survival(panels: Sequence[Panel]) -> Markup | None:
    """In which other models the answers hold, and whether they do under noise, where that was tested."""
    if not any(panel.part.survival for panel in panels):
        return None
    words = (
        "Share of the counterfactuals that flip the decision of another model, too, or of this one under noise. Tested "
        "are those where it decides the same with nothing changed."
    )
    return _section("survival", "Do the answers survive?", words, _side_by_side(panels, _survival_table), saved=False)


def _survival_table(panel: Panel) -> Markup:
    if not panel.part.survival:
        return tag.p(NONE_FOUND, class_="note")
    rows = []
    for each in panel.part.survival:
        holds: list[Child] = ["–"]
        if each.holds is not None:
            holds = [tag.b(percent_words(each.holds.value)), tag.small(f" ({between(each.holds)})")]
        rows.append(row(sanitize(each.what, 40), f"{each.tested:,}", join(holds)))
    return table(("", "tested", "holds"), rows, "elsewhere")


def _who(panels: Sequence[Panel]) -> Markup:
    called = _called(panels[0].survey)

    def decided_by_node(panel: Panel, name: str) -> Chosen:
        return panel.chosen(f"of others that {sanitize(name, 30)} decides", lambda one: _is_decided_by(one, name))

    def decided_by_event(panel: Panel, row: int | None) -> Chosen:
        return panel.chosen(f"that event {row} decides", lambda one: any(event.row == row for event in one.events))

    def draw(panel: Panel) -> Markup:
        nodes, events = panel.part.nodes, panel.part.events
        parts = (
            deciders("Nodes", nodes, [decided_by_node(panel, each.name) for each in nodes]),
            deciders(f"{capital(called)}s", events, [decided_by_event(panel, each.row) for each in events]),
        )
        return join(parts) or tag.p(f"No node and no {called} decides more than one prediction.", class_="note")

    words = (
        f"Nodes and {called}s that are decisive for several predictions. Predictions about a node itself are left out. "
        "The bar shows for how many predictions it is decisive, out of those for which it is a candidate."
    )
    drawn = any(panel.part.nodes or panel.part.events for panel in panels)
    return _section("who", "Who decides?", words, _side_by_side(panels, draw), saved=drawn)


def _is_decided_by(one: Example, name: str) -> bool:
    return name not in (one.src, one.dst) and any(name in (event.src, event.dst) for event in one.events)


def _extremes(panels: Sequence[Panel]) -> Markup:
    def draw(panel: Panel) -> Markup:
        found = [each for each in panel.part.predictions if each.events]
        robust = panel.part.predictions[::-1][: min(LISTED, panel.part.links - len(found[:LISTED]))]
        return join([_ends("Fewest changes", found[:LISTED], panel), _ends("Most", robust, panel)])

    words = (
        "The predictions that flip with the fewest changes, the least certain first; and those for which the search "
        "found no flip, or only with many of them. Smaller changes that it did not find may exist."
    )
    return _section("extremes", "The easiest and the hardest to flip", words, _side_by_side(panels, draw))


def _ends(title: str, examples: Sequence[Example], panel: Panel) -> Markup | None:
    """A few predictions, each of which can be selected."""

    def row(each: Example) -> Markup:
        name = f"{sanitize(each.src, 20)} → {sanitize(each.dst, 20)}, event {each.event}"
        chosen = panel.lists.add(name, panel.numbers(lambda one: one is each))
        changed = count(len(each.events), panel.survey.edit_name) if each.events else "none found"
        return _choice(chosen, each, _figure(each, panel.survey), changed)

    return join([tag.h4(title), tag.ul(*map(row, examples), class_="ends-list")]) if examples else None


def _choice(chosen: Chosen, one: Example | ExplainedByBoth, *facts: str) -> Markup:
    """A prediction that can be selected, with what is said about it."""
    named = tag.span(link(one.src, one.dst, 20), class_="what")
    figures = (tag.span(each, class_="prediction") for each in facts)
    return tag.li(chosen.button(named, *figures, kind="one"))


def _comparison(found: ModelComparison, panels: Sequence[Panel]) -> Markup:
    one, other = (sanitize(name, 30) for name in found.models)
    lists, apart = panels[0].lists, set(found.apart)
    predictions = sorted(
        (each.event, panel.first + at, panel.place)
        for panel in panels
        for at, each in enumerate(panel.part.predictions)
    )
    theirs = ({event for event, _, of in predictions if of == place} for place in (0, 1))

    def of(events: Container[int]) -> list[int]:
        return [number for event, number, _ in predictions if event in events]

    same = {pair.event for pair in found.pairs if pair.overlap == 1}
    rows = [
        ("the same decision", found.same_decision, set.intersection(*theirs) - apart),
        ("the same reason, where they agree and both have one", found.same_reason, same),
        ("overlap of the reasons, |X ∩ Y| / |X ∪ Y|", found.overlap, {pair.event for pair in found.pairs}),
    ]
    shown = [
        (what, share, lists.add(f"{one} and {other}: {what}", of(events))) for what, share, events in rows if share
    ]

    def item(pair: ExplainedByBoth) -> Markup:
        title = f"{sanitize(pair.src, 20)} → {sanitize(pair.dst, 20)}, both models"
        sides = f"{count(len(pair.rows), 'event')} and {len(pair.others)}, overlap {pair.overlap:.2f}"
        return _choice(lists.add(title, of({pair.event})), pair, sides)

    sides = [
        join([tag.h3(title), tag.ul(*map(item, pairs), class_="ends-list")])
        for title, pairs in (("They agree most on", found.agree), ("They differ most on", found.differ))
        if pairs
    ]
    if apart:
        chosen = lists.add(f"{one} and {other} disagree", of(apart))
        text = f"{count(len(found.apart), 'prediction')} on which they disagree"
        sides.append(tag.p(chosen.button(tag.span(text, class_="what"), kind="one")))
    words = (
        f"{one} and {other} on the same {count(found.links, 'event')}. A reason is the counterfactual that was found."
    )
    listed = tag.div(*(tag.div(each, class_="panel") for each in sides), class_="panels")
    return _section("comparison", "Do the two models agree?", words, comparison_rows(shown), listed)


def _formulas(surveys: Sequence[Survey]) -> Markup:
    entries = [
        ("Depends on k events", "(1/N) Σ [a counterfactual X with |X| ≤ k was found], over the N predictions"),
        (
            "Decisive ●",
            "(1/n) Σ (share of the events of X that are such), over the n predictions with a counterfactual",
        ),
        ("Candidates ○", "(1/n) Σ (share of the candidates that are such), over the same predictions"),
        ("Ratio", "decisive / candidates; above 1, such events are over-represented"),
        ("Decides, of", "predictions in whose X, and among whose candidates, a node or an event occurs"),
        ("Intervals", "95 %, from 1,000 bootstrap samples of predictions; they cover the choice of predictions only"),
        ("Allowed", ", ".join(surveys[0].allowed)),
        *([("Protected", surveys[0].protected.removeprefix("Protected: "))] if surveys[0].protected else []),
        *(("Model", sanitize(each.model, 80)) for each in surveys),
        ("Data", sanitize(surveys[0].data, 80)),
        ("Search", sanitize(surveys[0].explainer, 80)),
    ]
    listed = tag.dl(*(join([tag.dt(key), tag.dd(value)]) for key, value in entries))
    return tag.section(tag.h2("How each figure is computed"), listed, class_="card part-formulas")


# ---- the predictions -------------------------------------------------------------------------------------------------


def _list(panels: Sequence[Panel], page_of: PageOf | None) -> Markup:
    total = sum(len(panel.part.predictions) for panel in panels)
    several = len({panel.place for panel in panels}) > 1
    items = (
        _item(panel, place, page_of, several=several)
        for panel in panels
        for place in range(len(panel.part.predictions))
    )
    return tag.section(
        tag.header(
            tag.h2("The predictions", id="list-title", tabindex=-1),
            tag.p(f"All {total:,}. Select a figure to see those behind it.", id="chosen", role="status"),
            tag.div(
                search_field("Find a node or event"),
                tag.button("Show all", type="button", id="all", hidden=True),
                tag.button("Back to the figure", type="button", id="back", hidden=True),
                class_="controls",
            ),
        ),
        tag.ol(*items, class_="predictions", tabindex=0),
        class_="card part-list",
        aria_labelledby="list-title",
    )


def _item(panel: Panel, place: int, page_of: PageOf | None, *, several: bool) -> Markup:
    each, survey = panel.part.predictions[place], panel.survey
    kind = panel.part.kind if survey.decision is not UNSET else TITLES[panel.part.kind].split()[0]
    about = f"event {each.event} · {moment(each.time)} · {kind}, {_figure(each, survey)}"
    shown = [_event(event, each) for event in each.events[:MOST_EVENTS]]
    if len(each.events) > MOST_EVENTS:
        shown.append(tag.li(f"and {len(each.events) - MOST_EVENTS} more", class_="more"))
    return tag.li(
        tag.h3(link(each.src, each.dst, 30)),
        tag.p(f"{sanitize(survey.model, 30)} · {about}" if several else about, class_="about"),
        tag.p(each.reason) if each.reason else None,
        tag.p(each.sentence, class_="about" if each.reason else None),
        tag.p(_held_in(each.held_in), class_="about") if each.held_in else None,
        tag.ul(*shown, class_="events") if shown else None,
        tag.p(_way_on(each, survey, page_of and page_of(panel.place, each.event)), class_="on"),
        data_p=panel.first + place,
    )


def _held_in(counted: tuple[int, int]) -> str:
    """In how many of the other models an answer holds."""
    holding, agreeing = counted
    if not agreeing:
        return "The other models decide differently from the start."
    decide = "decides" if agreeing == 1 else "decide"
    return f"Holds in {holding} of {count(agreeing, 'other model')} that {decide} the same."


def _figure(each: Example, survey: Survey) -> str:
    """What lies behind a decision: a score, a rank, a label."""
    return f"{survey.figure} {each.figure}" if each.score is None else f"score {each.score:.2f}"


def _event(event: Decisive, each: Example) -> Markup:
    mark = {REMOVED: "✕", ADDED: "+", MOVED: "↔"}.get(event.edit, "•")
    kind = {REMOVED: "", ADDED: "added, ", MOVED: "moved, "}.get(event.edit, "")
    before = f"{kind}{earlier(event.time, each.time)} before · {event.relation}"
    return tag.li(tag.span(mark, aria_hidden="true"), link(event.src, event.dst, 20), tag.small(before))


def _way_on(each: Example, survey: Survey, href: str | None) -> Markup:
    """The explanation's page, or the command that explains it."""
    if href is not None:
        return tag.a(f"Explanation of event {each.event} →", href=href)
    given = {"--data": survey.data, "--model": survey.model}
    if survey.data == survey.model:
        del given["--data"]  # they come with the model
    options = [f"{name} {shlex.quote(value)}" for name, value in given.items() if value != DEFAULTS[name]]
    if survey.decision:
        options += map(shlex.quote, decision_options(decision_in_part(survey.decision, each.dst)))
    return tag.code(" ".join(["cody explain --event", str(each.event), *map(sanitize, options)]))
