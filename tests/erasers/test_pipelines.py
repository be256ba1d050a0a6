"""Inside a pipeline that predicts, y is the task, and the concept comes by metadata routing."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn import config_context
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV, GroupKFold, cross_val_score
from sklearn.pipeline import make_pipeline

from unspot import LEACE, Cascade
from unspot.data.goal import Goal
from unspot.erasers import PCAProjection
from unspot.erasers.base import BaseEraser


@pytest.fixture
def rows():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(120, 6))
    return X, (X[:, 0] > 0).astype(int), np.where(X[:, 1] > 0, "a", "b")


@pytest.fixture
def routing():
    with config_context(enable_metadata_routing=True):
        yield


def test_a_request_without_labels_is_refused(rows, routing):
    X, job, _ = rows
    model = make_pipeline(LEACE().set_fit_request(z=True), LogisticRegression())
    with pytest.raises(ValueError, match=r"no z.*set_fit_request.*z=z"):
        model.fit(X, job)


def test_with_the_concept_every_way_works(rows, routing):
    X, job, z = rows
    model = make_pipeline(LEACE().set_fit_request(z=True), LogisticRegression())
    expected = LEACE().fit(X, z).transform(X)
    np.testing.assert_allclose(model.fit(X, job, z=z)[0].transform(X), expected)
    assert cross_val_score(model, X, job, params={"z": z}, cv=2).min() > 0.8
    search = GridSearchCV(model, {"logisticregression__C": [0.1, 1.0]}, cv=2).fit(X, job, z=z)
    np.testing.assert_allclose(search.best_estimator_[0].transform(X), expected)


@pytest.mark.parametrize(
    "eraser", [LEACE(), Cascade(second=PCAProjection(3))], ids=["LEACE", "Cascade"]
)
def test_groups_of_the_folds_reach_the_eraser(eraser, rows, routing, monkeypatch):
    X, job, z = rows
    groups, seen = np.arange(len(X)) // 10, []
    fit_rows = BaseEraser._fit_rows

    def noted(self, X, goal: Goal):
        seen.append(goal.groups)
        return fit_rows(self, X, goal)

    monkeypatch.setattr(BaseEraser, "_fit_rows", noted)
    model = make_pipeline(eraser.set_fit_request(z=True), LogisticRegression())
    params = {"z": z, "groups": groups}
    assert cross_val_score(model, X, job, params=params, cv=GroupKFold(3)).min() > 0.7
    assert all(len(np.unique(codes)) == 8 for codes in seen)  # two of three folds
