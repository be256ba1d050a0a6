"""MUtE against a naive Gaussianisation, the identity of its paper, and its counterfactuals."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from scipy.stats import norm
from sklearn.linear_model import LogisticRegression
from sklearn.preprocessing import StandardScaler

from unspot import Cascade
from unspot.datasets.synthetic import law
from unspot.eraser import load
from unspot.erasers import PCAProjection
from unspot.lab import MUtE
from unspot.lab.maps import from_normal, to_normal
from unspot.lab.mute import knots_of


def rows(n=900, seed=0, apart=4):
    """Three classes of other means, scales and shapes."""
    rng = np.random.default_rng(seed)
    z = rng.integers(3, size=n)
    X = rng.normal(size=(n, 4))
    X[z == 1] = rng.exponential(size=(np.sum(z == 1), 4)) * [1, 2, 3, 1]
    X[z == 2] @= np.random.default_rng(9).normal(size=(4, 4))
    return X + apart * np.eye(3, 4)[z] + 7, np.array(["a", "b", "c"])[z]


@pytest.fixture(scope="module")
def fitted():
    return MUtE(n_layers=6, random_state=0).fit(*rows())


def interpolated(values, knots, scores):
    """np.interp with straight lines beyond the ends."""
    result = np.interp(values, knots, scores)
    low, high = values < knots[0], values > knots[-1]
    first, last = (np.diff(scores)[i] / np.diff(knots)[i] for i in (0, -1))
    result[low] = scores[0] + (values[low] - knots[0]) * first
    result[high] = scores[-1] + (values[high] - knots[-1]) * last
    return result


def naive(step, X, codes):
    """Layer by layer and column by column."""
    Y, scores = X.copy(), np.linspace(-step.reach, step.reach, step.knots.shape[-1])
    for t in range(len(step.centres)):
        turned = (Y - step.centres[t]) @ step.rotations[t]
        for k in np.unique(codes):
            for j in range(X.shape[1]):
                column = turned[codes == k, j]
                Y[codes == k, j] = interpolated(column, step.knots[t, k, j], scores)
    return Y


def test_the_frozen_map_is_the_naive_one(fitted):
    X, z = rows(seed=1)
    (step,) = fitted.eraser_.maps
    codes = np.unique(z, return_inverse=True)[1]
    np.testing.assert_allclose(step.forward(X, codes), naive(step, X, codes), atol=1e-8)


def test_the_first_layer_is_the_principal_axes_and_quantiles_of_a_class():
    X, z = rows()
    (step,) = MUtE(n_layers=1, random_state=0).fit(X, z).eraser_.maps
    own = X[z == "a"]
    np.testing.assert_allclose(step.centres[0], own.mean(axis=0))
    covariance = step.rotations[0].T @ np.cov(own.T) @ step.rotations[0]
    np.testing.assert_allclose(covariance, np.diag(np.diag(covariance)), atol=1e-5)
    scores = np.linspace(-step.reach, step.reach, 33)[1:-1]
    turned = (X - step.centres[0]) @ step.rotations[0]
    quantiles = np.quantile(turned[z == "b"], norm.cdf(scores), axis=0)
    within = [np.mean(z == k) * turned[z == k].var(axis=0) for k in "abc"]
    line = quantiles[15] + np.outer(scores, np.sqrt(np.sum(within, axis=0)))
    borrowed = 33 / (33 + np.sum(z == "b"))
    expected = (1 - borrowed) * quantiles + borrowed * line
    np.testing.assert_allclose(step.knots[0, 1, :, 1:-1], expected.T, atol=1e-5)


def test_the_counterfactual_of_the_own_class_is_the_row(fitted):
    X, z = rows(seed=1)
    np.testing.assert_allclose(fitted.counterfactual(X, z, z=z), X, atol=1e-9)
    routed = fitted.classes_[fitted.eraser_.maps[0].scores(X).argmax(axis=1)]
    np.testing.assert_allclose(fitted.counterfactual(X, routed), X, atol=1e-9)
    far = 100 * X  # beyond all knots
    np.testing.assert_allclose(fitted.counterfactual(far, z, z=z), far, rtol=1e-6)


def test_there_and_back_again(fitted):
    X, z = rows(seed=1)
    there = fitted.counterfactual(X, "b", z=z)
    back = fitted.counterfactual(there, z, z=["b"] * len(X))
    np.testing.assert_allclose(back, X, atol=1e-8)


def test_counterfactuals_look_like_their_class():
    X, z = rows(3000, seed=1, apart=40)
    eraser = MUtE(n_layers=6, random_state=0).fit(*rows(3000, apart=40))
    as_b = eraser.counterfactual(X[z != "b"], "b")
    true = X[z == "b"]
    np.testing.assert_allclose(as_b.mean(axis=0), true.mean(axis=0), atol=0.3)
    np.testing.assert_allclose(as_b.std(axis=0), true.std(axis=0), rtol=0.15)


def test_the_mean_of_counterfactuals_is_that(fitted):
    X, _ = rows(seed=1)
    each = [fitted.counterfactual(X, k) for k in fitted.classes_]
    shares = np.unique(rows()[1], return_counts=True)[1] / 900
    np.testing.assert_allclose(fitted.transform(X), np.tensordot(shares, each, 1), atol=1e-9)


def test_gaussian_rows_are_gaussian_in_every_class():
    X, z = rows(3000, apart=40)  # so that none is routed to another class
    Y = MUtE(n_layers=9, output="gaussian", random_state=0).fit_transform(X, z)
    for k in "abc":
        np.testing.assert_allclose(Y[z == k].mean(axis=0), 0, atol=0.15)
        np.testing.assert_allclose(np.cov(Y[z == k].T), np.eye(4), atol=0.25)


@pytest.mark.parametrize("output", ["mean", "gaussian"])
def test_what_only_a_nonlinear_attacker_sees_is_erased_on_new_rows(output):
    X, z = law("variance", d=8).sample(2000, random_state=0)
    eraser = MUtE(output=output, router="network", n_epochs=10, random_state=0).fit(X, z)
    (X, z), (Y, w) = (law("variance", d=8).sample(2000, random_state=seed) for seed in (1, 2))

    def accuracy(learn, test):
        squares = StandardScaler().fit(learn**2)
        model = LogisticRegression().fit(squares.transform(learn**2), z)
        return model.score(squares.transform(test**2), w)

    before, after = accuracy(X, Y), accuracy(eraser.transform(X), eraser.transform(Y))
    assert after - 0.5 < 0.3 * (before - 0.5)


def test_saved_compactly_and_the_same_with_torch(fitted, tmp_path):
    X, _ = rows(50, seed=1)
    path = tmp_path / "mute.safetensors"
    fitted.eraser_.save(path)
    np.testing.assert_array_equal(load(path)(X), fitted.transform(X))
    tensors = load(path)(torch.from_numpy(X).reshape(5, 10, 4))
    np.testing.assert_allclose(tensors.numpy().reshape(50, 4), fitted.transform(X))
    numbers = 6 * (4 * 4 + 3 * 4 * 33)
    assert path.stat().st_size < 4 * numbers + 20_000


@pytest.mark.filterwarnings("ignore:Got .* rows of class")
def test_a_column_without_variance_stays_and_few_rows_of_a_class_do():
    X, z = rows()
    X[:, 2] = 0.0
    keep = np.concatenate([np.flatnonzero(z != "c"), np.flatnonzero(z == "c")[:3]])
    eraser = MUtE(random_state=0).fit(X[keep], z[keep])
    moved = eraser.transform(X)
    assert np.isfinite(moved).all()
    assert (moved[:, 2] == 0).all()
    np.testing.assert_allclose(eraser.counterfactual(X, z, z=z), X, atol=1e-8)


def test_behind_a_projection_it_works_in_fewer_dimensions():
    X, z = rows()
    cascade = Cascade(PCAProjection(2), MUtE(n_layers=3, random_state=0)).fit(X, z)
    assert np.isfinite(cascade.transform(X)).all()
    assert np.linalg.matrix_rank(cascade.transform(X) - X.mean(axis=0), tol=1e-6) <= 3


@pytest.mark.parametrize("shift", [0.0, 50.0])
def test_monotone_maps_and_their_inverses(rng, shift):
    values = rng.normal(size=(300, 2)) ** 3 + shift
    values[:, 1] = shift  # a column without variance
    knots = knots_of(values, np.array([1.0, 1.0]), 2.5)
    assert (np.diff(knots) > 0).all()
    np.testing.assert_allclose(knots[:, 16], np.median(values, axis=0), atol=1e-12)
    more = np.vstack([values, 10 * values])
    np.testing.assert_allclose(from_normal(to_normal(more, knots, 2.5), knots, 2.5), more)


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"n_layers": 0}, "n_layers=0, but expected an integer of at least 1"),
        ({"output": "normal"}, "output='normal', but expected 'mean' or 'gaussian'"),
        ({"router": "lda"}, "router='lda', but expected 'logistic' or 'network'"),
    ],
)
def test_bad_parameters(parameters, message):
    with pytest.raises(ValueError, match=message):
        MUtE(**parameters).fit(*rows(60))


def test_published_settings():
    published = MUtE.preset("bios", random_state=3)
    assert (published.n_layers, published.output, published.router) == (70, "gaussian", "network")
    assert published.random_state == 3
    with pytest.raises(ValueError, match=r"Got preset='bio'.*Did you mean 'bios'"):
        MUtE.preset("bio")


def test_bad_targets(fitted):
    X, _ = rows(20)
    with pytest.raises(ValueError, match="not seen in training"):
        fitted.counterfactual(X, "d")
    with pytest.raises(ValueError, match="Got 2 labels in target for 20 rows"):
        fitted.counterfactual(X, ["a", "b"])
