"""Folding: one linear layer that does what a layer and an eraser do, or a refusal."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import nn

import unspot
from unspot import LEACE, Eraser
from unspot.erasers.registry import make
from unspot.models import fold_after, fold_before, fold_between


@pytest.fixture(scope="module")
def estimators():
    rng = np.random.default_rng(0)
    z = np.arange(300) % 2
    X = rng.normal(size=(300, 6)) + z[:, None] + 5.0
    methods = (
        LEACE(),
        LEACE(method="orthogonal"),
        make("pca", rank=3),
        make("cascade:pca", rank=3),
    )
    return [method.fit(X, z) for method in methods]


def layer(n_in, n_out, bias=True):
    torch.manual_seed(0)
    return nn.Linear(n_in, n_out, bias=bias)


X = torch.randn(2, 9, 6, generator=torch.Generator().manual_seed(1))


@pytest.mark.parametrize("number", range(4))
@pytest.mark.parametrize("bias", [True, False])
@torch.no_grad()
def test_folded_layers_are_equal_to_layer_and_eraser(estimators, number, bias):
    eraser, linear = estimators[number].eraser_, layer(6, 6, bias)
    weight = linear.weight.clone()
    after = eraser(linear(X).double())
    torch.testing.assert_close(fold_after(linear, eraser)(X).double(), after, rtol=0, atol=1e-5)
    before = linear(eraser(X))
    torch.testing.assert_close(
        fold_before(estimators[number], linear)(X), before, rtol=0, atol=1e-5
    )
    assert torch.equal(linear.weight, weight)


@pytest.mark.parametrize("dtype", [torch.float64, torch.bfloat16])
def test_the_layer_keeps_its_dtype(estimators, dtype):
    folded = fold_after(layer(3, 6).to(dtype), estimators[0])
    assert folded.weight.dtype == folded.bias.dtype == dtype


def sequence(*between):
    torch.manual_seed(0)
    inner = nn.Sequential(nn.Linear(6, 6), *between, nn.Linear(6, 2))
    return nn.Sequential(nn.Tanh(), inner).eval()


@torch.no_grad()
def test_two_modules_of_a_model(estimators):
    model = sequence(nn.Dropout(), nn.Identity())
    with unspot.hooks(model, {"1.0": estimators[0]}):
        expected = model(X)
    fold_between(model, "1.0", "1.3", estimators[0])
    torch.testing.assert_close(model(X), expected, rtol=0, atol=1e-5)


@torch.no_grad()
def test_the_second_module_if_the_first_is_not_linear(estimators):
    model = nn.Sequential(nn.LayerNorm(6), layer(6, 2))
    with unspot.hooks(model, {"0": estimators[0]}):
        expected = model(X)
    fold_between(model, "0", "1", estimators[0])
    torch.testing.assert_close(model(X), expected, rtol=0, atol=1e-5)


@pytest.mark.parametrize(
    "module", [nn.ReLU(), nn.LayerNorm(6), nn.Linear(6, 6), nn.GELU()], ids=str
)
def test_what_computes_between_is_refused(estimators, module):
    model = sequence(module)
    weights = [p.clone() for p in model.parameters()]
    name = type(module).__name__
    with pytest.raises(ValueError, match=rf"{name} '1' between.*nothing is computed.*unspot.hooks"):
        fold_between(model, "1.0", "1.2", estimators[0])
    assert all(map(torch.equal, weights, model.parameters()))


def test_dropout_that_is_active_is_refused(estimators):
    with pytest.raises(ValueError, match=r"Dropout '1'.*model.eval\(\)"):
        fold_between(sequence(nn.Dropout()).train(), "1.0", "1.2", estimators[0])


class Hidden(nn.Sequential):
    """A sequence that does more than its modules."""

    def forward(self, x):
        return self[1](self[0](x).relu())


@pytest.mark.parametrize(
    ("model", "names"),
    [
        (nn.TransformerEncoderLayer(6, 2, 8), ("linear1", "linear2")),
        (Hidden(nn.Linear(6, 6), nn.Linear(6, 2)), ("0", "1")),
        (sequence(), ("0", "1.0")),
    ],
    ids=["other module", "own forward", "other parent"],
)
def test_what_the_names_do_not_tell_is_refused(estimators, model, names):
    with pytest.raises(ValueError, match=r"two of one nn.Sequential.*unspot.hooks"):
        fold_between(model, *names, estimators[0])


def test_the_order_of_the_names(estimators):
    with pytest.raises(ValueError, match=r"order of the calls"):
        fold_between(sequence(), "1.1", "1.0", estimators[0])


def test_erasers_that_are_not_affine(estimators):
    rng = np.random.default_rng(0)
    curved = make("matching").fit(rng.normal(size=(90, 6)), np.arange(90) % 2)
    with pytest.raises(ValueError, match=r"'MomentMatching'.*not affine.*unspot.hooks"):
        fold_after(layer(3, 6), curved)


def test_widths_and_kinds(estimators):
    with pytest.raises(ValueError, match=r"6 features.*in_features=5.*expected as many"):
        fold_before(estimators[0], layer(5, 6))
    with pytest.raises(TypeError, match=r"Got a Conv1d.*nn.Linear"):
        fold_after(nn.Conv1d(2, 6, 1), estimators[0])
    with pytest.raises(TypeError, match=r"Got a Tanh.*nn.Linear"):
        fold_between(nn.Sequential(nn.ReLU(), nn.Tanh()), "0", "1", estimators[0])


def test_a_layer_with_a_hook_of_its_own(estimators):
    linear = layer(3, 6)
    linear.register_forward_hook(lambda module, inputs, output: output.relu())
    with pytest.raises(TypeError, match=r"without hooks"):
        fold_after(linear, Eraser.projection(np.eye(6)[:, :2]))
