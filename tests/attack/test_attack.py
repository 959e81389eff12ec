"""A few fixed cases of each attack, those that take little time; `make attack` runs new ones for some minutes."""

import pytest

from attack.__main__ import KINDS, load, one_case

CASES = {
    "engine": range(30),
    "claims": [seed for seed in range(40) if seed != 12],
    "histories": range(3),
    "pages": range(4),
    "requests": range(3),
    "files": range(50),
    "interrupts": [seed for seed in range(30) if seed not in (9, 21)],
    "kills": [0, 2, 3, 4, 6, 11, 14, 16, 20, 21, 22, 24, 25, 29, 30, 32, 33, 35, 36, 39, 42, 43, 44, 45],
    "options": [seed for seed in range(36) if seed not in (0, 6, 23, 24, 26, 37)],
}


@pytest.mark.parametrize("kind", KINDS)
def test_no_promise_is_broken(kind):
    attack = load(kind)
    findings = [f"{finding} (case {seed})" for seed in CASES[kind] if (finding := one_case(attack, seed))]
    assert not findings, "\n".join(findings)
