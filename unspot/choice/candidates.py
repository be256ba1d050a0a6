"""Candidates: the erasers that a search tries, from simple to elaborate, each along its ranks."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import clone
from sklearn.decomposition import PCA

from unspot.data.dataset import Split
from unspot.data.goal import Goal
from unspot.data.statistics import MAX_RATIO, ratio_of_units
from unspot.erasers.base import fit_concept
from unspot.erasers.cascade import Cascade
from unspot.erasers.leace import LEACE
from unspot.erasers.leopard import LEOPARD
from unspot.erasers.transport import Transport

#: Ranks, as shares of the dimensions of the rows, and of principal components.
SHARES, WITHIN = (0.8, 0.6, 0.4, 0.25, 0.12), (0.6, 0.3)
#: Numbers of principal components that come first.
WIDTHS = (80, 40, 20, 10)
#: Ranks at which one task is kept: other uses do not matter then, and low ranks hide most.
TASK_RANKS = (32, 16, 8, 4)
#: From this share of the dimensions on, the classes are so many that linear erasure drops most.
MANY = 0.15


@dataclass(frozen=True)
class Family:
    """An eraser, and the ranks at which it is tried.

    Parameters
    ----------
    name : str
        In words, for tables and pictures.
    estimator : estimator
        Unfitted.
    ranks : tuple of int
        From high to low; empty if the eraser has no rank.
    keeps : bool
        Whether its fit gets the task.
    """

    name: str
    estimator: Any
    ranks: tuple[int, ...] = ()
    keeps: bool = False

    def fits(self, rows: Split, ranks: Sequence[int | None]) -> Iterator[tuple[int | None, Any]]:
        """Fit the eraser at some of its ranks, on rows with what is given and the task.

        Each from scratch: what starts in the rank above keeps fewer neighbours at the same leak.
        """
        beside = {"given": rows.given, "keep": rows.task if self.keeps else None}
        conditions = {name: value for name, value in beside.items() if value is not None}
        for rank in ranks or (None,):
            estimator = clone(self.estimator)
            if rank is not None:
                estimator.set_params(rank=rank)
            yield rank, fit_concept(estimator, rows.X, rows.concept, **conditions)


def families(
    goal: Goal, n_features: int, n_rows: int, seed: int, settings: Mapping[str, Any] | None = None
) -> list[Family]:
    """List the candidates for a goal, the simplest first.

    Every one of them has won on unseen rows somewhere (``benchmarks/results/choice.json``): LEACE
    and transport where the concept is nearly linear; L̄EOPARD behind them where it is not;
    principal components first where rows are few or clusters are strong; transport that drops
    nothing, and L̄EOPARD by itself, where classes are many.

    Parameters
    ----------
    goal : Goal
        The concept to erase, the covariate that is given, and the task to keep.
    n_features, n_rows : int
        Shape of the rows that candidates are fitted on.
    seed : int
    settings : mapping, optional
        Parameters for all that have them, from ``settings_for``.
    """
    directions, movers = goal.design().shape[1], dict[str, Any]()
    if goal.erase.kind in Transport.takes:
        directions = max(directions, len(goal.erase.as_classes(4).classes))  # transport's bins
        movers["transport"] = Transport()
        if goal.given is None:
            movers["transport that drops nothing"] = Transport(drop=False)
    # Few rows span fewer dimensions, and a part of them is held out.
    spanned = min(n_features, int(0.7 * n_rows))
    widths = [w for w in WIDTHS if directions + 1 < w < 0.8 * spanned]
    result = list(_within(None, spanned, directions, movers, seed))
    for width in widths:
        result += _within(width, width, directions, movers, seed)
    if goal.keep is not None:
        ranks = tuple(rank for rank in TASK_RANKS if rank < spanned - directions)
        result.append(Family("LEACE that keeps the task", LEACE(), keeps=True))
        firsts = {"cascade": None} | {f"{name} and L̄EOPARD": movers[name] for name in movers}
        for name in [*firsts][:2]:
            whole = _cascade(firsts[name], seed)
            result.append(Family(f"{name} that keeps the task", whole, ranks, keeps=True))
    for i, one in enumerate(result):  # clones, since stages are shared
        known = one.estimator.get_params(deep=False)
        chosen = {name: value for name, value in (settings or {}).items() if name in known}
        result[i] = replace(one, estimator=clone(one.estimator).set_params(**chosen))
    return result


def settings_for(X: NDArray[Any]) -> dict[str, Any]:
    """Choose settings by the rows: unit norm is given back, and other units are standardised.

    The norm of erased unit rows shows how much was removed, which boosted trees read. Columns of
    large units would decide alone.
    """
    if np.abs(np.linalg.norm(X, axis=1) - 1).max() < 1e-2:
        return {"normalise": True}
    return {"metric": "standardised"} if ratio_of_units(X) > MAX_RATIO else {}


def _within(
    width: int | None, dimensions: int, directions: int, movers: dict[str, Any], seed: int
) -> Iterator[Family]:
    """List the candidates of the rows themselves, or of some of their principal components."""
    before = "" if width is None else f"{width} components, then "
    shares = SHARES if width is None else WITHIN
    ranks = tuple(sorted({max(1, round(share * dimensions)) for share in shares}, reverse=True))
    behind = tuple(rank for rank in ranks if rank <= dimensions - directions)
    firsts = {"cascade": LEACE(method="orthogonal")}
    if movers:
        firsts["transport and L̄EOPARD"] = movers["transport"]
    for name, stage in ({"LEACE": LEACE()} | movers).items():
        yield Family(before + name, _after(width, stage))
    for name, stage in firsts.items() if behind else ():
        yield Family(before + name, _cascade(_after(width, stage), seed), behind)
    if width is None and directions > MANY * dimensions:
        yield Family("L̄EOPARD", LEOPARD(random_state=seed), ranks)


def _after(width: int | None, stage: Any) -> Any:
    """Put principal components before a stage."""
    return stage if width is None else Cascade(PCA(width, random_state=0), stage)


def _cascade(first: Any, seed: int) -> Cascade:
    """Put L̄EOPARD behind a stage; the one place that decides its settings."""
    return Cascade(first, LEOPARD(random_state=seed))
