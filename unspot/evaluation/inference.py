"""What can be concluded from guesses on n rows: intervals, p-values, and what would be missed."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from unspot.data.groups import group_shares, shuffler

__all__ = [
    "accuracy_interval",
    "agreement_p_values",
    "balanced_interval",
    "counts_in_groups",
    "detectable_advantage",
    "effective_rows",
    "paired_covariance",
    "recalls",
    "smallest_bound",
    "standardised",
    "stratum_means",
]

Array = NDArray[Any]

#: Values of one block of permuted labels: 2²⁴ float32 are 64 MB.
BLOCK_VALUES = 2**24

#: Statistics closer than this share of their spread are ties: rounding, not evidence.
TIE = 1e-6


def accuracy_interval(hits: float, n: float, alpha: float) -> tuple[float, float]:
    """Clopper and Pearson's exact interval for a share, of confidence 1 − alpha.

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
    """Clopper and Pearson's intervals, (K, 2): all at once, since there may be many classes."""
    from scipy.special import betaincinv

    misses, some, failed = counts - hits, hits > 0, hits < counts
    low, high = np.zeros(len(hits)), np.ones(len(hits))
    low[some] = betaincinv(hits[some], misses[some] + 1, alpha / 2)
    high[failed] = betaincinv(hits[failed] + 1, misses[failed], 1 - alpha / 2)
    return np.stack([low, high], axis=1)


def recalls(guesses: NDArray[np.int64], codes: NDArray[np.int64], n_classes: int) -> Array:
    """The share of each class that is guessed right: their mean is the balanced accuracy.

    NaN for a class without rows.

    Examples
    --------
    >>> recalls(np.array([0, 0, 0, 1]), np.array([0, 0, 1, 1]), 2)
    array([1. , 0.5])
    """
    counts = np.bincount(codes, minlength=n_classes)
    hits = np.bincount(codes[guesses == codes], minlength=n_classes)
    return np.divide(hits, counts, out=np.full(n_classes, np.nan), where=counts > 0)


def balanced_interval(shares: Array, counts: Array, alpha: float) -> tuple[float, float]:
    """An interval of confidence 1 − alpha for the balanced accuracy, given recalls by class.

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
    """Down and up, from the exact interval of each class."""
    ends = _exact_ends(np.round(shares * counts, 6), counts, alpha)  # no rounding errors as hits
    joined: Array = np.linalg.norm(ends - shares[:, None], axis=0) / len(counts)
    return joined


def _pooled_arms(shares: Array, counts: Array, alpha: float) -> Array:
    """Down and up, from the exact interval of one class that varies as much as the mean does."""
    middle = float(np.mean(shares))
    # Two rows of the pooled share in each class: luck alone makes a recall 0 or 1 of few rows,
    # which would otherwise seem not to vary at all.
    drawn_in = (shares * counts + 2 * middle) / (counts + 2)
    variance = float(np.sum(drawn_in * (1 - drawn_in) / counts)) / len(counts) ** 2
    n = middle * (1 - middle) / variance if variance > 0 else effective_rows(counts)
    low, high = accuracy_interval(middle * n, n, alpha)
    return np.array([middle - low, high - middle])


def counts_in_groups(
    guesses: NDArray[np.int64],
    codes: NDArray[np.int64],
    groups: NDArray[np.int64] | None,
    n_classes: int,
    alpha: float | None = None,
) -> Array:
    """Independent rows of each class that would tell as much as these rows, which are in groups.

    The counts of the classes over the design effect: the variance of the balanced accuracy by its
    variation from group to group, over that of independent rows. It is one at least: groups may
    by luck seem to vary less. With ``alpha`` it is larger, as Student's interval of the confidence
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


def _design(
    guesses: NDArray[np.int64],
    codes: NDArray[np.int64],
    groups: NDArray[np.int64],
    n_classes: int,
) -> tuple[float, float]:
    """The design effect, and the degrees of freedom of its estimate."""
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


def paired_covariance(
    guesses: Sequence[NDArray[np.int64]],
    codes: NDArray[np.int64],
    groups: NDArray[np.int64] | None,
    n_classes: int,
) -> Array:
    """How the balanced accuracies of several guesses of the same rows vary together, (F, F).

    By the variation from row to row, or from group to group: guesses that are wrong on the same
    rows differ by less luck than their own intervals suggest.

    Examples
    --------
    >>> codes = np.arange(100) % 2
    >>> guess = np.where(np.arange(100) < 60, codes, 1 - codes)
    >>> paired_covariance([guess, guess], codes, None, 2).round(4)
    array([[0.0024, 0.0024],
           [0.0024, 0.0024]])
    """
    units = np.arange(len(codes)) if groups is None else groups
    weights = 1 / (n_classes * np.bincount(codes, minlength=n_classes)[codes])
    luck = np.zeros((len(guesses), int(units.max()) + 1))
    for of_one, guess in zip(luck, guesses, strict=True):
        shares = recalls(guess, codes, n_classes)
        np.add.at(of_one, units, weights * ((guess == codes) - shares[codes]))
    n_units = len(np.unique(units))
    joint: Array = luck @ luck.T * (n_units / max(n_units - 1, 1))
    return joint


def effective_rows(counts: Array) -> float:
    """Rows in equal classes whose balanced accuracy varies as much as that of these classes.

    Examples
    --------
    >>> effective_rows(np.array([50, 50])), round(effective_rows(np.array([90, 10])))
    (100.0, 36)
    """
    return float(len(counts) ** 2 / np.sum(1.0 / np.asarray(counts)))


def detectable_advantage(
    chance: float, n: int, alpha: float, *, power: float = 0.8
) -> float | None:
    """The smallest advantage over ``chance`` that n rows show with probability ``power``.

    By the exact one-sided binomial test of level ``alpha``; None if even a perfect attacker could
    not be told from luck.

    Examples
    --------
    >>> round(detectable_advantage(0.5, 1000, 0.05), 3)
    0.04
    >>> detectable_advantage(0.9, 10, 0.05) is None
    True
    """
    from scipy.special import betaincinv
    from scipy.stats import binom

    enough = int(binom.isf(alpha, n, chance)) + 1  # hits that luck reaches with chance ≤ alpha
    if enough > n:
        return None
    # P(Bin(n, p) ≥ c) is the regularised incomplete beta function at p, which has an inverse.
    return float(betaincinv(enough, n - enough + 1, power)) - chance


def smallest_bound(
    counts: Array, alpha: float, n_attackers: int = 1, *, power: float = 0.8
) -> float:
    """The smallest advantage that these rows can rule out, where nothing leaks.

    The strongest of attackers that only guess has an upper bound below it with probability
    ``power``, or more where attackers agree with each other.

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
    luck = norm.ppf(power ** (1 / n_attackers))
    spread = (chance * (1 - chance) / effective_rows(counts)) ** 0.5
    guesses = np.full(len(counts), chance)
    width = balanced_interval(guesses, counts, alpha / n_attackers)[1] - chance
    return float(width + luck * spread)


def agreement_p_values(
    probabilities: Sequence[Array],
    guesses: Sequence[NDArray[np.int64]],
    codes: NDArray[np.int64],
    seed: int,
    *,
    n_permutations: int = 999,
    groups: NDArray[np.int64] | None = None,
    strata: NDArray[np.int64] | None = None,
) -> Array:
    """Corrected p-values, one for each attacker, that its guesses agree with the labels by luck.

    An attacker agrees with labels by its hits, every class counted alike, and by the probability
    that it gave to them. Labels are permuted over the rows while guesses stay; the largest
    agreement of all attackers, in units of its spread, is what each is compared with (Westfall and
    Young 1993). Exact for any number of attackers, however they depend on each other, and for
    unbalanced classes. Rows in groups get the labels of another group: exact if groups are
    independent of each other, and a group's label of its rows and of how many they are. Where
    labels vary within groups of several sizes it is nearly so.

    O(B·K·n·attackers) time, in blocks of 64 MB.

    Parameters
    ----------
    probabilities : sequence of arrays of shape (n, K)
        The attackers', fitted on other rows.
    guesses : sequence of arrays of shape (n,)
        The classes that they say.
    codes : array of shape (n,)
        The labels 0…K−1.
    groups : array of shape (n,), optional
        Numbers of the groups that rows come in.
    strata : array of shape (n,), optional
        Labels are permuted within each: what is known anyhow explains no agreement.

    Examples
    --------
    >>> codes = np.arange(100) % 2
    >>> knows, blind = np.eye(2)[codes], np.full((100, 2), 0.5)
    >>> agreement_p_values([knows, blind], [codes, 0 * codes], codes, seed=0)
    array([0.001, 1.   ])
    """
    K = probabilities[0].shape[1]
    shares = group_shares(codes, groups, K)
    hits = [np.eye(K)[guess] for guess in guesses]
    scores = [s * (1 - shares) for s in (*hits, *(p * shares for p in probabilities))]
    stacked = _in_units(np.stack(scores, axis=2), strata)  # (n, K, 2·attackers)
    shuffled, rng = shuffler(codes, groups, strata), np.random.default_rng(seed)
    agreement = _agreement(stacked, codes, lambda: shuffled(rng), n_permutations)
    standard = standardised(agreement)  # (1 + B, 2·attackers)
    best = np.maximum(*np.split(standard, 2, axis=1))  # (1 + B, attackers)
    largest = best[1:].max(axis=1)
    extreme = (largest[:, None] >= best[0] - TIE).sum(axis=0)
    return (1 + extreme) / (1 + n_permutations)


def _in_units(scores: Array, strata: NDArray[np.int64] | None = None) -> NDArray[np.float32]:
    """Scores without their means and of size one, so that single precision loses nothing.

    Neither changes the order of permutations: the first is a constant, the second a unit. So it is
    within strata, where an attacker that knows nothing else has the same score throughout.
    """
    centred = scores - (scores.mean(axis=0) if strata is None else stratum_means(scores, strata))
    size = np.abs(centred).max(axis=(0, 1))
    size[size <= 1e-12] = np.inf  # an attacker that says the same of every row
    return (centred / size).astype(np.float32)


def stratum_means(values: Array, strata: NDArray[np.int64]) -> Array:
    """The mean of the values of each row's stratum, in the shape of the values.

    Examples
    --------
    >>> stratum_means(np.array([1.0, 3.0, 7.0]), np.array([0, 0, 1]))
    array([2., 2., 7.])
    """
    _, number, counts = np.unique(strata, return_inverse=True, return_counts=True)
    sums = np.zeros((len(counts), *values.shape[1:]))
    np.add.at(sums, number, values)
    means: Array = sums[number] / counts[number].reshape(-1, *(1,) * (values.ndim - 1))
    return means


def _agreement(
    scores: Array,
    codes: NDArray[np.int64],
    permuted: Callable[[], NDArray[np.int64]],
    n_permutations: int,
) -> Array:
    """Scores of classes against other rows, observed first and permuted then: (1 + B, 2·attackers).

    Means against means, and not sums: in groups of several sizes a class does not keep its number
    of rows, which says nothing about the attackers.
    """
    n, K, _ = scores.shape
    means = [_contrasts(scores, codes[None], K)]
    step = max(1, BLOCK_VALUES // n)
    for start in range(0, n_permutations, step):
        block = [permuted() for _ in range(min(step, n_permutations - start))]
        means.append(_contrasts(scores, np.stack(block), K))
    return np.concatenate(means)


def _contrasts(scores: Array, labels: NDArray[np.int64], K: int) -> Array:
    """Mean score of each class's rows less that of the others, summed over classes.

    Scores add to zero, so that the sum over the others is known too.
    """
    n = len(scores)
    total = np.zeros((len(labels), scores.shape[2]))
    for k in range(K):
        of_class = (labels == k).astype(np.float32)
        rows = of_class.sum(axis=1, keepdims=True).clip(min=1, max=n - 1)
        total += (of_class @ scores[:, k]) * (n / (rows * (n - rows)))
    return total


def standardised(values: Array) -> Array:
    """In units of the spread over observed and permuted labels, which so stay exchangeable."""
    centred = values - values.mean(axis=0)
    spread = centred.std(axis=0)
    return centred / np.where(spread > 0, spread, 1.0)
