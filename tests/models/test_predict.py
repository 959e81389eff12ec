"""Scores of many links: what is right and wrong, and who is next."""

import csv
import json
import shlex

import numpy as np
import pytest
from click.testing import CliRunner

import cody
from cody import cli
from cody.data import save_graph
from cody.engine import fast_model
from cody.errors import CallError, ModelError
from cody.graph import TemporalGraph
from cody.models.contract import as_model, logits_of_links
from cody.models.predict import rows_of_links
from cody.models.toy import ToyModel
from cody.train.checkpoint import Checkpoint, save_model
from commands import run
from random_events import random_graph, random_network


@pytest.fixture
def graph():
    return random_graph(np.random.default_rng(0), nodes=20, events=200)


def repeats(graph, query, changes):
    """A link is likely if its source had an event with its destination before; more so the later it was."""
    rows = [row for row in range(query.before) if (graph.src[row], graph.dst[row]) == query[:2]]
    return [max(rows, default=-1) + 0.5] * len(changes)


def test_links_that_happened_and_are_not_predicted_are_wrong(graph):
    model = as_model(repeats, graph, identity="repeats")
    found = cody.predict(model, graph)
    assert [each.event for each in found] == list(range(170, 200))
    for each in found:
        expected = model.logits(graph.query(each.event), [frozenset()])[0]
        assert (each.logit, each.predicted, each.right) == (expected, expected > 0, expected > 0)
    wrong = [each for each in found if each.logit <= 0]
    assert 0 < len(wrong) < 30
    assert list(found.wrong) == wrong
    recall = f"recall {100 * (1 - len(wrong) / 30):.1f} %"
    assert f"{30 - len(wrong)} predicted, {len(wrong)} missed ({recall})" in found.sentence
    assert found.counts.precision is None  # events alone do not tell it


def test_a_link_that_the_log_does_not_decide_is_neither_right_nor_wrong(graph):
    found = cody.predict(ToyModel(graph), graph, [graph.link(0, 1, "now"), 150])
    assert [each.right for each in found] == [None, found[1].predicted]
    assert [each.event for each in found] == [None, 150]
    assert "2 links" in found.sentence
    assert "of 1 that happened" in found.sentence
    assert "of 1 that the log does not decide" in found.sentence


@pytest.fixture
def meetings():
    """Two pairs meet twice each, and both pairs exist at every time between."""
    return TemporalGraph.from_arrays(src=[0, 0, 1, 0, 1, 1], dst=[2, 3, 3, 2, 3, 2], time=[1, 2, 3, 4, 5, 6])


def test_predicting_a_link_that_did_not_happen_is_a_false_alarm(meetings):
    model = as_model(repeats, meetings, identity="repeats")
    links = [3, 1, 4, meetings.link(0, 2, 5), meetings.link(1, 2, 5), meetings.link(0, 3, 3)]
    found = cody.predict(model, meetings, links)
    assert [each.predicted for each in found] == [True, False, True, True, False, True]
    assert [each.happened for each in found] == [True, True, True, False, False, False]
    assert [each.right for each in found] == [True, False, True, False, True, False]
    assert [(each.src, each.dst) for each in found.wrong] == [("0", "3"), ("0", "2"), ("0", "3")]
    assert found.counts == (2, 1, 2, 1)
    assert (found.counts.recall, found.counts.precision) == (2 / 3, 0.5)
    assert "of 3 that happened, 2 predicted, 1 missed (recall 66.7 %); " in found.sentence
    assert "of 3 that did not happen at that time, 2 false alarms (precision 50.0 %)." in found.sentence


def test_precision_needs_links_of_both_kinds(meetings):
    model = as_model(repeats, meetings, identity="repeats")
    only = cody.predict(model, meetings, [meetings.link(0, 2, 5), meetings.link(1, 2, 5)])
    assert (only.counts.recall, only.counts.precision) == (None, None)
    assert only.sentence == "2 links from 5 to 5: of 2 that did not happen at that time, 1 false alarm."
    none = cody.predict(model, meetings, [0, meetings.link(1, 2, 5)])
    assert none.counts.precision is None  # nothing is predicted
    assert "precision" not in none.sentence


def test_forecasts_are_neither_right_nor_wrong(meetings):
    model = as_model(repeats, meetings, identity="repeats")
    assert {each.right for each in cody.predict(model, meetings, node=0, next=2, time=3)} == {None}


def test_models_of_any_kind_are_asked_through_their_contract(graph):
    network = random_network(graph, "tgn")
    fast, queries = fast_model(network, graph), [graph.query(row) for row in range(100, 140)]
    plain = as_model(lambda graph, query, changes: fast.logits(query, changes), graph, identity="one by one")
    np.testing.assert_allclose(logits_of_links(plain, queries), logits_of_links(fast, queries), atol=1e-9, rtol=0)


@pytest.mark.parametrize(("answer", "message"), [([1.0], "1 logits for 2 links"), ([1.0, np.nan], "logit is nan")])
def test_scores_that_are_not_numbers_are_refused(graph, answer, message):
    class Odd(ToyModel):
        def logits_of_links(self, queries):
            return answer

    with pytest.raises(ModelError, match=message):
        cody.predict(Odd(graph), graph, [3, 4])


def test_the_most_likely_partners_are_those_with_the_highest_scores():
    graph = TemporalGraph.from_arrays(src=[0, 0, 0, 1, 0], dst=[5, 6, 7, 8, 5], time=[1, 2, 3, 4, 5])
    model = as_model(repeats, graph, identity="repeats")
    now = cody.predict(model, graph, node=0, next=3)
    assert [each.dst for each in now] == ["5", "7", "6"]  # never 1, which was never a destination, nor 0 itself
    earlier = cody.predict(model, graph, node=0, next=3, time=4)
    assert [each.dst for each in earlier] == ["7", "6", "5"]
    assert earlier.contact(2) == (1.0, 5.0)
    assert earlier.contact(0) == (3.0, None)


def test_the_partners_of_a_destination_are_sources():
    graph = TemporalGraph.from_arrays(src=[0, 1, 2, 0], dst=[5, 5, 6, 6], time=[1, 2, 3, 4])
    found = cody.predict(as_model(repeats, graph, identity="repeats"), graph, node=5, next=2)
    assert [(each.src, each.dst) for each in found] == [("1", "5"), ("0", "5")]


def test_links_in_a_file_are_the_events_of_the_log_where_they_happened(tmp_path):
    graph = cody.load(_table(tmp_path / "log.csv", ["ann,bob,1", "ann,bob,5", "ann,bob,5", "bob,eve,7"]))
    asked = cody.load(_table(tmp_path / "asked.csv", ["ann,bob,5", "ann,bob,5", "bob,ann,5", "ann,eve,6"]))
    rows = rows_of_links(graph, asked)
    assert rows == [1, 2, graph.link("bob", "ann", 5), graph.link("ann", "eve", 6)]


def _table(path, lines):
    path.write_text("\n".join(["src,dst,time", *lines]) + "\n")
    return str(path)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"next": 3}, "give node="),
        ({"links": [1], "node": 3}, "links or a node"),
        ({"node": 3, "next": 0}, "at least 1"),
        ({"node": 3, "next": 2, "time": -5}, "before the first event"),
        ({"links": [500]}, "event 500 is out of range"),
    ],
)
def test_calls_that_make_no_sense_are_refused(graph, arguments, message):
    with pytest.raises(CallError, match=message):
        cody.predict(ToyModel(graph), graph, **arguments)


def test_progress_reaches_the_end(graph, monkeypatch):
    monkeypatch.setattr("cody.models.predictions.LINKS_AT_ONCE", 8)
    steps = []
    cody.predict(ToyModel(graph), graph, range(20), watch=lambda done, total: steps.append((done, total)))
    assert steps == [(8, 20), (16, 20), (20, 20)]


def test_a_table_has_readable_times():
    graph = cody.load("collegemsg")
    frame = cody.predict(ToyModel(graph), graph, [53_854]).to_frame()
    assert str(frame["time"][0]) == "2004-07-28 05:08:00+00:00"
    assert list(frame["src"]) == ["1772"]


# The command


@pytest.fixture
def made(tmp_path, graph):
    save_graph(graph, tmp_path / "events")
    save_model(tmp_path / "model", Checkpoint(random_network(graph, "tgn"), graph.identity))
    return tmp_path, ("--data", tmp_path / "events", "--model", tmp_path / "model")


def test_json_and_csv_have_all_links_and_what_if_agrees(made):
    _, where = made
    rows = json.loads(run("predict", *where, "--json"))
    assert [row["event"] for row in rows] == list(range(170, 200))
    (answer,) = json.loads(run("what-if", *where, "--event", 180, "--json"))
    assert rows[10]["logit"] == pytest.approx(answer["logit"], abs=1e-6)
    read = list(csv.DictReader(run("predict", *where, "--csv").splitlines()))
    assert [float(row["logit"]) for row in read] == [row["logit"] for row in rows]
    assert [row["right"] for row in read] == [str(row["right"]) for row in rows]


def test_a_cut_list_says_that_it_is_cut_and_how_to_see_more(made):
    _, where = made
    assert "links shown: --last N shows more" in run("predict", *where)
    assert "shown" not in run("predict", *where, "--last", 30)
    wrong = len(json.loads(run("predict", *where, "--wrong", "--json")))
    assert f"1 of {wrong} wrong predictions shown: --last N shows more, --csv" in run(
        "predict", *where, "--wrong", "--last", 1
    )
    assert "shown" not in run("predict", *where, "--wrong", "--last", wrong)
    assert len(json.loads(run("predict", *where, "--last", 4, "--json"))) == 4


def test_links_can_be_chosen_by_time_node_rows_and_file(made, graph):
    folder, where = made
    start, end = graph.time[100], graph.time[120]
    rows = [row["event"] for row in json.loads(run("predict", *where, "--since", start, "--until", end, "--json"))]
    assert rows == np.flatnonzero((graph.time >= start) & (graph.time <= end)).tolist()
    of_node = json.loads(run("predict", *where, "--node", 3, "--period", "0..1", "--json"))
    assert [row["event"] for row in of_node] == graph.history(3, 200).tolist()
    assert [row["event"] for row in json.loads(run("predict", *where, "--events", "9,3", "--json"))] == [9, 3]
    asked = _table(folder / "asked.csv", [f"{graph.src[7]},{graph.dst[7]},{graph.time[7]}"])
    assert json.loads(run("predict", *where, "--links", asked, "--json"))[0]["event"] in range(200)


def test_the_command_that_asks_why_can_be_pasted_whatever_nodes_are_called(tmp_path, graph):
    names = [f"Ann O'Neil {node}" for node in range(20)]
    named = TemporalGraph.from_arrays(graph.src, graph.dst, graph.time, names=names)
    save_graph(named, tmp_path / "events")
    save_model(tmp_path / "model", Checkpoint(random_network(named, "tgn"), named.identity))
    where = ("--data", tmp_path / "events", "--model", tmp_path / "model")
    shown = run("predict", *where, "--node", names[3], "--next", 1)
    words = shlex.split(shown.partition("Explain it:")[2])
    assert words[:4] == ["cody", "explain", "--src", names[3]]
    assert words[5] in names


def test_only_wrong_ones_can_be_shown(made):
    _, where = made
    assert {row["right"] for row in json.loads(run("predict", *where, "--wrong", "--json"))} <= {False}


def test_false_alarms_are_counted_and_shown_with_the_missed_links(made, graph):
    folder, where = made
    happened = [(graph.src[row], graph.dst[row], graph.time[row]) for row in range(170, 190)]
    others = [(src, (dst + 1) % 20, time) for src, dst, time in happened]
    file = _table(folder / "both.csv", [f"{src},{dst},{float(time)!r}" for src, dst, time in happened + others])
    rows = json.loads(run("predict", *where, "--links", file, "--json"))
    alarms = sum(row["predicted"] and row["happened"] is False for row in rows)
    missed = sum(not row["predicted"] and row["happened"] for row in rows)
    assert alarms
    wrong = json.loads(run("predict", *where, "--links", file, "--wrong", "--json"))
    assert len(wrong) == alarms + missed
    assert {row["right"] for row in wrong} == {False}
    shown = run("predict", *where, "--links", file, "--wrong", "--last", 1000)
    assert f"{alarms} false alarm" in shown
    assert "precision" in shown
    assert shown.count("(wrong)") == alarms + missed


def test_the_next_partners_are_shown_with_when_they_met(made):
    _, where = made
    rows = json.loads(run("predict", *where, "--node", 3, "--next", 4, "--json"))
    assert [row["score"] for row in rows] == sorted((row["score"] for row in rows), reverse=True)
    assert {*rows[0]} == {"src", "dst", "time", "logit", "score", "predicted", "last", "next"}
    shown = run("predict", *where, "--node", 3, "--next", 4)
    assert f"cody explain --src {rows[0]['src']} --dst {rows[0]['dst']} --time now" in shown
    assert len(list(csv.DictReader(run("predict", *where, "--node", 3, "--next", 4, "--csv").splitlines()))) == 4


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--next", 3], "give --node NAME"),
        (["--time", "now"], "--time belongs to --next"),
        (["--events", "3", "--period", "0..1"], "give one of"),
        (["--period", "0..1", "--since", "3"], "--period, or --since and --until"),
        (["--period", "1..0"], "two increasing shares"),
        (["--csv", "--json"], "not both"),
        (["--node", 3, "--next", 2, "--wrong"], "forecasts"),
        (["--since", "1e9"], "there are no events in this period"),
        (["--node", "77"], "node 77 is out of range"),
    ],
)
def test_commands_that_make_no_sense_are_refused(made, words, message):
    _, where = made
    assert message in run("predict", *where, *words, code=2)


def test_times_may_be_words(made, graph):
    _, where = made
    base = ("what-if", *where, "--src", 1, "--dst", 2, "--json")
    at_the_end = json.loads(run(*base, "--time", "end"))
    assert at_the_end == json.loads(run(*base, "--time", "now"))
    assert at_the_end == json.loads(run(*base, "--time", float(graph.time[-1])))
    result = CliRunner().invoke(cli.app, [*map(str, base), "--time", "soon"])
    assert "'soon' is not a time" in str(result.exception)


def test_times_in_csv_are_dates_that_can_be_read_back(tmp_path):
    where = ("--events", "53854,53855", "--csv")
    text = run("predict", *where)
    rows = list(csv.DictReader(text.splitlines()))
    assert [row["time"] for row in rows] == ["2004-07-28 05:08:00+00:00", "2004-07-28 05:12:00+00:00"]
    (tmp_path / "links.csv").write_text(text)
    again = json.loads(run("predict", "--links", tmp_path / "links.csv", "--json"))
    assert [row["event"] for row in again] == [53_854, 53_855]
    partners = list(csv.DictReader(run("predict", "--node", 1772, "--next", 3, "--csv").splitlines()))
    assert all(row["time"].startswith("2004-10-26 ") for row in partners)
    assert any(row["last"].startswith("2004-") for row in partners)
