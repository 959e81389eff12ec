"""Predicted labels of many events."""

import numpy as np
import pytest

import cody
from cody.errors import CallError
from cody.graph import Query, TemporalGraph
from cody.models.contract import LabelTask, label_task
from cody.models.predictions import predict_labels

LABELS = [0, 1, 0, 1, -1, 1]


@pytest.fixture
def graph():
    return TemporalGraph.from_arrays(
        [0, 1, 2, 0, 1, 2],
        [3, 3, 4, 4, 5, 5],
        [10.0, 20.0, 30.0, 40.0, 50.0, 60.0],
        labels=LABELS,
        label_names=["trust", "distrust"],
        event_name="rating",
    )


class ByRow:
    """Scores that are given for each row; remembers what it was asked."""

    identity, hops, classes, about = "by row", 1, ("trust", "distrust"), "event"

    def __init__(self, scores):
        self.scores, self.asked = scores, []

    def logits(self, query, changes):
        self.asked.append(query)
        return np.array([self.scores[query.before]] * len(changes), dtype=float)


def logit(share):
    return np.log(share / (1 - share))


SCORES = [logit(share) for share in (0.1, 0.9, 0.4, 0.3, 0.6, 0.45)]


def test_a_label_is_predicted_above_the_threshold(graph):
    found = cody.predict(ByRow(SCORES), graph, range(6))
    assert [each.predicted for each in found] == ["trust", "distrust", "trust", "trust", "distrust", "trust"]
    assert [each.label for each in found] == ["trust", "distrust", "trust", "distrust", None, "distrust"]
    assert [each.right for each in found] == [True, True, True, False, None, False]
    lower = cody.predict(ByRow(SCORES), graph, range(6), threshold=0.35)
    assert [each.predicted == "distrust" for each in lower] == [False, True, True, False, True, True]
    assert lower[2].score == pytest.approx(0.4)


def test_precision_and_recall_are_those_of_known_labels(graph):
    found = cody.predict(ByRow(SCORES), graph, range(6), threshold=0.35)
    assert tuple(found.counts) == (2, 1, 1, 1)  # hits, missed, false alarms, rejected
    assert (found.counts.precision, found.counts.recall) == (2 / 3, 2 / 3)
    assert tuple(found.counts_of("trust")) == (1, 1, 1, 2)
    assert [each.event for each in found.wrong] == [2, 3]


def test_the_sentence_speaks_of_the_data_and_never_of_links(graph):
    found = cody.predict(ByRow(SCORES), graph, range(6), threshold=0.35)
    assert found.sentence == (
        "6 ratings from 10 to 60: of 3 with the label distrust, 2 predicted, 1 missed (recall 66.7 %); "
        "1 false alarm (precision 66.7 %); of 1 without a known label, predicted are 1 distrust."
    )
    assert found.rule == "Predicted is distrust where its score is above 0.35."
    assert "link" not in found.sentence + found.rule + repr(found)


def test_a_model_may_propose_its_threshold(graph):
    model = ByRow(SCORES)
    assert cody.predict(model, graph, [0]).threshold == 0.5
    model.threshold = 0.35
    found = cody.predict(model, graph, range(6))
    assert found[2].predicted == "distrust"
    assert "the best F1 of its validation period" in found.rule
    assert "validation" not in cody.predict(model, graph, range(6), threshold=0.5).rule


def test_by_default_the_last_events_are_labelled_or_those_of_a_node(graph):
    assert [each.event for each in cody.predict(ByRow(SCORES), graph)] == [5]
    assert [each.event for each in cody.predict(ByRow(SCORES), graph, node=1)] == []
    assert [each.event for each in cody.predict(ByRow(SCORES), graph, node=5)] == [5]


def test_a_model_of_nodes_is_asked_about_the_source_and_shown_with_its_event(graph):
    model = ByRow(SCORES)
    model.about = "node"
    (found,) = cody.predict(model, graph, [3])
    assert model.asked == [Query(0, 0, 40.0, 3)]
    assert (found.src, found.dst) == ("0", "4")


def test_of_several_classes_the_highest_score_is_predicted(graph):
    graph = graph.with_labels([0, 1, 2, 1, -1, 0], ["red", "green", "blue"])
    model = ByRow(np.array([[3.0, 0, 0], [0, 1, 0], [2, 0, 1], [0, 5, 0], [0, 0, 1], [0, 0, 2]]))
    model.classes = ("red", "green", "blue")
    found = cody.predict(model, graph, range(6))
    assert [each.predicted for each in found] == ["red", "green", "red", "green", "blue", "blue"]
    assert found[0].score == pytest.approx(np.exp(3) / (np.exp(3) + 2))
    assert tuple(found.counts_of("red")) == (1, 1, 1, 2)
    with pytest.raises(CallError, match="a threshold is for two classes"):
        cody.predict(model, graph, [0], threshold=0.4)


def test_a_query_that_is_no_event_has_no_known_label(graph):
    (found,) = cody.predict(ByRow([*SCORES, 1.0]), graph, [graph.link(0, 5, 60.0)])
    assert (found.event, found.label, found.right) == (None, None, None)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"threshold": 0.0}, "between 0 and 1, not 0"),
        ({"threshold": 1.5}, "between 0 and 1"),
        ({"links": [0], "node": 1}, "not both"),
    ],
)
def test_bad_options_are_refused(graph, options, message):
    with pytest.raises(CallError, match=message):
        cody.predict(ByRow(SCORES), graph, **options)


def test_options_of_links_and_of_labels_do_not_mix(graph):
    with pytest.raises(CallError, match="this model predicts labels: leave it out"):
        cody.predict(ByRow(SCORES), graph, node=0, next=3)
    link_model = cody.as_model(lambda graph, query, changes: [1.0] * len(changes), graph, identity="1")
    assert cody.predict(link_model, graph, [5], threshold=0.4)[0].predicted
    assert not cody.predict(link_model, graph, [5], threshold=0.8)[0].predicted  # 1.0 is a probability of 0.73
    with pytest.raises(CallError, match="the model has no classes"):
        predict_labels(link_model, graph, [5], None, None)


def test_a_table_has_a_row_for_each_event(graph):
    frame = cody.predict(ByRow(SCORES), graph, range(6)).to_frame()
    assert frame["predicted"].tolist()[:2] == ["trust", "distrust"]
    assert len(frame) == 6


def test_the_task_of_a_model_is_read_from_its_properties():
    assert label_task(ByRow(SCORES)) == LabelTask(("trust", "distrust"), "event", None)
