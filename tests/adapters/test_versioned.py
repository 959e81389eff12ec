"""A user's memory that is a GRU of plain messages is followed by our own engine, and answers stay the same."""

import numpy as np
import pytest
import torch
from torch import nn

from adapters.pyg_models import random_tgn
from adapters.test_pyg import wrapped
from adapters.test_sourced import as_in_tgb, some_changes
from cody import Add, Move, TemporalGraph
from cody.adapters import workspace
from cody.adapters.sourced import SlotWorkspace
from cody.adapters.versioned import VersionWorkspace


def both(seed, *, times, batch=6, first=False, **options):
    """A model in the fast and in the slow way, on 80 events with times that are drawn from 0 to `times`."""
    rng = np.random.default_rng(seed)
    src, dst = rng.integers(0, 9, (2, 80))
    graph = TemporalGraph.from_arrays(src, dst, np.sort(rng.integers(0, times, 80)) * 10.0)
    tgn, data = random_tgn(graph, seed)
    if first:
        tgn = tgn._replace(memory=as_in_tgb(tgn.memory))
    return rng, *(wrapped(tgn, data, batch=batch, fast=fast, **options) for fast in (True, False))


@torch.no_grad()
def answers(kind, model, query, changes):
    """What a workspace of one kind answers."""
    query, rows = model.frame.as_fed(query), frozenset().union(*changes)
    known = (
        VersionWorkspace.of(model.followed, [query], rows)
        if kind is VersionWorkspace
        else SlotWorkspace(model.table, model.log, [query], rows)
    )
    return None if known is None else np.concatenate(known.answer(changes))


@pytest.mark.parametrize("form", ["numpy", "compiled"])
@pytest.mark.parametrize("many", [0, 10**9], ids=["estimated", "exact"])
@pytest.mark.parametrize("times", [60, 10**6], ids=["simultaneous", "one after the other"])
def test_versions_and_slots_give_the_same_answers(times, many, form, monkeypatch):
    monkeypatch.setattr(workspace, "MANY_STATES", many)
    monkeypatch.setattr(workspace, "SMALL_CHANGE", 1e-6)
    if form == "numpy":
        monkeypatch.setenv("CODY_PURE", "1")
    followed = repeated = 0
    for seed in range(6):
        loop = {"batch": 20, "sees_own_batch": seed % 2 == 0, "splits": (31, 50)}
        rng, fast, slow = both(seed, times=times, first=seed % 3 == 0, **loop)
        for row in (79, 60, 44):
            query, sets = fast.graph.query(row), some_changes(rng, range(row))
            expected = slow.logits(query, sets)
            np.testing.assert_allclose(answers(SlotWorkspace, fast, query, sets), expected, atol=1e-5)
            for some in ([0, 1, 2, 3, 4], [0, 1], [2], [3]):
                given = answers(VersionWorkspace, fast, query, [sets[place] for place in some])
                if given is not None:
                    np.testing.assert_allclose(given, expected[some], atol=1e-5)
                    followed += 1
                    repeated += len(fast.followed.node_order.repeating) > 0
    assert followed >= (72 if times > 100 else 20)
    assert repeated or times > 100


@pytest.mark.parametrize("first", [False, True], ids=["the last counts", "the first counts"])
def test_simultaneous_events_of_one_batch_count_by_side_and_then_by_row(first):
    """0 is the target of row 1 and the source of rows 2 and 3; 4 is a self-loop."""
    graph = TemporalGraph.from_arrays([5, 1, 0, 0, 4, 4, 0], [6, 0, 2, 3, 4, 5, 1], [1.0, *[2.0] * 5, 3.0])
    tgn, data = random_tgn(graph, 3)
    if first:
        tgn = tgn._replace(memory=as_in_tgb(tgn.memory))
    fast, slow = (wrapped(tgn, data, batch=6, fast=way) for way in (True, False))
    query = graph.link(0, 4, "now")
    changes = [frozenset(row for row in range(1, 6) if number >> row - 1 & 1) for number in range(32)]
    given = answers(VersionWorkspace, fast, query, changes)
    np.testing.assert_allclose(given, slow.logits(query, changes), atol=1e-6)
    assert len(np.unique(given.round(4))) > 8


def test_a_message_counts_in_a_later_batch_once_more_and_is_followed_in_slots_if_it_is_edited():
    """0 is the target of row 2, in one batch, and the source of row 4 in the next; so row 2 counts in both."""
    graph = TemporalGraph.from_arrays([1, 3, 1, 5, 0, 4, 0], [3, 0, 0, 6, 2, 5, 1], [0.0, 1.0, 2.0, 2.0, 2.0, 3.0, 4.0])
    tgn, data = random_tgn(graph, 3)
    fast, slow = (wrapped(tgn, data, batch=2, fast=way) for way in (True, False))
    assert fast.followed.node_order.repeating.tolist() == [2 * 4]
    assert fast.followed.node_order.message.tolist() == [2]
    query, changes = graph.query(6), [frozenset(), frozenset({0}), frozenset({1})]
    np.testing.assert_allclose(answers(VersionWorkspace, fast, query, changes), slow.logits(query, changes), atol=1e-6)
    for row in (2, 4):
        assert answers(VersionWorkspace, fast, query, [frozenset({row})]) is None
        assert isinstance(fast.workspace([query], frozenset({row})), SlotWorkspace)


def test_imagined_events_are_followed_unless_they_coincide_with_others_on_the_other_side():
    rng, fast, slow = both(1, times=10**6)
    when = float(fast.graph.time[40])
    for edits, follows in (
        ([Add(1, 2, when + 1), Move(20, when - 1)], True),
        ([Add(int(fast.graph.dst[40]), 1, when)], False),
    ):
        longer = fast.graph.imagine(edits)
        model, query = fast.on(longer), longer.query(79)
        changes = some_changes(rng, [*range(79), *range(80, longer.num_rows)])
        np.testing.assert_allclose(model.logits(query, changes), slow.on(longer).logits(query, changes), atol=1e-5)
        rows = frozenset(range(longer.num_rows)) - {79}
        assert isinstance(model.workspace([model.frame.as_fed(query)], rows), VersionWorkspace) == follows


class Halved(nn.Module):
    """A message function that is not the library's."""

    def __init__(self, like):
        super().__init__()
        self.out_channels = like.out_channels

    def forward(self, own, other, raw, encoded):
        return torch.cat([own, other / 2, raw, encoded], dim=-1)


def test_other_message_functions_are_followed_with_the_users_modules():
    rng, fast, _ = both(1, times=10**6)
    assert fast.followed is not None
    tgn, data = random_tgn(fast.graph, 1)
    for name in ("msg_s_module", "msg_d_module"):
        setattr(tgn.memory, name, Halved(getattr(tgn.memory, name)))
    fast, slow = (wrapped(tgn, data, batch=6, fast=way) for way in (True, False))
    assert fast.followed is None
    query, changes = fast.graph.query(79), some_changes(rng, range(79))
    np.testing.assert_allclose(fast.logits(query, changes), slow.logits(query, changes), atol=1e-5)


def test_versions_with_nothing_changed_are_computed_when_they_are_first_read():
    _, fast, _ = both(2, times=10**6)
    versions = fast.followed.table
    assert not versions.known.any()
    fast.session(fast.graph.query(79), [70]).logits([frozenset({70})])
    assert 0 < versions.known.sum() < len(versions.known)


def test_another_process_computes_the_versions_that_it_needs():
    _, fast, _ = both(2, times=10**6)
    query, changes = fast.graph.query(79), [frozenset({70})]
    expected = fast.logits(query, changes)
    state = fast.__getstate__()
    assert "followed" in vars(fast)
    assert "followed" not in state
    other = object.__new__(type(fast))
    vars(other).update(state)
    np.testing.assert_array_equal(other.logits(query, changes), expected)
