"""A made-up campus in which the cause of a link is known.

Two rules plant causes, the rest is noise:

- enrol → post: who enrols in a course posts in that course's own forum within days. Cause: the enrolment.
- message → reply: who gets a message answers it within hours. Cause: the message.

Every course is announced in its forum once a day, from the first day on. That tie has no cause; it is what lets a model
of two attention layers see which forum belongs to the course that a student has just enrolled in.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from cody.errors import CallError
from cody.graph import TemporalGraph

DAY = 86_400.0
HOUR = 3_600.0
POST_DELAY = (1 * HOUR, 2 * DAY)
REPLY_DELAY = (5 * 60.0, 3 * HOUR)

Times = NDArray[np.float64]
Nodes = NDArray[np.int64]
Ends = tuple[Nodes, Nodes]  # sources, destinations


@dataclass(frozen=True, slots=True)
class Campus:
    """A graph, and for each of its events the rows that caused it (empty: none)."""

    graph: TemporalGraph
    causes: tuple[frozenset[int], ...]


@dataclass(slots=True)
class _Log:
    """Events in the order they are thought of; sorted at the end."""

    src: list[Nodes] = field(default_factory=list)
    dst: list[Nodes] = field(default_factory=list)
    time: list[Times] = field(default_factory=list)
    cause: list[Nodes] = field(default_factory=list)  # position of the cause in this log, -1: none

    def add(self, src: Nodes, dst: Nodes, time: Times, cause: Nodes | None = None) -> Nodes:
        start = sum(len(times) for times in self.time)
        positions = np.arange(start, start + len(time))
        self.src.append(src)
        self.dst.append(dst)
        self.time.append(time)
        self.cause.append(np.full(len(time), -1) if cause is None else cause)
        return positions


def campus(
    students: int = 200,
    courses: int = 10,
    forums: int | None = None,
    days: int = 60,
    *,
    enrolments: int = 3,
    messages: int = 10,
    noise: float = 0.2,
    seed: int = 0,
) -> Campus:
    """Students enrol, post, write and answer for some days.

    Args:
        students: How many there are; at least 2.
        courses: How many there are.
        forums: At least one for each course, which is the default; those beyond belong to no course.
        days: How long it goes on; at least 7.
        enrolments: Courses that each student enrols in.
        messages: Messages that are answered, for each student on average.
        noise: Random forum visits and unanswered messages, as a share of the events that follow the rules.
        seed: The same seed gives the same campus.

    >>> made = campus(students=20, courses=3, days=10)
    >>> made.graph
    TemporalGraph(26 nodes, 654 events)
    >>> row = max(row for row, causes in enumerate(made.causes) if causes)
    >>> (cause,) = made.causes[row]
    >>> bool(made.graph.src[row] == made.graph.dst[cause])  # a reply
    True
    """
    forums = courses if forums is None else forums
    _check_sizes(students, courses, forums, days, enrolments, messages, noise)
    rng, log = np.random.default_rng(seed), _Log()
    first_forum, first_course = students, students + forums

    every_course = np.tile(np.arange(courses), days)
    announced = np.repeat(np.arange(days), courses) * DAY + rng.uniform(0, DAY / 2, days * courses)
    log.add(first_course + every_course, first_forum + every_course, announced)

    student = np.repeat(np.arange(students), enrolments)
    course = np.concatenate([rng.permutation(courses)[:enrolments] for _ in range(students)])
    _rule(log, rng, (student, first_course + course), (student, first_forum + course), days, POST_DELAY)

    sender, receiver = _pairs(rng, students, students * messages)
    _rule(log, rng, (sender, receiver), (receiver, sender), days, REPLY_DELAY)

    _noise(log, rng, students, first_forum, forums, days, round(noise * 2 * (len(student) + len(sender))))
    return _finish(log, students, forums, courses)


def _rule(log: _Log, rng: np.random.Generator, event: Ends, then: Ends, days: int, delay: tuple[float, float]) -> None:
    """Events at random times, each followed by the event that it causes."""
    count = len(event[0])
    time = rng.uniform(DAY, days * DAY - delay[1], count)
    rows = log.add(*event, time)
    log.add(*then, time + rng.uniform(*delay, count), cause=rows)


def _noise(
    log: _Log, rng: np.random.Generator, students: int, first_forum: int, forums: int, days: int, count: int
) -> None:
    visits = count // 2
    visitor, forum = rng.integers(students, size=visits), first_forum + rng.integers(forums, size=visits)
    log.add(visitor, forum, rng.uniform(0, days * DAY, visits))
    sender, receiver = _pairs(rng, students, count - visits)
    log.add(sender, receiver, rng.uniform(0, days * DAY, count - visits))


def _pairs(rng: np.random.Generator, students: int, count: int) -> Ends:
    """Two different students each."""
    one = rng.integers(students, size=count)
    return one, (one + rng.integers(1, students, size=count)) % students


def _finish(log: _Log, students: int, forums: int, courses: int) -> Campus:
    src, dst, time, cause = (np.concatenate(parts) for parts in (log.src, log.dst, log.time, log.cause))
    order = np.argsort(time, kind="stable")
    row_of = np.empty_like(order)
    row_of[order] = steps = np.arange(len(order))
    # Whole seconds, each at least one after the last: no two events share a time.
    distinct = np.maximum.accumulate(np.floor(time[order]) - steps) + steps
    kinds = np.repeat([0, 1, 2], [students, forums, courses])
    words = [("student", students), ("forum", forums), ("course", courses)]
    graph = TemporalGraph.from_arrays(
        src[order],
        dst[order],
        distinct,
        node_features=np.eye(3)[kinds],
        names=[f"{word} {number}" for word, count in words for number in range(count)],
    )
    causes = (frozenset() if position < 0 else frozenset({int(row_of[position])}) for position in cause[order])
    return Campus(graph, tuple(causes))


def _check_sizes(
    students: int, courses: int, forums: int, days: int, enrolments: int, messages: int, noise: float
) -> None:
    least = {"students": (students, 2), "courses": (courses, 1), "days": (days, 7)}
    least |= {"enrolments": (enrolments, 0), "messages": (messages, 0)}
    for argument, (given, minimum) in least.items():
        if given < minimum:
            raise CallError(f"{argument} must be at least {minimum}, not {given}")
    if forums < courses:
        raise CallError(f"forums must be at least {courses}, one for each course, not {forums}")
    if enrolments > courses:
        raise CallError(f"a student cannot enrol in {enrolments} of {courses} courses")
    if not 0 <= noise <= 100:
        raise CallError(f"noise must be a share between 0 and 100, not {noise}")
