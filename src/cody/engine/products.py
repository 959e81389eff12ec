"""Products of stacks of matrices and vectors, with whatever version of numpy there is."""

from __future__ import annotations

import numpy as np

from cody.graph import FloatArray


def _matvec(matrices: FloatArray, vectors: FloatArray) -> FloatArray:
    """[…, m, n], […, n] → […, m]"""
    product: FloatArray = np.matmul(matrices, vectors[..., None])[..., 0]
    return product


def _vecmat(vectors: FloatArray, matrices: FloatArray, out: FloatArray) -> FloatArray:
    """[…, m], […, m, n] → […, n]"""
    np.matmul(vectors[..., None, :], matrices, out=out[..., None, :])
    return out


# Since numpy 2.2 there are functions for this, which are a little faster.
matvec = getattr(np, "matvec", _matvec)
vecmat = getattr(np, "vecmat", _vecmat)
