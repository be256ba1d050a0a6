"""How much of the geometry is kept: neighbours (A_k) and variance."""

from __future__ import annotations

from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from unspot.checks import check_choice, check_count
from unspot.data.rows import generator, refuse_nonfinite
from unspot.machine import in_threads

Array = NDArray[np.float64]
Convention = Literal["held-out", "paper"]

#: Values of one block of distances: 2²⁰ doubles are 8 MB, which a cache holds.
BLOCK_VALUES = 2**20


def neighbour_overlap(
    X: Any,
    X_erased: Any,
    *,
    k: int | float = 0.5,
    convention: Convention = "held-out",
    max_queries: int | None = None,
    random_state: Any = 0,
) -> float:
    """A_k: the mean share of each row's k nearest neighbours that erasure keeps.

    Exact, by Euclidean distance in float64. A row's neighbours are those within its k-th smallest
    distance, found by selection rather than by sorting, so at k = n/2 it takes a small fraction of
    the time of an index of neighbours. Distances that tie are taken in row order.

    Time O(n²d), memory O(nd) and 8 MB: no n×n matrix is held.

    Parameters
    ----------
    X, X_erased : array-like of shape (n, d) and (n, any)
        The same rows before and after erasure. The width may differ, as after ``reduce``.
    k : int or float
        How many neighbours; a fraction is of the n rows. The paper's A_50% is 0.5.
    convention : {"held-out", "paper"}
        "paper" counts a row among its own neighbours, which flatters small k (its tables also use
        the *training* rows: pass those); "held-out" does not.
    max_queries : int, optional
        Average over this many rows drawn at random instead of all. Their neighbours are still
        sought among all rows.
    random_state : int, Generator or None
        Draws the rows of ``max_queries``.

    Examples
    --------
    >>> import numpy as np
    >>> X = np.random.default_rng(0).normal(size=(100, 4))
    >>> neighbour_overlap(X, 2 * X + 1)
    1.0
    >>> X_erased = X * [1, 1, 0, 0]
    >>> 0.5 < neighbour_overlap(X, X_erased) < 1
    True
    """
    A, B = _same_rows(X, X_erased)
    include_self = check_choice("convention", convention, ("held-out", "paper")) == "paper"
    n = len(A)
    k = _check_k(k, n, include_self)
    queries = _queries(n, max_queries, random_state)
    step = max(1, BLOCK_VALUES // n)

    def shared(rows: NDArray[np.int64]) -> int:
        common = _neighbours(A, rows, k, include_self) & _neighbours(B, rows, k, include_self)
        return int(np.count_nonzero(common))

    pieces = [queries[start : start + step] for start in range(0, len(queries), step)]
    return sum(in_threads(shared, pieces, most=len(pieces))) / (k * len(queries))


def variance_kept(X: Any, X_erased: Any) -> float:
    """Share of the total variance that erasure keeps: tr Cov(X_erased) / tr Cov(X). O(nd).

    From 0 to 1 for an orthogonal projection; other erasers may exceed 1.

    Examples
    --------
    >>> import numpy as np
    >>> X = np.array([[0.0, 0.0], [1.0, 1.0], [0.0, 1.0], [1.0, 0.0]])
    >>> variance_kept(X, X * [1, 0])
    0.5
    """
    A, B = _same_rows(X, X_erased)
    total = float(np.einsum("ij,ij->", A, A))
    if total == 0:
        raise ValueError(
            f"Got {len(A)} equal rows in X, but expected rows that vary: without variance there "
            "is no share of it to keep."
        )
    return float(np.einsum("ij,ij->", B, B)) / total


def _neighbours(X: Array, rows: NDArray[np.int64], k: int, include_self: bool) -> NDArray[np.bool_]:
    """Mask (len(rows), n) with exactly k True in every row."""
    # |x − y|² orders y as ½|y|² − x·y does, which needs no norm of x.
    distance = X[rows] @ X.T  # (c, n)
    np.subtract(0.5 * np.einsum("ij,ij->i", X, X), distance, out=distance)
    distance[np.arange(len(rows)), rows] = -np.inf if include_self else np.inf
    threshold = np.partition(distance, k - 1, axis=1)[:, k - 1, None]
    inside: NDArray[np.bool_] = distance <= threshold
    tied = np.flatnonzero(np.count_nonzero(inside, axis=1) > k)
    if len(tied):
        inside[tied] = _first_k(distance[tied], threshold[tied], k)
    return inside


def _first_k(distance: Array, threshold: Array, k: int) -> NDArray[np.bool_]:
    below, equal = distance < threshold, distance == threshold
    room = k - np.count_nonzero(below, axis=1)
    filled: NDArray[np.bool_] = below | (equal & (np.cumsum(equal, axis=1) <= room[:, None]))
    return filled


def _same_rows(X: Any, X_erased: Any) -> tuple[Array, Array]:
    """Both as centred float64: distances stay, and cancellation in them is least."""
    A, B = np.asarray(X), np.asarray(X_erased)
    for name, value in (("X", A), ("X_erased", B)):
        if value.ndim != 2 or value.shape[1] == 0:
            raise ValueError(f"Got {name} of shape {value.shape}, but expected (rows, features).")
        refuse_nonfinite(value)
    if len(A) != len(B):
        raise ValueError(
            f"Got {len(A)} original rows and {len(B)} erased rows, but expected the same rows "
            "before and after erasure, in the same order."
        )
    if len(A) < 2:
        raise ValueError(f"Got {len(A)} rows, but expected at least 2: neighbours need company.")
    A, B = A.astype(np.float64), B.astype(np.float64)
    return A - A.mean(axis=0), B - B.mean(axis=0)


def _check_k(k: Any, n: int, include_self: bool) -> int:
    most = n if include_self else n - 1
    is_bool = isinstance(k, (bool, np.bool_))
    if isinstance(k, (float, np.floating)) and 0 < k < 1:
        return min(most, max(1, int(k * n)))
    if isinstance(k, (int, np.integer)) and not is_bool and 1 <= k <= most:
        return int(k)
    raise ValueError(
        f"Got k={k!r}, but expected a number of neighbours from 1 to {most} (there are {n} rows"
        f"{'' if include_self else ', a row is not its own neighbour'}), or a fraction of the rows "
        "between 0 and 1."
    )


def _queries(n: int, max_queries: int | None, random_state: Any) -> NDArray[np.int64]:
    if max_queries is None or max_queries >= n:
        return np.arange(n)
    check_count("max_queries", max_queries)
    rng = generator(random_state)
    return np.sort(rng.choice(n, size=max_queries, replace=False))
