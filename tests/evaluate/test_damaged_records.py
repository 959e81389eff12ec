"""Files that are no records, or were: one error that says where, never a traceback, never a silent change."""

import gzip
import json
import math
import os
import resource
import subprocess
import sys

import pytest
from typer.testing import CliRunner

from cody.cli import app
from cody.errors import CallError, DataError
from cody.evaluate.record import FIELDS, Record
from cody.evaluate.records import appending, read_records
from some_records import record

WRONG = [
    {"data": 3},
    {"model": None},
    {"explainer": ["x"]},
    {"kind": None},
    {"kind": "right"},
    {"event": [1]},
    {"event": True},
    {"event": 1.5},
    {"candidates": -5},
    {"candidates": 1},  # two events were removed
    {"removed": 5},
    {"removed": ["x"]},
    {"removed": [1, 1]},
    {"removed": [1, 100]},  # not before the link
    {"original": None},
    {"original": 10**400},
    {"without": math.nan},
    {"only": math.inf},
    {"ended": 0},
    {"iterations": -1},
    {"evaluations": 10**400},
    {"first": 0},
    {"first": 281},  # of 280 evaluations
    {"seconds": "x"},
    {"seconds": -0.1},
    {"seconds": 1e300},
    {"seed": None},
    {"parameters": None},
    {"version": 1},
]


def line_with(values):
    return json.dumps(json.loads(record().to_json()) | values) + "\n"


@pytest.mark.parametrize("values", WRONG, ids=lambda values: str(values)[:30])
def test_a_field_that_cannot_be_is_named_with_its_line(tmp_path, values):
    path = tmp_path / "run.jsonl"
    path.write_text(record().to_json() + "\n" + line_with(values))
    with pytest.raises(DataError, match=r"run\.jsonl, line 2: this .*(damaged|no record)"):
        read_records(path)


@pytest.mark.parametrize("command", ["tables", "figures"])
def test_commands_say_it_too(tmp_path, command):
    path = tmp_path / "run.jsonl"
    path.write_text(line_with({"removed": 5}))
    words = [command, str(path), *(["--out", str(tmp_path / "figures")] if command == "figures" else [])]
    assert "line 1: this record is damaged: removed must be a list of rows, not 5" in str(
        CliRunner().invoke(app, words).exception
    )


@pytest.mark.parametrize("line", ["[]", "null", "3", '"x"', "[" * 100_000])
def test_lines_that_are_no_objects_are_refused(tmp_path, line):
    (tmp_path / "run.jsonl").write_text(line + "\n")
    with pytest.raises(DataError, match="line 1: this is no record"):
        read_records(tmp_path / "run.jsonl")


def test_parameters_that_are_nested_without_end_are_refused():
    nested = line_with({}).replace('"parameters": {}', '"parameters": ' + '{"a": ' * 300 + "1" + "}" * 300)
    with pytest.raises(DataError, match="parameters"):
        Record.from_json(nested)


def test_infinite_numbers_are_refused_however_they_are_written():
    with pytest.raises(DataError, match="original must be a finite number, not inf"):
        Record.from_json(line_with({}).replace('"original": 1.0', '"original": 1e999'))


def test_every_field_is_checked():
    assert set(FIELDS) == set(Record.__dataclass_fields__)


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
    ],
    ids=str,
)
def test_a_damaged_header_is_one_error(tmp_path, header):
    (tmp_path / "run.jsonl").write_text(json.dumps({"schema": "cody/evaluation/1"} | header) + "\n")
    with pytest.raises(DataError, match=r"run\.jsonl, line 1: this header is damaged"):
        read_records(tmp_path / "run.jsonl")


@pytest.mark.parametrize("path", ["/dev/full", "/dev/null", "/tmp", ""])
def test_what_is_no_file_is_not_written_to(path):
    with pytest.raises(CallError, match="no ordinary file"), appending(path):
        pass


def test_a_pipe_is_not_written_to(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(CallError, match="no ordinary file"), appending(tmp_path / "pipe"):
        pass


def test_a_line_that_never_ends_does_not_fill_the_memory():
    def little_memory():
        resource.setrlimit(resource.RLIMIT_AS, (4 * 2**30, 4 * 2**30))

    words = [sys.executable, "-m", "cody", "tables", "/dev/zero"]
    ended = subprocess.run(words, capture_output=True, text=True, preexec_fn=little_memory, timeout=60, check=False)
    assert (ended.returncode, ended.stderr) == (
        1,
        "error: /dev/zero, line 1 does not end: this is no file of records\n",
    )


def test_a_file_that_nothing_is_written_to_does_not_stay(tmp_path):
    with appending(tmp_path / "run.jsonl"):
        pass
    assert not (tmp_path / "run.jsonl").exists()
    (tmp_path / "mine.jsonl").touch()
    with appending(tmp_path / "mine.jsonl"):
        pass
    assert (tmp_path / "mine.jsonl").exists()
