"""HSIC in tiles against naive sums, dense autograd, and MMD²."""

from __future__ import annotations

from itertools import combinations

import pytest
import torch

from unspot.leopard import (
    GaussianMixture,
    HSICLoss,
    PairWeights,
    Term,
    discrepancy,
    discrepancy_and_grad,
    hsic,
    mean_bandwidth,
    mmd2,
)
from unspot.leopard.kernels import Factors, Tiles, kernel_sums

KERNELS = [
    GaussianMixture.paper(),
    GaussianMixture((0.7, 1.9, 5.0)),
    GaussianMixture.reference(bandwidth=1.7),
]


def sample(n=40, r=3, m=2, seed=0, dtype=torch.float64):
    g = torch.Generator().manual_seed(seed)
    psi = torch.randn(n, m, generator=g, dtype=torch.float64)
    Y = torch.randn(n, r, generator=g, dtype=torch.float64)
    return (Y + psi[:, :1] ** 2).to(dtype), psi


def kernel_matrix(Y, kernel):
    d2 = ((Y[:, None] - Y[None]) ** 2).sum(-1)
    pooled = isinstance(kernel.bandwidth, str)
    return kernel(d2, mean_bandwidth(Y) if pooled else kernel.bandwidth**2)


def song(K, L):
    """The unbiased HSIC of Song et al. (2012), Eq. 5, with n×n matrices."""
    n = len(K)
    off = 1 - torch.eye(n, dtype=K.dtype)
    K, L, one = K * off, L * off, torch.ones(n, dtype=K.dtype)
    trace = (K * L).sum() + one @ K @ one * (one @ L @ one) / ((n - 1) * (n - 2))
    return (trace - 2 / (n - 2) * one @ K @ L @ one) / (n * (n - 3))


def dense(Y, terms, kernel):
    K, total = kernel_matrix(Y, kernel), 0.0
    for psi, weight, groups in terms:
        L, groups = psi @ psi.T, torch.zeros(len(Y)) if groups is None else groups
        members = [groups == g for g in torch.unique(groups) if g >= 0 and (groups == g).sum() > 3]
        n = sum(int(rows.sum()) for rows in members)
        for rows in members:
            total = total + weight * rows.sum() / n * song(K[rows][:, rows], L[rows][:, rows])
    return total


def many_terms(n=700):
    """Two concepts, one with missing rows, one within groups of all sizes, one to keep."""
    Y, psi = sample(n, 3, 4)
    missing = torch.where(torch.arange(n) % 5 == 0, -1, 0)
    groups = torch.cat(
        [torch.arange(30) // 3, torch.full((10,), -1), 11 + torch.arange(n - 40) % 3]
    )
    return Y, [
        Term(psi[:, :2]),
        Term(psi[:, 2:], 0.7, missing),
        Term(psi[:, 1:], 1.3, groups),
        Term(psi[:, 3:], -0.5),
    ]


@pytest.mark.parametrize("kernel", KERNELS)
def test_value_and_gradient_against_dense_autograd(kernel):
    Y, terms = many_terms()
    Y.requires_grad_()
    loss = dense(Y, terms, kernel)
    (expected,) = torch.autograd.grad(loss, Y)
    weights = PairWeights.of(terms)
    value, grad = discrepancy_and_grad(Y.detach(), weights, kernel)
    torch.testing.assert_close(value, loss.detach())
    torch.testing.assert_close(discrepancy(Y.detach(), weights, kernel), value)
    assert float((grad - expected).norm() / expected.norm()) < 1e-8


def test_value_against_a_naive_double_loop():
    Y, psi = sample(30)
    n, K = len(Y), kernel_matrix(Y, KERNELS[0])
    rho = [sum(float(psi[a] @ psi[b]) for b in range(n) if b != a) for a in range(n)]
    total = 0.0
    for a in range(n):
        for b in range(n):
            if a != b:
                c = float(psi[a] @ psi[b]) - (rho[a] + rho[b]) / (n - 2)
                total += float(K[a, b]) * (c + sum(rho) / ((n - 1) * (n - 2))) / (n * (n - 3))
    assert float(hsic(Y, psi)) == pytest.approx(total, rel=1e-9)


def test_weights_of_every_row_add_up_to_zero():
    """So the value is unbiased, and no constant feature counts."""
    Y, psi = sample(50)
    (part,) = PairWeights.of([Term(psi)]).parts
    C = part.weights.left @ part.weights.right.T
    C.fill_diagonal_(0.0)
    assert float(C.sum(1).abs().max()) < 1e-12
    torch.testing.assert_close(hsic(Y, psi), hsic(Y, psi + 5.0))


def test_two_classes_are_mmd2_but_for_a_factor():
    Y, _ = sample(80)
    z = (torch.arange(80) % 3 == 0).long()
    both = [hsic(rows, z.double()) / mmd2(rows, z) for rows in (Y, Y**2, Y.exp())]
    torch.testing.assert_close(both[0], both[1])
    torch.testing.assert_close(both[0], both[2])


def test_one_hots_by_the_root_of_shares_are_the_weighted_sum_of_mmd2():
    """Both as V-statistics, with the pairs of a row and itself."""
    Y, _ = sample(60)
    z = torch.arange(60) % 7 % 3
    p = torch.bincount(z).double() / len(z)
    K = kernel_matrix(Y, KERNELS[0])
    psi = torch.nn.functional.one_hot(z).double() / p.sqrt()
    psi = psi - psi.mean(0)
    tiles = Tiles.of(torch.zeros_like(z))
    multipliers, sigma2 = KERNELS[0].multipliers, float(mean_bandwidth(Y))
    off, _ = kernel_sums(Y, tiles, Factors(psi, psi), multipliers, sigma2, gradient=False)
    own = len(multipliers) * float((psi * psi).sum())  # the pairs of a row and itself
    expected = 0.0
    for i, j in combinations(range(3), 2):
        a, b = z == i, z == j
        mmd = K[a][:, a].mean() + K[b][:, b].mean() - 2 * K[a][:, b].mean()
        expected += float(p[i] * p[j] * mmd)
    assert (off + own) / len(z) ** 2 == pytest.approx(expected, rel=1e-9)


def test_the_mean_is_zero_without_dependence():
    g = torch.Generator().manual_seed(0)
    values = [
        float(hsic(torch.randn(20, 2, generator=g), torch.rand(20, 3, generator=g)))
        for _ in range(300)
    ]
    values = torch.tensor(values)
    assert abs(float(values.mean())) < 3 * float(values.std()) / 300**0.5


def test_single_precision_is_near_double():
    Y, terms = many_terms()
    weights = PairWeights.of(terms)
    value, grad = discrepancy_and_grad(Y, weights)
    low_value, low_grad = discrepancy_and_grad(Y.float(), weights)
    assert low_grad.dtype == torch.float32
    assert float(low_value) == pytest.approx(float(value), abs=1e-6)
    assert float((low_grad - grad).norm() / grad.norm()) < 1e-4


def test_the_loss_in_a_training_loop():
    Y, psi = sample(30)
    Y.requires_grad_()
    HSICLoss()(Y, psi).backward()
    torch.testing.assert_close(
        Y.grad, discrepancy_and_grad(Y.detach(), PairWeights.of([Term(psi)]))[1]
    )
    assert float(HSICLoss()(Y.detach(), psi)) == float(hsic(Y.detach(), psi))


@pytest.mark.parametrize(
    ("rows", "features", "needles"),
    [(5, (4, 2), ["(5, 3)", "4 rows"]), (3, (3, 1), ["3 rows", "at least 4"])],
)
def test_what_has_no_hsic(rows, features, needles):
    with pytest.raises(ValueError, match="expected") as error:
        hsic(torch.zeros(rows, 3), torch.zeros(features))
    for needle in needles:
        assert needle in str(error.value)
