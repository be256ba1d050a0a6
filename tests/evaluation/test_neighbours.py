"""A_k against scikit-learn's sorted neighbours, and the properties that it must have."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.neighbors import NearestNeighbors

from unspot.evaluation import utility
from unspot.evaluation.utility import neighbour_overlap, variance_kept


def embeddings(n=200, d=6, seed=0):
    return np.random.default_rng(seed).normal(size=(n, d))


def halved(X):
    return X * (np.arange(X.shape[1]) < X.shape[1] // 2)


def by_sorting(X, X_erased, k, include_self):
    """The definition, by scikit-learn and sets."""

    def sets(A):
        index = NearestNeighbors(n_neighbors=k, algorithm="brute").fit(A)
        queries = A if include_self else None
        return [set(row) for row in index.kneighbors(queries, return_distance=False)]

    pairs = zip(sets(X), sets(X_erased), strict=True)
    return float(np.mean([len(a & b) / k for a, b in pairs]))


@settings(max_examples=25, deadline=None)
@given(
    n=st.integers(5, 60),
    d=st.integers(2, 8),
    share=st.floats(0.05, 0.9),
    convention=st.sampled_from(["paper", "held-out"]),
    dtype=st.sampled_from([np.float64, np.float32]),
    rows_at_once=st.sampled_from([1, 7, 1000]),
)
def test_equals_the_definition(n, d, share, convention, dtype, rows_at_once):
    X = embeddings(n, d).astype(dtype)
    k = max(1, int(share * (n - 1)))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(utility, "BLOCK_VALUES", rows_at_once * n)
        found = neighbour_overlap(X, halved(X), k=k, convention=convention)
    expected = by_sorting(X.astype(float), halved(X.astype(float)), k, convention == "paper")
    assert found == pytest.approx(expected, rel=1e-12)


def test_half_of_the_rows_is_the_default():
    X = embeddings(101)
    assert neighbour_overlap(X, halved(X)) == neighbour_overlap(X, halved(X), k=50)
    assert neighbour_overlap(X, halved(X), k=0.1) == neighbour_overlap(X, halved(X), k=10)


def test_an_isometry_keeps_every_neighbour():
    X = embeddings()
    rotation = np.linalg.qr(embeddings(6, 6, seed=1))[0]
    assert neighbour_overlap(X, 3 * X @ rotation - 7) == 1.0


def test_coordinates_of_the_subspace_give_what_the_projection_gives():
    X = embeddings()
    U = np.linalg.qr(embeddings(6, 3, seed=1))[0]
    assert neighbour_overlap(X, X @ U) == pytest.approx(neighbour_overlap(X, X @ U @ U.T), rel=1e-6)


def test_unrelated_rows_share_neighbours_by_chance():
    found = neighbour_overlap(embeddings(1000), embeddings(1000, seed=1))
    assert found == pytest.approx(0.5, abs=0.02)


def test_a_large_offset_does_not_blur_distances():
    X = embeddings()
    assert neighbour_overlap(X, halved(X)) == neighbour_overlap(X + 1e6, halved(X))


def test_ties_take_exactly_k_neighbours():
    X = embeddings(60)
    constant = np.zeros_like(X)
    assert neighbour_overlap(constant, constant, k=7) == 1.0
    repeated = np.repeat(X[:6], 10, axis=0)
    assert neighbour_overlap(repeated, repeated, k=5) == 1.0
    assert 0 <= neighbour_overlap(X, constant, k=0.5) <= 1


def test_the_papers_convention_counts_the_row_itself():
    X = embeddings()
    paper = neighbour_overlap(X, halved(X), k=5, convention="paper")
    assert paper > neighbour_overlap(X, halved(X), k=5, convention="held-out")
    assert neighbour_overlap(X, embeddings(seed=1), k=1, convention="paper") == 1.0


def test_a_sample_of_queries_is_close_to_all_and_seeded():
    X = embeddings(2000)
    whole = neighbour_overlap(X, halved(X))
    sample = neighbour_overlap(X, halved(X), max_queries=300, random_state=1)
    assert sample == pytest.approx(whole, abs=0.01)
    assert sample == neighbour_overlap(X, halved(X), max_queries=300, random_state=1)
    assert sample != neighbour_overlap(X, halved(X), max_queries=300, random_state=2)


@pytest.mark.parametrize("k", [0, 200, -3, 1.5, 0.0, 1.0, True, "half"])
def test_k_out_of_range_is_refused(k):
    X = embeddings(200)
    with pytest.raises(ValueError, match=r"but expected a number of neighbours from 1 to 199 "):
        neighbour_overlap(X, X, k=k)


def test_all_rows_are_neighbours_only_when_the_row_itself_counts():
    X = embeddings(20)
    assert neighbour_overlap(X, halved(X), k=20, convention="paper") == 1.0
    with pytest.raises(ValueError, match="a row is not its own neighbour"):
        neighbour_overlap(X, halved(X), k=20)


@pytest.mark.parametrize("measure", [neighbour_overlap, variance_kept])
def test_bad_rows_are_refused(measure):
    X = embeddings(10)
    with pytest.raises(ValueError, match="Got 10 original rows and 9 erased rows"):
        measure(X, X[:-1])
    with pytest.raises(ValueError, match=r"Got X_erased of shape \(10,\), but expected"):
        measure(X, X[:, 0])
    with pytest.raises(ValueError, match="values of NaN or infinity in X"):
        measure(X, np.where(X > 1, np.nan, X))
    with pytest.raises(ValueError, match="at least 2: neighbours need company"):
        measure(X[:1], X[:1])


def test_bad_options_are_refused():
    X = embeddings(10)
    with pytest.raises(ValueError, match="Got convention='mine', but expected 'held-out' or"):
        neighbour_overlap(X, X, convention="mine")
    with pytest.raises(ValueError, match=r"max_queries=0.*at least 1"):
        neighbour_overlap(X, X, max_queries=0)


def test_variance_kept_is_the_share_inside_the_subspace():
    X = embeddings(500) * [5, 1, 1, 1, 1, 1] + 100
    U = np.linalg.qr(embeddings(6, 2, seed=1))[0]
    covariance = np.cov(X.T)
    share = np.trace(U.T @ covariance @ U) / np.trace(covariance)
    assert variance_kept(X, X @ U @ U.T) == pytest.approx(share, rel=1e-9)
    assert variance_kept(X, X) == pytest.approx(1.0, rel=1e-12)
    assert variance_kept(X, np.zeros_like(X)) == 0.0


def test_variance_of_equal_rows_is_refused():
    with pytest.raises(ValueError, match="Got 5 equal rows in X, but expected rows that vary"):
        variance_kept(np.ones((5, 2)), np.ones((5, 2)))


def test_columns_of_other_units_count_alike():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(200, 4))
    erased, units = X * [1, 1, 1, 0], [1e4, 1, 1, 1]
    standard = X / X.std(axis=0)
    assert neighbour_overlap(X * units, erased * units) == pytest.approx(
        neighbour_overlap(standard, erased / X.std(axis=0))
    )
