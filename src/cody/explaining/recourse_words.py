"""The words for what a node could still do."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING

from cody.models.decision import Above, State, Subject
from cody.utils.words import count, duration_at_least, enumerated, is_date, moment, moment_and_zone, sanitize

if TYPE_CHECKING:
    from cody.explaining.explanation import Event, Explanation, Recourse


def question(why: Explanation, recourse: Recourse, subject: Subject) -> str:
    """The link, the decision now, and later if nothing happens.

    Args:
        why: The explanation of the link at the later time.
        recourse: The question.
        subject: What is decided on.
    """
    name = "" if recourse.event is None else f"Event {recourse.event}, "
    when = moment(recourse.since) if is_date(recourse.since) else f"time {moment(recourse.since)}"
    now = _decided(why, State(recourse.now), subject)
    then = _decided(why, why.states[0], subject)
    at = f"On {moment_and_zone(why.query.time)}" if is_date(why.query.time) else f"At time {moment(why.query.time)}"
    return f"{name}{when}: the model {now}. {at}, with nothing added, it {then}."


def _decided(why: Explanation, state: State, subject: Subject) -> str:
    """What is decided, with its numbers where the margin gives them."""
    if state.standing is None and not isinstance(why.decision, Above):
        return f"decides {why.decision.outcome(state.margin or 0.0)} for {subject.name}"
    return why.decision.stated(state, subject)


def settled(why: Explanation, recourse: Recourse, thing: str) -> str:
    """That nothing has to be done.

    Args:
        why: The explanation of the link at the later time.
        recourse: The question.
        thing: The link.
    """
    who, does = why.decision.would(why.original, thing)
    by, still = ("", "still ") if recourse.keep else ("by time alone, ", "")
    return f"Nothing has to be done: {by}{who} would {still}{does} {_at(why)}."


def to_do(why: Explanation, recourse: Recourse, thing: str, added: Sequence[Event], does_it: bool) -> str:
    """What the node has to add, and what would be decided then.

    Args:
        why: The explanation of the link at the later time.
        recourse: The question.
        thing: The link.
        added: The events that it adds.
        does_it: Whether that leads to what is wanted.
    """
    pairs = Counter((event.src, event.dst) for event in added)
    parts = [
        f"{count(number, f'more {why.event_name}')} from {sanitize(src, 24)} to {sanitize(dst, 24)}"
        for (src, dst), number in pairs.items()
    ]
    last = max(event.time for event in added)
    within = (
        f"within the next {duration_at_least(last - recourse.since)}" if is_date(last) else f"by time {moment(last)}"
    )
    who, does = why.decision.would(why.without or 0.0, thing)
    still = "still " if recourse.keep or not does_it else ""
    begin = "With" if does_it else "Even with"
    return f"{begin} {enumerated(parts)} {within}, {who} would {still}{does} {_at(why)}."


def _at(why: Explanation) -> str:
    """At the later time."""
    return f"{'on' if is_date(why.query.time) else 'at time'} {moment(why.query.time)}"
