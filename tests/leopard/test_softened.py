"""Directions that go count in part: between the loss of all rows and that of projected ones."""

from __future__ import annotations

import pytest
import torch

from unspot.leopard import (
    GaussianMixture,
    Objective,
    PairWeights,
    Preservation,
    Preserving,
    Softened,
    Term,
)

G = torch.Generator().manual_seed(0)
X = torch.randn(60, 5, generator=G, dtype=torch.float64)
PSI = X[:, :1] ** 2 - 1


def objective():
    return Objective(X - X.mean(0), PairWeights.of([Term(PSI)]), GaussianMixture.paper())


def subspace(seed=1):
    g = torch.Generator().manual_seed(seed)
    return torch.linalg.qr(torch.randn(5, 3, generator=g, dtype=torch.float64))[0]


def test_without_a_share_it_is_the_objective():
    V = subspace()
    assert Softened(objective(), 0.0).value(V) == pytest.approx(objective().value(V), abs=1e-12)
    assert Softened(objective(), 0.0)(V)[0] == pytest.approx(objective().value(V), abs=1e-12)


@pytest.mark.parametrize("weight", [0.0, 0.5])
def test_gradient_along_the_manifold(weight):
    """By finite differences, also with the term that keeps variance."""
    soft, V, h = Softened(objective(), 0.3), subspace(), 1e-6
    if weight:
        soft = Preserving(soft, Preservation(None, torch.cov(X.T), float(X.var(0).sum()), weight))
    value, gradient = soft(V)
    assert soft.value(V) == pytest.approx(value, abs=1e-12)
    along = subspace(2) - V @ (V.T @ subspace(2))  # a tangent
    ahead, behind = (torch.linalg.qr(V + sign * h * along)[0] for sign in (1, -1))
    slope = (soft.value(ahead) - soft.value(behind)) / (2 * h)
    assert float((gradient * along).sum()) == pytest.approx(slope, rel=1e-5, abs=1e-9)
