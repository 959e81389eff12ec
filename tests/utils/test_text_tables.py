"""Tables that fit the width of a terminal."""

from cody.utils.tables import TextTable


def made():
    table = TextTable("#event", "link", "when", "#score", whole=[2])
    table.add_row("580", "max@of…example → noa@of…example", "2025-04-04 20:55", "-0.0721")
    return table


def test_what_is_better_kept_whole_is_folded_where_nothing_else_can_be():
    assert list(made().lines(50)) == [
        "event  link              when                score",
        "  580  max@of…example →  2025-04-04 20:55  -0.0721",
        "       noa@of…example",
    ]
    assert list(made().lines(44)) == [
        "event  link              when          score",
        "  580  max@of…example →  2025-04-04  -0.0721",
        "       noa@of…example    20:55",
    ]


def test_numbers_are_never_folded():
    assert all("580" in line or "-0.0721" not in line for line in made().lines(10))
