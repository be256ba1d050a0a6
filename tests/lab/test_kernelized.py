"""Kernelised erasure: nothing left for a probe of the same kernel."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from scipy.spatial.distance import pdist
from sklearn.kernel_approximation import Nystroem
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import r2_score
from sklearn.pipeline import make_pipeline

from unspot.datasets.synthetic import law
from unspot.eraser import load
from unspot.erasers import LEACE
from unspot.lab import KernelErasure
from unspot.lab.kernelized import explained_share


@pytest.fixture(scope="module")
def ring():
    rows = law("ring", n=2000, d=6, random_state=0)
    return rows, rows.sample(2000, random_state=1)


@pytest.fixture(scope="module")
def fitted(ring):
    return KernelErasure(n_landmarks=200, random_state=0).fit(ring[0].X, ring[0].z)


def kernel_accuracy(transform, ring, bandwidth):
    rows, (X, z) = ring
    features = Nystroem(gamma=1 / (2 * bandwidth**2), n_components=200, random_state=0)
    probe = make_pipeline(features, LogisticRegression(C=10, max_iter=1000))
    return probe.fit(transform(rows.X), rows.z).score(transform(X), z)


def test_a_probe_of_the_same_kernel_is_at_chance(ring, fitted):
    linear = LEACE().fit(ring[0].X, ring[0].z)
    assert kernel_accuracy(linear.transform, ring, fitted.bandwidth_) > 0.8
    assert kernel_accuracy(fitted.transform, ring, fitted.bandwidth_) < 0.55


def test_the_erased_features_are_guarded_exactly(ring, fitted):
    features, linear, _ = fitted.eraser_.maps
    phi, z = linear(features(ring[0].X)), ring[0].z
    gap = phi[z == 0].mean(axis=0) - phi[z == 1].mean(axis=0)
    assert np.abs(gap).max() < 1e-8


def test_what_is_not_the_concept_comes_back(ring, fitted):
    rows = ring[0]
    rest = np.linalg.svd(rows.concept_basis)[0][:, 2:]
    assert r2_score(rows.X @ rest, fitted.transform(rows.X) @ rest) > 0.7


def test_three_maps_that_need_numpy_alone(ring, fitted, tmp_path):
    fitted.eraser_.save(tmp_path / "kernel.safetensors")
    loaded = load(tmp_path / "kernel.safetensors")
    assert [m.kind for m in loaded.maps] == ["nystrom", "oblique", "dense"]
    np.testing.assert_array_equal(loaded(ring[0].X[:5]), fitted.transform(ring[0].X[:5]))


def test_same_seed_same_bits(ring):
    X, z = ring[0].X[:300], ring[0].z[:300]
    options = {"n_landmarks": 30, "training": {"epochs": 3}, "random_state": 0}
    once, again = (KernelErasure(**options).fit(X, z).transform(X) for _ in range(2))
    np.testing.assert_array_equal(once, again)


def test_unit_and_origin_do_not_matter(ring):
    X, z = ring[0].X[:300], ring[0].z[:300]
    options = {"n_landmarks": 30, "training": {"epochs": 3}, "random_state": 0}
    plain = KernelErasure(**options).fit(X, z)
    scaled = KernelErasure(**options).fit(100 * X + 7, z)
    assert scaled.bandwidth_ == pytest.approx(100 * plain.bandwidth_)
    back = (scaled.transform(100 * X + 7) - 7) / 100
    np.testing.assert_allclose(back, plain.transform(X), atol=2e-2)


@pytest.mark.parametrize("unit", [1e-6, 1e3, 1e6])
def test_the_unit_of_rows_that_are_mostly_equal_does_not_matter(rng, unit):
    X, z = rng.normal(size=(500, 4)), np.arange(500) % 2
    X[100:] = X[0]
    options = {"n_landmarks": 50, "training": {"epochs": 3}, "random_state": 0}
    plain, scaled = (KernelErasure(**options).fit(rows, z) for rows in (X, unit * X))
    assert scaled.bandwidth_ == pytest.approx(unit * plain.bandwidth_)
    assert plain.bandwidth_ == pytest.approx(pdist(X).mean())
    np.testing.assert_allclose(scaled.transform(unit * X) / unit, plain.transform(X), atol=1e-3)


def test_single_precision_gives_the_rows_of_double_precision(rng):
    X = rng.normal(size=(200, 3)).astype(np.float32)
    eraser = KernelErasure(training={"epochs": 3}, random_state=0).fit(X, np.arange(200) % 2)
    single = eraser.transform(X)
    assert single.dtype == np.float32
    np.testing.assert_allclose(single, eraser.transform(X.astype(float)), atol=1e-3)


def test_rows_are_drawn_up_to_the_budget(ring):
    eraser = KernelErasure(training={"epochs": 2}, n_landmarks=500, max_rows=100, random_state=0)
    eraser.fit(ring[0].X, ring[0].z)
    assert len(eraser.eraser_.maps[0].landmarks) == 100


def test_explained_share_of_what_is_there_and_of_what_is_not():
    z = torch.tensor([[1.0, 0.0], [0.0, 1.0]]).repeat(50, 1)
    noise = torch.randn(100, 2, generator=torch.Generator().manual_seed(0))
    assert float(explained_share(z, z)) == pytest.approx(1, abs=0.02)
    assert float(explained_share(noise, z)) < 0.1
    assert float(explained_share(torch.zeros(100, 2), z)) == 0


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"n_landmarks": 0}, "n_landmarks=0, but expected an integer of at least 1"),
        ({"max_rows": 1}, "max_rows=1, but expected an integer of at least 2"),
        ({"bandwidth": "mean"}, "bandwidth='mean', but expected 'median' or a positive number"),
        ({"bandwidth": -1.0}, "bandwidth=-1.0, but expected 'median' or a positive number"),
    ],
)
def test_bad_parameters(parameters, message, ring):
    with pytest.raises(ValueError, match=message):
        KernelErasure(**parameters).fit(ring[0].X[:50], ring[0].z[:50])
