"""Text that comes from outside, on its way to people and programs."""

import json
import unicodedata

import pytest

from cody.errors import CallError
from cody.utils.words import end_of, heading_of_times, moment, moment_and_zone, parse_moment, sanitize, to_json

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
    assert all(sanitize(text).isprintable() for text in TRICKS)


MORNING = 1_090_994_880.0  # 2004-07-28 06:08 UTC


def test_dates_are_shown_and_typed_in_utc_unless_a_zone_is_chosen(monkeypatch):
    monkeypatch.delenv("CODY_TIMEZONE", raising=False)
    assert (moment(MORNING), moment_and_zone(MORNING)) == ("2004-07-28 06:08", "2004-07-28 06:08 UTC")
    assert heading_of_times(MORNING) == "when (UTC)"
    monkeypatch.setenv("CODY_TIMEZONE", "Europe/Berlin")
    assert (moment(MORNING), moment_and_zone(MORNING)) == ("2004-07-28 08:08", "2004-07-28 08:08 CEST")
    assert heading_of_times(MORNING) == "when (Europe/Berlin)"
    assert (moment(12.5), moment_and_zone(12.5), heading_of_times(12.5)) == ("12.5", "12.5", "when")


@pytest.mark.parametrize("zone", ["UTC", "Europe/Berlin", "America/New_York", "Asia/Kolkata"])
def test_what_is_shown_can_be_typed_again(monkeypatch, zone):
    monkeypatch.setenv("CODY_TIMEZONE", zone)
    for time in (MORNING, 1_100_000_040.0):
        assert parse_moment(moment(time)) == time
    assert parse_moment("2004-07-28T06:08+00:00") == MORNING  # a zone of its own counts


def test_a_day_ends_when_the_next_one_begins(monkeypatch):
    for zone, hours in (("UTC", 24), ("Europe/Berlin", 23)):  # clocks were put forward
        monkeypatch.setenv("CODY_TIMEZONE", zone)
        assert end_of("2025-03-30") - parse_moment("2025-03-30") == pytest.approx(hours * 3600, abs=0.01)
    assert end_of("2025-03-30 10:00") == parse_moment("2025-03-30 10:00")
    assert end_of("9999-12-31") >= parse_moment("9999-12-31")


def test_a_zone_that_does_not_exist_is_refused(monkeypatch):
    for name in ("Europe/Bielefeld", "../etc/passwd", "/etc/localtime"):
        monkeypatch.setenv("CODY_TIMEZONE", name)
        with pytest.raises(CallError, match="is not a time zone that this machine knows"):
            moment(MORNING)
    monkeypatch.setenv("CODY_TIMEZONE", "")
    assert moment_and_zone(MORNING).endswith("UTC")
