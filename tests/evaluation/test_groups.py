"""Rows in groups: no leak where only groups resemble each other, and true leaks are found."""

from dataclasses import replace
from functools import partial

import numpy as np
import pytest
from sklearn.neighbors import KNeighborsClassifier

from unspot import Dataset, Split, certify, evaluate
from unspot.data.concept import Classes
from unspot.evaluation import two_sample
from unspot.evaluation.attack_models import ClassRows
from unspot.evaluation.attackers import attack
from unspot.evaluation.description_length import _after_groups, mdl
from unspot.evaluation.inference import balanced_interval, counts_in_groups, recalls
from unspot.evaluation.two_sample import (
    _class_weights,
    _in_metric,
    _quadratic_forms,
    two_sample_test,
)
from unspot.lab.description_length import fit_estimator

FAST = ["logistic", "trees"]


def sizes_of(kind, labels, rng):
    """Rows of each group."""
    if kind == "equal":
        return np.full(len(labels), 10)
    if kind == "unequal":
        return np.minimum(1 + rng.geometric(0.1, size=len(labels)), 200)
    return np.where(labels == 1, 40, 4)  # groups of the second class are large, and that is all


def labels_of(kind, labels, groups, rng):
    """Labels of rows: of their group; or each group has its share of them, in order or not."""
    if kind == "one":
        return labels[groups]
    z = (rng.random(len(groups)) < rng.beta(0.5, 0.5, size=len(labels))[groups]).astype(int)
    return z[np.lexsort((z, groups))] if kind == "sorted" else z


def users(seed, n_groups=60, sizes="equal", labels="one", rare=0.5, d=5, leak=0.0):
    """Rows around a place of each user, labels of users that have nothing to do with the place."""
    rng = np.random.default_rng(seed)
    of_group = rng.permutation(np.arange(n_groups) < rare * n_groups).astype(int)
    groups = np.repeat(np.arange(n_groups), sizes_of(sizes, of_group, rng))
    X = rng.normal(size=(n_groups, d))[groups] + 0.3 * rng.normal(size=(len(groups), d))
    z = labels_of(labels, of_group, groups, rng)
    X[:, 0] += leak * z
    return X, z, groups


# -- intervals -------------------------------------------------------------------------------------


def guessed(rng, n_groups, sizes, labels, leak):
    """Guesses by a threshold along one direction, in which users differ."""
    of_group = rng.integers(2, size=n_groups)
    of_group[:4] = 0, 0, 1, 1
    groups = np.repeat(np.arange(n_groups), sizes_of(sizes, of_group, rng))
    z = labels_of(labels, of_group, groups, rng)
    x = rng.normal(size=n_groups)[groups] + 0.3 * rng.normal(size=len(groups)) + leak * z
    return (x > leak / 2).astype(int), z, groups


@pytest.mark.parametrize("n_groups", [20, 60, 200])
@pytest.mark.parametrize("sizes", ["equal", "unequal"])
@pytest.mark.parametrize("labels", ["one", "share"])
def test_intervals_of_groups_cover_the_truth(n_groups, sizes, labels):
    """About 95 %, less three standard errors; by rows half as often at worst."""
    guesses, z, _ = guessed(np.random.default_rng(1), 100_000, sizes, labels, 1.0)
    truth, inside, inside_by_row = recalls(guesses, z, 2).mean(), [], []
    for seed in range(100):
        guesses, z, groups = guessed(np.random.default_rng(seed), n_groups, sizes, labels, 1.0)
        shares = recalls(guesses, z, 2)
        for counts, found in (
            (counts_in_groups(guesses, z, groups, 2, 0.05), inside),
            (np.bincount(z), inside_by_row),
        ):
            low, high = balanced_interval(shares, counts, 0.05)
            found.append(low <= truth <= high)
    assert np.mean(inside) >= 0.95 - 3 * (0.95 * 0.05 / 100) ** 0.5
    assert np.mean(inside_by_row) < 0.85


def test_groups_are_never_worth_more_than_their_rows():
    rng = np.random.default_rng(0)
    codes, groups = np.arange(400) % 2, np.arange(400) // 4
    independent = counts_in_groups(rng.integers(2, size=400), codes, groups, 2)
    assert np.all(independent <= 200)
    assert independent.min() > 130
    # One right and one wrong of each class in every group: they do not vary at all.
    even = counts_in_groups(np.where(np.arange(400) % 4 < 2, codes, 1 - codes), codes, groups, 2)
    np.testing.assert_array_equal(even, [200, 200])
    # All right: nothing shows that the rows of a group have more than one voice.
    np.testing.assert_array_equal(counts_in_groups(codes, codes, groups, 2), [100, 100])
    few = [counts_in_groups(codes * 0, codes, groups, 2, alpha) for alpha in (None, 0.05, 0.001)]
    assert few[0][0] > few[1][0] > few[2][0]


# -- the two-sample test ---------------------------------------------------------------------------


def test_the_statistic_leaves_out_pairs_of_one_group():
    rng = np.random.default_rng(0)
    groups = np.repeat(np.arange(9), rng.integers(1, 6, size=9))
    X, z = rng.normal(size=(len(groups), 3)), (groups % 2 + rng.integers(2, size=len(groups))) % 2
    Y = _in_metric(X, "raw")
    psi = np.diag(np.sqrt(_class_weights(z, groups))).astype(np.float32)[z]
    (found,) = _quadratic_forms(Y, psi[:, None], (0.5,), groups, None)[0]
    weight = 1 / np.bincount(groups)[groups]
    rows = Y.double().numpy()
    expected = 0.0
    for k in range(2):
        kernel, pairs, own = 0.0, 0.0, weight[z == k].sum()
        for i in np.flatnonzero(z == k):
            for j in np.flatnonzero((z == k) & (groups != groups[i])):
                squared = ((rows[i] - rows[j]) ** 2).sum()
                kernel += weight[i] * weight[j] * (np.exp(-squared / 0.5) - np.exp(-2))
                pairs += weight[i] * weight[j]
        expected += own * kernel / pairs
    assert found == pytest.approx(expected, rel=1e-4)


@pytest.mark.parametrize("sizes", ["equal", "by label"])
def test_laws_of_groups_raise_no_false_alarm(sizes, monkeypatch):
    monkeypatch.setattr(two_sample, "METRICS", ("raw",))

    def p_value(seed, by_group=True, **options):
        X, z, groups = users(seed, n_groups=30, sizes=sizes, rare=0.3, **options)
        groups = groups if by_group else None
        how = {"n_permutations": 39, "max_rows": 60, "random_state": seed}
        return two_sample_test(X, z, groups=groups, **how).p_value

    assert np.mean([p_value(seed) <= 0.05 for seed in range(50)]) <= 0.05 + 3 * 0.031
    assert np.mean([p_value(seed, by_group=False) <= 0.05 for seed in range(5)]) > 0.5
    assert np.mean([p_value(seed, leak=3.0) <= 0.05 for seed in range(5)]) > 0.5


# -- attackers, code lengths, certificates ---------------------------------------------------------


def test_attackers_choose_their_strength_on_other_groups():
    X, z, groups = users(0)
    rows = ClassRows.sample(X, Classes.read(z), 10_000, 0, groups)
    assert 0.1 < rows.is_validation.mean() < 0.2
    assert not set(groups[rows.is_validation]) & set(groups[~rows.is_validation])
    assert set(rows.validation.codes) == {0, 1}
    (by_row,), (by_group,) = (
        attack(X, z, X, z, attackers=["rbf"], budget="quick", groups=g) for g in (None, groups)
    )
    # What is learned by heart pays on rows of the same users, and not on others.
    assert by_row.accuracy > 0.95 > by_group.accuracy + 0.04
    few = np.where(z == 0, 0, groups)  # a class in one group is split by row
    by_class = ClassRows.sample(X, Classes.read(z), 10_000, 0, few)
    assert set(by_class.validation.codes) == {0, 1}


def test_a_group_is_coded_in_one_block():
    assert _after_groups([1, 3, 4, 10], np.array([5, 5, 5, 2, 2, 2, 2, 0, 0, 1])) == [3, 7, 10]
    X, z, groups = users(0, n_groups=100)
    how = {
        "probe": partial(fit_estimator, KNeighborsClassifier(1)),
        "control": False,
        "random_state": 0,
    }
    by_row = mdl(X, z, **how)
    by_group = mdl(X, z, groups=groups, **how)
    assert by_row.bits < 0.8 * by_row.prior_bits
    assert by_group.bits > 0.95 * by_group.prior_bits


def without_groups(data):
    return Dataset(*(replace(split, groups=None) for split in data))


def test_users_without_a_leak_are_no_leak():
    X, z, groups = users(0, d=10)
    found = certify(None, X, z, groups=groups, attackers=FAST, budget="quick", margin=0.1)
    assert found.verdict == "INCONCLUSIVE"
    assert (found.n_rows, found.n_groups) == (600, 60)
    assert "600 rows in 60 groups" in found.statement
    assert any("60 of them as independent" in line for line in found.scope["Not covered"])
    with pytest.warns(UserWarning, match=r"look grouped.*independent of each other.*groups="):
        bare = certify(None, X, z, attackers=FAST, budget="quick", margin=0.1)
    assert (bare.verdict, bare.n_groups) == ("LEAKS", None)
    assert found.p_value > 0.05 > bare.p_value
    assert found.confirmable > 2 * bare.confirmable
    for wide, narrow in zip(found.attackers, bare.attackers, strict=True):
        assert np.ptp(wide.interval) > 2 * np.ptp(narrow.interval)


def test_a_leak_of_users_is_found():
    X, z, groups = users(0, n_groups=200, d=10, leak=2.0)
    data = Dataset.from_arrays(X, z, groups=groups, random_state=0)
    found = certify(None, data, attackers=FAST, budget="quick", margin=0.1)
    assert found.verdict == "LEAKS"
    assert found.n_groups == len(np.unique([*data.validation.groups, *data.test.groups]))


@pytest.mark.slow
def test_false_alarms_of_users_are_rare():
    """At most 5 % and three standard errors of 30; without groups it is all of them."""
    alarms = 0
    for seed in range(30):
        X, z, groups = users(seed, d=10)
        how = {"attackers": ["logistic"], "budget": "quick", "random_state": seed}
        found = certify(None, X, z, groups=groups, margin=0.0, **how)
        alarms += found.verdict == "LEAKS"
    assert alarms <= 5


def test_groups_that_cannot_be_judged_are_named():
    X, z, groups = users(0)
    data = Dataset.from_arrays(X, z, groups=groups, random_state=0)
    torn = replace(data, validation=replace(data.validation, groups=data.test.groups[:120]))
    with pytest.raises(ValueError, match=r"group \d+ in the validation split and in the test"):
        evaluate(None, torn)
    one = np.where(z == 0, -1, groups)
    with pytest.raises(ValueError, match=r"(1 group|no row|0 rows).*class 0"):
        certify(None, X, z, groups=one)
    with pytest.raises(ValueError, match="3 values in groups for 2 rows"):
        Split(np.ones((2, 1)), np.arange(2), groups=np.arange(3))


def test_an_evaluation_goes_by_groups_too():
    X, z, groups = users(0, d=10)
    data = Dataset.from_arrays(X, z, groups=groups, random_state=0)
    metrics = ["attack", "two_sample"]
    found = evaluate(None, data, metrics=metrics)
    with pytest.warns(UserWarning, match="look grouped"):
        bare = evaluate(None, without_groups(data), metrics=metrics)
    assert found["two_sample"].after.mean > 0.05 > bare["two_sample"].after.mean
    wide, narrow = (np.ptp(e.details["attackers"]["after"][0]["interval"]) for e in (found, bare))
    assert wide > 1.5 * narrow
