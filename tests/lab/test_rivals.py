"""What all rivals share: the registry, scikit-learn's contract, files, and the maps of the lab."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.utils import estimator_checks

import unspot
from unspot import lab, load
from unspot.erasers.registry import make, method
from unspot.lab.registry import METHODS

#: Enough to fit anything in a moment.
QUICK = {
    "training": {"epochs": 2},
    **{"n_epochs": 2, "n_iterations": 10, "n_rounds": 2, "n_landmarks": 20, "n_steps": 5},
    **{"n_random_features": 50, "random_state": 0},
}
NAMES = [info.name for info in METHODS]


def quick(name):
    known = method(name).parameters
    return make(name, **{key: value for key, value in QUICK.items() if key in known})


@pytest.fixture(scope="session")
def data():
    rng = np.random.default_rng(0)
    z = np.arange(120) % 2
    X = rng.normal(size=(120, 8))
    X[:, 0] += 2 * z
    X[:, 1] *= 1 + z
    return X, np.array(["a", "b"])[z]


@pytest.fixture(scope="session")
def fitted(data):
    return {name: quick(name).fit(*data) for name in NAMES}


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize(
    "check",
    [
        "check_estimators_dtypes",
        "check_estimators_nan_inf",
        "check_transformer_general",
        "check_n_features_in_after_fitting",
        "check_methods_subset_invariance",
    ],
)
@pytest.mark.filterwarnings("ignore:Got a concept whose linear signal spans all")
def test_scikit_learn_checks(name, check):
    getattr(estimator_checks, check)(type(make(name)).__name__, quick(name))


@pytest.mark.parametrize("info", METHODS, ids=NAMES)
def test_facts_are_true_of_the_fitted_method(info, fitted, data):
    eraser = fitted[info.name]
    assert eraser.eraser_.is_linear == info.linear
    assert hasattr(info.cls, "partial_fit") == info.streaming
    assert ("continuous" in info.concepts) == (info.name == "kram")
    assert getattr(lab, info.cls.__name__) is info.cls
    assert not hasattr(unspot, info.cls.__name__)


@pytest.mark.parametrize("name", NAMES)
def test_erased_rows_reduced_rows_and_clones(name, fitted, data):
    eraser, (X, z) = fitted[name], data
    erased, reduced = eraser.transform(X), eraser.reduce(X)
    assert erased.shape == X.shape
    assert reduced.shape == (len(X), eraser.eraser_.rank)
    distances = [np.linalg.norm(Y[:, None] - Y[None], axis=-1) for Y in (erased, reduced)]
    np.testing.assert_allclose(*distances, atol=1e-6)
    np.testing.assert_array_equal(clone(eraser).fit(X, z).transform(X), erased)


@pytest.mark.parametrize("name", NAMES)
def test_saved_and_loaded(name, fitted, data, tmp_path):
    path = tmp_path / "rival.safetensors"
    fitted[name].eraser_.save(path)
    loaded = load(path)
    np.testing.assert_array_equal(loaded(data[0]), fitted[name].transform(data[0]))
    assert loaded.metadata["method"] == method(name).cls.__name__


def test_a_fresh_process_loads_maps_of_the_lab_without_torch(fitted, data, tmp_path):
    names = ("fleace", "igbp", "mute", "matching", "kernel", "farm")
    for name in names:
        fitted[name].eraser_.save(tmp_path / f"{name}.safetensors")
    code = (
        "import sys, numpy, unspot\n"
        "for path in sys.argv[1:]: unspot.load(path)(numpy.ones((3, 8)))\n"
        "assert not {'torch', 'sklearn'} & set(sys.modules)"
    )
    paths = [str(tmp_path / f"{name}.safetensors") for name in names]
    subprocess.run([sys.executable, "-c", code, *paths], check=True)


@pytest.mark.parametrize("name", ["inlp", "matching", "farm"])
def test_inside_a_cascade(name, data):
    known = method(name).parameters
    inner = {key: value for key, value in QUICK.items() if key in known}
    erased = make(f"cascade:{name}", **inner).fit(*data).transform(data[0])
    assert erased.shape == data[0].shape
    assert np.isfinite(erased).all()


def test_names_do_not_collide():
    every = [info.name for info in (*unspot.methods(), *METHODS)]
    assert len(set(every)) == len(every) == len(unspot.methods()) + 13
