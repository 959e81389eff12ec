"""Whoever has the data and the model can check a document: what is true is confirmed, what was changed is found."""

import copy
import json
from dataclasses import replace

import msgspec
import numpy as np
import pytest
from click.testing import CliRunner

import cody
from cody.cli import app
from cody.data import save_graph
from cody.engine import FastTGN
from cody.errors import DataError
from cody.explaining.claims import CONFIRMED, CONTRADICTED, NOT_CHECKED, verify_explanation
from cody.explaining.document import ExplanationDocument, document_of
from cody.graph.dependants import reply
from cody.graph.units import node, pair, session
from cody.search.proposals import additions, moves, removals
from cody.train.checkpoint import Checkpoint, save_model
from cody.utils.forms import as_plain
from random_events import random_graph, random_network

ROW = 120


@pytest.fixture(scope="module")
def asked():
    graph = random_graph(np.random.default_rng(3), nodes=20, events=140)
    network = random_network(graph, "tgn")
    return graph, network, FastTGN(network, graph)


def flipping(model, graph, **options):
    """An explanation that has a counterfactual."""
    found = (cody.explain(model, graph, graph.query(row), size=8, **options) for row in range(ROW, 100, -1))
    return next(why for why in found if why.is_counterfactual)


OPTIONS = {
    "link": {},
    "threshold": {"decision": cody.above(0.45)},
    "ranking": {"decision": cody.in_top(3)},
    "rather": {"decision": cody.rather_than("3")},
    "additions": {"edits": (removals, additions, moves)},
    "conversations": {"by": pair},
    "dependants": {"dependants": reply(100.0)},
}


@pytest.mark.parametrize("options", OPTIONS.values(), ids=OPTIONS)
def test_what_an_explanation_says_is_confirmed(asked, options):
    graph, _, model = asked
    why = flipping(model, graph, **options)
    report = verify_explanation(why.to_json(), model, graph, sets=None)
    assert [claim for claim in report.claims if claim.status == CONTRADICTED] == []
    assert report.is_confirmed
    assert "the answer flips the decision" in {claim.about for claim in report.claims if claim.status == CONFIRMED}
    assert f"{len(why.evaluated)} of {len(why.evaluated)} sets replayed" in str(report)


def signed(document):
    """A document that somebody has changed, with the right checksum."""
    content = {name: value for name, value in document.items() if name != "checksum"}
    form = msgspec.convert(content, ExplanationDocument)
    return as_plain(form)


def changed(document, **fields):
    return signed(copy.deepcopy(document) | fields)


def is_noticed(document, model, graph):
    try:
        report = verify_explanation(document, model, graph, sets=None)
    except DataError:
        return True  # its parts do not belong together
    return any(claim.status == CONTRADICTED for claim in report.claims)


def tampered(document):
    """The document with one claim changed, for every claim that it makes."""
    query, answer = document["query"], document["rows"]
    candidates, verification = document["candidates"], document["verification"]
    yield "verdict", changed(document, verdict="none among the candidates")
    yield "sentence", changed(document, sentence="Nothing matters.")
    yield "proven", changed(document, proven=document["proven"] + 1)
    yield "is_minimal", changed(document, is_minimal=not document["is_minimal"])
    yield "is_counterfactual", changed(document, is_counterfactual=False)
    yield "data", changed(document, data="0" * 32)
    yield "model", changed(document, model="0" * 32)
    yield "src", changed(document, src=document["dst"])
    yield "event", changed(document, event=None)
    yield "time", changed(document, query=query | {"time": query["time"] + 1})
    yield "before", changed(document, query=query | {"before": query["before"] - 1})
    yield "scope", changed(document, scope="all" if document["scope"] != "all" else "some")
    others = [row for row in candidates["row"] if row not in answer]
    yield "answer", changed(document, rows=[others[0], *answer[1:]])
    yield "candidate", changed(document, candidates=candidates | {"time": [time - 1 for time in candidates["time"]]})
    yield "verified", changed(document, verification=verification | {"without": verification["without"] + 0.1})
    for place, logit in enumerate(document["logits"]):
        logits = list(document["logits"])
        logits[place] = logit + 0.1
        yield f"logit {place}", changed(document, logits=logits)
    evaluated = document["evaluated"]
    for place in range(0, len(evaluated["logits"]), 5):
        logits = list(evaluated["logits"])
        logits[place] += 0.1
        yield f"evaluated {place}", changed(document, evaluated=evaluated | {"logits": logits})
    for other in document["alternatives"]:
        false = other | {"verification": other["verification"] | {"without": -other["verification"]["without"]}}
        yield "alternative", changed(document, alternatives=[false])


def test_any_changed_claim_is_found(asked):
    graph, _, model = asked
    document = json.loads(flipping(model, graph, evaluations=20).to_json())
    assert not is_noticed(signed(document), model, graph)
    missed = [name for name, false in tampered(document) if not is_noticed(false, model, graph)]
    assert missed == []


UNITS = {
    "pair": {"by": pair},
    "node": {"by": node},
    "session": {"by": session(50.0)},
    "dependants": {"by": pair, "dependants": reply(100.0), "protect": cody.Protected(events=[3], simultaneous=True)},
}


def forged_units(why):
    """The explanation with the name, the events or the existence of one unit changed."""
    largest = max(why.units, key=lambda unit: len(unit.rows))
    others = [unit for unit in why.units if unit is not largest]
    middle = [*largest.rows[:1], *largest.rows[2:]]  # the times stay as they are
    yield "name", replace(why, units=(*others, largest._replace(name="pair 98 ↔ 99")))
    yield "noun", replace(why, unit_name="day")
    yield "left out", replace(why, units=tuple(others))
    if len(largest.rows) > 2:
        yield "fewer events", replace(why, units=(*others, largest._replace(rows=tuple(middle))))


@pytest.mark.parametrize("options", UNITS.values(), ids=UNITS)
def test_a_forged_unit_is_found(asked, options):
    graph, _, model = asked
    why = cody.explain(model, graph, graph.query(ROW), size=8, **options)
    report = verify_explanation(why, model, graph, sets=0)
    assert {claim.about: claim.status for claim in report.claims}[f"each {why.unit_name} with its events"] == CONFIRMED
    for name, forged in forged_units(why):
        claims = verify_explanation(forged, model, graph, sets=0).claims
        found = [claim.status for claim in claims if claim.about.endswith("with its events")]
        assert found == [CONTRADICTED], name


def test_units_by_a_function_are_said_not_to_be_checked(asked):
    graph, _, model = asked
    why = cody.explain(model, graph, graph.query(ROW), size=8, by=lambda graph, rows: graph.src[rows])
    report = verify_explanation(why, model, graph, sets=0)
    assert ("units are complete", NOT_CHECKED) in {claim[:2] for claim in report.claims}
    assert CONTRADICTED not in {claim.status for claim in report.claims}


def test_a_changed_document_with_its_old_checksum_is_damaged(asked):
    graph, _, model = asked
    document = json.loads(flipping(model, graph).to_json()) | {"seed": 7}
    with pytest.raises(DataError, match="checksum mismatch"):
        verify_explanation(document, model, graph)


def test_about_other_data_nothing_else_is_claimed(asked):
    graph, network, model = asked
    why = flipping(model, graph)
    other = random_graph(np.random.default_rng(4), nodes=20, events=140)
    report = verify_explanation(why, FastTGN(network, other), other)
    assert not report.is_confirmed
    assert {claim.about: claim.status for claim in report.claims}["the data"] == CONTRADICTED
    assert report.claims[-1].status == NOT_CHECKED
    assert "flips the decision" not in str(report)


def test_another_model_is_noticed(asked):
    graph, _, model = asked
    other = FastTGN(random_network(graph, "tgn", seed=9), graph)
    report = verify_explanation(flipping(model, graph), other, graph)
    assert {claim.about: claim.status for claim in report.claims}["the model"] == CONTRADICTED


def test_a_decision_of_ones_own_is_checked_if_its_function_is_given(asked):
    graph, _, model = asked
    mine = cody.decided_by(lambda scores: scores[:, 0] + 0.1)
    document = flipping(model, graph, decision=mine).to_json()
    without = verify_explanation(document, model, graph)
    assert (without.claims[-1].status, "decision=" in without.claims[-1].detail) == (NOT_CHECKED, True)
    assert "the answer flips the decision" in str(verify_explanation(document, model, graph, decision=mine))


def test_a_line_of_an_evaluation_is_checked_with_what_the_evaluation_adds(asked):
    graph, _, model = asked
    why = flipping(model, graph)
    only = cody.models.contract.logit_of_only(model, why.query, why.change)
    part = {"data": "d", "model": "m", "explainer": "e", "search": "s", "policy": "p", "options": {}, "kind": "correct"}
    for added, expected in ((0.0, CONFIRMED), (0.1, CONTRADICTED)):
        document = as_plain(document_of(why)) | {"evaluation": part | {"only": only + added, "version": "0"}}
        claims = verify_explanation(signed(document), model, graph).claims
        assert [claim.status for claim in claims if "alone" in claim.about] == [expected]


def test_few_sets_are_a_sample_with_those_that_a_proof_rests_on(asked):
    graph, _, model = asked
    why = flipping(model, graph, prove=3)
    assert why.proven > 1
    for sets in (0, 1, 5):
        report = verify_explanation(why, model, graph, sets=sets)
        (claim,) = (claim for claim in report.claims if "sets" in claim.about)
        assert claim.status == (CONFIRMED if sets else NOT_CHECKED)
        assert f"{sets or 'none'} of {len(why.evaluated)}" in claim.detail


@pytest.fixture
def files(asked, tmp_path):
    graph, network, model = asked
    save_graph(graph, tmp_path / "events")
    save_model(tmp_path / "model", Checkpoint(network, graph.identity))
    why = flipping(model, graph)
    (tmp_path / "why.jsonl").write_text(f"{why.to_json()}\n" * 2)
    return tmp_path, why


def run(folder, *words):
    where = ["--data", str(folder / "events"), "--model", str(folder / "model")]
    return CliRunner().invoke(app, ["verify", *map(str, words), *where])


def test_the_command_says_what_it_found_and_how_it_ended(files):
    folder, why = files
    ended = run(folder, folder / "why.jsonl", "--sets", "all")
    assert ended.exit_code == 0, ended.output
    assert ended.stdout.count("the answer flips the decision") == 2
    false = replace(why, data="0" * 32)
    (folder / "false.json").write_text(false.to_json())
    assert run(folder, folder / "false.json").exit_code == 1
    answer = json.loads(run(folder, folder / "why.jsonl", "--line", 2, "--json").stdout)
    assert [each["line"] for each in answer] == [2]
    assert answer[0]["confirmed"]


@pytest.mark.parametrize(
    ("words", "message"),
    [(("--line", 9), "out of range"), (("--sets", "-1"), "-1"), (("--sets", "many"), "many")],
)
def test_bad_calls_are_refused(files, words, message):
    ended = run(files[0], files[0] / "why.jsonl", *words)
    assert ended.exit_code != 0
    assert message in ended.output + str(ended.exception)


def test_a_decision_that_nobody_can_make_is_contradicted(asked):
    graph, _, model = asked
    document = json.loads(flipping(model, graph, decision=cody.rather_than("3")).to_json())
    document["decision"]["other"] = "nobody"
    report = verify_explanation(signed(document), model, graph)
    assert {claim.about: claim.status for claim in report.claims}["the decision"] == CONTRADICTED


@pytest.mark.parametrize("settings", [None, "x", [], {"hops": -1}], ids=str)
def test_settings_that_make_no_sense_leave_the_neighbourhood_unchecked(asked, settings):
    graph, _, model = asked
    document = json.loads(flipping(model, graph).to_json())
    document["parameters"]["candidates"] = settings
    statuses = {claim.about: claim.status for claim in verify_explanation(signed(document), model, graph).claims}
    assert statuses["neighbourhood as shown"] == NOT_CHECKED


def test_a_unit_that_stands_twice_is_damage(asked):
    graph, _, model = asked
    document = json.loads(flipping(model, graph, by=pair).to_json())
    document["units"]["row"][1] = document["units"]["row"][0]
    with pytest.raises(DataError, match="a unit stands twice"):
        verify_explanation(signed(document), model, graph)


def test_another_event_is_named_by_what_differs(asked):
    graph, _, model = asked
    document = json.loads(flipping(model, graph).to_json())
    document["candidates"]["src"][0] = "nobody"
    details = [claim.detail for claim in verify_explanation(signed(document), model, graph).claims]
    assert any(detail.endswith("not 'nobody'") and "Event(" not in detail for detail in details)


def test_a_damaged_line_is_named(tmp_path):
    file = tmp_path / "why.jsonl"
    file.write_text("{}\n{}\n")
    result = CliRunner().invoke(app, ["verify", str(file)])
    assert str(result.exception).startswith(f"explanation 1 of 2 in {file}: this is not an explanation")


EVEN_IF = {
    "events": {},
    "alone": {"alone": True},
    "conversations": {"by": pair},
    "ranking": {"decision": cody.in_top(3)},
    "proof": {"prove": 3},
}


def standing(model, graph, **options):
    """An even-if answer that keeps something, and has a decisive removal."""
    found = (cody.even_if(model, graph, graph.query(row), size=8, **options) for row in range(ROW, 60, -1))
    return next(each for each in found if each.kept and each.missing and each.decisive)


@pytest.mark.parametrize("options", EVEN_IF.values(), ids=EVEN_IF)
def test_what_even_if_says_is_confirmed_and_what_was_changed_is_found(asked, options):
    graph, _, model = asked
    found = standing(model, graph, **options)
    report = verify_explanation(found.to_json(), model, graph, sets=None)
    assert [claim for claim in report.claims if claim.status == CONTRADICTED] == []
    assert report.is_confirmed
    others = sorted({*found.candidates} - {*found.kept_rows})
    false = {
        "original": found.original + 0.1,
        "only": found.only + 0.1,
        "stated": "the model expects nothing",
        "effect": "nothing changes",
        "event": found.event - 1,
        "model": "0" * 32,
        "kept": (msgspec.structs.replace(found.kept[0], src="nobody"), *found.kept[1:]),
        "missing": msgspec.structs.replace(found.missing, margin=found.missing.margin + 0.1),
        "robust": len(found.decisive),
        "decisive": tuple(others[:0]),
    }
    for name in ("latest", "unit"):
        part = getattr(found, name)
        false |= {} if part is None else {name: msgspec.structs.replace(part, rows=part.rows[1:])}
    missed = [
        name
        for name, value in false.items()
        if not is_noticed(msgspec.structs.replace(found, **{name: value}), model, graph)
    ]
    assert missed == []


def test_a_smaller_sufficient_set_contradicts_the_proof(asked):
    graph, _, model = asked
    found = standing(model, graph, prove=3)
    larger = tuple(msgspec.structs.replace(found.kept[0], row=row) for row in found.candidates[-len(found.kept) - 1 :])
    false = msgspec.structs.replace(found, kept=larger, smallest=True)
    claims = verify_explanation(false, model, graph, sets=None).claims
    about = f"no smaller set than {len(larger)} events suffices"
    assert [claim.status for claim in claims if claim.about == about] == [CONTRADICTED]


def test_a_larger_unit_and_an_earlier_time_contradict_what_is_called_the_largest(asked):
    graph, _, model = asked
    query = graph.query(ROW)
    found = cody.even_if(model, graph, query, size=8)
    assert found.latest
    assert found.unit
    for name in ("latest", "unit"):
        for value in (True, False):
            claim = {name: None, f"{name}_is_largest": value}
            assert is_noticed(msgspec.structs.replace(found, **claim), model, graph) == value


def test_what_an_even_if_document_cannot_hold_is_not_checked(asked):
    graph, _, model = asked
    mine = cody.decided_by(lambda scores: scores[:, 0] + 0.1)
    for options in ({"decision": mine}, {"by": lambda graph, rows: graph.src[rows]}):
        document = cody.even_if(model, graph, graph.query(ROW), size=8, **options).to_json()
        report = verify_explanation(document, model, graph, sets=0)
        assert CONTRADICTED not in {claim.status for claim in report.claims}
        assert "function" in report.claims[-1].detail
        assert report.claims[-1].status == NOT_CHECKED
