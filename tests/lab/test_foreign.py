"""Erasers of other packages: what comes out is what these packages compute."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.base import clone

from unspot import LEACE
from unspot.lab.bench import foreign
from unspot.lab.bench.foreign import ConceptErasureLEACE, CorrelationRemoval, foreign_contestants


@pytest.fixture
def data():
    rng = np.random.default_rng(0)
    z = rng.integers(3, size=600)
    return rng.normal(size=(600, 5)) + 9 * np.eye(3, 5)[z], z


def test_leace_of_concept_erasure_agrees_with_ours(data):
    pytest.importorskip("concept_erasure")
    X, z = data
    theirs = ConceptErasureLEACE().fit(X, z).transform(X)
    np.testing.assert_allclose(theirs, LEACE().fit(X, z).transform(X), atol=0.05)
    assert not np.allclose(theirs, X, atol=1)


def test_fairlearn_removes_the_regression_on_the_labels(data):
    pytest.importorskip("fairlearn")
    X, z = data  # far apart, so that all labels are predicted right
    erased = CorrelationRemoval(random_state=0).fit(X, z).transform(X)
    one_hot = np.eye(3)[z] - np.eye(3)[z].mean(axis=0)
    np.testing.assert_allclose(one_hot.T @ erased / 600, 0, atol=1e-9)
    np.testing.assert_allclose(erased.mean(axis=0), X.mean(axis=0))
    half = CorrelationRemoval(alpha=0.5, random_state=0).fit(X, z).transform(X)
    np.testing.assert_allclose(half, (X + erased) / 2)


def test_only_what_is_installed_takes_part(monkeypatch):
    assert all(clone(eraser) is not None for eraser in foreign_contestants().values())
    monkeypatch.setattr(foreign, "find_spec", lambda name: None)
    assert foreign_contestants() == {}
