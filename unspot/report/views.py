"""Pictures of embeddings as numbers: maps, and densities along the strongest direction."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import combinations
from typing import Any

import numpy as np
from numpy.typing import NDArray

from unspot.data.concept import joined
from unspot.data.dataset import Dataset, stratified_parts
from unspot.data.statistics import ClassStatistics, whitening
from unspot.evaluation.measure import erased_split, eraser_name
from unspot.io.progress import phase

Array = NDArray[np.float64]
#: How many directions are compared by their densities.
CANDIDATES = 10
#: How many points a density has.
GRID = 121
MAX_TRAIN_ROWS = 20_000
#: The largest number of rows that a map shows, sampled class by class.
MAX_POINTS = 1200


@dataclass(frozen=True)
class Witness:
    """Densities of the classes along the direction that separates them best.

    Parameters
    ----------
    grid : tuple of float
        Where the densities are given, in standard deviations of the rows.
    curves : tuple of tuple of float
        One density per class; empty for a class without rows to draw.
    distance : float
        The largest Kolmogorov–Smirnov distance between two classes: 0 if the curves are the same,
        1 if they do not overlap.
    noise : float
        A distance that classes with the same distribution exceed by chance in one of twenty
        pictures.
    """

    grid: tuple[float, ...]
    curves: tuple[tuple[float, ...], ...]
    distance: float
    noise: float


@dataclass(frozen=True)
class Panel:
    """Pictures of one representation."""

    name: str
    witness: Witness
    x: tuple[float, ...]  # coordinate on the map, one entry per row
    y: tuple[float, ...]


@dataclass(frozen=True)
class Views:
    """Pictures of the same held-out rows, before erasure and after each eraser.

    Parameters
    ----------
    classes : tuple of str
        The concept's classes; a number is cut into thirds.
    codes : tuple of int
        The class of each point of the maps.
    names : tuple of str or None
        The name of each point.
    before : Panel
    after : tuple of Panel
        One per eraser.
    """

    classes: tuple[str, ...]
    codes: tuple[int, ...]
    names: tuple[str, ...] | None
    before: Panel
    after: tuple[Panel, ...]

    @property
    def panels(self) -> tuple[Panel, ...]:
        """Return the panel before erasure, then those after it."""
        return (self.before, *self.after)


@phase("Drawing")
def make_views(erasers: Any, data: Dataset) -> Views:
    """Compute pictures of rows before and after erasure, for a report.

    Maps show the two directions of most variance. All directions are found on training rows and
    drawn on test rows.

    Parameters
    ----------
    erasers : eraser, or mapping of names to erasers
        Fitted estimators, ``Eraser`` objects, or functions of rows.
    data : Dataset

    Notes
    -----
    O(nd² + Kd³) time per representation.

    Examples
    --------
    >>> from unspot import LEACE
    >>> rng = np.random.default_rng(0)
    >>> z = np.arange(600) % 2
    >>> X = rng.normal(size=(600, 5)) + 2.0 * z[:, None] * [1, 0, 0, 0, 0]
    >>> data = Dataset.from_arrays(X, z, random_state=0)
    >>> views = make_views(LEACE().fit(data.train.X, data.train.z), data)
    >>> views.before.witness.distance > 0.5 > views.after[0].witness.distance
    True
    """
    if not isinstance(erasers, Mapping):
        erasers = {eraser_name(erasers): erasers}
    learn = data.probe_rows
    whole = joined([learn.concept, data.test.concept])
    first = next(iter(whole.columns.values()))  # draw the first of several concepts
    labels, present = first.target.drawn(), ~first.missing
    train_rows, test_rows = np.split(present, [len(learn)])
    train_codes, codes = np.split(labels.codes, [int(train_rows.sum())])
    shown = _sample(codes)

    def panel(name: str, eraser: Any) -> Panel:
        train = erased_split(eraser, learn.take(train_rows)).X
        test = erased_split(eraser, data.test.take(test_rows)).X
        densities = witness(train, train_codes, test, codes, n_classes=len(labels.classes))
        return Panel(name, densities, *_map(train, test[shown]))

    names = data.test.names
    return Views(
        classes=tuple(str(c) for c in labels.classes),
        codes=tuple(codes[shown].tolist()),
        names=None if names is None else tuple(str(n) for n in names[test_rows][shown]),
        before=panel("original", None),
        after=tuple(panel(str(name), eraser) for name, eraser in erasers.items()),
    )


def _sample(codes: NDArray[Any]) -> NDArray[np.int64]:
    """Draw rows, stratified by class."""
    if len(codes) <= MAX_POINTS:
        return np.arange(len(codes))
    share = MAX_POINTS / len(codes)
    return stratified_parts(codes, (share, 1 - share), np.random.default_rng(0))[0]


def _map(train: NDArray[Any], shown: NDArray[Any]) -> tuple[tuple[float, ...], ...]:
    """Project rows on the two directions of most variance of the training rows."""
    centred = train.astype(np.float64) - train.mean(axis=0, dtype=np.float64)
    _, vectors = np.linalg.eigh(centred.T @ centred)
    axes = vectors[:, ::-1][:, :2]
    # The sign of an eigenvector is arbitrary: the largest entry of each axis becomes positive.
    axes = axes * np.sign(axes[np.abs(axes).argmax(axis=0), np.arange(axes.shape[1])])
    xy = shown.astype(np.float64) @ axes
    xy = np.hstack([xy, np.zeros((len(xy), 2 - xy.shape[1]))])
    xy = (xy - xy.mean(axis=0)) / np.where((spread := xy.std(axis=0)) > 0, spread, 1.0)
    # Three digits after a spread of about one are finer than a pixel, and keep the file small.
    x, y = np.round(xy, 3).T.tolist()
    return tuple(x), tuple(y)


# -- The witness: the one direction along which the classes differ most ----------------------------


def witness(
    X_train: Any, codes_train: Any, X_test: Any, codes_test: Any, *, n_classes: int
) -> Witness:
    """Find the direction on training rows and describe the test rows along it.

    O(nd² + Kd³) time, O(Kd²) memory.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> z = np.arange(2000) % 2
    >>> X = rng.normal(size=(2000, 3))
    >>> X[:, 1] *= 1 + 3 * z  # equal means, unequal spread
    >>> densities = witness(X[:1000], z[:1000], X[1000:], z[1000:], n_classes=2)
    >>> densities.distance > 5 * densities.noise / 2
    True
    """
    direction = witness_direction(X_train, codes_train, n_classes)
    line = np.asarray(X_test, dtype=np.float64) @ direction
    spread = float(line.std())
    line = (line - np.median(line)) / (spread if spread > 0 else 1.0)
    groups = [line[codes_test == k] for k in range(n_classes)]
    grid = np.linspace(*_limits(line), GRID)
    return Witness(
        grid=tuple(np.round(grid, 3).tolist()),
        curves=tuple(_density(group, grid) for group in groups),
        distance=round(_largest_distance(groups), 4),
        noise=round(_noise([len(group) for group in groups]), 4),
    )


def witness_direction(X: Any, codes: NDArray[Any], n_classes: int) -> Array:
    """Find the direction (d,) along which class means and spreads differ most.

    In whitened coordinates, the class means mₖ and covariances Cₖ are 0 and I if nothing differs.
    The first eigenvectors of Σₖ mₖmₖᵀ + (Cₖ − I)² are the candidates. The witness is the candidate
    along which the classes are furthest apart (Kolmogorov–Smirnov, on the same rows).
    """
    rows, codes = _thinned(np.asarray(X), np.asarray(codes))
    statistics = ClassStatistics.from_rows(rows, codes, n_classes)
    W, _ = whitening(statistics.covariance, rtol=1e-8)
    observed = statistics.counts > 1
    m = (statistics.means - statistics.mean)[observed] @ W
    deviation = W.T @ (statistics.class_covariances[observed] - statistics.covariance) @ W
    A = m.T @ m + np.einsum("kij,kjl->il", deviation, deviation)
    _, vectors = np.linalg.eigh((A + A.T) / 2)
    candidates = W @ vectors[:, ::-1][:, :CANDIDATES]  # (d, c)
    lines = rows.astype(np.float64) @ candidates  # (n, c)
    distances = [
        _largest_distance([line[codes == k] for k in range(n_classes)]) for line in lines.T
    ]
    direction: Array = candidates[:, int(np.argmax(distances))]
    # The sign is arbitrary: the last class is drawn to the right of the first.
    first, last = np.flatnonzero(statistics.counts)[[0, -1]]
    gap = (statistics.means[last] - statistics.means[first]) @ direction
    return direction if gap >= 0 else -direction


def _thinned(X: NDArray[Any], codes: NDArray[Any]) -> tuple[NDArray[Any], NDArray[Any]]:
    """Thin out rows and codes evenly if there are more than ``MAX_TRAIN_ROWS``."""
    if len(X) <= MAX_TRAIN_ROWS:
        return X, codes
    rows = np.linspace(0, len(X) - 1, MAX_TRAIN_ROWS).astype(int)
    return X[rows], codes[rows]


def _largest_distance(groups: list[Array]) -> float:
    """Return the largest Kolmogorov–Smirnov distance between two groups with rows."""
    ordered = [np.sort(group) for group in groups if len(group)]
    everything = np.concatenate(ordered)
    shares = [np.searchsorted(g, everything, side="right") / len(g) for g in ordered]
    pairs = combinations(shares, 2)
    return max((float(np.abs(a - b).max()) for a, b in pairs), default=0.0)


def _noise(counts: list[int]) -> float:
    """Bound the largest distance that chance gives in 19 of 20 pictures.

    The asymptotic Kolmogorov–Smirnov quantile of each pair, at 5 % divided by the number of pairs.
    """
    pairs = list(combinations([n for n in counts if n], 2))
    if not pairs:
        return 0.0
    quantile = np.sqrt(-0.5 * np.log(0.05 / len(pairs) / 2))
    return float(min(1.0, max(quantile * np.sqrt(1 / n + 1 / m) for n, m in pairs)))


def _limits(line: Array) -> tuple[float, float]:
    """Return the range of the values without the far tails, with a margin."""
    low, high = np.quantile(line, [0.002, 0.998])
    margin = 0.12 * (high - low) or 1.0
    return float(low - margin), float(high + margin)


def _density(group: Array, grid: Array) -> tuple[float, ...]:
    """Estimate a density with a Gaussian kernel by Silverman's rule."""
    if len(group) < 2:
        return ()
    inside = min(float(group.std()), float(np.subtract(*np.quantile(group, [0.75, 0.25]))) / 1.34)
    width = 0.9 * (inside or float(group.std()) or 0.05) * len(group) ** -0.2
    # Rows are counted in fine cells first, so that the cost does not grow with their number.
    step = grid[1] - grid[0]
    width = max(width, step)
    cells = np.linspace(grid[0] - 4 * width, grid[-1] + 4 * width, 2048)
    counts, edges = np.histogram(group, bins=cells)
    centres = (edges[1:] + edges[:-1]) / 2
    kernel = np.exp(-0.5 * ((grid[:, None] - centres) / width) ** 2)
    density = kernel @ counts / (len(group) * width * np.sqrt(2 * np.pi))
    return tuple(np.round(density, 4).tolist())
