"""The page of results: its sections are made from records, and its verdicts follow the figures."""

import gzip
import subprocess
import sys
from itertools import combinations
from pathlib import Path

import numpy as np
import pytest

from cody.errors import DataError
from some_records import random_records, record

REPRODUCE = Path(__file__).parents[2] / "reproduce"
sys.path.insert(0, str(REPRODUCE))
import missing as lacking  # noqa: E402
import reasons  # noqa: E402
import report  # noqa: E402
from claims import FAILS, HOLDS, PARTLY, Settings, necessity, of_iterations, of_kinds, sensitivity  # noqa: E402

POLICIES = ("random", "temporal", "spatio-temporal", "event-impact")
EVERYONE = ["pbone", "pgexplainer", "random", "tgnnexplainer"]
NEW = ["tempme", "scout-spatio-temporal", "scout-event-impact"]
EVERYONE += [f"{search}-{policy}" for search in ("cody", "greedy", "greedy-then-cody") for policy in POLICIES]


def settings(shares):
    """TGN and TGAT on one data set; each explainer changes that share of ten decisions, with one event of ten."""
    made = {
        name: [record(event=i, explainer=name, necessary=i < 10 * share, rows=(1,)) for i in range(10)]
        for name, share in shares.items()
    }
    return Settings(
        {(model, "uci-messages", kind): made for model in ("tgn", "tgat") for kind in ("correct", "incorrect")}
    )


@pytest.mark.parametrize(("cody", "expected"), [(0.8, HOLDS), (0.5, FAILS), (0.2, FAILS)])
def test_whether_cody_is_ahead_of_greedy_follows_the_records(cody, expected):
    shares = {name: cody if name.startswith("cody") else 0.5 for name in EVERYONE}
    best, ahead, *_ = necessity(settings(shares | {"tgnnexplainer": 0.1}))
    assert ahead[1] == expected
    assert f"{100 * (cody / 0.5 - 1):+.0f} %" in ahead[2]
    assert best[1] == (HOLDS if cody > 0.5 else best[1])


def test_what_is_equally_easy_on_both_kinds_is_not_easier():
    first, _ = of_kinds(settings(dict.fromkeys(EVERYONE, 0.5)))
    assert (first[1], first[2]) == (FAILS, "fidelity+ is higher in 0 of 32 cases (explainer, model, data set)")


def test_overtaking_is_counted_policy_by_policy():
    found = {f"greedy-{policy}": [record(event=i, necessary=i < 3) for i in range(10)] for policy in POLICIES}
    found |= {
        f"cody-{policy}": [record(event=i, first=500 if i < 9 else None) for i in range(10)] for policy in POLICIES
    }
    ((_, verdict, figures),) = of_iterations(found)
    assert verdict == HOLDS
    assert "temporal 0.00, 0.90, 0.90 (GreeDy 0.30; difference" in figures
    found["cody-random"] = [record(event=i) for i in range(10)]
    ((_, verdict, figures),) = of_iterations(found)
    assert (verdict, figures[:66]) == (PARTLY, "0 of 4 were ahead within 300 sets, 3 are within 1,200, 3 of them c")


def test_of_factual_sets_the_parts_of_the_distance_are_named():
    """CoDy changes 8 of 10 decisions with 2 of 10 events; T-GNNExplainer 4 with 15 of 30."""
    found = {name: [record(event=i, necessary=i < 8) for i in range(10)] for name in EVERYONE}
    found["tgnnexplainer"] = [
        record(event=i + 50, necessary=i < 4, rows=tuple(range(15)), candidates=30) for i in range(10)
    ]
    text = reasons.of_factual(Settings({("tgn", "uci-messages", "correct"): found}))
    gap, counted = 0.8 * 0.8 - 0.4 * 0.5, 0.4 * (0.5 - 15 / 64)
    assert f"is {gap:.3f} behind CoDy: 0.400 of it because it changes fewer decisions" in text
    assert f"{gap - 0.4 - counted:.3f} because its sets are larger (15 events, CoDy's 2)" in text
    assert f"{counted:.3f} because they are counted" in text


def of_kinds_of(correct, incorrect):
    """An explainer that changes so many of 100 correct and incorrect predictions."""
    kinds = {"correct": correct, "incorrect": incorrect}
    return {
        ("tgn", "uci-messages", kind): {"pbone": [record(event=i, kind=kind, necessary=i < n) for i in range(100)]}
        for kind, n in kinds.items()
    }


@pytest.mark.parametrize(("incorrect", "expected"), [(48, "all within chance"), (10, "not all within chance")])
def test_exceptions_are_named_and_compared_with_chance(incorrect, expected):
    text = reasons.of_exceptions(Settings(of_kinds_of(50, incorrect)))
    assert f"pbone, TGN, uci-messages {(incorrect - 50) / 100:+.3f} [" in text
    assert f": {expected}. In the paper" in text
    assert reasons.of_exceptions(Settings(of_kinds_of(50, 51))) is None


def test_what_the_paper_itself_has_is_read_from_its_tables():
    higher, count = reasons.in_paper()
    assert (higher, count) == (42, 57)  # counted by hand in src/cody/paper/*_fidelity.csv
    found = {
        ("tgn", data, kind): {
            "cody-spatio-temporal": [record(event=i, necessary=i < n, data=data, kind=kind) for i in range(10)]
        }
        for data in ("uci-messages", "wikipedia")
        for kind, n in (("correct", 2), ("incorrect", 3))
    }
    assert "CoDy, TGN 1.5, 1.5 (paper 2.1, 2.9)" in reasons.by_model(Settings(found))


def test_a_policy_that_is_ahead_on_some_data_only_is_said_to_be():
    found = {
        ("tgn", data, "incorrect"): {
            "cody-spatio-temporal": [record(event=i, data=data, necessary=i < nearest) for i in range(10)],
            "cody-event-impact": [record(event=i, data=data, necessary=i < impact) for i in range(10)],
        }
        for data, nearest, impact in (("uci-messages", 6, 5), ("wikipedia", 2, 5))
    }
    text = reasons.by_data(Settings(found))
    assert "uci-messages -0.080 [" in text
    assert "wikipedia +0.240 [" in text
    assert "The paper's own lead (TGN) is +0.023, here +0.080 [" in text


def test_where_sets_are_not_sufficient_is_shown_next_to_the_papers_figures():
    found = {
        ("tgn", data, "incorrect"): {
            "cody-event-impact": [record(event=i, data=data, sufficient=i < kept) for i in range(100)]
        }
        for data, kept in (("uci-messages", 100), ("wikipedia", 100))
    }
    assert "wikipedia" in reasons.of_sufficiency(Settings(found))  # 0.8 is below 0.82
    found["tgn", "uci-messages", "incorrect"]["cody-event-impact"] = [record(event=1, rows=(1,))]
    text = reasons.of_sufficiency(Settings(found))
    assert "incorrect predictions of wikipedia only, elsewhere at least 0.90" in text
    assert "event-impact, 0.80 [0.80, 0.80] (paper 0.85): fidelity− is 1.00 (paper 0.90), and 20 %" in text


def test_similarity_by_chance_is_that_of_all_pairs_of_sets():
    def similarity(one, other):
        return len({*one} & {*other}) / len({*one} | {*other})

    for one, other in ((1, 1), (2, 3), (4, 2), (5, 5)):
        every = [similarity(a, b) for a in combinations(range(5), one) for b in combinations(range(5), other)]
        assert reasons.expected_jaccard(one, other, 5) == pytest.approx(np.mean(every))
    assert reasons.expected_jaccard(0, 0, 5) == 1


def test_a_step_that_links_cannot_tell_from_nothing_is_called_that():
    before = [record(event=i, necessary=i < 10) for i in range(100)]
    after = [record(event=i, necessary=1 < i < 13) for i in range(100)]
    text = reasons.of_step({64: before, 96: after}, report.fidelity_plus)
    assert "96 instead of 64 is better on 3 and worse on 2 of 100 links: too few to tell" in text
    changes = np.array([-1] * 2 + [0] * 95 + [1] * 3)
    assert f"a step of +0.010 takes about {reasons.links_needed(changes)} links" in text
    assert reasons.links_needed(np.tile(changes, 10)) == "1,919"  # (1.96 / 0.01)² · 0.05: hardly other for more links
    many = [record(event=i, necessary=i < 40) for i in range(100)]
    assert "worse on 0 of 100 links: +0.300 [" in reasons.of_step({64: before, 96: many}, report.fidelity_plus)


def test_runs_with_other_options_are_compared_on_common_links():
    setting = {("tgat", "uci-messages", "correct"): {"cody-spatio-temporal": [record(event=i) for i in range(5)]}}
    runs = {0.75: [record(event=i) for i in range(3, 9)]}, {48: [record(event=i) for i in range(9)]}
    alphas, sizes = sensitivity(Settings(setting), *runs)
    assert {value: [one.event for one in some] for value, some in alphas.items()} == {2 / 3: [3, 4], 0.75: [3, 4]}
    assert list(sizes) == [48, 64]
    more = [record(event=i) for i in range(8)]
    assert len(sensitivity(Settings(setting), *runs, more)[0][2 / 3]) == 5
    assert sensitivity(Settings({}), *runs) == ({}, {})


def test_sets_that_only_greedy_finds_are_compared_with_how_far_cody_came():
    found = {"greedy-temporal": [record(event=i, necessary=i < 3, rows=range(9)) for i in range(10)]}
    found["cody-temporal"] = [record(event=i, necessary=i < 1, rows=range(4)) for i in range(10)]
    assert "temporal 2 links, 9 events (CoDy comes closest with 4)" in reasons.of_iterations(found)
    assert reasons.of_iterations({"cody-temporal": found["cody-temporal"]}) is None


def test_explainers_that_explained_different_links_are_not_compared():
    setting = ("tgn", "uci-messages", "correct")
    found = {name: [record(event=i) for i in range(5)] for name in ("pbone", "random")}
    assert report.complete({setting: found | {"tempme": [record(event=9)]}}) == {setting: found}
    for other in ([record(event=i) for i in range(1, 6)], [record(event=i, model_identity="n") for i in range(5)]):
        with pytest.raises(DataError, match="pbone and random explained different links"):
            report.complete({setting: found | {"random": other}})


def test_an_explainer_is_missing_until_each_kind_has_all_its_links():
    some = [record(event=i, kind=kind, explainer="pbone") for i in range(3) for kind in ("correct", "incorrect")]
    some += [record(event=i, explainer="random") for i in range(3)]
    names, kinds = ["random", "pbone", "tempme"], ["correct", "incorrect"]
    assert lacking.missing(names, kinds, 3, some) == ["random", "tempme"]
    assert lacking.missing(names, kinds[:1], 3, some) == ["tempme"]
    assert lacking.missing(names, kinds, 4, some) == names


def test_compressed_records_are_continued_with_the_same_weights_only(tmp_path):
    same = lacking.identity("tgn-collegemsg")
    for name, identity in (("same", same), ("other", "another")):
        with gzip.open(tmp_path / f"{name}.jsonl.gz", "wt") as file:
            file.write(record(model_identity=identity).to_json() + "\n")
        lacking.unpack(tmp_path / f"{name}.jsonl", "tgn-collegemsg")
    lacking.unpack(tmp_path / "none.jsonl", "tgn-collegemsg")
    assert [path.name for path in tmp_path.glob("*.jsonl")] == ["same.jsonl"]


def test_records_of_other_weights_do_not_count(tmp_path):
    weights = [lacking.identity("tgn-collegemsg"), "another"]
    lines = [record(event=50 + i, model_identity=one).to_json() for i, one in enumerate(weights)]
    (tmp_path / "both.jsonl").write_text("\n".join(lines) + "\n")
    assert [one.event for one in lacking.records_about(tmp_path / "both.jsonl", "tgn-collegemsg")] == [50]
    assert lacking.records_about(tmp_path / "none.jsonl", "tgn-collegemsg") == []


def test_every_claim_on_the_page_that_does_not_hold_has_a_cause_with_a_figure():
    page = (REPRODUCE.parent / "results" / "laboratory.md").read_text(encoding="utf-8")
    rows = [line.split(" | ") for line in page.split("| the paper |")[1].split("<!-- /paper -->")[0].splitlines()[2:]]
    assert len(rows) > 15
    for _, verdict, _, cause in rows:
        assert cause == "– |" if verdict == HOLDS else any(letter.isdigit() for letter in cause), cause


def test_the_report_fills_its_page(tmp_path):
    rng = np.random.default_rng(0)
    for prefix in ("", "test-"):
        for model in ("tgn", "tgat"):
            for data in ("uci-messages", "wikipedia"):
                made = [
                    one
                    for kind in ("correct", "incorrect")
                    for name in [*EVERYONE, *NEW]
                    for one in random_records(
                        rng, 8, data=data, model=f"runs/{model}-{data}", kind=kind, explainer=name
                    )
                ]
                with gzip.open(tmp_path / f"{prefix}{model}-{data}.jsonl.gz", "wt") as file:
                    file.writelines(one.to_json() + "\n" for one in made)
    page = tmp_path / "page.md"
    page.write_text(
        "before\n<!-- paper -->\nformer\n<!-- /paper -->\nbetween\n<!-- test -->\nformer\n<!-- /test -->\nafter\n"
    )
    command = [sys.executable, REPRODUCE / "report.py", "--folder", tmp_path, "--page", page]
    subprocess.run(command, check=True, capture_output=True, timeout=500)
    text = page.read_text()
    assert "former" not in text
    assert "| the paper | verdict | here |" in text
    assert "greedy-then-cody-event-impact over cody-event-impact: AUFSC+" in text
    for section in text.split("between"):
        assert "scout-spatio-temporal over cody-spatio-temporal: AUFSC+" in section
        assert all(f"\n| {name} | 8 |" in section for name in NEW)
    assert text.startswith("before\n")
    assert text.endswith("after\n")
    assert all(name in (tmp_path / "tables-paper.csv").read_text() for name in NEW)
    assert (tmp_path / "figures" / "fidelity-sparsity-tgat.svg").exists()
