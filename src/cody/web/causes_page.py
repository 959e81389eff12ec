"""The page of shared causes: the finding, the curve, and the causes, in one HTML file."""

from __future__ import annotations

from cody.study.causes import SharedCauses
from cody.utils.words import count, sanitize
from cody.web.markup import Markup, bar, card, percent, report_head, row, table, tag, tile
from cody.web.page import report_page

HEIGHT, ABOVE = 180, 12  # of the curve, in pixels; ABOVE is left above and below it


def causes_page(found: SharedCauses) -> str:
    """Shared causes as a self-contained HTML file."""
    parts = [_head(found), *([_curve(found), _causes(found)] if found.causes else [])]
    return report_page("Causes that predictions share", *parts)


def _head(found: SharedCauses) -> Markup:
    number = len(found.causes)
    tiles = [
        tile(f"{found.flips:,}", f"of {found.predictions:,} predictions flip", "without all that are listed"),
        tile(f"{number:,}", f"shared {found.thing}{'' if number == 1 else 's'}", "found greedily"),
    ]
    occasion = f"Shared causes of {count(found.predictions, 'prediction')}"
    return report_head(occasion, found.sentence, found.notes(), tiles=tiles)


def _curve(found: SharedCauses) -> Markup:
    """How many predictions flip without the first 0, 1, 2, … causes, as steps."""
    flips = [0, *(cause.flips for cause in found.causes)]
    width, parts = 1 / len(flips), []
    for share in (0.0, 0.5, 1.0):
        y = _y(share)
        parts.append(tag.line(x1=0, x2="100%", y1=y, y2=y, stroke="var(--line)"))
        label = f"{share * found.predictions:g}"
        parts.append(tag.text(label, x="100%", y=y - 3, text_anchor="end", font_size=11, fill="var(--soft)"))
    for number, flipped in enumerate(flips):
        y, x = _y(flipped / found.predictions), number * width
        title = f"without the first {number}: {flipped:,} of {found.predictions:,} flip"
        ends = {"x1": percent(x), "x2": percent(x + width), "y1": y, "y2": y}
        parts.append(tag.line(tag.title(title), **ends, stroke="var(--ink)", stroke_width=3))
        if number:
            rise = {"x1": percent(x), "x2": percent(x), "y1": _y(flips[number - 1] / found.predictions), "y2": y}
            parts.append(tag.line(**rise, stroke="var(--ink)", stroke_width=1.5))
        middle = percent(x + width / 2)
        parts.append(tag.text(str(number), x=middle, y=HEIGHT + 14, text_anchor="middle", font_size=11))
    drawing = tag.svg(*parts, width="100%", height=HEIGHT + 20, role="img", aria_label=found.sentence)
    words = f"Predictions that flip without the first 1, 2, … of the {found.thing}s below."
    return card("curve", "How many explain how much", words, drawing)


def _y(share: float) -> float:
    return round(ABOVE + (HEIGHT - 2 * ABOVE) * (1 - share), 1)


def _causes(found: SharedCauses) -> Markup:
    heads = ["without it and those above", "events", "flip", "", "more", "its own links"]
    rows = []
    for cause in found.causes:
        share = cause.flips / found.predictions
        flips = f"{cause.flips:,} ({100 * share:.0f} %)"
        name = sanitize(cause.name, 60)
        rows.append(row(name, f"{cause.events:,}", flips, bar(share), f"{cause.more:+,}", f"{cause.own:,}"))
    words = "Every row is computed from all predictions with all of these events removed, and verified by replay."
    return card("causes", "The causes", words, table(heads, rows, "bins"))
