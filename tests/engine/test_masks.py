"""Which pairs of node and mask are the same."""

import numpy as np
import pytest

from cody.engine import masks


@pytest.mark.parametrize("factor", [masks.FACTOR, np.uint64(0)], ids=["as it is", "every number collides"])
@pytest.mark.parametrize("words", [1, 3])
def test_each_different_pair_stands_once_even_where_their_numbers_collide(factor, words, monkeypatch):
    monkeypatch.setattr(masks, "FACTOR", factor)
    rng = np.random.default_rng(words)
    nodes = rng.integers(5, size=200)
    bits = rng.integers(3, size=(200, words)).astype(np.uint64)
    first, inverse = masks.distinct(nodes, bits)
    pairs = [(int(node), *mask.tolist()) for node, mask in zip(nodes, bits, strict=True)]
    assert len(first) == len(set(pairs)) < len(pairs)
    assert [pairs[first[which]] for which in inverse] == pairs


def test_bits_become_words():
    numbers = [0, 5, 2**64 + 1, 2**127]
    assert masks.as_words(numbers, 2).tolist() == [[0, 0], [5, 0], [1, 1], [0, 2**63]]
