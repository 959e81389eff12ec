"""Whatever is typed, a command ends with 0, 1 or 2; what is wrong is said in a few lines; no other file is touched."""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import chdir, contextmanager, suppress
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple
from unittest.mock import patch

import click
import numpy as np
import torch
from click.testing import CliRunner

from attack.finding import Finding, expect
from attack.things import Generator
from attack.world import LINK, world_to_break
from cody.cli import app
from cody.errors import CallError, CodyError
from cody.utils import words

MODEL = "--data graph --model tgn"
SMALL = "--dimension 4 --layers 1 --heads 1 --neighbours 2 --batch 200 --epochs 1"
BASES = {  # each works as it is
    "what-if": f"{MODEL} --event 20",
    "explain": f"{MODEL} --event 20 --candidates 5",
    "predict": f"{MODEL} --period 0.9..1",
    "survey": f"{MODEL} --instances 1 --period 0.2..1 --evaluations 20 --out new.jsonl",
    "view": "why.json --out new.html",
    "train": f"--data graph --model tgn --out new {SMALL}",
    "train-explainer": f"{MODEL} --links 2 --epochs 1 --out new",
    "import-model": "tgn/model.safetensors --data graph --layers 1 --heads 1 --neighbours 2 --batch 9 --out new",
    "evaluate": f"{MODEL} --explainers greedy-temporal --instances 1 --iterations 5 --out new.jsonl",
    "tables": "run.jsonl",
    "figures": "run.jsonl --out new",
    "data list": "",
    "data show": "graph",
    "data events": "graph",
    "data import": "events.csv --out new",
    "data fetch": "campus",  # others need a network
    "data export": "graph --out new.csv",
    "cache": "",
}
WITH_ARGUMENT = ("import-model", "view", "tables", "figures", "data show", "data events", "data import", "data fetch")
LEFT_OUT = {"--ray", "--help", "--version"}  # a cluster is not found within minutes
LONG = {"--epochs", "--links", "--patience", "--queries", "--sizes", "--workers"}  # a large number is meant

ODD = ["", " ", "-1", "0", "1", "1.5", "nan", "inf", "-inf", "1e400", "1e-400", "1e3", "0x10", "１２", "9" * 5000]
ODD += ["1" + 30 * "0", str(2**31), str(2**63), "-" + str(2**63), "x" * 10_000, "é", "𐀀", "\u202eabc", "a\nb", "\udcff"]
ODD += ["\x1b[31mred", "%s", "{0}", "$(touch x)", "a,b", ",", ",,", "1,2,3", "1 2", "[1]", "{}", "True", "None", "*"]
ODD += [
    "missing",
    "missing/none.csv",
    "folder",
    "binary",
    "events.csv",
    "tgn",
    "scorer",
    "why.json",
    "empty",
    "..",
    ".",
]
ODD += ["/dev/null", "~", "-", "all", "cody-temporal", "pgexplainer", "tgnnexplainer", "random", "events=3"]
ODD += [
    "nodes=node 1",
    "nodes=",
    "times=1..2",
    "times=2..1",
    "times=nan..1",
    "1..0",
    "0..1",
    "nan..nan",
    "0.1..0.10001",
]
ODD += ["2004-07-28", "9999-12-31", "0001-01-01", "2004-13-01", "-1e19", "1e20", "node 1", "node 99", "correct", "x=y"]


class Call(NamedTuple):
    command: str
    option: str  # "": the command's argument
    value: str
    words: list[str]


def attack(seed: int) -> None:
    rng = np.random.default_rng(seed)
    if rng.random() < 0.05:
        _check_seconds(float(rng.choice([1e-9, 1e-3, 0.05, 0.3, 1.0])))
        return
    call = _call(rng)
    with world_to_break() as folder:
        (folder / "folder").mkdir()
        (folder / "folder" / "precious.txt").write_text("precious")
        (folder / "binary").write_bytes(rng.bytes(3000))
        (folder / "empty").touch()
        before = _contents(folder)
        with chdir(folder), _watched_writes(folder) as outside:
            undecodable = "\udcff" in call.value  # `main` prepares the streams for it
            code, said = _by_process(call) if undecodable or rng.random() < 0.01 else _run(call)
        _check(call, code, said, folder)
        after = _contents(folder)
    # An empty file holds nothing that could be lost: `mktemp` makes one to be written to.
    kept = {name: content for name, content in before.items() if content != EMPTY}
    if call.command == "cache":  # what it clears can be made again
        kept = {name: content for name, content in kept.items() if not name.startswith("cache/")}
    changed = [name for name, content in kept.items() if after.get(name) != content]
    expect(not changed, f"options: {_name(call)}: it changes files that were there", f"{_shown(call)}: {changed[:5]}")
    expect(not outside, f"options: {_name(call)}: it writes elsewhere", f"{_shown(call)}: {outside[:5]}")


def _call(rng: Generator) -> Call:
    command = list(BASES)[rng.integers(len(BASES))]
    words_ = [*command.split(), *BASES[command].split()]
    options = _options(command)
    places = [*options, *([""] if command in WITH_ARGUMENT else [])]
    option = places[rng.integers(len(places))] if places else "--nonsense"
    values = [value for value in ODD if option not in LONG or not value.isdecimal() or int(value[:300]) < 2]
    value = values[rng.integers(len(values))]
    if not option:
        words_[len(command.split())] = value
    elif options.get(option, False):  # a switch
        words_ += [option]
    else:
        words_ += [option, value] if rng.random() < 0.5 else [f"{option}={value}"]
    return Call(command, option, value, words_)


@cache
def _options(command: str) -> dict[str, bool]:
    """The options of a command, and whether they are switches without a value."""
    found: Any = app
    for word in command.split():
        found = found.get_command(click.Context(found), word)
    options = [parameter for parameter in found.params if parameter.param_type_name == "option"]
    named = {max(option.opts, key=len): bool(option.is_flag) for option in options}
    return {name: is_flag for name, is_flag in named.items() if name not in LEFT_OUT}


def _run(call: Call) -> tuple[int, str]:
    """Exit code and message, as `cody.cli.main` makes them; a traceback is a finding."""
    with patch.object(tempfile, "tempdir", str(Path.cwd())):
        result = CliRunner().invoke(app, call.words)
    torch.set_num_threads(1)  # --threads
    error = result.exception
    if isinstance(error, CodyError):
        return 2 if isinstance(error, CallError) else 1, words.sanitize(error, 2000)
    if isinstance(error, OSError):
        return 1, words.sanitize(error, 2000)
    if error is not None and not isinstance(error, SystemExit):
        raise Finding(f"options: {_name(call)}: {type(error).__name__}", f"{_shown(call)}: {error}") from error
    return result.exit_code, result.stderr


def _by_process(call: Call) -> tuple[int, str]:
    environment = os.environ | {"TMPDIR": "."}
    arguments = [os.fsencode(word) for word in call.words]
    done = subprocess.run([sys.executable, "-m", "cody", *arguments], env=environment, capture_output=True, timeout=100)
    return done.returncode, done.stderr.decode(errors="replace")


def _check(call: Call, code: int, said: str, folder: Path) -> None:
    fault, shown = f"options: {_name(call)}", f"{_shown(call)}: exit code {code}, {said[:300]!r}"
    expect("Traceback" not in said, f"{fault}: a traceback", shown)
    expect(code in (0, 1, 2), f"{fault}: another exit code", shown)
    if code == 0:
        return
    expect(said.strip(), f"{fault}: nothing is said", shown)
    expect(len(said) <= 2500 and said.count("\n") <= 12, f"{fault}: too much is said", f"{len(said)} letters: {shown}")
    if code == 2 and call.value.strip():
        repeated = any(form in said for form in _forms(call, folder) if form)
        expect(repeated, f"{fault}: the error does not repeat what was typed", shown)


def _forms(call: Call, folder: Path) -> list[str]:
    """How an error may speak of what was typed."""
    value = call.value
    forms = [
        value[:9],
        repr(value)[1:9],
        words.sanitize(value)[:9],
        Path(value).name[:9],
        f"'{value.partition(',')[0]}'",
    ]
    forms += [str(folder), call.option.lstrip("-")]
    with suppress(ValueError):
        forms.append(str(float(value)))  # inf, for 1e400
    if value.startswith("-"):
        forms.append(value[:2])  # "no such option: -1"
    return forms


def _name(call: Call) -> str:
    return f"{call.command} {call.option or 'ARGUMENT'}"


def _shown(call: Call) -> str:
    text = " ".join(map(repr, call.words)).encode(errors="replace").decode()
    return text if len(text) < 400 else f"{text[:400]}…"


def _check_seconds(seconds: float) -> None:
    """A budget of time that runs out is an answer, and in time."""
    with world_to_break() as folder, chdir(folder):
        words_ = f"explain {MODEL} --event {LINK} --evaluations 100000 --seconds {seconds}".split()
        begun = time.monotonic()
        code, said = _run(Call("explain", "--seconds", str(seconds), words_))
        spent = time.monotonic() - begun
    expect(code == 0, "options: a budget of seconds is an error", f"--seconds {seconds}: {said}")
    expect(spent < seconds + 60, "options: a budget of seconds is not kept", f"{spent:.1f} s of {seconds}")


def _contents(folder: Path) -> dict[str, bytes]:
    files = (path for path in folder.rglob("*") if path.is_file() and not path.is_symlink())
    return {str(path.relative_to(folder)): hashlib.blake2b(path.read_bytes()).digest() for path in files}


EMPTY = hashlib.blake2b().digest()
WRITES = {"os.rename", "os.remove", "os.mkdir", "os.rmdir", "os.truncate", "os.link", "os.symlink", "shutil.rmtree"}
ALLOWED = ("/dev/null", "/dev/tty", "/proc/", "/dev/shm/")
_watches: list[tuple[Path, list[str]]] = []  # a folder, and what was done elsewhere


def _hook(event: str, arguments: tuple[Any, ...]) -> None:
    if not _watches or (event != "open" and event not in WRITES):
        return
    folder, outside = _watches[-1]
    if event == "open" and not (arguments[2] & (os.O_WRONLY | os.O_RDWR)):
        return
    path = arguments[0]
    if isinstance(path, str | bytes | os.PathLike):
        absolute = os.path.abspath(os.fsdecode(path))  # noqa: PTH100  (resolving would look at the disk)
        elsewhere = not absolute.startswith(str(folder.parent)) and not absolute.startswith(ALLOWED)
        if elsewhere and "__pycache__" not in absolute and "matplotlib" not in absolute:
            outside.append(f"{event} {absolute}")


@cache
def _start_watching() -> None:
    sys.addaudithook(_hook)  # which cannot be taken away again


@contextmanager
def _watched_writes(folder: Path) -> Iterator[list[str]]:
    """What is done to files outside a folder."""
    _start_watching()
    outside: list[str] = []
    _watches.append((folder, outside))
    try:
        yield outside
    finally:
        _watches.pop()
