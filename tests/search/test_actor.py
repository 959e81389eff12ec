"""What one node could do itself: nothing else is a candidate, and the answer is the smallest of these."""

from itertools import combinations

import numpy as np
import pytest
from click.testing import CliRunner

import cody
from cody.cli import app
from cody.models import ToyModel
from cody.models.margins import flips
from cody.search.proposals import additions, done_by, moves, removals
from random_events import random_graph


@pytest.fixture(scope="module")
def asked():
    graph = random_graph(np.random.default_rng(3), nodes=12, events=60)
    return graph, ToyModel(graph, weights=np.random.default_rng(5).normal(0.3, 1, size=60), bias=-0.3)


def test_every_edit_is_one_of_the_actor(asked):
    graph, model = asked
    for row in range(50, 60):
        query = graph.query(row)
        edits = [done_by(query.src, propose) for propose in (removals, additions, moves)]
        why = cody.explain(model, graph, query, size=12, edits=edits, evaluations=20)
        assert {event.src for event in why.candidates} <= {graph.name(query.src)}


def test_the_smallest_set_of_the_actor_is_that_of_brute_force(asked):
    graph, model = asked
    sizes = []
    for row in range(40, 60):
        query = graph.query(row)
        why = cody.explain(model, graph, query, size=12, edits=done_by(query.src, removals), prove=7)
        own = [event.row for event in why.candidates]
        sets = [frozenset(some) for size in range(len(own) + 1) for some in combinations(own, size)]
        margins = model.logits(query, sets)
        smallest = min(
            (len(each) for each, after in zip(sets, margins, strict=True) if flips(margins[0], after)), default=None
        )
        assert (len(why.rows) if why.is_counterfactual else None) == smallest
        sizes.append(smallest)
    assert {1, None} < {*sizes}


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--actor", "nobody"), "there is no node 'nobody'"),
        (("--actor", "1395", "--by", "pair"), "leave out --by"),
        (("--actor", "1395", "--also", "tgat-collegemsg", "--robust"), "leave out --robust"),
        (("--actor", "1395", "--even-if"), "leave out --even-if"),
    ],
)
def test_bad_commands_are_refused(words, message):
    ended = CliRunner().invoke(app, ["explain", "--event", "53854", *words])
    assert message in str(ended.exception)


def test_the_command_says_whose_events_could_change():
    shown = CliRunner().invoke(app, ["explain", "--event", "53854", "--actor", "1395", "--candidates", "20"]).stdout
    assert "Only messages that start at 1395 could change." in " ".join(shown.split())
