"""The waterfall of what each event adds to a decision, as a drawing."""

from __future__ import annotations

from cody.explaining.explanation import Explanation
from cody.explaining.waterfall import amount, labels, waterfall
from cody.models.margins import shift
from cody.web.markup import Markup, element, join

ROW, LEFT, WIDTH, RIGHT = 24, 300, 460, 130  # height of a line; widths of labels, bars and numbers


def waterfall_chart(why: Explanation) -> Markup:
    """A line for each step, from the margin without any candidate to that with all of them."""
    assert why.shares is not None
    shares, steps = why.shares, waterfall(why.shares)
    ends = [end for step in steps for end in (step.begin, step.end)] + [0.0, why.shares.base]
    least, span = min(ends), (max(ends) - min(ends)) or 1.0

    def place(margin: float) -> float:
        return round(LEFT + WIDTH * (margin - least) / span, 1)

    parts = [_line(0, f"without all {len(shares.rows)}", f"{shares.base:.3f}")] if shares.adds_up else []
    for number, (step, label) in enumerate(zip(steps, labels(why, steps), strict=True), start=len(parts)):
        begin, end = sorted([place(step.begin), place(step.end)])
        kind = "against" if shares.adds_up and shift(why.original, why.original + step.value) > 0 else "for"
        words = "  ".join(part for part in (label[1], label[2]) if part)
        bar = element("rect", x=begin, y=number * ROW + 5, width=max(1.0, end - begin), height=ROW - 10, class_=kind)
        parts += [bar, _line(number, words, amount(step, shares))]
    if shares.adds_up:
        parts.append(_line(len(steps) + 1, "with all of them", f"{why.original:.3f}"))
    height = (len(steps) + 2 * shares.adds_up) * ROW
    zero = element("line", x1=place(0.0), x2=place(0.0), y1=0, y2=height, class_="zero")
    box = f"0 0 {LEFT + WIDTH + RIGHT} {height}"
    return element("svg", zero, *parts, viewBox=box, class_="waterfall", role="img", aria_label="Waterfall")


def _line(number: int, words: str, amount: str) -> Markup:
    y = number * ROW + ROW / 2 + 4
    shown = words if len(words) <= 44 else words[:43] + "…"
    left = element("text", shown, x=LEFT - 10, y=y, text_anchor="end")
    return join([left, element("text", amount, x=LEFT + WIDTH + RIGHT - 4, y=y, text_anchor="end")])
