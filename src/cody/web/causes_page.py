"""The page of shared causes: the finding, the curve, and the causes, in one HTML file."""

from __future__ import annotations

from cody.study.causes import SharedCauses
from cody.study.causes_words import notes
from cody.utils.words import count, sanitize
from cody.web.impact_page import card, tile
from cody.web.markup import Markup, element, percent
from cody.web.page import document

HEIGHT, ABOVE = 180, 12  # of the curve, in pixels; ABOVE is left above and below it


def causes_page(found: SharedCauses) -> str:
    """Shared causes as a self-contained HTML file."""
    parts = [_head(found), *([_curve(found), _causes(found)] if found.causes else [])]
    return document(
        "Causes that predictions share",
        element("main", *parts, class_="impact"),
        [],
        served=False,
        styles=["impact.css"],
    )


def _head(found: SharedCauses) -> Markup:
    words = element(
        "div",
        element("p", f"Shared causes of {count(found.predictions, 'prediction')}", class_="occasion"),
        element("h1", found.sentence),
        *(element("p", note, class_="answer") for note in notes(found)),
        class_="words",
    )
    tiles = [
        tile(f"{found.flips:,}", f"of {found.predictions:,} predictions flip", "without all that are listed"),
        tile(
            f"{len(found.causes):,}", f"shared {found.thing}{'' if len(found.causes) == 1 else 's'}", "found greedily"
        ),
    ]
    return element("header", words, element("ul", *tiles, class_="tiles"), class_="head card")


def _curve(found: SharedCauses) -> Markup:
    """How many predictions flip without the first 0, 1, 2, … causes, as steps."""
    flips = [0, *(cause.flips for cause in found.causes)]
    width, parts = 1 / len(flips), []
    for share in (0.0, 0.5, 1.0):
        y = _y(share)
        parts.append(element("line", x1=0, x2="100%", y1=y, y2=y, stroke="var(--line)"))
        label = f"{share * found.predictions:g}"
        parts.append(element("text", label, x="100%", y=y - 3, text_anchor="end", font_size=11, fill="var(--soft)"))
    for number, flipped in enumerate(flips):
        y, x = _y(flipped / found.predictions), number * width
        title = f"without the first {number}: {flipped:,} of {found.predictions:,} flip"
        ends = {"x1": percent(x), "x2": percent(x + width), "y1": y, "y2": y}
        parts.append(element("line", element("title", title), **ends, stroke="var(--ink)", stroke_width=3))
        if number:
            rise = {"x1": percent(x), "x2": percent(x), "y1": _y(flips[number - 1] / found.predictions), "y2": y}
            parts.append(element("line", **rise, stroke="var(--ink)", stroke_width=1.5))
        middle = percent(x + width / 2)
        parts.append(element("text", str(number), x=middle, y=HEIGHT + 14, text_anchor="middle", font_size=11))
    drawing = element("svg", *parts, width="100%", height=HEIGHT + 20, role="img", aria_label=found.sentence)
    words = f"Predictions that flip without the first 1, 2, … of the {found.thing}s below."
    return card("curve", "How many explain how much", words, drawing)


def _y(share: float) -> float:
    return round(ABOVE + (HEIGHT - 2 * ABOVE) * (1 - share), 1)


def _causes(found: SharedCauses) -> Markup:
    heads = ["without it and those above", "events", "flip", "", "more", "of its own nodes"]
    head = element("tr", *(element("th", name, scope="col") for name in heads))
    rows = []
    for cause in found.causes:
        share = cause.flips / found.predictions
        bar = element(
            "svg", element("rect", x=0, y=3, width=percent(share), height=12, class_="mean"), width="100%", height=18
        )
        cells = [f"{cause.events:,}", f"{cause.flips:,} ({100 * share:.0f} %)"]
        rows.append(
            element(
                "tr",
                element("th", sanitize(cause.name, 60), scope="row"),
                *(element("td", cell) for cell in cells),
                element("td", bar, class_="bar"),
                *(element("td", cell) for cell in (f"{cause.more:+,}", f"{cause.own:,}")),
            )
        )
    table = element("table", element("thead", head), element("tbody", *rows), class_="bins")
    words = "Every row is computed from all predictions with all of these events removed, and verified by replay."
    return card("causes", "The causes", words, table)
