"""What only one operating system has is not needed to import the package, nor to answer."""

import ast
import os
import subprocess
import sys
from pathlib import Path

import pytest

import cody
from cody.utils.files import lock_open_file

SOURCE = Path(cody.__file__).parent
ONLY_POSIX = {"fcntl", "grp", "posix", "pty", "pwd", "readline", "resource", "syslog", "termios", "tty"}
WITHOUT = f"""
import multiprocessing.connection, subprocess, sys, tempfile  # the standard library knows its own system
for name in {sorted(ONLY_POSIX - {"posix", "fcntl"})!r}:  # filelock has a form without fcntl for systems without it
    sys.modules[name] = None
"""


def imported_at_once(tree):
    """The modules that a file imports when it is imported itself, unless it catches that they are missing."""
    for node in tree.body:
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield node.module


def test_no_module_needs_what_only_posix_has():
    for file in SOURCE.rglob("*.py"):
        found = ONLY_POSIX & set(imported_at_once(ast.parse(file.read_text(encoding="utf-8"))))
        assert not found, f"{file.relative_to(SOURCE)} imports {found}"


@pytest.mark.parametrize(
    "words",
    [
        ["explain", "--event", "53854"],
        ["evaluate", "--explainers", "greedy-temporal", "--instances", "1", "--workers", "2", "--out", "run.jsonl"],
        ["survey", "--events", "53854", "--out", "survey.jsonl", "--html", "survey.html"],
        ["data", "export", "campus", "--out", "events.csv"],
    ],
    ids=lambda words: words[0],
)
def test_commands_work_without_them(words, tmp_path):
    code = (
        WITHOUT
        + f"""
sys.argv = ["cody", *{words!r}]
from cody.cli import main
if __name__ == "__main__":
    main()
"""
    )
    (tmp_path / "elsewhere.py").write_text(code)
    environment = os.environ | {"XDG_CACHE_HOME": str(tmp_path / "cache")}
    ended = subprocess.run(
        [sys.executable, "elsewhere.py"], cwd=tmp_path, env=environment, capture_output=True, text=True, check=False
    )
    assert ended.returncode == 0, ended.stderr


def test_a_lock_keeps_others_out_until_the_file_is_closed(tmp_path):
    path = tmp_path / "file"
    with path.open("wb") as first, path.open("ab") as second:
        lock_open_file(first.fileno())
        with pytest.raises(BlockingIOError):
            lock_open_file(second.fileno())
        first.close()
        lock_open_file(second.fileno())
