"""Somebody's own method in a sweep and on a path: transformers, erasers, functions, and code."""

import sys
from dataclasses import replace

import numpy as np
import pytest
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.decomposition import PCA
from sklearn.preprocessing import StandardScaler

from unspot import LEACE, Dataset, Eraser, rank_path
from unspot.lab.sweeps import sweep
from unspot.lab.sweeps.sweep_file import read_sweep_file

OWN = '''
import numpy as np
from sklearn.base import BaseEstimator, TransformerMixin

class Drop(TransformerMixin, BaseEstimator):
    """Keep the last columns."""
    def __init__(self, rank=2):
        self.rank = rank
    def fit(self, X, y=None):
        return self
    def transform(self, X):
        return np.asarray(X) * (np.arange(X.shape[1]) >= X.shape[1] - self.rank)

def zeros(X, scale=0.0):
    return scale * X
'''


class Drop(TransformerMixin, BaseEstimator):
    """Keep the last columns."""

    def __init__(self, rank=2):
        self.rank = rank

    def fit(self, X, y=None):
        return self

    def transform(self, X):
        return np.asarray(X) * (np.arange(X.shape[1]) >= X.shape[1] - self.rank)


class Plain:
    """No estimator of scikit-learn, and parameters without a default."""

    def __init__(self, column):
        self.column = column

    def fit(self, X, z):
        self.seen_ = np.unique(z)

    def transform(self, X):
        X = X.copy()
        X[:, self.column] = 0
        return X


def without_the_first(X):
    return X * [0, 1, 1, 1]


@pytest.fixture(scope="module")
def data():
    rng = np.random.default_rng(0)
    z = np.arange(400) % 2
    X = rng.normal(size=(400, 4))
    X[:, 0] += 4 * z
    return Dataset.from_arrays(X, z, random_state=0)


def linear(frame):
    return frame.set_index("method")["linear"]


def test_methods_of_all_kinds(data):
    methods = {
        "original": "original",
        "frozen": LEACE().fit(data.train.X, data.train.z).eraser_,
        "projection": Eraser.projection(np.eye(4)[:, 1:]),
        "function": without_the_first,
        "lambda": lambda X: X[:, 1:],
        "plain": Plain(0),
        "scaler": StandardScaler(),
        "one component": PCA(1),
    }
    frame = sweep(methods, data, seeds=1, metrics=["linear"])
    assert (frame["status"] == "ok").all(), frame["error"].tolist()
    after = linear(frame)
    assert after["original"] > 0.95
    assert after["scaler"] > 0.95
    for erased in ("frozen", "projection", "function", "lambda", "plain"):
        assert after[erased] < 0.65, erased


def test_a_rank_is_set_where_there_is_one(data):
    frame = sweep(Drop(), data, ranks=[4, 3], seeds=1, metrics=["linear"])
    assert frame["rank"].tolist() == [4, 3]
    assert frame["linear"][0] > 0.95 > 0.65 > frame["linear"][1]


def test_labels_stay_as_they_were_given(data):
    given = {"pca": "cascade:pca", "mine/a": without_the_first}
    frame = sweep(given, data, ranks=[2], seeds=1, metrics=["variance"])
    from unspot.lab.sweeps.tables import sweep_tables

    text = sweep_tables(frame)[0].to_markdown()
    assert "| pca |" in text
    assert "| mine/a |" in text
    names = sweep(["cascade:pca"], data, ranks=[2], seeds=1, metrics=["variance"])
    assert "PCA, cascaded" in sweep_tables(names)[0].to_markdown()


def test_another_code_is_another_cell(data, tmp_path, monkeypatch):
    """The same name and parameters, but changed lines: results of before are not taken for new."""
    monkeypatch.syspath_prepend(tmp_path)
    keys = []
    for name, text in (("own_a", OWN), ("own_b", OWN.replace(">=", ">"))):
        (tmp_path / f"{name}.py").write_text(text)
        module = __import__(name)
        for method in (module.Drop(), module.zeros):
            frame = sweep({"mine": method}, data, ranks=[2], seeds=1, metrics=["variance"])
            keys.append(frame["key"][0])
    assert keys[0] != keys[2]  # the class has changed
    assert keys[1] == keys[3]  # the function has not
    again = sweep({"mine": without_the_first}, data, seeds=1, metrics=["variance"])
    once = sweep({"mine": without_the_first}, data, seeds=1, metrics=["variance"])
    assert again["key"].tolist() == once["key"].tolist()


def test_what_is_no_method(data):
    with pytest.raises(ValueError, match=r"the class Drop.*Drop\(\)"):
        sweep([Drop], data)
    with pytest.raises(ValueError, match="fit and transform"):
        sweep({"mine": np.eye(4)}, data)


def test_a_path_of_ranks(data):
    path = rank_path(Drop(), data, [4, 3, 2], metrics=["linear"], seeds=1)
    values = {point.rank: point.metrics["linear"][0] for point in path}
    assert values[4] > 0.95 > 0.65 > values[3]
    assert path[4].held_out > 4 * path[3].held_out
    chosen = path.select(metric="variance", at_least=0.0)
    assert chosen.rank_ == 2
    with pytest.raises(ValueError, match="no rank"):
        rank_path(StandardScaler(), data)


# -- Code that a file names ------------------------------------------------------------------------


@pytest.fixture
def folder(tmp_path, data, monkeypatch):
    monkeypatch.setattr(sys, "path", [*sys.path])
    monkeypatch.delitem(sys.modules, "own_code", raising=False)
    (tmp_path / "own_code.py").write_text(OWN)
    np.savez(tmp_path / "small.npz", X=data.train.X, z=data.train.z)
    (tmp_path / "sweep.toml").write_text("""
seeds = 1
ranks = [3]
metrics = ["variance"]
[methods]
mine = {method = "own_code:Drop"}
half = {method = "own_code:zeros", scale = 0.5}
[data.small]
path = "small.npz"
""")
    return tmp_path


def test_code_runs_only_if_it_is_allowed(folder):
    with pytest.raises(ValueError, match=r"own_code:Drop.*--allow-code"):
        read_sweep_file(folder / "sweep.toml")
    assert "own_code" not in sys.modules
    plan = read_sweep_file(folder / "sweep.toml", allow_code=True)
    assert plan.methods["mine"].rank == 2
    np.testing.assert_allclose(plan.methods["half"](np.ones((1, 2))), 0.5)


@pytest.mark.parametrize(
    ("code", "said"),
    [
        ("own_cod:Drop", "cannot be imported.*own_cod.py"),
        ("own_code:Dorp", "cannot be imported"),
        ("own_code:Drop', rnk = '2", "cannot be made.*rnk"),
    ],
)
def test_code_that_is_not_there(folder, code, said):
    text = (folder / "sweep.toml").read_text().replace('"own_code:Drop"', f"'{code}'")
    (folder / "sweep.toml").write_text(text)
    with pytest.raises(ValueError, match=said):
        read_sweep_file(folder / "sweep.toml", allow_code=True)


def test_a_label_that_keeps_the_task():
    rng = np.random.default_rng(0)
    z, y = np.arange(400) % 2, rng.permutation(np.arange(400) % 3)
    X = rng.normal(size=(400, 5)) + np.outer(z, [2, 1, 0, 0, 0]) + np.outer(y, [0, 1, 1, 0, 0])
    data = Dataset.from_arrays(X, z, y, random_state=0)
    seen = {}

    class Seen(LEACE):
        def fit(self, X, z, **beside):
            seen[self.method] = beside.get("keep")
            return super().fit(X, z, **beside)

    methods = {"plain": Seen(method="orthogonal"), "mine:keep": Seen()}
    frame = sweep(methods, data, seeds=1, metrics=["variance"])
    assert list(frame["status"]) == ["ok", "ok"]
    assert seen["orthogonal"] is None
    np.testing.assert_array_equal(seen["oblique"], data.train.y)
    frame = sweep(methods, _without_task(data), seeds=1, metrics=["variance"])
    assert list(frame["status"]) == ["ok", "failed"]
    assert all(word in frame["error"][1] for word in ("mine:keep", "has none", "task"))


def _without_task(data):
    return Dataset(*(replace(split, task=None) for split in data), name=data.name)
