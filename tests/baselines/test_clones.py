"""The published code, run from a clone: its searches ask our models. The clone here has its interface only."""

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
    clones._their_process(str(tmp_path)).stop()


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
