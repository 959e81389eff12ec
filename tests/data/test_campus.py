from __future__ import annotations

import numpy as np
import pytest

from cody.data import campus
from cody.errors import CallError
from cody.graph.neighbourhood import neighbourhood


def kind(graph: object, node: int) -> str:
    return graph.name(int(node)).split()[0]  # type: ignore[attr-defined]


def number(graph: object, node: int) -> int:
    return int(graph.name(int(node)).split()[1])  # type: ignore[attr-defined]


def test_the_same_seed_makes_the_same_campus() -> None:
    one, two, other = campus(seed=3), campus(seed=3), campus(seed=4)
    assert one.graph.identity == two.graph.identity
    assert one.causes == two.causes
    assert one.graph.identity != other.graph.identity


def test_times_are_distinct_and_causes_earlier_and_within_two_hops() -> None:
    made = campus(students=30, courses=4, days=14, enrolments=2)
    graph = made.graph
    assert (np.diff(graph.time) > 0).all()
    assert len(made.causes) == graph.num_events
    for row, causes in enumerate(made.causes):
        nodes = set(neighbourhood(graph, graph.query(row), 2)[0].tolist())
        for cause in causes:
            assert cause < row
            assert {int(graph.src[cause]), int(graph.dst[cause])} <= nodes


def test_every_cause_follows_one_of_the_two_rules() -> None:
    made = campus(students=30, courses=4, forums=6, days=14, enrolments=3, seed=1)
    graph = made.graph
    seen = set()
    for row, causes in enumerate(made.causes):
        for cause in causes:
            (src, dst), (cause_src, cause_dst) = ((graph.src[at], graph.dst[at]) for at in (row, cause))
            delay = graph.time[row] - graph.time[cause]
            rule = (kind(graph, cause_dst), kind(graph, dst))
            seen.add(rule)
            if rule == ("course", "forum"):  # enrol → post in the course's own forum
                assert src == cause_src
                assert number(graph, dst) == number(graph, cause_dst)
                assert delay < 2.1 * 86_400
            else:  # post → answer from the forum's course
                assert dst == cause_src
                assert kind(graph, src) == "course"
                assert number(graph, src) == number(graph, cause_dst)
                assert delay < 3.1 * 3_600
    assert seen == {("course", "forum"), ("forum", "student")}


def test_each_course_is_announced_in_its_own_forum_every_day() -> None:
    graph = campus(courses=5, days=14).graph
    announced = [
        (int(time // 86_400), number(graph, src), number(graph, dst))
        for src, dst, time in zip(graph.src, graph.dst, graph.time, strict=True)
        if (kind(graph, src), kind(graph, dst)) == ("course", "forum")
    ]
    assert sorted(announced) == [(day, course, course) for day in range(14) for course in range(5)]


def test_each_enrolment_causes_a_post_and_each_post_an_answer() -> None:
    made = campus(students=50, courses=5, enrolments=2, noise=0)
    causes = [cause for causes in made.causes for cause in causes]
    assert len(causes) == len(set(causes)) == 2 * 50 * 2
    assert made.graph.num_events == 3 * 50 * 2 + 5 * 60
    assert campus(students=50, courses=5, enrolments=2, noise=0.5).graph.num_events == 4.5 * 50 * 2 + 5 * 60


def test_node_features_tell_the_kind_of_node_and_the_topic_of_a_course_and_its_forum() -> None:
    graph = campus(students=2, courses=2, forums=3, days=7, enrolments=1).graph
    assert [graph.name(node) for node in range(7)] == [
        "student 0", "student 1", "forum 0", "forum 1", "forum 2", "course 0", "course 1",
    ]  # fmt: skip
    assert graph.node_features is not None
    assert graph.node_features.tolist() == [
        [1, 0, 0, 0, 0],
        [1, 0, 0, 0, 0],
        [0, 1, 0, 1, 0],
        [0, 1, 0, 0, 1],
        [0, 1, 0, 0, 0],  # a forum beyond the courses has no topic
        [0, 0, 1, 1, 0],
        [0, 0, 1, 0, 1],
    ]


@pytest.mark.parametrize(
    ("sizes", "message"),
    [
        ({"students": 1}, "students must be at least 2, not 1"),
        ({"courses": 0}, "courses must be at least 1, not 0"),
        ({"days": 3}, "days must be at least 7, not 3"),
        ({"forums": 9}, "forums must be at least 10, one for each course, not 9"),
        ({"enrolments": 11}, "cannot enrol in 11 of 10 courses"),
        ({"enrolments": 0}, "enrolments must be at least 1, not 0"),
        ({"noise": -0.1}, "noise must be"),
        ({"noise": float("nan")}, "noise must be"),
    ],
)
def test_impossible_sizes_are_refused(sizes: dict[str, int], message: str) -> None:
    with pytest.raises(CallError, match=message):
        campus(**sizes)  # type: ignore[arg-type]
