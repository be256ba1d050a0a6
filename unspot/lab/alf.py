"""ALF-QLEACE: LEACE, then the few directions in which class covariances differ most are dropped."""

from __future__ import annotations

from typing import Any, ClassVar, cast

import numpy as np
from numpy.typing import NDArray

from unspot.checks import check_share
from unspot.data.concept import Classes
from unspot.data.statistics import ClassStatistics
from unspot.eraser import Eraser
from unspot.erasers.base import BaseEraser, Fit
from unspot.erasers.leace import LEACE, warn_if_all
from unspot.leopard.subspaces import complement
from unspot.maps import Oblique

Array = NDArray[np.float64]


class ALFQLEACE(BaseEraser):
    """Linear and most of the quadratic signal removed by one affine map of low rank.

    After LEACE all class means are equal. Then, one after the other: of the class covariances Cₖ,
    take the one that is farthest from their mean C̄ (in spectral norm), and drop the direction in
    which it is. It ends when the largest distance has fallen by the share ``target``.

    Unlike QLEACE (``MomentMatching(labels="given")``), it needs no labels to erase new rows, and
    so it puts no information in.

    Cost: one pass over the rows, O(nd²), then O(Kd³) for every direction that is dropped.

    Parameters
    ----------
    target : float
        The share of the largest difference of covariances that must go; 0 for LEACE alone.

    Attributes
    ----------
    eraser_ : Eraser
        One oblique projection, so that ``P`` and ``rank`` exist. Its metadata say how many
        ``directions`` were dropped after LEACE.
    differences_ : list of float
        The largest difference before each direction was dropped, and at the end.
    classes_ : ndarray

    References
    ----------
    L. Quirke, N. Belrose, "Slowing Learning by Erasing Simple Features", arXiv 2502.02820, 2025.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> z = np.repeat([0, 1], 500)
    >>> X = rng.normal(size=(1000, 4)) + [3, 0, 0, 0] * z[:, None]
    >>> X[z == 1, 2] *= 5
    >>> ALFQLEACE(target=0.9).fit(X, z).eraser_.rank
    2
    """

    reads_rows: ClassVar[bool] = True

    def __init__(self, *, target: float = 0.9) -> None:
        self.target = target

    def _fit_eraser(self, X: NDArray[Any], target: Classes) -> Fit:
        share = check_share("target", self.target)
        statistics = ClassStatistics.from_rows(X, target.codes, len(target.classes))
        linear = cast(Oblique, LEACE()._solve(statistics).maps[0])
        down, up = linear.down_and_up
        weights = statistics.counts / statistics.n_rows
        covariances = down.T @ statistics.class_covariances @ down
        inside, self.differences_ = _drop(covariances, weights, share)
        dropped = complement(inside)
        # One map, which keeps the rounding errors of what both steps remove out of the result.
        left = np.hstack([linear.left, up @ dropped])
        right = np.hstack([linear.right, down @ dropped])
        warn_if_all(left, statistics.covariance)
        eraser = Eraser((Oblique(left, right, linear.mean),), {"directions": dropped.shape[1]})
        return Fit(eraser, statistics)


def _drop(covariances: Array, weights: Array, share: float) -> tuple[Array, list[float]]:
    """Basis of what is left when the worst differences are dropped, and how they fell."""
    apart = covariances - np.einsum("k,kij->ij", weights, covariances)
    # Rounding errors of the covariances are no differences.
    floor = 1e-12 * float(np.abs(np.trace(covariances, axis1=1, axis2=2)).max(initial=0.0))
    U = np.eye(apart.shape[1])
    differences: list[float] = []
    while U.shape[1]:
        worst, direction = _worst(U.T @ apart @ U)
        differences.append(worst)
        if worst <= max((1 - share) * differences[0], floor):
            break
        U = U @ complement(direction[:, None])
    return U, differences


def _worst(apart: Array) -> tuple[float, Array]:
    """Find the largest absolute eigenvalue of all matrices, and its eigenvector."""
    values, vectors = np.linalg.eigh((apart + np.swapaxes(apart, 1, 2)) / 2)
    k, i = np.unravel_index(np.argmax(np.abs(values)), values.shape)
    return float(abs(values[k, i])), vectors[k, :, i]
