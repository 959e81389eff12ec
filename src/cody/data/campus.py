"""A synthetic campus in which the causes of links are known.

Two rules create events with causes:

- enrol → post: a student who enrols in a course posts in that course's forum within two days. Cause: the enrolment.
- post → answer: the course answers such a post within three hours. Cause: the post.

Only direct causes are listed: the cause of an answer is the post, not the enrolment before it. All other events have
no cause: each course posts an announcement in its forum once a day, and noise is added.

A course and its forum share a topic, which is a node feature of both. So the rules can be learned: after an enrolment
a post in the forum of that topic is likely, and without it only noise leads there.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from cody.errors import CallError
from cody.graph import TemporalGraph

DAY = 86_400.0
HOUR = 3_600.0
POST_DELAY = (1 * HOUR, 2 * DAY)
ANSWER_DELAY = (5 * 60.0, 3 * HOUR)

Times = NDArray[np.float64]
Nodes = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Campus:
    """A graph, and for each of its events the rows that caused it (often none)."""

    graph: TemporalGraph
    causes: tuple[frozenset[int], ...]


def campus(
    students: int = 200,
    courses: int = 10,
    forums: int | None = None,
    days: int = 60,
    *,
    enrolments: int = 5,
    noise: float = 0.2,
    seed: int = 0,
) -> Campus:
    """A synthetic campus: students enrol, post and are answered for some days.

    Args:
        students: At least 2.
        courses: At least 1.
        forums: At least one for each course, which is the default; any more belong to no course.
        days: At least 7.
        enrolments: Courses that each student enrols in.
        noise: Random forum visits, and messages between students, as a share of the events that follow the rules.
        seed: The same seed gives the same campus.

    >>> made = campus(students=20, courses=3, days=10, enrolments=2)
    >>> made.graph
    TemporalGraph(26 nodes, 174 events)
    >>> row = max(row for row, causes in enumerate(made.causes) if causes)
    >>> (cause,) = made.causes[row]
    >>> bool(made.graph.dst[row] == made.graph.src[cause])  # the answer goes to the student who posted
    True
    """
    forums = courses if forums is None else forums
    check_sizes(noise, students=(students, 2), courses=(courses, 1), days=(days, 7), enrolments=(enrolments, 1))
    if forums < courses:
        raise CallError(f"forums must be at least {courses}, one for each course, not {forums}")
    if enrolments > courses:
        raise CallError(f"a student cannot enrol in {enrolments} of {courses} courses")
    rng = np.random.default_rng(seed)
    first_forum, first_course = students, students + forums
    log: list[tuple[Nodes, Nodes, Times, Nodes]] = []  # sources, destinations, times, positions of causes (-1: none)

    def add(src: Nodes, dst: Nodes, time: Times, cause: Nodes | None = None) -> Nodes:
        """Add events; their positions in the log."""
        start = sum(len(src) for src, *_ in log)
        log.append((src, dst, time, np.full(len(time), -1) if cause is None else cause))
        return np.arange(start, start + len(time))

    every_course = np.tile(np.arange(courses), days)
    announced = np.repeat(np.arange(days), courses) * DAY + rng.uniform(0, DAY / 2, days * courses)
    add(first_course + every_course, first_forum + every_course, announced)

    student = np.repeat(np.arange(students), enrolments)
    course = np.concatenate([rng.permutation(courses)[:enrolments] for _ in range(students)])
    enrolled = rng.uniform(DAY, days * DAY - POST_DELAY[1] - ANSWER_DELAY[1], len(student))
    rows = add(student, first_course + course, enrolled)
    posted = enrolled + rng.uniform(*POST_DELAY, len(student))
    rows = add(student, first_forum + course, posted, cause=rows)
    add(first_course + course, student, posted + rng.uniform(*ANSWER_DELAY, len(student)), cause=rows)

    count = round(noise * 3 * len(student))
    visits, messages = count // 2, count - count // 2
    visitor, forum = rng.integers(students, size=visits), first_forum + rng.integers(forums, size=visits)
    add(visitor, forum, rng.uniform(0, days * DAY, visits))
    sender = rng.integers(students, size=messages)
    receiver = (sender + rng.integers(1, students, size=messages)) % students
    add(sender, receiver, rng.uniform(0, days * DAY, messages))
    return _finish(log, students, forums, courses)


def _finish(log: Sequence[tuple[Nodes, Nodes, Times, Nodes]], students: int, forums: int, courses: int) -> Campus:
    src, dst, time, cause = (np.concatenate(parts) for parts in zip(*log, strict=True))
    order, row_of, seconds = in_order_of_time(time)
    counts = {"student": students, "forum": forums, "course": courses}
    kinds = np.eye(3)[np.repeat([0, 1, 2], [*counts.values()])]
    topics = np.zeros((students + forums + courses, courses))
    topics[students : students + courses] = topics[students + forums :] = np.eye(courses)
    features = np.concatenate([kinds, topics], axis=1)
    graph = TemporalGraph.from_arrays(src[order], dst[order], seconds, node_features=features, names=numbered(counts))
    causes = (frozenset() if position < 0 else frozenset({int(row_of[position])}) for position in cause[order])
    return Campus(graph, tuple(causes))


def in_order_of_time(time: Times) -> tuple[Nodes, Nodes, Times]:
    """The order of events by time, the row that each of them gets, and their times in this order.

    Times are whole seconds, each at least one after the one before: no two events share a time.
    """
    order = np.argsort(time, kind="stable")
    row_of = np.empty_like(order)
    row_of[order] = steps = np.arange(len(order))
    return order, row_of, np.maximum.accumulate(np.floor(time[order]) - steps) + steps


def numbered(counts: Mapping[str, int]) -> list[str]:
    """Names of nodes of several kinds: so many of each."""
    return [f"{word} {number}" for word, count in counts.items() for number in range(count)]


def check_sizes(noise: float, **sizes: tuple[int, int]) -> None:
    """Reject sizes below the least that is possible, each given with that, and a noise that is no share."""
    for argument, (given, minimum) in sizes.items():
        if given < minimum:
            raise CallError(f"{argument} must be at least {minimum}, not {given}")
    if not 0 <= noise <= 100:
        raise CallError(f"noise must be a share between 0 and 100, not {noise}")
