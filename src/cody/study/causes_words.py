"""The words and the table that shared causes are shown with."""

from __future__ import annotations

from typing import TYPE_CHECKING

from cody.utils.tables import TextTable
from cody.utils.words import count, sanitize

if TYPE_CHECKING:
    from cody.study.causes import SharedCause, SharedCauses


def sentence(found: SharedCauses) -> str:
    """The finding in a sentence: without the first of them, and without how many most predictions flip."""
    if not found.causes:
        return f"No {found.thing} flips any of {count(found.predictions, 'prediction')}."
    first = found.causes[0]
    single = f"Without {sanitize(first.name, 60)}, {_flip(found, first)}." if first.flips else ""
    return f"{single} {_further(found)}".strip()


def _flip(found: SharedCauses, cause: SharedCause) -> str:
    """How many predictions flip."""
    if found.predictions == 1:
        return "the 1 prediction flips"
    return f"{cause.flips:,} of {found.predictions:,} predictions {'flips' if cause.flips == 1 else 'flip'}"


def _further(found: SharedCauses) -> str:
    """How many of them make most predictions flip, or how many flip without all of them."""
    half = [number for number, cause in enumerate(found.causes, start=1) if 2 * cause.flips > found.predictions]
    number = half[0] if half else len(found.causes)
    if number == 1:
        return ""
    cause = found.causes[number - 1]
    most = ", most of them" if half and found.predictions > 1 else ""
    flip = f"{cause.flips:,} flip" if found.causes[0].flips else _flip(found, cause)
    return f"Without {count(number, found.thing)}, {flip}{most}."


def notes(found: SharedCauses) -> list[str]:
    """How they were found, and what is known about them."""
    greedy = (
        f"Found greedily among {count(found.possible, found.thing)} of their counterfactuals: each is the one without "
        "which the most further predictions flip, or come closest to it. A smaller set may exist."
    )
    verified = f"Each set was verified on all predictions ({count(found.replays, 'replay')})."
    alone = f"{found.explained:,} of {count(found.predictions, 'prediction')} had a counterfactual of their own."
    return [greedy, verified, alone] if found.causes else [alone]


def table(found: SharedCauses) -> TextTable:
    """A row for each cause: without it and those above."""
    rows = TextTable("without", "events", "flip", "more", "its own links", whole=[0])
    for number, cause in enumerate(found.causes):
        name = f"{'and ' if number else ''}{sanitize(cause.name, 60)}"
        share = f"{cause.flips:,} ({100 * cause.flips / found.predictions:.0f} %)"
        rows.add_row(name, f"{cause.events:,}", share, f"{cause.more:+,}", f"{cause.own:,}")
    return rows


def text(found: SharedCauses) -> str:
    """All of it."""
    return "\n".join([sentence(found), *(_lines(found) if found.causes else []), *notes(found)])


def _lines(found: SharedCauses) -> list[str]:
    return [f"  {number}. {cause.name}: {cause.flips:,}" for number, cause in enumerate(found.causes, start=1)]
