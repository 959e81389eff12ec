"""The command line as a user meets it: output, exit codes, errors."""

import io
import json
import os
import pty
import re
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

import click
import numpy as np
import pytest
from click.testing import CliRunner
from rich.cells import cell_len

import cody
from cody import cli
from cody.cli import terminal as printed
from cody.cli.data import event_table
from cody.cli.types import Output
from cody.data import load, open_graph, save_graph
from cody.engine import fast_model
from cody.explaining.explanation import Explanation
from cody.graph import TemporalGraph
from cody.graph.edits import Add, Move
from cody.models.contract import model_on
from cody.train.checkpoint import Checkpoint, save_model
from cody.utils.files import cache_directory
from commands import run
from random_events import random_graph, random_network

CONFORMANCE = Path(__file__).parents[1] / "conformance"  # answers of the original code


@pytest.fixture
def made(tmp_path):
    """A saved graph and a model for it."""
    graph = random_graph(np.random.default_rng(0), nodes=30, events=300)
    save_graph(graph, tmp_path / "events")
    save_model(tmp_path / "model", Checkpoint(random_network(graph, "tgn"), graph.identity))
    return tmp_path


def test_importing_keeps_foreign_files(made):
    (made / "events.csv").write_text("src,dst,time\n1,2,3\n2,3,4\n")
    (made / "project").mkdir()
    (made / "project" / "graph.json").write_text("{}")
    (made / "project" / "thesis.tex").write_text("years of work")
    assert "graph.json was not written" in run("data", "import", made / "events.csv", "--out", made / "project", code=1)
    (made / "model").rename(made / "events" / "model")
    save_graph(load(made / "events.csv"), made / "events")
    run("data", "import", made / "events.csv", "--out", made / "events")
    assert load(made / "events").num_events == 2
    assert sorted(file.name for file in (made / "events" / "model").iterdir()) == ["model.json", "model.safetensors"]
    assert [(made / "project" / name).read_text() for name in ("graph.json", "thesis.tex")] == ["{}", "years of work"]


def test_what_if_prints_the_answer_with_and_without(made):
    table = run("what-if", "--data", made / "events", "--model", made / "model", "--event", 250, "--without", "249,3")
    assert "3, 249" in table
    assert len(table.splitlines()) == 3


def test_what_if_json_is_one_document_and_both_engines_agree(made):
    base = ("what-if", "--data", made / "events", "--model", made / "model", "--event", 250, "--without", "3", "--json")
    fast, replay = json.loads(run(*base)), json.loads(run(*base, "--engine", "replay"))
    assert [answer["removed"] for answer in fast] == [[], [3]]
    for one, other in zip(fast, replay, strict=True):
        assert one["logit"] == pytest.approx(other["logit"], abs=1e-4)


def test_what_if_answers_cases_in_their_order(made):
    cases = [{"event": 250, "removed": [9]}, {"event": 100, "removed": []}, {"event": 250, "removed": [3, 4]}]
    (made / "cases.json").write_text(json.dumps(cases))
    where = ("--data", made / "events", "--model", made / "model")
    answers = json.loads(run("what-if", *where, "--cases", made / "cases.json", "--json"))
    assert [{key: answer[key] for key in ("event", "removed")} for answer in answers] == cases
    assert len({answer["logit"] for answer in answers}) == 3


@pytest.mark.parametrize("name", ["tgn", "tgat"])
@pytest.mark.parametrize("engine", ["fast", "replay"])
def test_import_model_and_what_if_reproduce_the_original_code(name, engine, tmp_path):
    folder = CONFORMANCE
    facts = json.loads((folder / f"{name}.json").read_text())
    sizes = [word for key in ("layers", "heads", "neighbours", "batch") for word in (f"--{key}", facts[key])]
    data, model = folder / f"ml_{name}.csv", tmp_path / "model"
    run("import-model", folder / f"{name}.weights.safetensors", "--data", data, "--out", model, *sizes)
    asked = ("what-if", "--data", data, "--model", model, "--cases", folder / f"{name}.json", "--json")
    answers = json.loads(run(*asked, "--engine", engine))
    assert len(answers) == len(facts["cases"])
    for case, answer in zip(facts["cases"], answers, strict=True):
        assert abs(answer["logit"] - case["logit"]) <= 2e-5 * max(1, abs(case["logit"])), case


@pytest.mark.parametrize(
    ("words", "code", "message"),
    [
        (["--event", 300], 2, "event 300 is out of range: rows go from 0 to 299"),
        (["--event", -1], 2, "event -1 is out of range"),
        (["--event", 250, "--without", "3,x"], 2, "'x' is not an event row"),
        (["--event", 250, "--without", "3,300"], 2, "event 300 does not exist"),
        ([], 2, "give --event ROW"),
        (["--event", 3, "--cases", "cases.json"], 2, "--cases describes everything"),
        (["--cases", "cases.json", "--without", "3"], 2, "--cases describes everything"),
        (["--event", 3, "--each", "--without", "3"], 2, "--each removes one event at a time"),
        (["--event", 3, "--src", "3", "--dst", "4", "--time", "5"], 2, "give --event ROW"),
        (["--src", "3", "--time", "5"], 2, "give --event ROW"),
        (["--event", 250, "--add", "Ann Lee 4 9.5"], 2, "'4 9.5' is not a time"),
        (["--event", 250, "--add", "Ann Lee 4 9.5"], 2, "a name with spaces needs quotes of its own"),
        (["--event", 250, "--add", "3 4"], 2, "--add '3 4' is not understood; write --add \"SRC DST TIME\""),
        (["--event", 250, "--add", "3 4 soon"], 2, "'soon' is not a time"),
        (["--event", 250, "--add", "3 400 5"], 2, "node 400 is out of range"),
        (["--event", 250, "--move", "x 5"], 2, "'x' is not an event row"),
        (["--event", 250, "--move", "300 5"], 2, "event 300 is out of range"),
        (["--event", 250, "--add", "3 new 5", "--new-node", "other"], 2, "there is no node 'new'"),
        (["--event", 250, "--without", "9" * 5000], 2, "is not an event row"),
        (["--cases", "missing.json"], 2, "cannot read missing.json"),
    ],
)
def test_impossible_what_ifs_are_refused(made, words, code, message):
    where = ("--data", made / "events", "--model", made / "model")
    assert message in run("what-if", *where, *words, code=code)


@pytest.mark.parametrize(
    "text", ["{", "3", '[{"removed": []}]', '[{"event": "a"}]', '[{"event": 1, "removed": 2}]', '[{"event": 1}]']
)
def test_cases_that_are_not_cases_are_refused(made, text):
    (made / "cases.json").write_text(text)
    assert "cases.json" in run("what-if", "--cases", made / "cases.json", code=2)


def test_what_if_adds_and_moves_events_in_text_json_cases_and_python(made):
    where = ("--data", made / "events", "--model", made / "model")
    graph = cody.load(made / "events")
    time = float(graph.time[240]) + 0.5
    edits = ("--add", f"3 4 {time}", "--move", f"245 {time}")
    shown = run("what-if", *where, "--event", 250, "--without", 249, *edits)
    assert "change" in shown
    assert f"+ 3 → 4, {time:g}" in shown
    whole, changed = json.loads(run("what-if", *where, "--event", 250, "--without", 249, *edits, "--json"))
    assert whole["removed"] == []
    assert (changed["removed"], changed["moved"]) == ([249], [{"row": 245, "time": time}])
    asked = ("--event", 250, "--without", 249, *edits, "--json")
    replayed = json.loads(run("what-if", *where, *asked, "--engine", "replay"))
    assert replayed[1]["logit"] == pytest.approx(changed["logit"], abs=1e-4)
    case = {"event": 250, "removed": [249], "added": [["3", "4", time]], "moved": [[245, time]]}
    (made / "cases.json").write_text(json.dumps([case]))
    (answer,) = json.loads(run("what-if", *where, "--cases", made / "cases.json", "--json"))
    assert answer == changed
    longer = graph.imagine([Add(3, 4, time), Move(245, time)])
    model = model_on(cody.load_model(made / "model", graph), longer)
    assert model.logits(graph.query(250), [frozenset({249, 300, 301})])[0] == pytest.approx(changed["logit"], abs=1e-5)


def test_what_if_asks_about_links_that_need_not_have_happened(made):
    where = ("--data", made / "events", "--model", made / "model")
    graph = cody.load(made / "events")
    asked = ("--src", 3, "--dst", 4, "--time", float(graph.time[-1]) + 1)
    (answer,) = json.loads(run("what-if", *where, *asked, "--json"))
    assert (answer["event"], answer["src"], answer["dst"]) == (None, "3", "4")
    (made / "cases.json").write_text(json.dumps([{"src": 3, "dst": 4, "time": asked[-1], "removed": []}]))
    (same,) = json.loads(run("what-if", *where, "--cases", made / "cases.json", "--json"))
    assert same == answer
    assert "3 → 4" in run("what-if", *where, *asked)


def test_what_if_each_ranks_single_events(made):
    where = ("--data", made / "events", "--model", made / "model", "--event", 250, "--each")
    shown = run("what-if", *where)
    assert "past events would change the prediction" in shown
    answers = json.loads(run("what-if", *where, "--json"))
    assert answers[0]["removed"] == []
    assert all(len(answer["removed"]) == 1 for answer in answers[1:])
    assert {"logit", "score", "predicted"} <= answers[0].keys()


def test_leaving_out_a_later_event_is_remarked_upon(made):
    where = ("--data", made / "events", "--model", made / "model", "--event", 250, "--without", 260)
    result = CliRunner().invoke(cli.app, ["what-if", *map(str, where)])
    assert "event 260 does not lie before event 250" in result.stderr


def test_data_events_lists_rows_of_a_node(made):
    shown = run("data", "events", made / "events", "--node", 3, "--last", 5, "--before", 200)
    rows = [int(line.split()[0]) for line in shown.splitlines()[1:]]
    assert len(rows) == 5
    assert rows == sorted(rows)
    assert max(rows) < 200


def test_a_cut_list_says_so_and_how_to_see_more(made):
    where = ("--data", str(made / "events"), "--model", str(made / "model"), "--event", "250", "--each")
    events = CliRunner().invoke(cli.app, ["data", "events", str(made / "events"), "--last", "7"])
    assert events.stderr == "the last 7 of 300 events; --last 300 shows all\n"
    assert CliRunner().invoke(cli.app, ["data", "events", str(made / "events"), "--last", "300"]).stderr == ""
    assert "The 10 strongest of 64; --strongest 64 shows all." in run("what-if", *where)
    every = run("what-if", *where, "--strongest", 64)
    assert "strongest" not in every
    assert len(every.splitlines()) == 64 + 4


def test_importing_never_replaces_other_events(made):
    (made / "other.csv").write_text("src,dst,time\n1,2,3\n2,3,4\n")
    into = ("data", "import", made / "other.csv", "--out", made / "events")
    assert "already holds other events; choose another folder" in run(*into, code=2)
    assert load(made / "events").num_events == 300
    (made / "events" / "graph.json").write_text('{"schema": "cody/graph/2", ')  # damaged: importing is the remedy
    run(*into)
    assert load(made / "events").num_events == 2


def test_very_many_events_are_listed_at_once():
    graph = load("collegemsg")
    begun = time.process_time()
    lines = list(event_table(graph, np.arange(60_000) % graph.num_events).lines())
    assert len(lines) == 60_001
    assert time.process_time() - begun < 20  # a table of rich's took 48 s


def test_importing_names_what_it_leaves_out_and_reads_files_without_a_header(tmp_path):
    (tmp_path / "mails.csv").write_text("from,to,date,subject\na,b,2004-04-15,hello\n")
    words = ["data", "import", str(tmp_path / "mails.csv"), "--out", str(tmp_path / "mails")]
    assert "columns that were left out: subject" in CliRunner().invoke(cli.app, words).stderr
    (tmp_path / "edges.csv").write_text("1,2,30\n2,1,40\n")
    run("data", "import", tmp_path / "edges.csv", "--no-header", "--out", tmp_path / "edges")
    assert open_graph(tmp_path / "edges").time.tolist() == [30.0, 40.0]


def test_events_are_exported_with_altered_features(tmp_path):
    (tmp_path / "ratings.csv").write_text("src,dst,time,f0,f1\n0,1,1,0.5,2\n1,2,2,1.5,3\n0,2,3,2.5,4\n")
    run("data", "export", tmp_path / "ratings.csv", "--out", tmp_path / "edited.csv", "--alter", "1 f1=-7")
    assert cody.load(tmp_path / "edited.csv").features.tolist() == [[0.5, 2], [1.5, -7], [2.5, 4]]
    again = [tmp_path / "ratings.csv", "--out", tmp_path / "x.csv"]
    run("data", "export", *again, "--alter", "1 f0=9", "--alter", "2 f0=8 f1=0", "--without", "0")
    assert cody.load(tmp_path / "x.csv").features.tolist() == [[9, 3], [8, 0]]
    assert "f9" in run("data", "export", *again[:2], tmp_path / "y.csv", "--alter", "1 f9=7", code=2)


def test_events_are_exported_with_edits_applied(made):
    graph = open_graph(made / "events")
    edits = ("--without", "3,7", "--add", "0 1 11.5", "--move", "9 12.5")
    run("data", "export", made / "events", "--out", made / "edited.csv", *edits)
    rows = [line.split(",") for line in (made / "edited.csv").read_text().splitlines()[1:]]
    kept = [row for row in range(300) if row not in (3, 7, 9)]
    expected = [(int(graph.src[row]), int(graph.dst[row]), float(graph.time[row])) for row in kept]
    expected += [(0, 1, 11.5), (int(graph.src[9]), int(graph.dst[9]), 12.5)]
    assert sorted((int(src), int(dst), float(time)) for src, dst, time in rows) == sorted(expected)
    assert [float(row[2]) for row in rows] == sorted(float(row[2]) for row in rows)
    assert "event 300 does not exist" in run(
        "data", "export", made / "events", "--out", made / "x.csv", "--without", 300, code=2
    )


def test_an_edited_log_says_what_the_edited_question_says(made):
    where = ("--data", made / "events", "--model", made / "model")
    *_, asked = json.loads(run("what-if", *where, "--event", 250, "--without", "249,240", "--json"))
    run("data", "export", made / "events", "--out", made / "edited.csv", "--without", "249,240")
    graph = load(str(made / "edited.csv"))
    assert graph.num_events == 298
    network = TemporalGraph.from_arrays(graph.src, graph.dst, graph.time, num_nodes=32)
    edited = fast_model(random_network(network, "tgat"), network)
    original = open_graph(made / "events")
    removed = fast_model(random_network(original, "tgat"), original).logits(original.query(250), [{249, 240}])
    assert edited.logits(network.query(248), [frozenset()]) == pytest.approx(removed, abs=1e-9)
    assert asked["removed"] == [240, 249]


def test_the_cache_is_shown_and_cleared(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    for name, size in (("versions/a.versions", 3000), ("intact/b.json", 500), ("wikipedia.csv", 70)):
        (tmp_path / "cody" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "cody" / name).write_bytes(bytes(size))
    kept = {each["name"]: each["size"] for each in json.loads(run("cache", "--json"))["kept"]}
    assert kept == {"versions": 3000, "intact": 500, "": 70}
    assert "1 file  memories of TGNs" in run("cache")
    assert json.loads(run("cache", "--clear", "--json"))["freed"] == 3500
    assert [file.name for file in (tmp_path / "cody").rglob("*")] == ["wikipedia.csv"]
    assert "0.0 MB freed" in run("cache", "--clear")


@pytest.mark.parametrize(
    ("words", "former", "now"),
    [
        (("explain", "--event", 250), ("--first",), ("--stop-at-first",)),
        (("what-if", "--event", 250, "--each"), ("--most", 2), ("--strongest", 2)),
        (("predict", "--events", "250,251"), ("--other-data",), ("--allow-data-mismatch",)),
    ],
    ids=lambda words: words[0],
)
def test_the_former_name_of_an_option_works_and_says_the_new_one(made, words, former, now):
    where = ("--data", made / "events", "--model", made / "model", *(["--explainer", "cody"] * (words[0] == "explain")))
    ended = [CliRunner().invoke(cli.app, [str(word) for word in (*words, *where, *name)]) for name in (former, now)]
    assert [each.exit_code for each in ended] == [0, 0], ended[0].output
    shown, again = (re.sub(r"in [\d.]+ s", "", each.stdout) for each in ended)
    assert shown == again
    assert ended[0].stderr == f"warning: {former[0]} is deprecated; use {now[0]}\n"
    assert ended[1].stderr == ""
    assert former[0] not in re.findall(r"--[\w-]+", run(words[0], "--help"))


@pytest.mark.parametrize("words", [(), ("explain",), ("what-if",), ("predict",)])
def test_help_fits_80_columns_in_groups_and_with_examples(words, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    shown = run(*words, "--help")
    assert max(map(len, shown.splitlines())) <= 80
    examples = [line.strip() for line in shown.partition("Examples:\n")[2].splitlines() if line.startswith("  cody")]
    assert len(examples) >= 2
    if words:
        assert shown.count(":\n") > 3
        assert shown.count("--json") == 1


def test_numbers_are_never_cut_however_long_the_names(tmp_path, monkeypatch):
    rows = "".join(
        f"user{n % 7}@department.example.org,user{n % 5 + 7}@department.example.org,{n}\n" for n in range(100)
    )
    (tmp_path / "events.csv").write_text("src,dst,time\n" + rows)
    monkeypatch.setenv("COLUMNS", "80")
    shown = run("data", "show", tmp_path / "events.csv")
    assert all(word in shown for word in ("unique edges", "event features", "node features", "identity"))
    graph = load(str(tmp_path / "events.csv"))
    save_model(tmp_path / "model", Checkpoint(random_network(graph, "tgat"), graph.identity))
    shown = run("what-if", "--data", tmp_path / "events.csv", "--model", tmp_path / "model", "--event", 90)
    assert "logit" in shown
    assert max(len(line) for line in shown.splitlines()) <= 80
    assert any(line.lstrip().startswith("90 ") for line in shown.splitlines())


def test_markup_and_control_characters_in_names_are_printed_as_text(tmp_path):
    (tmp_path / "events.csv").write_text("src,dst,time\n[red]a[/],\x1b[31mb,1\n:smile:,c,2\n")
    shown = run("data", "events", tmp_path / "events.csv")
    assert "[red]a[/]" in shown
    assert ":smile:" in shown
    assert "\x1b" not in shown


@pytest.fixture
def tricky(made):
    """A graph whose names try to fool a terminal, and a model for it."""
    graph = random_graph(np.random.default_rng(0), nodes=30, events=300)
    names = [f"\x1b[31m{node}\x7f\x9b\u202e\u2066\u200bé" for node in range(graph.num_nodes)]
    graph = TemporalGraph.from_arrays(graph.src, graph.dst, graph.time, features=graph.features, names=names)
    save_graph(graph, made / "tricky")
    return made / "tricky"


@pytest.mark.parametrize("asked", [("--event", 250), ("--events", "250,251")])
def test_no_command_prints_what_a_terminal_would_obey_and_json_has_the_true_names(made, tricky, asked):
    names = set(load(str(tricky)).names.tolist())
    words = ("explain", "--data", tricky, "--model", made / "model", "--allow-data-mismatch", *asked)
    printed = run(*words, "--json")
    assert all(line.isprintable() for line in printed.splitlines())
    assert "é" in printed
    for line in printed.splitlines():
        assert {*json.loads(line)["candidates"]["src"]} <= names
    shown = run(*words) if "--event" in asked else ""
    assert all(line.isprintable() for line in shown.splitlines())


def test_json_keeps_the_true_names_where_the_terminal_lacks_their_letters(monkeypatch):
    raw = io.BytesIO()
    monkeypatch.setattr("sys.stdout", io.TextIOWrapper(raw, encoding="ascii", errors="replace"))
    printed.print_json({"name": "é\x7f"})
    assert raw.getvalue() == b'{"name": "\\u00e9\\u007f"}\n'


def test_times_that_are_not_unix_seconds_are_shown_as_numbers(tmp_path):
    (tmp_path / "events.csv").write_text("src,dst,time\n1,2,1577836800000\n2,3,1577836800001\n")
    assert "1577836800000" in run("data", "show", tmp_path / "events.csv", "--unit", "s")


def test_training_that_diverges_saves_nothing(made):
    words = ("--data", made / "events", "--model", "tgn", "--out", made / "bad", "--dimension", 8, "--batch", 20)
    save_graph(random_graph(np.random.default_rng(0), nodes=30, events=300, edge_features=1), made / "huge")
    features = open_graph(made / "huge").features
    graph = random_graph(np.random.default_rng(0), nodes=30, events=300)
    huge = type(graph).from_arrays(graph.src, graph.dst, graph.time, features=np.full_like(features, 3e38))
    save_graph(huge, made / "huge")
    message = run("train", *words[2:], "--data", made / "huge", code=1)
    assert "the loss is nan" in message
    assert not (made / "bad" / "model.json").exists()


def test_an_impossible_folder_is_refused_before_training(made):
    (made / "file").write_text("")
    words = ("--data", made / "events", "--model", "tgn", "--out", made / "file" / "model")
    assert "as the folder of a model" in run("train", *words, code=2)


@pytest.mark.parametrize(
    "command",
    [
        ("what-if", "--event", 5),
        ("explain", "--event", 5),
        ("predict",),
        ("survey",),
        ("evaluate", "--out", "run.jsonl"),
        ("train-explainer", "--out", "explainer"),
    ],
    ids=lambda words: words[0],
)
def test_a_forgotten_data_or_model_is_named_as_what_is_missing(made, command, monkeypatch):
    monkeypatch.chdir(made)
    message = run(*command, "--model", made / "model", code=2)
    assert message.startswith("--data is missing: the default is collegemsg, and the model '")
    message = run(*command, "--data", made / "events", code=2)
    assert message.startswith("--model is missing: the default is tgn-collegemsg, which was not trained on")
    message = run(*command, "--data", "collegemsg", "--model", made / "model", code=1)
    assert "belongs to other data" in message  # nothing was forgotten
    assert "--allow-data-mismatch" in message


def paths_of_commands():
    """Every option of a command that names a file or folder."""
    for command in commands_of(cli.app):
        for each in command.params:
            if isinstance(each, click.Option) and isinstance(each.type, click.Path):
                yield command, each


def commands_of(group):
    context = click.Context(group)
    for name in group.list_commands(context):
        command = group.get_command(context, name)
        yield from commands_of(command) if isinstance(command, click.Group) else [command]


READ = {("what-if", "cases"), ("predict", "links"), ("impact", "links")}


def test_every_option_that_names_an_output_says_what_is_written_there():
    found = {(command.name, each.name) for command, each in paths_of_commands() if not isinstance(each.type, Output)}
    assert found == READ


@pytest.mark.parametrize(
    ("words", "advice"),
    [
        (["explain", "--event", 53854, "--html", "right.png"], "a page: give a name that ends in .html"),
        (["survey", "--html", "right.PDF"], "a page: give a name that ends in .html"),
        (["survey", "--out", "records.html"], "lines of JSON: give a name that ends in .jsonl"),
        (["survey", "--html", "a.html", "--pages", "b.html"], "a folder: leave the ending out"),
        (["evaluate", "--out", "run.csv"], "lines of JSON: give a name that ends in .jsonl"),
        (["view", "why.json", "--out", "why.json"], "a page: give a name that ends in .html"),
        (["figures", "run.jsonl", "--out", "all.svg"], "a folder: leave the ending out"),
        (["data", "import", "events.csv", "--out", "events.parquet"], "a folder: leave the ending out"),
        (
            ["data", "export", "collegemsg", "--out", "events.json"],
            "a table: give a name that ends in .csv or .parquet",
        ),
        (["train", "--data", "collegemsg", "--model", "tgn", "--out", "tgn.pt"], "a folder: leave the ending out"),
    ],
    ids=lambda part: str(part)[:30],
)
def test_an_output_whose_name_says_something_else_is_refused(words, advice, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    message = run(*words, code=2)
    assert f"but it will be {advice}" in " ".join(message.split())
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("name", ["why", "why.html", "why.HTM", "why.2004"])
def test_other_names_of_outputs_are_the_users_business(name, tmp_path):
    run("explain", "--event", 53854, "--html", tmp_path / name)
    assert (tmp_path / name).read_text(encoding="utf-8").startswith("<!doctype html>")


def test_help_says_once_what_an_argument_is():
    for command in commands_of(cli.app):
        with click.Context(command, info_name=command.name, **command.context_settings) as context:
            lines = command.get_help(context).splitlines()
            for each in command.params:
                if isinstance(each, click.Argument):
                    described = [line for line in lines if line.startswith(f"  {each.human_readable_name} ")]
                    assert len(described) == 1, command.name


@pytest.mark.parametrize(
    "words",
    [
        ["explain", "--event", "99999999", "--data", "collegemsg", "--protect", "noods=" + " word" * 40],
        ["explain", "--event", "5", "--explainer", "x" * 50],
        ["explain", "--event", "5", "--html", "a-long-name-" * 4 + ".png"],
        ["data", "show", "no-such-data-set"],
    ],
    ids=lambda words: words[1],
)
def test_errors_on_a_narrow_terminal_break_between_words(words, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    on_terminal, elsewhere = (message_of(words, terminal=each) for each in (True, False))
    assert [word for word in elsewhere.split() if len(word) < 80] == [
        word for word in on_terminal.split() if len(word) < 80
    ]
    assert max(len(line) for line in on_terminal.splitlines() if " " in line.strip()) <= 80
    assert max(map(len, elsewhere.splitlines())) > 80 or "no-such" in words[-1]


def message_of(words, *, terminal):
    """What a command writes to standard error, where that is a terminal of 80 columns, or a pipe."""
    main, child = pty.openpty() if terminal else os.pipe()
    environment = os.environ | {"COLUMNS": "80", "NO_COLOR": "1"}
    with os.fdopen(main, "rb") as stream:
        command = [sys.executable, "-m", "cody", *words]
        with subprocess.Popen(command, stderr=child, stdout=subprocess.DEVNULL, env=environment):
            os.close(child)
            written = b""
            with suppress(OSError):  # a terminal ends with an error
                while piece := stream.read1(4096):
                    written += piece
    return written.decode().replace("\r\n", "\n")


def test_unknown_names_get_suggestions(made):
    assert "did you mean 'collegemsg'" in run("what-if", "--data", "colegemsg", "--event", 5, code=2)
    assert "did you mean 'tgn-collegemsg'" in run("what-if", "--model", "tgn-collegemg", "--event", 5, code=1)


@pytest.mark.parametrize("named", ["mytgn", "mytgn.py"])
def test_a_file_of_code_gets_the_function_in_it_suggested(made, named, monkeypatch):
    monkeypatch.chdir(made)
    Path("mytgn.py").write_text("def _own():\n    pass\n\ndef trained(graph):\n    pass\n")
    said = run("what-if", "--data", "events", "--model", named, "--event", 100, code=1)
    assert said.endswith("; did you mean 'mytgn:trained', a function in mytgn.py that makes one?")
    said = run("what-if", "--data", "events", "--model", "mytgn.py:trained", "--event", 100, code=2)
    assert said.endswith("; did you mean 'mytgn:trained'?")


def test_a_function_makes_its_model_with_one_thread(made, monkeypatch):
    monkeypatch.chdir(made)
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    code = "import os, cody\n\ndef trained(graph):\n    print(os.environ['OMP_NUM_THREADS'])\n    return "
    Path("threads_of.py").write_text(f"{code}cody.load_model('model', graph)\n")
    shown = run("explain", "--data", "events", "--model", "threads_of:trained", "--event", 200)
    assert shown.startswith("1\n")


def test_train_saves_a_model_that_can_be_asked(made):
    trained = made / "trained"
    words = ("--data", made / "events", "--model", "tgat", "--out", trained, "--epochs", 1, "--dimension", 8)
    document = json.loads(run("train", *words, "--batch", 20, "--json"))
    assert 0 < document["origin"]["test"]["average_precision"] < 1
    assert document["sizes"]["batch"] == 20
    run("what-if", "--data", made / "events", "--model", trained, "--event", 100)
    assert "already holds a trained model" in run("train", *words, code=2)


def test_data_import_and_show(tmp_path):
    (tmp_path / "events.csv").write_text("sender,receiver,when\nann,bob,1\nbob,cid,2\nann,bob,3\n")
    columns = ("--src", "sender", "--dst", "receiver", "--time", "when")
    run("data", "import", tmp_path / "events.csv", "--out", tmp_path / "graph", *columns)
    facts = json.loads(run("data", "show", tmp_path / "graph", "--json"))
    assert (facts["nodes"], facts["events"], facts["unique_edges"]) == (3, 3, 2)
    assert "ann" in run("data", "show", tmp_path / "graph")


def test_data_list_names_all_data_sets_and_the_directory(monkeypatch, tmp_path):
    monkeypatch.setenv("CODY_DATA", str(tmp_path))
    listing = run("data", "list")
    assert all(name in listing for name in ("collegemsg", "uci-messages", "uci-forums", "wikipedia", "CODY_DATA"))


def test_the_demo_finds_an_event_that_decides():
    shown = run("demo")
    assert "no link" in shown
    assert "Verified" in shown
    assert "cody explain --event" in shown
    assert "tgn-collegemsg" in (cache_directory() / "demo.html").read_text()
    assert max(len(line) for line in shown.splitlines()) <= 80


@pytest.mark.parametrize(("path", "typed"), [(".venv/bin", "cody"), ("/nowhere", ".venv/bin/cody")])
def test_the_demo_names_a_command_that_the_shell_finds(path, typed, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    program = tmp_path / ".venv" / "bin" / "cody"
    program.parent.mkdir(parents=True)
    program.touch(mode=0o755)
    monkeypatch.setattr("sys.argv", [".venv/bin/cody", "demo"])
    monkeypatch.setenv("PATH", path)
    assert f"Try it yourself:          {typed} explain --event" in run("demo")


def test_main_turns_an_error_into_one_line_and_an_exit_code(monkeypatch, capsys):
    monkeypatch.setattr("sys.argv", ["cody", "what-if", "--event", "99999999"])
    with pytest.raises(SystemExit) as stopped:
        cli.main()
    assert stopped.value.code == 2
    streams = capsys.readouterr()
    assert streams.out == ""
    assert streams.err.strip().startswith("error: event 99999999 is out of range")


def test_explain_tells_a_person_in_eighty_columns_and_confirms(monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    shown = run("explain", "--event", 53854)
    assert "Without 1 of 64 past messages the score falls from 0.92 to 0.06: no link." in shown
    assert "53852  1395 → 1772  2004-07-28 04:54  14 min" in shown
    assert "Verified by replay from the memory at event 53800. No smaller set exists." in shown
    assert max(len(line) for line in shown.splitlines()) <= 80


def test_explain_json_is_an_explanation(made):
    where = ("--data", made / "events", "--model", made / "model")
    text = run("explain", *where, "--event", 250, "--explainer", "greedy", "--policy", "event-impact", "--json")
    why = Explanation.from_json(text)
    assert why.event == 250
    assert why.parameters["search"]["name"] == "greedy"
    assert why.parameters["data"] == str(made / "events")


def test_explain_streams_one_line_for_each_event(made):
    where = ("--data", made / "events", "--model", made / "model", "--candidates", 5)
    (made / "rows.txt").write_text("250\n0, 100\n")
    lines = run("explain", *where, "--events", made / "rows.txt").splitlines()
    assert [Explanation.from_json(line).event for line in lines] == [250, 0, 100]
    assert [json.loads(line)["event"] for line in run("explain", *where, "--events", "100,250").splitlines()] == [
        100,
        250,
    ]


def test_explain_takes_a_link_that_never_happened_by_the_names_of_its_nodes():
    words = ("explain", "--src", "1772", "--dst", "1395", "--time", "2004-07-28 05:08", "--json")
    document = json.loads(run(*words))
    assert (document["src"], document["dst"]) == ("1772", "1395")
    assert document["query"]["time"] == 1_090_991_280.0


def test_explain_options_reach_the_search(made):
    where = ("explain", "--data", made / "events", "--model", made / "model", "--event", 250, "--json")
    options = ("--explainer", "greedy-then-cody", "--iterations", 40, "--alpha", 0.5, "--stop-at-first")
    options += ("--candidates", 12, "--hops", 1, "--near", "nodes", "--count", 2, "--prove", 2)
    document = json.loads(run(*where, *options, "--protect", "events=249,248", "--protect", "nodes=3", "--seed", 5))
    assert document["parameters"]["search"]["iterations"] == 40
    assert document["parameters"]["search"]["alpha"] == 0.5
    assert document["parameters"]["search"]["stop_at_first"] is True
    assert document["parameters"]["candidates"] == {"size": 12, "hops": 1, "near": "events_among_nodes"}
    assert document["parameters"]["protect"] == {
        "events": [249, 248],
        "nodes": ["3"],
        "times": [],
        "simultaneous": False,
    }
    assert not {248, 249} & {*document["candidates"]["row"]}
    assert document["seed"] == 5
    assert (document["parameters"]["count"], document["parameters"]["prove"]) == (2, 2)
    assert document["proven"] >= 2
    budget = json.loads(run(*where, "--evaluations", 10, "--seconds", 60))
    assert budget["evaluations"] <= 10


def test_a_full_confirmation_begins_with_the_first_event(made):
    where = ("explain", "--data", made / "events", "--model", made / "model", "--json")
    row = next(row for row in range(299, 100, -1) if json.loads(run(*where, "--event", row))["verification"])
    assert not json.loads(run(*where, "--event", row))["verification"]["by"].endswith("event 0")
    assert json.loads(run(*where, "--event", row, "--verify", "full"))["verification"]["by"].endswith("event 0")


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["--event", "99999"], "event 99999 is out of range"),
        (["--event", "-1"], "event -1 is out of range"),
        ([], "give --event ROW"),
        (["--event", "5", "--events", "6"], "give --event ROW"),
        (["--src", "1", "--dst", "2"], "give --event ROW"),
        (["--event", "5", "--time", "3"], "give --event ROW"),
        (["--src", "1", "--dst", "2", "--time", "soon"], "'soon' is not a time"),
        (["--src", "1", "--dst", "2", "--time", "-5"], "before the first event"),
        (["--src", "1", "--dst", "2000", "--time", "900"], "node 2000 is out of range"),
        (["--event", "5", "--explainer", "cody", "--alpha", "1.5"], "between 0 and 1, not 1.5"),
        (["--event", "5", "--explainer", "cody", "--alpha", "nan"], "between 0 and 1"),
        (["--event", "5", "--explainer", "greedy", "--alpha", "0.5"], "the explainer 'greedy' has no option --alpha"),
        (["--event", "5", "--explainer", "greedy", "--stop-at-first"], "has no option --stop-at-first"),
        (["--event", "5", "--explainer", "cody", "--children", "3"], "the explainer 'cody' has no option --children"),
        (["--event", "5", "--explainer", "pbone", "--policy", "random"], "has no option --policy"),
        (["--event", "5", "--explainer", "pbone", "--sparsity", "1.5"], "between 0 and 1, not 1.5"),
        (
            ["--event", "5", "--explainer", "pbone", "--rollouts", "9"],
            "the explainer 'pbone' has no option --rollouts",
        ),
        (["--event", "5", "--protect", "42"], "'42' is not understood"),
        (["--event", "5", "--protect", "events=x"], "'x' is not an event row"),
        (["--event", "5", "--protect", "nodes=999"], "999"),
        (["--event", "5", "--protect", "times=5"], "not a time range"),
        (["--event", "5", "--protect", "times=5.."], "not a time range"),
        (["--event", "5", "--protect", "times=9..5"], "ends before it begins"),
        (["--event", "5", "--protect", "times=0..inf"], "'inf' is not a time"),
        (["--event", "5", "--protect", "events="], "'events=' is not understood"),
        (["--event", "5", "--protect", "nodes=,"], "'nodes=,' is not understood"),
        (["--event", "5", "--scorer", "nowhere"], "the explainer 'scout' has no option --scorer"),
        (["--event", "5", "--iterations", "9"], "its budget is --evaluations"),
        (["--event", "250", "--explainer", "pbone", "--evaluations", "2"], "too small"),
        (["--event", "5", "--seconds", "0"], "above 0, not 0.0"),
        (["--events", ""], "names no event"),
        (["--events", "3,x"], "neither a list of event rows nor a file"),
    ],
)
def test_explain_refuses_arguments_that_make_no_sense(made, words, says):
    assert says in run("explain", "--data", made / "events", "--model", made / "model", *words, code=2)


def test_a_page_is_no_document_to_verify(made):
    (made / "why.html").write_text('<!doctype html>\n<html lang="en">\n')
    said = run("verify", made / "why.html", "--data", made / "events", "--model", made / "model", code=2)
    assert said.endswith("why.html is a page; give the JSON document that cody explain --json or --out wrote")


def test_options_that_are_not_alike_are_not_suggested():
    assert "did you mean" not in run("data", "import", "--src-column", "x", code=2)
    assert "did you mean" not in run("explain", "--src-column", "x", code=2)
    assert "did you mean '--event'?" in run("explain", "--evnt", "3", code=2)


def test_explain_suggests_the_node_that_was_meant():
    message = run("explain", "--src", "17721", "--dst", "1395", "--time", "2004-07-28", code=2)
    assert "there is no node '17721'; did you mean '1772'?" in message


@pytest.mark.parametrize("option", ["--candidates", "--hops", "--iterations", "--children", "--evaluations"])
def test_explain_refuses_sizes_below_one(made, option):
    message = run("explain", "--event", "5", option, "0", code=2)
    assert option in message
    assert "greater than or equal to 1" in message


def test_a_command_that_does_not_exist_gets_a_suggestion():
    words = [sys.executable, "-m", "cody", "explian"]  # in a process where no command has been imported yet
    ended = subprocess.run(words, capture_output=True, text=True, check=False)
    assert ended.returncode == 2
    assert "No such command 'explian'; did you mean 'explain'?" in ended.stderr


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["train", "--data", "collegemsg", "--out", "x"], "Missing option '--model'. Choose from:"),
        (["train", "--model", "tgn", "--out", "x"], "Missing option '--data'."),
        (["data", "show"], "Missing argument 'NAME'."),
        (["tables"], "Missing argument 'FILES...'."),
        (["explain", "--event", "five"], "Invalid value for '--event': 'five' is not a valid integer."),
        (["explain", "--event", "5", "--near", "here"], "'here' is not one of 'ends', 'events', 'nodes'."),
        (["explain", "--evnt", "5"], "No such option '--evnt'; did you mean '--event'?"),
        (["explain", "-x"], "No such option '-x'"),
        (["train", "--data", "x", "--model", "tgn", "--out", "y", "--learning-rate", "nan"], "nan is not greater than"),
        (["train", "--data", "x", "--model", "tgn", "--out", "y", "--threads", "1025"], "less than or equal to 1024"),
    ],
)
def test_a_call_that_is_not_understood_says_what_was_meant(words, says):
    assert says in run(*words, code=2)


def test_a_model_of_other_data_is_refused_with_both_identities(made):
    other = random_graph(np.random.default_rng(1), nodes=30, events=300)
    save_graph(other, made / "other")
    message = run("explain", "--data", made / "other", "--model", made / "model", "--event", 5, code=1)
    assert other.identity in message
    assert "it was made for" in message


@pytest.mark.parametrize(
    ("explainer", "events", "candidates", "asked"),
    [("pgexplainer", 13, 64, 0), ("tgnnexplainer", None, 30, None), ("pbone", 13, 64, 65), ("random", 13, 64, 0)],
)
def test_factual_explainers_are_called_like_the_others(explainer, events, candidates, asked):
    options = ["--rollouts", 20] if explainer == "tgnnexplainer" else []
    why = Explanation.from_json(run("explain", "--event", 53854, "--explainer", explainer, *options, "--json"))
    assert len(why.candidates) == candidates
    if events is not None:
        assert (len(why.rows), why.removed, why.evaluations) == (events, (), asked)  # a fifth of the candidates
    assert why.verdict in ("counterfactual", "factual")


def test_the_sparsity_asked_is_the_sparsity_given():
    words = ("explain", "--event", 53854, "--explainer", "pbone", "--json", "--sparsity")
    assert [len(json.loads(run(*words, share))["rows"]) for share in (0, 0.001, 0.5, 1)] == [0, 1, 32, 64]


def test_an_explainer_that_was_not_trained_says_how_to_train_it(made):
    where = ("--data", made / "events", "--model", made / "model")
    message = run("explain", *where, "--event", 250, "--explainer", "pgexplainer", code=1)
    assert "cody train-explainer --data D --model M --out FOLDER trains one, and --scorer FOLDER uses it" in message


def test_a_name_with_a_comma_can_be_protected(tmp_path):
    text = "src,dst,time\n" + "".join(f'"Müller, Anna",b,{t}\nb,c,{t}.5\n' for t in range(40))
    (tmp_path / "named.csv").write_text(text, encoding="utf-8")
    graph = load(tmp_path / "named.csv")
    save_model(tmp_path / "model", Checkpoint(random_network(graph, "tgat"), graph.identity))
    words = ("explain", "--data", tmp_path / "named.csv", "--model", tmp_path / "model", "--event", 70, "--json")
    document = json.loads(run(*words, "--protect", "nodes=Müller, Anna"))
    assert document["parameters"]["protect"]["nodes"] == ["Müller, Anna"]
    assert {*document["candidates"]["src"]} == {"b"}


def test_a_day_as_the_end_of_a_time_range_is_the_whole_day():
    words = ("explain", "--event", 53854, "--evaluations", 100, "--json")
    free = {*json.loads(run(*words))["candidates"]["time"]}
    left = json.loads(run(*words, "--protect", "times=2004-07-26..2004-07-27"))["candidates"]["time"]
    begin, last_day, end = 1_090_800_000, 1_090_886_400, 1_090_972_800  # midnight of the 26th, 27th and 28th
    assert any(last_day <= time < end for time in free)
    assert any(end <= time for time in left)
    assert not any(begin <= time < end for time in left)


def test_a_time_range_may_be_numbers(made):
    words = ("explain", "--data", made / "events", "--model", made / "model", "--event", 250, "--json")
    times = sorted(json.loads(run(*words))["candidates"]["time"])
    left = json.loads(run(*words, "--protect", f"times={times[3]}..{times[5]}"))["candidates"]["time"]
    assert not {*left} & {*times[3:6]}
    assert {*left} & {*times[:3]}


def test_a_text_names_a_file_only_if_it_is_not_a_list_of_rows(made, monkeypatch):
    monkeypatch.chdir(made)
    (made / "7").write_text("100")
    where = ("explain", "--data", made / "events", "--model", made / "model", "--candidates", 3)
    assert json.loads(run(*where, "--events", "7"))["event"] == 7
    (made / "rows").write_text("\ufeff8\n")
    assert json.loads(run(*where, "--events", "rows"))["event"] == 8


@pytest.mark.parametrize("explainer", ["cody", "greedy", "greedy-then-cody", "pgexplainer", "tgnnexplainer", "random"])
def test_a_budget_of_time_is_never_an_error(explainer):
    shown = run("explain", "--event", 53854, "--explainer", explainer, "--seconds", 0.0001)
    assert "the model expects 1772 → 1395 (score 0.92)" in " ".join(shown.split())
    lines = run("explain", "--events", "53854,53869", "--explainer", explainer, "--seconds", 0.0001).splitlines()
    assert [json.loads(line)["event"] for line in lines] == [53854, 53869]


@pytest.mark.parametrize(
    "words",
    [
        ["train", "--data", "collegemsg", "--model", "tgn", "--out", "x", "--preset", "LONG"],
        ["train", "--data", "collegemsg", "--model", "LONG", "--out", "x"],
        ["evaluate", "--near", "LONG"],
        ["explain", "--event", "LONG"],
        ["explain", "--LONG", "3"],
        ["explain", "LONG"],
        ["LONG"],
        ["data", "LONG"],
        ["--LONG"],
    ],
)
@pytest.mark.parametrize("letter", ["x", "\x1b"])
def test_of_a_very_long_word_that_is_not_understood_some_is_repeated(words, letter):
    message = run(*(word.replace("LONG", letter * 10_000) for word in words), code=2)
    assert len(message) < 1_000
    assert all(line.isprintable() for line in message.splitlines())


def test_a_failure_says_what_to_try_next_and_what_it_would_cost(made):
    where = ("explain", "--data", made / "events", "--model", made / "model", "--candidates", 30, "--near", "events")
    shown = next(
        shown
        for row in range(299, 100, -1)
        if "try next" in (shown := run(*where, "--event", row, "--evaluations", 131))
    )
    assert re.search(r"--evaluations 1310 +to look further \(within \d", shown)
    assert re.search(r"--prove 3 +to try the other \d+ pairs, too \(within \d", shown)
    assert re.search(r"--candidates 120 +to consider older events", shown)
    assert "--hops" not in shown
    paper = next(
        paper
        for row in range(row_of(shown), 100, -1)
        if "try next" in (paper := run(*where, "--event", row, "--explainer", "greedy", "--count", 1))
    )
    assert re.search(r"--explainer scout +to search further", paper)


def test_a_search_without_time_to_look_is_told_to_take_more(made):
    where = ("explain", "--data", made / "events", "--model", made / "model", "--event", 250)
    shown = run(*where, "--seconds", 1e-9)
    assert re.search(r"try next\s+--seconds \d+ +to look further$", shown.rstrip())


def row_of(shown):
    return int(re.match(r"Event (\d+)", shown)[1])


def test_two_other_ways_out_are_shown_by_default_and_all_are_in_the_json():
    shown = run("explain", "--event", 53922)
    assert "alternative" in shown
    assert not re.search(r"[ \t]$", shown, re.MULTILINE)  # nor where an alternative has no prediction
    document = json.loads(run("explain", "--event", 53922, "--json"))
    assert len(document["alternatives"]) == 2
    assert all(other["verification"]["without"] > 0 for other in document["alternatives"])


def test_times_of_edits_can_be_now_or_how_much_earlier(made):
    where = ("what-if", "--data", made / "events", "--model", made / "model", "--event", 250, "--json")
    graph = load(made / "events")
    _, moved = json.loads(run(*where, "--move", "249 2.5 earlier"))
    assert moved["moved"] == [{"row": 249, "time": pytest.approx(float(graph.time[249]) - 2.5)}]
    _, added = json.loads(run(*where, "--add", "1 2 now"))
    assert added["added"][0]["time"] == float(graph.time[graph.num_events - 1])
    assert "have no days" in run(*where, "--move", "249 1 day earlier", code=2)
    assert "is not a time" in run(*where, "--move", "249 a day earlier", code=2)


def test_what_if_says_what_a_change_after_the_link_means(made):
    where = ("what-if", "--data", made / "events", "--model", made / "model", "--event", 250)
    said = messages(*where, "--move", "249 end")
    assert "moving event 249 there removes it" in said
    without, moved = (
        json.loads(run(*where, *words, "--json"))[1] for words in (("--without", 249), ("--move", "249 end"))
    )
    assert moved["logit"] == without["logit"]
    assert "moving it changes nothing" in messages(*where, "--move", "260 end")
    assert "adding it changes nothing" in messages(*where, "--add", "1 2 end")
    assert "lie before" not in messages(*where, "--move", "249 2.5 earlier")


def messages(*words):
    """What a command says on standard error."""
    result = CliRunner().invoke(cli.app, [str(word) for word in words])
    assert result.exit_code == 0, result.output
    return result.stderr


def test_a_proof_that_nobody_would_wait_for_is_refused_with_its_cost(made):
    where = ("explain", "--data", made / "events", "--model", made / "model", "--event", 250)
    refused = run(*where, "--prove", 9, code=2)
    assert re.search(r"--prove 9 would evaluate [\d,]{9,} sets of events, about \d+ \w+; try --prove \d \(", refused)
    run(*where, "--prove", 9, "--evaluations", 50)  # a budget ends it
    run(*where, "--prove", 9, "--candidates", 8)


def test_events_with_wide_letters_are_aligned(tmp_path):
    (tmp_path / "events.csv").write_text("src,dst,time\n中文,b,1\na,é,2\nlonger,中,3\n", encoding="utf-8")
    lines = run("data", "events", tmp_path / "events.csv").splitlines()
    places = {cell_len(line[: re.search(r"(when|\d)$", line).start()]) for line in lines}
    assert len(places) == 1


def test_likely_partners_say_whether_they_met_afterwards(made):
    where = ("predict", "--data", made / "events", "--model", made / "model", "--node", 3, "--next", 2)
    assert "after that" not in run(*where)  # nothing comes after the end
    shown = run(*where, "--time", float(load(made / "events").time[150]))
    assert "next contact" in shown
    assert re.search(r"(later|never) *$", shown, re.MULTILINE)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["explain", "--event", 53854, "--figure", "x.svg", "--figure-width", "nan"], "nan is not greater than"),
        (["explain", "--event", 53854, "--figure", "x.svg", "--figure-width", "0.01"], "0.01 is not greater than"),
        (["explain", "--event", 53854, "--figure-width", "5"], "--figure-width 5 is the width of a figure"),
        (
            ["impact", "--event", 53852, "--links", "links.csv", "--links-of", "9"],
            "--links names the links itself: leave out --links-of",
        ),
    ],
    ids=lambda part: str(part)[-30:],
)
def test_options_that_make_no_sense_are_refused_before_any_work(words, message, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert message in " ".join(run(*words, code=2).split())
    assert list(tmp_path.iterdir()) == []
