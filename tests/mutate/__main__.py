"""Mutation testing of searches, engine, explanations and studies: `python -m mutate`, or `make mutate`.

A sample of small changes is made to each file, one at a time; the tests of that file are run until one fails. A change
that no test notices survives. Each is a hint: either a test is missing, or the change makes no difference to a user
(another order of equals, a larger mask), or code is not needed. The last score is in results/mutation.json.
"""

from __future__ import annotations

import argparse
import importlib.abc
import importlib.util
import json
import os
import random
import signal
import sys
import time
from pathlib import Path
from typing import Any, NamedTuple

from mutate.mutants import Mutant, mutants

ROOT = Path(__file__).parents[2]
SEARCH = (
    "tests/search/test_every_search.py",
    "tests/search/test_search.py",
    "tests/search/test_scout.py",
    "src/cody/search",
)
MASKS = ("tests/engine/test_masks.py", "tests/engine/test_fast.py", "tests/engine/test_imagined.py")
ENGINE = (
    "tests/engine/test_compiled.py",  # first: it also has the numpy form, which is not used where a library is built
    "tests/engine/test_imagined.py",
    "tests/engine/test_fast.py",
    "tests/engine/test_attended.py",
    "tests/engine/test_selfcheck.py",
    "tests/engine/test_links.py",
    "tests/engine/test_kept_only.py",
)
EXPLAIN = (
    "tests/explaining/test_explain.py",
    "tests/explaining/test_widening.py",
    "tests/explaining/test_simultaneous.py",
)
TESTS = {  # module → what should notice a change of it, the quickest first
    "cody.search.greedy": SEARCH,
    "cody.search.tree": SEARCH,
    "cody.search.scout": ("tests/search/test_scout.py", *SEARCH),
    "cody.search.result": SEARCH,
    "cody.search.further": (*SEARCH, "tests/explaining/test_explain.py"),
    "cody.search.oracle": ("tests/search/test_oracle.py", *SEARCH, *EXPLAIN),
    "cody.search.space": ("tests/search/test_proposals.py", *EXPLAIN),
    "cody.search.run": EXPLAIN,
    "cody.search.widening": ("tests/explaining/test_widening.py", *EXPLAIN),
    "cody.search.estimates": ("tests/adapters/test_approximate.py", *EXPLAIN),
    "cody.search.intrusion": ("tests/search/test_proposals.py", *EXPLAIN),
    "cody.engine.masks": MASKS,
    "cody.engine.fast": ENGINE,
    "cody.engine.tgn": ENGINE,
    "cody.engine.memory": ENGINE,
    "cody.engine.lineage": ENGINE,
    "cody.explaining.pipeline": ("tests/adapters/test_approximate.py", *EXPLAIN),
    "cody.explaining.verification": EXPLAIN,
    "cody.study.metrics": ("tests/study/test_explanation_metrics.py", "tests/study/test_run.py"),
    "cody.study.run": ("tests/study/test_run.py", "tests/study/test_failures.py"),
    "cody.study.surveys": ("tests/study/test_survey.py", "tests/study/test_failures.py"),
}
SECONDS = 240  # processor seconds after which the tests of a mutant count as hanging, which somebody would notice
PASSED = 0  # pytest's exit code


class Result(NamedTuple):
    module: str
    mutant: Mutant
    noticed: bool


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m mutate", description=(__doc__ or "").partition("\n\n")[2])
    parser.add_argument("--only", default="", help="modules whose name contains this")
    parser.add_argument("--sample", type=int, default=20, help="changes of each file")
    parser.add_argument("--minutes", type=float, default=60.0, help="no change is begun after so many")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--save", action="store_true", help="put the result into results/mutation.json")
    options = parser.parse_args()
    os.chdir(ROOT)
    os.environ.setdefault("CODY_EXAMPLES", "10")
    _import_what_tests_need()
    until = time.monotonic() + 60 * options.minutes
    results = [result for module in TESTS if options.only in module for result in examine(module, options, until)]
    print(f"score: {score(results)}")
    if options.save:
        _save(results, options.sample)


def examine(module: str, options: argparse.Namespace, until: float) -> list[Result]:
    """The sampled mutants of a module, each with whether a test noticed it."""
    source = file_of(module).read_text(encoding="utf-8")
    if noticed(module, source, TESTS[module]):
        sys.exit(f"{module}: its tests fail without any change, so they would notice everything")
    every = list(mutants(source))
    chosen = random.Random(options.seed).sample(every, min(options.sample, len(every)))
    results = []
    for mutant in sorted(chosen):
        if time.monotonic() > until:
            break
        results.append(Result(module, mutant, noticed(module, mutant.source, TESTS[module])))
        if not results[-1].noticed:
            print(f"survived: {module} line {mutant.line}: {mutant.what[:100]}", flush=True)
    print(f"{module}: {score(results)}", flush=True)
    return results


def score(results: list[Result]) -> str:
    """How many of the changes were noticed, in words.

    >>> score([Result("a", Mutant(1, "", ""), True), Result("a", Mutant(2, "", ""), False)])
    '1 of 2 changes noticed (50 %)'
    """
    noticed = sum(result.noticed for result in results)
    return f"{noticed} of {len(results)} changes noticed ({100 * noticed / max(1, len(results)):.0f} %)"


def file_of(module: str) -> Path:
    return ROOT.joinpath("src", *module.split(".")).with_suffix(".py")


def noticed(module: str, source: str, tests: tuple[str, ...]) -> bool:
    """Whether one of the tests fails when the module has this source. They run in a copy of this process."""
    child = os.fork()
    if child == 0:
        _run(module, source, tests)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) != PASSED


def _run(module: str, source: str, tests: tuple[str, ...]) -> None:
    import resource

    import pytest

    resource.setrlimit(resource.RLIMIT_CPU, (SECONDS, SECONDS))
    signal.signal(signal.SIGXCPU, signal.SIG_DFL)
    silent = os.open(os.devnull, os.O_WRONLY)
    os.dup2(silent, 1)
    os.dup2(silent, 2)
    sys.meta_path.insert(0, _Changed(module, source))
    os._exit(int(pytest.main(["-x", "-p", "no:cacheprovider", "-p", "no:randomly", *tests])))


class _Changed(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Imports one module from another source."""

    def __init__(self, module: str, source: str) -> None:
        self.module, self.source = module, source

    def find_spec(self, name: str, path: Any, target: Any = None) -> Any:
        return importlib.util.spec_from_file_location(name, file_of(name), loader=self) if name == self.module else None

    def exec_module(self, module: Any) -> None:
        exec(compile(self.source, f"<changed {self.module}>", "exec"), vars(module))


def _import_what_tests_need() -> None:
    """What takes longest, so that a copy of this process begins at once. Neither cody nor plugins of pytest."""
    import numpy  # noqa: F401
    import pandas  # noqa: F401
    import pytest  # noqa: F401
    import torch

    torch.set_num_threads(1)


def _save(results: list[Result], sample: int) -> None:
    """Replace what is known about the examined modules by what was seen now."""
    file = ROOT / "results" / "mutation.json"
    known = json.loads(file.read_text(encoding="utf-8"))["modules"] if file.exists() else {}
    known = {module: result for module, result in known.items() if module in TESTS}  # others were renamed
    for module in {result.module: None for result in results}:
        of_one = [result for result in results if result.module == module]
        survived = [f"line {result.mutant.line}: {result.mutant.what}" for result in of_one if not result.noticed]
        known[module] = {
            "command": f"python -m mutate --only {module} --sample {sample} --save",
            "noticed": len(of_one) - len(survived),
            "changes": len(of_one),
            "survived": survived,
        }
    totals = {name: sum(of_one[name] for of_one in known.values()) for name in ("noticed", "changes")}
    document = {**totals, "modules": known}
    file.write_text(json.dumps(document, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
