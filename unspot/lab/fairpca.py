"""Fair PCA: the principal subspace of what has equal means and nearly equal covariances."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from unspot.checks import check_rank, check_share
from unspot.data.concept import Classes
from unspot.data.statistics import ClassStatistics, mean_difference_basis
from unspot.eraser import Eraser
from unspot.erasers.base import BaseEraser, Fit
from unspot.erasers.leace import warn_if_all
from unspot.leopard.subspaces import complement

Array = NDArray[np.float64]


class FairPCA(BaseEraser):
    """The most variance among directions in which the classes agree: a closed form.

    Three subspaces inside each other: directions in which all class means are equal; of these the
    ones in which the class covariances differ least; of these the ``rank`` directions of most
    variance. With two classes it is fair PCA with a covariance constraint. With more, the
    differences are Σₖ pₖ(Cₖ − C̄)², which has the same eigenvectors for two.

    Cost: one pass over the rows, O(nd² + Kd³) time, K·d² numbers of memory.

    Parameters
    ----------
    rank : int or float
        The dimensions to keep, or the share of them; at most what equal means leave, d − K + 1.
    drop : float
        The share of the dimensions to drop because the covariances differ there. More erases more,
        and leaves PCA less to choose from. The paper tries 0.15 and 0.5; 0 only makes means equal.

    Attributes
    ----------
    eraser_ : Eraser
        One orthogonal projection.
    classes_ : ndarray

    References
    ----------
    M. Kleindessner, M. Donini, C. Russell, M. B. Zafar, "Efficient fair PCA for fair representation
    learning", AISTATS 2023.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> z = np.repeat([0, 1], 500)
    >>> X = rng.normal(size=(1000, 4)) * [1, 1, 3, 2]
    >>> X[:, 0] += 5 * z
    >>> X[z == 1, 2] *= 3
    >>> eraser = FairPCA(rank=1, drop=0.5).fit(X, z)
    >>> abs(eraser.eraser_.U.ravel()).round(1)
    array([0., 0., 0., 1.])
    """

    reads_rows: ClassVar[bool] = True

    def __init__(self, rank: int | float = 0.5, *, drop: float = 0.15) -> None:
        self.rank = rank
        self.drop = drop

    def _fit_eraser(self, X: NDArray[Any], target: Classes) -> Fit:
        d = X.shape[1]
        r, n_kept = check_rank(self.rank, d), round((1 - check_share("drop", self.drop)) * d)
        statistics = ClassStatistics.from_rows(X, target.codes, len(target.classes))
        removed = mean_difference_basis(statistics)
        warn_if_all(removed, statistics.covariance)
        U = complement(removed)
        U = U @ _first(covariance_differences(statistics, U), max(r, n_kept))
        return Fit(Eraser.projection(U @ _first(-U.T @ statistics.covariance @ U, r)), statistics)


def covariance_differences(statistics: ClassStatistics, U: Array) -> Array:
    """Σₖ pₖ(Cₖ − C̄)² of the class covariances in the coordinates of U."""
    weights = statistics.counts / statistics.n_rows
    covariances = U.T @ statistics.class_covariances @ U
    apart = covariances - np.einsum("k,kij->ij", weights, covariances)
    return np.asarray(np.einsum("k,kij,kjl->il", weights, apart, apart, optimize=True))


def _first(A: Array, count: int) -> Array:
    """Eigenvectors of the smallest eigenvalues, at most all of them."""
    return np.ascontiguousarray(np.linalg.eigh((A + A.T) / 2)[1][:, :count])
