"""Predictions of decisions other than links and labels of two classes."""

import numpy as np
import pytest

import cody
from cody.engine import fast_model
from cody.errors import CallError
from cody.models.contract import as_model
from cody.models.predict_ranks import RankPredictions
from random_events import random_graph, random_network

NOTHING = [frozenset()]


@pytest.fixture(scope="module")
def case():
    graph = random_graph(np.random.default_rng(3), nodes=12, events=120, ties=False)
    return graph, fast_model(random_network(graph, "tgn", batch=16), graph)


def test_a_destination_is_compared_with_another_node_and_links_with_that_node_are_left_out(case):
    graph, model = case
    found = cody.predict(model, graph, range(80, 120), decision=cody.rather_than(graph.name(3)))
    apart = [row for row in range(80, 120) if 3 not in (graph.src[row], graph.dst[row])]
    assert [each.event for each in found] == apart
    assert found.left_out == 40 - len(apart) > 0
    for each in found:
        query = graph.query(each.event)
        own, other = (model.logits(asked, NOTHING)[0] for asked in (query, query._replace(dst=3)))
        assert each.margin == pytest.approx(own - other, abs=1e-6)
        assert each.positive == each.right == (own > other)
        assert each.predicted == (graph.name(query.dst) if own > other else graph.name(3))
    assert 0 < len(found.wrong) < len(found)
    above = sum(each.positive for each in found)
    assert f"{above} ranked above {graph.name(3)}" in found.sentence
    assert f"left out: {found.left_out} from or to that node" in found.sentence


def test_a_number_is_within_a_range_and_nobody_says_whether_that_is_right(case):
    graph, model = case
    found = cody.predict(model, graph, range(100, 120), decision=cody.between(-0.05, 0.02))
    logits = [model.logits(graph.query(row), NOTHING)[0] for row in range(100, 120)]
    assert [each.positive for each in found] == [-0.05 < logit < 0.02 for logit in logits]
    assert {each.right for each in found} == {None}
    assert list(found.to_frame()["margin"]) == pytest.approx([min(x + 0.05, 0.02 - x) for x in logits], abs=1e-6)


def test_of_several_labels_one_is_asked_for():
    graph = cody.TemporalGraph.from_arrays(
        src=[0] * 6, dst=[1] * 6, time=range(6), labels=[0, 1, 2, 1, 0, 1], label_names=["a", "b", "c"]
    )
    scores = np.array([[2.0, 1, 0], [0, 3, 1], [0, 2, 1], [1, 0, 0], [1, 2, 0], [0, 1, 0]])
    model = as_model(
        lambda graph, query, changes: np.repeat(scores[query.before][None], len(changes), axis=0),
        graph,
        identity="table",
        classes=["a", "b", "c"],
    )
    found = cody.predict(model, graph, range(6), decision=cody.labelled("b"))
    assert [each.positive for each in found] == [False, True, True, False, True, True]
    assert [each.right for each in found] == [True, True, False, False, False, True]
    assert [each.figure for each in found] == ["a", "b", "b", "a", "b", "b"]
    assert found[0].margin == -1.0
    assert "4 b (66.7 %); of 3 with the label b, 2 predicted, 1 missed" in found.sentence
    assert "2 false alarms (precision 50.0 %)" in found.sentence
    rows = cody.predict(model, graph, range(6), decision=cody.decided_by(lambda scores: scores[:, 0] - 0.5))
    assert [each.predicted for each in rows] == ["yes", "no", "no", "yes", "yes", "no"]


def test_a_threshold_and_ranks_are_decisions_too(case):
    graph, model = case
    high = cody.predict(model, graph, range(100, 120), decision=cody.above(0.55))
    assert [each.predicted for each in high] == [
        each.score > 0.55 for each in cody.predict(model, graph, range(100, 120))
    ]
    ranked = cody.predict(model, graph, range(100, 120), decision=cody.in_top(3))
    assert isinstance(ranked, RankPredictions)
    assert ranked.k == 3


def test_what_cannot_be_decided_is_refused(case):
    graph, model = case
    third = graph.name(3)
    only = [row for row in range(120) if graph.dst[row] == 3][-2:]
    for arguments, message in (
        ({"links": only, "decision": cody.rather_than(third)}, "name another one"),
        ({"decision": cody.labelled("fraud")}, "predicts links, not labels such as 'fraud'"),
        ({"decision": cody.above(0.8), "threshold": 0.7}, "a threshold or a decision, not both"),
        ({"node": third, "next": 2, "decision": cody.in_top(3)}, "leave out the decision"),
        ({"decision": "top 3"}, "a decision is cody.above"),
    ):
        with pytest.raises(CallError, match=message):
            cody.predict(model, graph, **arguments)
