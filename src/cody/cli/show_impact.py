"""An impact in the terminal."""

from __future__ import annotations

from collections.abc import Iterator

from cody.cli.show import Prose, ShownPart
from cody.study.impact import Impact
from cody.study.impact_words import SHOWN, called, hops_table, moves_table, notes, sentence, subject, time_table
from cody.utils.words import count


def impact_parts(found: Impact) -> Iterator[ShownPart]:
    """The finding, the links that move furthest, how long it lasts and how far it spreads."""
    yield Prose(subject(found))
    yield Prose(sentence(found), bold=True)
    if found.moves:
        for table in (moves_table(found, found.moves[:SHOWN]), time_table(found), hops_table(found)):
            yield ""
            yield table
        rest = found.moved_links - SHOWN
        if rest > 0:
            yield ""
            moving = "moves" if rest == 1 else "move"
            yield Prose(f"{count(rest, f'further {called(found)}')} {moving}; --csv and --json list all.")
    yield ""
    for note in notes(found):
        yield Prose(note)
