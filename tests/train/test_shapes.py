from itertools import product

import pytest

from cody.models.sizes import Sizes, network_shapes
from cody.train.architectures import TGAT, TGN

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
