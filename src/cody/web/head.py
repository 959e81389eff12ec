"""The top of a page: what it is about, the reason, and the bar with score and presets that stays in view."""

from __future__ import annotations

from collections.abc import Iterator

from cody.data import datasets
from cody.explaining.advice import NextStep, is_open
from cody.explaining.explanation import Explanation
from cody.explaining.wording import capital
from cody.models.decision import Above, Between, InTop, Labelled, RatherThan
from cody.utils.words import count, in_words, is_date, moment, moment_and_zone, sanitize
from cody.web.charts import ends, meter
from cody.web.commands import explain_command
from cody.web.facts import Facts, KnownChange, NamedChange
from cody.web.markup import Child, Markup, join, link, name, tag

UNSEARCHED = "{} of the {} near this {} {} evaluated alone. Change some together, or run an explainer."
SEARCHING = "Searching for the smallest change that flips this … "
MOST_LETTERS = 5  # of the original score in its room; a longer one is written smaller
LONG_REASON = 150  # characters; longer ones are written smaller
RIGHT_OR_WRONG = {  # what it means for a decision that its link did happen
    Above: (": the model is right", ": the model is wrong"),
    RatherThan: (": the model is right", ": the model is wrong"),
    InTop: (": a hit", ": a miss"),
}
SHORT_LINK = 18  # characters of both names that stay on one line of the headline


def title(facts: Facts) -> str:
    """The title of the page."""
    why = facts.why
    about = sanitize(why.src) if why.subject == "node" else f"{sanitize(why.src)} → {sanitize(why.dst)}"
    predicts = "why the model predicts " if isinstance(why.decision, Above) else ""
    return f"{about}: {predicts}{facts.outcome(why.original)}"


def head(facts: Facts, *, searched: bool, starts: bool = False) -> Markup:
    """What is decided about what, and why.

    Args:
        facts: Of the page.
        searched: An explainer was run.
        starts: One is running: the page says so until there is an answer.
    """
    why = facts.why
    reason, sentence = (why.reason, why.sentence) if searched or not why.candidates else ("", _unsearched(facts))
    return tag.header(
        tag.p(join(_byline(facts), " · "), class_="byline"),
        tag.h1(*_headline(facts)),
        tag.p(
            tag.span(SEARCHING, id="searching") if starts else None,
            reason or sentence,
            class_="reason long" if starts or len(reason or sentence) > LONG_REASON else "reason",
        ),
        tag.p(why.question, class_="answer") if why.recourse is not None else None,
        tag.p(why.simultaneity, class_="note") if why.simultaneity else None,
        tag.div(
            tag.p(sentence, class_="answer") if reason else None,
            tag.ul(*_badges(facts), class_="badges") if searched else None,
            class_="proof",
        ),
        class_="head",
    )


def what_next(facts: Facts) -> Markup | None:
    """What to try where nothing was found: commands, or with a server buttons; None where there is nothing to try."""
    why = facts.why
    if not is_open(why):
        return None
    steps = list(why.next_steps)
    if not facts.imagined:
        steps.append(NextStep("--why-not" if why.original <= 0 else "--allow remove,add", "to add events, too"))
    if not steps:
        return None
    title = tag.h2("What to try next")
    if facts.served:
        return tag.div(title, tag.p(*map(_button_for, steps), class_="fields"), class_="next")
    listed = (tag.li(tag.code(explain_command(why, step.option)), f" {step.purpose}") for step in steps)
    return tag.div(title, tag.ul(*listed), class_="next")


def _button_for(step: NextStep) -> Markup | None:
    """A button that searches with an option, if the page has a field for it."""
    option, _, value = step.option.removeprefix("--").partition(" ")
    field = "why-not" if option in ("why-not", "allow") else option
    if field not in ("why-not", "evaluations", "candidates", "explainer"):
        return None
    words = capital(step.purpose.removeprefix("to "))
    return tag.button(words, type="button", class_="main", data_try=field, data_value=value)


def bar(facts: Facts, opened: NamedChange) -> Markup:
    """The scores before and now, and what can be chosen by name. It stays in view, and its height does not change."""
    known = facts.answers.get(tuple(sorted(opened.change)))
    now = None if known is None else known.logit
    slider = _slider(facts) if facts.movable else None
    gauge = tag.div(meter(facts.gauge, facts.why.original, now), ends(facts), slider, class_="gauge")
    line = tag.p(tag.span(opened.name, id="now-name"), tag.span("", id="status", role="status"))
    pressed = [str(state.change == opened.change).lower() for state in facts.states]
    buttons = (
        tag.button(capital(state.name), type="button", data_state=place, aria_pressed=pressed[place])
        for place, state in enumerate(facts.states)
    )
    states = tag.div(*buttons, class_="states", role="group", aria_label="Shown")
    figures = tag.div(_numbers(facts, known), _decided_now(facts, known))
    return tag.div(figures, gauge, states, line, class_="now scorebar")


def _numbers(facts: Facts, known: KnownChange | None) -> Markup:
    """Both numbers. The room is for the longest that a click leads to, so that nothing beside them moves."""
    first = facts.gauge.written(facts.why.original, None if known is None else known.logit)[0]
    pairs = [facts.gauge.written(facts.why.original, other.logit) for other in facts.answers.values()]
    before, after = max([*pairs, *[["0.0000", "0.0000"]] * facts.served], key=lambda pair: sum(map(len, pair)))
    side, now = facts.side(known and known.logit), "–" if known is None else known.score
    word = [] if isinstance(facts.why.decision, Above) else [tag.span(facts.gauge.word, class_="word")]

    def row(first: str, last: str, **attributes: str) -> Markup:
        arrow = tag.span("→", class_="to")
        return tag.span(*word, tag.span(first, class_="was"), arrow, tag.span(last, class_="now"), **attributes)

    kinds = [facts.side(facts.why.original), *["long"] * (len(first) > MOST_LETTERS)]
    was = tag.span(first, id="was-score", class_=" ".join(kinds))
    shown = row(was, tag.span(now, id="now-score", class_=side))
    return tag.p(row(before, after, aria_hidden="true"), shown, class_="numbers room")


def _in_room(shown: str, longest: str, kind: str, **attributes: str) -> Markup:
    """A text with room for a longer one in its place."""
    return tag.span(tag.span(longest, aria_hidden="true"), tag.span(shown, **attributes), class_=f"{kind} room")


def _decided_now(facts: Facts, known: KnownChange | None) -> Markup:
    """What is decided, beside the figure that goes with it, each with room for the longest."""
    prediction = "not evaluated" if known is None else facts.outcome(known.logit)
    longest = max(facts.outcome(-1.0), facts.outcome(1.0), "not evaluated", key=len)
    figure = "" if known is None else facts.figure(known)
    figures = [facts.figure(other) for other in facts.answers.values()]
    return tag.p(
        _in_room(prediction, longest, "decision", id="now-prediction", class_=facts.side(known and known.logit)),
        _in_room(figure, max(figures, key=len, default=""), "figure", id="now-figure"),
        class_="decided",
    )


def about_data(identity: str, called: object = None) -> str:
    """The name of a data set, and what it is about where that is known; empty if not even its name is known.

    Args:
        identity: Of the data.
        called: What the user calls them.
    """
    known = next((each for each in datasets() if identity == each.content or called == each.name), None)
    if known is not None:
        return f"{known.name}: {known.about}"
    return sanitize(called, 40) if isinstance(called, str) else ""


def _byline(facts: Facts) -> Iterator[Child]:
    """The data, the model, which event this is, and whether it happened."""
    why = facts.why
    yield about_data(why.data, why.parameters.get("data")) or None
    called = why.parameters.get("model")  # in Python, a model has no name
    yield sanitize(called, 40) if isinstance(called, str) else f"model {sanitize(why.model, 9)}"
    when = moment_and_zone(why.query.time) if is_date(why.query.time) else f"time {moment(why.query.time)}"
    yield when if why.event is None or why.subject == "node" else f"{facts.event} {why.event}, {when}"
    yield _truth(facts)


def _truth(facts: Facts) -> Markup | None:
    """What happened, and so whether the model is right; None where that is not known."""
    why = facts.why
    if why.subject != "link" and not isinstance(why.decision, Between):
        return _true_label(why)
    if why.recourse is not None:
        return tag.b(f"as if nothing else had happened since {moment_and_zone(why.recourse.since)}")
    if why.event is None:
        return tag.b(f"no such {facts.event} on record at this time")
    right, wrong = RIGHT_OR_WRONG.get(type(why.decision), ("", ""))
    is_right = why.original > 0
    return tag.b(f"it did happen{right if is_right else wrong}", class_="wrong" if wrong and not is_right else None)


def _true_label(why: Explanation) -> Markup | None:
    """The label in the log, and whether it is the predicted one."""
    predicted = why.decision.predicted_label
    if why.label is None or predicted is None:
        return None
    wrong = (why.label == predicted) != (why.original > 0)
    words = f"it was {sanitize(why.label, 40)}: the model is {'wrong' if wrong else 'right'}"
    return tag.b(words, class_="wrong" if wrong else None)


def _headline(facts: Facts) -> list[Child]:
    why, decision, outcome = facts.why, facts.why.decision, facts.outcome(facts.why.original)
    src, dst = name(why.src, 40), name(why.dst, 40)
    short = len(sanitize(why.src, 24)) + len(sanitize(why.dst, 24)) <= SHORT_LINK
    subject = tag.span(link(why.src, why.dst, 40), class_="together" if short else None)
    if why.subject == "node":
        subject = tag.span(src)
    if why.subject == "link" and isinstance(decision, Above):
        if why.original > 0:
            return ["The model predicts ", subject, "."]
        return ["The model does not predict ", subject, "." if why.event is None else ", although it happened."]
    if isinstance(decision, InTop):
        standing = why.states[0].standing
        rank = 0 if standing is None else standing.rank or 0
        return ["The model ranks ", dst, f" {in_words(rank)} of {decision.of:,} for ", src, "."]
    if isinstance(decision, RatherThan):
        best, other = (why.dst, decision.other) if why.original > 0 else (decision.other, why.dst)
        return ["For ", src, ", the model prefers ", name(best, 40), " to ", name(other, 40), "."]
    if isinstance(decision, Between):
        return [f"The model expects {decision.figure(why.states[0])} for ", subject, f": {outcome}."]
    if isinstance(decision, Labelled) and why.original <= 0:
        return [f"The model does not predict {facts.outcome(1.0)} for ", subject, "."]
    verb = "predicts" if isinstance(decision, Above | Labelled) else "decides"
    return [f"The model {verb} {outcome} for ", subject, "."]


def _unsearched(facts: Facts) -> str:
    """What was evaluated without a search: each event alone, as far as time allowed."""
    number = len(facts.why.candidates)
    tried = sum(facts.alone(event) is not None for event in range(number))
    how_many = "Each" if tried == number else str(tried or "None")
    return UNSEARCHED.format(how_many, facts.past, facts.subject, "were" if 1 < tried < number else "was")


def _badges(facts: Facts) -> Iterator[Markup]:
    """What is verified and proven."""
    why = facts.why
    if why.is_counterfactual:
        yield tag.li("✓ verified by replay", class_="good")
        if why.is_minimal:
            yield tag.li("✓ no smaller set", class_="good")
    elif why.candidates:
        yield tag.li(why.verdict)
    yield tag.li(f"{count(why.evaluations, 'set')} evaluated")


def _slider(facts: Facts) -> Markup:
    """The handle of the threshold, on the line of the meter."""
    range_ = {"min": "0.01", "max": "0.99", "step": "0.01", "value": f"{facts.gauge.line:g}"}
    return tag.div(
        tag.input(type="range", id="threshold", aria_label="Threshold", **range_),
        tag.p(
            tag.span("", id="moved-words", role="status"),
            tag.button("", type="button", id="search-there", class_="main"),
            id="moved",
            hidden=True,
        ),
        class_="threshold",
    )
