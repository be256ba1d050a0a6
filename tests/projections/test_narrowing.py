"""Inside a subspace, the directions that tell the classes apart are the first to go."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from unspot.density import GaussianMixture
from unspot.erasers.leopard import LEOPARD
from unspot.projections import ManifoldSolver, Objective, Preservation, narrow
from unspot.projections.narrowing import by_discrepancy, by_moments


@pytest.fixture
def objective():
    """Ten directions: the first differs by its mean, the second by its variance."""
    rng = np.random.default_rng(0)
    z = np.repeat([0, 1], 400)
    X = rng.normal(size=(800, 10))
    X[z == 1, 0] += 3.0
    X[z == 1, 1] *= 3.0
    return Objective(torch.from_numpy(X), torch.from_numpy(z), GaussianMixture.paper())


def carried(V, directions):
    """The share of some coordinates that lies in span(V)."""
    return float((V[directions] ** 2).sum()) / len(directions)


@pytest.mark.parametrize("choose", [by_discrepancy, by_moments, narrow])
def test_directions_that_differ_are_removed(objective, choose):
    V = choose(objective, torch.eye(10, dtype=torch.float64), 8)
    assert V.shape == (10, 8)
    torch.testing.assert_close(V.T @ V, torch.eye(8, dtype=torch.float64), atol=1e-9, rtol=0)
    assert carried(V, [0, 1]) < 0.05


def test_result_lies_inside(objective):
    rng = np.random.default_rng(1)
    wide = torch.linalg.qr(torch.from_numpy(rng.normal(size=(10, 6))))[0]
    V = narrow(objective, wide, 2)
    torch.testing.assert_close(wide @ (wide.T @ V), V)


def test_same_rank_is_left_alone(objective):
    V = torch.eye(10, dtype=torch.float64)[:, :3]
    assert narrow(objective, V, 3) is V


def test_the_better_of_two_choices_is_kept(objective):
    choices = {
        name: choose(objective, torch.eye(10, dtype=torch.float64), 5)
        for name, choose in (("discrepancy", by_discrepancy), ("moments", by_moments))
    }
    worst = max(choices, key=lambda name: objective.value(choices[name]))
    found = narrow(
        objective, torch.eye(10, dtype=torch.float64), 5, score=lambda V: -objective.value(V)
    )
    torch.testing.assert_close(found, choices[worst])


def test_variance_is_kept_where_it_is_asked_for(objective):
    scale = torch.ones(10, dtype=torch.float64)
    scale[9] = 4.0
    X = objective.X * scale
    covariance = torch.from_numpy(np.cov(X.numpy().T, bias=True))
    kept = Preservation(None, covariance, float(torch.trace(covariance)))
    plain = Objective(X, objective.z, objective.kernel)
    keeping = Objective(X, objective.z, objective.kernel, kept, weight=10.0)
    eye = torch.eye(10, dtype=torch.float64)
    assert carried(by_discrepancy(keeping, eye, 1), [9]) > 0.9
    assert carried(by_discrepancy(keeping, eye, 1), [9]) > carried(
        by_discrepancy(plain, eye, 1), [9]
    )


@pytest.mark.parametrize("metric", ["euclidean", "whitened"])
def test_a_wider_start_of_a_fit_is_narrowed(objective, metric):
    X, z = objective.X.numpy(), objective.z.numpy()
    wide = LEOPARD(rank=9, metric=metric, random_state=0).fit(X, z).eraser_.U
    stopped = ManifoldSolver(max_evaluations=1)
    fitted = LEOPARD(rank=6, init=wide, metric=metric, solver=stopped, random_state=0).fit(X, z)
    assert fitted.eraser_.rank == 6
    inside = wide @ (wide.T @ fitted.eraser_.U)
    np.testing.assert_allclose(inside, fitted.eraser_.U, atol=1e-9)
    assert carried(torch.from_numpy(np.array(fitted.eraser_.U)), [0, 1]) < 0.1
