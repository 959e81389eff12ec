"""The benchmark with known causes: it resumes, and tells good explainers from bad ones by its files alone."""

import json
from dataclasses import replace

import numpy as np
import pytest
from click.testing import CliRunner

from cody.cli import app
from cody.data.mechanisms import planted
from cody.errors import CallError, DataError, MissingExtraError
from cody.models.heuristics import reference_models
from cody.study import benchmark
from cody.study.benchmark import ALL, benchmark_rows, run_benchmark
from cody.study.explainers import explainer

EXPLAINERS = [explainer(name, size=64) for name in ("scout", "greedy-event-impact", "random")]


def files_of(folder):
    return sorted(folder.glob("*.jsonl"))


@pytest.fixture(scope="module")
def results(tmp_path_factory):
    folder = tmp_path_factory.mktemp("benchmark")
    steps = list(run_benchmark(folder, ["redundant", "masked noise=2.0"], EXPLAINERS, links=12))
    assert sum(step.progress.record is not None for step in steps) == 2 * 3 * 12
    return folder


def test_good_and_bad_explainers_differ_by_more_than_their_intervals(results):
    rows = {row.explainer: row for row in benchmark_rows(files_of(results)) if row.log == ALL}
    scout, greedy, random = (
        rows[name].scores["exact"] for name in ("scout-spatio-temporal", "greedy-event-impact", "random")
    )
    assert scout.low > greedy.high
    assert greedy.low > random.high


def test_a_finished_run_explains_nothing_again_and_more_explainers_extend_it(results):
    again = list(run_benchmark(results, ["redundant", "masked noise=2.0"], EXPLAINERS, links=12))
    assert [step.progress.record for step in again] == [None, None]
    more = [*EXPLAINERS, explainer("pbone", size=64)]
    steps = [step.progress.record for step in run_benchmark(results, ["redundant"], more, links=12)]
    extended = [record for record in steps if record is not None]
    assert {record.explainer for record in extended} == {"pbone"}
    assert len(extended) == 12


def without_seconds(files):
    return [replace(row, seconds=None) for row in benchmark_rows(files)]


def test_a_run_that_was_killed_anywhere_ends_with_the_same_table(tmp_path):
    def finish():
        list(run_benchmark(tmp_path, ["redundant"], EXPLAINERS, links=3, checks=["seed", "unrelated", "robust"]))

    finish()
    whole = without_seconds(files_of(tmp_path))
    files = sorted(tmp_path.rglob("*.jsonl"), key=lambda file: file.stat().st_mtime_ns)
    assert [file.parent.name for file in files[1:]] == ["seed", "unrelated", "robust"]
    for seed in range(4):
        rng = np.random.default_rng(seed)
        last = files[int(rng.integers(4))]  # was being written, within a line; those after it were not begun
        for file in files[files.index(last) + 1 :]:
            file.unlink()
        content = last.read_bytes()
        last.write_bytes(content[: int(rng.integers(len(content)))])
        finish()
        assert without_seconds(files_of(tmp_path)) == whole


def test_rows_are_the_means_of_the_scores_of_single_explanations(results):
    rows = benchmark_rows(files_of(results))
    assert {row.log for row in rows} == {ALL, "redundant", "masked noise=2.0"}
    of_log = {(row.log, row.explainer): row for row in rows}
    for name in ("scout-spatio-temporal", "random"):
        both = [of_log[log, name].scores["recall"].value for log in ("redundant", "masked noise=2.0")]
        assert of_log[ALL, name].scores["recall"].value == pytest.approx(sum(both) / 2)
        assert of_log[ALL, name].links == 24


def test_records_of_another_log_are_rejected(results, monkeypatch):
    monkeypatch.setattr(benchmark, "planted_once", lambda text: planted(f"{text} seed=7"))
    with pytest.raises(DataError, match="is another one than the records are about"):
        benchmark_rows(files_of(results))


def test_an_option_that_a_mechanism_does_not_have_is_rejected():
    with pytest.raises(CallError, match="nose=3 is no option of a mechanism; there are people, places"):
        planted("reply nose=3")
    with pytest.raises(CallError, match="people=many"):
        planted("reply people=many")
    assert planted("reply noise=2 seed=3").name == "reply noise=2.0 seed=3"


def test_the_command_prints_the_same_table_from_the_files(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    call = ["benchmark", "run", "--out", "b", "--mechanisms", "reply", "--explainers", "scout,random", "--links", "3"]
    made = CliRunner().invoke(app, call)
    shown = CliRunner().invoke(app, ["benchmark", "table", "b"])
    assert made.exit_code == shown.exit_code == 0
    assert made.stdout == shown.stdout
    rows = json.loads(CliRunner().invoke(app, ["benchmark", "table", "b", "--json"]).stdout)
    assert {row["log"] for row in rows} == {ALL, "reply"}
    assert CliRunner().invoke(app, ["tables", "--benchmark", "b"]).stdout == shown.stdout
    latex = CliRunner().invoke(app, ["tables", "--benchmark", "b/reply.jsonl", "--format", "latex"]).stdout
    cells = [line.count(" & ") for line in latex.splitlines() if " & " in line]
    assert len(cells) == 3  # headings, two explainers
    assert len(set(cells)) == 1
    assert rf"{{{'llll' + 'r' * (cells[0] - 3)}}}" in latex
    wrong = CliRunner().invoke(app, ["tables", "--benchmark", "--paper", "b"])
    assert "give --benchmark or --paper, not both" in str(wrong.exception)
    wrong = CliRunner().invoke(app, ["tables", "--benchmark", "--intervals", "b"])
    assert "text has no room for --intervals" in str(wrong.exception)
    (tmp_path / "empty").mkdir()
    assert "there are no records" in str(CliRunner().invoke(app, ["benchmark", "table", "empty"]).exception)


@pytest.mark.parametrize("kind", ["tgn", "tgat", "graphmixer", "dygformer", "pyg-tgn"])
def test_trained_models_are_trained_once_shuffled_and_trained_again(kind, tmp_path, monkeypatch):
    if kind == "pyg-tgn":
        pytest.importorskip("torch_geometric")
    monkeypatch.setattr(benchmark, "EPOCHS", 1)
    made = planted("reply episodes=20")
    model = benchmark.benchmark_model(kind, made, tmp_path)
    query = made.graph.query(next(iter(made.ways)))
    variants = model.on(made.graph), model.randomised(made.graph), model.retrained(made.graph)
    logits = [float(each.logits(query, [frozenset()])[0]) for each in variants]
    assert len({round(logit, 4) for logit in logits}) == 3
    written = {file: file.stat().st_mtime_ns for file in tmp_path.rglob("model.safetensors")}
    assert len(written) == 3
    again = benchmark.benchmark_model(kind, made, tmp_path).on(made.graph)
    assert float(again.logits(query, [frozenset()])[0]) == logits[0]
    assert {file: file.stat().st_mtime_ns for file in tmp_path.rglob("model.safetensors")} == written


def test_other_models_and_checks_have_rows_of_their_own(tmp_path):
    scout = [explainer("scout", size=64)]
    checks = ["weights", "jitter", "training", "robust"]
    list(run_benchmark(tmp_path, ["reply"], scout, links=3, models=["oracle", "replies"], checks=checks))
    rows = {(row.log, row.model): row for row in benchmark_rows(files_of(tmp_path))}
    assert {model for _, model in rows} == {"oracle", "replies"}
    row = rows["reply", "oracle"]
    assert row.checks["jitter"].value == 1
    assert row.checks["weights"].value < row.checks["jitter"].value
    assert row.checks["robust+"].value == pytest.approx(0.5, abs=0.3)  # one event, in half of the random parts
    assert row.checks["training"] is None
    assert row.checks["seed"] is None


def test_a_model_or_check_that_does_not_exist_is_rejected(tmp_path):
    for given, message in ({"models": ["tgm"]}, "no model 'tgm'"), ({"checks": ["weight"]}, "did you mean 'weights'"):
        with pytest.raises(CallError, match=message):
            list(run_benchmark(tmp_path, ["reply"], EXPLAINERS, links=1, **given))


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"logs": ["reply", "replly"]}, "no mechanism 'replly'"),
        ({"models": ["oracle", "tgm"]}, "no model 'tgm'"),
        ({"models": ["oracle", "tgat"]}, "the model 'tgat' needs networkx, which is not installed: pip install"),
    ],
)
def test_what_cannot_be_done_at_the_end_is_said_before_the_beginning(given, message, tmp_path, monkeypatch):
    absent = benchmark.TRAINERS["tgat"]._replace(module="networkx")
    monkeypatch.setitem(benchmark.TRAINERS, "tgat", absent)
    monkeypatch.setattr(benchmark, "find_spec", lambda module: None if module == "networkx" else module)
    with pytest.raises((CallError, MissingExtraError), match=message):
        list(run_benchmark(tmp_path, given.get("logs", ["reply"]), EXPLAINERS, links=1, models=given.get("models", ())))
    assert not list(tmp_path.iterdir())


def test_a_damaged_line_is_named_and_one_that_was_being_written_is_left_out(tmp_path):
    list(run_benchmark(tmp_path, ["reply"], EXPLAINERS[:1], links=3, checks=["robust"]))
    file = tmp_path / "checks" / "robust" / "reply.jsonl"
    text = file.read_text()
    file.write_text(text[:-9])
    (row, *_) = benchmark_rows(files_of(tmp_path))
    assert row.checks["robust+"] is not None
    file.write_text(text.replace('"plus":', '"plus":-', 2))
    with pytest.raises(DataError, match=r"reply.jsonl, line 1: this line of robust fidelity is damaged"):
        benchmark_rows(files_of(tmp_path))


def test_records_that_are_about_no_generated_log_are_rejected():
    with pytest.raises(DataError, match="answers are about 'collegemsg', which is no generated log"):
        benchmark.check_log("collegemsg", "0")


def test_a_model_that_predicts_none_of_the_links_has_no_row_and_that_is_said(tmp_path, caplog):
    names, scout = ["oracle", "replies", "popularity"], [explainer("scout", size=64)]  # nobody replies to a place
    list(run_benchmark(tmp_path, ["joint"], scout, links=2, models=names))
    assert {row.model for row in benchmark_rows(files_of(tmp_path))} == {"oracle", "popularity"}
    assert "predict none of the links that were caused: replies of joint" in caplog.text
    with pytest.raises(CallError, match="none of the models predicts any link that was caused"):
        list(run_benchmark(tmp_path, ["joint"], scout, links=2, models=["replies"]))


def test_every_reference_model_is_in_the_benchmark(tmp_path):
    made = planted("reply episodes=20")
    query = made.graph.query(next(iter(made.ways)))
    assert len(reference_models(made.graph, [query])) == len(benchmark.RULES)
    for name, title in benchmark.RULES.items():
        links = [made.graph.query(row) for row in made.ways]
        model = benchmark.benchmark_model(name, made, tmp_path).on(made.graph)
        expected = reference_models(made.graph, links)[title].logits(query, [frozenset()])
        assert model.logits(query, [frozenset()]) == expected
