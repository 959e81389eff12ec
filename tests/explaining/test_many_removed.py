"""Many events at once that did not happen."""

import numpy as np
import pytest

from cody.engine import Replay, fast_model
from cody.errors import CallError
from cody.explaining import what_if
from cody.explaining.what_if import Scenario, decide_cases
from cody.explaining.without import without
from cody.graph import TemporalGraph
from cody.graph.dependants import reply
from random_events import random_graph, random_network

START = 1_090_900_800.0  # 2004-07-27 04:00 UTC
GRAPH = TemporalGraph.from_arrays(
    src=[0, 1, 2, 0, 2, 1],
    dst=[1, 0, 0, 2, 1, 0],
    time=[START + hours * 3600.0 for hours in (0, 1, 30, 31, 40, 70)],
    names=["Ann", "Bob", "Cy D."],
    event_name="mail",
)


@pytest.mark.parametrize(
    ("named", "rows", "names"),
    [
        ({"events": [4, 2]}, [2, 4], ()),
        ({"nodes": ["Bob"]}, [0, 1, 4, 5], ("node Bob (4 mails)",)),
        ({"pairs": [("Ann", "Cy D.")]}, [2, 3], ("conversation Ann ↔ Cy D. (2 mails)",)),
        ({"pairs": ["'Cy D.' Ann"]}, [2, 3], ("conversation Ann ↔ Cy D. (2 mails)",)),
        ({"pairs": [("Ann", "Cy D."), ("Cy D.", "Ann")]}, [2, 3], ("conversation Ann ↔ Cy D. (2 mails)",)),
        ({"days": ["2004-07-28"]}, [2, 3, 4], ("day 2004-07-28 (3 mails)",)),
        ({"after": START + 31 * 3600}, [4, 5], ("everything after 2004-07-28 11:00 UTC (2 mails)",)),
        ({"before": START + 3600}, [0], ("everything before 2004-07-27 05:00 UTC (1 mail)",)),
        ({"events": [0], "days": ["2004-07-28"], "pairs": ["Ann Bob"]}, [0, 1, 2, 3, 4, 5], None),
    ],
)
def test_everything_that_is_named_is_removed(named, rows, names):
    removal = without(GRAPH, **named)
    assert sorted(removal.rows) == rows
    assert names is None or removal.names == names


@pytest.mark.parametrize(
    ("named", "message"),
    [
        ({"nodes": ["Dan"]}, "there is no node 'Dan'"),
        ({"pairs": ["Ann"]}, "'Ann' is not a pair of nodes"),
        (
            {"days": ["2004-08-20"]},
            "no events of day 2004-08-20; the log goes from 2004-07-27 04:00",
        ),
        ({"after": "2005-01-01"}, "no events after 2005-01-01 00:00 UTC; the log goes"),
        ({"before": 5.0}, "no events before 5; the log goes"),
        ({"events": [6]}, "event 6 does not exist"),
    ],
)
def test_what_has_no_events_is_one_clear_error(named, message):
    with pytest.raises(CallError, match=message):
        without(GRAPH, **named)


def test_dependants_of_what_is_removed_go_along():
    removal = without(GRAPH, events=[0])
    assert removal.dependants(GRAPH, None, before=6) == frozenset()
    assert removal.dependants(GRAPH, reply(7_200), before=6) == {1}
    assert removal.dependants(GRAPH, reply(7_200), before=1) == frozenset()


@pytest.mark.parametrize("kind", ["tgn", "tgat"])
def test_thousands_of_removed_events_give_the_answer_of_the_reference(kind, monkeypatch):
    monkeypatch.setattr(what_if, "MANY_EVENTS", 20)
    graph = random_graph(np.random.default_rng(3), nodes=10, events=120)
    network = random_network(graph, kind, batch=16)
    query = graph.query(110)
    few, many = frozenset(range(50, 60)), frozenset(range(10, 90))
    cases = [Scenario(query, 110), Scenario(query, 110, many), Scenario(query, 110, few)]
    found = [case.margin for case in decide_cases(fast_model(network, graph), graph, cases)]
    expected = Replay(network, graph).logits(query, [frozenset(), many, few])
    assert found == pytest.approx(expected.tolist(), abs=1e-4)
