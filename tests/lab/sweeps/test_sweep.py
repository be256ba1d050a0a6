"""Sweeps: every cell once, whatever happens on the way."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from joblib import parallel_config

from unspot import LEACE, LEOPARD, Cascade, Dataset
from unspot.erasers.base import BaseEraser
from unspot.erasers.baselines import PCAProjection, RandomProjection
from unspot.io.journal import read_journal
from unspot.lab.sweeps.grid import cells, data_fingerprint, named_methods
from unspot.lab.sweeps.run import read_results, sweep

TIMES = ["fit_seconds", "seconds"]


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
        return PCAProjection(self.rank).fit(X, target.codes).eraser_


def same(left, right):
    order = ["dataset", "method", "rank", "seed"]
    pd.testing.assert_frame_equal(
        *(f.drop(columns=TIMES).sort_values(order).reset_index(drop=True) for f in (left, right))
    )


def test_one_row_a_cell(data):
    frame = sweep(["original", "pca", "random"], data, [3, 1], seeds=2, metrics=["variance"])
    assert list(frame.columns[:4]) == ["dataset", "method", "rank", "seed"]
    assert len(frame) == 2 + 2 * 2 + 2 * 2
    assert (frame["status"] == "ok").all()
    assert frame[frame["method"] == "original"]["variance"].tolist() == [1.0, 1.0]
    pca = frame[frame["method"] == "pca"].set_index(["rank", "seed"])["variance"]
    assert pca[3, 0] > pca[1, 0]
    assert pca[3, 0] == pca[3, 1]
    random = frame[frame["method"] == "random"].set_index(["rank", "seed"])["variance"]
    assert random[3, 0] != random[3, 1]
    assert frame["kept_rank"].tolist()[:3] == [5, 5, 3]


def test_metrics_are_those_of_evaluate(data):
    from unspot import evaluate

    frame = sweep("pca", data, [3], seeds=[4], metrics=["probe", "neighbours", "task"])
    eraser = PCAProjection(3).fit(data.train.X, data.train.z)
    found = evaluate(eraser, data, metrics=["probe", "neighbours", "task"], seeds=1, random_state=4)
    for name in ("probe", "neighbours", "task"):
        assert frame[name][0] == pytest.approx(found[name].after.mean)


def test_several_data_sets_with_their_own_ranks(data):
    other = small(1, "other")
    frame = sweep(
        "pca", [data, other], {"data": [4], "other": [2, 0.2]}, seeds=1, metrics=["variance"]
    )
    assert list(zip(frame["dataset"], frame["rank"], strict=True)) == [
        ("data", 4),
        ("other", 2),
        ("other", 1),
    ]


def test_a_failed_cell_is_kept_with_its_error(data, tmp_path):
    path = tmp_path / "r.jsonl"
    frame = sweep({"broken": Broken()}, data, [3, 2, 1], 1, ["variance"], path=path)
    assert frame["status"].tolist() == ["ok", "failed", "ok"]
    assert frame["error"][1] == "RuntimeError: out of luck"
    assert np.isnan(frame["variance"][1])
    assert frame["variance"].notna().sum() == 2
    same(
        sweep({"broken": Broken()}, data, [3, 2, 1], 1, ["variance"], path=path, resume=True), frame
    )
    assert len(path.read_text().splitlines()) == 4
    sweep(
        {"broken": Broken()}, data, [3, 2, 1], 1, ["variance"], path=path, resume=True, retry=True
    )
    assert len(path.read_text().splitlines()) == 5


class Endless(PCAProjection):
    def fit(self, X, z):
        while self.rank == 2:
            pass
        return super().fit(X, z)


@pytest.mark.parametrize("n_jobs", [1, 2])
def test_a_cell_that_takes_too_long_has_failed(data, n_jobs):
    options = {"metrics": ["variance"], "n_jobs": n_jobs, "max_seconds": 3}
    frame = sweep({"endless": Endless()}, data, [3, 2, 1], 1, **options)
    assert frame["status"].tolist() == ["ok", "failed", "ok"]
    assert frame["error"][1] == "TimeoutError: It took more than 3 seconds."
    assert 3 <= frame["seconds"][1] < 10
    with pytest.raises(ValueError, match="Got max_seconds=0, but expected a positive number"):
        sweep("pca", data, [3], max_seconds=0)


def test_resume_does_what_is_left(data, tmp_path):
    path = tmp_path / "r.jsonl"
    sweep("pca", data, [3], seeds=2, metrics=["variance"], path=path)
    kept = path.read_bytes()
    frame = sweep(
        ["pca", "mean"], data, [3, 1], seeds=2, metrics=["variance"], path=path, resume=True
    )
    assert path.read_bytes().startswith(kept)
    assert len(path.read_bytes().splitlines()) == 1 + len(frame) == 7
    same(frame, sweep(["pca", "mean"], data, [3, 1], seeds=2, metrics=["variance"]))
    same(frame, read_results(path))


OLD_RESULTS = Path(__file__).with_name("old_results.jsonl")


def test_a_result_file_of_the_version_before_is_read():
    frame = read_results(OLD_RESULTS)
    assert frame["method"].tolist() == ["original"] * 2 + ["leace"] * 2 + ["pca"] * 4
    assert frame["rank"].tolist()[4:] == [4, 4, 2, 2]
    assert frame["seed"].tolist() == [0, 1] * 4
    linear, variance = [5 / 9, 0.5, 41 / 72, 0.625], [1.0, 0.89998, 0.75396, 0.46325]
    assert frame["linear"].tolist() == pytest.approx(np.repeat(linear, 2))
    assert frame["variance"].tolist() == pytest.approx(np.repeat(variance, 2), abs=1e-5)
    assert (frame["status"] == "ok").all()


def test_results_of_the_version_before_are_not_mixed_with_new_ones(data, tmp_path):
    """Its attackers learned from the rows of the fit."""
    path = tmp_path / "results.jsonl"
    path.write_bytes(OLD_RESULTS.read_bytes())
    metrics = ("linear", "variance")
    with pytest.raises(ValueError, match=r"other settings .version was 3 and is.*another file"):
        sweep("pca", data, [2, 4], seeds=2, metrics=metrics, path=path, resume=True)
    assert path.read_bytes() == OLD_RESULTS.read_bytes()


def test_truncated_file_is_repaired(data, tmp_path):
    path = tmp_path / "r.jsonl"
    whole = sweep("pca", data, [3, 2], seeds=1, metrics=["variance"], path=path)
    path.write_bytes(path.read_bytes()[:-20])
    same(sweep("pca", data, [3, 2], seeds=1, metrics=["variance"], path=path, resume=True), whole)


SCRIPT = """
import sys, time
import numpy as np
from unspot import Dataset
from unspot.evaluation.metrics import METRICS
from unspot.lab.sweeps.run import sweep

def slow(problem):
    time.sleep(0.3)
    return METRICS["variance"](problem)

if __name__ == "__main__":
    X = np.random.default_rng(0).normal(size=(200, 6))
    data = Dataset.from_arrays(X, np.arange(200) % 2, random_state=0)
    frame = sweep(["random", "original"], data, [5, 4, 3, 2], seeds=3,
                  metrics={"slow": slow, "linear": METRICS["linear"]},
                  path=sys.argv[1], resume="resume" in sys.argv, n_jobs=int(sys.argv[2]))
    frame.to_csv(sys.argv[1] + ".csv", index=False)
"""


@pytest.mark.slow
@pytest.mark.parametrize("n_jobs", [1, 2])
def test_kill_and_resume_is_an_unbroken_run(tmp_path, n_jobs):
    script = tmp_path / "script.py"
    script.write_text(SCRIPT)
    broken, unbroken = tmp_path / "broken.jsonl", tmp_path / "unbroken.jsonl"

    def run(path, *more):
        command = [sys.executable, str(script), str(path), str(n_jobs), *more]
        return subprocess.Popen(command, start_new_session=True)

    process = run(broken)
    while not broken.exists() or broken.read_text().count("\n") < 5:
        assert process.poll() is None, "it was to be killed in the middle"
        time.sleep(0.02)
    os.killpg(process.pid, signal.SIGKILL)
    process.wait()
    done = set(read_journal(broken)[1])
    assert 0 < len(done) < 15
    assert run(broken, "resume").wait() == 0
    assert run(unbroken).wait() == 0
    same(*(pd.read_csv(f"{path}.csv") for path in (broken, unbroken)))
    lines = [json.loads(line) for line in broken.read_text().splitlines()][1:]
    assert len(lines) == len({line["key"] for line in lines}) == 15  # nothing twice, nothing lost


@pytest.mark.parametrize("backend", ["loky", "threading"])
def test_joblib_decides_where(data, backend):
    plain = sweep("random", data, [3, 2], seeds=2, metrics=["variance"])
    with parallel_config(backend=backend, n_jobs=2):
        same(sweep("random", data, [3, 2], seeds=2, metrics=["variance"]), plain)


def test_a_backend_that_gives_results_at_the_end(data):
    plain = sweep("random", data, [3, 2], seeds=2, metrics=["variance"])
    with parallel_config(backend="multiprocessing", n_jobs=2):
        same(sweep("random", data, [3, 2], seeds=2, metrics=["variance"]), plain)


def test_keys_tell_apart_what_differs(data):
    settings = {"metrics": ["a"]}

    def key(method=None, label="x", data=data, rank=3, seed=0, settings=settings):
        (cell,) = cells({label: method or LEOPARD()}, {"data": data}, [rank], [seed], settings)
        return cell.key

    keys = [
        key(),
        key(LEOPARD(preserve=0.1)),
        key(LEOPARD(init=np.eye(5)[:, :3])),
        key(LEOPARD(init=np.eye(5)[:, 1:4])),
        key(Cascade(LEOPARD())),
        key(Cascade(RandomProjection())),
        key(data=small(1)),
        key(rank=2),
        key(seed=1),
        key(settings={"metrics": ["b"]}),
        key(label="y"),
    ]
    assert len(set(keys)) == len(keys)
    assert key() == key()


def test_fingerprint_sees_every_split(data):
    changed = data.test.X.copy()
    changed[0, 0] += 1.0
    other = Dataset(data.train, data.validation, type(data.test)(changed, data.test.z, data.test.y))
    assert data_fingerprint(other) != data_fingerprint(data)


def test_fingerprint_sees_every_row():
    """A sweep that goes on must not set results of other rows beside its own."""
    X, z = np.random.default_rng(0).normal(size=(9000, 2)), np.arange(9000) % 2
    before = data_fingerprint(Dataset.from_arrays(X, z, random_state=0))
    for row in range(0, 9000, 450):
        changed = X.copy()
        changed[row] += 1.0
        assert data_fingerprint(Dataset.from_arrays(changed, z, random_state=0)) != before


def test_one_data_set_under_two_names(data, tmp_path):
    two = {"a": data, "b": data}
    frame = sweep(["pca"], two, ranks=[1], seeds=1, metrics=["variance"], path=tmp_path / "r.jsonl")
    assert frame["dataset"].tolist() == ["a", "b"]
    assert frame["key"].is_unique
    assert read_results(tmp_path / "r.jsonl")["dataset"].tolist() == ["a", "b"]


def test_names_of_methods():
    assert list(named_methods([LEACE(), Cascade(PCAProjection())])) == [
        "LEACE",
        "cascade:PCAProjection",
    ]
    assert named_methods("original") == {"original": None}


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"methods": ["leopar"]}, r"Got method 'leopar', .* Did you mean 'leopard'"),
        ({"methods": ["leace", LEACE(), LEACE()]}, "two methods called 'LEACE'"),
        ({"methods": []}, "Got no methods"),
        ({"methods": [3]}, "Got a method of type int"),
        ({"ranks": [9]}, "Got rank=9, but expected an integer from 1 to 5, .* of 'data'"),
        ({"ranks": []}, "Got no ranks for 'data'"),
        ({"seeds": 0}, "Got seeds=0, .*at least 1"),
        ({"seeds": [1, 1]}, r"Got seeds=\[1, 1\], .*different"),
        ({"seeds": "5"}, "Got seeds='5', .*a number of seeds"),
        ({"metrics": ["varianc"]}, r"Got metric 'varianc', .*Did you mean 'variance'"),
        ({"metrics": ["words"]}, "the data 'data' have no lexicon of words"),
        ({"datasets": []}, "Got no data sets"),
        ({"datasets": [small(), small(1)]}, "two of one name"),
        ({"resume": True}, "Got resume=True without a path"),
    ],
)
def test_bad_input(data, change, message):
    given = {"methods": "pca", "datasets": data, "ranks": [2], "seeds": 1, "metrics": ["variance"]}
    with pytest.raises(ValueError, match=message):
        sweep(**{**given, **change})


def test_a_file_of_other_settings_or_rows(data, tmp_path):
    path = tmp_path / "r.jsonl"
    sweep("pca", data, [2], seeds=1, metrics=["variance"], path=path)
    with pytest.raises(ValueError, match="holds 1 results already"):
        sweep("pca", data, [2], seeds=1, metrics=["variance"], path=path)
    with pytest.raises(ValueError, match="results of other settings \\(metrics was"):
        sweep("pca", data, [2], seeds=1, metrics=["linear"], path=path, resume=True)
    with pytest.raises(ValueError, match="results of other rows under the name 'data'"):
        sweep("pca", small(1), [2], seeds=1, metrics=["variance"], path=path, resume=True)
