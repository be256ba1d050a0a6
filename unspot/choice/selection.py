"""The choice of a rank from a path, on validation rows.

What was chosen is fitted again on train and validation rows. Test rows, which had no part in
either, certify it.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping, Sequence
from copy import copy
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from unspot.checks import check_choice, check_share
from unspot.data.dataset import Dataset, Split, parts_of
from unspot.evaluation.attack_models import rows_needed
from unspot.evaluation.attackers import BUDGETS
from unspot.evaluation.certificate import MARGIN
from unspot.evaluation.evaluations import check_metrics, over_seeds
from unspot.evaluation.inference import scores_of
from unspot.evaluation.measure import Attacked, attack_eraser, attack_folds
from unspot.io.progress import phase

if TYPE_CHECKING:
    from unspot.choice.path import PathPoint, RankPath

#: Confidence level of the bound that a rank must meet.
_CONFIDENCE = 0.95

#: A default bound above this says that the rows are too few, and not that the concept is gone.
_LARGE_ADVANTAGE = 0.2

#: Ranks between two of a path that are fitted and attacked: tenths become eightieths.
_REFINEMENTS = 3


@dataclass(frozen=True)
class Selection:
    """A chosen rank, and the values that decided.

    Parameters
    ----------
    rank : int
    criterion : str
        Name of the metric or bound that decided.
    tried : mapping of int to float
        The value of the criterion at every rank that was measured.
    met : bool
        Whether the rank meets the bound. If none does, it is the rank that comes
        nearest.
    max_advantage : float or None
        Largest advantage allowed to attackers, if that was the condition.
    """

    rank: int
    criterion: str
    tried: Mapping[int, float]
    met: bool = True
    max_advantage: float | None = None

    def describe(self) -> dict[str, Any]:
        """Plain values, for metadata and files."""
        tried = {str(rank): float(value) for rank, value in self.tried.items()}
        return {
            "rank": self.rank,
            "criterion": self.criterion,
            "tried": tried,
            "met": self.met,
            "max_advantage": self.max_advantage,
        }

    def __str__(self) -> str:
        bound = "" if self.max_advantage is None else f", {self.max_advantage:.3g} allowed"
        missed = "" if self.met else ", which these rows do not confirm"
        return (
            f"rank {self.rank}: {self.criterion} {self.tried[self.rank]:.3f}"
            f"{bound}{missed} ({len(self.tried)} ranks were looked at)"
        )


def select(
    path: RankPath,
    *,
    metric: str | None = None,
    at_most: float | None = None,
    at_least: float | None = None,
    max_advantage: float | None = None,
    attackers: str | Sequence[str] = "quick",
    refit: bool = True,
) -> Any:
    """Choose a rank on validation rows, and fit the eraser again on all rows but test rows.

    Without ``metric``, it is the largest rank at which no attacker can have an advantage of
    more than ``max_advantage`` over guessing. With it, it is the rank whose metric just meets
    the bound: ``select(metric="neighbours", at_least=0.8)`` erases as much as it can, and
    ``select(metric="linear", at_most=0.6)`` keeps as much as it can.

    Parameters
    ----------
    metric : str, optional
        A metric of ``evaluate``, or "held_out" for the MMD² of the path.
    at_most, at_least : float, optional
        The bound of the metric: one of them.
    max_advantage : float, optional
        The largest advantage of the strongest attacker over guessing, in balanced accuracy; of
        a number, the largest share of its variance. It holds for each of several concepts. By
        default 0.05. Where the rows cannot decide that, the smallest that they can.
    attackers : {"quick", "standard", "thorough"} or sequence of str
        Attackers that judge ``max_advantage``: a budget, or names of attackers.
    refit : bool
        Whether to fit again on train and validation rows after the choice, which erases better.
        Without, the eraser is that of the path, fitted on train rows.

    Returns
    -------
    estimator
        Fitted, with ``rank_``, and with ``selection_``: the values that decided. If no rank
        meets the bound, the one that comes nearest, with a warning and ``selection_.met``
        false. Certify it with ``certify(chosen, path.unseen, margin=max_advantage)``.
    """
    check_bounds(metric, at_most, at_least, max_advantage)
    if metric is None:
        selection = largest(path, max_advantage=max_advantage, attackers=attackers)
    else:
        selection = by_metric(path, metric, at_most=at_most, at_least=at_least)
    went_for = selection.max_advantage
    if max_advantage is not None and went_for is not None and went_for > max_advantage:
        warnings.warn(
            f"Got max_advantage={max_advantage:g}, which these rows cannot decide; went for "
            f"{went_for:.3f}: {selection}. unspot plan says how many rows would.",
            UserWarning,
            stacklevel=2,
        )
    elif not selection.met:
        warnings.warn(f"No rank will do: {selection}. {_WAY_OUT}", UserWarning, stacklevel=2)
    elif max_advantage is None:
        _warn_of_large_advantage(selection.max_advantage or 0.0)
    if refit and path.eraser is not None:
        estimator = path.fit_again(selection.rank)
    else:  # a copy, since another choice may take the same rank
        estimator = copy(path.at(selection.rank).estimator)
    estimator.selection_ = selection
    return estimator


def _warn_of_large_advantage(allowed: float) -> None:
    if allowed > _LARGE_ADVANTAGE:
        warnings.warn(
            f"Got rows that can only show an advantage of at most {allowed:.2f}, but expected "
            f"enough for {_LARGE_ADVANTAGE}: the chosen rank may leave most of the concept "
            "readable. Fit on more rows (or groups), or pass a rank.",
            UserWarning,
            stacklevel=3,
        )


def check_bounds(
    metric: str | None, at_most: float | None, at_least: float | None, max_advantage: float | None
) -> None:
    """Refuse bounds of a choice that contradict each other."""
    n_bounds = (at_most is not None) + (at_least is not None)
    if metric is None and n_bounds:
        raise ValueError("Got at_most or at_least without metric, which they are bounds of.")
    if metric is not None and n_bounds != 1:
        raise ValueError(
            f"Got metric={metric!r} with {'two bounds' if n_bounds else 'no bound'}, but expected "
            "one of them: at_most=0.6, or at_least=0.8."
        )
    if metric is not None and max_advantage is not None:
        raise ValueError("Got both metric and max_advantage, but expected one of them.")


#: Advice if no rank meets the bound.
_WAY_OUT = "Allow more, fit on more rows, or add other ranks."


def by_metric(
    path: RankPath, metric: str, *, at_most: float | None = None, at_least: float | None = None
) -> Selection:
    """Choose the rank whose metric meets a bound by the smallest distance."""
    if metric != "held_out" and metric not in path.points[0].metrics:
        check_metrics([metric], path.judged)
    bound, sign = (at_least, 1.0) if at_least is not None else (at_most or 0.0, -1.0)
    values = {point.rank: _value(path, point, metric) for point in path}
    slack = {rank: sign * (value - bound) for rank, value in values.items()}
    rank = min(slack, key=lambda rank: (slack[rank] < 0, abs(slack[rank])))
    criterion = f"{metric} (at {'most' if at_least is None else 'least'} {bound:g})"
    return Selection(rank, criterion, values, slack[rank] >= 0)


def _value(path: RankPath, point: PathPoint, name: str) -> float:
    """Return a metric at a rank, measured now if the path does not have it."""
    if name == "held_out":
        return point.held_out
    metrics = point.metrics
    if name not in metrics:
        with phase("Choosing", note=f"rank {point.rank}"):
            seed = path.random_state
            metrics = over_seeds(point.eraser, path.judged, [name], seeds=1, random_state=seed)
        if name not in metrics:
            raise ValueError(f"Got metric {name!r}, which is undefined at rank {point.rank}.")
    return metrics[name][0]


def largest(
    path: RankPath, *, max_advantage: float | None = None, attackers: str | Sequence[str] = "quick"
) -> Selection:
    """Choose the largest rank at which no attacker can have more than ``max_advantage``.

    The upper end of the interval decides, as in ``certify``: the rows show with 95 %
    confidence that no attacker has more. Attackers that learn from one half of the validation rows
    are judged on the other half, both ways. They are slow, so ranks are bisected, which assumes
    that the advantage grows with the rank. Between two of the default ranks others are fitted. What
    quick attackers choose is confirmed by those of budget standard, who are to certify it:
    if they find more than is allowed, they choose among the lower ranks.

    Where validation rows are too few to decide, train rows are judged on too: of five folds, two
    fit a path, attackers learn from two others and are judged on the fifth, five times over. That
    takes five paths, and only few rows need it.

    Parameters
    ----------
    max_advantage : float, optional
        The largest advantage of the strongest attacker over guessing, in balanced accuracy; of a
        number, the largest share of its variance. It holds for each of several concepts. By
        default 0.05. Where the rows cannot decide that, the smallest that they can.
    attackers : {"quick", "standard", "thorough"} or sequence of str
        A budget, or names of attackers.
    """
    allowed, cross_fit = way_to_decide(path.data, max_advantage, attackers)
    bound = cross_fitted_bound if cross_fit else advantage_bound
    effort = attackers if isinstance(attackers, str) else tuple(attackers)

    def measure(point: PathPoint, effort: Any = effort) -> float:
        key = cross_fit, effort, point.rank
        if key not in path.bounds_known:
            path.bounds_known[key] = bound(path, point, effort)
        return path.bounds_known[key]

    rank, bounds = _bisect(path.points, measure, lambda bound: bound <= allowed)
    if rank is not None and path.refine:
        rank = _refined(path, rank, bounds, measure, allowed)
    confirmed: dict[int, float] = {}
    if rank is not None and _judges(effort) != effort:
        harder = partial(measure, effort=_judges(effort))
        rank, confirmed = _confirmed(path, rank, harder, allowed)
    criterion = "advantage of the strongest attacker at most"
    nearest = rank or min(confirmed or bounds, key=lambda rank: (confirmed or bounds)[rank])
    bounds |= confirmed
    met = rank is not None and (max_advantage is None or allowed <= max_advantage)
    return Selection(nearest, criterion, bounds, met, allowed)


def _of_each(rows: Split, attack: Callable[[Split], Attacked]) -> list[Attacked]:
    """Attack every concept of the rows, and their combination."""
    return [attack(part.data) for part in parts_of(rows)]


def _bound(each: Sequence[Attacked]) -> float:
    """Compute the upper confidence bound on the advantage over all concepts."""
    return max(one.bounds((1 - _CONFIDENCE) / len(each))[1] for one in each)


def _effort(attackers: str | Sequence[str]) -> dict[str, Any]:
    return {"budget": attackers} if isinstance(attackers, str) else {"attackers": attackers}


def _judges(attackers: Any) -> Any:
    """Return the budget that confirms a choice: standard after a quick search."""
    return "standard" if attackers == "quick" else attackers


def _confirmed(
    path: RankPath, rank: int, measure: Callable[[PathPoint], float], allowed: float
) -> tuple[int | None, dict[int, float]]:
    """Confirm a rank with stronger attackers, else bisect to the largest lower rank that passes."""
    bound = measure(path.at(rank))
    if bound <= allowed:
        return rank, {rank: bound}
    lower = [point for point in path.points if point.rank < rank]
    passed, values = _bisect(lower, measure, lambda value: value <= allowed)
    return passed, {rank: bound, **values}


def _refined(
    path: RankPath,
    rank: int,
    bounds: dict[int, float],
    measure: Callable[[PathPoint], float],
    allowed: float,
) -> int:
    """Bisect between a passing rank and the next higher, failing one; fills in ``bounds``."""
    above = min((other for other in path.ranks if other > rank), default=rank)
    for _ in range(_REFINEMENTS):
        if above - rank < 2:
            break
        middle = (above + rank) // 2
        with phase("Choosing", note=f"rank {middle}"):
            bounds[middle] = measure(path.at(middle))
        if bounds[middle] <= allowed:
            rank = middle
        else:
            above = middle
    return rank


def way_to_decide(
    data: Dataset, max_advantage: float | None, attackers: str | Sequence[str] = "quick"
) -> tuple[float, bool]:
    """Return the bound to aim for, and whether it needs train rows as well (cross-fitting)."""
    try:
        if all(map(_can_teach, data.validation.halves(0))):
            bound = decidable(data.validation, max_advantage, attackers)
            if max_advantage is None or bound <= max_advantage:
                return bound, False
    except ValueError:  # too few rows to be halved
        pass
    return decidable(data.train.joined(data.validation), max_advantage, attackers), True


def _can_teach(half: Split) -> bool:
    """Tell whether attackers can learn every concept from these rows."""
    return all(len(part.data) >= rows_needed(part.data.target) for part in parts_of(half))


def decidable(
    split: Split, max_advantage: float | None, attackers: str | Sequence[str] = "quick"
) -> float:
    """Return the bound that these rows shall decide: what was asked for, or the least they can."""
    names = attackers
    if isinstance(attackers, str):
        names = BUDGETS[_judges(check_choice("attackers", attackers, BUDGETS))].attackers
    parts = [part.data for part in parts_of(split)]
    alpha = (1 - _CONFIDENCE) / len(parts)
    smallest = max(
        scores_of(part.target, part.group_codes).smallest_bound(alpha, len(names)) for part in parts
    )
    asked = MARGIN if max_advantage is None else check_share("max_advantage", max_advantage)
    return max(asked, smallest)


def advantage_bound(
    path: RankPath, point: PathPoint, attackers: str | Sequence[str] = "quick"
) -> float:
    """Compute an upper bound on the strongest attacker's advantage, on all validation rows."""
    how = {"random_state": path.random_state, **_effort(attackers)}
    rows = path.data.validation
    return _bound(_of_each(rows, lambda part: attack_eraser(point.eraser, part, **how)))


def cross_fitted_bound(
    path: RankPath, point: PathPoint, attackers: str | Sequence[str] = "quick"
) -> float:
    """Bound the advantage on train and validation rows, each judged after a fit on others.

    Folds judge the method, and one fit of it may be worse than others. So the bound is no less than
    what the validation rows show, with the same confidence, of the eraser of the path itself.
    """
    rows = path.unseen.train
    how = {"random_state": path.random_state, **_effort(attackers)}

    def fitted(whole: Split, fit: NDArray[np.int64]) -> Any:
        return path.fold(whole, fit).at(point.rank).eraser

    folds = _of_each(rows, lambda part: attack_folds(fitted, part, **how))
    judged = path.data.validation
    try:
        direct = _of_each(judged, lambda part: attack_eraser(point.eraser, part, **how))
    except ValueError:  # too few validation rows to learn from
        direct = []
    return max([_bound(folds), *(one.bounds((1 - _CONFIDENCE) / len(direct))[0] for one in direct)])


def _bisect(
    points: Sequence[PathPoint],
    measure: Callable[[PathPoint], float],
    allowed: Callable[[float], bool],
) -> tuple[int | None, dict[int, float]]:
    """Bisect to the rank of the first allowed point; return it, and all measured values."""
    values: dict[int, float] = {}
    low, high = 0, len(points)
    while low < high:
        middle = (low + high) // 2
        rank = points[middle].rank
        with phase("Choosing", note=f"rank {rank}"):
            values[rank] = measure(points[middle])
        if allowed(values[rank]):
            high = middle
        else:
            low = middle + 1
    return (points[low].rank if low < len(points) else None), values
