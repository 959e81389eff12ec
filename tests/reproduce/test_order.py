"""The tables about the order of explainers and about seeds follow the lines that were measured."""

import csv
import sys
from pathlib import Path

import numpy as np
import pytest

sys.path.insert(0, str(Path(__file__).parents[2] / "reproduce"))
import order
import seeds
from page import replace_section


def lines(answers, flips, *, claimed=None, links=10, trained="here"):
    """Both searches on the same links: the first ones change the decision, with one event of ten."""
    return [
        {
            **{"data": "uci-forums", "model": "tgn", "trained": trained, "answers": answers, "predictions": "correct"},
            **{"event": str(event), "search": search, "policy": policy, "candidates": "10", "asked": "20", "rows": "3"},
            "claimed": str(int(event < (claimed or flips)[search])),
            "flips": str(int(event < flips[search])),
        }
        for search in order.SEARCHES
        for policy in order.POLICIES
        for event in range(links)
    ]


def test_the_gap_between_the_searches_is_that_of_their_links_and_its_interval_is_paired():
    whole = order.settings(lines(order.EXACT, {"cody": 6, "greedy": 4}))
    tree, walk, gap, (low, high) = order.compared(whole, "spatio-temporal", "flips")
    assert (tree, walk, gap) == pytest.approx((0.54, 0.36, 0.18))
    assert low < gap < high
    assert low == 0  # they differ on two links only: no sample has GreeDy ahead


def test_only_links_that_both_searches_have_explained_count():
    some = lines(order.EXACT, {"cody": 6, "greedy": 4})
    (explainers,) = order.settings(some[:-3]).values()
    assert {policy: len(of) for (_, policy), of in explainers.items()} == {"spatio-temporal": 10, "event-impact": 7}
    assert order.settings(some[:10]) == {}


def test_claims_that_do_not_hold_are_counted_and_shown():
    flips, claimed = {"cody": 6, "greedy": 4}, {"cody": 8, "greedy": 4}
    whole = order.settings(lines(order.PUBLISHED, flips, claimed=claimed))
    assert order.refuted(whole, "cody") == (0.25, 16)
    assert order.refuted(whole, "greedy") == (0.0, 8)
    row = next(line for line in order.table(whole) if "spatio-temporal" in line)
    assert "+0.180" in row
    assert "+0.360" in row  # as counted there
    assert "as published" in row


def all_cells(ours, theirs):
    """TGN: our models with exact answers, all other cells."""
    cells = [(order.HERE, order.EXACT), (order.HERE, order.PUBLISHED)]
    cells += [(order.PUBLISHED, order.EXACT), (order.PUBLISHED, order.PUBLISHED)]
    made = [
        lines(answers, theirs if place else ours, trained=trained) for place, (trained, answers) in enumerate(cells)
    ]
    return [line for some in made for line in some]


@pytest.mark.parametrize(
    ("theirs", "expected"),
    [
        ({"cody": 8, "greedy": 4}, "the two together put CoDy ahead, as in the paper"),
        ({"cody": 7, "greedy": 6}, "turn the order round"),
        ({"cody": 6, "greedy": 6}, "explain a part of the paper's order"),
        ({"cody": 3, "greedy": 6}, "neither of them, nor both, is shown to be the cause"),
    ],
)
def test_the_finding_follows_what_the_exchanges_did(theirs, expected):
    whole = order.settings(all_cells({"cody": 2, "greedy": 6}, theirs))
    first, second, third = order.finding(whole)
    assert "is -0.360" in first
    assert f"{(theirs['cody'] - theirs['greedy'] + 4) * 0.09:+.3f}" in second
    assert expected in third


def test_causes_are_given_once_all_cells_are_there(tmp_path):
    some = all_cells({"cody": 2, "greedy": 6}, {"cody": 8, "greedy": 4})
    some += [line | {"predictions": "incorrect"} for line in some]
    path = tmp_path / "order.csv"
    for measured in (some, some[:40]):
        with path.open("w", newline="") as file:
            out = csv.DictWriter(file, order.FIELDS)
            out.writeheader()
            out.writerows(measured)
        assert bool(order.causes(path)) == (measured is some)
    assert order.causes(tmp_path / "missing.csv") == {}


def test_policies_are_compared_on_the_missed_links_that_both_explained():
    missed = [line | {"predictions": "incorrect"} for line in lines(order.EXACT, {"cody": 6, "greedy": 4})]
    for line in missed:
        if line["policy"] == "event-impact":
            line["flips"] = str(int(int(line["event"]) < 8))
    (value, (low, high)) = order.between_policies(order.settings(missed))
    assert value == pytest.approx(0.18)  # two links of ten, with one event of ten
    assert low == 0
    assert value < high
    assert order.between_policies(order.settings(lines(order.EXACT, {"cody": 6, "greedy": 4}))) is None
    some = [line for line in missed if line["event"] != "7" or line["policy"] == "event-impact"]
    assert order.between_policies(order.settings(some))[0] == pytest.approx(0.1)  # one link of nine


def causes_of(lines, path):
    with path.open("w", newline="") as file:
        out = csv.DictWriter(file, order.FIELDS)
        out.writeheader()
        out.writerows(lines)
    return order.causes(path)


def test_causes_say_what_the_cells_of_the_experiment_have(tmp_path):
    some = all_cells({"cody": 2, "greedy": 6}, {"cody": 8, "greedy": 4})
    some += [line | {"predictions": "incorrect"} for line in some]
    some += [line | {"data": "collegemsg"} for line in some]
    found = causes_of(some, tmp_path / "order.csv")
    assert found.keys() == {"order", "calls", "kinds", "policies"}
    assert found["order"].startswith("approximate answers and other models: ")
    assert "is -0.360 [" in found["order"]
    assert "+0.360 [" in found["order"]
    assert found["calls"].startswith("GreeDy does not get stuck earlier"), "all cells asked as often"
    assert "trained here 1.0, trained as published 1.0" in found["kinds"]
    assert "do not bring the lead" in found["policies"]


def test_causes_do_not_say_more_than_the_cells_do(tmp_path):
    some = all_cells({"cody": 2, "greedy": 6}, {"cody": 2, "greedy": 6})
    for line in some:
        line["asked"] = "5" if line["trained"] == order.PUBLISHED else "9"
    found = causes_of(some, tmp_path / "order.csv")
    assert found["order"].startswith("not shown to be answers and models: ")
    assert found["calls"].startswith("GreeDy gets stuck earlier")


def explained(event, seed, search, rows, *, flips=1, policy="spatio-temporal", search_seed=0, kind="tgn"):
    named = (("uci-forums", kind, str(seed), search, policy, str(search_seed), str(event)), ("10", "20", rows, "1.5"))
    return dict(zip(seeds.FIELDS, (*named[0], *named[1], str(flips)), strict=True))


def test_a_difference_that_only_one_training_seed_has_is_not_certain():
    gap = np.zeros((3, 50))
    gap[0] = 1.0
    fixed, both = (seeds.drawn([gap], seeds=seeds_too, rng=np.random.default_rng(0)) for seeds_too in (False, True))
    assert np.ptp(fixed) < 1e-9
    assert both.min() == 0
    assert both.max() == 1


def test_explanations_are_compared_where_both_change_the_same_decision():
    one = [explained(event, 0, "cody", "1 2") for event in range(4)]
    other = [explained(event, 1, "cody", "2 3", flips=int(event > 0)) for event in range(4)]
    value, (low, high), share = seeds.stability([(one, other)])
    assert value == low == high == pytest.approx(1 / 3)
    assert share == 0.75
    assert seeds.overlap(one[0], other[0]) is None
    assert seeds.overlap(one[0], other[1] | {"original": "-1.5"}) is None


def test_the_section_about_seeds_can_be_made_from_lines():
    some = [
        explained(event, seed, search, f"{event} {7 + seed}", policy=policy, search_seed=search_seed, kind=kind)
        for event in range(5)
        for kind in seeds.KINDS
        for seed in seeds.SEEDS
        for search, policy, search_seed in seeds.wanted(seed)
    ]
    page = "\n".join(seeds.section(seeds.Lines(some)))
    assert "5 of uci-forums" in page
    assert "TGN 100 %" in page
    assert "0.33 [0.33, 0.33], 100 %" in page  # one event of three is the same, whatever the training seed
    assert "1.00 [1.00, 1.00], 100 %" in page


def test_sections_of_a_page_are_replaced_and_their_prose_is_wrapped(tmp_path):
    page = tmp_path / "page.md"
    page.write_text("before\n<!-- order -->\nformer\n<!-- /order -->\nafter\n")
    row, point = f"| {'x ' * 80}|", f"- {'word ' * 40}"
    replace_section(page, "order", f"{row}\n\n{point}")
    text = page.read_text()
    assert text.startswith(f"before\n<!-- order -->\n{row}\n\n- word")
    assert text.endswith("\n<!-- /order -->\nafter\n")
    assert "\n  word" in text
    assert max(len(line) for line in text.splitlines() if not line.startswith("|")) <= 120
