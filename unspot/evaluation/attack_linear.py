"""Attackers that are linear in some features: the rows, their products, a kernel's landmarks."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from unspot.evaluation.attack_models import Effort, Predict, Rows, log_loss
from unspot.statistics import whitening

__all__ = ["linear", "quadratic", "radial"]

Array = NDArray[Any]
Features = Callable[[Array], Array]  # (n, d) → (n, features)
Learn = Callable[[Rows], Features]  # features may be learned from rows


def linear(rows: Rows, effort: Effort, seed: int) -> Predict:
    """Logistic regression."""
    return _logistic_on([lambda _: np.asarray], rows, penalties=(1.0, 0.03, 0.001))


def quadratic(rows: Rows, effort: Effort, seed: int) -> Predict:
    """Logistic regression on all products of two coordinates.

    Where that would be too many products they are of some directions only: those of most variance,
    or those in which the classes' means and covariances differ most, as validation decides.
    """
    most = int((np.sqrt(9 + 8 * effort.products) - 3) / 2)  # q(q + 3)/2 features of q coordinates
    learned: list[Learn] = [lambda _: _products]
    if rows.X.shape[1] > most:
        learned = [
            _products_of(_principal_directions, most),
            _products_of(_telling_directions, most),
        ]
    return _logistic_on(learned, rows, penalties=(0.1, 0.01, 0.001, 0.0001))


def radial(rows: Rows, effort: Effort, seed: int) -> Predict:
    """Logistic regression on Nyström features of a Gaussian kernel, its width by the median."""

    def learn(rows: Rows) -> Features:
        from sklearn.kernel_approximation import Nystroem

        features = Nystroem(
            gamma=1 / _median_squared_distance(rows.X, seed),
            n_components=min(effort.landmarks, len(rows)),
            random_state=seed,
        )
        return features.fit(rows.X).transform

    return _logistic_on([learn], rows, penalties=(1.0, 0.1, 0.01, 0.001))


def _logistic_on(learned: Sequence[Learn], rows: Rows, penalties: Sequence[float]) -> Predict:
    """Logistic regression on standardised features; features and penalty are chosen.

    While a choice is judged on the validation part, its features too are learned from the other
    rows; the chosen ones are then learned from all rows.
    """
    validation = rows.validation
    trials = [
        (log_loss(predict(validation.X), validation.codes), learn, C)
        for learn in learned
        for C, predict in _path(rows.fitted, learn, penalties)
    ]
    _, learn, C = min(trials, key=lambda trial: trial[0])
    return _path(rows, learn, [C])[0][1]


def _path(rows: Rows, learn: Learn, penalties: Sequence[float]) -> list[tuple[float, Predict]]:
    """A model for each penalty, on the same features."""
    features = _standardised(learn(rows), rows.X)
    X = features(rows.X)

    def on_features(model: Predict) -> Predict:
        return lambda rows: model(features(rows))

    return [(C, on_features(_logistic(X, rows.codes, C))) for C in penalties]


def _logistic(X: Array, codes: NDArray[np.int64], C: float) -> Predict:
    from sklearn.exceptions import ConvergenceWarning
    from sklearn.linear_model import LogisticRegression

    with warnings.catch_warnings():  # a hundred steps are enough to attack with
        warnings.simplefilter("ignore", ConvergenceWarning)
        model = LogisticRegression(C=C, max_iter=100, tol=1e-3).fit(X, codes)
    return model.predict_proba


def _standardised(features: Features, X: Array) -> Features:
    first = features(X)
    mean, scale = first.mean(axis=0), first.std(axis=0)
    scale[scale <= 1e-6 * scale.max(initial=0.0)] = 1.0
    return lambda X: ((features(X) - mean) / scale).astype(np.float32)


# -- products ------------------------------------------------------------------------------------


def _products(X: Array) -> Array:
    left, right = np.triu_indices(X.shape[1])
    return np.hstack([X, X[:, left] * X[:, right]])


def _products_of(directions: Callable[[Rows], Array], most: int) -> Learn:
    def learn(rows: Rows) -> Features:
        U = directions(rows)[:, :most]  # (d, q)
        return lambda X: _products(X @ U)

    return learn


def _principal_directions(rows: Rows) -> Array:
    """Directions of variance, the most varied first, (d, d)."""
    return np.linalg.eigh(np.cov(rows.X, rowvar=False))[1][:, ::-1]


def _telling_directions(rows: Rows) -> Array:
    """Directions in which whitened class means m and covariances C differ most, (d, d).

    Leading eigenvectors of the mean of mmᵀ + (C − I)² over the classes.
    """
    mean = rows.X.mean(axis=0)
    covariance = np.cov(rows.X, rowvar=False, bias=True)
    W, _ = whitening(covariance)
    identity = W.T @ covariance @ W  # on directions that have variance; zero on the others
    A = np.zeros_like(W)
    for k in range(rows.n_classes):  # one class at a time: K matrices of d² would be large
        part = (rows.X[rows.codes == k] - mean) @ W
        m = part.mean(axis=0)
        excess = (part - m).T @ (part - m) / len(part) - identity
        A += len(part) / len(rows) * (np.outer(m, m) + excess @ excess)
    return W @ np.linalg.eigh(A)[1][:, ::-1]


# -- landmarks -----------------------------------------------------------------------------------


def _median_squared_distance(X: Array, seed: int, n_rows: int = 500) -> float:
    rows = X[np.random.default_rng(seed).permutation(len(X))[:n_rows]]
    norms = (rows**2).sum(axis=1)
    squared = (norms[:, None] + norms - 2 * rows @ rows.T)[np.triu_indices(len(rows), 1)]
    return max(float(np.median(squared)), float(np.finfo(np.float32).tiny))
