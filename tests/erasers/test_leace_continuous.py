"""LEACE of numbers and vectors, against concept-erasure."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
import torch

from unspot import LEACE
from unspot.data import Number

with warnings.catch_warnings():
    # The oracle compiles a helper with torch.jit, which torch has deprecated.
    warnings.simplefilter("ignore", DeprecationWarning)
    from concept_erasure import LeaceEraser

#: Without its regularisation, which trades exactness for small samples.
EXACT = {"svd_tol": 1e-6, "shrinkage": False, "constrain_cov_trace": False}


def measured(m, *, n=500, d=8, seed=0):
    """Rows far from the origin, and m numbers that depend on them linearly and otherwise."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, d)) @ rng.normal(size=(d, d)) + 3.0
    return X, X @ rng.normal(size=(d, m)) + X[:, :1] ** 2 + rng.normal(size=(n, m))


@pytest.mark.parametrize("m", [1, 3])
def test_oblique_equals_concept_erasure(m):
    X, Z = measured(m)
    oracle = LeaceEraser.fit(torch.from_numpy(X), torch.from_numpy(Z), **EXACT)
    erased = LEACE().fit_transform(X, Z)
    np.testing.assert_allclose(erased, oracle(torch.from_numpy(X)).numpy(), atol=1e-7)


@pytest.mark.parametrize("m", [1, 3])
def test_orthogonal_equals_concept_erasure(m):
    X, Z = measured(m)
    rows, numbers = torch.from_numpy(X), torch.from_numpy(Z)
    oracle = LeaceEraser.fit(rows, numbers, method="orth", **EXACT)
    P = LEACE(method="orthogonal").fit(X, Z).eraser_.P
    np.testing.assert_allclose(P, oracle.P.numpy(), atol=1e-7)


def test_a_column_and_a_vector_of_numbers_are_the_same():
    X, Z = measured(1)
    column, vector = (LEACE().fit_transform(X, z) for z in (Z, Z[:, 0]))
    np.testing.assert_array_equal(column, vector)


def test_units_of_the_concept_do_not_matter():
    X, Z = measured(2)
    plain, scaled = (LEACE().fit_transform(X, z) for z in (Z, Z * [1e3, 1e-2] + 7))
    np.testing.assert_allclose(scaled, plain, atol=1e-7)


def test_a_stream_whose_last_batch_is_one_row():
    """In one row nothing varies, but in the stream it does."""
    X, Z = measured(2, n=101)
    parts = [slice(i, i + 20) for i in range(0, 101, 20)]
    batches = [(X[part], Number.read(Z[part], min_values=1)) for part in parts]
    streamed = LEACE().fit(iter(batches))
    whole = LEACE().fit(X, Number.read(Z))
    np.testing.assert_allclose(streamed.transform(X), whole.transform(X), atol=1e-9)


def test_a_stream_in_which_nothing_varies():
    X, _ = measured(1)
    with pytest.raises(ValueError, match="Got the same value in every row of z"):
        LEACE().fit(iter([(X, Number.read(np.ones(len(X)), min_values=1))] * 2))


def test_batches_of_different_concepts():
    X, Z = measured(3)
    with pytest.raises(ValueError, match="of 3 and 2 values of the concept"):
        LEACE().partial_fit(X, Number.read(Z)).partial_fit(X, Number.read(Z[:, :2]))
