"""The charts of a survey's page. Each figure is a button that shows the predictions behind it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from cody.study.report import Decider, Fragile
from cody.study.shares import Contrast, Share
from cody.utils.words import count, sanitize
from cody.web.markup import Child, Markup, element, join, number, percent

HEIGHT = 150  # pixels of the curve
TOP = 26  # pixels above 100 %, for the label of a point
ROW = 18  # pixels
RARE = 0.05  # share of the candidates; below it, few decisive events of that kind mean nothing


class ChosenPredictions(NamedTuple):
    """The predictions behind a figure, as the script identifies them."""

    list: int
    predictions: int

    def button(self, *children: Child, kind: str) -> Markup:
        """A figure that can be selected."""
        behind = element("span", f"; shows {count(self.predictions, 'prediction')}", class_="hidden-text")
        return element(
            "button",
            *children,
            behind,
            type="button",
            class_=f"choose {kind}",
            data_list=self.list,
            aria_pressed="false",
            disabled=not self.predictions,
        )


def percent_words(value: float) -> str:
    return f"{100 * value:.0f} %"


def between(share: Share) -> str:
    return f"{100 * share.low:.0f}–{100 * share.high:.0f} %"


# ---- the curve -------------------------------------------------------------------------------------------------------


def fragility(points: Sequence[Fragile], chosen: Sequence[ChosenPredictions]) -> Markup:
    """A curve over the number of events, with its intervals."""
    columns = [_point(each, one) for each, one in zip(points, chosen, strict=True)]
    return join(
        [
            element("div", _curve(points), _levels(), *columns, class_="curve"),
            element("p", "maximum number of edited events", class_="axis-title"),
        ]
    )


def _y(share: float) -> float:
    return TOP + (HEIGHT - TOP) * (1 - share)


def _curve(points: Sequence[Fragile]) -> Markup:
    """The background of the points: rules at 0, 50 and 100 %, the band of the intervals, and the line."""
    places = [100 * (place + 0.5) / len(points) for place in range(len(points))]
    line = "L".join(f"{number(x)} {number(_y(each.share.value))}" for x, each in zip(places, points, strict=True))
    upper = [f"{number(x)} {number(_y(each.share.high))}" for x, each in zip(places, points, strict=True)]
    lower = [f"{number(x)} {number(_y(each.share.low))}" for x, each in zip(places, points, strict=True)]
    rules = [
        element("path", d=f"M0 {number(_y(share))}H100", class_="rule", vector_effect="non-scaling-stroke")
        for share in (0.0, 0.5, 1.0)
    ]
    drawn = [
        *rules,
        element("path", d=f"M{'L'.join([*upper, *lower[::-1]])}Z", class_="band"),
        element("path", d=f"M{line}", class_="line", vector_effect="non-scaling-stroke"),
    ]
    stretched = {"viewBox": f"0 0 100 {HEIGHT}", "preserveAspectRatio": "none"}
    return element("svg", *drawn, class_="behind", width="100%", height=HEIGHT, aria_hidden="true", **stretched)


def _levels() -> Markup:
    """The labels of the rules."""
    levels = [element("text", f"{100 * share:.0f} %", x=-6, y=_y(share) + 4) for share in (0.0, 0.5, 1.0)]
    return element("svg", *levels, class_="behind", width="100%", height=HEIGHT, aria_hidden="true")


def _point(each: Fragile, chosen: ChosenPredictions) -> Markup:
    share = each.share
    low, high = _y(share.low), _y(share.high)
    parts = [
        element("line", x1="50%", x2="50%", y1=low, y2=high, class_="whisker"),
        element("circle", cx="50%", cy=_y(share.value), r=5),
        element("text", percent_words(share.value), x="50%", y=high - 8),
    ]
    words = f"At most {count(each.edits, 'event')}: {percent_words(share.value)}, interval {between(share)}"
    return chosen.button(
        element("svg", *parts, width="100%", height=HEIGHT, aria_hidden="true"),
        element("span", str(each.edits), class_="size", aria_hidden="true"),
        element("span", words, class_="hidden-text"),
        kind="point",
    )


# ---- rows ------------------------------------------------------------------------------------------------------------


def contrasts(rows: Sequence[Contrast], chosen: Sequence[ChosenPredictions]) -> Markup:
    """Shares among decisive events, next to those among all candidates."""
    return join(
        [
            _scale("● decisive, ○ all candidates", "ratio"),
            element("ul", *(element("li", _contrast(*pair)) for pair in zip(rows, chosen, strict=True)), class_="rows"),
        ]
    )


def _scale(words: str, last: str) -> Markup:
    """The header: the legend, and the axis from 0 to 100 %."""
    axis = element("span", element("i", "0"), element("i", "50"), element("i", "100 %"), class_="axis")
    return element("p", element("span", words), axis, element("span", last), class_="scale", aria_hidden="true")


def _contrast(each: Contrast, chosen: ChosenPredictions) -> Markup:
    decisive, candidates = each.decisive, each.candidates
    low, high = sorted((decisive.value, candidates.value))
    parts = [
        *_rules(),
        element(
            "rect", x=percent(decisive.low), y=6, width=percent(decisive.high - decisive.low), height=6, class_="band"
        ),
        element("line", x1=percent(low), x2=percent(high), y1=9, y2=9, class_="from-to"),
        element("circle", cx=percent(candidates.value), cy=9, r=4.5, class_="all"),
        element("circle", cx=percent(decisive.value), cy=9, r=5, class_="decisive"),
    ]
    shares = (
        f": decisive {percent_words(decisive.value)}, interval {between(decisive)}, "
        f"of all candidates {percent_words(candidates.value)}"
    )
    return chosen.button(
        element("span", each.what, element("span", shares, class_="hidden-text"), class_="what"),
        element("svg", *parts, width="100%", height=ROW, aria_hidden="true"),
        _ratio(each),
        kind="row",
    )


def _rules() -> list[Markup]:
    return [element("line", x1=percent(at), x2=percent(at), y1=0, y2=ROW, class_="rule") for at in (0.0, 0.5, 1.0)]


def _ratio(each: Contrast) -> Markup:
    """The ratio, with an arrow if its interval does not contain 1."""
    ratio = each.ratio
    if ratio is None:
        return element("span", "–", element("span", "no ratio", class_="hidden-text"), class_="ratio")
    rare = each.candidates.value < RARE
    arrow = "▲" if ratio.low > 1 else "▼" if ratio.high < 1 and not rare else ""
    clear = {"▲": "over-represented", "▼": "under-represented"}.get(arrow, "")
    return element(
        "span",
        element("b", f"{arrow} {ratio.value:.1f}×".strip(), class_="clear" if arrow else None, title=clear or None),
        element("small", f"{ratio.low:.1f}–{ratio.high:.1f}"),
        class_="ratio",
    )


def deciders(heading: str, found: Sequence[Decider], chosen: Sequence[ChosenPredictions]) -> Markup | None:
    """Nodes and events that decide, with the number of predictions, and of those for which they are candidates."""
    if not found:
        return None
    most = max(each.could for each in found)
    rows = [element("li", _decider(each, most, one)) for each, one in zip(found, chosen, strict=True)]
    return join([element("h4", heading), element("ul", *rows, class_="rows")])


def _decider(each: Decider, most: int, chosen: ChosenPredictions) -> Markup:
    name = sanitize(each.name, 32) if each.row is None else f"{sanitize(each.name, 32)} ({each.row})"
    parts = [
        element("rect", x=0, y=5, width=percent(each.could / most), height=8, class_="could"),
        element("rect", x=0, y=5, width=percent(each.decides / most), height=8, class_="decides"),
    ]
    return chosen.button(
        element("span", element("bdi", name), class_="what"),
        element("svg", *parts, width="100%", height=ROW, aria_hidden="true"),
        element("span", element("b", f"{each.decides}"), element("small", f"of {each.could}"), class_="ratio"),
        kind="row",
    )


def comparison_rows(rows: Sequence[tuple[str, Share, ChosenPredictions]]) -> Markup:
    """Shares on which two models agree."""
    made = []
    for what, share, chosen in rows:
        band = element(
            "rect", x=percent(share.low), y=6, width=percent(share.high - share.low), height=6, class_="band"
        )
        dot = element("circle", cx=percent(share.value), cy=9, r=5, class_="decisive")
        made.append(
            element(
                "li",
                chosen.button(
                    element("span", what, class_="what"),
                    element("svg", *_rules(), band, dot, width="100%", height=ROW, aria_hidden="true"),
                    element(
                        "span",
                        element("b", percent_words(share.value)),
                        element("small", between(share)),
                        class_="ratio",
                    ),
                    kind="row",
                ),
            )
        )
    return join([_scale("", ""), element("ul", *made, class_="rows")])
