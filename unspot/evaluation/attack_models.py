"""Training rows of attackers, and their models: neighbours, networks, trees and linear ones.

``ClassRows`` and ``NumberRows`` are all that models need to know about the kind of a concept.
Every model chooses its own strength (neighbours, epochs, trees, penalty) on a validation part of
the training rows, so that none is weak by a setting nobody tuned, and none overfits.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from copy import copy
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from unspot.data.dataset import stratified_parts
from unspot.evaluation.inference import log_loss, recalls

Array = NDArray[Any]
Codes = NDArray[np.int64]
Predict = Callable[[Array], Array]  # (n, d) → probabilities (n, K), or means (n, m) of numbers

VALIDATION_SHARE = 0.15
_SIZES = 1 - VALIDATION_SHARE, VALIDATION_SHARE

#: Quantile bins of a number, for searches that compare parts of the rows.
_BINS = 8

#: More classes than this get less of everything that grows with their number.
_MANY = 30

#: Searches among features compare them with this many contrasts of the classes, at most.
_CONTRASTS = 16


@dataclass(frozen=True)
class Effort:
    """Limits of the work of a model, by budget."""

    products: int  # features of the quadratic attacker
    landmarks: int  # rows that define the Nyström features
    networks: int  # averaged in one batched pass
    epochs: int
    trees: int  # rounds of boosting
    pairs: int  # column pairs that are searched
    waves: int  # starts of the search for waves

    def among(self, n_classes: int) -> Effort:
        """Reduce what would cost more with many classes."""
        share = min(1.0, _MANY / n_classes) ** 0.5
        return replace(
            self,
            products=int(share * self.products),
            landmarks=int(share * self.landmarks),
            networks=max(1, self.networks - (share < 1)),
        )


#: The fewest rows of a class that attackers learn from.
MIN_OF_A_CLASS = 5


def rows_needed(concept: Any) -> int:
    """Return the fewest rows that attackers learn from: ten per class, and at least forty."""
    return max(40, 10 * len(concept.classes)) if concept.has_classes else 40


def sought(concept: Any) -> str:
    """Describe what attackers learn, for messages."""
    return f"{len(concept.classes)} classes" if concept.has_classes else "a number"


def refuse_few(concept: Any, where: str = "to train attackers on", way_out: str = "") -> None:
    """Raise an error if attackers cannot learn from so few rows."""
    needed, (fewest, of_class) = rows_needed(concept), concept.fewest_rows()
    if len(concept) < needed:
        raise ValueError(
            f"Got {len(concept)} rows {where}, but attackers need at least {needed} to learn "
            f"{sought(concept)}. Give more rows{way_out}: an attacker that cannot learn proves "
            "nothing."
        )
    if fewest < MIN_OF_A_CLASS:
        raise ValueError(
            f"Got {fewest} rows {of_class} {where}, but attackers need at least {MIN_OF_A_CLASS} "
            "of every class. Give more rows, or merge it with another class."
        )


@dataclass(frozen=True, eq=False)
class ClassRows:
    """Training rows, their classes 0…K−1, and which of them are for validation."""

    #: Attackers that have another name for this kind of concept.
    renamed: ClassVar[dict[str, str]] = {}

    X: Array  # (n, d)
    codes: Codes  # (n,)
    n_classes: int
    is_validation: NDArray[np.bool_]  # (n,)

    @classmethod
    def sample(
        cls, X: Array, concept: Any, max_rows: int, seed: int, groups: Codes | None = None
    ) -> ClassRows:
        """Draw about ``max_rows`` rows, stratified, and set some of every class aside.

        The validation part is of whole groups where every class has several.
        """
        refuse_few(concept)
        rng, codes, K = np.random.default_rng(seed), concept.codes, len(concept.classes)
        chosen = np.arange(len(X))
        if len(X) > max_rows:
            # A rare class keeps the rows without which it could not be learned.
            wanted = np.maximum(np.round(concept.counts * max_rows / len(X)), MIN_OF_A_CLASS)
            drawn = [
                rng.permutation(np.flatnonzero(codes == k))[: int(count)]
                for k, count in enumerate(wanted)
            ]
            chosen = np.sort(np.concatenate(drawn))
        codes, groups = codes[chosen], None if groups is None else groups[chosen]
        parts = stratified_parts(codes, _SIZES, rng, groups)
        if groups is not None and any(len(np.unique(codes[part])) < K for part in parts):
            parts = stratified_parts(codes, _SIZES, rng)
        return cls(X[chosen].astype(np.float64, copy=False), codes, K, _mask(len(codes), parts[1]))

    def seen_as(self, view: Predict) -> Self:
        """Replace the coordinates."""
        return replace(self, X=view(self.X))

    def finished(self, predict: Predict) -> Callable[[Array], tuple[Array, Codes | None]]:
        """Add guesses to probabilities: the most probable class, with weights for rare ones.

        Weights make up for the shares of the classes: with the training priors, a rare class would
        never be predicted. With equal priors it is predicted too often where small probabilities
        are unreliable: hence the steps between, where they are better by more than a standard
        error on the validation part.
        """
        validation, shares = self.validation, self.shares
        probabilities = np.asarray(predict(validation.X), dtype=np.float64)
        choices = [shares**-power for power in (1.0, 0.75, 0.5, 0.25, 0.0)]
        served = np.array(
            [
                recalls((probabilities * weights).argmax(axis=1), validation.codes, self.n_classes)
                for weights in choices
            ]
        )
        counts = np.bincount(validation.codes, minlength=self.n_classes)
        error = np.sqrt((served[0] * (1 - served[0]) / counts).sum()) / self.n_classes
        gains = (served - served[0]).mean(axis=1)
        best = int(np.argmax(gains))
        weights = choices[best if gains[best] > error else 0]

        def guess(X: Array) -> tuple[Array, Codes | None]:
            probabilities = np.asarray(predict(X), dtype=np.float64)
            return probabilities, (probabilities * weights).argmax(axis=1)

        return guess

    @property
    def shares(self) -> Array:
        """Class frequencies."""
        return np.bincount(self.codes, minlength=self.n_classes) / len(self.codes)

    @property
    def fitted(self) -> Self:
        """Rows that are not for validation."""
        return self._where(~self.is_validation)

    @property
    def validation(self) -> Self:
        return self._where(self.is_validation)

    def _where(self, mask: NDArray[np.bool_]) -> Self:
        X, codes, is_validation = self.X[mask], self.codes[mask], self.is_validation[mask]
        return replace(self, X=X, codes=codes, is_validation=is_validation)

    def __len__(self) -> int:
        return len(self.X)

    @property
    def targets(self) -> Array:
        """Targets of networks: codes (n,), or numbers (n, m)."""
        return self.codes

    @property
    def contrasts(self) -> Array:
        """Centred class indicators of unit variance, (n, 1) or (n, K), or mixtures of many.

        The sum of their squared correlations with a feature measures how informative it is.
        """
        shares, K = self.shares, self.n_classes
        by_class = (np.eye(K) - shares) / np.sqrt(np.maximum(shares * (1 - shares), 1e-12))
        if K > _CONTRASTS:  # random mixtures: sums of squares stay the same in expectation
            mixed = np.random.default_rng(0).normal(size=(K, _CONTRASTS)) / _CONTRASTS**0.5
            by_class = by_class @ mixed
        return by_class[self.codes, 1 if K == 2 else 0 :].astype(np.float32)

    def loss(self, predictions: Array) -> float:
        """Compute the loss of predictions on these rows."""
        return log_loss(predictions, self.codes)

    def averaged(self, nearby: NDArray[np.int64]) -> Array:
        """Predict from the nearest k rows of each row, given by their numbers (n, k)."""
        K, k = self.n_classes, nearby.shape[1]
        classes = self.codes[nearby]
        count = np.stack([(classes == c).sum(axis=1) for c in range(K)], axis=1)
        return (count + 1) / (k + K)

    def linear_path(self, X: Array, penalties: Sequence[float]) -> Iterator[tuple[float, Predict]]:
        """Fit a linear model for each penalty, the strongest first, started at the one before."""
        from sklearn.linear_model import LogisticRegression

        model = LogisticRegression(max_iter=100, tol=1e-3, warm_start=True)
        for C in penalties:
            with quiet_logistic():
                model.set_params(C=C).fit(X, self.codes)
            yield C, quiet_logistic()(copy(model).predict_proba)

    def boosted(self, rounds: int, seed: int, **settings: Any) -> Predict:
        """Fit gradient-boosted trees, or for many classes a forest."""
        from sklearn.ensemble import ExtraTreesClassifier, HistGradientBoostingClassifier

        n, K = len(self), self.n_classes
        if K > _MANY:  # a tree for each class and round is too many: a tree of all classes, then
            forest = ExtraTreesClassifier(
                n_estimators=int(np.clip(2e7 // (n * K), 5, 25)),  # leaves hold K numbers
                max_features=0.1,
                min_samples_leaf=3,
                random_state=seed + settings["max_leaf_nodes"],
            )
            return forest.fit(self.X, self.codes).predict_proba
        settings |= {"max_iter": min(rounds, 600 // K), "early_stopping": False}
        model = HistGradientBoostingClassifier(random_state=seed, **settings)
        return model.fit(self.X, self.codes).predict_proba


@dataclass(frozen=True, eq=False)
class NumberRows(ClassRows):
    """Training rows with standardised numbers (n, m); the codes are quantile bins of them."""

    values: Array  # (n, m), in units of the deviation, so that no penalty depends on the unit
    centre: Array  # (m,)
    unit: Array  # (m,)

    renamed: ClassVar[dict[str, str]] = {"logistic": "ridge", "whitened-logistic": "whitened-ridge"}

    @classmethod
    def sample(
        cls, X: Array, concept: Any, max_rows: int, seed: int, groups: Codes | None = None
    ) -> NumberRows:
        refuse_few(concept)
        rng, numbers = np.random.default_rng(seed), concept.coordinates
        centre, unit = numbers.mean(axis=0), numbers.std(axis=0)
        unit = np.where(unit > 0, unit, 1.0)
        chosen = np.sort(rng.permutation(len(X))[:max_rows])
        values = (numbers[chosen] - centre) / unit
        codes = type(concept)(values).bins(_BINS)
        parts = stratified_parts(codes, _SIZES, rng, None if groups is None else groups[chosen])
        rows = X[chosen].astype(np.float64, copy=False)
        mask = _mask(len(codes), parts[1])
        return cls(rows, codes, int(codes.max()) + 1, mask, values, centre, unit)

    def finished(self, predict: Predict) -> Callable[[Array], tuple[Array, Codes | None]]:
        def numbers(X: Array) -> tuple[Array, Codes | None]:
            return np.asarray(predict(X), dtype=np.float64) * self.unit + self.centre, None

        return numbers

    def _where(self, mask: NDArray[np.bool_]) -> Self:
        return replace(super()._where(mask), values=self.values[mask])

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
        return np.asarray(self.values[nearby].mean(axis=1))

    def linear_path(self, X: Array, penalties: Sequence[float]) -> Iterator[tuple[float, Predict]]:
        """Fit ridge regressions with penalties 1/C, after stronger ones.

        A class is predicted by the largest probability, but a number by its size: a model that has
        seen few rows must be able to shrink it.
        """
        if len(penalties) > 1:
            weakest = min(penalties)
            penalties = sorted({*penalties, *(weakest / 10**k for k in (0.5, 1, 1.5, 2, 3))})
        rows, centre = X.astype(np.float64), self.values.mean(axis=0)
        wide = rows.shape[1] > len(rows)
        gram = rows @ rows.T if wide else rows.T @ rows
        spectrum, V = np.linalg.eigh(gram)
        spectrum = np.maximum(spectrum, 0.0)
        sought = V.T @ ((self.values - centre) if wide else rows.T @ (self.values - centre))
        for C in penalties:
            inner = V @ (sought / (spectrum + 1 / C)[:, None])
            yield C, partial(_affine, rows.T @ inner if wide else inner, centre)

    def boosted(self, rounds: int, seed: int, **settings: Any) -> Predict:
        from sklearn.ensemble import HistGradientBoostingRegressor

        rounds = max(10, rounds // self.values.shape[1])
        settings |= {"max_iter": rounds, "early_stopping": False, "random_state": seed}
        columns = self.values.T
        models = [HistGradientBoostingRegressor(**settings).fit(self.X, v) for v in columns]
        return lambda X: np.stack([model.predict(X) for model in models], axis=1)


@contextmanager
def quiet_logistic() -> Iterator[None]:
    """Silence logistic regressions: those that need not converge, and flags of BLAS.

    A hundred steps are enough to attack with. BLAS kernels may flag invalid operations beyond the
    rows, which are finite themselves. Also a decorator, ``quiet_logistic()``.
    """
    from sklearn.exceptions import ConvergenceWarning

    with warnings.catch_warnings(), np.errstate(invalid="ignore"):
        warnings.simplefilter("ignore", ConvergenceWarning)
        yield


def _mask(n: int, rows: Codes) -> NDArray[np.bool_]:
    mask = np.zeros(n, dtype=bool)
    mask[rows] = True
    return mask


#: Training rows by the kind of the concept.
ROWS: dict[str, type[ClassRows]] = {"categories": ClassRows, "continuous": NumberRows}

Model = Callable[[ClassRows, Effort, int], Predict]


def nearest(rows: ClassRows, effort: Effort, seed: int) -> Predict:
    """Average the nearest rows, as many of them as serve the validation part best."""
    ks = [k for k in (5, 15, 50, 150) if k < len(rows.fitted)]
    validation = rows.validation
    losses = [validation.loss(p) for p in _votes(rows.fitted, ks)(validation.X)]
    votes = _votes(rows, [ks[int(np.argmin(losses))]])
    return lambda X: votes(X)[0]


def _votes(rows: ClassRows, ks: Sequence[int]) -> Callable[[Array], list[Array]]:
    """Predict from the k nearest rows, for every k."""
    from sklearn.neighbors import NearestNeighbors

    index = NearestNeighbors(n_neighbors=max(ks), algorithm="brute").fit(rows.X)

    def votes(X: Array) -> list[Array]:
        nearby = index.kneighbors(X, return_distance=False)  # (n, max k), nearest first
        return [rows.averaged(nearby[:, :k]) for k in ks]

    return votes


def networks(*hidden: int) -> Model:
    """Average several perceptrons, each stopped early on the validation part."""

    def model(rows: ClassRows, effort: Effort, seed: int) -> Predict:
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


def boosted_trees(rows: ClassRows, effort: Effort, seed: int) -> Predict:
    """Average boosted trees of few and of many leaves.

    None stops early: parities show no gain until the trees have found them, and few leaves do not
    overfit where that is all there is. Wide rows show each split a part of their columns.
    """
    some = min(1.0, 100 / rows.X.shape[1])
    fitted = rows.fitted  # trees memorise their rows, which then say nothing about class weights
    both = [
        fitted.boosted(effort.trees, seed, max_leaf_nodes=leaves, max_features=some, **_leaf(rows))
        for leaves in (8, 31)
    ]
    return lambda X: (both[0](X) + both[1](X)) / 2


def patient_trees(rows: ClassRows, effort: Effort, seed: int) -> Predict:
    """Fit trees in small steps, each split by one of a few coordinates.

    For a concept that many coordinates show weakly.
    """
    few = min(1.0, max(0.1, 4 / rows.X.shape[1]))
    settings: Any = {"learning_rate": 0.05, "max_leaf_nodes": 15, "l2_regularization": 1.0}
    return rows.boosted(3 * effort.trees, seed, max_features=few, **settings, **_leaf(rows))


def _leaf(rows: ClassRows) -> dict[str, int]:
    """Limit leaves to some rows, and bins, which take most of the time, to as many."""
    leaf = int(np.clip(len(rows) // 20, 2, 20))
    return {"min_samples_leaf": leaf, "max_bins": int(np.clip(len(rows) // leaf, 32, 255))}


# -- The coordinates that an attacker sees: learned from its training rows, without their labels ---


View = Callable[[Array], Array]  # (n, d) → (n, coordinates)

_EPS = float(np.finfo(np.float64).eps)


def standardised(X: Array) -> View:
    """Standardise every column that varies, however little."""
    mean, width = X.mean(axis=0), np.ptp(X, axis=0)
    unit = np.ldexp(1.0, np.frexp(width)[1])  # squares fit, and powers of two round nothing
    scale = np.where(width > 0, (X / unit).std(axis=0) * unit, np.inf)
    return lambda rows: (rows - mean) / scale


def principal(X: Array) -> View:
    """Rotate to principal coordinates in the unit of their mean deviation: distances stay."""
    mean = X.mean(axis=0)
    deviations, directions = _spectrum(X - mean)
    largest = deviations.max(initial=0.0)
    mask = deviations > _noise(X) * largest
    unit = largest * np.sqrt(np.mean((deviations[mask] / largest) ** 2)) if mask.any() else 1.0
    return _along(directions[:, mask] / unit, lambda rows: rows - mean)


def whitened(X: Array) -> View:
    """Whiten every direction that has more than rounding errors."""
    columns = standardised(X)
    return _along(_whitening(X, columns(X)), columns)


def _whitening(X: Array, centred: Array) -> Array:
    """Compute directions (d, q) of more than rounding errors, divided by their deviations."""
    deviations, directions = _spectrum(centred)
    mask = deviations > _noise(X) * deviations.max(initial=0.0)
    return directions[:, mask] / deviations[mask]


def as_given(X: Array) -> View:
    """Return the rows themselves, every bit of them."""
    return np.asarray


def with_statistics(X: Array) -> View:
    """Standardise columns, and add statistics of the whole row: its size and spread."""
    columns = standardised(X)
    return lambda rows: np.hstack([columns(rows), _size(rows), _spread(columns(rows))])


def _size(X: Array) -> Array:
    """Compute log ‖x‖ without overflow of squares."""
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
    """Keep only the directions that rounding errors fill, with unit variance.

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
    """Compute deviations, the largest first, and principal directions (d, q).

    Not by the eigenvalues of the covariance: squares lose half of the digits.
    """
    live = np.asarray(centred.any(axis=0))  # others would get directions of the SVD's own errors
    R = np.linalg.qr(centred[:, live], mode="r")
    _, values, Vt = np.linalg.svd(R, full_matrices=False)
    directions = np.zeros((centred.shape[1], len(values)))
    directions[live] = Vt.T
    return values / np.sqrt(len(centred)), directions


def precision_of(X: Array) -> float:
    """Return machine epsilon of the narrowest float type that holds X exactly."""
    with np.errstate(over="ignore"):
        single = np.array_equal(X.astype(np.float32), X)
    return float(np.finfo(np.float32).eps) if single else _EPS


def _noise(X: Array) -> float:
    """Estimate rounding errors of values and sums, as a share of the largest deviation."""
    return max(precision_of(X) / 2, 4 * _EPS * X.shape[1] ** 0.5)


def _along(W: Array, prepared: View, most: float = np.inf) -> View:
    """Project the prepared rows; to a constant where there are no directions."""
    if not W.size:
        return lambda rows: np.zeros((len(rows), 1))
    return lambda rows: np.clip(prepared(rows) @ W, -most, most)


# -- Attackers that are linear in some features: the rows, their products, a kernel's landmarks ----


Features = Callable[[Array], Array]  # (n, d) → (n, features)
Learn = Callable[[ClassRows], Features]  # features may be learned from rows


def linear(rows: ClassRows, effort: Effort, seed: int) -> Predict:
    """Fit a linear model: logistic for classes, ridge for a continuous target."""
    return linear_on([lambda _: np.asarray], rows, penalties=(1.0, 0.03, 0.001))


def quadratic(rows: ClassRows, effort: Effort, seed: int) -> Predict:
    """Fit a linear model to all products of two coordinates.

    Where that would be too many, only to those of most variance, or to all squares. Or, as
    validation decides, of the directions in which the classes' means and covariances differ most,
    however small they are.
    """
    most = int((np.sqrt(9 + 8 * effort.products) - 3) / 2)  # q(q + 3)/2 features of q coordinates
    all_of_them = rows.X.shape[1] <= most
    learned = [
        (lambda _: _products) if all_of_them else _products_of(_principal_directions, most),
        _products_of(_telling_directions, most),
        *[lambda _: lambda X: np.hstack([X, X**2])] * (not all_of_them),
    ]
    return linear_on(learned, rows, penalties=(0.1, 0.01, 0.001, 0.0001))


def radial(rows: ClassRows, effort: Effort, seed: int) -> Predict:
    """Fit a linear model to Nyström features of a Gaussian kernel of median width, or narrower."""

    def learn(rows: ClassRows, narrower: float) -> Features:
        from scipy.linalg import solve_triangular
        from sklearn.metrics.pairwise import rbf_kernel

        kernel = partial(rbf_kernel, gamma=narrower / _median_squared_distance(rows.X, seed))
        order = np.random.default_rng(seed).permutation(len(rows))
        landmarks = rows.X[order[: effort.landmarks]]
        # scikit-learn's Nystroem takes an SVD, which costs twenty times as much.
        among = kernel(landmarks) + 1e-8 * np.eye(len(landmarks))
        whole = solve_triangular(np.linalg.cholesky(among), np.eye(len(among)), lower=True).T
        return lambda X: kernel(X, landmarks) @ whole

    learned = [partial(learn, narrower=narrower) for narrower in (1, 2)]
    return linear_on(learned, rows, penalties=(1.0, 0.1, 0.01, 0.001), together=True)


def linear_on(
    learned: Sequence[Learn], rows: ClassRows, penalties: Sequence[float], *, together: bool = False
) -> Predict:
    """Fit a linear model to standardised features, with features and penalty by validation.

    While a choice is judged on the validation part, its features too are learned from the other
    rows; the chosen ones are then learned from all rows.
    """
    fitted, validation = rows.fitted, rows.validation
    trials = []
    for learn in learned:
        features, X = _standardised(learn(fitted), fitted.X, together)
        held_out = features(validation.X)
        losses = [np.inf]
        for C, model in fitted.linear_path(X, sorted(penalties)):
            losses.append(validation.loss(model(held_out)))
            trials.append((losses[-1], learn, C))
            if losses[-1] > 1.01 * min(losses):
                break  # a weaker penalty, which takes longer, would be worse still
    _, learn, C = min(trials, key=lambda trial: trial[0])
    features, X = _standardised(learn(rows), rows.X, together)
    ((_, chosen),) = rows.linear_path(X, [C])
    return lambda rows: chosen(features(rows))


def _affine(W: Array, centre: Array, X: Array) -> Array:
    return X @ W + centre


def _standardised(features: Features, X: Array, together: bool) -> tuple[Features, Array]:
    """Standardise features, each or together, by the rows that they are learned from.

    Returns these features too.
    """
    first = features(X)
    mean, scale = first.mean(axis=0), first.std(axis=0)
    if together:
        scale[:] = np.sqrt(np.square(scale).mean())
    scale[scale <= 1e-6 * scale.max(initial=0.0)] = 1.0

    def standard(values: Array) -> Array:
        return ((values - mean) / scale).astype(np.float32)

    return lambda X: standard(features(X)), standard(first)


# -- products ------------------------------------------------------------------------------------


def _products(X: Array) -> Array:
    left, right = np.triu_indices(X.shape[1])
    return np.hstack([X, X[:, left] * X[:, right]])


def _products_of(directions: Callable[[ClassRows], Array], most: int) -> Learn:
    def learn(rows: ClassRows) -> Features:
        U = directions(rows)[:, :most]  # (d, q)
        if not U.size:  # the rows do not vary
            U = np.zeros((len(U), 1))
        return lambda X: _products(X @ U)

    return learn


def _principal_directions(rows: ClassRows) -> Array:
    """Compute principal directions (d, d), the largest variance first."""
    return np.linalg.eigh(np.cov(rows.X, rowvar=False))[1][:, ::-1]


def _telling_directions(rows: ClassRows) -> Array:
    """Compute directions (d, q) in which whitened class means m and covariances C differ most.

    Leading eigenvectors of the mean of mmᵀ + (C − I)² over the classes.
    """
    mean = rows.X.mean(axis=0)
    W = _whitening(rows.X, rows.X - mean)
    A = np.zeros((W.shape[1], W.shape[1]))
    for k in range(rows.n_classes):  # one class at a time: K matrices of d² would be large
        part = (rows.X[rows.codes == k] - mean) @ W
        m = part.mean(axis=0)
        # C = RᵀR, and (C − I)² − I is Rᵀ(RRᵀ − 2I)R: cheap where a class has few rows.
        R = np.asarray(np.linalg.qr((part - m) / np.sqrt(len(part)), mode="r"))
        A += len(part) / len(rows) * (np.outer(m, m) + R.T @ ((R @ R.T - 2 * np.eye(len(R))) @ R))
    return W @ np.linalg.eigh(A)[1][:, ::-1]


# -- landmarks -----------------------------------------------------------------------------------


def _median_squared_distance(X: Array, seed: int, n_rows: int = 500) -> float:
    rows = X[np.random.default_rng(seed).permutation(len(X))[:n_rows]]
    norms = (rows**2).sum(axis=1)
    squared = (norms[:, None] + norms - 2 * rows @ rows.T)[np.triu_indices(len(rows), 1)]
    return max(float(np.median(squared)), float(np.finfo(np.float32).tiny))
