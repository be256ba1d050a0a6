"""Cascade: remove the linear signal in closed form, then erase the rest (Algorithm 2)."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from sklearn.base import clone

from unspot.checks import check_rank
from unspot.data.labels import Labels, Measurements
from unspot.data.rows import KNOWN
from unspot.eraser import Eraser
from unspot.erasers.base import BaseEraser
from unspot.erasers.leace import LEACE
from unspot.io.sources import float_dtype
from unspot.maps import Compress, Expand

__all__ = ["Cascade"]


class Cascade(BaseEraser):
    """An eraser inside the subspace that linear erasure leaves (Algorithm 2).

    First the orthogonalised LEACE projection P_L = U_L U_Lᵀ makes the class means equal; then
    the inner eraser is fitted on the d − q coordinates U_Lᵀx. Around L̄EOPARD the result is one
    orthogonal projector P = U_L P′ U_Lᵀ of the inner rank.

    Parameters
    ----------
    eraser : estimator, optional
        Any eraser of unspot; by default ``LEOPARD()``.

    Attributes
    ----------
    eraser_ : Eraser
    estimator_ : estimator
        The fitted inner eraser, in coordinates of the linearly erased subspace.
    linear_ : Eraser
        The first stage.
    rank_, selection_, history_
        Those of the inner eraser, where it has them.
    classes_ : ndarray

    Examples
    --------
    >>> from unspot import LEOPARD
    >>> rng = np.random.default_rng(0)
    >>> z = np.repeat(["a", "b"], 100)
    >>> X = rng.normal(size=(200, 6)) + 2.0 * (z == "b")[:, None]
    >>> erased = Cascade(LEOPARD(rank=4, random_state=0)).fit(X, z).transform(X)
    >>> gap = erased[z == "a"].mean(axis=0) - erased[z == "b"].mean(axis=0)
    >>> bool(abs(gap).max() < 1e-9)
    True
    """

    reads_rows: ClassVar[bool] = True
    splits_work: ClassVar[bool] = True

    def __init__(self, eraser: Any = None) -> None:
        self.eraser = eraser

    def _inner(self) -> Any:
        if self.eraser is None:
            from unspot.erasers.leopard import LEOPARD

            return LEOPARD()
        if not isinstance(self.eraser, BaseEraser):
            raise ValueError(
                f"Got eraser={self.eraser!r}, but expected an eraser such as LEOPARD(rank=50)."
            )
        return clone(self.eraser)

    def _check_team(self) -> None:
        self._inner()._check_team()

    def _target(self, concept: Any, n_rows: int) -> Labels | Measurements:
        return self._inner()._target(concept, n_rows)

    def _identity(self, X: NDArray[Any], target: Labels | Measurements) -> dict[str, Any]:
        # The first stage saw the same rows, and has hashed them.
        metadata = self.linear_.metadata
        return {key: metadata[key] for key in ("fingerprint", *KNOWN) if key in metadata}

    def _fit_eraser(self, X: NDArray[Any], target: Labels | Measurements) -> Eraser:
        linear = LEACE(method="orthogonal", concept=target.describe()["concept"])
        self.linear_ = linear._fit_checked(X, target).eraser_
        self._row_statistics = linear.statistics_
        U = self.linear_.U
        inner = self._inner()
        if isinstance(getattr(inner, "rank", None), (int, float, np.number)):
            check_rank(
                inner.rank, U.shape[1], f"the dimensions that linear erasure leaves of {len(U)}"
            )
        if U.shape[1] == 0:  # LEACE has warned
            return Eraser(self.linear_.maps, {"linear_rank": 0})
        self.estimator_ = inner._fit_checked(coordinates(X, U), target)
        for name in ("history_", "rank_", "selection_"):
            if hasattr(self.estimator_, name):
                setattr(self, name, getattr(self.estimator_, name))
        return self._compose(U, self.estimator_.eraser_)

    def _compose(self, U: NDArray[np.float64], inner: Eraser) -> Eraser:
        # No one can pass the inner eraser's rows again: they are in coordinates of U.
        facts = {key: value for key, value in inner.metadata.items() if key not in KNOWN}
        metadata: dict[str, Any] = {"inner": facts, "linear_rank": int(U.shape[1])}
        if inner.is_projection and inner.mean is None:
            return Eraser.projection(U @ inner.U, **metadata)
        return Eraser((Compress(U), *inner.maps, Expand(U)), metadata)


def coordinates(X: Any, U: NDArray[np.float64]) -> Any:
    """Rows in the coordinates of U, in single or double precision."""
    dtype = float_dtype(np.dtype(X.dtype))
    if isinstance(X, np.ndarray):
        X = X.astype(dtype, copy=False)
    return X @ U.astype(dtype)
