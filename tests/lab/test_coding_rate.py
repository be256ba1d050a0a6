"""Coding rates against their formulas, written out densely."""

from __future__ import annotations

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from unspot.lab.coding_rate import class_rate, coding_rate, kernel_rate, matched_rate


def dense_rate(Z, K=None, *, distortion=0.5, n=None):
    """½ log det(I + d/(nε²)·ZZᵀ∘K), n×n and by LU."""
    rows, d = Z.shape
    G = Z @ Z.T if K is None else (Z @ Z.T) * K
    alpha = d / ((n or rows) * distortion)
    return 0.5 * torch.logdet(torch.eye(rows, dtype=Z.dtype) + alpha * G)


def rows(n, d, seed=0):
    return torch.randn(n, d, dtype=torch.float64, generator=torch.Generator().manual_seed(seed))


def test_hand_case():
    # One row of norm √2 in two dimensions: α = 2/0.5 = 4, det = 1 + 4·2.
    Z = torch.tensor([[1.0, 1.0]], dtype=torch.float64)
    assert float(coding_rate(Z)) == pytest.approx(0.5 * math.log(9))
    # Twice the distortion: α = 2.
    assert float(coding_rate(Z, distortion=1.0)) == pytest.approx(0.5 * math.log(5))


@settings(max_examples=25, deadline=None)
@given(n=st.integers(1, 30), d=st.integers(1, 12), seed=st.integers(0, 100))
def test_rate_equals_the_dense_formula_on_either_side(n, d, seed):
    Z = rows(n, d, seed)
    torch.testing.assert_close(coding_rate(Z), dense_rate(Z), rtol=1e-9, atol=1e-9)


@settings(max_examples=10, deadline=None)
@given(seed=st.integers(0, 100))
def test_rate_does_not_change_under_rotation_or_row_order(seed):
    Z = rows(15, 6, seed)
    Q, _ = torch.linalg.qr(rows(6, 6, seed + 1))
    torch.testing.assert_close(coding_rate(Z @ Q), coding_rate(Z))
    torch.testing.assert_close(coding_rate(Z.flip(0)), coding_rate(Z))


def test_class_rate_is_the_weighted_sum_over_classes():
    Z, codes = rows(12, 3), torch.tensor([2, 0, 0, 1, 2, 2, 0, 1, 1, 1, 0, 1])
    expected = sum((codes == k).sum() / 12 * dense_rate(Z[codes == k]) for k in range(3))
    torch.testing.assert_close(class_rate(Z, codes, 3), expected)


def test_a_class_that_is_missing_from_a_batch_adds_nothing():
    Z, codes = rows(6, 3), torch.tensor([0, 0, 2, 2, 2, 0])
    renamed = torch.tensor([0, 0, 1, 1, 1, 0])
    torch.testing.assert_close(class_rate(Z, codes, 3), class_rate(Z, renamed, 2))
    torch.testing.assert_close(matched_rate(Z, codes, 3), matched_rate(Z, renamed, 2))


@pytest.mark.parametrize("d", [3, 20])
def test_matched_rate_is_the_kernel_rate_of_equal_labels(d):
    Z, codes = rows(14, d), torch.arange(14) % 3
    K = (codes[:, None] == codes[None, :]).double()
    torch.testing.assert_close(matched_rate(Z, codes, 3), dense_rate(Z, K))
    torch.testing.assert_close(kernel_rate(Z, K), dense_rate(Z, K))


def test_constant_kernel_gives_the_plain_rate():
    Z = rows(9, 4)
    torch.testing.assert_close(kernel_rate(Z, torch.ones(9, 9).double()), coding_rate(Z))


@pytest.mark.parametrize("shape", [(9, 4), (4, 9)])
def test_gradients_are_those_of_the_dense_formula(shape):
    codes = torch.arange(shape[0]) % 2
    z = rows(shape[0], 1)
    K = torch.exp(-((z - z.T) ** 2))
    for ours, dense in [
        (coding_rate, dense_rate),
        (lambda Z: kernel_rate(Z, K), lambda Z: dense_rate(Z, K)),
        (
            lambda Z: matched_rate(Z, codes, 2),
            lambda Z: dense_rate(Z, (codes[:, None] == codes[None, :]).double()),
        ),
    ]:
        Z, W = rows(*shape).requires_grad_(), rows(*shape).requires_grad_()
        (3 * ours(Z)).backward()
        (3 * dense(W)).backward()
        torch.testing.assert_close(Z.grad, W.grad, rtol=1e-8, atol=1e-10)


def test_overflow_is_nan_rather_than_an_exception():
    # The training loop turns it into an error that names the step.
    Z = torch.full((3, 3), torch.inf)
    assert not torch.isfinite(coding_rate(Z))
