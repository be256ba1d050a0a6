"""Simple baselines to compare other methods with."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from unspot.checks import check_rank
from unspot.data.goal import Goal
from unspot.data.rows import generator
from unspot.eraser import Eraser
from unspot.erasers.base import BaseEraser, Fit
from unspot.erasers.leace import LEACE


class MeanProjection(BaseEraser):
    """Remove the differences of class means by an orthogonal projection.

    Equal to ``LEACE(method="orthogonal")``: I − QQᵀ with Q a basis of the span of
    μₖ − μ, under the name of a baseline. Cost: O(nd + Kd²).

    Parameters
    ----------
    normalise : bool
        Scale erased rows to unit norm.

    Examples
    --------
    >>> import numpy as np
    >>> X = np.array([[0.0, 1.0], [0.0, 2.0], [4.0, 1.0], [4.0, 2.0]])
    >>> MeanProjection().fit(X, ["a", "a", "b", "b"]).transform(X).round(12) + 0.0
    array([[2., 1.],
           [2., 2.],
           [2., 1.],
           [2., 2.]])
    """

    reads_rows: ClassVar[bool] = True

    def __init__(self, *, normalise: bool = False) -> None:
        self.normalise = normalise

    def _fit_eraser(self, X: NDArray[Any], concept: Any) -> Fit:
        return LEACE(method="orthogonal")._fit_goal(X, Goal(concept))


class RandomProjection(BaseEraser):
    """A random subspace, blind to the concept: the effect of only losing dimensions.

    Cost: O(dr²).

    Parameters
    ----------
    rank : int or float
        The dimensions to keep, or the share of them.
    random_state : int, RandomState or None
    normalise : bool
        Scale erased rows to unit norm.

    Examples
    --------
    >>> import numpy as np
    >>> X = np.random.default_rng(0).normal(size=(4, 3))
    >>> RandomProjection(2, random_state=0).fit(X, [0, 0, 1, 1]).eraser_.rank
    2
    """

    reads_rows: ClassVar[bool] = True

    def __init__(
        self, rank: int | float = 0.5, *, random_state: Any = None, normalise: bool = False
    ) -> None:
        self.rank = rank
        self.random_state = random_state
        self.normalise = normalise

    def _fit_eraser(self, X: NDArray[Any], concept: Any) -> Fit:
        d = X.shape[1]
        r = check_rank(self.rank, d)
        U, _ = np.linalg.qr(generator(self.random_state).normal(size=(d, r)))
        return Fit(Eraser.projection(U), concept.statistics(X, per_class=False))


class PCAProjection(BaseEraser):
    """The principal subspace, blind to the concept: the most variance that a rank can keep.

    Cost: O(nd² + d³).

    Parameters
    ----------
    rank : int or float
        The dimensions to keep, or the share of them.
    normalise : bool
        Scale erased rows to unit norm.

    Examples
    --------
    >>> import numpy as np
    >>> X = np.array([[0.0, 1.0], [9.0, 1.1], [0.0, 1.1], [9.0, 1.0]])
    >>> eraser = PCAProjection(rank=1).fit(X, [0, 0, 1, 1])
    >>> abs(eraser.eraser_.U.ravel()).round(6)
    array([1., 0.])
    """

    reads_rows: ClassVar[bool] = True

    def __init__(self, rank: int | float = 0.5, *, normalise: bool = False) -> None:
        self.rank = rank
        self.normalise = normalise

    def _fit_eraser(self, X: NDArray[Any], concept: Any) -> Fit:
        r = check_rank(self.rank, X.shape[1])
        statistics = concept.statistics(X, per_class=False)
        _, vectors = np.linalg.eigh(statistics.covariance)
        return Fit(Eraser.projection(vectors[:, ::-1][:, :r]), statistics)
