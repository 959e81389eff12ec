"""Units that change together, and what goes along by a rule: every claim against brute force over all sets of units."""

from __future__ import annotations

import itertools
import re
from datetime import UTC, datetime

import numpy as np
import pytest

from cody.engine import Replay, fast_model
from cody.errors import CallError
from cody.explaining.explanation import Explanation
from cody.explaining.pipeline import explain
from cody.graph import TemporalGraph
from cody.graph import units as kinds
from cody.graph.dependants import dependants, forward, reply
from cody.graph.edits import Add
from cody.graph.protected import Protected
from cody.models import ToyModel
from cody.models.contract import as_model
from cody.models.deciding import above, in_top
from cody.models.margins import flips
from cody.search import cody as cody_search
from cody.search import greedy, greedy_then_cody, scout
from cody.search.policies import event_impact, flow, random, spatio_temporal, temporal
from cody.search.proposals import additions, removals
from random_events import random_graph, random_network

START = 1_090_900_800.0  # 2004-07-27 04:00 UTC


def dated_graph(seed, nodes=9, events=70, days=5):
    """A random log of a few days."""
    rng = np.random.default_rng(seed)
    graph = random_graph(rng, nodes=nodes, events=events)
    time = np.sort(rng.integers(0, days * 86_400, events)).astype(float) + START
    return TemporalGraph.from_arrays(graph.src, graph.dst, time, num_nodes=nodes)


def function_model(graph):
    """A function of the events that are present: neither additive nor monotone."""
    weight = np.random.default_rng(7).normal(size=graph.num_events)

    def score(graph, query, changes):
        present = ([row for row in range(query.before) if row not in change] for change in changes)
        return [np.sin(weight[rows].sum()) + 0.3 * np.cos(len(rows)) for rows in present]

    return as_model(score, graph, identity="waves")


def models(kind, graph):
    """The model that is explained, and the plainest computation of its answers."""
    if kind == "function":
        return function_model(graph), function_model(graph)
    network = random_network(graph, kind, batch=16, neighbours=4)
    return fast_model(network, graph), Replay(network, graph)


def labels_of(graph, query, by, row):
    """The names of the units of an event, by looking at it."""
    ends = int(graph.src[row]), int(graph.dst[row])
    if by == "pair":
        return {"pair {} ↔ {}".format(*sorted(ends))}
    if by == "node":
        return {f"node {end}" for end in ends if end not in (query.src, query.dst)}
    if by == "day":
        return {f"day {datetime.fromtimestamp(graph.time[row], UTC):%Y-%m-%d}"}
    return {f"unit {row % 6}"}


def chosen(by):
    return {"pair": kinds.pair, "node": kinds.node, "day": kinds.day, "own": lambda graph, rows: rows % 6}[by]


def smallest_flip(plain, query, units, original):
    """The size of the smallest set of units that flips the decision, by trying all of them; None: there is none."""
    for size in range(1, len(units) + 1):
        sets = [frozenset().union(*some) for some in itertools.combinations(units, size)]
        if any(flips(original, round(float(logit), 5)) for logit in plain.logits(query, sets)):
            return size
    return None


@pytest.mark.parametrize("model_kind", ["tgn", "tgat", "function"])
@pytest.mark.parametrize("by", ["pair", "node", "day", "own"])
def test_the_smallest_set_of_units_is_the_one_of_brute_force(by, model_kind):
    found = 0
    for seed in range(3):
        graph = dated_graph(seed)
        model, plain = models(model_kind, graph)
        for row in (50, 60, 69):
            query = graph.query(row)
            why = explain(model, graph, query, by=chosen(by), size=6, prove=7)
            (original,) = plain.logits(query, [frozenset()])
            for unit in why.units:
                labelled = [row for row in range(query.before) if unit.name in labels_of(graph, query, by, row)]
                assert list(unit.rows) == labelled, unit.name
            assert len({unit.name for unit in why.units}) == len(why.units) == len(why.candidates)
            size = smallest_flip(plain, query, [unit.change for unit in why.units], original)
            assert why.is_counterfactual == (size is not None)
            assert why.is_exhausted or size is not None
            if size is not None:
                found += 1
                assert (len(why.rows), why.is_minimal) == (size, True)
                (without,) = plain.logits(query, [why.change])
                assert why.verification.without == pytest.approx(without, abs=1e-4)
                assert set(why.removed) == why.change
    assert found >= 2


@pytest.mark.parametrize("search", [scout, cody_search, greedy, greedy_then_cody])
@pytest.mark.parametrize("policy", [random, temporal, spatio_temporal, event_impact, flow])
def test_every_search_and_policy_works_on_units_as_on_events(search, policy):
    graph = dated_graph(1)
    model, plain = models("tgat", graph)
    query = graph.query(60)
    why = explain(model, graph, query, by=kinds.pair, search=search, policy=policy, size=12)
    for rows, logit in why.evaluated:
        assert logit == pytest.approx(plain.logits(query, [why.change_of(rows)])[0], abs=1e-4)
    if why.is_counterfactual:
        (without,) = plain.logits(query, [why.change])
        assert flips(why.original, without)
        for other in why.alternatives:
            assert flips(why.original, plain.logits(query, [why.change_of(other.rows)])[0])


@pytest.mark.parametrize("model_kind", ["tgn", "tgat"])
def test_by_event_is_as_without_units(model_kind):
    """Units of one event each give the same search, set by set, as no units at all."""
    graph = dated_graph(2)
    model, _ = models(model_kind, graph)
    for row in (45, 55, 65):
        query = graph.query(row)
        plain = explain(model, graph, query, by=kinds.named_kind("event"))
        same = explain(model, graph, query, by=lambda graph, rows: rows, size=64)
        assert plain.units == ()
        assert "by" not in plain.parameters
        assert [event.row for event in plain.candidates] == [event.row for event in same.candidates]
        assert (plain.rows, plain.logits, plain.evaluated) == (same.rows, same.logits, same.evaluated)
        assert [other.rows for other in plain.alternatives] == [other.rows for other in same.alternatives]


def test_a_unit_is_known_by_one_row_whatever_the_number_of_candidates():
    graph = dated_graph(0, nodes=30, events=400)
    model, query = ToyModel(graph), graph.query(399)
    few = explain(model, graph, query, by=kinds.node, size=4)
    many = explain(model, graph, query, by=kinds.node, size=20)
    known = {unit.name: unit.row for unit in many.units}
    assert all(known[unit.name] == unit.row for unit in few.units)
    assert len(set(known.values())) == len(known) == 20


def test_no_two_nodes_are_known_by_the_same_row_even_with_the_ends():
    for seed in range(20):
        graph = dated_graph(seed, nodes=8, events=12)
        query = graph.query(11)
        for ends in (False, True):
            why = explain(ToyModel(graph), graph, query, by=kinds.nodes(ends=ends), size=20)
            assert len({event.row for event in why.candidates}) == len(why.units)
            assert all(unit.row in unit.rows for unit in why.units)
            named = {unit.name for unit in why.units}
            own = {f"node {query.src}", f"node {query.dst}"}
            assert bool(named & own) <= ends
            if not ends:  # every node near the link is a unit
                rows = [row for event in why.units for row in event.rows]
                reached = {f"node {end}" for row in rows for end in (graph.src[row], graph.dst[row])}
                assert named <= reached


def test_units_that_are_too_large_together_are_left_out_and_counted(monkeypatch):
    graph = dated_graph(1)
    query = graph.query(60)
    every = explain(ToyModel(graph), graph, query, by=kinds.day)
    monkeypatch.setattr("cody.search.space.MOST_EVENTS", 30)
    some = explain(ToyModel(graph), graph, query, by=kinds.day)
    left = len(every.units) - len(some.units)
    events = sum(len(unit.rows) for unit in some.units)
    assert left > 0
    assert events <= 30 or len(some.units) == 1
    assert {unit.name for unit in some.units} < {unit.name for unit in every.units}
    assert (
        f"Left out: {left} further day{'s' * (left > 1)}; the {len(some.units)} candidates have {events} events."
        in str(some)
    )
    assert Explanation.from_json(some.to_json()) == some
    assert "Left out" not in str(every)


def test_units_have_no_protected_events():
    graph = dated_graph(1)
    query = graph.query(60)
    free = explain(ToyModel(graph), graph, query, by=kinds.day)
    kept = explain(ToyModel(graph), graph, query, by=kinds.day, protect=Protected(nodes=[query.src]))
    of_source = set(graph.history(query.src, query.before).tolist())
    assert {row for unit in free.units for row in unit.rows} & of_source
    assert not {row for unit in kept.units for row in unit.rows} & of_source
    assert {unit.name for unit in kept.units} <= {unit.name for unit in free.units}


def test_a_table_of_added_events_alone_is_not_headed_by_the_name_of_a_unit():
    graph = dated_graph(2)
    query = graph.query(66)
    (score,) = ToyModel(graph).logits(query, [frozenset()])
    model = ToyModel(graph, bias=-score - 0.3)  # every past event weighs for the link, so only another one flips it
    why = explain(model, graph, query, by=kinds.pair, edits=(removals, additions), size=20)
    assert why.units
    assert {event.edit for event, _ in why.steps} == {"added"}
    assert re.search(r"change +link +when", str(why))
    assert not re.search(r"(change|alternative) +pair +when", str(why))


def test_units_are_removed_beside_events_that_are_added():
    graph = dated_graph(2)
    model, _ = models("tgat", graph)
    query = graph.query(66)

    def mine(graph, query, rows, room):
        return [Add(str(query.src), str(query.dst), query.time - 60)]

    for edits in ((removals, mine), (removals, additions)):
        why = explain(model, graph, query, by=kinds.pair, edits=edits, size=20)
        assert {event.edit for event in why.candidates} == {"removed", "added"}
        assert len(why.units) == sum(event.edit == "removed" for event in why.candidates)
        assert Explanation.from_json(why.to_json()) == why


@pytest.mark.parametrize("decision", [above(0.6), in_top(2)])
def test_units_work_with_every_decision(decision):
    graph = dated_graph(3)
    model, _ = models("tgat", graph)
    why = explain(model, graph, graph.query(60), by=kinds.pair, decision=decision)
    assert why.units
    assert Explanation.from_json(why.to_json()) == why


def test_a_document_has_the_units_and_their_rows():
    graph = dated_graph(0)
    model, _ = models("tgn", graph)
    why = explain(model, graph, graph.query(60), by=kinds.pair, dependants=reply())
    read = Explanation.from_json(why.to_json())
    assert read == why
    assert str(read) == str(why)
    document = why.to_dict()
    del document["checksum"]
    assert document["parameters"]["by"] == {"name": "pair"}
    assert document["parameters"]["dependants"] == {"name": "reply", "within": 86_400.0}
    document["units"]["rows"] = [list(unit.rows) for unit in why.units]  # as other programs may write it
    assert Explanation.from_dict(document) == why
    document["units"]["rows"][0] = document["units"]["rows"][0][:-1]
    document["units"]["names"] = document["units"]["names"][:-1]
    with pytest.raises(Exception, match="columns of units differ in length"):
        Explanation.from_dict(document)


def test_an_answer_that_is_a_unit_says_so():
    graph = TemporalGraph.from_arrays(
        src=[2, 0, 1, 0, 1, 0, 3, 0], dst=[3, 1, 0, 1, 0, 1, 0, 1], time=[1, 2, 3, 4, 5, 6, 7, 8], event_name="message"
    )
    together = ToyModel(graph, weights=[0, 1, 1, 1, 1, 1, 0, 0], half_life=1e9, bias=-0.5)
    why = explain(together, graph, graph.query(7))
    assert set(why.removed) == {1, 2, 3, 4, 5}
    assert why.whole.name == "conversation 0 ↔ 1"
    assert "These 5 are the whole conversation 0 ↔ 1." in str(why)
    nearly = ToyModel(graph, weights=[0, 0.25, 1, 1, 1, 1, 0, 0], half_life=1e9, bias=-0.5)
    why = explain(nearly, graph, graph.query(7))
    assert set(why.removed) == {2, 3, 4, 5}
    assert (why.whole.shared, why.whole.rows) == (4, (1, 2, 3, 4, 5))
    assert why.whole.logit == pytest.approx(-0.5, abs=1e-5)
    assert "These 4 are among the 5 messages of conversation 0 ↔ 1; without it entirely the score falls" in str(why)
    assert Explanation.from_json(why.to_json()) == why


def test_a_sentence_names_few_units_and_counts_many():
    graph = TemporalGraph.from_arrays(
        src=[0, 0, 0, 0, 0, 0, 0], dst=[1, 1, 2, 3, 4, 5, 1], time=[1, 2, 3, 4, 5, 6, 7], event_name="mail"
    )
    one = explain(
        ToyModel(graph, weights=[2, 2, 1, 1, 1, 1, 0], half_life=1e9, bias=-4.5), graph, graph.query(6), by=kinds.pair
    )
    assert one.sentence.startswith("Without the conversation 0 ↔ 1 (2 mails) the score falls")
    model = ToyModel(graph, weights=[1, 1, 3, 3, 3, 3, 0], half_life=1e9, bias=-1.5)
    many = explain(model, graph, graph.query(6), by=kinds.pair)
    assert many.sentence.startswith("Without all 5 conversations (6 mails) the score falls")
    assert many.reason == "Without all 5 conversations, all with 0 (6 mails), the model would not predict this mail."
    assert many.reason in str(many)
    assert one.reason not in str(one)  # the sentence names the conversation, too


# What goes along by a rule.


def plain_causes(graph, name, within):
    """The event that each event is due to, by looking at all earlier ones; None: to none."""
    causes = []
    for row in range(graph.num_events):
        src, dst, time = int(graph.src[row]), int(graph.dst[row]), graph.time[row]
        earlier = [old for old in range(row) if graph.time[old] < time and int(graph.src[old]) != int(graph.dst[old])]
        if name == "reply":
            heard = [old for old in earlier if (graph.src[old], graph.dst[old]) == (dst, src)]
        else:
            heard = [old for old in earlier if graph.dst[old] == src]
        cause = heard[-1] if heard and src != dst else None
        if name == "forward" and cause is not None and int(graph.src[cause]) == dst:
            cause = None
        causes.append(cause if cause is not None and time - graph.time[cause] <= within else None)
    return causes


@pytest.mark.parametrize("rule", [reply, forward])
@pytest.mark.parametrize("within", [3_600.0, 86_400.0])
def test_dependants_are_those_of_the_definition(rule, within):
    for seed in range(6):
        graph = dated_graph(seed, nodes=5, events=80)
        causes = plain_causes(graph, rule().name, within)
        for start in ([3], [10, 20], [0, 1, 2]):
            gone = set(start)
            for row in range(60):  # causes are earlier, so one pass is enough
                if causes[row] in gone:
                    gone.add(row)
            expected = sorted(gone - set(start))
            assert dependants(graph, rule(within), start, before=60).tolist() == expected


def test_removed_events_take_their_dependants_along():
    graph = dated_graph(4)
    for kind in ("tgn", "tgat", "function"):
        model, plain = models(kind, graph)
        for row in (50, 60, 69):
            query = graph.query(row)
            why = explain(model, graph, query, dependants=reply(), size=6, prove=7)
            units = [unit.change for unit in why.units]
            for unit in why.units:
                assert unit.rows == (unit.row,)
                assert list(unit.dependants) == dependants(graph, reply(), unit.rows, query.before).tolist()
            (original,) = plain.logits(query, [frozenset()])
            size = smallest_flip(plain, query, units, original)
            assert (len(why.rows) if why.is_counterfactual else None) == size
            if why.literal is not None:
                (alone,) = plain.logits(query, [frozenset(why.rows)])
                assert why.literal == pytest.approx(alone, abs=1e-4)
                assert "If these still happen" in str(why)


def test_dependants_compose_with_units():
    graph = dated_graph(4)
    query = graph.query(60)
    why = explain(ToyModel(graph), graph, query, by=kinds.pair, dependants=forward(86_400))
    for unit in why.units:
        assert list(unit.dependants) == dependants(graph, forward(86_400), unit.rows, query.before).tolist()
    assert any(unit.dependants for unit in why.units)


@pytest.mark.parametrize(
    ("rule", "message"),
    [
        (lambda graph, row: [row], "only a later one can be"),
        (lambda graph, row: [row - 1], "only a later one can be"),
        (lambda graph, row: [10**6], "only a later one can be"),
        (lambda graph, row: ["soon"], "must be a whole number"),
        (lambda graph, row: None, "must return rows of events"),
        ("reply", "dependants is a rule such as"),
    ],
)
def test_a_rule_that_makes_no_sense_is_one_clear_error(rule, message):
    graph = dated_graph(0)
    with pytest.raises(CallError, match=message):
        explain(ToyModel(graph), graph, graph.query(60), dependants=rule)


def test_a_rule_by_which_everything_depends_on_everything_is_one_clear_error():
    events = 21_000
    graph = TemporalGraph.from_arrays(np.zeros(events, int), np.ones(events, int), np.arange(events, dtype=float))

    def everything(graph, row):
        return range(row + 1, min(row + 3, graph.num_events))

    with pytest.raises(CallError, match=r"by 'everything', more than 20,000 events go along.*shorter time"):
        explain(
            ToyModel(graph),
            graph,
            graph.query(events - 1),
            size=64,
            near=lambda *_: np.arange(3),
            dependants=everything,
        )


def test_by_must_be_a_kind_or_a_function():
    graph = dated_graph(0)
    with pytest.raises(CallError, match="by is a kind of unit such as"):
        explain(ToyModel(graph), graph, graph.query(60), by="pair")


def test_a_function_that_labels_nothing_leaves_no_candidates():
    graph = dated_graph(0)
    why = explain(ToyModel(graph), graph, graph.query(60), by=lambda graph, rows: [None] * len(rows))
    assert why.candidates == ()
    assert why.sentence == "There are no past units near this link to remove."
