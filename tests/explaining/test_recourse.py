"""What a node could still do: the fewest events that it could add for another decision later, or to keep this one."""

from itertools import combinations

import numpy as np
import pytest
from click.testing import CliRunner

import cody
from cody.cli import app
from cody.engine import Replay
from cody.errors import CallError
from cody.explaining.bundle import verify_bundle, write_bundle
from cody.explaining.claims import verify_explanation
from cody.graph import Query, TemporalGraph
from cody.graph.edits import Add
from cody.models import ToyModel
from cody.models.contract import model_on
from cody.models.margins import flips
from cody.search import cody as cody_search
from cody.search import greedy, scout
from cody.search.proposals import from_now_on
from random_events import random_graph, random_network

EVENTS, BATCH = 60, 7
DAY = 86_400.0


@pytest.fixture(scope="module")
def asked():
    graph = random_graph(np.random.default_rng(3), nodes=8, events=EVENTS, ties=False)
    return graph, ToyModel(graph, weights=np.random.default_rng(5).normal(0.3, 1, size=EVENTS), bias=-0.9, half_life=9)


def many(graph, model, **options):
    """Answers about several links, of the source of each."""
    queries = map(graph.query, range(30, 55))
    return [cody.recourse(model, graph, query, query.src, query.time + 12.0, **options) for query in queries]


@pytest.mark.parametrize("kind", ["tgn", "tgat"])
def test_it_scores_as_if_the_log_ended_there_and_the_added_events_had_happened(kind):
    rng = np.random.default_rng(1)
    graph = random_graph(rng, nodes=8, events=EVENTS)
    network = random_network(graph, kind, batch=BATCH)
    for before in (21, 24, 35, 50):
        query = graph.query(before)
        later = graph.ahead(query, float(graph.time[-1]) + 5)
        added = [
            Add(int(rng.integers(8)), int(rng.integers(8)), query.time + share * (later.time - query.time))
            for share in (0.2, 0.6, 0.9)
        ]
        longer = graph.imagine(added, query=later)
        change = frozenset(range(EVENTS, EVENTS + 3))
        ends = [
            np.append(column[:before], [getattr(edit, name) for edit in added])
            for name, column in (("src", graph.src), ("dst", graph.dst), ("time", graph.time))
        ]
        shorter = TemporalGraph.from_arrays(*ends, num_nodes=graph.num_nodes)  # the batches are the same ones
        wanted = Replay(network, shorter).logits(Query(query.src, query.dst, later.time, before + 3), [frozenset()])
        found = model_on(Replay(network, graph), longer).logits(later, [change])
        np.testing.assert_allclose(found, wanted, atol=1e-4)


def test_the_fewest_events_are_those_of_brute_force(asked):
    graph, model = asked
    sizes = []
    for why in many(graph, model, size=8, prove=9):
        assert why.recourse is not None
        assert {event.src for event in why.candidates} <= {why.recourse.actor}
        assert all(why.recourse.since < event.time < why.query.time for event in why.candidates)
        if why.is_settled:
            assert flips(why.recourse.now, why.original)
            continue
        longer = graph.imagine([Add(event.src, event.dst, event.time) for event in why.candidates], query=why.query)
        rows = range(EVENTS, longer.num_rows)
        sets = [frozenset(some) for size in range(len(rows) + 1) for some in combinations(rows, size)]
        margins = model.on(longer).logits(why.query, sets)
        flipping = (len(each) for each, margin in zip(sets, margins, strict=True) if flips(margins[0], margin))
        smallest = min(flipping, default=None)
        assert (len(why.rows) if why.is_counterfactual else None) == smallest
        sizes.append(smallest)
    assert {1, 2, 3} <= {*sizes}


def test_a_decision_is_kept_where_time_alone_would_change_it(asked):
    graph, model = asked
    kept = many(graph, model, size=8, keep=True)
    changed = many(graph, model, size=8)
    for keep, change in zip(kept, changed, strict=True):
        assert keep.is_settled != change.is_settled  # of each pair, one has nothing to do
        assert ("would still" in keep.reason) or not (keep.is_settled or keep.is_counterfactual)
        if keep.is_counterfactual:
            assert not flips(keep.recourse.now, keep.without)
            assert "by time alone" in change.reason
    assert any(why.is_counterfactual for why in kept)


def test_what_happened_later_is_not_seen(asked):
    graph, model = asked
    for row in (30, 40):
        query = graph.query(row)
        past = graph.select(np.arange(row))
        alone = ToyModel(past, weights=model.given[:row], bias=model.bias, half_life=9)
        whole, beginning = (
            cody.recourse(each, events, query, query.src, query.time + 12.0)
            for each, events in ((model, graph), (alone, past))
        )
        assert (whole.reason, whole.original) == (beginning.reason, beginning.original)


def test_documents_and_bundles_of_it_verify(asked, tmp_path):
    graph, model = asked
    answers = many(graph, model, size=8, evaluations=30)
    for why in (next(why for why in answers if found(why)) for found in (lambda w: w.is_settled, lambda w: w.rows)):
        again = cody.Explanation.from_json(why.to_json())
        assert (again.recourse, again.reason) == (why.recourse, why.reason)
        assert verify_explanation(again, model, graph).is_confirmed
        file = write_bundle(why, graph, tmp_path / f"{why.query.before}.zip")
        beginning = graph.select(np.arange(why.query.before + 1))
        own = ToyModel(beginning, weights=model.given[: beginning.num_events], bias=model.bias, half_life=9)
        report = verify_bundle(file, model=_Named(own, why.model))
        assert report.is_confirmed, str(report)


class _Named:
    """A toy model of the beginning of a log that goes by the name of the one of the whole log."""

    def __init__(self, model, identity):
        self.model, self.identity, self.hops, self.graph = model, identity, model.hops, model.graph

    def logits(self, query, changes):
        return self.model.logits(query, changes)

    def on(self, graph):
        return _Named(self.model.on(graph), self.identity)


def test_times_are_proposed_after_now_and_before_the_end(asked):
    graph, _ = asked
    query = graph.ahead(graph.query(40), float(graph.time[40]) + 3)
    edits = from_now_on(query.src, graph.query(40).time)(graph, query, np.array([]), 20)
    assert {edit.src for edit in edits} == {graph.name(query.src)}
    assert 10 < len(edits) <= 20
    assert all(graph.query(40).time < edit.time < query.time for edit in edits)


# At most so many a day


@pytest.fixture(scope="module")
def dated():
    rng = np.random.default_rng(7)
    times = np.sort(1_000_000_000 + rng.integers(0, 6 * 24, EVENTS) * 3_600.0)
    graph = TemporalGraph.from_arrays(rng.integers(0, 5, EVENTS), rng.integers(0, 5, EVENTS), times)
    return graph, ToyModel(graph, weights=rng.normal(0.2, 0.5, size=EVENTS), half_life=3 * DAY)


def busiest(times):
    """How many of some times are on the same day, at most; days begin in UTC."""
    return np.unique(np.array(times) // DAY, return_counts=True)[1].max(initial=0)


@pytest.mark.parametrize("most", [1, 2])
def test_the_smallest_set_of_at_most_so_many_a_day_is_that_of_brute_force(dated, most, monkeypatch):
    monkeypatch.delenv("CODY_TIMEZONE", raising=False)
    graph, model = dated
    limited, larger = [], 0
    for row in range(30, 44):
        query = graph.query(row)
        why = cody.explain(model, graph, query, size=8, prove=9, per_day=most)
        rows = [event.row for event in why.candidates]
        sets = [frozenset(some) for size in range(len(rows) + 1) for some in combinations(rows, size)]
        possible = [each for each in sets if busiest(graph.time[[*each]]) <= most]
        assert {frozenset(rows) for rows, _ in why.evaluated} <= {*possible}
        margins = model.logits(query, possible)
        sizes = (len(each) for each, margin in zip(possible, margins, strict=True) if flips(margins[0], margin))
        smallest = min(sizes, default=None)
        assert (len(why.rows) if why.is_counterfactual else None) == smallest
        assert why.is_counterfactual or why.is_exhausted
        assert cody.Explanation.from_json(why.to_json()).proven == why.proven
        free = cody.explain(model, graph, query, size=8, prove=9)
        larger += free.is_counterfactual and (smallest is None or smallest > len(free.rows))
        limited.append(smallest)
    assert {2, None} <= {*limited}
    assert larger or most > 1  # the limit matters


def test_the_limit_holds_for_what_a_node_could_still_do(dated):
    graph, model = dated
    lower = ToyModel(graph, weights=model.given, half_life=3 * DAY, bias=-3.0)
    query = graph.query(50)
    free, limited = (
        cody.recourse(lower, graph, query, query.src, query.time + 6 * DAY, size=40, per_day=most) for most in (None, 1)
    )
    assert free.is_counterfactual
    assert limited.is_counterfactual
    assert busiest([event.time for event, _ in limited.steps]) == 1 < busiest([event.time for event, _ in free.steps])
    assert "at most 1 a day" in limited.protection


@pytest.mark.parametrize("search", [scout, cody_search, greedy])
def test_every_search_keeps_to_the_limit(dated, search, monkeypatch):
    monkeypatch.delenv("CODY_TIMEZONE", raising=False)
    graph, model = dated
    answers = [
        cody.explain(model, graph, graph.query(row), search=search, size=16, per_day=1, evaluations=150)
        for row in range(40, 46)
    ]
    sets = [rows for why in answers for rows in (why.rows, *(rows for rows, _ in why.evaluated))]
    assert max(map(len, sets)) > 1
    assert max(busiest(graph.time[[*rows]]) for rows in sets) == 1
    assert any(why.is_counterfactual for why in answers)


# Bad input


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"actor": "nobody"}, "there is no node 'nobody'|is not a number"),
        ({"until": 0.0}, "does not lie after the time of the prediction"),
        ({"per_day": 0}, "per_day must be at least 1, not 0"),
        ({"per_day": 1}, "a limit for each day needs dates"),
        ({"until": "rubbish"}, "'rubbish' is not a time"),
    ],
)
def test_bad_arguments_are_refused(asked, changed, message):
    graph, model = asked
    query = graph.query(35)
    arguments = {"actor": query.src, "until": query.time + 3.0} | changed
    with pytest.raises(CallError, match=message):
        cody.recourse(model, graph, query, **arguments)


def test_a_node_that_never_starts_an_event_can_add_none():
    graph = random_graph(np.random.default_rng(3), bipartite=True)
    model = ToyModel(graph, bias=-100.0)
    query = graph.query(60)
    with pytest.raises(CallError, match="could add no event: it has never been the source of one"):
        cody.recourse(model, graph, query, query.dst, query.time + 9.0)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--until", "1 day later"), "name it with --actor NODE"),
        (("--actor", "1395", "--keep"), "give --until TIME"),
        (("--actor", "1395", "--until", "2004-07-01"), "does not lie after the time of the prediction"),
        (("--actor", "1395", "--until", "1 day later", "--why-not"), "leave out --allow and --why-not"),
        (("--actor", "1395", "--until", "1 day later", "--noise"), "leave out --also and --noise"),
        (("--per-day", "1", "--explainer", "pbone"), "--per-day needs a search for counterfactuals"),
        (("--per-day", "1", "--by", "pair"), "--per-day chooses single events of one link's past: leave out --by"),
    ],
)
def test_bad_commands_are_refused(words, message):
    ended = CliRunner().invoke(app, ["explain", "--event", "53854", *words])
    assert message in str(ended.exception)


def test_the_command_says_what_to_do_and_the_page_too(tmp_path):
    page = tmp_path / "what.html"
    words = ["explain", "--event", "53852", "--actor", "1395", "--until", "1 day later", "--html", str(page)]
    shown = " ".join(CliRunner().invoke(app, words).stdout.split())
    advice = "the model would predict 1395 → 1772 on 2004-07-29 04:54."
    assert advice in shown
    assert "Only messages that start at 1395 could be added." in shown
    written = page.read_text(encoding="utf-8")
    assert advice in written
    assert "the model does not expect 1395 → 1772 (score 0.30). On 2004-07-29 04:54 UTC" in written
    assert "as if nothing else had happened since 2004-07-28 04:54 UTC" in written


def test_where_nothing_has_to_be_done_nothing_is_advised():
    words = ["explain", "--event", "53869", "--actor", "1667", "--until", "3 days later"]
    shown = " ".join(CliRunner().invoke(app, words).stdout.split())
    assert "Nothing has to be done: by time alone, the model would predict 1667 → 942 on 2004-07-31 06:24." in shown
    assert shown.endswith("Only messages that start at 1667 could be added.")
