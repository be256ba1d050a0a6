"""Cascade: one eraser behind another; LEACE and then LEOPARD by default (Algorithm 2)."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any, ClassVar, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray
from sklearn.base import clone

from unspot.checks import check_choice, check_rank
from unspot.data.goal import Goal
from unspot.data.rows import KNOWN
from unspot.eraser import Eraser
from unspot.erasers.base import ANY_GOAL, BaseEraser, Fit, deviations, scaled
from unspot.erasers.leace import LEACE
from unspot.io.sources import Rows, float_dtype
from unspot.maps import Compress, Expand, Map, Projection, Scale


class Cascade(BaseEraser):
    """Erase in two stages, the second inside what the first leaves (Algorithm 2).

    ``Cascade(rank=50)`` is the paper's cascade. Its first stage is the orthogonalised LEACE
    projection P_L = U_L U_Lᵀ, which makes the class means equal; then L̄EOPARD is fitted on the
    d − q coordinates U_Lᵀx. The result is one orthogonal projector P = U_L P′ U_Lᵀ of that rank.
    Other stages are named: ``Cascade(Transport(), LEOPARD(rank=60))``.

    Parameters
    ----------
    first : estimator, optional
        Any eraser of unspot, by default ``LEACE(method="orthogonal")``; or a transformer of
        scikit-learn with orthonormal ``components_``, such as ``PCA(40)``, beside which everything
        is dropped. A cascade as the first stage makes three stages.
    second : estimator, optional
        Any eraser of unspot, by default ``LEOPARD()``.
    rank : int, float or "auto", optional
        The rank of the second stage; by default its own.
    metric : {"euclidean", "standardised"}
        ``"standardised"``: both stages see columns that are divided by their standard deviations,
        for tables whose columns have different units. Erased rows have the units of the rows.
    normalise : bool
        Scale erased rows to unit norm. The second stage knows of it.
    random_state : int, RandomState or None
        The seed of the second stage; by default its own.

    Attributes
    ----------
    eraser_ : Eraser
    first_ : Eraser
        The first stage.
    second_ : Eraser
        The second stage, in coordinates of what the first leaves.
    rank_, selection_, history_
        Those of the second stage, where it has them.
    classes_ : ndarray

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> z = np.repeat(["a", "b"], 100)
    >>> X = rng.normal(size=(200, 6)) + 2.0 * (z == "b")[:, None]
    >>> erased = Cascade(rank=4, random_state=0).fit(X, z).transform(X)
    >>> gap = erased[z == "a"].mean(axis=0) - erased[z == "b"].mean(axis=0)
    >>> bool(abs(gap).max() < 1e-9)
    True

    LEACE within three principal components:

    >>> from sklearn.decomposition import PCA
    >>> from unspot import LEACE
    >>> Cascade(PCA(3), LEACE()).fit(X, z).reduce(X).shape
    (200, 2)
    """

    takes: ClassVar[tuple[str, ...]] = ANY_GOAL  # if both stages do
    reads_rows: ClassVar[bool] = True

    def __init__(
        self,
        first: Any = None,
        second: Any = None,
        *,
        rank: int | float | Literal["auto"] | None = None,
        metric: Literal["euclidean", "standardised"] = "euclidean",
        normalise: bool = False,
        random_state: Any = None,
    ) -> None:
        self.first = first
        self.second = second
        self.rank = rank
        self.metric = metric
        self.normalise = normalise
        self.random_state = random_state

    @property
    def min_rows_per_class(self) -> int:  # type: ignore[override]
        return int(self.second_stage().min_rows_per_class)

    def second_stage(self) -> Any:
        """Clone the second stage, with the parameters that the cascade sets."""
        from unspot.erasers.leopard import LEOPARD

        second = LEOPARD() if self.second is None else self.second
        if not isinstance(second, BaseEraser):
            raise ValueError(
                f"Got second={second!r}, but expected an eraser such as LEOPARD(rank=50)."
            )
        known = second.get_params(deep=False)
        changed = {} if self.rank is None else {"rank": self.rank}
        if self.normalise and "normalise" in known:
            changed["normalise"] = True
        if self.random_state is not None and "random_state" in known:
            changed["random_state"] = self.random_state
        return clone(second).set_params(**changed)

    def _fit_goal(self, X: Any, goal: Goal) -> Fit:
        first, second, facts = self.fit_first(X, goal), self.second_stage(), {}
        if first.width == 0:  # LEACE has warned
            self.first_ = first.eraser
            nothing = Eraser(first.eraser.maps, {"linear_rank": 0})
            return Fit(nothing, first.statistics, first.identity)
        rank = getattr(second, "rank", None)
        if isinstance(rank, (int, float, np.number)):
            check_rank(rank, first.width, first.what)
        with warnings.catch_warnings():
            if rank == "auto":
                self.selection_ = second.select_rank(self, X, goal)
                facts = {"selection": self.selection_.describe()}
                second.set_params(rank=self.selection_.rank)
                # All ranks may do, behind a linear stage.
                warnings.filterwarnings("ignore", message=".*LEOPARD erases nothing")
            second._fit_rows(first.rows, goal)
        return self.joined(first, second, **facts)

    _fit_standardised = _fit_goal  # its first stage does it, also on a path of ranks

    def fit_first(self, X: Any, goal: Goal) -> FirstStage:
        """Fit the first stage."""
        if check_choice("metric", self.metric, ("euclidean", "standardised")) == "standardised":
            scale, stages = deviations(X), clone(self).set_params(metric="euclidean")
            first = stages.fit_first(scaled(X, scale), goal)
            down, up = (Scale(1 / scale), *first.down), (*first.up, Scale(scale))
            return FirstStage(first.eraser.in_units(scale), down, up, first.rows, None, None)
        # No orthogonal projection keeps the covariance with a task.
        default = LEACE(method="orthogonal" if goal.keep is None else "oblique")
        stage = default if self.first is None else clone(self.first, safe=False)
        if isinstance(stage, BaseEraser):
            eraser = stage._fit_rows(X, goal).eraser_
            # It saw the rows of the cascade, and has summed up and hashed them.
            statistics = getattr(stage, "statistics_", None)
            hashes = {k: v for k, v in eraser.metadata.items() if k in ("fingerprint", *KNOWN)}
        else:
            rows = self._in_memory(X, goal)[0] if isinstance(X, Rows) else X
            eraser, statistics, hashes = Eraser.projection(_components(stage, rows)), None, None
        down, up = _coordinates(eraser, lambda: deviations(X))
        return FirstStage(eraser, down, up, _moved(X, down), statistics, hashes)

    def joined(self, first: FirstStage, second: Any, **facts: Any) -> Fit:
        """Join two fitted stages to one eraser of the embeddings."""
        self.first_, self.second_ = first.eraser, second.eraser_
        for name in ("history_", "rank_"):
            if hasattr(second, name):
                setattr(self, name, getattr(second, name))
        inner = second.eraser_.before_norm
        maps = inner.maps
        if inner.is_projection:
            down, up = _coordinates(inner, lambda: 1.0)
            maps = (*down, *up)
        # The second stage's rows cannot be passed again: they are in coordinates of the first.
        about = {k: v for k, v in second.eraser_.metadata.items() if k not in KNOWN}
        metadata = {"inner": {**about, **facts}, "linear_rank": first.width}
        eraser = Eraser(_merged((*first.down, *maps, *first.up)), metadata)
        if second.eraser_.is_normalised:  # at the end: coordinates have the same norms as rows
            eraser = eraser.normalised()
        return Fit(eraser, first.statistics, first.identity)


class FirstStage(NamedTuple):
    """A fitted first stage: maps down to coordinates of what it leaves, and back up."""

    eraser: Eraser
    down: tuple[Map, ...]
    up: tuple[Map, ...]
    rows: Any  # in these coordinates
    statistics: Any  # statistics of the cascade's rows, if the stage has them
    identity: dict[str, Any] | None

    @property
    def width(self) -> int:
        """Return the number of coordinates."""
        return self.down[-1].n_out

    @property
    def what(self) -> str:
        """Name this number, for messages."""
        return f"the dimensions that the first stage leaves of {self.eraser.n_features}"


def _components(transformer: Any, X: NDArray[Any]) -> NDArray[np.float64]:
    """Fit a transformer of scikit-learn, and return its orthonormal components, (d, r)."""
    fitted = transformer.fit(X) if hasattr(transformer, "fit") else None
    components = np.asarray(getattr(fitted, "components_", np.ones((2, 1))), dtype=np.float64)
    if not np.allclose(components @ components.T, np.eye(len(components)), atol=1e-4):
        raise ValueError(
            f"Got first={transformer!r}, but expected an eraser such as Transport(), or a "
            "transformer with orthonormal components_ such as PCA(40)."
        )
    return components.T


def _coordinates(
    eraser: Eraser, spreads: Callable[[], Any]
) -> tuple[tuple[Map, ...], tuple[Map, ...]]:
    """Split an eraser into maps to coordinates of what it leaves, and maps back up."""
    if isinstance(eraser.maps[-1], Expand):
        return eraser.maps[:-1], eraser.maps[-1:]
    if isinstance(projection := eraser.maps[0], Projection) and eraser.is_projection:
        return (Compress(eraser.U),), (Expand(eraser.U, projection.offset),)
    if eraser.is_linear and eraser.rank < eraser.n_features:
        # In units of the columns: for a column near 1e-33 an oblique map has factors near 1e33.
        left, values, _ = np.linalg.svd(eraser.P * spreads())
        U = np.ascontiguousarray(left[:, values > 1e-13 * values[0]])
        origin = eraser(np.zeros(len(U)))
        return (*eraser.maps, Compress(U)), (Expand(U, origin - U @ (U.T @ origin)),)
    return eraser.maps, ()


def _moved(X: Any, maps: tuple[Map, ...]) -> Any:
    """Map rows, in single or double precision."""
    dtype = float_dtype(np.dtype(X.dtype))
    if len(maps) == 1 and isinstance(maps[0], Compress):
        X = X.astype(dtype, copy=False) if isinstance(X, np.ndarray) else X
        return X @ maps[0].U.astype(dtype)
    move = Eraser(maps)
    if isinstance(X, np.ndarray):
        return move(X.astype(dtype, copy=False))
    return X.mapped(lambda rows: move(rows.astype(dtype, copy=False)), maps[-1].n_out)


def _merged(maps: tuple[Map, ...]) -> tuple[Map, ...]:
    """Merge neighbours, so that two projections become one."""
    merged: list[Map] = []
    for step in maps:
        last = merged[-1] if merged else None
        if isinstance(step, Compress) and isinstance(last, Compress):
            merged[-1] = Compress(last.U @ step.U)
        elif isinstance(step, Expand) and isinstance(last, Expand):
            merged[-1] = Expand(step.U @ last.U, step(last(np.zeros(last.n_in))))
        else:
            merged.append(step)
    if len(merged) == 2 and isinstance(merged[0], Compress):
        return Eraser.projection(merged[0].U).maps
    return tuple(merged)
