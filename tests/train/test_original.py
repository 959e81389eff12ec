import json
import resource
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file

from cody.data import read_events
from cody.engine import load_model
from cody.engine.replay import Replay
from cody.errors import CallError, ModelError
from cody.train.original import import_original, network_from_original
from random_events import random_graph, random_network

CONFORMANCE = Path(__file__).parents[1] / "conformance"  # answers of the original code


@pytest.mark.parametrize("name", ["tgn", "tgat"])
def test_every_answer_of_the_original_code_is_reproduced(name, tmp_path):
    folder = CONFORMANCE
    facts = json.loads((folder / f"{name}.json").read_text())
    graph = read_events(folder / f"ml_{name}.csv")
    sizes = {key: facts[key] for key in ("layers", "heads", "neighbours", "batch")}
    import_original(folder / f"{name}.weights.safetensors", graph, tmp_path, **sizes)
    model = load_model(tmp_path, graph)
    for case in facts["cases"]:
        (logit,) = model.logits(graph.query(case["event"]), [frozenset(case["removed"])])
        assert abs(logit - case["logit"]) <= 2e-5 * max(1, abs(case["logit"])), case


def original_weights(network, *, stacked):
    """Our weights under the original's names, with the projections stacked or apart."""
    ours = network.state_dict()
    names = {
        "encode.phase": "time_encoder.w.bias",
        **{f"score.{a}.{p}": f"affinity_score.{b}.{p}" for a, b in (("hidden", "fc1"), ("out", "fc2")) for p in WB},
        **{f"memory.{p}_{x}": f"memory_updater.memory_updater.{p}_{x}" for p in WB for x in ("ih", "hh")},
    }
    theirs = {new: ours[old] for old, new in names.items() if old in ours}
    theirs["time_encoder.w.weight"] = ours["encode.frequency"][:, None]
    for layer in range(network.sizes.layers):
        old, new = f"attention.{layer}.", f"embedding_module.attention_models.{layer}."
        for p in WB:
            theirs[f"{new}merger.fc1.{p}"] = ours[f"{old}merge.hidden.{p}"]
            theirs[f"{new}merger.fc2.{p}"] = ours[f"{old}merge.out.{p}"]
            theirs[f"{new}multi_head_target.out_proj.{p}"] = ours[f"{old}out.{p}"]
        three = {p: [ours[f"{old}{which}.{p}"] for which in ("query", "key", "value")] for p in WB}
        theirs[f"{new}multi_head_target.in_proj_bias"] = torch.cat(three["bias"])
        if stacked:
            theirs[f"{new}multi_head_target.in_proj_weight"] = torch.cat(three["weight"])
        else:
            for letter, weight in zip("qkv", three["weight"], strict=True):
                theirs[f"{new}multi_head_target.{letter}_proj_weight"] = weight
    return {name: weight.clone() for name, weight in theirs.items()}


WB = ("weight", "bias")
SIZES = {"layers": 2, "heads": 2, "neighbours": 4, "batch": 7}


@pytest.mark.parametrize("kind", ["tgn", "tgat"])
@pytest.mark.parametrize("stacked", [True, False])
def test_both_forms_of_the_projections_can_be_imported(kind, stacked):
    graph = random_graph(np.random.default_rng(0))
    network = random_network(graph, kind)
    state = {"memory.memory": torch.zeros(3, 8), "memory.last_update": torch.zeros(3)}  # a real checkpoint has these
    imported = network_from_original(original_weights(network, stacked=stacked) | state, **SIZES)
    queries = [frozenset(), frozenset({50, 60})]
    expected = Replay(network, graph).logits(graph.query(70), queries)
    np.testing.assert_array_equal(Replay(imported, graph).logits(graph.query(70), queries), expected)


def test_a_checkpoint_of_a_training_on_several_devices_is_read_without_its_optimizer(tmp_path):
    graph = random_graph(np.random.default_rng(0))
    weights = original_weights(random_network(graph, "tgn"), stacked=True)
    optimizer = torch.optim.Adam(random_network(graph, "tgn").parameters()).state_dict()
    wrapped = {f"module._orig_mod.{name}": weight for name, weight in weights.items()}
    torch.save({"model": wrapped, "optimizer": optimizer, "epoch": 3}, tmp_path / "weights.pth")
    torch.save(weights, tmp_path / "plain.pth")
    for name in ("weights", "plain"):
        import_original(tmp_path / f"{name}.pth", graph, tmp_path / name, **SIZES)
    assert load_model(tmp_path / "weights", graph).identity == load_model(tmp_path / "plain", graph).identity


def test_a_torch_checkpoint_is_read_without_unpickling_objects(tmp_path):
    graph = random_graph(np.random.default_rng(0))
    torch.save(original_weights(random_network(graph, "tgn"), stacked=True), tmp_path / "weights.pth")
    import_original(tmp_path / "weights.pth", graph, tmp_path / "model", **SIZES)
    torch.save({"model": print}, tmp_path / "code.pth")
    with pytest.raises(ModelError, match="objects are not unpickled"):
        import_original(tmp_path / "code.pth", graph, tmp_path / "other", **SIZES)
    assert not (tmp_path / "other").exists()


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda weights: weights.pop("time_encoder.w.weight"), "not weights of the original TGN code"),
        (lambda weights: weights.pop("affinity_score.fc1.bias"), "parameter 'score.hidden.bias' is missing"),
        (lambda weights: weights.update({"message_function.0.weight": torch.zeros(1)}), "message_function.0.weight"),
        (lambda weights: weights.update({"affinity_score.fc2.bias": torch.zeros(2)}), r"shape \(2,\), expected \(1,\)"),
    ],
)
def test_weights_that_do_not_fit_are_refused(change, message):
    weights = original_weights(random_network(random_graph(np.random.default_rng(0)), "tgn"), stacked=True)
    change(weights)
    with pytest.raises(ModelError, match=message):
        network_from_original(weights, **SIZES)


STACKED = "embedding_module.attention_models.0.multi_head_target.in_proj_weight"
HUGE = {
    "time_encoder.w.weight": torch.zeros(10_000, 1),
    "embedding_module.attention_models.0.multi_head_target.k_proj_weight": torch.zeros(1, 20_000),
}
ODD = {
    "no axis": torch.tensor(1.0),
    "no rows": torch.zeros(0, 16),
    "many axes": torch.zeros(1, 1, 1, 1, 1),
    "NaN": torch.full((1,), float("nan")),
    "too large": torch.full((1,), 1e300, dtype=torch.float64),
    "whole numbers": torch.zeros(1, dtype=torch.int64),
    "complex": torch.zeros(1, dtype=torch.complex64),
    "truth": torch.zeros(1, dtype=torch.bool),
    "sparse": torch.zeros(1).to_sparse(),
    "no values": torch.zeros(1, device="meta"),
}


@pytest.mark.parametrize("odd", ODD)
@pytest.mark.parametrize("stacked", [True, False])
def test_odd_weights_are_one_clear_error(odd, stacked):
    weights = original_weights(random_network(random_graph(np.random.default_rng(0)), "tgn"), stacked=stacked)
    for name in weights:
        with pytest.raises(ModelError, match=r"parameter|weights|must be"):
            network_from_original(weights | {name: ODD[odd]}, **SIZES)


def test_a_parameter_that_is_not_numeric_is_named():
    weights = original_weights(random_network(random_graph(np.random.default_rng(0)), "tgn"), stacked=True)
    for odd in ("NaN", "too large"):
        with pytest.raises(ModelError, match=r"'score\.out\.bias' holds a NaN or an infinity"):
            network_from_original(weights | {"affinity_score.fc2.bias": ODD[odd]}, **SIZES)
    with pytest.raises(ModelError, match=r"'score\.out\.bias' is strided int64, not plain floating-point numbers"):
        network_from_original(weights | {"affinity_score.fc2.bias": ODD["whole numbers"]}, **SIZES)
    with pytest.raises(ModelError, match=r"in_proj_weight' should stack three projections, but has 0 rows"):
        network_from_original(weights | {STACKED: ODD["no axis"]}, **SIZES)


def test_no_memory_is_taken_for_a_size_that_only_one_parameter_has():
    weights = original_weights(random_network(random_graph(np.random.default_rng(0)), "tgn"), stacked=False)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    with pytest.raises(ModelError, match="has shape"):
        network_from_original(weights | HUGE, **(SIZES | {"layers": 10}))
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss < before + 100_000  # kB


def test_the_wrong_number_of_layers_is_refused():
    weights = original_weights(random_network(random_graph(np.random.default_rng(0)), "tgn"), stacked=True)
    with pytest.raises(ModelError, match="the network has 1 layers"):
        network_from_original(weights, **(SIZES | {"layers": 1}))
    with pytest.raises(ModelError, match=r"parameter 'attention\.2.* is missing"):
        network_from_original(weights, **(SIZES | {"layers": 3}))


def test_weights_for_other_features_are_refused_and_nothing_is_written(tmp_path):
    weights = original_weights(random_network(random_graph(np.random.default_rng(0)), "tgn"), stacked=True)
    save_file(weights, tmp_path / "weights.safetensors")
    assert load_file(tmp_path / "weights.safetensors").keys() == weights.keys()
    other = random_graph(np.random.default_rng(0), edge_features=3)
    with pytest.raises(ModelError, match="built for 0 event features, but the graph has 3"):
        import_original(tmp_path / "weights.safetensors", other, tmp_path / "model", **SIZES)
    assert not (tmp_path / "model").exists()


def test_a_model_is_not_overwritten_by_an_import(tmp_path):
    graph = random_graph(np.random.default_rng(0))
    save_file(original_weights(random_network(graph, "tgat"), stacked=True), tmp_path / "w.safetensors")
    import_original(tmp_path / "w.safetensors", graph, tmp_path / "model", **SIZES)
    with pytest.raises(CallError, match="already holds a model"):
        import_original(tmp_path / "w.safetensors", graph, tmp_path / "model", **SIZES)
