"""Even if: what could be missing, and the fewest events a decision rests on, compared with all sets of candidates."""

import csv
import json
import re
from itertools import combinations

import numpy as np
import pytest
from click.testing import CliRunner
from msgspec.structs import replace

import cody
from cody import cli
from cody.data import save_graph
from cody.engine import Replay, fast_model
from cody.errors import CallError, DataError
from cody.explaining.even_if import EvenIf, even_if
from cody.graph import Query, TemporalGraph
from cody.graph.units import pair
from cody.models.contract import as_model, logit_of_only
from cody.models.margins import flips
from cody.models.toy import ToyModel
from cody.search import greedy
from cody.search.oracle import Oracle
from cody.search.result import result
from cody.search.sufficient import sufficient
from cody.study.explainers import explainer
from cody.study.run import EvaluationPlan, Link, evaluate
from cody.train.checkpoint import Checkpoint, save_model
from cody.utils.words import enumerated
from random_events import random_graph, random_network
from schemas import validator

NOTHING = frozenset()


def subsets(rows):
    return [frozenset(some) for size in range(len(rows) + 1) for some in combinations(rows, size)]


def any_function(seed, events):
    """A model of an arbitrary function of the removed set, and the link after all events."""
    rng = np.random.default_rng(seed)
    graph = TemporalGraph.from_arrays(
        rng.integers(0, 4, events), rng.integers(0, 4, events), np.sort(rng.integers(0, events, events) * 1.0)
    )
    values = dict(zip(subsets(range(events)), rng.normal(0.3, 1, 2**events).tolist(), strict=True))
    query = Query(0, 1, float(events + 1), events)
    model = as_model(
        lambda _, __, changes: [values[change] for change in changes], graph, identity=f"table {seed}", hops=9
    )
    return model, graph, query, values


@pytest.mark.parametrize("seed", range(30))
def test_all_claims_are_those_of_all_sets(seed):
    model, graph, query, values = any_function(seed, events=7)
    found = even_if(model, graph, query, size=7, prove=99, near=lambda *_: np.arange(7))
    every, original = frozenset(range(7)), values[NOTHING]
    standing = [change for change in values if not flips(original, values[change])]
    assert found.candidates == tuple(range(7))
    assert len(found.missing.rows) == max(map(len, standing))
    assert frozenset(found.missing.rows) in standing
    assert set(found.kept_rows) == every - set(found.missing.rows)
    assert found.smallest
    changing = [len(change) for change in values if flips(original, values[change])]
    assert found.robust == min(changing, default=8) - 1
    assert (found.decisive is None) == (not changing)
    if changing:
        assert len(found.decisive) == min(changing)
        assert flips(original, values[frozenset(found.decisive)])
    assert found.only == pytest.approx(values[every - set(found.kept_rows)], abs=1e-5)


def largest_since_a_time_and_largest_unit(graph, values):
    """The number of events, of all seven, that could be missing since a time, and of one pair or node."""
    stands = {change for change in values if not flips(values[NOTHING], values[change])}
    since = [frozenset(np.flatnonzero(graph.time >= time).tolist()) for time in graph.time]
    ends = list(zip(graph.src.tolist(), graph.dst.tolist(), strict=True))
    pairs = [frozenset(row for row in range(7) if set(ends[row]) == set(both)) for both in ends]
    nodes = [frozenset(row for row in range(7) if one in ends[row]) for one in (2, 3)]
    return tuple(
        max((len(change) for change in some if change and change in stands), default=0)
        for some in (since, pairs + nodes)
    )


@pytest.mark.parametrize("seed", range(30))
def test_the_time_and_the_unit_are_the_largest(seed):
    model, graph, query, values = any_function(seed, events=7)
    found = even_if(model, graph, query, size=7, near=lambda *_: np.arange(7))
    largest = largest_since_a_time_and_largest_unit(graph, values)
    assert (len(found.latest.rows if found.latest else ()), len(found.unit.rows if found.unit else ())) == largest
    assert found.latest_is_largest
    assert found.unit_is_largest
    if found.latest:
        assert found.since == graph.time[found.latest.rows[0]]


def test_what_a_budget_left_untested_is_not_called_the_largest_nor_denied():
    claims = set()
    for seed in range(30):
        model, graph, query, values = any_function(seed, events=7)
        largest = largest_since_a_time_and_largest_unit(graph, values)
        for budget in (1, 5, 9, 12, 20):
            for alone in (False, True):
                found = even_if(
                    model, graph, query, size=7, evaluations=budget, alone=alone, near=lambda *_: np.arange(7)
                )
                parts = (found.latest, found.latest_is_largest), (found.unit, found.unit_is_largest)
                for (part, is_largest), size in zip(parts, largest, strict=True):
                    assert len(part.rows if part else ()) == size or not is_largest
                    claims.add((part is not None, is_largest))
                denied = "There is no time" in str(found)
                assert denied == (found.latest is None and found.latest_is_largest)
                assert ("the budget ended before" in str(found)) == (
                    not (found.latest_is_largest and found.unit_is_largest)
                )
    assert claims == {(True, True), (True, False), (False, True), (False, False)}


def test_a_budget_is_used_up():
    cases = [any_function(seed, events=7) for seed in range(30)]
    found = [even_if(*case[:3], size=7, evaluations=11, near=lambda *_: np.arange(7)) for case in cases]
    assert max(each.evaluations for each in found) == 11
    assert sum(each.evaluations == 11 for each in found) > 20


@pytest.mark.parametrize("seed", range(12))
def test_what_is_called_smallest_or_proven_is_so_also_if_not_all_sets_were_evaluated(seed):
    model, graph, query, values = any_function(seed, events=10)
    for search, prove, budget in ((cody.search.scout, 2, None), (greedy, 3, None), (cody.search.scout, 2, 40)):
        found = even_if(
            model, graph, query, size=10, search=search, prove=prove, evaluations=budget, near=lambda *_: np.arange(10)
        )
        original = values[NOTHING]
        best = 10 - max(len(change) for change in values if not flips(original, values[change]))
        if found.kept is not None:
            assert not flips(original, values[frozenset(found.missing.rows)])
            assert len(found.kept) >= best
            assert len(found.kept) == best or not found.smallest
        smallest = min((len(change) for change in values if flips(original, values[change])), default=99)
        assert found.robust < smallest
        assert not found.robust or found.decisive is None or len(found.decisive) == smallest or may_be_fewer(found)


def may_be_fewer(found):
    return "does, and so may fewer." in str(found)


def test_a_decisive_set_that_may_not_be_the_smallest_says_so():
    model, graph, query, _ = any_function(2, events=7)
    found = even_if(model, graph, query, size=7, near=lambda *_: np.arange(7))
    assert not may_be_fewer(found)
    assert may_be_fewer(replace(found, robust=1, decisive=(1, 2, 3)))
    assert not may_be_fewer(replace(found, robust=2, decisive=(1, 2, 3)))


def test_a_set_that_is_not_proven_to_be_the_smallest_does_not_say_so():
    cases = (any_function(seed, events=7) for seed in range(50))
    model, graph, query, _ = next(case for case in cases if flips(case[3][NOTHING], case[3][frozenset(range(7))]))

    def keep_all(oracle, ranking):
        oracle.ask([NOTHING, frozenset(ranking.tolist())])
        return result(oracle, ranking, tuple(ranking.tolist()), 1, "found")

    found = even_if(model, graph, query, size=7, search=keep_all, prove=1, near=lambda *_: np.arange(7))
    assert len(found.kept) == 7
    assert not found.smallest
    assert found.robust == 0
    assert "could be missing" in found.sentence


@pytest.mark.parametrize("alone", [False, True])
@pytest.mark.parametrize("kind", ["tgn", "tgat"])
def test_a_network_needs_as_few_events_as_the_reference_says(kind, alone):
    graph = random_graph(np.random.default_rng(2), nodes=8, events=40, ties=False)
    network = random_network(graph, kind, neighbours=3)
    model, replay = fast_model(network, graph), Replay(network, graph, dtype=np.float64)
    needed = set()
    for row in range(30, 40):
        query = graph.query(row)
        line = float(np.median(model.logits_of_links([graph.query(row) for row in range(20, 40)])))
        found = even_if(model, graph, query, size=7, alone=alone, decision=cody.above(logit=line), prove=9)
        every = frozenset(found.candidates)
        gone = {kept: frozenset(range(row)) - kept if alone else every - kept for kept in subsets(sorted(every))}
        original = float(replay.logits(query, [NOTHING])[0]) - line
        logits = np.array(replay.logits(query, list(gone.values()))) - line
        enough = [len(kept) for kept, logit in zip(gone, logits, strict=True) if not flips(original, logit)]
        assert (found.kept is None) == (not enough)
        if enough:
            assert len(found.kept) == min(enough)
            assert found.smallest
            assert found.missing.verified or not found.missing.rows
            needed.add(min(enough))
    assert len(needed) > 1


def test_conversations_can_be_kept_instead_of_events():
    graph = random_graph(np.random.default_rng(2), nodes=8, events=60, ties=False)
    model = fast_model(random_network(graph, "tgn", neighbours=3), graph)
    query = graph.query(59)
    found = even_if(model, graph, query, by=pair, size=8)
    assert found.thing == "pair"
    assert all(each.name.startswith("pair ") for each in found.kept)
    assert "pairs" in str(found)
    assert (found.latest, found.unit) == (None, None)
    robust = next(row for row in range(59, 40, -1) if even_if(model, graph, graph.query(row), by=pair, size=8).decisive)
    named = even_if(model, graph, graph.query(robust), by=pair, size=8)
    assert [name.startswith("pair ") for name in named.decisive_names] == [True] * len(named.decisive)
    assert f"removing {enumerated([f'the {name}' for name in named.decisive_names])} " in str(named)


def test_the_answer_follows_its_schema_and_can_be_read_back():
    model, graph, query, _ = any_function(3, events=7)
    found = even_if(model, graph, query, size=7, near=lambda *_: np.arange(7))
    document = json.loads(found.to_json())
    validator("even-if").validate(document)
    assert EvenIf.from_json(found.to_json()) == found
    with pytest.raises(DataError, match="checksum"):
        EvenIf.from_json(json.dumps(document | {"robust": 5}))
    with pytest.raises(DataError, match="schema"):
        EvenIf.from_json(json.dumps(document | {"schema": "cody/survey/1"}))


def test_a_link_without_a_past_is_refused():
    graph = TemporalGraph.from_arrays([0, 2], [1, 3], [1.0, 2.0])
    model = fast_model(random_network(graph, "tgat"), graph)
    with pytest.raises(CallError, match="no past events"):
        even_if(model, graph, graph.query(1))


def test_a_budget_that_ends_before_a_set_is_found_is_no_claim():
    cases = (any_function(seed, events=10) for seed in range(50))
    model, graph, query, _ = next(case for case in cases if flips(case[3][NOTHING], case[3][frozenset(range(10))]))
    found = even_if(model, graph, query, size=10, evaluations=1, near=lambda *_: np.arange(10))
    assert (found.kept, found.missing, found.robust, found.smallest) == (None, None, 0, False)
    assert "No set of the 10 past events was found that is enough" in str(found)


def test_as_an_explainer_it_says_how_many_histories_it_scored():
    graph = random_graph(np.random.default_rng(0), nodes=8, events=60)
    scored = []

    class Counted(ToyModel):
        def only(self, query, kept):
            scored.append(kept)
            return float(self.logits(query, [frozenset(range(query.before)) - kept])[0])

    why = cody.explain(Counted(graph), graph, graph.query(58), search=sufficient, size=6)
    assert why.evaluations == len(set(scored)) + len(why.evaluated) > 1
    assert f"{why.evaluations} sets evaluated" in str(why)


@pytest.mark.parametrize("seed", range(10))
def test_as_an_explainer_its_sets_are_sufficient(seed):
    graph = random_graph(np.random.default_rng(seed), nodes=8, events=60)
    model = fast_model(random_network(graph, ["tgn", "tgat"][seed % 2], neighbours=3), graph)
    plan = EvaluationPlan("d", "m", (explainer("sufficient"), explainer("random")))
    links = [
        Link(row, "correct" if model.logits_of_links([graph.query(row)])[0] > 0 else "incorrect") for row in (58, 59)
    ]
    for record in (record for record in evaluate(model, graph, links, plan) if record.explainer == "sufficient"):
        only = logit_of_only(model, graph.query(record.event), frozenset(record.rows))
        assert record.is_sufficient == (not flips(record.original, only))
        oracle = Oracle(model, graph.query(record.event))
        every = frozenset(cody.candidates(graph, graph.query(record.event)).tolist())
        possible = not flips(record.original, logit_of_only(model, oracle.query, every))
        assert record.is_sufficient or not possible
        assert sufficient(oracle, np.array([], dtype=np.int64)).rows == ()


@pytest.fixture(scope="module")
def saved(tmp_path_factory):
    folder = tmp_path_factory.mktemp("even_if")
    graph = random_graph(np.random.default_rng(3), nodes=25, events=120)
    save_graph(graph, folder / "events")
    save_model(folder / "model", Checkpoint(random_network(graph, "tgn"), graph.identity))
    return ["--data", str(folder / "events"), "--model", str(folder / "model"), "--event", "110"]


def test_the_command_prints_what_the_function_finds(saved):
    ended = CliRunner().invoke(cli.app, ["explain", *saved, "--even-if", "--json"])
    document = json.loads(ended.stdout)
    validator("even-if").validate(document)
    text = CliRunner().invoke(cli.app, ["explain", *saved, "--even-if", "--candidates", "9", "--prove", "3"]).stdout
    assert re.search(
        r"Even without (all )?(\d of )?9 past events, the model would still (not )?predict this event: the",
        " ".join(text.split()),
    )
    assert "these 9 events" in text or "It is not robust" in text
    alone = CliRunner().invoke(cli.app, ["explain", *saved, "--even-if", "--alone"]).stdout
    assert "at all" in alone


def test_many_links_are_answered_each_on_a_line_and_those_without_a_past_are_named(saved):
    one = json.loads(CliRunner().invoke(cli.app, ["explain", *saved, "--even-if", "--json"]).stdout)
    many = ["explain", *saved[:-2], "--even-if", "--events", "0,110,111"]
    ended = CliRunner().invoke(cli.app, many)
    assert [json.loads(line)["event"] for line in ended.stdout.splitlines()] == [110, 111]
    assert json.loads(ended.stdout.splitlines()[0]) == one
    assert "event 0 is left out: " in ended.stderr
    rows = list(csv.DictReader(CliRunner().invoke(cli.app, [*many, "--csv"]).stdout.splitlines()))
    assert [row["event"] for row in rows] == ["110", "111"]
    assert rows[0]["what"].split() == [str(each["row"]) for each in one["kept"]]


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--alone"], "--alone belongs to --even-if"),
        (["--even-if", "--csv"], "with --events lines of JSON or --csv: leave out --csv"),
        (["--even-if", "--events", "3", "--workers", "2"], "leave out --workers"),
        (["--even-if", "--count", "3"], "leave out --count"),
        (["--even-if", "--why-not"], "leave out --allow and --why-not"),
        (["--even-if", "--explainer", "pbone"], "needs a search"),
        (["--even-if", "--with-dependants", "reply"], "which may depend on those: leave out --with-dependants"),
    ],
)
def test_wrong_calls_are_refused(saved, words, message):
    ended = CliRunner().invoke(cli.app, ["explain", *saved, *words])
    assert message in str(ended.exception) + ended.output
