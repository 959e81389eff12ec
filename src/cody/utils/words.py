"""Numbers, times and text from outside, as people read and write them."""

from __future__ import annotations

import json
import math
import os
import re
from collections.abc import Callable, Sequence
from datetime import UTC, date, datetime, timedelta, tzinfo
from functools import lru_cache
from typing import Any
from unicodedata import combining, east_asian_width

from cody.errors import CallError, shortened

UNIX_TIMES = (1e8, 1e11)  # times shown as dates, 1973 to 5138; others are shown as numbers
ZONE = "CODY_TIMEZONE"  # the environment variable that names the time zone in which dates are shown and typed


ROUND_DURATIONS = {60.0: "1 min", 600.0: "10 min", 3_600.0: "1 hour", 21_600.0: "6 hours"}  # in seconds
_DAYS = {1: "1 day", 3: "3 days", 7: "1 week", 14: "2 weeks", 30: "30 days", 60: "60 days", 90: "90 days"}
_DAYS |= {180: "180 days", 365: "1 year", 730: "2 years"}
ROUND_DURATIONS |= {days * 86_400.0: name for days, name in _DAYS.items()}
PLACES = ["first", "second", "third", "fourth", "fifth", "sixth", "seventh", "eighth", "ninth", "tenth"]


def applied_to(model: str, data: str) -> str:
    """A model and its data in a heading; the data of a function that returns both are named like the function.

    >>> applied_to("tgn-collegemsg", "collegemsg"), applied_to("mine:trained", "mine:trained")
    ('tgn-collegemsg on collegemsg', 'mine:trained on data of its own')
    """
    return f"{sanitize(model, 60)} on {'data of its own' if data == model else sanitize(data, 60)}"


def ago(seconds: float) -> str:
    """A duration in the unit a person would use.

    >>> ago(59), ago(5400), ago(200_000)
    ('59 s', '90 min', '2.3 days')
    """
    for unit, size, limit in (("s", 1, 120), ("min", 60, 7200), ("hours", 3600, 172_800)):
        if seconds < limit:
            return f"{seconds / size:.0f} {unit}"
    return f"{seconds / 86_400:.1f} days"


def duration(seconds: float) -> str:
    """How long something takes, also very long.

    >>> duration(0.5), duration(75), duration(3 * 86_400), duration(1e9)
    ('0.5 s', '75 s', '3 days', '32 years')
    """
    if seconds < 10:
        return f"{seconds:.1f} s"
    units = (("s", 1, 90), ("min", 60, 5400), ("hours", 3600, 172_800), ("days", 86_400, 730 * 86_400))
    for unit, size, limit in units:
        if seconds < limit:
            return f"{seconds / size:.0f} {unit}"
    return f"{seconds / (365.25 * 86_400):,.0f} years"


UNITS = (("second", 1, 120), ("minute", 60, 7200), ("hour", 3600, 172_800), ("day", 86_400, math.inf))


def unit_of_time(seconds: float) -> tuple[str, int]:
    """The unit in which a duration is said, and how many seconds it has."""
    return next((unit, size) for unit, size, limit in UNITS if seconds < limit)


def duration_at_least(seconds: float) -> str:
    """A duration in a whole unit, not less than it is.

    >>> duration_at_least(59.2), duration_at_least(361), duration_at_least(60 * 119.5)
    ('minute', '7 minutes', '2 hours')
    """
    return _whole_units(seconds, math.ceil)


def duration_about(seconds: float) -> str:
    """A duration in a whole unit, the nearest.

    >>> duration_about(1), duration_about(840), duration_about(200_000)
    ('1 second', '14 minutes', '2 days')
    """
    return counted(_whole_units(seconds, round))


def counted(duration: str) -> str:
    """A duration with its number, also where that is 1.

    >>> counted("minute"), counted("7 minutes")
    ('1 minute', '7 minutes')
    """
    return duration if duration[0].isdigit() else f"1 {duration}"


def _whole_units(seconds: float, rounding: Callable[[float], int]) -> str:
    unit, size = unit_of_time(seconds)
    number = max(1, rounding(seconds / size))
    if (bigger := unit_of_time(number * size)) != (unit, size):  # 120 minutes are 2 hours
        unit, size = bigger
        number = max(1, rounding(seconds / size))
    if number == 60 and unit == "second":
        return "minute"
    return unit if number == 1 else f"{number} {unit}s"


def is_date(time: float) -> bool:
    return UNIX_TIMES[0] <= time < UNIX_TIMES[1]


def zone_name() -> str:
    """The time zone in which dates are shown and typed: UTC, or what the environment variable CODY_TIMEZONE names."""
    return os.environ.get(ZONE, "").strip() or "UTC"


def zone() -> tzinfo:
    return zone_named(zone_name())


@lru_cache
def zone_named(name: str) -> tzinfo:
    """The time zone of that name."""
    if name.upper() == "UTC":
        return UTC
    from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

    try:
        return ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, OSError):
        raise CallError(
            f"{ZONE}={name} is not a time zone that this machine knows; write one like Europe/Berlin, or UTC "
            "(pip install tzdata adds all of them to a machine that has none)"
        ) from None


def moment(time: float) -> str:
    """A unix time as a date in the zone that was chosen, any other time as a number.

    >>> moment(1_082_040_960.0), moment(12.5)
    ('2004-04-15 14:56', '12.5')
    """
    return datetime.fromtimestamp(time, zone()).strftime("%Y-%m-%d %H:%M") if is_date(time) else f"{time:.15g}"


def timestamp(time: float) -> str:
    """A unix time as a date with all its digits and its offset, for csv; any other time as a number.

    >>> timestamp(1_082_040_961.0), timestamp(1_082_040_961.5), timestamp(12.5)
    ('2004-04-15 14:56:01+00:00', '2004-04-15 14:56:01.500000+00:00', '12.5')
    """
    return datetime.fromtimestamp(time, zone()).isoformat(" ") if is_date(time) else f"{time:.17g}"


def enumerated(names: Sequence[str]) -> str:
    """Names in a sentence.

    >>> enumerated(["a"]), enumerated(["a", "b", "c"])
    ('a', 'a, b and c')
    """
    return " and ".join([*([", ".join(names[:-1])] if len(names) > 1 else []), *names[-1:]])


def moment_and_zone(time: float) -> str:
    """A time as `moment` has it, with the time zone, for sentences.

    >>> moment_and_zone(1_082_040_960.0), moment_and_zone(12.5)
    ('2004-04-15 14:56 UTC', '12.5')
    """
    return f"{moment(time)} {datetime.fromtimestamp(time, zone()).tzname()}" if is_date(time) else moment(time)


def from_to(first: float, last: float) -> str:
    """A period, for sentences.

    >>> from_to(1_082_040_960.0, 1_082_041_960.0)
    '2004-04-15 14:56 to 2004-04-15 15:12 UTC'
    """
    return f"{moment(first)} to {moment_and_zone(last)}"


def heading_of_times(time: float) -> str:
    """The heading of a column of times such as this one.

    >>> heading_of_times(1_082_040_960.0), heading_of_times(12.5)
    ('when (UTC)', 'when')
    """
    return f"when ({zone_name()})" if is_date(time) else "when"


def plain_number(value: float) -> str:
    """A number with at least six digits, and with an exponent only if it is huge or tiny.

    >>> plain_number(7.5), plain_number(68_940.0), plain_number(4_486_380.0)
    ('7.5', '68,940', '4,486,380')
    """
    return f"{value:,.0f}" if 1e5 <= abs(value) < 1e15 else f"{value:,.6g}"


def earlier(time: float, now: float) -> str:
    """How long before `now` a time was; times that are not dates have no unit.

    >>> earlier(1_082_040_000.0, 1_082_040_960.0), earlier(12.5, 20.0), earlier(12.5, 4_486_392.5)
    ('16 min', '7.5', '4,486,380')
    """
    return ago(now - time) if is_date(now) else plain_number(now - time)


def parse_moment(text: str) -> float:
    """A time as a person types it: a number, or a date, in the zone that was chosen (UTC) unless it names another.

    >>> parse_moment("12.5"), parse_moment("2004-04-15 14:56"), parse_moment("2004-04-15")
    (12.5, 1082040960.0, 1081987200.0)
    """
    try:
        number = float(text)
    except ValueError:
        number = math.nan
    if math.isfinite(number):
        return number
    try:
        typed = datetime.fromisoformat(text.strip())
    except ValueError:
        raise CallError(f"{text[:40]!r} is not a time; give a number, or a date like 2004-04-15 14:56") from None
    return (typed if typed.tzinfo else typed.replace(tzinfo=zone())).timestamp()


DURATION = re.compile(r"(\d+(?:\.\d+)?)\s*(s|min|h|d|w|second|minute|hour|day|week)?s?", re.IGNORECASE)
SECONDS = {"s": 1.0, "m": 60.0, "h": 3_600.0, "d": 86_400.0, "w": 604_800.0}  # by the first letter of a unit


def parse_duration(text: str) -> float:
    """A duration as a person types it, in seconds; a number alone is in the unit of the log's times.

    >>> parse_duration("1h"), parse_duration("30 minutes"), parse_duration("2d"), parse_duration("12.5")
    (3600.0, 1800.0, 172800.0, 12.5)
    """
    found = DURATION.fullmatch(text.strip())
    if found is None or not float(found[1]) > 0:
        raise CallError(f"{text[:40]!r} is not a duration; write one like 30min, 1h or 2 days, or a number")
    return float(found[1]) * SECONDS[(found[2] or "s")[0].lower()]


def end_of(text: str, parse: Callable[[str], float] = parse_moment) -> float:
    """A time as the end of a period: of a day, its last moment.

    >>> moment(end_of("2004-04-15")), moment(end_of("2004-04-15 14:56"))
    ('2004-04-15 23:59', '2004-04-15 14:56')
    """
    begin = parse(text)
    if not re.fullmatch(r"\d{4}-\d\d-\d\d", text.strip()) or text.strip() == date.max.isoformat():
        return begin
    following = date.fromisoformat(text.strip()) + timedelta(days=1)
    return parse(following.isoformat()) - 0.001  # not all days have 24 hours


def sanitize(text: object, width: int = 60) -> str:
    """Text from outside made printable, and shortened in the middle if it is too long for a table.

    >>> sanitize("a" * 30 + "@example", width=20)
    'aaaaaaaaa…aa@example'
    """
    clean = "".join(letter if letter.isprintable() else "?" for letter in str(text))
    return shortened(clean, width)


def link(src: str, dst: str, width: int = 24) -> str:
    """Two nodes, as sentences and tables name them.

    Args:
        src: Name of the source.
        dst: Name of the destination.
        width: Columns that a name may take.

    >>> link("1667", "105")
    '1667 → 105'
    """
    return f"{sanitize(src, width)} → {sanitize(dst, width)}"


def columns(text: str) -> int:
    """How many columns of a terminal a text takes: Chinese letters take two, combining marks none.

    >>> columns("Ünal"), columns("中文"), columns("e\u0301")
    (4, 4, 1)
    """
    if text.isascii():
        return len(text)
    return sum(0 if combining(letter) else 2 if east_asian_width(letter) in "WF" else 1 for letter in text)


def padded(text: str, width: int, *, right: bool = False) -> str:
    """A text with blanks, so that it takes so many columns of a terminal; `right`: the blanks come first.

    >>> padded("中文", 6) + "|", padded("7", 3, right=True)
    ('中文  |', '  7')
    """
    blanks = " " * (width - columns(text))
    return blanks + text if right else text + blanks


def to_json(document: Any, *, ascii_only: bool = False, compact: bool = False) -> str:
    r"""One line of JSON whose characters are all printable, so that no name can fool a terminal.

    Other characters (control characters, changes of direction, zero-width spaces) are written as escapes, which every
    JSON reader turns back, so the values stay the same. NaN and infinities raise a ValueError.

    >>> print(to_json({"name": "Ünal\u202e\x7f"}))
    {"name": "Ünal\u202e\u007f"}
    """
    separators = (",", ":") if compact else None
    text = json.dumps(document, ensure_ascii=ascii_only, allow_nan=False, separators=separators)
    if text.isprintable():
        return text
    return "".join(letter if letter.isprintable() else _escaped(letter) for letter in text)


def _escaped(letter: str) -> str:
    units = letter.encode("utf-16-be", "surrogatepass").hex()
    return "".join(f"\\u{units[start : start + 4]}" for start in range(0, len(units), 4))


def count(number: int, thing: str) -> str:
    """A number of things.

    >>> count(1, "event"), count(1200, "event")
    ('1 event', '1,200 events')
    """
    return f"{number:,} {thing}" + ("" if number == 1 else "s")


def part_of(number: int, every: int, thing: str) -> str:
    """Some of a number of things.

    >>> part_of(2, 64, "event"), part_of(6, 6, "event"), part_of(1, 1, "event")
    ('2 of 64 events', 'all 6 events', 'the one event')
    """
    if number == every == 1:
        return f"the one {thing}"
    return f"all {count(every, thing)}" if number == every else f"{number:,} of {count(every, thing)}"


def in_words(place: int) -> str:
    """A place in an order, the first ten as words.

    >>> in_words(3), in_words(37)
    ('third', '37th')
    """
    return PLACES[place - 1] if 1 <= place <= len(PLACES) else ordinal(place)


def ordinal(number: int) -> str:
    """A place in an order.

    >>> ordinal(1), ordinal(12), ordinal(22), ordinal(103)
    ('1st', '12th', '22nd', '103rd')
    """
    teen = number % 100 in (11, 12, 13)
    return f"{number:,}{'th' if teen else {1: 'st', 2: 'nd', 3: 'rd'}.get(number % 10, 'th')}"
