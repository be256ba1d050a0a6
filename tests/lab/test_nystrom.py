"""Nyström features against the kernel that they stand for."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from scipy.spatial.distance import cdist
from sklearn.metrics.pairwise import rbf_kernel

from unspot.eraser import Eraser, load
from unspot.lab.maps import Nystrom, squared_distances


@pytest.fixture
def features():
    landmarks = np.random.default_rng(0).normal(size=(12, 3))
    values, vectors = np.linalg.eigh(rbf_kernel(landmarks, gamma=1 / (2 * 1.5**2)))
    return Nystrom(landmarks, vectors / np.sqrt(values), 1.5)


def test_inner_products_are_the_kernel_at_the_landmarks(features):
    phi = features(features.landmarks)
    expected = rbf_kernel(features.landmarks, gamma=1 / (2 * 1.5**2))
    np.testing.assert_allclose(phi @ phi.T, expected, atol=1e-9)


def test_numpy_and_torch_agree(features):
    x = np.random.default_rng(1).normal(size=(2, 4, 3))
    np.testing.assert_allclose(features(x), features(torch.from_numpy(x)), rtol=1e-9)


def test_small_eigenvalues_do_not_enlarge_the_rounding_of_single_precision():
    landmarks = np.random.default_rng(0).normal(size=(100, 2)).astype(np.float32)
    values, vectors = np.linalg.eigh(rbf_kernel(landmarks.astype(float), gamma=0.5))
    kept = values > 1e-8 * values[-1]
    features = Nystrom(landmarks.astype(float), vectors[:, kept] / np.sqrt(values[kept]), 1.0)
    expected = features(landmarks.astype(float))
    for rows in (landmarks, torch.from_numpy(landmarks)):
        assert features(rows).dtype == rows.dtype
        np.testing.assert_allclose(features(rows), expected, atol=1e-6)


def test_distances_survive_a_common_offset():
    rng = np.random.default_rng(0)
    x, points = rng.normal(size=(5, 3)), rng.normal(size=(4, 3))
    far = squared_distances(x + 1e6, points + 1e6)
    np.testing.assert_allclose(far, cdist(x, points) ** 2, rtol=1e-6)


def test_save_and_load(features, tmp_path):
    eraser = Eraser((features,))
    eraser.save(tmp_path / "features.safetensors")
    loaded = load(tmp_path / "features.safetensors")
    x = np.ones((2, 3))
    np.testing.assert_array_equal(loaded(x), eraser(x))
    assert loaded.maps[0].bandwidth == 1.5
