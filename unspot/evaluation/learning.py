"""Learning curves: what more rows would buy the strongest attacker, or the eraser."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import NDArray

from unspot.checks import check_count, require
from unspot.data.dataset import Dataset, refuse_other_than_classes, stratified_parts
from unspot.data.labels import Labels, encode
from unspot.data.rows import as_seed
from unspot.evaluation.attacked import Attacked
from unspot.evaluation.attackers import MIN_OF_A_CLASS, AttackResult, attack_codes, rows_needed
from unspot.evaluation.certificate import AttackCurve, wide
from unspot.evaluation.inference import paired_covariance
from unspot.evaluation.results import eraser_name
from unspot.evaluation.unseen import attack_eraser, checked_labels
from unspot.io.progress import steps
from unspot.machine import same_bits
from unspot.tables import markdown

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["CurvePoint", "LearningCurve", "attack_curve", "learning_curve"]

Array = NDArray[Any]
Groups = NDArray[np.int64] | None

#: Draws of what other rows would have shown.
_DRAWS = 2_000
_CONFIDENCE = (0.025, 0.975)


# -- the attacker's --------------------------------------------------------------------------------

#: How many times the rows of a certificate its learning curve is carried on to.
_TIMES = 10.0
#: Powers of n by which learning slows down: three sizes cannot tell one from another. The middle
#: one gives the value, all of them the interval; the last is an attacker that has learned all.
_POWERS = (0.25, 0.5, 1.0, np.inf)


def attack_curve(attacked: Attacked, *, budget: str, seed: int) -> AttackCurve | None:
    """The strongest attacker fitted on two thirds of its rows, and on two parts of a third.

    None if a third of the rows is too few to learn from, or if there are no such rows; and of a
    number, or given a task. The cost is that of 4/3 more fits of the strongest attacker.
    """
    if attacked.learned is None or attacked.known or not isinstance(attacked.labels, Labels):
        return None
    X, labels, groups = attacked.learned
    strongest = attacked.strongest
    whole = strongest.n_rows
    thirds = _parts(labels, whole / 3 / len(labels), 3, seed, groups)
    if not all(_can_learn(labels, third) for third in thirds):
        return None
    fits = [strongest]
    for i, rows in enumerate((np.concatenate(thirds[:2]), *thirds[1:])):
        fits += attack_codes(
            X[rows],
            Labels(labels.codes[rows], labels.classes),
            attacked.sample.X,
            attacked.labels.codes,
            budget=budget,
            attackers=[strongest.name],
            random_state=seed + i,
            groups=None if groups is None else groups[rows],
        )
    fits.reverse()
    sizes = [whole // 3, whole // 3, 2 * whole // 3, whole]
    measured = np.array([fit.advantage for fit in fits])
    fair = measured - np.append(np.zeros(3), _luck_of_the_choice(attacked, seed))
    relative = np.array(sizes) / whole
    draws = _draws(fits, fair, attacked, sizes, seed)
    ceiling = 1 - 1 / len(labels.classes)
    expected = _risen(fair[None], relative, 0.5).clip(0, ceiling)
    possible = np.concatenate([_risen(draws, relative, c) for c in _POWERS]).clip(0, ceiling)
    low, high = np.quantile(possible, _CONFIDENCE).tolist()
    return AttackCurve(
        attacker=strongest.name,
        n_rows=tuple(sizes),
        advantages=tuple(measured.tolist()),
        factor=_TIMES,
        advantage=float(expected[0]),
        interval=(low, high),
    )


def _luck_of_the_choice(attacked: Attacked, seed: int) -> float:
    """By how much the strongest of all attackers looks too strong, since it was chosen for it.

    Smaller fits are of one attacker and have no such luck: without this, attackers that know
    nothing would seem to learn.
    """
    values = np.array([result.advantage for result in attacked.results])
    drawn = _normal(values, _joint(attacked.results, attacked), seed)
    return float(drawn.max(axis=1).mean() - values.max())


def _risen(values: Array, sizes: Array, power: float) -> Array:
    """a − b·n^(−power) by least squares with b ≥ 0, at ``_TIMES`` the rows; of each row of values.

    Sizes are relative to all rows.
    """
    if np.isinf(power):
        whole: Array = values[:, -1]
        return whole
    slowing = sizes**-power
    centred = slowing - slowing.mean()
    slope = np.minimum((values @ centred) / (centred @ centred), 0.0)
    risen: Array = values.mean(axis=1) + slope * (_TIMES**-power - slowing.mean())
    return risen


# -- the eraser's ----------------------------------------------------------------------------------

#: Exponents of the leak against rows of the fit. An estimate of d numbers from n rows has a square
#: error of d/n, so that nothing falls faster than by the first power for long.
_EXPONENTS = np.linspace(0.0, 1.5, 151)
_TWICE = 2.0
#: More rows hardly help if at least this share of the leak stays.
_MOST = 0.8


@dataclass(frozen=True)
class CurvePoint:
    """One fit of the eraser: on how many rows, and what the strongest attacker gained from it."""

    n_rows: int
    repeat: int
    attacker: str
    advantage: float


@dataclass(frozen=True)
class LearningCurve:
    """The leak on unseen rows against the rows that an eraser was fitted on.

    Attributes
    ----------
    points : tuple of CurvePoint
        From few rows to all.
    exponent : float
        The advantage falls about as n^(−exponent) ...
    exponent_interval : pair of float
        ... or by some exponent between these, with 95 % confidence.
    fitted : float
        The advantage with all rows, by the fitted law.
    factor : float
        How many times the rows ...
    advantage, interval : float and pair of float
        ... would leave about this advantage, and at least and at most that.
    n_attack_rows, n_test_rows : int
        Rows that attackers learned from, and were judged on: the same for every fit.
    """

    method: str
    points: tuple[CurvePoint, ...]
    exponent: float
    exponent_interval: tuple[float, float]
    fitted: float
    factor: float
    advantage: float
    interval: tuple[float, float]
    chance: float
    n_attack_rows: int
    n_test_rows: int
    budget: str

    @property
    def n_rows(self) -> int:
        """All rows of the fit."""
        return max(point.n_rows for point in self.points)

    @property
    def outcome(self) -> Literal["helps", "hardly helps", "cannot tell"]:
        """Whether more labelled rows would help."""
        low, high = self.interval
        if self.exponent_interval[0] > 0 and high < self.fitted and not wide(self.interval):
            return "helps"
        return "hardly helps" if low >= _MOST * self.fitted else "cannot tell"

    @property
    def sentence(self) -> str:
        """What more labelled rows would buy."""
        low, high = (f"{100 * end:.1f}" for end in self.interval)
        times = "twice" if self.factor == _TWICE else f"{self.factor:g} times"
        if self.outcome == "hardly helps":
            return (
                f"More labelled rows would hardly help: with {times} as many as {self.n_rows:,}, "
                f"the advantage of {100 * self.fitted:.1f} points becomes {low} to {high}. Lower "
                "the rank, or take another method."
            )
        if self.outcome == "cannot tell":
            return (
                f"Whether more labelled rows would help cannot be told from these: with {times} as "
                f"many as {self.n_rows:,}, the advantage of {100 * self.fitted:.1f} points may "
                f"become anything from {low} to {high}."
            )
        steepest, flattest = (f"{end:.2f}" for end in reversed(self.exponent_interval))
        return (
            f"{times.capitalize()} as many labelled rows would take the advantage from "
            f"{100 * self.fitted:.1f} to about {100 * self.advantage:.1f} points ({low} to {high} "
            f"with 95 % confidence): it falls as n^−{self.exponent:.2f} ({flattest} to "
            f"{steepest})."
        )

    def to_frame(self) -> pd.DataFrame:
        """The points as a data frame, one row per fit."""
        require("to_frame", "report", "pandas")
        import pandas as pd

        return pd.DataFrame([asdict(point) for point in self.points])

    def to_json(self) -> str:
        """Everything as JSON, with the sentence."""
        content = {"format": "unspot-learning-curve/1", **asdict(self), "sentence": self.sentence}
        return json.dumps(content, indent=1)

    def __str__(self) -> str:
        """A line for each fit, and what more rows would buy."""
        rows = [["rows of the fit", "strongest attacker", "advantage, points"]]
        for point in self.points:
            rows.append([f"{point.n_rows:,}", point.attacker, f"{100 * point.advantage:+.1f}"])
        return f"{markdown(rows)}\n\n{self.sentence}"


@same_bits()
def learning_curve(
    eraser: Any,
    data: Dataset,
    *,
    shares: Sequence[float] = (1 / 8, 1 / 4, 1 / 2, 1),
    repeats: int = 2,
    attackers: Sequence[str] | None = None,
    budget: str = "quick",
    random_state: Any = 0,
    verbose: bool = False,
) -> LearningCurve:
    """Fit an eraser on parts of its rows, and say what more labelled rows would buy.

    Parameters
    ----------
    eraser : estimator
        Fitted anew for every size, on rows of ``data.train``.
    data : Dataset
        Attackers learn from ``validation`` and are judged on ``test``, the same for every fit.
    shares : sequence of float
        Parts of the train rows, three at least. The last is all of them.
    repeats : int
        How often each part is drawn; all rows are fitted on once.
    attackers : sequence of str, optional
        Names from ``unspot.evaluation.ATTACKERS``; by default those of the budget.
    budget : "quick", "standard" or "thorough"
        How hard attackers try.
    random_state : int, Generator or None
        Decides parts, fits and attackers.
    verbose : bool
        Show progress.

    Notes
    -----
    With the defaults, the time of 2.75 fits on all rows, and of seven runs of the attackers.

    The law A·n^(−k) is fitted by least squares. Intervals are from draws of what other test rows
    would have shown (all fits are judged on the same rows, so that much of that luck cancels) and
    of the scatter between parts of one size; in a part of the draws only the larger sizes are
    fitted, since the fall may become faster or end. It has to end where the rank itself leaks: do
    not carry the curve on much further than twice the rows.

    Examples
    --------
    >>> from unspot import LEACE, Dataset, learning_curve
    >>> from unspot.datasets.synthetic import law
    >>> rows = law("mean", n=4000, d=20)
    >>> data = Dataset.from_arrays(rows.X, rows.z, random_state=0)
    >>> curve = learning_curve(LEACE(), data, repeats=1, attackers=["logistic"])
    >>> [point.n_rows for point in curve.points]
    [250, 500, 1000, 2000]
    """
    from sklearn.base import clone

    _check_estimator(eraser)
    check_count("repeats", repeats)
    refuse_other_than_classes(data.train, "a learning curve")
    seed = as_seed(random_state)
    labels = encode(data.train.z, n_rows=len(data.train))
    shares = _check_shares(shares, labels)
    judged = checked_labels(None, data, "unseen")
    fits: list[tuple[int, int, AttackResult]] = []
    plan = [(s, i) for s in shares for i in range(repeats if s < 1 else 1)]
    fitting = steps(plan, "Fitting", name=lambda s: f"{100 * s[0]:.3g} % of rows", verbose=verbose)
    for share, i in fitting:
        (rows,) = _parts(labels, share, 1, seed + i, data.train.group_codes)
        estimator = clone(eraser)
        # Those inside a cascade too.
        seeds = [name for name in estimator.get_params() if name.endswith("random_state")]
        estimator.set_params(**dict.fromkeys(seeds, seed + i))
        part = data.train.take(rows)
        estimator.fit(part.X, part.z)
        attacked = attack_eraser(
            estimator, data, budget=budget, attackers=attackers, random_state=seed, labels=judged
        )
        fits.append((round(share * len(labels)), i, attacked.strongest))
    return _curve(eraser, fits, attacked, budget, seed)


def _curve(
    eraser: Any, fits: list[tuple[int, int, AttackResult]], judged: Attacked, budget: str, seed: int
) -> LearningCurve:
    """The law of the fits, with what luck leaves open."""
    sizes, results = [n for n, _, _ in fits], [result for _, _, result in fits]
    chance = 1 / len(judged.labels.classes)
    values = np.array([[result.advantage for result in results]])
    relative = np.array(sizes) / max(sizes)
    (fitted,), (exponent,) = _fallen(values, relative)
    draws = _draws(results, values[0], judged, sizes, seed)
    laws = [_fallen(draws[:, part], relative[part]) for part in _late(relative)]
    levels, exponents = (np.concatenate(parts) for parts in zip(*laws, strict=True))
    luck = np.random.default_rng(seed).standard_t(3, size=len(levels))
    left = levels * _TWICE**-exponents + luck * _scatter(values[0], np.array(sizes)) ** 0.5
    low, high = np.quantile(left.clip(0), _CONFIDENCE).tolist()
    flattest, steepest = np.quantile(exponents, _CONFIDENCE).tolist()
    return LearningCurve(
        method=eraser_name(eraser),
        points=tuple(CurvePoint(n, i, result.name, result.advantage) for n, i, result in fits),
        exponent=float(exponent),
        exponent_interval=(flattest, steepest),
        fitted=float(fitted),
        factor=_TWICE,
        advantage=float(fitted * _TWICE**-exponent),
        interval=(low, high),
        chance=chance,
        n_attack_rows=results[0].n_rows,
        n_test_rows=len(judged.labels),
        budget=budget,
    )


def _late(sizes: Array) -> list[NDArray[np.bool_]]:
    """All sizes, and then without the smallest of them as long as two are left.

    A law of all sizes may be none of the last ones: transport falls faster once there are rows
    enough, and a fit that has found the best subspace falls no more.
    """
    distinct = np.unique(sizes)
    return [sizes >= smallest for smallest in distinct[:-1]]


def _fallen(values: Array, sizes: Array) -> tuple[Array, Array]:
    """A and k of A·n^(−k) by least squares, of each row of values; sizes are shares of all rows.

    Not of logarithms: an advantage at chance may be zero or below.
    """
    laws = sizes ** -_EXPONENTS[:, None]  # (exponents, fits)
    norms = (laws**2).sum(axis=1)
    levels = np.maximum(values @ laws.T / norms, 0.0)  # (draws, exponents)
    best = np.argmax(levels**2 * norms, axis=1)  # what the law explains of the sum of squares
    return levels[np.arange(len(values)), best], _EXPONENTS[best]


def _check_estimator(eraser: Any) -> None:
    if not (hasattr(eraser, "fit") and hasattr(eraser, "get_params")):
        raise ValueError(
            f"Got {type(eraser).__name__}, but expected an estimator, which is fitted again on "
            "parts of the rows. Pass the estimator, such as LEACE(), instead of a frozen eraser."
        )


def _check_shares(shares: Sequence[float], labels: Labels) -> list[float]:
    """Increasing shares that leave enough rows of every class."""
    ordered = sorted({float(share) for share in shares})
    if len(ordered) < 3 or ordered[0] <= 0 or ordered[-1] != 1:
        raise ValueError(
            f"Got shares {tuple(shares)}, but expected at least three above 0, the last of them 1, "
            "such as (0.25, 0.5, 1)."
        )
    fewest = int(labels.counts.min())
    enough = [share for share in ordered if share * fewest >= MIN_OF_A_CLASS]
    if len(enough) < 3:
        raise ValueError(
            f"Got {fewest} train rows of class {labels.classes[np.argmin(labels.counts)]!s}, but "
            f"expected at least {MIN_OF_A_CLASS} of every class in three parts of the rows. Give "
            "more rows, or larger shares."
        )
    return enough


# -- what both share -------------------------------------------------------------------------------


def _parts(
    labels: Labels, share: float, number: int, seed: int, groups: Groups
) -> list[NDArray[np.int64]]:
    """Disjoint parts of the rows, each with this share of every class."""
    rest = 1 - number * share
    sizes = (share,) * number + ((rest,) if rest > 1e-9 else ())
    rng = np.random.default_rng(seed)
    return stratified_parts(labels.codes, sizes, rng, groups)[:number]


def _can_learn(labels: Labels, rows: NDArray[np.int64]) -> bool:
    n_classes = len(labels.classes)
    fewest = np.bincount(labels.codes[rows], minlength=n_classes).min()
    return bool(fewest >= MIN_OF_A_CLASS and len(rows) >= rows_needed(n_classes))


def _joint(results: Sequence[AttackResult], judged: Attacked) -> Array:
    """How the advantages of fits vary together with the test rows."""
    guesses = [result.guesses for result in results]
    codes, n_classes = judged.labels.codes, len(judged.labels.classes)
    return paired_covariance(guesses, codes, judged.groups, n_classes)


def _draws(
    results: Sequence[AttackResult],
    values: Array,
    judged: Attacked,
    sizes: Sequence[int],
    seed: int,
) -> Array:
    """Advantages that other test rows and other rows to learn from might have shown, (draws, F)."""
    scatter = _scatter(np.array([result.advantage for result in results]), np.array(sizes))
    return _normal(values, _joint(results, judged) + scatter * np.eye(len(values)), seed)


def _normal(values: Array, covariance: Array, seed: int) -> Array:
    drawn: Array = np.random.default_rng(seed).multivariate_normal(values, covariance, size=_DRAWS)
    return drawn


def _scatter(values: Array, sizes: NDArray[np.int64]) -> float:
    """The variance between fits on different rows of one size, pooled over sizes."""
    repeated = [values[sizes == size] for size in np.unique(sizes) if (sizes == size).sum() > 1]
    if not repeated:
        return 0.0
    freedom = sum(len(group) - 1 for group in repeated)
    return float(sum(((group - group.mean()) ** 2).sum() for group in repeated) / freedom)
