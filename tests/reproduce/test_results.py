"""The ten sentences: every figure is that of the files in results/, and the script notices one that is not."""

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[2] / "reproduce"))
from results import PAGE, compared, sentences

TEXT = PAGE.read_text(encoding="utf-8")


def disagreements(page):
    return [(claim.sentence, here, known) for claim, here, known in compared(page) if here != known]


def test_every_figure_of_the_ten_sentences_is_that_of_the_files():
    assert sorted(sentences(TEXT)) == list(range(1, 11))
    assert disagreements(TEXT) == []


@pytest.mark.parametrize(
    ("was", "becomes", "sentence"),
    [
        ("answers 94 %", "answers 95 %", 1),
        ("GreeDy by 0.099", "GreeDy by 0.098", 3),
        ("behind, by 0.047 [0.025", "behind, by 0.047 [0.026", 4),
        ("in nine of ten", "in eight of ten", 9),
        ("on 0.72", "on 0.73", 10),
        ("on 0.07 [0.04, 0.12]", "on few", 10),  # nothing like it any more
        ("rarely change", "rarely (in 3 % of cases) change", 6),  # a figure that comes from nowhere
    ],
)
def test_a_figure_that_is_another_one_is_noticed(was, becomes, sentence):
    assert was in TEXT
    assert {number for number, *_ in disagreements(TEXT.replace(was, becomes))} == {sentence}
