"""Numbers that are taken for classes, and ids that are taken for labels."""

from __future__ import annotations

import warnings

import numpy as np
import pytest

from unspot import LEACE, LEOPARD
from unspot.data import Number
from unspot.erasers.registry import make

RNG = np.random.default_rng(0)
X = RNG.normal(size=(400, 6))
AGES = RNG.integers(18, 80, size=400)


@pytest.mark.filterwarnings("ignore:Got a concept whose linear signal")
@pytest.mark.parametrize("ages", [AGES, AGES.astype(float), AGES.tolist()])
def test_many_numbers_are_said_to_be_classes(ages):
    n_classes = len(np.unique(AGES))
    with pytest.warns(UserWarning, match=f"taken for {n_classes} classes") as seen:
        LEACE().fit(X, ages)
    message = str(seen[0].message)
    assert "Number.read(z)" in message
    assert "--kind" in message
    assert seen[0].filename == __file__


@pytest.mark.parametrize("z", [AGES % 20, AGES.astype(str), AGES % 2 == 0])
def test_few_numbers_and_names_are_labels(z):
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Got a concept whose linear signal")
        LEACE().fit(X, z)


def test_as_a_number_nothing_is_said():
    assert LEACE().fit(X, Number.read(AGES)).eraser_.rank == 5


@pytest.mark.parametrize("method", [LEACE(), LEOPARD(rank=2), make("mean")])
@pytest.mark.parametrize("ids", [np.arange(400), np.array([f"p{i}" for i in range(400)])])
def test_ids_are_refused(method, ids):
    with pytest.raises(ValueError, match="looks like an id") as error:
        method.fit(X, ids)
    assert "400 classes" in str(error.value)
    with pytest.raises(ValueError, match="looks like an id"):
        method.fit(X, ids * 3 // 4 if ids.dtype.kind == "i" else np.char.replace(ids, "9", "8"))


def test_few_rows_may_have_a_class_each():
    LEACE().fit(X[:8], list("aabbccdd"))
