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


def test_no_line_of_a_cell_begins_with_a_percent_sign():
    table = TextTable("without", "flip", rows=[("pair ann ↔ bob", "3 (100 %)")])
    folded = [line for width in range(10, 25) for line in table.lines(width)]
    assert any(line.endswith(" (100 %)") and not line.endswith("3 (100 %)") for line in folded)
    assert all("100 %" in line for line in folded if "%" in line)
