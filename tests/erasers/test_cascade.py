"""Cascade: Algorithm 2 around any eraser."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.decomposition import PCA, FastICA
from sklearn.linear_model import LogisticRegression
from sklearn.preprocessing import StandardScaler

from unspot import LEACE, LEOPARD, Cascade, load
from unspot.data.statistics import ClassStatistics
from unspot.erasers import Transport, base
from unspot.lab import INLP, MomentMatching
from unspot.leopard import ManifoldSolver

QUICK = ManifoldSolver(max_evaluations=5)


@pytest.fixture
def fitted(three_classes):
    return Cascade(second=LEOPARD(rank=5, solver=QUICK, random_state=0)).fit(*three_classes)


def test_one_orthogonal_projector_of_the_inner_rank(fitted):
    P = fitted.eraser_.P
    np.testing.assert_allclose(P, P.T, atol=1e-6)
    np.testing.assert_allclose(P @ P, P, atol=1e-6)
    assert fitted.eraser_.rank == np.linalg.matrix_rank(P) == 5


def test_it_is_the_composition_of_algorithm_2(fitted):
    U = fitted.first_.U
    np.testing.assert_allclose(U.T @ U, np.eye(8), atol=1e-10)
    expected = U @ fitted.second_.P @ U.T
    np.testing.assert_allclose(fitted.eraser_.P, expected, atol=1e-10)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_linear_guardedness(three_classes, dtype):
    X, z = three_classes
    X = X.astype(dtype)
    erased = Cascade(second=LEOPARD(rank=5, solver=QUICK, random_state=0)).fit(X, z).transform(X)
    means = np.array([erased[z == k].mean(axis=0, dtype=float) for k in "abc"])
    np.testing.assert_allclose(means, np.tile(means[:1], (3, 1)), atol=1e-6)
    probe = LogisticRegression(max_iter=500).fit(erased, z)
    assert probe.score(erased, z) == pytest.approx(np.mean(z == "a"), abs=0.01)


def test_standard_leaves_a_linear_signal_that_the_cascade_does_not(three_classes):
    X, z = three_classes
    inner = LEOPARD(rank=7, solver=replace(QUICK, init="identity"), random_state=0)

    def gap(eraser):
        erased = eraser.fit(X, z).transform(X)
        return np.abs(erased[z == "a"].mean(0) - erased[z == "b"].mean(0)).max()

    assert gap(inner) > 1e-3
    assert gap(Cascade(second=inner)) < 1e-9


def test_around_an_eraser_that_is_no_projector(three_classes, tmp_path):
    X, z = three_classes
    fitted = Cascade(second=LEACE()).fit(X, z)
    assert fitted.transform(X).shape == X.shape
    assert fitted.reduce(X).shape == (700, 8)
    fitted.eraser_.save(tmp_path / "e.safetensors")
    np.testing.assert_allclose(load(tmp_path / "e.safetensors")(X), fitted.transform(X))


def test_metadata_name_both_stages(fitted):
    metadata = fitted.eraser_.metadata
    assert metadata["method"] == "Cascade"
    assert metadata["inner"]["method"] == "LEOPARD"
    assert metadata["linear_rank"] == 8
    assert metadata["classes"] == ["a", "b", "c"]


def test_inner_estimator_is_not_touched(three_classes):
    inner = LEOPARD(rank=3, solver=QUICK)
    Cascade(second=inner).fit(*three_classes)
    assert not hasattr(inner, "eraser_")


def test_rank_above_what_linear_erasure_leaves(three_classes):
    with pytest.raises(ValueError, match=r"rank=9, but expected an integer from 1 to 8, the dim"):
        Cascade(rank=9).fit(*three_classes)


def test_a_share_of_one_is_no_share(three_classes):
    with pytest.raises(ValueError, match=r"rank=1\.0, .* to 8, the dim.* leaves of 10"):
        Cascade(rank=1.0).fit(*three_classes)


def test_something_else_inside(three_classes):
    with pytest.raises(ValueError, match="expected an eraser such as LEOPARD"):
        Cascade(second="leopard").fit(*three_classes)


def test_linear_erasure_may_leave_nothing_and_says_so():
    X = np.random.default_rng(0).normal(size=(60, 2)) + np.eye(3, 2)[np.arange(60) % 3]
    with pytest.warns(UserWarning, match=r"all 2 features.* nothing is left") as caught:
        fitted = Cascade().fit(X, np.arange(60) % 3)
    assert [warning.filename for warning in caught] == [__file__]
    np.testing.assert_allclose(fitted.transform(X) - X.mean(axis=0), 0.0, atol=1e-12)
    assert fitted.eraser_.metadata["method"] == "Cascade"
    assert fitted.eraser_.metadata["linear_rank"] == 0


@pytest.mark.parametrize("inner", [LEOPARD(rank=5, solver=QUICK, random_state=0), INLP(), LEACE()])
def test_rows_and_labels_are_checked_once_for_all_stages(three_classes, inner, monkeypatch):
    calls = []

    def counted(name):
        whole = getattr(base, name)
        monkeypatch.setattr(base, name, lambda *a, **k: calls.append(name) or whole(*a, **k))

    for name in ("read", "validate_data", "refuse_nonfinite", "identity"):
        counted(name)
    fitted = Cascade(second=inner).fit(*three_classes)
    # The rows are hashed once; the inner eraser's rows are others, in coordinates of the subspace.
    assert sorted(calls) == ["identity", "identity", "read", "refuse_nonfinite", "validate_data"]
    assert fitted.first_.metadata["fingerprint"] == fitted.eraser_.metadata["fingerprint"]


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
def test_the_stages_are_as_if_fitted_one_by_one(three_classes, dtype):
    X, z = three_classes[0].astype(dtype), three_classes[1]
    inner = LEOPARD(rank=5, solver=QUICK, random_state=0)
    fitted = Cascade(second=inner).fit(X, z)
    linear = LEACE(method="orthogonal").fit(X, z).eraser_
    np.testing.assert_array_equal(fitted.first_.U, linear.U)
    assert fitted.first_.metadata == linear.metadata
    dtype = np.float32 if dtype == np.float16 else dtype
    expected = inner.fit(X.astype(dtype) @ linear.U.astype(dtype), z)
    np.testing.assert_array_equal(fitted.second_.U, expected.eraser_.U)
    assert fitted.second_.metadata == expected.eraser_.metadata


@pytest.mark.parametrize("inner", [LEOPARD(rank=4, random_state=0), MomentMatching()])
def test_a_fit_leaves_no_statistics_behind(three_classes, inner):
    """They are d × d numbers, which every copy and pickle of the estimator would carry."""
    fitted = Cascade(second=inner).fit(*three_classes)
    assert not any(isinstance(value, ClassStatistics) for value in vars(fitted).values())


LINEAR = LEACE(method="orthogonal")
LEOPARD_5 = LEOPARD(rank=5, solver=QUICK, random_state=0)


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
def test_any_first_stages_are_as_if_fitted_one_by_one(three_classes, dtype, tmp_path):
    X, z = three_classes[0].astype(dtype), three_classes[1]
    fitted = Cascade(Cascade(Transport(), LINEAR), LEOPARD_5).fit(X, z)
    wide = X.astype(np.float64 if dtype == np.float64 else np.float32)
    first = Transport().fit(wide, z)
    second = Cascade(second=LEOPARD_5).fit(first.reduce(wide), z)
    erased = fitted.reduce(wide), second.reduce(first.reduce(wide))  # up to a rotation
    distances = [np.linalg.norm(rows[:, None] - rows[None], axis=-1) for rows in erased]
    np.testing.assert_allclose(*distances, atol=1e-3)
    assert fitted.eraser_.rank == 5
    assert fitted.transform(X).dtype == dtype
    fitted.eraser_.save(tmp_path / "c.safetensors")
    np.testing.assert_array_equal(load(tmp_path / "c.safetensors")(X), fitted.transform(X))


def test_linear_erasure_named_as_the_first_stage_changes_nothing(three_classes, fitted):
    named = Cascade(LINEAR, LEOPARD_5).fit(*three_classes)
    np.testing.assert_array_equal(named.eraser_.U, fitted.eraser_.U)


def test_first_stages_that_are_no_projections(three_classes):
    X, z = three_classes
    fitted = Cascade(LEACE(), LINEAR).fit(X, z)  # oblique, and then nothing is left to do
    moved = fitted.transform(X) - LEACE().fit_transform(X, z)
    np.testing.assert_allclose(moved - moved[0], 0.0, atol=1e-8)


@pytest.mark.parametrize("first", ["leace", StandardScaler(), FastICA(3)])
def test_something_else_first(three_classes, first):
    with pytest.raises(ValueError, match=r"Got first=.*expected an eraser .*PCA\(40\)"):
        Cascade(first, LEOPARD_5).fit(*three_classes)


def test_stages_of_different_concepts(three_classes):
    X, _ = three_classes
    with pytest.raises(ValueError, match=r"continuous concept, but INLP erases categories"):
        Cascade(Transport(), INLP()).fit(X, X[:, 0])


def test_the_rank_after_another_first_stage(three_classes):
    with pytest.raises(ValueError, match=r"from 1 to 8, the dimensions that .* leaves? of 10"):
        Cascade(Transport(), LEOPARD(rank=9)).fit(*three_classes)


def test_erasure_within_principal_components(three_classes):
    """The rest is dropped, and the second stage sees only the components."""
    X, z = three_classes
    fitted = Cascade(PCA(4), LEACE()).fit(X, z)
    pca = PCA(4).fit(X)
    inside = X @ pca.components_.T
    expected = LEACE().fit_transform(inside, z) @ pca.components_
    np.testing.assert_allclose(fitted.transform(X), expected, atol=1e-8)
    assert fitted.eraser_.is_linear
    assert (
        fitted.eraser_.metadata["fingerprint"] == LEACE().fit(X, z).eraser_.metadata["fingerprint"]
    )


def test_rank_and_seed_are_those_of_the_second_stage(three_classes, fitted):
    """Also by ``set_params`` and after ``clone``, as searches over parameters use them."""
    second = LEOPARD(rank=2, solver=QUICK)
    short = clone(Cascade(second=second)).set_params(rank=5, random_state=0).fit(*three_classes)
    np.testing.assert_array_equal(short.eraser_.U, fitted.eraser_.U)
    assert short.rank_ == 5
    assert second.rank == 2
    with pytest.raises(ValueError, match="Invalid parameter 'rank' for estimator LEACE"):
        Cascade(second=LEACE(), rank=3).fit(*three_classes)


def test_a_task_is_kept_beside_columns_near_zero(three_classes):
    """MiniLM has columns near 1e-33, for which the oblique first stage has factors near 1e33."""
    X, z = three_classes
    task = (X[:, 0] > X[:, 1]).astype(int)
    specks = np.random.default_rng(0).normal(size=(len(X), 2)) * 1e-33
    rows = np.hstack([X, specks])
    cascade = Cascade(rank=2, random_state=0).fit(rows, z, keep=task)
    assert cascade.second_.n_features >= X.shape[1] - 2  # but for the means of three classes
    erased = cascade.transform(rows)
    means = np.stack([erased[z == k].mean(axis=0) for k in np.unique(z)])
    np.testing.assert_allclose(means - means[0], 0, atol=1e-9)
    assert erased.std(axis=0).max() > 0.1
