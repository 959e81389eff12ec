from __future__ import annotations

import numpy as np
import pytest

from cody.data import campus
from cody.errors import CallError
from cody.graph import neighbourhood


def kind(graph: object, node: int) -> str:
    return graph.name(int(node)).split()[0]  # type: ignore[attr-defined]


def test_the_same_seed_makes_the_same_campus() -> None:
    one, two, other = campus(seed=3), campus(seed=3), campus(seed=4)
    assert one.graph.identity == two.graph.identity
    assert one.causes == two.causes
    assert one.graph.identity != other.graph.identity


def test_times_are_distinct_and_causes_earlier_and_within_two_hops() -> None:
    made = campus(students=30, courses=4, days=14)
    graph = made.graph
    assert (np.diff(graph.time) > 0).all()
    assert len(made.causes) == graph.num_events
    for row, causes in enumerate(made.causes):
        nodes = set(neighbourhood(graph, graph.query(row), 2)[0].tolist())
        for cause in causes:
            assert cause < row
            assert {int(graph.src[cause]), int(graph.dst[cause])} <= nodes


def test_every_cause_follows_one_of_the_two_rules() -> None:
    made = campus(students=30, courses=4, forums=6, days=14, seed=1)
    graph = made.graph
    seen = set()
    for row, causes in enumerate(made.causes):
        for cause in causes:
            event = (graph.src[row], graph.dst[row])
            before = (graph.src[cause], graph.dst[cause])
            delay = graph.time[row] - graph.time[cause]
            if kind(graph, event[1]) == "forum":  # enrol → post in the course's own forum
                assert kind(graph, before[1]) == "course"
                assert event[0] == before[0]
                assert graph.name(event[1]).split()[1] == graph.name(before[1]).split()[1]
                assert delay < 2.1 * 86_400
                seen.add("post")
            else:  # message → reply
                assert event == (before[1], before[0])
                assert delay < 3.1 * 3_600
                seen.add("reply")
    assert seen == {"post", "reply"}


def test_each_course_is_tied_to_its_own_forum_from_the_first_day() -> None:
    graph = campus(courses=5).graph
    ties = {
        (graph.name(s), graph.name(d))
        for s, d, t in zip(graph.src, graph.dst, graph.time, strict=True)
        if kind(graph, s) == "course" and t < 86_400
    }
    assert ties == {(f"course {number}", f"forum {number}") for number in range(5)}


def test_each_enrolment_and_each_answered_message_causes_one_event() -> None:
    made = campus(students=50, courses=5, enrolments=2, messages=3, noise=0)
    causes = [cause for causes in made.causes for cause in causes]
    assert len(causes) == len(set(causes)) == 50 * 2 + 50 * 3
    assert made.graph.num_events == 2 * len(causes) + 5 * 60


def test_node_features_tell_the_kind_of_node() -> None:
    graph = campus(students=3, courses=1, forums=2, days=7, enrolments=1).graph
    assert graph.node_features is not None
    assert graph.node_features.argmax(axis=1).tolist() == [0, 0, 0, 1, 1, 2]
    assert [graph.name(node) for node in range(6)] == [
        "student 0", "student 1", "student 2", "forum 0", "forum 1", "course 0",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("sizes", "message"),
    [
        ({"students": 1}, "students must be at least 2, not 1"),
        ({"courses": 0}, "courses must be at least 1, not 0"),
        ({"days": 3}, "days must be at least 7, not 3"),
        ({"forums": 9}, "forums must be at least 10, one for each course, not 9"),
        ({"enrolments": 11}, "cannot enrol in 11 of 10 courses"),
        ({"messages": -1}, "messages must be at least 0, not -1"),
        ({"noise": -0.1}, "noise must be"),
        ({"noise": float("nan")}, "noise must be"),
    ],
)
def test_impossible_sizes_are_refused(sizes: dict[str, int], message: str) -> None:
    with pytest.raises(CallError, match=message):
        campus(**sizes)  # type: ignore[arg-type]
