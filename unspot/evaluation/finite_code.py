"""A finite code of erased rows, and what any classifier of it at all can gain.

Attackers bound what they themselves can do. Of rows that take only m values, counts bound what
everybody can do: who sees a cell can do no better than to name the class that is most frequent in
it, every class counted alike.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from unspot.checks import check_count
from unspot.data.labels import Labels, check_length, encode
from unspot.data.rows import generator
from unspot.eraser import Eraser
from unspot.erasers.base import BaseEraser
from unspot.maps import Cells

__all__ = ["CodeBound", "FiniteCode", "code_bound"]


@dataclass(frozen=True)
class CodeBound:
    """What any classifier of a finite code can gain over guessing.

    Attributes
    ----------
    upper_bound : float
        No classifier's advantage in balanced accuracy is above this, with confidence 1 − alpha,
        whatever the law of the rows.
    advantage : float
        That of the best classifier on these very rows: too large, since it was chosen on them.
    n_rows, n_cells : int
        Rows that were counted, and cells that some of them are in.
    """

    upper_bound: float
    advantage: float
    alpha: float
    n_rows: int
    n_cells: int


def code_bound(cells: Any, z: Any, *, alpha: float = 0.05) -> CodeBound:
    """Bound the advantage of every classifier that sees only the cell of a row.

    The best one has the balanced accuracy Σ_c maxₖ p(c|k)/K, a sum over cells. With the shares of n
    rows in place of p it is too large on average, since a maximum is convex. And one row of class
    k changes it by at most 1/(K·nₖ), so that it is below its mean by more than
    √(log(1/α)·Σₖ 1/nₖ/2)/K with a probability of at most α (McDiarmid 1989). Added to it, that is
    a bound for any law. The excess grows with the cells, by about √(cells/rows): use few. Cost:
    O(n).

    Parameters
    ----------
    cells : array-like of shape (n,)
        The cell of each row: numbers or names. The code must be made without these rows.
    z : array-like of shape (n,)
        The concept's labels; some rows of every class.
    alpha : float
        The probability that the bound is wrong.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> bound = code_bound(rng.integers(8, size=4000), rng.integers(2, size=4000))
    >>> round(bound.advantage, 3), round(bound.upper_bound, 3)
    (0.021, 0.041)
    """
    if not 0 < alpha < 1:
        raise ValueError(f"Got alpha={alpha!r}, but expected a number between 0 and 1.")
    labels = encode(z)
    names, numbers = np.unique(np.asarray(cells), return_inverse=True)
    check_length(numbers, len(labels), "cells")
    K = len(labels.classes)
    counts = np.zeros((len(names), K))
    np.add.at(counts, (numbers, labels.codes), 1)
    best = float((counts / labels.counts).max(axis=1).sum() / K)
    slack = float(np.sqrt(np.log(1 / alpha) * (1 / labels.counts).sum() / 2)) / K
    return CodeBound(
        upper_bound=min(best + slack, 1.0) - 1 / K,
        advantage=best - 1 / K,
        alpha=alpha,
        n_rows=len(labels),
        n_cells=len(names),
    )


class FiniteCode(BaseEraser):
    """Put the centre of its cell in the place of every row; cells are found by k-means.

    Fit it on rows that are erased already: it is blind to the concept, and its own cells show what
    the rows show. Its price is all that rows of one cell do not share. In return ``bound`` holds
    against every classifier, not only against those that were tried. Cost: that of k-means,
    O(n·cells·d) in each round.

    Parameters
    ----------
    n_cells : int
        How many; at most as many as there are different rows.
    random_state : int, RandomState or None
        Decides where k-means begins.

    Examples
    --------
    >>> from unspot import LEACE
    >>> from unspot.datasets.synthetic import law
    >>> rows = law("mean", n=1000, d=5)
    >>> eraser = LEACE().fit(rows.X, rows.z)
    >>> code = FiniteCode(8, random_state=0).fit(eraser.transform(rows.X), rows.z)
    >>> X_test, z_test = rows.sample(4000, random_state=1)
    >>> code.bound(eraser.transform(X_test), z_test).upper_bound < 0.06
    True
    """

    def __init__(self, n_cells: int = 32, *, random_state: Any = None) -> None:
        self.n_cells = n_cells
        self.random_state = random_state

    def _fit_eraser(self, X: NDArray[Any], target: Labels) -> Eraser:
        from sklearn.cluster import KMeans

        n_cells = min(check_count("n_cells", self.n_cells), len(np.unique(X, axis=0)))
        seed = int(generator(self.random_state).integers(2**31))
        found = KMeans(n_cells, n_init=4, random_state=seed).fit(X.astype(np.float64))
        return Eraser((Cells(found.cluster_centers_),))

    def cells(self, X: Any) -> NDArray[np.int64]:
        """The number of each row's cell, (n,)."""
        X = self._validated(X, reset=False)
        map_ = self.eraser_.maps[0]
        numbers: NDArray[np.int64] = map_.numbers(X.astype(np.float64))  # type: ignore[attr-defined]
        return numbers

    def bound(self, X: Any, z: Any, *, alpha: float = 0.05) -> CodeBound:
        """What any classifier of the code can gain, by counts of rows that it was not fitted on."""
        return code_bound(self.cells(X), z, alpha=alpha)
