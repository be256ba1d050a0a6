"""What attackers learn from, and their models: neighbours, networks, trees and linear ones.

The rows know what is sought: classes, or with ``NumberRows`` a number, which models then predict
by its mean. Every model chooses its own strength (neighbours, epochs, trees, penalty) on a
validation part of the training rows, so that none is weak by a setting nobody tuned, and none
overfits.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Sequence
from copy import copy
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from unspot.data.dataset import stratified_parts

__all__ = [
    "Effort",
    "Features",
    "Model",
    "NumberRows",
    "Predict",
    "TrainingRows",
    "View",
    "as_given",
    "boosted_trees",
    "linear",
    "linear_on",
    "log_loss",
    "nearest",
    "networks",
    "patient_trees",
    "precision_of",
    "principal",
    "quadratic",
    "radial",
    "rounding_directions",
    "standardised",
    "whitened",
    "with_statistics",
]

Array = NDArray[Any]
Codes = NDArray[np.int64]
Predict = Callable[[Array], Array]  # (n, d) → probabilities (n, K), or means (n, m) of numbers

VALIDATION_SHARE = 0.15


@dataclass(frozen=True)
class Effort:
    """How much work a model may do: the limits of a budget."""

    products: int  # features of the quadratic attacker
    landmarks: int  # of the Nyström features
    networks: int  # averaged in one batched pass
    epochs: int
    trees: int  # boosted trees over all classes
    pairs: int  # of columns, searched together
    waves: int  # starts of the search for waves


@dataclass(frozen=True, eq=False)
class TrainingRows:
    """Training rows, their classes 0…K−1, and which of them are for validation."""

    X: Array  # (n, d)
    codes: Codes  # (n,)
    n_classes: int
    is_validation: NDArray[np.bool_]  # (n,)

    @classmethod
    def split(
        cls,
        X: Array,
        codes: Codes,
        n_classes: int,
        rng: np.random.Generator,
        groups: Codes | None = None,
    ) -> TrainingRows:
        """Set rows of every class aside for validation; whole groups where each has several."""
        sizes = 1 - VALIDATION_SHARE, VALIDATION_SHARE
        parts = stratified_parts(codes, sizes, rng, groups)
        if groups is not None and any(len(np.unique(codes[part])) < n_classes for part in parts):
            parts = stratified_parts(codes, sizes, rng)
        is_validation = np.zeros(len(codes), dtype=bool)
        is_validation[parts[1]] = True
        return cls(X, codes, n_classes, is_validation)

    def seen_as(self, view: Predict) -> TrainingRows:
        """The same rows in other coordinates."""
        return replace(self, X=view(self.X))

    @property
    def shares(self) -> Array:
        """Of the classes."""
        return np.bincount(self.codes, minlength=self.n_classes) / len(self.codes)

    @property
    def fitted(self) -> TrainingRows:
        """The rows that are not for validation."""
        return self._where(~self.is_validation)

    @property
    def validation(self) -> TrainingRows:
        return self._where(self.is_validation)

    def _where(self, mask: NDArray[np.bool_]) -> TrainingRows:
        X, codes, is_validation = self.X[mask], self.codes[mask], self.is_validation[mask]
        return replace(self, X=X, codes=codes, is_validation=is_validation)

    def __len__(self) -> int:
        return len(self.X)

    # What differs for a number, and is all that models need to know of what is sought:

    @property
    def targets(self) -> Array:
        """What networks learn: codes (n,), or numbers (n, m)."""
        return self.codes

    @property
    def contrasts(self) -> Array:
        """Indicators of the classes around their shares, each of unit variance: (n, 1) or (n, K).

        The sum of their squared correlations with a feature is what the feature tells.
        """
        shares = self.shares
        classes = range(1, 2) if self.n_classes == 2 else range(self.n_classes)
        columns = [
            ((self.codes == k) - shares[k]) / np.sqrt(max(shares[k] * (1 - shares[k]), 1e-12))
            for k in classes
        ]
        return np.stack(columns, axis=1).astype(np.float32)

    def loss(self, predictions: Array) -> float:
        """Of predictions for these rows."""
        return log_loss(predictions, self.codes)

    def averaged(self, nearby: NDArray[np.int64]) -> Array:
        """The prediction from the nearest k rows of each row, by their numbers (n, k)."""
        K, k = self.n_classes, nearby.shape[1]
        classes = self.codes[nearby]
        count = np.stack([(classes == c).sum(axis=1) for c in range(K)], axis=1)
        return (count + 1) / (k + K)

    def linear_path(self, X: Array, penalties: Sequence[float]) -> Iterator[tuple[float, Predict]]:
        """A linear model for each penalty, the strongest first."""
        return _logistic_path(X, self.codes, penalties)

    def boosted(self, effort: Effort, seed: int, **settings: Any) -> Predict:
        """Gradient-boosted trees."""
        from sklearn.ensemble import HistGradientBoostingClassifier

        # Every round grows a tree for each class, or one where two classes need one.
        rounds = effort.trees if self.n_classes == 2 else max(10, effort.trees // self.n_classes)
        model = HistGradientBoostingClassifier(max_iter=rounds, random_state=seed, **settings)
        return model.fit(self.X, self.codes).predict_proba


@dataclass(frozen=True, eq=False)
class NumberRows(TrainingRows):
    """Rows with a number, or several, in place of classes; the codes are bins of it, by rank."""

    values: Array  # (n, m), of mean zero and unit variance or so

    def _where(self, mask: NDArray[np.bool_]) -> TrainingRows:
        part = super()._where(mask)
        return replace(part, values=self.values[mask])  # type: ignore[call-arg]

    @property
    def targets(self) -> Array:
        return self.values.astype(np.float32)

    @property
    def contrasts(self) -> Array:
        centred = self.values - self.values.mean(axis=0)
        return (centred / np.maximum(centred.std(axis=0), 1e-12)).astype(np.float32)

    def loss(self, predictions: Array) -> float:
        return float(((predictions - self.values) ** 2).mean())

    def averaged(self, nearby: NDArray[np.int64]) -> Array:
        mean: Array = self.values[nearby].mean(axis=1)
        return mean

    def linear_path(self, X: Array, penalties: Sequence[float]) -> Iterator[tuple[float, Predict]]:
        return _ridge_path(X, self.values, penalties)

    def boosted(self, effort: Effort, seed: int, **settings: Any) -> Predict:
        from sklearn.ensemble import HistGradientBoostingRegressor

        rounds = max(10, effort.trees // self.values.shape[1])
        models = [
            HistGradientBoostingRegressor(max_iter=rounds, random_state=seed, **settings).fit(
                self.X, column
            )
            for column in self.values.T
        ]
        return lambda X: np.stack([model.predict(X) for model in models], axis=1)


Model = Callable[[TrainingRows, Effort, int], Predict]


def nearest(rows: TrainingRows, effort: Effort, seed: int) -> Predict:
    """Votes of the nearest rows, as many of them as serve the validation part best."""
    ks = [k for k in (5, 15, 50, 150) if k < len(rows.fitted)]
    validation = rows.validation
    losses = [validation.loss(p) for p in _votes(rows.fitted, ks)(validation.X)]
    votes = _votes(rows, [ks[int(np.argmin(losses))]])
    return lambda X: votes(X)[0]


def _votes(rows: TrainingRows, ks: Sequence[int]) -> Callable[[Array], list[Array]]:
    """Smoothed shares (n, K) of the classes among the k nearest, or their mean, for every k."""
    from sklearn.neighbors import NearestNeighbors

    index = NearestNeighbors(n_neighbors=max(ks), algorithm="brute").fit(rows.X)

    def votes(X: Array) -> list[Array]:
        nearby = index.kneighbors(X, return_distance=False)  # (n, max k), nearest first
        return [rows.averaged(nearby[:, :k]) for k in ks]

    return votes


def networks(*hidden: int) -> Model:
    """The mean of several perceptrons, each stopped where the validation part says."""

    def model(rows: TrainingRows, effort: Effort, seed: int) -> Predict:
        from unspot.evaluation.networks import Recipe, train_networks

        fitted, validation = rows.fitted, rows.validation
        recipe = Recipe(
            hidden=hidden,
            batch_size=int(np.clip(len(fitted) // 30, 16, 256)),
            epochs=effort.epochs,
            l2=1e-2,
            patience=8,
        )
        trained = train_networks(
            fitted.X.astype(np.float32),
            fitted.targets,
            rows.n_classes,
            recipe,
            [seed + i for i in range(effort.networks)],
            validation=(validation.X.astype(np.float32), validation.targets),
        )
        return lambda X: trained.predict(X.astype(np.float32)).mean(dim=0).numpy()

    return model


def boosted_trees(rows: TrainingRows, effort: Effort, seed: int) -> Predict:
    """Gradient-boosted trees, as many as a validation part of their own asks for."""
    return _boosted(
        rows,
        effort,
        seed,
        early_stopping=True,
        validation_fraction=VALIDATION_SHARE,
        n_iter_no_change=10,
    )


def patient_trees(rows: TrainingRows, effort: Effort, seed: int) -> Predict:
    """All the trees, in small steps, each split by one of a few coordinates.

    For a concept that many coordinates tell a little of: early stopping would miss it.
    """
    few = min(1.0, max(0.1, 4 / rows.X.shape[1]))
    return _boosted(rows, effort, seed, early_stopping=False, learning_rate=0.05, max_features=few)


def _boosted(rows: TrainingRows, effort: Effort, seed: int, **settings: Any) -> Predict:
    return rows.boosted(
        effort,
        seed,
        max_leaf_nodes=15,
        min_samples_leaf=int(np.clip(len(rows) // 20, 2, 20)),
        l2_regularization=1.0,
        **settings,
    )


def log_loss(probabilities: Array, codes: Codes) -> float:
    """Mean −log₂ of the probability of the right class, in bits."""
    chosen = probabilities[np.arange(len(codes)), codes]
    return float(-np.log2(np.maximum(chosen, 1e-12)).mean())


# -- The coordinates that an attacker sees: learned from its training rows, without their labels ---


View = Callable[[Array], Array]  # (n, d) → (n, coordinates)

_EPS = float(np.finfo(np.float64).eps)


def standardised(X: Array) -> View:
    """Every column that varies in units of its deviation, however small that is."""
    mean, width = X.mean(axis=0), np.ptp(X, axis=0)
    unit = np.ldexp(1.0, np.frexp(width)[1])  # squares fit, and powers of two round nothing
    scale = np.where(width > 0, (X / unit).std(axis=0) * unit, np.inf)
    return lambda rows: (rows - mean) / scale


def principal(X: Array) -> View:
    """Principal coordinates, all in the unit of their mean deviation: distances stay."""
    mean = X.mean(axis=0)
    deviations, directions = _spectrum(X - mean)
    largest = deviations.max(initial=0.0)
    kept = deviations > _noise(X) * largest
    unit = largest * np.sqrt(np.mean((deviations[kept] / largest) ** 2)) if kept.any() else 1.0
    return _along(directions[:, kept] / unit, lambda rows: rows - mean)


def whitened(X: Array) -> View:
    """Unit variance in every direction that has more than rounding errors."""
    columns = standardised(X)
    return _along(_whitening(X, columns(X)), columns)


def _whitening(X: Array, centred: Array) -> Array:
    """Directions (d, q) of more than rounding errors, each divided by its deviation."""
    deviations, directions = _spectrum(centred)
    kept = deviations > _noise(X) * deviations.max(initial=0.0)
    return directions[:, kept] / deviations[kept]


def as_given(X: Array) -> View:
    """The rows themselves, every bit of them."""
    return np.asarray


def with_statistics(X: Array) -> View:
    """Standardised columns, and numbers of a whole row: its size, and how it is spread."""
    columns = standardised(X)
    return lambda rows: np.hstack([columns(rows), _size(rows), _spread(columns(rows))])


def _size(X: Array) -> Array:
    """log ‖x‖, which no squares overflow."""
    largest = np.maximum(np.abs(X).max(axis=1, keepdims=True), np.finfo(np.float64).tiny)
    return np.log(largest) + 0.5 * np.log(
        np.maximum(((X / largest) ** 2).sum(axis=1, keepdims=True), _EPS)
    )


def _spread(X: Array) -> Array:
    squared = X**2
    norm = np.sqrt(squared.sum(axis=1)) + _EPS
    return np.stack(
        [
            norm,
            np.abs(X).sum(axis=1) / norm,
            np.sqrt((squared**2).sum(axis=1)) / norm**2,
            X.max(axis=1),
            X.min(axis=1),
        ],
        axis=1,
    )


def rounding_directions(X: Array) -> View:
    """Only the directions that rounding errors fill, where there are any, with unit variance.

    Erased rows lie in a subspace; what rounding adds to them stands outside it, where nothing else
    is. Fewer rows than columns cannot tell such directions from those that they do not reach.
    """
    columns = standardised(X)
    deviations, directions = _spectrum(columns(X))
    small = (deviations < 100 * precision_of(X) * deviations.max(initial=0.0)) & (deviations > 0)
    small &= len(X) > X.shape[1]
    # Another row may leave the subspace for good, and would outweigh all others.
    return _along(directions[:, small] / deviations[small], columns, most=10.0)


def _spectrum(centred: Array) -> tuple[Array, Array]:
    """Deviations, the largest first, and principal directions (d, q).

    Not by the eigenvalues of the covariance: squares lose half of the digits.
    """
    live = np.asarray(centred.any(axis=0))  # others would get directions of the SVD's own errors
    R = np.linalg.qr(centred[:, live], mode="r")
    _, values, found = np.linalg.svd(R, full_matrices=False)
    directions = np.zeros((centred.shape[1], len(values)))
    directions[live] = found.T
    return values / np.sqrt(len(centred)), directions


def precision_of(X: Array) -> float:
    """Of the narrower type that holds the values: rows in single precision may come as float64."""
    with np.errstate(over="ignore"):
        single = np.array_equal(X.astype(np.float32), X)
    return float(np.finfo(np.float32).eps) if single else _EPS


def _noise(X: Array) -> float:
    """Rounding errors as a share of the largest deviation: of the values, and of our own sums."""
    return max(precision_of(X) / 2, 4 * _EPS * X.shape[1] ** 0.5)


def _along(W: Array, prepared: View, most: float = np.inf) -> View:
    """Coordinates of the prepared rows; a constant one where there are no directions."""
    if not W.size:
        return lambda rows: np.zeros((len(rows), 1))
    return lambda rows: np.clip(prepared(rows) @ W, -most, most)


# -- Attackers that are linear in some features: the rows, their products, a kernel's landmarks ----


Features = Callable[[Array], Array]  # (n, d) → (n, features)
Learn = Callable[[TrainingRows], Features]  # features may be learned from rows


def linear(rows: TrainingRows, effort: Effort, seed: int) -> Predict:
    """Logistic regression; of a number, ridge regression. So are those below."""
    return linear_on([lambda _: np.asarray], rows, penalties=(1.0, 0.03, 0.001))


def quadratic(rows: TrainingRows, effort: Effort, seed: int) -> Predict:
    """Logistic regression on all products of two coordinates.

    Where that would be too many, only of those of most variance. Or, as validation decides, of the
    directions in which the classes' means and covariances differ most, however small they are.
    """
    most = int((np.sqrt(9 + 8 * effort.products) - 3) / 2)  # q(q + 3)/2 features of q coordinates
    all_of_them = rows.X.shape[1] <= most
    learned = [
        (lambda _: _products) if all_of_them else _products_of(_principal_directions, most),
        _products_of(_telling_directions, most),
    ]
    return linear_on(learned, rows, penalties=(0.1, 0.01, 0.001, 0.0001))


def radial(rows: TrainingRows, effort: Effort, seed: int) -> Predict:
    """Logistic regression on Nyström features of a Gaussian kernel, its width by the median."""

    def learn(rows: TrainingRows) -> Features:
        from sklearn.kernel_approximation import Nystroem

        features = Nystroem(
            gamma=1 / _median_squared_distance(rows.X, seed),
            n_components=min(effort.landmarks, len(rows)),
            random_state=seed,
        )
        return features.fit(rows.X).transform

    return linear_on([learn], rows, penalties=(1.0, 0.1, 0.01, 0.001))


def linear_on(learned: Sequence[Learn], rows: TrainingRows, penalties: Sequence[float]) -> Predict:
    """A linear model of standardised features; features and penalty are chosen.

    While a choice is judged on the validation part, its features too are learned from the other
    rows; the chosen ones are then learned from all rows.
    """
    fitted, validation = rows.fitted, rows.validation
    trials = []
    for learn in learned:
        features, X = _standardised(learn(fitted), fitted.X)
        held_out = features(validation.X)
        losses = [np.inf]
        for C, model in fitted.linear_path(X, sorted(penalties)):
            losses.append(validation.loss(model(held_out)))
            trials.append((losses[-1], learn, C))
            if losses[-1] > 1.01 * min(losses):
                break  # a weaker penalty, which takes longer, would be worse still
    _, learn, C = min(trials, key=lambda trial: trial[0])
    features, X = _standardised(learn(rows), rows.X)
    ((_, chosen),) = rows.linear_path(X, [C])
    return lambda rows: chosen(features(rows))


def _logistic_path(
    X: Array, codes: Codes, penalties: Sequence[float]
) -> Iterator[tuple[float, Predict]]:
    """A model for each penalty, which starts where the one before has ended."""
    from sklearn.exceptions import ConvergenceWarning
    from sklearn.linear_model import LogisticRegression

    model = LogisticRegression(max_iter=100, tol=1e-3, warm_start=True)
    for C in penalties:
        with warnings.catch_warnings():  # a hundred steps are enough to attack with
            warnings.simplefilter("ignore", ConvergenceWarning)
            model.set_params(C=C).fit(X, codes)
        yield C, copy(model).predict_proba


def _ridge_path(
    X: Array, values: Array, penalties: Sequence[float]
) -> Iterator[tuple[float, Predict]]:
    """Ridge regressions of the penalties 1/C, and before them of stronger ones.

    Classes count by who is most probable; a number by its size, so that a model which has seen
    little must be able to say little.
    """
    if len(penalties) > 1:
        weakest = min(penalties)
        penalties = sorted({*penalties, *(weakest / 10**k for k in (0.5, 1, 1.5, 2, 3))})
    rows, centre = X.astype(np.float64), values.mean(axis=0)
    wide = rows.shape[1] > len(rows)
    gram = rows @ rows.T if wide else rows.T @ rows
    spectrum, V = np.linalg.eigh(gram)
    spectrum = np.maximum(spectrum, 0.0)
    sought = V.T @ ((values - centre) if wide else rows.T @ (values - centre))
    for C in penalties:
        inner = V @ (sought / (spectrum + 1 / C)[:, None])
        yield C, partial(_affine, rows.T @ inner if wide else inner, centre)


def _affine(W: Array, centre: Array, X: Array) -> Array:
    return X @ W + centre


def _standardised(features: Features, X: Array) -> tuple[Features, Array]:
    """Features in units of their deviation, and those of the rows that taught it."""
    first = features(X)
    mean, scale = first.mean(axis=0), first.std(axis=0)
    scale[scale <= 1e-6 * scale.max(initial=0.0)] = 1.0

    def standard(found: Array) -> Array:
        return ((found - mean) / scale).astype(np.float32)

    return lambda X: standard(features(X)), standard(first)


# -- products ------------------------------------------------------------------------------------


def _products(X: Array) -> Array:
    left, right = np.triu_indices(X.shape[1])
    return np.hstack([X, X[:, left] * X[:, right]])


def _products_of(directions: Callable[[TrainingRows], Array], most: int) -> Learn:
    def learn(rows: TrainingRows) -> Features:
        U = directions(rows)[:, :most]  # (d, q)
        if not U.size:  # rows that do not vary
            U = np.zeros((len(U), 1))
        return lambda X: _products(X @ U)

    return learn


def _principal_directions(rows: TrainingRows) -> Array:
    """Directions of variance, the most varied first, (d, d)."""
    return np.linalg.eigh(np.cov(rows.X, rowvar=False))[1][:, ::-1]


def _telling_directions(rows: TrainingRows) -> Array:
    """Directions in which whitened class means m and covariances C differ most, (d, q).

    Leading eigenvectors of the mean of mmᵀ + (C − I)² over the classes.
    """
    mean = rows.X.mean(axis=0)
    W = _whitening(rows.X, rows.X - mean)
    A = np.zeros((W.shape[1], W.shape[1]))
    for k in range(rows.n_classes):  # one class at a time: K matrices of d² would be large
        part = (rows.X[rows.codes == k] - mean) @ W
        m = part.mean(axis=0)
        excess = (part - m).T @ (part - m) / len(part) - np.eye(len(A))
        A += len(part) / len(rows) * (np.outer(m, m) + excess @ excess)
    return W @ np.linalg.eigh(A)[1][:, ::-1]


# -- landmarks -----------------------------------------------------------------------------------


def _median_squared_distance(X: Array, seed: int, n_rows: int = 500) -> float:
    rows = X[np.random.default_rng(seed).permutation(len(X))[:n_rows]]
    norms = (rows**2).sum(axis=1)
    squared = (norms[:, None] + norms - 2 * rows @ rows.T)[np.triu_indices(len(rows), 1)]
    return max(float(np.median(squared)), float(np.finfo(np.float32).tiny))
