"""The words and the table that an even-if answer is shown with."""

from __future__ import annotations

from typing import TYPE_CHECKING

from cody.models.margins import flips
from cody.utils.tables import TextTable
from cody.utils.words import count, earlier, enumerated, heading_of_times, is_date, moment, moment_and_zone, sanitize

if TYPE_CHECKING:
    from cody.explaining.even_if import EvenIf

FEW = 3  # rows that are named in a sentence


def question(found: EvenIf) -> str:
    """The link, its time, and the model's prediction."""
    name = "" if found.event is None else f"Event {found.event}, "
    when = moment_and_zone(found.time) if is_date(found.time) else f"time {moment(found.time)}"
    return f"{name}{when}: the model {found.stated}."


def sentence(found: EvenIf) -> str:
    """The answer in a sentence."""
    if found.kept is None or found.missing is None:
        rest = " without any other event" if found.alone else ""
        return f"No set of the {_past(found)} was found that is enough{rest}."
    gone = len(found.candidates) - len(found.kept)
    if found.alone:
        with_only = f"with only {len(found.kept)} of {_past(found)} and no other" if found.kept else "with no past"
        return f"Even {with_only} event at all, {found.effect}."
    if not gone:
        return f"None of the {_past(found)} was found that could be missing."
    which = f"{gone} of " if found.kept else "all " if gone > 1 else ""
    return f"Even without {which}{_past(found)}, {found.effect}."


def _past(found: EvenIf) -> str:
    return count(len(found.candidates), f"past {found.thing}")


def enough(found: EvenIf) -> str:
    """What the decision rests on; empty if it is on nothing, or not known."""
    if not found.kept:
        return ""
    one = len(found.kept) == 1
    these = f"This {found.thing} alone is" if one else f"These {count(len(found.kept), found.thing)} alone are"
    rest = "" if found.alone else " among the candidates; all other events stay"
    proof = "No smaller set is enough." if found.smallest else "That no smaller set is enough was not proven."
    return f"{these} enough{rest}. {proof}"


def kept_table(found: EvenIf) -> TextTable:
    """The candidates that are kept."""
    times = heading_of_times(found.time)
    if any(each.name for each in found.kept or ()):
        table = TextTable("#kept", "unit", "#events", whole=[1])
        for each in found.kept or ():
            table.add_row(str(each.row), each.name, f"{each.events:,}")
        return table
    pair = "link" if found.subject == "link" else sanitize(found.thing, 24)
    table = TextTable("#kept", pair, times, "before", whole=[2])
    for each in found.kept or ():
        link = f"{sanitize(each.src, 24)} → {sanitize(each.dst, 24)}"
        table.add_row(str(each.row), link, moment(each.time), earlier(each.time, found.time))
    return table


def certificate(found: EvenIf) -> str:
    """How many candidates can be removed in any way."""
    n, things = len(found.candidates), f"{found.thing}s"
    removing = ""
    if found.decisive is not None:
        units = [f"the {name}" for name in found.decisive_names]
        named = enumerated(units or list(map(str, found.decisive)))
        removing = f"removing {named if len(found.decisive) <= FEW else f'some {len(found.decisive)} of them together'}"
    if not found.robust:
        unknown = "No removal was proven to leave the decision as it is."
        return f"It is not robust: {removing} changes the decision." if removing else unknown
    of = f"this {found.thing}" if n == 1 else f"any set of these {n} {things}"
    if found.robust < n:
        of = f"any one of these {n} {things}" if found.robust == 1 else f"up to {found.robust} of these {n} {things}"
    proven = f"Proven: removing {of} does not change the decision"
    if found.decisive is None:
        return f"{proven}."
    return f"{proven}; {removing} does{', and so may fewer' if len(found.decisive) > found.robust + 1 else ''}."


def since(found: EvenIf) -> str:
    """From when on everything could be missing; empty for units, which have no one time."""
    if found.units:
        return ""
    if found.latest is None or found.since is None:
        if found.latest_is_largest:
            return "There is no time since which everything could be missing."
        return f"No time was found since which everything could be missing: {_not_all('time')}."
    number, n = len(found.latest.rows), len(found.candidates)
    which = f"all {n} candidates" if number == n else f"the last {number} candidates"
    if number == 1:
        which = "the only candidate" if n == 1 else "the last candidate"
    rest = "" if found.latest_is_largest else f"; {_not_all('earlier time')}"
    return f"Everything since {moment_and_zone(found.since)} could be missing together: {which}{rest}."


def _not_all(thing: str) -> str:
    return f"the budget ended before every {thing} was tested"


def unit(found: EvenIf) -> str:
    """The largest unit that could be missing; empty if there is none, or candidates are units."""
    if found.unit is None:
        every = found.unit_is_largest or found.units
        return "" if every else f"No pair, node or day was found that could be missing: {_not_all('one')}."
    size = count(len(found.unit.rows), "candidate")
    if not found.unit_is_largest:
        larger = _not_all("larger pair, node or day")
        return f"{found.unit.name[:1].upper()}{found.unit.name[1:]} could be missing, with {size}; {larger}."
    return f"The largest pair, node or day that could be missing is {found.unit.name}, with {size}."


def only(found: EvenIf) -> str:
    """What holds with nothing but the kept events; empty where that was the question."""
    if found.alone or found.only is None or not found.kept:
        return ""
    also = "does not stand" if flips(found.original, found.only) else "also stands"
    return f"With nothing else in the history, candidate or not, the decision {also}."


def verification(found: EvenIf) -> str:
    """How the answer was verified."""
    by = "" if found.missing is None else found.missing.verified
    return f"Verified {by}." if by else ""


def notes(found: EvenIf) -> list[str]:
    """The sentences below the table."""
    effort = f"{count(found.evaluations, 'set')} evaluated."
    parts = enough(found), certificate(found), since(found), unit(found), only(found), verification(found), effort
    return [part for part in parts if part]


def text(found: EvenIf) -> str:
    """All of it, as text."""
    table = ["\n".join(kept_table(found).lines())] if found.kept else []
    return "\n".join([question(found), sentence(found), *table, *notes(found)])
