"""Explained links of a model that can be computed by hand, for surveys."""

import numpy as np

from cody.models import ToyModel
from cody.study import cases
from cody.study.explainers import explainer
from cody.study.run import EvaluationPlan, Link, evaluate
from random_events import random_graph


def explained(bias, name, names=None):
    graph = random_graph(np.random.default_rng(1), nodes=12, events=80, ties=False)
    if names:
        graph = type(graph).from_arrays(graph.src, graph.dst, graph.time, names=names)
    model = ToyModel(graph, weights=np.where(np.arange(80) % 3, 2.0, -1.0), bias=bias)
    logits = {row: model.logits(graph.query(row), [frozenset()])[0] for row in range(56, 80)}
    links = [Link(row, "correct" if logit > 0 else "incorrect") for row, logit in logits.items()]
    plan = EvaluationPlan("some", name, (explainer("scout"),))
    return cases(list(evaluate(model, graph, links, plan)), graph), graph
