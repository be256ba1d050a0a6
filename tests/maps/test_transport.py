"""One affine map for each class."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from unspot.eraser import Eraser, load
from unspot.maps import Transport


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
