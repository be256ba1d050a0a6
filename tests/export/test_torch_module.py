"""Erasers as torch modules: the same results, on any dtype, with gradients, saved and compiled."""

from __future__ import annotations

import copy

import numpy as np
import pytest
import torch

from unspot import LEACE, Eraser, methods
from unspot.erasers.registry import make


def rows(n=64, seed=3):
    return np.random.default_rng(seed).normal(size=(n, 12))


@pytest.fixture
def eraser(chain):
    return Eraser(tuple(chain))


@pytest.fixture(scope="module")
def leace():
    rng = np.random.default_rng(0)
    z = np.arange(300) % 2
    X = rng.normal(size=(300, 12)) + 2.0 * z[:, None] * rng.normal(size=12)
    return LEACE().fit(X, z).eraser_


# -- the same results ----------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.float16], ids=lambda t: t.__name__)
def test_results_are_those_of_numpy(eraser, dtype):
    x = rows().astype(dtype)
    result = eraser.to_torch()(torch.from_numpy(x))
    expected = eraser(x)
    assert result.dtype == torch.from_numpy(x).dtype
    # Half precision rounds its results to 11 bits, and the last may go either way.
    last_bit = 2 * np.spacing(np.abs(expected)).astype(float) if dtype == np.float16 else 0.0
    error = np.abs(result.numpy().astype(float) - expected.astype(float))
    assert np.all(error <= 1e-5 * (1 + np.abs(expected)) + last_bit)


def test_bfloat16_rows_are_computed_in_single_precision(eraser):
    x = torch.from_numpy(rows()).bfloat16()
    exact = torch.from_numpy(eraser(x.double().numpy()))
    result = eraser.to_torch().bfloat16()(x)
    assert result.dtype == torch.bfloat16
    assert torch.all((result.double() - exact).abs() <= 1e-5 + exact.abs() * 2**-8)


def test_autocast_does_not_lower_the_precision(leace):
    x = torch.from_numpy(rows()).float()
    with torch.autocast("cpu", dtype=torch.bfloat16):
        result = leace.to_torch()(x)
    torch.testing.assert_close(result, leace(x), rtol=0, atol=1e-5)


QUICK = {"n_epochs": 2, "n_iterations": 10, "n_rounds": 2, "random_state": 0}


#: Their maps look up a place, or solve equations, for every row.
NO_MODULE = ("igbp", "mute")


@pytest.mark.parametrize("name", NO_MODULE)
def test_methods_without_elementary_steps_say_so(name):
    X, z = np.random.default_rng(5).normal(size=(120, 3)), np.arange(120) % 2
    eraser = make(name, random_state=0, n_epochs=1).fit(X, z).eraser_
    with pytest.raises(NotImplementedError, match=r"steps depend on the row.*on arrays instead"):
        eraser.to_torch()


@pytest.mark.parametrize(
    "info", [m for m in methods() if m.name not in NO_MODULE], ids=lambda info: info.name
)
def test_every_method(info):
    rng = np.random.default_rng(5)
    z = np.arange(120) % 2
    X = (rng.normal(size=(120, 10)) + 0.5 * z[:, None]).astype(np.float32)
    estimator = make(info.name, **{k: v for k, v in QUICK.items() if k in info.parameters})
    eraser = estimator.fit(X, z).eraser_
    result = eraser.to_torch()(torch.from_numpy(X)).numpy()
    np.testing.assert_allclose(result, eraser(X), rtol=1e-5, atol=1e-5)


# -- like any other module -----------------------------------------------------------------------


def test_gradients_flow_as_through_the_maps(eraser):
    x = torch.from_numpy(rows(20)).requires_grad_()
    module = eraser.to_torch()
    (gradient,) = torch.autograd.grad(module(x).sin().sum(), x) if module(x).requires_grad else [0]
    y = torch.from_numpy(rows(20)).requires_grad_()
    expected = eraser(y)
    wanted = torch.autograd.grad(expected.sin().sum(), y)[0] if expected.requires_grad else 0
    torch.testing.assert_close(gradient, wanted, rtol=1e-5, atol=1e-5)


def test_the_state_makes_another_module_the_same(leace):
    module, other = leace.to_torch(), LEACE().fit(rows(), np.arange(64) % 2).eraser_.to_torch()
    x = torch.from_numpy(rows()).float()
    assert not torch.allclose(module(x), other(x))
    other.load_state_dict(module.state_dict())
    assert torch.equal(module(x), other(x))


def test_copies_and_nesting(leace):
    model = torch.nn.Sequential(torch.nn.Linear(12, 12), leace.to_torch())
    assert torch.equal(copy.deepcopy(model)(torch.ones(2, 12)), model(torch.ones(2, 12)))
    assert any(name.startswith("1.") for name in model.state_dict())
    assert len(list(model[1].parameters())) == 0


def test_rows_of_double_precision_are_computed_in_double(eraser):
    """No constant was rounded to single precision before: results differed by 1e-7."""
    x = rows().astype(np.float64)
    expected = eraser(x)
    scale = np.abs(expected).max()
    for erase in (eraser.to_torch(), eraser.to_torch().half().float(), eraser.as_hook()):
        found = erase(torch.from_numpy(x)).numpy()
        np.testing.assert_allclose(found, expected, rtol=0, atol=1e-12 * scale)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_buffers_keep_their_precision_in_a_model_of_half_precision(leace, dtype):
    module = leace.to_torch().to(dtype)
    assert {b.dtype for b in module.buffers()} == {torch.float64}
    x = torch.from_numpy(rows(seed=7)).float()
    torch.testing.assert_close(module(x), leace(x), rtol=0, atol=1e-5)


def test_moves_follow_devices_and_double_precision(leace):
    assert {b.device.type for b in leace.to_torch().to("meta").buffers()} == {"meta"}


def test_it_compiles_without_breaks(eraser):
    torch.compiler.reset()  # or it stops after eight modules of one class
    module, x = eraser.to_torch(), torch.from_numpy(rows()).float()
    compiled = torch.compile(module, backend="eager", fullgraph=True)
    torch.testing.assert_close(compiled(x), module(x))


def test_inference_mode(leace):
    with torch.inference_mode():
        assert leace.to_torch()(torch.ones(3, 12)).is_inference()


# -- what was removed stays removed --------------------------------------------------------------


def test_rows_that_differ_in_what_is_removed_stay_as_equal_as_in_numpy():
    """Linear maps go through the kept coordinates: no rounding error in the removed directions."""
    rng = np.random.default_rng(0)
    U = np.linalg.qr(rng.normal(size=(12, 12)))[0]
    module = Eraser.projection(U[:, :4]).to_torch()
    erased = module(torch.from_numpy(rng.normal(size=(2000, 12)) * 1e3).float()).double().numpy()
    # A product with the d × d matrix leaves 1e-4 here; through coordinates only U is rounded.
    values = np.linalg.svd(erased, compute_uv=False)
    assert values[4] < 1e-6 * values[0]


@pytest.mark.parametrize("shape", [(3, 5), ()])
def test_another_width_is_a_sentence(leace, shape):
    with pytest.raises(ValueError, match=r"shape \(.*expected \(…, 12\).*12 features"):
        leace.to_torch()(torch.ones(shape))
