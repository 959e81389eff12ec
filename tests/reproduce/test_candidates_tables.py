"""The tables about choices of candidates follow the lines that were measured."""

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[2] / "reproduce"))
import candidates


def line(choice, event, size, *, seconds=1.0, curve="- 4 4 3 3 3 3 3 3", model="tgn", predictions="correct"):
    values = ("made-up", model, predictions, str(event), choice, "64", "300", size, str(seconds), curve)
    return dict(zip(candidates.FIELDS, values, strict=True))


LINES = [
    *(line(candidates.OLD, event, "" if event % 2 else "32") for event in range(10)),
    *(line(candidates.DEFAULT, event, "16", seconds=3.0) for event in range(12)),
]


def test_a_score_is_that_of_the_size_and_nothing_without_an_answer():
    assert [candidates.score(size) for size in ("", "-", "16", "64", "200")] == [0.0, 0.0, 0.75, 0.0, 0.0]


def test_shares_scores_and_differences_are_those_of_the_links_that_all_have():
    rows = list(candidates.table(LINES, "made-up"))
    assert "10 links" in rows[0]
    old, default = (next(row for row in rows if row.startswith(f"| {name} ")) for name in (candidates.OLD, "default"))
    assert "0.50 / 0.250" in old
    assert "1.00 / 0.750" in default
    gap, (low, high) = candidates.difference(
        candidates.by_setting(LINES, "made-up"), candidates.DEFAULT, candidates.OLD
    )
    assert gap == pytest.approx(0.5)
    assert low < gap < high


def test_the_default_stands_beside_the_paper_s_searches_in_one_table_and_those_not_among_the_candidates():
    paper = [line(name, event, "48") for name in (candidates.CODY, candidates.GREEDY) for event in range(10)]
    rows = list(candidates.compared([*LINES, *paper], ["made-up"]))
    assert [row.split(" | ")[0].strip("| ") for row in rows[2:]] == list(candidates.COMPARED.values())
    assert "| 1.00 / 0.250 | 1.00 / 0.250 |  | 300 |" in rows[2]
    assert "| 1.00 / 0.750 | 1.00 / 0.750 | +0.500 [+0.500, +0.500] | 300 |" in rows[-1]
    assert not any("of the paper" in row for row in candidates.table([*LINES, *paper], "made-up"))


def test_the_cost_is_a_ratio_on_the_same_links():
    assert "| 3.0x | 3.0x |" in list(candidates.cost(LINES, "made-up"))[-1]


def test_the_cost_of_a_model_is_that_of_all_its_links():
    other = [
        line(name, 0, "3", seconds=seconds, model="tgat") for name, seconds in ((candidates.OLD, 2), ("default", 10))
    ]
    rows = [row.split(" | ")[:3] for row in candidates.cost([*LINES, *other], "made-up")][2:]
    assert [row[0] for row in rows] == ["| TGN, predicted", "| TGAT, predicted", "| **TGN**", "| **TGAT**", "| **all**"]
    assert [row[1:] for row in rows[2:]] == [["3.0x", "3.0x"], ["5.0x", "5.0x"], ["3.0x", "3.3x"]]


def test_the_curve_is_what_was_found_after_so_many_evaluations():
    lines = [line(name, event, "3") for name in candidates.LONG for event in range(4)]
    row = list(candidates.curve(lines, "made-up"))[-1]
    assert row.split(" | ")[1:4] == ["0.00 / 0.000", "1.00 / 0.938", "1.00 / 0.938"]
