"""IGBP: the step of its paper, its form for many classes, honest stopping and replay."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from sklearn.neural_network import MLPClassifier

from unspot.eraser import load
from unspot.lab import IGBP
from unspot.lab.maps import Boundary


def probe(n_classes, d=4, h=6, seed=0, damping=0.0, network=True):
    rng = np.random.default_rng(seed)
    arrays = {"coef": rng.normal(size=(d, n_classes)), "intercept": rng.normal(size=n_classes)}
    if network:
        arrays |= {"hidden": rng.normal(size=(d, h)), "hidden_bias": rng.normal(size=h)}
        arrays |= {"hidden_coef": rng.normal(size=(h, n_classes))}
    return Boundary(**arrays, damping=damping)


@pytest.fixture
def X():
    return np.random.default_rng(1).normal(size=(50, 4))


def test_two_classes_as_in_the_paper(X):
    step = probe(2)
    x = torch.tensor(X, requires_grad=True)
    scores = step.scores(x)
    f = scores[:, 1] - scores[:, 0]
    (gradient,) = torch.autograd.grad(f.sum(), x)
    expected = x - (f / (gradient**2).sum(-1))[:, None] * gradient
    np.testing.assert_allclose(step(X), expected.detach().numpy(), atol=1e-9)
    np.testing.assert_allclose(step(torch.tensor(X)).numpy(), step(X))


@pytest.mark.parametrize("n_classes", [2, 3, 5])
def test_scores_that_are_linear_become_equal_by_the_smallest_step(X, n_classes):
    step = probe(n_classes, network=False)
    moved = step(X)
    scores = step.scores(moved)
    np.testing.assert_allclose(scores, scores[:, :1] + np.zeros(n_classes), atol=1e-9)
    differences = step.coef[:, 1:] - step.coef[:, :1]  # the step is in the span of the gradients
    inside = differences @ np.linalg.pinv(differences)
    np.testing.assert_allclose((X - moved) @ inside.T, X - moved, atol=1e-9)


def test_gradients_are_those_of_torch(X):
    step = probe(3)
    contrasts = torch.tensor(step._contrasts)

    def of_one(x):
        return step.scores(x[None])[0] @ contrasts

    for x, J in zip(X[:5], step.gradients(X[:5]), strict=True):
        expected = torch.autograd.functional.jacobian(of_one, torch.tensor(x))
        np.testing.assert_allclose(J, expected.numpy(), atol=1e-10)


def test_damping_shortens_the_step(X):
    lengths = [np.linalg.norm(probe(3, damping=c)(X) - X, axis=1) for c in (0.0, 1.0, 1e9)]
    assert (lengths[0] > lengths[1]).all()
    assert lengths[2].max() < 1e-6


# -- the whole method --------------------------------------------------------------------------


def ring(n, seed):
    """A class inside another: no linear probe sees it."""
    rng = np.random.default_rng(seed)
    z = np.arange(n) % 2
    X = rng.normal(size=(n, 3))
    X[:, :2] *= (np.where(z, 3.0, 1.0) / np.linalg.norm(X[:, :2], axis=1))[:, None]
    return X, z


def test_a_nonlinear_concept_is_hidden_from_a_new_probe():
    eraser = IGBP(n_rounds=4, n_epochs=15, random_state=0).fit(*ring(1500, 0))
    (X, z), (Y, w) = ring(800, 1), ring(800, 2)

    def accuracy(learn, test):
        model = MLPClassifier((32,), early_stopping=True, max_iter=1000, random_state=0)
        return model.fit(learn, z).score(test, w)

    assert accuracy(X, Y) > 0.95
    assert accuracy(eraser.transform(X), eraser.transform(Y)) < 0.75
    assert eraser.accuracies_[0] > 0.9 > eraser.accuracies_[-1]


def test_it_stops_when_held_out_rows_are_guessed():
    rng = np.random.default_rng(0)
    X, z = rng.normal(size=(1000, 3)), np.arange(1000) % 2
    eraser = IGBP(n_rounds=6, n_epochs=3, tolerance=5.0, random_state=0).fit(X, z)
    assert eraser.eraser_.metadata["rounds"] == 1
    eraser = IGBP(n_rounds=3, n_epochs=1, tolerance=-1, random_state=0).fit(X, z)
    assert eraser.eraser_.metadata["rounds"] == 3


def test_new_rows_are_moved_by_replay_and_columns_without_variance_stay(tmp_path):
    X, z = ring(300, 0)
    X = np.column_stack([X, np.zeros(300)])
    eraser = IGBP(n_rounds=2, n_epochs=3, random_state=0).fit(X, z).eraser_
    moved = X
    for step in eraser.maps:
        moved = step(moved)
    np.testing.assert_allclose(eraser(X), moved)
    assert (eraser(X)[:, 3] == 0).all()
    eraser.save(tmp_path / "igbp.safetensors")
    np.testing.assert_array_equal(load(tmp_path / "igbp.safetensors")(X), eraser(X))


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"n_rounds": 0}, "n_rounds=0, but expected an integer of at least 1"),
        ({"validation_fraction": 1.0}, "validation_fraction=1.0.*from 0 to below 1"),
    ],
)
def test_bad_parameters(parameters, message):
    with pytest.raises(ValueError, match=message):
        IGBP(**parameters).fit(*ring(60, 0))
