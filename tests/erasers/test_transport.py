"""Transport: what it learns holds on new rows, where rows are many and where they are few."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
import torch
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
from sklearn.linear_model import RidgeCV
from sklearn.metrics import log_loss
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import PolynomialFeatures

from unspot import LEACE, LEOPARD, Cascade, load
from unspot.data import Number
from unspot.erasers import Transport
from unspot.erasers.transport import shrunk_eigenvalues
from unspot.lab import MomentMatching


def law(n, d=40, spikes=3, seed=0, apart=8.0):
    """Two classes apart along one direction, whose variances differ in a few others."""
    rng = np.random.default_rng(seed)
    z = np.arange(n) % 2
    X = rng.normal(size=(n, d))
    X[:, 1 : 1 + spikes] *= np.where(z, 3.0, 1.0)[:, None]
    X[:, 0] += apart * z
    return X @ np.linalg.qr(np.random.default_rng(9).normal(size=(d, d)))[0], z


def gap(X, z):
    """How much the covariances of two classes differ, in units of the pooled one."""
    A, B = (np.cov(X[z == k].T) for k in (0, 1))
    values = np.linalg.eigvals(np.linalg.pinv(A + B, rcond=1e-9, hermitian=True) @ (A - B))
    return float(np.sqrt(np.sum(values.real**2)))


@pytest.mark.parametrize(("n", "share"), [(300, 0.8), (3000, 0.5)])
def test_covariances_of_new_rows_agree_better_than_by_plain_matching(n, share):
    X, z = law(n)
    new, labels = law(20_000, seed=1)
    before = gap(LEACE(method="orthogonal").fit(X, z).transform(new), labels)
    shrunk = gap(Transport().fit(X, z).transform(new), labels)
    plain = gap(MomentMatching().fit(X, z).transform(new), labels)
    assert shrunk < 0.75 * plain
    assert shrunk < share * before


@pytest.mark.parametrize(("n", "n_classes"), [(4000, 2), (600, 2), (4000, 3), (30, 2), (41, 40)])
def test_without_evidence_rows_stay(n, n_classes):
    """The classes have the same law: what a map does is noise."""
    rng = np.random.default_rng(0)
    X, z = rng.normal(size=(n, 100)), (np.arange(n) % n_classes).astype(str)
    fitted = Transport().fit(X, z)
    kept = LEACE(method="orthogonal").fit(X, z).transform(X)
    moved = np.linalg.norm(fitted.transform(X) - kept) / np.linalg.norm(kept)
    assert moved < (0.05 if n > 1000 else 0.15)


def test_directions_of_the_means_are_dropped():
    X, z = law(500)
    fitted = Transport().fit(X, z)
    U = LEACE(method="orthogonal").fit(X, z).eraser_.U
    moved = fitted.transform(X) - X.mean(axis=0)
    np.testing.assert_allclose(moved @ U @ U.T, moved, atol=1e-10)
    assert fitted.eraser_.rank == 39
    assert fitted.reduce(X).shape == (500, 39)


def test_the_result_is_continuous_where_the_classes_meet():
    X, z = law(1000, apart=2.0)
    posterior = Transport().fit(X, z).eraser_
    start, end = X[z == 0].mean(axis=0), X[z == 1].mean(axis=0)
    path = posterior(start + np.linspace(0, 1, 2001)[:, None] * (end - start) + 3 * X[0])
    steps = np.linalg.norm(np.diff(path, axis=0), axis=1)
    assert steps.max() < 20 * np.linalg.norm(end - start) / 2000


def test_posteriors_are_less_sure_than_discriminant_analysis_where_rows_are_few():
    X, z = law(100, apart=2.0)
    new, labels = law(5000, seed=1, apart=2.0)
    ours = Transport().fit(X, z).eraser_.maps[0].posterior(new)
    plain = LinearDiscriminantAnalysis().fit(X, z).predict_proba(new)
    assert log_loss(labels, ours) < 0.8 * log_loss(labels, plain)


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
def test_saved_and_loaded_in_every_dtype(tmp_path, dtype):
    X, z = law(400)
    X = X.astype(dtype)
    eraser = Transport().fit(X, z).eraser_
    eraser.save(tmp_path / "t.safetensors")
    loaded = load(tmp_path / "t.safetensors")
    assert loaded(X).dtype == dtype
    np.testing.assert_array_equal(loaded(X), eraser(X))
    wide = eraser(torch.from_numpy(X.astype(float))).numpy()
    np.testing.assert_allclose(wide, eraser(X.astype(float)), atol=1e-10)


def test_the_unit_does_not_matter():
    X, z = law(600)
    expected = Transport().fit(X, z).transform(X)
    np.testing.assert_allclose(Transport().fit(1e-4 * X, z).transform(1e-4 * X), 1e-4 * expected)


def test_shrunk_eigenvalues_are_nearer_to_the_truth():
    truth = np.concatenate([np.full(5, 0.1), np.ones(80), np.full(15, 3.0)])
    X = np.random.default_rng(0).normal(size=(400, 100)) * np.sqrt(truth)
    values, vectors = np.linalg.eigh(X.T @ X / 400)

    def error(spectrum):
        return np.linalg.norm((vectors * spectrum) @ vectors.T - np.diag(truth))

    best = np.einsum("di,d,di->i", vectors, truth, vectors)  # what these eigenvectors can reach
    shrunk = error(shrunk_eigenvalues(values, 400))
    assert shrunk < 0.7 * error(values)
    assert shrunk < 1.1 * error(best)


def test_no_eigenvalue_is_pushed_beyond_one():
    """Rows with thin tails spread less than the formula expects of noise."""
    values = np.linspace(0.9, 1.1, 50)
    shrunk = shrunk_eigenvalues(values, 100)
    assert np.all((shrunk - 1) * (values - 1) >= 0)
    assert np.all(np.abs(shrunk - 1) <= np.abs(values - 1) + 1e-12)


# -- numbers -------------------------------------------------------------------------------------


def law_of_a_number(n, seed=0, d=12):
    """A number shifts the first direction and spreads four others, in rotated coordinates."""
    rng = np.random.default_rng(seed)
    z = rng.random(n)
    X = rng.normal(size=(n, d))
    X[:, 0] += 6.0 * z
    X[:, 1:5] *= (1.0 + 3.0 * z)[:, None]
    return X @ np.linalg.qr(np.random.default_rng(9).normal(size=(d, d)))[0], z


def told_by_squares(X, z, new, numbers):
    """The share of the number's variance that a quadratic regression explains on new rows."""
    model = make_pipeline(PolynomialFeatures(2), RidgeCV(np.logspace(-2, 4, 7)))
    return model.fit(X, z).score(new, numbers)


def test_a_number_by_its_quarters():
    (X, z), (learn, seen), (new, numbers) = (law_of_a_number(3000, seed) for seed in range(3))
    transport = Transport().fit(X, z)
    linear = LEACE().fit(X, z)
    left = [
        told_by_squares(eraser.transform(learn), seen, eraser.transform(new), numbers)
        for eraser in (linear, transport)
    ]
    assert left[0] > 0.15
    assert left[1] < 0.25 * left[0]
    assert transport.eraser_.metadata["concept"] == "continuous"


def test_what_correlates_with_a_number_is_dropped():
    X, z = law_of_a_number(500)
    way_down = Transport().fit(X, z).eraser_.maps[-1].U
    line = (X - X.mean(axis=0)).T @ (z - z.mean())
    assert np.abs(way_down.T @ line).max() < 1e-9 * np.linalg.norm(line)


def test_a_number_of_few_values_has_fewer_classes():
    X, z = law_of_a_number(300)
    halves = (z > 0.8).astype(float)
    by_number = Transport().fit(X, halves).transform(X)
    np.testing.assert_allclose(by_number, Transport().fit(X, halves).transform(X), atol=1e-8)


@pytest.mark.parametrize("unit", [1e-12, 1e9, 1e15])
def test_the_unit_of_a_number_does_not_matter(unit):
    """The number is skewed: means of its quarters lie beside the line that correlates with it."""
    rng = np.random.default_rng(0)
    z = rng.exponential(size=2000) ** 2
    X = rng.normal(size=(2000, 5))
    X[:, 0] += z
    X[:, 1] += np.log(z + 0.1)
    expected = Transport().fit(X, z).transform(X)
    moved = Transport().fit(X, unit * z).transform(X)
    np.testing.assert_allclose(moved, expected, atol=1e-8)


@pytest.mark.parametrize("cap", [0.1, 0.24, 0.6, 0.9])
def test_many_rows_at_either_end_of_a_number_are_one_class(cap):
    X, z = law_of_a_number(300)
    censored = np.minimum(z, cap)
    capped, floored = (Transport().fit(X, number).transform(X) for number in (censored, -censored))
    np.testing.assert_allclose(capped, floored, atol=1e-8)


def test_vectors_are_refused():
    X, z = law_of_a_number(50)
    with pytest.raises(ValueError, match=r"2 numbers.*one.*LEOPARD"):
        Transport().fit(X, Number.read(np.column_stack([z, z])))


def test_density_matching_after_transport_of_a_number():
    X, z = law_of_a_number(400)
    inner = LEOPARD(rank=3, random_state=0)
    assert Cascade(Transport(), inner).fit(X, z).reduce(X).shape[1] == 3


@pytest.mark.filterwarnings("ignore:Got . of 914")
def test_a_class_with_fewer_rows_than_directions_moves_by_the_pooled_covariance():
    rng = np.random.default_rng(0)
    z = np.repeat(["many", "few", "fewer"], [900, 8, 6])
    X = rng.normal(size=(len(z), 12)) * np.where(z == "many", 1.0, 3.0)[:, None]
    few = Transport().fit(X, z).eraser_.maps[0]
    assert few.groups.tolist() == [[1, 0], [1, 0], [0, 1]]  # few, fewer, many
    assert not np.allclose(*few.matrices, atol=1e-6)
    # Without any class of more rows than directions nothing moves: what is left is a projection.
    none = Transport().fit(X[-14:], z[-14:]).eraser_
    assert none.is_projection


def test_classes_without_any_variance_move_by_their_means():
    z = np.arange(40) % 2
    for X in (np.eye(2)[z], np.ones((40, 5))):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)  # of nothing that is left
            erased = Transport().fit(X, z).transform(X)
        assert np.isfinite(erased).all()
        np.testing.assert_allclose(erased[z == 0].mean(0), erased[z == 1].mean(0), atol=1e-9)
        with pytest.raises(ValueError, match=r"do not vary within classes.*Use Transport"):
            Transport(drop=False).fit(X, z)
