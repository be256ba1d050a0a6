"""Fair PCA: its three constraints against dense formulas, and what it keeps."""

from __future__ import annotations

import numpy as np
import pytest

from unspot.lab import FairPCA


def rows(n=600, d=8, n_classes=2, seed=0):
    rng = np.random.default_rng(seed)
    z = rng.integers(n_classes, size=n)
    shapes = np.random.default_rng(99).normal(size=(n_classes, d, d))
    means = np.random.default_rng(98).normal(size=(n_classes, d))
    return np.einsum("nd,nde->ne", rng.normal(size=(n, d)), shapes[z]) + means[z], z


def published(X, z, rank, n_kept):
    """The paper's recipe for two groups, by dense matrices: null space, eigenvectors, PCA."""
    difference = X[z == 1].mean(axis=0) - X[z == 0].mean(axis=0)
    R = np.linalg.svd(difference[None])[2][1:].T
    covariances = [np.cov((X[z == k] @ R).T, bias=True) for k in (0, 1)]
    values, vectors = np.linalg.eigh(covariances[1] - covariances[0])
    R = R @ vectors[:, np.argsort(np.abs(values))[:n_kept]]
    values, vectors = np.linalg.eigh(np.cov((X @ R).T))
    U = R @ vectors[:, ::-1][:, :rank]
    return U @ U.T


@pytest.mark.parametrize(("rank", "drop", "n_kept"), [(3, 0.5, 4), (3, 0.25, 6), (5, 0.5, 5)])
def test_two_classes_as_in_the_paper(rank, drop, n_kept):
    X, z = rows()
    found = FairPCA(rank, drop=drop).fit(X, z).eraser_.P
    np.testing.assert_allclose(found, published(X, z, rank, n_kept), atol=1e-8)


@pytest.mark.parametrize("n_classes", [2, 3, 5])
def test_means_are_equal(n_classes):
    X, z = rows(n_classes=n_classes)
    erased = FairPCA(3).fit_transform(X, z)
    means = [erased[z == k].mean(axis=0) for k in range(n_classes)]
    np.testing.assert_allclose(means, [means[0]] * n_classes, atol=1e-12)


def test_more_dropped_is_less_difference_and_less_variance():
    X, z = rows(n_classes=3)
    apart, variance = [], []
    for drop in (0, 0.25, 0.5):
        U = FairPCA(3, drop=drop).fit(X, z).eraser_.U
        covariances = np.array([np.cov((X[z == k] @ U).T) for k in range(3)])
        apart.append(np.linalg.norm(covariances - covariances.mean(axis=0)))
        variance.append(np.trace(np.cov((X @ U).T)))
    assert apart == sorted(apart, reverse=True)
    assert variance == sorted(variance, reverse=True)


def test_a_rank_above_what_is_left_keeps_what_is_left():
    X, z = rows(n_classes=3)
    assert FairPCA(8, drop=0).fit(X, z).eraser_.rank == 6


@pytest.mark.parametrize("drop", [1, -0.1, "half"])
def test_bad_shares(drop):
    with pytest.raises(ValueError, match=r"Got drop=.*from 0 to below 1"):
        FairPCA(drop=drop).fit(*rows(60))
