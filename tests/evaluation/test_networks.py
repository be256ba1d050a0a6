"""Batched networks: scikit-learn's arithmetic, and each network as if it were alone."""

import warnings

import numpy as np
import pytest
import torch
from sklearn.exceptions import ConvergenceWarning
from sklearn.neural_network import MLPClassifier

from unspot.datasets.synthetic import law
from unspot.evaluation import networks as module
from unspot.evaluation.networks import Networks, Recipe, train_networks


@pytest.fixture
def rows():
    drawn = law("xor", n=300, d=4)
    return drawn.X.astype(np.float32), drawn.z


@pytest.mark.parametrize("n_classes", [2, 4])
@pytest.mark.parametrize("hidden", [(), (7,), (6, 5)])
def test_the_gradient_is_autograds(hidden, n_classes):
    rng = torch.Generator().manual_seed(0)
    X = torch.randn(3, 20, 4, generator=rng)
    codes = torch.randint(n_classes, (3, 20), generator=rng)
    nets = Networks((4, *hidden, 1 if n_classes == 2 else n_classes), 3)
    nets.initialise([0, 1, 2])
    layers = nets.activations(X)
    _, delta = module._loss_and_delta(layers[-1], codes)
    nets.backpropagate(layers, delta / 20, l2=0.5)

    flat = nets.flat.clone().requires_grad_()
    shapes = [tuple(p.shape) for p in nets.parameters]
    nets.parameters = module._views(flat, shapes, [int(np.prod(s)) for s in shapes])
    log_p = module._log_probabilities(_forward(nets, X))
    loss = -log_p.gather(2, codes[:, :, None]).mean(dim=(1, 2)).sum()
    loss = loss + 0.5 / 2 / 20 * nets.squared_weights().sum()
    loss.backward()
    assert torch.allclose(nets.gradient, flat.grad, atol=1e-6)


def _forward(nets, X):
    for i, (W, b) in enumerate(zip(nets.weights, nets.biases, strict=True)):
        X = X @ W + b
        X = X.relu() if i + 1 < len(nets.weights) else X
    return X


@pytest.fixture
def same_start(monkeypatch):
    """Let a network start where a fitted MLPClassifier starts."""

    def use(X, codes, settings):
        start = fitted(X, codes, settings, max_iter=1, learning_rate_init=1e-12)

        def initialise(self, seeds):
            for W, b, coef, intercept in zip(
                self.weights, self.biases, start.coefs_, start.intercepts_, strict=True
            ):
                W[0], b[0, 0] = torch.as_tensor(coef), torch.as_tensor(intercept)
            return [torch.Generator().manual_seed(0)]

        monkeypatch.setattr(Networks, "initialise", initialise)
        return start

    return use


def fitted(X, codes, settings, **others):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        return MLPClassifier(**settings, **others).fit(X, codes)


@pytest.mark.parametrize("n_classes", [2, 3])
def test_it_walks_in_scikit_learns_steps(same_start, rows, n_classes):
    """From the same start and with whole batches, the weights stay the same to rounding."""
    X, codes = rows[0], (rows[0][:, 0] * 2).astype(int) % n_classes
    settings = {"hidden_layer_sizes": (8,), "batch_size": len(X), "alpha": 0.1, "random_state": 0}
    start = same_start(X, codes, settings)
    end = fitted(X, codes, settings, max_iter=30, learning_rate_init=0.01)
    recipe = Recipe((8,), learning_rate=0.01, batch_size=10**6, epochs=30, l2=0.1)
    nets = train_networks(X, codes, n_classes, recipe, [0])
    assert not np.allclose(start.coefs_[0], end.coefs_[0], atol=0.01)
    for W, coef in zip(nets.weights, end.coefs_, strict=True):
        assert W[0].numpy() == pytest.approx(coef, abs=1e-3)
    probabilities = nets.log_probabilities(X).exp()[0].numpy()
    assert probabilities == pytest.approx(end.predict_proba(X), abs=1e-3)


def test_it_stops_where_scikit_learn_stops(same_start, rows, monkeypatch):
    X, codes = rows
    settings = {"hidden_layer_sizes": (8,), "batch_size": len(X), "random_state": 0}
    same_start(X, codes, settings)
    rule = {"tol": 0.005, "n_iter_no_change": 3, "max_iter": 500, "learning_rate_init": 0.01}
    end = fitted(X, codes, settings, **rule)
    losses = []
    original = module._epoch
    monkeypatch.setattr(module, "_epoch", lambda *a: losses.append(original(*a)) or losses[-1])
    recipe = Recipe((8,), 0.01, 10**6, epochs=500, tolerance=0.005, patience=3)
    train_networks(X, codes, 2, recipe, [0])
    assert 10 < end.n_iter_ < 500
    assert abs(len(losses) - end.n_iter_) <= 1
    assert torch.stack(losses)[:10, 0].numpy() == pytest.approx(end.loss_curve_[:10], rel=1e-3)


def test_a_network_does_not_know_its_neighbours(rows):
    X, codes = rows
    recipe = Recipe((8,), epochs=5)
    together = train_networks(X, codes, 2, recipe, [3, 4, 5]).log_probabilities(X)
    alone = train_networks(X, codes, 2, recipe, [4]).log_probabilities(X)
    assert torch.allclose(together[1], alone[0], atol=1e-4)
    assert not torch.allclose(together[0], together[1], atol=1e-2)


def test_a_network_that_has_stopped_stands_still(rows):
    X, codes = rows
    nets = Networks((4, 3, 1), 2)
    nets.initialise([0, 1])
    adam = module._Adam(nets, 0.1)
    adam.active = torch.tensor([False, True])
    before = [W.clone() for W in nets.weights]
    order = torch.stack([torch.arange(len(X))] * 2)
    module._epoch(nets, adam, torch.as_tensor(X), torch.as_tensor(codes), order, Recipe())
    for W, old in zip(nets.weights, before, strict=True):
        assert torch.equal(W[0], old[0])
        assert not torch.equal(W[1], old[1])


def test_with_validation_rows_the_best_epoch_is_kept(rows):
    X, codes = rows
    rng = np.random.default_rng(0)
    noise = rng.permutation(codes)  # nothing to learn: every epoch after the first ones is worse
    validation = (X[:100], codes[:100])
    recipe = Recipe((64,), learning_rate=0.01, epochs=60, patience=60)
    kept = train_networks(X[100:], noise[100:], 2, recipe, [0, 1], validation=validation)
    last = train_networks(X[100:], noise[100:], 2, recipe, [0, 1])
    right = np.arange(100), codes[:100]
    losses = [-n.log_probabilities(X[:100])[:, *right].mean(dim=1) for n in (kept, last)]
    assert (losses[0] < losses[1]).all()
    assert (losses[0] < 0.75).all()  # a coin has 0.69


def test_batches_larger_than_the_rows_and_chunks_of_prediction(rows, monkeypatch):
    X, codes = rows
    nets = train_networks(X[:50], codes[:50], 2, Recipe((4,), batch_size=512, epochs=2), [0])
    whole = nets.log_probabilities(X)
    monkeypatch.setattr(module, "_CHUNK", 7)
    assert torch.allclose(nets.log_probabilities(X), whole, atol=1e-6)
    assert torch.allclose(whole.exp().sum(dim=2), torch.ones(1, len(X)))
