"""Text that comes from outside, on its way to people and programs."""

import json
import unicodedata

from cody.words import plain, to_json

TRICKS = [
    "\x1b[31mred", "bell\x07", "\x7f", "\x9b31m", "\u202egnp.exe", "\u2066a\u2069", "\u200b", "\ufeff", "\u2028",
    "\ud800", "\U000e0041",
]  # fmt: skip


def test_json_is_printable_and_its_values_stay_what_they_are():
    everything = "".join(chr(code) for code in range(0x11000) if not 0xD800 <= code < 0xE000)
    for document in ({everything: [everything]}, TRICKS, {"a": None, "b": [1, 2.5, True]}):
        for ascii_only in (False, True):
            text = to_json(document, ascii_only=ascii_only)
            assert text.isprintable()
            assert text.isascii() or not ascii_only
            assert json.loads(text) == document
    assert not any(unicodedata.category(letter) in ("Cc", "Cf", "Cs", "Zl", "Zp") for letter in to_json(everything))


def test_letters_that_can_be_read_stay_readable_in_json():
    assert to_json(["Ünal", "鈴木", "→"]) == '["Ünal", "鈴木", "→"]'


def test_text_for_people_is_printable():
    assert all(plain(text).isprintable() for text in TRICKS)
