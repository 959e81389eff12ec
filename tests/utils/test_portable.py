"""What only one operating system has is not needed to import the package, nor to answer."""

import ast
import os
import subprocess
import sys
import types
from pathlib import Path

import pytest

import cody
from cody.utils import locks

SOURCE = Path(cody.__file__).parent
ONLY_POSIX = {"fcntl", "grp", "posix", "pty", "pwd", "readline", "resource", "syslog", "termios", "tty"}
WITHOUT = f"""
import multiprocessing.connection, subprocess, sys, tempfile  # the standard library knows its own system
for name in {sorted(ONLY_POSIX - {"posix"})!r}:
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
import types
msvcrt = types.ModuleType("msvcrt")
msvcrt.LK_NBLCK, msvcrt.locking = 2, lambda opened, mode, count: None
sys.modules["msvcrt"] = msvcrt
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


def test_where_there_is_no_flock_a_byte_beyond_the_file_is_locked(tmp_path, monkeypatch):
    calls, taken = [], [True, False]

    def locking(opened, mode, count):
        calls.append((os.lseek(opened, 0, os.SEEK_CUR), mode, count))
        if taken.pop(0):
            raise OSError(13, "Permission denied")

    windows = types.ModuleType("msvcrt")
    windows.LK_NBLCK, windows.locking = 2, locking
    monkeypatch.setitem(sys.modules, "msvcrt", windows)
    monkeypatch.setattr(locks, "fcntl", None)
    monkeypatch.setattr(locks, "RETRY", 0.0)
    with (tmp_path / "file").open("w+b") as file:
        file.write(b"abc")
        file.flush()
        locks.lock(file.fileno(), wait=True)  # the first attempt fails
        assert calls == [(locks.FAR, 2, 1)] * 2
        assert os.lseek(file.fileno(), 0, os.SEEK_CUR) == 3  # as before
        taken.append(True)
        with pytest.raises(BlockingIOError):
            locks.lock(file.fileno(), wait=False)


def test_a_lock_keeps_others_out_until_the_file_is_closed(tmp_path):
    path = tmp_path / "file"
    with path.open("wb") as first, path.open("ab") as second:
        locks.lock(first.fileno(), wait=False)
        with pytest.raises(BlockingIOError):
            locks.lock(second.fileno(), wait=False)
        first.close()
        locks.lock(second.fileno(), wait=False)
