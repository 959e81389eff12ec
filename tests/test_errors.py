"""Messages repeat what files and other libraries say, and stay one line that a person can read."""

import pickle

import pytest

from cody.errors import BudgetError, CallError, CodyError, DataError, ModelError, first_line

TRICKS = [
    "two\nlines", "over\rwritten", "tab\tbed", "nul\0", "\x1b[2Jcleared", "bell\x07", "\x7f", "\x9b31m",
    "\u202egnp.exe", "\u2066a\u2069", "\u200bhidden", "\ufeff", "\u2028", "\u2029", "\x85", "\ud800", "\U000e0041",
    "\xa0",
]  # fmt: skip
KINDS = [CodyError, CallError, DataError, ModelError, BudgetError]


@pytest.mark.parametrize("kind", KINDS)
def test_a_message_is_one_printable_line_whatever_it_repeats(kind):
    for trick in TRICKS:
        assert str(kind(f"there is no {trick}; give another")).isprintable()
        assert str(kind(trick)).isprintable()


def test_what_cannot_be_seen_is_shown_as_python_would_write_it():
    assert str(DataError("a\nb\x1b[0m\u202e\U000e0041\ud800")) == r"a\nb\x1b[0m\u202e\U000e0041\ud800"


def test_what_can_be_read_stays_as_it_is():
    text = "„Ünal“ → 鈴木 … it's “fine” \\ 'as' \"it\" is 🙂"
    assert str(CallError(text)) == text


def test_a_message_has_a_bounded_length_and_keeps_both_ends():
    for repeated in ("x" * 10**6, "\x1b" * 10**6, "x" * 990):
        text = str(ModelError(f"model.json has schema {repeated}; this version reads 'cody/model/1'"))
        assert len(text) == 1_000
        assert text.startswith("model.json has schema ")
        assert text.endswith("; this version reads 'cody/model/1'")
        assert "…" in text
    assert str(ModelError("x" * 1_000)) == "x" * 1_000


def test_a_message_within_a_message_is_not_escaped_again():
    inner = DataError("a\tb")
    assert str(DataError(f"file: {inner}")) == r"file: a\tb"


@pytest.mark.parametrize("kind", KINDS)
def test_an_error_from_another_process_says_the_same(kind):
    for error in (kind("a\nb"), kind("x" * 2_000), kind("first", "second"), kind()):
        assert str(pickle.loads(pickle.dumps(error))) == str(error)


def test_lines_of_our_own_are_given_one_by_one():
    assert str(ModelError("these failed", "one\ntwo", "three")) == "these failed\none\\ntwo\nthree"


def test_of_what_a_library_says_the_first_line_is_kept():
    assert first_line(ValueError("\n  no such page: 7\nDeserializing failed.\n")) == "no such page: 7"
    assert first_line(OSError(28, "No space left on device", "file")) == "No space left on device"
    assert first_line(OSError("Couldn't deserialize\nthrift")) == "Couldn't deserialize"
    assert first_line(RuntimeError()) == first_line(RuntimeError("\n \n")) == "RuntimeError"
    assert len(first_line(ValueError("x" * 10**6))) == 200
    assert first_line(ValueError("nul: \0")) == r"nul: \x00"
