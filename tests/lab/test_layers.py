"""The layers of a network: numpy and torch agree, and files need no torch."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from unspot.eraser import Eraser, load
from unspot.lab.maps import LayerNorm
from unspot.maps import Dense


@pytest.fixture
def network():
    torch.manual_seed(0)
    layers = [torch.nn.Linear(5, 7), torch.nn.ReLU(), torch.nn.Linear(7, 5), torch.nn.LayerNorm(5)]
    return torch.nn.Sequential(*layers)


@pytest.fixture
def eraser(network):
    first, _, last, _ = network
    arrays = [p.detach().numpy() for p in (first.weight, first.bias, last.weight, last.bias)]
    maps = (Dense(arrays[0].T, arrays[1], relu=True), Dense(arrays[2].T, arrays[3]), LayerNorm(5))
    return Eraser(maps, {"method": "test"})


def test_layers_equal_torchs(network, eraser):
    x = torch.randn(4, 5)
    np.testing.assert_allclose(eraser(x.numpy()), network(x).detach(), rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("shape", [(5,), (3, 5), (2, 3, 5)])
def test_numpy_and_torch_agree_on_any_leading_dimensions(eraser, shape):
    x = np.random.default_rng(0).normal(size=shape)
    from_torch = eraser(torch.from_numpy(x))
    assert isinstance(from_torch, torch.Tensor)
    np.testing.assert_allclose(eraser(x), from_torch, rtol=1e-12)
    assert eraser(x).shape == shape


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
def test_dtype_is_kept(eraser, dtype):
    assert eraser(np.ones((2, 5), dtype)).dtype == dtype


def test_layer_norm_puts_rows_on_a_sphere():
    x = np.random.default_rng(0).normal(size=(10, 8)) * 100
    y = LayerNorm(8)(x)
    np.testing.assert_allclose(np.linalg.norm(y, axis=1), np.sqrt(8), rtol=1e-6)
    np.testing.assert_allclose(y.sum(axis=1), 0, atol=1e-12)


def test_a_constant_row_has_no_direction_and_no_nan():
    np.testing.assert_array_equal(LayerNorm(3)(np.full((1, 3), 7.0)), np.zeros((1, 3)))


def test_round_trip_keeps_which_layers_have_relu(eraser, tmp_path):
    eraser.save(tmp_path / "network.safetensors")
    loaded = load(tmp_path / "network.safetensors")
    assert [getattr(m, "relu", None) for m in loaded.maps] == [True, False, None]
    assert not loaded.is_linear
