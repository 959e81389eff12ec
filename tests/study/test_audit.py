"""An audit says what a model reacts to, and finds models that are broken on purpose."""

import json
import re
from functools import partial
from pathlib import Path

import jsonschema
import numpy as np
import pytest
from click.testing import CliRunner

import cody
from cody.cli import app
from cody.data import campus, save_graph
from cody.engine import FastTGN
from cody.errors import CallError, DataError
from cody.models.heuristics import RuleModel, reference_models, repeats
from cody.study import read_audit
from cody.study.audit_report import FAIL, PASS, WARN, InterventionEffect, ReferenceAgreement, checks_of, looks_back
from cody.study.interventions import INTERVENTIONS, LAST
from cody.study.pool import open_model
from cody.study.shares import Share
from cody.train.checkpoint import Checkpoint, save_model
from random_events import random_graph, random_network


@pytest.fixture(scope="module")
def graph():
    return random_graph(np.random.default_rng(5), nodes=20, events=200)


@pytest.fixture(scope="module")
def with_features():
    return random_graph(np.random.default_rng(6), nodes=20, events=200, edge_features=2)


def happened(graph, query, change):
    """The events of the two ends that are part of a modified past."""
    absent, present = graph.difference(change, query)
    rows = {*graph.history(query.src, query.before).tolist(), *graph.history(query.dst, query.before).tolist()} - absent
    return sorted(rows | {row for row in present if {query.src, query.dst} & {graph.src[row], graph.dst[row]}})


def in_order(graph, rows):
    """Rows, imagined ones too, by the time of their events."""
    return graph.in_time_order(np.array(rows, dtype=np.int64)).tolist()


def model_of(graph, rule, name="mine"):
    """A model from a function of graph, link and the rows that happened."""

    def logits(graph, query, changes):
        return [rule(graph, query, happened(graph, query, change)) for change in changes]

    return cody.as_model(logits, graph, identity=name, hops=1)


def statuses(report):
    return {check.name: check.status for check in report.checks}


def test_a_model_that_ignores_time_is_found(graph):
    report = cody.audit(model_of(graph, lambda graph, query, rows: len(rows) - 20.5), graph, links=20)
    for name in ("the prediction one day later", "events twice as long ago", "times exchanged among events"):
        assert report.effect(name).flipped.value == 0
    assert statuses(report)["uses times"] == WARN
    assert "It ignores their times" in str(report)
    assert report.status == WARN


def test_a_model_that_uses_time_passes(graph):
    def rule(graph, query, rows):
        return 1.0 if rows and query.time - graph.time[rows].max() < 2 else -1.0

    report = cody.audit(model_of(graph, rule), graph, links=20)
    assert report.effect("the prediction one day later").flipped.value > 0.1
    assert statuses(report)["uses times"] == PASS


def test_a_model_that_looks_into_the_future_is_found(graph):
    def logits(graph, query, changes):
        later = [set(range(query.before, query.before + 3)) - change for change in changes]
        return [sum(query.dst in (graph.src[row], graph.dst[row]) for row in rows if row < 200) - 0.5 for rows in later]

    report = cody.audit(cody.as_model(logits, graph, identity="sees the future"), graph, links=20)
    assert statuses(report)["later events removed: changes nothing"] == FAIL
    assert report.status == FAIL
    assert report.summary.startswith("Looks into the future")


def test_a_model_that_reacts_to_events_of_strangers_is_found(graph):
    def logits(graph, query, changes):
        return [10.5 - sum(row >= graph.num_events for row in change) for change in changes]

    report = cody.audit(cody.as_model(logits, graph, identity="counts"), graph, links=10)
    assert statuses(report)["unrelated events added: changes nothing"] == FAIL


def test_a_threshold_that_nearly_every_link_is_above_is_found_and_can_be_set(graph):
    model = model_of(graph, lambda graph, query, rows: 1.05 + len(rows) / 10)
    report = cody.audit(model, graph, links=20)
    assert report.summary.startswith("Predicts 100 % of the links, half of which happened")
    (found,) = (check for check in report.checks if check.name == "decides both ways")
    assert found.status == WARN
    middle = float(re.search(r"[\d.]+(?= would divide)", found.detail)[0])
    better = cody.audit(model, graph, links=20, threshold=middle)
    assert better.threshold == pytest.approx(middle)
    assert "decides both ways" not in statuses(better)
    assert better.effect("only the last 1 of each end").flipped.value > 0.2


@pytest.mark.parametrize("score", [1.0, 0.0, -1.0, 50.0])
def test_no_threshold_is_advised_where_all_scores_are_the_same(graph, score):
    report = cody.audit(model_of(graph, lambda graph, query, rows: score), graph, links=4)
    (found,) = (check for check in report.checks if check.name == "decides both ways")
    assert found.detail.endswith("few decisions can change")


def test_what_neighbours_did_with_others_is_exchanged_among_neighbours(graph):
    """The ends keep their own events; each neighbour gets the events with others of another neighbour."""
    seen = []

    def logits(graph, query, changes):
        seen.extend((graph, query, change) for change in changes if change)
        return [busy_partner(graph, query, change) for change in changes]

    def busy_partner(graph, query, change):
        absent, present = graph.difference(change, query)
        rows = [row for row in (*range(query.before), *present) if row not in absent]
        pairs = [{int(graph.src[row]), int(graph.dst[row])} for row in rows]
        partner = next((pair - {query.src} for pair in reversed(pairs) if query.src in pair), {query.dst})
        return sum(bool(partner & pair) and not {query.src, query.dst} & pair for pair in pairs) - 12.5

    some = [each for each in INTERVENTIONS if each.name == "histories of neighbours exchanged"]
    busy = cody.as_model(logits, graph, identity="a busy partner", hops=2)
    report = cody.audit(busy, graph, links=20, interventions=some)
    assert report.effect("histories of neighbours exchanged").size > 0.5
    assert "the histories of neighbours" in report.summary
    assert seen
    for longer, query, change in seen:
        touched = {int(node) for row in change for node in (longer.src[row], longer.dst[row])}
        assert not {query.src, query.dst} & touched
        assert len(change) % 2 == 0  # each event that is removed is added with another node
    own = cody.audit(model_of(graph, lambda graph, query, rows: len(rows) - 20.5), graph, links=20, interventions=some)
    assert own.effect("histories of neighbours exchanged").largest == 0


def test_a_model_that_only_repeats_is_found(graph):
    report = cody.audit(RuleModel(graph, "repeats", repeats), graph, links=30)
    assert report.references[0].agrees.value == 1
    assert report.references[0].right is None
    assert statuses(report)["knows more than EdgeBank"] == WARN
    assert "It decides like EdgeBank on 100 % of the links." in str(report)
    assert report.summary.startswith("Does little more than repeat (100 % like EdgeBank)")


def test_a_model_that_predicts_worse_than_repeating_does_not_know_more():
    """It decides differently from EdgeBank, but for no good reason."""
    rng = np.random.default_rng(0)
    src = rng.integers(0, 10, 200)
    faithful = cody.TemporalGraph.from_arrays(src=src, dst=10 + src, time=np.arange(200.0))

    def contrary(graph, query, rows):
        met = any({query.src, query.dst} == {graph.src[row], graph.dst[row]} for row in rows)
        return -1.0 if met else 1.0

    report = cody.audit(model_of(faithful, contrary), faithful, links=30)
    (found,) = (check for check in report.checks if check.name == "knows more than EdgeBank")
    (edgebank, *_) = report.references
    assert edgebank.agrees.value < 0.95
    assert report.average_precision < edgebank.average_precision
    assert found.status == WARN
    own, simple = (f"{100 * each.average_precision:.1f} %" for each in (report, edgebank))
    assert f"it is right in {100 * edgebank.right.value:.0f} %; average precision {own}, that of" in found.detail
    assert found.detail.endswith(f"EdgeBank {simple}")


@pytest.mark.parametrize(
    ("right", "own", "status"),
    [((0.3, 0.2, 0.4), 0.9, WARN), ((0.3, 0.1, 0.6), 0.9, PASS), ((0.7, 0.6, 0.8), 0.7, WARN)],
)
def test_knowing_more_needs_to_be_no_worse_where_both_differ_and_in_all(right, own, status):
    edgebank = ReferenceAgreement(
        name="EdgeBank", agrees=Share(0.6, 0.5, 0.7), right=Share(*right), average_precision=0.8
    )
    (found,) = checks_of([], [edgebank], {}, average_precision=own)
    assert found.status == status


@pytest.mark.parametrize(
    ("changed", "far", "alone"),
    [
        ({1: 0.3, 2: 0.1, 5: 0.02, 50: 0.0}, "about 2 events", "with those alone, 10 % of"),
        ({1: 0.08, 2: 0.2, 5: 0.09, 50: 0.0}, "about 5 events", "the two, though with the last 1 only 8 % do"),
        ({1: 0.08, 5: 0.22, 10: 0.26, 50: 0.3}, "further than 50 events", "with those alone, 30 % of its decisions"),
        ({1: 0.08, 50: 0.1}, "about 1 event", "with that one alone, 8 % of its decisions differ"),
    ],
)
def test_a_model_looks_back_to_where_all_longer_histories_decide_alike(changed, far, alone):
    def cut(number):
        (name,) = (name for name, kept in LAST.items() if kept == number)
        older = Share(changed[number], 0.0, 1.0)
        nothing = dict.fromkeys(("flipped", "moved", "size", "largest", "average_precision"))
        return InterventionEffect(name=name, group="history", links=100, older=older, **nothing)

    found, number = looks_back([cut(number) for number in changed])
    assert found == f"looks back {far} of each end"
    assert alone in number


def test_what_others_did_does_not_count_as_looking_back(graph):
    """It reads the latest events of each end, and how many events others had, which cut histories do not have."""

    def logits(graph, query, changes):
        return [last_and_others(graph, query, change) for change in changes]

    def last_and_others(graph, query, change):
        own = happened(graph, query, change)
        absent, present = graph.difference(change, query)
        others = {*range(query.before), *present} - absent - set(own)
        return min(len(own), 2) + len(others) / 10 - 12.0

    report = cody.audit(cody.as_model(logits, graph, identity="others", hops=2), graph, links=30)
    assert report.effect("only the last 50 of each end").flipped.value > 0.1
    assert report.effect("only events of either end").flipped.value > 0.1
    assert "looks back about 2 events of each end" in report.summary or "looks back about 1 event" in report.summary
    assert "the histories of neighbours" in report.summary
    assert "ignores the histories" not in report.summary


def test_a_model_of_times_that_ignores_the_order_is_not_said_to_use_it():
    """How recently the destination was active does not depend on which of its events came first."""
    graph = random_graph(np.random.default_rng(5), nodes=60, events=400)

    def rule(graph, query, rows):
        own = [row for row in rows if query.dst in (graph.src[row], graph.dst[row])]
        return 1.0 if own and query.time - graph.time[own].max() < 20 else -1.0

    report = cody.audit(model_of(graph, rule), graph, links=40)
    assert report.effect("times exchanged among events").flipped.value > 0.1
    assert report.effect("times exchanged within each end").flipped.value == 0
    assert re.search(r"(Uses|Depends on) the times of events", report.summary)  # these come before any order
    assert "ignores the order of events (0 %)" in report.summary


def test_a_model_of_order_that_ignores_times_uses_the_order(graph):
    """Whether the latest event of the source was with the destination: no time is read, only which event is last."""

    def rule(graph, query, rows):
        own = [row for row in in_order(graph, rows) if query.src in (graph.src[row], graph.dst[row])]
        return 1.0 if own and query.dst in (graph.src[own[-1]], graph.dst[own[-1]]) else -1.0

    report = cody.audit(model_of(graph, rule), graph, links=40)
    assert re.search(r"(Uses|Depends on) the order of events", report.summary)
    assert re.search(r"(Uses|Depends on) the order of events .*ignores .*their times \(0 %\)", report.summary)


def test_a_model_that_does_not_notice_when_the_link_is_is_told(graph):
    """It uses the times of events, but not how long ago they were, as TGNs whose attention begins at an update."""

    def between(graph, query, rows):
        own = graph.time[[row for row in in_order(graph, rows) if query.src in (graph.src[row], graph.dst[row])]]
        return 1.0 if len(own) > 1 and own[-1] - own[-2] < 60 else -1.0

    told = "It does not notice when the prediction is made: one day later, no score changes."
    report = cody.audit(model_of(graph, between), graph, links=20)
    assert told in report.verdict
    assert "ignores their times" not in report.summary
    recent = model_of(graph, lambda graph, query, rows: 1.0 - (query.time - graph.time[rows[-1]] if rows else 9.0))
    assert told not in cody.audit(recent, graph, links=20).verdict


def test_features_that_are_the_same_for_all_events_are_none(graph):
    """As where a library wants a message and the data have none: a model can only react to what it never saw."""
    columns = graph.src, graph.dst, graph.time
    ones = cody.TemporalGraph.from_arrays(*columns, features=np.ones((graph.num_events, 1)), num_nodes=graph.num_nodes)

    def by_feature(graph, query, rows):
        return float(graph.features_of(np.array(rows, dtype=np.int64)).sum()) - 15.5 if rows else -1.0

    report = cody.audit(model_of(ones, by_feature), ones, links=20)
    assert report.effect("features set to zero").links == 0
    assert "features" not in report.summary
    assert "uses features" not in statuses(report)


def rated(rng, read):
    """A log in which nodes whose events carry a high first feature go on, and a model that reads one feature."""
    src, dst = rng.integers(0, 15, 400), rng.integers(15, 30, 400)
    good = np.where(dst < 22, 1.0, -1.0)
    src[300:], dst[300:] = src[300:], 15 + rng.integers(0, 7, 100)  # later events: only with the good ones
    features = np.stack([good, rng.choice([-1.0, 1.0], 400)], axis=1)
    graph = cody.TemporalGraph.from_arrays(src=src, dst=dst, time=np.arange(400.0), features=features)

    def rule(graph, query, rows):
        own = [row for row in rows if query.dst in (graph.src[row], graph.dst[row])][-3:]
        return float(graph.features_of(np.array(own, dtype=np.int64))[:, read].sum()) if own else -1.0

    return graph, model_of(graph, rule)


def test_a_model_whose_features_are_swapped_is_found():
    """It reacts to features, as it should, but predicts no better for it."""
    found = {}
    for read in (0, 1):
        graph, model = rated(np.random.default_rng(1), read)  # in that of 0, the other feature helps by chance
        found[read] = cody.audit(model, graph, links=40)
        assert found[read].effect("features set to zero").flipped.value > 0.2
    assert [statuses(found[read])["gains from features"] for read in (0, 1)] == [PASS, WARN]


def test_features_that_are_ignored_are_found(with_features):
    def by_feature(graph, query, rows):
        features = graph.features_of(np.array(rows, dtype=np.int64))
        return float(features[:, 0].sum()) if rows else -1.0

    for rule, status in ((by_feature, PASS), (lambda graph, query, rows: len(rows) - 20.5, WARN)):
        report = cody.audit(model_of(with_features, rule), with_features, links=20)
        assert statuses(report)["uses features"] == status
        assert report.effect("features set to zero").links == 40


def test_without_features_that_part_does_not_apply(graph):
    report = cody.audit(FastTGN(random_network(graph, "tgn"), graph), graph, links=3)
    assert report.effect("features set to zero").links == 0
    assert "uses features" not in statuses(report)


def test_every_effect_is_an_exact_what_if(graph):
    """The fast engine and the reference implementation have the same effects."""
    model = FastTGN(random_network(graph, "tgn"), graph)
    fast, slow = (cody.audit(each, graph, links=4) for each in (model, model.replay))
    for one, other in zip(fast.effects, slow.effects, strict=True):
        assert (one.name, one.links, one.flipped) == (other.name, other.links, other.flipped)
        if one.size is not None:
            assert one.size == pytest.approx(other.size, abs=1e-4)


def test_cutting_history_keeps_exactly_the_latest_events(graph):
    seen = []

    def rule(graph, query, rows):
        seen.append((query, rows))
        return 1.0

    cut = [each for each in INTERVENTIONS if each.name == "only the last 2 of each end"]
    cody.audit(model_of(graph, rule), graph, links=5, interventions=cut)
    for query, rows in seen[1::2]:  # the others have the whole past
        latest = {*graph.history(query.src, query.before)[-2:], *graph.history(query.dst, query.before)[-2:]}
        assert rows == sorted(latest)


@pytest.mark.parametrize(("links", "warned"), [(24, True), (25, False)])
def test_a_verdict_from_few_predictions_says_so(graph, links, warned):
    report = cody.audit(model_of(graph, lambda graph, query, rows: len(rows) - 20.5), graph, links=links)
    assert report.links == 2 * links
    assert report.verdict[-1].startswith(f"Only {2 * links} predictions, so these shares are rough") == warned


def test_the_same_seed_gives_the_same_report(graph):
    model = FastTGN(random_network(graph, "tgn"), graph)
    one, other, different = (cody.audit(model, graph, links=4, seed=seed) for seed in (1, 1, 2))
    assert one == other
    assert one != different


def test_a_model_that_knows_removals_only_is_audited_as_far_as_possible(graph):
    class RemovalsOnly:
        identity, hops = "removals", 1

        def __init__(self):
            self.graph = graph

        def logits(self, query, changes):
            return [float(len(happened(graph, query, change))) - 20.5 for change in changes]

    report = cody.audit(RemovalsOnly(), graph, links=5)
    assert report.effect("repeated events removed").links > 0
    assert "cannot score another log" in report.effect("events twice as long ago").reason


def test_checks_of_ones_own(graph):
    model = model_of(graph, lambda graph, query, rows: len(rows) - 20.5)
    name = "only the last 1 of each end"
    found = [cody.audit(model, graph, links=20, at_most={name: limit}).status for limit in (0.0, 1.0)]
    assert found == [FAIL, WARN]
    with pytest.raises(CallError, match="did you mean 'unrelated events added'"):
        cody.audit(model, graph, at_most={"unrelated event added": 0.5})
    with pytest.raises(CallError, match="between 0 and 1, not 2"):
        cody.audit(model, graph, at_most={name: 2})


def test_reference_models_follow_their_rules():
    graph = cody.TemporalGraph.from_arrays(
        src=[0, 1, 2, 3, 0, 1], dst=[1, 0, 1, 1, 2, 2], time=[0.0, 10.0, 20.0, 30.0, 95.0, 100.0]
    )
    link = graph.query_at(0, 1, 100.0)._replace(before=5)
    models = reference_models(graph, [link])
    changes = [frozenset(), frozenset({0})]
    decided = {name: (model.logits(link, changes) > 0).tolist() for name, model in models.items()}
    assert decided["EdgeBank"] == [True, False]
    assert decided["EdgeBank, recent"] == [False, False]  # 100 ago, of 100
    assert decided["replies"] == [True, True]
    assert decided["common partners"] == [True, True]  # node 2
    assert decided["popularity"] == [False, False]  # as many as usual are not more
    (early,) = models["common partners"].logits(graph.query(1), [frozenset()])
    assert early < 0


def test_a_report_is_read_as_it_was_written_and_follows_its_schema(graph):
    report = cody.audit(FastTGN(random_network(graph, "tgn"), graph), graph, links=3)
    schema = json.loads((Path(__file__).parents[2] / "docs" / "schemas" / "audit.json").read_text())
    text = json.dumps(report.to_dict())
    jsonschema.validate(json.loads(text), schema)
    assert read_audit(text) == report


@pytest.fixture(scope="module")
def folder(graph, tmp_path_factory):
    folder = tmp_path_factory.mktemp("audit")
    save_graph(graph, folder / "events")
    save_model(folder / "model", Checkpoint(random_network(graph, "tgn"), graph.identity))
    return folder


def run(folder, *words):
    where = ["--data", str(folder / "events"), "--model", str(folder / "model")]
    return CliRunner().invoke(app, ["audit", "--links", "3", *words, *where])


def test_the_exit_code_says_whether_a_check_failed(folder):
    limit = "only the last 1 of each end=0"
    assert run(folder).exit_code == 0
    assert run(folder, "--at-most", limit, "--fail-on", "fail").exit_code in (0, 1)
    report = json.loads(run(folder, "--at-most", limit, "--json").stdout)
    failed = any(check["status"] == FAIL for check in report["checks"])
    assert run(folder, "--at-most", limit, "--fail-on", "fail").exit_code == int(failed)
    assert run(folder, "--csv").stdout.splitlines()[0].startswith("name,group,links,flipped")


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--at-most", "times"), "is not understood"),
        (("--at-most", "nothing=0.5"), "there is no intervention 'nothing'"),
        (("--csv", "--json"), "not both"),
        (("--threshold", "1.5"), "a threshold is a probability between 0 and 1"),
        (("--period", "0.5..0.5"), "two increasing shares"),
    ],
)
def test_bad_calls_are_refused(folder, words, message):
    ended = run(folder, *words)
    assert isinstance(ended.exception, CallError)
    assert message in str(ended.exception)


def test_where_all_events_are_simultaneous_no_day_is_added_or_rounded():
    graph = cody.TemporalGraph.from_arrays(src=[0, 1, 0, 0], dst=[1, 2, 2, 1], time=[5.0, 5.0, 5.0, 5.0])
    report = cody.audit(model_of(graph, lambda graph, query, rows: len(rows) - 1.5), graph, links=2, period=(0, 1))
    for name in ("the prediction one day later", "times rounded to the day"):
        assert report.effect(name).links == 0


def test_on_campus_the_audit_says_what_was_planted():
    """A post follows an enrolment in the course of the forum within two days, an answer a post within three hours."""
    graph = campus(students=60, seed=1).graph
    topics = graph.node_features[:, 3:]

    def rule(graph, query, rows):
        latest = [row for row in rows if query.src in (graph.src[row], graph.dst[row])]
        latest += [row for row in rows if query.dst in (graph.src[row], graph.dst[row])]
        for row in latest:
            src, dst = int(graph.src[row]), int(graph.dst[row])
            since = query.time - graph.time[row]
            enrolled = src == query.src and topics[dst] @ topics[query.dst] and since < 2 * 86_400
            posted = src == query.dst and topics[dst] @ topics[query.src] and since < 3 * 3_600
            if dst != query.dst and dst != query.src and (enrolled or posted):
                return 1.0
        return -1.0

    report = cody.audit(model_of(graph, rule), graph, links=60, period=(0.5, 0.8))
    assert report.effect("times exchanged among events").flipped.value > 0.05
    assert (
        report.effect("the prediction one day later").flipped.value > 0.05
    )  # posts of the second day, and all answers
    for name in ("source and destination exchanged", "only events of the two together"):
        assert report.effect(name).average_precision == 0.5  # nothing is predicted: the cause is one of another pair
    assert report.effect("partners exchanged among events").flipped.value > 0.05
    assert report.references[0].agrees.value < 0.8  # nobody posts twice because they did before
    assert statuses(report)["uses times"] == PASS
    assert report.status == PASS


def test_exchanged_gaps_keep_the_order_and_the_span(graph):
    seen = {}

    def logits(graph, query, changes):
        seen.setdefault(query, []).extend((graph, change) for change in changes)
        return [1.0 for _ in changes]

    some = [each for each in INTERVENTIONS if each.name == "gaps between events exchanged"]
    cody.audit(cody.as_model(logits, graph, identity="watches"), graph, links=4, interventions=some)
    checked = 0
    for longer, change in (asked for each in seen.values() for asked in each if asked[1]):
        moved = sorted((longer.imagined.replaces[row - graph.num_events], longer.time[row]) for row in change)
        times = [time for _, time in moved]
        assert times == sorted(times)
        assert min(times) >= longer.time[0]
        checked += 1
    assert checked


def test_exchanged_partners_are_those_of_the_same_side():
    rng, seen = np.random.default_rng(3), []
    graph = cody.TemporalGraph.from_arrays(
        src=rng.integers(0, 8, 100), dst=8 + rng.integers(0, 8, 100), time=np.arange(100.0)
    )

    def logits(graph, query, changes):
        seen.extend((graph, query, change) for change in changes if change)
        return [1.0 for _ in changes]

    some = [each for each in INTERVENTIONS if each.name == "partners exchanged among events"]
    cody.audit(cody.as_model(logits, graph, identity="watches"), graph, links=4, interventions=some)
    assert seen
    for longer, _, change in seen:
        real = [row for row in change if row < graph.num_events]
        imagined = [row for row in change if row >= graph.num_events]
        assert len(real) == len(imagined)
        assert sorted(longer.time[real]) == sorted(longer.time[imagined])
        assert (longer.src[imagined] < 8).all()
        assert (longer.dst[imagined] >= 8).all()
    assert any(
        longer.dst[row] != query.dst for longer, query, change in seen for row in change if row >= graph.num_events
    )


def test_a_stopped_audit_is_resumed_and_gives_the_same_report(folder, graph, tmp_path):
    out, whole = tmp_path / "audit.jsonl", run(folder, "--json").stdout
    assert run(folder, "--json", "--out", str(out)).stdout == whole
    lines = out.read_text().splitlines(keepends=True)
    assert len(lines) == 1 + 6
    out.write_text("".join(lines[:3]) + lines[3][:40])  # killed while it wrote the third link
    asked = []
    model = cody.as_model(
        lambda graph, query, changes: asked.append(query) or [1.0] * len(changes), graph, identity="x"
    )
    with pytest.raises(DataError, match="belongs to another audit: there model is"):
        cody.audit(model, graph, links=3, out=out)
    assert not asked
    assert run(folder, "--json", "--out", str(out)).stdout == whole
    assert out.read_text() == "".join(lines)
    with pytest.raises(DataError, match="there links is 3, here it is 4"):
        cody.audit(FastTGN(random_network(graph, "tgn"), graph), graph, links=4, out=out)
    out.write_text(lines[0] + lines[1].replace('"place":0', '"place":1'))
    with pytest.raises(DataError, match=r"line 2: .*checksum"):
        raise run(folder, "--out", str(out)).exception


def test_several_workers_give_the_same_report(folder, graph):
    opener = partial(open_model, folder / "events", str(folder / "model"), False)
    model = opener()[0]
    assert cody.audit(model, graph, links=3, workers=2, opener=opener) == cody.audit(model, graph, links=3)
    with pytest.raises(CallError, match="several workers need opener"):
        cody.audit(model, graph, links=3, workers=2)


def test_the_page_shows_the_verdict_and_every_number(folder, tmp_path):
    page = tmp_path / "audit.html"
    assert run(folder, "--html", str(page)).exit_code == 0
    report = read_audit(run(folder, "--json").stdout)
    text = page.read_text().replace("\u00a0", " ")
    finding = f"The model {report.summary[0].lower()}{report.summary[1:]}"
    for words in (finding, *report.verdict, *(check.name for check in report.checks)):
        assert words.replace("'", "&#x27;") in text
    for effect in report.effects:
        assert effect.name in text
    assert "<script" not in text
    assert report.to_html("<b>", "data").count("&lt;b&gt;") >= 2
