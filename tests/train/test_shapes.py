from itertools import product

import pytest

from cody.baselines.pgexplainer import Scorer
from cody.baselines.tempme import MotifScorer
from cody.models.shapes import network_shapes
from cody.models.sizes import Sizes
from cody.train.tgat import TGAT
from cody.train.tgn import TGN

SIZES = [
    Sizes(dimension, layers, heads, edge_features=features)
    for dimension, layers, heads, features in product((1, 6), (1, 3), (1, 2), (0, 5))
]


def shapes(module):
    return {name: tuple(weight.shape) for name, weight in module.state_dict().items()}


@pytest.mark.parametrize("sizes", SIZES)
def test_the_shapes_are_those_of_the_networks(sizes):
    assert shapes(TGN(sizes)) == network_shapes(sizes, memory=True)
    assert shapes(TGAT(sizes)) == network_shapes(sizes, memory=False)
    assert shapes(Scorer(sizes, 7)) == Scorer.shapes(sizes, 7)
    assert shapes(MotifScorer(sizes, 7)) == MotifScorer.shapes(sizes, 7)
