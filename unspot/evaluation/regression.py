"""Attackers of a number: how much of its variance could a determined adversary still explain?

The family of ``attackers``, as regressors: the same views, models and effort, which predict the
mean of the number where they else give probabilities. What is recovered is R², the share of the
variance that predictions of rows explain which nobody learned from; zero or less is nothing.
"""

from __future__ import annotations

import time
import zlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from unspot.checks import check_choice, did_you_mean
from unspot.data.dataset import number_bins, stratified_parts
from unspot.data.groups import group_codes, row_shuffler
from unspot.data.labels import Measurements, measure
from unspot.data.rows import generator
from unspot.evaluation.attack_models import VALIDATION_SHARE, Effort, NumberRows
from unspot.evaluation.attackers import ATTACKERS, BUDGETS, FAMILY
from unspot.evaluation.inference import BLOCK_VALUES, TIE, standardised, stratum_means
from unspot.evaluation.probes import rows_of_both
from unspot.io.progress import steps
from unspot.machine import one_thread

__all__ = [
    "MIN_NUMBER_ROWS",
    "REGRESSORS",
    "RegressionResult",
    "correlation_p_values",
    "detectable_share",
    "explained",
    "explained_interval",
    "regress",
    "regress_values",
    "smallest_share",
]

Array = NDArray[Any]

#: Regressors that have another name than the classifier of the same view and features.
_NAMES = {"logistic": "ridge", "whitened-logistic": "whitened-ridge"}

#: The names of all regressors, and whose model each is.
_CLASSIFIERS = {_NAMES.get(name, name): name for name in ATTACKERS}
REGRESSORS: tuple[str, ...] = tuple(_CLASSIFIERS)

#: The fewest rows that regressors learn from.
MIN_NUMBER_ROWS = 40

#: Bins of the number, for searches that compare parts of the rows.
_BINS = 8


@dataclass(frozen=True, eq=False)
class RegressionResult:
    """How one regressor did on the test rows.

    Attributes
    ----------
    name : str
        One of ``REGRESSORS``.
    r2 : float
        The share of the number's variance that its predictions explain: 1 less the squared error
        over that of the mean. Zero or less is nothing.
    correlation : float
        Between predictions and values. Its square is what predictions in a better unit would
        explain.
    n_rows : int
        Rows it was fitted on.
    seconds : float
        For fitting and predicting.
    predictions : array of shape (n_test, m)
        Row by row; not in ``to_dict``.
    """

    name: str
    r2: float
    correlation: float
    n_rows: int
    seconds: float
    predictions: Array

    @classmethod
    def of(
        cls, name: str, predictions: Array, values: Array, *, n_rows: int, seconds: float
    ) -> RegressionResult:
        """The scores of predictions, given the values of the test rows."""
        r2, correlation = explained(predictions, values)
        return cls(name, r2, correlation, n_rows, seconds, predictions)

    @property
    def advantage(self) -> float:
        """R²: who only guesses the mean has none."""
        return self.r2

    score = advantage

    def to_dict(self) -> dict[str, Any]:
        """Plain numbers, for JSON."""
        return {name: value for name, value in vars(self).items() if name != "predictions"}


def regress(
    X_train: Any,
    z_train: Any,
    X_test: Any,
    z_test: Any,
    *,
    budget: str = "standard",
    attackers: Sequence[str] | None = None,
    random_state: Any = 0,
    verbose: bool = False,
    groups: Any = None,
) -> tuple[RegressionResult, ...]:
    """Let a family of regressors recover a number, as well as each can.

    Parameters
    ----------
    X_train, z_train : array-like of shape (n, d) and (n,) or (n, m)
        Rows that the attackers learn from, and a number for each, or a vector of numbers.
    X_test, z_test : array-like
        Rows that they are judged on, which must not be among the training rows.
    budget : "quick", "standard" or "thorough"
        Which attackers, how hard they try and on how many rows; see ``unspot.evaluation.attack``.
    attackers : sequence of str, optional
        Names from ``REGRESSORS`` instead of the budget's.
    random_state, verbose, groups
        As in ``unspot.evaluation.attack``.

    Returns
    -------
    tuple of RegressionResult
        One for each attacker, in their order.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(2000, 3))
    >>> z = X[:, 0] ** 2 + rng.normal(size=2000)  # two thirds of its variance are known
    >>> parts = X[:1000], z[:1000], X[1000:], z[1000:]
    >>> line, curve = regress(*parts, attackers=["ridge", "quadratic"])
    >>> round(line.r2, 1), round(curve.r2, 1)
    (0.0, 0.6)
    """
    X, X_test = rows_of_both(X_train, X_test, dtype=np.float64)
    learned = measure(z_train, n_rows=len(X), name="z_train")
    sought = measure(z_test, n_rows=len(X_test), name="z_test")
    return regress_values(
        X,
        learned,
        X_test,
        sought,
        budget=budget,
        attackers=attackers,
        random_state=random_state,
        verbose=verbose,
        groups=None if groups is None else group_codes(groups, len(X)),
    )


@one_thread()
def regress_values(
    X: Array,
    learned: Measurements,
    X_test: Array,
    sought: Measurements,
    *,
    budget: str = "standard",
    attackers: Sequence[str] | None = None,
    random_state: Any = 0,
    verbose: bool = False,
    groups: NDArray[np.int64] | None = None,
) -> tuple[RegressionResult, ...]:
    """``regress`` on rows and numbers that are checked."""
    names = regressor_names(budget, attackers)
    if len(learned) < MIN_NUMBER_ROWS:
        raise ValueError(
            f"Got {len(learned)} rows to train attackers on, but they need at least "
            f"{MIN_NUMBER_ROWS}. Give more rows."
        )
    seed = int(generator(random_state).integers(2**31))
    limits = BUDGETS[budget]
    # In units of the deviation, so that no penalty depends on those of the number.
    known, values = learned.coordinates, sought.coordinates
    centre, unit = known.mean(axis=0), known.std(axis=0)
    unit = np.where(unit > 0, unit, 1.0)
    rows = _sample(X, (known - centre) / unit, limits.max_rows, seed, groups)
    test = X_test.astype(np.float64, copy=False)
    results = []
    for name in steps(names, "Attacking", verbose=verbose):
        started = time.perf_counter()
        predictions = _learned(name, rows, limits.effort, seed)(test) * unit + centre
        seconds = time.perf_counter() - started
        facts: Any = {"n_rows": len(rows), "seconds": seconds}
        results.append(RegressionResult.of(name, predictions, values, **facts))
    return tuple(results)


def _learned(name: str, rows: NumberRows, effort: Effort, seed: int) -> Callable[[Array], Array]:
    own_seed = (seed + zlib.crc32(name.encode())) % 2**31
    attacker = FAMILY[_CLASSIFIERS[name]]
    view = attacker.view(rows.X)
    predict = attacker.model(rows.seen_as(view), effort, own_seed)
    return lambda X: np.asarray(predict(view(X)), dtype=np.float64)


def _sample(
    X: Array, values: Array, max_rows: int, seed: int, groups: NDArray[np.int64] | None
) -> NumberRows:
    """At most ``max_rows`` of the rows, with a validation part: of whole groups, if there are."""
    rng = np.random.default_rng(seed)
    chosen = np.sort(rng.permutation(len(X))[:max_rows])
    rows, values = X[chosen].astype(np.float64, copy=False), values[chosen]
    codes = number_bins(values, _BINS)
    shares = 1 - VALIDATION_SHARE, VALIDATION_SHARE
    parts = stratified_parts(codes, shares, rng, None if groups is None else groups[chosen])
    is_validation = np.zeros(len(rows), dtype=bool)
    is_validation[parts[1]] = True
    return NumberRows(rows, codes, int(codes.max()) + 1, is_validation, values)


def regressor_names(budget: str, attackers: Sequence[str] | None) -> tuple[str, ...]:
    """The given names, checked; or those of the budget."""
    check_choice("budget", budget, tuple(BUDGETS))
    if attackers is None:
        return tuple(_NAMES.get(name, name) for name in BUDGETS[budget].attackers)
    names = (attackers,) if isinstance(attackers, str) else tuple(attackers)
    if not names:
        raise ValueError(f"Got no attackers, but expected some of: {', '.join(REGRESSORS)}.")
    for name in names:
        if name not in _CLASSIFIERS:
            way_out = did_you_mean(name, REGRESSORS)
            if name in _NAMES:
                way_out = f" Of a number, {name} is {_NAMES[name]}."
            raise ValueError(
                f"Got the attacker {name!r}, but expected one of: {', '.join(REGRESSORS)}.{way_out}"
            )
    return tuple(dict.fromkeys(names))


# -- what can be concluded from predictions of n rows ----------------------------------------------


def explained(predictions: Array, values: Array) -> tuple[float, float]:
    """R² of predictions, and their correlation with the values; each (n, m).

    Of several numbers each counts in units of its own deviation.

    Examples
    --------
    >>> values = np.array([[1.0], [2.0], [3.0], [4.0]])
    >>> explained(values / 2 + 1.25, values)
    (0.75, 1.0)
    """
    t, p, e = _in_units(predictions, values)
    scale = np.sqrt((t**2).sum() * (p**2).sum())
    total = (t**2).sum()
    r2 = 1 - (e**2).sum() / total if total > 0 else 0.0
    return float(r2), float((t * p).sum() / scale) if scale > 0 else 0.0


def _in_units(predictions: Array, values: Array) -> tuple[Array, Array, Array]:
    """Values and predictions around their means, and errors, in units of the values' deviations."""
    unit = values.std(axis=0)
    unit = np.where(unit > 0, unit, 1.0)
    t, p = values - values.mean(axis=0), predictions - predictions.mean(axis=0)
    p = np.where(p.std(axis=0) > 1e-9 * unit, p, 0.0)  # a constant, but for rounding
    return t / unit, p / unit, (values - predictions) / unit


def explained_interval(
    predictions: Array, values: Array, alpha: float, groups: NDArray[np.int64] | None = None
) -> tuple[float, float]:
    """An interval of confidence 1 − alpha for the share of variance that predictions explain.

    The lower end is that of R², by the variation of squared errors from row to row. The upper end
    is of the squared correlation, by Fisher's transformation: who knows the number better than
    the attacker may put its predictions in a better unit, and cannot explain more than that. So a
    regressor that hardly dares to differ from the mean does not look harmless by its caution, and
    few rows leave a wide interval. Student's quantiles; rows in groups vary as groups do.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> z = rng.normal(size=(400, 1))
    >>> low, high = explained_interval(0.0 * z, z, 0.05)  # says nothing, on 400 rows
    >>> round(low, 3), round(high, 3)
    (0.0, 0.01)
    """
    from scipy.stats import t as student

    quantile = float(student.isf(alpha / 2, _freedom(len(values), groups)))
    r2, correlation = explained(predictions, values)
    t, p, e = _in_units(predictions, values)
    mean_square = float((t**2).sum(axis=1).mean())
    excess = ((e**2).sum(axis=1) - (1 - r2) * (t**2).sum(axis=1)) / max(mean_square, 1e-300)
    # Of the logarithm of what is not explained, which is less skewed.
    left = max(1 - r2, 1e-12)
    low = 1 - left * np.exp(min(quantile * _error(excess, groups) / left, 50.0))
    r = float(np.clip(correlation, -1 + 1e-12, 1 - 1e-12))
    high = np.tanh(np.arctanh(abs(r)) + quantile * _fisher_error(t, p, r, groups))
    return float(low), float(high**2)


def _fisher_error(t: Array, p: Array, r: float, groups: NDArray[np.int64] | None) -> float:
    """The standard error of atanh(r), and at least that of independent normal rows."""
    least = 1 / np.sqrt(max(len(t) - 3, 1))
    s_t, s_p = (float(np.sqrt((part**2).sum(axis=1).mean())) for part in (t, p))
    if s_t == 0 or s_p == 0:
        # Nobody knows how the predictions would vary: as little as the groups are, at worst.
        return float(least if groups is None else 1 / np.sqrt(_freedom(len(t), groups)))
    squares = (t**2).sum(axis=1) / s_t**2 + (p**2).sum(axis=1) / s_p**2
    influence = (t * p).sum(axis=1) / (s_t * s_p) - r / 2 * squares
    return float(max(_error(influence, groups) / (1 - r**2), least))


def _error(influence: Array, groups: NDArray[np.int64] | None) -> float:
    """The standard error of a mean of n rows, which vary together in groups."""
    n = len(influence)
    sums = influence if groups is None else _sums(influence, groups)
    return float(np.sqrt((sums**2).sum() * len(sums) / max(len(sums) - 1, 1)) / n)


def _sums(values: Array, groups: NDArray[np.int64]) -> Array:
    present = np.unique(groups, return_inverse=True)[1]
    return np.bincount(present, weights=values)


def _freedom(n_rows: int, groups: NDArray[np.int64] | None) -> float:
    """Rows less one; of groups, as many of one size as would vary as much, less one."""
    if groups is None:
        return float(max(n_rows - 1, 1))
    sizes = _sums(np.ones(len(groups)), groups)
    return float(max(sizes.sum() ** 2 / (sizes**2).sum() - 1, 1.0))


def effective_number_rows(
    predictions: Array, values: Array, groups: NDArray[np.int64] | None
) -> int:
    """Independent rows whose correlation varies as much as that of these rows."""
    _, correlation = explained(predictions, values)
    t, p, _ = _in_units(predictions, values)
    r = float(np.clip(correlation, -0.999, 0.999))
    return int(1 / _fisher_error(t, p, r, groups) ** 2)


def detectable_share(n: int, alpha: float, *, power: float = 0.8) -> float | None:
    """The smallest share of variance that n rows show with probability ``power``.

    By the one-sided test of level ``alpha`` of a correlation; None for too few rows.

    Examples
    --------
    >>> round(detectable_share(1000, 0.05), 4)
    0.0062
    """
    from scipy.stats import norm

    if n < 4:
        return None
    return float(np.tanh((norm.isf(alpha) + norm.ppf(power)) / np.sqrt(n - 3)) ** 2)


def smallest_share(n: float, alpha: float, n_attackers: int = 1, *, power: float = 0.8) -> float:
    """The smallest share of variance that n rows can rule out, where nothing leaks.

    As ``unspot.evaluation.inference.smallest_bound`` has it for classes.

    Examples
    --------
    >>> round(smallest_share(1000, 0.05), 4)
    0.0105
    """
    from scipy.stats import norm

    luck = norm.ppf((1 + power ** (1 / n_attackers)) / 2)  # of a correlation of either sign
    width = norm.isf(alpha / (2 * n_attackers))
    return float(np.tanh((width + luck) / np.sqrt(max(n - 3, 1))) ** 2)


def correlation_p_values(
    predictions: Sequence[Array],
    values: Array,
    seed: int,
    *,
    n_permutations: int = 999,
    groups: NDArray[np.int64] | None = None,
    strata: NDArray[np.int64] | None = None,
) -> Array:
    """Corrected p-values, one for each attacker, that predictions follow the number by luck.

    As ``unspot.evaluation.inference.agreement_p_values``, with the correlation for the agreement:
    values are permuted over the rows while predictions stay, and the largest correlation of all
    attackers, each in units of its spread, is what each is compared with. With strata, values are
    permuted within each.

    Examples
    --------
    >>> z = np.arange(100.0)[:, None]
    >>> correlation_p_values([z, 0 * z], z, seed=0)
    array([0.001, 1.   ])
    """
    if strata is not None:  # who knows nothing else predicts the same throughout a stratum
        predictions = [p - stratum_means(p, strata) for p in predictions]
    fixed = [_in_units(p, values)[1].ravel() for p in predictions]
    norms = [np.linalg.norm(p) for p in fixed]
    P = np.stack([p / (norm or 1.0) for p, norm in zip(fixed, norms, strict=True)], axis=1)
    shuffled, rng = row_shuffler(values, groups, strata), np.random.default_rng(seed)
    unit = values.std(axis=0)
    centred = (values - values.mean(axis=0)) / np.where(unit > 0, unit, 1.0)
    follows = [_correlations(centred[None], P)]
    step = max(1, BLOCK_VALUES // centred.size)
    for start in range(0, n_permutations, step):
        rows = [shuffled(rng) for _ in range(min(step, n_permutations - start))]
        follows.append(_correlations(centred[np.stack(rows)], P))
    standard = standardised(np.concatenate(follows))  # (1 + B, attackers)
    largest = standard[1:].max(axis=1)
    extreme = (largest[:, None] >= standard[0] - TIE).sum(axis=0)
    return (1 + extreme) / (1 + n_permutations)


def _correlations(values: Array, P: Array) -> Array:
    """Of permuted values (B, n, m) with the columns of P (n·m, attackers)."""
    centred = values - values.mean(axis=1, keepdims=True)
    flat = centred.reshape(len(centred), -1)
    return (flat @ P) / np.maximum(np.linalg.norm(flat, axis=1, keepdims=True), 1e-300)
