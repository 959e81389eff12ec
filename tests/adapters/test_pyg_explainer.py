"""PyTorch Geometric's own Explainer, with our algorithm, judged by its own metrics."""

import pytest
import torch

pytest.importorskip("torch_geometric", reason="the extra pyg is not installed")

from torch_geometric.explain import Explainer, fidelity, unfaithfulness
from torch_geometric.nn import GraphConv, global_add_pool

from cody.adapters.pyg_explainer import CounterfactualAlgorithm
from cody.errors import CallError
from cody.graph.units import pair


class Network(torch.nn.Module):
    """Two layers; answers about nodes, edges or the graph."""

    def __init__(self, level, outputs, seed=0):
        super().__init__()
        torch.manual_seed(seed)
        self.first, self.second, self.level = GraphConv(4, 8), GraphConv(8, outputs), level
        self.line = 0.0  # above it, class 1 of two is predicted

    def forward(self, x, edge_index, edge_weight=None, edge_label_index=None):
        z = self.second(self.first(x, edge_index, edge_weight).relu(), edge_index, edge_weight)
        if self.level == "edge":
            return (z[edge_label_index[0]] * z[edge_label_index[1]]).sum(-1) - self.line
        return global_add_pool(z, None) if self.level == "graph" else z - self.line


def inputs(seed=1, nodes=30, edges=90):
    random = torch.Generator().manual_seed(seed)
    return torch.randn(nodes, 4, generator=random), torch.randint(nodes, (2, edges), generator=random)


def explainer(level, outputs, mode="binary_classification", **options):
    config = {"mode": mode, "task_level": level, "return_type": "raw"}
    algorithm = CounterfactualAlgorithm(**options)
    model = Network(level, outputs)
    return Explainer(model, algorithm, explanation_type="model", edge_mask_type="object", model_config=config)


@torch.no_grad()
def halve(model, place, x, edge_index, **given):
    """Put the line between what the model answers with all edges and with none."""
    few = given | ({"edge_weight": given["edge_weight"][:0]} if "edge_weight" in given else {})
    model.line = float(model(x, edge_index, **given)[place] + model(x, edge_index[:, :0], **few)[place]) / 2


CASES = [
    ("node", 1, "binary_classification", {"index": 7}),
    ("node", 3, "multiclass_classification", {"index": 7}),
    ("edge", 8, "binary_classification", {"index": 0, "edge_label_index": torch.tensor([[3, 4], [5, 6]])}),
    ("graph", 3, "multiclass_classification", {}),
]


@pytest.mark.parametrize(("level", "outputs", "mode", "asked"), CASES, ids=lambda part: str(part)[:12])
def test_without_the_edges_of_the_mask_the_model_decides_differently(level, outputs, mode, asked):
    x, edge_index = inputs()
    weight = torch.linspace(0.5, 1.5, edge_index.size(1))
    ours = explainer(level, outputs, mode)
    labels = {key: value for key, value in asked.items() if key != "index"}
    place = asked.get("index", 0)
    if mode == "binary_classification":
        halve(ours.model, place, x, edge_index, edge_weight=weight, **labels)
    explanation = ours(x, edge_index, edge_weight=weight, **asked)
    assert explanation.validate_masks(raise_on_error=True)
    kept = explanation.edge_mask == 0
    assert 0 < (~kept).sum() < 20
    outputs = [ours.model(x, edge_index[:, some], weight[some], **labels) for some in (kept | True, kept)]
    decided = [out[place].argmax() if mode[0] == "m" else out[place] > 0 for out in outputs]
    assert decided[0] != decided[1]
    assert explanation.why.is_counterfactual


SENTENCES = [
    ("node", 1, "binary_classification", {"index": 7}, "the score rises", "the model expects class 0 for 7"),
    ("node", 3, "multiclass_classification", {"index": 7}, "the lead of class 1", "the model expects class 1 for 7"),
    ("graph", 3, "multiclass_classification", {}, "the lead of class 1", "expects class 1 for the graph"),
]


@pytest.mark.parametrize(("level", "outputs", "mode", "asked", "changes", "question"), SENTENCES)
def test_it_speaks_of_classes_and_edges(level, outputs, mode, asked, changes, question):
    x, edge_index = inputs()
    why = explainer(level, outputs, mode)(x, edge_index, **asked).why
    assert changes in why.sentence
    assert "past edges" in why.sentence
    assert question in str(why)


@pytest.mark.parametrize("outputs", [1, 2, 3])
def test_probabilities_that_round_to_0_and_1_are_scores_like_others(outputs):
    x, edge_index = inputs()
    mode = "binary_classification" if outputs == 1 else "multiclass_classification"

    class Probable(Network):
        def forward(self, *given):
            logits = 1e4 * super().forward(*given)
            return logits.sigmoid() if outputs == 1 else logits.softmax(dim=-1)

    config = {"mode": mode, "task_level": "node", "return_type": "probs"}
    plain, model = Network("node", outputs), Probable("node", outputs)
    if outputs == 1:
        halve(plain, 7, x, edge_index)
        model.line = plain.line
    ours = Explainer(model, CounterfactualAlgorithm(), "model", config, edge_mask_type="object")
    explanation = ours(x, edge_index, index=7)
    kept = explanation.edge_mask == 0
    assert 0 < (~kept).sum() < 20
    with torch.no_grad():
        before, after = (ours.model(x, edge_index[:, some])[7] for some in (kept | True, kept))
    assert before.max() in (0, 1)
    assert (before > 0.5).tolist() != (after > 0.5).tolist()


def test_by_the_librarys_own_metrics_the_answer_is_necessary():
    x, edge_index = inputs()
    ours = explainer("node", 3, "multiclass_classification")
    explanation = ours(x, edge_index, index=7)
    necessary, _ = fidelity(ours, explanation)
    assert necessary == 1.0  # masked out, the prediction changes
    assert 0 <= unfaithfulness(ours, explanation) <= 1


def test_edges_that_are_stored_in_both_directions_can_change_together():
    x, half = inputs(edges=40)
    edge_index = torch.cat([half, half.flip(0)], dim=1)
    ours = explainer("node", 1, by=pair)
    halve(ours.model, 7, x, edge_index)
    mask = ours(x, edge_index, index=7).edge_mask
    assert mask.sum() > 0
    assert torch.equal(mask[:40], mask[40:])


def test_what_its_form_does_not_allow_is_an_error():
    x, edge_index = inputs()
    with pytest.raises(CallError, match="which node"):
        explainer("node", 1)(x, edge_index)
    with pytest.raises(CallError, match="no edges"):
        explainer("node", 1)(x, edge_index[:, :0], index=7)
    with pytest.raises(CallError, match="one prediction"):
        explainer("node", 1)(x, edge_index, index=torch.tensor([1, 2]))
    regression = {"mode": "regression", "task_level": "node", "return_type": "raw"}
    with pytest.raises(ValueError, match="does not support"):
        Explainer(
            Network("node", 1),
            CounterfactualAlgorithm(),
            explanation_type="model",
            edge_mask_type="object",
            model_config=regression,
        )
