"""Where nothing is found among a few candidates, more events are looked at, and the answer says how far."""

import re

import numpy as np
import pytest

import cody
from cody import Explanation, TemporalGraph
from cody.cli.show import advice
from cody.explaining.advice import next_steps
from cody.graph.neighbourhood import ends_first
from cody.graph.units import pair
from cody.search.oracle import counting
from cody.search.proposals import additions, removals
from cody.search.widening import WIDTHS

GRAPH = TemporalGraph.from_arrays(np.arange(900) % 3, 3 + np.arange(900) % 2, np.arange(900.0))
QUERY = GRAPH.query(899)


def model(*rows, calls=None):
    """Predicts the link, unless all of these events are missing."""

    def logits(graph, query, changes):
        if calls is not None:
            calls.extend(changes)
        return [-2.0 if rows and change.issuperset(rows) else 2.0 for change in changes]

    return cody.as_model(logits, GRAPH, identity="tests")


def far(first, last, count=2):
    """Some events that are candidates only where there are so many."""
    nearer = set(ends_first(GRAPH, QUERY, 2, first)) if first else set()
    return sorted(set(ends_first(GRAPH, QUERY, 2, last)) - nearer)[:count]


@pytest.mark.parametrize(("first", "last"), [(0, 64), (64, 128), (128, 256)])
def test_what_flips_a_prediction_is_found_though_it_is_not_among_the_first(first, last):
    rows = far(first, last)
    why = cody.explain(model(*rows), GRAPH, QUERY)
    assert sorted(why.rows) == sorted(rows)
    assert (len(why.candidates), why.wider) == (last, None)
    assert f"Without 2 of {last} past events" in why.sentence


def test_where_nothing_is_found_the_answer_says_how_far_it_looked_and_keeps_the_nearest():
    calls = []
    why = cody.explain(model(calls=calls), GRAPH, QUERY)
    assert why.verdict == "none within the budget"
    assert len(why.candidates) == 64
    assert why.wider.events == 256
    assert why.evaluations == len(set(calls))
    assert why.evaluations - why.wider.evaluations == len(why.evaluated) == 300
    assert "found among 64 past events within 300 evaluations: no single event flips it" in why.sentence
    assert f"None found among 256 past events either, with {why.wider.evaluations:,} more evaluations." in why.sentence
    assert Explanation.from_json(why.to_json()) == why
    assert f"{why.wider.evaluations:,} more, evaluated with other candidates, are not shown." in why.to_html()
    assert "are not shown" not in cody.explain(model(*far(0, 64)), GRAPH, QUERY).to_html()


@pytest.mark.parametrize("fixed", [{"size": 64}, {"prove": 2}, {"size": 64, "edits": (removals, lambda *_: [])}])
def test_a_number_of_candidates_that_is_given_stays_and_a_proof_is_about_it(fixed):
    why = cody.explain(model(*far(64, 128)), GRAPH, QUERY, **fixed)
    assert (why.is_counterfactual, len(why.candidates), why.wider) == (False, 64, None)


def test_where_additions_and_moves_flip_nothing_removals_are_searched_as_if_they_alone_were_allowed():
    rows = far(64, 128)
    more = cody.explain(model(*rows), GRAPH, QUERY, edits=(removals, additions))
    alone = cody.explain(model(*rows), GRAPH, QUERY)
    assert sorted(more.rows) == sorted(alone.rows) == sorted(rows)
    assert len(more.candidates) == 128
    none = cody.explain(model(), GRAPH, QUERY, edits=(removals, additions))
    assert (none.is_counterfactual, none.wider.events) == (False, 256)


def test_a_budget_is_enough_for_wider_searches_only_if_it_is_larger_than_that_of_the_first():
    rows = far(64, 128)
    small, large = (cody.explain(model(*rows), GRAPH, QUERY, evaluations=budget) for budget in (250, 1200))
    assert (small.is_counterfactual, small.evaluations, small.wider) == (False, 250, None)
    assert sorted(large.rows) == sorted(rows)
    assert large.evaluations <= 1200
    near = cody.explain(model(*far(0, 64, count=4)), GRAPH, QUERY, evaluations=1200)
    assert (len(near.candidates), near.evaluations) == (64, 1200)  # the rest went into looking for a smaller set


def test_a_wider_search_uses_the_whole_rest_of_a_budget():
    why = cody.explain(model(*far(64, 128, count=6)), GRAPH, QUERY, evaluations=1200)
    assert (len(why.candidates), why.evaluations) == (128, 1200)  # what the first search evaluated counts once
    assert why.was_cut_short


def test_where_there_are_no_other_events_it_does_not_look_again():
    graph = GRAPH.select(np.arange(40))
    calls = []

    def logits(graph, query, changes):
        calls.extend(changes)
        return [2.0] * len(changes)

    why = cody.explain(cody.as_model(logits, graph, identity="tests"), graph, graph.query(39))
    assert (len(why.candidates), why.wider) == (39, None)
    assert len(set(calls)) == why.evaluations == 300


@pytest.mark.parametrize(("events", "more"), [(900, f"--candidates {4 * WIDTHS[-1]}"), (200, None), (40, None)])
def test_the_advice_is_to_look_wider_than_it_did_where_there_are_more_events(events, more):
    graph = GRAPH.select(np.arange(events))
    never = cody.as_model(lambda graph, query, changes: [2.0] * len(changes), graph, identity="tests")
    shown = "\n".join(advice(next_steps(cody.explain(never, graph, graph.query(events - 1)))).lines())
    (wider,) = re.findall("--candidates [0-9]+", shown) or [None]
    assert wider == more


def test_the_advice_names_what_the_candidates_are():
    def moved(graph, query, changes):
        return [2.0 - 1e-3 * len(change) for change in changes]

    several = cody.TemporalGraph.from_arrays(np.zeros(30), 1 + np.arange(30) % 10, np.arange(30))
    never = cody.as_model(moved, several, identity="tests")
    for by, thing in ((None, "single events"), (pair, "single pairs")):
        why = cody.explain(never, several, several.query(29), by=by, evaluations=2)
        assert f"the other {len(why.candidates) - 1} {thing}, too" in str(next_steps(why))


def test_progress_counts_the_sets_of_all_searches_and_never_goes_back():
    told = []
    why = cody.explain(model(*far(128, 256)), GRAPH, QUERY, watch=counting(told.append))
    assert len(why.candidates) == 256
    assert told == sorted(told)
    assert 1000 < told[-1] <= why.evaluations  # the last batch is counted when it is known


def test_time_that_is_over_ends_a_wider_search():
    def slow(graph, query, changes):
        clock.append(len(changes))
        return [2.0] * len(changes)

    clock = []
    why = cody.explain(cody.as_model(slow, GRAPH, identity="tests"), GRAPH, QUERY, seconds=0.05)
    assert why.seconds < 0.5
    assert why.ended in ("seconds", "evaluations")


def test_wider_searches_do_not_ask_the_model_again_what_it_has_answered():
    calls = []
    cody.explain(model(calls=calls), GRAPH, QUERY, count=1)
    searched = calls[: len(set(calls))]
    assert len(set(searched)) == len(searched)


class Heavy:
    """A model whose sessions say what an answer costs."""

    hops, identity = 2, "tests"

    def __init__(self, weight):
        self.weight = weight

    def logits(self, query, changes):
        return np.array([2.0] * len(changes))

    def session(self, query, rows=()):
        class Session:
            weight = self.weight
            logits = staticmethod(lambda changes: self.logits(query, changes))

        return Session()


@pytest.mark.parametrize(
    ("weight", "events", "evaluations"),
    [(1, 256, 1024), (1_000_000, 256, 1000), (2_400_000, 256, 416), (2_500_000, 256, 400), (3e9, None, 0)],
)
def test_a_wider_search_evaluates_no_more_than_one_waits_for(weight, events, evaluations):
    why = cody.explain(Heavy(int(weight)), GRAPH, QUERY)
    assert (why.wider and why.wider.events) == events
    assert why.evaluations <= 300 + 2 * evaluations
    patient = cody.explain(Heavy(int(weight)), GRAPH, QUERY, evaluations=2000)
    assert patient.wider.events == 256


def test_a_wider_search_is_weighed_and_made_in_one_session(monkeypatch):
    opened, session = [], Heavy.session
    monkeypatch.setattr(Heavy, "session", lambda *given, **rows: opened.append(1) or session(*given, **rows))
    why = cody.explain(Heavy(1), GRAPH, QUERY)
    assert (why.wider.events, len(opened)) == (256, len(WIDTHS))


@pytest.mark.parametrize("budget", [301, 365, 429, 430, 500, 700, 1000])
@pytest.mark.parametrize("policy", [cody.search.policies.event_impact, cody.search.policies.spatio_temporal])
def test_no_wider_search_begins_with_a_budget_that_is_too_small_for_it(policy, budget):
    why = cody.explain(model(), GRAPH, QUERY, policy=policy, evaluations=budget)
    assert why.verdict == "none within the budget"
    assert (why.wider is not None) == (budget > 300 + 128)
    assert why.wider is None or why.wider.evaluations > 0


def test_a_search_that_asks_nothing_new_has_not_looked_wider():
    why = cody.explain(model(), GRAPH, QUERY, search=cody.search.greedy)
    assert (why.is_counterfactual, why.wider) == (False, None)
    assert "either" not in why.sentence


def test_an_explainer_that_names_events_is_content_with_the_first_candidates():
    why = cody.explain(model(), GRAPH, QUERY, policy=cody.search.policies.event_impact, search=cody.search.top_share)
    assert len(why.candidates) == WIDTHS[0]
    assert why.wider is None
    assert why.evaluations == WIDTHS[0] + 1
