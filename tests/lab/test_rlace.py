"""R-LACE: the game's known optimum, its rank, and a linear probe at chance."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from sklearn.linear_model import LogisticRegression

from unspot.erasers import MeanProjection
from unspot.lab import RLACE
from unspot.lab.rlace import ADVERSARIES, Game, fantope


def shifted(n, *, n_classes=2, d=8, seed=0):
    rng = np.random.default_rng(seed)
    z = rng.integers(n_classes, size=n)
    means = np.random.default_rng(99).normal(size=(n_classes, d))
    return (rng.normal(size=(n, d)) + means[z]) * np.geomspace(1, 4, d), z


@pytest.mark.parametrize("loss", ["squared", "logistic"])
@pytest.mark.parametrize("n_classes", [2, 3])
def test_the_optimum_is_the_span_of_mean_differences(loss, n_classes):
    # Regression on one-hot labels finds nothing if and only if all class means agree, and so
    # does cross-entropy; the only projection of rank d − (K − 1) that makes them agree is this.
    X, z = shifted(600, n_classes=n_classes)
    found = RLACE(loss=loss, tolerance=0, validation_fraction=0, random_state=0).fit(X, z)
    closed = MeanProjection().fit(X, z)
    np.testing.assert_allclose(found.eraser_.P, closed.eraser_.P, atol=5e-3)


def test_linear_probe_at_chance_on_held_out_rows():
    (X, z), (T, t) = shifted(2000, n_classes=3), shifted(2000, n_classes=3, seed=1)
    eraser = RLACE(random_state=0).fit(X, z)
    before = LogisticRegression(max_iter=1000).fit(X, z).score(T, t)
    after = LogisticRegression(max_iter=1000).fit(eraser.transform(X), z)
    assert before > 0.7
    assert after.score(eraser.transform(T), t) < 1 / 3 + 0.05
    assert eraser.n_iter_ < 200  # stopped by the held-out part


@pytest.mark.parametrize("k", [1, 3])
def test_rank_is_what_was_asked_for(k):
    eraser = RLACE(n_directions=k, n_iterations=20, random_state=0).fit(*shifted(400))
    assert eraser.eraser_.rank == 8 - k
    P = eraser.eraser_.P
    np.testing.assert_allclose(P @ P, P, atol=1e-10)
    np.testing.assert_allclose(eraser.directions_.T @ eraser.directions_, np.eye(k), atol=1e-10)


def test_same_seed_same_bits_and_units_do_not_matter():
    X, z = shifted(400)
    once, again = (RLACE(random_state=0).fit(X, z).eraser_.P for _ in range(2))
    np.testing.assert_array_equal(once, again)
    scaled = RLACE(random_state=0).fit(1e3 * X - 50, z).eraser_.P
    np.testing.assert_allclose(scaled, once, atol=1e-4)


@pytest.mark.parametrize("what", ["rows", "labels", "both"])
def test_the_order_of_rows_and_labels_does_not_matter(what):
    X, z = shifted(600, n_classes=3)
    order = np.random.default_rng(1).permutation(len(X)) if what != "labels" else slice(None)
    names = np.array(["y", "x", "w"] if what != "rows" else ["w", "x", "y"])
    eraser = RLACE(n_iterations=20, random_state=0)
    P = eraser.fit(X, z).eraser_.P
    np.testing.assert_allclose(eraser.fit(X[order], names[z[order]]).eraser_.P, P, atol=1e-8)


@pytest.mark.parametrize(("n_classes", "d"), [(6, 5), (8, 4), (20, 5)])
def test_more_classes_than_dimensions_leave_nothing(n_classes, d):
    X, z = shifted(200, n_classes=n_classes, d=d)
    with pytest.warns(UserWarning, match=f"spans all {d} features: nothing is left") as caught:
        eraser = RLACE(random_state=0).fit(X, z)
    assert [warning.filename for warning in caught] == [__file__]
    assert (eraser.n_iter_, eraser.eraser_.rank) == (0, 0)
    assert eraser.directions_.shape == (d, d)
    np.testing.assert_allclose(eraser.transform(X) - X.mean(axis=0), 0, atol=1e-12)


def test_rows_without_any_signal_lose_as_many_directions():
    X, z = np.ones((60, 8)), np.arange(60) % 6
    assert RLACE(random_state=0).fit(X, z).eraser_.rank == 3


# -- the game ----------------------------------------------------------------------------------


@settings(max_examples=50, deadline=None)
@given(
    A=arrays(float, (5, 5), elements=st.floats(-3, 3)),
    k=st.integers(1, 5),
)
def test_fantope_projection_is_in_the_fantope_and_leaves_members_alone(A, k):
    F = fantope(A, k)
    values = np.linalg.eigvalsh(F)
    assert values.min() > -1e-9
    assert values.max() < 1 + 1e-9
    assert np.trace(F) == pytest.approx(k, abs=1e-8)
    np.testing.assert_allclose(fantope(F, k), F, atol=1e-8)


def test_fantope_projection_is_the_nearest_member():
    rng = np.random.default_rng(0)
    A = rng.normal(size=(4, 4))
    A = A + A.T
    nearest = np.linalg.norm(A - fantope(A, 2))
    for _ in range(200):
        other = fantope(rng.normal(size=(4, 4)) * 3, 2)
        assert np.linalg.norm(A - other) >= nearest - 1e-9


@pytest.mark.parametrize("loss", ["squared", "logistic"])
def test_gradient_of_the_game_is_that_of_the_adversarys_optimum(loss):
    X, z = shifted(300, d=3)
    X, Z = X - X.mean(axis=0), np.eye(2)[z]
    game = Game(ADVERSARIES[loss], X, Z, X, Z, penalty=0.5)

    def value(A):
        B = np.eye(3) - A
        theta = game.answer(B, None)
        penalised = 0.25 * np.sum(theta[:-1] ** 2)
        return game.adversary.loss(X @ B @ theta[:-1] + theta[-1], Z) + penalised

    A = fantope(np.diag([0.5, 0.3, 0.2]), 1)
    gradient = game.gradient(np.eye(3) - A, game.answer(np.eye(3) - A, None))
    step = np.array([[0.3, -0.2, 0.1], [-0.2, 0.1, 0.4], [0.1, 0.4, -0.4]])
    h = 1e-4
    slope = (value(A + h * step) - value(A - h * step)) / (2 * h)
    assert np.sum(gradient * step) == pytest.approx(slope, rel=1e-2)


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"n_directions": 9}, "n_directions=9, but expected an integer from 1 to 8"),
        ({"loss": "hinge"}, "loss='hinge', but expected 'logistic' or 'squared'"),
        ({"n_iterations": 0}, "n_iterations=0, but expected an integer of at least 1"),
        ({"penalty": 0.0}, "penalty=0.0, but expected a positive number"),
    ],
)
def test_bad_parameters(parameters, message):
    with pytest.raises(ValueError, match=message):
        RLACE(**parameters).fit(*shifted(60))
