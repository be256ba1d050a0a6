"""ALF-QLEACE against a naive version that projects the rows themselves, step by step."""

from __future__ import annotations

import numpy as np
import pytest

from unspot import LEACE
from unspot.eraser import load
from unspot.lab import ALFQLEACE


def rows(n=900, d=7, n_classes=3, seed=0):
    rng = np.random.default_rng(seed)
    z = rng.integers(n_classes, size=n)
    shapes = np.random.default_rng(99).normal(size=(n_classes, d, d))
    means = 2 * np.random.default_rng(98).normal(size=(n_classes, d))
    return np.einsum("nd,nde->ne", rng.normal(size=(n, d)), shapes[z]) + means[z], z


def differences(X, z):
    """The covariance of every class, without their mean."""
    shares = [np.mean(z == k) for k in np.unique(z)]
    covariances = [np.cov(X[z == k].T, bias=True) for k in np.unique(z)]
    mean = sum(p * C for p, C in zip(shares, covariances, strict=True))
    return [C - mean for C in covariances]


def spectral(matrices):
    return max(np.linalg.norm(C, 2) for C in matrices)


def naive(X, z, target):
    moved = LEACE().fit_transform(X, z)
    start = spectral(differences(moved, z))
    while spectral(differences(moved, z)) > (1 - target) * start:
        worst = max(differences(moved, z), key=lambda C: np.linalg.norm(C, 2))
        u = np.linalg.svd(worst)[0][:, 0]
        centre = moved.mean(axis=0)
        moved = moved - np.outer((moved - centre) @ u, u)
    return moved


@pytest.mark.parametrize("n_classes", [2, 3])
@pytest.mark.parametrize("target", [0.0, 0.4, 0.8])
def test_it_is_the_naive_version(target, n_classes):
    X, z = rows(n_classes=n_classes)
    eraser = ALFQLEACE(target=target).fit(X, z)
    np.testing.assert_allclose(eraser.transform(X), naive(X, z, target), atol=1e-8)


def test_the_target_is_reached_with_equal_means_and_the_facts_are_true():
    X, z = rows()
    eraser = ALFQLEACE(target=0.7).fit(X, z)
    erased = eraser.transform(X)
    fell = eraser.differences_
    assert spectral(differences(erased, z)) == pytest.approx(fell[-1])
    assert fell[-1] <= 0.3 * fell[0] < fell[-2]
    means = [erased[z == k].mean(axis=0) for k in range(3)]
    np.testing.assert_allclose(means, [means[0]] * 3, atol=1e-9)
    assert eraser.eraser_.rank == 7 - 2 - eraser.eraser_.metadata["directions"]
    assert len(fell) == 1 + eraser.eraser_.metadata["directions"]


def test_it_is_one_projection_that_is_saved(tmp_path):
    X, z = rows()
    eraser = ALFQLEACE(target=0.7).fit(X, z).eraser_
    np.testing.assert_allclose(eraser.P @ eraser.P, eraser.P, atol=1e-9)
    eraser.save(tmp_path / "alf.safetensors")
    np.testing.assert_array_equal(load(tmp_path / "alf.safetensors")(X), eraser(X))


def test_nothing_is_dropped_where_covariances_agree():
    rng = np.random.default_rng(0)
    half = rng.normal(size=(100, 4))
    X, z = np.vstack([half, half + 5 * np.eye(4)[0]]), np.repeat([0, 1], 100)
    assert ALFQLEACE(target=0.99).fit(X, z).eraser_.metadata["directions"] == 0


@pytest.mark.parametrize("target", [1.0, -1, "all"])
def test_bad_targets(target):
    with pytest.raises(ValueError, match=r"Got target=.*from 0 to below 1"):
        ALFQLEACE(target=target).fit(*rows(60))
