"""Description lengths: bounds that theory gives, and what erasure should do to them."""

from functools import partial

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression
from sklearn.neighbors import KNeighborsClassifier

from unspot.evaluation.description_length import TRUST, block_ends, mdl, running_prior
from unspot.lab.description_length import fit_estimator


def independent(n, d, shares, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, d)) @ rng.normal(size=(d, d)) + 3
    return X, rng.choice(len(shares), size=n, p=shares)


def entropy(z):
    shares = np.unique(z, return_counts=True)[1] / len(z)
    return -(shares * np.log2(shares)).sum()


NOISE = [
    (2000, 5, (0.5, 0.5)),
    (3000, 30, (0.7, 0.2, 0.1)),
    (2000, 300, (0.5, 0.5)),
    (2000, 300, (0.6, 0.1, 0.1, 0.1, 0.1)),
    (4000, 100, (0.9, 0.1)),
]


@pytest.mark.parametrize(("n", "d", "shares"), NOISE)
def test_independent_labels_cost_what_the_prior_costs(n, d, shares):
    X, z = independent(n, d, shares)
    found = mdl(X, z)
    assert found.prior_bits == pytest.approx(n * entropy(z), rel=1e-9)
    assert found.uniform_bits == pytest.approx(n * np.log2(len(shares)), rel=1e-9)
    assert found.bits == pytest.approx(found.prior_bits, rel=0.05)
    assert found.control_bits == pytest.approx(found.prior_bits, rel=0.05)


def test_informative_labels_compress():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(2500, 10))
    linear = mdl(X, X[:, 0] + X[:, 1] > 0)
    assert linear.compression > 4
    assert linear.control_bits > 0.95 * linear.prior_bits
    product = mdl(X, X[:, 0] * X[:, 1] > 0, control=False)
    assert product.compression > 1.5
    assert product.control_bits is None


def test_more_noise_in_the_labels_makes_the_code_longer():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(1000, 5))
    lengths = [
        mdl(X, (X[:, 0] > 0) ^ (rng.random(1000) < flipped), control=False).bits
        for flipped in (0.0, 0.1, 0.25, 0.5)
    ]
    assert lengths == sorted(lengths)


def test_the_code_is_never_shorter_than_the_information_allows():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(3000, 3))
    z = (X[:, 0] > 0) ^ (rng.random(3000) < 0.1)  # 0.469 bits a label at best
    found = mdl(X, z, control=False)
    assert 0.469 < found.bits / 3000 < 0.6


def test_small_directions_are_not_a_hiding_place():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(2000, 5))
    scaled = X * [1e-4, 1, 1, 10, 1]
    assert mdl(scaled, X[:, 0] > 0, control=False).compression > 3


class Liar(LogisticRegression):
    """A probe that is always certain, and wrong as often as a coin."""

    def predict_proba(self, X):
        return np.eye(2)[np.random.default_rng(0).integers(2, size=len(X))]


def test_an_over_confident_probe_costs_at_most_a_bit_a_block():
    X, z = independent(2000, 5, (0.5, 0.5))
    found = mdl(X, z, probe=partial(fit_estimator, Liar()), control=False)
    for block in found.blocks:
        assert block.bits <= block.prior_bits + 1 + 1e-9
    assert found.bits < 1.02 * found.prior_bits


def test_a_good_probe_costs_at_most_its_own_weight():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(2000, 1))
    z = X[:, 0] > 0
    last = mdl(X, z, probe=partial(fit_estimator, KNeighborsClassifier(1)), control=False).blocks[
        -1
    ]
    size = last.stop - last.start
    assert last.bits < size * 0.05 + 1 + np.log2(len(TRUST))


def test_blocks_are_disjoint_and_cover_every_row_once():
    X, z = independent(1000, 3, (0.5, 0.5))
    found = mdl(X, z, control=False)
    assert [b.stop for b in found.blocks[:-1]] == [b.start for b in found.blocks[1:]]
    assert (found.blocks[0].start, found.blocks[-1].stop) == (0, 1000)
    assert sum(b.bits for b in found.blocks) == pytest.approx(found.bits)
    assert found.blocks[0].bits == pytest.approx(found.blocks[0].stop * np.log2(2))


def test_blocks_end_at_the_published_fractions():
    ends = [100, 200, 400, 800, 1600, 3200, 6250, 12500, 25000, 50000, 100_000]
    assert block_ends(100_000) == ends
    assert block_ends(7)[-1] == 7


def test_the_running_prior_is_the_sequential_estimate():
    codes = np.array([0, 1, 0, 0, 2, 1])
    expected = []
    for i, code in enumerate(codes):
        expected.append((np.sum(codes[:i] == code) + 0.5) / (i + 1.5))
    assert running_prior(codes, 3) == pytest.approx(expected)


def test_a_class_that_comes_late_is_paid_for_not_lost():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(1500, 4))
    z = np.where(np.arange(1500) < 3, "rare", np.where(X[:, 0] > 0, "a", "b"))
    for probe in (None, partial(fit_estimator, LogisticRegression())):
        found = mdl(X, z, probe=probe, control=False)
        assert found.n_classes == 3
        assert np.isfinite(found.bits)
        assert found.compression > 2


def test_fifty_classes_as_strings():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(2000, 5))
    z = np.array([f"class {c}" for c in rng.integers(50, size=2000)])
    found = mdl(X, z)
    assert found.n_classes == 50
    assert found.bits == pytest.approx(found.prior_bits, rel=0.05)


def test_names_of_classes_do_not_matter_and_seeds_decide():
    X, _ = independent(200, 4, (0.5, 0.5))
    z = X[:, 0] > X[:, 0].mean()
    base = mdl(X, z, random_state=3)
    assert mdl(X, np.where(z, "yes", "no"), random_state=3) == base
    assert mdl(X, z, random_state=4).bits != base.bits


def test_a_sample_of_the_rows():
    X, z = independent(2000, 3, (0.5, 0.5))
    found = mdl(X, z, max_rows=500, control=False)
    assert (found.n_rows, found.blocks[-1].stop) == (500, 500)


@pytest.mark.parametrize("n", [2, 3, 5, 20])
def test_few_rows_have_a_code_too(n):
    rng = np.random.default_rng(0)
    found = mdl(rng.normal(size=(n, 3)), np.arange(n) % 2)
    assert 0 < found.bits < 3 * n + 3


def test_bad_input_is_refused():
    X, z = independent(20, 3, (0.5, 0.5))
    with pytest.raises(ValueError, match="Got 19 labels in z for 20 rows of X"):
        mdl(X, z[:-1])
    with pytest.raises(ValueError, match="Got one class in z"):
        mdl(X, 0 * z)
    with pytest.raises(ValueError, match="values of NaN or infinity in X"):
        mdl(np.where(X > 1, np.inf, X), z)
    with pytest.raises(ValueError, match=r"max_rows=1.*at least 2"):
        mdl(X, z, max_rows=1)
    with pytest.raises(ValueError, match=r"Got X of shape \(20,\), but expected"):
        mdl(X[:, 0], z)
