"""What an answer survives: other models, noise; and a search for what flips all of several models."""

import json
from itertools import combinations
from shutil import copytree

import numpy as np
import pytest
from click.testing import CliRunner

import cody
from cody.cli import app
from cody.errors import CallError
from cody.explaining.claims import CONTRADICTED, NOT_CHECKED, verify_explanation
from cody.graph.units import pair
from cody.models import ToyModel
from cody.models.folder import find_model
from cody.models.margins import flips
from cody.search.result import EXHAUSTED, result
from random_events import random_graph

SIZE = 6


@pytest.fixture(scope="module")
def graph():
    return random_graph(np.random.default_rng(3), nodes=12, events=60)


def toy(graph, seed, **options):
    """A model that predicts most links."""
    return ToyModel(graph, weights=np.random.default_rng(seed).normal(0.4, 1, size=graph.num_events), **options)


def every_set(oracle, ranking):
    """A search that tries all sets, small ones first: the plainest there is."""
    rows = ranking.tolist()
    sets = [frozenset(some) for size in range(len(rows) + 1) for some in combinations(rows, size)]
    margins = oracle.ask(sets)
    flipping = [each for each, margin in zip(sets, margins, strict=True) if flips(margins[0], margin)]
    return result(oracle, ranking, tuple(sorted(flipping[0])) if flipping else (), 1, EXHAUSTED)


def smallest_for_all(models, query, rows):
    """By brute force: how few of the rows flip all models that decide like the first one; None: no set does."""
    originals = [model.logits(query, [frozenset()])[0] for model in models]
    agreeing = [each for each, margin in zip(models, originals, strict=True) if not flips(originals[0], margin)]
    for size in range(1, len(rows) + 1):
        for some in combinations(rows, size):
            if all(flips(originals[0], model.logits(query, [frozenset(some)])[0]) for model in agreeing):
                return size
    return None


def test_the_smallest_set_for_all_models_is_the_one_of_brute_force(graph):
    models = [toy(graph, seed, bias=-0.6) for seed in range(3)]
    also = {f"seed {number}": model for number, model in enumerate(models) if number}
    sizes = []
    for row in range(30, 60):
        query = graph.query(row)
        why = cody.explain(models[0], graph, query, size=SIZE, search=every_set, also=also, robust=True)
        expected = smallest_for_all(models, query, [event.row for event in why.candidates])
        if expected is None:
            continue
        sizes.append(expected)
        assert len(why.rows) == expected
        assert why.is_counterfactual
        agreeing = [each for each in why.elsewhere if each.agrees_with(why.original)]
        assert all(each.holds(0) for each in agreeing)
        assert f"Holds in {1 + len(agreeing)} of {1 + len(agreeing)} model" in why.stability
    assert len(sizes) > 5
    assert max(sizes) > 1


def test_a_search_of_ours_finds_what_flips_all_models_where_one_model_needs_more(graph):
    """Event 1 flips the first model alone; the second needs event 2, too."""
    small = cody.TemporalGraph.from_arrays(src=[0, 0, 0, 0], dst=[1, 1, 1, 1], time=[1.0, 2.0, 3.0, 4.0])
    first = ToyModel(small, weights=[0, 3, 1, 0], half_life=1e9, bias=-1.5)
    second = ToyModel(small, weights=[0, 2, 2, 0], half_life=1e9, bias=-1.5)
    alone = cody.explain(first, small, small.query(3), also={"second": second})
    assert alone.rows == (1,)
    assert alone.stability == "Holds in 1 of 2 models, not in second."
    both = cody.explain(first, small, small.query(3), also={"second": second}, robust=True)
    assert sorted(both.rows) == [1, 2]
    assert both.stability == "Holds in 2 of 2 models."
    assert both.certainty.endswith("The search found a smaller set, of 1 event, but not for all of the models.")
    assert not both.is_minimal


def test_where_nothing_flips_all_models_most_of_them_count():
    small = cody.TemporalGraph.from_arrays(src=[0] * 4, dst=[1] * 4, time=[1.0, 2.0, 3.0, 4.0])
    first, second = (
        ToyModel(small, weights=weights, half_life=1e9, bias=-1.5) for weights in ([0, 3, 1, 0], [0, 2, 2, 0])
    )
    stubborn = ToyModel(small, weights=[0, 0, 0, 0], bias=1)
    other = ToyModel(small, weights=[0, 0, 0, 0], bias=-1)
    also = {"second": second, "stubborn": stubborn, "other": other}
    why = cody.explain(first, small, small.query(3), also=also, robust=True)
    assert sorted(why.rows) == [1, 2]
    assert why.stability == (
        "Holds in 2 of 3 models, not in stubborn. 1 model decided differently from the start: other."
    )


def test_where_another_model_never_flips_the_answer_is_no_larger_than_without_it():
    """Its margins lead the search elsewhere, and must not cost the answer about the model that is explained."""
    graph = random_graph(np.random.default_rng(3), nodes=6, events=80)
    model, weights = toy(graph, 0, bias=-0.6), np.random.default_rng(9).normal(size=graph.num_events)
    pairs = []
    for row in range(50, 80):
        query = graph.query(row)
        alone = cody.explain(model, graph, query)
        if not alone.is_counterfactual:
            continue
        also = {"stubborn": ToyModel(graph, weights=weights, bias=50 * float(np.sign(alone.original)))}
        why = cody.explain(model, graph, query, also=also, robust=True)
        assert why.stability == "Holds in 1 of 2 models, not in stubborn."
        budget = 2 * alone.evaluations + 2
        limited = cody.explain(model, graph, query, also=also, robust=True, evaluations=budget)
        assert limited.is_counterfactual
        assert limited.evaluations <= budget
        pairs.append((len(alone.rows), len(why.rows)))
    assert max(size for size, _ in pairs) > 1
    assert [size for _, size in pairs] == [size for size, _ in pairs]


def test_what_other_models_say_is_what_they_answer(graph):
    models = {f"seed {seed}": toy(graph, seed) for seed in (1, 2)}
    base = toy(graph, 0)
    whys = (
        cody.explain(base, graph, graph.query(row), size=SIZE, also=models, by=by)
        for row in range(59, 30, -1)
        for by in (None, pair)
    )
    why = next(why for why in whys if why.alternatives)
    for each in why.elsewhere:
        changes = [frozenset(), why.change, *(why.change_of(other.rows) for other in why.alternatives)]
        np.testing.assert_allclose(
            models[each.name].logits(why.query, changes), [each.original, *each.without], atol=1e-5
        )


def test_noise_is_a_later_moment_and_an_unrelated_event():
    small = cody.TemporalGraph.from_arrays(src=[0] * 4, dst=[1] * 4, time=[1.0, 2.0, 3.0, 4.0])
    model = ToyModel(small, weights=[0, 3, 1, 0], half_life=1e9, bias=-1.5)
    why = cody.explain(model, small, small.query(3), noise=True)
    assert [each.name for each in why.elsewhere] == ["0.003 later", "with an unrelated event"]
    assert why.stability == "It also holds 0.003 later and with an unrelated event."

    def logits(query, changes):  # counts all events, so that any one more matters
        rows = [
            len([row for row in range(small.num_events) if row < query.before and row not in change])
            for change in changes
        ]
        more = [sum(row >= small.num_events for row in change) for change in changes]
        return np.array(rows) + np.array(more) - 2.5

    class Counting:
        identity, hops = "counts", 1

        def logits(self, query, changes):
            return logits(query, changes)

        def on(self, graph):
            return self

    fragile = cody.explain(Counting(), small, small.query(3), noise=True)
    assert fragile.stability == "It holds 0.003 later. It does not hold with an unrelated event."
    dated = cody.TemporalGraph.from_arrays(src=[0] * 4, dst=[1] * 4, time=[1.1e9 + 60 * step for step in range(4)])
    why = cody.explain(ToyModel(dated, weights=[0, 3, 1, 0], bias=-1.5), dated, dated.query(3), noise=True)
    assert why.elsewhere[0].name == "a minute later"


def test_a_document_has_it_and_verification_says_that_it_was_not_checked(graph):
    base = toy(graph, 0)
    whys = (cody.explain(base, graph, graph.query(row), size=4, also={"b": toy(graph, 1)}) for row in range(59, 30, -1))
    why = next(why for why in whys if why.elsewhere)
    again = cody.Explanation.from_json(why.to_json())
    assert (again.elsewhere, again.stability) == (why.elsewhere, why.stability)
    claims = {claim.about: claim.status for claim in verify_explanation(why.to_json(), base, graph, sets=0).claims}
    assert claims["other models and noise"] == NOT_CHECKED
    assert CONTRADICTED not in claims.values()
    document = json.loads(why.to_json())
    del document["checksum"]
    document["elsewhere"][0]["without"].append(0.0)
    with pytest.raises(cody.CodyError, match="margins for"):
        cody.Explanation.from_dict(document)


def test_bad_calls_are_refused(graph):
    model, query = toy(graph, 0), graph.query(50)
    with pytest.raises(CallError, match="give them as also"):
        cody.explain(model, graph, query, robust=True)
    with pytest.raises(CallError, match="leave out edits and prove"):
        cody.explain(model, graph, query, also={"b": toy(graph, 1)}, robust=True, prove=2)
    other = random_graph(np.random.default_rng(4), nodes=12, events=60)
    with pytest.raises(CallError, match="b was made for the graph"):
        cody.explain(model, graph, query, also={"b": toy(other, 1)})


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--robust",), "name them with --also"),
        (("--also", "tgat-collegemsg", "--even-if"), "leave out --even-if"),
        (("--also", "tgn-collegemsg"), "is the model that is explained"),
        (("--also", "nobody"), "--also nobody: there is no model 'nobody'"),
        (("--also", "tgn-bitcoin-otc"), "--also tgn-bitcoin-otc: "),
    ],
)
def test_bad_commands_are_refused(words, message):
    ended = CliRunner().invoke(app, ["explain", "--event", "53854", *words])
    assert ended.exit_code != 0
    assert message in " ".join((ended.output + str(ended.exception)).split())


def test_the_same_model_by_two_names_does_not_count_twice(tmp_path):
    copied = copytree(find_model("tgat-collegemsg"), tmp_path / "copy")
    ended = CliRunner().invoke(app, ["explain", "--event", "53854", "--also", str(copied), "--also", "tgat-collegemsg"])
    assert f"tgat-collegemsg is the same model as --also {copied}: name another one" in str(ended.exception)
