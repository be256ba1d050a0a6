"""Free-form LEACE: the identity of its paper, less change than LEACE, and calibrated posteriors."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from sklearn.linear_model import LogisticRegression

from unspot import LEACE
from unspot.eraser import load
from unspot.lab import FLEACE
from unspot.lab.classifiers import fit_classifier, out_of_fold_scores, temperature
from unspot.lab.fleace import regression
from unspot.lab.scaling import Scaling


def rows(n=1500, seed=0):
    """Three classes on a line: the middle one is not linearly separable from the others."""
    rng = np.random.default_rng(seed)
    z = rng.integers(3, size=n)
    X = rng.normal(size=(n, 4))
    X[:, 0] += np.array([0.0, 1.5, -1.5])[z]
    X[:, 1] += np.array([1.0, 0.0, 0.0])[z]
    return X + 10, z


def covariance(A, B):
    return (A - A.mean(axis=0)).T @ (B - B.mean(axis=0)) / len(A)


def test_what_is_left_has_no_covariance_with_the_posteriors():
    X, _ = rows()
    F = np.random.default_rng(1).dirichlet([1, 2, 3], size=len(X)) + 0.1 * np.tanh(X[:, :3] - 10)
    left, centre = regression(X, F)
    moved = X - (F - centre) @ left.T
    np.testing.assert_allclose(covariance(moved, F), 0, atol=1e-12)
    naive = np.linalg.lstsq(F - F.mean(axis=0), X - X.mean(axis=0), rcond=1e-8)[0].T
    np.testing.assert_allclose(left, naive, atol=1e-8)


@pytest.mark.parametrize("classifier", ["logistic", "network"])
def test_the_frozen_eraser_is_the_formula(classifier, tmp_path):
    X, z = rows(600)
    eraser = FLEACE(classifier=classifier, n_epochs=3, random_state=0).fit(X, z).eraser_
    (step,) = eraser.maps
    F = step.posterior(X)
    np.testing.assert_allclose(F.sum(axis=1), 1)
    np.testing.assert_allclose(eraser(X), X - (F - step.centre) @ step.left.T)
    np.testing.assert_allclose(eraser(torch.from_numpy(X)).numpy(), eraser(X), atol=1e-12)
    eraser.save(tmp_path / "fleace.safetensors")
    np.testing.assert_array_equal(load(tmp_path / "fleace.safetensors")(X), eraser(X))


@pytest.mark.parametrize("classifier", ["logistic", "network"])
def test_new_rows_change_less_than_by_leace_and_no_linear_probe_finds_the_concept(classifier):
    eraser = FLEACE(classifier=classifier, n_epochs=50, random_state=0).fit(*rows(3000))
    X, z = rows(6000, seed=1)
    moved = eraser.transform(X)
    change = [np.mean((Y - X) ** 2) for Y in (moved, LEACE().fit(*rows(3000)).transform(X))]
    assert change[0] < 0.95 * change[1]
    probe = LogisticRegression().fit(moved[:3000], z[:3000])
    assert probe.score(moved[3000:], z[3000:]) < 0.38


def test_the_units_of_the_rows_do_not_matter():
    X, z = rows(600)
    moved = FLEACE(random_state=0).fit_transform(X, z)
    scaled = FLEACE(random_state=0).fit_transform(1000 * X + 7, z)
    np.testing.assert_allclose((scaled - 7) / 1000, moved, atol=1e-6)


# -- classifiers -------------------------------------------------------------------------------


@pytest.mark.parametrize("n_classes", [2, 3])
def test_a_logistic_classifier_is_that_of_scikit_learn(n_classes):
    X, z = rows(600)
    X, z = X[z < n_classes], z[z < n_classes]
    found = fit_classifier("logistic", X, z, np.random.default_rng(0), n_epochs=1).posterior(X)
    scaled = Scaling.of(X)(X)
    oracle = LogisticRegression(max_iter=200).fit(scaled, z).predict_proba(scaled)
    np.testing.assert_allclose(found, oracle, atol=1e-10)


def test_every_row_is_scored_by_a_classifier_that_has_not_seen_it():
    X, z = rows(60)
    X[:, 0] = np.arange(60)
    seen = []

    def fit(part, codes):
        seen.append(set(part[:, 0]))
        return fit_classifier("logistic", part, codes, rng, n_epochs=1)

    rng = np.random.default_rng(0)
    scores = out_of_fold_scores(fit, X, z, rng, 3)
    assert scores.shape == (60, 3)
    assert len(seen) == 3
    assert not set.intersection(*seen)  # each row is left out once
    assert all(set(X[:, 0]) - part for part in seen)


def test_scores_that_are_too_sure_are_cooled(rng):
    logits = rng.normal(size=(4000, 3))
    z = (logits + rng.gumbel(size=logits.shape)).argmax(axis=1)
    assert temperature(5 * logits, z) == pytest.approx(5, rel=0.1)


@pytest.mark.filterwarnings("ignore:Got .* rows of class")
def test_few_rows_of_a_class_make_fewer_folds():
    X, z = rows(200)
    few = np.concatenate([np.flatnonzero(z != 2), np.flatnonzero(z == 2)[:2]])
    assert np.isfinite(FLEACE(random_state=0).fit_transform(X[few], z[few])).all()


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"classifier": "forest"}, "classifier='forest', but expected 'logistic' or 'network'"),
        ({"n_folds": 1}, "n_folds=1, but expected an integer of at least 2"),
    ],
)
def test_bad_parameters(parameters, message):
    with pytest.raises(ValueError, match=message):
        FLEACE(**parameters).fit(*rows(60))
