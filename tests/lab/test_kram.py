"""KRaM: categories as a block kernel, and numbers."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from sklearn.ensemble import HistGradientBoostingRegressor
from sklearn.neighbors import KNeighborsClassifier

from unspot.data import Number
from unspot.datasets.synthetic import law
from unspot.eraser import load
from unspot.erasers import LEACE, Cascade
from unspot.lab import KRaM
from unspot.lab.coding_rate import kernel_rate, matched_rate
from unspot.lab.kram import concept_kernel, median_distance


def radial(n, seed):
    """Six features; the concept is the distance from the origin in the first two."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 6))
    return X, np.hypot(X[:, 0], X[:, 1]) + 0.1 * rng.normal(size=n)


def held_out_r2(eraser, train, test):
    probe = HistGradientBoostingRegressor(max_iter=50, random_state=0)
    probe.fit(eraser.transform(train[0]), train[1])
    return probe.score(eraser.transform(test[0]), test[1])


@pytest.fixture(scope="module")
def fitted():
    train = radial(2000, 0)
    training = {"epochs": 60, "batch_size": 200, "learning_rate": 3e-3}
    return KRaM(training=training, random_state=0).fit(*train)


def test_a_nonlinear_continuous_concept_is_erased(fitted):
    train, test = radial(2000, 0), radial(2000, 1)
    linear = LEACE().fit(*train)
    assert held_out_r2(linear, train, test) > 0.5
    assert held_out_r2(fitted, train, test) <= 0.05


def test_what_has_nothing_to_do_with_the_concept_is_still_there(fitted):
    (X, _), (T, _) = radial(2000, 0), radial(2000, 1)
    scores = [held_out_r2(fitted, (X, X[:, j]), (T, T[:, j])) for j in range(2, 6)]
    assert np.mean(scores) > 0.2


def test_categories_are_erased_too():
    rows = law("ring", n=2000, d=20, random_state=0)
    eraser = KRaM(training={"epochs": 120, "batch_size": 256}, random_state=0).fit(rows.X, rows.z)
    radius = np.linalg.norm(rows.X @ rows.concept_basis, axis=1)
    X, z = rows.sample(1000, random_state=1)
    probe = KNeighborsClassifier(25).fit(eraser.transform(rows.X), rows.z)
    before = KNeighborsClassifier(25).fit(radius[:, None], rows.z)
    held = np.linalg.norm(X @ rows.concept_basis, axis=1)[:, None]
    assert before.score(held, z) > 0.85
    assert probe.score(eraser.transform(X), z) < 0.6
    assert eraser.eraser_.metadata["concept"] == "categories"
    np.testing.assert_allclose(np.linalg.norm(eraser.transform(X), axis=1), 20**0.5, rtol=1e-3)


def test_a_narrow_kernel_on_numbers_is_the_block_kernel_of_categories():
    codes = torch.arange(12) % 3
    Z = torch.randn(12, 4, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    for name in ("gaussian", "laplacian"):
        K = concept_kernel(name)(codes.double()[:, None], 1e-3)
        torch.testing.assert_close(kernel_rate(Z, K), matched_rate(Z, codes, 3))


def test_kernels_of_a_known_distance():
    z = torch.tensor([[0.0], [2.0]])
    assert float(concept_kernel("gaussian")(z, 2.0)[0, 1]) == pytest.approx(np.exp(-0.5))
    assert float(concept_kernel("laplacian")(z, 2.0)[0, 1]) == pytest.approx(np.exp(-1))


def test_median_bandwidth_survives_ties():
    assert median_distance(torch.tensor([[0.0], [0.0], [0.0], [0.0], [1.0]])) > 0


def test_vector_concept_and_its_units():
    X, radius = radial(300, 0)
    z = np.column_stack([radius, X[:, 3]])
    options = {"training": {"epochs": 4}, "random_state": 0}
    once = KRaM(**options).fit(X, Number.read(z)).transform(X)
    rescaled = KRaM(**options).fit(X, Number.read(z * [1000.0, 0.01] + 5)).transform(X)
    np.testing.assert_allclose(rescaled, once, atol=1e-3)


def test_same_bits_save_load_and_metadata(tmp_path):
    X, z = radial(300, 0)
    options = {"training": {"epochs": 3}, "random_state": 0}
    once, again = KRaM(**options).fit(X, z), KRaM(**options).fit(X, z)
    np.testing.assert_array_equal(once.transform(X), again.transform(X))
    once.eraser_.save(tmp_path / "kram.safetensors")
    loaded = load(tmp_path / "kram.safetensors")
    np.testing.assert_array_equal(loaded(X), once.transform(X))
    assert loaded.metadata["concept"] == "continuous"


def test_cascade_around_a_continuous_concept():
    X, z = radial(300, 0)
    z = z + X[:, 5]
    eraser = Cascade(second=KRaM(training={"epochs": 3}, random_state=0)).fit(X, z)
    assert eraser.transform(X).shape == X.shape
    assert eraser.reduce(X).shape == (300, 5)


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"kernel": "cosine"}, "kernel='cosine', but expected 'gaussian' or 'laplacian'"),
        ({"bandwidth": 0}, "bandwidth=0, but expected 'median' or a positive number"),
        ({"training": {"batch_size": 0}}, "batch_size=0, but expected an integer of at least 1"),
    ],
)
def test_bad_parameters(parameters, message):
    X, z = radial(50, 0)
    with pytest.raises(ValueError, match=message):
        KRaM(**parameters).fit(X, z)
