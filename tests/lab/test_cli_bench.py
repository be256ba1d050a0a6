"""``unspot lab bench``: what is typed reaches the benchmark, and what is wrong is said at once."""

from __future__ import annotations

import re

import numpy as np
import pytest

import unspot.lab.bench
from unspot.lab.sweeps.run import read_results


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
    done = cli("lab", "bench", "small.npz", "--quick", "--no-figures", *options)
    assert done.code == 0, done.err
    assert "| LEACE | – |" in done.out
    assert "In brackets" not in done.out  # nothing of the paper is comparable
    out = tmp_path / "unspot-bench-small"
    assert len(read_results(out / "results.jsonl")) == 3
    for name in ("tables.md", "tables.tex", "tables.csv", "cells.csv", "report.html"):
        assert str(out.name) + "/" + name in done.out
    assert page.read_bytes() == (out / "report.html").read_bytes()
    again = cli("lab", "bench", "small.npz", "--quick", "--no-figures", "--resume", *options[:4])
    assert again.code == 0, again.err
    assert re.search("3 results.*resume", cli("lab", "bench", "small.npz", "--quick").err)


def test_what_is_typed_arrives(cli, tmp_path, monkeypatch):
    seen = {}

    def run(name, **options):
        seen.update(options, name=name)
        raise ValueError("that is all")

    monkeypatch.setattr(unspot.lab.bench, "bench", run)
    options = ["--ranks", "75,0.5", "--seeds", 5, "--studies", "main, kernels", "--max-rows", 99]
    options += ["-j", 2, "--resume", "--retry", "-o", tmp_path, "--data", tmp_path]
    assert "that is all" in cli("lab", "bench", "bios", *options).err
    assert seen["name"] == "bios"
    assert seen["source"] == seen["out"] == tmp_path
    assert seen["ranks"] == [75, 0.5]
    assert seen["seeds"] == 5
    assert seen["only"] == ["main", "kernels"]
    assert seen["max_train_rows"] == 99
    assert seen["n_jobs"] == 2
    assert seen["resume"] is seen["retry"] is seen["figures"] is True
    assert seen["effort"] == "standard"
    cli("lab", "bench", "glove", "--quick")
    assert seen["effort"] == "quick"
    assert str(seen["out"]) == "unspot-bench-glove"


# -- bad input ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["glov"], "Got 'glov'.*glove, bios, dial.*Did you mean '?glove"),
        (["bios"], "'bios'.*unspot lab bench bios --data FOLDER.*Bias in Bios"),
        (["bios", "--data", "."], "train.pickle or train.npz.*train.pickle"),
        (["dial", "--data", "nowhere"], "nowhere.*DIAL.*pos_pos.npy"),
        (["glove", "--data", "no.txt"], "no.txt.*glove.6B.zip.*glove.42B.300d.zip"),
        (["glove", "--ranks", "10,50,20"], "10, 50, 20.*decreasing"),
        (["glove", "--ranks", "400"], "rank=400.*from 1 to 100"),
        (["glove", "--ranks", "half"], "--ranks half.*integer"),
        (["glove", "--methods", "leopart"], "'leopart'.*Did you mean '?leopard"),
        (["glove", "--studies", "mian"], "'mian'.*Did you mean '?main"),
        (["glove", "--effort", "fast"], "effort='fast'.*quick"),
        (["glove", "--retry"], "--retry without --resume"),
        (["small.npz", "--data", "small.npz"], "small.npz.*expected one"),
        (["small.npz", "--task", "jbo"], "'jbo'.*Did you mean 'job'"),
        (["glove", "-o", "small.npz"], "--output small.npz.*folder"),
    ],
)
def test_refusals(cli, file, monkeypatch, arguments, message):
    monkeypatch.chdir(file.parent)
    done = cli("lab", "bench", *arguments)
    assert done.code == 2
    assert re.search(message, done.err), done.err
    assert [path.name for path in file.parent.iterdir()] == ["small.npz"]


def test_what_is_not_installed_is_said_before_anything_runs(cli, monkeypatch):
    from unspot import checks

    monkeypatch.setattr(checks, "find_spec", lambda name: None if name == "matplotlib" else 1)
    done = cli("lab", "bench", "glove")
    assert "unspot lab bench needs matplotlib" in done.err
    assert 'pip install "unspot[report]"' in done.err
