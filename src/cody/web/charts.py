"""The other charts: the score meter, the evaluated sets, the progress of the search, and the answer step by step."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from functools import partial
from itertools import accumulate

from cody.explaining.explanation import Explanation
from cody.explaining.waterfall import amount, labels, waterfall
from cody.explaining.wording import capital
from cody.models.margins import flips, shift
from cody.utils.words import sanitize
from cody.web.facts import Facts, KnownChange, NamedChange
from cody.web.gauge import Gauge, with_minus
from cody.web.markup import Child, Markup, join, number, percent, tag

MOST_STEPS = 6  # that are listed; more of them are a curve
MOST_LISTED = 5  # events of an alternative
MOST_LABELS = 13  # below the landscape; more would overlap
DOT = 3.4  # pixels
LANDSCAPE = 250.0  # pixels high
NEAR_AN_END = 0.25  # share of a meter that the words at its end may take
LONGEST_END = 14  # letters of such words
WIDE = 520.0  # pixels; dots are kept apart as if the landscape had this width
Points = Sequence[tuple[float, float]]
ABOVE = 10.0  # pixels of the landscape above the highest margin, and below the lowest


def meter(gauge: Gauge, original: float, now: float | None, *, small: bool = False) -> Markup:
    """The original and the current margin between the two ends, with the line where the decision changes."""
    first = gauge.place(original)
    last = first if now is None else gauge.place(now)
    side = "for" if now is not None and now > 0 else "against"
    y = 7 if small else 14
    parts = [
        tag.rect(class_="track against", x=0, y=y - 3, width=percent(gauge.line), height=6),
        tag.rect(class_="track for", x=percent(gauge.line), y=y - 3, width=percent(1 - gauge.line), height=6),
        _moved(first, last, y=y - 3, height=6),
        decision_line(gauge, y - 7 if small else 0, y + 7 if small else 28),
        tag.circle(class_="first", cx=percent(first), cy=y, r=4.5 if small else 6.5),
        tag.circle(class_=f"now {side}", cx=percent(last), cy=y, r=4.5 if small else 7.5, hidden=now is None),
    ]
    return tag.svg(*parts, class_="meter", width="100%", height=14 if small else 28, aria_hidden="true")


def _moved(first: float, last: float, *, y: int, height: int) -> Markup:
    """The bar between two places, whichever comes first."""
    return tag.rect(x=percent(min(first, last)), y=y, width=percent(abs(last - first)), height=height, class_="moved")


def decision_line(gauge: Gauge, top: float, bottom: float) -> Markup:
    """The vertical line where the decision changes."""
    return tag.line(class_="decision", x1=percent(gauge.line), x2=percent(gauge.line), y1=top, y2=bottom)


def ends(facts: Facts) -> Markup:
    """The words below a meter. Where the line is or may come too near an end, its label has a line of its own."""
    gauge = facts.gauge
    left, middle, right = gauge.ends
    apart = NEAR_AN_END <= gauge.line <= 1 - NEAR_AN_END and max(len(left), len(right)) <= LONGEST_END
    beside = apart and not facts.movable
    anchor = "middle" if 0.05 <= gauge.line <= 0.95 else "start" if gauge.line < 0.5 else "end"
    return tag.svg(
        tag.text(left, x=0, y=13),
        tag.text(middle, class_=f"limit {anchor}", x=percent(gauge.line), y=13 if beside else 29),
        tag.text(right, class_="end", x="100%", y=13),
        class_="ends",
        width="100%",
        height=18 if beside else 34,
    )


def _height(facts: Facts, margin: float) -> float:
    """Where a margin lies on a vertical axis from one end of the gauge to the other, in pixels from the top."""
    return ABOVE + (LANDSCAPE - 2 * ABOVE) * (1 - facts.gauge.place(margin))


def _marks(gauge: Gauge) -> Iterator[Markup]:
    """Labels that are round and not too close to each other."""
    placed: list[float] = []
    for place, label in gauge.marks():
        y = ABOVE + (LANDSCAPE - 2 * ABOVE) * (1 - place)
        if all(abs(y - other) >= 20 for other in placed):
            yield tag.line(class_="rule" if placed else "decision", x1=0, x2="100%", y1=y, y2=y)
            yield tag.text(label, class_="score", x=0, y=y - 3)
            placed.append(y)


def landscape(facts: Facts) -> tuple[Markup, list[float]]:
    """Every evaluated set by its number of edits and its score; where each lies from left to right, in per cent.

    The script draws the dots.
    """
    sizes = sorted({len(known.change) for known in facts.known})
    every = math.ceil(len(sizes) / MOST_LABELS)
    dots = [0.0] * len(facts.known)
    columns = []
    for rank, size in enumerate(sizes):
        place = (rank + 0.5) / len(sizes) * 0.9 + 0.08
        numbered = [(order, known) for order, known in enumerate(facts.known) if len(known.change) == size]
        for order, dot in _beside_each_other(facts, numbered, place, 0.86 / len(sizes)):
            dots[order] = dot
        label = tag.text(str(size), class_="size", x=percent(place), y=LANDSCAPE + 16, aria_hidden="true")
        name = f"{size} edit{'' if size == 1 else 's'}"
        columns.append(tag.g(None if rank % every else label, data_size=size, role="group", aria_label=name))
    plot = tag.svg(
        tag.g(*_marks(facts.gauge), aria_hidden="true"),
        tag.g(*columns, class_="dots", role="listbox", aria_label="Evaluated sets"),
        class_="landscape",
        width="100%",
        height=LANDSCAPE + 34,
    )
    up = tag.p(facts.gauge.word, class_="axis-title")
    right = tag.p("number of edits; only the numbers that were tried", class_="axis-title")
    return join([up, plot, right]), dots


def _beside_each_other(
    facts: Facts, numbered: Sequence[tuple[int, KnownChange]], place: float, room: float
) -> Iterator[tuple[int, float]]:
    """Sets of one size, kept apart from each other around a place; `room` is a share of the width."""
    beside: dict[int, int] = {}
    for order, known in sorted(numbered, key=lambda pair: abs(pair[1].logit - facts.why.original)):
        y = _height(facts, known.logit)
        bin_ = round(y / (2 * DOT))
        rank = beside[bin_] = beside.get(bin_, -1) + 1
        step = (rank + 1) // 2 * (2 * DOT + 0.6) / WIDE
        x = place + min(step, room / 2 - DOT / WIDE) * (1 if rank % 2 else -1)
        yield order, round(100 * x, 1)


def progress(facts: Facts) -> Markup:
    """How far the best set so far moved the margin towards the other decision, after each evaluation."""
    original, tried = facts.why.original, facts.known[: len(facts.why.evaluated)]
    if len(tried) < 2:
        return Markup("")
    margins = [known.logit for known in tried]
    best = accumulate(margins, partial(max, key=partial(shift, original)), initial=original)
    points = [(place / (len(tried) - 1), 1 - facts.gauge.place(margin)) for place, margin in enumerate([*best][1:])]
    found = next((place for place, margin in enumerate(margins, start=1) if flips(original, margin)), None)
    reached = "none flips the prediction" if found is None else f"the first counterfactual was set {found:,}"
    over = f"The best {facts.gauge.word} so far, over {len(tried):,} sets in the order of evaluation; "
    words = join([over, tag.span(reached), "."])
    return _curve(facts, list(_corners(points)), ("first set", f"set {len(tried):,}"), words, tried=len(tried))


def _curve(facts: Facts, points: Points, ends: tuple[str, str], words: Child, *, tried: int | None = None) -> Markup:
    """A line over the whole gauge, from its right end at the top to its left end at the bottom.

    Args:
        facts: Of the page.
        points: Of the line, as shares of width and height.
        ends: What stands below its two ends.
        words: The caption.
        tried: The number of sets that it is about, if it can be drawn again for another threshold.
    """
    path = "M" + "L".join(f"{number(1000 * x)} {number(100 * y)}" for x, y in points)
    line = tag.path(d=path, vector_effect="non-scaling-stroke")
    across = f"M0 {number(100 * (1 - facts.gauge.line))}H1000"
    limit = tag.path(class_="decision", d=across, vector_effect="non-scaling-stroke")
    stretched = {"viewBox": "0 0 1000 100", "preserveAspectRatio": "none"}
    chart = tag.svg(limit, line, class_="progress", width="100%", height=110, aria_hidden="true", **stretched)
    top, bottom = facts.gauge.ends[2], facts.gauge.ends[0]
    axis = tag.p(tag.span(top), tag.span(bottom), class_="sides")
    below = tag.p(*(tag.span(end) for end in ends), class_="between")
    return tag.figure(tag.div(axis, chart, class_="curve"), below, tag.figcaption(words), data_tried=tried)


def _corners(points: Points) -> Iterator[tuple[float, float]]:
    """The corners of a step function."""
    last = None
    for x, y in points:
        if last is not None and y != last:
            yield x, last
        if y != last:
            yield x, y
        last = y
    yield points[-1]


def steps(facts: Facts) -> Markup:
    """The answer one edit after the other, and the score after each; a long one as a curve."""
    why = facts.why
    if len(why.rows) > MOST_STEPS:
        known = [(place, logit) for place, logit in enumerate(why.logits) if logit is not None]
        points = [(place / len(why.rows), 1 - facts.gauge.place(logit)) for place, logit in known]
        words = (
            f"The {facts.gauge.word} with the first 0, 1, … {len(why.rows)} of them changed, as the search put them."
        )
        return _curve(facts, points, ("nothing changed", f"all {len(why.rows)}"), words)
    numbers = [facts.number[row] for row in why.rows]
    events = [why.candidates[number] for number in numbers]
    labels = ["Original", *(join([facts.link(event), tag.small(facts.beside(event))]) for event in events)]
    margins, written = [why.original, *why.logits[1:]], facts.gauge.written(*why.logits)
    each = zip([None, *numbers], labels, [why.original, *margins[:-1]], margins, written, strict=True)
    return tag.ol(*(_step(facts, *step) for step in each), class_="waterfall")


def _step(
    facts: Facts, event: int | None, label: str, previous: float | None, logit: float | None, score: str
) -> Markup:
    parts = [decision_line(facts.gauge, 0, 26)]
    if logit is not None:
        last = facts.gauge.place(logit)
        first = last if previous is None else facts.gauge.place(previous)
        parts.append(_moved(first, last, y=9, height=8))
        parts.append(tag.circle(cx=percent(last), cy=13, r=5, class_=facts.side(logit)))
    bar = tag.svg(*parts, width="100%", height=26, aria_hidden="true")
    prediction = "–" if logit is None else outcome(facts, logit)
    return tag.li(
        tag.span(label, class_="what"),
        tag.span(bar, class_="bar"),
        tag.span(tag.b(score), " ", prediction, class_="prediction"),
        data_e=event,
    )


def outcome(facts: Facts, margin: float) -> Markup:
    """What is decided at a margin. The script reads the margin where the line can be moved."""
    words = sanitize(facts.why.decision.cell(margin), 80)
    return tag.span(words, data_margin=f"{margin:g}") if facts.movable else join([words])


def alternatives(facts: Facts) -> Markup:
    """The answer and its alternatives, side by side."""
    cards = [_alternative(facts, place, state) for place, state in enumerate(facts.states) if state.change]
    return tag.div(*cards, class_="ways")


def _alternative(facts: Facts, place: int, state: NamedChange) -> Markup:
    known = facts.answers.get(tuple(sorted(state.change)))
    logit, score = (None, "–") if known is None else (known.logit, known.score)
    events = [facts.why.candidates[number] for number in state.change]
    if len(events) > MOST_LISTED:  # in words: lists of this length look alike
        listed = [tag.li(capital(facts.why.edits_of([event.row for event in events])) + ".", class_="more")]
    else:
        pairs = zip(state.change, events, strict=True)
        listed = [tag.li(facts.link(event), tag.small(facts.beside(event)), data_e=number) for number, event in pairs]
    prediction = "not evaluated" if logit is None else outcome(facts, logit)
    trust = "verified by replay" if state.verified else "found by the search"
    return tag.section(
        tag.h3(state.name),
        tag.p(tag.b(score), " ", prediction, class_="prediction"),
        meter(facts.gauge, facts.why.original, logit, small=True),
        tag.ul(*listed),
        tag.p(tag.span(trust), tag.button("Show", type="button", data_state=place), class_="foot"),
        class_="way",
    )


# What each event adds

ROW, LEFT, WIDTH, RIGHT = 24, 300, 460, 130  # height of a line; widths of labels, bars and numbers


def waterfall_chart(why: Explanation) -> Markup:
    """A line for each step, from the margin without any candidate to that with all of them."""
    assert why.shares is not None
    shares, steps = why.shares, waterfall(why.shares)
    ends = [end for step in steps for end in (step.begin, step.end)] + [0.0, why.shares.base]
    least, span = min(ends), (max(ends) - min(ends)) or 1.0

    def place(margin: float) -> float:
        return round(LEFT + WIDTH * (margin - least) / span, 1)

    parts = [_waterfall_line(0, f"without all {len(shares.rows)}", f"{shares.base:.3f}")] if shares.adds_up else []
    for line, (step, label) in enumerate(zip(steps, labels(why, steps), strict=True), start=len(parts)):
        begin, end = sorted([place(step.begin), place(step.end)])
        kind = "against" if shares.adds_up and shift(why.original, why.original + step.value) > 0 else "for"
        words = "  ".join(part for part in (label[1], label[2]) if part)
        bar = tag.rect(x=begin, y=line * ROW + 5, width=max(1.0, end - begin), height=ROW - 10, class_=kind)
        parts += [bar, _waterfall_line(line, words, amount(step, shares))]
    if shares.adds_up:
        parts.append(_waterfall_line(len(steps) + 1, "with all of them", f"{why.original:.3f}"))
    height = (len(steps) + 2 * shares.adds_up) * ROW
    zero = tag.line(x1=place(0.0), x2=place(0.0), y1=0, y2=height, class_="zero")
    box = f"0 0 {LEFT + WIDTH + RIGHT} {height}"
    return tag.svg(zero, *parts, viewBox=box, class_="waterfall", role="img", aria_label="Waterfall")


def _waterfall_line(number: int, words: str, amount: str) -> Markup:
    y = number * ROW + ROW / 2 + 4
    shown = words if len(words) <= 44 else words[:43] + "…"
    left = tag.text(shown, x=LEFT - 10, y=y, text_anchor="end")
    return join([left, tag.text(with_minus(amount), x=LEFT + WIDTH + RIGHT - 4, y=y, text_anchor="end")])
