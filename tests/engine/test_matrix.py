"""Products with a matrix: equal in both forms, and in the compiled one whatever is multiplied together."""

import copy
import pickle

import numpy as np
import pytest

from cody.engine.library import library
from cody.engine.vectors import Matrix

needs_library = pytest.mark.skipif(library() is None, reason="the compiled library is not built")


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize(("depth", "width"), [(1, 1), (3, 16), (7, 17), (40, 70), (0, 5)])
def test_products_are_those_of_numpy_in_both_forms(monkeypatch, depth, width, dtype):
    rng = np.random.default_rng(depth)
    array, added = rng.normal(size=(depth, width)).astype(dtype), rng.normal(size=width).astype(dtype)
    matrix, table = Matrix(array, added), rng.normal(size=(30, depth)).astype(dtype)
    for pure in ("1", "0"):
        monkeypatch.setenv("CODY_PURE", pure)
        for count in range(20):
            ids = rng.integers(0, 30, count)
            product = matrix.times(table, ids)
            assert (product.dtype, product.shape) == (dtype, (count, width))
            np.testing.assert_allclose(product, table[ids] @ array + added, atol=1e-12 if dtype == np.float64 else 1e-4)
        room = np.zeros((32, width + 3), dtype)
        matrix.times(table, out=room[1:31, :width])
        np.testing.assert_allclose(room[1:31, :width], table @ array + added, atol=1e-4)
        room[1:31, :width] = 0
        assert not room.any()  # nothing was written beside it


def test_vectors_of_another_precision_and_order_are_multiplied_as_well(monkeypatch):
    rng = np.random.default_rng(0)
    array, table = np.asfortranarray(rng.normal(size=(5, 4))), rng.normal(size=(5, 9)).astype(np.float32).T
    for pure in ("1", "0"):
        monkeypatch.setenv("CODY_PURE", pure)
        np.testing.assert_allclose(Matrix(array).times(table), table @ array, rtol=1e-6)


@needs_library
def test_a_product_does_not_depend_on_which_others_are_computed_with_it(monkeypatch):
    monkeypatch.setenv("CODY_PURE", "0")
    rng = np.random.default_rng(1)
    matrix, table = Matrix(rng.normal(size=(172, 90)), rng.normal(size=90)), rng.normal(size=(37, 172))
    together = matrix.times(table)
    for count in (1, 2, 5, 9, 36):
        np.testing.assert_array_equal(matrix.times(table[:count]), together[:count])


@needs_library
def test_copies_of_a_matrix_have_their_own_place_in_the_library(monkeypatch):
    monkeypatch.setenv("CODY_PURE", "0")
    matrix, one = Matrix(np.eye(3)), np.ones((1, 3))
    matrix.times(one)
    others = [copy.copy(matrix), copy.deepcopy(matrix), pickle.loads(pickle.dumps(matrix))]
    del matrix
    for other in others:
        np.testing.assert_array_equal(other.times(one), one)
