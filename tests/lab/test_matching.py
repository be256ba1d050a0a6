"""Moment matching: equal moments with given labels, optimal transport, and what is recorded."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis

from unspot.eraser import load
from unspot.erasers.transport import barycentre, transport_matrix
from unspot.lab import MomentMatching


def spread(n=600, d=5, n_classes=3, seed=0):
    rng = np.random.default_rng(seed)
    z = rng.integers(n_classes, size=n)
    shapes = np.random.default_rng(99).normal(size=(n_classes, d, d))
    means = 3 * np.random.default_rng(98).normal(size=(n_classes, d))
    rows = rng.normal(size=(n, d))
    return np.einsum("nd,nde->ne", rows, shapes[z]) + means[z], np.array(["a", "b", "c"])[z]


def moments(X, z):
    return [(X[z == k].mean(axis=0), np.cov(X[z == k].T, bias=True)) for k in np.unique(z)]


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_means_and_covariances_are_equal_with_given_labels(dtype):
    X, z = spread()
    X = X.astype(dtype)
    eraser = MomentMatching(labels="given").fit(X, z)
    (mean, covariance), *others = moments(eraser.transform(X, z=z).astype(float), z)
    scale = np.abs(covariance).max()
    for m, C in others:
        np.testing.assert_allclose(m, mean, atol=1e-6 * np.sqrt(scale))
        np.testing.assert_allclose(C, covariance, atol=1e-6 * scale)
    assert eraser.eraser_.metadata["exact"]


def test_means_alone_leave_every_class_its_shape():
    X, z = spread()
    moved = MomentMatching(method="mean", labels="given").fit(X, z).transform(X, z=z)
    for (before, shape), (after, same) in zip(moments(X, z), moments(moved, z), strict=True):
        np.testing.assert_allclose(same, shape, atol=1e-10)
        np.testing.assert_allclose(after, X.mean(axis=0), atol=1e-10)
        assert not np.allclose(before, after)


def test_the_mean_of_all_rows_stays():
    X, z = spread()
    moved = MomentMatching(labels="given").fit(X, z).transform(X, z=z)
    np.testing.assert_allclose(moved.mean(axis=0), X.mean(axis=0), atol=1e-9)


def test_which_labels_were_used_is_in_the_metadata(tmp_path):
    X, z = spread()
    for labels in ("given", "predicted"):
        MomentMatching(labels=labels).fit(X, z).eraser_.save(tmp_path / "m.safetensors")
        assert load(tmp_path / "m.safetensors").metadata["labels_at_transform"] == labels


def test_predicted_labels_are_those_of_discriminant_analysis(tmp_path):
    X, z = spread(n=400, seed=3)
    eraser = MomentMatching().fit(X, z)
    oracle = LinearDiscriminantAnalysis(solver="lsqr").fit(X, z).predict(X)
    np.testing.assert_allclose(eraser.transform(X), eraser.transform(X, z=oracle))
    eraser.eraser_.save(tmp_path / "m.safetensors")
    np.testing.assert_array_equal(load(tmp_path / "m.safetensors")(X), eraser.transform(X))


def test_fit_transform_uses_the_labels_if_they_are_to_be_given():
    X, z = spread()
    given = MomentMatching(labels="given")
    np.testing.assert_array_equal(given.fit_transform(X, z), given.transform(X, z=z))
    predicted = MomentMatching()
    np.testing.assert_array_equal(predicted.fit_transform(X, z), predicted.transform(X))


@pytest.mark.filterwarnings("ignore:Got .* rows of class")
def test_a_class_with_too_few_rows_borrows_and_says_so():
    X, z = spread()
    few = np.concatenate([np.flatnonzero(z != "c"), np.flatnonzero(z == "c")[:3]])
    eraser = MomentMatching(labels="given").fit(X[few], z[few])
    assert not eraser.eraser_.metadata["exact"]
    assert np.isfinite(eraser.transform(X, z=z)).all()


@pytest.mark.parametrize("rotated", [False, True])
@pytest.mark.parametrize("ratio", [500, 1e5])
def test_directions_of_little_variance_are_matched_and_not_lost(rng, ratio, rotated):
    z = np.arange(4000) % 2
    X = rng.normal(size=(4000, 16))
    X[:, 0] *= ratio
    X[z == 1, 1] *= 2
    R = np.linalg.qr(rng.normal(size=(16, 16)))[0] if rotated else np.eye(16)
    eraser = MomentMatching(labels="given").fit(X @ R, z)
    moved = eraser.transform(X @ R, z=z) @ R.T
    assert eraser.eraser_.metadata["exact"]
    np.testing.assert_allclose(np.delete(moved.std(0) / X.std(0), 1), 1, atol=0.01)
    deviations = [moved[z == k].std(0) for k in (0, 1)]
    # A rotation mixes the directions, so that rounding is relative to the largest variance.
    rounding = 1e-15 * ratio**2 if rotated else 0
    np.testing.assert_allclose(*deviations, rtol=1e-12 + rounding)
    assert deviations[0][1] == pytest.approx(1.5, rel=0.03)  # the mean of deviations 1 and 2


# -- optimal transport -------------------------------------------------------------------------


def covariance(d, seed):
    A = np.random.default_rng(seed).normal(size=(d, 2 * d))
    return A @ A.T / d


@settings(max_examples=20, deadline=None)
@given(d=st.integers(1, 6), seed=st.integers(0, 50))
def test_transport_takes_one_covariance_to_the_other_and_is_optimal(d, seed):
    A, B = covariance(d, seed), covariance(d, seed + 1000)
    T = transport_matrix(A, B)
    np.testing.assert_allclose(T @ A @ T, B, atol=1e-7 * np.abs(B).max())
    # Optimal among Gaussians if and only if it is the gradient of a convex function (Brenier).
    np.testing.assert_allclose(T, T.T, atol=1e-9)
    assert np.linalg.eigvalsh(T).min() > 0


def test_barycentre_of_commuting_covariances_is_known():
    # In one dimension the barycentre's deviation is the mean of the deviations.
    found = barycentre(np.array([[[1.0]], [[9.0]]]), np.array([0.25, 0.75]))
    np.testing.assert_allclose(found, [[(0.25 * 1 + 0.75 * 3) ** 2]])


def test_barycentre_is_a_fixed_point_of_the_mean_map():
    covariances = np.stack([covariance(4, s) for s in range(3)])
    weights = np.array([0.2, 0.3, 0.5])
    S = barycentre(covariances, weights)
    mean_map = sum(w * transport_matrix(S, C) for w, C in zip(weights, covariances, strict=True))
    np.testing.assert_allclose(mean_map, np.eye(4), atol=1e-7)


# -- errors ------------------------------------------------------------------------------------


def test_labels_that_are_missing_unknown_or_too_few():
    X, z = spread(60)
    eraser = MomentMatching(labels="given").fit(X, z)
    with pytest.raises(ValueError, match=r"Got no labels.*transform\(X, z=…\)"):
        eraser.transform(X)
    with pytest.raises(ValueError, match="not seen in training"):
        eraser.transform(X, z=["new"] * 60)
    with pytest.raises(ValueError, match="Got 59 labels in z for 60 rows"):
        eraser.transform(X, z=z[:59])


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"method": "variance"}, "method='variance', but expected 'mean' or 'mean_covariance'"),
        ({"labels": "true"}, "labels='true', but expected 'predicted' or 'given'"),
    ],
)
def test_bad_parameters(parameters, message):
    with pytest.raises(ValueError, match=message):
        MomentMatching(**parameters).fit(*spread(60))
