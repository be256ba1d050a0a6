"""Bets on labels are fair whatever the shares of the classes, and bounds hold at all times."""

from itertools import permutations

import numpy as np
import pytest
from scipy.optimize import minimize

from unspot.evaluation import betting
from unspot.evaluation.betting import growth, log_mean_exp, mean_recall_bound

ALPHA = 0.05


def guessed(rng, codes, shares, advantage=0.0):
    """Guesses with an advantage over guessing, and probabilities that lean to them."""
    n, K = len(codes), len(shares)
    knows = rng.random(n) < advantage * K / (K - 1)
    guesses = np.where(knows, codes, rng.integers(K, size=n))
    probabilities = shares * np.exp(0.6 * rng.normal(size=(n, K)) + (guesses[:, None] == range(K)))
    return guesses, probabilities / probabilities.sum(axis=1, keepdims=True)


@pytest.mark.parametrize("codes", [(0, 0, 1, 1, 1), (0, 1, 1, 2, 2)])
def test_the_game_is_exactly_fair_over_all_orders_of_the_labels(codes):
    rng = np.random.default_rng(0)
    shares = np.array([0.7, 0.1, 0.2])[: max(codes) + 1]  # wrong ones: they do not matter
    guesses, probabilities = guessed(rng, np.array(codes), shares, 0.3)
    made = [
        np.exp(growth(guesses, probabilities, shares, np.array(order), 0))
        for order in permutations(codes)
    ]
    np.testing.assert_allclose(np.mean(made, axis=0), 1.0, rtol=1e-10)
    assert np.ptp(made, axis=0).min() > 0.01  # bets that never win nor lose would be fair as well


def test_a_batch_of_one_class_tells_nothing():
    codes = np.ones(20, dtype=int)
    grown = growth(codes, np.full((20, 2), 0.5), np.array([0.5, 0.5]), codes, 0)
    np.testing.assert_allclose(grown, 0.0, atol=1e-12)


def test_certainty_that_is_wrong_does_not_lose_everything():
    codes = np.arange(10) % 2
    grown = growth(1 - codes, np.eye(2)[1 - codes], np.array([0.5, 0.5]), codes, 0)
    assert np.isfinite(grown).all()


def watched(rng, shares, advantage, n_batches, size, *, in_order=False):
    """The wealth after every batch of two attackers' bets, their hits, and the class counts."""
    wealth, hits, counts = np.zeros((2, betting.N_BETS)), [], []
    for batch in range(n_batches):
        codes = rng.choice(len(shares), size, p=shares)
        codes = np.sort(codes) if in_order else codes
        for attacker in range(2):
            guesses, probabilities = guessed(rng, codes, shares, advantage)
            wealth[attacker] += growth(guesses, probabilities, shares, codes, [batch, attacker])
        hits.append(np.bincount(codes[guesses == codes], minlength=len(shares)))
        counts.append(np.bincount(codes, minlength=len(shares)))
        yield log_mean_exp(wealth.ravel()), sum(hits), sum(counts)


def watched_bounds(*arguments):
    shares = arguments[1]
    return np.array(
        [
            (wealth, mean_recall_bound(hits, counts, shares, ALPHA) - 1 / len(shares))
            for wealth, hits, counts in watched(*arguments)
        ]
    ).T


@pytest.mark.parametrize(
    ("shares", "in_order"), [((0.5, 0.5), False), ((0.9, 0.1), True), ((0.2,) * 5, False)]
)
def test_false_alarms_are_rare_however_often_one_looks(shares, in_order):
    rng = np.random.default_rng(0)
    peaks = [
        max(wealth for wealth, *_ in watched(rng, np.array(shares), 0.0, 8, 30, in_order=in_order))
        for _ in range(200)
    ]
    assert np.mean(np.array(peaks) >= np.log(1 / ALPHA)) <= ALPHA
    assert max(peaks) > 0.5  # the money was at stake


def test_a_leak_is_found_and_the_bound_stays_above_it():
    rng = np.random.default_rng(0)
    for _ in range(3):
        wealth, upper = watched_bounds(rng, np.array([0.6, 0.4]), 0.1, 15, 100)
        assert wealth.max() > np.log(1 / ALPHA)
        assert upper.min() > 0.1
        assert upper[-1] < upper[0]


def test_the_bound_comes_down_to_the_margin_without_a_leak():
    upper = watched_bounds(np.random.default_rng(0), np.array([0.5, 0.5]), 0.0, 30, 100)[1]
    assert upper[0] > 0.1
    assert upper[-1] < 0.05


def test_the_bound_misses_with_at_most_alpha_at_any_time():
    """Recalls of 0.2 and 0.9 that change places: bounds are on the mean over the rows so far."""
    rng, shares, missed = np.random.default_rng(0), np.array([0.5, 0.5]), 0
    for _ in range(200):
        hits, counts, sums = np.zeros(2), np.zeros(2), np.zeros(2)
        bad = False
        for look in range(6):
            p = np.array([0.2, 0.9])[:: 1 if look % 2 else -1]
            n = rng.multinomial(20, shares)
            hits, counts, sums = hits + rng.binomial(n, p), counts + n, sums + n * p
            bound = mean_recall_bound(hits, counts, shares, 0.2)
            bad |= bound < (sums / np.maximum(counts, 1)).mean()
        missed += bad
    assert missed / 200 <= 0.2


@pytest.mark.parametrize("counts", [(80, 300, 120), (3, 200, 400)])
def test_the_bound_of_a_slope_is_the_largest_mean_recall_that_it_allows(counts):
    counts, hits = np.array(counts), np.round(np.array(counts) * 0.4)
    slopes, level = 0.5 * counts.sum() / counts / 3, np.log(200)

    def money_left(recalls):
        return level + slopes @ hits + counts @ np.log1p(np.expm1(-slopes) * recalls)

    found = minimize(
        lambda recalls: -recalls.mean(),
        np.full(3, 0.3),
        constraints={"type": "ineq", "fun": money_left},
        bounds=[(0, 1)] * 3,
    )
    bound = betting._bound_of_slope(hits, counts, slopes, level)
    assert bound == pytest.approx(-found.fun, abs=1e-5)


def test_a_class_without_rows_may_be_known_entirely():
    bound = mean_recall_bound(np.array([500, 0]), np.array([1000, 0]), np.array([0.5, 0.5]), ALPHA)
    assert 0.75 < bound < 0.8
