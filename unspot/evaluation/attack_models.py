"""What attackers learn from, and three of their models: neighbours, networks and trees.

Every model chooses its own strength (neighbours, epochs, trees, penalty) on a validation part of
the training rows, so that none is weak by a setting nobody tuned, and none overfits.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from unspot.dataset import stratified_parts

__all__ = ["Effort", "Model", "Predict", "Rows", "boosted_trees", "log_loss", "nearest", "networks"]

Array = NDArray[Any]
Codes = NDArray[np.int64]
Predict = Callable[[Array], Array]  # (n, d) → probabilities (n, K)

VALIDATION_SHARE = 0.15


@dataclass(frozen=True)
class Effort:
    """How much work a model may do: the limits of a budget."""

    products: int  # features of the quadratic attacker
    landmarks: int  # of the Nyström features
    networks: int  # averaged in one batched pass
    epochs: int
    trees: int  # boosted trees over all classes


@dataclass(frozen=True, eq=False)
class Rows:
    """Training rows, their classes 0…K−1, and which of them are for validation."""

    X: Array  # (n, d)
    codes: Codes  # (n,)
    n_classes: int
    is_validation: NDArray[np.bool_]  # (n,)

    @classmethod
    def split(cls, X: Array, codes: Codes, n_classes: int, rng: np.random.Generator) -> Rows:
        """Set rows of every class aside for validation."""
        _, validation = stratified_parts(codes, (1 - VALIDATION_SHARE, VALIDATION_SHARE), rng)
        is_validation = np.zeros(len(codes), dtype=bool)
        is_validation[validation] = True
        return cls(X, codes, n_classes, is_validation)

    def seen_as(self, view: Predict) -> Rows:
        """The same rows in other coordinates."""
        return replace(self, X=view(self.X))

    @property
    def shares(self) -> Array:
        """Of the classes."""
        return np.bincount(self.codes, minlength=self.n_classes) / len(self.codes)

    @property
    def fitted(self) -> Rows:
        """The rows that are not for validation."""
        return self._where(~self.is_validation)

    @property
    def validation(self) -> Rows:
        return self._where(self.is_validation)

    def _where(self, mask: NDArray[np.bool_]) -> Rows:
        return Rows(self.X[mask], self.codes[mask], self.n_classes, self.is_validation[mask])

    def __len__(self) -> int:
        return len(self.X)


Model = Callable[[Rows, Effort, int], Predict]


def nearest(rows: Rows, effort: Effort, seed: int) -> Predict:
    """Votes of the nearest rows, as many of them as serve the validation part best."""
    ks = [k for k in (5, 15, 50, 150) if k < len(rows.fitted)]
    validation = rows.validation
    losses = [log_loss(p, validation.codes) for p in _votes(rows.fitted, ks)(validation.X)]
    votes = _votes(rows, [ks[int(np.argmin(losses))]])
    return lambda X: votes(X)[0]


def _votes(rows: Rows, ks: Sequence[int]) -> Callable[[Array], list[Array]]:
    """Smoothed shares (n, K) of the classes among the k nearest, for every k."""
    from sklearn.neighbors import NearestNeighbors

    index = NearestNeighbors(n_neighbors=max(ks), algorithm="brute").fit(rows.X)
    K = rows.n_classes

    def shares(X: Array) -> list[Array]:
        found = rows.codes[index.kneighbors(X, return_distance=False)]  # (n, max k), nearest first
        counts = [np.stack([(found[:, :k] == c).sum(axis=1) for c in range(K)], axis=1) for k in ks]
        return [(count + 1) / (k + K) for count, k in zip(counts, ks, strict=True)]

    return shares


def networks(*hidden: int) -> Model:
    """The mean of several perceptrons, each stopped where the validation part says."""

    def model(rows: Rows, effort: Effort, seed: int) -> Predict:
        from unspot.evaluation.networks import Recipe, train

        fitted, validation = rows.fitted, rows.validation
        recipe = Recipe(
            hidden=hidden,
            batch_size=int(np.clip(len(fitted) // 30, 16, 256)),
            epochs=effort.epochs,
            l2=1e-2,
            patience=8,
        )
        trained = train(
            fitted.X.astype(np.float32),
            fitted.codes,
            rows.n_classes,
            recipe,
            [seed + i for i in range(effort.networks)],
            validation=(validation.X.astype(np.float32), validation.codes),
        )
        return lambda X: trained.log_probabilities(X.astype(np.float32)).exp().mean(dim=0).numpy()

    return model


def boosted_trees(rows: Rows, effort: Effort, seed: int) -> Predict:
    """Gradient-boosted trees, as many as a validation part of their own asks for."""
    from sklearn.ensemble import HistGradientBoostingClassifier

    # Every round grows a tree for each class, or one where two classes need one.
    rounds = effort.trees if rows.n_classes == 2 else max(10, effort.trees // rows.n_classes)
    model = HistGradientBoostingClassifier(
        max_iter=rounds,
        max_leaf_nodes=15,
        min_samples_leaf=int(np.clip(len(rows) // 20, 2, 20)),
        l2_regularization=1.0,
        early_stopping=True,
        validation_fraction=VALIDATION_SHARE,
        n_iter_no_change=10,
        random_state=seed,
    )
    return model.fit(rows.X, rows.codes).predict_proba


def log_loss(probabilities: Array, codes: Codes) -> float:
    """Mean −log₂ of the probability of the right class, in bits."""
    chosen = probabilities[np.arange(len(codes)), codes]
    return float(-np.log2(np.maximum(chosen, 1e-12)).mean())
