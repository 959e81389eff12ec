"""The charts of a survey's page. Each figure is a button that shows the predictions behind it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import NamedTuple

from cody.study.report import Decider, Fragile
from cody.study.shares import Contrast, Share, flipping
from cody.utils.words import count, sanitize
from cody.web.markup import Child, Markup, join, number, percent, tag

HEIGHT = 150  # pixels of the curve
TOP = 26  # pixels above 100 %, for the label of a point
ROW = 18  # pixels
RULES = (0.0, 0.5, 1.0)  # shares at which an axis has a rule and a label
RARE = 0.05  # share of the candidates; below it, few decisive events of that kind mean nothing


class Chosen(NamedTuple):
    """The predictions behind a figure, as the script identifies them."""

    list: int
    predictions: int

    def button(self, *children: Child, kind: str) -> Markup:
        """A figure that can be selected."""
        behind = tag.span(f"; shows {self._shown}", class_="hidden-text")
        disabled = not self.predictions
        return tag.button(*children, behind, type="button", disabled=disabled, **self._attributes(kind))

    def mark(self, *children: Child, words: str) -> Markup:
        """A part of a drawing that can be selected."""
        given = self._attributes("point") if self.predictions else {"class_": "point"}
        focus = 0 if self.predictions else None
        label = f"{words}; shows {self._shown}"
        return tag.g(*children, role="button", tabindex=focus, aria_label=label, **given)

    @property
    def _shown(self) -> str:
        return count(self.predictions, "prediction")

    def _attributes(self, kind: str) -> dict[str, object]:
        return {"class_": f"choose {kind}", "data_list": self.list, "aria_pressed": "false"}


def percent_words(value: float) -> str:
    return f"{100 * value:.0f} %"


def between(share: Share) -> str:
    return f"{100 * share.low:.0f}–{100 * share.high:.0f} %"


# ---- the curve -------------------------------------------------------------------------------------------------------


def fragility(
    sizes: Sequence[int], points: Sequence[Fragile], chosen: Sequence[Chosen], edit_name: str = "event"
) -> Markup:
    """The share of predictions that flip with at most so many edits, as steps with their intervals.

    Args:
        sizes: Of the counterfactual of each prediction; 0: none was found.
        points: Shares that can be selected; the axis ends at the last.
        chosen: The predictions behind each.
        edit_name: What an edit is, in words: an event, a message, a conversation.
    """
    last = points[-1].edits
    steps = flipping(sizes, last)
    marks = [_point(each, each.edits / last, one, edit_name) for each, one in zip(points, chosen, strict=True)]
    drawn = tag.svg(*_levels(), _steps(steps), *marks, width="100%", height=HEIGHT + 24, class_="curve")
    return join([drawn, tag.p(f"maximum number of changed {edit_name}s", class_="axis-title")])


def _y(share: float) -> float:
    return TOP + (HEIGHT - TOP) * (1 - share)


def _levels() -> Iterator[Markup]:
    """Rules at 0, 50 and 100 %, with their labels."""
    for share in RULES:
        yield tag.line(x1=0, x2="100%", y1=_y(share), y2=_y(share), class_="rule")
        yield tag.text(f"{100 * share:.0f} %", x=-6, y=_y(share) + 4, class_="level")
    yield tag.text("0", x=0, y=HEIGHT + 18, class_="size")


def _steps(steps: Sequence[Share]) -> Markup:
    """The line, and the band of the intervals: a share holds from its number of events up to the next."""
    line = _corners([0.0, *(each.value for each in steps)])
    upper, lower = (_corners([0.0, *shares])[2:] for shares in zip(*((e.high, e.low) for e in steps), strict=True))
    drawn = [
        tag.path(d=f"M{'L'.join([*upper, *lower[::-1]])}Z", class_="band"),
        tag.path(d=f"M{'L'.join(line)}", class_="line", vector_effect="non-scaling-stroke"),
    ]
    stretched = {"viewBox": f"0 0 {len(steps)} {HEIGHT}", "preserveAspectRatio": "none"}
    return tag.svg(*drawn, width="100%", height=HEIGHT, aria_hidden="true", **stretched)


def _corners(shares: Sequence[float]) -> list[str]:
    """The corners of a step function that takes these values at 0, 1, …"""
    steps = [(place, share) for place, pair in enumerate(pairwise(shares), start=1) for share in pair]
    return [f"{place} {number(_y(share))}" for place, share in [(0, shares[0]), *steps]]


def _point(each: Fragile, place: float, chosen: Chosen, edit_name: str) -> Markup:
    share = each.share
    parts = [
        tag.line(x1=0, x2=0, y1=_y(share.low), y2=_y(share.high), class_="whisker"),
        tag.circle(cx=0, cy=_y(share.value), r=5),
        tag.text(f"{100 * share.value:.0f}", x=0, y=_y(share.high) - 7),
        tag.text(str(each.edits), x=0, y=HEIGHT + 18, class_="size"),
        tag.rect(x=-14, y=0, width=28, height=HEIGHT + 24, class_="hit"),
    ]
    words = f"At most {count(each.edits, edit_name)}: {percent_words(share.value)}, interval {between(share)}"
    return tag.svg(chosen.mark(*parts, words=words), x=percent(place))


# ---- rows ------------------------------------------------------------------------------------------------------------


def contrasts(rows: Sequence[Contrast], chosen: Sequence[Chosen]) -> Markup:
    """Shares among decisive events, next to those among all candidates."""
    made = (_contrast(*pair) for pair in zip(rows, chosen, strict=True))
    return join([_scale("● decisive, ○ all candidates", "ratio"), tag.ul(*made, class_="rows")])


def _scale(words: str, last: str) -> Markup:
    """The header: the legend, and the axis from 0 to 100 %."""
    labels = [tag.text(f"{100 * at:.0f}{' %' * (at == 1)}", x=percent(at), y=12) for at in RULES]
    axis = tag.svg(*labels, width="100%", height=14)
    return tag.p(tag.span(words), axis, tag.span(last), class_="scale", aria_hidden="true")


def _contrast(each: Contrast, chosen: Chosen) -> Markup:
    decisive, candidates = each.decisive, each.candidates
    low, high = sorted((decisive.value, candidates.value))
    parts = [
        *_rules(),
        _band(decisive),
        tag.line(x1=percent(low), x2=percent(high), y1=9, y2=9, class_="from-to"),
        tag.circle(cx=percent(candidates.value), cy=9, r=4.5, class_="all"),
        tag.circle(cx=percent(decisive.value), cy=9, r=5, class_="decisive"),
    ]
    shares = (
        f": decisive {percent_words(decisive.value)}, interval {between(decisive)}, "
        f"of all candidates {percent_words(candidates.value)}"
    )
    return _row(chosen, [each.what, tag.span(shares, class_="hidden-text")], parts, _ratio(each))


def _band(share: Share) -> Markup:
    """The interval of a share."""
    return tag.rect(x=percent(share.low), y=6, width=percent(share.high - share.low), height=6, class_="band")


def _rules() -> list[Markup]:
    return [tag.line(x1=percent(at), x2=percent(at), y1=0, y2=ROW, class_="rule") for at in RULES]


def _ratio(each: Contrast) -> list[Child]:
    """The ratio, with an arrow if its interval does not contain 1."""
    ratio = each.ratio
    if ratio is None:
        return ["–", tag.span("no ratio", class_="hidden-text")]
    rare = each.candidates.value < RARE
    arrow = "▲" if ratio.low > 1 else "▼" if ratio.high < 1 and not rare else ""
    clear = {"▲": "over-represented", "▼": "under-represented"}.get(arrow)
    shown = tag.b(f"{arrow} {ratio.value:.1f}×".strip(), class_="clear" if arrow else None, title=clear)
    return [shown, tag.small(f"{ratio.low:.1f}–{ratio.high:.1f}")]


def deciders(heading: str, found: Sequence[Decider], chosen: Sequence[Chosen]) -> Markup | None:
    """Nodes and events that decide, with the number of predictions, and of those for which they are candidates."""
    if not found:
        return None
    most = max(each.could for each in found)
    rows = [_decider(each, most, one) for each, one in zip(found, chosen, strict=True)]
    return join([tag.h4(heading), tag.ul(*rows, class_="rows")])


def _decider(each: Decider, most: int, chosen: Chosen) -> Markup:
    name = sanitize(each.name, 32) if each.row is None else f"{sanitize(each.name, 32)} ({each.row})"
    bars = [
        tag.rect(x=0, y=5, width=percent(number / most), height=8, class_=kind)
        for kind, number in (("could", each.could), ("decides", each.decides))
    ]
    return _row(chosen, [tag.bdi(name)], bars, [tag.b(f"{each.decides}"), tag.small(f"of {each.could}")])


def comparison_rows(rows: Sequence[tuple[str, Share, Chosen]]) -> Markup:
    """Shares on which two models agree."""
    made = []
    for what, share, chosen in rows:
        dot = tag.circle(cx=percent(share.value), cy=9, r=5, class_="decisive")
        figures = [tag.b(percent_words(share.value)), tag.small(between(share))]
        made.append(_row(chosen, [what], [*_rules(), _band(share), dot], figures))
    return join([_scale("", ""), tag.ul(*made, class_="rows")])


def _row(chosen: Chosen, what: Sequence[Child], drawn: Sequence[Markup], figures: Sequence[Child]) -> Markup:
    """A line that can be selected: what it is about, its drawing, and its figures."""
    parts = [
        tag.span(*what, class_="what"),
        tag.svg(*drawn, width="100%", height=ROW, aria_hidden="true"),
        tag.span(*figures, class_="ratio"),
    ]
    return tag.li(chosen.button(*parts, kind="row"))
