"""Terminals and pipes whose encoding lacks a letter: the work is done, and JSON is whole."""

import json
import os
import subprocess
import sys

import numpy as np
import pytest

from unspot import Eraser

ENCODINGS = [
    {"PYTHONIOENCODING": "latin-1"},
    {"PYTHONIOENCODING": "cp1252"},
    {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"},
]


@pytest.fixture
def eraser(tmp_path):
    path = tmp_path / "e.safetensors"
    Eraser.projection(np.eye(6)[:, 2:], method="L̄EOPARD 🐆 ±").save(path)
    return path


def run(*arguments, **environment):
    command = [sys.executable, "-m", "unspot", *map(str, arguments)]
    return subprocess.run(command, env={**os.environ, **environment}, capture_output=True)


@pytest.mark.parametrize("environment", ENCODINGS)
def test_a_letter_that_is_lacking_ends_nothing(table, eraser, environment):
    shared = (eraser, table, "-f", "emb", "-c", "gender")
    done = run("evaluate", *shared, "-m", "variance", **environment)
    assert done.returncode == 0, done.stderr
    assert b"EOPARD" in done.stdout
    assert b"Variance kept" in done.stdout


def test_a_certificate_too(table, eraser):
    shared = (eraser, table, "-f", "emb", "-c", "gender", "--set", "attackers=logistic")
    done = run("certify", *shared, "-b", "quick", PYTHONIOENCODING="latin-1")
    assert done.returncode in (0, 3, 4), done.stderr
    assert done.stdout.startswith(b"Certificate: ")


@pytest.mark.parametrize("environment", ENCODINGS)
def test_json_loses_no_letter(eraser, environment):
    done = run("inspect", eraser, "--json", **environment)
    assert json.loads(done.stdout)["method"] == "L̄EOPARD 🐆 ±"
