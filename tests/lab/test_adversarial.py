"""Adversarial erasure: less for an adversary that was not there in training."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from sklearn.metrics import r2_score
from sklearn.neural_network import MLPClassifier

from unspot.datasets.synthetic import law
from unspot.eraser import load
from unspot.lab import AdversarialErasure
from unspot.lab.adversarial import near_identity, reverse


@pytest.fixture(scope="module")
def ring():
    rows = law("ring", n=2000, d=6, random_state=0)
    return rows, rows.sample(2000, random_state=1)


@pytest.fixture(scope="module")
def fitted(ring):
    return AdversarialErasure(strength=10, random_state=0).fit(ring[0].X, ring[0].z)


def mlp_accuracy(transform, ring):
    rows, (X, z) = ring
    probe = MLPClassifier((64,), early_stopping=True, max_iter=100, random_state=0)
    return probe.fit(transform(rows.X), rows.z).score(transform(X), z)


def test_an_adversary_held_out_from_training_finds_less(ring, fitted):
    assert mlp_accuracy(lambda X: X, ring) > 0.85
    assert mlp_accuracy(fitted.transform, ring) < 0.7


def test_the_rest_is_reconstructed_in_the_space_of_the_embeddings(ring, fitted):
    rows = ring[0]
    rest = np.linalg.svd(rows.concept_basis)[0][:, 2:]
    assert r2_score(rows.X @ rest, fitted.transform(rows.X) @ rest) > 0.5


def test_every_epoch_is_run_and_reported(fitted):
    assert fitted.n_iter_ == len(fitted.history_) == 200


def test_the_encoder_begins_as_the_identity():
    x = torch.randn(50, 5, generator=torch.Generator().manual_seed(0))
    for n_layers in (2, 4):
        encoder = near_identity(5, n_layers, np.random.default_rng(0))
        error = (encoder(x) - x).pow(2).mean() / x.pow(2).mean()
        assert error.item() < 0.1


def test_reversal_turns_the_gradient_only():
    x = torch.tensor([2.0, -3.0], requires_grad=True)
    y = reverse(x, 0.5)
    torch.testing.assert_close(y.detach(), x.detach())
    y.sum().backward()
    torch.testing.assert_close(x.grad, torch.tensor([-0.5, -0.5]))


def test_same_bits_save_and_load(ring, tmp_path):
    X, z = ring[0].X[:200], ring[0].z[:200]
    once, again = (
        AdversarialErasure(training={"epochs": 2}, random_state=0).fit(X, z) for _ in range(2)
    )
    np.testing.assert_array_equal(once.transform(X), again.transform(X))
    once.eraser_.save(tmp_path / "adversarial.safetensors")
    loaded = load(tmp_path / "adversarial.safetensors")
    np.testing.assert_array_equal(loaded(X), once.transform(X))


def test_unit_and_origin_come_back(ring):
    X, z = ring[0].X[:200], ring[0].z[:200]
    plain = AdversarialErasure(training={"epochs": 2}, random_state=0).fit(X, z).transform(X)
    scaled = AdversarialErasure(training={"epochs": 2}, random_state=0).fit(100 * X + 7, z)
    np.testing.assert_allclose((scaled.transform(100 * X + 7) - 7) / 100, plain, atol=1e-3)


def test_too_few_layers(ring):
    with pytest.raises(ValueError, match="n_layers=1, but expected an integer of at least 2"):
        AdversarialErasure(n_layers=1).fit(ring[0].X[:50], ring[0].z[:50])
