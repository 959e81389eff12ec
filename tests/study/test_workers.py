"""Evaluations in several processes: the same records, whatever happens to the workers."""

import os
import signal
import subprocess
import sys
import time
from functools import partial
from pathlib import Path

import numpy as np
import pytest
from worker_models import DeadlyLater, Failing, die, open_deadly, open_toy

from cody import search
from cody.data import open_graph, save_graph
from cody.errors import CallError, CodyError
from cody.search import policies
from cody.study.pool import evaluate_in_processes, open_model
from cody.study.record_file import read_records
from cody.study.run import EvaluationPlan, Explainer, Link, evaluate
from cody.train.checkpoint import Checkpoint, save_model
from cody.utils.files import scratch_folder
from interruptible import interruptible
from random_events import random_graph, random_network
from some_records import timeless

EXPLAINERS = (
    Explainer("cody-random", policies.random, partial(search.cody, iterations=40), size=12),
    Explainer("greedy-temporal", policies.temporal, search.greedy, size=12),
)
PLAN = EvaluationPlan("made", "made", EXPLAINERS, seed=3)
LINKS = [Link(row, "correct") for row in range(100, 108)]
EXPECTED = len(LINKS) * len(EXPLAINERS)


@pytest.fixture
def saved(tmp_path):
    return save_graph(random_graph(np.random.default_rng(5), nodes=14, events=200), tmp_path / "graph")


def by_workers(opener, workers=2, links=LINKS, done=frozenset()):
    return evaluate_in_processes(opener, workers, None, None, links, PLAN, done)


def test_the_number_of_workers_changes_no_record(tmp_path, saved):
    graph = open_graph(saved)
    save_model(tmp_path / "model", Checkpoint(random_network(graph, "tgn"), graph.identity))
    opener = partial(open_model, saved, str(tmp_path / "model"), False)
    alone = timeless(evaluate(*opener(), LINKS, PLAN))
    assert len(alone) == EXPECTED
    assert timeless(by_workers(opener, 2)) == alone


def test_workers_leave_out_what_is_done(saved):
    done = {("cody-random", "correct", 100), *((each.name, "correct", 101) for each in EXPLAINERS)}
    found = list(by_workers(partial(open_toy, saved), done=done))
    assert len(found) == EXPECTED - 3
    assert not done & {(record.explainer, record.kind, record.event) for record in found}


def test_a_worker_that_is_killed_loses_nothing_and_is_mentioned(tmp_path, saved, caplog):
    deaths = tmp_path / "deaths"
    deaths.mkdir()
    (deaths / "1").touch()
    found = timeless(by_workers(partial(open_deadly, saved, deaths, 103)))
    assert not list(deaths.iterdir()), "no worker was killed"
    assert "a worker died with exit code -9 on Link(event=103, kind='correct'): it is tried again" in caplog.text
    model, graph = open_deadly(saved, deaths, 103)  # there is no death left
    assert found == timeless(evaluate(model, graph, LINKS, PLAN))


def test_what_a_killed_worker_had_sent_is_not_made_again(tmp_path, saved):
    deaths = tmp_path / "deaths"
    deaths.mkdir()
    (deaths / "1").touch()
    found = list(by_workers(partial(open_deadly, saved, deaths, 103, DeadlyLater)))
    assert not list(deaths.iterdir()), "no worker was killed"
    assert sorted(record.explainer for record in found if record.event == 103) == ["cody-random", "greedy-temporal"]
    assert len(found) == EXPECTED


def test_a_link_that_kills_twice_is_reported_after_the_others_are_done(tmp_path, saved):
    deaths = tmp_path / "deaths"
    deaths.mkdir()
    for name in "123":
        (deaths / name).touch()
    found = []
    with pytest.raises(CodyError, match=r"1 predictions have no records .* died 2 times: events 103 \(correct\)"):
        found.extend(iter_into(found, by_workers(partial(open_deadly, saved, deaths, 103))))
    assert {record.event for record in found} == {link.event for link in LINKS} - {103}
    assert len(list(deaths.iterdir())) == 1


def iter_into(found, records):
    for record in records:
        found.append(record)
    return ()


def test_an_error_of_the_model_is_recorded_by_a_worker_for_each_link(saved):
    failures = list(by_workers(partial(open_toy, saved, Failing)))
    assert len(failures) == EXPECTED
    assert all("headache" in failure.reason for failure in failures)


def test_workers_that_cannot_start_end_the_run(saved):
    with pytest.raises(CodyError, match="code 7"):
        list(by_workers(partial(die, saved), workers=1))


def test_no_worker_is_refused():
    with pytest.raises(CallError, match="at least 1 worker, not 0"):
        list(by_workers(None, workers=0))


@pytest.fixture
def temporary(tmp_path, monkeypatch):
    """An empty folder for temporary files."""
    (tmp_path / "temporary").mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "temporary"))
    return tmp_path / "temporary"


def test_what_a_killed_run_left_is_cleared_by_the_next(saved, temporary):
    code = f"""
import os, signal, tempfile
from cody.data import open_graph, save_graph
from cody.utils.files import scratch_folder
tempfile.tempdir = {str(temporary)!r}
with scratch_folder("cody-test-") as folder:
    save_graph(open_graph({str(saved)!r}), folder / "graph")
    (folder / ".graph.0123abcd.partial").mkdir()
    os.kill(os.getpid(), signal.SIGKILL)
"""
    assert subprocess.run([sys.executable, "-c", code], timeout=240, check=False).returncode == -signal.SIGKILL
    left = {path.suffix: path for path in temporary.iterdir()}
    assert (left[""] / "graph" / "graph.json").exists()
    with scratch_folder("cody-test-") as mine:
        assert {path.stem for path in temporary.iterdir()} == {mine.name}
    assert not list(temporary.iterdir())


def test_folders_of_running_runs_and_of_others_stay(temporary):
    with scratch_folder("cody-test-") as mine:
        (mine / "graph").mkdir()
        for other in ("cody-test-notours1", "cody-test"):
            (temporary / other).mkdir()
            (temporary / other / "thesis.txt").touch()
        (temporary / "cody-test-notours2").symlink_to(mine)
        before = sorted(temporary.rglob("*"))
        with scratch_folder("cody-test-"):
            assert set(before) < set(temporary.rglob("*"))
        assert sorted(temporary.rglob("*")) == before
    assert not mine.exists()


def children(process):
    """Processes whose parent this one is."""
    listed = Path(f"/proc/{process}/task/{process}/children")
    return [int(child) for child in listed.read_text().split()] if listed.exists() else []


def alive(process):
    status = Path(f"/proc/{process}/status")
    return status.exists() and "State:\tZ" not in status.read_text()


@pytest.mark.skipif(not Path("/proc").exists(), reason="looks at processes in /proc")
@pytest.mark.parametrize(("how", "code"), [(signal.SIGINT, 130), (signal.SIGKILL, -9)])
def test_a_run_that_is_stopped_ends_its_workers_and_can_go_on(tmp_path, how, code):
    path = tmp_path / "run.jsonl"
    much = ["--instances", "20", "--iterations", "1000"]  # the signal comes long before all of it is done
    words = ["--explainers", "greedy-temporal,cody-random", *much, "--out", str(path)]
    command = interruptible([sys.executable, "-m", "cody", "evaluate", "--workers", "2", *words])
    with subprocess.Popen(command, stderr=subprocess.PIPE, start_new_session=True, text=True) as process:
        until = time.monotonic() + 240
        while (not path.exists() or path.read_bytes().count(b"\n") < 3) and time.monotonic() < until:
            time.sleep(0.005)
        workers = children(process.pid)
        if how == signal.SIGINT:
            os.killpg(process.pid, how)  # as a terminal does
        else:
            process.send_signal(how)
        message = process.communicate(timeout=240)[1]
    assert process.returncode == code
    assert "Traceback" not in message
    assert len(workers) >= 2
    until = time.monotonic() + 120
    while any(alive(worker) for worker in workers) and time.monotonic() < until:
        time.sleep(0.05)
    assert not any(alive(worker) for worker in workers)
    assert len(read_records(path)) >= 2
    if how == signal.SIGINT:
        assert "rerun to resume" in message
