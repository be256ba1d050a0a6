"""Statistics of predictions on n test rows: scores, confidence intervals, p-values and power.

Functions of numpy arrays come in pairs: balanced accuracy of classes, and the share of variance
that predictions of a number explain. ``ClassScores`` and ``NumberScores`` apply them to attackers.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from unspot.data.groups import counts_at_worst

Array = NDArray[Any]
Codes = NDArray[np.int64]

#: Power: the probability of showing a leak, or of reaching a bound.
POWER = 0.8


# -- Balanced accuracy of classes ------------------------------------------------------------------


def accuracy_interval(hits: float, n: float, alpha: float) -> tuple[float, float]:
    """Compute Clopper and Pearson's exact confidence interval for a share.

    Given the class counts the hits are a sum of independent guesses with different chances, which
    varies less than the binomial law assumed here: the interval is on the safe side.

    Examples
    --------
    >>> low, high = accuracy_interval(50, 100, 0.05)
    >>> round(low, 3), round(high, 3)
    (0.398, 0.602)
    """
    low, high = _exact_ends(np.array([hits]), np.array([n]), alpha)[0]
    return float(low), float(high)


def _exact_ends(hits: Array, counts: Array, alpha: float) -> Array:
    """Compute Clopper and Pearson's intervals (K, 2) of many classes at once."""
    from scipy.special import betaincinv

    misses, some, failed = counts - hits, hits > 0, hits < counts
    low, high = np.zeros(len(hits)), np.ones(len(hits))
    low[some] = betaincinv(hits[some], misses[some] + 1, alpha / 2)
    high[failed] = betaincinv(hits[failed] + 1, misses[failed], 1 - alpha / 2)
    return np.stack([low, high], axis=1)


def recalls(guesses: Codes, codes: Codes, n_classes: int) -> Array:
    """Compute the recall of each class; their mean is the balanced accuracy.

    NaN for a class without rows.

    Examples
    --------
    >>> recalls(np.array([0, 0, 0, 1]), np.array([0, 0, 1, 1]), 2)
    array([1. , 0.5])
    """
    counts = np.bincount(codes, minlength=n_classes)
    hits = np.bincount(codes[guesses == codes], minlength=n_classes)
    return np.divide(hits, counts, out=np.full(n_classes, np.nan), where=counts > 0)


def log_loss(probabilities: Array, codes: Codes) -> float:
    """Average −log₂ of the probability of the right class, in bits."""
    chosen = probabilities[np.arange(len(codes)), codes]
    return float(-np.log2(np.maximum(chosen, 1e-12)).mean())


def balanced_interval(shares: Array, counts: Array, alpha: float) -> tuple[float, float]:
    """Compute a confidence interval for the balanced accuracy, given recalls by class.

    Each arm is the longer of two. One joins the exact intervals of the classes by the squares of
    their arms (Zou and Donner 2008): right for few classes, however few rows they have. The other
    is exact for as many rows as would have the variance of the mean (Korn and Graubard 1998):
    right for many classes, of which those without a hit have no arm downwards, and those without a
    miss none upwards. Of one class, both are Clopper and Pearson's.

    For rows in groups give the counts of ``counts_in_groups``.

    Examples
    --------
    >>> low, high = balanced_interval(np.array([0.5, 0.5]), np.array([50, 50]), 0.05)
    >>> round(low, 3), round(high, 3)
    (0.398, 0.602)
    """
    shares, counts = np.asarray(shares, dtype=np.float64), np.asarray(counts)
    middle = float(np.mean(shares))
    arms = np.maximum(_joined_arms(shares, counts, alpha), _pooled_arms(shares, counts, alpha))
    down, up = arms.tolist()
    return max(0.0, middle - down), min(1.0, middle + up)


def _joined_arms(shares: Array, counts: Array, alpha: float) -> Array:
    """Join the exact intervals of the classes: arms down and up."""
    ends = _exact_ends(np.round(shares * counts, 6), counts, alpha)  # no rounding errors as hits
    return np.asarray(np.linalg.norm(ends - shares[:, None], axis=0) / len(counts))


def _pooled_arms(shares: Array, counts: Array, alpha: float) -> Array:
    """Take the exact interval of one class that varies as the mean does: arms down and up."""
    middle = float(np.mean(shares))
    # Add two rows of the pooled share to each class: by chance, few rows have a recall of 0 or 1,
    # which would otherwise seem not to vary at all.
    drawn_in = (shares * counts + 2 * middle) / (counts + 2)
    variance = float(np.sum(drawn_in * (1 - drawn_in) / counts)) / len(counts) ** 2
    n = middle * (1 - middle) / variance if variance > 0 else effective_rows(counts)
    low, high = accuracy_interval(middle * n, n, alpha)
    return np.array([middle - low, high - middle])


def counts_in_groups(
    guesses: Codes, codes: Codes, groups: Codes | None, n_classes: int, alpha: float | None = None
) -> Array:
    """Estimate how many independent rows of each class are worth as much as rows in groups.

    The counts of the classes over the design effect: the variance of the balanced accuracy by its
    variation from group to group, over that of independent rows. It is one at least: groups may
    happen to vary less. With ``alpha`` it is larger, as Student's interval of the confidence
    1 − alpha is wider than the normal one, since few groups tell little of their own variation
    (Korn and Graubard 1998).

    Examples
    --------
    >>> codes, groups = np.repeat([0, 1], 50), np.arange(100) // 5
    >>> says = np.random.default_rng(0).integers(2, size=20)  # the same of all rows of a group
    >>> counts_in_groups(says[groups], codes, groups, 2).round()
    array([10., 10.])
    """
    counts = np.bincount(codes, minlength=n_classes)
    if groups is None:
        return counts
    effect, freedom = _design(guesses, codes, groups, n_classes)
    if alpha is not None:
        from scipy.stats import norm, t

        effect *= float(t.isf(alpha / 2, freedom) / norm.isf(alpha / 2)) ** 2
    return counts / max(1.0, effect)


def _design(guesses: Codes, codes: Codes, groups: Codes, n_classes: int) -> tuple[float, float]:
    """Estimate the design effect, and the degrees of freedom of the estimate."""
    shares = recalls(guesses, codes, n_classes)
    luck, members = np.zeros((2, groups.max() + 1, n_classes))
    np.add.at(luck, (groups, codes), (guesses == codes) - shares[codes])
    np.add.at(members, (groups, codes), 1)
    counts, n_groups = members.sum(axis=0), (members > 0).sum(axis=0)
    independent = float(np.nansum(shares * (1 - shares) / counts))
    if independent == 0 or n_groups.min() < 2:
        # Every class is all right or all wrong, or in one group: nothing shows that the rows of a
        # group have more than one voice.
        return float((counts / n_groups).max()), float(max(n_groups.min() - 1, 1))
    # The jackknife, which leaves each group out: a large one pulls the recalls to itself.
    luck *= np.sqrt((n_groups - 1) / n_groups) / (counts - members)
    by_class = (luck**2).sum(axis=0)
    if not by_class.any():
        return 1.0, float(n_groups.min() - 1)
    between = float((luck.sum(axis=1) ** 2).sum())
    freedom = by_class.sum() ** 2 / float((by_class**2 / (n_groups - 1)).sum())
    return between / independent, freedom


def paired_error(
    first: Codes, second: Codes, codes: Codes, groups: Codes | None, n_classes: int
) -> float:
    """Estimate the standard error of the difference of balanced accuracies on the same rows.

    It uses the variation between rows, or between groups: guesses that are wrong on the same
    rows differ by less noise than their own intervals suggest.

    Examples
    --------
    >>> codes = np.arange(100) % 2
    >>> guess = np.where(np.arange(100) < 60, codes, 1 - codes)
    >>> paired_error(guess, guess, codes, None, 2)
    0.0
    >>> round(paired_error(guess, codes, codes, None, 2), 3)  # of 40 wrong guesses in 100
    0.049
    """
    gap = recalls(first, codes, n_classes) - recalls(second, codes, n_classes)
    luck = (first == codes).astype(np.float64) - (second == codes) - gap[codes]
    counts = np.bincount(codes, minlength=n_classes)
    return _error(luck * len(codes) / (n_classes * counts[codes]), groups)


def effective_rows(counts: Array) -> float:
    """Count rows in equal classes whose balanced accuracy varies as much as with these counts.

    Examples
    --------
    >>> effective_rows(np.array([50, 50])), round(effective_rows(np.array([90, 10])))
    (100.0, 36)
    """
    return float(len(counts) ** 2 / np.sum(1.0 / np.asarray(counts)))


def smallest_bound(counts: Array, alpha: float, n_attackers: int = 1) -> float:
    """Find the smallest advantage that these rows can rule out, where nothing leaks.

    The strongest of attackers that only guess has an upper bound below it with probability
    ``POWER``, or more where attackers agree with each other.

    Parameters
    ----------
    counts : array of shape (K,)
        The rows of each class that they are judged on.
    alpha : float
        One minus the confidence of the bound, for all attackers at once.
    n_attackers : int

    Examples
    --------
    >>> round(smallest_bound(np.array([500, 500]), 0.05), 3)
    0.045
    """
    from scipy.stats import norm

    chance = 1 / len(counts)
    luck = norm.ppf(POWER ** (1 / n_attackers))
    spread = (chance * (1 - chance) / effective_rows(counts)) ** 0.5
    guesses = np.full(len(counts), chance)
    width = balanced_interval(guesses, counts, alpha / n_attackers)[1] - chance
    return float(width + luck * spread)


# -- Explained variance of a number ----------------------------------------------------------------


def explained(predictions: Array, values: Array) -> tuple[float, float]:
    """Compute R² of predictions and their correlation with the values; both arrays are (n, m).

    Each of several numbers counts in units of its own standard deviation.

    Examples
    --------
    >>> values = np.array([[1.0], [2.0], [3.0], [4.0]])
    >>> explained(values / 2 + 1.25, values)
    (0.75, 1.0)
    """
    t, p, e = _relative(predictions, values)
    scale = np.sqrt((t**2).sum() * (p**2).sum())
    total = (t**2).sum()
    r2 = 1 - (e**2).sum() / total if total > 0 else 0.0
    return float(r2), float((t * p).sum() / scale) if scale > 0 else 0.0


def _relative(predictions: Array, values: Array) -> tuple[Array, Array, Array]:
    """Standardise values, predictions and errors by the values' standard deviations."""
    unit = values.std(axis=0)
    unit = np.where(unit > 0, unit, 1.0)
    t, p = values - values.mean(axis=0), predictions - predictions.mean(axis=0)
    p = np.where(p.std(axis=0) > 1e-9 * unit, p, 0.0)  # a constant, but for rounding
    return t / unit, p / unit, (values - predictions) / unit


def explained_interval(
    predictions: Array, values: Array, alpha: float, groups: Codes | None = None
) -> tuple[float, float]:
    """Compute a confidence interval for the share of variance that predictions explain.

    The lower end is that of R², by the variation of squared errors from row to row. The upper end
    is of the squared correlation, by Fisher's transformation: rescaled predictions cannot explain
    more than that. So a
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
    t, p, e = _relative(predictions, values)
    mean_square = float((t**2).sum(axis=1).mean())
    excess = ((e**2).sum(axis=1) - (1 - r2) * (t**2).sum(axis=1)) / max(mean_square, 1e-300)
    # Interval for log(1 − R²), which is less skewed.
    left = max(1 - r2, 1e-12)
    low = 1 - left * np.exp(min(quantile * _error(excess, groups) / left, 50.0))
    r = float(np.clip(correlation, -1 + 1e-12, 1 - 1e-12))
    high = np.tanh(np.arctanh(abs(r)) + quantile * _fisher_error(t, p, r, groups))
    return float(low), float(high**2)


def explained_difference_error(
    first: Array, second: Array, values: Array, groups: Codes | None = None
) -> float:
    """Estimate the standard error of the difference of R² of two predictions of the same rows.

    Examples
    --------
    >>> z = np.random.default_rng(0).normal(size=(400, 1))
    >>> explained_difference_error(z, z, z), round(explained_difference_error(z, 0 * z, z), 2)
    (0.0, 0.0...)
    """
    t, _, a = _relative(first, values)
    _, _, b = _relative(second, values)
    size = max(float((t**2).sum(axis=1).mean()), 1e-300)
    gain = ((b**2).sum(axis=1) - (a**2).sum(axis=1)) / size
    return _error(gain - gain.mean() * (t**2).sum(axis=1) / size, groups)


def _fisher_error(t: Array, p: Array, r: float, groups: Codes | None) -> float:
    """Estimate the standard error of atanh(r), at least that of independent normal rows."""
    least = 1 / np.sqrt(max(len(t) - 3, 1))
    s_t, s_p = (float(np.sqrt((part**2).sum(axis=1).mean())) for part in (t, p))
    if s_t == 0 or s_p == 0:
        # The predictions' variation is unknown: at worst, a group counts as one row.
        return float(least if groups is None else 1 / np.sqrt(_freedom(len(t), groups)))
    squares = (t**2).sum(axis=1) / s_t**2 + (p**2).sum(axis=1) / s_p**2
    influence = (t * p).sum(axis=1) / (s_t * s_p) - r / 2 * squares
    return float(max(_error(influence, groups) / (1 - r**2), least))


def _error(influence: Array, groups: Codes | None) -> float:
    """Estimate the standard error of a mean of n rows, which vary together in groups."""
    n = len(influence)
    sums = influence if groups is None else _sums(influence, groups)
    return float(np.sqrt((sums**2).sum() * len(sums) / max(len(sums) - 1, 1)) / n)


def _sums(values: Array, groups: Codes) -> Array:
    present = np.unique(groups, return_inverse=True)[1]
    return np.bincount(present, weights=values)


def _freedom(n_rows: int, groups: Codes | None) -> float:
    """Count degrees of freedom: rows less one, or the effective number of groups less one."""
    if groups is None:
        return float(max(n_rows - 1, 1))
    sizes = _sums(np.ones(len(groups)), groups)
    return float(max(sizes.sum() ** 2 / (sizes**2).sum() - 1, 1.0))


def smallest_share(n: float, alpha: float, n_attackers: int = 1) -> float:
    """Find the smallest share of variance that n rows can rule out, where nothing leaks.

    Examples
    --------
    >>> round(smallest_share(1000, 0.05), 4)
    0.0105
    """
    from scipy.stats import norm

    luck = norm.ppf((1 + POWER ** (1 / n_attackers)) / 2)  # two-sided: r has either sign
    width = norm.isf(alpha / (2 * n_attackers))
    return float(np.tanh((width + luck) / np.sqrt(max(n - 3, 1))) ** 2)


# -- What an attacker reached ----------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class AttackResult:
    """Result of one attacker on the test rows.

    Attributes
    ----------
    name : str
    score, chance : float
        Balanced accuracy and that of guessing, 1/K for K classes: accuracy would not do, since with
        classes of 95 and 5 % no attacker may beat the guess of the first. For a number, R² and 0.
        If labels are given, chance is what they reach alone.
    n_rows : int
        Rows it was fitted on.
    predictions : array of shape (n_test, K) or (n_test, m)
        Probabilities, or predicted numbers.
    guesses : array of shape (n_test,) or None
        Predicted classes: the most probable one after rare classes got a weight.
    accuracy, log_loss_bits, correlation : float or None
        Share of rows whose most probable class is right, and mean code length of a label by the
        probabilities; for a number, its correlation with the predictions.
    """

    name: str
    score: float
    chance: float
    n_rows: int
    predictions: Array
    guesses: Any = None
    accuracy: float | None = None
    log_loss_bits: float | None = None
    correlation: float | None = None

    @property
    def advantage(self) -> float:
        """Score above chance."""
        return self.score - self.chance

    @property
    def balanced_accuracy(self) -> float | None:
        """Mean recall of the classes; None for a number."""
        return None if self.guesses is None else self.score

    @property
    def r2(self) -> float | None:
        """Share of the variance that is explained; None for classes."""
        return self.score if self.guesses is None else None

    def to_dict(self) -> dict[str, Any]:
        """Return plain numbers that are the same in every run, for JSON."""
        names = (
            *("name", "accuracy", "balanced_accuracy", "r2", "correlation", "advantage"),
            *("log_loss_bits", "n_rows"),
        )
        values = {name: getattr(self, name) for name in names}
        return {name: value for name, value in values.items() if value is not None}


@dataclass(frozen=True, eq=False)
class Given:
    """Labels that attackers know, such as the task.

    Attributes
    ----------
    codes : array of shape (n,)
        Classes of the judged rows.
    alone : AttackResult
        A baseline that sees only these labels.
    by_attacker : mapping of str to array
        Each attacker's predictions from them alone, by its name. Rows add only what neither this,
        a model as sure of itself, nor the baseline knows without them.
    """

    codes: Codes
    alone: AttackResult
    by_attacker: Mapping[str, Array] = field(default_factory=dict)


@dataclass(frozen=True, eq=False)
class ClassScores:
    """Scores of predicted classes on judged rows, with their uncertainty.

    With given labels, every cell of given label and class counts alike: a baseline that knows only
    the label predicts one class for all rows of it, and is right on one cell of them.
    """

    concept: Any
    groups: Codes | None = None
    given: Given | None = None

    score_name: ClassVar[str] = "balanced accuracy"

    def result(
        self, name: str, predictions: Array, guesses: Codes | None, *, n_rows: int
    ) -> AttackResult:
        """Score the predictions of an attacker."""
        codes = self.concept.codes
        if self.given is not None:  # classes that rows make more probable than the label does
            best = self.given.alone.predictions
            ratios = (
                predictions / np.maximum(p, 1e-12)
                for p in (best, self.given.by_attacker.get(name, best))
            )
            guesses = min((r.argmax(axis=1) for r in ratios), key=lambda g: self._recalls(g).mean())
        assert guesses is not None
        return AttackResult(
            name,
            score=float(self._recalls(guesses).mean()),
            chance=self.chance,
            n_rows=n_rows,
            predictions=predictions,
            guesses=guesses,
            accuracy=float(np.mean(predictions.argmax(axis=1) == codes)),
            log_loss_bits=log_loss(predictions, codes),
        )

    def from_labels(self, learned: Any, known: Codes, judged: Codes, name: str) -> AttackResult:
        """Score a baseline that sees only other labels: class shares among the rows of each."""
        n, K = int(max(known.max(), judged.max())) + 1, len(learned.classes)
        rows = np.bincount(known, minlength=n)[:, None]
        table = np.zeros((n, K))
        np.add.at(table, (known, learned.codes), 1)
        shares = learned.counts / len(learned)
        probabilities = (table + shares) / (rows + 1)
        guesses = (probabilities / shares).argmax(axis=1)
        judged_as = probabilities[judged], guesses[judged]
        return self.result(name, *judged_as, n_rows=len(learned))

    @cached_property
    def chance(self) -> float:
        """Score of guessing, or of the given labels alone."""
        if self.given is None:
            return 1 / len(self.concept.classes)
        known = np.unique(self.given.codes[self.cells >= 0])
        return float(len(known) / (self.cells.max() + 1))

    @cached_property
    def cells(self) -> Codes:
        """Cell of given label and class of each row; −1 where nothing can be compared.

        A row that is alone in its cell says nothing, nor do rows of a label with one class.
        """
        assert self.given is not None
        known, classes = self.given.codes, self.concept.codes
        cells = known * len(self.concept.classes) + classes
        fine = np.bincount(cells)[cells] > 1
        different = {k: len(np.unique(classes[fine & (known == k)])) for k in np.unique(known)}
        fine &= np.array([different[k] for k in known]) > 1
        numbers = np.full(len(cells), -1)
        numbers[fine] = np.unique(cells[fine], return_inverse=True)[1]
        return numbers

    @property
    def n_left_out(self) -> int:
        """Number of rows that are alone in their cell."""
        assert self.given is not None
        cells = self.given.codes * len(self.concept.classes) + self.concept.codes
        return int((np.bincount(cells)[cells] == 1).sum())

    def _judged(self, guesses: Codes) -> tuple[Codes, Codes, Codes | None, int]:
        """Return guesses, labels, groups and the number of labels: classes, or cells."""
        codes = self.concept.codes
        if self.given is None:
            return guesses, codes, self.groups, len(self.concept.classes)
        fine = self.cells >= 0
        hits = np.where(guesses == codes, self.cells, -1)[fine]
        groups = None if self.groups is None else self.groups[fine]
        return hits, self.cells[fine], groups, int(self.cells.max()) + 1

    def _recalls(self, guesses: Codes) -> Array:
        """Compute the recall of each class or cell."""
        hits, labels, _, n = self._judged(guesses)
        return recalls(hits, labels, n)

    def _counts(self, guesses: Codes, alpha: float = 0.05) -> Array:
        """Count (effective) rows of each class or cell."""
        return counts_in_groups(*self._judged(guesses), alpha)

    def interval(self, result: AttackResult, alpha: float) -> tuple[float, float]:
        """Compute a confidence interval of the score."""
        counts = self._counts(result.guesses, alpha)
        return balanced_interval(self._recalls(result.guesses), counts, alpha)

    def difference_error(self, first: AttackResult, second: AttackResult) -> float:
        """Estimate the standard error of the difference of two scores on these rows."""
        codes, n_classes = self.concept.codes, len(self.concept.classes)
        return paired_error(first.guesses, second.guesses, codes, self.groups, n_classes)

    def units(self) -> Array:
        """Count independent rows of each class; a group counts as one, which is the worst case."""
        return counts_at_worst(self.concept.codes, self.groups, len(self.concept.classes))

    def smallest_bound(self, alpha: float, n_attackers: int, times: float = 1.0) -> float:
        """Find the smallest advantage that these rows, or so many times as many, can rule out."""
        return smallest_bound(np.maximum(self.units() * times, 1), alpha, n_attackers)

    def facts(self) -> dict[str, Any]:
        """Describe the classes, for a certificate."""
        counts, classes = self.concept.counts, self.concept.classes
        rows = {str(c): int(n) for c, n in zip(classes, counts, strict=True)}
        return {"kind": self.concept.kind, "rows_of_class": rows}


class NumberScores(ClassScores):
    """Scores of predicted numbers. Given labels, residuals of predictions and values count."""

    score_name: ClassVar[str] = "share of the variance"

    def result(
        self, name: str, predictions: Array, guesses: Codes | None, *, n_rows: int
    ) -> AttackResult:
        r2, correlation = explained(predictions, self.concept.coordinates)
        return AttackResult(name, r2, self.chance, n_rows, predictions, correlation=correlation)

    def from_labels(self, learned: Any, known: Codes, judged: Codes, name: str) -> AttackResult:
        n, values = int(max(known.max(), judged.max())) + 1, learned.coordinates
        rows = np.bincount(known, minlength=n)[:, None]
        sums = np.stack([np.bincount(known, weights=v, minlength=n) for v in values.T], axis=1)
        means = (sums + values.mean(axis=0)) / (rows + 1)
        return self.result(name, means[judged], None, n_rows=len(learned))

    @cached_property
    def chance(self) -> float:
        return 0.0 if self.given is None else self.given.alone.score

    @property
    def n_left_out(self) -> int:
        return 0

    @property
    def _baseline(self) -> Any:
        return 0.0 if self.given is None else self.given.alone.predictions

    @property
    def _values(self) -> Array:
        return np.asarray(self.concept.coordinates - self._baseline)

    def interval(self, result: AttackResult, alpha: float) -> tuple[float, float]:
        relative = result.predictions - self._baseline
        low, high = explained_interval(relative, self._values, alpha, self.groups)
        left = 1 - self.chance  # the share of the variance that the given labels do not explain
        return self.chance + left * low, self.chance + left * high

    def difference_error(self, first: AttackResult, second: AttackResult) -> float:
        values = self.concept.coordinates
        return explained_difference_error(
            first.predictions, second.predictions, values, self.groups
        )

    def units(self) -> Array:
        n = len(self.concept) if self.groups is None else len(np.unique(self.groups))
        return np.array([n])

    def smallest_bound(self, alpha: float, n_attackers: int, times: float = 1.0) -> float:
        return smallest_share(float(self.units()[0]) * times, alpha, n_attackers)

    def facts(self) -> dict[str, Any]:
        return {"kind": self.concept.kind, "rows_of_class": {}}


#: Scores by the kind of the concept.
SCORES: dict[str, type[ClassScores]] = {"categories": ClassScores, "continuous": NumberScores}


def scores_of(concept: Any, groups: Codes | None = None, given: Given | None = None) -> ClassScores:
    """Make the scores that fit the concept of the judged rows."""
    return SCORES[concept.kind](concept, groups, given)
