"""The witness: the one direction along which the classes are easiest to tell apart."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import combinations
from typing import Any

import numpy as np
from numpy.typing import NDArray

from unspot.statistics import ClassStatistics, whitening

__all__ = ["Witness", "witness", "witness_direction"]

Array = NDArray[np.float64]

#: How many directions of greatest moment difference are compared by their curves.
CANDIDATES = 10
GRID = 121
MAX_TRAIN_ROWS = 20_000


@dataclass(frozen=True)
class Witness:
    """Densities of the classes along the witness direction.

    Parameters
    ----------
    grid : tuple of float
        Where the densities are given, in standard deviations of the rows.
    curves : tuple of tuple of float
        One density for each class; empty for a class without rows to draw.
    distance : float
        The largest Kolmogorov–Smirnov distance between two classes: 0 where the curves are the
        same, 1 where they do not overlap.
    noise : float
        The distance that classes of one law exceed in one picture of twenty, by chance.
    """

    grid: tuple[float, ...]
    curves: tuple[tuple[float, ...], ...]
    distance: float
    noise: float

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Witness:
        return cls(
            tuple(values["grid"]),
            tuple(tuple(curve) for curve in values["curves"]),
            float(values["distance"]),
            float(values["noise"]),
        )


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
    >>> found = witness(X[:1000], z[:1000], X[1000:], z[1000:], n_classes=2)
    >>> found.distance > 5 * found.noise / 2
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
    """The direction (d,) along which class means and spreads differ most.

    In whitened coordinates, class means mₖ and covariances Cₖ are 0 and I where nothing differs;
    the first eigenvectors of Σₖ mₖmₖᵀ + (Cₖ − I)² are the candidates, and the one whose classes
    are furthest apart (Kolmogorov–Smirnov, on the same rows) is the witness.
    """
    rows, codes = _budget(np.asarray(X), np.asarray(codes))
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
    # The sign is open: the last class lies to the right of the first.
    first, last = np.flatnonzero(statistics.counts)[[0, -1]]
    gap = (statistics.means[last] - statistics.means[first]) @ direction
    return direction if gap >= 0 else -direction


def _budget(X: NDArray[Any], codes: NDArray[Any]) -> tuple[NDArray[Any], NDArray[Any]]:
    if len(X) <= MAX_TRAIN_ROWS:
        return X, codes
    rows = np.linspace(0, len(X) - 1, MAX_TRAIN_ROWS).astype(int)
    return X[rows], codes[rows]


def _largest_distance(groups: list[Array]) -> float:
    """The largest Kolmogorov–Smirnov distance between two groups with rows."""
    ordered = [np.sort(group) for group in groups if len(group)]
    everything = np.concatenate(ordered)
    shares = [np.searchsorted(g, everything, side="right") / len(g) for g in ordered]
    pairs = combinations(shares, 2)
    return max((float(np.abs(a - b).max()) for a, b in pairs), default=0.0)


def _noise(counts: list[int]) -> float:
    """A bound on what the largest distance reaches by chance, in 19 of 20 pictures.

    The asymptotic Kolmogorov–Smirnov quantile of every pair at 5 % over the number of pairs.
    """
    pairs = list(combinations([n for n in counts if n], 2))
    if not pairs:
        return 0.0
    quantile = np.sqrt(-0.5 * np.log(0.05 / len(pairs) / 2))
    return float(min(1.0, max(quantile * np.sqrt(1 / n + 1 / m) for n, m in pairs)))


def _limits(line: Array) -> tuple[float, float]:
    """All but the far tails, with a margin."""
    low, high = np.quantile(line, [0.002, 0.998])
    margin = 0.12 * (high - low) or 1.0
    return float(low - margin), float(high + margin)


def _density(group: Array, grid: Array) -> tuple[float, ...]:
    """A Gaussian kernel density estimate by Silverman's rule."""
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
