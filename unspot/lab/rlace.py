"""R-LACE: a projection that wins a game against a linear adversary."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize
from scipy.special import logsumexp

from unspot.checks import check_choice, check_count, check_positive, check_share
from unspot.data.concept import Classes
from unspot.data.rows import by_rows, generator, sample_and_held_out
from unspot.eraser import Eraser
from unspot.erasers.base import BaseEraser
from unspot.erasers.leace import warn_if_all
from unspot.lab.scaling import Scaling, in_own_order
from unspot.leopard.subspaces import complement

__all__ = ["ADVERSARIES", "RLACE", "Adversary", "Game", "fantope"]

Array = NDArray[np.float64]

#: Steps between two looks at the held-out part.
_CHECK_EVERY = 10
#: The penalty of the adversary that judges a projector: enough to make its answer unique.
_SMALL = 1e-4


class RLACE(BaseEraser):
    """Relaxed linear adversarial concept erasure: an orthogonal eraser of few directions.

    The game max_A min_θ L(X(I − A), z; θ), where θ is a linear adversary and A is relaxed from
    projectors of rank k to the Fantope {0 ⪯ A ⪯ I, tr A = k}. The adversary answers each A with
    its optimum, so the loss is a concave function of A with a known gradient. A takes a step
    along it and is projected back on the Fantope (eigenvalues clipped). The result is I − QQᵀ,
    with Q the top k eigenvectors of the A whose projector does best on a held-out part.

    Cost: an iteration takes O(ndK) for each of some ten steps of the adversary, and O(d³) for
    the projection; some 30 iterations are enough.

    Parameters
    ----------
    n_directions : int, optional
        k, the dimensions to remove; by default K − 1, but at most d.
    loss : {"logistic", "squared"}
        The adversary's loss: cross-entropy, or squared errors of one-hot labels. With "squared"
        the optimum is known: the span of the differences of class means.
    penalty : float
        The adversary's penalty ½·penalty·‖θ‖² in the game, on embeddings of unit variance. With a
        small penalty the game is flat, and slow: the adversary undoes anything but a complete
        projection by larger weights. The held-out adversary has hardly any penalty.
    n_iterations : int
        The most steps of A.
    tolerance : float
        Training ends when the adversary's held-out loss is within this share of the loss of
        guessing by the class shares.
    validation_fraction : float
        The stratified part that is held out to choose and stop by.
    max_rows : int
        The most rows that the adversary is fitted on, drawn at random.
    random_state : int, RandomState or None

    Attributes
    ----------
    eraser_ : Eraser
        An orthogonal projection of rank d − k.
    directions_ : ndarray of shape (d, k)
        Orthonormal basis of what was removed.
    n_iter_ : int
        The number of steps; 0 if all dimensions are removed, since then there is no game.

    References
    ----------
    S. Ravfogel et al., "Linear Adversarial Concept Erasure", ICML 2022.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> z = np.repeat(["a", "b"], 100)
    >>> X = rng.normal(size=(200, 4)) + 3 * (z == "b")[:, None] * np.eye(4)[0]
    >>> RLACE(random_state=0).fit(X, z).eraser_.rank
    3
    """

    def __init__(
        self,
        *,
        n_directions: int | None = None,
        loss: Literal["logistic", "squared"] = "logistic",
        penalty: float = 1.0,
        n_iterations: int = 200,
        tolerance: float = 1e-3,
        validation_fraction: float = 0.1,
        max_rows: int = 20_000,
        random_state: Any = None,
    ) -> None:
        self.n_directions = n_directions
        self.loss = loss
        self.penalty = penalty
        self.n_iterations = n_iterations
        self.tolerance = tolerance
        self.validation_fraction = validation_fraction
        self.max_rows = max_rows
        self.random_state = random_state

    def _fit_eraser(self, X: NDArray[Any], target: Classes) -> Eraser:
        d = X.shape[1]
        k = min(len(target.classes) - 1, d) if self.n_directions is None else self.n_directions
        k = check_count("n_directions", k, most=d)
        self.directions_ = self._play(self._game(X, target), k)
        warn_if_all(self.directions_)
        return Eraser.projection(complement(self.directions_), iterations=self.n_iter_)

    def _game(self, X: NDArray[Any], target: Classes) -> Game:
        adversary = ADVERSARIES[check_choice("loss", self.loss, tuple(ADVERSARIES))]
        order, codes = in_own_order(X, target.codes)
        rows, held_out = sample_and_held_out(
            codes,
            min(check_count("max_rows", self.max_rows, least=2), len(X)),
            generator(self.random_state),
            held_out_share=check_share("validation_fraction", self.validation_fraction),
        )
        if not len(held_out):
            held_out = rows
        one_hot = np.eye(len(target.classes))[codes]
        scaled = Scaling.of(X[order[rows]])
        penalty = check_positive("penalty", self.penalty)
        return Game(
            adversary,
            scaled(X[order[rows]]),
            one_hot[rows],
            scaled(X[order[held_out]]),
            one_hot[held_out],
            penalty,
        )

    def _play(self, game: Game, k: int) -> Array:
        d = game.X.shape[1]
        n_iterations = check_count("n_iterations", self.n_iterations)
        self.n_iter_ = 0
        if k == d:
            return np.eye(d)
        A, theta = np.eye(d) * (k / d), None
        best, best_loss, squares = np.eye(d)[:, :k], -np.inf, 0.0
        least = k * np.finfo(float).tiny  # a gradient of zeros then makes a step of length 0
        for step in range(1, n_iterations + 1):
            self.n_iter_ = step
            theta = game.answer(np.eye(d) - A, theta)
            gradient = game.gradient(np.eye(d) - A, theta)
            squares += float(np.sum(gradient**2))
            # Steps of AdaGrad's size, which have no unit: the first is as long as A can move.
            A = fantope(A + gradient * np.sqrt(k / max(squares, least)), k)
            if step % _CHECK_EVERY and step < n_iterations:
                continue
            Q = np.linalg.eigh(A)[1][:, -k:]
            loss = game.held_out_loss(Q)
            if loss > best_loss:
                best, best_loss = Q, loss
            if loss >= (1 - self.tolerance) * game.prior_loss:
                break
        return np.ascontiguousarray(best)


# -- The game between a linear adversary and a relaxed projector -----------------------------------


def fantope(A: Array, k: int) -> Array:
    """Project on symmetric matrices with eigenvalues in [0, 1] that add up to k. Cost: O(d³).

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
        The adversary's penalty ½·penalty·‖θ‖².
    """

    adversary: Adversary
    X: Array
    Z: Array
    X_held: Array
    Z_held: Array
    penalty: float = 1.0

    def answer(self, B: Array, start: Array | None) -> Array:
        """Fit the adversary on the rows XB."""
        return self.adversary.answer(_times(self.X, B), self.Z, self.penalty, start)

    def gradient(self, B: Array, theta: Array) -> Array:
        """∂/∂A of what the adversary loses at its optimum, where B = I − A."""
        residuals = self.adversary.residuals(_scores(_times(self.X, B), theta), self.Z)
        M = self.X.T @ residuals @ theta[:-1].T / len(self.X)
        return -(M + M.T) / 2

    def held_out_loss(self, Q: Array) -> float:
        """Loss of the best adversary against I − QQᵀ on the held-out rows."""
        off = self.X - (self.X @ Q) @ Q.T
        theta = self.adversary.answer(off, self.Z, _SMALL, None)
        held = self.X_held - (self.X_held @ Q) @ Q.T
        return self.adversary.loss(_scores(held, theta), self.Z_held)

    @cached_property
    def prior_loss(self) -> float:
        """Held-out loss of guessing by the class shares."""
        theta = self.adversary.answer(self.X[:, :0], self.Z, _SMALL, None)
        return self.adversary.loss(_scores(self.X_held[:, :0], theta), self.Z_held)


def _times(X: Array, B: Array) -> Array:
    """XB for a square B, in pieces of rows."""
    return by_rows(lambda rows: rows @ B, X)


def _scores(X: Array, theta: Array) -> Array:
    return X @ theta[:-1] + theta[-1]


def _softmax_residuals(scores: Array, Z: Array) -> Array:
    return np.exp(scores - logsumexp(scores, axis=1, keepdims=True)) - Z


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

    # A warm start is near its optimum; from zero it takes more steps.
    begin, steps = (np.zeros(shape), 100) if start is None else (start, 10)
    optimum: Array = minimize(
        objective, begin.ravel(), jac=True, method="L-BFGS-B", options={"maxiter": steps}
    ).x
    return optimum.reshape(shape)


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
