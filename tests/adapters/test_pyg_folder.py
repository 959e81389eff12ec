"""TGNs of PyTorch Geometric, imported into folders of our own."""

import json
import pickle

import numpy as np
import pytest
import torch
from click.testing import CliRunner
from safetensors.torch import save_file
from torch import nn

import cody
from adapters.pyg_models import pyg_tgn, random_tgn
from adapters.test_pyg import wrapped
from cody import TemporalGraph
from cody.adapters.pyg_folder import import_pyg
from cody.adapters.sourced import SourcedModel
from cody.cli import app
from cody.engine import reference_model
from cody.errors import CallError, ModelError
from cody.models.folder import read_model
from random_events import random_graph

FED = {"heads": 2, "neighbours": 5, "batch": 7}
SEES_ALL = {"splits": (), "sees_own_batch": True}


def parts(tgn):
    return {
        "memory": tgn.memory.state_dict(),
        "gnn": tgn.gnn.state_dict(),
        "link_pred": tgn.link_predictor.state_dict(),
    }


@pytest.fixture
def saved(tmp_path):
    graph = random_graph(np.random.default_rng(0), edge_features=2)
    tgn, _ = random_tgn(graph)
    torch.save(parts(tgn), tmp_path / "tgn.pt")
    return graph, tgn, tmp_path


@pytest.mark.parametrize("engine", [None, reference_model], ids=["fast", "replay"])
def test_an_imported_model_answers_as_the_users_own(saved, engine):
    graph, tgn, folder = saved
    import_pyg(folder / "tgn.pt", graph, folder / "model", **FED, **SEES_ALL)
    model = cody.load_model(folder / "model", graph, **({"engine": engine} if engine else {}))
    assert isinstance(model, SourcedModel) == (engine is None)
    expected = wrapped(tgn, graph, batch=7, neighbours=5)
    changes = [frozenset(), frozenset({50}), frozenset(range(40, 60, 3))]
    for row in (30, 61, 79):
        query = graph.query(row)
        np.testing.assert_allclose(model.logits(query, changes), expected.logits(query, changes), atol=1e-6)
    assert {path.name for path in (folder / "model").iterdir()} == {"model.json", "model.safetensors"}


def test_a_graph_with_dates_is_asked_as_the_model_was_trained(tmp_path):
    graph = random_graph(np.random.default_rng(3))
    tgn, data = random_tgn(graph)  # times from the first event on, and a message of 1
    dated = TemporalGraph.from_arrays(graph.src, graph.dst, graph.time + 1e9, num_nodes=graph.num_nodes)
    pyg_tgn.save(tgn, tmp_path / "tgn.pt")
    import_pyg(tmp_path / "tgn.pt", dated, tmp_path / "model", **FED, **SEES_ALL, start=dated.time[0], message=1.0)
    model, expected = cody.load_model(tmp_path / "model", dated), wrapped(tgn, data, batch=7, neighbours=5)
    changes = [frozenset(), frozenset({55, 60})]
    np.testing.assert_allclose(
        model.logits(dated.query(70), changes), expected.logits(expected.graph.query(70), changes), atol=1e-6
    )


def test_parts_that_users_name_themselves_are_recognized(saved):
    graph, tgn, folder = saved
    renamed = {
        f"{part}.{name}".replace("gnn.conv", "encoder.layers.0").replace("gnn.time_enc", "encoder.when"): weight.clone()
        for part, some in parts(tgn).items()
        for name, weight in some.items()
    }
    save_file(renamed, folder / "flat.safetensors")
    for file in ("tgn.pt", "flat.safetensors"):
        import_pyg(folder / file, graph, folder / file.split(".")[0], **FED)
    models = [cody.load_model(folder / name, graph) for name in ("tgn", "flat")]
    assert models[0].identity == models[1].identity


def named(some, start):
    return {f"{start}{name}": weight for name, weight in some.items()}


def flat(whole):
    return {f"{part}.{name}": weight for part, some in whole.items() for name, weight in some.items()}


def test_a_checkpoint_of_a_training_and_names_that_wrappers_give_are_read(saved):
    graph, tgn, folder = saved
    whole = parts(tgn)
    optimizer = torch.optim.Adam(tgn.gnn.parameters()).state_dict()
    besides = {"optimizer": optimizer, "epoch": 7, "best": 0.9, "args": {"lr": 1e-3}}
    files = {
        "plain": whole,
        "parts": {**whole, **besides},
        "nested": {"model": whole, **besides},
        "one": {"model_state_dict": flat(whole), **besides},
        "compiled": {part: named(some, "_orig_mod.") for part, some in whole.items()},
        "distributed": named(flat(whole), "module."),
        "both": {"state_dict": named(flat(whole), "module._orig_mod."), **besides},
    }
    for name, content in files.items():
        torch.save(content, folder / f"{name}.pt")
        import_pyg(folder / f"{name}.pt", graph, folder / name, **FED)
    assert len({cody.load_model(folder / name, graph).identity for name in files}) == 1
    assert read_model(folder / "parts").origin["left_out"] == list(besides)
    assert read_model(folder / "compiled").origin["left_out"] == []


def without(some, start):
    return {name: weight for name, weight in some.items() if not name.startswith(start)}


def test_what_is_not_the_tgn_of_the_example_is_refused(saved):
    graph, tgn, folder = saved
    whole = parts(tgn)
    memory = {name.replace("gru", "memory_updater"): weight for name, weight in whole["memory"].items()}
    twice = whole["gnn"] | {f"second.{name}": weight for name, weight in whole["gnn"].items()}
    for wrong, message in (
        (whole | {"memory": memory}, "unknown parameter 'memory.memory_updater.weight_ih': only the TGN of PyTorch"),
        (whole | {"gnn": twice}, "parameter 'gnn.second.*' is a second 'gnn"),
        (whole | {"link_pred": {"out.weight": torch.ones(1)}}, "unknown parameter 'link_pred.out.weight'"),
        (whole | {"link_pred": {}}, "'link_pred.lin_dst.bias' is missing"),
        (whole | {"gnn": without(whole["gnn"], "conv.lin_key")}, "no weight 'gnn.conv.lin_key.weight'"),
        ({"memory": {"gru.weight_hh": torch.ones(3)}}, "no weight 'memory.gru.weight_hh'"),
        ({"memory": 5, "gnn": 6}, "does not hold a state dict"),
        (
            {"epoch": 3, "optimizer": {"state": {}}},
            r"'epoch' is of type int; save the state_dict\(\) of the model alone",
        ),
        (whole | {"module.gnn": whole["gnn"]}, "holds 'gnn.time_enc.lin.weight' twice"),
        ([1, 2], "'the whole' is of type list"),
    ):
        torch.save(wrong, folder / "wrong.pt")
        with pytest.raises(ModelError, match=message):
            import_pyg(folder / "wrong.pt", graph, folder / "model", **FED)
    with pytest.raises(ModelError, match=r"embedding \(8\) must be a multiple of the heads \(3\)"):
        import_pyg(folder / "tgn.pt", graph, folder / "model", **FED | {"heads": 3})
    torch.save(nn.Linear(2, 2), folder / "objects.pt")
    with pytest.raises(ModelError, match="objects are not unpickled because that can run any code"):
        import_pyg(folder / "objects.pt", graph, folder / "model", **FED)
    assert not (folder / "model").exists()


def test_data_that_do_not_fit_are_refused(saved):
    graph, _, folder = saved
    bare = TemporalGraph.from_arrays(graph.src, graph.dst, graph.time)
    with pytest.raises(ModelError, match="is for messages of 2 numbers, but the data have 0 features"):
        import_pyg(folder / "tgn.pt", bare, folder / "model", **FED)
    with pytest.raises(CallError, match="--message is for data without features; these have 2"):
        import_pyg(folder / "tgn.pt", graph, folder / "model", **FED, message=1.0)
    pyg_tgn.save(random_tgn(bare)[0], folder / "bare.pt")
    with pytest.raises(ModelError, match="the data have no features: give the number that every event had"):
        import_pyg(folder / "bare.pt", bare, folder / "model", **FED)
    import_pyg(folder / "tgn.pt", graph, folder / "model", **FED)
    other = random_graph(np.random.default_rng(1), edge_features=2)
    with pytest.raises(ModelError, match="belongs to other data"):
        cody.load_model(folder / "model", other)
    cody.load_model(folder / "model", other, allow_data_mismatch=True)


def test_another_process_can_be_given_the_model(saved):
    graph, _, folder = saved
    import_pyg(folder / "tgn.pt", graph, folder / "model", **FED)
    model = cody.load_model(folder / "model", graph)
    expected = model.logits(graph.query(70), [frozenset({60})])
    np.testing.assert_array_equal(
        pickle.loads(pickle.dumps(model)).logits(graph.query(70), [frozenset({60})]), expected
    )


def run(*words):
    ended = CliRunner().invoke(app, [str(word) for word in words])
    assert ended.exit_code == 0, ended.output
    return ended.output


def test_every_command_takes_an_imported_model(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    src, dst = np.random.default_rng(0).integers(0, 9, (2, 90))
    lines = (f"{a},{b},{1_600_000_000 + 60 * row}\n" for row, (a, b) in enumerate(zip(src, dst, strict=True)))
    (tmp_path / "events.csv").write_text("src,dst,time\n" + "".join(lines))
    graph = cody.load("events.csv")
    torch.save({**parts(random_tgn(graph)[0]), "epoch": 7}, tmp_path / "tgn.pt")
    sizes = ["--heads", "2", "--neighbours", "5", "--batch", "7", "--start", "first", "--message", "1"]
    asked = "--data", "events.csv", "--model", "mine"
    said = run("import-model", "tgn.pt", "--from", "pyg", "--data", "events.csv", "--out", "mine", *sizes)
    assert "Left out, since these are not weights: epoch" in said
    assert max(map(len, said.splitlines())) <= 80
    (answer,) = json.loads(run("what-if", "--event", 80, *asked, "--json"))
    why = json.loads(run("explain", "--event", 80, *asked, "--json", "--evaluations", 60))
    assert why["logits"][0] == pytest.approx(answer["logit"], abs=1e-4)
    scored = json.loads(run("predict", "--events", "80,81", *asked, "--json"))
    assert scored[0]["logit"] == pytest.approx(answer["logit"], abs=1e-4)
    few = "--instances", 1, "--period", "0.5..1", "--evaluations", 40
    run("survey", *asked, *few, "--out", "survey.jsonl")
    run("evaluate", *asked, *few[:4], "--explainers", "greedy-spatio-temporal", "--out", "run.jsonl")
    assert (tmp_path / "survey.jsonl").stat().st_size
    assert (tmp_path / "run.jsonl").stat().st_size


def test_options_of_the_other_library_are_refused(tmp_path):
    sizes = ["--heads", "2", "--neighbours", "5", "--batch", "7", "--data", "collegemsg", "--out", "model"]
    for words, message in (
        ("--from tgn-original", "--from tgn-original needs --layers"),
        ("--from tgn-original --layers 1 --message 1", "--message is for --from pyg"),
        ("--from pyg --layers 2", "example has one layer"),
        ("--from pgy", "cannot import models from 'pgy'; did you mean 'pyg'?"),
    ):
        ended = CliRunner().invoke(app, ["import-model", "x.pt", *sizes, *words.split()])
        assert isinstance(ended.exception, CallError)
        assert message in str(ended.exception)
