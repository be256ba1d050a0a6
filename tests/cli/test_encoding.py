"""Terminals and pipes whose encoding lacks a letter: the work is done, and JSON is whole."""

import io
import json

import numpy as np
import pytest

from unspot import Eraser
from unspot.cli import main


@pytest.fixture
def eraser(tmp_path):
    path = tmp_path / "e.safetensors"
    Eraser.projection(np.eye(6)[:, 2:], method="L̄EOPARD 🐆 ±").save(path)
    return path


@pytest.fixture(params=["latin-1", "cp1252", "ascii"])
def run(request, monkeypatch):
    """Run a line whose stdout has this encoding; gives the exit code and the bytes written."""

    def run(*arguments):
        out = io.BytesIO()
        monkeypatch.setattr("sys.stdout", io.TextIOWrapper(out, encoding=request.param))
        with pytest.raises(SystemExit) as ended:
            main([str(argument) for argument in arguments])
        return ended.value.code or 0, out.getvalue()

    return run


def test_a_letter_that_is_lacking_ends_nothing(table, eraser, run):
    code, out = run("evaluate", eraser, table, "-f", "emb", "-c", "gender", "-m", "variance")
    assert code == 0
    assert b"EOPARD" in out
    assert b"Variance kept" in out


def test_a_certificate_too(table, eraser, run):
    shared = (eraser, table, "-f", "emb", "-c", "gender", "--set", "attackers=logistic")
    code, out = run("certify", *shared, "-b", "quick")
    assert code in (0, 3, 4)
    assert out.startswith(b"Gender: attackers are right on ")


def test_json_loses_no_letter(eraser, run):
    _, out = run("inspect", eraser, "--json")
    assert json.loads(out)["method"] == "L̄EOPARD 🐆 ±"
