"""What counts as the same text on another processor."""

import pytest

from texts import assert_same


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("random,0.10233333333333335,3", "random,0.10233333333333333,3"),
        ("the score is 0.92.", "the score is 0.91."),
        ("1,234.5 links", "1,234.6 links"),
        ("largest error 8.1e-06", "largest error 8.2e-06"),
    ],
)
def test_the_last_place_of_a_fraction_may_differ(one, other):
    assert_same(one, other)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("0.92", "0.90"),
        ("3 events", "4 events"),
        ("version 0.2.0", "version 0.3.0"),
        ("score 0.92", "logit 0.92"),
        ("0.9 0.9", "0.9"),
        ("2004-07-28 05:08", "2004-07-28 05:09"),
        ("-0.5", "0.5"),
    ],
)
def test_nothing_else_may(one, other):
    with pytest.raises(AssertionError):
        assert_same(one, other)
