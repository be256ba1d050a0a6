"""The baselines are what their names say."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.decomposition import PCA

from unspot.erasers import LEACE, MeanProjection, PCAProjection, RandomProjection


@pytest.fixture
def data():
    rng = np.random.default_rng(0)
    z = np.arange(300) % 3
    return rng.normal(size=(300, 6)) * np.arange(1, 7) + 5 * np.eye(6)[z] + 2, z


def test_mean_projection_makes_means_equal_and_is_orthogonal_leace(data):
    X, z = data
    eraser = MeanProjection().fit(X, z)
    erased = eraser.transform(X)
    means = [erased[z == k].mean(axis=0) for k in range(3)]
    np.testing.assert_allclose(means[0], means[1], atol=1e-10)
    np.testing.assert_allclose(means[0], means[2], atol=1e-10)
    oracle = LEACE(method="orthogonal").fit(X, z)
    np.testing.assert_allclose(eraser.eraser_.P, oracle.eraser_.P, atol=1e-12)
    assert eraser.eraser_.rank == 4


def test_pca_projection_is_scikit_learns(data):
    X, z = data
    oracle = PCA(3).fit(X)
    expected = oracle.inverse_transform(oracle.transform(X))
    np.testing.assert_allclose(PCAProjection(3).fit(X, z).transform(X), expected, atol=1e-9)


def test_pca_projection_does_not_look_at_the_concept(data):
    X, z = data
    one, other = (PCAProjection(2).fit(X, labels).eraser_.P for labels in (z, z[::-1]))
    np.testing.assert_allclose(one, other, atol=1e-10)


def test_random_projection_is_a_projector_of_its_rank_and_seed(data):
    X, z = data
    once, again, other = (
        RandomProjection(4, random_state=seed).fit(X, z).eraser_.P for seed in (0, 0, 1)
    )
    np.testing.assert_allclose(once @ once, once, atol=1e-12)
    assert np.trace(once) == pytest.approx(4)
    np.testing.assert_array_equal(once, again)
    assert not np.allclose(once, other)


@pytest.mark.parametrize("cls", [RandomProjection, PCAProjection])
def test_ranks(cls, data):
    assert cls(rank=0.5).fit(*data).eraser_.rank == 3
    with pytest.raises(ValueError, match="rank=7, but expected an integer from 1 to 6"):
        cls(rank=7).fit(*data)
