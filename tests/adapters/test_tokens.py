"""Models that read the latest events of both ends: what they read of a changed history, and what is known of it."""

import numpy as np
import pytest
import torch
from torch import nn

import cody
from cody import TemporalGraph
from cody.adapters import from_tokens
from cody.errors import CallError, ModelError, SlowModelWarning
from cody.models import check_model
from cody.models.contract import attended_by
from random_events import random_graph

NODES, COUNT = 12, 6


class Candidates(nn.Module):
    """A destination attends to what its source met, as in CRAFT; its own last event and its place are read, too."""

    def __init__(self, width=8):
        super().__init__()
        self.nodes, self.places = nn.Embedding(NODES + 1, width), nn.Embedding(COUNT, width)
        self.attention, self.out = nn.MultiheadAttention(width, 2, batch_first=True), nn.Linear(width + 1, 1)

    @torch.no_grad()
    def forward(self, links):
        met = self.nodes(torch.from_numpy(links.of_src.nodes + 1)) + self.places.weight
        asked = self.nodes(torch.from_numpy(links.dst + 1))[:, None]
        nothing = torch.from_numpy(links.of_src.rows < 0)
        nothing[:, 0] = False
        read = self.attention(asked, met, met, key_padding_mask=nothing)[0][:, 0]
        since = np.where(links.of_dst.rows >= 0, links.time[:, None] - links.of_dst.time, 99.0)
        return 3 * self.out(torch.cat([read, torch.from_numpy(since).float().log1p()], dim=1)).ravel()


@pytest.fixture(scope="module")
def graph():
    return random_graph(np.random.default_rng(2), nodes=NODES, events=150, edge_features=2)


@pytest.fixture(scope="module")
def network():
    torch.manual_seed(0)
    return Candidates().eval()


def wrapped(graph, score, **more):
    return from_tokens(graph, **{"score": score, "count": (COUNT, 1), "identity": "made"} | more)


def without(graph, removed):
    """The log without some events."""
    kept = np.setdiff1d(np.arange(graph.num_events), list(removed))
    columns = (column[kept] for column in (graph.src, graph.dst, graph.time))
    return TemporalGraph.from_arrays(*columns, features=graph.features[kept], num_nodes=NODES)


def test_a_changed_history_scores_as_a_log_that_never_had_the_events(graph, network):
    model, rng = wrapped(graph, network), np.random.default_rng(0)
    for row in (40, 149):
        query = graph.query(row)
        changes = [frozenset(rng.choice(row, size, replace=False).tolist()) for size in (0, 1, 9, 30)]
        expected = []
        for change in changes:
            shorter = without(graph, change)
            expected += wrapped(shorter, network).logits(shorter.query(row - len(change)), [frozenset()]).tolist()
        np.testing.assert_allclose(model.logits(query, changes), expected, atol=1e-5)


def test_tokens_are_the_latest_events_oldest_first(graph):
    seen = []
    model = wrapped(graph, lambda links: seen.append(links) or np.zeros(len(links.src)), count=COUNT)
    query = graph.query(100)
    seen.clear()
    model.logits(query, [frozenset()])
    for tokens, node in zip((seen[0].of_src, seen[0].of_dst), query[:2], strict=True):
        touching = [row for row in range(100) if node in (graph.src[row], graph.dst[row])]
        rows = [row for row in touching if graph.time[row] < query.time][-COUNT:]
        assert tokens.rows[0, : len(rows)].tolist() == rows
        assert tokens.number[0] == len(rows)
        others = [graph.dst[row] if graph.src[row] == node else graph.src[row] for row in rows]
        assert tokens.nodes[0, : len(rows)].tolist() == others
        np.testing.assert_array_equal(tokens.features[0, : len(rows)], graph.features[rows])
        assert (tokens.nodes[0, len(rows) :] == -1).all()


def test_histories_of_which_the_same_is_read_are_scored_once(graph, network):
    seen = []
    model = wrapped(graph, lambda links: seen.append(len(links.src)) or network(links))
    query = graph.query(149)
    seen.clear()
    answers = model.logits(query, [frozenset({row}) for row in range(149)])
    assert 1 < sum(seen) <= 1 + COUNT + 1  # nothing of what is read is removed, or one of it
    expected = [model.reference(query, frozenset({row})).logits(query, [frozenset({row})])[0] for row in range(149)]
    np.testing.assert_allclose(answers, expected, atol=1e-5)


def test_events_of_the_same_moment_are_read_where_that_is_wanted():
    graph = TemporalGraph.from_arrays([0, 0], [1, 1], [5.0, 5.0])
    for same_time, number in ((False, 0), (True, 1)):
        model = wrapped(graph, lambda links: links.of_src.number - 0.5, same_time=same_time)
        assert model.logits(graph.query(1), [frozenset()])[0] == number - 0.5


def test_what_it_attends_to_is_known_and_proves_that_no_other_single_event_matters(graph, network):
    model, query = wrapped(graph, network), graph.query(120)
    rows = attended_by(model, query)
    alone = model.logits(query, [frozenset({row}) for row in range(120)])
    moved = np.flatnonzero(np.abs(alone - model.logits(query, [frozenset()])) > 1e-6)
    assert set(moved) <= set(rows.tolist())
    assert len(rows) == 7 or len(rows) == 6  # of the destination, the last may be among those of the source


def test_models_of_tokens_pass_the_checks_and_are_explained(graph, network):
    model = wrapped(graph, network)
    check_model(model, graph)
    why = cody.explain(model, graph, graph.query(140))
    assert why.verification is None or why.verification.confirmed
    ranked = cody.explain(model, graph, graph.query(140), decision=cody.in_top(3))
    assert ranked.candidates


def test_scores_that_depend_on_the_rest_of_a_batch_are_computed_alone(graph):
    with pytest.warns(SlowModelWarning, match="depends on the other links of its batch"):
        model = wrapped(graph, lambda links: links.of_src.number - links.of_src.number.mean())
    assert model.steps.score_many is None


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"count": 0}, "count must be at least 1, not 0"),
        ({"count": (3, 1, 2)}, "count is a number of events, or two"),
        ({"count": "many"}, "count"),
        ({"score": 3}, "a function is called as score.links.; 3 is none"),
    ],
)
def test_bad_arguments_are_named(changed, message, graph):
    with pytest.raises(CallError, match=message):
        wrapped(graph, changed.pop("score", lambda links: links.of_src.number), **changed)


def test_a_score_for_each_link_is_needed(graph):
    with pytest.warns(SlowModelWarning):
        model = wrapped(graph, lambda links: np.zeros(3))
    with pytest.raises(ModelError, match="one number for each"):
        model.logits(graph.query(9), [frozenset()])
