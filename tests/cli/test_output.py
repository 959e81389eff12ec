"""Where output goes: what a command prints on standard output arrives there, whatever is drawn on a terminal."""

import contextlib
import json
import os
import pty
import re
import subprocess
import sys
import threading
import time
from pathlib import Path

import click
import numpy as np
import pytest
from click.testing import CliRunner

from cody import cli
from cody.cli import terminal
from cody.cli.command import Command
from cody.cli.options import DataSource
from cody.cli.terminal import say
from cody.cli.train import epoch
from cody.data import save_graph
from cody.train.checkpoint import Checkpoint, save_model
from cody.train.training import Quality, TrainingProgress
from random_events import random_graph, random_network
from some_records import small_evaluation

SOURCE = Path(cli.__file__).parents[1]
CONFORMANCE = Path(__file__).parents[1] / "conformance"
WHERE = "--data events --model model"

# How each command is called, and what it prints last.
CALLS = {
    "demo": ("", "demo.html"),
    "predict": (f"{WHERE} --events 250,251", "predicted|251"),
    "what-if": (f"{WHERE} --event 250 --without 249", "249"),
    "explain": (f"{WHERE} --events 250,251", "251"),
    "verify": (f"why.json {WHERE} --sets 3", "not checked"),
    "impact": (f"{WHERE} --event 200", "flips|stays|moved|schema"),
    "causes": (f"why.json {WHERE}", "counterfactual of their own|number,name|schema"),
    "view": ("why.json --out why.html", None),
    "serve": ("--help", "--help"),  # it says where it is on standard error, and does not end
    "mcp": ("--help", "--help"),  # it speaks with the program that starts it
    "survey": (f"{WHERE} --instances 2", "interval|incorrect"),
    "audit": (f"{WHERE} --links 3", "EdgeBank|average_precision"),
    "train": ("--data events --model tgat --epochs 1 --dimension 8 --out {new}", "unseen|architecture"),
    "train-explainer": (f"{WHERE} --links 3 --epochs 1 --out {{new}}", "data"),
    "import-model": (
        "{conformance}/tgn.weights.safetensors --data {conformance}/ml_tgn.csv --out {new} "
        "--layers {layers} --heads {heads} --neighbours {neighbours} --batch {batch}",
        "Imported",
    ),
    "evaluate": (f"{WHERE} --instances 2 --iterations 9 --out run.jsonl", "incorrect"),
    "benchmark run": ("--out bench --mechanisms reply --explainers scout --links 2", "scout"),
    "benchmark table": ("bench", "scout"),
    "benchmark check": ("scout", "passed"),
    "benchmark submit-file": ("--help", "--help"),  # it needs links of every mechanism
    "tables": ("records.jsonl", "cody"),
    "figures": ("records.jsonl --out figures", r"\.svg"),
    "cache": ("", "cody cache --clear|folder"),
    "data list": ("", "Data directory"),
    "data show": ("events", "identity"),
    "data events": ("events --last 3", "299"),
    "data fetch": ("collegemsg", "is at"),
    "data import": ("events.csv --out {new}", "identity"),
    "data export": ("events --out exported.csv", "written"),
}


def commands(group=cli.app, path=""):
    """Every command, by its full name."""
    for name in group.list_commands(click.Context(group)):
        command = group.get_command(click.Context(group), name)
        if isinstance(command, click.Group):
            yield from commands(command, f"{path}{name} ")
        else:
            yield f"{path}{name}", command


def calls():
    """Each command as it is, and with each option that prints something else."""
    for name, command in commands():
        words, last = CALLS[name]
        forms = [f"--{form}" for form in ("json", "csv") if f"--{form}" in {o for p in command.params for o in p.opts}]
        for form in ["", *forms]:
            yield pytest.param(f"{name} {words} {form}".split(), last, id=f"{name} {form}".strip())


def test_every_command_is_tried():
    assert set(CALLS) == {name for name, _ in commands()}, "say above how the new command is called"


@pytest.fixture(scope="module")
def here(tmp_path_factory):
    """A folder with a graph, a model for it, an explanation and records."""
    folder = tmp_path_factory.mktemp("output")
    graph = random_graph(np.random.default_rng(0), nodes=30, events=300)
    save_graph(graph, folder / "events")
    save_model(folder / "model", Checkpoint(random_network(graph, "tgn"), graph.identity))
    (folder / "events.csv").write_text("src,dst,time\n1,2,3\n2,3,4\n")
    (folder / "records.jsonl").write_text("".join(f"{each.to_json()}\n" for each in small_evaluation()))
    where = ["--data", str(folder / "events"), "--model", str(folder / "model")]
    (folder / "why.json").write_text(
        CliRunner().invoke(cli.app, ["explain", *where, "--event", "250", "--json"]).stdout
    )
    return folder


def on_a_terminal(words, folder):
    """Standard output of a Python process, in a file, and what is drawn on the terminal that is its standard error."""
    ours, theirs = pty.openpty()
    drawn = bytearray()

    def read():
        with contextlib.suppress(OSError):  # the other end is closed
            while block := os.read(ours, 1 << 16):
                drawn.extend(block)

    reader = threading.Thread(target=read)
    reader.start()
    environment = os.environ | {"TERM": "xterm", "COLUMNS": "80", "XDG_CACHE_HOME": str(folder / "cache")}
    with (folder / "stdout").open("w+b") as printed:
        ended = subprocess.run(
            [sys.executable, *words],
            cwd=folder,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=printed,
            stderr=theirs,
            timeout=120,
            check=False,
        )
        os.close(theirs)
        reader.join()
        os.close(ours)
        printed.seek(0)
        shown = drawn.decode()
        assert ended.returncode == 0, shown
        return printed.read().decode(), shown


@pytest.mark.parametrize(("words", "last"), list(calls()))
def test_what_is_printed_arrives_though_progress_is_drawn(words, last, here, tmp_path):
    facts = json.loads((CONFORMANCE / "tgn.json").read_text()) | {"conformance": CONFORMANCE, "new": tmp_path / "new"}
    printed, shown = on_a_terminal(["-m", "cody", *(word.format(**facts) for word in words)], here)
    if last is None:
        assert printed == ""
        return
    assert re.search(last, printed), shown
    assert [line for line in printed.splitlines() if len(line) > 20 and line in shown] == []
    if words[-1] == "--json":
        assert [json.loads(line) for line in printed.splitlines()]
    if words[0] == "explain":
        assert len(printed.splitlines()) == 3 if words[-1] == "--csv" else 2
        assert "\x1b[" in shown, "nothing was drawn"


def test_nothing_else_draws_with_what_redirects_standard_output():
    drawing = re.compile(r"rich\.(live|progress|status)\b|\.status\(")
    assert [file.name for file in SOURCE.rglob("*.py") if drawing.search(file.read_text())] == ["terminal.py"]


SAYING = """
import time
from cody.cli.terminal import say
from cody.cli.terminal import progress
with progress("links", 10) as move:
    time.sleep(0.3)
    say("half of it is done")
"""


def test_what_is_said_during_a_bar_stands_on_a_line_of_its_own(here):
    _, shown = on_a_terminal(["-c", SAYING], here)
    assert "0/10" in shown.partition("half")[0], "the bar was not drawn yet"
    assert re.search(r"[\n\r](\x1b\[[\d;?]*[A-Za-z])*half of it is done", shown)


@pytest.fixture
def often(monkeypatch):
    monkeypatch.setattr(terminal, "EVERY", 0.05)


def test_without_a_terminal_a_line_every_minute_says_how_far_it_is(often, capsys):
    with terminal.command("cody wait"):
        time.sleep(0.2)
        with terminal.progress("links", 40, completed=10) as move:
            move(completed=20)
            time.sleep(0.2)
        with terminal.status("Drawing links ..."):
            time.sleep(0.2)
        with terminal.waiting():
            time.sleep(0.2)
            capsys_before = capsys.readouterr().err
            time.sleep(0.2)
    lines = capsys_before.splitlines()
    assert re.fullmatch(r"cody wait \(\d+ s so far\)", lines[0])
    assert any(re.fullmatch(r"links: 20 of 40, 50 %, \d+ s left", line) for line in lines)
    assert any(re.fullmatch(r"Drawing links \(\d+ s so far\)", line) for line in lines)
    assert capsys.readouterr().err == "", "a server that waits says nothing"


def test_every_command_says_now_and_then_what_it_is_at(often, here, monkeypatch):
    assert all(isinstance(command, Command) for _, command in commands())
    load = DataSource.load
    monkeypatch.setattr(DataSource, "load", lambda source: (time.sleep(0.3), load(source))[1])
    shown = CliRunner().invoke(cli.app, ["data", "show", str(here / "events")], prog_name="cody")
    assert any(re.fullmatch(r"cody data show \(\d+ s so far\)", line) for line in shown.stderr.splitlines())


def test_the_rest_is_estimated_from_what_this_run_did(monkeypatch):
    now = [100.0]
    monkeypatch.setattr(terminal, "monotonic", lambda: now[0])
    work = terminal.Work("records", 100, completed=60, begun=100.0)
    assert work.left == ""
    now[0] += 30
    work.update(completed=70)
    assert work.left == "90 s left"
    work.update(completed=100)
    assert work.left == ""


def test_preparation_does_not_count_as_work_and_a_training_may_end_early(monkeypatch):
    now = [0.0]
    monkeypatch.setattr(terminal, "monotonic", lambda: now[0])
    training = terminal.Work("Preparing ...", at_most=True, begun=0.0)
    now[0] = 500.0
    assert training.line == "Preparing (8 min so far)"
    training.update(200, 1000, "epoch 3, batches")  # it goes on after two epochs of 100 batches
    now[0] = 520.0
    training.update(300, 1000, "epoch 3, batches")
    assert training.line == "epoch 3, batches: 300 of 1,000, 30 %, at most 2 min left"


def test_messages_have_colours_on_a_terminal_only(capsys):
    say(click.style("error: ", fg="red") + "it rains")
    assert capsys.readouterr().err == "error: it rains\n"


def test_the_line_of_an_epoch_fits_a_terminal():
    perfect = Quality(1.0, 1.0, 1.0, 1.0)
    line = epoch(TrainingProgress(999, 1, 1, loss=10.0, validation=perfect, best=True))
    assert len(line) < 80
    assert line == "epoch 999  loss 10.0000  validation AP 100.00 %, unseen nodes 100.00 %  best"


def test_no_line_begins_with_a_percent_sign(capsys):
    text = "explain_pyg:trained on data of its own: 10 predictions, average precision 100.0 %"
    terminal.print_parts([terminal.Prose(text)])
    assert capsys.readouterr().out.splitlines()[1] == "100.0 %"
