"""The words and the table that shared causes are shown with."""

from __future__ import annotations

from typing import TYPE_CHECKING

from cody.utils.tables import TextTable
from cody.utils.words import count, sanitize

if TYPE_CHECKING:
    from cody.study.causes import SharedCause, SharedCauses


def sentence(found: SharedCauses) -> str:
    """The finding in a sentence: without the first of them, and without how many most predictions fall."""
    if not found.causes:
        return f"No {found.thing} makes any of {count(found.predictions, 'prediction')} fall."
    first = found.causes[0]
    single = f"Without {sanitize(first.name, 60)}, {_fall(found, first)}." if first.falls else ""
    return f"{single} {_further(found)}".strip()


def _fall(found: SharedCauses, cause: SharedCause) -> str:
    """How many predictions fall."""
    if found.predictions == 1:
        return "the 1 prediction falls"
    return f"{cause.falls:,} of {found.predictions:,} predictions {'falls' if cause.falls == 1 else 'fall'}"


def _further(found: SharedCauses) -> str:
    """How many of them make most predictions fall, or how many fall without all of them."""
    half = [number for number, cause in enumerate(found.causes, start=1) if 2 * cause.falls > found.predictions]
    number = half[0] if half else len(found.causes)
    if number == 1:
        return ""
    cause = found.causes[number - 1]
    most = ", most of them" if half and found.predictions > 1 else ""
    fall = f"{cause.falls:,} fall" if found.causes[0].falls else _fall(found, cause)
    return f"Without {count(number, found.thing)}, {fall}{most}."


def notes(found: SharedCauses) -> list[str]:
    """How they were found, and what is known about them."""
    greedy = (
        f"Found greedily: each {found.thing} is the one without which most further predictions fall or "
        f"come closest to it, of {found.possible:,} in their counterfactuals. Fewer of them may do."
    )
    verified = f"Each set was verified on all predictions ({found.replays:,} replays)."
    alone = f"{found.explained:,} of {count(found.predictions, 'prediction')} had a counterfactual of their own."
    return [greedy, verified, alone] if found.causes else [alone]


def table(found: SharedCauses) -> TextTable:
    """A row for each cause: without it and those above."""
    rows = TextTable("without", "events", "fall", "more", "its own", whole=[0])
    for number, cause in enumerate(found.causes):
        name = f"{'and ' if number else ''}{sanitize(cause.name, 60)}"
        share = f"{cause.falls:,} ({100 * cause.falls / found.predictions:.0f} %)"
        rows.add_row(name, f"{cause.events:,}", share, f"{cause.more:+,}", f"{cause.own:,}")
    return rows


def text(found: SharedCauses) -> str:
    """All of it."""
    return "\n".join([sentence(found), *(_lines(found) if found.causes else []), *notes(found)])


def _lines(found: SharedCauses) -> list[str]:
    return [f"  {number}. {cause.name}: {cause.falls:,}" for number, cause in enumerate(found.causes, start=1)]
