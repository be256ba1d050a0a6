"""Transport: the linear signal dropped, the rest moved by shrunk maps that a posterior weighs."""

from __future__ import annotations

from typing import Any, ClassVar, Literal

import numpy as np
from numpy.typing import NDArray

from unspot.checks import check_choice
from unspot.data.goal import Goal
from unspot.data.statistics import (
    FEW_CLASSES,
    ClassStatistics,
    CrossStatistics,
    mean_difference_basis,
)
from unspot.eraser import Eraser
from unspot.erasers.base import BaseEraser, Fit, in_single, within_support
from unspot.erasers.leace import warn_if_all
from unspot.io.sources import Rows
from unspot.leopard.subspaces import column_space, complement
from unspot.maps import Expand, Mixture

Array = NDArray[np.float64]

#: Below this share of the largest variance (a millionth of the deviation) a direction counts as
#: constant. Rounding leaves some 1e-15 of it.
NO_VARIANCE = 1e-12

#: Classes that a number is cut into: two are too coarse, and more have too few rows each.
_CLASSES_OF_A_NUMBER = 4


class Transport(BaseEraser):
    """Move the classes to one mean and covariance, safely where rows are few.

    As LEACE in a cascade it drops the directions in which the class means differ. In what is left,
    every class has the linear map that transports its covariance to the Wasserstein barycentre of
    all. Two things make it hold on rows that it has not seen:

    - The covariance of a class, in units of the pooled one, has noise in all its eigenvalues. They
      are shrunk by the formula of Ledoit and Wolf (2020). Without evidence that a class differs,
      its map is the identity.
    - A row moves by the mean of the maps, weighted by the posterior of linear discriminant
      analysis. So the result is continuous in x. The posterior sees all of x, also what is
      dropped, and is calibrated for the number of rows.

    Higher moments are left, and the errors of the estimates. To trade more neighbours for less
    of it, put a projection behind it: ``Cascade(Transport(), LEOPARD(50))``.

    A number has its quarters as classes, and what correlates with it is dropped too.

    With ``fit(X, z, given=table)``, or ``keep``, means and covariances of classes are compared
    after a regression on age, sex and the like: what these explain is no difference between the
    classes, and stays. New rows need none of them.

    Cost: O(nd² + Kd³) to fit, O(Kd²) per row to apply, K·d² numbers to store.

    Parameters
    ----------
    drop : bool
        Drop the directions in which the means differ. Otherwise nothing is dropped, and the class
        maps move the means too: much better for classes that are far apart or many, and much worse
        for those that overlap.
    metric : {"euclidean", "standardised"}
        ``"standardised"``: rows move least in units of the columns' standard deviations, for tables
        whose columns have different units.
    normalise : bool
        Scale erased rows to unit norm.

    Attributes
    ----------
    eraser_ : Eraser
    classes_ : ndarray

    References
    ----------
    O. Ledoit, M. Wolf, "Analytical nonlinear shrinkage of large-dimensional covariance matrices",
    Annals of Statistics 2020.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> z = np.repeat([0, 1], 2000)
    >>> X = rng.normal(size=(4000, 3)) * (1 + z)[:, None] + [9, 0, 0] * z[:, None]
    >>> moved = Transport().fit_transform(X, z)
    >>> spreads = [moved[z == k].std() for k in (0, 1)]
    >>> bool(abs(spreads[0] / spreads[1] - 1) < 0.05)
    True
    """

    takes: ClassVar[tuple[str, ...]] = ("categories", "continuous", "given", "keep")
    reads_rows: ClassVar[bool] = True

    def __init__(
        self,
        *,
        drop: bool = True,
        metric: Literal["euclidean", "standardised"] = "euclidean",
        normalise: bool = False,
    ) -> None:
        self.drop = drop
        self.metric = metric
        self.normalise = normalise

    def _fit_goal(self, X: Any, goal: Goal) -> Fit:
        if not goal.conditions:
            return super()._fit_goal(X, goal)
        X, goal = self._in_memory(X, goal) if isinstance(X, Rows) else (X, goal)
        codes = goal.erase.as_classes(_CLASSES_OF_A_NUMBER).codes
        return Fit(self._fit_eraser(goal.unexplained(X, codes), goal.erase, shown=X))

    def _fit_eraser(self, X: NDArray[Any], concept: Any, shown: Any = None) -> Eraser:
        check_choice("metric", self.metric, ("euclidean", "standardised"))
        labels = concept.as_classes(_CLASSES_OF_A_NUMBER)
        if not self.drop:
            return _all_moved(labels.statistics(X, per_class=False).settled(), X, labels)
        # A class moves only if it has more rows than there are directions; without one that may,
        # the covariances of classes, K·d² numbers, are not needed.
        largest, (_, d) = labels.counts.max(), X.shape
        per_class = largest > d - len(labels.counts) and len(labels.counts) <= FEW_CLASSES
        statistics = labels.statistics(X, per_class=per_class).settled()
        removed = mean_difference_basis(statistics)
        if labels is not concept:  # continuous concept: remove its linear direction too
            removed = _with_line(removed, concept.statistics(X))
        warn_if_all(removed, statistics.covariance)
        linear = within_support(Eraser.projection(complement(removed)), lambda: statistics)
        if linear.rank == 0:
            return linear
        U = linear.U
        spread = _spread(U.T @ statistics.within @ U / statistics.n_rows)
        if not 0 < len(spread[0]) < largest:
            return linear
        maps, groups = _maps(statistics, *_moving(statistics, X, labels, spread), U, *spread)
        if shown is not None:
            maps = _around((shown - X) @ U, maps, *spread)
        matrices = U @ maps
        shifts = statistics.mean @ linear.U - statistics.mean @ matrices
        up = Expand(linear.U, statistics.mean - U @ (U.T @ statistics.mean))
        if shown is not None:  # a new row comes without covariates: use the rows themselves
            statistics = labels.statistics(shown, per_class=False).settled()
        mixture = Mixture(shifts, matrices, *_posterior(statistics), groups)
        return in_single(Eraser((mixture, up)), statistics)


def _moving(
    statistics: ClassStatistics, X: NDArray[Any], labels: Any, spread: tuple[Array, Array]
) -> tuple[NDArray[np.int64], Array]:
    """Find the classes of more rows than directions, which move, and their scatter matrices."""
    moving = np.flatnonzero(statistics.counts > len(spread[0]))
    scatter = statistics.class_scatter
    if scatter is not None:
        return moving, np.asarray(scatter[moving])
    # Scatter of each moving class, and of all others pooled.
    codes = np.full(len(statistics.counts), len(moving))
    codes[moving] = np.arange(len(moving))
    part = ClassStatistics.from_rows(X, codes[labels.codes], len(moving) + 1).settled()
    return moving, np.asarray(part.class_scatter)[:-1]


def _all_moved(statistics: ClassStatistics, X: NDArray[Any], labels: Any) -> Eraser:
    """Move every class to the common mean and covariance, and drop nothing."""
    K, d = statistics.means.shape
    stay = np.eye(d)
    spread = _spread(statistics.within / statistics.n_rows)
    matrices = np.stack([stay] * K)
    if not len(spread[0]):
        raise ValueError(
            "Got rows that do not vary within classes, so that nothing but their means differs, "
            "but drop=False drops none of it. Use Transport()."
        )
    if statistics.counts.max() > len(spread[0]):
        maps, groups = _maps(statistics, *_moving(statistics, X, labels, spread), stay, *spread)
        matrices = maps if groups is None else maps[groups.argmax(axis=1)]
    shifts = statistics.mean - np.einsum("kd,kde->ke", statistics.means, matrices)
    return Eraser((Mixture(shifts, matrices, *_posterior(statistics)),))


def _with_line(removed: Array, statistics: CrossStatistics) -> Array:
    """Extend the basis by the direction that correlates with the number."""
    line = statistics.cross_covariance
    line = line - removed @ (removed.T @ line)
    spread = float(np.sqrt(np.trace(statistics.covariance)))
    return np.hstack([removed, column_space(line, floor=1e-10 * spread)])


def shrunk_eigenvalues(values: Array, n_rows: float) -> Array:
    """Shrink the eigenvalues of a sample covariance, whose spread noise increases.

    The optimal nonlinear shrinkage of Ledoit and Wolf (2020, section 4) for squared error: the
    density of the eigenvalues and its Hilbert transform, by an Epanechnikov kernel, say how far
    noise has pushed each of them away from 1. None is pushed back beyond 1.

    Parameters
    ----------
    values : (d,) float64
        In units in which 1 is the eigenvalue without evidence.
    n_rows : float
        The rows behind the covariance, more than d.

    Examples
    --------
    >>> noise = np.random.default_rng(0).normal(size=(400, 100))
    >>> values = np.linalg.eigvalsh(noise.T @ noise / 400)
    >>> shrunk = shrunk_eigenvalues(values, 400)
    >>> [float(np.std(spectrum).round(2)) for spectrum in (values, shrunk)]
    [0.5, 0.04]
    """
    values = np.maximum(values, 1e-9)
    ratio = len(values) / n_rows
    width = values * n_rows ** (-1 / 3)  # kernel width around each eigenvalue
    x = (values[:, None] - values) / width
    edge = np.sqrt(5.0)
    density = np.mean(0.75 / edge * np.maximum(1 - x**2 / 5, 0) / width, axis=1)
    with np.errstate(divide="ignore", invalid="ignore"):
        pull = (1 - x**2 / 5) * np.log(np.abs((edge - x) / (edge + x)))
    pull = np.where(np.abs(np.abs(x) - edge) > 1e-9, pull, 0.0)
    hilbert = np.mean((-0.3 * x + 0.75 / edge * pull) / (np.pi * width), axis=1)
    noise = np.pi * ratio * values
    shrunk = values / ((noise * density) ** 2 + (1 - ratio - noise * hilbert) ** 2)
    return np.asarray(np.clip(shrunk, np.minimum(values, 1), np.maximum(values, 1)))


def _maps(
    statistics: ClassStatistics,
    moving: NDArray[np.int64],
    scatter: Array,
    U: Array,
    deviations: Array,
    directions: Array,
) -> tuple[Array, Array | None]:
    """Compute the matrices (G, r, r) in the coordinates of U, and which class has which (K, G).

    ``scatter`` is that of the classes that move; all others have one map. ``_spread`` of the rows
    in these coordinates has the deviations and directions. Directions without variance stay as they
    are.
    """
    counts = statistics.counts
    # The formula assumes a known pooled covariance. The fewer rows, the less is that true, and
    # a class with no more rows than directions has the pooled covariance.
    trust = 1 - len(deviations) / counts
    whitener, effective = U @ (directions / deviations), _effective_rows(statistics)
    covariances = [np.diag(deviations**2)] * (len(moving) < len(counts))
    for k, S in zip(moving, scatter, strict=True):
        values, vectors = np.linalg.eigh(whitener.T @ (S / counts[k]) @ whitener)
        spectrum = 1 + trust[k] * (shrunk_eigenvalues(values, effective[k]) - 1)
        # In coordinates of the directions, in the units of the rows.
        root = deviations[:, None] * vectors * np.sqrt(spectrum)
        covariances.append(root @ root.T)
    group = np.zeros(len(counts), dtype=np.int64)  # classes of one covariance have one map
    group[moving] = np.arange(len(covariances) - len(moving), len(covariances))
    common = barycentre(np.stack(covariances), np.bincount(group, counts) / statistics.n_rows)
    stay = np.eye(len(deviations))
    moves = (transport_matrix(C, common) - stay for C in covariances)
    matrices = np.stack([np.eye(len(directions)) + directions @ A @ directions.T for A in moves])
    all_move = len(covariances) == len(counts)
    return matrices, None if all_move else np.eye(len(covariances))[group]


def _around(explained: Array, maps: Array, deviations: Array, directions: Array) -> Array:
    """Let maps (K, r, r) move only what covariates do not explain, as far as a row shows it.

    Otherwise classes would scale the effect of age differently, and age would tell the class.
    ``explained`` (n, r) is the covariates' part of the rows. It is known of fitted rows only; that
    of any row is estimated by generalised least squares, in the directions where it is larger than
    the noise of a regression.
    """
    whitener = directions / deviations
    white = (explained - explained.mean(axis=0)) @ whitener
    _, values, right = np.linalg.svd(white, full_matrices=False)
    terms = np.linalg.matrix_rank(white)
    clear = right[values**2 > (np.sqrt(terms) + np.sqrt(white.shape[1])) ** 2].T  # (r, m)
    estimate = whitener @ clear @ (directions * deviations @ clear).T
    return np.asarray(estimate + maps - estimate @ maps)


def _posterior(statistics: ClassStatistics) -> tuple[Array, Array]:
    """Compute coefficients (d, K) and intercepts (K,) whose softmax is the posterior of new rows.

    The formula of discriminant analysis, with two corrections for what was estimated: without them
    it would be too sure. Means are nearer to each other than they seem, by the factor of James and
    Stein; and the inverse of a covariance of s directions is too large by about n/(n − s).
    """
    deviations, directions = _spread(statistics.within / statistics.n_rows)
    whitener, n_rows = directions / deviations, statistics.n_rows
    centred = statistics.means - statistics.mean
    signal = np.sum((centred @ whitener) ** 2, axis=1)
    noise = max(len(deviations) - 2, 0) / _effective_rows(statistics)
    real = np.maximum(0.0, 1 - np.divide(noise, signal, out=np.ones_like(noise), where=signal > 0))
    centred = real[:, None] * centred
    trust = max(n_rows - len(centred) - len(deviations) - 1, 1) / n_rows
    coef = trust * whitener @ (whitener.T @ centred.T)
    prior = np.log(statistics.counts / n_rows)
    intercept = prior - 0.5 * np.sum(centred.T * coef, axis=0) - statistics.mean @ coef
    return coef, intercept


def _spread(covariance: Array) -> tuple[Array, Array]:
    """Compute standard deviations (s,) and directions (d, s) of a covariance."""
    values, vectors = np.linalg.eigh(covariance)
    mask = values > NO_VARIANCE * max(values[-1], 0.0)
    return np.sqrt(values[mask]), vectors[:, mask]


def _effective_rows(statistics: ClassStatistics) -> Array:
    """Count the effective rows of a class mean relative to the pooled mean: 1/(1/nₖ − 1/n)."""
    return 1 / (1 / statistics.counts - 1 / statistics.n_rows)


def transport_matrix(source: Array, target: Array) -> Array:
    """Compute the optimal transport N(0, source) → N(0, target): symmetric, T·source·T = target."""
    inverse, root = _roots(source)
    _, target_root = _roots(target)
    return inverse @ _rotation(root, target_root) @ target_root


def barycentre(
    covariances: Array, weights: Array, *, rtol: float = 1e-10, max_iter: int = 200
) -> Array:
    """Find the covariance that is nearest to all in squared Wasserstein distance.

    It iterates S ← S^(−½) (Σₖ wₖ (S^½ Cₖ S^½)^½)² S^(−½) of Álvarez-Esteban et al.
    2016, which converges in about ten steps; O(Kd³) each.
    """
    roots = [_roots(C)[1] for C in covariances]
    S = np.einsum("k,kde->de", weights, covariances)
    for _ in range(max_iter):
        _, root = _roots(S)
        # S^(−½) (S^½ Cₖ S^½)^½ is a rotation of Cₖ^½, so that no inverse is taken.
        mixed = sum(w * _rotation(root, R) @ R for w, R in zip(weights, roots, strict=True))
        new = mixed.T @ mixed
        if np.linalg.norm(new - S) <= rtol * np.linalg.norm(S):
            return new
        S = new
    return S


def _roots(covariance: Array) -> tuple[Array, Array]:
    """Compute Σ^(−½) and Σ^½, symmetric; directions without variance are mapped to zero."""
    values, vectors = np.linalg.eigh((covariance + covariance.T) / 2)
    mask = values > NO_VARIANCE * max(values[-1], 0.0)
    root = np.sqrt(np.where(mask, values, 0.0))
    inverse = np.divide(1.0, root, out=np.zeros_like(root), where=root > 0)
    return (vectors * inverse) @ vectors.T, (vectors * root) @ vectors.T


def _rotation(root: Array, other: Array) -> Array:
    """Compute the orthogonal Q with (A B² A)^½ = A B Qᵀ for two roots A and B.

    It uses the singular vectors of AB. The eigenvalues of AB²A are the squares of its singular
    values, and rounding would swallow those of directions with little variance.
    """
    left, _, right = np.linalg.svd(root @ other)
    return np.asarray(left @ right)
