"""FaRM: its objective, and that it erases what no linear method can."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from sklearn.base import clone
from sklearn.ensemble import HistGradientBoostingClassifier

from unspot.datasets.synthetic import law
from unspot.eraser import load
from unspot.erasers import LEACE
from unspot.lab import DivergenceError, FaRM
from unspot.lab.farm import farm_objective


@pytest.fixture(scope="module")
def ring():
    rows = law("ring", n=2000, d=20, random_state=0)
    return rows, rows.sample(2000, random_state=1)


@pytest.fixture(scope="module")
def fitted(ring):
    rows, _ = ring
    return FaRM(training={"epochs": 120, "batch_size": 256}, random_state=0).fit(rows.X, rows.z)


def boosted_accuracy(eraser, rows, held_out):
    X, z = held_out
    probe = HistGradientBoostingClassifier(max_iter=50, random_state=0)
    return probe.fit(eraser.transform(rows.X), rows.z).score(eraser.transform(X), z)


def test_objective_equals_its_formula():
    # Two classes of one unit vector each, orthogonal, d = 2, ε² = ½.
    Z = torch.eye(2, dtype=torch.float64)
    whole = 0.5 * math.log(3 * 3)  # α = 2/(2·½) = 2
    each = 0.5 * math.log(1 + 4)  # α = 2/(1·½) = 4
    value = farm_objective(Z, torch.tensor([0, 1]), distortion=0.5)
    assert float(value) == pytest.approx(whole + 0.5 * each + 0.5 * each)


def test_it_erases_the_ring_that_leace_cannot(ring, fitted):
    rows, held_out = ring
    assert boosted_accuracy(LEACE().fit(rows.X, rows.z), rows, held_out) > 0.7
    others = [clone(fitted).set_params(random_state=seed).fit(rows.X, rows.z) for seed in (1, 2)]
    left = [boosted_accuracy(eraser, rows, held_out) for eraser in (fitted, *others)]
    assert np.mean(left) < 0.6  # one network may be lucky


def test_erased_rows_are_on_the_sphere_of_the_loss(ring, fitted):
    erased = fitted.transform(ring[0].X)
    np.testing.assert_allclose(np.linalg.norm(erased, axis=1), np.sqrt(20), rtol=1e-3)
    np.testing.assert_allclose(erased.sum(axis=1), 0, atol=1e-9)
    np.testing.assert_array_equal(fitted.reduce(ring[0].X), erased)


def test_the_held_out_objective_improves_and_is_reported(fitted):
    assert len(fitted.history_) == fitted.n_iter_ == fitted.eraser_.metadata["epochs"]
    assert min(fitted.history_) < fitted.history_[0]


def test_same_seed_same_bits_and_another_seed_another_network(ring):
    X, z = ring[0].X[:300], ring[0].z[:300]
    once, again, other = (
        FaRM(training={"epochs": 3}, random_state=seed).fit(X, z).transform(X) for seed in (0, 0, 1)
    )
    np.testing.assert_array_equal(once, again)
    assert not np.allclose(once, other)


def test_the_global_generator_is_left_alone(ring):
    before = torch.random.get_rng_state()
    FaRM(training={"epochs": 1}, random_state=0).fit(ring[0].X[:300], ring[0].z[:300])
    assert torch.equal(before, torch.random.get_rng_state())


def test_unit_and_origin_of_the_embeddings_do_not_matter(ring):
    X, z = ring[0].X[:300], ring[0].z[:300]
    plain = FaRM(training={"epochs": 5}, random_state=0).fit(X, z).transform(X)
    scaled = (
        FaRM(training={"epochs": 5}, random_state=0).fit(1000 * X + 7, z).transform(1000 * X + 7)
    )
    np.testing.assert_allclose(scaled, plain, atol=1e-3)


def test_save_and_load(ring, fitted, tmp_path):
    fitted.eraser_.save(tmp_path / "farm.safetensors")
    erased = load(tmp_path / "farm.safetensors")(ring[0].X[:5])
    np.testing.assert_array_equal(erased, fitted.transform(ring[0].X[:5]))


def test_divergence_keeps_the_best_eraser(ring, monkeypatch):
    X, z = ring[0].X[:300], ring[0].z[:300]
    calls = []

    def diverging(Z, codes, *, distortion):
        calls.append(1)
        value = farm_objective(Z, codes, distortion=distortion)
        return value * (torch.nan if len(calls) > 10 else 1.0)

    monkeypatch.setattr("unspot.lab.farm.farm_objective", diverging)
    eraser = FaRM(training={"learning_rate": 0.02}, random_state=0)
    with pytest.raises(DivergenceError, match=r"step \d+ with learning_rate=0.02") as caught:
        eraser.fit(X, z)
    assert caught.value.eraser is eraser.eraser_
    assert eraser.eraser_.metadata["diverged"]
    assert np.isfinite(eraser.transform(X)).all()


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"training": {"epochs": 0}}, "epochs=0, but expected an integer of at least 1"),
        ({"training": {"batch_size": 2.5}}, "batch_size=2.5, but expected an integer"),
        ({"n_layers": 0}, "n_layers=0, but expected an integer of at least 1"),
        (
            {"training": {"learning_rate": -1.0}},
            "learning_rate=-1.0, but expected a positive number",
        ),
        ({"distortion": 0}, "distortion=0, but expected a positive number"),
        (
            {"training": {"validation_fraction": 1.0}},
            "validation_fraction=1.0, but expected a number from 0",
        ),
    ],
)
def test_bad_parameters(parameters, message, ring):
    with pytest.raises(ValueError, match=message):
        FaRM(**parameters).fit(ring[0].X[:100], ring[0].z[:100])


def test_numbers_are_refused_with_the_methods_that_take_them(ring):
    with pytest.raises(ValueError, match=r"continuous concept.*Use LEOPARD"):
        FaRM().fit(ring[0].X[:100], np.linspace(0, 1, 100))
