"""The page of an impact: what moves, how long it lasts and how far it spreads, in one HTML file."""

from __future__ import annotations

import math
from collections.abc import Sequence

from cody.study import impact_words as words
from cody.study.impact import HopBin, Impact, MovedLink, TimeBin
from cody.utils.words import ROUND_DURATIONS, count, heading_of_times, is_date, moment, sanitize, zone_name
from cody.web.head import about_data
from cody.web.markup import Markup, bar, card, cell, join, link, percent, report_head, row, table, tag, tile
from cody.web.page import report_page

TITLE = "Impact of"
LISTED = 200  # links in the table
DRAWN = 3000  # dots
HEIGHT = 220  # pixels of the plot
MARKS = ("1 min", "1 hour", "1 day", "1 week", "30 days", "1 year")


def impact_page(found: Impact) -> str:
    """An impact as a self-contained HTML file."""
    parts = [_head(found)]
    if found.moves:
        parts += [_plot(found), _bars(found), _table(found)]
    title = f"{TITLE} {sanitize(found.removed.name, 60)}"
    return report_page(title, *parts)


def _head(found: Impact) -> Markup:
    checked = words.verification(found)
    all_verified = bool(found.flips) and found.verified == len(found.flips)
    badges = [
        tag.li(checked.rstrip("."), class_="good" if all_verified else None) if checked else None,
        *(part.rstrip(".") for part in words.left_out(found)),
        f"times: {zone_name()}" if is_date(found.first) else None,
    ]
    answer = " ".join(part for part in (words.reach(found), words.lasting(found)) if part)
    furthest = f"by at most {found.furthest:.2g}" if found.moves else "no score changes"
    tiles = [
        tile(f"{len(found.flips):,}", "decided differently", f"of {count(found.links, 'later prediction')}"),
        tile(f"{found.moved_links:,}", "move", furthest),
        tile(f"{found.reached:,}", "can change at all", "the others were not computed"),
    ]
    occasion = " · ".join(filter(None, ["Impact", about_data(found.data), words.subject(found)]))
    return report_head(occasion, words.sentence(found), [answer], badges, tiles)


# ---- each link -------------------------------------------------------------------------------------------------------


def _plot(found: Impact) -> Markup:
    """Each link that moves: how long after the events, and how far."""
    shown = found.moves[:DRAWN]
    times = [each.since for each in shown]
    low, high = math.log1p(min(times)), math.log1p(max(times))
    most = found.furthest or 1.0

    def x(since: float) -> str:
        return percent((math.log1p(since) - low) / (high - low) if high > low else 0.5)

    def y(moved: float) -> float:
        return HEIGHT * (1 - moved / most)

    def dot(each: MovedLink) -> Markup:
        before, after = words.scores_of(each)
        when = f"{words.since_in_words(found, each.since)} after"
        title = tag.title(f"{sanitize(each.src)} → {sanitize(each.dst)}, {when}: {before} → {after}")
        kind = "flip" if each.flips else None
        return tag.circle(title, cx=x(each.since), cy=y(each.moved), r=5 if each.flips else 3, class_=kind)

    def rule(moved: float) -> Markup:
        label = tag.text(f"{moved:.2g}", x=-8, y=y(moved) + 4, class_="level")
        return join([tag.line(x1="0", x2="100%", y1=y(moved), y2=y(moved), class_="rule"), label])

    ticks = [
        tag.text(name, x=x(limit), y=HEIGHT + 20, class_="tick")
        for limit, name in (ROUND_DURATIONS.items() if is_date(found.last) else ())
        if name in MARKS and min(times) <= limit <= max(times)
    ]
    dots = map(dot, reversed(shown))  # flips come last, above the others
    drawn = tag.svg(
        *map(rule, (0.0, 0.5 * most, most)),
        *ticks,
        *dots,
        width="100%",
        height=HEIGHT,
        role="img",
        aria_labelledby="plot-title",
    )
    about = (
        f"Each point is a {words.called(found)} whose score changes: how long after the removed {words.thing(found)}s, "
        "and by how much. Larger points are decided differently."
    )
    about += f" The {DRAWN:,} that move furthest are drawn." if found.moved_links > len(shown) else ""
    return card("plot", "What moves, and when", about, tag.div(drawn, class_="dots-plot"))


# ---- how long, how far -----------------------------------------------------------------------------------------------


def _bars(found: Impact) -> Markup:
    """Means by time and by distance, side by side."""
    called, thing = words.called(found), words.thing(found)
    by_time = _rows([(each.name, each) for each in found.by_time], f"{called}s")
    by_hops = _rows([(words.hops_in_words(each.hops), each) for each in found.by_hops], f"{called}s")
    between = f"{thing.capitalize()}s between the {called} and the removed {thing}"
    panels = tag.div(
        tag.div(tag.h3(f"Time since the {thing}s"), by_time, class_="panel"),
        tag.div(tag.h3(between), by_hops, class_="panel"),
        class_="panels",
    )
    about = f"Mean change of the score over all {called}s of a row, also those that do not move."
    return card("lasting", "How long it lasts, and how far it spreads", about, panels)


def _rows(bins: Sequence[tuple[str, TimeBin | HopBin]], counted: str) -> Markup:
    most = max((each.moved for _, each in bins), default=0.0) or 1.0
    rows = []
    for name, each in bins:
        flips = cell(f"{each.flips:,}", class_="some" if each.flips else None)
        rows.append(row(name, words.mean_change(each.moved), bar(each.moved / most), f"{each.links:,}", flips))
    return table(("", "mean change", "", counted, "flips"), rows, "bins")


# ---- the links -------------------------------------------------------------------------------------------------------


def _table(found: Impact) -> Markup:
    shown, called = found.moves[:LISTED], words.called(found)
    score = "score" if shown[0].score is not None else "margin"
    about = [words.heading_of_rows(found), called, heading_of_times(found.last)]
    heads = [*about, "after", "hops", score, "without", "decision", "verified"]
    made = table(heads, (_row(found, each) for each in shown))
    rest = found.moved_links - len(shown)
    further = f" {count(rest, f'further {called}')} {'is' if rest == 1 else 'are'} in the output of --csv."
    order = "Flips first, then by how far the score moves."
    return card("links", f"The {called}s", order + further * (rest > 0), tag.div(made, class_="scrolled"))


def _row(found: Impact, each: MovedLink) -> Markup:
    return row(
        "–" if each.event is None else str(each.event),
        link(each.src, each.dst),
        moment(each.time),
        words.since_in_words(found, each.since),
        "–" if each.hops is None else str(each.hops),
        *words.scores_of(each),
        each.outcome if each.flips else "stays",
        cell("–" if each.verified is None else "✓", title=each.verified),
        heading=1,
        kind="flip" if each.flips else None,
    )
