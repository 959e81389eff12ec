"""The checks of explanations, on logs small enough to compute them by hand."""

import math
from dataclasses import dataclass

import numpy as np
import pytest

from cody.data.mechanisms import mechanism
from cody.graph import TemporalGraph
from cody.models import ToyModel
from cody.models.oracles import ORACLES, randomised
from cody.study.disturbances import DISTURBANCES, jittered, with_unrelated_events
from cody.study.explainers import explainer
from cody.study.metrics import similarity
from cody.study.sanity import cohesiveness, degree_likelihood, gap_likelihood, robust_fidelity

# 0-1 at 0, 0-1 at 10, 2-3 at 20, 0-1 at 30, and the link 0-1 at 40
GRAPH = TemporalGraph.from_arrays(src=[0, 0, 2, 0, 0], dst=[1, 1, 3, 1, 1], time=[0.0, 10.0, 20.0, 30.0, 40.0])


@dataclass
class Named:
    rows: tuple[int, ...]
    event: int | None = 4


def test_cohesiveness_is_high_for_events_that_share_nodes_and_moments():
    assert cohesiveness(Named((3,)), GRAPH) == pytest.approx(math.cos(1))  # two events span what they are apart
    assert cohesiveness(Named((2,)), GRAPH) == 0  # no node in common with the link
    three = (math.cos(10 / 20) + 0 + 0) / 3  # rows 2, 3 and the link: only the last two share nodes
    assert cohesiveness(Named((2, 3)), GRAPH) == pytest.approx(three)
    assert cohesiveness(Named(()), GRAPH) == 1


def test_gap_likelihood_is_the_share_of_silences_that_are_as_long():
    # silences of nodes 0 and 1 before the link: 10 and 20 each
    assert gap_likelihood(Named((3,)), GRAPH) == pytest.approx(1 / 5)  # leaves 30, from 10 to the link
    assert gap_likelihood(Named((0,)), GRAPH) == pytest.approx(5 / 5)  # 10 from the start of the log
    assert gap_likelihood(Named((1,)), GRAPH) == pytest.approx(1 / 5)  # 30 from 0 to 30
    assert gap_likelihood(Named((0, 3)), GRAPH) == pytest.approx(1 / 5)  # the longest of 10 and 30 counts
    assert gap_likelihood(Named(()), GRAPH) == 1


def test_degree_likelihood_is_the_share_of_nodes_with_as_few_events():
    # events before the link: 3, 3, 1, 1
    assert degree_likelihood(Named((3,)), GRAPH) == pytest.approx(3 / 5)  # two are left; nodes 2 and 3 have fewer
    assert degree_likelihood(Named((0, 1, 3)), GRAPH) == pytest.approx(1 / 5)  # none is left
    assert degree_likelihood(Named(()), GRAPH) == 1


def test_robust_fidelity_is_the_share_of_random_parts_that_matter():
    model = ToyModel(GRAPH, weights=[0, 0, 0, 4, 0], bias=-1)  # only event 3 matters
    candidates = np.arange(4)
    rng = np.random.default_rng(0)
    found = robust_fidelity(Named((3,)), candidates, model, GRAPH, rng, samples=400)
    assert found.plus == pytest.approx(0.5, abs=0.1)  # it is in half of the parts
    assert found.minus == 1
    wrong = robust_fidelity(Named((0,)), candidates, model, GRAPH, rng, samples=400)
    assert wrong.plus == 0
    assert wrong.minus == pytest.approx(0.5, abs=0.1)
    whole = robust_fidelity(Named((3,)), candidates, model, GRAPH, rng, share=1.0)
    assert whole == (1, 1)  # then it is fidelity itself


def test_similarity_is_the_jaccard_index():
    assert similarity([1, 2, 3], [3, 4]) == 1 / 4
    assert similarity([], [1]) == 0


@pytest.mark.parametrize("name", ["joint", "burst", "confounded"])
def test_disturbed_logs_have_the_same_links_with_the_same_causes(name):
    """So that an explainer that answers otherwise is unstable, and not right. Moved times can cross a window's edge."""
    made = mechanism(name, episodes=30)
    for change in (jittered, with_unrelated_events):
        graph, rows = change(made)
        assert (np.diff(graph.time) > 0).all()
        for column in ("src", "dst"):
            assert (getattr(graph, column)[rows] == getattr(made.graph, column)).all()
        model, moved = ORACLES[name](made.graph), ORACLES[name](graph)
        agree = []
        for row in made.ways:
            changes = [frozenset(), *made.counterfactuals(row)]
            there = [frozenset(rows[list(change)].tolist()) for change in changes]
            before = model.logits(made.graph.query(row), changes)
            after = moved.logits(graph.query(int(rows[row])), there)
            agree.append(bool(((before > 0) == (after > 0)).all()))
        assert np.mean(agree) >= (0.9 if change is jittered else 1)


def test_an_unrelated_event_stands_just_before_each_link_and_has_to_do_with_neither_node():
    made = mechanism("reply", episodes=30)
    graph, rows = with_unrelated_events(made)
    assert graph.num_events == made.graph.num_events + len(made.ways)
    for row in made.ways:
        place = int(rows[row])
        ends = {graph.src[place], graph.dst[place]}
        assert place - 1 not in rows
        assert not ends & {graph.src[place - 1], graph.dst[place - 1]}


def test_a_search_explains_a_model_and_random_sets_do_not():
    made = mechanism("joint", episodes=30)
    model, other = ORACLES["joint"](made.graph), randomised(made.graph)
    queries = [made.graph.query(row) for row in list(made.ways)[:6]]
    scout, random = (explainer(name, size=64) for name in ("scout", "random"))

    def same(which):
        pairs = [(which.explain(each, made.graph, query).rows for each in (model, other)) for query in queries]
        return np.mean([similarity(*pair) for pair in pairs])

    assert same(random) == 1
    assert same(scout) < 0.5


def test_every_disturbance_says_what_it_means():
    assert {name for name, each in DISTURBANCES.items() if each.should_differ} == {"weights"}
    assert all(each.meaning for each in DISTURBANCES.values())
