"""What a user names is used, or it is said how much of it is not."""

import html
import json

import pytest
from click.testing import CliRunner

from cody import Add, TemporalGraph, cli
from cody.explaining.what_if import Scenario, answer_cases
from cody.models import ToyModel
from commands import data_and_model


@pytest.fixture(scope="module")
def where(tmp_path_factory):
    return data_and_model(tmp_path_factory.mktemp("named"))


def run(*words):
    result = CliRunner().invoke(cli.app, [str(word) for word in words])
    assert result.exit_code == 0, result.exception or result.output
    return result


def survey(where, *words):
    result = run("survey", *where, "--candidates", 3, "--evaluations", 5, "--json", *words)
    (found,) = json.loads(result.stdout)["surveys"]
    return {part["kind"]: part["links"] for part in found["parts"]}, result.stderr


def test_a_survey_explains_all_events_that_are_named(where, tmp_path):
    (tmp_path / "rows.txt").write_text("\n".join(map(str, range(100, 260))))
    kinds, said = survey(where, "--events", tmp_path / "rows.txt")
    assert sum(kinds.values()) == 160
    assert max(kinds.values()) > 50  # the default without --events
    assert said == ""


def test_a_survey_says_how_many_named_events_it_leaves_out_and_why(where):
    rows = ",".join(map(str, range(100, 160)))
    some, said = survey(where, "--events", rows, "--instances", 2)
    assert some == {"correct": 2, "incorrect": 2}
    assert "4 of 60 predictions are explained: at most 2 of each kind (--instances)" in said
    one, said = survey(where, "--events", rows, "--kinds", "correct")
    assert f"{one['correct']} of 60 predictions are explained" in said
    assert "correct (--kinds)" in said
    _, said = survey(where, "--events", "100,101,100")
    assert "3 rows named, 2 of them different: each is used once" in said


@pytest.mark.parametrize("command", ["survey", "predict"])
def test_events_of_a_node_outside_the_default_period_are_mentioned(where, command):
    options = ["--candidates", 3, "--evaluations", 5] if command == "survey" else []
    graph_rows = run("data", "events", where[1], "--node", 3, "--last", 300).stdout.splitlines()[1:]
    late = sum(int(line.split()[0]) >= 255 for line in graph_rows)
    assert 0 < late < len(graph_rows)
    said = run(command, *where, "--node", 3, *options).stderr
    assert f"{late} of the {len(graph_rows)} events of 3: those of the test period" in said
    assert "test period" not in run(command, *where, "--node", 3, *options, "--period", "0..1").stderr


def test_a_survey_of_a_node_says_how_many_of_its_links_it_explains(where):
    kinds, said = survey(where, "--node", 3, "--period", "0..1", "--instances", 1)
    assert sum(kinds.values()) == 2
    events = run("data", "events", where[1], "--node", 3, "--last", 300).stdout.splitlines()[1:]
    assert f"2 of {len(events)} predictions are explained: at most 1 of each kind (--instances)" in said


def test_a_page_of_one_line_of_many_says_so(where, tmp_path):
    lines = run("explain", *where, "--events", "250,251,252", "--candidates", 3).stdout
    (tmp_path / "why.jsonl").write_text(lines)
    assert (
        "line 1 of 3: --line N makes a page of another, --all one of each" in run("view", tmp_path / "why.jsonl").stderr
    )
    assert "line 1 of" not in run("view", tmp_path / "why.jsonl", "--line", 1).stderr
    (tmp_path / "one.jsonl").write_text(lines.splitlines()[0])
    assert "line 1 of" not in run("view", tmp_path / "one.jsonl").stderr


def test_pages_of_all_lines_are_linked_from_a_list(where, tmp_path):
    lines = run("explain", *where, "--events", "250,251,252", "--candidates", 3).stdout
    (tmp_path / "my why.jsonl").write_text(lines)
    said = run("view", tmp_path / "my why.jsonl", "--all").stderr
    assert f"Page: {tmp_path / 'my why.html'}" in said
    listed = (tmp_path / "my why.html").read_text()
    for number, line in enumerate(lines.splitlines(), start=1):
        assert f'href="my%20why/{number}.html"' in listed
        assert html.escape(json.loads(line)["sentence"]) in listed
        assert (tmp_path / "my why" / f"{number}.html").read_text().startswith("<!doctype html>")
    (tmp_path / "empty.jsonl").touch()
    for words, says in (
        (["empty.jsonl", "--all"], "has no explanations"),
        (["my why.jsonl", "--all", "--line", "2"], "not both"),
    ):
        refused = CliRunner().invoke(cli.app, ["view", str(tmp_path / words[0]), *words[1:]])
        assert says in str(refused.exception)


def test_rows_that_lie_after_the_link_are_counted(where, tmp_path):
    said = run("what-if", *where, "--event", 250, "--without", "3,260,270,280").stderr
    assert "3 of 4 events, from 260 on, do not lie before event 250: leaving them out changes nothing" in said
    cases = [{"event": 250, "removed": [3]}, {"event": 250, "removed": [3, 260]}, {"event": 9, "removed": [250]}]
    (tmp_path / "cases.json").write_text(json.dumps(cases))
    said = run("what-if", *where, "--cases", tmp_path / "cases.json").stderr
    assert "2 of 3 cases, the first of them case 1, change something that does not lie before the link" in said


def test_fewer_partners_than_asked_for_are_remarked_on(where):
    assert "3 has only" in run("predict", *where, "--node", 3, "--next", 100).stderr
    assert "3 has only" not in run("predict", *where, "--node", 3, "--next", 2).stderr


def test_of_ranks_it_is_said_how_many_links_have_none(where):
    ranked = "predict", *where, "--top", 3, "--last"
    assert run(*ranked, 2).stderr == "only the last 2 of 45 events are ranked: --last N ranks more\n"
    assert run(*ranked, 45).stderr == ""


def test_a_table_of_some_links_says_of_how_many(where):
    assert "20 of 45 links shown" in run("predict", *where).stdout


def test_an_event_that_is_added_twice_counts_twice():
    graph = TemporalGraph.from_arrays([0, 0, 2, 0], [1, 2, 1, 1], [1.0, 2.0, 3.0, 4.0])
    query, added = graph.query(3), Add(0, 1, 2.5)
    cases = [Scenario(query, 3, edits=(added,) * times) for times in range(3)]
    never, once, twice = answer_cases(ToyModel(graph), graph, cases)
    assert twice - once == pytest.approx(once - never)
    assert once > never
