"""Fits of one eraser at decreasing ranks, each started from the fit before where it can be."""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import clone

from unspot.data.dataset import Split
from unspot.data.goal import Goal
from unspot.data.rows import as_seed
from unspot.eraser import Eraser
from unspot.erasers.base import fit_concept
from unspot.erasers.cascade import Cascade, FirstStages, compose
from unspot.erasers.leopard import LEOPARD
from unspot.leopard import ManifoldSolver

#: A rank of at least ``NEAR`` times the one above is nearly the same problem. Its fit uses the same
#: rows. The start is good already, so it needs few evaluations of loss and gradient, and stops soon
#: without a gain: ``benchmarks/rank_path.py``.
NEAR = 0.87
NEAR_EVALUATIONS, NEAR_PATIENCE = 10, 6
#: A fit at a much lower rank draws new rows: on the rows that a subspace was fitted on, all its
#: directions look alike. At full rank it draws this share of the rows. At lower ranks it draws
#: more, for the same work: an evaluation costs O(b²r).
FAR_EVALUATIONS, FAR_PATIENCE = 16, 5
FAR_SHARE = 0.5
MIN_WARM_ROWS = 512


@dataclass(frozen=True)
class Stage:
    """The rows that the ranked eraser is fitted on, and the way back to the embeddings.

    Parameters
    ----------
    train : Split
        The training rows.
    X : array
        The training rows as the ranked eraser sees them.
    cascade : Cascade, optional
        Whose inner eraser is fitted.
    goal : Goal, optional
        What the cascade erases.
    first : FirstStages, optional
        Its fitted first stages.
    """

    train: Split
    X: NDArray[Any]
    cascade: Cascade | None = None
    goal: Goal | None = None
    first: FirstStages | None = None

    @property
    def what(self) -> str:
        """Name the number of columns of ``X``, for messages."""
        return "the number of features" if self.first is None else self.first.path.what

    def whole(self, fitted: Any, rank: int) -> Any:
        """Return the fitted estimator for the embeddings, with its rank."""
        if self.cascade is not None and self.goal is not None and self.first is not None:
            fitted = _cascaded(self.cascade, self.goal, self.first, fitted)
        fitted.rank_ = rank
        return fitted


def stages(eraser: Any, train: Split) -> tuple[Any, Stage]:
    """Return the estimator whose rank varies, and the rows that it is fitted on."""
    ranked, stage = eraser, Stage(train, np.asarray(train.X))
    if isinstance(eraser, Cascade):
        ranked, cascade = eraser.inner(), clone(eraser)
        goal = cascade.read_goal(train.concept, n_rows=len(train))
        first = cascade.fit_first(stage.X, goal)
        stage = Stage(train, first.rows, cascade, goal, first)
    parameters = ranked.get_params(deep=False) if hasattr(ranked, "get_params") else ()
    if "rank" not in parameters:
        raise ValueError(
            f"Got {type(ranked).__name__}, which has no rank, but expected an eraser with one, "
            "such as LEOPARD() or Cascade(LEOPARD()), or your own with a parameter rank."
        )
    return ranked, stage


def fits(estimator: Any, stage: Stage, ranks: Sequence[int], above: Any = None) -> Iterator[Any]:
    """Fit the estimator at each rank: the first from scratch, the others warm if possible.

    With ``above``, a fit of this function at a higher rank, the first starts warm too.
    """
    warm = starts_warm(estimator)
    U = getattr(above, "estimator_", above).eraser_.U if warm and above is not None else None
    for number, rank in enumerate(ranks, start=int(U is not None)):
        fitted = clone(estimator).set_params(rank=rank)
        if U is not None:
            fitted.set_params(**_warm(estimator, U, rank, len(stage.X), number))
        with warnings.catch_warnings():  # a path may include the full rank
            warnings.filterwarnings("ignore", message=".*LEOPARD erases nothing")
            fit_concept(fitted, stage.X, stage.train.concept)
        yield stage.whole(fitted, rank)
        U = fitted.eraser_.U if warm else None


@dataclass(frozen=True)
class TransformerEraser:
    """A fitted transformer with the interface of an eraser."""

    transformer: Any

    def __call__(self, X: Any) -> NDArray[Any]:
        return np.asarray(self.transformer.transform(X))

    reduce = __call__


def frozen(fitted: Any) -> Any:
    """Return the eraser of a fit, or wrap another transformer."""
    return fitted.eraser_ if hasattr(fitted, "eraser_") else TransformerEraser(fitted)


def at_rank(eraser: Any, rank: int, seed: int) -> Any:
    """Return the unfitted eraser of a path with one rank and the seed of the path."""
    if isinstance(eraser, Cascade):
        inner = LEOPARD() if eraser.eraser is None else eraser.eraser
        return clone(eraser).set_params(eraser=at_rank(inner, rank, seed))
    settings: dict[str, Any] = {"rank": rank}
    if "random_state" in eraser.get_params(deep=False):
        settings["random_state"] = seed
    return clone(eraser).set_params(**settings)


def with_parameters(fitted: Any, plain: Any) -> Any:
    """Give a fit of a path the parameters of its estimator, for another fit."""
    if isinstance(fitted, Cascade):
        with_parameters(fitted.estimator_, plain.inner())
    return fitted.set_params(**clone(plain).get_params(deep=False))


def starts_warm(estimator: Any) -> bool:
    """Tell whether an estimator refines a start; the paper's solver always runs to the end."""
    return isinstance(estimator, LEOPARD) and (
        estimator.solver == "manifold" or isinstance(estimator.solver, ManifoldSolver)
    )


def _warm(
    estimator: LEOPARD, U: NDArray[Any], rank: int, n_rows: int, number: int
) -> dict[str, Any]:
    """Set up a short fit that starts inside span(U), on new rows if the rank is far."""
    solver = estimator.solver if isinstance(estimator.solver, ManifoldSolver) else ManifoldSolver()
    near = rank >= NEAR * U.shape[1]
    brief = replace(
        solver,
        max_evaluations=min(solver.max_evaluations, NEAR_EVALUATIONS if near else FAR_EVALUATIONS),
        patience=min(solver.patience, NEAR_PATIENCE if near else FAR_PATIENCE),
    )
    brief = replace(brief, init=U)
    if near:
        return {"solver": brief}
    share = min(1.0, FAR_SHARE * (len(U) / rank) ** 0.5)
    rows = max(MIN_WARM_ROWS, round(share * min(solver.max_rows, n_rows)))
    seed = estimator.random_state + number
    return {"solver": replace(brief, max_rows=rows), "random_state": seed}


def seeded(estimator: Any) -> tuple[Any, int]:
    """Clone with a number as random_state, and return that number too."""
    seed = as_seed(getattr(estimator, "random_state", 0))
    if "random_state" in estimator.get_params(deep=False):
        return clone(estimator).set_params(random_state=seed), seed
    return clone(estimator), seed


def _cascaded(cascade: Cascade, goal: Goal, first: FirstStages, fitted: Any) -> Cascade:
    """Assemble a cascade of fitted first stages and an eraser fitted after them."""
    whole = clone(cascade).set_params(eraser=clone(fitted))
    whole.first_, whole.estimator_ = first.erasers, fitted
    whole.n_features_in_ = first.erasers[0].n_features
    for name in ("classes_", "history_"):  # numbers have no classes
        if hasattr(fitted, name):
            setattr(whole, name, getattr(fitted, name))
    composed = compose(first.path, fitted.eraser_)
    if fitted.eraser_.is_normalised:
        composed = composed.normalised(fitted.eraser_.maps[-1].floor)
    metadata = whole._facts(goal.describe(), len(goal), first.identity)
    whole.eraser_ = Eraser(composed.maps, {**metadata, **composed.metadata})
    return whole
