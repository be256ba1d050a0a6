"""Synthetic laws: the stated Bayes accuracy is that of the true posterior, projected or not."""

import numpy as np
import pytest
from scipy.stats import chi2, norm, t

from benchmarks.power import densities
from unspot.datasets.synthetic import LAWS, law

CODED = [name for name in LAWS if name != "independent"]
N = 20_000
NOISE = 4 * 0.5 / N**0.5  # four standard errors of an accuracy


def random_basis(d, r, seed):
    return np.linalg.qr(np.random.default_rng(seed).normal(size=(d, r)))[0]


def complement(basis):
    return np.linalg.svd(basis)[0][:, basis.shape[1] :]


@pytest.mark.parametrize("name", LAWS)
def test_bayes_accuracy_is_what_the_true_posterior_reaches(name):
    rows = law(name, n=N, d=8, random_state=1)
    guesses = densities(rows, rows.X, np.eye(8)).argmax(axis=1)
    assert abs((guesses == rows.z).mean() - rows.bayes_accuracy) < NOISE


@pytest.mark.parametrize("name", LAWS)
@pytest.mark.parametrize("r", [1, 3, 6])
def test_bayes_accuracy_after_a_projection_is_too(name, r):
    rows = law(name, n=N, d=8, random_state=1)
    U = random_basis(8, r, seed=r)
    guesses = densities(rows, rows.X, U).argmax(axis=1)
    assert abs((guesses == rows.z).mean() - rows.bayes_after(U)) < NOISE


def test_laws_with_a_closed_form():
    assert law("mean").bayes_accuracy == pytest.approx(norm.cdf(1), abs=1e-4)
    assert law("heavy").bayes_accuracy == pytest.approx(t.cdf(1.5, 3), abs=1e-12)
    assert law("independent").bayes_accuracy == 0.5
    hit = norm.cdf(1.5)
    assert law("xor").bayes_accuracy == pytest.approx(hit**2 + (1 - hit) ** 2, abs=1e-4)
    # Squared radii of two dimensions: s²χ²₂ with s² = ¼ or 9/4, the classes cross at log(9)/(16/9).
    cross = np.log(9) / (16 / 9)
    inside = chi2.cdf(cross / 0.25, 2), chi2.cdf(cross / 2.25, 2)
    expected = (1 + inside[0] - inside[1]) / 2
    assert law("variance").bayes_accuracy == pytest.approx(expected, abs=1e-3)


@pytest.mark.parametrize("name", LAWS)
def test_projecting_the_concept_away_leaves_chance(name):
    rows = law(name, n=10, d=6)
    assert rows.bayes_after(complement(rows.concept_basis)) == 1 / rows.n_classes


@pytest.mark.parametrize("name", CODED)
def test_no_projection_adds_information(name):
    rows = law(name, n=10, d=6)
    assert rows.bayes_after(rows.concept_basis) == pytest.approx(rows.bayes_accuracy, abs=1e-3)
    for seed in range(3):
        small, large = random_basis(6, 2, seed), random_basis(6, 4, seed)
        nested = large @ random_basis(4, 2, seed)
        assert rows.bayes_after(small) <= rows.bayes_accuracy + 1e-3
        assert rows.bayes_after(nested) <= rows.bayes_after(large) + 1e-3


def test_the_mixture_hides_from_means_and_covariances():
    rows = law("mixture", n=60_000, d=4, random_state=0)
    parts = [rows.X[rows.z == k] for k in range(3)]
    assert max(np.abs(part.mean(axis=0)).max() for part in parts) < 0.1
    first = np.cov(parts[0], rowvar=False)
    assert max(np.abs(np.cov(part, rowvar=False) - first).max() for part in parts) < 0.4
    assert rows.bayes_accuracy > 0.85


def test_labels_of_the_independent_law_have_no_basis():
    rows = law("independent", n=10, d=4)
    assert rows.concept_basis.shape == (4, 0)


@pytest.mark.parametrize("name", LAWS)
def test_one_seed_one_law(name):
    first, again, other = (law(name, n=50, d=5, random_state=s) for s in (3, 3, 4))
    assert np.array_equal(first.X, again.X)
    assert np.array_equal(first.z, again.z)
    assert not np.array_equal(first.X, other.X)
    more = first.sample(50, random_state=0)[0]
    assert more.shape == (50, 5)
    assert not np.array_equal(more, first.X)
    basis = first.concept_basis
    assert basis.T @ basis == pytest.approx(np.eye(basis.shape[1]), abs=1e-12)


def test_bad_input_is_named():
    with pytest.raises(ValueError, match=r"name='rings'.*Did you mean 'ring'\?"):
        law("rings")
    with pytest.raises(ValueError, match=r"d=1 features, but the law 'xor' needs.*2 features"):
        law("xor", d=1)
    rows = law("mean", n=10, d=4)
    with pytest.raises(ValueError, match=r"shape \(3, 2\), but expected \(4, r\)"):
        rows.bayes_after(np.eye(3)[:, :2])
    with pytest.raises(ValueError, match="not orthonormal"):
        rows.bayes_after(2 * np.eye(4))
