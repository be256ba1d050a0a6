"""Intervals and the smallest bounds that rows can confirm: against scipy, and in simulation."""

import numpy as np
import pytest
from scipy.stats import binomtest

from unspot.evaluation.inference import (
    accuracy_interval,
    balanced_interval,
    effective_rows,
    smallest_bound,
    smallest_share,
)


@pytest.mark.parametrize("hits", [0, 1, 37, 99, 100])
@pytest.mark.parametrize("alpha", [0.05, 0.005])
def test_the_interval_is_clopper_and_pearsons(hits, alpha):
    oracle = binomtest(hits, 100).proportion_ci(1 - alpha, method="exact")
    assert accuracy_interval(hits, 100, alpha) == pytest.approx((oracle.low, oracle.high))


@pytest.mark.parametrize("counts", [(200, 200), (900, 100), (80, 80, 80)])
@pytest.mark.parametrize("n_attackers", [1, 5])
def test_the_smallest_bound_is_confirmed_four_times_in_five(counts, n_attackers):
    """Attackers that guess, whose upper ends are all to be below it."""
    rng, n, alpha = np.random.default_rng(0), np.array(counts), 0.05
    K, bound = len(n), smallest_bound(n, alpha, n_attackers)
    hits = rng.binomial(n, 1 / K, size=(300, n_attackers, K)) / n
    highest = [max(balanced_interval(one, n, alpha / n_attackers)[1] for one in run)
               for run in hits]  # fmt: skip
    assert np.mean(np.array(highest) - 1 / K <= bound) == pytest.approx(0.8, abs=0.1)
    assert smallest_bound(4 * n, alpha, n_attackers) == pytest.approx(bound / 2, rel=0.1)


@pytest.mark.parametrize("hits", [0, 1, 37, 100])
def test_the_balanced_interval_of_one_class_is_exact(hits):
    found = balanced_interval(np.array([hits / 100]), np.array([100]), 0.05)
    assert found == pytest.approx(accuracy_interval(hits, 100, 0.05))


@pytest.mark.parametrize("counts", [(450, 450), (855, 45), (300, 40, 10)])
@pytest.mark.parametrize("knowing", [0.0, 0.3, 0.9])
def test_the_balanced_interval_covers_the_truth(counts, knowing):
    """At least as often as it says, whatever the shares of the classes."""
    rng, n = np.random.default_rng(0), np.array(counts)
    chances = np.clip(knowing + (1 - knowing) * rng.dirichlet(np.ones(len(n))), 0, 1)
    draws = rng.binomial(n, chances, size=(2000, len(n))) / n
    ends = np.array([balanced_interval(shares, n, 0.05) for shares in draws])
    inside = (ends[:, 0] <= chances.mean()) & (chances.mean() <= ends[:, 1])
    assert inside.mean() > 0.945
    width = np.diff(ends, axis=1).mean()
    assert width < 6 * np.sqrt((chances * (1 - chances) / n).sum() + 1 / n.min()) / len(n)


def sizes(n_classes, kind):
    """Rows of each class: 50 of all, or from 1000 down to 8."""
    if kind == "equal":
        return np.full(n_classes, 50)
    return np.geomspace(1000, 8, n_classes).astype(int)


@pytest.mark.parametrize("n_classes", [2, 10, 100])
@pytest.mark.parametrize("kind", ["equal", "unequal"])
@pytest.mark.parametrize("knowing", [0.0, 0.5, 0.97])
@pytest.mark.parametrize("favourites", [False, True])
def test_neither_end_of_the_balanced_interval_misses_more_often_than_it_says(
    n_classes, kind, knowing, favourites
):
    """Of many classes some have no hit by luck, or no miss: their arms alone would be too short."""
    rng, n, alpha, draws = np.random.default_rng(0), sizes(n_classes, kind), 0.05, 200
    even = np.full(n_classes, 1 / n_classes)
    guess = rng.dirichlet(np.ones(n_classes)) if favourites else even
    chances = knowing + (1 - knowing) * guess
    hits = rng.binomial(n, chances, size=(draws, n_classes))
    low, high = np.array([balanced_interval(shares, n, alpha) for shares in hits / n]).T
    nominal = alpha / 2
    allowed = nominal + 2.6 * (nominal * (1 - nominal) / draws) ** 0.5
    assert np.mean(low > chances.mean() + 1e-12) <= allowed
    assert np.mean(high < chances.mean() - 1e-12) <= allowed


@pytest.mark.parametrize("shares", [(0.5, 0.5), (0.7, 0.4), (0.9, 0.2), (0.2, 0.4, 0.6)])
def test_few_classes_are_joined_by_their_own_intervals(shares):
    n = np.full(len(shares), 400)
    ends = np.array([accuracy_interval(round(400 * s), 400, 0.05) for s in shares])
    arms = np.sqrt(((ends - np.array(shares)[:, None]) ** 2).sum(axis=0)) / len(shares)
    expected = np.mean(shares) + np.array([-1, 1]) * arms
    assert balanced_interval(np.array(shares), n, 0.05) == pytest.approx(expected, abs=1e-3)


@pytest.mark.parametrize("share", [0.0, 1.0])
def test_all_wrong_and_all_right_have_an_interval_on_one_side(share):
    low, high = balanced_interval(np.full(30, share), np.full(30, 50), 0.05)
    assert (low, high)[int(share)] == share
    assert 0.002 < high - low < 0.02


def test_unbalanced_classes_are_worth_fewer_rows():
    assert effective_rows(np.array([300, 300, 300])) == pytest.approx(900)
    counts = np.array([855, 45])
    guesses = np.random.default_rng(0).random((20_000, 2))  # recalls vary as p(1 − p) / n
    spread = (0.5 + (guesses - 0.5) * np.sqrt(12 * 0.25 / counts)).mean(axis=1).std()
    assert spread == pytest.approx((0.25 / effective_rows(counts)) ** 0.5, rel=0.02)


def test_more_attackers_need_more_rows_and_no_rows_confirm_nothing():
    counts = np.array([200, 200])
    assert smallest_bound(counts, 0.05, 9) > smallest_bound(counts, 0.05)
    assert smallest_bound(np.array([1, 1]), 0.05) >= 0.4
    assert smallest_share(1000, 0.05, 9) > smallest_share(1000, 0.05) > smallest_share(4000, 0.05)
