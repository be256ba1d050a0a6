"""Class statistics: any split in any order merges to what one pass gives."""

from functools import reduce

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from unspot.data import statistics
from unspot.data.statistics import (
    ClassStatistics,
    CrossStatistics,
    mean_difference_basis,
    support,
    whitening,
)
from unspot.erasers.leace import LEACE
from unspot.io import as_source


def _data(n, d, K, seed, offset=0.0):
    rng = np.random.default_rng(seed)
    codes = rng.integers(0, K, size=n)
    X = rng.normal(size=(n, d)) @ rng.normal(size=(d, d)) + offset
    return X + codes[:, None], codes


def _dense(X, codes, K):
    """Every statistic as its definition says."""
    means = np.array(
        [X[codes == k].mean(axis=0) if (codes == k).any() else 0 * X[0] for k in range(K)]
    )
    centred = X - means[codes]
    scatter = np.array([centred[codes == k].T @ centred[codes == k] for k in range(K)])
    return np.bincount(codes, minlength=K), means, scatter


def _same(a, b, rtol=1e-9):
    np.testing.assert_array_equal(a.counts, b.counts)
    seen = a.counts > 0
    scale = np.abs(a.means).max() + np.sqrt(np.trace(a.covariance)) + 1e-300
    np.testing.assert_allclose(a.means[seen], b.means[seen], atol=rtol * scale)
    np.testing.assert_allclose(a.within, b.within, atol=rtol * scale**2 * max(a.n_rows, 1))
    if a.class_scatter is not None:
        np.testing.assert_allclose(
            a.class_scatter, b.class_scatter, atol=rtol * scale**2 * max(a.n_rows, 1)
        )


@given(
    n=st.integers(1, 60),
    d=st.integers(1, 5),
    K=st.integers(1, 5),
    per_class=st.booleans(),
    offset=st.sampled_from([0.0, 1e4]),
    seed=st.integers(0, 10),
    data=st.data(),
)
@settings(max_examples=150, deadline=None)
def test_any_split_in_any_order(n, d, K, per_class, offset, seed, data):
    X, codes = _data(n, d, K, seed, offset)
    owner = np.array(data.draw(st.lists(st.integers(0, 4), min_size=n, max_size=n)))
    order = data.draw(st.permutations(range(5)))
    parts = [
        ClassStatistics.from_rows(X[owner == i], codes[owner == i], K, per_class=per_class)
        for i in order  # some parts may be empty, and hold any of the classes
    ]
    total = ClassStatistics.empty(K, d, per_class=per_class)
    for part in parts:
        total = total.merge(part)
    _same(ClassStatistics.from_rows(X, codes, K, per_class=per_class), total)
    nested = parts[0].merge(parts[1].merge(parts[2])).merge(parts[4].merge(parts[3]))
    _same(total, nested)


@given(n=st.integers(1, 50), K=st.integers(1, 4), chunk=st.integers(1, 60), seed=st.integers(0, 9))
@settings(max_examples=50, deadline=None)
def test_one_pass_is_the_definition(n, K, chunk, seed):
    X, codes = _data(n, 3, K, seed)
    counts, means, scatter = _dense(X, codes, K)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(statistics, "BLOCK_ROWS", chunk)
        found = ClassStatistics.from_rows(X, codes, K)
    _same(ClassStatistics(counts, means, scatter.sum(0), scatter), found)
    np.testing.assert_allclose(found.mean, X.mean(axis=0), atol=1e-9)
    np.testing.assert_allclose(found.covariance, np.cov(X.T, bias=True), atol=1e-8)
    one_hot = np.eye(K)[codes]
    cross = (X - X.mean(0)).T @ (one_hot - one_hot.mean(0)) / n
    np.testing.assert_allclose(found.cross_covariance, cross, atol=1e-9)
    for k in np.flatnonzero(counts):
        np.testing.assert_allclose(
            found.class_covariances[k], np.cov(X[codes == k].T, bias=True), atol=1e-8
        )


@given(n=st.integers(2, 50), cut=st.integers(0, 50), m=st.integers(1, 3), seed=st.integers(0, 9))
@settings(max_examples=50, deadline=None)
def test_continuous_statistics_merge(n, cut, m, seed):
    rng = np.random.default_rng(seed)
    X, Z = rng.normal(size=(n, 3)) + 1e3, rng.normal(size=(n, m))
    whole = CrossStatistics.from_rows(X, Z)
    parts = [CrossStatistics.from_rows(X[s], Z[s]) for s in (slice(cut, None), slice(0, cut))]
    for found in (whole, parts[0].merge(parts[1]), parts[1].merge(parts[0])):
        np.testing.assert_allclose(found.mean, X.mean(axis=0))
        np.testing.assert_allclose(found.covariance, np.cov(X.T, bias=True), atol=1e-9)
        expected = (X - X.mean(0)).T @ ((Z - Z.mean(0)) / Z.std(0)) / n
        np.testing.assert_allclose(found.cross_covariance, expected, atol=1e-9)


def test_what_does_not_fit_is_not_merged():
    with pytest.raises(ValueError, match=r"Got statistics of shapes \(2, 3\) and \(2, 4\)"):
        ClassStatistics.empty(2, 3).merge(ClassStatistics.empty(2, 4))


def test_class_covariances_must_have_been_collected():
    with pytest.raises(ValueError, match="collect with per_class=True"):
        _ = ClassStatistics.empty(2, 3, per_class=False).class_covariances


def test_sources_give_what_arrays_give():
    X, codes = _data(500, 4, 3, 0)
    expected = ClassStatistics.from_rows(X, codes, 3)
    _same(expected, ClassStatistics.from_rows(as_source(X), codes, 3), rtol=1e-15)
    Z = X[:, :2] ** 2
    found = CrossStatistics.from_rows(as_source(X), Z)
    np.testing.assert_array_equal(
        found.joint_scatter, CrossStatistics.from_rows(X, Z).joint_scatter
    )


# -- single precision ----------------------------------------------------------------------------


def _relative_error(found, exact):
    spread = np.sqrt(np.diagonal(exact.covariance))
    covariance = np.abs(found.covariance - exact.covariance) / np.outer(spread, spread)
    means = np.abs(found.means - exact.means) / spread
    return covariance.max(), means.max()


@pytest.mark.parametrize("offset", [0.0, 100.0])
@pytest.mark.parametrize("K", [2, 40])
def test_many_single_rows_are_as_good_as_double(K, offset):
    """Errors relative to the variances stay far below what single precision itself has."""
    rng = np.random.default_rng(0)
    n, d = 2**17, 24
    codes = rng.integers(0, K, size=n)
    scales = np.geomspace(1e-3, 1e3, d)  # features in very different units
    X = (rng.normal(size=(n, d)) @ (np.eye(d) + 0.3 * rng.normal(size=(d, d)))) * scales
    X = (X + scales * (offset + codes[:, None] / K)).astype(np.float32)
    exact = ClassStatistics.from_rows(X.astype(np.float64), codes, K, per_class=False)
    found = ClassStatistics.from_rows(X, codes, K, per_class=False)
    assert found.means.dtype == found.within.dtype == np.float64
    covariance, means = _relative_error(found, exact)
    rounding = np.finfo(np.float32).eps * max(offset, 1.0)  # of the rows themselves
    assert covariance < 0.5 * rounding
    assert means < rounding


def test_a_drifting_stream_of_single_rows():
    """Chunks far from each other: a shift that is right for the first must not spoil the last."""
    rng = np.random.default_rng(1)
    n, d = 2**16 + 5, 6
    codes = rng.integers(0, 2, size=n)
    X = (rng.normal(size=(n, d)) + np.linspace(0, 3000, n)[:, None]).astype(np.float32)
    exact = ClassStatistics.from_rows(X.astype(np.float64), codes, 2, per_class=False)
    covariance, means = _relative_error(
        ClassStatistics.from_rows(X, codes, 2, per_class=False), exact
    )
    assert covariance < 1e-6
    assert means < 1e-6


@pytest.mark.parametrize("scale", [1e-22, 1e22])
def test_the_unit_of_single_rows_does_not_matter(scale):
    """Squares of such numbers do not fit single precision."""
    rng = np.random.default_rng(2)
    codes = rng.integers(0, 2, size=2**16)
    X = (rng.normal(size=(2**16, 3)) * scale).astype(np.float32)
    found = ClassStatistics.from_rows(X, codes, 2, per_class=False)
    exact = ClassStatistics.from_rows(X.astype(np.float64), codes, 2, per_class=False)
    assert max(_relative_error(found, exact)) < 1e-9


def test_leace_of_single_rows_guards_the_classes():
    """What a linear probe could use is gone to the precision of the rows."""
    rng = np.random.default_rng(3)
    n, d = 2**16 + 1000, 16
    z = rng.integers(0, 3, size=n)
    X = rng.normal(size=(n, d)) @ rng.normal(size=(d, d)) + rng.normal(size=(3, d))[z]
    X = X.astype(np.float32)
    single, double = LEACE().fit(X, z), LEACE().fit(X.astype(np.float64), z)
    assert np.abs(single.eraser_.P - double.eraser_.P).max() < 1e-5
    erased = single.eraser_(X.astype(np.float64))
    gaps = [erased[z == k].mean(axis=0) - erased.mean(axis=0) for k in range(3)]
    assert np.abs(gaps).max() < 1e-6 * erased.std()


def _with_a_small_direction(share):
    """Rows whose last direction, rotated into all columns, has a small share of the deviation."""
    rng = np.random.default_rng(4)
    n, d = 70_000, 8
    z = rng.integers(0, 2, size=n)
    X = rng.normal(size=(n, d))
    X[:, -1] += 2.0 * z
    X[:, -1] *= share
    rotation, _ = np.linalg.qr(rng.normal(size=(d, d)))
    return (X @ rotation.T).astype(np.float32), z


@pytest.mark.parametrize("share", [1e-1, 1e-3, 3e-5])
def test_leace_of_single_rows_sees_a_concept_in_small_deviations(share):
    """The rows still hold it, so that sums of their squares must too."""
    X, z = _with_a_small_direction(share)
    erased = LEACE().fit(X, z).eraser_(X.astype(np.float64))
    gap = erased[z == 1].mean(axis=0) - erased[z == 0].mean(axis=0)
    assert np.linalg.norm(gap) < 1e-2 * share  # of 2 · share


def test_columns_without_variance_cost_no_second_pass(monkeypatch):
    X, z = _with_a_small_direction(1.0)
    X[:, 3] = 7.3
    monkeypatch.setattr(statistics, "_of_chunk", None)
    found = ClassStatistics.from_rows(X, z, 2, per_class=False)
    assert found.within[3, 3] == 0


# -- columns that only rounding moves ------------------------------------------------------------


def _embeddings(n=600, seed=0):
    return np.random.default_rng(seed).normal(size=(n, 6)) * 0.05, np.arange(n) % 3


def _still(statistics):
    """The columns that the settled statistics have as constants."""
    return np.flatnonzero(np.diagonal(statistics.settled().covariance) == 0).tolist()


def _both(X, codes):
    Z = np.eye(3)[codes]
    return ClassStatistics.from_rows(X, codes, 3), CrossStatistics.from_rows(X, Z)


@pytest.mark.parametrize("steps", [0.4, 2.0, 20.0])
@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
def test_the_smallest_steps_of_half_precision_are_no_variance(dtype, steps):
    X, codes = _embeddings()
    X[:, 2] = np.random.default_rng(1).normal(size=len(X)) * steps * 2.0**-24
    for collected in _both(X.astype(np.float16).astype(dtype), codes):
        assert _still(collected) == [2]


@pytest.mark.parametrize("change", ["normalised", "centred", "around one"])
def test_rounded_numbers_are_known_after_a_change(change):
    X, codes = _embeddings()
    X[:, 2] = np.random.default_rng(1).normal(size=len(X)) * 2.0**-24
    X = X.astype(np.float16).astype(np.float64)
    if change == "normalised":
        X /= np.linalg.norm(X, axis=1, keepdims=True)
    elif change == "centred":
        X -= X.mean(axis=0)
    else:
        X[:, 2] = (1 + 3e-7 * X[:, 3] / 0.05).astype(np.float32)
    for collected in _both(X, codes):
        assert _still(collected) == [2]


def test_columns_of_small_numbers_are_kept():
    rng = np.random.default_rng(0)
    X, codes = _embeddings()
    units = [
        X * [1, 1, 1e-3, 1e-6, 1e-9, 1e-12],  # continuous, however small
        X * [1e6, 1e6, 1e-6, 1e-3, 1e9, 1e6],  # mixed units
        X * [1e6, 1e6, 1e6, 1e6, 1, 1] + 1,
        np.repeat(X * [1, 1, 1, 1, 1e-9, 1], 3, axis=0)[: len(X)],  # copies of rows
        rng.poisson(2.0, size=X.shape) * [1, 1, 1e5, 1e5, 1e5, 1e5],  # counts and amounts
        (X > 0) * 1e-9,  # one bit per column
        X.astype(np.float16) * np.float32([1, 1, 1, 1, 1, 1e-3]),
    ]
    for rows in units:
        for collected in _both(rows, codes):
            assert _still(collected) == []


def test_parts_find_the_same_columns_as_the_whole():
    X, codes = _embeddings()
    X[:, 2] = np.where(X[:, 3] > 0, 2.0**-24, 0.0)
    whole = _both(X, codes)
    for size in (2, 7, 200):
        cuts = [slice(i, i + size) for i in range(0, len(X), size)]
        parts = [_both(X[rows], codes[rows]) for rows in cuts]
        for total, kind in zip(whole, zip(*parts, strict=True), strict=True):
            merged = reduce(lambda a, b: a.merge(b), kind)
            assert _still(merged) == _still(total) == [2]
    assert whole[0].settled().merge(parts[0][0]).settled().covariance[2, 2] == 0


def test_many_rows_of_single_precision_too():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(70_000, 3)).astype(np.float32)
    X[:, 1] = np.where(X[:, 2] > 0, 2.0**-24, 0.0)
    codes = (X[:, 0] > 0).astype(int)
    assert _still(ClassStatistics.from_rows(X, codes, 2, per_class=False)) == [1]


def test_settled_statistics_differ_in_nothing_else():
    X, codes = _embeddings()
    X[:, 2] = np.where(X[:, 3] > 0, 2.0**-24, 0.0) + 1.0
    found = ClassStatistics.from_rows(X, codes, 3)
    settled = found.settled()
    np.testing.assert_array_equal(settled.mean[2], settled.means[:, 2])
    np.testing.assert_allclose(settled.mean, found.mean, rtol=1e-15)
    near_zero = ClassStatistics.from_rows(X - [0, 0, 1, 0, 0, 0], codes, 3).settled()
    assert near_zero.mean[2] == 0
    rest = np.arange(6) != 2
    for now, before in (
        (settled.means[:, rest], found.means[:, rest]),
        (
            settled.class_covariances[:, rest][:, :, rest],
            found.class_covariances[:, rest][:, :, rest],
        ),
    ):
        np.testing.assert_array_equal(now, before)


# -- what is derived -----------------------------------------------------------------------------


def test_whitening_leaves_dead_directions():
    rng = np.random.default_rng(0)
    A = rng.normal(size=(6, 4))
    covariance = A @ A.T * 1e-12
    W, back = whitening(covariance)
    alive = W.T @ covariance @ W
    np.testing.assert_allclose(alive @ alive, alive, atol=1e-9)
    assert np.linalg.matrix_rank(W) == round(np.trace(alive)) == 4
    rows = rng.normal(size=(7, 4)) @ A.T
    np.testing.assert_allclose(rows @ W @ back, rows, atol=1e-9)
    W, back = whitening(covariance, invertible=True)
    np.testing.assert_allclose(W @ back, np.eye(6), atol=1e-9)


def test_whitening_does_not_mind_the_unit_of_a_column():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(500, 5)) @ rng.normal(size=(5, 5))
    units = np.array([1e-9, 1.0, 1e9, 1e3, 1.0])
    plain, scaled = (Y @ whitening(np.cov(Y.T))[0] for Y in (X, X * units))
    np.testing.assert_allclose(plain, scaled, atol=1e-9)


@pytest.mark.parametrize("unit", [1.0, 1e6, 1e12, 1e18])
def test_directions_without_variance_are_exact_in_every_unit(unit):
    rng = np.random.default_rng(0)
    x, y, other = rng.normal(size=(3, 500))
    X = np.column_stack([unit * (x + y), unit * x, y, x, np.full(500, 7.0), other])
    S, N = support(X.mean(axis=0), np.cov(X.T, bias=True), len(X), least=0.0)
    assert (S.shape, N.shape) == ((6, 3), (6, 3))
    np.testing.assert_allclose(N.T @ N, np.eye(3), atol=1e-12)
    centred = X - X.mean(axis=0)
    terms = np.abs(centred) @ np.abs(N)
    assert np.all(np.abs(centred @ N) <= 1e-13 * terms.max(axis=0))
    np.testing.assert_array_equal(np.flatnonzero(N[4]), [0])  # the constant column, alone


def test_a_class_far_away_does_not_hide_the_others():
    rng = np.random.default_rng(0)
    codes = np.repeat([0, 1, 2], 100)
    X = rng.normal(size=(300, 5))
    X[codes == 1, 1] += 3.0
    X[codes == 2, 0] += 1e8
    assert mean_difference_basis(ClassStatistics.from_rows(X, codes, 3)).shape == (5, 2)


def test_equal_means_cost_no_dimension():
    rng = np.random.default_rng(0)
    means = rng.normal(size=(2, 5))
    X = np.vstack([means[[0, 0, 1]][k] + rng.normal(size=(100, 5)) for k in range(3)])
    codes = np.repeat([0, 1, 2], 100)
    X -= np.array([X[codes == k].mean(0) for k in range(3)])[codes]
    X += means[[0, 0, 1]][codes]
    Q = mean_difference_basis(ClassStatistics.from_rows(X, codes, 3))
    assert Q.shape == (5, 1)
    np.testing.assert_allclose(
        abs(Q.T @ (means[0] - means[1])), np.linalg.norm(means[0] - means[1])
    )
