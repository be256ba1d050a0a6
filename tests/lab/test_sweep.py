"""Sweeps: every cell once, whatever happens on the way."""

from __future__ import annotations

import json
import re

import numpy as np
import pytest
from joblib import parallel_config
from sklearn.decomposition import PCA

from unspot import LEACE, Cascade, Dataset, Eraser, evaluate
from unspot.erasers.base import BaseEraser
from unspot.erasers.baselines import PCAProjection
from unspot.lab.metrics import lab_metrics
from unspot.lab.sweep import check_seeds, named_methods, read_results, sweep
from unspot.lab.tables import sweep_tables


def small(seed=0, name="data"):
    rng = np.random.default_rng(seed)
    z = np.arange(300) % 2
    X = rng.normal(size=(300, 5))
    X[z == 1, 0] += 2.0
    return Dataset.from_arrays(X, z, y=rng.integers(2, size=300), random_state=0, name=name)


@pytest.fixture(scope="module")
def data():
    return small()


class Broken(BaseEraser):
    """Fails at rank 2."""

    def __init__(self, rank=1):
        self.rank = rank

    def _fit_eraser(self, X, target):
        if self.rank == 2:
            raise RuntimeError("out of luck")
        return Eraser.projection(np.eye(X.shape[1])[:, : self.rank])


def numbers(records):
    """Everything but the times, in an order of its own."""
    without = [{k: v for k, v in r.items() if not k.endswith("seconds")} for r in records]
    return sorted(json.dumps(r, sort_keys=True, default=str) for r in without)


def test_one_record_per_cell(data):
    records = sweep(["original", "pca", "random"], data, [3, 1], seeds=2, metrics=["variance"])
    assert [(r["method"], r["rank"], r["seed"]) for r in records] == [
        *[("original", None, 0), ("original", None, 1)],
        *[("pca", 3, 0), ("pca", 3, 1), ("pca", 1, 0), ("pca", 1, 1)],
        *[("random", 3, 0), ("random", 3, 1), ("random", 1, 0), ("random", 1, 1)],
    ]
    kept = [record["metrics"]["variance"] for record in records]
    assert kept[:2] == [1.0, 1.0]
    assert kept[2] == kept[3] > kept[4]
    assert kept[6] != kept[7]  # the seed decides a random projection
    assert [record["kept_rank"] for record in records[:3]] == [5, 5, 3]


def test_metrics_are_those_of_evaluate(data):
    (record,) = sweep("pca", data, [3], seeds=[4], metrics=["probe", "neighbours", "task"])
    eraser = PCAProjection(3).fit(data.train.X, data.train.z)
    names = ["probe", "neighbours", "task"]
    found = evaluate(eraser, data, metrics=lab_metrics(names), seeds=1, random_state=4)
    for name in ("probe", "neighbours", "task"):
        assert record["metrics"][name] == pytest.approx(found[name].after.mean)


def test_several_data_sets_with_their_own_ranks(data):
    ranks = {"data": [4], "other": [2, 0.2]}
    records = sweep("pca", [data, small(1, "other")], ranks, seeds=1, metrics=["variance"])
    places = [(record["dataset"], record["rank"]) for record in records]
    assert places == [("data", 4), ("other", 2), ("other", 1)]
    assert [table.title for table in sweep_tables(records)] == ["data", "other"]


def test_methods_of_all_kinds(data):
    methods = {
        "original": "original",
        "frozen": LEACE().fit(data.train.X, data.train.z).eraser_,
        "function": lambda X: X[:, 1:],
        "one component": PCA(1),
    }
    records = sweep(methods, data, seeds=1, metrics=["linear"])
    after = {record["method"]: record["metrics"]["linear"] for record in records}
    assert after["original"] > 0.75
    assert max(after["frozen"], after["function"]) < 0.65


def test_a_failed_cell_does_not_stop_the_others_and_runs_again(data, tmp_path):
    path = tmp_path / "r.jsonl"
    arguments = {"methods": {"broken": Broken()}, "datasets": data, "ranks": [3, 2, 1], "seeds": 1}
    records = sweep(**arguments, metrics=["variance"], path=path)
    assert [record["status"] for record in records] == ["ok", "failed", "ok"]
    assert records[1]["error"] == "RuntimeError: out of luck"
    again = sweep(**arguments, metrics=["variance"], path=path, resume=True)
    assert numbers(again) == numbers(records)
    assert len(read_results(path)) == 4


def test_resume_does_what_is_left(data, tmp_path):
    """Also after a kill in the middle of a line."""
    path = tmp_path / "r.jsonl"
    sweep("pca", data, [3, 2], seeds=2, metrics=["variance"], path=path)
    path.write_bytes(path.read_bytes()[:-20])
    finished = read_results(path)
    assert len(finished) == 3
    wanted = {"methods": ["pca", "mean"], "datasets": data, "ranks": [3, 2], "seeds": 2}
    records = sweep(**wanted, metrics=["variance"], path=path, resume=True)
    assert numbers(records) == numbers(sweep(**wanted, metrics=["variance"]))
    lines = read_results(path)
    assert lines[:3] == finished
    assert len(lines) == len(records) == 6


def test_cells_of_other_rows_and_settings_are_not_taken(data, tmp_path):
    path = tmp_path / "r.jsonl"
    sweep("pca", data, [3], seeds=1, metrics=["variance"], path=path)
    with pytest.raises(ValueError, match=r"1 results already.*resume=True"):
        sweep("pca", data, [3], seeds=1, metrics=["variance"], path=path)
    for other in (
        {"datasets": small(1)},
        {"metrics": ["linear"]},
        {"budget": "standard"},
        {"methods": {"pca": PCAProjection(3, normalise=True)}},
    ):
        before = len(read_results(path))
        same = {"methods": "pca", "datasets": data, "ranks": [3], "metrics": ["variance"]}
        sweep(**{**same, **other}, seeds=1, path=path, resume=True)
        assert len(read_results(path)) == before + 1, other


@pytest.mark.parametrize("backend", ["loky", "threading"])
def test_joblib_decides_where(data, backend):
    plain = sweep("random", data, [3, 2], seeds=2, metrics=["variance"])
    with parallel_config(backend=backend, n_jobs=2):
        there = sweep("random", data, [3, 2], seeds=2, metrics=["variance"])
    assert numbers(there) == numbers(plain)


def test_a_numeric_concept_has_no_probe():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(400, 3))
    data = Dataset.from_arrays(X, X[:, 0] + 0.1 * rng.normal(size=400), random_state=0)
    methods = {"original": None, "last": Eraser.projection(np.eye(3)[:, 1:])}
    before, after = sweep(methods, data, seeds=1)
    assert "probe" not in before["metrics"]
    assert before["metrics"]["attack"] > 0.5 > 0.1 > after["metrics"]["attack"]


def test_names_of_methods():
    labels = list(named_methods([LEACE(), Cascade(second=PCAProjection())]))
    assert labels == ["LEACE", "cascade:PCAProjection"]
    assert named_methods("original") == {"original": None}


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"methods": ["leopar"]}, r"Got method 'leopar', .* Did you mean 'leopard'"),
        ({"methods": [LEACE(), LEACE()]}, "LEACE, LEACE.*each with another name"),
        ({"methods": []}, "at least one"),
        ({"methods": [3]}, "Got a method 3"),
        ({"methods": [LEACE]}, "Got a method .*LEACE"),
        ({"ranks": [9]}, "Got rank=9, but expected an integer from 1 to 5, .* of 'data'"),
        ({"ranks": []}, "Got no ranks for 'data'"),
        ({"seeds": 0}, "Got seeds=0, .*at least 1"),
        ({"metrics": ["varianc"]}, r"Got metric 'varianc', .*Did you mean 'variance'"),
        ({"datasets": []}, "Got no data sets"),
        ({"datasets": [small(), small(1)]}, "two of one name"),
    ],
)
def test_bad_input(data, change, message):
    given = {"methods": "pca", "datasets": data, "ranks": [2], "seeds": 1, "metrics": ["variance"]}
    with pytest.raises(ValueError, match=message):
        sweep(**{**given, **change})


# -- the command ---------------------------------------------------------------------------------

SWEEP = """
ranks = [3, 1]
seeds = 2
metrics = ["linear", "variance"]

[methods]
original = "original"
PCA = "pca"
mine = {method = "pca", normalise = true}

[data.small]
path = "small.npz"
concept = "z"
"""


@pytest.fixture
def folder(tmp_path, rows):
    np.savez(tmp_path / "small.npz", X=rows[0], z=rows[1])
    (tmp_path / "sweep.toml").write_text(SWEEP)
    return tmp_path


def test_a_grid_from_a_file(cli, folder):
    done = cli("lab", "sweep", folder / "sweep.toml", "--tables", folder / "paper")
    assert done.code == 0, done.err
    assert "10 cells" in done.out
    records = read_results(folder / "sweep.jsonl")
    assert [r["method"] for r in records].count("mine") == 4
    assert {r["parameters"].get("normalise") for r in records if r["method"] == "mine"} == {"True"}
    assert r"\toprule" in (folder / "paper" / "tables.tex").read_text()
    assert "small,mine,3,linear" in (folder / "paper" / "tables.csv").read_text()
    assert "results already" in cli("lab", "sweep", folder / "sweep.toml").err
    assert cli("lab", "sweep", folder / "sweep.toml", "--resume", "-q").code == 0
    assert len(read_results(folder / "sweep.jsonl")) == 10


def test_if_every_cell_fails_so_does_the_command(cli, folder):
    text = SWEEP.replace('method = "pca", normalise = true', 'method = "farm", n_layers = 0')
    text = text.replace('original = "original"\nPCA = "pca"\n', "")
    (folder / "sweep.toml").write_text(text)
    done = cli("lab", "sweep", folder / "sweep.toml", "-q")
    assert done.code == 1
    assert "2 of 2 cells failed, the first (mine) with: ValueError: Got n_layers=0" in done.err


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("seeds = 2", "seed = 2", "'seed'.*sweep.toml.*Did you mean '?seeds"),
        ('concept = "z"', 'concpt = "z"', "'concpt'.*data.small.*Did you mean '?concept"),
        ('"pca"', '"pcaa"', "'pcaa'.*Did you mean '?pca"),
        ("seeds = 2", "seeds = ", "sweep.toml.*TOML"),
        ("small.npz", "big.npz", "big.npz'.*no such file"),
        ("[data.small]", "[[data]]", "sweep.toml.*tables of data"),
    ],
)
def test_files_that_say_something_else(cli, folder, old, new, message):
    (folder / "sweep.toml").write_text(SWEEP.replace(old, new))
    done = cli("lab", "sweep", folder / "sweep.toml")
    assert done.code == 2
    assert re.search(message, done.err)
    assert not (folder / "sweep.jsonl").exists()


# -- seeds -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("seeds", "listed"), [(np.int64(2), [0, 1]), (np.array([4, 1]), [4, 1]), (range(2, 4), [2, 3])]
)
def test_seeds_are_listed_as_plain_integers(seeds, listed):
    assert check_seeds(seeds) == listed
    assert {type(seed) for seed in check_seeds(seeds)} == {int}


@pytest.mark.parametrize(
    ("seeds", "expected"),
    [
        (0, "number of seeds of at least 1"),
        (True, "number of seeds"),
        (2.0, "number of seeds"),
        ("12", "number of seeds"),
        ([], "list of different integers"),
        ([1, 1], "list of different integers"),
        ([0.5], "such as [0, 1, 2]"),
    ],
)
def test_other_seeds_are_refused(seeds, expected):
    with pytest.raises(ValueError, match=f"={re.escape(repr(seeds))}, but .*{re.escape(expected)}"):
        check_seeds(seeds)
