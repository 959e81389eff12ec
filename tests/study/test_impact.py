"""Impact: the links that would be decided differently without some events, compared with asking link by link."""

import dataclasses
import json
import re

import jsonschema
import numpy as np
import pytest
from click.testing import CliRunner

import cody
from cody import cli
from cody.data import save_graph
from cody.engine import Replay, fast_model
from cody.errors import CallError, DataError, ModelError
from cody.graph import Query, TemporalGraph
from cody.graph.dependants import dependants, forward
from cody.graph.neighbourhood import hops_from
from cody.graph.units import find_unit, node, pair
from cody.models import ToyModel
from cody.models.contract import as_model
from cody.models.margins import flips
from cody.study import impact_words
from cody.study.impact import Impact, impact
from cody.train.checkpoint import Checkpoint, save_model
from cody.utils.words import count
from random_events import random_graph, random_network
from schemas import validator

LINKS = range(60, 120)


@pytest.fixture(scope="module", params=["tgn", "tgat"])
def world(request):
    graph = random_graph(np.random.default_rng(3), nodes=25, events=120, edge_features=2)
    network = random_network(graph, request.param, neighbours=3)
    return fast_model(network, graph), graph, Replay(network, graph, dtype=np.float64)


def even(model, graph):
    """A decision that is positive about every other link, so that many of them flip."""
    return cody.above(logit=float(np.median(model.logits_of_links([graph.query(row) for row in LINKS]))))


def by_hand(model, graph, change, line=0.0):
    """Margins of each link, before and after, asked one by one."""
    margins = {}
    for row in LINKS:
        if row > min(change) and row not in change:
            before, after = model.logits(graph.query(row), [frozenset(), change])
            margins[row] = float(before) - line, float(after) - line
    return margins


@pytest.mark.parametrize("rows", [[50], [58], [20, 70, 90], list(range(40, 60))])
@pytest.mark.parametrize("is_even", [True, False])
def test_the_list_is_complete_and_each_flip_is_that_of_the_reference(world, rows, is_even):
    model, graph, replay = world
    decision = even(model, graph) if is_even else cody.above(0.5)
    found = impact(model, graph, rows, LINKS, decision=decision, verify=100)
    expected = by_hand(replay, graph, frozenset(rows), decision.line)
    assert found.links == len(expected)
    moves = {each.event: each for each in found.moves}
    for row, (before, after) in expected.items():
        if row in moves:
            assert moves[row].original == pytest.approx(before, abs=2e-5)
            assert moves[row].without == pytest.approx(after, abs=2e-5)
            assert moves[row].flips == flips(before, after)
            assert (moves[row].verified is not None) == flips(before, after)
        else:
            assert abs(after - before) < 2e-5
    assert len(found.flips) == sum(flips(*both) for both in expected.values())
    assert found.reached >= found.moved_links > 0


def test_flips_come_first_then_those_that_move_furthest(world):
    model, graph, _ = world
    moves = impact(model, graph, range(20, 60), LINKS, decision=even(model, graph)).moves
    assert [(not each.flips, -each.moved) for each in moves] == sorted((not each.flips, -each.moved) for each in moves)
    assert 1 < sum(each.flips for each in moves) < len(moves)


@pytest.mark.parametrize("decision", [cody.in_top(3), cody.rather_than(26)])
def test_decisions_that_compare_are_those_of_a_model_of_margins(world, decision):
    from cody.models.decided import decide

    model, graph, _ = world
    found = impact(model, graph, 50, LINKS, decision=decision, verify=100)
    flipped = set()
    for row in LINKS:
        query = graph.query(row)
        before, after = decide(model, graph, query, decision).logits(query, [frozenset(), frozenset({50})])
        flipped |= {row} if flips(before, after) else set()
    assert {each.event for each in found.flips} == flipped
    assert all(each.score is None for each in found.moves)


@pytest.mark.parametrize("ranked", [False, True])
def test_links_to_the_destination_to_compare_with_are_left_out_with_a_note(world, ranked):
    model, graph, _ = world
    other = int(graph.dst[LINKS[0]])
    decision = cody.in_top(1, among=[other]) if ranked else cody.rather_than(other)
    same = {row for row in LINKS if other in ((graph.dst[row],) if ranked else (graph.src[row], graph.dst[row]))}
    found = impact(model, graph, 50, LINKS, decision=decision)
    assert same
    assert (found.links, found.incomparable) == (len(LINKS) - len(same), len(same))
    assert not same & {each.event for each in found.moves}
    assert "the node to compare with at one of" in str(found)
    assert "the node to compare with at one of" in found.to_html()
    assert Impact.from_json(found.to_json()) == found
    with pytest.raises(CallError, match="name other nodes, or choose another period"):
        impact(model, graph, 50, sorted(same), decision=decision)


def test_labels_of_several_classes():
    graph = random_graph(np.random.default_rng(0), events=60)

    def classes(graph, query, changes):
        seen = [
            [row for row in graph.history(query.src, query.before).tolist() if row not in change] for change in changes
        ]
        return [[len(rows) % 2, 0.5, sum(rows) % 3] for rows in seen]

    model = as_model(classes, graph, identity="counts", classes=["odd", "none", "sum"])
    found = impact(model, graph, 10, range(20, 60), decision=cody.labelled("sum"))
    assert found.flips
    assert {each.outcome for each in found.flips} <= {"sum", "not sum"}


def test_what_is_no_link_is_not_called_one():
    graph = random_graph(np.random.default_rng(0), events=60).with_labels([0, 1] * 30, event_name="payment")

    def suspicious(graph, query, changes):
        return [(sum(set(graph.history(query.src, query.before).tolist()) - change) % 7) - 3 for change in changes]

    model = as_model(suspicious, graph, identity="sums", classes=["fine", "fraud"])
    found = impact(model, graph, 10, range(20, 60))
    assert found.called == "payment"
    page = re.sub(r"<style.*?</style>|<script.*?</script>|<[^>]*>", " ", found.to_html(), flags=re.DOTALL)
    for said in (str(found), page):
        assert "payments" in said
        assert not re.search(r"\b(links?|events?)\b", said, re.IGNORECASE)
    kept = cody.even_if(model, graph, graph.query(50))
    assert not re.search(r"\blinks?\b", str(kept))


def test_states_of_nodes_are_those_of_the_events_at_which_they_are_predicted():
    graph = random_graph(np.random.default_rng(0), events=60).with_labels([0, 1] * 30, event_name="edit")
    model = as_model(
        lambda graph, query, changes: [sum(graph.history(query.src, query.before).tolist()) - 99.0 for _ in changes],
        graph,
        identity="states",
        classes=["fine", "ban"],
        about="node",
    )
    found = impact(model, graph, 10, range(20, 60))
    assert found.called == "edit"
    assert "edit 10 · 40 edits" in str(found)


def test_a_number_is_not_called_a_link():
    graph = random_graph(np.random.default_rng(0), events=60)
    graph = dataclasses.replace(graph, event_name="rating")
    model = as_model(
        lambda graph, query, changes: [
            float(sum(set(graph.history(query.dst, query.before).tolist()) - change) % 7) for change in changes
        ],
        graph,
        identity="numbers",
    )
    decision = cody.between(1.5, 4.5)
    shown = [
        str(impact(model, graph, 10, range(20, 60), decision=decision)),
        str(cody.explain(model, graph, graph.query(50), decision=decision)),
        str(cody.even_if(model, graph, graph.query(50), decision=decision)),
        str(cody.predict(model, graph, range(40, 60), decision=decision)),
    ]
    for said in shown:
        assert "rating" in said
        assert not re.search(r"\blinks?\b", said)


def test_counts_by_time_and_by_hops_add_up(world):
    model, graph, _ = world
    found = impact(model, graph, [40, 45], LINKS)
    for bins in (found.by_time, found.by_hops):
        assert sum(each.links for each in bins) == found.links
        assert sum(each.flips for each in bins) == len(found.flips)
        total = sum(each.moved * each.links for each in bins)
        assert total == pytest.approx(sum(each.moved for each in found.moves), abs=1e-4)
    since = {each.event: each.since for each in found.moves}
    assert all(time == graph.time[row] - graph.time[45] for row, time in since.items())
    assert 0 <= found.half_within <= found.most_within <= max(since.values())


def nearest(graph, rows, query):
    """The definition: a breadth-first search in what the link sees, from its ends to a node of an earlier event."""
    goal = {int(end[row]) for row in rows if row < query.before for end in (graph.src, graph.dst)}
    edges = list(zip(graph.src[: query.before].tolist(), graph.dst[: query.before].tolist(), strict=True))
    ring, hops = {query.src, query.dst}, 0
    seen = set(ring)
    while ring:
        if ring & goal:
            return hops
        ring = {b for a, b in [*edges, *((b, a) for a, b in edges)] if a in ring} - seen
        seen |= ring
        hops += 1
    return -1


@pytest.mark.parametrize("seed", range(6))
def test_hops_are_those_of_a_search_in_what_each_link_sees(seed):
    rng = np.random.default_rng(seed)
    graph = random_graph(rng, nodes=60, events=80)
    rows = np.sort(rng.choice(80, 1 + seed % 3, replace=False))
    links = [graph.query(row) for row in range(80)]
    assert hops_from(graph, rows, links).tolist() == [nearest(graph, rows, link) for link in links]


def test_links_before_the_event_and_links_that_are_removed_are_left_out(world):
    model, graph, _ = world
    unit = find_unit(graph, node, "4")
    found = impact(model, graph, unit, LINKS)
    own = [row for row in LINKS if row in unit.rows]
    assert own
    assert found.own == len(own)
    assert found.links == len(LINKS) - len(own)
    assert impact(model, graph, 100, LINKS).links == 19
    assert impact(model, graph, 100, LINKS).own == 1
    same_time = [Query(1, 2, float(graph.time[100]), before) for before in (100, 101)]
    assert impact(model, graph, 100, same_time).links == 1
    assert impact(model, graph, 100).links == 18  # of the last 15 %, 102 to 119


def test_events_that_depend_on_the_removed_ones_go_along(world):
    model, graph, _ = world
    rule = forward(20.0)
    row = next(row for row in range(40, 100) if len(dependants(graph, rule, [row], graph.num_events)))
    along = dependants(graph, rule, [row], graph.num_events).tolist()
    with_them = impact(model, graph, row, LINKS, dependants=rule)
    assert with_them.removed.rows == tuple(sorted([row, *along]))
    assert with_them.removed.name == f"event {row} and {count(len(along), 'dependant')}"
    assert with_them.own == len(set(along) & set(LINKS))
    assert with_them.moves == impact(model, graph, [row, *along], LINKS).moves
    assert impact(model, graph, row, LINKS, dependants=lambda *_: []).removed.name == f"event {row}"


def test_a_link_that_never_happened_can_be_given(world):
    model, graph, _ = world
    query = Query(1, 2, float(graph.time[-1]) + 5, graph.num_events)
    found = impact(model, graph, range(100, 120), [query])
    assert [each.event for each in found.moves] == [None]


def test_only_as_many_flips_as_wanted_are_verified_and_it_says_so(world):
    model, graph, _ = world
    decision = even(model, graph)
    found = impact(model, graph, range(20, 60), LINKS, decision=decision, verify=1)
    assert found.verified == 1
    assert found.moves[0].verified is not None
    assert f"1 of {len(found.flips)} flips were verified" in str(found)
    assert "None of" in str(impact(model, graph, range(20, 60), LINKS, decision=decision, verify=0))


class Lying(ToyModel):
    """Its way to score many links contradicts its answers about one."""

    def links_without(self, removed):
        toy = ToyModel(self.graph, weights=self.weights)

        class Links:
            def can_differ(self, queries):
                return np.ones(len(queries), dtype=bool)

            def logits(self, queries):
                return np.array([-toy.logits(query, [removed])[0] for query in queries])

        return Links()


def test_a_fast_computation_that_the_reference_contradicts_is_an_error():
    graph = random_graph(np.random.default_rng(1))
    with pytest.raises(ModelError, match="contradicts itself"):
        impact(Lying(graph), graph, 40, range(50, 80))


def test_documents_follow_their_schema_and_can_be_read_back(world):
    model, graph, _ = world
    found = impact(model, graph, find_unit(graph, pair, f"{graph.src[50]} {graph.dst[50]}"), LINKS)
    document = json.loads(found.to_json())
    validator("impact").validate(document)
    assert Impact.from_json(found.to_json()) == found
    with pytest.raises(jsonschema.ValidationError):
        validator("impact").validate(document | {"links": "x"})
    with pytest.raises(DataError, match="checksum"):
        Impact.from_json(json.dumps(document | {"links": 1}))
    with pytest.raises(DataError, match="schema"):
        Impact.from_json(json.dumps(document | {"schema": "cody/survey/1"}))
    frame = found.to_frame()
    assert frame["event"].tolist() == [each.event for each in found.moves]


@pytest.mark.parametrize(
    ("removed", "links", "message"),
    [
        (110, range(60, 100), "event 110 has no later link in the period, whose last one is event 99"),
        ([], LINKS, "no event is named"),
        (500, LINKS, "event 500 is out of range"),
        (50, [], "there are no links to look at"),
        ([60, 61], [60, 61], "all links of the period are removed themselves"),
        (range(60), [60], "these are all events before the links"),
    ],
)
def test_bad_input_is_one_clear_error(world, removed, links, message):
    model, graph, _ = world
    with pytest.raises(CallError, match=message):
        impact(model, graph, removed, links)


def test_a_node_without_events_has_no_impact():
    graph = random_graph(np.random.default_rng(0), nodes=5, events=30)
    with pytest.raises(CallError, match="there are no events of node 6"):
        find_unit(graph, node, "6")


def test_rankings_of_too_many_links_are_refused(world, monkeypatch):
    model, graph, _ = world
    monkeypatch.setattr("cody.study.link_margins.MOST_SCORES", 100)
    with pytest.raises(CallError, match=r"each of 60 links is compared with up to \d+ others"):
        impact(model, graph, 5, LINKS, decision=cody.in_top(3))


def test_nothing_moves_where_nothing_is_reached():
    graph = TemporalGraph.from_arrays(src=[0, 2, 2], dst=[1, 3, 3], time=[1.0, 2.0, 3.0])
    model = fast_model(random_network(graph, "tgat"), graph)
    found = impact(model, graph, 0, [1, 2])
    assert (found.reached, found.moves, found.half_within) == (0, (), None)
    assert "No score can change" in str(found)
    assert "<svg" not in found.to_html()


def test_the_page_is_one_file_that_loads_nothing_and_names_are_text():
    rng = np.random.default_rng(3)
    graph = random_graph(rng, nodes=25, events=120)
    names = ["<b>x</b>", *(f"n{number}" for number in range(26))]
    named = TemporalGraph.from_arrays(graph.src, graph.dst, graph.time, names=names)
    model = fast_model(random_network(named, "tgn", neighbours=3), named)
    found = impact(model, named, find_unit(named, node, "<b>x</b>"), LINKS)
    page = found.to_html()
    assert "<b>x" not in page
    assert "&lt;b&gt;x" in page
    assert not re.search(r"(src|href)=", page)
    assert page.count("<circle") == found.moved_links
    assert page.count('class="flip"><td') == len(found.flips)


def test_links_of_people_with_long_names_fit_80_columns():
    rng = np.random.default_rng(3)
    graph = random_graph(rng, nodes=25, events=120)
    names = [f"person{number:02}@office.example" for number in range(27)]
    dated = TemporalGraph.from_arrays(graph.src, graph.dst, 1_745_800_000 + 4000 * graph.time, names=names)
    model = fast_model(random_network(dated, "tgn", neighbours=3), dated)
    found = impact(model, dated, find_unit(dated, node, names[3]))
    links, *_ = impact_words.tables(found)
    assert len(links.rows) == impact_words.SHOWN
    assert max(map(len, links.lines(80))) <= 80


@pytest.fixture(scope="module")
def saved(tmp_path_factory):
    folder = tmp_path_factory.mktemp("impact")
    graph = random_graph(np.random.default_rng(3), nodes=25, events=120)
    save_graph(graph, folder / "events")
    save_model(folder / "model", Checkpoint(random_network(graph, "tgn"), graph.identity))
    return ["--data", str(folder / "events"), "--model", str(folder / "model")]


def called(saved, *words):
    return CliRunner().invoke(cli.app, ["impact", *saved, *words])


def test_the_command_prints_what_the_function_finds(saved):
    document = json.loads(called(saved, "--events", "50,51", "--period", "0.5..1", "--json").stdout)
    validator("impact").validate(document)
    assert document["removed"]["rows"] == [50, 51]
    lines = called(saved, "--events", "50,51", "--period", "0.5..1", "--csv").stdout.splitlines()
    assert len(lines) == 1 + len(document["moves"])
    text = called(saved, "--pair", "23 16", "--period", "0.5..1", "--threshold", "0.6").stdout
    assert "Without pair 16 ↔ 23" in text


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ([], "name the events that did not happen, by one of"),
        (["--event", "3", "--node", "4"], "name the events that did not happen, by one of"),
        (["--event", "3", "--csv", "--json"], "give --csv or --json, not both"),
        (["--event", "119", "--period", "0..0.5"], "has no later link"),
        (["--event", "3", "--since", "9e9"], "there are no events in this period"),
        (["--node", "nobody"], "nobody"),
        (["--event", "3", "--html", "no/such/folder/page.html"], "not a file in a folder"),
    ],
)
def test_wrong_calls_are_refused(saved, words, message):
    ended = called(saved, *words)
    assert isinstance(ended.exception, CallError | SystemExit)
    assert message in str(ended.exception) + ended.output


def test_the_page_is_written(saved, tmp_path):
    assert called(saved, "--node", "4", "--period", "0.5..1", "--html", str(tmp_path / "page.html")).exit_code == 0
    assert "Impact of node 4" in (tmp_path / "page.html").read_text(encoding="utf-8")
