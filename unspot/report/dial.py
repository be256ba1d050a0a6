"""The rows of a dial, computed: a map and nearest rows at every rank of a path."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from unspot.data.dataset import Dataset, Split
from unspot.data.labels import encode, encode_as
from unspot.evaluation.problem import erased_rows
from unspot.io.progress import phase
from unspot.report.contents import DialRows, Points
from unspot.report.views import MAX_TRAIN_ROWS, as_classes, pca_points, sample

__all__ = ["make_dial_rows"]

Array = NDArray[np.float64]

#: The largest number of rows among which nearest ones are looked for.
MAX_ROWS = 5000


@phase("Drawing")
def make_dial_rows(
    erasers: Sequence[Any],
    data: Dataset,
    *,
    max_points: int = 600,
    n_queries: int = 6,
    n_nearest: int = 6,
    random_state: int = 0,
) -> DialRows:
    """Compute a map and nearest rows for every stop of a dial.

    Validation rows are drawn; the two directions of most variance are those of train rows. Each map
    is turned and mirrored to lie as near as it can to the one before, so that rows move little
    where little changes.

    Parameters
    ----------
    erasers : sequence
        In the order of the stops; None leaves the rows as they are.
    data : Dataset
    max_points : int
        Rows on the map, sampled class by class.
    n_queries, n_nearest : int
        Rows whose nearest ones are listed, and how many of them.
    random_state : int
        Decides the sample.

    Notes
    -----
    O(nd² + d³) time per stop, and the products of the queries with at most 5,000 rows.

    Examples
    --------
    >>> from unspot import Eraser
    >>> rng = np.random.default_rng(0)
    >>> z = np.arange(400) % 2
    >>> data = Dataset.from_arrays(rng.normal(size=(400, 3)), z, random_state=0)
    >>> rows = make_dial_rows([Eraser.projection(np.eye(3)[:, :2]), None], data, n_queries=2)
    >>> len(rows.maps), len(rows.nearest[0]), rows.queries[0][0][:4]
    (2, 2, 'row ')
    """
    rng = np.random.default_rng(random_state)
    data = as_classes(data)
    classes = encode(data.train.z, n_rows=len(data.train)).classes
    data = replace(
        data,
        train=_some_rows(data.train, classes, MAX_TRAIN_ROWS, rng),
        validation=_some_rows(data.validation, classes, MAX_ROWS, rng),
    )
    codes = encode_as(data.validation.z, classes)
    shown = sample(codes, max_points, rng)
    named = list(zip(_names(data.validation.names, len(codes)), codes.tolist(), strict=True))
    queries: list[int] = []
    maps: list[Array] = []
    nearest = []
    # From all dimensions down: the first rows choose the queries, and where the map points to.
    for eraser in erasers[::-1]:
        train, rows = erased_rows(eraser, data, "train", "validation")
        queries = queries or _queries(rows, codes, n_queries)
        xy = pca_points(train, rows[shown])
        maps.append(_turned(xy, maps[-1]) if maps else xy)
        found = _nearest(rows, queries, n_nearest)
        nearest.append(tuple(tuple(named[i] for i in of_query) for of_query in found))
    return DialRows(
        classes=tuple(str(c) for c in classes),
        codes=tuple(codes[shown].tolist()),
        names=None if data.validation.names is None else tuple(named[i][0] for i in shown),
        maps=tuple(_points(xy) for xy in maps[::-1]),
        queries=tuple(named[i] for i in queries),
        nearest=tuple(nearest[::-1]),
    )


def _some_rows(split: Split, classes: Any, n: int, rng: np.random.Generator) -> Split:
    return split.take(sample(encode_as(split.z, classes), n, rng))


def _names(names: NDArray[Any] | None, n: int) -> list[str]:
    return [f"row {i + 1:,}" for i in range(n)] if names is None else [str(name) for name in names]


def _points(xy: Array) -> Points:
    """Two digits after a spread of about one: as fine as a pixel, and small in the file."""
    rounded = np.round(xy, 2)
    return Points(tuple(rounded[:, 0].tolist()), tuple(rounded[:, 1].tolist()))


def _turned(xy: Array, before: Array) -> Array:
    """Points turned and mirrored to lie as near to others as they can (Procrustes)."""
    U, _, Vt = np.linalg.svd(xy.T @ before)
    turned: Array = xy @ (U @ Vt)
    return turned


def _unit(rows: NDArray[Any]) -> Array:
    X = rows.astype(np.float64)
    norms = np.linalg.norm(X, axis=1, keepdims=True)
    return X / np.where(norms > 0, norms, 1.0)


def _queries(rows: NDArray[Any], codes: NDArray[Any], n: int) -> list[int]:
    """Rows of every class in turn, those first whose nearest ten are most alike in class."""
    X = _unit(rows)
    candidates = np.linspace(0, len(X) - 1, min(len(X), 1000)).astype(int)
    similar = X[candidates] @ X.T
    similar[np.arange(len(candidates)), candidates] = -np.inf
    near = np.argsort(-similar, axis=1, kind="stable")[:, :10]
    alike = (codes[near] == codes[candidates][:, None]).mean(axis=1)
    order = candidates[np.argsort(-alike, kind="stable")]
    by_class = [order[codes[order] == k] for k in np.unique(codes)]
    turns = [of[i] for i in range(n) for of in by_class if i < len(of)]
    return [int(row) for row in turns[:n]]


def _nearest(rows: NDArray[Any], queries: Sequence[int], k: int) -> NDArray[np.int64]:
    """The k rows nearest to each query by cosine, without itself, the nearest first."""
    X = _unit(rows)
    similar = X[queries] @ X.T
    similar[np.arange(len(queries)), queries] = -np.inf
    return np.argsort(-similar, axis=1, kind="stable")[:, :k]
