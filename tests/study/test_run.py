"""Evaluations: the records, and files that survive being killed."""

import gzip
import json
import os
import resource
import signal
import subprocess
import sys
import time
from dataclasses import replace
from functools import partial

import numpy as np
import pytest
from click.testing import CliRunner

from cody import search
from cody.cli import app
from cody.engine import Replay, fast_model
from cody.errors import CallError, CodyError, DataError
from cody.explaining.pipeline import explain
from cody.models import ToyModel
from cody.models.contract import _AskEachTime, fingerprint
from cody.search import policies
from cody.study.instances import sample_kinds
from cody.study.record import Record
from cody.study.record_file import appending, read_records
from cody.study.run import EvaluationPlan, Explainer, Link, Sample, evaluate, run
from random_events import random_graph, random_network
from some_records import changed, timeless

EXPLAINERS = (
    Explainer("cody-temporal", policies.temporal, partial(search.cody, iterations=40), size=12),
    Explainer("greedy-random", policies.random, search.greedy, size=12),
)
PLAN = EvaluationPlan("made", "toy", EXPLAINERS, seed=3)
SAMPLE = Sample(4, period=(0.3, 1.0))


@pytest.fixture
def toy():
    """A graph and a model that is right about some of its links and wrong about others."""
    rng = np.random.default_rng(5)
    graph = random_graph(rng, nodes=14, events=200)
    return ToyModel(graph, rng.normal(size=200)), graph


@pytest.fixture
def network():
    graph = random_graph(np.random.default_rng(5), nodes=14, events=200)
    return fast_model(random_network(graph, "tgn"), graph), graph


def records(path, *model_and_graph, plan=PLAN, sample=SAMPLE, stop=None):
    """Run, if wanted only until so many records are there, and read the file."""
    steps = run(path, *model_and_graph, plan, sample)
    for step in steps:
        if step.finished == stop:
            break
    steps.close()
    return read_records(path)


def test_a_record_says_what_the_explanation_and_the_model_say(network):
    model, graph = network
    (record,) = evaluate(model, graph, [Link(150, "correct")], replace(PLAN, explainers=EXPLAINERS[:1]))
    query = graph.query(150)
    why = explain(model, graph, query, policy=policies.temporal, search=EXPLAINERS[0].search, size=12, seed=3)
    assert (record.rows, record.original, record.without) == (why.removed, why.logits[0], why.logits[-1])
    assert (record.evaluations, record.candidates, record.ended) == (why.evaluations, len(why.candidates), why.ended)
    everything_else = frozenset(range(150)) - why.change
    plain = Replay(model.weights, graph).logits(query, [everything_else])[0]
    assert record.only == pytest.approx(plain, abs=1e-4)
    assert (record.model_identity, record.data_identity, record.seed) == (model.identity, graph.identity, 3)


def test_a_model_without_a_short_way_is_asked_to_remove_everything_else(toy):
    model, graph = toy
    (record,) = evaluate(model, graph, [Link(150, "correct")], replace(PLAN, explainers=EXPLAINERS[:1]))
    everything_else = frozenset(range(150)) - frozenset(record.rows)
    assert record.only == pytest.approx(model.logits(graph.query(150), [everything_else])[0], abs=1e-5)


def test_first_counts_the_sets_until_the_decision_changes(toy):
    model, graph = toy
    found = list(evaluate(model, graph, [Link(row, "?") for row in range(100, 140)], PLAN))
    assert {record.first is None for record in found} == {True, False}
    for record in found:
        assert (record.first is None) <= (not record.is_necessary)
        assert record.first is None or 2 <= record.first <= record.evaluations


def test_each_explainer_gets_every_link_of_each_kind(tmp_path, toy):
    found = records(tmp_path / "run.jsonl", *toy)
    assert len(found) == 2 * 2 * 4
    assert len({(record.explainer, record.kind, record.event) for record in found}) == 16
    assert all((record.original > 0) == (record.kind == "correct") for record in found)
    for explainer in EXPLAINERS:
        assert len({record.event for record in found if record.explainer == explainer.name}) == 8


def test_a_logit_of_zero_predicts_no_link(toy):
    graph = toy[1]
    undecided = ToyModel(graph, np.zeros(graph.num_events))
    drawn = sample_kinds(undecided, graph, 3, ["correct", "incorrect"])
    assert {kind: len(rows) for kind, rows in drawn.items()} == {"correct": 0, "incorrect": 3}


def test_a_run_that_was_stopped_continues_and_repeats_nothing(tmp_path, toy, monkeypatch):
    whole = records(tmp_path / "whole.jsonl", *toy)
    records(tmp_path / "run.jsonl", *toy, stop=5)
    kept = (tmp_path / "run.jsonl").read_bytes()
    asked = []
    answer = ToyModel.logits
    monkeypatch.setattr(ToyModel, "logits", lambda *words: asked.append(words[1]) or answer(*words))
    found = records(tmp_path / "run.jsonl", *toy)
    assert (tmp_path / "run.jsonl").read_bytes().startswith(kept)
    assert timeless(found) == timeless(whole)
    finished = {record.event for record in whole[:4]}
    assert not finished & {query.before for query in asked}, "a finished link was looked at again"


@pytest.mark.parametrize("left", [16, 15, 14])
def test_an_incomplete_last_line_is_cut_off_and_made_again(tmp_path, toy, left):
    path = tmp_path / "run.jsonl"
    whole = records(path, *toy)
    content = path.read_bytes()
    last = len(content.splitlines(keepends=True)[-1])
    path.write_bytes(content[: -{16: 1, 15: 30, 14: last + 30}[left]])  # a missing newline costs no record
    assert len(read_records(path)) == left
    assert timeless(records(path, *toy)) == timeless(whole)


def test_a_full_disk_is_reported_and_the_run_continues_once_there_is_room(tmp_path, toy):
    whole = records(tmp_path / "whole.jsonl", *toy)
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, ((tmp_path / "whole.jsonl").stat().st_size // 2, limits[1]))
    try:
        with pytest.raises(CodyError, match=r"cannot write .*parts\.jsonl: File too large.*the same command continues"):
            records(tmp_path / "parts.jsonl", *toy)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert 0 < len(read_records(tmp_path / "parts.jsonl")) < len(whole)
    assert timeless(records(tmp_path / "parts.jsonl", *toy)) == timeless(whole)


def test_a_saved_explanation_is_not_taken_for_an_unfinished_line(tmp_path, toy):
    path = tmp_path / "why.json"
    path.write_text(explain(*toy, toy[1].query(150)).to_json())
    before = path.read_bytes()
    with pytest.raises(DataError, match="ends with something that this command never writes"):
        records(path, *toy)
    assert path.read_bytes() == before


def test_zeros_that_a_crash_of_the_machine_left_are_cut_off(tmp_path, toy):
    path = tmp_path / "run.jsonl"
    whole = records(path, *toy)
    path.write_bytes(path.read_bytes() + b"\0" * 512)
    assert timeless(records(path, *toy)) == timeless(whole)


def test_a_file_that_is_removed_while_it_is_written_is_noticed(tmp_path, toy, monkeypatch):
    monkeypatch.setattr("cody.study.appending.SYNC_EVERY", 0.0)
    steps = run(tmp_path / "run.jsonl", *toy, PLAN, SAMPLE)
    next(steps)
    (tmp_path / "run.jsonl").unlink()
    with pytest.raises(CodyError, match="was removed or replaced while it was being written"):
        next(steps)


def test_a_record_that_occurs_twice_in_a_file_is_refused(tmp_path, toy):
    path = tmp_path / "run.jsonl"
    records(path, *toy)
    lines = path.read_text().splitlines(keepends=True)
    path.write_text("".join([*lines, lines[-1]]))
    with pytest.raises(DataError, match="holds two records of"):
        records(path, *toy)


@pytest.mark.parametrize(
    "wrong",
    [
        lambda: Explainer("a", policies.temporal, search.greedy, size=0),
        lambda: Explainer("a", policies.temporal, search.greedy, hops=0),
        lambda: Explainer("a", policies.temporal, search.greedy, evaluations=0),
        lambda: Explainer("a", policies.temporal, search.greedy, size=2.5),
        lambda: EvaluationPlan(5, "toy", EXPLAINERS),
        lambda: EvaluationPlan("made", "toy", EXPLAINERS, seed=-1),
        lambda: EvaluationPlan("made", "toy", EXPLAINERS, seed=2**63),
        lambda: EvaluationPlan("made", "toy", EXPLAINERS[0]),
        lambda: EvaluationPlan("made", "toy", ("cody-temporal",)),
        lambda: Sample(2.5),
    ],
)
def test_values_that_no_record_can_hold_are_refused_before_anything_is_run(wrong):
    with pytest.raises(CallError):
        wrong()


def test_numbers_of_numpy_are_as_good_as_others(tmp_path, toy):
    explainer = replace(EXPLAINERS[0], size=np.int64(20))
    plan, sample = EvaluationPlan("made", "toy", (explainer,), seed=np.int64(3)), Sample(np.int64(2), period=(0.3, 1.0))
    assert len(records(tmp_path / "run.jsonl", *toy, plan=plan, sample=sample)) == 4


@pytest.mark.parametrize("left", [b"", b'{"schema":"cody/evalu', b'{"schema": "cody/evalu'])
def test_a_file_without_a_complete_header_is_begun_afresh(tmp_path, toy, left):
    (tmp_path / "run.jsonl").write_bytes(left)
    assert len(records(tmp_path / "run.jsonl", *toy)) == 16


@pytest.mark.parametrize(
    "line", ['{"schema": "cody/record/9"}', "[]", "not json", '{"schema": "cody/record/1"}', "\x00"]
)
def test_a_foreign_line_is_an_error_and_stays(tmp_path, toy, line):
    path = tmp_path / "run.jsonl"
    records(path, *toy, stop=2)
    with path.open("a") as file:
        file.write(line + "\n")
    content = path.read_bytes()
    with pytest.raises(DataError, match="line 4"):
        records(path, *toy)
    assert path.read_bytes() == content


@pytest.mark.parametrize("content", ["my notes", "my notes\n", '{"a": 1}'])
def test_a_file_that_is_not_an_evaluation_is_left_alone(tmp_path, toy, content):
    (tmp_path / "notes").write_text(content)
    with pytest.raises(DataError, match="notes"):
        records(tmp_path / "notes", *toy)
    assert (tmp_path / "notes").read_text() == content


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"plan": replace(PLAN, seed=4)}, "seed is 3, here it is 4"),
        ({"plan": replace(PLAN, share=True)}, "share"),
        ({"sample": replace(SAMPLE, margin=0.1)}, "margin is 0.0, here it is 0.1"),
        ({"sample": replace(SAMPLE, period=(0.2, 1.0))}, "period"),
        (
            {"plan": replace(PLAN, explainers=(replace(EXPLAINERS[0], size=9),))},
            "candidates.size of cody-temporal is 12, here it is 9",
        ),
    ],
)
def test_a_file_of_another_run_is_refused(tmp_path, toy, change, message):
    records(tmp_path / "run.jsonl", *toy, stop=3)
    content = (tmp_path / "run.jsonl").read_bytes()
    with pytest.raises(DataError, match=message):
        records(tmp_path / "run.jsonl", *toy, **change)
    assert (tmp_path / "run.jsonl").read_bytes() == content


def test_a_file_about_other_weights_or_data_is_refused(tmp_path, network):
    model, graph = network
    records(tmp_path / "run.jsonl", model, graph, stop=1)
    other = fast_model(random_network(graph, "tgn", seed=1), graph)
    with pytest.raises(DataError, match="model identity"):
        records(tmp_path / "run.jsonl", other, graph)
    shorter = graph.select(np.arange(190))
    with pytest.raises(DataError, match="data identity"):
        records(tmp_path / "run.jsonl", fast_model(random_network(shorter, "tgn"), shorter), shorter)


def test_a_record_of_another_run_in_the_file_is_refused(tmp_path, toy):
    path = tmp_path / "run.jsonl"
    records(path, *toy, stop=1)
    first = path.read_text().splitlines()[1]
    with path.open("a") as file:
        file.write(changed(first, seed=8) + "\n")
    with pytest.raises(DataError, match="another run: cody-temporal"):
        records(path, *toy)


def test_a_record_with_other_options_in_the_file_is_refused(tmp_path, toy):
    path = tmp_path / "run.jsonl"
    first = records(path, *toy, stop=1)[0]
    with path.open("a") as file:
        line = path.read_text().splitlines()[1]
        file.write(changed(line, options=first.options | {"evaluations": 9}) + "\n")
    with pytest.raises(DataError, match="another run: cody-temporal"):
        records(path, *toy)


def rewrite_header(path, change):
    """As an earlier version would have written it, without a checksum."""
    first, *lines = path.read_text().splitlines(keepends=True)
    header = json.loads(first)
    del header["checksum"]
    change(header)
    path.write_text("".join([json.dumps(header) + "\n", *lines]))


@pytest.mark.parametrize("stop", [0, 1])
def test_a_header_whose_kinds_are_swapped_is_refused(tmp_path, toy, stop):
    path = tmp_path / "run.jsonl"
    records(path, *toy, stop=stop)

    def swap(header):
        header["links"] = dict(zip(header["links"], reversed(header["links"].values()), strict=True))

    rewrite_header(path, swap)
    content = path.read_bytes()
    with pytest.raises(DataError, match=r"run\.jsonl.*event \d+.* another (file|run)"):
        records(path, *toy)
    assert path.read_bytes() == content


@pytest.mark.parametrize("event", [59, 200, 2**60])
def test_a_header_with_a_link_outside_the_period_is_refused(tmp_path, toy, event):
    path = tmp_path / "run.jsonl"
    records(path, *toy, stop=0)
    rewrite_header(path, lambda header: header["links"].update(correct=[event]))
    with pytest.raises(DataError, match=rf"header names event {event}, but the period has events 60 to 199"):
        records(path, *toy)


def test_a_record_that_no_header_mentions_is_refused(tmp_path, toy):
    path = tmp_path / "run.jsonl"
    first = records(path, *toy, stop=1)[0]
    links = json.loads(path.read_text().splitlines()[0])["links"]
    unknown = next(row for row in range(first.event, 200) if row not in links["correct"] + links["incorrect"])
    with path.open("a") as file:
        file.write(changed(path.read_text().splitlines()[1], event=unknown) + "\n")
    with pytest.raises(DataError, match=rf"another run: cody-temporal, event {unknown}"):
        records(path, *toy)


def test_a_record_of_the_wrong_kind_is_refused(tmp_path, toy):
    path = tmp_path / "run.jsonl"
    records(path, *toy, stop=1)
    lines = path.read_text().splitlines()
    wrong = Record.from_json(lines[1])
    logits = json.loads(lines[1])["logits"]
    path.write_text(f"{lines[0]}\n{changed(lines[1], logits=[-logits[0], *logits[1:]])}\n")
    with pytest.raises(DataError, match=f"another run: cody-temporal, event {wrong.event}"):
        records(path, *toy)


class Nameless:
    """A model that does not say which one of its class it is."""

    def __init__(self, graph, weights):
        self.answers = ToyModel(graph, weights)

    def logits(self, query, changes):
        return self.answers.logits(query, changes)


def test_a_model_without_an_identity_is_refused_because_another_could_write_into_its_file(tmp_path, toy):
    model, graph = toy
    nameless, path = Nameless(graph, model.weights), tmp_path / "run.jsonl"
    with pytest.raises(
        CallError, match=r"Nameless.* has no identity.*identity = cody\.models\.contract\.fingerprint\(weights\)"
    ):
        records(path, nameless, graph)
    assert not path.exists()
    with pytest.raises(CallError, match="has no identity"):
        next(evaluate(nameless, graph, [Link(150, "correct")], PLAN))
    nameless.identity = fingerprint(model.weights)
    assert len(records(path, nameless, graph)) == 16
    other = Nameless(graph, model.weights * 1.1)
    other.identity = fingerprint(other.answers.weights)
    with pytest.raises(DataError, match="there model identity is"):
        records(path, other, graph)


def test_a_file_of_another_model_that_has_the_same_identity_is_refused(tmp_path, toy):
    model, graph = toy
    path = tmp_path / "run.jsonl"
    same = [Nameless(graph, weights) for weights in (model.weights, model.weights * 1.1, model.weights)]
    for one in same:
        one.identity = "always the same"
    records(path, same[0], graph, stop=3)
    content = path.read_bytes()
    with pytest.raises(DataError, match=r"another model.*event \d+ has the logit .*, here .*choose another file"):
        records(path, same[1], graph)
    assert path.read_bytes() == content
    assert len(records(path, same[2], graph)) == 16


def test_a_run_that_got_another_explainer_can_go_on_without_it(tmp_path, toy):
    path, one = tmp_path / "run.jsonl", replace(PLAN, explainers=EXPLAINERS[:1])
    records(path, *toy, plan=one)
    both = records(path, *toy)
    assert records(path, *toy, plan=one) == both


def test_progress_is_about_what_was_asked_for_not_about_the_whole_file(tmp_path, toy):
    records(tmp_path / "run.jsonl", *toy)
    steps = list(run(tmp_path / "run.jsonl", *toy, replace(PLAN, explainers=EXPLAINERS[:1]), SAMPLE))
    assert [(step.finished, step.total) for step in steps] == [(8, 8)]


def test_a_run_can_be_extended_by_links_and_explainers(tmp_path, toy):
    path = tmp_path / "run.jsonl"
    small = records(path, *toy, plan=replace(PLAN, explainers=EXPLAINERS[:1]), sample=replace(SAMPLE, instances=2))
    larger = records(path, *toy)
    assert larger[: len(small)] == small
    assert timeless(larger) == timeless(records(tmp_path / "whole.jsonl", *toy))


def test_two_runs_on_the_same_file_are_refused(tmp_path, toy):
    path = tmp_path / "run.jsonl"
    with appending(path), pytest.raises(CallError, match="another run is writing"):
        records(path, *toy)
    assert len(records(path, *toy)) == 16


def test_records_do_not_depend_on_what_else_was_run(network):
    links = [Link(row, "correct") for row in (120, 150, 180)]
    together = timeless(evaluate(*network, links, PLAN))
    apart = [
        record
        for explainer in reversed(EXPLAINERS)
        for link in reversed(links)
        for record in evaluate(*network, [link], replace(PLAN, explainers=(explainer,)))
    ]
    assert timeless(apart) == together


def test_explainers_that_share_are_charged_the_same_but_ask_less(toy, monkeypatch):
    asked = []
    answer = ToyModel.logits
    monkeypatch.setattr(ToyModel, "logits", lambda *words: asked.extend(words[2]) or answer(*words))
    impact = Explainer("greedy-event-impact", policies.event_impact, search.greedy, size=12)
    links, plan = [Link(150, "correct")], replace(PLAN, explainers=(*EXPLAINERS, impact))
    apart = list(evaluate(*toy, links, plan))
    apart_asked, asked = len(asked), asked[:0]
    monkeypatch.setattr(ToyModel, "logits", lambda *words: asked.extend(words[2]) or answer(*words))
    shared = list(evaluate(*toy, links, replace(plan, share=True)))
    assert timeless(shared) == timeless(apart)
    assert len(asked) < apart_asked
    assert all(record.seconds is None for record in shared)
    assert all(record.seconds > 0 for record in apart)


def test_answers_are_not_shared_between_links(toy):
    links = [Link(150, "correct"), Link(160, "correct")]
    apart = timeless(evaluate(*toy, links, PLAN))
    assert timeless(evaluate(*toy, links, replace(PLAN, share=True))) == apart


def test_each_explainer_starts_cold_in_a_session_of_its_own(toy):
    class Remembering(ToyModel):
        def session(self, query, rows=()):
            opened.append(query)
            return _AskEachTime(self, query)

    opened = []
    links = [Link(150, "correct"), Link(160, "correct")]
    list(evaluate(Remembering(toy[1]), toy[1], links, PLAN))
    assert opened == [toy[1].query(150)] * 2 + [toy[1].query(160)] * 2


def test_an_explainer_keeps_to_its_budget(toy):
    plan = replace(PLAN, explainers=(replace(EXPLAINERS[0], evaluations=5),))
    (record,) = evaluate(*toy, [Link(150, "correct")], plan)
    assert (record.evaluations, record.ended) == (5, "evaluations")
    assert record.options["evaluations"] == 5


def test_compressed_records_can_be_read_but_not_appended_to(tmp_path, toy):
    found = records(tmp_path / "run.jsonl", *toy)
    with gzip.open(tmp_path / "run.jsonl.gz", "wb") as file:
        file.write((tmp_path / "run.jsonl").read_bytes())
    assert read_records(tmp_path / "run.jsonl.gz") == found
    with pytest.raises(CallError, match="compress it when"):
        records(tmp_path / "run.jsonl.gz", *toy)


@pytest.mark.parametrize("path", ["missing.jsonl", "."])
def test_a_file_that_cannot_be_read_is_one_error(tmp_path, path):
    with pytest.raises(DataError, match="cannot read"):
        read_records(tmp_path / path)


def test_a_compressed_file_that_is_cut_is_one_error(tmp_path):
    (tmp_path / "run.jsonl.gz").write_bytes(gzip.compress(b"{}\n" * 1000)[:20])
    with pytest.raises(DataError, match=r"run\.jsonl\.gz"):
        read_records(tmp_path / "run.jsonl.gz")


def test_impossible_plans_are_refused():
    with pytest.raises(CallError, match="two explainers are called 'greedy-random'"):
        EvaluationPlan("", "", (EXPLAINERS[1], EXPLAINERS[1]))
    with pytest.raises(CallError, match="no explainer"):
        EvaluationPlan("", "", ())
    with pytest.raises(CallError, match="'right' is not a kind"):
        replace(SAMPLE, kinds=("right",))


WORDS = ["--instances", "3", "--explainers", "greedy-temporal,cody-random", "--iterations", "200"]


def command(path, *words):
    return [sys.executable, "-m", "cody", "evaluate", *WORDS, "--out", str(path), *words]


def complete_lines(path):
    return path.read_bytes().count(b"\n") if path.exists() else 0


def kill_after(lines, path, *words):
    """Start a run, and kill it the hard way once the file has so many lines."""
    with subprocess.Popen(command(path, *words), stdout=subprocess.DEVNULL, stderr=subprocess.PIPE) as process:
        until = time.monotonic() + 240
        while complete_lines(path) < lines and process.poll() is None and time.monotonic() < until:
            time.sleep(0.005)
        os.kill(process.pid, signal.SIGKILL)
        process.wait()
    return complete_lines(path)


def test_a_killed_run_continues_with_the_same_command(tmp_path):
    path = tmp_path / "run.jsonl"
    assert 2 <= kill_after(2, path) < 13
    first = path.read_bytes()
    assert 5 <= kill_after(5, path) < 13
    assert CliRunner().invoke(app, command(path)[3:]).exit_code == 0
    assert path.read_bytes().startswith(first[: first.rfind(b"\n") + 1])
    done = CliRunner().invoke(app, command(tmp_path / "whole.jsonl", "--json")[3:])
    assert timeless(read_records(path)) == timeless(read_records(tmp_path / "whole.jsonl"))
    assert {row["links"] for row in json.loads(done.stdout)} == {3}
