"""The reason, in a sentence or two: what the edits of an answer have in common, and how they work together.

Everything here follows from the document alone: who and when from the candidates, effects from the evaluated sets.
Durations are rounded so that they stay true: "in the last 6 minutes" is never less than it took.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from cody.explaining.unit_words import number_of_past, without_units
from cody.graph.edits import ADDED, ALTERED, MOVED, REMOVED
from cody.models.decision import Above, State, Subject
from cody.models.margins import flips, shift
from cody.utils import words
from cody.utils.words import count, enumerated, is_date, moment, part_of, sanitize

if TYPE_CHECKING:
    from cody.explaining.explanation import Event, Explanation, Recourse

LASTING = 3  # a period reaches up to the link if its beginning is so many times as old as its end
BURST = 10  # events are a burst if they took so many times less than has passed since
SMALL, LARGE = 0.1, 0.5  # shares of the whole effect
MANY_NEWER = 0.5  # share of the past events
CONVERSATIONS = frozenset({"message", "mail", "email", "e-mail", "call", "post"})
SHOWN_AROUND = 16  # other events that a document has at most: the latest ones
NAMED_ONE_BY_ONE = 3


def reason(why: Explanation) -> str:
    """What the answer comes down to, in one or two sentences; empty if it changes nothing.

    Args:
        why: An explanation; one that was read from a file says the same.
    """
    if why.recourse is not None and (why.is_settled or why.rows):
        return _recourse(why, why.recourse)
    if not why.rows or why.without is None:
        return ""
    if why.factual:
        return "" if why.units else f"Named as important: {_events(why, _changed(why))}."
    flipped = flips(why.original, why.without)
    doubt, even = "" if why.is_counterfactual or not flipped else "Not verified: ", "" if flipped else "even "
    first = f"{doubt}{even}{_edits(why)}, {_consequence(why, flipped)}."
    first = first[:1].upper() + first[1:]
    if why.units:  # a candidate stands for several events: what follows speaks of single ones
        return first
    more = _any_of(why) or _together(why) if flipped else ""
    return " ".join(part for part in (first, more, _older(why)) if part)


def _recourse(why: Explanation, recourse: Recourse) -> str:
    """What a node could still do, or that nothing has to be done."""
    thing = sanitize(why.src, 24) if why.subject == "node" else f"{sanitize(why.src, 24)} → {sanitize(why.dst, 24)}"
    if why.is_settled:
        return _settled(why, recourse, thing)
    first = _to_do(why, recourse, thing, _changed(why, ADDED), why.is_counterfactual)
    return " ".join(part for part in (first, _together(why) if why.is_counterfactual else "") if part)


def edits(why: Explanation, rows: Sequence[int]) -> str:
    """What is different with a set of candidates changed, as the reason has it of the answer.

    Args:
        why: An explanation.
        rows: Of its candidates.
    """
    return _edits(replace(why, rows=tuple(rows), logits=(why.original, *[None] * len(rows))))


def _changed(why: Explanation, *edits: str) -> list[Event]:
    """The events of the answer; only those of some kinds of edits, if these are given."""
    events = (event for event, _ in why.steps)
    return [event for event in events if not edits or event.edit in edits]


def _consequence(why: Explanation, flipped: bool) -> str:
    """What the model would decide then."""
    assert why.without is not None
    thing = why.event_name if why.event is not None or why.subject == "event" else why.subject
    who, does = why.decision.would(why.without, f"this {thing}")
    barely = ", but only barely" if flipped and why.decision.is_close(why.without) else ""
    return f"{who} would {'' if flipped else 'still '}{does}{barely}"


def _edits(why: Explanation) -> str:
    """What is different, one kind of edit after the other."""
    parts = []
    if removed := _changed(why, REMOVED):
        events = f"without {_events(why, removed, of_all=True)}"
        parts.append(without_units(why, described=True) if why.units else events)
    if added := _changed(why, ADDED):
        parts.append(f"with {_events(why, added, new=True)}")
    parts += [f"with {_replaced(why, some)}" for edit in (MOVED, ALTERED) if (some := _changed(why, edit))]
    return " and ".join(parts)


def _replaced(why: Explanation, events: Sequence[Event]) -> str:
    """Events that are moved or altered."""
    event, *others = events
    if others:
        return f"{count(len(events), why.event_name)} {event.edit}"
    if event.edit == ALTERED:
        return f"the {why.event_name} {_where_and_when(why, events)} altered ({sanitize(event.carries, 40)})"
    was = _when(why, [event._replace(time=event.was if event.was is not None else event.time)])
    return f"the {why.event_name} {_who(why, events)} moved from {was} to {_when(why, events)}"


def _events(why: Explanation, events: Sequence[Event], *, of_all: bool = False, new: bool = False) -> str:
    """Events by what they have in common; where that is nothing, one by one."""
    name, groups = why.event_name, _groups(why, events)
    if len(groups) == 1:
        return _conversation(why, events) or f"{_number(events, name, new)} {_where_and_when(why, events)}"
    if len(events) <= NAMED_ONE_BY_ONE:
        named = _listed([_where_and_when(why, [event]) for event in events])
        return f"{'' if new else 'the '}{name}s {named}"
    total = part_of(len(events), number_of_past(why), f"past {name}") if of_all else count(len(events), name)
    return f"{total} ({_listed([f'{len(group)} {_where_and_when(why, group)}' for group in groups])})"


def _number(events: Sequence[Event], name: str, new: bool) -> str:
    """How many events, as a sentence speaks of them."""
    if len(events) > 1:
        return count(len(events), name)
    article = "an" if name[:1].lower() in "aeiou" else "a"
    return f"{article if new else 'the'} {name}"


def _groups(why: Explanation, events: Sequence[Event]) -> list[list[Event]]:
    """Events by where they lie: between the ends of the link, at one end, elsewhere. One group if all share a node."""
    if _shared(why, events):
        return [list(events)]
    groups: list[list[Event]] = [[], [], [], []]
    for event in events:
        ends = {event.src, event.dst}
        place = 0 if ends <= {why.src, why.dst} else 1 if why.src in ends else 2 if why.dst in ends else 3
        groups[place].append(event)
    return [group for group in groups if group]


def _shared(why: Explanation, events: Sequence[Event]) -> list[str]:
    """The nodes that all events have, those of the link first."""
    shared = set.intersection(*({event.src, event.dst} for event in events))
    return sorted(shared, key=lambda name: (name != why.src, name != why.dst, name))


def _conversation(why: Explanation, events: Sequence[Event]) -> str:
    """All that went between the ends of the link since a time, in both directions; empty if it is less than that."""
    both = {(why.src, why.dst), (why.dst, why.src)}
    begin = min(event.time for event in events)
    if len(events) < 2 or {(event.src, event.dst) for event in events} != both or not is_date(why.query.time):
        return ""
    around = why.surroundings.events if why.surroundings else ()
    known = why.surroundings is not None and (len(around) < SHOWN_AROUND or min(event.time for event in around) < begin)
    since = [event for event in (*why.candidates, *around) if event.edit == REMOVED and event.time >= begin]
    if not known or {event.row for event in since if (event.src, event.dst) in both} != {e.row for e in events}:
        return ""
    what = "conversation" if why.event_name in CONVERSATIONS else "exchange"
    period = f"of the last {words.duration_at_least(why.query.time - begin)}"
    return f"their {what} {period} ({count(len(events), why.event_name)})"


# Who and when


def _where_and_when(why: Explanation, events: Sequence[Event]) -> str:
    """Who and when, kept apart where both are numbers."""
    who, when = _who(why, events), _when(why, events)
    return f"{who}, {when}" if when[0].isdigit() else f"{who} {when}"


def _who(why: Explanation, events: Sequence[Event]) -> str:
    """Between whom some events were, and in which direction."""
    pairs = {(event.src, event.dst) for event in events}
    shared = _shared(why, events)
    if len(pairs) == 1:
        ((src, dst),) = pairs
        return f"from {sanitize(src, 24)} to {sanitize(dst, 24)}"
    if not shared:
        others = {end for pair in pairs for end in pair} - {why.src, why.dst}
        return f"among {len(others)} others"
    if len(shared) == 2:
        return f"between {sanitize(shared[0], 24)} and {sanitize(shared[1], 24)}"
    node, others = shared[0], {end for pair in pairs for end in pair} - {shared[0]}
    them, name = f"{len(others)} others", sanitize(node, 24)
    if all(src == node for src, _ in pairs):
        return f"from {name} to {them}"
    return f"from {them} to {name}" if all(dst == node for _, dst in pairs) else f"between {name} and {them}"


def _when(why: Explanation, events: Sequence[Event]) -> str:
    """When some events were, seen from the link."""
    first, last = (choose(event.time for event in events) for choose in (min, max))
    if not is_date(why.query.time):
        return f"at time {moment(first)}" if first == last else f"at times {moment(first)} to {moment(last)}"
    oldest, newest = why.query.time - first, why.query.time - last
    if first == last:
        return f"{words.duration_about(oldest)} before" if oldest > 0 else "at the same time"
    if oldest >= LASTING * newest:
        return f"in the last {words.duration_at_least(oldest)}"
    if BURST * (oldest - newest) <= newest:
        burst = words.counted(words.duration_at_least(oldest - newest))
        return f"within {burst}, {words.duration_about(newest)} before"
    unit, size = words.unit_of_time(oldest)
    return f"{math.floor(newest / size)} to {math.ceil(oldest / size)} {unit}s before"


def _listed(parts: Sequence[str]) -> str:
    """Parts that may contain commas."""
    return "; ".join(parts[:-1]) + f"; and {parts[-1]}" if len(parts) > 2 else ", and ".join(parts)


# How the edits work together


def _alone(why: Explanation) -> dict[int, float]:
    """The margin with each single edit, as far as it was evaluated."""
    return {rows[0]: logit for rows, logit in why.evaluated if len(rows) == 1}


def _any_of(why: Explanation) -> str:
    """That other single events suffice, too; empty if there are none, or if one event does not suffice."""
    if len(why.rows) != 1:
        return ""
    alone = _alone(why)
    does = [event for event in why.candidates if event.row in alone and flips(why.original, alone[event.row])]
    removed = [event for event in does if event.edit == REMOVED]
    if len(removed) == len(does) > 1:
        groups = _groups(why, removed)
        which = f" {_where_and_when(why, removed)}" if len(groups) == 1 else ""
        return f"It suffices to remove any one of {count(len(removed), why.event_name)}{which}."
    added = [event for event in does if event.edit == ADDED]
    pairs = {(event.src, event.dst) for event in added}
    if len(added) < len(does) or len(pairs) < 2:
        return ""
    return f"It suffices to add {_number(added[:1], why.event_name, True)} {_any_pair(pairs)}."


def _any_pair(pairs: set[tuple[str, str]]) -> str:
    """Which of several imagined pairs suffice."""
    senders, receivers = ({pair[end] for pair in pairs} for end in (0, 1))
    if len(receivers) == 1:
        return f"from any of {len(senders)} senders to {sanitize(min(receivers), 24)}"
    if len(senders) == 1:
        return f"from {sanitize(min(senders), 24)} to any of {len(receivers)} recipients"
    return f"between any of {len(pairs)} pairs"


def _together(why: Explanation) -> str:
    """Whether one of several edits does most, or each does little alone; empty if neither, or not evaluated."""
    alone = _alone(why)
    if len(why.rows) < 2 or any(row not in alone for row in why.rows):
        return ""
    assert why.without is not None
    whole = shift(why.original, why.without)
    shares = {row: shift(why.original, alone[row]) / whole for row in why.rows}
    largest = max(why.rows, key=lambda row: shares[row])
    if shares[largest] >= LARGE and not flips(why.original, alone[largest]):
        named, figure = _where_and_when(why, [why.candidate(largest)]), _figures(why, [alone[largest]])[0]
        return f"Most of it is the {why.event_name} {named}: with only this changed, the {_word(why)} is {figure}."
    if max(map(abs, shares.values())) > SMALL:
        return ""
    low, high = (choose(alone[row] for row in why.rows) for choose in (min, max))
    between = " to ".join(dict.fromkeys(_figures(why, [low, high])))
    which = "Only both together matter" if len(why.rows) == 2 else "None of them matters alone"
    return f"{which}: with a single one changed, the {_word(why)} is still {between}."


def _word(why: Explanation) -> str:
    """What the numbers of a decision are called."""
    return "score" if isinstance(why.decision, Above) else why.decision.headings[0]


def _figures(why: Explanation, margins: Iterable[float]) -> list[str]:
    """Margins as they are written beside the original one."""
    return why.decision.written(why.original, *margins)[1:]


def _older(why: Explanation) -> str:
    """That the answer lies before most of the past events; empty if it does not."""
    removed, past = _changed(why, REMOVED), [event for event in why.candidates if event.edit == REMOVED]
    if not removed or len(removed) < len(why.rows):
        return ""
    newest = max(event.time for event in removed)
    newer = sum(event.time > newest for event in past)
    if newer < max(2, MANY_NEWER * len(past)):
        return ""
    they = "It is" if len(removed) == 1 else "They are"
    return f"{they} older than the latest {newer} of the {count(len(past), f'past {why.event_name}')} considered."


# What a node could still do


def recourse_question(why: Explanation, recourse: Recourse, subject: Subject) -> str:
    """The link, the decision now, and later if nothing happens.

    Args:
        why: The explanation of the link at the later time.
        recourse: The question.
        subject: What is decided on.
    """
    name, later = "" if recourse.event is None else f"Event {recourse.event}, ", why.query.time
    when = moment(recourse.since) if is_date(recourse.since) else f"time {moment(recourse.since)}"
    now, then = (_decided(why, state, subject) for state in (State(recourse.now), why.states[0]))
    at = f"On {words.moment_and_zone(later)}" if is_date(later) else f"At time {moment(later)}"
    return f"{name}{when}: the model {now}. {at}, with nothing added, it {then}."


def _decided(why: Explanation, state: State, subject: Subject) -> str:
    """What is decided, with its numbers where the margin gives them."""
    if state.standing is None and not isinstance(why.decision, Above):
        return f"decides {why.decision.outcome(state.margin or 0.0)} for {subject.name}"
    return why.decision.stated(state, subject)


def _settled(why: Explanation, recourse: Recourse, thing: str) -> str:
    """That nothing has to be done.

    Args:
        why: The explanation of the link at the later time.
        recourse: The question.
        thing: The link.
    """
    who, does = why.decision.would(why.original, thing)
    by, still = ("", "still ") if recourse.keep else ("by time alone, ", "")
    return f"Nothing has to be done: {by}{who} would {still}{does} {_at_the_later_time(why)}."


def _to_do(why: Explanation, recourse: Recourse, thing: str, added: Sequence[Event], does_it: bool) -> str:
    """What the node has to add, and what would be decided then.

    Args:
        why: The explanation of the link at the later time.
        recourse: The question.
        thing: The link.
        added: The events that it adds.
        does_it: Whether that leads to what is wanted.
    """
    pairs = Counter((event.src, event.dst) for event in added)
    more = f"more {why.event_name}"
    ends = {(src, dst): f"from {sanitize(src, 24)} to {sanitize(dst, 24)}" for src, dst in pairs}
    parts = [f"{count(number, more)} {ends[pair]}" for pair, number in pairs.items()]
    last = max(event.time for event in added)
    within = f"by time {moment(last)}"
    if is_date(last):
        within = f"within the next {words.duration_at_least(last - recourse.since)}"
    who, does = why.decision.would(why.without or 0.0, thing)
    begin, still = "With" if does_it else "Even with", "still " if recourse.keep or not does_it else ""
    return f"{begin} {enumerated(parts)} {within}, {who} would {still}{does} {_at_the_later_time(why)}."


def _at_the_later_time(why: Explanation) -> str:
    """At the later time."""
    return f"{'on' if is_date(why.query.time) else 'at time'} {moment(why.query.time)}"
