"""What each event adds, beside the counterfactual: the values of a hand-computed model, and every form of them."""

import json

import numpy as np
import pytest
from click.testing import CliRunner

import cody
from cody.cli import app
from cody.errors import BudgetError, CallError, DataError
from cody.explaining.attributing import with_shares
from cody.explaining.explanation import EventShares
from cody.explaining.waterfall import bars, waterfall, waterfall_lines
from cody.graph import TemporalGraph
from cody.models import ToyModel

GRAPH = TemporalGraph.from_arrays(src=[0, 0, 2, 0], dst=[1, 2, 1, 1], time=[1.0, 2.0, 3.0, 4.0])
MODEL = ToyModel(GRAPH, weights=[1, 2, -1, 0], bias=0.5, half_life=1e9)  # adds up: each event adds its weight


def explained(name="shapley"):
    return with_shares(cody.explain(MODEL, GRAPH, GRAPH.query(3)), MODEL, GRAPH, name)


@pytest.mark.parametrize("name", ["shapley", "owen"])
def test_values_are_the_weights_of_a_sum_and_add_up_to_the_logit(name):
    why = explained(name)
    assert dict(zip(why.shares.rows, why.shares.values, strict=True)) == pytest.approx({0: 1, 1: 2, 2: -1}, abs=1e-4)
    assert why.shares.base == pytest.approx(0.5)
    assert why.shares.base + sum(why.shares.values) == pytest.approx(why.original, abs=1e-4)
    assert not any(why.shares.errors)


def test_steps_follow_each_other_and_the_smallest_are_one():
    shares = EventShares("shapley", -1.0, (4, 5, 6, 7), (0.1, -2.0, 3.0, 0.2), (0.3, 0.0, 0.0, 0.4))
    steps = waterfall(shares, shown=2)
    assert [(step.row, step.events) for step in steps] == [(None, 2), (5, 1), (6, 1)]
    assert [step.end for step in steps] == pytest.approx([-0.7, -2.7, 0.3])
    assert [step.begin for step in steps[1:]] == [step.end for step in steps[:-1]]
    assert steps[0].error == pytest.approx(0.5)
    drawn = list(bars(steps, width=30))
    assert [bar.strip()[0] for bar in drawn] == ["█", "░", "█"]
    assert max(map(len, drawn)) <= 30


def test_text_page_and_document_have_them():
    why = explained()
    text = str(why)
    assert "What each event adds to the logit (Shapley values):" in text
    assert "+2.000" in text
    assert "-1.000" in text
    assert waterfall_lines(cody.explain(MODEL, GRAPH, GRAPH.query(3))) == []
    page = why.to_html()
    assert 'class="waterfall"' in page
    assert "+2.000" in page
    again = cody.Explanation.from_json(why.to_json())
    assert again.shares == why.shares
    assert str(again) == text


def test_a_document_whose_values_are_of_other_events_is_damaged():
    document = json.loads(explained().to_json())
    del document["checksum"]
    document["shares"]["rows"] = [0, 1, 1]
    with pytest.raises(DataError, match="the shapley values are not those of the 3 candidates"):
        cody.Explanation.from_json(json.dumps(document))


def test_what_it_cannot_be_about_is_refused_before_the_search():
    call = ["explain", "--data", "joint", "--model", "cody.models.oracles:joint", "--attribute", "shapley"]
    for more, option in ((["--event", "378", "--by", "pair"], "--by"), (["--events", "378,379"], "--events")):
        result = CliRunner().invoke(app, [*call, *more])
        assert f"leave out {option}" in str(result.exception)
    shown = CliRunner().invoke(app, [*call, "--event", "378"])
    assert "What each event adds to the logit" in shown.stdout
    with pytest.raises(CallError, match="no 'shapely' values; did you mean 'shapley'"):
        explained("shapely")


def test_gradients_are_those_of_differences_where_weights_are_continuous():
    from cody.baselines.gradients import gradient_times_input, gradients
    from cody.study.own_function import OwnSearch

    graph = cody.load("collegemsg")
    model = cody.load_model("tgat-collegemsg", graph)
    query = graph.query(53_854)
    rows = graph.history(query.src, query.before)[-8:]
    values, logit = gradients(model, query, rows)
    assert logit == pytest.approx(model.logits(query, [frozenset()])[0], abs=1e-3)
    import torch

    from cody.baselines.differentiable import SoftModel

    links, step = SoftModel(model, dtype=torch.float64).links([query], [np.sort(rows)]), 1e-4
    for place in range(len(rows)):
        both = [torch.ones(len(rows), dtype=torch.float64) for _ in range(2)]
        both[1][place] -= step
        one, other = (float(links.logits(weights).sum()) for weights in both)
        assert values[place] == pytest.approx((one - other) / step, abs=1e-2)
    assert OwnSearch(gradient_times_input).__name__ == "gradient_times_input"


def test_the_time_limit_of_a_link_holds_for_the_values_too(monkeypatch):
    def never(*given, seconds, **options):
        assert 0 < seconds <= 50
        raise BudgetError("seconds")

    monkeypatch.setattr("cody.explaining.attributing.with_shares", never)
    call = ["explain", "--data", "joint", "--model", "cody.models.oracles:joint", "--event", "378"]
    shown = CliRunner().invoke(app, [*call, "--attribute", "owen", "--seconds", "50"])
    assert shown.exit_code == 0
    assert "--attribute owen is left out" in shown.stderr
    assert "--seconds 50; give it more" in shown.stderr
    assert "What each event adds" not in shown.stdout


def test_values_stop_when_their_time_is_over():
    why = explained()
    with pytest.raises(BudgetError):
        with_shares(why, MODEL, GRAPH, seconds=1e-9)
