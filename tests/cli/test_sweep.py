"""``unspot sweep``: a grid from a file, kept through a kill, with tables and a page."""

from __future__ import annotations

import fcntl
import json
import os
import signal
import subprocess
import sys
import time

import numpy as np
import pandas as pd
import pytest

from unspot.bench.summary import display_name
from unspot.sweeps.run import read_results
from unspot.sweeps.sweep_file import read_sweep_file

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
    done = cli("sweep", folder / "sweep.toml", "--html", page, "--csv", csv)
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
    done = cli("sweep", folder / "other.toml", "-o", folder / "r.jsonl", "--html", page)
    assert done.code == 0, done.err
    frame = read_results(folder / "r.jsonl")
    counts = frame.groupby(["dataset", "method"], sort=False)["rank"].apply(list).to_dict()
    assert counts["first", "mine/a"] == [3]
    assert counts["second", "pca"] == [3, 2]
    assert set(frame["seed"]) == {7}
    html = page.read_text(encoding="utf-8")
    assert "first: mine, a" in html
    assert f"second: {display_name('pca')}" in html
    assert "Erasure against utility" in html


def test_a_kill_loses_nothing(cli, folder):
    """kill -9 in the middle, then --resume: the frame of an unbroken run."""
    whole = folder / "whole.jsonl"
    assert cli("sweep", folder / "sweep.toml", "-o", whole, "-q").code == 0
    broken = folder / "broken.jsonl"
    running = subprocess.Popen(
        [sys.executable, "-m", "unspot", "sweep", "sweep.toml", "-o", "broken.jsonl", "-q"],
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
    done = cli("sweep", folder / "sweep.toml", "-o", broken, "--resume")
    assert done.code == 0, done.err
    pd.testing.assert_frame_equal(*map(comparable, (read_results(broken), read_results(whole))))
    assert broken.read_bytes().splitlines()[1:3] == before  # not measured again


def test_failed_cells_are_named_and_retried(cli, folder, monkeypatch):
    from unspot.erasers.baselines import PCAProjection

    good = PCAProjection._fit_eraser

    def broken(self, X, target):
        raise RuntimeError("out of luck")

    monkeypatch.setattr(PCAProjection, "_fit_eraser", broken)
    done = cli("sweep", folder / "sweep.toml")
    assert done.code == 0, done.err
    assert "4 of 10 cells failed, the first (pca) with: RuntimeError: out of luck" in done.out
    monkeypatch.setattr(PCAProjection, "_fit_eraser", good)
    assert "4 of 10" in cli("sweep", folder / "sweep.toml", "--resume").out
    done = cli("sweep", folder / "sweep.toml", "--resume", "--retry")
    assert "cells failed" not in done.out


@pytest.mark.parametrize("options", [("-q",), (), ("-q", "--csv", "cells.csv", "--html", "p.html")])
def test_without_a_single_result_the_exit_code_is_one(cli, folder, monkeypatch, options):
    from unspot.erasers.baselines import PCAProjection

    def broken(self, X, target):
        raise RuntimeError("out of luck")

    monkeypatch.chdir(folder)
    monkeypatch.setattr(PCAProjection, "_fit_eraser", broken)
    (folder / "sweep.toml").write_text(SWEEP.replace('"original", "pca", "random"', '"pca"'))
    done = cli("sweep", "sweep.toml", *options)
    assert done.code == 1
    said = done.err if "-q" in options else done.out
    assert "4 of 4 cells failed, the first (pca) with: RuntimeError: out of luck" in said
    if "-q" in options:
        assert (done.out, done.err.count("\n")) == ("", 1)
        assert all((folder / name).exists() for name in options if "." in name)


def test_who_is_quiet_hears_of_failed_cells(cli, folder, monkeypatch):
    from unspot.erasers.baselines import PCAProjection

    def broken(self, X, target):
        raise RuntimeError("out of luck")

    monkeypatch.setattr(PCAProjection, "_fit_eraser", broken)
    done = cli("sweep", folder / "sweep.toml", "-q")
    assert (done.code, done.out) == (0, "")
    assert "4 of 10 cells failed" in done.err


# -- bad input ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("seeds = 2", "seed = 2", "Got the key 'seed' in .*sweep.toml.*Did you mean seeds"),
        ("concept =", "concpt =", r"Got the key 'concpt' in \[data.small\].*Did you mean concept"),
        ('"pca"', '"pcaa"', "Got method 'pcaa', .*Did you mean pca"),
        ('"linear"', '"linaer"', "Got metric 'linaer', .*Did you mean 'linear'"),
        ("ranks = [3, 1]", "ranks = [9]", "Got rank=9, but expected an integer from 1 to 6"),
        ("ranks = [3, 1]", "ranks = []", "Got no ranks for 'small'"),
        ("seeds = 2", "seeds = 0", "Got seeds=0, but expected at least one"),
        (
            "seeds = 2",
            'seeds = ["a"]',
            r"Got seeds = \['a'\], but expected a number of seeds, or a",
        ),
        ("seeds = 2", "seeds = [[1]]", r"Got seeds = \[\[1\]\], but expected a number of seeds"),
        ("seeds = 2", "seeds = true", "Got seeds = True, but expected a number of seeds"),
        ('["linear", "variance"]', "3", "Got metrics = 3, but expected a list of names, such as"),
        ('["linear", "variance"]', "[3]", r"Got metrics = \[3\], but expected a list of names"),
        ('["linear", "variance"]', "{a = 1}", "Got metrics = {'a': 1}, but expected a list"),
        ("seeds = 2", 'budget = "quik"', "Got budget = 'quik', .*Did you mean quick"),
        ("small.npz", "big.npz", "big.npz', but there is no such file"),
        ('concept = "z"', 'concept = "q"', "'q'"),
        ('concept = "z"', 'concept = "z"\\ntask = "jbo"', "jbo"),
        ("seeds = 2", "seeds = ", "which is not TOML"),
        ("[data.small]", "[nothing.small]", "Got the key 'nothing'"),
        ("methods =", "#", "without methods, but expected methods and data"),
        (
            'methods = ["original", "pca", "random"]',
            'methods = {ours = {method = "pca", rnk = 3}}',
            "Got parameter 'rnk' for method 'pca', .*Did you mean rank",
        ),
        ('methods = ["original", "pca", "random"]', "methods = {a = 3}", "Got 3 for the method"),
        ('methods = ["original", "pca", "random"]', "methods = 3", "Got methods = 3, but"),
    ],
)
def test_files_that_say_something_else(cli, folder, old, new, message):
    import re

    assert old in SWEEP
    (folder / "sweep.toml").write_text(SWEEP.replace(old, new.replace("\\n", "\n")))
    done = cli("sweep", folder / "sweep.toml")
    assert done.code == 2
    assert re.search(message, done.err), done.err
    assert not (folder / "sweep.jsonl").exists()


def test_results_of_other_settings_and_other_rows_are_refused(cli, folder, rows):
    assert cli("sweep", folder / "sweep.toml", "-q").code == 0
    done = cli("sweep", folder / "sweep.toml")
    assert "holds 10 results already" in done.err
    (folder / "sweep.toml").write_text(SWEEP.replace('"linear", ', ""))
    done = cli("sweep", folder / "sweep.toml", "--resume")
    assert "holds results of other settings (metrics was" in done.err
    (folder / "sweep.toml").write_text(SWEEP)
    np.savez(folder / "small.npz", X=rows[0] + 1, z=rows[1])
    done = cli("sweep", folder / "sweep.toml", "--resume")
    assert "holds results of other rows under the name 'small'" in done.err


def test_two_sweeps_on_one_file(cli, folder):
    assert cli("sweep", folder / "sweep.toml", "-q").code == 0
    with (folder / "sweep.jsonl").open("ab") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        done = cli("sweep", folder / "sweep.toml", "--resume")
    assert done.code == 2
    assert "is writing right now" in done.err


def test_small_refusals(cli, folder):
    assert "Got --retry without --resume" in cli("sweep", folder / "sweep.toml", "--retry").err
    assert "there is no such file" in cli("sweep", folder / "none.toml").err
    (folder / "results.json").write_text(json.dumps({"rows": []}))
    done = cli("sweep", folder / "sweep.toml", "-o", folder / "results.json", "--resume")
    assert "does not begin as results of a sweep do" in done.err
    assert json.loads((folder / "results.json").read_text()) == {"rows": []}  # untouched


def test_the_bundled_words_by_name(tmp_path):
    file = tmp_path / "words.toml"
    file.write_text('methods = ["leace"]\nranks = [50]\n[data.words]\npath = "glove"\n')
    data = read_sweep_file(file).datasets()["words"]
    assert data.name == "words"
    assert data.n_features == 100
