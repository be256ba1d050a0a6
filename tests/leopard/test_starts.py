"""Starts are orthonormal and begin where they say."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from unspot.data.statistics import ClassStatistics
from unspot.leopard import mmd2, start


@pytest.fixture
def problem(variance_coded):
    X, z = variance_coded
    return X, z, ClassStatistics.from_rows(X, z, 2)


@pytest.mark.parametrize("init", ["identity", "moments", "pca"])
@pytest.mark.parametrize("rank", [1, 5, 8])
def test_starts_are_orthonormal(problem, init, rank):
    U = start(init, problem[2], rank)
    np.testing.assert_allclose(U.T @ U, np.eye(rank), atol=1e-10)


def test_identity_is_the_papers(problem):
    np.testing.assert_array_equal(start("identity", problem[2], 3), np.eye(8)[:, :3])


def test_pca_keeps_most_variance(problem):
    X, _, statistics = problem
    U = start("pca", statistics, 3)
    values = np.linalg.eigvalsh(np.cov(X.T, bias=True))
    assert np.trace(U.T @ statistics.covariance @ U) == pytest.approx(values[-3:].sum())


def test_moments_avoids_what_differs(problem):
    X, z, statistics = problem
    loss = {
        init: float(mmd2(torch.from_numpy(X @ start(init, statistics, 6)), z))
        for init in ("identity", "moments", "pca")
    }
    assert loss["moments"] < 0.05 * loss["identity"]
    assert loss["moments"] < 0.05 * loss["pca"]


def test_moments_with_features_without_variance(problem):
    X, z, _ = problem
    X = np.hstack([X, np.ones((len(X), 3))])
    U = start("moments", ClassStatistics.from_rows(X, z, 2), 9)
    np.testing.assert_allclose(U.T @ U, np.eye(9), atol=1e-9)


def test_given_array_is_orthonormalised(problem, rng):
    A = rng.normal(size=(8, 2))
    U = start(A, problem[2], 2)
    np.testing.assert_allclose(U @ (U.T @ A), A, atol=1e-10)


@pytest.mark.parametrize(
    ("init", "message"),
    [
        ("random", "'random', .*'identity', 'moments', 'pca' or an array"),
        (np.ones((8, 3)), r"expected \(8, 2\)"),
        (np.ones((8, 2)), "independent columns"),
    ],
)
def test_bad_starts(problem, init, message):
    with pytest.raises(ValueError, match=message):
        start(init, problem[2], 2)
