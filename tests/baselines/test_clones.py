"""The published code, run from a clone: its searches ask our models. The clone here has its interface only."""

import numpy as np
import pytest

from cody.baselines import clones
from cody.data.mechanisms import mechanism
from cody.errors import CallError, ModelError
from cody.models.oracles import ORACLES

MADE = mechanism("joint", episodes=30)
MODEL = ORACLES["joint"](MADE.graph)
ROW = next(iter(MADE.ways))
SEARCH = """
class Example:
    def __init__(self, event_ids): self.event_ids = event_ids

class {name}:
    def __init__(self, wrapper, *given, **options):
        self.wrapper, self.options = wrapper, options

    def explain(self, event):
        print("what it prints is no answer")
        wrapper = self.wrapper
        original = wrapper.predict(event, result_as_logit=True)[0].detach().cpu().item()
        found = self.subgraph_generator.get_fixed_size_k_hop_temporal_subgraph(
            num_hops=wrapper.num_hops, base_event_id=event, size=64)
        {body}
        for row in found["idx"]:
            drop = [event, row]
            logit = wrapper.compute_edge_probabilities_for_subgraph(event, drop, result_as_logit=True)[0].item()
            if logit * original < 0:
                return Example([row])
        return Example([])
"""


@pytest.fixture
def clone(tmp_path):
    folder = tmp_path / "cody" / "explainer"
    folder.mkdir(parents=True)
    for each in (folder.parent, folder):
        (each / "__init__.py").write_text("")
    (folder / "cody.py").write_text(SEARCH.format(name="CoDy", body=""))
    (folder / "greedy.py").write_text(SEARCH.format(name="GreedyCFExplainer", body="raise RuntimeError('broken')"))
    yield tmp_path
    clones._their_process(str(tmp_path), "cody").stop()


def test_their_search_asks_our_model_and_its_answer_comes_back(clone):
    query = MADE.graph.query(ROW)
    candidates = MADE.graph.history(query.src, query.before)
    found = clones.official_cody(MODEL, MADE.graph, query, candidates, clone=clone)
    assert frozenset(found) in MADE.counterfactuals(ROW)
    assert clones.official_cody(MODEL, MADE.graph, query, candidates, clone=clone) == found
    assert clones.official_cody(MODEL, MADE.graph, query, candidates[:0], clone=clone) == []
    with pytest.raises(ModelError, match="ended with an error"):  # its other search is broken
        clones.official_cody(MODEL, MADE.graph, query, candidates, clone=clone, kind="stepwise")


def test_without_a_clone_it_says_what_to_set(tmp_path, monkeypatch):
    query = MADE.graph.query(ROW)
    monkeypatch.delenv(clones.CLONE, raising=False)
    with pytest.raises(CallError, match="set CODY_CLONE"):
        clones.official_cody(MODEL, MADE.graph, query, MADE.graph.history(query.src, query.before))
    with pytest.raises(CallError, match="it is not a clone"):
        clones.official_cody(MODEL, MADE.graph, query, [1], clone=tmp_path)


EXPLORER = """
class Node:
    def __init__(self, coalition, P): self.coalition, self.P = coalition, P

class MCTS:
    def __init__(self, events, candidate_events, base_events, candidate_initial_weights, event_idx, n_rollout,
                 min_atoms, c_puct, score_func):
        assert sorted(candidate_initial_weights) == candidate_events == events.e_idx.tolist()
        assert (n_rollout, min_atoms, c_puct) == (500, 6, 5.0)
        self.score = lambda kept: score_func(base_events + kept, event_idx)
        self.first, self.all = max(candidate_initial_weights, key=candidate_initial_weights.get), candidate_events

    def mcts(self, verbose):
        print("what it prints is no answer")
        return [Node([event], self.score([event])) for event in self.all] + [Node([self.first], self.score([]))]

def find_best_node_result(nodes, most):
    return max(nodes, key=lambda node: node.P)
"""


@pytest.fixture
def explorer(tmp_path):
    package = tmp_path / "TGNNEXPLAINER-PUBLIC" / "tgnnexplainer"
    for name, text in {
        "xgraph/method/subgraphx_tg": EXPLORER,
        "xgraph/evaluation/metrics_tg_utils": "def fidelity_inv_tg(before, after): return after - before",
    }.items():
        file = package / f"{name}.py"
        file.parent.mkdir(parents=True)
        file.write_text(text)
    yield tmp_path
    clones._their_process(str(tmp_path), "tgnnexplainer").stop()


def test_the_explorer_of_tgnnexplainer_names_what_suffices_for_our_model(explorer):
    made = mechanism("reply", episodes=30)  # one event is enough
    model = ORACLES["reply"](made.graph, distraction=0)
    for row in list(made.ways)[:3]:
        query = made.graph.query(row)
        candidates = np.union1d(made.graph.history(query.src, row), made.graph.history(query.dst, row))
        found = clones.official_tgnnexplainer(model, made.graph, query, candidates, clone=explorer)
        assert frozenset(found) in made.ways[row]
    assert clones.official_tgnnexplainer(model, made.graph, query, candidates[:0], clone=explorer) == []
    assert clones.official_tgnnexplainer.factual


def test_without_a_clone_of_tgnnexplainer_it_says_what_to_set(tmp_path, monkeypatch):
    query = MADE.graph.query(ROW)
    monkeypatch.delenv(clones.TGNN_CLONE, raising=False)
    with pytest.raises(CallError, match="set TGNNEXPLAINER_CLONE"):
        clones.official_tgnnexplainer(MODEL, MADE.graph, query, np.array([1]))
    with pytest.raises(CallError, match="not a clone of cisaic/tgnnexplainer"):
        clones.official_tgnnexplainer(MODEL, MADE.graph, query, np.array([1]), clone=tmp_path)
