"""Commands that speak of units: conversations, nodes, days, sessions, and what depends on what."""

import json
import re

import click
import pytest

import cody
from cody.cli import show
from cody.cli.options import names_in
from cody.cli.what_if import what_if
from cody.explaining.explanation import Explanation
from cody.graph.units import find_unit, pair
from cody.study.record import Record
from cody.web.commands import decision_options
from commands import run

EVENT = 53007  # 749 → 474; the conversation 474 ↔ 1285 decides it


def test_explain_by_pair_names_the_conversation():
    done = run("explain", "--event", EVENT, "--by", "pair")
    assert "Without the conversation 474 ↔ 1285 (5 messages)" in done
    assert "No other single conversation flips it." in " ".join(done.split())


def test_the_search_for_events_says_that_its_answer_is_a_conversation():
    assert "These 5 are the whole conversation 474 ↔ 1285." in run("explain", "--event", EVENT)


def test_the_table_of_conversations_fits_a_narrow_terminal():
    why = Explanation.from_json(run("explain", "--event", EVENT, "--by", "pair", "--json"))
    lines = [click.unstyle(line) for line in show.answer(why).lines(80)]
    assert max(map(len, lines)) <= 80
    assert "2004-07-19 05:24" in lines[2]
    assert lines[3].strip() == "to 05:48"


def test_the_document_has_the_rows_that_what_if_removes():
    why = Explanation.from_json(run("explain", "--event", EVENT, "--by", "pair", "--json"))
    graph = cody.load("collegemsg")
    unit = find_unit(graph, pair, "474 1285")
    assert why.removed == tuple(row for row in unit.rows.tolist() if row < EVENT)
    answers = json.loads(run("what-if", "--event", EVENT, "--without-pair", "474 1285", "--json"))
    assert answers[1]["removed"] == unit.rows.tolist()
    assert answers[1]["named"] == [f"conversation 474 ↔ 1285 ({len(unit.rows)} messages)"]
    assert answers[1]["logit"] == pytest.approx(why.without, abs=1e-4)


def test_what_if_each_unit_is_the_same_as_without_it():
    done = json.loads(run("what-if", "--event", EVENT, "--each", "--by", "pair", "--json"))
    by_name = {each["named"][0]: each for each in done[1:]}
    assert by_name["conversation 474 ↔ 1285"]["score"] == pytest.approx(0.357, abs=1e-3)
    shown = run("what-if", "--event", EVENT, "--each", "--by", "pair", "--strongest", 2)
    assert re.search("without message +conversation +how long before", shown)
    assert re.search("5 messages +474 ↔ 1285 +14 hours", shown)
    assert "link  " not in shown.replace("no link", "")
    assert "Removed alone, 1 of 64 conversations would change" in shown


def test_what_if_names_single_events_beside_units():
    alone = run("what-if", "--event", EVENT, "--without-day", "2004-07-18", "--without", 52989)
    assert "day 2004-07-18 (22 messages)" in alone
    assert "52989" in alone


def test_what_if_with_dependants_shows_the_literal_removal_too():
    done = run("what-if", "--event", 53002, "--without", 52529, "--with-dependants", "reply")
    assert "52529 and 13 dependants" in done
    literal, along = json.loads(
        run("what-if", "--event", 53002, "--without", 52529, "--with-dependants", "reply", "--json")
    )[1:]
    assert literal["removed"] == [52529]
    assert along["removed"] == sorted([52529, *along["dependants"]])
    assert len(along["dependants"]) == 13


def test_a_removal_that_contains_the_event_itself_is_remarked_on(capsys):
    what_if.main(["--event", str(EVENT), "--without-day", "2004-07-19"], standalone_mode=False)
    said = capsys.readouterr().err
    assert f"event {EVENT} itself is one of them" in said
    assert "do not lie before event" in said
    what_if.main(["--event", "59834", "--without-pair", "1878 1624"], standalone_mode=False)  # the last event of all
    said = capsys.readouterr().err
    assert "event 59834 itself is one of them" in said
    assert "lie before" not in said


def test_an_evaluation_counts_units_and_scores_their_events(tmp_path):
    file = tmp_path / "run.jsonl"
    options = ("--by", "pair", "--instances", 2, "--kinds", "correct", "--out", file)
    run("evaluate", "--model", "tgat-collegemsg", "--explainers", "scout-spatio-temporal", *options)
    lines = [line for line in file.read_text().splitlines() if '"cody/explanation' in line]
    for line in lines:
        record = Record.from_json(line)
        why = record.explanation
        assert record.options["by"] == {"name": "pair"}
        assert (record.size, record.candidates) == (len(why.rows), len(why.units))
        assert why.unit_name == "conversation"
    assert lines


def test_a_survey_counts_days_where_days_are_removed(tmp_path):
    page = tmp_path / "survey.html"
    done = run("survey", "--model", "tgat-collegemsg", "--events", f"{EVENT},53854", "--by", "day", "--html", page)
    assert "53854" in done
    assert "at most 2 days" in done
    assert "Each day counts here as one of its messages" in done
    text = page.read_text()
    assert "How many days does a prediction depend on?" in text
    assert "At most 2 days" in text
    assert "messages are changed" not in text


def test_a_survey_counts_events_as_the_data_calls_them():
    done = run("survey", "--model", "tgat-collegemsg", "--events", f"{EVENT},53854")
    assert "at most 2 messages" in done
    assert "counts here" not in done


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("what-if", "--event", EVENT, "--by", "pair"), "--by pair says what --each removes"),
        (("what-if", "--event", EVENT, "--without-node", "nobody"), "there is no node 'nobody'"),
        (("what-if", "--event", EVENT, "--without-day", "soon"), "'soon' is not a day"),
        (("what-if", "--event", EVENT, "--without-pair", "474"), "'474' is not a pair of nodes"),
        (("explain", "--event", EVENT, "--by", "pair", "--gap", "1h"), "--gap 1h: a gap ends a session"),
        (("explain", "--event", EVENT, "--by", "session", "--gap", "long"), "--gap long: 'long' is not a duration"),
        (("explain", "--event", EVENT, "--with-ends"), "--with-ends: the ends of a link are units by node"),
        (("explain", "--event", EVENT, "--with-dependants", "magic"), "there is no rule 'magic'"),
        (("survey", "--by", "day", "records.jsonl"), "--by is for a new survey"),
    ],
)
def test_bad_input_is_one_clear_error(words, message):
    done = run(*words, code=2)
    assert message in done


def test_names_in_a_list_may_have_commas_in_quotes_and_the_page_writes_them_so():
    names = ["Smith, Anna", "942", 'the "boss"']
    (flag, top, among, listed) = decision_options(cody.in_top(2, among=names))
    assert (flag, top, among) == ("--top", "2", "--among")
    assert names_in(listed) == names
    assert names_in('942, "Smith, Anna",,') == ["942", "Smith, Anna"]
    assert names_in('942\n"two\nlines"\r1,\r\n') == ["942", "two\nlines", "1"]
    assert names_in("") == names_in("\n") == []
