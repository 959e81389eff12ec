"""Files that are damaged or hold no records: one error that says where, never a traceback, never a silent change."""

import gzip
import json
import math
import os
import re
import resource
import subprocess
import sys

import msgspec
import numpy as np
import pytest
from click.testing import CliRunner

import cody
from cody.cli import app
from cody.errors import CallError, DataError
from cody.models import ToyModel
from cody.study.record import Record
from cody.study.record_file import EvaluationHeader, appending, read_records, records_table
from random_events import random_graph
from some_records import changed, record

WRONG = [
    {"data": 3},
    {"model": None},
    {"explainer": ["x"]},
    {"kind": None},
    {"kind": "right"},
    {"event": [1]},
    {"event": True},
    {"event": 1.5},
    {"event": None},
    {"candidates": -5},
    {"candidates": {"row": [1], "src": ["a"], "dst": ["a"], "time": [1.0]}},  # two events are removed
    {"rows": 5},
    {"rows": ["x"]},
    {"rows": [1, 1]},
    {"rows": [1, 100]},  # not a candidate
    {"logits": [None, None, 1.0]},
    {"logits": [10**400, None, 1.0]},
    {"logits": [1.0, None, None]},
    {"logits": [1.0]},
    {"only": math.nan},
    {"only": math.inf},
    {"ended": 0},
    {"iterations": -1},
    {"evaluations": 10**400},
    {"seconds": "x"},
    {"seed": None},
    {"options": None},
    {"version": 1},
    {"evaluation": None},
    {"something": 1},
]


@pytest.mark.parametrize("values", WRONG, ids=lambda values: str(values)[:30])
def test_an_impossible_field_is_named_with_its_line(tmp_path, values):
    path = tmp_path / "run.jsonl"
    path.write_text(record().to_json() + "\n" + changed(record().to_json(), **values) + "\n")
    with pytest.raises(DataError, match=r"run\.jsonl, line 2: this .*(damaged|not a record)"):
        read_records(path)


def test_a_document_that_is_not_of_an_evaluation_is_no_record(tmp_path):
    document = json.loads(changed(record().to_json()))
    del document["evaluation"]
    (tmp_path / "run.jsonl").write_text(json.dumps(document) + "\n")
    with pytest.raises(DataError, match="line 1: this is an explanation, not a record"):
        read_records(tmp_path / "run.jsonl")


@pytest.mark.parametrize("command", ["tables", "figures"])
def test_commands_say_it_too(tmp_path, command):
    path = tmp_path / "run.jsonl"
    path.write_text(changed(record().to_json(), rows=5) + "\n")
    words = [command, str(path), *(["--out", str(tmp_path / "figures")] if command == "figures" else [])]
    assert "line 1: this explanation is damaged: rows: expected `array`, got `int`" in str(
        CliRunner().invoke(app, words).exception
    )


@pytest.mark.parametrize("line", ["[]", "null", "3", '"x"', "[" * 100_000])
def test_lines_that_are_not_objects_are_refused(tmp_path, line):
    (tmp_path / "run.jsonl").write_text(line + "\n")
    with pytest.raises(DataError, match="line 1: this is not a record"):
        read_records(tmp_path / "run.jsonl")


def test_options_that_are_nested_without_end_are_refused():
    nested = changed(record().to_json()).replace('"options": {}', '"options": ' + '{"a": ' * 300 + "1" + "}" * 300)
    with pytest.raises(DataError, match="options"):
        Record.from_json(nested)


def test_infinite_numbers_are_refused_however_they_are_written():
    with pytest.raises(DataError, match="out of range"):
        Record.from_json(changed(record().to_json()).replace('"logits": [1.0', '"logits": [1e999'))


def test_a_damaged_compressed_file_is_one_error(tmp_path):
    content = bytearray(gzip.compress((record().to_json() + "\n").encode() * 100))
    content[20:40] = b"\xff" * 20  # zlib itself cannot go on there
    (tmp_path / "run.jsonl.gz").write_bytes(content)
    with pytest.raises(DataError, match=r"run\.jsonl\.gz"):
        read_records(tmp_path / "run.jsonl.gz")


@pytest.mark.parametrize(
    "header",
    [
        {"explainers": 5},
        {"explainers": None},
        {"explainers": []},
        {"explainers": {"x": 5}},
        {"links": None},
        {"links": []},
        {"links": {"correct": 5}},
        {"links": {"correct": [1.5]}},
        {"links": {"correct": ["1"]}},
        {"links": {"right": [1]}},
        {"links": {"correct": [3, 1]}},
        {"links": {"correct": [1, 1]}},
        {"links": {"correct": [1, 2], "incorrect": [2]}},
        {"links": {"correct": [1, 2]}, "instances": 1},
        {"instances": "2"},
    ],
    ids=str,
)
def test_a_damaged_header_is_one_error(tmp_path, header):
    (tmp_path / "run.jsonl").write_text(json.dumps(HEADER | {"schema": "cody/evaluation/3"} | header) + "\n")
    with pytest.raises(DataError, match=r"run\.jsonl, line 1: this header is damaged"):
        read_records(tmp_path / "run.jsonl")


HEADER = {
    "version": "0",
    "data": "d",
    "model": "m",
    "data_identity": "d",
    "model_identity": "m",
    "seed": 0,
    "share": False,
    "period": [0.2, 0.6],
    "margin": 0.0,
    "instances": 1,
    "explainers": {"cody-temporal": {"search": "cody", "policy": "temporal", "options": {}}},
    "links": {"correct": [100]},
}


def header(**values):
    return msgspec.convert({"schema": "cody/evaluation/3"} | HEADER | values, EvaluationHeader)


@pytest.fixture
def written(tmp_path):
    """A file of a header and a record, as an evaluation writes it."""
    with appending(tmp_path / "run.jsonl") as file:
        file.write(header())
        file.write(record())
    return tmp_path / "run.jsonl"


def refusal(path):
    """The error about a file that cannot be read."""
    try:
        return f"nothing, but {len(read_records(path))} records"
    except DataError as error:
        return str(error)


def test_no_flipped_bit_goes_unnoticed(written):
    content = written.read_bytes()
    messages = []
    for place in range(len(content)):
        damaged = bytearray(content)
        damaged[place] ^= 1 << place % 8  # all bits of all bytes would take ten seconds
        written.write_bytes(damaged)
        messages.append(refusal(written))
    assert not [message for message in messages if not re.search(r"run\.jsonl, line [12]: this", message)]


@pytest.mark.parametrize(
    ("was", "becomes", "message"),
    [
        (
            '"seed":0,"share"',
            '"seed":1,"share"',
            "line 1: this header is damaged: checksum mismatch",
        ),
        ('"logits":[1.0', '"logits":[1.5', "line 2: this explanation is damaged: checksum mismatch"),
        ('false},"checksum"', 'false},"chucksum"', "line 2: this explanation is damaged: .*unknown field `chucksum`"),
        ("[100]},", '[100]},"chuck":"",', "this header is damaged: .*unknown field `chuck`"),
    ],
)
def test_a_line_that_was_changed_is_named(written, was, becomes, message):
    content = written.read_text()
    assert was in content
    written.write_text(content.replace(was, becomes))
    with pytest.raises(DataError, match=rf"run\.jsonl, .*{message}"):
        read_records(written)


def test_a_line_needs_no_checksum_but_not_a_wrong_one(written):
    lines = [json.loads(line) for line in written.read_text().splitlines()]
    written.write_text("".join(json.dumps(line | {"checksum": None}) + "\n" for line in lines))
    with pytest.raises(DataError, match="checksum"):
        read_records(written)
    for line in lines:
        del line["checksum"]
    written.write_text("".join(json.dumps(line) + "\n" for line in lines))
    assert read_records(written) == [record()]


def test_windows_line_endings_are_not_damage(written):
    written.write_bytes(written.read_bytes().replace(b"\n", b"\r\n"))
    assert read_records(written) == [record()]


@pytest.mark.parametrize(
    ("prefix", "line", "message"),
    [
        (b"\xef\xbb\xbf", 1, "this line begins with a byte order mark; save the file as UTF-8 without one"),
        (b"\n", 1, "this line is empty"),
        (record().to_json().encode() + b"\n \n", 2, "this line is empty"),
        (b'{"a": "\xff"}\n', 1, "this is not a record: it is not JSON .*utf-8"),
        (b"x", 1, r"this is not a record: it is not JSON \(.*invalid character \(byte 0\)\)$"),
    ],
)
def test_a_foreign_line_is_reported_with_its_number(written, prefix, line, message):
    written.write_bytes(prefix + written.read_bytes())
    with pytest.raises(DataError, match=rf"run\.jsonl, line {line}: {message}"):
        read_records(written)


def test_names_that_could_move_a_cursor_are_escaped_in_a_file(tmp_path):
    name = "a\x1b[2J\u202e\x7f\x85\u2028é\n"
    with appending(tmp_path / "run.jsonl") as file:
        file.write(header(data=name, explainers={name: {"search": name, "policy": name, "options": {name: name}}}))
        file.write(record(data=name, model=name, explainer=name, options={name: name}))
    content = (tmp_path / "run.jsonl").read_text()
    assert content.isascii()
    assert all(line.isprintable() for line in content.splitlines())
    assert read_records(tmp_path / "run.jsonl")[0].options == {name: name}


@pytest.mark.parametrize("path", ["/dev/full", "/dev/null", "/tmp", ""])
def test_only_ordinary_files_are_written_to(path):
    with pytest.raises(CallError, match="not an ordinary file"), appending(path):
        pass


def test_a_pipe_is_not_written_to(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(CallError, match="not an ordinary file"), appending(tmp_path / "pipe"):
        pass


def test_a_line_that_never_ends_does_not_fill_the_memory():
    def little_memory():
        resource.setrlimit(resource.RLIMIT_AS, (4 * 2**30, 4 * 2**30))

    words = [sys.executable, "-m", "cody", "tables", "/dev/zero"]
    ended = subprocess.run(words, capture_output=True, text=True, preexec_fn=little_memory, timeout=240, check=False)
    assert (ended.returncode, ended.stderr) == (
        1,
        "error: /dev/zero, line 1 does not end: this is not a file of records\n",
    )


def test_a_file_that_nothing_is_written_to_does_not_stay(tmp_path):
    with appending(tmp_path / "run.jsonl"):
        pass
    assert not (tmp_path / "run.jsonl").exists()
    (tmp_path / "mine.jsonl").touch()
    with appending(tmp_path / "mine.jsonl"):
        pass
    assert (tmp_path / "mine.jsonl").exists()


def test_records_and_surveys_are_arrow_tables(tmp_path):
    graph = random_graph(np.random.default_rng(1), nodes=10, events=60, ties=False)
    found = cody.survey(ToyModel(graph, weights=np.linspace(-1, 1, 60)), graph, instances=1)
    assert found.to_arrow().to_pylist() == found.rows()
    (tmp_path / "run.jsonl").write_text(f"{record().to_json()}\n{record(event=101).to_json()}\n")
    table, records = records_table([tmp_path / "run.jsonl"]), read_records(tmp_path / "run.jsonl")
    for name in ("event", "explainer", "original", "without", "size", "is_necessary", "seconds"):
        assert table[name].to_pylist() == [getattr(each, name) for each in records]
    assert table["rows"].to_pylist() == [list(each.rows) for each in records]
