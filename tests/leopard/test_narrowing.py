"""Inside a subspace, the directions that tell the classes apart are the first to go."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from unspot.erasers.leopard import LEOPARD
from unspot.leopard import (
    GaussianMixture,
    ManifoldSolver,
    Objective,
    PairWeights,
    Preservation,
    narrow,
)


@pytest.fixture
def objective():
    """Ten directions: the first differs by its mean, the second by its variance."""
    rng = np.random.default_rng(0)
    z = np.repeat([0, 1], 400)
    X = rng.normal(size=(800, 10))
    X[z == 1, 0] += 3.0
    X[z == 1, 1] *= 3.0
    return Objective(torch.from_numpy(X), PairWeights.between(z), GaussianMixture.paper())


def carried(V, directions):
    """The share of some coordinates that lies in span(V)."""
    return float((V[directions] ** 2).sum()) / len(directions)


@pytest.mark.parametrize("rank", [8, 3, 1])
def test_directions_that_differ_are_removed(objective, rank):
    V = narrow(objective, torch.eye(10, dtype=torch.float64), rank)
    assert V.shape == (10, rank)
    torch.testing.assert_close(V.T @ V, torch.eye(rank, dtype=torch.float64), atol=1e-9, rtol=0)
    assert carried(V, [0, 1]) < 0.05


def test_result_lies_inside(objective):
    rng = np.random.default_rng(1)
    wide = torch.linalg.qr(torch.from_numpy(rng.normal(size=(10, 6))))[0]
    V = narrow(objective, wide, 2)
    torch.testing.assert_close(wide @ (wide.T @ V), V)


def test_same_rank_is_left_alone(objective):
    V = torch.eye(10, dtype=torch.float64)[:, :3]
    assert narrow(objective, V, 3) is V


def test_the_matrix_is_the_gradient_in_the_metric(objective):
    """½YᵀG is the derivative of the loss when the axes are scaled: by finite differences."""
    h = 1e-5
    V = torch.eye(10, dtype=torch.float64)
    D = 0.5 * (V.T @ objective(V)[1])
    for axis in (0, 1, 5):
        scaled = V.clone()
        scaled[axis, axis] = (1 + h) ** 0.5  # the metric M_aa = 1 + h
        slope = (objective.value(scaled) - objective.value(V)) / h
        assert float(D[axis, axis]) == pytest.approx(slope, rel=1e-3, abs=1e-6)


def test_variance_is_kept_where_it_is_asked_for(objective):
    scale = torch.ones(10, dtype=torch.float64)
    scale[9] = 4.0
    X = objective.X * scale
    covariance = torch.from_numpy(np.cov(X.numpy().T, bias=True))
    kept = Preservation(None, covariance, float(torch.trace(covariance)), 10.0)
    plain = Objective(X, objective.weights, objective.kernel)
    eye = torch.eye(10, dtype=torch.float64)
    assert carried(narrow(plain, eye, 1, kept), [9]) > 0.9
    assert carried(narrow(plain, eye, 1, kept), [9]) > carried(narrow(plain, eye, 1), [9])


@pytest.mark.parametrize("metric", ["euclidean", "whitened"])
def test_a_wider_start_of_a_fit_is_narrowed(objective, metric):
    X, z = objective.X.numpy(), np.repeat([0, 1], 400)
    wide = LEOPARD(rank=9, metric=metric, random_state=0).fit(X, z).eraser_.U
    stopped = ManifoldSolver(max_evaluations=1, init=wide)
    fitted = LEOPARD(rank=6, metric=metric, solver=stopped, random_state=0).fit(X, z)
    assert fitted.eraser_.rank == 6
    inside = wide @ (wide.T @ fitted.eraser_.U)
    np.testing.assert_allclose(inside, fitted.eraser_.U, atol=1e-9)
    assert carried(torch.from_numpy(np.array(fitted.eraser_.U)), [0, 1]) < 0.1
