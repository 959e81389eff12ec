import numpy as np
import pytest

from cody.baselines.tempme import ALONE, KINDS, MISSING, kind_of, null_frequencies, sample_motifs
from cody.graph import TemporalGraph
from cody.graph.neighbourhood import candidates
from random_events import random_graph

END, OTHER, THIRD = 0, 1, 2


@pytest.fixture(scope="module")
def busy():
    """A graph with few nodes, so that triangles close, and events that begin where they end."""
    graph = random_graph(np.random.default_rng(0), nodes=8, events=120)
    src, dst = graph.src.copy(), graph.dst.copy()
    dst[::11] = src[::11]
    return TemporalGraph.from_arrays(src, dst, graph.time)


def pairs(graph, rows):
    return [{int(graph.src[row]), int(graph.dst[row])} for row in rows]


def links_of(graph, rows=(20, 40, 80, 119)):
    return [(graph.query(row), candidates(graph, graph.query(row), size=30)) for row in rows]


def test_the_events_of_a_motif_hang_together_and_go_back_in_time(busy):
    for query, events in links_of(busy):
        motifs = sample_motifs(busy, query, events, np.random.default_rng(1))
        assert len(motifs.events) > 0
        for places in motifs.events.tolist():
            rows = [events[place] for place in places if place != MISSING]
            assert rows == sorted(rows, reverse=True)
            one, *earlier = pairs(busy, rows)
            assert one & {query.src, query.dst}
            if earlier:
                assert earlier[0] & one
            if len(earlier) > 1:
                assert earlier[1] <= one | earlier[0]


def all_motifs(graph, query, events):
    """Every motif of a link, by trying all triples: which events 2 and 3 each event 1 could have."""
    ends, found = pairs(graph, events), {}
    for end in {query.src, query.dst}:
        for one, nodes in enumerate(ends):
            if end in nodes:
                twos = [two for two in range(one) if ends[two] & nodes]
                found[end, one] = {
                    two: [three for three in range(two) if ends[three] <= nodes | ends[two]] for two in twos
                }
    return found


def test_what_is_sampled_are_motifs_and_with_enough_draws_all_of_them(busy):
    for query, events in links_of(busy):
        possible = all_motifs(busy, query, events)
        triples = {
            (one, two, three)
            for (_, one), twos in possible.items()
            for two, threes in (twos or {MISSING: []}).items()
            for three in threes or [MISSING]
        }
        sampled = set()
        for seed in range(60):
            motifs = sample_motifs(busy, query, events, np.random.default_rng(seed), first=99, draws=99)
            sampled |= set(map(tuple, motifs.events.tolist()))
            assert {(one, two) for one, two, _ in motifs.events.tolist()} == {(one, two) for one, two, _ in triples}
        assert sampled <= triples
        assert len(sampled) > 0.8 * len(triples)


def test_the_latest_events_of_each_end_are_event_1_of_so_many_motifs(busy):
    (query, events) = links_of(busy)[-1]
    motifs = sample_motifs(busy, query, events, np.random.default_rng(0), first=4, draws=2)
    ends = pairs(busy, events)
    for end in (query.src, query.dst):
        latest = [place for place, nodes in enumerate(ends) if end in nodes][-4:]
        assert set(latest) <= set(motifs.events[:, 0].tolist())
    assert len(motifs.events) <= 2 * 4 * 2
    drawn = [tuple(pair) for pair in motifs.events[:8, :2].tolist()]
    assert len(set(drawn)) == len(drawn)  # of the source's motifs, none has the same first two events as another


def test_the_same_seed_gives_the_same_motifs(busy):
    query, events = links_of(busy)[-1]
    one, same, other = (sample_motifs(busy, query, events, np.random.default_rng(seed)) for seed in (3, 3, 4))
    assert np.array_equal(one.events, same.events)
    assert not np.array_equal(one.events, other.events)


def test_a_link_without_events_at_its_ends_has_no_motifs(busy):
    query = busy.query(60)
    apart = np.array([row for row in range(60) if not pairs(busy, [row])[0] & {query.src, query.dst}])
    for events in (np.arange(0), apart):
        motifs = sample_motifs(busy, query, events, np.random.default_rng(0))
        assert (motifs.events.shape, motifs.kind.shape) == ((0, 3), (0,))


def test_each_kind_is_told_from_the_others():
    first, nothing = {END, OTHER}, set()
    seconds = [{END, OTHER}, {END, THIRD}, {OTHER, THIRD}]
    thirds = [nothing, {END, OTHER}, {END, THIRD}, {OTHER, THIRD}]
    # Where event 2 is the same pair as event 1, there is no third node, and only two kinds occur.
    assert [kind_of(END, first, seconds[0], three) for three in thirds[:2]] == [0, 1]
    assert [kind_of(END, first, two, three) for two in seconds[1:] for three in thirds] == [*range(4, 12)]
    assert kind_of(END, first, nothing, nothing) == ALONE == KINDS - 1


def test_a_closing_triangle_is_a_kind_of_its_own():
    """END met THIRD, THIRD met OTHER, OTHER met END."""
    graph = TemporalGraph.from_arrays([END, THIRD, OTHER, END], [THIRD, OTHER, END, 3], np.arange(4.0))
    motifs = sample_motifs(graph, graph.query(3), np.arange(3), np.random.default_rng(0), draws=99)
    kinds = dict(zip(map(tuple, motifs.events.tolist()), motifs.kind.tolist(), strict=True))
    assert kinds == {
        (2, 1, 0): 10,  # the triangle
        (2, 0, MISSING): 4,
        (0, MISSING, MISSING): ALONE,
    }


def test_kinds_by_chance_are_those_of_the_same_times_with_other_ends():
    """Everybody has one friend: all motifs repeat a pair. With other friends at the same times, few would."""
    person = np.tile(np.arange(0, 20, 2), 6)
    graph = TemporalGraph.from_arrays(person, person + 1, np.arange(60.0))
    query, events = graph.query(50), np.arange(50)
    repeats = [0, 1]
    real = sample_motifs(graph, query, events, np.random.default_rng(0)).kind
    assert set(real.tolist()) == {*repeats, ALONE}
    chance = null_frequencies(graph, [query] * 50, [events] * 50, np.random.default_rng(0))
    assert chance.sum() == pytest.approx(1)
    assert (chance > 0).all()
    assert chance[repeats].sum() < 0.3
    assert graph.dst.tolist() == (person + 1).tolist()  # the graph itself is not shuffled
