"""Cascade: one eraser after another; linear erasure first by default (Algorithm 2)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from sklearn.base import clone

from unspot.checks import check_rank
from unspot.data.rows import KNOWN
from unspot.eraser import Eraser
from unspot.erasers.base import BaseEraser, refuse_unused_groups
from unspot.erasers.goals import Goal
from unspot.erasers.leace import LEACE
from unspot.io.sources import float_dtype
from unspot.maps import Compress, Expand, Map
from unspot.projections.subspaces import column_space

__all__ = ["Cascade"]


class Cascade(BaseEraser):
    """An eraser inside what a first one leaves (Algorithm 2).

    By default the first stage is the orthogonalised LEACE projection P_L = U_L U_Lᵀ, which makes
    the class means equal; then the inner eraser is fitted on the d − q coordinates U_Lᵀx. Around
    L̄EOPARD the result is one orthogonal projector P = U_L P′ U_Lᵀ of the inner rank.

    Parameters
    ----------
    eraser : estimator, optional
        Any eraser of unspot; by default ``LEOPARD()``.
    first : estimator or list of estimators, optional
        What comes before it, in this order; by default ``LEACE(method="orthogonal")``. Each is
        fitted on what those before it leave.
    normalise : bool
        Scale erased rows to unit norm. The inner eraser knows of it.

    Attributes
    ----------
    eraser_ : Eraser
    estimator_ : estimator
        The fitted inner eraser, in coordinates of what the first stages leave.
    first_ : tuple of Eraser
        The first stages.
    linear_ : Eraser
        The last of them; by default the only one.
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
    takes_goals: ClassVar[bool] = True
    first_: tuple[Eraser, ...]

    def __init__(self, eraser: Any = None, *, first: Any = None, normalise: bool = False) -> None:
        self.eraser = eraser
        self.first = first
        self.normalise = normalise

    @property
    def linear_(self) -> Eraser:
        return self.first_[-1]

    def fit(
        self,
        X: Any,
        y: Any = None,
        *,
        z: Any = None,
        given: Any = None,
        keep: Any = None,
        groups: Any = None,
    ) -> BaseEraser:
        """Learn all stages, as ``BaseEraser.fit`` says.

        Parameters
        ----------
        X, y, z, given, keep
            As in every eraser.
        groups : array-like of shape (n,), optional
            What rows come in, if the eraser chooses its own rank: see ``LEOPARD.fit``.
        """
        refuse_unused_groups(groups, self._inner())
        return self._fit_on(X, y, z, given=given, keep=keep, groups=groups)

    def _inner(self) -> Any:
        if self.eraser is None:
            from unspot.erasers.leopard import LEOPARD

            return LEOPARD(normalise=self.normalise)
        inner = _checked("eraser", self.eraser, "LEOPARD(rank=50)")
        # So that its fit knows of it.
        knows = "normalise" in inner.get_params(deep=False)
        return inner.set_params(normalise=True) if self.normalise and knows else inner

    def _first(self, *, keeps: bool = False) -> list[Any]:
        """The first stages, not fitted."""
        if self.first is None:
            inner = self._inner()
            concept: Any = getattr(inner, "concept", "categories")
            # No orthogonal projection keeps the covariance with a task.
            method: Any = "oblique" if keeps else "orthogonal"
            return [LEACE(method=method, concept=concept)]
        stages = self.first if isinstance(self.first, (list, tuple)) else [self.first]
        if not stages:
            raise ValueError("Got first=[], but expected at least one eraser, or None for LEACE.")
        return [_checked("first", stage, "Transport()") for stage in stages]

    def _check_target(self, target: Any) -> None:
        for stage in (*self._first(), self._inner()):
            stage._check_target(target)

    def _target(self, concept: Any, n_rows: int) -> Any:
        inner = self._inner()
        kind = getattr(inner, "concept", "categories")
        for stage in self._first():
            if getattr(stage, "concept", "categories") != kind:
                raise ValueError(
                    f"Got the first stage {stage!r} before {inner!r}, but expected erasers of the "
                    f"same kind of concept, here {kind!r}."
                )
        return inner._target(concept, n_rows)

    def _identity(self, X: NDArray[Any], target: Any) -> dict[str, Any]:
        # The first stage saw the same rows, and has hashed them.
        metadata = self.first_[0].metadata
        return {key: metadata[key] for key in ("fingerprint", *KNOWN) if key in metadata}

    def _fit_eraser(self, X: NDArray[Any], target: Any) -> Eraser:
        way, rows = self._fit_first(X, target)
        inner = self._inner()
        if way.width == 0:  # LEACE has warned
            return way.eraser(linear_rank=0)
        if isinstance(getattr(inner, "rank", None), (int, float, np.number)):
            check_rank(inner.rank, way.width, way.what)
        if hasattr(inner, "_selection_for"):
            inner._selected = inner._selection_for(self, X, target)
        self.estimator_ = inner._fit_checked(rows, target)
        for name in ("history_", "rank_", "selection_"):
            if hasattr(self.estimator_, name):
                setattr(self, name, getattr(self.estimator_, name))
        return self._compose(way, self.estimator_.eraser_)

    def _fit_first(self, X: Any, target: Any) -> tuple[Way, Any]:
        """The way through the first stages, and the rows at its end."""
        way, rows = Way(), X
        self.first_ = ()
        keeps = isinstance(target, Goal) and target.keep is not None
        for number, stage in enumerate(self._first(keeps=keeps)):
            fitted = stage._fit_checked(rows, target)
            if number == 0 and hasattr(fitted, "statistics_"):
                self._row_statistics = fitted.statistics_
            self.first_ += (fitted.eraser_,)
            eraser = _in_coordinates(fitted.eraser_) if keeps else fitted.eraser_
            step = Way().then(eraser)
            way, rows = way.then(eraser), step.rows(rows)
        return way, rows

    def _compose(self, way: Way, inner: Eraser) -> Eraser:
        # No one can pass the inner eraser's rows again: they are in coordinates of the first stage.
        facts = {key: value for key, value in inner.metadata.items() if key not in KNOWN}
        # A step to unit norm comes at the end: coordinates have the same norms as rows.
        return way.then(inner.before_norm).eraser(inner=facts, linear_rank=way.width)

    def _normalises(self) -> bool:
        return self.normalise or self._inner()._normalises()


@dataclass(frozen=True)
class Way:
    """Maps from rows down to the coordinates that some erasers leave, and back up."""

    down: tuple[Map, ...] = ()
    up: tuple[Map, ...] = ()

    def then(self, eraser: Eraser) -> Way:
        """The way that goes on through another eraser."""
        down: tuple[Map, ...] = eraser.maps
        up: tuple[Map, ...] = ()
        if eraser.is_projection and eraser.mean is None:
            down, up = (Compress(eraser.U),), (Expand(eraser.U),)
        elif isinstance(eraser.maps[-1], Expand):
            down, up = eraser.maps[:-1], eraser.maps[-1:]
        return Way((*self.down, *down), (*up, *self.up))

    @property
    def width(self) -> int:
        """The number of coordinates at the end."""
        return self.down[-1].n_out

    @property
    def what(self) -> str:
        """A name for this number, for messages."""
        return f"the dimensions that linear erasure leaves of {self.down[0].n_in}"

    def rows(self, X: Any) -> Any:
        """Rows at the end of the way, in single or double precision."""
        if len(self.down) == 1 and isinstance(self.down[0], Compress):
            return coordinates(X, self.down[0].U)
        move, dtype = Eraser(self.down), float_dtype(np.dtype(X.dtype))
        if isinstance(X, np.ndarray):
            return move(X.astype(dtype, copy=False))
        return X.mapped(lambda rows: move(rows.astype(dtype, copy=False)), self.width)

    def eraser(self, **metadata: Any) -> Eraser:
        """Down and up again, by as few maps as possible."""
        maps: list[Map] = []
        for step in (*self.down, *self.up):
            last = maps[-1] if maps else None
            if isinstance(step, Compress) and isinstance(last, Compress):
                maps[-1] = Compress(last.U @ step.U)
            elif isinstance(step, Expand) and isinstance(last, Expand):
                maps[-1] = Expand(step.U @ last.U)
            else:
                maps.append(step)
        if len(maps) == 2 and isinstance(maps[0], Compress):
            return Eraser.projection(maps[0].U, **metadata)
        return Eraser(tuple(maps), metadata)


def _in_coordinates(eraser: Eraser) -> Eraser:
    """A linear eraser that ends in coordinates of what it leaves, and the way back up."""
    if eraser.is_projection or not eraser.is_linear or eraser.rank == eraser.n_features:
        return eraser
    U = column_space(eraser.P, floor=1e-8)
    return Eraser((*eraser.maps, Compress(U), Expand(U)), eraser.metadata)


def _checked(name: str, eraser: Any, such_as: str) -> Any:
    if not isinstance(eraser, BaseEraser):
        raise ValueError(f"Got {name}={eraser!r}, but expected an eraser such as {such_as}.")
    return clone(eraser)


def coordinates(X: Any, U: NDArray[np.float64]) -> Any:
    """Rows in the coordinates of U, in single or double precision."""
    dtype = float_dtype(np.dtype(X.dtype))
    if isinstance(X, np.ndarray):
        X = X.astype(dtype, copy=False)
    return X @ U.astype(dtype)
