"""Metrics against values worked out by hand, and against a second implementation that is slow and plain."""

import time
from dataclasses import replace

import numpy as np
import pytest

from cody.errors import CallError
from cody.paper.tables import LAYOUTS
from cody.study import metrics
from cody.study.metrics import interval, jaccard, summary
from some_records import random_records, record

MEASURES = [measure for layout in LAYOUTS for panel in layout.panels for measure in panel]  # a new one is asked, too
OTHERS = [metrics.delta_logit, metrics.delta_probability, metrics.found_share]
ALL = [*dict.fromkeys(measure.metric for measure in MEASURES), *OTHERS]

FOUR = [
    record(event=1, rows=(1,), candidates=10, necessary=True, sufficient=True, evaluations=10, seconds=1.0),
    record(event=2, rows=(1, 2, 3), candidates=10, necessary=True, sufficient=False, evaluations=20, seconds=2.0),
    record(event=3, rows=(1, 2), candidates=4, necessary=False, sufficient=False, evaluations=30, seconds=3.0),
    record(event=4, rows=(), candidates=8, necessary=False, sufficient=True, evaluations=40, seconds=6.0, first=7),
]


def test_every_metric_has_the_value_worked_out_by_hand():
    found = summary(FOUR)
    assert (found.links, found.records) == (4, 4)
    assert found.sparsity == pytest.approx((0.1 + 0.3 + 0.5 + 0.0) / 4)
    assert found.fidelity_plus == 0.5
    assert found.fidelity_minus == 0.5
    assert found.characterization == 0.5
    assert found.aufsc_plus == pytest.approx((0.9 + 0.7) / 4)
    assert found.aufsc_minus == pytest.approx((0.9 + 1.0) / 4)
    assert found.evaluations == 25
    assert found.seconds == 3
    assert found.found == 0.75


def test_what_is_left_of_a_decision_is_measured_on_its_own_side():
    group = [record(event=1, original=2.0, only=0.5), record(event=2, original=-1.0, only=-3.0)]
    assert metrics.delta_logit(group) == pytest.approx((-1.5 + 2.0) / 2)
    score = [1 / (1 + np.exp(-logit)) for logit in (2.0, 0.5, -1.0, -3.0)]
    expected = ((score[1] - score[0]) - (score[3] - score[2])) / 2
    assert metrics.delta_probability(group) == pytest.approx(expected)
    found = summary(group)
    assert (found.delta_logit, found.delta_probability) == (
        metrics.delta_logit(group),
        metrics.delta_probability(group),
    )


def test_the_published_relation_between_area_and_fidelity_holds():
    """Wikipedia, incorrect, CoDy-spatio-temporal: fidelity+ 0.53, sparsity 0.05, AUFSC+ 0.50."""
    group = [record(event=i, necessary=i < 53, rows=(1,), candidates=20) for i in range(100)]
    assert round(metrics.aufsc_plus(group), 2) == 0.50


def test_characterization_is_the_harmonic_mean_and_zero_when_either_is_zero():
    group = [record(event=i, necessary=i < 2, sufficient=i < 8) for i in range(10)]
    assert metrics.characterization(group) == pytest.approx(2 / (1 / 0.2 + 1 / 0.8))
    assert metrics.characterization([record(necessary=False, sufficient=True)]) == 0
    assert metrics.characterization([record(necessary=True, sufficient=False)]) == 0
    assert metrics.characterization([record(necessary=False, sufficient=False)]) == 0


def test_a_logit_of_zero_is_no_link():
    assert metrics.fidelity_plus([record(original=0.5, without=0.0)]) == 1
    assert metrics.fidelity_plus([record(original=-0.5, without=0.0)]) == 0
    assert metrics.fidelity_minus([record(original=0.0, only=-1.0)]) == 1


def area(pairs):
    """∫₀¹ (share of all links that are satisfied with sparsity ≤ s) ds, step by step."""
    steps = sorted({0.0, 1.0, *(size for size, _ in pairs)})
    heights = [sum(satisfied and size <= step for size, satisfied in pairs) / len(pairs) for step in steps]
    return sum(height * (end - start) for height, start, end in zip(heights, steps[:-1], steps[1:], strict=False))


@pytest.mark.parametrize("seed", range(20))
def test_areas_equal_those_under_the_step_curves(seed):
    group = random_records(np.random.default_rng(seed))
    plus = [(one.sparsity, one.is_necessary) for one in group]
    minus = [(one.sparsity, one.is_sufficient) for one in group]
    assert metrics.aufsc_plus(group) == pytest.approx(area(plus))
    assert metrics.aufsc_minus(group) == pytest.approx(area(minus))


@pytest.mark.parametrize("seed", range(5))
def test_fidelities_equal_the_papers_formulas(seed):
    group = random_records(np.random.default_rng(seed))
    same = [(one.original > 0) == (one.without > 0) for one in group]
    assert metrics.fidelity_plus(group) == pytest.approx(1 - sum(same) / len(group))
    kept = [(one.original > 0) == (one.only > 0) for one in group]
    assert metrics.fidelity_minus(group) == pytest.approx(sum(kept) / len(group))


@pytest.mark.parametrize("metric", ALL, ids=lambda metric: metric.__name__)
def test_nothing_to_measure_is_none(metric):
    assert metric([]) is None
    assert interval(metric, [], rng=np.random.default_rng(0)) is None


def test_where_the_time_of_one_record_was_not_taken_the_mean_is_none():
    assert metrics.mean_seconds([record(seconds=1.0), record(seconds=None)]) is None


def test_a_link_explained_twice_is_one_link():
    twice = summary([record(event=1, seed=0), record(event=1, seed=1)])
    assert (twice.links, twice.records) == (1, 2)


def test_a_link_without_candidates_counts_as_sparsity_zero():
    assert metrics.sparsity([record(candidates=0, rows=()), record(candidates=2, rows=(1,))]) == 0.25


def ranked(records, seed=0):
    """The records as if they were about rankings."""
    ranks = np.random.default_rng(seed).integers(1, 500, size=(len(records), 2)).tolist()
    return [replace(one, rank=rank, rank_after=after) for one, (rank, after) in zip(records, ranks, strict=True)]


@pytest.mark.parametrize("metric", ALL, ids=lambda metric: metric.__name__)
def test_intervals_equal_those_of_a_loop_over_samples(metric):
    group = ranked(random_records(np.random.default_rng(1), count=30))
    low, high = interval(metric, group, rng=np.random.default_rng(7), samples=200, level=0.9)
    drawn = np.random.default_rng(7).integers(0, 30, size=(200, 30))
    looped = [metric([group[i] for i in sample]) for sample in drawn.tolist()]
    assert (low, high) == pytest.approx(np.quantile(looped, [0.05, 0.95]))
    assert low < metric(group) < high


@pytest.mark.parametrize("at_once", [70, 10])  # counts: those of two samples; not even those of one
def test_intervals_do_not_depend_on_how_many_samples_are_held_at_once(monkeypatch, at_once):
    group = random_records(np.random.default_rng(1), count=30)
    whole = interval(metrics.aufsc_plus, group, rng=np.random.default_rng(7), samples=100)
    monkeypatch.setattr(metrics, "AT_ONCE", at_once)
    parts = interval(metrics.aufsc_plus, group, rng=np.random.default_rng(7), samples=100)
    assert parts == pytest.approx(whole, rel=1e-12)  # other shapes are summed in another order


def test_intervals_cover_the_truth_about_as_often_as_they_say():
    rng = np.random.default_rng(0)
    covered = 0
    for _ in range(200):
        group = [record(event=i, necessary=bool(rng.random() < 0.4)) for i in range(60)]
        low, high = interval(metrics.fidelity_plus, group, rng=rng, samples=300)
        covered += low <= 0.4 <= high
    assert 0.89 <= covered / 200 <= 0.99


def test_repeating_each_link_with_more_seeds_does_not_make_an_interval_narrower():
    once = [record(event=i, necessary=i % 3 == 0) for i in range(60)]
    often = [record(event=i, necessary=i % 3 == 0, seed=seed) for i in range(60) for seed in range(9)]
    widths = [high - low for low, high in (_fidelity_interval(once), _fidelity_interval(often))]
    assert widths[1] == pytest.approx(widths[0], rel=0.2)


def _fidelity_interval(group):
    return interval(metrics.fidelity_plus, group, rng=np.random.default_rng(0))


def test_intervals_of_ten_thousand_records_take_seconds():
    group = random_records(np.random.default_rng(0), count=10_000)
    started = time.process_time()
    interval(metrics.characterization, group, rng=np.random.default_rng(0))
    assert time.process_time() - started < 20


@pytest.mark.parametrize("metric", ALL, ids=lambda metric: metric.__name__)
def test_differences_equal_those_of_a_loop_over_samples_of_pairs(metric):
    one, other = (ranked(random_records(np.random.default_rng(seed), count=30), seed) for seed in (1, 2))
    found = metrics.differences(metric, one[5:], other[::-1], rng=np.random.default_rng(7), samples=50)
    drawn = np.random.default_rng(7).integers(0, 25, size=(50, 25)) + 5  # the 25 links that both explain
    looped = [metric([one[i] for i in sample]) - metric([other[i] for i in sample]) for sample in drawn.tolist()]
    np.testing.assert_allclose(found, looped, atol=1e-12)  # some differences are 0
    assert metrics.within(found, 0.9) == pytest.approx(np.quantile(looped, [0.05, 0.95]))


def test_explainers_without_a_common_link_have_no_difference():
    rng = np.random.default_rng(0)
    assert metrics.differences(metrics.sparsity, [record(event=1)], [record(event=2)], rng=rng) is None


@pytest.mark.parametrize("options", [{"level": 0.0}, {"level": 1.0}, {"samples": 0}])
def test_a_level_or_number_of_samples_that_makes_no_sense_is_refused(options):
    with pytest.raises(CallError):
        interval(metrics.sparsity, FOUR, rng=np.random.default_rng(0), **options)


def test_jaccard_is_the_mean_over_common_links():
    mine = [record(event=1, rows=(1, 2)), record(event=2, rows=(1,)), record(event=3, rows=(5,))]
    theirs = [record(event=1, rows=(2, 3)), record(event=2, rows=(1,)), record(event=4, rows=(5,))]
    assert jaccard(mine, theirs) == pytest.approx((1 / 3 + 1) / 2)
    assert jaccard(mine, mine) == 1


def test_jaccard_of_two_empty_explanations_is_one_and_without_common_links_undefined():
    assert jaccard([record(rows=())], [record(rows=())]) == 1
    assert jaccard([record(rows=())], [record(rows=(1,))]) == 0
    assert jaccard([record(event=1)], [record(event=2)]) is None
    assert jaccard([record(data="a")], [record(data="b")]) is None
    assert jaccard([record(model="a")], [record(model="b")]) is None


def test_jaccard_of_links_explained_several_times_weights_links_equally():
    mine = [record(event=1, rows=(1,), seed=0), record(event=1, rows=(2,), seed=1), record(event=2, rows=(3,))]
    theirs = [record(event=1, rows=(1,)), record(event=2, rows=(3,))]
    assert jaccard(mine, theirs) == pytest.approx((0.5 + 1) / 2)


def test_groups_differ_in_data_model_kind_or_explainer():
    records = [record(), record(event=2), record(kind="incorrect"), record(explainer="x"), record(data="y")]
    records.append(record(model="z"))
    assert [found.links for found in metrics.summaries(records).values()] == [2, 1, 1, 1, 1]


def test_recall_is_the_share_of_the_causes_that_are_named():
    causes = [set(), {1}, {1, 9}, {4}, set()]
    assert metrics.recall(FOUR, causes) == pytest.approx((1 + 0.5 + 0) / 3)  # event 4 has no cause
    assert metrics.recall([], causes) is None
