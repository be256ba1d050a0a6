"""Rules that choose a rank from a path, on validation rows.

What is chosen here is to be reported on rows that had no part in the choice: the test split.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from inspect import signature
from math import ceil
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from unspot.data.dataset import Dataset, Split, stratified_parts
from unspot.data.labels import Labels
from unspot.data.sampling import generator

if TYPE_CHECKING:
    from unspot.ranks.path import PathPoint, RankPath

__all__ = [
    "RULES",
    "Selection",
    "check_share",
    "fit_auto",
    "knee",
    "largest",
    "mdl",
    "select",
    "utility",
]

#: The fewest rows of a class that can say whether an attacker does better than chance.
MIN_ASIDE = 10


@dataclass(frozen=True)
class Selection:
    """Which rank a rule chose, and what it saw.

    Parameters
    ----------
    rule : str
    rank : int
    criterion : str
        What was measured.
    tried : mapping of int to float
        The value of the criterion at every rank that was looked at.
    error : float, optional
        Its standard error, by the number of rows that it was measured on.
    """

    rule: str
    rank: int
    criterion: str
    tried: Mapping[int, float]
    error: float | None = None

    def describe(self) -> dict[str, Any]:
        """Plain values, for metadata and files."""
        tried = {str(rank): float(value) for rank, value in self.tried.items()}
        known = {"rule": self.rule, "rank": self.rank, "criterion": self.criterion, "tried": tried}
        return known if self.error is None else {**known, "error": self.error}

    def __str__(self) -> str:
        error = "" if self.error is None else f" ± {self.error:.3f}"
        return (
            f"rank {self.rank} by {self.rule!r}: {self.criterion} {self.tried[self.rank]:.3f}"
            f"{error} ({len(self.tried)} ranks were looked at)"
        )


def select(path: RankPath, rule: str = "largest", **options: Any) -> Any:
    """Choose by a rule's name; see ``RankPath.select``."""
    if rule not in RULES:
        near = get_close_matches(str(rule), RULES, n=1)
        hint = f" Did you mean {near[0]!r}?" if near else ""
        raise ValueError(f"Got rule {rule!r}, but expected one of {', '.join(RULES)}.{hint}")
    function = RULES[rule]
    known = list(signature(function).parameters)[1:]
    for name in options:
        if name not in known:
            raise ValueError(
                f"Got option {name!r} for the rule {rule!r}, but it has {', '.join(known)}."
            )
    chosen: Selection = function(path, **options)
    estimator = path[chosen.rank].estimator
    estimator.selection_ = chosen
    return estimator


def largest(
    path: RankPath,
    *,
    max_advantage: float = 0.02,
    attackers: str | Sequence[str] = "quick",
    tolerance: float = 0.0,
) -> Selection:
    """The largest rank at which no attacker has more than ``max_advantage`` over guessing.

    Attackers learn on the training rows and are judged on the validation rows. They are the
    costly part, so ranks are bisected: the advantage is taken to grow with the rank.

    Parameters
    ----------
    max_advantage : float
        What the strongest attacker may have above guessing in accuracy, every class counted alike.
    attackers : {"quick", "standard", "thorough"} or sequence of str
        A budget, or names of attackers.
    tolerance : float
        Standard errors that are granted on top. The strongest of several attackers is the luckiest
        too: on few rows it seems better than it is by about one.
    """
    check_share(max_advantage, f"max_advantage={max_advantage!r}")
    error = _standard_error(path.validation.z)
    bound = max_advantage + tolerance * error
    tried: dict[int, float] = {}

    def allowed(point: PathPoint) -> bool:
        tried[point.rank] = strongest_advantage(path, point, attackers)
        return tried[point.rank] <= bound

    found = _first(path.points, allowed)
    if found is None:
        best = min(tried, key=lambda rank: tried[rank])
        raise ValueError(
            f"Got max_advantage={max_advantage}, but at no rank is the strongest attacker that "
            f"weak: the least advantage seen is {tried[best]:.3f}, at rank {best}. Allow a "
            "larger max_advantage, use Cascade, or add lower ranks to rank_path."
        )
    return Selection("largest", found.rank, "advantage of the strongest attacker", tried, error)


def mdl(path: RankPath, *, threshold: float = 0.95) -> Selection:
    """The largest rank at which the labels' code is hardly shorter than without embeddings.

    Parameters
    ----------
    threshold : float
        The least length of the online code of the validation labels, as a share of what they cost
        when nothing but the class shares is known.
    """
    if not 0 < threshold < 2:
        raise ValueError(
            f"Got threshold={threshold!r}, but expected a share of the prior code such as 0.95."
        )
    tried: dict[int, float] = {}

    def allowed(point: PathPoint) -> bool:
        tried[point.rank] = _code_share(path, point)
        return tried[point.rank] >= threshold

    found = _first(path.points, allowed)
    if found is None:
        best = max(tried, key=lambda rank: tried[rank])
        raise ValueError(
            f"Got threshold={threshold}, but at none of the ranks does the concept cost that much: "
            f"the most seen is {tried[best]:.3f} of the prior code, at rank {best}. Add lower "
            "ranks, or lower the threshold."
        )
    return Selection("mdl", found.rank, "code length over prior code", tried)


def knee(path: RankPath, *, erasure: str = "mdl", utility: str = "neighbours") -> Selection:
    """Where the curve of erasure against utility bends most.

    Both are scaled to run from 0 at the worst to 1 at the best of the path, so that of accuracies
    of the concept less is more; the point farthest above the line between the ends is the knee.

    Parameters
    ----------
    erasure, utility : str
        Metrics of ``evaluate``, or "held_out" for the path's own MMD².
    """
    if len(path) < 3:
        raise ValueError(f"Got a path of {len(path)} ranks, but a knee needs at least three.")
    _check_names(path, erasure, utility)
    scaled = [_scaled(_more_is_better(path, name)) for name in (erasure, utility)]
    bend = scaled[0] + scaled[1] - 1.0
    found = path.points[int(np.argmax(bend))]
    tried = {point.rank: float(value) for point, value in zip(path, bend, strict=True)}
    return Selection("knee", found.rank, f"bend of {erasure} against {utility}", tried)


def utility(
    path: RankPath, *, floor: float | None = None, utility: str = "neighbours"
) -> Selection:
    """The smallest rank, so the strongest erasure, that still has enough utility.

    Parameters
    ----------
    floor : float
        The least utility.
    utility : str
        A metric of ``evaluate`` of which more is better: "neighbours" (A_50%), "task_linear",
        "words", "variance".
    """
    if floor is None:
        raise ValueError("Got no floor, but expected the least utility, such as floor=0.8.")
    tried: dict[int, float] = {}

    def enough(point: PathPoint) -> bool:
        tried[point.rank] = _value(path, point, utility)
        return tried[point.rank] >= floor

    found = _first(path.points[::-1], enough)
    if found is None:
        best = max(tried, key=lambda rank: tried[rank])
        raise ValueError(
            f"Got floor={floor}, but no rank has that much {utility}: the most seen is "
            f"{tried[best]:.3f}, at rank {best}. Add higher ranks, or lower the floor."
        )
    return Selection("utility", found.rank, utility, tried)


RULES: dict[str, Callable[..., Selection]] = {
    "largest": largest,
    "mdl": mdl,
    "knee": knee,
    "utility": utility,
}


def strongest_advantage(
    path: RankPath, point: PathPoint, attackers: str | Sequence[str] = "quick"
) -> float:
    """Advantage over guessing, on validation rows, of the strongest attacker."""
    from unspot.evaluation.attackers import attack

    how = {"budget": attackers} if isinstance(attackers, str) else {"attackers": attackers}
    results = attack(
        point.eraser(path.train.X),
        path.train.z,
        point.eraser(path.validation.X),
        path.validation.z,
        random_state=path.random_state,
        **how,
    )
    return max(result.advantage for result in results)


def _standard_error(z: NDArray[Any]) -> float:
    """Of the balanced accuracy of a guess on these rows."""
    from unspot.evaluation.inference import effective_rows

    counts = np.unique(z, return_counts=True)[1]
    guess = 1 / len(counts)
    return float(np.sqrt(guess * (1.0 - guess) / effective_rows(counts)))


def fit_auto(estimator: Any, X: Any, labels: Labels, max_advantage: float) -> Any:
    """An estimator of ``rank="auto"`` at the rank that its own training rows say is right.

    A fifth of the rows, stratified, is set aside; the rest fits a path of the default ranks, and
    the fifth chooses by ``largest`` with a tolerance of one standard error. Of many rows, a sample
    does: ``max_rows`` to fit and a quarter as many to choose, so that files of any size cost alike.

    Parameters
    ----------
    estimator : LEOPARD
        Unfitted; its ``max_rows`` and ``random_state`` decide the sample.
    X : array of shape (n, d), or ``Rows``
    labels : Labels
    max_advantage : float
    """
    from unspot.ranks.path import rank_path

    check_share(max_advantage, f"max_advantage={max_advantage!r}")
    share = min(1.0, 1.25 * estimator.max_rows / len(X))
    sizes = (0.8, 0.2) if share == 1.0 else (0.8 * share, 0.2 * share, 1.0 - share)
    parts = stratified_parts(labels.codes, sizes, generator(estimator.random_state))[:2]
    _refuse_small_classes(labels, parts)
    train, aside = (Split(_floats(X[rows]), labels.classes[labels.codes[rows]]) for rows in parts)
    path = rank_path(estimator, Dataset(train, aside, aside))
    return path.select("largest", max_advantage=max_advantage, tolerance=1.0)


def _refuse_small_classes(labels: Labels, parts: Sequence[NDArray[np.int64]]) -> None:
    counts = np.bincount(labels.codes[parts[1]], minlength=len(labels.classes))
    few = int(np.lexsort((labels.counts, counts))[0])
    if counts[few] < MIN_ASIDE:
        n_of_class = int(labels.counts[few])
        raise ValueError(
            f"Got rank='auto' and {n_of_class} rows of class {str(labels.classes[few])!r}, of "
            f"which {int(counts[few])} are set aside to choose the rank, but expected at least "
            f"{MIN_ASIDE}. Pass a number as the rank, or {_more_aside(n_of_class, len(labels))}."
        )


def _more_aside(n_of_class: int, n_rows: int) -> str:
    """What would set enough rows of a class aside."""
    if n_of_class - round(0.8 * n_of_class) < MIN_ASIDE:
        return "more rows of that class"
    # Of a sample, max_rows/(4n) of every class; one more than needed, since parts are rounded.
    enough = min(n_rows, ceil(4 * (MIN_ASIDE + 1) * n_rows / n_of_class))
    return f"a larger max_rows, which sets more of them aside: {enough} is enough"


def _floats(X: NDArray[Any]) -> NDArray[Any]:
    return X if X.dtype in (np.float32, np.float64) else X.astype(np.float32)


def _first(points: Sequence[PathPoint], holds: Callable[[PathPoint], bool]) -> PathPoint | None:
    """The first point for which something holds, if it then holds for all after it."""
    low, high = 0, len(points)
    while low < high:
        middle = (low + high) // 2
        if holds(points[middle]):
            high = middle
        else:
            low = middle + 1
    return points[low] if low < len(points) else None


def _value(path: RankPath, point: PathPoint, name: str) -> float:
    """A metric at a rank: measured now if the path does not have it."""
    from unspot.evaluation.run import on_validation, over_seeds

    if name == "held_out":
        return -point.held_out  # less is better, and more is better here
    if name not in point.metrics:
        data = on_validation(path.train, path.validation, path.lexicon)
        found = over_seeds(point.eraser, data, [name], seeds=1, random_state=path.random_state)
        if name not in found:
            raise ValueError(f"Got metric {name!r}, which is undefined at rank {point.rank}.")
        return found[name][0]
    return point.metrics[name][0]


def _check_names(path: RankPath, *names: str) -> None:
    from unspot.evaluation.run import check_metrics, on_validation

    known = {"held_out", *path.points[0].metrics}
    data = on_validation(path.train, path.validation, path.lexicon)
    check_metrics([name for name in names if name not in known], data)


def _column(path: RankPath, name: str) -> NDArray[np.float64]:
    return np.array([_value(path, point, name) for point in path])


def _more_is_better(path: RankPath, name: str) -> NDArray[np.float64]:
    from unspot.evaluation.metrics import LESS_IS_BETTER

    return _column(path, name) * (-1.0 if name in LESS_IS_BETTER else 1.0)


def _scaled(column: NDArray[np.float64]) -> NDArray[np.float64]:
    span = float(np.ptp(column))
    return (column - column.min()) / span if span > 0 else np.zeros_like(column)


def _code_share(path: RankPath, point: PathPoint) -> float:
    from unspot.evaluation.description_length import mdl as description_length

    found = description_length(
        point.eraser(path.validation.X),
        path.validation.z,
        control=False,
        random_state=path.random_state,
    )
    return found.bits / found.prior_bits


def check_share(value: Any, said: str) -> None:
    """An advantage that may be allowed, given in the words of ``said``."""
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 <= value < 1:
        raise ValueError(
            f"Got {said}, but expected a share from 0 to 1, such as 0.02 for two points."
        )
