"""Decisions: what is to flip, and that every search, proof and verification works on it."""

import itertools
import pickle

import numpy as np
import pytest

import cody
from cody.engine import Replay, fast_model
from cody.errors import CallError, DataError, ModelError
from cody.explaining.explanation import Explanation
from cody.graph import Query, TemporalGraph
from cody.graph.neighbourhood import ends_first, near_all
from cody.models import decision as decisions
from cody.models.contract import DECIMALS, as_model, first_score, open_session_of_links
from cody.models.decided import DecidedModel, decide
from cody.models.decision import Above, InTop, Labelled, RatherThan, State, Subject
from cody.models.margins import flips, kth_best, numbers, probability
from random_events import random_graph, random_network

NOTHING = frozenset()


@pytest.fixture(scope="module", params=["tgn", "tgat"])
def case(request):
    graph = random_graph(np.random.default_rng(1), nodes=14, events=160)
    return graph, fast_model(random_network(graph, request.param, batch=16, neighbours=5), graph)


def some_changes(rng, rows, count=25):
    sizes = rng.integers(0, 6, count)
    return [NOTHING, *(frozenset(rng.choice(rows, size, replace=False).tolist()) for size in sizes)]


def links_to_all(graph, query):
    return [query, *(query._replace(dst=node) for node in range(graph.num_nodes) if node != query.dst)]


# A session about many links


def test_a_session_about_many_links_answers_as_a_session_of_each(case):
    graph, model = case
    query, rng = graph.query(150), np.random.default_rng(0)
    links, changes = links_to_all(graph, query), some_changes(rng, np.arange(100, 150))
    together = model.session_of_links(links, first_score, range(100, 150)).scores(changes)
    alone = np.stack([model.session(link).logits(changes) for link in links], axis=1)
    np.testing.assert_allclose(together, alone, rtol=0, atol=1e-9)
    np.testing.assert_allclose(together[0], model.logits_of_links(links), rtol=0, atol=1e-9)


def test_the_reference_scores_many_links_as_it_scores_each(case):
    graph, model = case
    query, rng = graph.query(150), np.random.default_rng(2)
    links, changes = links_to_all(graph, query), some_changes(rng, np.arange(100, 150), 3)
    plain = Replay(model.weights, graph, dtype=np.float64)
    alone = np.stack([plain.logits(link, changes) for link in links], axis=1)
    np.testing.assert_allclose(plain.scores(links, changes), alone, rtol=0, atol=1e-12)
    for place, change in enumerate(changes):
        late = model.reference_of_links(links, change).scores(links, [change])[0]
        np.testing.assert_allclose(late, alone[place], rtol=0, atol=1e-5)  # the table of a TGN is in single precision


def test_a_model_without_such_sessions_is_asked_about_each_link(case):
    graph, model = case
    links = links_to_all(graph, graph.query(150))
    function = as_model(lambda graph, query, changes: model.logits(query, changes), graph, identity="function")
    changes = some_changes(np.random.default_rng(3), np.arange(100, 150), 4)
    expected = model.session_of_links(links, first_score).scores(changes)
    given = open_session_of_links(function, links, first_score).scores(changes)
    np.testing.assert_allclose(given, expected, rtol=0, atol=1e-9)


# Margins


def test_margins_have_the_sign_of_the_decision():
    scores = np.array([[2.0, 3.0, 1.0], [3.0, 2.0, 1.0], [2.0, 2.0, 1.0]])
    assert (InTop(1).margin(scores) > 0).tolist() == [False, True, False]  # a tie is not above
    assert (InTop(2).margin(scores) > 0).tolist() == [True, True, True]
    assert (Labelled("a", ("a", "b", "c")).margin(scores) > 0).tolist() == [False, True, False]
    assert (cody.between(1.5, 2.5).margin(scores) > 0).tolist() == [True, False, True]
    assert (RatherThan("x").margin(scores) > 0).tolist() == [False, True, False]
    assert cody.above(0.8).margin(scores) == pytest.approx(scores[:, 0] - np.log(4))
    assert cody.above(logit=2.5).threshold == pytest.approx(probability(2.5))


def test_the_rank_and_the_margin_of_a_ranking_agree():
    rng = np.random.default_rng(0)
    scores = rng.integers(0, 6, (200, 9)).astype(float)
    for k in (1, 3, 8):
        ranks = np.array([InTop(k).standing(row, list("abcdefghi")).rank for row in scores])
        np.testing.assert_array_equal(InTop(k).margin(scores) > 0, ranks <= k)
    assert kth_best(np.zeros((2, 1)), 2).tolist() == [-np.inf, -np.inf]


# Explanations


DECISIONS = {
    "a threshold": lambda graph, query: cody.above(0.62),
    "a rival": lambda graph, query: cody.rather_than(graph.name((query.dst + 3) % 14)),
    "a top": lambda graph, query: cody.in_top(4),
    "a top of some": lambda graph, query: cody.in_top(2, [n for n in range(7) if n not in (query.src, query.dst)]),
    "a range": lambda graph, query: cody.between(-1.0, 0.5),
    "a function": lambda graph, query: cody.decided_by(lambda scores: 0.3 - scores[:, 0] ** 2),
}


def true_margins(model, graph, query, decision, changes):
    """The margins by the reference, one change and one link at a time, among all rivals."""
    plain = Replay(model.weights, graph, dtype=np.float64)
    rivals = decision.rivals(graph, query).tolist()
    links = [query, *(query._replace(dst=rival) for rival in rivals)]
    scores = np.array([[plain.logits(link, [change])[0] for link in links] for change in changes])
    return decision.margin(scores)


@pytest.mark.parametrize("kind", DECISIONS)
def test_what_is_claimed_about_a_decision_is_so_by_trying_every_set(case, kind):
    graph, model = case
    answered = 0
    for row in range(140, 152):
        query = graph.query(row)
        decision = DECISIONS[kind](graph, query)
        if isinstance(decision, RatherThan) and graph.node(decision.other) in (query.src, query.dst):
            continue
        why = cody.explain(model, graph, query, decision=decision, size=6, prove=7)
        rows = [event.row for event in why.candidates]
        every = [frozenset(some) for size in range(7) for some in itertools.combinations(rows, size)]
        margins = dict(zip(every, true_margins(model, graph, query, decision, every), strict=True))
        flipping = [change for change in every if flips(margins[NOTHING], margins[change])]
        assert why.original == pytest.approx(margins[NOTHING], abs=2e-5)
        assert why.is_counterfactual == bool(flipping), (row, kind)
        if flipping:
            assert why.change in flipping
            assert len(why.rows) == min(map(len, flipping))
            assert why.is_minimal
            assert why.without == pytest.approx(margins[why.change], abs=2e-5)
            assert all(frozenset(other.rows) in flipping for other in why.alternatives)
        answered += bool(flipping)
        assert Explanation.from_json(why.to_json()).to_json() == why.to_json()
    assert answered > 1, "otherwise nothing was tested"


def test_the_threshold_of_the_default_is_one_half(case):
    graph, model = case
    query = graph.query(150)
    usual, same = cody.explain(model, graph, query), cody.explain(model, graph, query, decision=cody.above(0.5))
    assert usual.to_dict() | {"seconds": 0, "checksum": 0} == same.to_dict() | {"seconds": 0, "checksum": 0}
    assert "decision" not in usual.to_dict()
    nearly = cody.explain(model, graph, query, decision=cody.above(0.5 + 1e-9))
    assert nearly.rows == usual.rows
    assert nearly.logits == pytest.approx(usual.logits, abs=2e-5)


def test_a_ranking_is_searched_against_the_best_and_verified_against_all(case, monkeypatch):
    graph, model = case
    monkeypatch.setattr(decisions, "CONTENDERS", 4)
    query, rng = graph.query(150), np.random.default_rng(5)
    decided = decide(model, graph, query, cody.in_top(2))
    assert decided.is_large
    assert (len(decided.contenders), len(decided.rivals)) == (4, decided.decision.of - 1)
    rivals = decided.rivals.tolist()
    scores = np.array(model.logits_of_links([query._replace(dst=rival) for rival in rivals]))
    assert set(np.argsort(-scores)[:4].tolist()) == set(decided.contenders.tolist())
    for change in some_changes(rng, np.arange(100, 150), 8):
        margin = decided.session(query).logits([change])[0]
        (among_all,) = true_margins(model, graph, query, cody.in_top(2), [change])
        assert among_all <= margin + 1e-6, "rivals that are left out can only make the margin larger"
        reference, _ = decided.verifier(query, change)
        verified = reference.logits(query, [change])[0]
        assert (round(verified, DECIMALS) > 0) == (round(among_all, DECIMALS) > 0)  # nodes may tie but for rounding
    why = cody.explain(model, graph, query, decision=cody.in_top(2))
    assert "Searched against the 4 highest-ranked rivals, verified against all" in str(why)


def test_a_rival_that_a_search_left_out_decides_when_the_answer_is_verified():
    graph = TemporalGraph.from_arrays(src=[0] * 5, dst=[1, 2, 3, 4, 1], time=range(5))
    decided = DecidedModel(None, graph, InTop(1), np.array([2, 3, 4]), np.array([0]))
    assert decided.margin_of_all(np.array([[2.0, 1.0, 0.0, 0.0]])) == 1.0  # as the search has it
    assert decided.margin_of_all(np.array([[2.0, 1.0, 5.0, 0.0]])) == -3.0  # rival 3 was left out, and is above


def test_standings_name_the_rank_and_the_best(case):
    graph, model = case
    query = graph.query(150)
    why = cody.explain(model, graph, query, decision=cody.in_top(3))
    rivals = InTop(3).rivals(graph, query).tolist()
    scores = dict(
        zip(
            [query.dst, *rivals],
            model.logits_of_links(links := [query, *(query._replace(dst=rival) for rival in rivals)]),
            strict=True,
        )
    )
    order = sorted(scores, key=lambda node: (-scores[node], node == query.dst))  # a tie is not above
    first = why.standings[0]
    assert len(links) == why.decision.of
    assert first.rank == 1 + order.index(query.dst)
    assert [leader.name for leader in first.leaders][:6] == [graph.name(node) for node in order[:6]]
    assert len(why.standings) == len(why.logits)


def test_candidates_of_a_comparison_are_those_of_both_links():
    graph = random_graph(np.random.default_rng(7), nodes=14, events=160)
    query = graph.query(150)
    rival = next(node for node in range(14) if node not in (query.src, query.dst))
    found = set(near_all(ends_first, [rival])(graph, query, 2, 40).tolist())
    assert found & set(graph.history(rival, 150)[-5:].tolist())
    assert len(found) == 40
    assert near_all(ends_first, []) is ends_first
    why = cody.explain(cody.models.ToyModel(graph), graph, query, decision=cody.rather_than(graph.name(rival)))
    assert {event.row for event in why.candidates} >= set(graph.history(rival, 150)[-5:].tolist())


def test_imagined_events_work_with_every_decision(case):
    graph, model = case
    from cody.search.proposals import additions, removals

    query = graph.query(150)
    for decision in (cody.above(0.9), cody.in_top(1)):
        why = cody.explain(model, graph, query, decision=decision, edits=(removals, additions))
        assert why.allows_more
        if why.is_counterfactual:
            assert why.verification is not None


# Classes


class Labels:
    """Three classes, by which nodes the source has met."""

    classes = ("calm", "busy", "strange")
    identity, hops = "labels", 1

    def __init__(self, graph):
        self.graph = graph

    def logits(self, query, changes):
        rows = self.graph.history(query.src, query.before).tolist()
        kept = [[row for row in rows if row not in change] for change in changes]
        return np.array([[1.2, 0.5 * len(some), 0.3 * len({*self.graph.dst[some].tolist()})] for some in kept])


GRAPH = TemporalGraph.from_arrays(src=[0, 0, 0, 0, 1, 0], dst=[1, 1, 2, 3, 2, 3], time=range(6))


def test_a_class_of_several_is_decided_by_its_lead():
    why = cody.explain(Labels(GRAPH), GRAPH, GRAPH.query(5))
    assert why.decision == Labelled("busy", Labels.classes)
    assert (why.subject, why.outcome, why.is_counterfactual, len(why.rows)) == ("event", "busy", True, 2)
    assert [leader.name for leader in why.standings[0].leaders] == ["busy", "calm", "strange"]  # the best first
    assert why.question == "Event 5, time 5: the model expects busy for 0 → 3 (lead 0.80)."
    assert why.sentence.endswith("the lead of busy changes from 0.80 to -0.20: not busy.")
    assert "link" not in f"{why.question}{why.sentence}"
    assert Explanation.from_json(why.to_json()) == why
    other = cody.explain(Labels(GRAPH), GRAPH, GRAPH.query(5), decision=cody.labelled("strange"))
    assert other.outcome == "not strange"


class TwoLabels(Labels):
    classes, threshold, about = ("trust", "distrust"), 0.6, "node"

    def logits(self, query, changes):
        return super().logits(query, changes)[:, 1] - 1.0


def test_two_classes_are_decided_by_the_threshold_of_the_model():
    model, query = TwoLabels(GRAPH), Query(0, 0, 5.0, 5)
    why = cody.explain(model, GRAPH, query)
    assert why.decision == Above(0.6, "distrust", "trust")
    assert why.question == "Event 5, time 5: the model expects distrust for 0 (score 0.73, threshold 0.6)."
    assert cody.explain(model, GRAPH, query, decision=cody.labelled("trust")).decision == why.decision
    assert cody.explain(model, GRAPH, query, decision=cody.above(0.9)).decision == Above(0.9, "distrust", "trust")
    assert (
        cody.explain(model, GRAPH, query, decision=cody.labelled("distrust", threshold=0.5)).decision.threshold == 0.5
    )


# Words


def test_words_of_decisions():
    top = InTop(10, of=1735, name="105")
    first, last = State(1.2, decisions.Standing(rank=3)), State(-0.4, decisions.Standing(rank=1140))
    link = Subject("1118 → 105", "1118")
    assert top.stated(first, link) == "ranks 105 third of 1,735 for 1118, in the top 10"
    assert top.stated(last, link) == "ranks 105 1,140th of 1,735 for 1118, not in the top 10"
    assert top.moved(first, last) == "105 falls from rank 3 to rank 1,140: not in the top 10"
    assert top.moved(last, first) == "105 rises from rank 1,140 to rank 3: in the top 10"
    assert top.moved(first, first) == "105 stays at rank 3: still in the top 10"
    above = Above(0.6, "distrust", "trust")
    assert above.stated(State(0.5), link) == "expects distrust for 1118 → 105 (score 0.71, threshold 0.6)"
    assert above.stated(State(-0.5), link) == "expects trust for 1118 → 105 (distrust scores 0.48, threshold 0.6)"
    assert Above().stated(State(0.5), link) == "expects 1118 → 105 (score 0.62)"
    assert Above().stated(State(-0.5), link) == "does not expect 1118 → 105 (score 0.38)"
    assert above.moved(State(0.5), State(-1.0)) == "the score falls from 0.71 to 0.36: trust"
    rather = RatherThan("942", name="105")
    leaders = (decisions.Leader("105", 2.0), decisions.Leader("942", 1.0))
    first, last = State(1.0, decisions.Standing(leaders=leaders)), State(-1.0, decisions.Standing(leaders=leaders))
    assert rather.stated(first, link) == "prefers 105 to 942 for 1118 (scores 0.88 and 0.73)"
    assert rather.moved(first, last).endswith(": the model prefers 942 to 105")
    assert rather.moved(first, first).endswith(": the model still prefers 105 to 942")
    assert cody.between(2, 5).stated(State(1.0, decisions.Standing(3.0)), link) == (
        "expects 3.00 for 1118 → 105, within 2 to 5"
    )
    assert cody.between(2, 5).moved(State(1.0, decisions.Standing(3.0)), State(-1.0, decisions.Standing(6.0))) == (
        "the value changes from 3.00 to 6.00: outside 2 to 5"
    )
    assert cody.decided_by(len).moved(State(1.0), State(0.5)) == "the margin falls from 1.00 to 0.50: still yes"


def test_numbers_have_the_digits_that_a_decision_needs():
    above = cody.above(0.8)
    logits = [2.489, 1.960_03, 1.960_01, 1.367]
    cells = above.cells([State(logit - above.line) for logit in logits])
    assert [cell.second for cell in cells] == ["0.923", "0.877", "0.877", "0.797"]  # 0.80 would be on the line
    assert numbers(-0.001, 2.0) == ["-0.001", "2.000"]
    assert numbers(-1e-9, 2.0) == ["0.00", "2.00"]  # six digits would not tell it from 0 either
    assert numbers(None, 1.0) == ["–", "1.00"]


def test_the_destination_is_named_wherever_it_ranks():
    scores = np.arange(40.0)
    standing = InTop(3).standing(scores, [str(place) for place in range(40)])
    assert [leader.name for leader in standing.leaders] == ["39", "38", "37", "36", "35", "34", "0"]
    assert standing.rank == 40


def test_decisions_can_be_sent_to_workers():
    for decision in (cody.above(0.8), cody.in_top(3, ["a"]), cody.rather_than("b"), cody.labelled("x", threshold=0.2)):
        assert pickle.loads(pickle.dumps(decision)) == decision


# Bad input


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: cody.above(1.0), "a threshold is a probability between 0 and 1, not 1.0"),
        (lambda: cody.above(float("nan")), "a threshold is a probability between 0 and 1, not nan"),
        (lambda: cody.above("high"), "a threshold is a probability between 0 and 1, not high"),
        (lambda: cody.above(logit=float("nan")), "a threshold is a probability between 0 and 1, not nan"),
        (lambda: cody.in_top(3, []), "among names no rival: name some nodes, or leave it out"),
        (lambda: cody.in_top(3, "942"), "among is a list of nodes, not the text '942'"),
        (lambda: cody.between("low", 2), "a range goes from a lower to a higher number, not from low to 2"),
        (lambda: cody.between(float("nan"), 2), "a range goes from a lower to a higher number, not from nan to 2"),
        (lambda: cody.in_top(0), "k must be at least 1, not 0"),
        (lambda: cody.in_top(2.5), "k must be a whole number, not 2.5"),
        (lambda: cody.between(3, 2), "a range goes from a lower to a higher number, not from 3 to 2"),
        (lambda: cody.labelled("x", threshold=0), "a threshold is a probability between 0 and 1, not 0"),
        (lambda: cody.decided_by(0.8), "decided_by takes a function from scores to margins, not 0.8"),
    ],
)
def test_decisions_that_make_no_sense_are_refused(make, message):
    with pytest.raises(CallError) as error:
        make()
    assert str(error.value).startswith(message)


@pytest.mark.parametrize(
    ("decision", "message"),
    [
        (cody.rather_than("3"), "'3' is the destination of the link itself; name another one to compare it with"),
        (cody.rather_than("9"), "node 9 is out of range"),
        (cody.in_top(3), "every destination is in the top 3, since only 3 destinations are ranked"),
        (cody.in_top(1, ["3"]), "'3' is the destination of the link itself"),
        (cody.labelled("fraud"), "the model predicts links, not labels such as 'fraud'"),
        (0.8, "a decision is cody.above(0.8), cody.rather_than(node)"),
    ],
)
def test_decisions_that_a_model_of_links_cannot_answer_are_refused(decision, message):
    with pytest.raises(CallError) as error:
        cody.explain(cody.models.ToyModel(GRAPH), GRAPH, GRAPH.query(5), decision=decision)
    assert str(error.value).startswith(message)


LABELS = "the model predicts labels of events ('calm', 'busy', 'strange'), not "


@pytest.mark.parametrize(
    ("decision", "message"),
    [
        (
            cody.labelled("bsy"),
            "'bsy' is not one of the model's classes, 'calm', 'busy', 'strange'; did you mean 'busy'?",
        ),
        (cody.labelled("busy", threshold=0.5), "a threshold is for two classes"),
        (cody.in_top(1), f"{LABELS}the best destinations"),
        (cody.above(0.8), f"{LABELS}whether one score is above a threshold"),
        (cody.rather_than("2"), f"{LABELS}one destination rather than another"),
        (cody.between(1, 2), f"{LABELS}a number in a range"),
    ],
)
def test_decisions_that_a_model_of_labels_cannot_answer_are_refused(decision, message):
    with pytest.raises(CallError) as error:
        cody.explain(Labels(GRAPH), GRAPH, GRAPH.query(5), decision=decision)
    assert message in str(error.value)


def test_class_scores_without_classes_are_refused():
    model = as_model(lambda graph, query, changes: np.zeros((len(changes), 3)), GRAPH, identity="vectors")
    with pytest.raises(ModelError):
        cody.explain(model, GRAPH, GRAPH.query(5))


def test_a_function_that_returns_something_else_is_refused():
    with pytest.raises(CallError, match="must return one margin per row of scores"):
        cody.explain(
            cody.models.ToyModel(GRAPH), GRAPH, GRAPH.query(5), decision=cody.decided_by(lambda scores: scores)
        )


def test_a_function_that_returns_no_number_is_refused():
    nothing = cody.decided_by(lambda scores: np.full(len(scores), np.nan))
    with pytest.raises(CallError, match="must return finite numbers"):
        cody.explain(cody.models.ToyModel(GRAPH), GRAPH, GRAPH.query(5), decision=nothing)


def test_what_is_not_in_the_top_is_explained_by_events_that_would_put_it_there(case):
    graph, model = case
    from cody.search.proposals import additions, removals

    found = 0
    for row in range(140, 150):
        why = cody.explain(model, graph, graph.query(row), decision=cody.in_top(2), edits=(additions, removals))
        if why.original <= 0 and why.is_counterfactual:
            found += 1
            assert why.outcome == "not in the top 2"
            assert why.sentence.endswith(": in the top 2.")
            assert why.standings[0].rank > 2 >= why.standings[-1].rank
    assert found


def test_the_decision_of_a_document_needs_its_parts():
    why = cody.explain(Labels(GRAPH), GRAPH, GRAPH.query(5)).to_dict()
    why["decision"]["label"] = "other"
    del why["checksum"]
    with pytest.raises(DataError, match="'other' is not one of the classes"):
        Explanation.from_dict(why)


def test_a_function_can_label():
    def scores(graph, query, changes):
        return Labels(graph).logits(query, changes)

    model = as_model(scores, GRAPH, identity="three", hops=1, classes=Labels.classes)
    why = cody.explain(model, GRAPH, GRAPH.query(5))
    assert (why.outcome, why.rows) == ("busy", cody.explain(Labels(GRAPH), GRAPH, GRAPH.query(5)).rows)
    two = as_model(lambda *asked: scores(*asked)[:, 1] - 1, GRAPH, identity="two", classes=("a", "b"), threshold=0.7)
    assert cody.explain(two.on(GRAPH), GRAPH, GRAPH.query(5)).decision == Above(0.7, "b", "a")
    with pytest.raises(ModelError, match="classes must be at least two different names"):
        as_model(scores, GRAPH, identity="one", classes=["a"])


def test_long_answers_are_folded_in_the_middle():
    events = 60
    graph = TemporalGraph.from_arrays(src=[0] * events, dst=[1] * events, time=range(events))
    why = cody.explain(cody.models.ToyModel(graph, half_life=1e9, bias=-10.5), graph, graph.query(events - 1))
    assert len(why.rows) == 49
    lines = str(why).splitlines()
    assert sum("→" in line for line in lines[2:]) == 23
    assert [line.split()[:3] for line in lines if line.startswith("+") and "more" in line] == [["+", "26", "more"]]
