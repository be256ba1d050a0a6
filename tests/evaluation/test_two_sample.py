"""The two-sample test: the engine's MMD², valid p-values, power, and no n×n matrix."""

from itertools import combinations

import numpy as np
import pytest
import torch

from unspot.datasets.synthetic import law
from unspot.evaluation import two_sample as module
from unspot.evaluation.two_sample import (
    _class_weights,
    _in_metric,
    _quadratic_forms,
    two_sample_test,
)
from unspot.leopard import GaussianMixture, mean_bandwidth, mmd2


@pytest.mark.parametrize("n", [40, 700])  # within a tile, and more than one
@pytest.mark.parametrize("bandwidth", [0.25, 2.0])
def test_the_statistic_is_mmd2_up_to_a_constant(n, bandwidth):
    rng = np.random.default_rng(0)
    X, z = rng.normal(size=(n, 4)) * [1, 2, 3, 4] + 10, rng.integers(3, size=n)
    labels = np.stack([z, rng.permutation(z), rng.permutation(z)])
    weights = np.diag(np.sqrt(_class_weights(z, np.arange(n)))).astype(np.float32)
    found = _quadratic_forms(_in_metric(X, "raw"), weights[labels.T], (bandwidth,), None, None)[0]
    # Every pair of classes counts as often as it has pairs of rows.
    Y, counts = torch.as_tensor(X), np.bincount(z)
    kernel = GaussianMixture((bandwidth,), bandwidth=float(mean_bandwidth(Y)) ** 0.5)
    oracle = [
        sum(
            counts[i] * counts[j] * float(mmd2(Y[two], row[two], kernel))
            for i, j in combinations(range(3), 2)
            for two in [(row == i) | (row == j)]
        )
        / (n - 1)
        for row in torch.as_tensor(labels)
    ]
    assert np.diff(found) == pytest.approx(np.diff(oracle), rel=1e-3, abs=1e-5)


def test_p_values_are_valid_at_thirty_rows():
    rng = np.random.default_rng(0)
    p_values = np.array(
        [
            two_sample_test(
                rng.standard_t(3, size=(30, 3)), np.arange(30) % 3 == 0, random_state=i,
                n_permutations=99,
            ).p_value
            for i in range(60)
        ]
    )  # fmt: skip
    for level in (0.05, 0.1, 0.25, 0.5, 0.75):
        expected, noise = level, 3 * (level * (1 - level) / 60) ** 0.5
        assert abs((p_values <= level).mean() - expected) < noise


@pytest.mark.parametrize("name", ["mean", "variance", "xor", "ring", "mixture", "heavy"])
def test_it_sees_what_a_kernel_can_see(name):
    rows = law(name, n=1000, d=10)
    assert two_sample_test(rows.X, rows.z, n_permutations=99).p_value == 0.01


def test_it_does_not_see_what_is_not_there():
    rows = law("mean", n=1000, d=10)
    kept = rows.X - rows.X @ rows.concept_basis @ rows.concept_basis.T
    assert two_sample_test(kept, rows.z).p_value > 0.05


def test_whitening_sees_what_low_variance_hides(monkeypatch):
    rng = np.random.default_rng(0)
    X, z = rng.normal(size=(500, 10)) * 100, np.arange(500) % 2
    X[:, 0] = rng.normal(size=500) * 0.01 + 0.01 * z
    assert two_sample_test(X, z).p_value < 0.01
    monkeypatch.setattr(module, "METRICS", ("raw",))
    assert two_sample_test(X, z).p_value > 0.05


@pytest.mark.parametrize(("dtype", "size"), [("f4", 1e-6), ("f8", 1e-6), ("f8", 1e-12)])
def test_whitening_reaches_down_to_rounding_errors(dtype, size):
    rng = np.random.default_rng(0)
    X, z = rng.normal(size=(600, 6)), np.arange(600) % 2
    X[:, 0] = size * (X[:, 0] + z)
    rotated = (X @ np.linalg.qr(rng.normal(size=(6, 6)))[0]).astype(dtype)
    assert two_sample_test(rotated, z, n_permutations=99).p_value == 0.01


def test_narrow_kernels_see_a_wave(monkeypatch):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(1500, 3))
    z = np.sin(6 * X @ [0.6, -0.64, 0.48]) > 0
    assert two_sample_test(X, z, n_permutations=99).p_value == 0.01
    monkeypatch.setattr(module, "BANDWIDTHS", (0.25, 1.0, 4.0))
    assert two_sample_test(X, z, n_permutations=99).p_value > 0.02


def test_names_units_and_origin_do_not_matter():
    rows = law("variance", n=120, d=5)
    X, z = rows.X * 0.5, rows.z
    first = two_sample_test(X, z, random_state=1)
    assert two_sample_test(X, np.array(["a", "b"])[z], random_state=1) == first
    moved = two_sample_test(1e3 * X + 5e5, z, random_state=1)
    assert moved.p_value == first.p_value
    assert moved.statistic == pytest.approx(first.statistic, rel=1e-3)


def test_one_seed_one_p_value():
    rows = law("independent", n=100, d=3)
    first, again, other = (two_sample_test(rows.X, rows.z, random_state=s) for s in (0, 0, 1))
    assert first == again
    assert first != other


def test_more_rows_than_the_limit_are_sampled_with_every_class():
    rng = np.random.default_rng(0)
    X, z = rng.normal(size=(3000, 3)), np.array([0] * 2980 + [1] * 20)
    X[z == 1] += 3
    found = two_sample_test(X, z, max_rows=200)
    assert found.n_rows == 200
    assert found.p_value < 0.01
    assert found.n_permutations == 200


def test_many_classes_at_once():
    rng = np.random.default_rng(1)
    z = np.arange(600) % 50
    X = rng.normal(size=(600, 4))
    assert two_sample_test(X, z, n_permutations=50).p_value > 0.05
    X[z == 7] += 4
    assert two_sample_test(X, z, n_permutations=50).p_value < 0.02


def test_equal_rows_are_no_evidence():
    assert two_sample_test(np.ones((20, 2)), np.arange(20) % 2).p_value == 1.0


def test_copies_of_rows_are_no_evidence_and_bits_are_no_copies():
    rng = np.random.default_rng(0)
    X, z = rng.normal(size=(500, 5)), rng.integers(2, size=500)
    again = np.r_[:500, rng.choice(500, 50, replace=False)]
    assert two_sample_test(X[again], z[again]) == two_sample_test(X, z)
    bits = (X[:, :3] + 0.5 * z[:, None] > 0).astype(float)
    assert two_sample_test(bits, z).p_value < 0.01


def test_bad_input_is_named():
    X, z = np.zeros((6, 2)), np.array([0, 0, 0, 1, 1, 1])
    with pytest.raises(ValueError, match=r"Got 1 row of class 1.*at least 2 rows of every class"):
        two_sample_test(X[:4], z[:4])
    with pytest.raises(ValueError, match="one class in z"):
        two_sample_test(X[:3], z[:3])
    with pytest.raises(ValueError, match="n_permutations=0, but expected an integer of at least 1"):
        two_sample_test(X, z, n_permutations=0)
    with pytest.raises(ValueError, match="max_rows=3, but expected an integer of at least 4"):
        two_sample_test(X, z, max_rows=3)
    with pytest.raises(ValueError, match="Got 6 labels in z for 5 rows of X"):
        two_sample_test(X[:5], z)
    with pytest.raises(ValueError, match="NaN"):
        two_sample_test(np.full((6, 2), np.nan), z)
