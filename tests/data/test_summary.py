from __future__ import annotations

import pytest

from cody.data import Dataset, datasets, is_here, load, summarise
from cody.graph import TemporalGraph

PAPER = {
    "collegemsg": (1_899, 59_835, 20_296, "unipartite"),
    "uci-messages": (1_899, 59_835, 20_296, "unipartite"),
    "uci-forums": (1_421, 33_720, 7_089, "bipartite"),
    "wikipedia": (9_227, 157_474, 18_257, "bipartite"),
}
SPAN = {"collegemsg": 193.7, "uci-messages": 193.7, "uci-forums": 164.5, "wikipedia": 31.0}


@pytest.mark.parametrize("name", PAPER)
def test_named_data_sets_have_the_counts_of_the_paper(name: str, request: pytest.FixtureRequest) -> None:
    if name != "collegemsg":
        request.getfixturevalue("data_directory")
    summary = summarise(load(name))
    assert (summary.nodes, summary.events, summary.unique_edges, summary.kind) == PAPER[name]
    assert summary.days == pytest.approx(SPAN[name], abs=0.05)


@pytest.mark.parametrize("dataset", datasets(), ids=lambda dataset: dataset.name)
def test_every_data_set_that_is_here_has_the_counts_of_its_entry(dataset: Dataset) -> None:
    """A new one is asked this by its entry."""
    if not is_here(dataset):
        pytest.skip(f"to run this: cody data fetch {dataset.name}")
    summary = summarise(load(dataset.name))
    counts = (dataset.nodes, dataset.events, dataset.unique_edges, dataset.kind)
    assert (summary.nodes, summary.events, summary.unique_edges, summary.kind) == counts


def test_directions_count_as_different_edges_and_isolated_nodes_do_not_count() -> None:
    graph = TemporalGraph.from_arrays([0, 1, 0], [1, 0, 1], [0, 1, 86_400], num_nodes=9, features=[[1, 2]] * 3)
    summary = summarise(graph)
    assert (summary.nodes, summary.unique_edges, summary.kind) == (2, 2, "unipartite")
    assert (summary.days, summary.first_time, summary.last_time) == (1.0, 0.0, 86_400.0)
    assert (summary.event_features, summary.node_features) == (2, 0)
