"""The probe that a description length is measured with: networks stopped before they overfit."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from unspot.evaluation.networks import Networks, Recipe, train

__all__ = ["FittedProbe", "fit_early_stopped", "fit_estimator"]

Array = NDArray[np.float64]
Codes = NDArray[np.int64]

#: With fewer rows there is nothing to hold out for early stopping.
MIN_ROWS = 16
N_NETWORKS = 3


@dataclass(frozen=True)
class FittedProbe:
    """Probabilities by class code, and the rows of its prefix that it was not fitted on."""

    probabilities: Callable[[Array], Array]  # (n, d) → (n, K)
    held_out: NDArray[np.int64]


def fit_early_stopped(
    X: Array, codes: Codes, n_classes: int, rng: np.random.Generator
) -> FittedProbe | None:
    """Fit three networks on four fifths of the rows, each stopped by its log-loss on the rest.

    Inputs are standardised, so that an eraser cannot hide a concept by shrinking it. Returns None
    where nothing can be fitted: fewer than 16 rows, or a single class. O(epochs·n·d·100).
    """
    n = len(X)
    if n < MIN_ROWS:
        return None
    order = rng.permutation(n)
    held_out, fitted = order[: n // 5], order[n // 5 :]
    if len(np.unique(codes[fitted])) < 2:
        return None
    mean, scale = standardisation(X[fitted])
    Z = ((X - mean) / scale).astype(np.float32)
    recipe = Recipe(
        learning_rate=2e-3,
        batch_size=int(np.clip(len(fitted) // 20, 16, 256)),
        epochs=60,
        l2=1e-3,
        tolerance=1e-3,
        patience=4,
    )
    seeds = [int(seed) for seed in rng.integers(2**31, size=N_NETWORKS)]
    validation = (Z[held_out], codes[held_out])
    networks = train(Z[fitted], codes[fitted], n_classes, recipe, seeds, validation=validation)
    return FittedProbe(lambda rows: _mean_probability(networks, (rows - mean) / scale), held_out)


def fit_estimator(
    estimator: Any, X: Array, codes: Codes, n_classes: int, rng: np.random.Generator
) -> FittedProbe | None:
    """Fit a clone of a scikit-learn classifier on all the rows, as they are, without a guard."""
    from sklearn.base import clone
    from sklearn.exceptions import ConvergenceWarning

    if len(np.unique(codes)) < 2:
        return None
    model = clone(estimator)
    if "random_state" in model.get_params():
        model.set_params(random_state=int(rng.integers(2**31)))
    with warnings.catch_warnings():
        # Probes are given few iterations on purpose, and early prefixes are small.
        warnings.simplefilter("ignore", ConvergenceWarning)
        warnings.filterwarnings("ignore", message="Got `batch_size`")
        model.fit(X, codes)

    def probabilities(rows: Array) -> Array:
        found = np.zeros((len(rows), n_classes))  # a class that it has not seen gets none
        found[:, np.asarray(model.classes_, dtype=int)] = model.predict_proba(rows)
        return found

    return FittedProbe(probabilities, np.arange(0))


def standardisation(X: Array) -> tuple[Array, Array]:
    """Mean and scale of the columns; columns without variance (relatively) are left alone."""
    scale = X.std(axis=0)
    scale[scale <= 1e-7 * scale.max(initial=0.0)] = 1.0
    return X.mean(axis=0), scale


def _mean_probability(networks: Networks, Z: Array) -> Array:
    log_p = networks.log_probabilities(Z.astype(np.float32)).numpy()  # (S, n, K)
    mean: Array = np.exp(log_p.astype(np.float64)).mean(axis=0)
    return mean
