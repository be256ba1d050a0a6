"""The tiled engine against the plain formula, and what the theory says about MMD²."""

from __future__ import annotations

import subprocess
import sys
from itertools import combinations

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from unspot.leopard import (
    GaussianMixture,
    MMDLoss,
    PairWeights,
    discrepancy_and_grad,
    mean_bandwidth,
    mmd2,
)
from unspot.leopard.kernels import Tiles

KERNELS = [
    GaussianMixture.paper(),
    GaussianMixture.reference(10),
    GaussianMixture((0.7, 1.9, 5.0)),  # ratios that are no powers of two
    GaussianMixture.paper(bandwidth="pair"),
    GaussianMixture.reference(bandwidth=1.7),
]


def mmd2_and_grad(Y, z, *args, **options):
    return discrepancy_and_grad(Y, PairWeights.between(z), *args, **options)


def dense(Y, z, kernel, *, between=-2):
    """Eqs. 4–6 written out with n×n matrices, for autograd; ``between=2`` adds all terms up."""
    d2 = ((Y[:, None] - Y[None]) ** 2).sum(-1)
    classes = torch.unique(z)
    total = torch.zeros((), dtype=Y.dtype)
    for i, j in combinations(range(len(classes)), 2):
        a, b = z == classes[i], z == classes[j]
        if kernel.bandwidth == "pooled":
            sigma2 = mean_pairwise(d2)
        elif kernel.bandwidth == "pair":
            sigma2 = mean_pairwise(d2[a | b][:, a | b])
        else:
            sigma2 = kernel.bandwidth**2
        k = kernel(d2, sigma2)
        within = off_diagonal_mean(k[a][:, a]) + off_diagonal_mean(k[b][:, b])
        total = total + within + between * k[a][:, b].mean()
    return total


def mean_pairwise(d2):
    return d2.sum() / (len(d2) ** 2 - len(d2))


def off_diagonal_mean(k):
    return (k.sum() - k.diagonal().sum()) / (len(k) * (len(k) - 1))


def sample(n, r, K, seed=0, dtype=torch.float64):
    g = torch.Generator().manual_seed(seed)
    z = torch.arange(n) % K
    z = z[torch.randperm(n, generator=g)]
    Y = torch.randn(n, r, generator=g, dtype=dtype) * (1 + z[:, None]) + 0.3 * z[:, None]
    return Y, z


@settings(max_examples=60, deadline=None)
@given(
    n=st.integers(12, 90),
    r=st.integers(1, 9),
    K=st.sampled_from([2, 3, 5]),
    kernel=st.sampled_from(KERNELS),
    dtype=st.sampled_from([torch.float64, torch.float32]),
    tile=st.sampled_from([4, 16, 100, 512]),
    seed=st.integers(0, 1000),
)
def test_tiled_value_and_gradient_equal_dense_autograd(n, r, K, kernel, dtype, tile, seed):
    Y, z = sample(n, r, K, seed)
    Y.requires_grad_()
    expected = dense(Y, z, kernel)
    (gradient,) = torch.autograd.grad(expected, Y)
    with pytest.MonkeyPatch.context() as patch:
        of = Tiles.of
        patch.setattr(Tiles, "of", classmethod(lambda cls, z: of(z, tile)))
        value, tiled = mmd2_and_grad(Y.detach().to(dtype), z, kernel)
        alone = mmd2(Y.detach().to(dtype), z, kernel)
    assert tiled.dtype == dtype
    # The value is a small difference of large sums, so its rounding is relative to the terms.
    terms = float(dense(Y.detach(), z, kernel, between=2))
    close = {"abs": (1e-14 if dtype == torch.float64 else 2e-6) * terms}
    assert float(value) == pytest.approx(float(expected.detach()), **close)
    assert float(alone) == pytest.approx(float(value), **close)
    tolerance = 1e-11 if dtype == torch.float64 else 2e-5
    assert float((tiled - gradient).norm()) < tolerance * max(float(gradient.norm()), 1e-3)


def test_many_classes_of_any_size_equal_dense_autograd():
    """Small ones share tiles, large ones have several, in any order."""
    counts = [3, 2, 140, 9, 2, 2, 30, 2, 2, 5, 70, 2, 4]
    z = torch.repeat_interleave(torch.arange(len(counts)), torch.tensor(counts))
    z = z[torch.randperm(len(z), generator=torch.Generator().manual_seed(0))]
    Y = sample(len(z), 3, 4)[0].requires_grad_()
    expected = dense(Y, z, KERNELS[0])
    (gradient,) = torch.autograd.grad(expected, Y)
    tiles = Tiles.of(z, 64)
    assert sum(tile.n_rows for tile in tiles.cuts) == len(z)
    assert len(tiles.cuts) < len(counts)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Tiles, "of", classmethod(lambda cls, z: tiles))
        value, found = mmd2_and_grad(Y.detach(), z)
    assert float(value) == pytest.approx(float(expected.detach()), rel=1e-11)
    torch.testing.assert_close(found, gradient)


def test_few_tiles_for_many_classes():
    """Not their square of pairs, each of which costs some calls."""
    assert len(list(Tiles.of(torch.arange(4000) % 500).pairs())) < 50


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_half_precision_is_computed_in_single(dtype):
    Y, z = sample(600, 4, 2)
    Y = (300 * Y).to(dtype)
    value, gradient = mmd2_and_grad(Y, z)
    expected, exact = mmd2_and_grad(Y.float(), z)
    assert float(value) == float(expected) > 0
    assert gradient.dtype == dtype
    torch.testing.assert_close(gradient, exact.to(dtype))
    torch.testing.assert_close(MMDLoss()(Y, z), expected.to(dtype))


def test_gradient_with_detached_bandwidth():
    Y, z = sample(80, 4, 3)
    sigma = float(mean_bandwidth(Y)) ** 0.5
    _, fixed = mmd2_and_grad(Y, z, GaussianMixture.paper(bandwidth=sigma))
    _, detached = mmd2_and_grad(Y, z, GaussianMixture.paper(), detach_bandwidth=True)
    _, through = mmd2_and_grad(Y, z, GaussianMixture.paper())
    torch.testing.assert_close(detached, fixed)
    assert float((through - fixed).norm()) > 1e-3 * float(fixed.norm())


def test_unequal_classes_of_any_order():
    Y, _ = sample(70, 4, 2)
    z = torch.tensor([0] * 3 + [1] * 60 + [2] * 7)
    expected = dense(Y, z, GaussianMixture.paper())
    assert float(mmd2(Y, z)) == pytest.approx(float(expected))


def test_mean_is_zero_for_equal_laws_and_it_may_be_negative():
    g = torch.Generator().manual_seed(0)
    z = torch.arange(60) % 2
    values = np.array([float(mmd2(torch.randn(60, 3, generator=g), z)) for _ in range(300)])
    standard_error = values.std() / np.sqrt(len(values))
    assert abs(values.mean()) < 3 * standard_error
    assert values.min() < 0


@pytest.mark.parametrize("kernel", KERNELS[:2] + KERNELS[3:])
def test_invariant_to_names_rows_rotation_and_shift(kernel):
    Y, z = sample(90, 5, 3)
    before = float(mmd2(Y, z, kernel))
    order = torch.randperm(90, generator=torch.Generator().manual_seed(1))
    rotation, _ = torch.linalg.qr(torch.randn(5, 5, dtype=torch.float64))
    assert float(mmd2(Y, torch.tensor([7, -1, 40])[z], kernel)) == pytest.approx(before)
    assert float(mmd2(Y[order], z[order], kernel)) == pytest.approx(before)
    assert float(mmd2(Y @ rotation + 100.0, z, kernel)) == pytest.approx(before, rel=1e-6)


def test_scale_does_not_matter_with_the_mean_heuristic():
    Y, z = sample(60, 3, 2)
    value, gradient = mmd2_and_grad(Y, z)
    assert float(mmd2(1e3 * Y, z)) == pytest.approx(float(value))
    # So the exact gradient has no part along Y − Ȳ.
    assert float((gradient * (Y - Y.mean(0))).sum()) == pytest.approx(0.0, abs=1e-12)


def test_identical_rows_are_no_error():
    value, gradient = mmd2_and_grad(torch.ones(8, 3), torch.arange(8) % 2)
    assert float(value) == pytest.approx(0.0, abs=1e-6)
    assert torch.isfinite(gradient).all()


def test_no_matrix_of_all_pairs_is_held():
    # 16,000 rows: all pairs in float32 would be 1 GB, and autograd would hold many of them.
    program = """
import resource, torch
from unspot.leopard import PairWeights, discrepancy_and_grad
Y, z = torch.randn(16_000, 4), torch.arange(16_000) % 2
discrepancy_and_grad(Y[:600], PairWeights.between(z[:600]))
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
discrepancy_and_grad(Y, PairWeights.between(z))
print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before)
"""
    run = subprocess.run([sys.executable, "-c", program], capture_output=True, check=True)
    assert int(run.stdout) < 100_000  # kB


def test_loss_module_trains_through_autograd():
    Y, z = sample(50, 3, 2)
    layer = torch.nn.Linear(3, 2, dtype=torch.float64)
    loss = MMDLoss()(layer(Y), z)
    loss.backward()
    tiled = layer.weight.grad.clone()
    layer.zero_grad()
    dense(layer(Y), z, GaussianMixture.paper()).backward()
    torch.testing.assert_close(tiled, layer.weight.grad)
    assert float(MMDLoss()(layer(Y).detach(), z)) == pytest.approx(float(loss.detach()))


@pytest.mark.parametrize(
    ("Y", "z", "message"),
    [
        (torch.ones(4, 2), torch.zeros(4), "at least two classes"),
        (torch.ones(3, 2), torch.tensor([0, 0, 1]), "at least two rows each"),
        (torch.ones(3, 2), torch.tensor([0, 1, 0, 1]), r"\(3, 2\) and weights of 4 rows"),
    ],
)
def test_bad_input(Y, z, message):
    with pytest.raises(ValueError, match=message):
        mmd2(Y, z)
