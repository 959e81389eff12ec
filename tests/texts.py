"""Comparing texts that hold numbers. Other processors round the last digits of a computation differently."""

import re

FRACTION = re.compile(r"(?<![\w.])[-+−]?\d[\d,]*\.\d+(?:e[-+]?\d+)?(?!\.?\w)")


def assert_same(found, expected):
    """The same words and whole numbers; fractions may differ by one in the last place, or by a billionth of them."""
    assert FRACTION.sub("#", found) == FRACTION.sub("#", expected)
    for one, other in zip(FRACTION.findall(found), FRACTION.findall(expected), strict=True):
        assert abs(_value(one) - _value(other)) <= max(_place(one), _place(other), 1e-9 * abs(_value(other))), found


def _value(text):
    return float(text.replace(",", "").replace("−", "-"))


def _place(text):
    """The value of one in the last place, and a little for rounding."""
    digits, _, power = text.partition("e")
    return 1.001 * 10.0 ** (int(power or 0) - len(digits.partition(".")[2]))
