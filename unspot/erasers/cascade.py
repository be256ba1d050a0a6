"""Cascade: one eraser after another; linear erasure first by default (Algorithm 2)."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray
from sklearn.base import clone

from unspot.checks import check_rank
from unspot.data.goal import Goal
from unspot.data.rows import KNOWN
from unspot.eraser import Eraser
from unspot.erasers.base import ANY_GOAL, BaseEraser, Fit
from unspot.erasers.leace import LEACE
from unspot.io.sources import float_dtype
from unspot.leopard.subspaces import column_space
from unspot.maps import Compress, Expand, Map


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

    takes: ClassVar[tuple[str, ...]] = ANY_GOAL  # if all stages do
    reads_rows: ClassVar[bool] = True
    first_: tuple[Eraser, ...]

    def __init__(self, eraser: Any = None, *, first: Any = None, normalise: bool = False) -> None:
        self.eraser = eraser
        self.first = first
        self.normalise = normalise

    @property
    def linear_(self) -> Eraser:
        return self.first_[-1]

    @property
    def min_rows_per_class(self) -> int:  # type: ignore[override]
        return int(self.inner().min_rows_per_class)

    def inner(self) -> Any:
        """Clone the inner eraser, which knows of the last step to unit norm."""
        if self.eraser is None:
            from unspot.erasers.leopard import LEOPARD

            return LEOPARD(normalise=self.normalise)
        inner = _checked("eraser", self.eraser, "LEOPARD(rank=50)")
        knows = "normalise" in inner.get_params(deep=False)
        return inner.set_params(normalise=True) if self.normalise and knows else inner

    def _first(self, *, keeps: bool = False) -> list[Any]:
        """Clone the first stages."""
        if self.first is None:
            # No orthogonal projection keeps the covariance with a task.
            return [LEACE(method="oblique" if keeps else "orthogonal")]
        stages = self.first if isinstance(self.first, (list, tuple)) else [self.first]
        if not stages:
            raise ValueError("Got first=[], but expected at least one eraser, or None for LEACE.")
        return [_checked("first", stage, "Transport()") for stage in stages]

    def _check_goal(self, goal: Goal) -> None:
        for stage in (*self._first(), self.inner()):
            stage._check_goal(goal)

    def _chooses_rank(self) -> bool:
        return bool(self.inner()._chooses_rank())

    def _normalises(self) -> bool:
        return self.normalise or self.inner()._normalises()

    def _fit_goal(self, X: Any, goal: Goal) -> Fit:
        stages = self.fit_first(X, goal)
        path, inner, facts = stages.path, self.inner(), {}
        self.first_ = stages.erasers
        if path.width == 0:  # LEACE has warned
            return Fit(path.eraser(linear_rank=0), stages.statistics, stages.identity)
        if isinstance(getattr(inner, "rank", None), (int, float, np.number)):
            check_rank(inner.rank, path.width, path.what)
        with warnings.catch_warnings():
            if inner._chooses_rank():
                self.selection_ = inner.select_rank(self, X, goal)
                facts = {"selection": self.selection_.describe()}
                inner.set_params(rank=self.selection_.rank)
                # All ranks may do, behind a linear stage.
                warnings.filterwarnings("ignore", message=".*LEOPARD erases nothing")
            self.estimator_ = inner._fit_rows(stages.rows, goal)
        for name in ("history_", "rank_"):
            if hasattr(self.estimator_, name):
                setattr(self, name, getattr(self.estimator_, name))
        eraser = compose(path, self.estimator_.eraser_, **facts)
        return Fit(eraser, stages.statistics, stages.identity)

    def fit_first(self, X: Any, goal: Goal) -> FirstStages:
        """Fit the first stages, each on what those before it leave."""
        path, rows, fitted = Path(), X, []
        keeps = goal.keep is not None
        for stage in self._first(keeps=keeps):
            fitted.append(stage._fit_rows(rows, goal))
            eraser = fitted[-1].eraser_
            eraser = _in_coordinates(eraser) if keeps else eraser
            path, rows = path.then(eraser), Path().then(eraser).rows(rows)
        # The first stage saw the same rows, and has summed up and hashed them.
        metadata = fitted[0].eraser_.metadata
        return FirstStages(
            tuple(stage.eraser_ for stage in fitted),
            path,
            rows,
            getattr(fitted[0], "statistics_", None),
            {key: metadata[key] for key in ("fingerprint", *KNOWN) if key in metadata},
        )


def compose(path: Path, inner: Eraser, **facts: Any) -> Eraser:
    """Put an inner eraser behind first stages, as one eraser of the embeddings."""
    # Nobody can pass the inner eraser's rows again: they are in coordinates of the first stage.
    about = {key: value for key, value in inner.metadata.items() if key not in KNOWN}
    # A step to unit norm comes at the end: coordinates have the same norms as rows.
    return path.then(inner.before_norm).eraser(inner={**about, **facts}, linear_rank=path.width)


@dataclass(frozen=True)
class Path:
    """Maps from rows down to the coordinates that some erasers leave, and back up."""

    down: tuple[Map, ...] = ()
    up: tuple[Map, ...] = ()

    def then(self, eraser: Eraser) -> Path:
        """Continue through another eraser."""
        down: tuple[Map, ...] = eraser.maps
        up: tuple[Map, ...] = ()
        if eraser.is_projection and eraser.mean is None:
            down, up = (Compress(eraser.U),), (Expand(eraser.U),)
        elif isinstance(eraser.maps[-1], Expand):
            down, up = eraser.maps[:-1], eraser.maps[-1:]
        return Path((*self.down, *down), (*up, *self.up))

    @property
    def width(self) -> int:
        """Number of coordinates at the end."""
        return self.down[-1].n_out

    @property
    def what(self) -> str:
        """Name of this number, for messages."""
        return f"the dimensions that linear erasure leaves of {self.down[0].n_in}"

    def rows(self, X: Any) -> Any:
        """Map rows to the end of the path, in single or double precision."""
        if len(self.down) == 1 and isinstance(self.down[0], Compress):
            return coordinates(X, self.down[0].U)
        move, dtype = Eraser(self.down), float_dtype(np.dtype(X.dtype))
        if isinstance(X, np.ndarray):
            return move(X.astype(dtype, copy=False))
        return X.mapped(lambda rows: move(rows.astype(dtype, copy=False)), self.width)

    def eraser(self, **metadata: Any) -> Eraser:
        """Build the eraser that goes down and up again, by as few maps as possible."""
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


class FirstStages(NamedTuple):
    """Result of the first stages."""

    erasers: tuple[Eraser, ...]
    path: Path
    rows: Any  # at the end of the path
    statistics: Any  # of the rows at its beginning
    identity: dict[str, Any]


def _in_coordinates(eraser: Eraser) -> Eraser:
    """Let a linear eraser end in coordinates of what it leaves, and the way back up."""
    if eraser.is_projection or not eraser.is_linear or eraser.rank == eraser.n_features:
        return eraser
    U = column_space(eraser.P, floor=1e-8)
    return Eraser((*eraser.maps, Compress(U), Expand(U)), eraser.metadata)


def _checked(name: str, eraser: Any, such_as: str) -> Any:
    if not isinstance(eraser, BaseEraser):
        raise ValueError(f"Got {name}={eraser!r}, but expected an eraser such as {such_as}.")
    return clone(eraser)


def coordinates(X: Any, U: NDArray[np.float64]) -> Any:
    """Map rows to the coordinates of U, in single or double precision."""
    dtype = float_dtype(np.dtype(X.dtype))
    if isinstance(X, np.ndarray):
        X = X.astype(dtype, copy=False)
    return X @ U.astype(dtype)
