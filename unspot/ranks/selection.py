"""Rules that choose a rank from a path, on validation rows.

Report the chosen eraser on rows that had no part in the choice: the test split.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from copy import copy
from dataclasses import dataclass
from inspect import signature
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from unspot.checks import check_choice, check_share, did_you_mean
from unspot.evaluation.attackers import attack
from unspot.evaluation.description_length import mdl as description_length
from unspot.evaluation.inference import effective_rows
from unspot.evaluation.metrics import LESS_IS_BETTER
from unspot.evaluation.run import check_metrics, over_seeds

if TYPE_CHECKING:
    from unspot.ranks.path import PathPoint, RankPath

__all__ = ["RULES", "Selection", "knee", "largest", "mdl", "select", "utility"]


@dataclass(frozen=True)
class Selection:
    """The rank that a rule chose, and the values that it saw.

    Parameters
    ----------
    rule : str
    rank : int
    criterion : str
        What was measured.
    tried : mapping of int to float
        The value of the criterion at every rank that was measured.
    error : float, optional
        The standard error of the criterion, from the number of rows that it was measured on.
    """

    rule: str
    rank: int
    criterion: str
    tried: Mapping[int, float]
    error: float | None = None

    def describe(self) -> dict[str, Any]:
        """Plain values, for metadata and files."""
        tried = {str(rank): float(value) for rank, value in self.tried.items()}
        facts = {"rule": self.rule, "rank": self.rank, "criterion": self.criterion, "tried": tried}
        return facts if self.error is None else {**facts, "error": self.error}

    def __str__(self) -> str:
        error = "" if self.error is None else f" ± {self.error:.3f}"
        return (
            f"rank {self.rank} by {self.rule!r}: {self.criterion} {self.tried[self.rank]:.3f}"
            f"{error} ({len(self.tried)} ranks were looked at)"
        )


def select(path: RankPath, rule: str = "largest", **options: Any) -> Any:
    """Choose by the name of a rule; see ``RankPath.select``."""
    function = RULES[check_choice("rule", rule, RULES)]
    allowed = list(signature(function).parameters)[1:]
    for name in options:
        if name not in allowed:
            raise ValueError(
                f"Got option {name!r} for the rule {rule!r}, but expected some of "
                f"{', '.join(allowed)}.{did_you_mean(name, allowed)}"
            )
    selection: Selection = function(path, **options)
    # A copy, since another rule may choose the same rank.
    estimator = copy(path[selection.rank].estimator)
    estimator.selection_ = selection
    return estimator


def largest(
    path: RankPath,
    *,
    max_advantage: float = 0.02,
    attackers: str | Sequence[str] = "quick",
    tolerance: float = 0.0,
) -> Selection:
    """The largest rank at which no attacker has more than ``max_advantage`` over guessing.

    Attackers learn on the training rows and are judged on the validation rows. They are slow, so
    ranks are bisected, which assumes that the advantage grows with the rank.

    Parameters
    ----------
    max_advantage : float
        The largest advantage of the strongest attacker over guessing, in balanced accuracy.
    attackers : {"quick", "standard", "thorough"} or sequence of str
        A budget, or names of attackers.
    tolerance : float
        The number of standard errors to allow on top. The strongest of several attackers is also
        the luckiest: on few rows it seems better than it is by about one standard error.
    """
    check_share("max_advantage", max_advantage)
    error = _standard_error(path.validation.z)
    bound = max_advantage + tolerance * error
    rank, advantages = _bisect(
        path.points,
        lambda point: strongest_advantage(path, point, attackers),
        lambda advantage: advantage <= bound,
    )
    if rank is None:
        best = min(advantages, key=lambda rank: advantages[rank])
        raise ValueError(
            f"Got max_advantage={max_advantage}, but the strongest attacker has more at every "
            f"rank: the least advantage seen is {advantages[best]:.3f}, at rank {best}. Allow a "
            "larger max_advantage, use Cascade, or add lower ranks to rank_path."
        )
    return Selection("largest", rank, "advantage of the strongest attacker", advantages, error)


def mdl(path: RankPath, *, threshold: float = 0.95) -> Selection:
    """The largest rank at which the code of the labels is hardly shorter than without embeddings.

    Parameters
    ----------
    threshold : float
        The least length of the online code of the validation labels, as a share of the code that
        only knows the shares of the classes.
    """
    if not 0 < threshold < 2:
        raise ValueError(
            f"Got threshold={threshold!r}, but expected a share of the prior code such as 0.95."
        )
    rank, shares = _bisect(
        path.points, lambda point: _code_share(path, point), lambda share: share >= threshold
    )
    if rank is None:
        best = max(shares, key=lambda rank: shares[rank])
        raise ValueError(
            f"Got threshold={threshold}, but the code of the concept is shorter at every rank: "
            f"the most seen is {shares[best]:.3f} of the prior code, at rank {best}. Add lower "
            "ranks, or lower the threshold."
        )
    return Selection("mdl", rank, "code length over prior code", shares)


def knee(path: RankPath, *, erasure: str = "mdl", utility: str = "neighbours") -> Selection:
    """The rank at which the curve of erasure against utility bends most.

    Both are scaled from 0 at the worst rank of the path to 1 at the best one, in the direction in
    which they are better. The point farthest above the line between the ends is the knee.

    Parameters
    ----------
    erasure, utility : str
        Metrics of ``evaluate``, or "held_out" for the MMD² of the path.
    """
    if len(path) < 3:
        raise ValueError(f"Got a path of {len(path)} ranks, but a knee needs at least three.")
    to_measure = {erasure, utility} - {"held_out", *path.points[0].metrics}
    check_metrics(sorted(to_measure), path.judged)
    bend = _scaled(path, erasure) + _scaled(path, utility) - 1.0
    bends = {rank: float(value) for rank, value in zip(path.ranks, bend, strict=True)}
    rank = path.ranks[int(np.argmax(bend))]
    return Selection("knee", rank, f"bend of {erasure} against {utility}", bends)


def utility(
    path: RankPath, *, floor: float | None = None, utility: str = "neighbours"
) -> Selection:
    """The smallest rank, so the strongest erasure, that still has enough utility.

    Parameters
    ----------
    floor : float
        The least utility.
    utility : str
        A metric of ``evaluate`` for which more is better: "neighbours" (A_50%), "task_linear",
        "words", "variance".
    """
    if floor is None:
        raise ValueError("Got no floor, but expected the least utility, such as floor=0.8.")
    if utility in LESS_IS_BETTER:
        raise ValueError(
            f"Got utility={utility!r}, for which less is better, but expected a metric for which "
            "more is better, such as 'neighbours', 'task_linear', 'words' or 'variance'."
        )
    rank, utilities = _bisect(
        path.points[::-1],
        lambda point: _value(path, point, utility),
        lambda value: value >= floor,
    )
    if rank is None:
        best = max(utilities, key=lambda rank: utilities[rank])
        raise ValueError(
            f"Got floor={floor}, but no rank has that much {utility}: the most seen is "
            f"{utilities[best]:.3f}, at rank {best}. Add higher ranks, or lower the floor."
        )
    return Selection("utility", rank, utility, utilities)


RULES: dict[str, Callable[..., Selection]] = {
    "largest": largest,
    "mdl": mdl,
    "knee": knee,
    "utility": utility,
}


def strongest_advantage(
    path: RankPath, point: PathPoint, attackers: str | Sequence[str] = "quick"
) -> float:
    """The advantage of the strongest attacker over guessing, on validation rows."""
    how = {"budget": attackers} if isinstance(attackers, str) else {"attackers": attackers}
    results = attack(
        point.eraser(path.train.X),
        path.train.z,
        point.eraser(path.validation.X),
        path.validation.z,
        random_state=path.random_state,
        groups=path.train.groups,
        **how,
    )
    return max(result.advantage for result in results)


def _standard_error(z: NDArray[Any]) -> float:
    """The standard error of the balanced accuracy of a guess on these rows."""
    counts = np.unique(z, return_counts=True)[1]
    guess = 1 / len(counts)
    return float(np.sqrt(guess * (1.0 - guess) / effective_rows(counts)))


def _bisect(
    points: Sequence[PathPoint],
    measure: Callable[[PathPoint], float],
    allowed: Callable[[float], bool],
) -> tuple[int | None, dict[int, float]]:
    """The rank of the first allowed point, if all after it are allowed too, and all values."""
    values: dict[int, float] = {}
    low, high = 0, len(points)
    while low < high:
        middle = (low + high) // 2
        rank = points[middle].rank
        values[rank] = measure(points[middle])
        if allowed(values[rank]):
            high = middle
        else:
            low = middle + 1
    return (points[low].rank if low < len(points) else None), values


def _value(path: RankPath, point: PathPoint, name: str) -> float:
    """A metric at a rank, measured now if the path does not have it."""
    if name == "held_out":
        return -point.held_out  # more is better
    metrics = point.metrics
    if name not in metrics:
        seed = path.random_state
        metrics = over_seeds(point.eraser, path.judged, [name], seeds=1, random_state=seed)
        if name not in metrics:
            raise ValueError(f"Got metric {name!r}, which is undefined at rank {point.rank}.")
    return metrics[name][0]


def _scaled(path: RankPath, name: str) -> NDArray[np.float64]:
    """A metric at every rank, from 0 at the worst to 1 at the best."""
    values = np.array([_value(path, point, name) for point in path])
    if name in LESS_IS_BETTER:
        values = -values
    span = float(np.ptp(values))
    return (values - values.min()) / span if span > 0 else np.zeros_like(values)


def _code_share(path: RankPath, point: PathPoint) -> float:
    code = description_length(
        point.eraser(path.validation.X),
        path.validation.z,
        control=False,
        random_state=path.random_state,
    )
    return code.bits / code.prior_bits
