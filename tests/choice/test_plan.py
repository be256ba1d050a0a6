"""A plan: what rows can reach and show, by formulas that simulations confirm."""

from __future__ import annotations

import json
import re

import numpy as np
import pytest

import unspot
from unspot import LEACE
from unspot.choice.plan import FIT, linear_residual, plan, squared_shifts


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
    found = [plan(*rows(200, seed=seed)).shift ** 2 for seed in range(30)]
    assert np.mean(found) == pytest.approx(1.0, abs=0.2)


def test_more_rows_leave_and_hide_less():
    few, many = plan(*rows(1000)), plan(*rows(16_000))
    assert many.linear_advantage == pytest.approx(few.linear_advantage / 4, rel=0.2)
    assert many.confirmable == pytest.approx(few.confirmable / 4, rel=0.1)
    assert many.detectable < few.detectable


def test_as_many_rows_as_it_asks_for_are_enough_and_fewer_are_not():
    asked = plan(*rows(1000), max_advantage=0.05)
    assert not asked.enough
    assert plan(*rows(round(1.1 * asked.rows_needed)), max_advantage=0.05).enough
    assert not plan(*rows(round(0.9 * asked.rows_needed)), max_advantage=0.05).enough


def test_the_pair_that_leaves_most_is_named_and_rows_in_groups_count_less():
    X, z = rows(3000)
    names = np.where(z == 1, "far", np.where(np.arange(3000) % 4 == 0, "a", "b"))
    assert "far" in plan(X, names).pair
    grouped = plan(X, z, groups=np.arange(3000) // 6)
    assert grouped.confirmable > 1.5 * plan(X, z).confirmable
    assert "groups" in str(grouped)


def test_as_text_and_json():
    found = unspot.plan(*rows(1000), max_advantage=0.1)
    assert re.search(r"1,000 rows of 30 features", str(found))
    assert re.search(r"bound of 10 points needs about [\d,]+ rows", str(found))
    assert json.loads(found.to_json())["rows_needed"] == found.rows_needed


def test_the_residual_is_what_linear_erasure_leaves_on_fresh_rows():
    """Of correlated features: what plans of 600 rows say, and what 20,000 others show."""
    X, z = rows(26_000, shift=2.0)
    fresh, codes = X[6_000:], z[6_000:]
    planned, left = [], []
    for few, labels in zip(np.split(X[:6_000], 10), np.split(z[:6_000], 10), strict=True):
        planned.append(plan(few, labels).residual)
        fitted = LEACE().fit(few[: round(FIT * 600)], labels[: round(FIT * 600)])
        _, squares = squared_shifts(fitted.transform(fresh), codes, np.bincount(codes))
        left.append(squares[0, 1] / 2.0**2)
    assert np.mean(left) == pytest.approx(np.mean(planned), rel=0.2)


def test_refusals():
    X, z = rows(40, d=60)
    with pytest.raises(ValueError, match=r"Got 40 rows .*more than .*PCA"):
        plan(np.hstack([X, X**2]), z)
    with pytest.raises(ValueError, match=r"max_advantage=0.*0\.01"):
        plan(*rows(100, d=3), max_advantage=0)


def test_few_rows_show_and_confirm_nothing_in_plain_words():
    X, z = rows(400, d=3)
    few = str(plan(X, z, groups=np.arange(400) // 100))
    assert "no advantage, however large," in few
    assert "confirm no bound." in few
    assert "e+" not in str(plan(X, z, max_advantage=0.999))
