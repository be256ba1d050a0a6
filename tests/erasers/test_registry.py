"""The list of methods: true of the classes, and helpful with wrong names."""

from __future__ import annotations

import ast
import subprocess
import sys
from importlib.resources import files

import numpy as np
import pytest

import unspot
from unspot import erasers
from unspot.erasers.registry import make, method, methods
from unspot.lab import FaRM
from unspot.leopard import PaperSolver

#: Enough to fit anything in a moment.
QUICK = {"n_epochs": 2, "n_iterations": 10, "n_rounds": 2, "random_state": 0}


def quick(name):
    inner = method(name.split(":")[-1])
    return make(name, **{k: v for k, v in QUICK.items() if k in inner.parameters})


@pytest.fixture(scope="module")
def data():
    rng = np.random.default_rng(0)
    z = np.arange(120) % 2
    return rng.normal(size=(120, 5)) + 2 * z[:, None] * np.eye(5)[0], np.array(["a", "b"])[z]


@pytest.mark.parametrize("info", methods(), ids=lambda info: info.name)
def test_facts_are_true_of_the_fitted_method(info, data):
    eraser = quick(info.name).fit(*data)
    assert eraser.eraser_.is_linear == info.linear
    assert hasattr(info.cls, "partial_fit") == info.streaming
    assert ("continuous" in info.concepts) == ("continuous" in info.cls.takes)
    assert ("table" in info.concepts) == ("several" in info.cls.takes)
    assert eraser.transform(data[0]).shape == data[0].shape


@pytest.mark.parametrize("info", methods(), ids=lambda info: info.name)
def test_it_works_inside_a_cascade(info, data):
    X, z = data
    if info.name == "cascade":
        pytest.skip("a cascade cannot hold another")
    cascade = quick(f"cascade:{info.name}").fit(X, z)
    assert isinstance(cascade, unspot.Cascade)
    erased = cascade.transform(X)
    assert erased.shape == X.shape
    assert np.isfinite(erased).all()
    assert cascade.reduce(X).shape[1] <= 4  # two classes: linear erasure takes one dimension


NAMES = [info.name for info in methods()]


@pytest.mark.parametrize("name", [*NAMES, *(f"cascade:{n}" for n in NAMES if n != "cascade")])
def test_reduced_rows_have_as_many_columns_as_the_rank_and_the_same_distances(name, data):
    X, z = data
    eraser = quick(name).fit(X, z)
    erased, reduced = eraser.transform(X), eraser.reduce(X)
    assert reduced.shape == (len(X), eraser.eraser_.rank)
    distances = [np.linalg.norm(Y[:, None] - Y[None], axis=-1) for Y in (erased, reduced)]
    np.testing.assert_allclose(*distances, atol=1e-6)


@pytest.mark.parametrize("name", [m.name for m in methods() if "continuous" not in m.concepts])
def test_numbers_are_refused_where_they_are_not_listed(name, data):
    with pytest.raises(ValueError, match=r"continuous concept.*erases categories.*Use LEOPARD"):
        quick(name).fit(data[0], np.linspace(0, 1, 120))


def test_methods_of_all_kinds():
    assert method("leopard").concepts == ("categories", "continuous", "table")


@pytest.mark.parametrize("name", ["leopard", "cascade", "leace", "transport", "cascade:leace"])
def test_continuous_concepts_where_they_are_listed(name, data):
    X, _ = data
    inner = method(name.split(":")[-1])
    params = {k: v for k, v in QUICK.items() if k in inner.parameters}
    eraser = make(name, **params).fit(X, X[:, 0] + 0.5 * X[:, 1] ** 2)
    assert eraser.transform(X).shape == X.shape
    assert eraser.eraser_.metadata["concept"] == "continuous"


def test_every_exported_eraser_is_listed():
    listed = {info.cls for info in methods()}
    classes = {getattr(erasers, name) for name in erasers.__all__}
    classes -= {erasers.BaseEraser}
    assert listed == classes


def test_names_are_unique_and_lower_case():
    names = [info.name for info in methods()]
    assert len(set(names)) == len(names)
    assert all(name == name.lower() for name in names)


def test_it_prints_as_a_table():
    lines = repr(methods()).splitlines()
    assert len(lines) == 1 + len(methods())
    assert lines[0].split()[:2] == ["name", "concepts"]
    assert max(map(len, lines)) <= 100  # a line of a terminal
    transport = next(line for line in lines if line.startswith("transport"))
    assert "categories, continuous" in transport


def test_listing_loads_neither_torch_nor_scikit_learn():
    program = (
        "import sys, unspot; repr(unspot.methods())\n"
        "assert not {'torch', 'sklearn'} & set(sys.modules)"
    )
    subprocess.run([sys.executable, "-c", program], check=True)


@pytest.mark.parametrize("name", ["base", "baselines", "cascade", "leace", "registry"])
def test_closed_form_methods_do_not_import_torch_themselves(name):
    tree = ast.parse(files("unspot.erasers").joinpath(f"{name}.py").read_text("utf-8"))
    imports = [node for node in tree.body if isinstance(node, (ast.Import, ast.ImportFrom))]
    names = {
        node.module if isinstance(node, ast.ImportFrom) else node.names[0].name for node in imports
    }
    assert not {"torch", "pandas"} & {str(name).split(".")[0] for name in names}
    assert not {"unspot.lab.networks", "unspot.erasers.leopard", "unspot.leopard"} & names


def test_make_takes_parameters_and_ignores_case():
    assert make("PCA", rank=3).rank == 3
    assert make("cascade", rank=7).second.rank == 7
    assert isinstance(make("cascade").second, unspot.LEOPARD)
    solver = make("cascade", solver="paper", **{"solver.epochs": 3}).second.solver
    assert solver == PaperSolver(epochs=3)
    inner = make("cascade:farm", training={"epochs": 9}).second
    assert isinstance(inner, FaRM)
    assert inner.training == {"epochs": 9}


@pytest.mark.parametrize(
    ("name", "params", "message"),
    [
        ("leopart", {}, r"method 'leopart', but expected one of: leopard.*Did you mean 'leopard'"),
        (
            "nothing like it",
            {},
            r"transport:NAME; or one of unspot.lab: farm.*obliviator\.$",
        ),
        ("cascade:fram", {}, r"method 'fram'.*Did you mean .*farm"),
        ("cascade:cascade", {}, "a cascade cannot hold another cascade"),
        ("pca:farm", {}, "only cascade:NAME and transport:NAME hold another"),
        ("pca", {"solver.epochs": 3}, r"parameter 'solver' for method 'pca'"),
        ("pca", {"rnak": 3}, r"parameter 'rnak' for method 'pca'.*Did you mean 'rank'"),
        ("cascade:farm", {"n_layer": 3}, r"parameter 'n_layer' for method 'farm'.*n_layers"),
    ],
)
def test_wrong_names_show_the_nearest(name, params, message):
    with pytest.raises(ValueError, match=message):
        make(name, **params)


def test_transport_goes_before_any_other(data):
    X, z = data
    eraser = make("transport:pca", rank=2).fit(X, z)
    stages = eraser.first.first, eraser.first.second, eraser.second
    assert [type(stage).__name__ for stage in stages] == ["Transport", "LEACE", "PCAProjection"]
    moved = eraser.transform(X)
    assert np.linalg.matrix_rank(moved - moved.mean(axis=0), tol=1e-8) == 2
    assert type(make("transport")).__name__ == "Transport"


def test_transport_of_a_number_goes_before_any_other_that_takes_one():
    rng = np.random.default_rng(0)
    X, z = rng.normal(size=(200, 10)), rng.random(200)
    eraser = make("transport:leopard", rank=2, random_state=0).fit(X, z)
    assert eraser.eraser_.metadata["concept"] == "continuous"
    assert eraser.reduce(X).shape == (200, 2)
