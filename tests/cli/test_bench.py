"""``unspot bench``: what is typed reaches the benchmark, and what is wrong is said at once."""

from __future__ import annotations

import re

import numpy as np
import pytest

import unspot.bench
from unspot.sweeps.run import read_results


@pytest.fixture
def file(tmp_path, rows):
    X, z = rows
    path = tmp_path / "small.npz"
    np.savez(path, X=X, z=z, job=np.arange(len(X)) % 2)
    return path


def test_a_file_end_to_end(cli, file, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    page = tmp_path / "page.html"
    options = ("--methods", "original,leace,cascade", "--ranks", "4", "--html", page)
    done = cli("bench", "small.npz", "--quick", "--no-figures", *options)
    assert done.code == 0, done.err
    assert "| LEACE | – |" in done.out
    assert "In brackets" not in done.out  # nothing of the paper is comparable
    out = tmp_path / "unspot-bench-small"
    assert len(read_results(out / "results.jsonl")) == 3
    for name in ("tables.md", "tables.tex", "tables.csv", "cells.csv", "report.html"):
        assert str(out.name) + "/" + name in done.out
    assert page.read_bytes() == (out / "report.html").read_bytes()
    again = cli("bench", "small.npz", "--quick", "--no-figures", "--resume", *options[:4])
    assert again.code == 0, again.err
    assert "holds 3 results already" in cli("bench", "small.npz", "--quick").err


def test_what_is_typed_arrives(cli, tmp_path, monkeypatch):
    seen = {}

    def run(name, **options):
        seen.update(options, name=name)
        raise ValueError("that is all")

    monkeypatch.setattr(unspot.bench, "bench", run)
    options = ["--ranks", "75,0.5", "--seeds", 5, "--studies", "main, kernels", "--max-rows", 99]
    options += ["-j", 2, "--resume", "--retry", "-o", tmp_path, "--data", tmp_path]
    assert "that is all" in cli("bench", "bios", *options).err
    assert seen["name"] == "bios"
    assert seen["source"] == seen["out"] == tmp_path
    assert seen["ranks"] == [75, 0.5]
    assert seen["seeds"] == 5
    assert seen["only"] == ["main", "kernels"]
    assert seen["max_train_rows"] == 99
    assert seen["n_jobs"] == 2
    assert seen["resume"] is seen["retry"] is seen["figures"] is True
    assert seen["effort"] == "standard"
    cli("bench", "glove", "--quick")
    assert seen["effort"] == "quick"
    assert str(seen["out"]) == "unspot-bench-glove"


# -- bad input ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["glov"], r"no benchmark \(glove, bios, dial\) and no file. Did you mean glove"),
        (["bios"], "Got no folder for 'bios'.*unspot bench bios --data FOLDER.*Bias in Bios"),
        (["bios", "--data", "."], "without train.pickle or train.npz.*comes as train.pickle"),
        (["dial", "--data", "nowhere"], "no such folder.*DIAL.*come as pos_pos.npy"),
        (["glove", "--data", "no.txt"], "no such file. Get glove.6B.zip or glove.42B.300d.zip"),
        (["glove", "--ranks", "10,50,20"], "Got ranks 10, 50, 20, but expected them in decreasing"),
        (["glove", "--ranks", "400"], "Got rank=400, but expected an integer from 1 to 100"),
        (["glove", "--ranks", "half"], "Got --ranks half, but expected an integer"),
        (["glove", "--methods", "leopart"], "Got method 'leopart', .*Did you mean leopard"),
        (["glove", "--studies", "mian"], "Got study 'mian', .*Did you mean main"),
        (["glove", "--effort", "fast"], "Got effort='fast', but expected one of quick"),
        (["glove", "--retry"], "Got --retry without --resume"),
        (["small.npz", "--data", "small.npz"], "but expected one of them"),
        (["small.npz", "--task", "jbo"], "Got array 'jbo', .*Did you mean 'job'"),
        (["glove", "-o", "small.npz"], "Got --output small.npz, which is a file"),
    ],
)
def test_refusals(cli, file, monkeypatch, arguments, message):
    monkeypatch.chdir(file.parent)
    done = cli("bench", *arguments)
    assert done.code == 2
    assert re.search(message, done.err), done.err
    assert [path.name for path in file.parent.iterdir()] == ["small.npz"]


def test_what_is_not_installed_is_said_before_anything_runs(cli, monkeypatch):
    from unspot.bench import needs

    monkeypatch.setattr(needs, "find_spec", lambda name: None if name == "matplotlib" else 1)
    done = cli("bench", "glove")
    assert (
        'unspot bench needs matplotlib, which is not installed: pip install "unspot[report]"'
        in (done.err)
    )
