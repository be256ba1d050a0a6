"""A plan before any fit: what this many rows in this many dimensions can reach and show."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from math import ceil
from typing import Any

import numpy as np
from numpy.typing import NDArray

from unspot.checks import check_share
from unspot.data.concept import read, require_classes
from unspot.data.groups import counts_at_worst, group_codes
from unspot.data.rows import in_memory, refuse_nonfinite
from unspot.data.statistics import ClassStatistics
from unspot.evaluation.attackers import BUDGETS
from unspot.evaluation.certificate import MARGIN
from unspot.evaluation.inference import detectable_advantage, effective_rows, smallest_bound
from unspot.machine import pieces_in_threads
from unspot.tables import points_text

#: Shares of the rows that ``unspot path`` fits on in the end, and tests on.
FIT, TEST = 0.7, 0.3

_ALPHA, _ATTACKERS = 0.05, BUDGETS["standard"].attackers


@dataclass(frozen=True)
class Plan:
    """Numbers that rows can reach and show, before a fit.

    Parameters
    ----------
    n_rows, n_features : int
    dimensions : int
        The dimensions in which rows vary; some features may be sums of others.
    rows_of_class : mapping of str to int
        Rows, or groups if the rows come in groups.
    pair : tuple of two str
        The classes whose difference of means leaves most on fresh rows.
    shift : float
        The distance of their means, in standard deviations.
    residual : float
        The share of its square that any linear map must leave on fresh rows, if the data are
        Gaussian.
    linear_advantage : float
        The advantage over guessing between the two of an attacker who knows that residual.
    detectable : float or None
        The smallest advantage that the test rows show in 80 of 100 cases.
    confirmable : float
        The smallest bound that they can confirm.
    max_advantage : float
        The target.
    fit_rows, test_rows : int
        The rows that the target needs: for the linear residual, and to confirm it.
    """

    n_rows: int
    n_features: int
    dimensions: int
    rows_of_class: Mapping[str, int]
    pair: tuple[str, str]
    shift: float
    residual: float
    linear_advantage: float
    detectable: float | None
    confirmable: float
    max_advantage: float
    fit_rows: int
    test_rows: int

    @property
    def rows_needed(self) -> int:
        """Count the labelled rows that the target needs, split as ``unspot path`` splits them."""
        return max(ceil(self.fit_rows / FIT), ceil(self.test_rows / TEST))

    @property
    def enough(self) -> bool:
        """Tell whether there are as many."""
        return self._units >= self.rows_needed

    @property
    def _units(self) -> int:
        """Count rows, or groups."""
        return sum(self.rows_of_class.values())

    def to_json(self) -> str:
        """Write the numbers as JSON."""
        numbers = {"rows_needed": self.rows_needed, "enough": self.enough}
        return json.dumps({"format": "unspot-plan/1", **asdict(self), **numbers}, indent=1)

    def __str__(self) -> str:
        units = self._units
        apart = "" if units == self.n_rows else f" in groups, which count as {units:,} at worst"
        first, second = self.pair
        target = points_text(self.max_advantage)
        verdict = "there are enough" if self.enough else f"you have {units:,}"
        lines = [
            f"{self.n_rows:,} rows of {self.n_features} features{apart}, {len(self.rows_of_class)} "
            f"classes: about {round(FIT * units):,} to fit on, {round(TEST * units):,} to test on.",
            f"Any linear map leaves about {100 * self.residual:.2g} % of the squared difference of "
            f"the means of {first} and {second} on fresh rows. An attacker that "
            f"knows it gains {points_text(self.linear_advantage)} over guessing between the two.",
            self._power(),
            f"A bound of {target} needs about {self.fit_rows:,} rows to fit and "
            f"{self.test_rows:,} to test, so {self.rows_needed:,} in all: {verdict}.",
        ]
        return "\n".join(lines)

    def _power(self) -> str:
        """Say what the test rows show and confirm, which may be nothing if they are few."""
        shown = "no advantage, however large,"
        if self.detectable is not None:
            shown = f"an advantage of {points_text(self.detectable)}"
        confirmed = "confirm no bound"
        if self.confirmable < 1 - 1 / len(self.rows_of_class):  # a perfect attacker has that
            confirmed = f"can confirm a bound of {points_text(self.confirmable)}"
        return f"The test rows show {shown} in 80 of 100 cases, and {confirmed}."


@pieces_in_threads()
def plan(
    X: Any,
    z: Any,
    *,
    groups: Any = None,
    max_advantage: float = MARGIN,
) -> Plan:
    """Say what these rows can reach and show, before any eraser is fitted.

    Parameters
    ----------
    X, z : array-like
        Embeddings (n, d) and labels of the concept (n,).
    groups : array-like, optional
        What rows come in. A group then counts as one row, which is the worst case.
    max_advantage : float
        The target: the largest advantage of an attacker over guessing.

    Notes
    -----
    O(nd² + d³) time. The residual is that of Gaussian rows with one covariance: see
    ``linear_residual``. It bounds linear maps only, and from below: other attackers may find more.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> z = np.arange(4000) % 2
    >>> X = rng.normal(size=(4000, 20)) + z[:, None] * 0.5
    >>> found = plan(X, z, max_advantage=0.1)
    >>> 0 < found.linear_advantage < found.confirmable < 0.1, found.enough
    (True, True)
    """
    check_share("max_advantage", max_advantage)
    if not max_advantage > 0:
        raise ValueError(
            "Got max_advantage=0, but expected more: no number of rows shows that nothing at all "
            "is left. Pass a small advantage such as 0.01."
        )
    X = np.asarray(in_memory(X))
    labels = require_classes(read(z, n_rows=len(X), min_rows=3), "plan")
    refuse_nonfinite(X)
    numbers = None if groups is None else group_codes(groups, len(X))
    counts = counts_at_worst(labels.codes, numbers, len(labels.classes))
    d, squares = squared_shifts(X, labels.codes, labels.counts)
    first, second = max(
        zip(*np.triu_indices(len(counts), 1), strict=True),
        key=lambda pair: _left(float(squares[pair]), counts[list(pair)] * FIT, d, len(counts))[1],
    )
    square, shares = float(squares[first, second]), counts / counts.sum()
    return Plan(
        n_rows=len(X),
        n_features=X.shape[1],
        dimensions=d,
        rows_of_class={str(c): int(n) for c, n in zip(labels.classes, counts, strict=True)},
        pair=(str(labels.classes[first]), str(labels.classes[second])),
        shift=square**0.5,
        **_reach(square, counts, [int(first), int(second)], d),
        max_advantage=max_advantage,
        fit_rows=_fewest(
            lambda n: _left(square, n * shares[[first, second]], d, len(counts))[1] <= max_advantage
        ),
        test_rows=_fewest(
            lambda n: smallest_bound(n * shares, _ALPHA, len(_ATTACKERS)) <= max_advantage
        ),
    )


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


def _reach(square: float, counts: NDArray[Any], pair: list[int], d: int) -> dict[str, Any]:
    """Say what rows reach and show, for a squared shift between a pair of classes."""
    tests = np.maximum(counts * TEST, 1)
    rows, level = int(effective_rows(tests)), _ALPHA / (2 * len(_ATTACKERS))
    residual, advantage = _left(square, counts[pair] * FIT, d, len(counts))
    return {
        "residual": residual,
        "linear_advantage": advantage,
        "detectable": detectable_advantage(1 / len(counts), rows, level),
        "confirmable": smallest_bound(tests, _ALPHA, len(_ATTACKERS)),
    }


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
) -> tuple[int, NDArray[np.float64]]:
    """Count the dimensions in which rows vary, and measure squared distances of class means."""
    K, n = len(counts), len(X)
    statistics = ClassStatistics.from_rows(X, codes, K, per_class=False)
    values, vectors = np.linalg.eigh(statistics.within / (n - K))
    varies = values > 1e-10 * max(values[-1], np.finfo(float).tiny)
    d = max(int(varies.sum()), 1)
    freedom = n - K - d - 1
    if freedom <= 0:
        raise ValueError(
            f"Got {n:,} rows that vary in {d:,} dimensions, but a plan needs more than "
            f"{d + K + 1:,} rows to see how far the classes are apart. Give more rows, or fewer "
            "dimensions (PCA)."
        )
    means = statistics.means @ vectors[:, varies] / np.sqrt(values[varies])
    apart = np.square(means[:, None] - means[None]).sum(axis=2)
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
