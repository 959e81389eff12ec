"""The words and tables that an impact is shown with, in the terminal and on its page."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from cody.models.margins import numbers
from cody.utils.tables import TextTable
from cody.utils.words import ago, count, from_to, heading_of_times, is_date, link, moment, sanitize

if TYPE_CHECKING:
    from cody.study.impact import HopBin, Impact, MovedLink, TimeBin

SHOWN = 10  # links in a table


def sentence(found: Impact) -> str:
    """The finding in a sentence."""
    number, of = len(found.flips), count(found.links, "later prediction")
    return f"Without {found.removed.name}, {f'{number:,}' if number else 'none'} of {of} would be decided differently."


def called(found: Impact) -> str:
    """What one prediction is about, as the data call it."""
    return sanitize(found.called, 24)


def thing(found: Impact) -> str:
    """What the data call one event."""
    return sanitize(found.thing, 24)


def reach(found: Impact) -> str:
    """How many links move at all."""
    if not found.reached:
        return f"No score can change: the model sees nothing of {found.removed.name} at any of these {called(found)}s."
    can = f"{found.reached:,} of {count(found.links, 'score')} can change at all"
    furthest = f", by at most {found.furthest:.2g}" if found.furthest else ""
    return f"{can}; {found.moved_links:,} move{'s' if found.moved_links == 1 else ''}{furthest}."


def lasting(found: Impact) -> str:
    """How long the effect lasts; empty if there is none."""
    if found.half_within is None or found.most_within is None:
        return ""
    half, most = (since_in_words(found, time) for time in (found.half_within, found.most_within))
    after = f"the {thing(found)}" if len(found.removed.rows) == 1 else f"the latest of the {thing(found)}s"
    return f"Half of all movement lies within {half} after {after}, nine tenths within {most}."


def since_in_words(found: Impact, time: float) -> str:
    """A time since the events."""
    return ago(time) if is_date(found.last) else f"{time:g}"


def verification(found: Impact) -> str:
    """What was verified, and how."""
    number, verified = len(found.flips), found.verified
    if not number:
        return ""
    if not verified:
        return f"None of {count(number, 'flip')} was verified by the reference implementation."
    by = next(each.verified for each in found.flips if each.verified)
    if verified == number:
        these = {1: "This flip was", 2: "Both flips were"}.get(number, f"All {number:,} flips were")
        return f"{these} verified {by}."
    which = "the one that moves" if verified == 1 else "those that move"
    return f"{verified:,} of {number:,} flips were verified {by}: {which} furthest."


def left_out(found: Impact) -> list[str]:
    """What was left out, and why: a sentence for each reason."""
    parts = []
    if found.own and len(found.removed.rows) > 1:  # of a single event, it goes without saying
        are = f"is one of the removed {thing(found)}s itself and was"
        if found.own > 1:
            are = f"are removed {thing(found)}s themselves and were"
        parts.append(f"{count(found.own, called(found))} of the period {are} left out.")
    if found.incomparable:
        have, was, its = ("has", "was", "its") if found.incomparable == 1 else ("have", "were", "their")
        ends = f"{have} the node to compare with at one of {its} ends, or too few rivals, and {was}"
        parts.append(f"{count(found.incomparable, called(found))} of the period {ends} left out.")
    return parts


def notes(found: Impact) -> list[str]:
    """The sentences below the first one."""
    return [part for part in (reach(found), lasting(found), verification(found), *left_out(found)) if part]


def tables(found: Impact) -> list[TextTable]:
    """The links that move furthest, how long it lasts and how far it spreads; none if nothing moves."""
    if not found.moves:
        return []
    by_time = [(each.name, each) for each in found.by_time]
    by_hops = [(hops_in_words(each.hops), each) for each in found.by_hops]
    lasts, spreads = _bins(found, "time since", by_time), _bins(found, f"{thing(found)}s between", by_hops)
    return [_moves(found, found.moves[:SHOWN]), lasts, spreads]


def _moves(found: Impact, links: Sequence[MovedLink]) -> TextTable:
    """Links with their scores before and after."""
    dated, time = is_date(links[0].time), heading_of_times(links[0].time)
    score = "#margin" if links[0].score is None else "#score"
    table = TextTable(
        f"#{heading_of_rows(found)}", called(found), time, "#after", "#hops", score, "#without", "decision", whole=[2]
    )
    for each in links:
        event, hops = ("–" if number is None else str(number) for number in (each.event, each.hops))
        named = link(each.src, each.dst, 14)
        since = ago(each.since) if dated else f"{each.since:g}"
        decision = each.outcome if each.flips else "stays"
        table.add_row(event, named, moment(each.time), since, hops, *scores_of(each), decision)
    return table


def heading_of_rows(found: Impact) -> str:
    """What the numbers of events are headed by: `row`, where what is predicted is an event itself."""
    return "event" if found.called == "link" else "row"


def scores_of(link: MovedLink) -> list[str]:
    """The scores of a link with nothing changed and without the events; where it decides by a margin, the margins."""
    if link.score is None or link.score_without is None:
        return numbers(link.original, link.without)
    return numbers(link.score, link.score_without)


def _bins(found: Impact, heading: str, bins: Sequence[tuple[str, TimeBin | HopBin]]) -> TextTable:
    """How long the effect lasts, or how far it spreads."""
    table = TextTable(heading, f"#{called(found)}s", "#mean change", "#flips")
    for name, each in bins:
        table.add_row(name, f"{each.links:,}", mean_change(each.moved), f"{each.flips:,}")
    return table


def hops_in_words(hops: int | None) -> str:
    """A distance from the events."""
    return "not connected" if hops is None else "0 (a shared node)" if hops == 0 else str(hops)


def subject(found: Impact) -> str:
    """What was removed and which links were looked at, in a line."""
    links = f"{count(found.links, called(found))}, {from_to(found.first, found.last)}"
    number = len(found.removed.rows)
    size = "" if number == 1 else f" ({count(number, thing(found))})"
    return f"{found.removed.name}{size} · {links}"


def mean_change(moved: float) -> str:
    """A mean change of the score as a number of a column.

    >>> mean_change(0.11), mean_change(1.1e-5), mean_change(0.0)
    ('0.1100', '< 0.0001', '0')
    """
    if not moved:
        return "0"
    return f"{moved:.4f}" if moved >= 0.0001 else "< 0.0001"


def text(found: Impact) -> str:
    """All of it, as text."""
    lines = [line for table in tables(found) for line in table.lines()]
    return "\n".join([subject(found), sentence(found), *lines, *notes(found)])
