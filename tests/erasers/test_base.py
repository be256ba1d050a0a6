"""What every eraser owes: the mean of the rows, and a refit that is as a first fit."""

from __future__ import annotations

import warnings

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.exceptions import NotFittedError

from unspot import LEACE, LEOPARD, Cascade, load
from unspot.erasers import MeanProjection, PCAProjection, RandomProjection, Transport
from unspot.lab import INLP, RLACE, FaRM, KernelErasure, MomentMatching
from unspot.lab.networks import DivergenceError

REFITS = {
    "a rank that was chosen": (
        LEOPARD(rank="auto", max_advantage=0.9, random_state=0),
        {"rank": 1},
        ["selection_"],
    ),
    "another second stage": (
        Cascade(rank=2, random_state=0),
        {"second": LEACE(), "rank": None},
        ["rank_", "history_"],
    ),
}


@pytest.fixture(scope="module")
def rows():
    rng = np.random.default_rng(0)
    z = np.arange(240) % 2
    X = rng.normal(size=(240, 5))
    X[z == 1, 0] += 2
    return X, z


@pytest.mark.parametrize("case", REFITS)
def test_a_refit_is_as_a_first_fit(case, rows):
    estimator, parameters, gone = REFITS[case]
    refitted = clone(estimator).fit(*rows)
    assert all(hasattr(refitted, name) for name in gone)
    refitted.set_params(**parameters).fit(*rows)
    first = clone(estimator).set_params(**parameters).fit(*rows)
    assert set(vars(refitted)) == set(vars(first))
    assert not any(hasattr(refitted, name) for name in gone)
    np.testing.assert_array_equal(refitted.transform(rows[0]), first.transform(rows[0]))


def test_a_refit_on_a_number_has_no_classes(rows):
    X, z = rows
    refitted = LEACE().fit(X, z).fit(X, X[:, 0])
    assert set(vars(refitted)) == set(vars(LEACE().fit(X, X[:, 0])))
    assert not hasattr(refitted, "classes_")


ERASERS = [
    LEACE(),
    Cascade(second=LEACE()),
    LEOPARD(rank=2),
    INLP(),
    RLACE(),
    MomentMatching(),
    KernelErasure(training={"epochs": 1}, n_landmarks=10),
]


@pytest.mark.parametrize("estimator", ERASERS, ids=lambda e: type(e).__name__)
@pytest.mark.parametrize("fitted_before", [False, True])
def test_a_fit_that_fails_leaves_nothing_to_erase_by(estimator, fitted_before, rows):
    X, z = rows
    eraser = clone(estimator)
    if fitted_before:
        eraser.fit(X, z)
    with pytest.raises(ValueError, match=f"Got {len(z) - 1} labels"):
        eraser.fit(X, z[:-1])
    with pytest.raises(NotFittedError):
        eraser.transform(X)
    with pytest.raises(NotFittedError):
        eraser.reduce(X)


def test_a_stream_after_a_fit_that_failed_begins_anew(rows):
    X, z = rows
    eraser = LEACE().fit(X, z)
    with pytest.raises(ValueError, match="Got one class"):
        eraser.fit(X[:, :3], np.zeros(len(X), dtype=int))
    eraser.partial_fit(X[:, :3], z)
    np.testing.assert_array_equal(
        eraser.transform(X[:, :3]), LEACE().partial_fit(X[:, :3], z).transform(X[:, :3])
    )


@pytest.mark.parametrize(
    ("last_width", "labels", "message"),
    [(3, [0, 1], "X has 3 features"), (5, [0, 0], "Got one class")],
)
def test_a_stream_that_fails_leaves_nothing_to_erase_by(rows, last_width, labels, message):
    X = rows[0]
    batches = [(X[:2], labels), (X[2:4, :last_width], labels)]
    eraser = LEACE()
    with pytest.raises(ValueError, match=message):
        eraser.fit(iter(batches))
    with pytest.raises(NotFittedError):
        eraser.transform(X)


def test_training_that_diverges_at_once_does_not_keep_an_older_eraser(rows):
    eraser = FaRM(training={"epochs": 1}, random_state=0).fit(*rows)
    with pytest.raises(DivergenceError, match="no state to keep"):
        eraser.set_params(training={"learning_rate": 1e30, "epochs": 5}).fit(*rows)
    with pytest.raises(NotFittedError):
        eraser.transform(rows[0])


def test_a_column_of_vectors_is_a_matrix():
    """As a data frame has it after a Parquet file was read."""
    rng = np.random.default_rng(0)
    X, z = rng.normal(size=(60, 3)), np.arange(60) % 2
    column = pd.Series(list(X), index=np.arange(60) + 7)
    fitted = LEACE().fit(column, z)
    np.testing.assert_array_equal(fitted.transform(column[3:9]), fitted.transform(X[3:9]))
    column.iloc[4] = X[0, :2]
    with pytest.raises(ValueError, match=r"2 different lengths, from 2 to 3"):
        fitted.fit(column, z)


def test_a_fit_warns_of_labels_that_look_like_mistakes(rng):
    X, z = rng.normal(size=(400, 8)), np.repeat(["female", "male"], 200)
    z[0] = "femal"
    with pytest.warns(UserWarning, match=r"'femal' \(1 row\) and 'female' \(199 rows\) in z"):
        LEACE().fit(X, z)
    table = pd.DataFrame({"sex": z, "job": np.repeat([1, 2, 3], [190, 190, 20])[: len(z)]})
    with pytest.warns(UserWarning, match="in sex, whose names differ by case, blanks or one"):
        LEACE().fit(X, table)


def test_rows_of_other_norms_get_one_warning(rng):
    X = rng.normal(size=(500, 8))
    X /= np.linalg.norm(X, axis=1, keepdims=True)
    fitted = LEACE().fit(X[:400], np.arange(400) % 2)
    fitted.transform(1.5 * X)
    fitted.transform(7.3 * X[:5])  # too few to tell
    with pytest.warns(UserWarning, match="rows of norm 7.3, but this eraser was fitted on .* 1 "):
        fitted.transform(7.3 * X[400:])
    fitted.transform(7.3 * X)


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize(
    "estimator",
    [
        LEACE(),
        LEACE(method="orthogonal"),
        MeanProjection(),
        PCAProjection(3),
        RandomProjection(3, random_state=0),
        LEOPARD(3, random_state=0),
        Cascade(rank=3, random_state=0),
        Cascade(Transport(), PCAProjection(3)),
        Cascade(LEACE(), PCAProjection(3)),
        Cascade(PCAProjection(4), LEACE()),
        Transport(),
    ],
)
def test_the_mean_of_the_rows_stays(estimator, dtype):
    """Far from the origin, where a projection through it would move all rows."""
    rng = np.random.default_rng(0)
    z = np.arange(600) % 2
    X = rng.normal(size=(600, 6)) * (1 + z)[:, None] + [9, 1, 0, 0, 0, 5] + z[:, None]
    erased = clone(estimator).fit(X.astype(dtype), z).transform(X.astype(dtype))
    # The posterior weighs the maps of transport, so that its mean is that of the rows nearly.
    atol = 0.2 if "Transport" in repr(estimator) else 1e-5
    np.testing.assert_allclose(erased.mean(axis=0), X.mean(axis=0), atol=atol)


def table(unit):
    """A table whose second half of columns, and what tells the classes, is in another unit."""
    rng = np.random.default_rng(0)
    z = np.arange(1500) % 2
    X = rng.normal([9, 1, 0, 0, 0, 5], size=(1500, 6))
    X[z == 1, 4] *= 3
    X[z == 1, 5] += 1
    return X * np.where(np.arange(6) < 3, 1.0, unit), z


STANDARDISED = [
    LEOPARD(3, metric="standardised", random_state=0),
    Cascade(rank=3, metric="standardised", random_state=0),
    Cascade(Transport(), LEOPARD(3, random_state=0), metric="standardised"),
    Transport(metric="standardised"),
]


@pytest.mark.parametrize("estimator", STANDARDISED)
def test_standardised_columns_may_have_any_unit(estimator, tmp_path):
    (X, z), (Y, _) = table(1.0), table(2.0**10)
    fitted = clone(estimator).fit(Y, z)
    expected = clone(estimator).fit(X, z).transform(X) * (Y / X)
    np.testing.assert_allclose(fitted.transform(Y), expected, rtol=1e-6, atol=1e-6)
    shift = (expected.mean(axis=0) - Y.mean(axis=0)) / Y.std(axis=0)
    assert abs(shift).max() < (0.05 if "Transport" in repr(estimator) else 1e-5)
    fitted.save(tmp_path / "e.safetensors")
    np.testing.assert_array_equal(load(tmp_path / "e.safetensors")(Y), fitted.transform(Y))
    assert fitted.reduce(Y).shape[1] <= 6


def test_stages_that_standardise_are_not_asked_to():
    stages = Transport(metric="standardised"), LEOPARD(3, metric="standardised", random_state=0)
    with warnings.catch_warnings(record=True) as said:
        Cascade(*stages).fit(*table(2.0**10))
    assert not said


@pytest.mark.parametrize("estimator", [LEOPARD(3), Cascade(rank=3), Transport()])
def test_spreads_that_differ_are_said(estimator):
    with pytest.warns(UserWarning, match=r"factor of 2,\d+.*metric='standardised'"):
        clone(estimator).fit(*table(2.0**10))
