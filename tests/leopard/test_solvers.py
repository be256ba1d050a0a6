"""Both solvers go down, stay where they should, and know when to stop."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from unspot.data.rows import stratified_batches
from unspot.leopard import (
    GaussianMixture,
    ManifoldSolver,
    MiniBatches,
    Objective,
    PairWeights,
    PaperSolver,
    Preservation,
    Preserving,
    nearest_projector,
)


@pytest.fixture
def objective(variance_coded):
    X, z = variance_coded
    return Objective(torch.from_numpy(X), PairWeights.between(z), GaussianMixture.paper())


def orthonormal(d, r, seed=0):
    A = np.random.default_rng(seed).normal(size=(d, r))
    return torch.from_numpy(nearest_projector(A))


def test_manifold_descends_on_subspaces(objective):
    V, history = ManifoldSolver().minimise(objective, torch.eye(8, 5, dtype=torch.float64))
    assert all(b <= a for a, b in zip(history.loss, history.loss[1:], strict=False))
    assert history.loss[-1] < 0.02 * history.loss[0]
    torch.testing.assert_close(V.T @ V, torch.eye(5, dtype=torch.float64))


def test_manifold_finds_a_known_subspace():
    # Least-variance subspace: a quadratic whose answer is known exactly.
    S = torch.diag(torch.arange(1.0, 13.0, dtype=torch.float64))
    solver = ManifoldSolver(max_evaluations=300, patience=300)
    V, _ = solver.minimise(lambda V: (float((V * (S @ V)).sum()), 2 * S @ V), orthonormal(12, 4))
    assert float((V * (S @ V)).sum()) == pytest.approx(1 + 2 + 3 + 4, rel=1e-6)


def test_manifold_does_not_depend_on_the_basis(objective):
    V0 = orthonormal(8, 4)
    rotation = orthonormal(4, 4, seed=1)
    solver = ManifoldSolver(max_evaluations=10)
    A, _ = solver.minimise(objective, V0)
    B, _ = solver.minimise(objective, V0 @ rotation)
    torch.testing.assert_close(A @ A.T, B @ B.T, atol=1e-6, rtol=0)


def test_manifold_returns_the_best_held_out_point(objective):
    scores = iter([5.0, 3.0, 1.0, *[4.0] * 100])
    seen = []

    def held_out(V):
        seen.append(V)
        return next(scores)

    solver = ManifoldSolver(patience=3)
    V, history = solver.minimise(objective, orthonormal(8, 4), held_out=held_out)
    assert V is seen[2]
    assert len(history.held_out) == 6  # three better ones, then three in vain


def test_manifold_respects_the_budget_of_evaluations(objective):
    _, history = ManifoldSolver(max_evaluations=5, patience=99).minimise(
        objective, orthonormal(8, 4)
    )
    assert history.evaluations[-1] in range(5, 17)  # one line search may be under way


def test_manifold_stops_at_a_minimum():
    flat = ManifoldSolver().minimise(lambda V: (1.0, torch.zeros_like(V)), orthonormal(6, 2))
    assert flat[1].evaluations == [1]


def test_preservation_is_the_share_of_variance_in_any_basis(rng):
    A = rng.normal(size=(6, 6))
    cov, B = A @ A.T, np.diag(rng.uniform(0.5, 2.0, 6))
    V = orthonormal(6, 3)
    U = nearest_projector(B @ V.numpy())
    expected = np.trace(U.T @ cov @ U) / np.trace(cov)
    share, gradient = Preservation(
        torch.from_numpy(B @ B), torch.from_numpy(B @ cov @ B), float(np.trace(cov))
    )(V)
    assert share == pytest.approx(expected)
    # The gradient against central differences.
    H = torch.from_numpy(rng.normal(size=(6, 3)))
    term = Preservation(
        torch.from_numpy(B @ B), torch.from_numpy(B @ cov @ B), float(np.trace(cov))
    )
    slope = (term(V + 1e-6 * H)[0] - term(V - 1e-6 * H)[0]) / 2e-6
    assert float((gradient * H).sum()) == pytest.approx(slope, rel=1e-6)


def test_objective_gradient_against_differences(objective, rng):
    cov = torch.from_numpy(np.cov(objective.X.numpy().T))
    whole = Preserving(objective, Preservation(None, cov, 8.0, weight=0.1))
    V, H = orthonormal(8, 3), torch.from_numpy(rng.normal(size=(8, 3)))
    _, gradient = whole(V)
    slope = (whole.value(V + 1e-5 * H) - whole.value(V - 1e-5 * H)) / 2e-5
    assert float((gradient * H).sum()) == pytest.approx(slope, rel=1e-5)


def test_paper_solver_is_adam_with_penalty_on_projected_rows(variance_coded):
    """Algorithm 1 against its own text: UUᵀx in d dimensions, autograd, torch's Adam."""
    X, z = (torch.from_numpy(a[::10]) for a in variance_coded)
    kernel = GaussianMixture.paper()
    solver = PaperSolver(epochs=6, learning_rate=0.01, gamma=5.0)
    U0 = orthonormal(8, 3) + 0.05
    objective = Objective(X, PairWeights.between(z), kernel)
    ours, _ = solver.minimise(objective, U0, rng=np.random.default_rng(0))

    U = U0.clone().requires_grad_()
    adam = torch.optim.Adam([U], lr=0.01)
    for epoch in range(6):
        adam.param_groups[0]["lr"] = 0.01 if epoch < 3 else 0.001
        Y = X @ U @ U.T
        d2 = ((Y[:, None] - Y[None]) ** 2).sum(-1)
        n = len(Y)
        k = kernel(d2, (d2.sum() / (n * n - n)).detach())
        a, b = z == 0, z == 1
        within = [
            (k[s][:, s].sum() - k[s][:, s].diagonal().sum()) / (s.sum() * (s.sum() - 1))
            for s in (a, b)
        ]
        loss = within[0] + within[1] - 2 * k[a][:, b].mean()
        loss = loss + 5.0 / 9 * ((U.T @ U - torch.eye(3)) ** 2).sum()
        adam.zero_grad()
        loss.backward()
        adam.step()
    torch.testing.assert_close(ours, U.detach(), rtol=1e-6, atol=1e-8)


def test_paper_presets():
    assert PaperSolver.preset("glove") == PaperSolver()
    assert PaperSolver.preset("bios").batch_size == 8192
    assert PaperSolver.preset("dial").epochs == 200
    with pytest.raises(ValueError, match=r"'celeba', .*'glove', 'bios' or 'dial'"):
        PaperSolver.preset("celeba")


@pytest.mark.parametrize("size", [4, 30, 1000])
def test_batches_hold_every_class_and_every_row_once(rng, size):
    codes = rng.permutation(np.repeat([0, 1, 2], [100, 20, 7]))
    batches = stratified_batches(codes, size, rng)
    assert sorted(np.concatenate(batches)) == list(range(127))
    for rows in batches:
        assert np.bincount(codes[rows], minlength=3).min() >= 2


def test_mini_batches_reach_what_full_batches_reach(objective, variance_coded):
    V = orthonormal(8, 5)
    full = PaperSolver(epochs=150, learning_rate=0.03)
    mini = PaperSolver(epochs=50, learning_rate=0.03, batch_size=200)
    results = {}
    X, z = variance_coded
    batches = MiniBatches(X, z, objective.kernel, torch.device("cpu"))
    for name, solver, loss in (("full", full, objective), ("mini", mini, batches)):
        U, history = solver.minimise(loss, V, rng=np.random.default_rng(0))
        results[name] = objective.value(torch.from_numpy(nearest_projector(U.numpy())))
        assert len(history.loss) == solver.epochs
    start = objective.value(V)
    assert results["full"] < 0.3 * start
    assert results["mini"] < 0.3 * start
