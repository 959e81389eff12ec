"""Counterfactuals inside PyTorch Geometric's own `Explainer`::

    config = dict(mode="binary_classification", task_level="node", return_type="raw")
    kind = dict(explanation_type="model", edge_mask_type="object")
    explainer = Explainer(model, CounterfactualAlgorithm(), model_config=config, **kind)
    explanation = explainer(x, edge_index, index=7)  # explanation.edge_mask, explanation.why

The model is called as that library calls it, `model(x, edge_index, **kwargs)`, with edges left out. A model with a
memory is not a function of that form: `cody.adapters.pyg.wrap` explains it.
"""

from __future__ import annotations

import logging
import warnings
from collections.abc import Sequence
from typing import Any

import numpy as np

from cody.utils.extras import needed_by

with needed_by("cody.adapters.pyg_explainer", "pyg"):
    import torch
    from torch import Tensor
    from torch_geometric.data import Data
    from torch_geometric.explain import ExplainerAlgorithm
    from torch_geometric.explain import Explanation as PygExplanation

from cody.adapters.probabilities import to_logits
from cody.errors import CallError, ProbabilityWarning
from cody.explaining.pipeline import explain
from cody.graph import IntArray, Query, TemporalGraph
from cody.models.contract import Change, as_model, fingerprint

logger = logging.getLogger(__name__)


class CounterfactualAlgorithm(ExplainerAlgorithm):  # type: ignore[misc]
    """The smallest set of edges without which the model decides differently, as an algorithm of `Explainer`.

    `edge_mask` is 1 for these edges, and all 0 if no set was found; `why` is the `cody.Explanation`. One node, edge or
    graph is explained at a time. With `task_level="edge"`, the model takes `edge_label_index`.

    Args:
        options: Those of `cody.explain`: `size=256`, `evaluations=1000`, `by=cody.graph.units.pair` for edges that are
            stored in both directions, …
    """

    def __init__(self, **options: Any) -> None:
        super().__init__()
        self.options = options

    def supports(self) -> bool:
        """Whether the settings ask for edges that decide a class that the model predicts."""
        wanted = {
            "explanation_type='model'": self.explainer_config.explanation_type.value == "model",
            "edge_mask_type='object'": getattr(self.explainer_config.edge_mask_type, "value", None) == "object",
            "node_mask_type=None": self.explainer_config.node_mask_type is None,
            "a mode of classification": self.model_config.mode.value != "regression",
        }
        for setting in (name for name, given in wanted.items() if not given):
            logger.error("CounterfactualAlgorithm needs %s", setting)
        return all(wanted.values())

    def forward(
        self, model: Any, x: Tensor, edge_index: Tensor, *, target: Tensor, index: Any = None, **kwargs: Any
    ) -> PygExplanation:
        """The explanation, as `Explainer` calls for it.

        Args:
            model: Called as `model(x, edge_index, **kwargs)`.
            x: Node features.
            edge_index: The edges; those that come last are taken to be the latest.
            target: What the model predicts.
            index: The node, or the place in `edge_label_index`; not needed for a graph.
            kwargs: Further arguments of the model; those with a row per edge are cut with the edges.
        """
        if not isinstance(edge_index, Tensor):
            raise CallError("graphs with several types of nodes are not supported")
        place = _single(index)
        src, dst = self._ends(place, len(x), kwargs)
        graph, inputs = _log(edge_index, len(x)), Data(x=x, edge_index=edge_index, **kwargs)
        query = Query(src, dst, float(graph.num_events), graph.num_events)

        @torch.no_grad()
        def scores(_: TemporalGraph, __: Query, changes: Sequence[Change]) -> list[Any]:
            kept = [_without(inputs, change) for change in changes]
            outputs = [model(part.x, part.edge_index, **{name: part[name] for name in kwargs}) for part in kept]
            return [self._scores(output[place or 0].reshape(-1)) for output in outputs]

        classes = self._classes(scores(graph, query, [frozenset()])[0])
        weights = fingerprint(*(value.detach().cpu() for value in model.state_dict().values()))
        about = "event" if self.model_config.task_level.value == "edge" else "node"
        hops = max(self._num_hops(model), 1)
        wrapped = as_model(scores, graph, identity=weights, hops=hops, classes=classes, about=about)
        near = {"near": _latest} if self.model_config.task_level.value == "graph" else {}
        with warnings.catch_warnings():  # the settings say whether the outputs are probabilities
            warnings.simplefilter("ignore", ProbabilityWarning)
            why = explain(wrapped, graph, query, **near | self.options)
        mask = torch.zeros(graph.num_events, device=edge_index.device)
        mask[sorted(why.change if why.is_counterfactual else ())] = 1
        return PygExplanation(edge_mask=mask, why=why)

    def _ends(self, place: int | None, nodes: int, kwargs: dict[str, Any]) -> tuple[int, int]:
        """The nodes that candidates lie near; of a graph, all do, and a further node stands for it."""
        level = self.model_config.task_level.value
        if level == "graph":
            return nodes, nodes
        if place is None:
            raise CallError(f"index must say which {level} to explain, for example index=0")
        if level == "node":
            return place, place
        if "edge_label_index" not in kwargs:
            raise CallError("of edges, give the model's argument edge_label_index, too")
        src, dst = kwargs["edge_label_index"][:, place].tolist()
        return src, dst

    def _scores(self, output: Tensor) -> Any:
        """A logit, above 0 where class 1 of two is predicted; of one output for each class, their scores."""
        scores = output.double().cpu()
        if self.model_config.return_type.value == "probs" and len(scores) == 1:
            scores = torch.from_numpy(to_logits(output.cpu().numpy()))
        elif self.model_config.return_type.value == "probs":
            scores = scores.clamp_min(torch.finfo(output.dtype).tiny).log()  # a softmax rounds small ones to 0
        if len(scores) == 2:
            scores = scores[1:] - scores[:1]
        return float(scores) if len(scores) == 1 else scores.tolist()

    def _classes(self, scores: Any) -> list[str] | None:
        """What the classes are called; None where the two are an edge and none."""
        if self.model_config.task_level.value == "edge" and self.model_config.mode.value == "binary_classification":
            return None
        return [f"class {number}" for number in range(len(scores) if isinstance(scores, list) else 2)]


def _single(index: Any) -> int | None:
    if index is None or isinstance(index, int):
        return index
    if isinstance(index, Tensor) and index.dtype != torch.bool and index.numel() == 1:
        return int(index)
    raise CallError("one prediction is explained at a time: give a single index")


def _log(edge_index: Tensor, nodes: int) -> TemporalGraph:
    """The edges as events, one after the other, and a node more: the graph as a whole."""
    if not edge_index.size(1):
        raise CallError("there are no edges that could be left out")
    sources, targets = edge_index.cpu().numpy()
    names = [*map(str, range(nodes)), "the graph"]
    return TemporalGraph.from_arrays(sources, targets, np.arange(len(sources)), names=names, event_name="edge")


def _without(inputs: Data, change: Change) -> Data:
    """The inputs without some edges, and without what comes with these."""
    kept = torch.ones(inputs.edge_index.size(1), dtype=torch.bool, device=inputs.edge_index.device)
    kept[sorted(change)] = False
    return inputs.edge_subgraph(kept)


def _latest(graph: TemporalGraph, query: Query, hops: int, size: int) -> IntArray:
    """The last edges, the very last first."""
    return np.arange(query.before - 1, max(query.before - size, 0) - 1, -1)
