"""L̄EOPARD is fitted on every row: what the rows beyond the sample are good for."""

from dataclasses import replace

import numpy as np
import pytest

from unspot import LEOPARD, Cascade
from unspot.io import sources as streams
from unspot.leopard import ManifoldSolver, fit, low_order
from unspot.leopard.low_order import Blocks

QUICK = ManifoldSolver(max_evaluations=8)


@pytest.fixture
def small_sample(monkeypatch):
    monkeypatch.setattr(fit, "SAMPLE_ROWS", 400)


def _spread_coded(n, d=12, seed=0):
    """Two classes whose variances differ in every other dimension."""
    rng = np.random.default_rng(seed)
    z = rng.integers(0, 2, n)
    X = rng.normal(size=(n, d))
    X[:, ::2] *= np.where(z == 1, 1.3, 0.75)[:, None]
    return X, z


def _left(eraser):
    """How much of the telling dimensions is left: 0 for the perfect projection."""
    return float(np.square(eraser.U[::2]).sum())


def test_rows_beyond_the_sample_make_it_better(small_sample):
    X, z = _spread_coded(6_000)
    few, all_rows = (
        LEOPARD(rank=6, solver=ManifoldSolver(max_rows=m), random_state=0).fit(X, z)
        for m in (400, 1_000_000)
    )
    assert _left(all_rows.eraser_) < 0.3 * _left(few.eraser_)
    assert few.eraser_.metadata["rows_used"] == 400
    assert all_rows.eraser_.metadata["rows_used"] == 5_401  # a tenth of each class is held out


def test_what_low_orders_do_not_see_is_erased_too(small_sample, rng):
    z = np.arange(6_000) % 2
    X = rng.normal(size=(6_000, 4))
    two_points = np.where(rng.random(6_000) < 0.5, 1.0, -1.0)  # mean 0 and variance 1, as before
    X[:, 2] = np.where(z == 1, two_points, X[:, 2])
    few, all_rows = (
        LEOPARD(rank=3, solver=ManifoldSolver(max_rows=m), random_state=0).fit(X, z).eraser_
        for m in (400, 1_000_000)
    )
    assert all_rows.P[2, 2] < 0.6 * few.P[2, 2]


def test_a_fit_on_few_rows_has_the_bits_of_the_sample(three_classes):
    X, z = three_classes
    settings = {"rank": 5, "random_state": 0, "solver": QUICK}
    default = LEOPARD(**settings).fit(X, z).eraser_
    np.testing.assert_array_equal(
        default.P,
        LEOPARD(**{**settings, "solver": replace(QUICK, max_rows=10_000)}).fit(X, z).eraser_.P,
    )


@pytest.mark.parametrize("metric", ["euclidean", "whitened"])
def test_same_seed_same_bits(small_sample, metric):
    X, z = _spread_coded(1_500)
    a, b = (
        LEOPARD(rank=4, metric=metric, preserve=0.1, random_state=3, solver=QUICK).fit(X, z)
        for _ in range(2)
    )
    np.testing.assert_array_equal(a.eraser_.P, b.eraser_.P)


def test_disk_equals_memory_pass_by_pass(small_sample, monkeypatch, tmp_path):
    X, z = _spread_coded(1_500)
    np.save(tmp_path / "x.npy", X)
    eraser = Cascade(second=LEOPARD(rank=4, random_state=0, solver=replace(QUICK, max_rows=1_200)))
    expected = eraser.fit(X, z).eraser_.P
    monkeypatch.setattr(streams, "LOAD_BYTES", 0)
    monkeypatch.setattr(low_order, "HOLD_BYTES", 0)
    monkeypatch.setattr(low_order, "CHUNK_ROWS", 256)
    np.testing.assert_allclose(eraser.fit(tmp_path / "x.npy", z).eraser_.P, expected, atol=1e-7)


def test_half_precision(small_sample):
    X, z = _spread_coded(1_500)
    P = LEOPARD(rank=6, random_state=0).fit(X, z).eraser_.P
    half = LEOPARD(rank=6, random_state=0).fit(X.astype(np.float16), z).eraser_.P
    np.testing.assert_allclose(half, P, atol=0.02)


def test_moments_of_very_many_classes_are_left_out(small_sample, monkeypatch):
    monkeypatch.setattr(low_order, "MOST_MOMENTS", 10)
    X, z = _spread_coded(1_500)
    eraser = LEOPARD(rank=4, random_state=0, solver=QUICK).fit(X, z).eraser_
    assert eraser.metadata["rows_used"] == 400


def test_unequal_classes(small_sample):
    X, z = _spread_coded(4_000)
    rows = np.r_[np.flatnonzero(z == 0), np.flatnonzero(z == 1)[:150]]
    few, all_rows = (
        LEOPARD(rank=6, solver=ManifoldSolver(max_rows=m), random_state=0)
        .fit(X[rows], z[rows])
        .eraser_
        for m in (400, 1_000_000)
    )
    assert _left(all_rows) < 0.8 * _left(few)


@pytest.mark.parametrize("hold", [0, 2**20])
def test_blocks_give_every_chosen_row_once_sorted_by_class(rng, monkeypatch, hold):
    monkeypatch.setattr(low_order, "HOLD_BYTES", hold)
    monkeypatch.setattr(low_order, "CHUNK_ROWS", 7)
    X, codes = np.arange(50.0)[:, None], rng.integers(0, 3, 50)
    rows = np.sort(rng.permutation(50)[:30])
    blocks = Blocks(X, codes, rows, 3, lambda X: X + 100)
    for _ in range(2):
        seen = []
        for block, counts in blocks():
            numbers = (block[:, 0] - 100).astype(int)
            np.testing.assert_array_equal(codes[numbers], np.repeat([0, 1, 2], counts))
            seen += list(numbers)
        assert sorted(seen) == list(rows)
