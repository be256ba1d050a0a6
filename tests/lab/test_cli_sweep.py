"""``unspot lab sweep``: a grid from a file, kept through a kill, with tables and a page."""

from __future__ import annotations

import fcntl
import json
import os
import re
import signal
import subprocess
import sys
import time

import numpy as np
import pandas as pd
import pytest

from unspot.lab.sweeps.run import read_results
from unspot.lab.sweeps.sweep_file import read_sweep_file
from unspot.lab.sweeps.tables import display_name

SWEEP = """
ranks = [3, 1]
seeds = 2
metrics = ["linear", "variance"]
methods = ["original", "pca", "random"]

[data.small]
path = "small.npz"
concept = "z"
"""


@pytest.fixture
def folder(tmp_path, rows):
    X, z = rows
    np.savez(tmp_path / "small.npz", X=X, z=z, job=np.arange(len(X)) % 3)
    (tmp_path / "sweep.toml").write_text(SWEEP)
    return tmp_path


def comparable(frame):
    order = ["dataset", "method", "rank", "seed"]
    kept = frame.drop(columns=["fit_seconds", "seconds"])
    return kept.sort_values(order).reset_index(drop=True)


def test_table_results_csv_and_page(cli, folder):
    page, csv = folder / "page.html", folder / "cells.csv"
    done = cli("lab", "sweep", folder / "sweep.toml", "--html", page, "--csv", csv)
    assert done.code == 0, done.err
    assert f"| {display_name('pca')} | 3 |" in done.out
    assert "10 cells:" in done.out
    frame = read_results(folder / "sweep.jsonl")  # beside the file, by its name
    assert len(frame) == len(pd.read_csv(csv)) == 2 + 2 * 2 + 2 * 2
    assert (frame["status"] == "ok").all()
    html = page.read_text(encoding="utf-8")
    assert "Erasure against utility" not in html  # nobody attacked
    assert f"{display_name('random')}, rank" in html
    assert 'http-equiv="Content-Security-Policy"' in html


def test_parameters_labels_and_several_data_sets(cli, folder):
    (folder / "other.toml").write_text("""
seeds = [7]
metrics = ["attack", "variance"]
[methods]
untouched = "original"
"mine/a" = {method = "cascade:pca"}
pca = {}
[ranks]
first = [3]
second = [0.5, 2]
[data.first]
path = "small.npz"
concept = "z"
[data.second]
path = "small.npz"
concept = "z"
task = "job"
max_rows = 150
""")
    page = folder / "page.html"
    done = cli("lab", "sweep", folder / "other.toml", "-o", folder / "r.jsonl", "--html", page)
    assert done.code == 0, done.err
    frame = read_results(folder / "r.jsonl")
    counts = frame.groupby(["dataset", "method"], sort=False)["rank"].apply(list).to_dict()
    assert counts["first", "mine/a"] == [3]
    assert counts["second", "pca"] == [3, 2]
    assert set(frame["seed"]) == {7}
    html = page.read_text(encoding="utf-8")
    assert "first: mine/a" in html  # labels are shown as they were given
    assert "second: pca" in html
    assert "Erasure against utility" in html


def test_a_kill_loses_nothing(cli, folder):
    """kill -9 in the middle, then --resume: the frame of an unbroken run."""
    whole = folder / "whole.jsonl"
    assert cli("lab", "sweep", folder / "sweep.toml", "-o", whole, "-q").code == 0
    broken = folder / "broken.jsonl"
    running = subprocess.Popen(
        [sys.executable, "-m", "unspot", "lab", "sweep", "sweep.toml", "-o", "broken.jsonl", "-q"],
        cwd=folder,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
    )
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline and running.poll() is None:
        if broken.exists() and broken.read_bytes().count(b"\n") > 2:
            break
        time.sleep(0.002)
    running.send_signal(signal.SIGKILL)
    running.wait()
    with broken.open("ab") as file:
        file.write(b'{"key": "torn in the mid')
    before = broken.read_bytes().splitlines()[1:3]
    done = cli("lab", "sweep", folder / "sweep.toml", "-o", broken, "--resume")
    assert done.code == 0, done.err
    pd.testing.assert_frame_equal(*map(comparable, (read_results(broken), read_results(whole))))
    assert broken.read_bytes().splitlines()[1:3] == before  # not measured again


def test_failed_cells_are_named_and_retried(cli, folder, monkeypatch):
    from unspot.erasers.baselines import PCAProjection

    good = PCAProjection._fit_eraser

    def broken(self, X, target):
        raise RuntimeError("out of luck")

    monkeypatch.setattr(PCAProjection, "_fit_eraser", broken)
    done = cli("lab", "sweep", folder / "sweep.toml")
    assert done.code == 0, done.err
    assert re.search(r"4 of 10 cells failed.*pca.*RuntimeError: out of luck", done.out)
    monkeypatch.setattr(PCAProjection, "_fit_eraser", good)
    assert "4 of 10" in cli("lab", "sweep", folder / "sweep.toml", "--resume").out
    done = cli("lab", "sweep", folder / "sweep.toml", "--resume", "--retry")
    assert "cells failed" not in done.out


@pytest.mark.parametrize("options", [("-q",), (), ("-q", "--csv", "cells.csv", "--html", "p.html")])
def test_without_a_single_result_the_exit_code_is_one(cli, folder, monkeypatch, options):
    from unspot.erasers.baselines import PCAProjection

    def broken(self, X, target):
        raise RuntimeError("out of luck")

    monkeypatch.chdir(folder)
    monkeypatch.setattr(PCAProjection, "_fit_eraser", broken)
    (folder / "sweep.toml").write_text(SWEEP.replace('"original", "pca", "random"', '"pca"'))
    done = cli("lab", "sweep", "sweep.toml", *options)
    assert done.code == 1
    said = done.err if "-q" in options else done.out
    assert re.search(r"4 of 4 cells failed.*pca.*RuntimeError: out of luck", said)
    if "-q" in options:
        assert (done.out, done.err.count("\n")) == ("", 1)
        assert all((folder / name).exists() for name in options if "." in name)


def test_who_is_quiet_hears_of_failed_cells(cli, folder, monkeypatch):
    from unspot.erasers.baselines import PCAProjection

    def broken(self, X, target):
        raise RuntimeError("out of luck")

    monkeypatch.setattr(PCAProjection, "_fit_eraser", broken)
    done = cli("lab", "sweep", folder / "sweep.toml", "-q")
    assert (done.code, done.out) == (0, "")
    assert "4 of 10 cells failed" in done.err


# -- bad input ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("seeds = 2", "seed = 2", "'seed'.*sweep.toml.*Did you mean '?seeds"),
        ("concept =", "concpt =", r"'concpt'.*data.small.*Did you mean '?concept"),
        ('"pca"', '"pcaa"', "'pcaa'.*Did you mean '?pca"),
        ('"linear"', '"linaer"', "'linaer'.*Did you mean 'linear'"),
        ("ranks = [3, 1]", "ranks = [9]", "rank=9.*from 1 to 6"),
        ("ranks = [3, 1]", "ranks = []", "no ranks.*'small'"),
        ("seeds = 2", "seeds = 0", "seeds ?= ?0.*expected"),
        (
            "seeds = 2",
            'seeds = ["a"]',
            r"\['a'\].*expected.*seed",
        ),
        ("seeds = 2", "seeds = [[1]]", r"\[\[1\]\].*expected.*seed"),
        ("seeds = 2", "seeds = true", "True.*expected.*seed"),
        ('["linear", "variance"]', "3", "metrics = 3.*list of names"),
        ('["linear", "variance"]', "[3]", r"metrics = \[3\].*list of names"),
        ('["linear", "variance"]', "{a = 1}", "metrics = {'a': 1}.*list"),
        ("seeds = 2", 'budget = "quik"', "budget ?= ?'quik'.*Did you mean '?quick"),
        ("small.npz", "big.npz", "big.npz'.*no such file"),
        ('concept = "z"', 'concept = "q"', "'q'"),
        ('concept = "z"', 'concept = "z"\\ntask = "jbo"', "jbo"),
        ("seeds = 2", "seeds = ", "sweep.toml.*TOML"),
        ("seeds = 2", f"seeds = {'[' * 3000}{']' * 3000}", "sweep.toml.*TOML.*nested too deeply"),
        ('concept = "z"', "concept = 3", "data.small.*sweep.toml.*concept is 3.*expected text"),
        ('concept = "z"', 'max_rows = "x"', "sweep.toml.*max_rows is 'x'.*expected an integer"),
        ('concept = "z"', "max_rows = 0", "sweep.toml.*max_rows=0.*at least 1"),
        ('concept = "z"', "max_rows = -4", "sweep.toml.*max_rows=-4.*at least 1"),
        ('concept = "z"', 'random_state = "x"', "sweep.toml.*random_state is 'x'"),
        ('concept = "z"', "random_state = -1", "sweep.toml.*random_state=-1.*at least 0"),
        ("[data.small]", "[nothing.small]", "'nothing'"),
        ("methods =", "#", "without methods.*methods and data"),
        (
            'methods = ["original", "pca", "random"]',
            'methods = {ours = {method = "pca", rnk = 3}}',
            "'rnk'.*'pca'.*Did you mean '?rank",
        ),
        ('methods = ["original", "pca", "random"]', "methods = {a = 3}", "Got 3.*method"),
        ('methods = ["original", "pca", "random"]', "methods = 3", "methods = 3.*expected"),
    ],
)
def test_files_that_say_something_else(cli, folder, old, new, message):
    assert old in SWEEP
    (folder / "sweep.toml").write_text(SWEEP.replace(old, new.replace("\\n", "\n")))
    done = cli("lab", "sweep", folder / "sweep.toml")
    assert done.code == 2
    assert re.search(message, done.err), done.err
    assert not (folder / "sweep.jsonl").exists()


def test_results_of_other_settings_and_other_rows_are_refused(cli, folder, rows):
    assert cli("lab", "sweep", folder / "sweep.toml", "-q").code == 0
    done = cli("lab", "sweep", folder / "sweep.toml")
    assert re.search("sweep.jsonl.*10 results.*resume", done.err)
    (folder / "sweep.toml").write_text(SWEEP.replace('"linear", ', ""))
    done = cli("lab", "sweep", folder / "sweep.toml", "--resume")
    assert re.search("sweep.jsonl.*other settings.*metrics", done.err)
    (folder / "sweep.toml").write_text(SWEEP)
    np.savez(folder / "small.npz", X=rows[0] + 1, z=rows[1])
    done = cli("lab", "sweep", folder / "sweep.toml", "--resume")
    assert re.search("sweep.jsonl.*other rows.*'small'", done.err)


def test_two_sweeps_on_one_file(cli, folder):
    assert cli("lab", "sweep", folder / "sweep.toml", "-q").code == 0
    with (folder / "sweep.jsonl").open("ab") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        done = cli("lab", "sweep", folder / "sweep.toml", "--resume")
    assert done.code == 2
    assert re.search("sweep.jsonl.*another process", done.err)


def test_small_refusals(cli, folder):
    assert (
        "Got --retry without --resume" in cli("lab", "sweep", folder / "sweep.toml", "--retry").err
    )
    assert "there is no such file" in cli("lab", "sweep", folder / "none.toml").err
    (folder / "results.json").write_text(json.dumps({"rows": []}))
    done = cli("lab", "sweep", folder / "sweep.toml", "-o", folder / "results.json", "--resume")
    assert re.search("results.json.*results of a sweep", done.err)
    assert json.loads((folder / "results.json").read_text()) == {"rows": []}  # untouched


def test_the_bundled_words_by_name(tmp_path):
    file = tmp_path / "words.toml"
    file.write_text('methods = ["leace"]\nranks = [50]\n[data.words]\npath = "glove"\n')
    data = read_sweep_file(file).datasets()["words"]
    assert data.name == "words"
    assert data.n_features == 100


OWN = """
import numpy as np
from sklearn.base import BaseEstimator

class Drop(BaseEstimator):
    def __init__(self, rank=2):
        self.rank = rank
    def fit(self, X, y=None):
        return self
    def transform(self, X):
        return X * (np.arange(X.shape[1]) < self.rank)
"""


def test_own_code_tables_for_a_paper_and_a_page(cli, folder, monkeypatch):
    monkeypatch.setattr(sys, "path", [*sys.path])
    (folder / "drop_columns.py").write_text(OWN)
    text = SWEEP.replace('["original", "pca", "random"]', '{mine = "drop_columns:Drop"}')
    (folder / "sweep.toml").write_text(text)
    refused = cli("lab", "sweep", folder / "sweep.toml")
    assert refused.code == 2
    assert "--allow-code" in refused.err
    tables, page = folder / "paper", folder / "page.html"
    outputs = ("--tables", tables, "--html", page)
    done = cli("lab", "sweep", folder / "sweep.toml", "--allow-code", *outputs)
    assert "mine" in page.read_text("utf-8")
    assert done.code == 0, done.err
    latex = (tables / "tables.tex").read_text()
    assert r"\toprule" in latex
    assert "mine" in latex
    table = pd.read_csv(tables / "tables.csv")
    assert table["method"].tolist()[:1] == ["mine"]
    frame = read_results(folder / "sweep.jsonl")
    means = frame.groupby("rank", sort=False)["variance"].mean()
    assert table.query("metric == 'variance'")["mean"].tolist() == pytest.approx(means.tolist())
