"""Ctrl-C before a command has begun."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from interruptible import interruptible

SOURCE = Path(__file__).parents[2] / "src"
SLOW = 'import time\nprint("importing", flush=True)\ntime.sleep(600)\n'
SCRIPT = "import sys\nfrom cody.cli import main\nsys.exit(main())\n"  # as installers write it
IN_A_THREAD = "import sys, threading; sys.argv = ['cody']; threading.Thread(target=__import__, args=['cody']).start()"


def interrupted(folder, words, module):
    """Exit code and messages of a command that gets Ctrl-C while it imports `module`."""
    (folder / f"{module}.py").write_text(SLOW)
    environment = os.environ | {"PYTHONPATH": os.pathsep.join([str(folder), str(SOURCE)])}
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    command = interruptible([sys.executable, *words])
    with subprocess.Popen(command, env=environment, text=True, **pipes) as process:
        assert process.stdout.readline() == "importing\n"
        process.send_signal(signal.SIGINT)
        message = process.communicate(timeout=240)[1]
    return process.returncode, message


@pytest.mark.parametrize("module", ["numpy", "click"])  # the first that takes long, and one of the command line's own
@pytest.mark.parametrize("words", [["-m", "cody"], ["-X", "dev", "-Bm", "cody"], ["cody"]], ids=" ".join)
def test_a_command_that_is_stopped_while_it_starts_ends_without_a_word(tmp_path, words, module):
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "cody").write_text(SCRIPT)
    called = [str(tmp_path / "bin" / "cody")] if words == ["cody"] else words
    assert interrupted(tmp_path, [*called, "demo"], module) == (130, "")


def test_a_command_that_is_stopped_while_it_works_says_so_and_ends_with_the_code_of_ctrl_c(tmp_path):
    (tmp_path / "slow_model.py").write_text("import time\nprint('working', flush=True)\ntime.sleep(600)\n")
    words = [sys.executable, "-m", "cody", "explain", "--model", "slow_model:model", "--event", "9"]
    environment = os.environ | {"PYTHONPATH": os.pathsep.join([str(tmp_path), str(SOURCE)])}
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    with subprocess.Popen(interruptible(words), env=environment, text=True, **pipes) as process:
        assert process.stdout.readline() == "working\n"
        process.send_signal(signal.SIGINT)
        message = process.communicate(timeout=240)[1]
    assert (process.returncode, message) == (130, "stopped\n")


def test_a_program_that_imports_the_package_keeps_its_signals(tmp_path):
    (tmp_path / "program").mkdir()
    (tmp_path / "program" / "__init__.py").write_text("import cody\ncody.TemporalGraph\n")
    (tmp_path / "program" / "__main__.py").touch()
    code, message = interrupted(tmp_path, ["-m", "program", "-m", "cody"], "numpy")
    assert code == -signal.SIGINT
    assert "KeyboardInterrupt" in message


@pytest.mark.parametrize("words", [["-mcody", "--version"], ["-c", IN_A_THREAD]], ids=lambda words: words[0])
def test_the_package_can_be_imported_however_the_process_was_started(words):
    environment = os.environ | {"PYTHONPATH": str(SOURCE)}
    words = [sys.executable, *words]
    assert subprocess.run(words, env=environment, capture_output=True, timeout=240, check=True).stderr == b""


def test_where_ctrl_c_is_ignored_it_stays_ignored(tmp_path):
    (tmp_path / "click.py").write_text("import signal\nprint(signal.getsignal(signal.SIGINT).name)\nraise SystemExit\n")
    environment = os.environ | {"PYTHONPATH": os.pathsep.join([str(tmp_path), str(SOURCE)])}
    words = ["sh", "-c", 'trap "" INT; exec "$0" -m cody', sys.executable]  # as nohup and background jobs do
    shown = subprocess.run(words, env=environment, capture_output=True, text=True, timeout=240, check=True)
    assert shown.stdout == "SIG_IGN\n"


STARTED = """
import gc, os, sys
sys.argv = ["cody", "data", "list"]
from cody.cli import main
before = gc.isenabled()
try:
    main()
except SystemExit:
    pass
print(before, gc.isenabled(), gc.get_freeze_count() > 1000, os.environ["OPENBLAS_NUM_THREADS"], file=sys.stderr)
"""


@pytest.mark.parametrize("given", [None, "3"])
def test_a_command_starts_without_garbage_collection_and_threads_and_then_collects(given):
    environment = os.environ | {"PYTHONPATH": str(SOURCE)} | ({} if given is None else {"OPENBLAS_NUM_THREADS": given})
    environment = {name: value for name, value in environment.items() if given or name != "OPENBLAS_NUM_THREADS"}
    words = [sys.executable, "-c", STARTED]
    ended = subprocess.run(words, env=environment, capture_output=True, text=True, timeout=240, check=True)
    assert ended.stderr.split() == ["False", "True", "True", given or "1"]
