"""Times on the command line: their unit, the zone they are shown in, and those that are long after the log."""

import json
import os
import re
import subprocess
import sys

import pytest

import cody
from cody.errors import TimeWarning
from cody.models.toy import ToyModel
from cody.web.timeline import axes
from commands import run

MILLISECONDS = [1_741_000_000_000 + 1000 * second for second in range(0, 3600, 60)]  # an hour


@pytest.fixture
def file(tmp_path):
    rows = [f"{row % 7},{(row + 1) % 7},{time}" for row, time in enumerate(MILLISECONDS)]
    (tmp_path / "ms.csv").write_text("\n".join(["src,dst,t", *rows]))
    return tmp_path / "ms.csv"


def process(*words, **environment):
    """A command in a process of its own: standard output and standard error."""
    code = "from cody.cli import main; main()"
    words = [sys.executable, "-c", code, *map(str, words)]
    ended = subprocess.run(words, capture_output=True, text=True, check=True, env=os.environ | environment)
    return ended.stdout, ended.stderr


def test_milliseconds_are_warned_of_in_one_line(file, tmp_path):
    shown, said = process("data", "import", file, "--out", tmp_path / "graph")
    assert re.fullmatch(r"warning: the times in 't' look like milliseconds .*give --unit ms .*\n", said)
    assert "if times are seconds" in shown


def test_the_unit_can_be_given_wherever_a_file_is_read(file, tmp_path):
    out = tmp_path / "graph"
    assert "59 min (2025-03-03 11:06 to 2025-03-03 12:05 UTC)" in run("data", "show", file, "--unit", "ms")
    assert "59 min" in run("data", "import", file, "--out", out, "--unit", "ms")
    assert "2025-03-03 12:05" in run("data", "events", file, "--last", 1, "--unit", "ms")
    assert "60 events written" in run("data", "export", file, "--out", tmp_path / "s.csv", "--unit", "ms")
    assert (tmp_path / "s.csv").read_text().splitlines()[1].endswith(",1741000000")


def test_every_command_that_reads_a_file_has_a_unit():
    for words in ("explain", "what-if", "predict", "survey", "evaluate", "serve", "train", "train-explainer"):
        assert "--unit [s|ms|us|ns]" in run(words, "--help")
    for words in ("show", "events", "import", "export"):
        assert "--unit [s|ms|us|ns]" in run("data", words, "--help")
    assert "--unit [s|ms|us|ns]" in run("import-model", "--help")


def test_the_zone_is_shown_and_can_be_chosen(file, monkeypatch):
    words = ("data", "events", file, "--last", 1, "--unit", "ms")
    assert "when (UTC)\n" in run(*words)
    monkeypatch.setenv("CODY_TIMEZONE", "Asia/Kolkata")
    shown = run(*words)
    assert "when (Asia/Kolkata)\n" in shown
    assert "2025-03-03 17:35" in shown
    monkeypatch.setenv("CODY_TIMEZONE", "Atlantis")
    assert "CODY_TIMEZONE=Atlantis is not a time zone" in run(*words, code=2)


def test_a_time_is_typed_in_the_zone_in_which_it_is_shown(monkeypatch):
    monkeypatch.setenv("CODY_TIMEZONE", "Europe/Berlin")
    link = ("what-if", "--src", 1772, "--dst", 9, "--json", "--time")
    there = run(*link, "2004-07-28 08:00")
    monkeypatch.delenv("CODY_TIMEZONE")
    assert there == run(*link, "2004-07-28 06:00")
    assert there != run(*link, "2004-07-28 08:00")
    assert "when (UTC)" in run("explain", *link[1:5], "--time", "2004-07-28 06:00")
    nothing = ("explain", *link[1:5], "--time", "2004-07-28 06:00", "--explainer", "cody", "--seconds", 0.0001)
    assert "2004-07-28 06:00 UTC: the model expects" in " ".join(run(*nothing).split())  # there is no table


@pytest.mark.parametrize(
    "words",
    [
        ["what-if", "--src", 1772, "--dst", 9, "--time", "2030-01-01"],
        ["predict", "--node", 1772, "--next", 1, "--time", "2030-01-01"],
    ],
)
def test_a_time_long_after_the_log_is_remarked_on(words):
    with pytest.warns(TimeWarning, match="25 years after the last event"):
        run(*words)
    _, said = process(*words)
    assert re.fullmatch(r"warning: 2030-01-01 00:00 UTC is 25 years after the last event .*\n", said)


def test_links_long_after_the_log_are_remarked_on_once(tmp_path):
    rows = [f"1772,{node},{1_900_000_000 + node}" for node in (9, 32, 105)]
    (tmp_path / "links.csv").write_text("\n".join(["src,dst,time", *rows]))
    _, said = process("predict", "--links", tmp_path / "links.csv")
    assert said.count("warning:") == 1
    cases = [{"src": 1772, "dst": node, "time": 1_900_000_000 + node, "removed": []} for node in (9, 32, 105)]
    (tmp_path / "cases.json").write_text(json.dumps(cases))
    _, said = process("what-if", "--cases", tmp_path / "cases.json")
    assert said.count("warning:") == 1


def test_a_table_for_programs_has_times_with_their_offset(monkeypatch):
    words = ("explain", "--events", 53854, "--csv")
    assert ",2004-07-28 05:08:00+00:00," in run(*words)
    monkeypatch.setenv("CODY_TIMEZONE", "Europe/Berlin")
    assert ",2004-07-28 07:08:00+02:00," in run(*words)


def test_the_command_that_asks_why_names_the_very_moment_that_was_asked_about():
    shown = run("predict", "--node", 1772, "--next", 1, "--time", "2004-07-28 06:00:30")
    assert "--time '2004-07-28 06:00:30+00:00'" in shown


def test_a_page_is_in_the_zone_that_was_chosen_and_its_ticks_are_round_there(monkeypatch):
    monkeypatch.setenv("CODY_TIMEZONE", "Asia/Kolkata")  # half an hour off
    graph = cody.load("collegemsg")
    page = cody.explain(ToyModel(graph), graph, graph.query(53_854)).to_html()
    assert "2004-07-28 10:38 IST" in page
    assert "when (Asia/Kolkata)" in page
    now = float(graph.time[53_854])
    calendar = axes([now - 20 * 3600, now - 3600], now)[1]
    assert [tick.label for tick in calendar.ticks]
    assert all(tick.label.endswith(":00") for tick in calendar.ticks)
