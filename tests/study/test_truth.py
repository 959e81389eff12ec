"""Scores of explanations whose truth is known, worked out by hand."""

from dataclasses import dataclass

import numpy as np
import pytest

from cody.data.mechanisms import PlantedCauses, mechanism
from cody.errors import CallError
from cody.graph import TemporalGraph
from cody.models.oracles import ORACLES
from cody.study.explainers import explainer
from cody.study.shares import mean
from cody.study.truth import exact, first_rank, precision, recall

GRAPH = TemporalGraph.from_arrays(src=[0] * 8, dst=[1] * 8, time=np.arange(8.0))
JOINT = PlantedCauses("joint", GRAPH, {7: (frozenset({1, 2}),)})  # both are needed
EITHER = PlantedCauses("redundant", GRAPH, {7: (frozenset({1}), frozenset({2}))})  # either suffices


@dataclass
class Answer:
    rows: tuple[int, ...]
    factual: bool = False
    event: int | None = 7
    candidates: int = 7


@pytest.mark.parametrize(
    ("answer", "truth", "expected"),  # precision, recall, exact, rank
    [
        (Answer((1,)), JOINT, (1, 1, 1, 1)),  # without either of both, the link is gone
        (Answer((1,), factual=True), JOINT, (1, 1 / 2, 0, 1)),
        (Answer((1, 2)), JOINT, (1, 1, 0, 1)),
        (Answer((2, 1), factual=True), JOINT, (1, 1, 1, 1)),
        (Answer((1,)), EITHER, (1, 1 / 2, 0, 1)),
        (Answer((1,), factual=True), EITHER, (1, 1, 1, 1)),
        (Answer((1, 2)), EITHER, (1, 1, 1, 1)),
        (Answer((5, 0, 2)), EITHER, (1 / 3, 1 / 2, 0, 3)),
        (Answer((5,)), EITHER, (0, 0, 0, 1 + 7 / 3)),  # 1 + (6 + 1) / (2 + 1)
        (Answer(()), EITHER, (0, 0, 0, 8 / 3)),
    ],
)
def test_scores_have_the_values_worked_out_by_hand(answer, truth, expected):
    found = [score(answer, truth) for score in (precision, recall, exact, first_rank)]
    assert found == pytest.approx(expected)


def test_the_expected_place_is_that_of_random_orders():
    rng, answer = np.random.default_rng(0), Answer((5,))
    places = [1 + min(np.flatnonzero(np.isin(rng.permutation([0, 1, 2, 3, 4, 6]), [1, 2])) + 1) for _ in range(20_000)]
    assert first_rank(answer, EITHER) == pytest.approx(np.mean(places), abs=0.03)


def test_an_explanation_of_a_link_without_known_causes_is_rejected():
    with pytest.raises(CallError, match="the causes of event 3 are not known"):
        exact(Answer((1,), event=3), JOINT)


def test_an_explanation_itself_can_be_scored():
    made = mechanism("reply", episodes=20)
    row = next(iter(made.ways))
    why = explainer("scout").explain(ORACLES["reply"](made.graph), made.graph, made.graph.query(row))
    assert [score(why, made) for score in (precision, recall, exact, first_rank)] == [1, 1, 1, 1]


def test_the_interval_of_a_mean_holds_it_and_narrows_with_more_links():
    few, many = mean([0, 1] * 10), mean([0, 1] * 1000)
    assert few.low < few.value == many.value == 0.5 < few.high
    assert many.high - many.low < (few.high - few.low) / 5
    assert many.high - many.low == pytest.approx(2 * 1.96 * 0.5 / np.sqrt(2000), rel=0.1)
