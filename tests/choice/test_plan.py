"""A plan: what rows can reach and show, by formulas that simulations confirm."""

from __future__ import annotations

import numpy as np
import pytest

import unspot
from unspot import LEACE, certify
from unspot.choice.plan import _ATTACKERS, FIT, linear_residual, plan, squared_shifts


@pytest.mark.parametrize(("d", "kappa"), [(20, 0.0), (20, 15.0), (256, 128.0), (30, 3000.0)])
def test_the_residual_is_what_deleting_the_estimated_direction_leaves(d, kappa):
    """The direction is estimated with an error of one in each coordinate."""
    rng = np.random.default_rng(0)
    shift = np.zeros(d)
    shift[0] = kappa**0.5
    estimated = shift + rng.normal(size=(10_000, d))
    left = 1 - estimated[:, 0] ** 2 / np.square(estimated).sum(axis=1)  # sin² of the angle
    assert linear_residual(d, kappa) == pytest.approx(left.mean(), rel=0.03)


def test_published_value_and_large_numbers():
    assert linear_residual(256, 128.0) == pytest.approx(0.6652, abs=5e-5)
    assert linear_residual(100, 1e9) == pytest.approx(99 / 1e9, rel=1e-3)
    assert linear_residual(100, 1.99e6) == pytest.approx(linear_residual(100, 2.01e6), rel=0.02)


def rows(n, d=30, shift=1.0, seed=0):
    z = np.arange(n) % 2
    X = np.random.default_rng(seed).normal(size=(n, d))
    X[:, 0] += shift * z
    return X @ np.random.default_rng(1).normal(size=(d, d)), z  # no unit, no axes


def test_the_shift_is_estimated_without_the_luck_of_few_rows():
    found = [plan(*rows(200, seed=seed)).linear.shift ** 2 for seed in range(30)]
    assert np.mean(found) == pytest.approx(1.0, abs=0.2)


def test_more_rows_leave_and_hide_less():
    few, many = plan(*rows(1000)), plan(*rows(16_000))
    assert many.linear.advantage == pytest.approx(few.linear.advantage / 4, rel=0.2)
    assert many.confirmable == pytest.approx(few.confirmable / 4, rel=0.1)


def test_as_many_rows_as_it_asks_for_are_enough_and_fewer_are_not():
    asked = plan(*rows(1000), max_advantage=0.05)
    assert asked.rows_needed > asked.n_rows
    for share, enough in ((1.1, True), (0.9, False)):
        n = round(share * asked.rows_needed)
        assert (plan(*rows(n), max_advantage=0.05).rows_needed <= n) == enough


def test_the_pair_that_leaves_most_is_named_and_rows_in_groups_count_less():
    X, z = rows(3000)
    names = np.where(z == 1, "far", np.where(np.arange(3000) % 4 == 0, "a", "b"))
    assert "far" in plan(X, names).linear.pair
    grouped = plan(X, z, groups=np.arange(3000) // 6)
    assert grouped.confirmable > 1.5 * plan(X, z).confirmable
    assert "groups" in str(grouped)


def test_as_text():
    found = unspot.plan(*rows(1000), max_advantage=0.1)
    assert "1,000 rows of 30 features: about 700 to fit on and 300 to judge on" in str(found)
    assert str(found).startswith(found.sentence)


def test_a_bound_that_rows_cannot_decide_is_raised_to_the_least_they_can():
    X, z = rows(1000)
    asked, fine = plan(X, z, max_advantage=0.01), plan(X, z, max_advantage=0.3)
    assert asked.target == asked.confirmable > 0.01
    assert asked.sentence == (
        f"1 points cannot be decided with these 1,000 rows: that takes {asked.rows_needed:,}."
    )
    assert asked.aim == f"Going for {100 * asked.confirmable:.1f} points."
    assert fine.target == 0.3
    assert fine.sentence == "30 points can be decided with these 1,000 rows."


def test_what_is_confirmable_is_confirmed_on_the_rows_that_judge():
    """A third of 2,000 noise rows shows the bound that the plan promises, four times in five."""
    found = []
    for seed in range(8):
        X, z = rows(2000, d=3, shift=0.0, seed=seed)
        names = _ATTACKERS[:2]  # the plan counts all of them
        certificate = certify(None, X[:600], z[:600], attackers=names, budget="quick")
        found.append(certificate.upper_bound <= plan(X, z).confirmable)
    assert np.mean(found) >= 0.6


@pytest.mark.parametrize("kind", ["number", "table"])
def test_numbers_and_several_columns(kind):
    """No linear residual of these, and bounds of the widest."""
    rng = np.random.default_rng(0)
    X, age = rng.normal(size=(2000, 5)), rng.normal(size=2000)
    z = age if kind == "number" else {"age": age, "sex": np.arange(2000) % 2}
    found, more = plan(X, z), plan(rng.normal(size=(8000, 5)), rng.normal(size=8000))
    assert found.linear is None
    assert "linear" not in str(found)
    if kind == "number":
        assert found.unit == "% of the variance"
        assert more.confirmable == pytest.approx(found.confirmable / 4, rel=0.1)
        grouped = plan(X, z, groups=np.arange(2000) // 4)
        assert grouped.confirmable > 3 * found.confirmable
    else:
        assert found.unit == "points"
        assert found.confirmable > plan(X, z["sex"]).confirmable  # each has its part of alpha


def test_the_residual_is_what_linear_erasure_leaves_on_fresh_rows():
    """Of correlated features: what plans of 600 rows say, and what 20,000 others show."""
    X, z = rows(26_000, shift=2.0)
    fresh, codes = X[6_000:], z[6_000:]
    planned, left = [], []
    for few, labels in zip(np.split(X[:6_000], 10), np.split(z[:6_000], 10), strict=True):
        planned.append(plan(few, labels).linear.share)
        fitted = LEACE().fit(few[: round(FIT * 600)], labels[: round(FIT * 600)])
        _, squares = squared_shifts(fitted.transform(fresh), codes, np.bincount(codes))
        left.append(squares[0, 1] / 2.0**2)
    assert np.mean(left) == pytest.approx(np.mean(planned), rel=0.2)


def test_fewer_rows_than_dimensions_have_no_linear_residual():
    X, z = rows(40, d=60)
    found = plan(np.hstack([X, X**2]), z)
    assert found.linear is None
    assert found.confirmable > 0.1


def test_refusals():
    with pytest.raises(ValueError, match=r"max_advantage=0.*0\.01"):
        plan(*rows(100, d=3), max_advantage=0)
    with pytest.raises(ValueError, match="NaN or infinity"):
        plan(np.full((100, 3), np.nan), np.arange(100) % 2)


def test_few_rows_confirm_nothing_in_plain_words():
    X, z = rows(400, d=3)
    few = plan(X, z, groups=np.arange(400) // 100)
    assert few.rows_needed > few.n_rows
    assert f"{few.n_units} independent ones, by groups" in few.sentence
    assert "400 rows of 3 features: about 280 to fit on and 120" in str(few)  # not of 4 groups
    assert str(few).count("(") == 1
    assert "e+" not in str(plan(X, z, max_advantage=0.999))
