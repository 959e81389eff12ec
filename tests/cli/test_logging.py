"""What is logged: nothing as a library unless a program asks, warnings on the command line, more with -v."""

import logging
import re
import subprocess
import sys

import pytest
from click.testing import CliRunner

from cody import cli
from commands import data_and_model


@pytest.fixture(scope="module")
def where(tmp_path_factory):
    return data_and_model(tmp_path_factory.mktemp("logged"))


def said(*words):
    result = CliRunner().invoke(cli.app, [str(word) for word in words])
    assert result.exit_code == 0, result.exception or result.output
    return result.stderr.splitlines()


@pytest.mark.parametrize("configured", [False, True])
def test_a_program_hears_what_it_asks_for_and_nothing_else(where, configured):
    ask = "import logging; logging.basicConfig(level=logging.INFO)\n" if configured else ""
    code = f"{ask}import logging, cody\ncody.load({where[1]!r})\nlogging.getLogger('cody.part').warning('it rains')"
    shown = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stderr.splitlines()
    assert len(shown) == (2 if configured else 0)
    if configured:
        assert re.fullmatch(r"INFO:cody\.data\.named:TemporalGraph\(32 nodes, 300 events\), from .*", shown[0])


def test_the_command_line_says_more_with_each_v(where):
    explain = ["explain", *where, "--event", 250, "--candidates", 3]
    assert said(*explain) == []
    some, every = said(*explain, "-v"), said(*explain, "-vv")
    assert all(re.match(r"\d\d:\d\d:\d\d cody\.", line) for line in every)
    assert [line for line in some if "cody.data" in line]
    assert [line for line in some if "cody.study.request" in line] == []
    assert [line for line in every if "cody.study.request" in line]
    assert len(said("-v", *explain, "-v")) == len(every)
    assert logging.getLogger("cody").level == logging.NOTSET
    assert [type(handler) for handler in logging.getLogger("cody").handlers] == [logging.NullHandler]


def test_a_warning_is_said_without_being_asked_for(where, tmp_path, monkeypatch):
    (tmp_path / "file").touch()
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))  # nothing can be kept there
    (warning,) = said("predict", *where, "--events", "250")
    assert re.match(r"warning: the memory table cannot be kept in .*: it is built in memory", warning)


def test_names_cannot_fool_a_log(tmp_path):
    (tmp_path / "a\x1b[31m.csv").write_text("src,dst,time\n1,2,3\n2,3,4\n")
    shown = said("data", "show", tmp_path / "a\x1b[31m.csv", "-v")
    assert shown
    assert all(line.isprintable() for line in shown)
