"""Fits of one eraser at decreasing ranks: warm where the method allows, anew where it does not."""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import clone

from unspot.data.dataset import Split
from unspot.data.labels import encode
from unspot.data.sampling import generator
from unspot.eraser import Eraser
from unspot.erasers.base import BaseEraser
from unspot.erasers.cascade import Cascade, coordinates
from unspot.erasers.leace import LEACE
from unspot.erasers.leopard import LEOPARD
from unspot.projections import ManifoldSolver

__all__ = ["Stage", "fits", "seeded", "stages"]

#: A start from the rank above is good already, so few evaluations of loss and gradient refine it,
#: and few without a gain end it: ``benchmarks/rank_path.py``. A rank of at least ``NEAR`` times the
#: one above is nearly the same problem, and goes on with its rows.
NEAR = 0.87
NEAR_EVALUATIONS, NEAR_PATIENCE = 10, 6
#: Farther down a fit draws rows of its own: on rows that a subspace was fitted on, all its
#: directions look alike. At full rank it draws this share of the budget, and at lower ranks more,
#: for as much work: an evaluation is O(b²r).
FAR_EVALUATIONS, FAR_PATIENCE = 16, 5
FAR_SHARE = 0.5
MIN_WARM_ROWS = 512


@dataclass(frozen=True)
class Stage:
    """Training rows as the ranked eraser sees them, and the way back to the embeddings."""

    train: Split
    X: NDArray[Any]
    linear: Eraser | None = None  # the first stage of a cascade

    @property
    def what(self) -> str:
        if self.linear is None:
            return "the number of features"
        return f"the dimensions that linear erasure leaves of {self.linear.n_features}"

    def whole(self, fitted: Any, rank: int) -> Any:
        """The fitted estimator of the embeddings, with its rank."""
        if self.linear is not None:
            fitted = _cascaded(self.linear, fitted, self.train)
        fitted.rank_ = rank
        return fitted


def stages(eraser: Any, train: Split) -> tuple[Any, Stage]:
    """The estimator whose rank varies, and the rows that it is fitted on."""
    if not isinstance(eraser, Cascade):
        ranked, stage = eraser, Stage(train, np.asarray(train.X))
    else:
        ranked = LEOPARD() if eraser.eraser is None else eraser.eraser
        linear = LEACE(method="orthogonal").fit(train.X, train.z).eraser_
        stage = Stage(train, coordinates(np.asarray(train.X), linear.U), linear)
    if not isinstance(ranked, BaseEraser) or "rank" not in ranked.get_params(deep=False):
        raise ValueError(
            f"Got {type(ranked).__name__}, which has no rank, but expected an eraser with one, "
            "such as LEOPARD() or Cascade(LEOPARD())."
        )
    return ranked, stage


def fits(estimator: Any, stage: Stage, ranks: Sequence[int]) -> Iterator[Any]:
    """The estimator fitted at each rank: the first as it is, the others warm where they can be."""
    U = None
    warm = _starts_warm(estimator)
    for number, rank in enumerate(ranks):
        fitted = clone(estimator).set_params(rank=rank)
        if U is not None:
            fitted.set_params(**_warm(estimator, U, rank, len(stage.X), number))
        with warnings.catch_warnings():  # a path may show what the full rank leaves
            warnings.filterwarnings("ignore", message=".*LEOPARD erases nothing")
            fitted.fit(stage.X, stage.train.z)
        yield stage.whole(fitted, rank)
        U = fitted.eraser_.U if warm else None


def _starts_warm(estimator: Any) -> bool:
    """Whether it takes a start, and refines it: the paper's solver always goes all the way."""
    if not isinstance(estimator, LEOPARD):
        return False
    return estimator.solver == "manifold" or isinstance(estimator.solver, ManifoldSolver)


def _warm(
    estimator: LEOPARD, U: NDArray[Any], rank: int, n_rows: int, number: int
) -> dict[str, Any]:
    """Parameters of a fit that begins inside span(U): few steps, on rows of its own if far."""
    near = rank >= NEAR * U.shape[1]
    solver = estimator.solver
    full = solver if isinstance(solver, ManifoldSolver) else ManifoldSolver()
    evaluations, patience = (
        (NEAR_EVALUATIONS, NEAR_PATIENCE) if near else (FAR_EVALUATIONS, FAR_PATIENCE)
    )
    brief = replace(
        full,
        max_evaluations=min(full.max_evaluations, evaluations),
        patience=min(full.patience, patience),
    )
    if near:
        return {"init": U, "solver": brief}
    share = min(1.0, FAR_SHARE * (len(U) / rank) ** 0.5)
    rows = max(MIN_WARM_ROWS, round(share * min(estimator.max_rows, n_rows)))
    seed = estimator.random_state + number
    return {"init": U, "solver": brief, "max_rows": rows, "random_state": seed}


def seeded(estimator: Any) -> tuple[Any, int]:
    """A clone whose random_state is a number, and that number."""
    state = getattr(estimator, "random_state", 0)
    is_number = isinstance(state, (int, np.integer))
    seed = int(state if is_number else generator(state).integers(2**31 - 1))
    if "random_state" in estimator.get_params(deep=False):
        return clone(estimator).set_params(random_state=seed), seed
    return clone(estimator), seed


def _cascaded(linear: Eraser, fitted: Any, train: Split) -> Cascade:
    """The cascade of a linear stage and an eraser fitted after it, without fitting either."""
    whole = Cascade(clone(fitted))
    whole.linear_, whole.estimator_ = linear, fitted
    whole.classes_, whole.n_features_in_ = fitted.classes_, linear.n_features
    if hasattr(fitted, "history_"):
        whole.history_ = fitted.history_
    composed = whole._compose(linear.U, fitted.eraser_)
    metadata = whole._metadata(np.asarray(train.X), encode(train.z))
    whole.eraser_ = Eraser(composed.maps, {**metadata, **composed.metadata})
    return whole
