"""What every eraser owes to a refit: to be as a first fit, also where it fails."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.exceptions import NotFittedError

from unspot import LEACE, LEOPARD, Cascade
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
