"""INLP: an exact intersection of null spaces, and less to find in every round."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression

from unspot.lab import INLP
from unspot.lab.inlp import row_space


def shifted(n, *, n_classes=3, d=8, seed=0):
    """Classes whose means differ, along directions of very different variance."""
    rng = np.random.default_rng(seed)
    z = rng.integers(n_classes, size=n)
    means = 2.0 * np.random.default_rng(99).normal(size=(n_classes, d))
    return (rng.normal(size=(n, d)) + means[z]) * np.geomspace(1, 5, d), z


def test_the_projector_is_the_intersection_of_the_null_spaces(monkeypatch):
    X, z = shifted(1500)
    weights = []
    original = INLP._classifier

    def remember(self, rows, codes):
        classifier = original(self, rows, codes)
        weights.append(classifier.coef_)
        return classifier

    monkeypatch.setattr(INLP, "_classifier", remember)
    eraser = INLP(n_rounds=3, tolerance=-1, random_state=0).fit(X, z)
    assert eraser.n_rounds_ == 3
    # Bring the weights of each round, in coordinates of what was left then, to the whole space.
    left = np.eye(8)
    normals = []
    for coef in weights:
        normals.append(coef @ left.T)
        left = left @ np.linalg.svd(row_space(coef))[0][:, 2:]
    P = eraser.eraser_.P
    normals = np.vstack(normals)
    np.testing.assert_allclose(normals @ P, 0, atol=1e-10)
    assert eraser.eraser_.rank == 8 - np.linalg.matrix_rank(normals, tol=1e-6) == 2
    np.testing.assert_allclose(P @ P, P, atol=1e-12)
    np.testing.assert_allclose(P, P.T, atol=1e-12)


def test_directions_are_what_was_removed():
    eraser = INLP(n_rounds=2, tolerance=-1, random_state=0).fit(*shifted(800))
    Q = eraser.directions_
    np.testing.assert_allclose(Q.T @ Q, np.eye(4), atol=1e-12)
    np.testing.assert_allclose(eraser.eraser_.P, np.eye(8) - Q @ Q.T, atol=1e-12)


def test_guardedness_grows_by_round_until_chance():
    X, z = shifted(3000, d=20)
    eraser = INLP(random_state=0).fit(X, z)
    assert eraser.accuracies_[0] > 0.8
    assert eraser.accuracies_[-1] < 0.4
    assert np.all(np.diff(eraser.accuracies_) < 0.05)
    assert 1 <= eraser.n_rounds_ < 35  # it stopped at chance, not at the end
    T, t = shifted(2000, d=20, seed=1)
    probe = LogisticRegression(max_iter=1000).fit(eraser.transform(X), z)
    assert probe.score(eraser.transform(T), t) < 0.4


def test_nothing_to_find_nothing_removed():
    rng = np.random.default_rng(0)
    X, z = rng.normal(size=(2000, 5)), np.arange(2000) % 2
    eraser = INLP(tolerance=3, random_state=0).fit(X, z)
    assert eraser.n_rounds_ == 0
    np.testing.assert_allclose(eraser.eraser_.P, np.eye(5))


def test_unit_and_origin_do_not_matter():
    X, z = shifted(800)
    plain, scaled = (
        INLP(n_rounds=2, random_state=0).fit(rows, z).eraser_.P for rows in (X, 1e-4 * X + 3)
    )
    np.testing.assert_allclose(scaled, plain, atol=1e-3)


@pytest.mark.parametrize("what", ["rows", "labels", "both"])
def test_the_order_of_rows_and_labels_does_not_matter(what):
    X, z = shifted(600)
    order = np.random.default_rng(1).permutation(len(X)) if what != "labels" else slice(None)
    names = np.array(["y", "x", "w"] if what != "rows" else ["w", "x", "y"])
    eraser = INLP(n_rounds=2, tolerance=-1, random_state=0)
    P = eraser.fit(X, z).eraser_.P
    np.testing.assert_allclose(eraser.fit(X[order], names[z[order]]).eraser_.P, P, atol=1e-8)


def test_all_dimensions_may_go():
    X, z = shifted(400, n_classes=2, d=1)
    assert INLP(tolerance=-1).fit(X, z).eraser_.rank == 0


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"n_rounds": 0}, "n_rounds=0, but expected an integer of at least 1"),
        ({"C": 0.0}, "C=0.0, but expected a positive number"),
        ({"validation_fraction": 2}, "validation_fraction=2, but expected a number from 0"),
    ],
)
def test_bad_parameters(parameters, message):
    with pytest.raises(ValueError, match=message):
        INLP(**parameters).fit(*shifted(60))
