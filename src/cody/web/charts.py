"""The other charts: the score meter, the evaluated sets, the progress of the search, and the answer step by step."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from cody.models.decision import decision, flips, probability, scores, shift
from cody.web.facts import Facts, KnownChange, NamedChange
from cody.web.markup import Markup, element, join, number, percent

MANY_STEPS = 13  # more of them scroll
MOST_LABELS = 13  # below the landscape; more would overlap
DOT = 3.4  # pixels
LANDSCAPE = 250.0  # pixels high
WIDE = 520.0  # pixels; dots are kept apart as if the landscape had this width
TICKS = (0.5, 0.9, 0.1, 0.99, 0.01, 0.7, 0.3, 0.999, 0.001, 0.6, 0.4, 0.8, 0.2, 0.55, 0.45, 0.52, 0.48)


def meter(original: float, now: float | None, *, small: bool = False) -> Markup:
    """The original and the current score between 0 and 1, with the decision threshold."""
    first = probability(original)
    last = first if now is None else probability(now)
    low, high = sorted((first, last))
    y = 7 if small else 14
    parts = [
        element("rect", class_="track", x=0, y=y - 3, width="100%", height=6, rx=3),
        element("rect", class_="moved", x=percent(low), y=y - 3, width=percent(high - low), height=6),
        element("line", class_="decision", x1="50%", x2="50%", y1=y - 7 if small else 0, y2=y + 7 if small else 28),
        element("circle", class_="first", cx=percent(first), cy=y, r=4.5 if small else 6.5),
        element("circle", class_="now", cx=percent(last), cy=y, r=4.5 if small else 7.5, hidden=now is None),
    ]
    return element("svg", *parts, class_="meter", width="100%", height=14 if small else 28, aria_hidden="true")


class Scale(NamedTuple):
    """Logits on a vertical axis that is labelled with scores."""

    low: float
    high: float

    def y(self, logit: float) -> float:
        return 10.0 + (LANDSCAPE - 20.0) * (self.high - min(max(logit, self.low), self.high)) / (self.high - self.low)


def scale(logits: Iterable[float]) -> Scale:
    """A range that contains all logits and the decision threshold."""
    inside = [min(max(logit, -40.0), 40.0) for logit in logits]
    low, high = min([*inside, 0.0]), max([*inside, 0.0])
    room = 0.06 * (high - low) or 1.0
    return Scale(low - room, high + room)


def _score_ticks(axis: Scale) -> Iterator[Markup]:
    """Scores that are round, inside, and not too close to each other."""
    placed: list[float] = []
    for share in TICKS:
        logit = _logit(share)
        y = axis.y(logit)
        if axis.low <= logit <= axis.high and all(abs(y - other) >= 20 for other in placed):
            placed.append(y)
            yield element("line", class_="decision" if share == 0.5 else "rule", x1=0, x2="100%", y1=y, y2=y)
            yield element("text", f"{share:g}", class_="score", x=0, y=y - 3)


def _logit(share: float) -> float:
    return math.log(share / (1 - share))


class Dot(NamedTuple):
    """The position of a set in the landscape."""

    x: float  # per cent of the width
    y: int  # pixels


def landscape(facts: Facts) -> tuple[Markup, list[Dot]]:
    """Every evaluated set by its number of edits and its score. The script draws the dots."""
    axis = scale(known.logit for known in facts.known)
    sizes = sorted({len(known.change) for known in facts.known})
    every = math.ceil(len(sizes) / MOST_LABELS)
    dots = [Dot(0.0, 0)] * len(facts.known)
    columns = []
    for rank, size in enumerate(sizes):
        place = (rank + 0.5) / len(sizes) * 0.9 + 0.08
        numbered = [(order, known) for order, known in enumerate(facts.known) if len(known.change) == size]
        for order, dot in _beside_each_other(facts, axis, numbered, place, 0.86 / len(sizes)):
            dots[order] = dot
        columns.append(_column(size, place, labelled=rank % every == 0))
    plot = element(
        "svg",
        element("g", *_score_ticks(axis), aria_hidden="true"),
        element("g", *columns, class_="dots", role="listbox", aria_label="Evaluated sets"),
        class_="landscape",
        width="100%",
        height=LANDSCAPE + 34,
    )
    up, right = (element("p", words, class_="axis-title") for words in ("score", "number of edits"))
    return join([up, plot, right]), dots


def _column(size: int, place: float, *, labelled: bool) -> Markup:
    """The place of all sets of one size."""
    label = element("text", str(size), class_="size", x=percent(place), y=LANDSCAPE + 16, aria_hidden="true")
    name = f"{size} edit{'' if size == 1 else 's'}"
    return element("g", label if labelled else None, data_size=size, role="group", aria_label=name)


def _beside_each_other(
    facts: Facts, axis: Scale, numbered: Sequence[tuple[int, KnownChange]], place: float, room: float
) -> Iterator[tuple[int, Dot]]:
    """Sets of one size, kept apart from each other around a place; `room` is a share of the width."""
    beside: dict[int, int] = {}
    for order, known in sorted(numbered, key=lambda pair: abs(pair[1].logit - facts.why.original)):
        y = axis.y(known.logit)
        bin_ = round(y / (2 * DOT))
        rank = beside[bin_] = beside.get(bin_, -1) + 1
        step = (rank + 1) // 2 * (2 * DOT + 0.6) / WIDE
        x = place + min(step, room / 2 - DOT / WIDE) * (1 if rank % 2 else -1)
        yield order, Dot(round(100 * x, 1), round(y))


def progress(facts: Facts) -> Markup:
    """How far the best set so far moved the score towards the other decision, after each evaluation."""
    why = facts.why
    tried = facts.known[: len(why.evaluated)]
    if len(tried) < 2:
        return Markup("")
    axis = scale(known.logit for known in facts.known)
    best, points, found = why.original, [], None
    for place, known in enumerate(tried):
        if shift(why.original, known.logit) > shift(why.original, best):
            best = known.logit
        if found is None and flips(why.original, known.logit):
            found = place
        points.append((place / (len(tried) - 1), axis.y(best) / LANDSCAPE))
    path = "M" + "L".join(f"{number(1000 * x)} {number(100 * y)}" for x, y in _corners(points))
    line = element("path", d=path, vector_effect="non-scaling-stroke")
    limit = 100 * axis.y(0.0) / LANDSCAPE
    ruler = element("path", class_="decision", d=f"M0 {number(limit)}H1000", vector_effect="non-scaling-stroke")
    stretched = {"viewBox": "0 0 1000 100", "preserveAspectRatio": "none"}
    chart = element("svg", ruler, line, class_="progress", width="100%", height=64, aria_hidden="true", **stretched)
    reached = "none flips the prediction"
    if found is not None:
        reached = f"the first counterfactual was set {found + 1:,}"
    words = f"The best score so far, over {len(tried):,} sets in the order of evaluation; {reached}."
    ends = element("p", element("span", "first set"), element("span", f"set {len(tried):,}"), class_="between")
    return element("figure", chart, ends, element("figcaption", words))


def _corners(points: Sequence[tuple[float, float]]) -> Iterator[tuple[float, float]]:
    """The corners of a step function."""
    last = None
    for x, y in points:
        if last is not None and y != last:
            yield x, last
        if y != last:
            yield x, y
        last = y
    yield points[-1]


def waterfall(facts: Facts) -> Markup:
    """The answer one edit after the other, and the score after each."""
    why = facts.why
    written = scores(*why.logits)
    rows = [_step(Markup("Original"), None, why.original, written[0], None)]
    previous: float | None = why.original
    for row, logit, score in zip(why.rows, why.logits[1:], written[1:], strict=True):
        event = why.candidates[facts.number[row]]
        words = join([facts.link(event), element("small", facts.beside(event))])
        rows.append(_step(words, previous, logit, score, facts.number[row]))
        previous = logit
    return element("ol", *rows, class_="waterfall", tabindex=0 if len(rows) > MANY_STEPS else None)


def _step(label: Markup, previous: float | None, logit: float | None, score: str, event: int | None) -> Markup:
    parts = [element("line", class_="decision", x1="50%", x2="50%", y1=0, y2=26)]
    if logit is not None:
        last = probability(logit)
        first = last if previous is None else probability(previous)
        low, high = sorted((first, last))
        parts.append(element("rect", x=percent(low), y=9, width=percent(high - low), height=8, class_="moved"))
        parts.append(element("circle", cx=percent(last), cy=13, r=5))
    bar = element("svg", *parts, width="100%", height=26, aria_hidden="true")
    prediction = "–" if logit is None else decision(logit)
    return element(
        "li",
        element("span", label, class_="what"),
        element("span", bar, class_="bar"),
        element("span", element("b", score), " ", prediction, class_="prediction"),
        data_e=event,
    )


def alternatives(facts: Facts) -> Markup:
    """The answer and its alternatives, side by side."""
    cards = [_alternative(facts, place, state) for place, state in enumerate(facts.states) if state.change]
    return element("div", *cards, class_="ways")


def _alternative(facts: Facts, place: int, state: NamedChange) -> Markup:
    known = facts.answers.get(tuple(sorted(state.change)))
    logit, score = (None, "–") if known is None else (known.logit, known.score)
    events = [facts.why.candidates[candidate] for candidate in state.change]
    listed = [
        element(
            "li",
            facts.link(event),
            element("small", facts.beside(event)),
            data_e=candidate,
        )
        for candidate, event in zip(state.change, events, strict=True)
    ][:5]
    if len(events) > 5:
        listed.append(element("li", f"and {len(events) - 5} more", class_="more"))
    prediction = "not evaluated" if logit is None else decision(logit)
    trust = "verified by replay" if state.verified else "found by the search"
    return element(
        "section",
        element("h3", state.name),
        element("p", element("b", score), " ", prediction, class_="prediction"),
        meter(facts.why.original, logit, small=True),
        element("ul", *listed),
        element("p", element("span", trust), element("button", "Show", type="button", data_state=place), class_="foot"),
        class_="way",
    )
