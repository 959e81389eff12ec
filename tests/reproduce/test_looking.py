"""What a model looks at, as candidates."""

import sys
from pathlib import Path

import numpy as np
import pytest

from cody.engine import fast_model
from cody.graph import Query, TemporalGraph
from random_events import random_graph, random_network

sys.path.insert(0, str(Path(__file__).parents[2] / "reproduce"))
from looking import by_attention, by_memory, weights_of_attention


@pytest.mark.parametrize("kind", ["tgn", "tgat"])
@pytest.mark.parametrize(("layers", "whole"), [(1, 2), (2, 2 + 4)])  # below, both ends count again, and what they met
def test_ends_share_their_weight_among_the_events_they_attend_to_and_pass_it_on(kind, layers, whole):
    graph = random_graph(np.random.default_rng(3), nodes=6, events=80)
    model = fast_model(random_network(graph, kind, layers=layers), graph)
    query = Query(0, 1, float(graph.time[70]), 70)
    weights = weights_of_attention(model, graph, query)
    assert sum(weights.values()) == pytest.approx(whole)
    assert len(set(weights.values())) > 4
    rows = by_attention(model, graph, query, layers, len(weights) + 3)
    assert rows[: len(weights)].tolist() == sorted(weights, key=weights.get, reverse=True)
    assert len(np.unique(rows)) == len(weights) + 3


def test_a_memory_is_made_of_what_both_nodes_had_at_the_start_of_the_batch():
    src, dst = [2, 4, 0, 0, 1, 0], [3, 3, 2, 5, 3, 2]
    graph = TemporalGraph.from_arrays(src=src, dst=dst, time=np.arange(6.0))
    link = Query(0, 1, 9.0, 6)
    assert by_memory(1, graph, link, 2, 6).tolist() == [5, 4, 3, 2, 1, 0]
    assert by_memory(3, graph, link, 2, 4).tolist() == [5, 4, 2, 1]  # at the start of its batch, 0 had not met 5
