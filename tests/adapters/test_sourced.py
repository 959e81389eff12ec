import numpy as np
import pytest

from adapters.pyg_models import random_tgn
from adapters.test_pyg import wrapped
from cody import Add, Alter, Move
from cody.testing import check_model
from random_events import random_graph


@pytest.mark.parametrize("seed", range(12))
def test_the_fast_path_answers_as_the_users_own_modules_do(seed):
    rng = np.random.default_rng(seed)
    graph = random_graph(rng, events=80, edge_features=3 * (seed % 2), ties=seed % 3 > 0)
    tgn, data = random_tgn(graph, seed)
    options = {"neighbours": int(rng.integers(2, 6)), "batch": int(rng.integers(3, 12))}
    fast, slow = wrapped(tgn, data, **options), wrapped(tgn, data, **options, fast=False)
    for row in rng.integers(0, graph.num_events, 8).tolist():
        query = fast.graph.query(row)
        changes = [frozenset(rng.integers(0, graph.num_events, size).tolist()) for size in (0, 1, 2, 5, 12)]
        np.testing.assert_allclose(fast.logits(query, changes), slow.logits(query, changes), atol=1e-5)
