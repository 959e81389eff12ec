"""What older versions of numpy lack gives the same numbers."""

import numpy as np
import pytest

from cody.engine import attention


@pytest.mark.parametrize("name", ["matvec", "vecmat"])
def test_products_are_those_of_numpy(name):
    if not hasattr(np, name):
        pytest.skip(f"this numpy has no {name}")
    rng = np.random.default_rng(0)
    matrices, columns, rows = rng.normal(size=(5, 1, 4, 6)), rng.normal(size=(5, 3, 6)), rng.normal(size=(5, 3, 4))
    if name == "matvec":
        np.testing.assert_allclose(attention._matvec(matrices, columns), np.matvec(matrices, columns), rtol=1e-12)
    else:
        room = np.empty((5, 3, 10))
        attention._vecmat(rows, matrices, out=room[..., 2:8])
        np.testing.assert_allclose(room[..., 2:8], np.vecmat(rows, matrices), rtol=1e-12)
