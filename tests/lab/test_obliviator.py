"""Obliviator: its two steps by plain formulas, a task to preserve, honest stopping and replay."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from scipy.linalg import null_space
from sklearn.linear_model import LogisticRegression
from sklearn.metrics.pairwise import rbf_kernel
from sklearn.svm import SVC

from unspot import Cascade
from unspot.eraser import load
from unspot.erasers import Transport
from unspot.lab import Obliviator
from unspot.lab.obliviator import Preserved, dependence, fourier, preserved_directions

QUICK = {"n_rounds": 2, "n_steps": 3, "n_random_features": 100, "width": 32, "random_state": 0}
#: Enough to erase.
THOROUGH = {**QUICK, "n_rounds": 4, "n_steps": 30, "learning_rate": 2e-2, "width": 64}
THOROUGH["n_random_features"] = 200


def ring(n, seed):
    """A class inside another, which no linear probe sees, and a task beside it."""
    rng = np.random.default_rng(seed)
    z, y = np.arange(n) % 2, rng.permutation(np.arange(n) % 3)
    X = rng.normal(size=(n, 5))
    X[:, :2] *= (np.where(z, 3.0, 1.0) / np.linalg.norm(X[:, :2], axis=1))[:, None]
    X[:, 4] = 0.3 * X[:, 4] + y
    return X, z, y


# -- the two steps by plain formulas -------------------------------------------------------------


def test_dependence_is_the_root_of_hsic(rng):
    a, b = rng.normal(size=(40, 6)), rng.normal(size=(40, 4))
    H = np.eye(40) - 1 / 40
    hsic = np.trace(a @ a.T @ H @ (b @ b.T) @ H) / 40**2
    np.testing.assert_allclose(float(dependence(*map(torch.tensor, (a, b)))) ** 2, hsic)


def test_no_dependence_has_a_finite_gradient():
    a = torch.ones(5, 2, requires_grad=True)
    dependence(a, torch.ones(5, 1)).backward()
    assert torch.isfinite(a.grad).all()


def test_random_features_stand_for_the_kernel_at_the_median_distance(rng):
    X = rng.normal(size=(30, 3))
    lift = fourier(X, 50_000, rng)
    distances = np.linalg.norm(X[:, None] - X, axis=-1)
    median = np.median(distances[np.triu_indices(30, 1)])
    phi = lift(X)
    np.testing.assert_allclose(phi @ phi.T, rbf_kernel(X, gamma=0.5 / median**2), atol=0.02)


def test_directions_against_a_plain_recomputation(rng):
    n, m = 200, 12
    w, z = rng.normal(size=(n, m)), rng.normal(size=(n, 2))
    w[:, :2] += z
    preserved = [
        Preserved(rng.normal(size=(n, 5)), 0.3, 1.0),
        Preserved(rng.normal(size=(n, 3)), 0.0, 0.2),
    ]
    V = preserved_directions(w, z, preserved, threshold=0.05)
    # The formula, with covariances as numpy has them, whose factor n/(n − 1) cancels.
    Q = null_space(np.cov(w.T, z.T)[m:, :m])
    gain = np.zeros((m, m))
    for features, _, weight in preserved:
        C = np.cov(w.T, features.T)[:m, m:]
        gain += weight * C @ C.T / np.linalg.svd(C)[1][0] ** 2
    values, vectors = np.linalg.eigh(Q.T @ gain @ Q)
    expected = Q @ vectors[:, values > 0.05 * values.max()]
    assert 1 < V.shape[1] == expected.shape[1] < m - 2
    np.testing.assert_allclose(V @ V.T, expected @ expected.T, atol=1e-8)
    np.testing.assert_allclose(np.cov((w @ V).T, z.T)[: V.shape[1], V.shape[1] :], 0, atol=1e-12)
    gains = np.diag(V.T @ gain @ V)
    assert (np.diff(gains) <= 1e-12).all()  # the most useful first


def test_new_rows_go_through_the_same_steps_in_plain_numpy(tmp_path):
    X, z, _ = ring(300, 0)
    eraser = Obliviator(**QUICK, tolerance=-1).fit(X, z).eraser_
    assert eraser.metadata["rounds"] == 2
    rows, _, _ = ring(50, 1)
    expected = rows
    *rounds, expand = eraser.maps
    for i in range(0, len(rounds), 5):
        encoder, _, lift, left, _ = rounds[i : i + 5]
        u = np.maximum(expected @ encoder.weight + encoder.bias, 0)
        u /= np.linalg.norm(u, axis=1, keepdims=True)
        w = np.sqrt(2 / 100) * np.cos(u @ lift.weight + lift.bias)
        expected = w @ left.weight + left.bias
        expected /= np.linalg.norm(expected, axis=1, keepdims=True)
    np.testing.assert_allclose(eraser.reduce(rows), expected, atol=1e-10)
    np.testing.assert_allclose(eraser(rows), expected @ np.eye(5)[: expected.shape[1]], atol=1e-10)
    assert expand.n_out == 5
    eraser.save(tmp_path / "obliviator.safetensors")
    np.testing.assert_array_equal(load(tmp_path / "obliviator.safetensors")(rows), eraser(rows))
    np.testing.assert_allclose(eraser.to_torch()(torch.tensor(rows)), eraser(rows), atol=1e-6)


# -- the whole method ----------------------------------------------------------------------------


def svm(learn, labels, test, truth):
    return SVC(C=10).fit(learn, labels).score(test, truth)


@pytest.fixture(scope="module")
def unseen():
    return ring(500, 1), ring(500, 2)


def test_a_nonlinear_concept_is_hidden_on_unseen_rows(unseen):
    (X, z, _), (Y, w, _) = unseen
    eraser = Obliviator(**THOROUGH).fit(*ring(800, 0)[:2])
    assert svm(X, z, Y, w) > 0.95
    assert svm(eraser.transform(X), z, eraser.transform(Y), w) < 0.7
    assert eraser.accuracies_[0] > 0.7 > eraser.accuracies_[-1]


def test_a_task_is_kept_better_if_it_is_given(unseen):
    (X, _, y), (Y, _, task) = unseen
    fit = ring(800, 0)
    accuracies = []
    for beside in ({}, {"keep": fit[2]}):
        eraser = Obliviator(**{**THOROUGH, "n_rounds": 2}).fit(*fit[:2], **beside)
        model = LogisticRegression(C=100).fit(eraser.transform(X), y)
        accuracies.append(model.score(eraser.transform(Y), task))
    assert accuracies[1] > accuracies[0] + 0.1
    assert eraser.eraser_.metadata["keep"]["classes"] == [0, 1, 2]


def test_it_stops_when_held_out_rows_are_guessed():
    rng = np.random.default_rng(0)
    X, z = rng.normal(size=(400, 3)), np.arange(400) % 2
    eraser = Obliviator(**{**QUICK, "n_rounds": 5}, tolerance=5.0).fit(X, z)
    assert len(eraser.accuracies_) == eraser.eraser_.metadata["rounds"] == 1


def test_rounds_that_gain_nothing_are_left_out(monkeypatch):
    """None gets to a guess: the first one that is as near to the best counts."""
    found = iter([0.9, 0.71, 0.8, 0.70])
    monkeypatch.setattr("unspot.lab.obliviator.probe_accuracy", lambda *_: next(found))
    eraser = Obliviator(**{**QUICK, "n_rounds": 4}).fit(*ring(300, 0)[:2])
    assert eraser.accuracies_ == [0.9, 0.71, 0.8, 0.70]
    assert eraser.eraser_.metadata["rounds"] == 2


@pytest.fixture
def fitted(monkeypatch):
    """The numbers of rows that rounds were fitted on."""
    counts, original = [], Obliviator._round

    def counted(self, rows, *others):
        counts.append(len(rows))
        return original(self, rows, *others)

    monkeypatch.setattr(Obliviator, "_round", counted)
    return counts


def test_the_probe_sees_no_row_of_the_fit(fitted, monkeypatch):
    judged = []
    monkeypatch.setattr(
        "unspot.lab.obliviator.probe_accuracy",
        lambda rows, codes, rng: judged.append(len(rows)) or 0.5,
    )
    Obliviator(**QUICK, validation_fraction=0.2).fit(*ring(300, 0)[:2])
    assert (fitted, judged) == ([240], [60])


def test_of_many_rows_a_sample_is_taken(fitted):
    Obliviator(**QUICK, max_rows=100).fit(*ring(400, 0)[:2])
    assert set(fitted) == {100}


def test_no_coordinate_is_of_rounding_size():
    """Constant and repeated columns are left out, and directions below the threshold too."""
    X, z, _ = ring(400, 0)
    X = np.column_stack([X, np.zeros(400), np.full(400, 0.1), X[:, 0]])
    eraser = Obliviator(**QUICK).fit(X, z)
    rows = eraser.transform(X)
    values = np.linalg.svd(rows - rows.mean(axis=0), compute_uv=False)
    assert ((values > 1e-4 * values[0]) | (values == 0)).all()
    shifted = X + 1e-14 * np.random.default_rng(1).normal(size=X.shape)
    np.testing.assert_allclose(eraser.transform(shifted), rows, atol=1e-10)


def test_after_another_eraser():
    X, z, y = ring(400, 0)
    cascade = Cascade(Transport(), Obliviator(**QUICK)).fit(X, z)
    assert cascade.transform(X).shape == X.shape
    preserved = Cascade(second=Obliviator(**QUICK)).fit(X, z, keep=y)
    assert preserved.eraser_.metadata["inner"]["rounds"] >= 1


def test_presets_are_those_of_the_published_code():
    assert Obliviator.preset("supervised").threshold == 1e-5
    assert Obliviator.preset("unsupervised", n_rounds=3).n_rounds == 3
    with pytest.raises(ValueError, match=r"preset='glove'.*unsupervised"):
        Obliviator.preset("glove")


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"n_rounds": 0}, "n_rounds=0, but expected an integer of at least 1"),
        ({"weights": (1, 2)}, "three numbers"),
        ({"weights": (1, 2, -3)}, "at least 0"),
        ({"threshold": 0}, "threshold=0"),
        ({"validation_fraction": 1.0}, "validation_fraction=1.0.*from 0 to below 1"),
    ],
)
def test_bad_parameters(parameters, message):
    with pytest.raises(ValueError, match=message):
        Obliviator(**parameters).fit(*ring(60, 0)[:2])


def test_conditions_and_several_concepts_are_refused():
    X, z, y = ring(60, 0)
    with pytest.raises(ValueError, match="given=…, but Obliviator"):
        Obliviator().fit(X, z, given=y)
    with pytest.raises(ValueError, match="2 concepts, but Obliviator"):
        Obliviator().fit(X, {"z": z, "y": y})


@pytest.mark.parametrize("n_classes", [2, 3])
def test_features_must_outnumber_what_is_removed(n_classes):
    X, z = ring(120, 0)[0], np.arange(120) % n_classes
    few, enough = ({**QUICK, "n_random_features": n_classes + more} for more in (-1, 0))
    with pytest.raises(ValueError, match="classes") as error:
        Obliviator(**few).fit(X, z)
    for needle in (f"n_random_features={n_classes - 1}", f"at least {n_classes}", "merge"):
        assert needle in str(error.value)
    assert np.isfinite(Obliviator(**enough).fit_transform(X, z)).all()
