"""Ranks of links among all destinations."""

import numpy as np
import pytest

from cody.engine import fast_model
from cody.errors import CallError
from cody.models import ToyModel
from cody.models.predict_ranks import predict_ranks
from random_events import random_graph, random_network


@pytest.fixture(scope="module")
def case():
    graph = random_graph(np.random.default_rng(3), nodes=12, events=120, ties=False)
    return graph, fast_model(random_network(graph, "tgn", batch=16), graph)


def test_the_rank_counts_the_destinations_with_a_score_at_least_as_high(case):
    graph, model = case
    for each in predict_ranks(model, graph, range(100, 120), k=3):
        query = graph.query(each.event)
        others = set(graph.dst[: each.event].tolist()) - {query.src, query.dst}
        scores = [model.logits(query._replace(dst=other), [frozenset()])[0] for other in others]
        own = model.logits(query, [frozenset()])[0]
        assert each.rank == 1 + sum(score >= own - 1e-12 for score in scores)
        assert each.of == 1 + len(others)
        assert each.in_top == (each.rank <= 3)


def test_hits_and_reciprocal_ranks_are_those_of_the_links(case):
    graph, model = case
    found = predict_ranks(model, graph, range(100, 120), k=3)
    ranks = np.array([each.rank for each in found])
    assert found.hits == pytest.approx((ranks <= 3).mean())
    assert found.mean_reciprocal_rank == pytest.approx((1 / ranks).mean())
    assert [each.rank for each in found.wrong] == [rank for rank in ranks.tolist() if rank > 3]
    assert f"{100 * found.hits:.1f} % in the top 3" in found.sentence
    assert list(found.to_frame()["rank"]) == ranks.tolist()


def test_rivals_can_be_given_and_links_need_not_have_happened(case):
    graph, model = case
    query = graph.query_at(graph.name(0), graph.name(1), 200.0)
    (each,) = predict_ranks(model, graph, [query], k=1, among=[2, 3])
    assert (each.event, each.of) == (None, 3)
    with pytest.raises(CallError, match="every destination is in the top 5"):
        predict_ranks(model, graph, [query], k=5, among=[2, 3])


def test_the_default_is_the_test_period(case):
    graph, _ = case
    assert [each.event for each in predict_ranks(ToyModel(graph), graph)] == list(range(102, 120))


def test_a_link_is_never_its_own_rival_and_links_with_too_few_rivals_are_counted(case):
    graph, model = case
    rivals = sorted(set(graph.dst[100:120].tolist()))[:3]
    found = predict_ranks(model, graph, range(100, 120), k=3, among=[graph.name(node) for node in rivals])
    own = [row for row in range(100, 120) if graph.dst[row] in rivals]
    assert [each.event for each in found] == [row for row in range(100, 120) if row not in own]
    assert {each.of for each in found} == {4}
    assert found.left_out == len(own) > 0
    assert f"left out: {len(own)} links with fewer than 3 rivals" in found.sentence
