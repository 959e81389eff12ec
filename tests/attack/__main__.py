"""Attack for some minutes, and say what was found: `make attack`, or `python -m attack --help` in `tests`."""

from __future__ import annotations

import argparse
import importlib
import os
import secrets
import sys
import time
import traceback
from collections import Counter
from collections.abc import Callable, Iterator

os.environ.setdefault("OMP_NUM_THREADS", "1")  # the matrices are tiny, and children are forked

import numpy as np

from attack.finding import Finding, case_limits

KINDS = ("engine", "claims", "histories", "pages", "requests", "files", "interrupts", "kills", "options")
LONGEST = 120  # seconds for one case
Attack = Callable[[int], None]


def main() -> int:
    options = _options()
    if options.case is not None:
        return _repeat(options.only[0], options.case)
    print(f"seed {options.seed}, {options.minutes:g} minutes", flush=True)
    found = 0
    for kind, seeds in _draw(options.only, options.seed):
        found += _attack(kind, seeds, 60 * options.minutes / len(options.only))
    return 1 if found else 0


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m attack", description=__doc__)
    parser.add_argument("--minutes", type=float, default=10.0, help="in all, shared among the kinds (default: 10)")
    parser.add_argument("--seed", type=int, default=secrets.randbelow(10**6), help="of the cases (default: a new one)")
    parser.add_argument("--only", default=",".join(KINDS), help=f"kinds, of {', '.join(KINDS)}")
    parser.add_argument("--case", type=int, help="repeat this case of a kind")
    options = parser.parse_args()
    options.only = options.only.split(",")
    for kind in options.only:
        if kind not in KINDS:
            parser.error(f"there is no kind {kind!r}; there are {', '.join(KINDS)}")
    if options.case is not None and len(options.only) > 1:
        parser.error("--case needs --only KIND")
    return options


def _draw(kinds: list[str], seed: int) -> Iterator[tuple[str, Iterator[int]]]:
    for kind in kinds:
        rng = np.random.default_rng([seed, KINDS.index(kind)])
        yield kind, (int(rng.integers(2**32)) for _ in iter(int, 1))  # without end


def _attack(kind: str, seeds: Iterator[int], seconds: float) -> int:
    """Cases of one kind until the time is over; of each fault the first one is shown."""
    faults: Counter[str] = Counter()
    cases, begun = 0, time.monotonic()
    while not cases or time.monotonic() - begun < seconds:
        seed = next(seeds)
        cases += 1
        finding = one_case(load(kind), seed)
        if finding is not None:
            faults[finding.fault] += 1
            if faults[finding.fault] == 1:
                print(f"  {finding}\n    python -m attack --only {kind} --case {seed}", flush=True)
    spent = time.monotonic() - begun
    print(f"{kind:<10} {cases:>6,} cases  {len(faults):>3} findings  {spent:.0f} s", flush=True)
    for fault, count in faults.most_common():
        print(f"    {count:>5}×  {fault}", flush=True)
    return len(faults)


def _repeat(kind: str, seed: int) -> int:
    finding = one_case(load(kind), seed)
    if finding is None:
        print(f"{kind}, case {seed}: nothing was found")
        return 0
    traceback.print_exception(finding)
    return 1


def load(kind: str) -> Attack:
    """The attack of that kind."""
    attack: Attack = importlib.import_module(f"attack.{kind}").attack
    return attack


def one_case(attack: Attack, seed: int) -> Finding | None:
    """What a case finds. An error that was not foreseen is a finding too."""
    try:
        with case_limits(LONGEST):
            attack(seed)
    except Finding as finding:
        return finding
    except Exception as error:
        where = traceback.extract_tb(error.__traceback__)[-1]
        finding = Finding(f"{attack.__module__}: {type(error).__name__} in {where.name}", f"{error} (case {seed})")
        finding.__cause__ = error
        return finding
    return None


if __name__ == "__main__":
    sys.exit(main())
