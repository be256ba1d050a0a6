"""Evidence that stays valid however often one looks: bets on labels, and bounds on recalls.

Both are martingales: whoever plays a fair game multiplies their money by 1/α, at any time at all,
with a probability of at most α (Ville 1939; Shafer and Vovk, *Game-Theoretic Foundations for
Probability and Finance*, 2019).
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = ["N_BETS", "growth", "log_mean_exp", "mean_recall_bound"]

Array = NDArray[Any]

#: Bets on guesses: by these logarithms, the odds of the guessed class are raised. With an advantage
#: of a over two classes 4a gains most, so they range from 1 point to all. One bets against it:
#: an attacker that is wrong more often than luck has found something too.
_RAISES = (-0.2, 0.05, 0.1, 0.2, 0.4, 0.8, 1.6, 3.2)

#: Bets on probabilities: an attacker's odds to such a power. Small ones do not trust it much.
_POWERS = (0.25, 0.5, 1.0)

#: The bets that are made on every attacker.
N_BETS = len(_RAISES) + len(_POWERS)

#: An attacker that is certain and wrong must not lose all: odds are cut at e⁴.
_MOST_LOG_ODDS = 4.0

#: Slopes of the bounds on recalls: the best for 50 rows, down to that for ten million.
_SLOPES = 2.0 ** np.arange(1, -10, -1)


def growth(
    guesses: NDArray[np.int64],
    probabilities: Array,
    shares: Array,
    codes: NDArray[np.int64],
    seed: Any,
) -> Array:
    """The logarithm of what every bet on an attacker makes of 1, in one batch of rows, (N_BETS,).

    The labels of the batch are turned up one after the other, in a random order. Whoever knows how
    often each class is still to come, mₖ times, and nothing else, must take the odds mₖ: if rows
    and labels are independent these are the true ones, whatever the shares of the classes are,
    since all orders of the labels are equally likely then. A bet changes them to mₖ·fₖ by what the
    attacker says about the row, and is paid the ratio of both probabilities. So the expected value
    of what it makes of 1 is exactly 1. Cost: O(n·K) for each bet.

    Parameters
    ----------
    guesses, probabilities : arrays of shape (n,) and (n, K)
        The attacker's, made without the labels of these rows.
    shares : array of shape (K,)
        The classes' shares that the probabilities were learned with.
    codes : array of shape (n,)
        The labels.
    seed : anything that numpy.random.default_rng takes
        Decides the order: that of a file may follow the labels.

    Examples
    --------
    >>> codes = np.arange(200) % 2
    >>> good = growth(codes, np.eye(2)[codes], np.array([0.5, 0.5]), codes, 0)
    >>> bad = growth(1 - codes, np.eye(2)[1 - codes], np.array([0.5, 0.5]), codes, 0)
    >>> bool(good.max() > 100), int((bad > 0).sum())
    (True, 1)
    """
    order = np.random.default_rng(seed).permutation(len(codes))
    codes, guesses, rows = codes[order], guesses[order], np.arange(len(codes))
    is_label = codes[:, None] == np.arange(len(shares))
    left = is_label[::-1].cumsum(axis=0)[::-1]  # (n, K), with the row itself
    fair = left / left.sum(axis=1, keepdims=True)
    raises = np.array(_RAISES)[:, None]
    on_guesses = raises * (guesses == codes) - np.log1p(np.expm1(raises) * fair[rows, guesses])
    with np.errstate(divide="ignore"):
        told = np.log(probabilities[order]) - np.log(shares)
    told = np.clip(told, -_MOST_LOG_ODDS, _MOST_LOG_ODDS)
    on_probabilities = [
        power * told[rows, codes] - np.log((fair * np.exp(power * told)).sum(axis=1))
        for power in _POWERS
    ]
    return np.array([bet.sum() for bet in (*on_guesses, *on_probabilities)])


def log_mean_exp(values: Array) -> float:
    """The logarithm of the mean of exp(values): money that began in equal parts.

    Examples
    --------
    >>> log_mean_exp(np.array([800.0, 800.0]))
    800.0
    """
    largest = np.max(values)
    return float(largest + np.log(np.mean(np.exp(values - largest))))


def mean_recall_bound(hits: Array, counts: Array, shares: Array, alpha: float) -> float:
    """An upper bound on the mean of the classes' recalls that holds at all times at once.

    With a probability of at least 1 − alpha, at no time is the mean above the bound, where a recall
    is the mean over the rows of a class so far of the probability of a hit, given all before it. So
    attackers may learn anew between batches, and classes may be of any size. For a lower bound,
    count misses instead.

    For every slope s, Π exp(−λₖH)/(1 − p + p·exp(−λₖ)) over all rows, with λₖ = s/(K·shareₖ), the
    row's hit H and its probability p, is fair. Its logarithm is convex in p, so it is at least that
    of the mean recalls rₖ, and the largest Σ rₖ/K with −Σ nₖ·log(1 − (1 − exp(−λₖ))rₖ) ≤ B has a
    closed form. The betting of Waudby-Smith and Ramdas (2023), for several means together, with a
    geometric grid of bets as in Howard, Ramdas, McAuliffe and Sekhon (2021).

    Parameters
    ----------
    hits, counts : arrays of shape (K,)
        Of all rows so far.
    shares : array of shape (K,)
        About how large the classes are, fixed before the first row. The bound holds for any, and
        is narrowest for the true ones.
    alpha : float

    Examples
    --------
    >>> shares = np.array([0.5, 0.5])
    >>> [round(mean_recall_bound(shares * n / 2, shares * n, shares, 0.05), 3)
    ...  for n in (100, 10_000)]
    [0.666, 0.516]
    """
    level = np.log(len(_SLOPES) / alpha)
    return min(_bound_of_slope(hits, counts, s / (len(shares) * shares), level) for s in _SLOPES)


def _bound_of_slope(hits: Array, counts: Array, slopes: Array, level: float) -> float:
    """The largest mean recall at which the game of these slopes has made at most exp(level)."""
    recalls = np.ones(len(counts))
    free = counts > 0  # a class without rows may have any recall
    c = -np.expm1(-slopes)
    while free.any():
        # A recall of 1 costs nₖ·λₖ; the others share what is left, at equal marginal costs.
        money = level + slopes @ hits - (counts * slopes)[~free].sum()
        n, cost = counts[free].sum(), (counts * c)[free]
        unit = np.exp(-(money + counts[free] @ np.log(cost)) / n)
        recalls[free] = (1 - unit * cost) / c[free]
        beyond = free & (recalls > 1)
        if not beyond.any():
            break
        recalls[beyond] = 1.0
        free &= ~beyond
    return float(np.clip(recalls.mean(), 0.0, 1.0))
