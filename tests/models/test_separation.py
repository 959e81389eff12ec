import numpy as np
import pytest
from sklearn.metrics import average_precision_score, roc_auc_score

from cody.models.separation import auc, average_precision


@pytest.mark.parametrize("seed", range(20))
def test_metrics_equal_scikit_learn_also_with_ties(seed):
    rng = np.random.default_rng(seed)
    scores = rng.integers(0, 10, 50).astype(float) if seed % 2 else rng.normal(size=50)
    happened = rng.random(50) < 0.4
    assert average_precision(scores, happened) == pytest.approx(average_precision_score(happened, scores))
    assert auc(scores, happened) == pytest.approx(roc_auc_score(happened, scores))


def test_equal_scores_are_no_better_than_chance():
    assert auc(np.zeros(4), np.array([True, False, True, False])) == 0.5
    assert average_precision(np.zeros(4), np.array([True, False, True, False])) == 0.5
