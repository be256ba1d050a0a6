"""The game between a linear adversary and a relaxed projector: pure numerics of R-LACE.

An adversary answers a projector with its optimum; by Danskin's theorem the gradient of what it
then loses is that of its loss with the answer held fixed.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize
from scipy.special import logsumexp

__all__ = ["ADVERSARIES", "Adversary", "Game", "fantope"]

Array = NDArray[np.float64]

#: The penalty of the adversary that judges a projector: enough to make its answer unique.
_SMALL = 1e-4


def fantope(A: Array, k: int) -> Array:
    """The nearest symmetric matrix with eigenvalues in [0, 1] that add up to k. Cost: O(d³).

    Examples
    --------
    >>> fantope(np.diag([3.0, 0.5, 0.1]), 1).round(6) + 0.0
    array([[1., 0., 0.],
           [0., 0., 0.],
           [0., 0., 0.]])
    """
    values, vectors = np.linalg.eigh((A + A.T) / 2)
    clipped = np.clip(values - _shift(values, k), 0.0, 1.0)
    return (vectors * clipped) @ vectors.T


def _shift(values: Array, k: int) -> float:
    """τ with Σ clip(values − τ, 0, 1) = k: the sum falls linearly between its breakpoints."""
    points = np.sort(np.concatenate([values - 1, values]))
    sums = np.clip(values[None, :] - points[:, None], 0.0, 1.0).sum(axis=1)
    # np.interp wants increasing abscissae, the sums decrease.
    return float(np.interp(k, sums[::-1], points[::-1]))


@dataclass(frozen=True)
class Adversary:
    """A linear adversary: its optimum, and its loss and residuals given its scores."""

    #: (rows, one-hot labels, penalty, start or None) → θ (d + 1, K), intercepts in the last row
    answer: Callable[[Array, Array, float, Array | None], Array]
    residuals: Callable[[Array, Array], Array]  # ∂loss/∂scores, (n, K)
    loss: Callable[[Array, Array], float]


@dataclass(frozen=True)
class Game:
    """Rows that a linear adversary is fitted on, and held-out rows that it is judged by.

    Parameters
    ----------
    adversary : Adversary
    X, Z : arrays of shape (n, d) and (n, K)
        Rows of unit variance, and one-hot labels.
    X_held, Z_held : the same
    penalty : float
        The adversary's penalty ½·penalty·‖θ‖². Against a weakly penalised adversary only a
        complete projection helps, since it undoes any other by larger weights: a flat game.
    """

    adversary: Adversary
    X: Array
    Z: Array
    X_held: Array
    Z_held: Array
    penalty: float = 1.0

    def answer(self, B: Array, start: Array | None) -> Array:
        """The adversary's optimum on the rows XB."""
        return self.adversary.answer(self.X @ B, self.Z, self.penalty, start)

    def gradient(self, B: Array, theta: Array) -> Array:
        """∂/∂A of what the adversary loses at its optimum, where B = I − A."""
        residuals = self.adversary.residuals(_scores(self.X @ B, theta), self.Z)
        M = self.X.T @ residuals @ theta[:-1].T / len(self.X)
        return -(M + M.T) / 2

    def held_out_loss(self, Q: Array) -> float:
        """What the best adversary against I − QQᵀ loses on the held-out rows."""
        off = self.X - (self.X @ Q) @ Q.T
        theta = self.adversary.answer(off, self.Z, _SMALL, None)
        held = self.X_held - (self.X_held @ Q) @ Q.T
        return self.adversary.loss(_scores(held, theta), self.Z_held)

    @cached_property
    def prior_loss(self) -> float:
        """What knowing the class shares alone loses on the held-out rows."""
        theta = self.adversary.answer(self.X[:, :0], self.Z, _SMALL, None)
        return self.adversary.loss(_scores(self.X_held[:, :0], theta), self.Z_held)


def _scores(X: Array, theta: Array) -> Array:
    result: Array = X @ theta[:-1] + theta[-1]
    return result


def _softmax_residuals(scores: Array, Z: Array) -> Array:
    result: Array = np.exp(scores - logsumexp(scores, axis=1, keepdims=True)) - Z
    return result


def _cross_entropy(scores: Array, Z: Array) -> float:
    return float(np.mean(logsumexp(scores, axis=1) - np.sum(scores * Z, axis=1)))


def _logistic_answer(X: Array, Z: Array, penalty: float, start: Array | None) -> Array:
    shape = (X.shape[1] + 1, Z.shape[1])
    penalties = np.full(shape, penalty)
    penalties[-1] = 0.0

    def objective(flat: Array) -> tuple[float, Array]:
        theta = flat.reshape(shape)
        scores = _scores(X, theta)
        residuals = _softmax_residuals(scores, Z) / len(X)
        gradient = np.vstack([X.T @ residuals, residuals.sum(axis=0)]) + penalties * theta
        value = _cross_entropy(scores, Z) + float(np.sum(penalties * theta**2)) / 2
        return value, gradient.ravel()

    # A warm start is near its optimum; from nothing it takes more.
    steps = 10 if start is not None else 100
    flat = np.zeros(shape).ravel() if start is None else start.ravel()
    found = minimize(objective, flat, jac=True, method="L-BFGS-B", options={"maxiter": steps})
    result: Array = found.x.reshape(shape)
    return result


def _squared_answer(X: Array, Z: Array, penalty: float, start: Array | None) -> Array:
    mean_x, mean_z = X.mean(axis=0), Z.mean(axis=0)
    centred = X - mean_x
    gram = centred.T @ centred / len(X) + penalty * np.eye(X.shape[1])
    weights = np.linalg.solve(gram, centred.T @ (Z - mean_z) / len(X))
    return np.vstack([weights, mean_z - mean_x @ weights])


def _half_squares(scores: Array, Z: Array) -> float:
    return float(np.mean(np.sum((scores - Z) ** 2, axis=1)) / 2)


#: By the name of their loss.
ADVERSARIES = {
    "logistic": Adversary(_logistic_answer, _softmax_residuals, _cross_entropy),
    "squared": Adversary(_squared_answer, lambda scores, Z: scores - Z, _half_squares),
}
