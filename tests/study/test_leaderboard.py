"""The leaderboard: an entry holds all that its scores follow from, and the page follows from the entries."""

import csv
import importlib.util
from pathlib import Path

import pytest
from msgspec import structs
from msgspec.structs import astuple

from cody.data.mechanisms import planted
from cody.errors import CallError, DataError
from cody.study.benchmark import benchmark_rows, rows_of, run_benchmark
from cody.study.explainers import explainer
from cody.study.leaderboard import answers_of, check_complete, entry_of, read_entry, write_entry

ROOT = Path(__file__).parents[2]
FIDELITY = ("scout-spatio-temporal", "cody-spatio-temporal", "greedy-spatio-temporal", "random-prefix")


@pytest.fixture(scope="module")
def records(tmp_path_factory):
    folder = tmp_path_factory.mktemp("benchmark")
    which = [explainer(name, size=64) for name in ("greedy", "random")]
    list(run_benchmark(folder, ["redundant"], which, links=4, checks=["seed", "robust"]))
    return sorted(folder.glob("*.jsonl"))


def test_an_entry_alone_gives_the_rows_of_the_records(records, tmp_path):
    write_entry(tmp_path / "entry.json", entry_of(records, authors="somebody"))
    entry = read_entry(tmp_path / "entry.json")
    of_entry, of_records = rows_of(answers_of(entry)), benchmark_rows(records)
    assert [row.explainer for row in of_entry] == [row.explainer for row in of_records]
    for one, other in zip(of_entry, of_records, strict=True):
        assert one.scores == other.scores
        assert one.evaluations == other.evaluations
        for check in ("seed", "robust+", "gaps"):
            assert astuple(one.checks[check]) == pytest.approx(astuple(other.checks[check]), abs=1e-5)
    assert {"cody", "python"} <= entry.versions.keys()
    assert entry.hardware["cores"]


def test_a_changed_entry_is_noticed(records, tmp_path):
    file = tmp_path / "entry.json"
    write_entry(file, entry_of(records))
    text = file.read_text()
    file.write_text(text.replace('"authors":""', '"authors":"me"'))
    with pytest.raises(DataError, match="checksum mismatch"):
        read_entry(file)
    entry = entry_of(records)
    another = structs.replace(entry.answers[0], data_identity="0")
    write_entry(file, structs.replace(entry, answers=(another,)))
    with pytest.raises(DataError, match="is another one than the records are about"):
        read_entry(file)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"candidates": (64,)}, "columns of several lengths"),
        ({"events": (1, 2, 3, 4)}, "event 1 twice, or one without known causes"),
        ({"events": "the first one four times"}, r"event \d+ twice"),
        ({"rows": ((10**6,), (), (), ())}, r"no choice of past candidates: \[1000000\]"),
        ({"rows": ((0, 0), (), (), ())}, r"no choice of past candidates: \[0, 0\]"),
        ({"rows": ((0, 1), (), (), ()), "candidates": (1, 64, 64, 64)}, "no choice of past candidates"),
        ({"checks": {"seed": (1.0, 5.0, None, 1.0)}}, "values of 'seed' that are none of a check"),
        ({"checks": {"sed": (1.0,) * 4}}, "values of 'sed'"),
    ],
)
def test_answers_that_cannot_be_are_rejected(records, tmp_path, given, message):
    entry = entry_of(records)
    group = entry.answers[0]
    if isinstance(given.get("events"), str):
        given = {"events": group.events[:1] * 4}
    write_entry(tmp_path / "entry.json", structs.replace(entry, answers=(structs.replace(group, **given),)))
    with pytest.raises(DataError, match=message):
        read_entry(tmp_path / "entry.json")


def test_an_entry_without_every_mechanism_is_rejected(records):
    with pytest.raises(CallError, match="has not answered the 20 links of reply that seed 0 draws"):
        check_complete(entry_of(records))


def test_links_that_somebody_chose_are_rejected():
    """Easy links instead of those that are drawn, or answers about another model."""
    entry = read_entry(ROOT / "results" / "leaderboard" / "published.json")
    check_complete(entry)
    group = entry.answers[0]
    others = [event for event in planted(group.log).ways if event not in group.events][:20]
    for given in ({"events": tuple(others)}, {"model_identity": "0"}, {"seed": 1}):
        chosen = (structs.replace(group, **given), *entry.answers[1:])
        with pytest.raises(CallError, match=f"has not answered the 20 links of {group.log}"):
            check_complete(structs.replace(entry, answers=chosen))


def test_the_address_of_an_entry_is_one(records):
    with pytest.raises(CallError, match="begins with https://, not 'javascript:alert"):
        entry_of(records, url="javascript:alert(1)")


@pytest.fixture
def maker():
    spec = importlib.util.spec_from_file_location("make_leaderboard", ROOT / "docs" / "make_leaderboard.py")
    made = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(made)
    return made


def test_the_page_says_what_follows_from_the_entries(maker):
    assert maker.PAGE.read_text(encoding="utf-8") == maker.page()


def test_what_somebody_wrote_stays_in_its_cell(maker, records):
    entry = entry_of(records, authors="A | [B]", url="https://example.org/a b)", note="one\n| two <script>")
    row = list(maker._made_with({"mine.json": entry}))[-1]
    assert "\n" not in row
    assert row.count("|") - row.count("\\|") == 6  # of five cells
    assert r"[A \| \[B\]](https://example.org/a%20b%29)" in row
    assert r"one \| two \<script\>" in row


def test_the_table_of_trained_models_says_what_was_measured():
    with (ROOT / "results" / "benchmark-models.csv").open(encoding="utf-8") as file:
        known = {(row["model"], row["explainer"]): row for row in csv.DictReader(file)}
    lines = (ROOT / "docs" / "benchmark.md").read_text(encoding="utf-8").splitlines()
    for model in dict.fromkeys(model for model, _ in known):
        (line,) = (line for line in lines if line.startswith(f"| `{model}` | "))
        shown = [known[model, name]["fid+"] for name in FIDELITY]
        exact = [known[model, name]["exact"] for name in FIDELITY[::2]]  # Scout and GreeDy
        numbers = [cell.split()[0] for cell in line.split(" | ")[2:]]
        assert numbers == [f"{float(number):.2f}" for number in (*exact, *shown)]
