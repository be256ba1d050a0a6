"""scikit-learn's own contract, for every eraser, without expected failures."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from sklearn import set_config
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.utils.estimator_checks import parametrize_with_checks

from unspot import LEACE, LEOPARD, Cascade, Dataset, methods
from unspot.erasers.registry import make
from unspot.leopard import ManifoldSolver, PaperSolver

EVERY_METHOD = [make(info.name) for info in methods()]
VARIANTS = [
    LEACE(method="orthogonal"),
    LEOPARD(metric="whitened", preserve=0.5, kernel="reference", solver=ManifoldSolver(init="pca")),
    LEOPARD(solver=PaperSolver(epochs=3, batch_size=8)),
    Cascade(second=LEACE()),
    Cascade(second=make("random", random_state=0)),  # the checks seed the outer estimator only
]


# The checks have data of two features and three classes, of which linear erasure leaves nothing.
@pytest.mark.filterwarnings("ignore:Got a concept whose linear signal spans all")
@pytest.mark.filterwarnings("ignore:Skipping check:sklearn.exceptions.SkipTestWarning")
@parametrize_with_checks(EVERY_METHOD + VARIANTS)
def test_scikit_learn_checks(estimator, check):
    check(estimator)


@pytest.fixture
def task():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(120, 6))
    return X, (X[:, 0] > 0).astype(int), np.where(X[:, 1] > 0, "a", "b")


def test_pipeline_with_metadata_routing(task):
    X, y, z = task
    set_config(enable_metadata_routing=True)
    try:
        eraser = LEACE().set_fit_request(z=True)
        model = make_pipeline(eraser, LogisticRegression()).fit(X, y, z=z)
    finally:
        set_config(enable_metadata_routing=False)
    np.testing.assert_allclose(model[0].transform(X), LEACE().fit(X, z).transform(X))
    assert model.score(X, y) > 0.9


def test_what_is_given_and_kept_is_routed_too(task):
    X, y, z = task
    set_config(enable_metadata_routing=True)
    try:
        eraser = LEACE().set_fit_request(z=True, given=True, keep=False)
        model = make_pipeline(eraser, LogisticRegression()).fit(X, y, z=z, given=y)
    finally:
        set_config(enable_metadata_routing=False)
    np.testing.assert_allclose(model[0].transform(X), LEACE().fit(X, z, given=y).transform(X))


def test_a_lone_second_argument_is_the_concept(task):
    X, y, z = task
    alone = LEOPARD(rank=3, random_state=0).fit(X, z)
    named = LEOPARD(rank=3, random_state=0).fit(X, y, z=z)
    np.testing.assert_array_equal(alone.eraser_.P, named.eraser_.P)
    assert named.classes_.tolist() == ["a", "b"]


def test_feature_names_and_output_containers(task):
    X, _, z = task
    frame = pd.DataFrame(X, columns=[f"e{i}" for i in range(6)], index=np.arange(120) + 5)
    eraser = LEOPARD(rank=3, random_state=0, solver=ManifoldSolver(max_evaluations=3)).set_output(
        transform="pandas"
    )
    erased = eraser.fit(frame, z).transform(frame)
    assert erased.columns.tolist() == frame.columns.tolist()
    assert erased.index.tolist() == frame.index.tolist()
    assert eraser.feature_names_in_.tolist() == frame.columns.tolist()
    with pytest.raises(ValueError, match="feature names should match"):
        eraser.transform(frame.rename(columns={"e0": "other"}))


def test_tables_of_whole_numbers_constants_and_vectors(task, rng):
    X, _, z = task
    frame = pd.DataFrame(X, columns=[f"e{i}" for i in range(6)])
    frame["count"], frame["always"] = rng.integers(9, size=len(X)), 3
    fitted = LEACE().set_output(transform="pandas").fit(frame, z)
    erased = fitted.transform(frame)
    assert fitted.get_feature_names_out().tolist() == frame.columns.tolist()
    values = frame.to_numpy(float)
    np.testing.assert_allclose(erased, LEACE().fit(values, z).transform(values))
    np.testing.assert_allclose(erased["always"], 3)
    vectors = pd.DataFrame({"emb": list(map(list, X))})[["emb"]]  # a table whose cells are lists
    expected = LEACE().fit(X, z)
    np.testing.assert_array_equal(LEACE().fit(vectors, z).transform(vectors), expected.transform(X))
    np.testing.assert_array_equal(expected.eraser_(vectors), expected.transform(X))
    assert Dataset.from_arrays(vectors, z, random_state=0).n_features == 6
