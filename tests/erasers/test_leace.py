"""LEACE against concept-erasure and against its own theorem."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
import torch
from sklearn.linear_model import LinearRegression, LogisticRegression

from unspot import LEACE, Cascade
from unspot.data import Number
from unspot.data.dataset import Split, was_fitted_on
from unspot.data.statistics import ClassStatistics
from unspot.leopard import complement

with warnings.catch_warnings():
    # The oracle compiles a helper with torch.jit, which torch has deprecated.
    warnings.simplefilter("ignore", DeprecationWarning)
    from concept_erasure import LeaceEraser


@pytest.mark.parametrize("K", [2, 3, 5])
def test_oblique_equals_concept_erasure(rng, K):
    z = np.arange(500) % K
    X = rng.normal(size=(500, 8)) @ rng.normal(size=(8, 8)) + 3.0 + z[:, None] * rng.normal(size=8)
    one_hot = torch.nn.functional.one_hot(torch.from_numpy(z), K)
    # Without its regularisation, which trades exactness for small samples.
    exact = {"svd_tol": 1e-6, "shrinkage": False, "constrain_cov_trace": False}
    oracle = LeaceEraser.fit(torch.from_numpy(X), one_hot, **exact)
    expected = oracle(torch.from_numpy(X)).numpy()
    np.testing.assert_allclose(LEACE().fit_transform(X, z), expected, atol=1e-7)


@pytest.mark.parametrize("method", ["oblique", "orthogonal"])
def test_linear_guardedness(three_classes, method):
    X, z = three_classes
    erased = LEACE(method=method).fit_transform(X, z)
    means = np.array([erased[z == k].mean(axis=0) for k in "abc"])
    np.testing.assert_allclose(means, np.tile(means[:1], (3, 1)), atol=1e-6)
    probe = LogisticRegression(max_iter=1000).fit(erased, z)
    assert probe.score(erased, z) == pytest.approx(np.mean(z == "a"), abs=1e-9)


def test_oblique_changes_least_of_all_guarded_projections(three_classes):
    X, z = three_classes
    oblique = LEACE().fit_transform(X, z)
    orthogonal = LEACE(method="orthogonal").fit(X, z).eraser_
    moved = np.mean(np.sum((oblique - X) ** 2, axis=1))
    other = X - (X - X.mean(0)) @ (np.eye(10) - orthogonal.P)
    assert moved < np.mean(np.sum((other - X) ** 2, axis=1))


def test_orthogonal_has_the_kernel_of_the_mean_differences(three_classes):
    X, z = three_classes
    eraser = LEACE(method="orthogonal").fit(X, z).eraser_
    differences = np.array([X[z == k].mean(0) - X.mean(0) for k in "abc"])
    np.testing.assert_allclose(differences @ eraser.P, 0.0, atol=1e-10)
    assert eraser.rank == 8
    assert eraser.is_projection


def test_classes_with_collinear_means_cost_one_dimension(rng):
    z = np.arange(300) % 3
    X = rng.normal(size=(300, 5))
    for k in range(3):
        X[z == k] -= X[z == k].mean(0)
    X += z[:, None] * np.array([1.0, 0, 0, 0, 0])
    assert LEACE(method="orthogonal").fit(X, z).eraser_.rank == 4


def test_equal_means_cost_nothing(rng):
    z = np.arange(200) % 2
    X = rng.normal(size=(200, 5))
    X[z == 1] += X[z == 0].mean(0) - X[z == 1].mean(0)
    for method in ("oblique", "orthogonal"):
        np.testing.assert_allclose(LEACE(method=method).fit_transform(X, z), X, atol=1e-6)


@pytest.mark.parametrize("method", ["oblique", "orthogonal"])
def test_streams_equal_one_fit(three_classes, method, rng):
    X, z = three_classes
    whole = LEACE(method=method).fit(X, z)
    stream = LEACE(method=method)
    for rows in np.array_split(np.arange(len(X)), 9):  # sorted by class: early batches hold one
        stream.partial_fit(X[rows], z[rows])
    np.testing.assert_allclose(stream.transform(X), whole.transform(X), atol=1e-8)
    assert stream.classes_.tolist() == ["a", "b", "c"]
    assert stream.eraser_.metadata["n_rows"] == 700


def test_stream_after_fit_goes_on(three_classes):
    X, z = three_classes
    both = LEACE().fit(X[::2], z[::2]).partial_fit(X[1::2], z[1::2])
    assert was_fitted_on(both, Split(X[1::2], z[1::2]))
    assert was_fitted_on(LEACE().fit(iter([(X, z)])), Split(X[::2].astype(np.float16), z[::2]))
    np.testing.assert_allclose(both.transform(X), LEACE().fit(X, z).transform(X), atol=1e-8)


@pytest.mark.parametrize(("first", "second"), [(int, str), (str, int), (int, bool), (bool, str)])
def test_a_batch_whose_labels_are_of_another_type_is_refused(rng, first, second):
    labels = np.array([2, 10])[np.arange(40) % 2]
    X = rng.normal(size=(40, 3)) + labels[:, None]
    stream = LEACE().partial_fit(X[:20], labels[:20].astype(first))
    before = stream.transform(X)
    with pytest.raises(ValueError, match="but expected one type throughout"):
        stream.partial_fit(X[20:], labels[20:].astype(second))
    np.testing.assert_array_equal(stream.transform(X), before)
    batches = [(X[:20], labels[:20].astype(first)), (X[20:], labels[20:].astype(second))]
    with pytest.raises(ValueError, match="Convert the labels of every batch"):
        LEACE().fit(iter(batches))


def test_whole_numbers_of_any_dtype_are_one_type_of_labels(rng):
    labels = np.array([2, 10])[np.arange(40) % 2]
    X = rng.normal(size=(40, 3)) + labels[:, None]
    stream = LEACE().partial_fit(X[:20], labels[:20]).partial_fit(X[20:], labels[20:] * 1.0)
    np.testing.assert_allclose(stream.transform(X), LEACE().fit_transform(X, labels), atol=1e-8)


@pytest.mark.parametrize("kind", ["categories", "continuous"])
@pytest.mark.parametrize("goal", ["keep", "given", "table"])
def test_a_stream_does_not_go_on_after_a_fit_with_a_goal(rng, kind, goal):
    X, z, y = rng.normal(size=(60, 4)), np.arange(60) % 2, np.arange(60) // 2 % 2
    eraser = LEACE()
    z = Number.read(z) if kind == "continuous" else z
    if goal == "table":
        eraser.fit(X, {"z": np.arange(60) % 2, "y": y})
    else:
        eraser.fit(X, z, **{goal: y})
    before = eraser.transform(X)
    with pytest.raises(ValueError, match="begin a stream with a new LEACE"):
        eraser.partial_fit(X, z)
    np.testing.assert_array_equal(eraser.transform(X), before)


@pytest.mark.parametrize("per_class", [False, True])
def test_stream_after_statistics_in_any_order_of_the_classes_goes_on(three_classes, per_class):
    X, z = three_classes
    order = ["c", "a", "b"]
    codes = np.array([order.index(label) for label in z[::2]])
    seen = ClassStatistics.from_rows(X[::2], codes, 3, per_class=per_class)
    eraser = LEACE.from_statistics(seen, order)
    half = LEACE().fit(X[::2], z[::2])
    np.testing.assert_allclose(eraser.transform(X), half.transform(X), atol=1e-8)
    assert eraser.classes_.tolist() == ["a", "b", "c"]
    assert eraser.eraser_.metadata["class_counts"] == half.eraser_.metadata["class_counts"]
    if per_class:
        covariances = [np.cov(X[::2][z[::2] == k].T, bias=True) for k in "abc"]
        np.testing.assert_allclose(eraser.statistics_.class_covariances, covariances, atol=1e-9)
    eraser.partial_fit(X[1::2], z[1::2])
    np.testing.assert_allclose(eraser.transform(X), LEACE().fit(X, z).transform(X), atol=1e-8)


def test_statistics_of_a_class_that_is_named_twice():
    with pytest.raises(ValueError, match=r"Got the class m more than once.*Merge the statistics"):
        LEACE.from_statistics(ClassStatistics.empty(3, 2), ["m", "f", "m"])


@pytest.mark.parametrize("method", ["oblique", "orthogonal"])
@pytest.mark.parametrize("m", [1, 2])
def test_continuous_and_vector_concepts(rng, method, m):
    X = rng.normal(size=(400, 6)) @ rng.normal(size=(6, 6))
    Z = X[:, :m] * [1.0, 1e-3][:m] + 0.1 * rng.normal(size=(400, m)) * [1.0, 1e-3][:m]
    eraser = LEACE(method=method).fit(X, Number.read(Z))
    erased = eraser.transform(X)
    assert LinearRegression().fit(erased, Z).score(erased, Z) < 1e-9
    assert eraser.eraser_.metadata["concept"] == "continuous"
    parts = LEACE(method=method)
    for rows in np.array_split(np.arange(400), 3):
        parts.partial_fit(X[rows], Number.read(Z[rows]))
    np.testing.assert_allclose(parts.transform(X), erased, atol=1e-7)


@pytest.mark.parametrize("method", ["oblique", "orthogonal"])
def test_a_column_in_a_large_unit_hides_nothing(method, rng):
    """As a time in milliseconds among coordinates of order one."""
    z = np.repeat([0, 1, 2], 300)
    X = rng.normal(size=(900, 4)) @ rng.normal(size=(4, 4))
    X[:, 1] += 3.0 * (z == 1)
    X[:, 2] += 3.0 * (z == 2)
    X[:, 0] = 1e9 * (X[:, 0] + 100.0)
    erased = LEACE(method=method).fit_transform(X, z)
    scaled = (erased - erased.mean(axis=0)) / X.std(axis=0)
    gaps = [scaled[z == k].mean(axis=0) for k in range(3)]
    assert np.abs(gaps).max() < 1e-5


def test_constant_features_stay(three_classes):
    X, z = three_classes
    X = np.hstack([X, np.full((len(X), 1), 5.0)])
    np.testing.assert_allclose(LEACE().fit_transform(X, z)[:, -1], 5.0)


@pytest.mark.parametrize(
    ("parameters", "z", "message"),
    [
        ({"method": "diagonal"}, [0, 1, 0, 1], "expected 'oblique' or 'orthogonal'"),
    ],
)
def test_bad_parameters(rng, parameters, z, message):
    with pytest.raises(ValueError, match=message):
        LEACE(**parameters).fit(rng.normal(size=(4, 3)), z)


def test_the_projector_on_leaces_range_would_not_guard(three_classes):
    """The wrong orthogonalisation, to show that the right one is needed."""
    X, z = three_classes
    oblique = LEACE().fit(X, z).eraser_
    left, _, _ = np.linalg.svd(oblique.P)
    wrong = left[:, :8] @ left[:, :8].T
    gap = (X[z == "a"].mean(0) - X[z == "b"].mean(0)) @ wrong
    assert np.abs(gap).max() > 1e-3
    assert complement(left[:, :8]).shape == (10, 2)


@pytest.mark.parametrize("eraser", [LEACE(), Cascade(rank=3)], ids=["LEACE", "Cascade"])
def test_many_classes_leave_nothing_of_the_columns_that_vary(eraser):
    X = np.random.default_rng(0).normal(size=(400, 5))
    X[:, 2] = 7.0
    with pytest.warns(UserWarning, match="spans all 4 features that vary: nothing is left"):
        erased = eraser.fit(X, (np.arange(400) % 40).astype(str)).transform(X)
    np.testing.assert_allclose(erased, np.broadcast_to(erased[0], X.shape), atol=1e-9)


@pytest.mark.parametrize("method", ["oblique", "orthogonal"])
def test_as_many_classes_as_rows_leave_nothing(method):
    X = np.random.default_rng(0).normal(size=(40, 5))
    with pytest.warns(UserWarning, match="spans all 5 features: nothing is left") as caught:
        erased = LEACE(method=method).fit_transform(X, np.arange(40).astype(str))
    assert len(caught) == 1
    np.testing.assert_allclose(erased, np.broadcast_to(erased[0], X.shape), atol=1e-9)
