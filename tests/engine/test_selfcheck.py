"""Where the engine approximates, it checks itself: what it says of a decision is right, and what is proven is true."""

from copy import copy
from functools import cache

import numpy as np
import pytest
import torch

from cody.engine import FastTGN, Replay, fast, fast_model, selfcheck, tgn
from cody.engine.selfcheck import SelfCheck
from cody.engine.versions import versions_in_memory
from cody.explaining.pipeline import explain
from cody.graph import Query, TemporalGraph
from cody.models.contract import open_exact_session_of_links
from cody.search.oracle import Oracle
from random_events import random_graph, random_network

pytestmark = pytest.mark.usefixtures("form")  # each test in the compiled form, and in numpy
NOTHING = frozenset()
LINK = 1190
OLD = 688  # an event with a long history since


@pytest.fixture(scope="module")
def forgetful():
    """A TGN with long histories, in which changes of the memory fade."""
    drawn = random_graph(np.random.default_rng(0), nodes=30, events=1200, ties=False)
    graph = TemporalGraph.from_arrays(drawn.src, drawn.dst, drawn.time / drawn.time[-1], num_nodes=drawn.num_nodes)
    network = random_network(graph, "tgn", seed=0, batch=8)
    with torch.no_grad():
        network.memory.weight_ih.mul_(0.8)
        network.memory.weight_hh.mul_(0.8)
    return FastTGN(network, graph, table_dtype=np.float64)


def at(model, time):
    return Query(int(model.graph.src[LINK]), int(model.graph.dst[LINK]), time, LINK)


def estimate_and_exact(model, query, changes, rows=(OLD,)):
    workspace = fast.QueryWorkspace(model, [query], rows)
    assert not workspace.exact
    return np.array(workspace.answer(changes))[:, 0], np.array(workspace.exactly.answer(changes))[:, 0]


@cache
def time_on_the_line(model, begin=1.375, end=1.75, below=-8e-6):
    """When the link must be asked about so that its exact logit without the old event is just below 0."""
    for _ in range(30):
        middle = (begin + end) / 2
        (exact,) = estimate_and_exact(model, at(model, middle), [frozenset({OLD})])[1]
        begin, end = (begin, middle) if exact > below else (middle, end)
    return middle


def only_the_old_event(graph, query, hops, size):
    return np.array([OLD])


def never(self, changes):
    return np.zeros(len(changes), dtype=bool)


def recording(method, changes):
    """The method of a model, with the changes that it is called with appended to a list."""

    def recorded(model, links, change, **options):
        changes.append(change)
        return method(model, links, change, **options)

    return recorded


def test_a_claim_that_the_estimate_alone_would_get_wrong_is_right(forgetful, monkeypatch):
    query = at(forgetful, time_on_the_line(forgetful))
    without = Replay(forgetful.weights, forgetful.graph, dtype=np.float64).logits(query, [frozenset({OLD})])
    estimate, exact = estimate_and_exact(forgetful, query, [frozenset({OLD})])
    assert -1e-5 < exact < -5e-6
    np.testing.assert_allclose(exact, without, rtol=0, atol=1e-9)
    assert 5e-6 < estimate < selfcheck.PROMISE, "the estimate says that the decision stays"

    monkeypatch.setattr(SelfCheck, "_sample", never)  # no luck in what is compared: it is near the line that counts
    why = explain(forgetful, forgetful.graph, query, near=only_the_old_event)
    assert (why.verdict, why.rows, why.is_minimal) == ("counterfactual", (OLD,), True)

    monkeypatch.setattr(selfcheck, "NEAR", 0.0)
    wrong = explain(forgetful, forgetful.graph, query, near=only_the_old_event)
    assert wrong.verdict == "none among the candidates", "what the estimate would have proven"


def test_where_rounding_could_decide_the_reference_does(forgetful, monkeypatch):
    query = at(forgetful, time_on_the_line(forgetful))
    change = frozenset({OLD})
    (reference,) = forgetful.reference(query, change).logits(query, [change])
    opened = []  # whether the last bit differs from the engine's own depends on the processor, so this is counted
    monkeypatch.setattr(FastTGN, "reference_of_links", recording(FastTGN.reference_of_links, opened))
    session = forgetful.session(query, [OLD])
    assert session.logits([change])[0] == reference  # to the last bit
    assert opened == [change]
    monkeypatch.setattr(fast, "ON_THE_LINE", 0.0)
    assert forgetful.session(query, [OLD]).logits([change])[0] == pytest.approx(reference, abs=1e-9)
    assert opened == [change]


def test_exact_answers_are_computed_in_the_precision_of_the_table(forgetful, monkeypatch):
    """In single precision, they are off by rounding alone: far less than estimates are."""
    query, rows = at(forgetful, 1.2), list(range(652, 700, 4))
    changes = [frozenset({row}) for row in rows]
    estimates, double = estimate_and_exact(forgetful, query, changes, rows)
    model = copy(forgetful)
    model.table = versions_in_memory(forgetful.weights, forgetful.graph, np.dtype(np.float32), None)
    workspace = fast.QueryWorkspace(model, [query], rows)
    assert workspace.exactly.inputs.following.gates.maps.own.dtype == np.float32
    single = np.array(workspace.exactly.answer(changes))[:, 0]
    assert 0 < np.abs(single - double).max() < 2e-6 < np.abs(estimates - double).max() / 3
    monkeypatch.setattr(tgn, "MANY_VERSIONS", 10**9)  # a short history costs little
    few = fast.QueryWorkspace(model, [query], rows)
    assert few.exact
    assert few.inputs.following.gates.maps.own.dtype == np.float64


@pytest.fixture(scope="module")
def amplifying():
    """A TGN whose memory makes small changes larger instead of forgetting them: two nodes that met 900 times."""
    graph = random_graph(np.random.default_rng(31), nodes=2, events=900)
    network = random_network(graph, "tgn", seed=31, layers=1, heads=2, dimension=24, neighbours=1, batch=1)
    return fast_model(network, graph)


ROWS = list(range(100, 890, 26))
SINGLE = [frozenset({row}) for row in ROWS]


@pytest.fixture(scope="module")
def right(amplifying):
    return Replay(amplifying.weights, amplifying.graph, dtype=np.float64).logits(amplifying.graph.query(890), SINGLE)


def test_a_memory_that_amplifies_is_noticed_and_computed_exactly(amplifying, right):
    query = amplifying.graph.query(890)
    estimate, _ = estimate_and_exact(amplifying, query, SINGLE, ROWS)
    assert np.abs(estimate - right).max() > 1.0
    session = amplifying.session(query, ROWS)
    np.testing.assert_allclose(session.logits(SINGLE), right, rtol=0, atol=1e-4)
    assert session._workspace.exact
    pairs = [frozenset({row, row + 1}) for row in ROWS[::6]]  # rows that it was not opened for: it starts afresh
    expected = Replay(amplifying.weights, amplifying.graph, dtype=np.float64).logits(query, pairs)
    np.testing.assert_allclose(session.logits(pairs), expected, rtol=0, atol=1e-4)


def test_what_was_answered_before_an_error_was_noticed_is_corrected(amplifying, right, monkeypatch):
    monkeypatch.setattr(SelfCheck, "_sample", never)
    monkeypatch.setattr(selfcheck, "NEAR", 0.0)
    oracle = Oracle(amplifying, amplifying.graph.query(890), rows=ROWS)
    estimates = oracle.ask(SINGLE[:20])
    assert np.abs(estimates - right[:20]).max() > 1.0
    monkeypatch.setattr(selfcheck, "NEAR", np.inf)
    oracle.ask(SINGLE[20:])
    assert list(oracle.evaluated) == SINGLE
    np.testing.assert_allclose(list(oracle.evaluated.values()), right, rtol=0, atol=1e-4)
    np.testing.assert_allclose(oracle.ask(SINGLE), right, rtol=0, atol=1e-4)


def test_where_estimates_are_too_rough_finer_ones_take_their_place(forgetful, monkeypatch):
    query, rows = at(forgetful, 1.2), list(range(652, 700, 2))
    changes = [frozenset({row}) for row in rows]
    rough, exact = estimate_and_exact(forgetful, query, changes, rows)
    finer = np.array(fast.QueryWorkspace(forgetful, [query], rows).finer.answer(changes))[:, 0]
    errors = np.abs(rough - exact)
    assert np.abs(finer - exact).max() < errors.max() / 3
    last = changes.pop(int(errors.argmax()))
    monkeypatch.setattr(selfcheck, "NEAR", 0.0)
    monkeypatch.setattr(selfcheck, "PROMISE", errors.max() / 2)
    monkeypatch.setattr(SelfCheck, "_sample", lambda self, sets: np.array([change == last for change in sets]))
    session = forgetful.session(query, rows)
    first = session.logits(changes)
    (answer,) = session.logits([last])
    assert answer == pytest.approx(exact[errors.argmax()], abs=1e-9)  # it was compared
    assert (session._workspace.refined, session._workspace.exact) == (1, False)
    assert list(session.corrections) == changes
    expected = np.delete(exact, errors.argmax())
    corrected = session.logits(changes)
    assert corrected.tolist() == list(session.corrections.values()) != first.tolist()
    assert np.abs(corrected - expected).max() < errors.max() / 3
    more = [frozenset({rows[0], row}) for row in rows[1:]]
    np.testing.assert_allclose(
        session.logits(more), estimate_and_exact(forgetful, query, more, rows)[1], atol=errors.max()
    )
    assert list(session.corrections) == changes, "they stay corrected"


def test_the_first_fourth_and_sixteenth_estimate_is_compared_and_that_with_the_oldest_event(forgetful, monkeypatch):
    monkeypatch.setattr(selfcheck, "NEAR", 0.0)
    query, rows = at(forgetful, 1.2), [*range(652, 700, 2), 640, 642]
    session, exactly = forgetful.session(query, rows), []
    answer = fast.QueryWorkspace.answer
    monkeypatch.setattr(
        fast.QueryWorkspace,
        "answer",
        lambda self, sets: exactly.extend(sets if self.exact else []) or answer(self, sets),
    )
    changes = [frozenset({row}) for row in rows]
    first = [*session.logits(changes[:3]), *session.logits(changes[3:])]
    assert exactly == [changes[place] for place in (0, 3, 15, 24)]
    assert session.logits(changes[::-1]).tolist() == first[::-1], "an answer stays what it was"
    assert len(exactly) == 4
    assert not session.corrections


def test_what_an_exact_comparison_keeps_counts(forgetful):
    workspace = fast.QueryWorkspace(forgetful, [at(forgetful, 1.2)], [OLD])
    alone = workspace.size
    workspace.exactly.answer([frozenset({OLD})])
    assert workspace.size == alone + workspace.exactly.size > alone


def lead(scores):
    """A margin that two of three links decide."""
    return scores[:, 0] - scores[:, 1]


@pytest.mark.parametrize(("off", "is_exact"), [((0.0, 0.0, 0.5), False), ((0.5, 0.5, 0.0), False), ((0.5, 0, 0), True)])
def test_about_many_links_an_estimate_is_right_if_the_margin_is(forgetful, monkeypatch, off, is_exact):
    """The score of a rival that decides nothing may be off, and so may all that decide, by the same."""
    query, rows = at(forgetful, 1.2), range(652, 700, 2)
    links = [query, *(query._replace(dst=node) for node in (3, 4))]
    answer = fast.QueryWorkspace.answer
    monkeypatch.setattr(
        fast.QueryWorkspace,
        "answer",
        lambda self, sets: [scores + (0 if self.exact else np.array(off)) for scores in answer(self, sets)],
    )
    monkeypatch.setattr(selfcheck, "NEAR", 0.0)
    session = forgetful.session_of_links(links, lead, rows)
    session.scores([frozenset({OLD})])
    assert session._workspace.exact == is_exact
    every = fast.FastSession(forgetful, links, None, rows)
    every.scores([frozenset({OLD})])
    assert every._workspace.exact, "without a decision, every score counts"


def test_scores_that_are_shown_are_exact_wherever_the_margin_is(forgetful, monkeypatch):
    monkeypatch.setattr(SelfCheck, "_sample", never)
    query, change = at(forgetful, 1.2), frozenset({OLD})
    links = [query, *(query._replace(dst=node) for node in (3, 4))]
    exact = Replay(forgetful.weights, forgetful.graph, dtype=np.float64).scores(links, [change])
    estimates = forgetful.session_of_links(links, lambda scores: lead(scores) + 1e3, [OLD]).scores([change])
    shown = open_exact_session_of_links(forgetful, links, lambda scores: lead(scores) + 1e3, [OLD]).scores([change])
    np.testing.assert_allclose(shown, exact, rtol=0, atol=1e-9)
    assert np.abs(estimates - exact).max() > 1e-7
