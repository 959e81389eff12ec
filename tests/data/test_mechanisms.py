"""The truth about generated logs, against brute force: every subset of the events that could matter."""

from itertools import combinations, product

import numpy as np
import pytest

import cody
from cody.data import MECHANISMS, mechanism
from cody.errors import CallError
from cody.models.oracles import DISTRACTION, ORACLES

MOST = 9  # events of which all subsets are tried


def subsets(rows):
    return [frozenset(some) for size in range(len(rows) + 1) for some in combinations(rows, size)]


def events_to_try(made, row):
    """All causes, and the latest other events of the two nodes."""
    graph, causes = made.graph, made.causes_of(row)
    ends = {int(graph.src[row]), int(graph.dst[row])}
    others = [past for past in range(row - 1, -1, -1) if {int(graph.src[past]), int(graph.dst[past])} & ends]
    return [*causes, *(past for past in others if past not in causes)][:MOST]


@pytest.mark.parametrize("name", MECHANISMS)
def test_a_model_decides_by_the_ways_whatever_is_removed(name):
    made = mechanism(name, episodes=40, noise=1.5, seed=5)
    model = ORACLES[name](made.graph)
    rows = [row for row in made.ways if len(made.causes_of(row)) <= 6][:6]
    assert len(rows) == 6
    for row in rows:
        removed = subsets(events_to_try(made, row))
        logits = model.logits(made.graph.query(row), removed)
        expected = [any(not way & change for way in made.ways[row]) for change in removed]
        assert (logits > 0).tolist() == expected
        assert (np.abs(logits) >= 1 - DISTRACTION).all()


def least(sets):
    found = []
    for some in sorted(sets, key=len):
        if not any(known <= some for known in found):
            found.append(some)
    return set(found)


@pytest.mark.parametrize("name", MECHANISMS)
def test_ways_and_counterfactuals_are_those_of_all_subsets_of_the_whole_past(name):
    """Of small logs: no event is left out because the truth does not name it."""
    tried = 0
    for seed, noise in product(range(4), (0.0, 1.5)):
        made = mechanism(name, people=6, places=2, episodes=3, noise=noise, seed=seed)
        model = ORACLES[name](made.graph)
        for row in (row for row in made.ways if row <= 11):
            past, removed = frozenset(range(row)), subsets(range(row))
            logits = model.logits(made.graph.query(row), removed)
            stays = {past - change for change, logit in zip(removed, logits, strict=True) if logit > 0}
            assert set(made.ways[row]) == least(stays)
            assert set(made.counterfactuals(row)) == least(past - kept for kept in {*removed} - stays)
            tried += 1
    assert tried >= 6


@pytest.mark.parametrize("name", MECHANISMS)
def test_every_way_alone_suffices_and_no_part_of_it_does(name):
    made = mechanism(name, episodes=30, seed=2)
    model = ORACLES[name](made.graph)
    for row in list(made.ways)[:5]:
        query, past = made.graph.query(row), frozenset(range(row))
        for way in made.ways[row]:
            parts = [way - {one} for one in way]
            logits = model.logits(query, [past - way, *(past - part for part in parts)])
            assert logits[0] > 0
            assert (logits[1:] < 0).all()


@pytest.mark.parametrize("name", MECHANISMS)
def test_nothing_but_the_causes_matters_amid_much_noise(name):
    """An event just outside the window of a rule would keep the link if the model looked further than the truth."""
    made = mechanism(name, noise=4, seed=8)
    model = ORACLES[name](made.graph)
    for row in made.ways:
        with_all, without = model.logits(made.graph.query(row), [frozenset(), made.causes_of(row)])
        assert with_all > 0 > without


def test_what_is_redundant_joint_and_masked_looks_as_it_is_named():
    redundant, joint, masked = (mechanism(name, episodes=60) for name in ("redundant", "joint", "masked"))
    assert all(len(ways) >= 2 and {len(way) for way in ways} == {1} for ways in redundant.ways.values())
    assert all({len(way) for way in ways} == {2} for ways in joint.ways.values())
    hidden = 0
    for row, ((cause,),) in masked.ways.items():
        earlier = masked.graph.history(int(masked.graph.src[row]), cause)
        hidden += bool((masked.graph.dst[earlier] == masked.graph.src[row]).any())
    assert hidden == len(masked.ways)


def test_sizes_noise_and_seed_are_obeyed():
    one, two, other = (mechanism("reply", seed=seed) for seed in (1, 1, 2))
    assert one.graph.identity == two.graph.identity != other.graph.identity
    assert one.ways == two.ways
    quiet = mechanism("reply", people=10, places=3, episodes=25, noise=0)
    assert (quiet.graph.num_nodes, quiet.graph.num_events, len(quiet.ways)) == (14, 50, 25)
    assert mechanism("reply", noise=4).graph.num_events > 2 * mechanism("reply", noise=1).graph.num_events
    assert (np.diff(one.graph.time) > 0).all()
    for bad in ({"people": 5}, {"places": 1}, {"episodes": 0}, {"noise": -1}):
        with pytest.raises(CallError, match=next(iter(bad))):
            mechanism("reply", **bad)


def test_a_mechanism_is_a_data_set_with_a_name():
    assert cody.load("joint").identity == mechanism("joint").graph.identity
    with pytest.raises(CallError, match=r"no mechanism 'replly'.*reply"):
        mechanism("replly")
    with pytest.raises(CallError, match="needs a log that"):
        ORACLES["reply"](cody.load("collegemsg"))
