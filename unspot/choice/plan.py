"""A plan before any fit: what these rows can decide, and what linear erasure must leave."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from math import ceil
from typing import Any

import numpy as np
from numpy.typing import NDArray

from unspot.checks import check_share
from unspot.data.columns import as_array
from unspot.data.concept import read
from unspot.data.dataset import Split, parts_of
from unspot.data.rows import as_matrix, refuse_nonfinite
from unspot.data.statistics import ClassStatistics
from unspot.evaluation.attackers import BUDGETS
from unspot.evaluation.certificate import MARGIN, UNITS
from unspot.evaluation.inference import scores_of
from unspot.evaluation.measure import once
from unspot.machine import pieces_in_threads

#: Shares of the rows that ``erase`` and ``unspot path`` fit on in the end, and judge on.
FIT, TEST = 0.7, 0.3

_ALPHA, _ATTACKERS = 0.05, BUDGETS["standard"].attackers


@dataclass(frozen=True)
class LinearResidual:
    """Residual of the classes' means that linear erasure must leave on fresh rows.

    Parameters
    ----------
    pair : tuple of two str
        The classes whose difference of means leaves most.
    shift : float
        The distance of their means, in standard deviations.
    share : float
        The share of its square that any linear map must leave, if the data are Gaussian.
    advantage : float
        The advantage over guessing between the two of an attacker who knows that residual.
    fit_rows : int
        The rows to fit on with which it is at most the target.
    """

    pair: tuple[str, str]
    shift: float
    share: float
    advantage: float
    fit_rows: int


@dataclass(frozen=True)
class Plan:
    """Numbers that rows can decide, before a fit.

    Parameters
    ----------
    n_rows, n_features : int
    n_units : int
        Rows, or groups at worst if the rows come in groups.
    unit : str
        Unit of advantages: points, or per cent of the variance of a number.
    confirmable : float
        The smallest bound that the rows which judge can confirm, where nothing leaks. Of several
        concepts and their combination, the largest of these.
    max_advantage : float
        The bound that is asked for.
    test_rows : int
        The rows to judge on that it needs.
    linear : LinearResidual or None
        None for a number, for several concepts, and for fewer rows than dimensions.
    """

    n_rows: int
    n_features: int
    n_units: int
    unit: str
    confirmable: float
    max_advantage: float
    test_rows: int
    linear: LinearResidual | None = None

    @property
    def rows_needed(self) -> int:
        """Count the labelled rows that the bound needs: 70 % to fit on, 30 % to judge on."""
        fit_rows = 0 if self.linear is None else self.linear.fit_rows
        return max(ceil(fit_rows / FIT), ceil(self.test_rows / TEST))

    @property
    def target(self) -> float:
        """The bound to aim for: the one that is asked for, or the smallest that can be decided."""
        return max(self.max_advantage, self.confirmable)

    @property
    def sentence(self) -> str:
        """Say in a sentence whether the bound can be decided."""
        asked, units = self._amount(self.max_advantage), self._units
        if self.max_advantage >= self.confirmable:
            return f"{asked} can be decided with these {units}."
        if self.confirmable >= 1:
            return f"These {units} cannot confirm any bound; {asked} need {self.rows_needed:,}."
        cannot = "may not" if self.n_units != self.n_rows else "cannot"  # groups count at worst
        needed = ceil(self.test_rows / TEST)
        return f"{asked} {cannot} be decided with these {units}: that takes {needed:,}."

    @property
    def aim(self) -> str:
        """Say which bound is aimed for instead, if another one is."""
        raised = self.max_advantage < self.target < 1
        return f"Going for {100 * self.target:.1f} {self.unit}." if raised else ""

    @property
    def least(self) -> str:
        """Say in a sentence the least bound that these rows can confirm."""
        if self.confirmable >= 1:
            return f"These {self._units} cannot confirm any bound."
        least = f"{100 * self.confirmable:.1f} {self.unit}"
        return f"These {self._units} can confirm bounds of about {least} or more."

    @property
    def _units(self) -> str:
        worst = f" (as few as {self.n_units:,} independent ones, by groups)"
        return f"{self.n_rows:,} rows{worst if self.n_units != self.n_rows else ''}"

    def _amount(self, share: float) -> str:
        return f"{100 * share:.3g} {self.unit}"

    def __str__(self) -> str:
        n_fit, n_test = round(FIT * self.n_rows), round(TEST * self.n_rows)
        lines = [
            self.sentence,
            f"{self.n_rows:,} rows of {self.n_features} features: about {n_fit:,} to fit on and "
            f"{n_test:,} to judge on.",
        ]
        if (left := self.linear) is not None:
            lines.append(
                f"Any linear map leaves about {100 * left.share:.2g} % of the squared difference "
                f"of the means of {left.pair[0]} and {left.pair[1]} on fresh rows: an attacker "
                f"that knows it gains {self._amount(left.advantage)} between the two. Fitted on "
                f"{left.fit_rows:,} rows, it would be {self._amount(self.max_advantage)}."
            )
        return "\n".join(lines)


@pieces_in_threads()
def plan(X: Any, z: Any, *, groups: Any = None, max_advantage: float = MARGIN) -> Plan:
    """Say what these rows can decide, before any eraser is fitted.

    Parameters
    ----------
    X, z : array-like
        Embeddings (n, d), and the concept: labels or numbers (n,), or a table of several.
    groups : array-like, optional
        Groups of rows. A group then counts as one row, which is the worst case.
    max_advantage : float
        The target: the largest advantage of an attacker over guessing, or share of the variance.

    Notes
    -----
    O(nd² + d³) time. The residual is that of Gaussian rows with one covariance: see
    ``linear_residual``. It bounds linear maps only, and from below: other attackers may find more.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> z = np.arange(4000) % 2
    >>> X = rng.normal(size=(4000, 20)) + z[:, None] * 0.5
    >>> report = plan(X, z, max_advantage=0.1)
    >>> 0 < report.linear.advantage < report.confirmable < 0.1, report.rows_needed < 4000
    (True, True)
    """
    check_share("max_advantage", max_advantage)
    if not max_advantage > 0:
        raise ValueError(
            "Got max_advantage=0, but expected more: no number of rows shows that nothing at all "
            "is left. Pass a small advantage such as 0.01."
        )
    X = as_matrix(X)
    refuse_nonfinite(X)
    groups = None if groups is None else as_array(groups)
    rows = once(Split(X, read(z, n_rows=len(X), min_rows=3), groups=groups))
    return plan_rows(rows, max_advantage)


def plan_rows(rows: Split, max_advantage: float) -> Plan:
    """Say what the rows of a split can decide; see ``plan``."""
    parts = parts_of(rows)
    level = _ALPHA / len(parts)
    scores = [scores_of(part.data.target, part.data.group_codes) for part in parts]
    bounds = [one.smallest_bound(level, len(_ATTACKERS), TEST) for one in scores]
    worst = scores[int(np.argmax(bounds))]
    units = worst.units()
    return Plan(
        n_rows=len(rows),
        n_features=int(rows.X.shape[1]),
        n_units=int(units.sum()),
        unit=UNITS[worst.concept.kind],
        confirmable=max(bounds),
        max_advantage=max_advantage,
        test_rows=_fewest(
            lambda n: worst.smallest_bound(level, len(_ATTACKERS), n / units.sum()) <= max_advantage
        ),
        linear=_linear(rows, units, max_advantage) if len(parts) == 1 else None,
    )


def _linear(rows: Split, counts: NDArray[Any], max_advantage: float) -> LinearResidual | None:
    """Estimate what linear erasure leaves, for classes of more rows than dimensions."""
    labels = rows.target
    shifts = squared_shifts(rows.X, labels.codes, labels.counts) if labels.has_classes else None
    if shifts is None:
        return None
    d, squares = shifts
    first, second = max(
        zip(*np.triu_indices(len(counts), 1), strict=True),
        key=lambda pair: _left(float(squares[pair]), counts[list(pair)] * FIT, d, len(counts))[1],
    )
    square, pair = float(squares[first, second]), [int(first), int(second)]
    shares = counts[pair] / counts.sum()
    share, advantage = _left(square, counts[pair] * FIT, d, len(counts))
    fit_rows = _fewest(lambda n: _left(square, n * shares, d, len(counts))[1] <= max_advantage)
    names = str(labels.classes[first]), str(labels.classes[second])
    return LinearResidual(names, square**0.5, share, advantage, fit_rows)


def linear_residual(n_features: int, kappa: float, n_deleted: int = 1) -> float:
    """Compute the share of a squared mean shift that any linear map leaves on fresh rows.

    (d−k)·E[1/(d+2J)] with J ~ Poisson(κ/2), for k deleted directions and κ = θ²/(1/n₊ + 1/n₋),
    the squared shift in units of its own error (Aimoldin et al. 2026): nearly (d−k)/(d+κ).

    Examples
    --------
    >>> round(linear_residual(256, 128.0), 3)
    0.665
    """
    from scipy.stats import poisson

    d, middle = n_features, kappa / 2
    if middle > 1e6:  # J hardly varies
        return (d - n_deleted) / (d + kappa)
    low, high = poisson.ppf([1e-14, 1 - 1e-14], middle) if middle > 0 else (0, 0)
    J = np.arange(low, high + 1)
    return float((d - n_deleted) * np.sum(poisson.pmf(J, middle) / (d + 2 * J)))


def _left(square: float, counts: NDArray[Any], d: int, n_classes: int) -> tuple[float, float]:
    """Compute the share of a squared shift that a fit on these rows leaves, and its advantage."""
    kappa = square / float(np.sum(1 / counts))
    share = max(0.0, linear_residual(d, kappa, min(n_classes - 1, d)))
    return share, advantage_between(share * square)


def advantage_between(square: float) -> float:
    """Compute the advantage of the best guess between two Gaussian laws."""
    from scipy.stats import norm

    return float(norm.cdf(square**0.5 / 2)) - 0.5


def squared_shifts(
    X: NDArray[Any], codes: NDArray[np.int64], counts: NDArray[np.int64]
) -> tuple[int, NDArray[np.float64]] | None:
    """Count the dimensions in which rows vary, and measure squared distances of class means.

    None for too few rows to see how far the classes are apart.
    """
    K, n = len(counts), len(X)
    statistics = ClassStatistics.from_rows(X, codes, K, per_class=False)
    values, vectors = np.linalg.eigh(statistics.within / (n - K))
    varies = values > 1e-10 * max(values[-1], np.finfo(float).tiny)
    d = max(int(varies.sum()), 1)
    freedom = n - K - d - 1
    if freedom <= 0:
        return None
    centred = statistics.means - statistics.means.mean(axis=0)
    means = centred @ vectors[:, varies] / np.sqrt(values[varies])
    norms = np.square(means).sum(axis=1)  # about their mean: not K²·d numbers
    apart = norms[:, None] + norms - 2 * means @ means.T
    # A mean and a covariance that are estimated look farther apart than the true ones.
    luck = d * (1 / counts[:, None] + 1 / counts[None])
    return d, np.maximum(apart * freedom / (n - K) - luck, 0.0)


def _fewest(enough: Callable[[float], bool]) -> int:
    """Find the smallest number of rows that is enough, to three digits."""
    low, high = 1.0, 64.0
    while not enough(high) and high < 1e15:
        low, high = high, 2 * high
    while high > 1.001 * low:
        middle = (low + high) / 2
        low, high = (low, middle) if enough(middle) else (middle, high)
    return ceil(high)
