"""``unspot erase``: one command from a file to an erased file."""

from __future__ import annotations

import importlib
import json
from functools import partial

import numpy as np
import pytest

from unspot import certify, load

FEW = ("logistic", "quadratic")


@pytest.fixture
def file(tmp_path, monkeypatch):
    """Two classes and a task; fewer candidates than usual."""
    monkeypatch.setattr("unspot.choice.candidates.WIDTHS", ())
    monkeypatch.setattr("unspot.choice.candidates.TASK_RANKS", (4,))
    module = importlib.import_module("unspot.choice.erase")
    for name in ("TWICE", "OFTEN"):
        monkeypatch.setattr(module, name, 0)
    monkeypatch.setattr(module, "ATTACKERS", FEW)
    monkeypatch.setattr(module, "FIRST", FEW[:1])
    monkeypatch.setattr(module, "certify", partial(certify, budget="quick", attackers=FEW))
    rng = np.random.default_rng(0)
    z, y = rng.integers(2, size=(2, 600))
    X = rng.normal(size=(600, 6)).astype(np.float32)
    X[:, 0] += 3 * z
    X[:, 1] += 3 * y
    path = tmp_path / "rows.npz"
    np.savez(path, emb=X, sex=np.array(["f", "m"])[z], job=np.array(["p", "q"])[y])
    return path


def test_one_command_writes_everything(cli, file):
    out = file.parent / "out"
    arguments = ["erase", str(file), "-f", "emb", "-c", "sex", "--task", "job", "-o", str(out)]
    run = cli(*arguments)
    assert run.code == 0, run.err
    assert run.out.startswith("Sex: attackers are right on")
    assert "Kept: job" in run.out
    names = {"eraser.safetensors", "report.html", "certificate.json", "rows.npz"}
    assert {path.name for path in out.iterdir()} == names
    eraser = load(out / "eraser.safetensors")
    assert eraser.metadata["concept_name"] == "sex"
    with np.load(file) as before, np.load(out / "rows.npz") as after:
        np.testing.assert_allclose(after["emb"], eraser(before["emb"]), atol=1e-5)
        assert (after["sex"] == before["sex"]).all()
    assert json.loads((out / "certificate.json").read_text())
    assert cli(*arguments).code == 2  # the files are there


def test_a_bound_that_none_reaches_is_exit_code_3(cli, file):
    out = file.parent / "out"
    run = cli(
        *["erase", str(file), "-f", "emb", "-c", "sex", "-o", str(out)],
        *["--min-utility", "0.9999", "--no-data"],
    )
    assert run.code == 3, run.err
    assert "nearest" in run.out
    assert not (out / "rows.npz").exists()


def test_a_bound_that_is_not_certified_is_an_exit_code(cli, file, monkeypatch):
    """The choice was within the bound on rows that chose; the rows that judge cannot tell."""
    module = importlib.import_module("unspot.choice.erase")
    monkeypatch.setattr(module.Rule, "value", lambda rule, one, errors=0: (1.0, one.utility))
    out = file.parent / "out"
    line = ["erase", str(file), "-f", "emb", "-c", "sex", "-o", str(out), "--no-data"]
    run = cli(*line, "--max-advantage", "0.2")
    assert "INCONCLUSIVE" in run.out
    assert run.code == 4, run.err


def test_an_id_is_no_concept(cli, file):
    with np.load(file) as arrays:
        np.savez(file, **arrays, id=np.arange(600).astype(str))
    run = cli("erase", str(file), "-f", "emb", "-c", "id", "-o", str(file.parent / "out"))
    assert run.code == 2
    assert "looks like an id" in run.err
