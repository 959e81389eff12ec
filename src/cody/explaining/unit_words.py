"""The words of an answer about units: events that change together, and what goes along with them by a rule."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import permutations
from typing import TYPE_CHECKING

from cody.graph.edits import REMOVED
from cody.models.decision import State
from cody.utils.words import ago, count, earlier, enumerated, is_date, moment, part_of, sanitize

if TYPE_CHECKING:
    from cody.explaining.explanation import ChangedUnit, Explanation

NAMED_UNITS = 3  # units of an answer that a sentence names
NAMED_DEPENDANTS = 8  # events that go along, by row


def number_of_past(why: Explanation) -> int:
    """How many past events or units could be removed."""
    return sum(event.edit == REMOVED for event in why.candidates)


def without_units(why: Explanation, *, described: bool = False) -> str:
    """The units that an answer removes: by name if they are few, else their number; and how many events they are.

    Args:
        why: The explanation.
        described: Where their number is said, say also what they have in common, or else the first of them.
    """
    units = [unit for row in why.rows if (unit := why.unit(row)) is not None]
    along = count(len(why.along), f"dependent {why.event_name}") if why.along else ""
    if not why.unit_name:
        named = part_of(len(units), number_of_past(why), f"past {why.event_name}")
    elif len(units) > NAMED_UNITS:
        events = len(frozenset().union(*(unit.rows for unit in units)))
        which = _which(why, units) if described else ""
        named = f"{part_of(len(units), number_of_past(why), why.unit_name)}{which} ({count(events, why.event_name)})"
    else:
        named = enumerated([f"the {unit.name} ({count(len(unit.rows), why.event_name)})" for unit in units])
    return f"without {named}" + (f" and {along}" if along else "")


def sentence_says_all(why: Explanation) -> bool:
    """Whether the sentence of an answer names its units already, so that the reason adds nothing."""
    return bool(why.units) and (not why.unit_name or len(why.rows) <= NAMED_UNITS)


def _which(why: Explanation, units: Sequence[ChangedUnit]) -> str:
    """The node that all these units are about, if they are pairs of nodes that share one; else the first two."""
    ends = [{event.src, event.dst} for event in (why.candidate(unit.row) for unit in units)]
    pairs = [{" ↔ ".join(sanitize(end, 24) for end in order) for order in permutations(sorted(each))} for each in ends]
    names = [unit.name.removeprefix(f"{why.unit_name} ") for unit in units]
    if all(name in pair for name, pair in zip(names, pairs, strict=True)) and (shared := set.intersection(*ends)):
        return f", all with {sanitize(min(shared), 24)}"
    return f", among them {enumerated(names[:2])}"


def togetherness(why: Explanation) -> str:
    """What goes along with the answer by a rule, and which unit it nearly is; empty if nothing and none."""
    return _dependence(why) or _wholeness(why)  # where something goes along, units were searched


def _dependence(why: Explanation) -> str:
    """Which events go along with the answer, and what removing the others alone does; empty if none do."""
    if why.literal is None or not why.is_counterfactual:
        return ""
    rule, along = why.parameters["dependants"], sorted(why.along)
    rows = ", ".join(map(str, along[:NAMED_DEPENDANTS])) + ("" if len(along) <= NAMED_DEPENDANTS else ", …")
    within = f" within {ago(rule['within']) if is_date(why.query.time) else rule['within']}" if "within" in rule else ""
    alone = why.decision.moved(why.states[0], State(why.literal))
    return f"Dependent ({rule['name']}{within}): {rows}. If these still happen, {alone}."


def _wholeness(why: Explanation) -> str:
    """The unit that the answer nearly is, and what is decided without all of it; empty if it is none."""
    whole = why.whole
    if whole is None or not why.is_counterfactual:
        return ""
    size, events = len(why.rows), count(len(whole.rows), why.event_name)
    these = f"These {size}" if whole.shared == size else f"{whole.shared} of these {size}"
    part = f"the whole {whole.name}" if whole.shared == len(whole.rows) else f"among the {events} of {whole.name}"
    if whole.shared == size == len(whole.rows):
        return f"{these} are {part}."
    return f"{these} are {part}; without it entirely {why.decision.moved(why.states[0], State(whole.logit))}."


def left_out(why: Explanation) -> str:
    """How many near units are no candidates because all together would be too large; empty if none were left out."""
    by = why.parameters.get("by")
    number = by.get("left_out", 0) if isinstance(by, dict) else 0
    if not number:
        return ""
    events = count(len(why.change_of(event.row for event in why.candidates)), why.event_name)
    thing = why.unit_name or why.event_name
    return f"Left out: {count(number, f'further {thing}')}; the {len(why.candidates)} candidates have {events}."


def unit_cells(why: Explanation, unit: ChangedUnit, *, first: bool) -> tuple[str, str, str, str]:
    """What a table shows of a unit, without the prediction: how many events, its name, when, and how long ago.

    Args:
        why: The explanation.
        unit: The unit.
        first: Whether it is the first change of an answer.
    """
    along = f" + {len(unit.dependants):,} dependent" if unit.dependants else ""
    events = f"{'' if first else '+ '}{count(len(unit.rows), why.event_name)}{along}"
    name = unit.name.removeprefix(f"{why.unit_name} ")
    return events, name, span(unit), earlier(unit.last, why.query.time)


def span(unit: ChangedUnit) -> str:
    """When the events of a unit happened: from the first to the last, a date that both share only once."""
    first, last = moment(unit.first), moment(unit.last)
    day, _, time = last.partition(" ")
    return first if first == last else f"{first} to {time if first.startswith(f'{day} ') else last}"
