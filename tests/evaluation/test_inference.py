"""Intervals, power and corrected p-values: against scipy, and under the null."""

import numpy as np
import pytest
from scipy.stats import binom, binomtest, fisher_exact

from unspot.evaluation.inference import (
    accuracy_interval,
    agreement_p_values,
    balanced_interval,
    detectable_advantage,
    effective_rows,
)


def by_the_odds(probabilities, codes, seed, **options):
    """Attackers whose guesses are their most probable classes."""
    guesses = [p.argmax(axis=1) for p in probabilities]
    return agreement_p_values(probabilities, guesses, codes, seed, **options)


@pytest.mark.parametrize("hits", [0, 1, 37, 99, 100])
@pytest.mark.parametrize("alpha", [0.05, 0.005])
def test_the_interval_is_clopper_and_pearsons(hits, alpha):
    oracle = binomtest(hits, 100).proportion_ci(1 - alpha, method="exact")
    assert accuracy_interval(hits, 100, alpha) == pytest.approx((oracle.low, oracle.high))


@pytest.mark.parametrize(("majority", "n"), [(0.5, 200), (1 / 3, 6599), (0.9, 300)])
def test_a_detectable_advantage_is_detected_four_times_in_five(majority, n):
    alpha = 0.05 / 18
    advantage = detectable_advantage(majority, n, alpha)
    enough = next(c for c in range(n + 1) if binom.sf(c - 1, n, majority) <= alpha)
    assert binom.sf(enough - 1, n, majority + advantage) == pytest.approx(0.8, abs=1e-6)
    assert advantage > detectable_advantage(majority, 4 * n, alpha) > 0


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


def test_too_few_rows_detect_nothing():
    assert detectable_advantage(0.99, 30, 0.025) is None


def test_one_attacker_and_two_classes_are_fishers_exact_test():
    rng = np.random.default_rng(0)
    codes = (rng.random(80) < 0.3).astype(int)
    guesses = np.where(rng.random(80) < 0.3, codes, rng.integers(2, size=80))
    table = [[np.sum((guesses == i) & (codes == j)) for j in (0, 1)] for i in (0, 1)]
    expected = fisher_exact(table, alternative="greater").pvalue
    found = by_the_odds([np.eye(2)[guesses]], codes, 0, n_permutations=9999)[0]
    assert 0.001 < expected < 0.9
    assert found == pytest.approx(expected, abs=4 * (expected / 9999) ** 0.5)


def test_p_values_are_valid_for_many_dependent_attackers():
    rng = np.random.default_rng(0)
    smallest = []
    for i in range(100):
        codes = rng.permutation(np.arange(60) % 3)
        shared = rng.dirichlet(np.ones(3), size=60)
        attackers = [0.7 * shared + 0.3 * rng.dirichlet(np.ones(3), size=60) for _ in range(6)]
        smallest.append(by_the_odds(attackers, codes, i, n_permutations=99).min())
    for level in (0.05, 0.2, 0.5):
        noise = 3 * (level * (1 - level) / 100) ** 0.5
        assert abs(np.mean(np.array(smallest) <= level) - level) < noise


def test_a_leak_below_the_majority_is_seen():
    """Nine rows in ten are of one class: nothing beats guessing it, and still the rest is told."""
    rng = np.random.default_rng(0)
    codes = (np.arange(1000) % 10 == 0).astype(int)
    chance = np.clip(0.1 + 0.1 * codes + 0.1 * rng.normal(size=1000), 0, 0.49)
    attacker = np.stack([1 - chance, chance], axis=1)
    assert (attacker.argmax(axis=1) == codes).mean() == 0.9
    assert by_the_odds([attacker], codes, 0)[0] == 0.001


def test_confidence_counts_however_faint():
    codes = np.arange(400) % 2
    faint = 0.5 + 1e-7 * np.stack([1 - codes, codes], axis=1)
    assert by_the_odds([faint], codes, 0)[0] == 0.001
    assert by_the_odds([np.full((400, 2), 0.5)], codes, 0)[0] == 1.0


def test_blocks_of_permutations_change_nothing(monkeypatch):
    rng = np.random.default_rng(0)
    codes, attacker = rng.integers(3, size=50), rng.dirichlet(np.ones(3), size=50)
    whole = by_the_odds([attacker], codes, 0)
    monkeypatch.setattr("unspot.evaluation.inference.BLOCK_VALUES", 120)
    assert by_the_odds([attacker], codes, 0) == pytest.approx(whole)
