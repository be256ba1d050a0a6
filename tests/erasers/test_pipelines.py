"""Inside a pipeline that predicts, y is the task: nobody erases it by mistake."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
from sklearn import config_context
from sklearn.cluster import KMeans
from sklearn.compose import ColumnTransformer
from sklearn.decomposition import PCA
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.pipeline import FeatureUnion, Pipeline, make_pipeline
from sklearn.preprocessing import StandardScaler

from unspot import LEACE
from unspot.erasers import MeanProjection


@pytest.fixture
def rows():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(120, 6))
    return X, (X[:, 0] > 0).astype(int), np.where(X[:, 1] > 0, "a", "b")


@pytest.fixture
def routing():
    with config_context(enable_metadata_routing=True):
        yield


def columns():
    return ColumnTransformer([("erased", LEACE(), [0, 1, 2])], remainder="passthrough")


TRAPS = {
    "first step": make_pipeline(LEACE(), LogisticRegression()),
    "later step": make_pipeline(StandardScaler(), LEACE(), LogisticRegression()),
    "regression": make_pipeline(LEACE(), Ridge()),
    "pipeline in a pipeline": make_pipeline(
        make_pipeline(StandardScaler(), LEACE()), LogisticRegression()
    ),
    "union": make_pipeline(FeatureUnion([("erased", LEACE())]), LogisticRegression()),
    "columns": make_pipeline(columns(), LogisticRegression()),
    "search at the end": make_pipeline(
        LEACE(), GridSearchCV(LogisticRegression(), {"C": [1.0]}, cv=2)
    ),
    "another eraser": make_pipeline(MeanProjection(), LogisticRegression()),
}


@pytest.mark.parametrize("model", TRAPS.values(), ids=TRAPS.keys())
def test_the_task_is_not_erased(rows, model):
    X, job, _ = rows
    with pytest.raises(ValueError, match="would take out y") as error:
        model.fit(X, job)
    for needle in ("enable_metadata_routing=True", "set_fit_request(z=True)", "z=z"):
        assert needle in str(error.value)


def test_it_is_not_erased_from_a_cache(rows, tmp_path):
    X, job, _ = rows
    model = Pipeline([("e", LEACE()), ("c", LogisticRegression())], memory=str(tmp_path))
    with pytest.raises(ValueError, match="would take out y"):
        model.fit(X, job)


@pytest.mark.parametrize("n_jobs", [None, 2])
def test_searches_say_it_too(rows, n_jobs):
    X, job, _ = rows
    model = make_pipeline(LEACE(), LogisticRegression())
    with pytest.raises(ValueError, match="would take out y"):
        cross_val_score(model, X, job, cv=2, n_jobs=n_jobs)
    search = GridSearchCV(model, {"logisticregression__C": [0.1, 1.0]}, cv=2)
    with pytest.raises(ValueError, match="would take out y"):
        search.fit(X, job)


def test_a_request_without_labels_is_refused_as_well(rows, routing):
    X, job, _ = rows
    model = make_pipeline(LEACE().set_fit_request(z=True), LogisticRegression())
    with pytest.raises(ValueError, match="would take out y"):
        model.fit(X, job)


def test_with_the_concept_every_way_works(rows, routing):
    X, job, z = rows
    model = make_pipeline(LEACE().set_fit_request(z=True), LogisticRegression())
    expected = LEACE().fit(X, z).transform(X)
    np.testing.assert_allclose(model.fit(X, job, z=z)[0].transform(X), expected)
    assert cross_val_score(model, X, job, params={"z": z}, cv=2).min() > 0.8
    search = GridSearchCV(model, {"logisticregression__C": [0.1, 1.0]}, cv=2).fit(X, job, z=z)
    np.testing.assert_allclose(search.best_estimator_[0].transform(X), expected)


HARMLESS = {
    "last step": make_pipeline(StandardScaler(), LEACE()),
    "before a transformer": make_pipeline(LEACE(), PCA(2)),
    "before a clustering": make_pipeline(LEACE(), KMeans(2, n_init=1, random_state=0)),
    "two erasers": make_pipeline(MeanProjection(), LEACE()),
    "union alone": FeatureUnion([("erased", LEACE())]),
    "columns alone": columns(),
}


@pytest.mark.parametrize("model", HARMLESS.values(), ids=HARMLESS.keys())
def test_where_nothing_predicts_the_second_argument_is_the_concept(rows, model):
    X, _, z = rows
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Got a concept whose linear signal")
        model.fit(X, z)
