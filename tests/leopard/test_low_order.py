"""Low orders of MMD²: against the sum over all pairs, and as a part of the loss on all rows."""

import itertools

import numpy as np
import pytest
import torch

from unspot.leopard import (
    AllRows,
    GaussianMixture,
    LowOrder,
    ManifoldSolver,
    Objective,
    PairWeights,
    discrepancy_and_grad,
    mmd2,
)
from unspot.leopard.low_order import Blocks, noise
from unspot.leopard.solvers import Noise

KERNEL = GaussianMixture((0.5, 2.0))


def _low(X, z, kernel=KERNEL, covariance=None):
    C = torch.from_numpy(np.cov(X.T) if covariance is None else covariance)
    blocks = Blocks(X, z, np.arange(len(X)), int(z.max()) + 1, lambda X: X)
    return LowOrder(blocks, tuple(np.bincount(z).tolist()), kernel, C)


def _orthonormal(d, r, seed=0):
    return torch.linalg.qr(torch.from_numpy(np.random.default_rng(seed).normal(size=(d, r))))[0]


@pytest.fixture
def rows(rng):
    z = np.repeat([0, 1, 2], [40, 25, 15])
    X = rng.normal(size=(80, 5))
    X[z == 1] *= 1.5
    X[z == 2, 0] += 1.0
    order = rng.permutation(80)
    return X[order] - X.mean(0), z[order]


@pytest.mark.parametrize("bandwidth", ["pooled", 1.7])
def test_value_is_the_sum_over_all_pairs(rows, bandwidth):
    X, z = rows
    V = _orthonormal(5, 3)
    kernel = GaussianMixture(KERNEL.multipliers, bandwidth)
    Y = X @ V.numpy()
    sigma2 = 2 * np.trace(np.cov(Y.T)) if bandwidth == "pooled" else bandwidth**2
    K = np.zeros((80, 80))
    for m in kernel.multipliers:
        w, t = np.exp(-np.square(Y).sum(1) / (m * sigma2)), 2 * Y @ Y.T / (m * sigma2)
        K += np.outer(w, w) * (1 + t + t * t / 2)
    np.fill_diagonal(K, 0.0)
    counts = np.bincount(z)
    expected = 0.0
    for a, b in itertools.combinations(range(3), 2):
        for k in (a, b):
            expected += K[z == k][:, z == k].sum() / (counts[k] * (counts[k] - 1))
        expected -= 2 * K[z == a][:, z == b].mean()
    value, _ = _low(X, z, kernel)(V)
    assert value == pytest.approx(expected, rel=1e-10)


def _assert_is_gradient(function, V, rng):
    _, grad = function(V)
    step = torch.from_numpy(rng.normal(size=tuple(V.shape)))
    h = 1e-5
    slope = (function(V + h * step)[0] - function(V - h * step)[0]) / (2 * h)
    assert float((grad * step).sum()) == pytest.approx(slope, rel=1e-5, abs=1e-9)


@pytest.mark.parametrize("bandwidth", ["pooled", 1.7])
def test_gradient_against_differences(rows, rng, bandwidth):
    low = _low(*rows, GaussianMixture(KERNEL.multipliers, bandwidth))
    _assert_is_gradient(low, _orthonormal(5, 3), rng)


def test_gradient_of_the_loss_on_all_rows(rows, rng):
    X, z = rows
    part = np.arange(0, 80, 2)
    sample = Objective(torch.from_numpy(X[part]), PairWeights.between(z[part]), KERNEL)
    C = np.cov(X[part].T)
    loss = AllRows(sample, _low(X[part], z[part], covariance=C), _low(X, z, covariance=C))
    _assert_is_gradient(loss, _orthonormal(5, 3), rng)


def test_higher_orders_of_the_sample_count_if_they_are_more_than_noise(rng):
    z = np.arange(1200) % 2
    X = rng.normal(size=(1200, 2))
    X[z == 1, 0] = rng.choice([-1.0, 1.0], size=600)  # mean and variance as those of the others
    part = slice(0, 600)
    sample = Objective(torch.from_numpy(X[part]), PairWeights.between(z[part]), KERNEL)
    loss = AllRows(sample, _low(X[part], z[part]), _low(X, z))
    telling, other = torch.eye(2, dtype=torch.float64).split(1, dim=1)
    level = noise([300, 300])
    assert loss(telling)[0] - loss.low_of_all(telling)[0] > 3 * level
    assert loss(other)[0] - loss.low_of_all(other)[0] < 0.2 * level


def test_low_orders_are_most_of_mmd_in_many_dimensions(rng):
    z = np.arange(1500) % 2
    X = rng.normal(size=(1500, 30)) * np.where(z == 1, 1.15, 1.0)[:, None]
    X -= X.mean(0)
    V = _orthonormal(30, 20)
    Y = torch.from_numpy(X) @ V
    value, low = _low(X, z, GaussianMixture.paper())(V)
    expected, by_row = discrepancy_and_grad(Y, PairWeights.between(z))
    grad = torch.from_numpy(X).T @ by_row
    assert 0.8 < value / float(expected) < 1.0  # what is left is a discrepancy too
    assert float((grad * low).sum() / grad.norm() / low.norm()) > 0.98


def test_narrow_kernels_are_left_to_the_sample(rows):
    X, z = rows
    narrow = _low(X, z, GaussianMixture((0.01, 0.5, 2.0)))(_orthonormal(5, 3))
    wide = _low(X, z)(_orthonormal(5, 3))
    assert narrow[0] == wide[0]


@pytest.mark.parametrize("n_classes", [2, 4])
def test_noise_is_the_spread_of_equal_laws(rng, n_classes):
    z = torch.arange(200) % n_classes
    found = [float(mmd2(torch.from_numpy(rng.normal(size=(200, 20))), z)) for _ in range(40)]
    assert 0.3 < np.std(found) / noise([200 // n_classes] * n_classes) < 3


def test_noise_is_not_fitted():
    """Steps that bring less than noise are not kept; held-out rows may object to others."""
    losses = [1.0, 0.5, 0.2, 0.199, 0.198, 0.1]
    held = [1.0, 0.5, 0.2, 0.2, 0.2, 0.4]
    found = _kept(losses, held, Noise(0.05, 0.1))
    assert found == 2
    assert _kept(losses, held, Noise(0.05, 0.3)) == 5
    assert _kept(losses, held, None) == 2


def _kept(losses, held, noise):
    from unspot.leopard.solvers import _Progress

    progress = _Progress(ManifoldSolver(), noise)
    kept = [progress.keeps(*pair) for pair in zip(losses, held, strict=True)]
    return max(np.flatnonzero(kept))


def test_ctrl_c_keeps_the_best_so_far_if_asked_to(rows):
    X, z = rows
    objective = Objective(torch.from_numpy(X), PairWeights.between(z), KERNEL)

    def interrupted_at(last):
        scores = iter(range(100, 0, -1))

        def held_out(V):
            score = next(scores)
            if score == 100 - last:
                raise KeyboardInterrupt
            return float(score)

        return held_out

    V = _orthonormal(5, 3)
    with pytest.raises(KeyboardInterrupt):
        ManifoldSolver().minimise(objective, V, held_out=interrupted_at(2))
    keeping = ManifoldSolver(on_interrupt="keep")
    _, history = keeping.minimise(objective, V, held_out=interrupted_at(2))
    assert history.kept == 1
    assert len(history.loss) == 2
    with pytest.raises(KeyboardInterrupt):  # there is nothing yet to keep
        keeping.minimise(objective, V, held_out=interrupted_at(0))
    with pytest.raises(ValueError, match=r"on_interrupt.*'stop'"):
        ManifoldSolver(on_interrupt="stop")
