"""Unit norm: a last step of every eraser, known to its fit, its file and its judges."""

from __future__ import annotations

import pickle

import numpy as np
import pytest
import torch
from sklearn.base import clone

from unspot import LEACE, LEOPARD, Cascade, Dataset, Eraser, evaluate, load, methods, rank_path
from unspot.erasers import MeanProjection, PCAProjection, Transport
from unspot.erasers.registry import make
from unspot.lab import MomentMatching
from unspot.leopard import GaussianMixture, ManifoldSolver, MMDLoss, Objective, PairWeights, mmd2

FEW = ManifoldSolver(max_evaluations=5)
METHODS = {
    "leopard": LEOPARD(rank=3, solver=FEW, random_state=0, normalise=True),
    "cascade": Cascade(second=LEOPARD(rank=3, solver=FEW, random_state=0), normalise=True),
    "cascade of its own kind": Cascade(
        second=LEOPARD(rank=3, solver=FEW, random_state=0, normalise=True)
    ),
    "leace": LEACE(normalise=True),
    "mean": MeanProjection(normalise=True),
    "matching": Cascade(second=MomentMatching(), normalise=True),
    "transport": Transport(normalise=True),
}


@pytest.fixture(scope="module")
def rows():
    rng = np.random.default_rng(0)
    z = np.arange(300) % 2
    X = rng.normal(size=(300, 6)) + 1.0
    X[z == 1, 0] += 2
    X[z == 1, 1] *= 3
    return X, z


@pytest.fixture(scope="module", params=METHODS)
def fitted(request, rows):
    return clone(METHODS[request.param]).fit(*rows)


def test_every_method_takes_it():
    for info in methods():
        if info.path.startswith("unspot.lab"):
            continue
        estimator = make(info.name, normalise=True)
        assert estimator.normalise
        assert clone(estimator).normalise
        assert not info.cls().get_params()["normalise"]
        assert "normalise" in info.parameters


def test_erased_rows_are_the_plain_ones_scaled(rows):
    """Projections around the origin: at unit norm, a mean that is kept would show norms."""
    X, z = rows
    for estimator in (LEACE(), PCAProjection(3), Cascade(second=PCAProjection(3))):
        eraser = clone(estimator).fit(X, z).eraser_
        plain = X @ eraser.P.T if eraser.is_projection else eraser(X)
        scaled = clone(estimator).set_params(normalise=True).fit(X, z).transform(X)
        expected = plain / np.linalg.norm(plain, axis=1)[:, None]
        np.testing.assert_allclose(scaled, expected, atol=1e-12)


def test_rows_have_unit_norm_in_files_tensors_and_pickles(fitted, rows, tmp_path):
    X, _ = rows
    erased = fitted.transform(X)
    np.testing.assert_allclose(np.linalg.norm(erased, axis=1), 1.0)
    fitted.eraser_.save(tmp_path / "eraser.safetensors")
    loaded = load(tmp_path / "eraser.safetensors")
    assert loaded.is_normalised
    np.testing.assert_array_equal(loaded(X), erased)
    np.testing.assert_allclose(loaded(torch.tensor(X)), erased, atol=1e-12)
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(fitted)).transform(X), erased)


def test_reduced_rows_have_the_same_products(fitted, rows):
    erased, reduced = fitted.transform(rows[0]), fitted.reduce(rows[0])
    np.testing.assert_allclose(reduced @ reduced.T, erased @ erased.T, atol=1e-9)
    if fitted.eraser_.before_norm.is_linear:
        assert reduced.shape[1] < erased.shape[1] or isinstance(fitted, LEACE)


def test_there_is_one_such_step_and_it_is_the_last(fitted):
    kinds = [m.kind for m in fitted.eraser_.maps]
    assert kinds.count("normalise") == 1
    assert kinds[-1] == "normalise"


def test_rows_of_which_nothing_is_left_become_zero(rng):
    Q = np.linalg.qr(rng.normal(size=(40, 40)))[0]
    eraser = Eraser.projection(Q[:, :30]).normalised()
    removed = rng.normal(size=(50, 10)) @ Q[:, 30:].T
    assert not eraser(removed).any()  # else rounding errors at unit norm, which tell of the row
    assert not eraser(np.zeros(40)).any()


def test_the_floor_is_relative_to_the_rows(rows):
    X, z = rows
    small = LEACE(normalise=True).fit(1e-12 * X, z).transform(1e-12 * X)
    np.testing.assert_allclose(small, LEACE(normalise=True).fit(X, z).transform(X), atol=1e-6)


def test_a_stream_has_the_same_floor_and_result(rows):
    X, z = rows
    streamed = LEACE(normalise=True).partial_fit(X[:150], z[:150]).partial_fit(X[150:], z[150:])
    whole = LEACE(normalise=True).fit(X, z)
    np.testing.assert_allclose(streamed.transform(X), whole.transform(X), atol=1e-9)
    np.testing.assert_allclose(
        streamed.eraser_.maps[-1].floor, whole.eraser_.maps[-1].floor, rtol=0.1
    )


def test_what_is_before_it_stays_within_reach(rows):
    X, z = rows
    eraser = LEOPARD(rank=3, solver=FEW, random_state=0, normalise=True).fit(X, z).eraser_
    assert (eraser.rank, eraser.U.shape) == (3, (6, 3))
    assert eraser.before_norm.is_projection
    assert "rank 3" in repr(eraser)
    with pytest.raises(ValueError, match=r"before_norm\.P"):
        _ = eraser.P
    assert eraser.normalised() is eraser


# -- fits that know of it ------------------------------------------------------------------------


def test_the_gradient_on_the_sphere_is_that_of_autograd(rng):
    X, z = torch.tensor(rng.normal(size=(60, 5))), torch.arange(60) % 3
    V = torch.tensor(rng.normal(size=(5, 2)), requires_grad=True)
    Y = X @ V
    MMDLoss(GaussianMixture.paper())(Y / Y.norm(dim=1, keepdim=True), z).backward()
    objective = Objective(X, PairWeights.between(z), GaussianMixture.paper(), on_sphere=True)
    value, gradient = objective(V.detach())
    assert value == pytest.approx(objective.value(V.detach()))
    torch.testing.assert_close(gradient, V.grad)


def two_planes(n: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """The first plane tells the classes apart by norms only, the second a little by directions."""
    rng = np.random.default_rng(seed)
    z = np.arange(n) % 2
    X = rng.normal(size=(n, 4))
    X[z == 1, :2] *= 4
    X[z == 0, 2] *= 1.6
    X[z == 1, 3] *= 1.6
    return X, z


def test_densities_match_on_the_sphere():
    """Where the fit knows of unit norm, it keeps what does not tell after that step."""
    estimator = LEOPARD(rank=2, solver=ManifoldSolver(init=np.eye(4)[:, [0, 2]]), random_state=0)
    blind = clone(estimator).fit(*two_planes(1200, 0)).eraser_
    knows = clone(estimator).set_params(normalise=True).fit(*two_planes(1200, 0)).eraser_
    assert np.linalg.norm(blind.U[2:]) > 1.3  # √2: the whole second plane
    assert np.linalg.norm(knows.U[2:]) < 0.5
    X, z = two_planes(2000, 1)
    left = [
        float(mmd2(torch.tensor(eraser.normalised()(X)), torch.tensor(z), GaussianMixture.paper()))
        for eraser in (blind, knows)
    ]
    assert left[1] < 0.1 * left[0]


def test_paths_go_over_the_sphere(rows):
    data = Dataset.from_arrays(*rows, random_state=0)
    for estimator in (
        LEOPARD(solver=FEW, random_state=0, normalise=True),
        Cascade(second=LEOPARD(solver=FEW, random_state=0), normalise=True),
    ):
        for point in rank_path(estimator, data, ranks=[4, 2]).points:
            kinds = [m.kind for m in point.eraser.maps]
            assert kinds == ["projection", "normalise"]


# -- what judges say -----------------------------------------------------------------------------


def test_evaluate_says_that_unit_norm_was_lost(rows):
    X, z = rows
    unit = X / np.linalg.norm(X, axis=1)[:, None]
    data = Dataset.from_arrays(unit, z, random_state=0)

    def note(eraser, data):
        return evaluate(eraser, data, metrics=["variance"])["variance"].note

    assert "normalise=True" in note(LEACE().fit(unit, z), data)
    assert not note(LEACE(normalise=True).fit(unit, z), data)
    assert not note(LEACE().fit(X, z), Dataset.from_arrays(X, z, random_state=0))
