"""One affine map for each class."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from unspot.eraser import Eraser, load
from unspot.lab.maps import Transport
from unspot.maps import Mixture


@pytest.fixture
def transport():
    shifts = np.array([[1.0, 0.0], [0.0, -1.0]])
    matrices = np.stack([np.eye(2), 2 * np.eye(2)])
    # Class 1 where the first feature is positive.
    return Transport(shifts, matrices, np.array([[0.0, 1.0], [0.0, 0.0]]), np.zeros(2))


def test_each_row_moves_with_its_class(transport):
    x = np.array([[3.0, 1.0], [3.0, 1.0]])
    np.testing.assert_array_equal(transport.given(x, np.array([0, 1])), [[4, 1], [6, 1]])


def test_without_labels_the_class_is_predicted(transport):
    x = np.array([[3.0, 1.0], [-3.0, 1.0]])
    np.testing.assert_array_equal(transport.predict(x), [1, 0])
    np.testing.assert_array_equal(transport(x), [[6, 1], [-2, 1]])


def test_without_matrices_rows_are_only_shifted(transport):
    only = Transport(transport.shifts)
    x = np.array([[3.0, 1.0]])
    np.testing.assert_array_equal(only.given(x, np.array([1])), [[3, 0]])


@pytest.mark.parametrize("shape", [(2,), (4, 2), (3, 4, 2)])
def test_numpy_and_torch_agree(transport, shape):
    x = np.random.default_rng(0).normal(size=shape)
    np.testing.assert_allclose(transport(x), transport(torch.from_numpy(x)))


def test_without_a_predictor_labels_must_be_given(transport, tmp_path):
    Eraser((Transport(transport.shifts),)).save(tmp_path / "given.safetensors")
    loaded = load(tmp_path / "given.safetensors")
    with pytest.raises(ValueError, match=r"labels='given' and has no predictor.*given\(X, codes"):
        loaded(np.zeros((1, 2)))


def test_a_mixture_weighs_the_maps_by_the_posterior():
    rng = np.random.default_rng(0)
    shifts, matrices, coef = (rng.normal(size=s) for s in ((3, 2), (3, 4, 2), (4, 3)))
    mixture = Mixture(shifts, matrices, coef, np.array([0.0, 1.0, -1.0]))
    x = rng.normal(size=(5, 4))
    scores = np.exp(x @ coef + mixture.intercept)
    weights = scores / scores.sum(axis=1, keepdims=True)
    each = np.einsum("nd,kdr->nkr", x, matrices) + shifts
    np.testing.assert_allclose(mixture(x), np.einsum("nk,nkr->nr", weights, each))
    np.testing.assert_allclose(mixture(torch.from_numpy(x)).numpy(), mixture(x))
    np.testing.assert_allclose(mixture(x[0]), mixture(x)[0])
    assert (mixture.n_in, mixture.n_out) == (4, 2)


def test_far_rows_of_a_mixture_stay_finite():
    mixture = Mixture(np.zeros((2, 1)), np.ones((2, 1, 1)), np.array([[-1.0, 1.0]]), np.zeros(2))
    np.testing.assert_array_equal(mixture(np.array([[-1e6], [1e6]])), [[-1e6], [1e6]])
